"""Results to draw: a small real one, and one of a thousand dimensions made by hand."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

import numpy as np

import isorep

from ..data import noisy_pair

RUNGS = ("identity", "signed_permutation", "rigid", "linear", "ica")


def small_result() -> dict[str, Any]:
    """A comparison of two runs of 300 rows and 6 dimensions, as parsed from its JSON."""
    return json.loads(_small_json())


def wide_result(d: int = 1000) -> dict[str, Any]:
    """The largest result that isorep writes: 400 rows in the scatter, 48 x 48 matched dimensions, d dimensions."""
    rng = np.random.default_rng(1)
    result = small_result()
    for side in ("source", "target"):
        spectrum = np.geomspace(3.0, 1e-4, d) * rng.uniform(0.9, 1.1, d)
        result[side] |= {"columns": d, "rank": d - 3, "spectrum": _listed(-np.sort(-spectrum))}
    result["figures"] = figures(d, 400, rng)
    return result


def figures(d: int, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """The blocks that figures are drawn from."""
    angle = rng.uniform(0, 2 * np.pi, n)
    target = np.stack([0.35 * np.cos(angle), 0.2 * np.sin(angle)], 1) + 0.05 * rng.normal(size=(n, 2))
    turn = np.array([[0.5, -0.86], [0.86, 0.5]])
    shown = min(d, 48)
    correlations = np.clip(0.15 * rng.normal(size=(shown, shown)), -1, 1)
    np.fill_diagonal(correlations, rng.choice([-1, 1], shown) * np.linspace(0.99, 0.4, shown))
    return {
        "scatter": {
            "rung": "rigid",
            "explained": [0.41, 0.22],
            "rows": [f"cell {i}" for i in range(n)],
            "target": _listed(target),
            "before": _listed(target @ turn + 0.02),
            "after": _listed(target + 0.02 * rng.normal(size=(n, 2))),
        },
        "matching": {
            "source_dims": [int(i) for i in rng.permutation(d)[:shown]],
            "target_dims": list(range(shown)),
            "correlations": _listed(correlations),
            "shown": shown,
            "of": d,
        },
        "dimensions": {
            "order": [int(i) for i in rng.permutation(d)],
            "r2": {
                rung: _listed(np.clip(level - np.linspace(0, 0.9, d) ** 3 + 0.05 * rng.normal(size=d), -2, 0.999))
                for rung, level in zip(RUNGS[1:], (0.3, 0.85, 0.95, 0.75), strict=True)
            },
        },
        "residuals": {
            "edges": _listed(np.linspace(0, 0.5, 41)),
            "counts": {
                rung: [int(count) for count in np.histogram(rng.gamma(9, level / 9, 3000), np.linspace(0, 0.5, 41))[0]]
                for rung, level in zip(RUNGS, (0.3, 0.2, 0.07, 0.06, 0.12), strict=True)
            },
            "null_mean": dict.fromkeys(RUNGS, 0.3) | {"identity": 0.41},
        },
    }


@cache
def _small_json() -> str:
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
    result = json.loads(compared.to_json())
    result["caveats"] = [
        "rows are paired by position: only one side has row ids, so nothing confirms it",
        "outliers set the diameter of target.npy: it is 9 times the RMS radius, which makes errors in diameters look "
        "small",
    ]
    return json.dumps(result)


def _listed(values: np.ndarray) -> list[Any]:
    return np.round(values, 6).tolist()
