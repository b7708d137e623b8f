"""Loaders of public data sets in their published files, and simulated data with known factors.

No data are shipped: loaders take a folder, and say which file is missing and where it comes from.
"""

from .batches import Simulation, simulate_batches
from .bbbc021 import Wells, load_bbbc021
from .folder import data_folder
from .rxrx3 import Embeddings, load_rxrx3

__all__ = ["Embeddings", "Simulation", "Wells", "data_folder", "load_bbbc021", "load_rxrx3", "simulate_batches"]
