"""Overcomplete dictionaries, such as those of sparse autoencoders: do their atoms recur over seeds and widths?"""

from __future__ import annotations

from .chance import random_dictionary, rotated_dictionary
from .frequency import Bin, Curve
from .matching import BestMatches, OneToOne, best_matches, one_to_one
from .recurrence import recurrence
from .result import Agreement, Level, PairRecurrence, Recurrence, Side, SideBySide
from .splitting import Absorbed, Absorption, Split, Splitting

__all__ = [
    "Absorbed",
    "Absorption",
    "Agreement",
    "BestMatches",
    "Bin",
    "Curve",
    "Level",
    "OneToOne",
    "PairRecurrence",
    "Recurrence",
    "Side",
    "SideBySide",
    "Split",
    "Splitting",
    "best_matches",
    "one_to_one",
    "random_dictionary",
    "recurrence",
    "rotated_dictionary",
]
