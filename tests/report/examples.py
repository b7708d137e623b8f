"""Results to draw: a small real one, and one of a thousand dimensions made by hand."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import numpy as np

import isorep
from isorep.comparison.figures import Figures, Matching, Plane, Reproducibility, ResidualCounts

from ..data import noisy_pair

RUNGS = ("identity", "signed_permutation", "rigid", "linear", "ica")
LEVELS = (0.3, 0.2, 0.07, 0.06, 0.12)


@cache
def small_result() -> isorep.Comparison:
    """A comparison of two runs of 300 rows and 6 dimensions."""
    x, y = noisy_pair(300, 6, 0.1)
    ids = [f"cell {row}" for row in range(300)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        compared = isorep.compare(
            isorep.Representation(x, ids=ids, name="source.npy"),
            isorep.Representation(y, ids=ids, name="target.npy"),
            n_null=5,
            n_boot=100,
        )
    caveats = (
        "rows are paired by position: only one side has row ids, so nothing confirms it",
        "outliers set the diameter of target.npy: it is 9 times the RMS radius, which makes errors in diameters look "
        "small",
    )
    return replace(compared, caveats=caveats)


def wide_result(d: int = 1000) -> isorep.Comparison:
    """The largest result that isorep writes: 400 rows in the scatter, 48 x 48 matched dimensions, d dimensions."""
    rng = np.random.default_rng(1)
    small = small_result()
    spectra = (-np.sort(-np.geomspace(3.0, 1e-4, d) * rng.uniform(0.9, 1.1, d)) for _ in range(2))
    source, target = (
        replace(side, columns=d, rank=d - 3, spectrum=tuple(spectrum.tolist()))
        for side, spectrum in zip((small.source, small.target), spectra, strict=True)
    )
    return replace(small, source=source, target=target, figures=figures(d, 400, rng))


def figures(d: int, n: int, rng: np.random.Generator) -> Figures:
    """The data that figures are drawn from."""
    angle = rng.uniform(0, 2 * np.pi, n)
    target = np.stack([0.35 * np.cos(angle), 0.2 * np.sin(angle)], 1) + 0.05 * rng.normal(size=(n, 2))
    turn = np.array([[0.5, -0.86], [0.86, 0.5]])
    shown = min(d, 48)
    correlations = np.clip(0.15 * rng.normal(size=(shown, shown)), -1, 1)
    np.fill_diagonal(correlations, rng.choice([-1, 1], shown) * np.linspace(0.99, 0.4, shown))
    r2 = {
        rung: np.clip(level - np.linspace(0, 0.9, d) ** 3 + 0.05 * rng.normal(size=d), -2, 0.999)
        for rung, level in zip(RUNGS[1:], (0.3, 0.85, 0.95, 0.75), strict=True)
    }
    after = {rung: target + 0.1 * level * rng.normal(size=(n, 2)) for rung, level in zip(RUNGS, LEVELS, strict=True)}
    edges = np.linspace(0, 0.5, 41)
    counts = {
        rung: np.histogram(rng.gamma(9, level / 9, 3000), edges)[0] for rung, level in zip(RUNGS, LEVELS, strict=True)
    }
    return Figures(
        scatter=Plane(
            rung="rigid",
            explained=np.array([0.41, 0.22]),
            rows=tuple(f"cell {i}" for i in range(n)),
            target=target,
            before=target @ turn + 0.02,
            after=after["rigid"],
            by_rung=after,
            errors={rung: rng.gamma(9, level / 9, n) for rung, level in zip(RUNGS, LEVELS, strict=True)},
        ),
        matching=Matching(rng.permutation(d)[:shown], np.arange(shown), correlations, shown, d),
        dimensions=Reproducibility(rng.permutation(d), r2),
        residuals=ResidualCounts(edges, counts, dict.fromkeys(RUNGS, 0.3) | {"identity": 0.41}),
    )
