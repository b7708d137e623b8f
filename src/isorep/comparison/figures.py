"""Figures as data: the input of a report's charts, small enough for the result's JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from ..alignment.base import AffineMap
from ..moments import Moments
from ..representation import Array, Matrix
from ..results import Record
from ..rows import read_rows

SCATTER_ROWS, MOST_CLASSES = 400, 24
DECIMALS = 6  # of places and errors that are drawn
MATCHED_DIMENSIONS = 48
BINS = 40
ROOM = 1.15  # of a histogram above chance
LEAST_R2 = -9.0


@dataclass(frozen=True, eq=False)
class Plane(Record):
    """Sampled rows on the target's principal plane: the target, and the source before and after alignment by a rung.

    Coordinates are (rows, 2) arrays in units of the target's diameter. Before alignment the source is centred and
    scaled to the target's RMS radius, and its first dimensions are drawn as the target's. ``explained`` are the shares
    of the target's variance along the two axes, ``rows`` the ids or numbers of the rows.

    ``by_rung`` has the same as ``after`` for every rung, ``errors`` the held-out error of each row in mean distances to
    the mean. ``classes`` are the rows' classes or groups where they were given and are few, ``examples`` their texts or
    pictures.
    """

    rung: str
    explained: Array
    rows: tuple[str, ...]
    target: Array
    before: Array
    after: Array
    by_rung: dict[str, Array]
    errors: dict[str, Array]
    classes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Matching(Record):
    """Correlations of the target's dimensions (rows) with the source's, matches on the diagonal, best matched first.

    Only the target's dimensions of largest variance are shown.
    """

    source_dims: Array
    target_dims: Array
    correlations: Array
    shown: int
    of: int


@dataclass(frozen=True, eq=False)
class Reproducibility(Record):
    """The held-out R² of every dimension of the target under each rung, and the dimensions ordered from the best.

    ``order`` is by the linear rung, or by the first without that one.
    """

    order: Array
    r2: dict[str, Array]

    @property
    def reference(self) -> str:
        """The rung that gives the order."""
        return "linear" if "linear" in self.r2 else next(iter(self.r2))


@dataclass(frozen=True, eq=False)
class ResidualCounts(Record):
    """Held-out errors of rows counted in common bins, and the mean error under shuffled pairings, for each rung.

    ``edges`` and means are in mean distances of the target's rows to their mean. ``beyond`` counts the rows of each
    rung above the last edge.
    """

    edges: Array
    counts: dict[str, Array]
    null_mean: dict[str, float]
    beyond: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Figures(Record):
    """The data behind the figures of the source mapped onto the target."""

    scatter: Plane
    matching: Matching | None  # of tens of thousands of columns only with the signed permutation
    dimensions: Reproducibility | None
    residuals: ResidualCounts


@dataclass(frozen=True, eq=False)
class RowFacts:
    """What is known of single rows: ids, classes, examples, held-out errors by rung, and which rows have one."""

    ids: Array | None
    classes: Array | None
    examples: Callable[[Array], tuple[str, ...]]
    errors: Mapping[str, Array]
    scored: Array | None


def scatter(
    x: Matrix,
    y: Matrix,
    total: Moments,
    fitted: Mapping[str, AffineMap],
    rung: str,
    unit: float,
    facts: RowFacts,
    seed: int,
    as_they_are: AffineMap | None = None,
) -> Plane:
    """A sample of the rows on the target's principal plane.

    ``as_they_are`` maps columns onto those of the same number, where rows are given in coordinates.
    """
    n, d_y = y.shape
    rows = np.arange(n) if facts.scored is None else np.flatnonzero(facts.scored)
    variances, axes = linalg.eigh(total.yy, subset_by_index=[max(d_y - 2, 0), d_y - 1])
    variances, axes = variances[::-1], axes[:, ::-1]
    if d_y == 1:  # a line: the second axis of the plane is empty
        variances, axes = np.append(variances, 0.0), np.array([[1.0, 0.0]])
    chosen = rows[np.sort(np.random.default_rng(seed).choice(len(rows), min(SCATTER_ROWS, len(rows)), replace=False))]
    x_rows, y_rows = (read_rows(values, chosen).astype(np.float64) for values in (x, y))
    if as_they_are is None:
        before = np.zeros((len(chosen), max(x_rows.shape[1], d_y)))
        before[:, : x_rows.shape[1]] = x_rows - total.source_mean
    else:
        before = (x_rows - total.source_mean) @ as_they_are.matrix
    ratio = np.sqrt(np.trace(total.yy) / np.trace(total.xx))
    clouds = {"target": y_rows - total.target_mean, "before": ratio * before[:, :d_y]}
    clouds |= {name: each.apply(x_rows)[:, :d_y] - total.target_mean for name, each in fitted.items()}
    places = {name: np.round(cloud @ axes / unit, DECIMALS) for name, cloud in clouds.items()}
    return Plane(
        rung,
        variances / np.trace(total.yy),
        tuple(str(row) if facts.ids is None else str(facts.ids[row]) for row in chosen),
        places.pop("target"),
        places.pop("before"),
        places[rung],
        by_rung=places,
        errors={name: np.round(each[chosen], DECIMALS) for name, each in facts.errors.items()},
        classes=_classes(facts.classes, chosen),
        examples=facts.examples(chosen),
    )


def _classes(classes: Array | None, rows: Array) -> tuple[str, ...]:
    """The classes of the rows, where they are few enough to tell apart by colour."""
    shown = () if classes is None else tuple(str(each) for each in classes[rows])
    return shown if 1 < len(set(shown)) <= MOST_CLASSES else ()


def matching(matched: Array, spreads: tuple[Array, Array], cross: Callable[[Array, Array], Array]) -> Matching:
    """The dimensions matched by signed permutation.

    ``matched`` are the source's columns by the target's, ``spreads`` the sums of squares of the columns of both sides,
    and ``cross`` gives the cross-moments of some columns of the source with some of the target.
    """
    d_x, d_y = (len(each) for each in spreads)
    spread_x, spread_y = (np.sqrt(np.maximum(sums, 0)) for sums in spreads)
    partnered = np.array([j for j in range(d_y) if matched[j] < d_x], dtype=np.intp)

    def correlations(target: Array) -> Array:
        """Of these columns of the target with those matched to them; rows are those of the target."""
        source = matched[target]
        scale = np.multiply.outer(spread_y[target], spread_x[source])
        return np.divide(cross(source, target).T, scale, out=np.zeros_like(scale), where=scale > 0)

    shown = partnered[np.argsort(-spread_y[partnered], kind="stable")[:MATCHED_DIMENSIONS]]
    quality = np.round(np.abs(np.diagonal(correlations(shown))), 9)  # rounding must not break ties
    shown = shown[np.argsort(-quality, kind="stable")]
    return Matching(matched[shown], shown, correlations(shown), len(shown), d_y)


def errors_by_column(folds: Sequence[Moments], maps: Sequence[AffineMap], axes: Array | None = None) -> Array:
    """Held-out squared errors of every column of the target, summed over rows, from the moments of the folds alone.

    With ``axes`` the moments are those of coordinates, and the columns the ones that these axes lie in.
    """
    found = np.zeros(folds[0].xy.shape[1] if axes is None else axes.shape[1])
    for rows, fitted in zip(folds, maps, strict=True):
        if axes is None:
            found += fitted.squared_errors(rows)
        else:
            found += fitted.squared_errors_along(rows, axes)
    return found


def reproducibility(errors: Mapping[str, Array], spread: Array) -> Reproducibility | None:
    """The held-out R² of dimensions, from squared errors and sums of squares about the mean; None without errors."""
    # Values far below 0 mean "not reproduced" alike, and would stretch the axis.
    r2 = {
        name: np.maximum(1 - np.divide(each, spread, out=np.ones_like(each), where=spread > 0), LEAST_R2)
        for name, each in errors.items()
    }
    if not r2:
        return None
    unordered = Reproducibility(np.arange(len(spread)), r2)
    return Reproducibility(np.argsort(-r2[unordered.reference], kind="stable"), r2)


def principal_r2(folds: Sequence[Moments], maps: Sequence[AffineMap], yy: Array) -> Array:
    """The held-out R² along every principal direction of the target, in any basis of its columns."""
    variances, axes = linalg.eigh(yy)
    kept = variances > 1e-10 * max(float(variances[-1]), 0.0)
    variances, axes = variances[kept], axes[:, kept]
    errors = np.zeros(len(variances))
    for rows, fitted in zip(folds, maps, strict=True):
        errors += fitted.squared_errors_along(rows, axes)
    return np.asarray(1 - errors / variances)


def residual_histogram(residuals: Mapping[str, Array], unit: float, null_means: dict[str, float]) -> ResidualCounts:
    """Counts of held-out residual norms in common bins, in multiples of the unit.

    The bins end a little above chance, or above nearly all errors of the best rung: the tail of the worst rung would
    press everything else into the first few.
    """
    errors = {name: each / unit for name, each in residuals.items()}
    best = min(errors.values(), key=lambda each: float(each.mean()))
    enough = ROOM * max(*null_means.values(), 1.0, float(np.quantile(best, 0.99)))
    top = min(max(float(each.max()) for each in errors.values()), enough)
    edges = np.linspace(0, top or 1.0, BINS + 1)
    counts = {name: np.histogram(each, edges)[0] for name, each in errors.items()}
    beyond = {name: len(each) - int(counts[name].sum()) for name, each in errors.items()}
    return ResidualCounts(edges, counts, null_means, {name: number for name, number in beyond.items() if number})
