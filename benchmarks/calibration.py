"""What the numbers promise, measured: coverage of intervals, p-values of chance, verdicts that are right.

    python benchmarks/calibration.py [--replicates 400] [--part coverage null verdicts ica similarity structure]

Every line is a promise of docs/guide/promises.md with its measured figure. A cell fails if the 99 % binomial interval
of its share lies outside the promised range. Two thousand replicates take hours on two cores; the page says how many
its figures are from.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the named cases are among the tests

from tests.comparison.verdict_cases import LADDER, cases, is_false

import isorep
from isorep.comparison import ica_efficiency

Array = np.ndarray[Any, Any]
QUICK: dict[str, Any] = {"worst_case": False, "diameter": "bound"}
FITTED = ("signed_permutation", "rigid", "linear")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--part", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for part in asked.part:
        start = time.process_time()
        print(f"\n## {part}, {asked.replicates} replicates, seed {asked.seed}")
        for line in PARTS[part](asked.replicates, asked.seed):
            print(line, flush=True)
        print(f"({time.process_time() - start:.0f} s of processor time)")


def judged(share: float, replicates: int, low: float, high: float) -> str:
    """The share with its 99 % interval, and whether it keeps the promise."""
    ends = stats.binomtest(round(share * replicates), replicates).proportion_ci(0.99)
    kept = ends.high >= low and ends.low <= high
    return f"{share:.3f} [{ends.low:.3f}, {ends.high:.3f}] {'' if kept else 'FAILS'}"


# Coverage: 95 % intervals hold the expected error in 93 to 97 of 100 samples, from 200 rows or 20 groups on


def pairs(kind: str, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
    """One sample of a kind of data, related up to a rotation with noise."""
    groups = None
    if kind.startswith("groups"):
        count = int(kind.split()[1])
        sizes = np.full(count, 10) if "equal" in kind else np.random.default_rng(1).integers(4, 17, count)
        groups = np.repeat(np.arange(count), sizes)
        x = rng.normal(size=(count, 5))[groups] + rng.normal(size=(len(groups), 5))
        noise = 0.4 * rng.normal(size=(count, 5))[groups] + 0.4 * rng.normal(size=x.shape)
    else:
        n, d = SHAPES[kind]
        x = rng.normal(size=(n, d))
        if "heavy" in kind:
            x = rng.standard_t(4, size=(n, d))
        if "scales" in kind:
            x = x * rng.lognormal(0, 0.6, size=(n, 1))
        noise = 0.5 * rng.normal(size=(n, d))
    return x, x @ rotation(x.shape[1]) + noise, {} if groups is None else {"groups": groups}


SHAPES = {
    "200 x 5": (200, 5),
    "200 x 30": (200, 30),
    "200 x 5, heavy tails": (200, 5),
    "200 x 5, row scales": (200, 5),
    "1000 x 20": (1000, 20),
}
GROUPED = ("groups 20 equal", "groups 20 unequal", "groups 50 unequal")


def rotation(d: int) -> Array:
    return np.linalg.qr(np.random.default_rng(5).normal(size=(d, d)))[0]


def coverage(replicates: int, seed: int) -> Iterator[str]:
    yield "95 % intervals of compare; promised .93 to .97"
    for kind in (*SHAPES, *GROUPED):
        rng = np.random.default_rng([seed, len(kind)])
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in FITTED}
        many: list[tuple[float, float]] = []
        for replicate in range(replicates):
            x, y, settings = pairs(kind, rng)
            result = isorep.compare(x, y, rungs=LADDER, n_null=0, random_state=replicate, **QUICK, **settings)
            for name in FITTED:
                rung = result.rungs[name]
                found[name].append((rung.held_out.mean, rung.interval.low, rung.interval.high))
            if kind in ("200 x 5", "200 x 30", "groups 20 unequal"):
                both = isorep.compare_many([x, y], rungs=LADDER, n_null=0, random_state=replicate, **settings)
                many.append((both.rungs["rigid"].error[0, 1], both.rungs["rigid"].upper[0, 1]))
        for name, rows in found.items():
            value, low, high = np.array(rows).T
            truth = value.mean()
            share = float(((low <= truth) & (truth <= high)).mean())
            yield f"{kind:24} {name:20} {judged(share, replicates, 0.93, 0.97)}"
        if many:
            value, upper = np.array(many).T
            share = float((np.abs(value - value.mean()) <= upper - value).mean())
            yield f"{kind:24} {'rigid, compare_many':20} {judged(share, replicates, 0.93, 0.985)}"


# Nulls: p <= .05 in .03 to .07 of independent pairs


def independent(kind: str, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Any]]:
    sizes = {"sizes 5-16": (5, 16), "sizes 1-80": (1, 80), "equal sizes": (8, 8)}
    if kind in ("iid", "heavy tails", "n near d"):
        shape = (60, 40) if kind == "n near d" else (120, 4)
        draw = rng.standard_t(3, size=(2, *shape)) if kind == "heavy tails" else rng.normal(size=(2, *shape))
        return draw[0], draw[1], {}
    low, high = next(ends for name, ends in sizes.items() if name in kind)
    groups = np.repeat(np.arange(20), rng.integers(low, high + 1, 20))
    sides = []
    for _ in range(2):
        steps = rng.normal(size=(len(groups), 4))
        if "walks" in kind:
            steps = np.concatenate([np.cumsum(steps[groups == group], axis=0) for group in range(20)])
        else:
            steps = steps + 2 * rng.normal(size=(20, 4))[groups]
        sides.append(steps)
    return sides[0], sides[1], {"groups": groups}


INDEPENDENT = (
    "iid",
    "heavy tails",
    "n near d",
    "effects, equal sizes",
    "effects, sizes 5-16",
    "effects, sizes 1-80",
    "walks, equal sizes",
    "walks, sizes 5-16",
    "walks, sizes 1-80",
)


def null(replicates: int, seed: int) -> Iterator[str]:
    yield "share of p <= .05 among independent pairs, compare with 39 shuffles; promised .03 to .07; and false verdicts"
    for kind in INDEPENDENT:
        rng = np.random.default_rng([seed, len(kind), 2])
        found: dict[str, list[float]] = {name: [] for name in LADDER}
        false = 0
        for replicate in range(replicates):
            x, y, settings = independent(kind, rng)
            result = isorep.compare(x, y, rungs=LADDER, n_null=39, random_state=replicate, **QUICK, **settings)
            false += result.verdict.rung is not None
            for name in LADDER:
                found[name].append(result.rungs[name].null.p_value)
        for name, values in found.items():
            share = float((np.array(values) <= 0.05).mean())
            yield f"{kind:24} {name:20} {judged(share, replicates, 0.03, 0.07)}"
        yield f"{kind:24} {'any verdict':20} {judged(false / replicates, replicates, 0.0, 0.05)}"


def verdicts(replicates: int, seed: int) -> Iterator[str]:
    seeds = range(seed, seed + max(1, min(3, replicates // 100)))
    total = right = wrong = 0
    for case in cases(seeds):
        result = isorep.compare(case.source, case.target, rungs=LADDER, **QUICK, **case.settings)
        total += 1
        if result.verdict.rung == case.truth:
            right += 1
            continue
        false = is_false(result.verdict.rung, case.truth) and result.verdict.qualified is None
        wrong += false
        yield f"{case.name}: {result.verdict.rung}{' FALSE' if false else ''}"
    yield f"named cases: {right} of {total} right, {wrong} confidently false; promised: 95 % right, none of the latter"


def ica(replicates: int, seed: int) -> Iterator[str]:
    yield "ICA efficiency, held out, beside that of two random rotations (mean and standard deviation over samples)"
    count = max(5, replicates // 40)
    for kind in ("Gaussian, isotropic", "Gaussian, power law", "Laplace"):
        for noise in (0.0, 0.1):
            rng = np.random.default_rng([seed, len(kind), 3])
            found, chance, published = [], [], []
            for replicate in range(count):
                x = rng.laplace(size=(1500, 8)) if kind == "Laplace" else rng.normal(size=(1500, 8))
                if "power" in kind:
                    x = x * (np.arange(8) + 1.0) ** -0.7
                y = x @ rotation(8) + noise * x.std() * rng.normal(size=x.shape)
                result = isorep.compare(x, y, n_null=0, n_boot=0, random_state=replicate, **QUICK)
                found.append(result.ica_efficiency)
                published.append(result.forward.ica_efficiency_in_sample)
                chance.append(_random_efficiency(x, y, result, rng))
            told = [f"{np.mean(each):.2f} ± {np.std(each):.2f}" for each in (found, chance, published)]
            yield f"{kind:22} noise {noise:.1f}: {told[0]}, random rotations {told[1]}, published (in sample) {told[2]}"


def _random_efficiency(x: Array, y: Array, result: Any, rng: np.random.Generator) -> float | None:
    """The efficiency of whitened sides turned at random and matched, as ICA's components are."""
    from isorep.alignment.base import match_signed

    sides = []
    for rows in (x, y):
        values, vectors = np.linalg.eigh(np.cov(rows.T))
        turn = np.linalg.qr(rng.normal(size=(rows.shape[1],) * 2))[0]
        sides.append((vectors / np.sqrt(values)) @ turn)
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    rows, signs, _ = match_signed((a @ sides[0]).T @ (b @ sides[1]))
    mapped = (a @ sides[0])[:, rows] * signs @ np.linalg.inv(sides[1])
    error = np.linalg.norm(b - mapped, axis=1).mean() / np.linalg.norm(b, axis=1).mean()
    held = result.rungs
    return ica_efficiency(held["signed_permutation"].held_out.mean, held["rigid"].held_out.mean, float(error))


def similarity(replicates: int, seed: int) -> Iterator[str]:
    from calibration_similarity import cells

    yield from _cells(cells, "index", replicates, seed)


def structure(replicates: int, seed: int) -> Iterator[str]:
    from calibration_structure import cells

    yield from _cells(cells, "score", replicates, seed)


def _cells(cells: Callable[[int, int], list[dict[str, Any]]], what: str, replicates: int, seed: int) -> Iterator[str]:
    yield f"share of p <= .05 for every {what} among independent pairs; promised .03 to .07"
    for cell in cells(replicates, seed):
        yield "  ".join(f"{key} {value:.3f}" if isinstance(value, float) else str(value) for key, value in cell.items())


PARTS: dict[str, Callable[[int, int], Iterator[str]]] = {
    "coverage": coverage,
    "null": null,
    "verdicts": verdicts,
    "ica": ica,
    "similarity": similarity,
    "structure": structure,
}

if __name__ == "__main__":
    main()
