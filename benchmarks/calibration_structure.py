"""Are p-values and intervals of scores against factors, and intervals of heads, what they claim to be?

    python benchmarks/calibration_structure.py                  # a small run, some minutes on one core
    python benchmarks/calibration_structure.py --replicates 400 # closer
    python benchmarks/calibration_structure.py chance --only dci

``chance``: latents and factors are independent, and the share of p-values at or below 0.05 should be 0.05. It is drawn
with 19 shuffles, because the level of the test does not depend on their number.
``intervals``: latents are noisy factors, and the share of 95 % intervals that hold the mean score of all replicates
should be 0.95. ``heads``: the same for the closeness of two models and for the map between them.

The range beside each share is where 99.9 % of all shares lie that are right. Results go to
benchmarks/results/calibration_structure.json too.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Table, keep, machine
from scipy.stats import binom

from isorep.heads import closeness, head_map
from isorep.structure.columns import paired
from isorep.structure.families import FAMILIES, Task, chances, intervals

RESULTS = Path(__file__).parent / "results" / "calibration_structure.json"
CERTAIN = 0.999
Groups = np.ndarray | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="chance, intervals, heads; all by default")
    parser.add_argument("--replicates", type=int, default=40)
    parser.add_argument("--only", default=None, help="families of scores, after commas")
    parser.add_argument("--kinds", default=None, help="kinds of data, after commas")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    families = chosen.only.split(",") if chosen.only else list(FAMILIES)
    table = Table({"kind": 24, "score": 24, "P(p <= .05)": 12, "coverage": 9, "right": 16})
    found = []
    for part in chosen.parts or PARTS:
        for kind in chosen.kinds.split(",") if chosen.kinds else _PARTS[part][1]:
            new = cells(chosen.replicates, chosen.seed, parts=[part], families=families, kinds=[kind])
            _show(table, new)
            found += new
    keep(RESULTS, machine() | {"replicates": chosen.replicates, "cells": found})


def _show(table: Table, found: Sequence[dict[str, Any]]) -> None:
    for cell in found:
        shares = ["" if cell[key] is None else f"{cell[key]:.3f}" for key in ("share_p_below_05", "coverage")]
        table.add(cell["kind"], cell["score"], *shares, f"{cell['low']:.3f} to {cell['high']:.3f}")
    sys.stdout.flush()


PARTS = ("chance", "intervals", "heads")


def cells(
    replicates: int,
    seed: int,
    *,
    parts: Sequence[str] = PARTS,
    families: Sequence[str] = tuple(FAMILIES),
    kinds: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """One record per kind of data and score: the share that was measured, and the range of shares that are right."""
    found = []
    for part in parts:
        measure, known = _PARTS[part]
        for kind in known if kinds is None else [kind for kind in kinds if kind in known]:
            found += measure(kind, replicates, np.random.default_rng([seed, sum(map(ord, kind))]), families)
    return found


# Chance


def _grouped(sizes: Callable[[np.random.Generator], np.ndarray], walk: bool) -> Callable[..., Any]:
    def world(rng: np.random.Generator) -> tuple[Any, Any, Groups]:
        groups = np.repeat(np.arange(20), sizes(rng))
        s, z = (_dependent(groups, width, walk, rng) for width in (3, 4))
        return z, _factors(s), groups

    return world


def _dependent(groups: np.ndarray, width: int, walk: bool, rng: np.random.Generator) -> np.ndarray:
    """Rows of a group share a value, or walk."""
    steps = rng.normal(size=(len(groups), width))
    if not walk:
        return rng.normal(size=(groups.max() + 1, width))[groups] + 0.5 * steps
    total = np.cumsum(steps, axis=0)
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    return total - (total - steps)[first][groups]


def _factors(s: np.ndarray) -> dict[str, np.ndarray]:
    """A label, a binary one and a number."""
    return {"label": np.digitize(s[:, 0], [-0.7, 0.7]), "sign": s[:, 1] > 0, "number": s[:, 2]}


def _independent_rows(rng: np.random.Generator) -> tuple[Any, Any, Groups]:
    return rng.normal(size=(200, 4)), _factors(rng.normal(size=(200, 3))), None


UNRELATED: dict[str, Callable[..., Any]] = {
    "rows": _independent_rows,
    "groups of 10": _grouped(lambda rng: np.full(20, 10), walk=False),
    "groups of 5-16": _grouped(lambda rng: rng.integers(5, 17, 20), walk=False),
    "groups of 1-80": _grouped(lambda rng: rng.integers(1, 81, 20), walk=False),
    "walks of 10": _grouped(lambda rng: np.full(20, 10), walk=True),
    "walks of 5-16": _grouped(lambda rng: rng.integers(5, 17, 20), walk=True),
}


def _chance(kind: str, replicates: int, rng: np.random.Generator, families: Sequence[str]) -> list[dict[str, Any]]:
    found: dict[str, list[float]] = {}
    for _ in range(replicates):
        latents, factors, groups = UNRELATED[kind](rng)
        task = _task(latents, factors, groups, rng)
        for name in families:
            for score, null in chances(task, [name], 19, rng, _nothing).nulls.items():
                found.setdefault(score, []).append(null.p_value)
    return [
        _cell(kind, score, float(np.mean(np.array(p) <= 0.05)), None, 0.05, replicates) for score, p in found.items()
    ]


def _task(latents: Any, factors: Any, groups: Groups, rng: np.random.Generator) -> Task:
    pair = paired(factors, latents, discrete_latents=False)
    return Task(pair, groups, int(rng.integers(2**31)), "range/20", 10, "binned", ([1, 1, 1], [1, 1, 2]))


def _nothing() -> None:
    pass


# Intervals of scores


def _noisy(n: int, groups: int | None) -> Callable[..., Any]:
    def world(rng: np.random.Generator) -> tuple[Any, Any, Groups]:
        if groups is None:
            s, codes = rng.normal(size=(n, 3)), None
        else:
            codes = np.repeat(np.arange(groups), n // groups)
            s = _dependent(codes, 3, False, rng)
        z = np.column_stack([s, s[:, 0] + s[:, 1]]) + 0.5 * rng.normal(size=(n, 4))
        return z, _factors(s), codes

    return world


RELATED: dict[str, Callable[..., Any]] = {
    "200 rows": _noisy(200, None),
    "1000 rows": _noisy(1000, None),
    "20 groups of 20": _noisy(400, 20),
    "50 groups of 20": _noisy(1000, 50),
}


def _intervals(kind: str, replicates: int, rng: np.random.Generator, families: Sequence[str]) -> list[dict[str, Any]]:
    values: dict[str, list[float]] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    for _ in range(replicates):
        latents, factors, groups = RELATED[kind](rng)
        task = _task(latents, factors, groups, rng)
        measured = {name: FAMILIES[name].measure(task, False) for name in families}
        drawn = intervals(task, measured, 10, rng, _nothing)
        for each in measured.values():
            for score, value in each.values.items():
                values.setdefault(score, []).append(value)
                spans.setdefault(score, []).append((drawn[score].low, drawn[score].high))
    return _covered(kind, values, spans, replicates)


def _covered(
    kind: str, values: dict[str, list[float]], spans: dict[str, list[tuple[float, float]]], replicates: int
) -> list[dict[str, Any]]:
    found = []
    for score, drawn in values.items():
        low, high = np.array(spans[score]).T
        held = (low <= np.mean(drawn)) & (np.mean(drawn) <= high)
        outside = int(((low > drawn) | (high < drawn)).sum())
        found.append(_cell(kind, score, None, float(held.mean()), 0.95, replicates) | {"outside": outside})
    return found


# Intervals of heads


def _models(n: int, groups: int | None) -> Callable[..., Any]:
    rng = np.random.default_rng(0)
    head, mix = rng.normal(size=(6, 5)), rng.normal(size=(5, 5)) / 2 + np.eye(5)
    other_head = head @ np.linalg.inv(mix).T + 0.1 * rng.normal(size=(6, 5))

    def world(rng: np.random.Generator) -> tuple[Any, ...]:
        codes = None if groups is None else np.repeat(np.arange(groups), n // groups)
        f = rng.normal(size=(n, 5)) if codes is None else _dependent(codes, 5, False, rng)
        return f, f @ mix + rng.normal(size=(n, 5)), head, other_head, codes

    return world


MODELS: dict[str, Callable[..., Any]] = {
    "200 rows": _models(200, None),
    "1000 rows": _models(1000, None),
    "20 groups of 20": _models(400, 20),
    "50 groups of 20": _models(1000, 50),
}


def _heads(kind: str, replicates: int, rng: np.random.Generator, families: Sequence[str]) -> list[dict[str, Any]]:
    values: dict[str, list[float]] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    for _ in range(replicates):
        f, g, head, other, groups = MODELS[kind](rng)
        seed = int(rng.integers(2**31))
        for score, (value, span) in _head_figures(f, g, head, other, groups, seed).items():
            values.setdefault(score, []).append(value)
            spans.setdefault(score, []).append((span.low, span.high))
    return _covered(kind, values, spans, replicates)


def _head_figures(f: Any, g: Any, head: Any, other: Any, groups: Groups, seed: int) -> dict[str, Any]:
    near = closeness(f, g, head, other, groups=groups, random_state=seed)
    mapped = head_map(head, other, features=f, other_features=g, groups=groups, random_state=seed).regression
    assert near.representations is not None
    assert mapped is not None
    return {
        "kl": (near.kl.mean, near.kl.interval),
        "total variation": (near.total_variation.mean, near.total_variation.interval),
        "agreement": (near.agreement.mean, near.agreement.interval),
        "log-odds": (near.log_odds.value, near.log_odds.interval),
        "log-odds, standardised": (near.log_odds.standardised, near.log_odds.standardised_interval),
        "linear R²": (near.representations.linear_r2, near.representations.linear_r2_interval),
        "CCA": (near.representations.cca, near.representations.cca_interval),
        "SVD distance": (near.representations.svd_distance, near.representations.svd_distance_interval),
        "head map": (mapped.head.error.mean * mapped.diameter, mapped.head.interval.times(mapped.diameter)),
        "regression": (
            mapped.regression.error.mean * mapped.diameter,
            mapped.regression.interval.times(mapped.diameter),
        ),
        "excess": (
            (mapped.head.error.mean - mapped.regression.error.mean) * mapped.diameter,
            mapped.excess.times(mapped.diameter),
        ),
    }


def _cell(
    kind: str, score: str, share: float | None, coverage: float | None, right: float, replicates: int
) -> dict[str, Any]:
    low, high = (float(each) / replicates for each in binom.interval(CERTAIN, replicates, right))
    return {
        "kind": kind,
        "score": score,
        "share_p_below_05": share,
        "coverage": coverage,
        "low": low,
        "high": high,
        "replicates": replicates,
    }


_PARTS: dict[str, Any] = {
    "chance": (_chance, UNRELATED),
    "intervals": (_intervals, RELATED),
    "heads": (_heads, MODELS),
}


if __name__ == "__main__":
    main()
