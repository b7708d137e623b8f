"""Calibration of similarity nulls: how often p is at most 0.05 when the two sides are independent.

    python benchmarks/calibration_similarity.py                   # 200 replicates, about a minute on one core
    python benchmarks/calibration_similarity.py --replicates 2000

Every kind of data draws two independent sides, and every index is asked for its p-value with 39 permutations, of which
0.05 is a possible value. A cell fails if the 99 % interval of its share lies outside 0.03 to 0.07.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from isorep import similarity

PERMUTATIONS = 39
GROUPS = 20
WIDTHS = (4, 3)
ALLOWED = (0.03, 0.07)
Sides = tuple[np.ndarray, np.ndarray]
Drawn = tuple[Sides, dict[str, np.ndarray]]


def cells(replicates: int, seed: int, kinds: list[str] | None = None) -> list[dict[str, Any]]:
    """The share of p-values of at most 0.05 for every kind of data and every index, with its 99 % interval."""
    found = []
    for place, (kind, draw) in enumerate(KINDS.items()):
        if kinds is not None and kind not in kinds:
            continue
        rng = np.random.default_rng([seed, place])
        below = dict.fromkeys(similarity.INDICES, 0)
        for _ in range(replicates):
            (x, y), labels = draw(rng)
            state = int(rng.integers(2**31))
            result = similarity.indices(x, y, permutations=PERMUTATIONS, random_state=state, **labels)
            for index, each in result.indices.items():
                below[index] += each.p_value <= 0.05 + 1e-9
        for index, count in below.items():
            interval = stats.binomtest(count, replicates).proportion_ci(0.99)
            found.append(
                {
                    "kind": kind,
                    "index": index,
                    "share_p_below_05": count / replicates,
                    "low": float(interval.low),
                    "high": float(interval.high),
                }
            )
    return found


def fails(cell: dict[str, Any]) -> bool:
    """Whether the interval of a share lies outside what is allowed."""
    return bool(cell["low"] > ALLOWED[1] or cell["high"] < ALLOWED[0])


def rows(rng: np.random.Generator) -> Drawn:
    return sides(lambda d: rng.normal(size=(200, d))), {}


def heavy_tails(rng: np.random.Generator) -> Drawn:
    return sides(lambda d: rng.standard_t(1.5, size=(200, d))), {}


def repeated_rows(rng: np.random.Generator) -> Drawn:
    """Rows that were stored up to four times, on both sides alike; nobody says so."""
    stored = np.repeat(np.arange(80), rng.integers(1, 5, 80))
    stored = rng.permutation(stored)
    return sides(lambda d: rng.normal(size=(80, d))[stored]), {}


def few_values(rng: np.random.Generator) -> Drawn:
    """Rows with few different values on either side, independently: many are equally near."""
    return sides(lambda d: rng.integers(0, 3, size=(200, d)).astype(float)), {}


def within_classes(rng: np.random.Generator) -> Drawn:
    """Five classes that both sides separate, and nothing else in common."""
    classes = rng.integers(0, 5, 200)
    return sides(lambda d: 3 * rng.normal(size=(5, d))[classes] + rng.normal(size=(200, d))), {"within": classes}


def grouped(least: int, most: int, walk: bool) -> Callable[[np.random.Generator], Drawn]:
    """Groups of some sizes: rows about a centre of their own, or random walks."""

    def draw(rng: np.random.Generator) -> Drawn:
        groups = np.repeat(np.arange(GROUPS), rng.integers(least, most + 1, GROUPS))

        def side(d: int) -> np.ndarray:
            steps = rng.normal(size=(len(groups), d))
            if not walk:
                return rng.normal(size=(GROUPS, d))[groups] + steps
            return np.concatenate([np.cumsum(steps[groups == group], axis=0) for group in range(GROUPS)])

        return sides(side), {"groups": groups}

    return draw


def sides(draw: Callable[[int], np.ndarray]) -> Sides:
    return draw(WIDTHS[0]), draw(WIDTHS[1])


KINDS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "rows": rows,
    "heavy tails": heavy_tails,
    "groups of 10": grouped(10, 10, False),
    "groups of 5 to 16": grouped(5, 16, False),
    "groups of 1 to 80": grouped(1, 80, False),
    "walks of 10": grouped(10, 10, True),
    "walks of 5 to 16": grouped(5, 16, True),
    "walks of 1 to 80": grouped(1, 80, True),
    "within classes": within_classes,
    "repeated rows": repeated_rows,
    "few values": few_values,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print(f"Share of p <= 0.05 for independent sides, {chosen.replicates} replicates; * outside 0.03 to 0.07\n")
    print(f"{'':19s}" + "".join(f"{index[:12]:>13s}" for index in similarity.INDICES))
    failed = 0
    for kind in KINDS:
        start = time.process_time()
        found = cells(chosen.replicates, chosen.seed, [kind])
        failed += sum(map(fails, found))
        line = "".join(f"{cell['share_p_below_05']:12.4f}{'*' if fails(cell) else ' '}" for cell in found)
        print(f"{kind:19s}{line}  {time.process_time() - start:5.0f} s", flush=True)
    print(f"\n{failed} cells fail")


if __name__ == "__main__":
    main()
