"""Loaders of public data sets in their published files, and simulated data with known factors.

No data are shipped: loaders take a folder, and errors name missing files and their sources. Rendered scenes need
no files.
"""

from __future__ import annotations

from .batches import Simulation, simulate_batches
from .catalogue import load, names
from .digits_and_photos import Digits, load_mnist
from .download import Downloaded, download
from .folder import data_folder
from .images import FactorImages, Sample
from .rooms import Rooms
from .scenes import RenderedImages
from .screens import Embeddings, Wells, load_bbbc021, load_rxrx3
from .slots import SlotGenerator, SlotTruth, slot_generator
from .sprites import Sprites, Squares, render_squares, square_metric
from .text import Document, standard_library_text, text_digest, text_documents

__all__ = [
    "Digits",
    "Document",
    "Downloaded",
    "Embeddings",
    "FactorImages",
    "RenderedImages",
    "Rooms",
    "Sample",
    "Simulation",
    "SlotGenerator",
    "SlotTruth",
    "Sprites",
    "Squares",
    "Wells",
    "data_folder",
    "download",
    "load",
    "load_bbbc021",
    "load_mnist",
    "load_rxrx3",
    "names",
    "render_squares",
    "simulate_batches",
    "slot_generator",
    "square_metric",
    "standard_library_text",
    "text_digest",
    "text_documents",
]
