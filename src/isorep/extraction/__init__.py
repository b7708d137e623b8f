"""Feature extraction: rows of any layers of a model on any data, streamed to files that can be compared."""

from __future__ import annotations

from .extract import extract, list_layers
from .passes import Captured, LayerShape, capture
from .result import ExtractedData, ExtractedLayer, Extraction

__all__ = ["extract", "list_layers"]
__all__ += ["Captured", "LayerShape", "capture"]
__all__ += ["ExtractedData", "ExtractedLayer", "Extraction"]
