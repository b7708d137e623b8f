"""Whitening and independent component analysis as scikit-learn transformers."""

from .estimator import ICA, GaussianityWarning
from .whitening import Whitening

__all__ = ["ICA", "GaussianityWarning", "Whitening"]
