"""How much of each part a scale runs."""

from __future__ import annotations

from dataclasses import dataclass

from .published import GENES


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    screens : int
        Simulated screens of each kind (non-Gaussian and Gaussian factors).
    batches, rows : int
        Batches of a screen, and rows of a batch.
    wells : tuple of (batch, features, dimensions, task)
        What is run on BBBC021: batches are ``week`` or ``plate``; features ``raw`` or ``standardised``; dimensions
        ``tenth`` (of the training wells) or ``all``; the task ``all`` treated wells together or ``each`` mechanism.
    genes : tuple of str
        Genes of RxRx3-core.
    guides : int or None
        Guides of a gene at most.
    fitted_rows : int or None
        Rows of RxRx3-core at most that the transforms are fitted to, and controls at most.
    folds, seeds : int
        Folds of batches, and how often they are drawn anew.
    top : tuple of float
        Shares k of the concentration.
    """

    screens: int
    batches: int
    rows: int
    wells: tuple[tuple[str, str, str, str], ...]
    genes: tuple[str, ...]
    guides: int | None
    fitted_rows: int | None
    folds: int = 5
    seeds: int = 1
    top: tuple[float, ...] = (0.25,)


_WELLS = tuple(
    (batch, features, dimensions, task)
    for batch in ("week", "plate")
    for features in ("standardised", "raw")
    for dimensions in ("tenth", "all")
    for task in ("all", "each")
)

SCALES = {
    "smoke": Preset(
        screens=1,
        batches=6,
        rows=60,
        wells=(("week", "standardised", "tenth", "all"),),
        genes=GENES[-1:],
        guides=1,
        fitted_rows=2000,
        folds=3,
    ),
    "laptop": Preset(
        screens=8,
        batches=20,
        rows=200,
        wells=tuple(case for case in _WELLS if case[3] == "all" or case[:3] == ("week", "standardised", "tenth")),
        genes=GENES,
        guides=1,
        fitted_rows=40_000,
    ),
    "paper": Preset(
        screens=20,
        batches=40,
        rows=500,
        wells=_WELLS,
        genes=GENES,
        guides=None,
        fitted_rows=None,
        seeds=5,
        top=(0.1, 0.25, 0.5),
    ),
}
