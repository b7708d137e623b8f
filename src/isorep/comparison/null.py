"""The null: the same held-out errors after the pairing of rows has been shuffled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..groups import shuffled_partners
from ..moments import Moments, leave_one_out
from ..representation import Array, Matrix
from ..rows import block_rows, blocks, read_rows
from .residuals import Centre, FittedRung, HeldOutMaps
from .rungs import TrainingSet, fit_all

ROWS_PER_FOLD = 2000


@dataclass(frozen=True, eq=False)
class NullDraws:
    """Held-out mean errors under shuffled pairings, in raw units: one array a rung and direction."""

    forward: dict[str, Array]
    reverse: dict[str, Array]


def draw_null(
    x: Matrix,
    y: Matrix,
    folds: Array,
    groups: Array | None,
    fold_moments: Sequence[Moments],
    training: Sequence[TrainingSet],
    centre: Centre,
    radii: Array,
    names: Sequence[str],
    n_null: int,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> NullDraws:
    """Refit and re-evaluate every rung on ``n_null`` shuffled pairings of all rows.

    Maps are fitted on all training rows. Where a fold has more than 2,000 rows their errors are averaged over a random
    2,000 of them as differences from the rows' distance to the mean, whose average over all rows is known: under the
    null maps predict little more than the mean, so nothing measurable is lost. Nearly dependent columns take no second
    pass here, which if anything lowers the null.
    """
    n = x.shape[0]
    n_folds = len(fold_moments)
    sample = _sample_rows(folds, n_folds, rng)
    held = [(centre.shift(read_rows(x, rows), 0), rows) for rows in sample]
    draws: dict[str, list[list[float]]] = {name: [[], []] for name in names}
    weights = np.bincount(folds, minlength=n_folds) / n
    for draw in range(n_null):
        partners = shuffled_partners(n, groups, rng)
        without = leave_one_out(_shuffled_moments(x, y, partners, folds, fold_moments, centre))
        shuffled = [
            replace(each, moments=moments, second=(None, None)) for each, moments in zip(training, without, strict=True)
        ]
        fitted = fit_all(names, shuffled)
        maps = HeldOutMaps(
            {name: FittedRung(fitted[0][name], [each[name] for each in fitted]) for name in names}, centre
        )
        totals = {name: np.zeros(2) for name in names}
        for fold, (x_rows, rows) in enumerate(held):
            y_rows = centre.shift(read_rows(y, partners[rows]), 1)
            baselines = np.array([radii[1][partners[rows]].mean(), radii[0][rows].mean()])
            if "identity" in names:
                totals["identity"] += weights[fold] * (maps.identity(x_rows, y_rows).mean() - baselines)
            for name, errors in maps.without(fold, x_rows.copy(), y_rows):
                totals[name] += weights[fold] * (np.mean(errors, axis=1) - baselines)
        for name, total in totals.items():
            draws[name][0].append(float(radii[1][partners].mean() + total[0]))
            draws[name][1].append(float(radii[0].mean() + total[1]))
        if progress:
            progress(draw + 1, n_null)
    return NullDraws(
        {name: np.array(values[0]) for name, values in draws.items()},
        {name: np.array(values[1]) for name, values in draws.items()},
    )


def _sample_rows(folds: Array, n_folds: int, rng: np.random.Generator) -> list[Array]:
    sample = []
    for fold in range(n_folds):
        rows = np.flatnonzero(folds == fold)
        if len(rows) > ROWS_PER_FOLD:
            rows = np.sort(rng.choice(rows, ROWS_PER_FOLD, replace=False))
        sample.append(rows)
    return sample


def _shuffled_moments(
    x: Matrix, y: Matrix, partners: Array, folds: Array, known: Sequence[Moments], centre: Centre
) -> list[Moments]:
    """The moments of every fold under a shuffled pairing; those of the source are known and kept.

    Products are taken in the working dtype over blocks and summed in float64.
    """
    n_folds = len(known)
    d_x, d_y = x.shape[1], y.shape[1]
    xy, yy = np.zeros((n_folds, d_x, d_y)), np.zeros((n_folds, d_y, d_y))
    y_sums = np.zeros((n_folds, d_y))
    for rows in blocks(x.shape[0], block_rows(d_x, d_y)):
        x_block = centre.shift(read_rows(x, rows), 0)
        y_block = centre.shift(read_rows(y, partners[rows]), 1)
        here = folds[rows]
        for fold in np.unique(here):
            mine = here == fold
            x_part, y_part = x_block[mine], y_block[mine]
            xy[fold] += x_part.T @ y_part
            yy[fold] += y_part.T @ y_part
            y_sums[fold] += y_part.sum(axis=0, dtype=np.float64)
    result = []
    for fold, moments in enumerate(known):
        x_shift = (moments.source_mean - centre.source) * moments.n
        y_mean = y_sums[fold] / moments.n
        result.append(
            Moments(
                moments.n,
                moments.source_mean,
                y_mean + centre.target,
                moments.xx,
                xy[fold] - np.multiply.outer(x_shift, y_mean),
                yy[fold] - np.multiply.outer(y_sums[fold], y_mean),
            )
        )
    return result
