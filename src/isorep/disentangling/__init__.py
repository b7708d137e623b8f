"""Disentangling: independent components of an autoencoder's latents, from images."""

from __future__ import annotations

from .disentangle import disentangle
from .images import Pictures, as_pictures
from .result import Component, Disentanglement, Disentangler, Training, load
from .traversals import Sheet, contact_sheet, traversal
from .unmixing import Unmixing, active_directions, decoder_constants, decoder_response, unmix

__all__ = ["disentangle"]
__all__ += ["Pictures", "as_pictures"]
__all__ += ["Component", "Disentanglement", "Disentangler", "Training", "load"]
__all__ += ["Sheet", "contact_sheet", "traversal"]
__all__ += ["Unmixing", "active_directions", "decoder_constants", "decoder_response", "unmix"]
