"""Feature extraction: the rows of any layers of a model on any data, streamed to files that can be compared.

``entry`` holds :func:`extract`; ``sources`` and ``folders`` open models; ``data``, ``arrays`` and ``texts`` open what
goes into them, ``examples`` brings the two together; ``windows`` cuts documents, ``passes`` runs a batch, ``masking``
and ``trials`` see to it that a row is what its example gives alone; ``pooling`` makes rows of outputs, ``running`` is
the loop; ``journal`` is what survives a kill, and ``finishing`` writes the files.
"""

from __future__ import annotations

from .extract import extract, list_layers
from .passes import Captured, LayerShape, capture
from .result import ExtractedData, ExtractedLayer, Extraction

__all__ = [
    "Captured",
    "ExtractedData",
    "ExtractedLayer",
    "Extraction",
    "LayerShape",
    "capture",
    "extract",
    "list_layers",
]
