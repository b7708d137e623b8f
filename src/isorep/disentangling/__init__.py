"""Images to independent components of an autoencoder's latents: trained, pruned, unmixed, drawn, and compared."""

from .conditioning import decoder_constants
from .entry import disentangle
from .pictures import Pictures, as_pictures
from .result import Component, Disentanglement, Training
from .saving import Disentangler, load
from .sheets import Sheet, contact_sheet
from .traversals import traversal
from .unmixing import Unmixing, active_directions, decoder_response, unmix

__all__ = [
    "Component",
    "Disentanglement",
    "Disentangler",
    "Pictures",
    "Sheet",
    "Training",
    "Unmixing",
    "active_directions",
    "as_pictures",
    "contact_sheet",
    "decoder_constants",
    "decoder_response",
    "disentangle",
    "load",
    "traversal",
    "unmix",
]
