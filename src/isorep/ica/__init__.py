"""Whitening and independent component analysis as scikit-learn transformers, and which components come back."""

from __future__ import annotations

from .curvature import Plane
from .estimator import ICA, GaussianityWarning
from .stability import Stability, stability
from .summary import summarise
from .whitening import Whitening

__all__ = ["ICA", "GaussianityWarning", "Plane", "Stability", "Whitening", "stability", "summarise"]
