"""Pairs with a known answer: kinds of data by true rung by seed, for the verdict's rule.

Every kind is a way in which real representations mislead a rule: heavy tails, scales that differ from row to row,
clusters, outliers, dimensions that dominate, repeated rows, rows in groups, few rows per dimension, large means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LADDER = ("identity", "signed_permutation", "rigid", "linear")
TRUTHS = (*LADDER, None)


@dataclass(frozen=True)
class Case:
    """Two sides, what to tell ``compare`` about them, and the smallest rung that truly relates them."""

    kind: str
    truth: str | None
    seed: int
    source: Array
    target: Array
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.truth or 'independent'}, seed {self.seed}"


def is_false(answer: str | None, truth: str | None) -> bool:
    """Whether an answer claims what is not so: agreement where there is none, or up to less than it takes."""
    if answer is None:
        return False
    if truth is None:
        return True
    return answer in LADDER and LADDER.index(answer) < LADDER.index(truth)


def cases(seeds: range = range(3), kinds: tuple[str, ...] | None = None) -> Iterator[Case]:
    """Every kind with every true rung."""
    for kind in kinds or tuple(KINDS):
        for truth in TRUTHS:
            for seed in seeds:
                yield case(kind, truth, seed)


def case(kind: str, truth: str | None, seed: int) -> Case:
    rng = np.random.default_rng([seed, TRUTHS.index(truth), list(KINDS).index(kind)])
    source, settings, noise = KINDS[kind](rng)
    if truth is None:
        other, _, _ = KINDS[kind](rng)
        if kind == "repeated rows":  # the same tokens, in two tables that have nothing in common
            other = rng.normal(size=(TYPES, 8))[_tokens(source)]
        return Case(kind, truth, seed, source, other, settings)
    mean = source.mean(axis=0)
    target = _mapped(source - mean, truth, rng) + (mean if truth == "identity" else 0.0)
    spread = np.sqrt(target.var(axis=0).mean())
    errors = rng.normal(size=target.shape)
    if kind == "repeated rows":
        errors = errors[: int(_tokens(source).max()) + 1][_tokens(source)]  # equal rows stay equal
    return Case(kind, truth, seed, source, (target + noise * spread * errors).astype(source.dtype), settings)


def _mapped(rows: Array, truth: str, rng: np.random.Generator) -> Array:
    d = rows.shape[1]
    if truth == "identity":
        return rows
    if truth == "signed_permutation":
        return 2.0 * rows[:, rng.permutation(d)] * rng.choice([-1.0, 1.0], d)
    turned = rows @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    if truth == "rigid":
        return 0.5 * turned
    # stretched along axes across those of the source, so that no rotation can follow
    stretched = turned / np.maximum(turned.std(axis=0), 1e-12) * np.geomspace(0.2, 3.0, d)
    return stretched @ np.linalg.qr(rng.normal(size=(d, d)))[0]


Made = tuple[Array, dict[str, Any], float]
TYPES = 150


def _tokens(rows: Array) -> Array:
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1])


def _laplace(rng: np.random.Generator) -> Made:
    return rng.laplace(size=(600, 8)), {}, 0.15


def _spectrum(rng: np.random.Generator) -> Made:
    axes = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    return rng.normal(size=(1000, 20)) * (np.arange(20) + 1.0) ** -0.7 @ axes, {}, 0.1


def _heavy_tails(rng: np.random.Generator) -> Made:
    return rng.standard_t(3, size=(1500, 8)), {}, 0.15


def _row_scales(rng: np.random.Generator) -> Made:
    return rng.normal(size=(1500, 10)) * rng.lognormal(0, 0.8, size=(1500, 1)), {}, 0.1


def _clusters(rng: np.random.Generator) -> Made:
    return 3 * rng.normal(size=(10, 8))[rng.integers(0, 10, 1000)] + rng.normal(size=(1000, 8)), {}, 0.1


def _one_row_far_out(rng: np.random.Generator) -> Made:
    rows = rng.normal(size=(2000, 8))
    rows[7] *= 6 * np.sqrt(8) / np.linalg.norm(rows[7])
    return rows, {}, 0.15


def _dominating_dimension(rng: np.random.Generator) -> Made:
    rows = rng.normal(size=(800, 8))
    rows[:, 3] *= 3
    return rows, {}, 0.05


def _few_rows(rng: np.random.Generator) -> Made:
    return rng.normal(size=(160, 50)), {}, 0.1


def _groups(rng: np.random.Generator) -> Made:
    groups = np.repeat(np.arange(60), np.random.default_rng(0).integers(4, 20, 60))
    rows = rng.normal(size=(60, 6))[groups] + rng.normal(size=(len(groups), 6))
    return rows, {"groups": groups}, 0.15


def _repeated(rng: np.random.Generator) -> Made:
    tokens = np.concatenate([np.arange(TYPES), rng.integers(0, TYPES, 1500)])
    return rng.normal(size=(TYPES, 8))[tokens], {}, 0.1


def _large_mean(rng: np.random.Generator) -> Made:
    return rng.laplace(size=(800, 8)) + 50.0, {}, 0.15


def _coarse(rng: np.random.Generator) -> Made:
    return (1e-3 * rng.laplace(size=(800, 12))).astype(np.float16).astype(np.float32), {}, 0.1


def _noisy(rng: np.random.Generator) -> Made:
    return rng.normal(size=(5000, 6)), {}, 0.8


def _classes(rng: np.random.Generator) -> Made:
    labels = rng.integers(0, 5, 1200)
    return 4 * np.eye(6)[labels] + rng.normal(size=(1200, 6)), {}, 0.1


KINDS: dict[str, Callable[[np.random.Generator], Made]] = {
    "laplace": _laplace,
    "power-law spectrum": _spectrum,
    "heavy tails": _heavy_tails,
    "lognormal row scales": _row_scales,
    "clusters": _clusters,
    "one row far out": _one_row_far_out,
    "one dimension dominates": _dominating_dimension,
    "few rows per dimension": _few_rows,
    "groups": _groups,
    "repeated rows": _repeated,
    "large mean": _large_mean,
    "coarse values": _coarse,
    "much noise": _noisy,
    "classes": _classes,
}
