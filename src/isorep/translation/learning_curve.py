"""The learning curve: what the best kind of map errs when it is fitted to fewer pairs, from the same moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..moments import Moments, merged
from ..rows import map_blocks
from .maps import Setting, Training, choose

ENOUGH = 0.05  # an error within this share of that of all pairs is as good
_STILL_HELPS = 0.02  # the least gain of a doubling that is worth more pairs
_EXACT = 1e-6  # in radii: errors below it are rounding


@dataclass(frozen=True)
class Point:
    """A training set of that many pairs, and its RMS error on the test fold in RMS radii of the new vectors."""

    pairs: int
    error: float


@dataclass(frozen=True)
class Curve:
    """How the error of one kind of map falls with the number of pairs.

    ``enough`` is the smallest number of pairs shown from which on the error stays within 5 % of that of all training
    pairs; None if only all of them do. ``gain`` is the share of the error that the last doubling removed.
    """

    kind: str
    points: tuple[Point, ...]
    enough: int | None
    gain: float | None
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def learning_curve(
    kind: str, codes: list[Moments], chosen: Setting, unit: float, radius: float, rounding: float
) -> Curve:
    """Fit the kind to every prefix of the codes and test it on the last code.

    A smaller set chooses strength and rank for itself, on the training rows that it leaves; the whole has ``chosen``.
    """
    *training, test = codes

    def point(size: int) -> Point:
        some = Training(merged(training[:size]), rounding)
        rest = training[size:]
        setting = choose(kind, [(some, merged(rest))], unit)[0] if rest else chosen
        squares = float(some.fit(kind, setting).squared_errors(test).sum())
        return Point(some.moments.n, float(np.sqrt(squares / test.n)) / radius)

    sizes = [size for size in range(1, len(codes)) if sum(part.n for part in training[:size]) > 1]
    return _read(kind, tuple(map_blocks(lambda one: point(sizes[one.start]), len(sizes), 1)))


def _read(kind: str, points: tuple[Point, ...]) -> Curve:
    last = points[-1]
    within = (1 + ENOUGH) * last.error + _EXACT
    enough: int | None = None
    for point in reversed(points[:-1]):
        if point.error > within:
            break
        enough = point.pairs
    half = [point for point in points if 1.7 <= last.pairs / point.pairs <= 2.5]
    gain = None
    if half and last.error <= _EXACT:
        gain = 0.0
    elif half:
        before = min(half, key=lambda point: abs(last.pairs / point.pairs - 2))
        gain = 1 - last.error / before.error if before.error > 0 else 0.0
    return Curve(kind, points, enough, gain, _sentence(last, enough, gain))


def _sentence(last: Point, enough: int | None, gain: float | None) -> str:
    found = (
        f"{enough:,} pairs are enough: from there on the error stays within {ENOUGH:.0%} of that of all "
        f"{last.pairs:,} training pairs"
        if enough is not None
        else f"{last.pairs:,} training pairs are not shown to be enough: every smaller set errs more than {ENOUGH:.0%} "
        "beyond them"
    )
    if gain is None:
        return f"{found}."
    if gain > _STILL_HELPS:
        return f"{found}; more would still help, the last doubling lowered the error by {gain:.0%}."
    return f"{found}; more would help little, the last doubling lowered the error by {max(gain, 0):.1%}."
