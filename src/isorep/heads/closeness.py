r"""``isorep.heads.closeness``: how close two models are in distribution, beside how close their representations are.

Log-probabilities of two models in blocks of rows, from features and heads or from logits.

How close two representations are, for the column beside closeness in distribution.

The share of variance that a linear map explains, the mean canonical correlation, and, after Nielsen et al. (2025),

.. math:: d_{\mathrm{SVD}}=1-\frac1r\sum_{i=1}^{r}\operatorname{corr}(f u_i,f'v_i)

with :math:`u_i,v_i` the singular vectors of the cross-covariance (PLS-SVD), all from second moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..alignment.base import summarise
from ..errors import InputError
from ..moments import Moments, fold_moments, merged, merged_without, require_memory
from ..pairs import Pair, open_pair
from ..representation import Array, Matrix
from ..resampling import BLOCKS, MOST_GROUP_BLOCKS, Interval, assign_blocks, jackknife_se, ratio_jackknife, t_interval
from ..rows import Progress, block_rows, blocks, no_progress, read_rows, refuse_non_finite
from ..settings import check_seed
from ..similarity.cca import prepare_cca, prepare_linear_r2
from ..similarity.frames import paired
from .closeness_result import Closeness, Divergence, LogOddsDistance, RepresentationDistances
from .inputs import Head, joined, open_heads

_MOST_CELLS = 2**24  # blocks x classes that log-odds are summed in
_LEAST_BLOCKS = 20  # however many classes there are
_CLASSES_SHOWN = 200


def closeness(
    source: Any,
    target: Any,
    source_head: Any = None,
    target_head: Any = None,
    *,
    source_bias: Any = None,
    target_bias: Any = None,
    reference: int | None = None,
    groups: Any = None,
    join: bool = False,
    intervals: bool = True,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Closeness:
    r"""How close are two models in distribution, and how close are their representations?

    A small mean Kullback-Leibler divergence does not bound the distance of representations; the log-odds do
    (Nielsen et al. 2025). With :math:`\psi_y(x)=\log p(y|x)-\log p(y_0|x)` the log-odds distance is

    .. math:: d_{\mathrm{LLV}}=\max_y\operatorname{std}_x[\psi_y-\psi'_y]

    in nats. Beside it stand its symmetric version :math:`\max_x\operatorname{std}_y`, the largest mean difference, and
    a standardised one, each log-odds divided by its own standard deviation first, which lies between 0 and 2.

    Parameters
    ----------
    source, target : (n, M) arrays, Representations or paths
        Features of the same inputs under two models; or, without heads, their (n, K) logits.
    source_head, target_head : (K, M) arrays, Representations or paths, optional
        The embeddings of the same K classes, in the same order.
    source_bias, target_bias : (K,) arrays, optional
        Added to the logits that heads read from features.
    reference : int, optional
        The class :math:`y_0`. By default the mean of all classes takes its place, so that no class is special.
    groups : (n,) array, optional
        Rows that belong together are left out together.
    join : bool
        Keep the rows that both have, by their ids.
    intervals : bool
        Whether intervals are taken: a block of rows (or of groups) is left out at a time, and everything is taken
        again without it.
    random_state : int
        Seed of the blocks.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

    Returns
    -------
    Closeness

    References
    ----------
    .. [1] Nielsen, B. M. G., Marconato, E., Dittadi, A., Gresele, L. (2025). When does closeness in distribution imply
           representational similarity? An identifiability perspective. NeurIPS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> f, G, A = rng.normal(size=(200, 3)), rng.normal(size=(6, 3)), rng.normal(size=(3, 3))
    >>> found = isorep.heads.closeness(f, f @ A, G, G @ np.linalg.inv(A).T)
    >>> found.kl.mean < 1e-12, found.log_odds.value < 1e-7
    (True, True)
    """
    check_seed(random_state)
    report = progress or no_progress
    note = None
    if join:
        source, target, groups, note = joined(source, target, groups)
    pair, _, labels = open_pair(source, target, ("source", "target"), groups, False)
    if pair.n < 2:
        raise InputError(f"{' and '.join(pair.names)} have {pair.n} row: at least 2 are needed")
    with_heads = _with_heads(source_head, target_head, source_bias, target_bias)
    heads = open_heads(source_head, target_head, source_bias, target_bias) if with_heads else (None, None)
    readouts = _readout(pair.x, heads[0], pair.names[0]), _readout(pair.y, heads[1], pair.names[1])
    classes = _common_classes(readouts)
    if reference is not None and not (isinstance(reference, int | np.integer) and 0 <= reference < classes):
        raise InputError(f"reference is {reference!r} and must be the place of one of {classes} classes, from 0 on")
    rng = np.random.default_rng(random_state)
    block_of = blocks_of(pair.n, labels, max(_LEAST_BLOCKS, _MOST_CELLS // (7 * classes)), rng)
    rows, odds = _pass(readouts, pair.n, block_of, reference, report)
    found = _divergences(rows, block_of if intervals else None)
    representations = None
    if with_heads:
        representations = representation_distances(pair, labels, intervals, rng, report)
    label = str if heads[0] is None else heads[0].label
    worst = int(np.argmax(rows.kl))
    return Closeness(
        names=pair.names,
        rows=pair.n,
        classes=classes,
        kl=found["kl"],
        kl_reverse=found["kl_reverse"],
        worst_row=str(worst if pair.ids is None else pair.ids[worst]),
        total_variation=found["total_variation"],
        agreement=found["agreement"],
        log_odds=_log_odds(odds, rows, intervals, label),
        representations=representations,
        settings={
            "reference": None if reference is None else int(reference),
            "groups": None if labels is None else int(labels.max()) + 1,
            "intervals": bool(intervals),
            "random_state": int(random_state),
            "joined": note,
        },
    )


def _with_heads(*given: Any) -> bool:
    heads, biases = given[:2], given[2:]
    if (heads[0] is None) != (heads[1] is None):
        raise InputError("one head was given: name both heads with features, or neither with logits")
    if heads[0] is None and any(bias is not None for bias in biases):
        raise InputError("logits hold their biases already: a bias goes with a head")
    return heads[0] is not None


def _readout(values: Matrix, head: Head | None, name: str) -> Readout:
    if head is None:
        return Readout(values, None, None, name)
    if values.shape[1] != head.width:
        raise InputError(f"{name} has {values.shape[1]} columns where {head.name} reads {head.width}")
    return Readout.of_features(values, head)


def _common_classes(readouts: tuple[Readout, Readout]) -> int:
    here, there = (each.classes for each in readouts)
    if here != there:
        raise InputError(
            f"{readouts[0].name} has {here} classes and {readouts[1].name} has {there}: heads share their classes"
        )
    if here < 2:
        raise InputError("there is one class: its probability is 1 whatever the features")
    return here


def _pass(
    readouts: tuple[Readout, Readout], n: int, block_of: Array, reference: int | None, report: Progress
) -> tuple[RowFigures, LogOdds]:
    """One pass over the rows of both models."""
    classes = readouts[0].classes
    figures, odds = RowFigures.empty(n), LogOdds(int(block_of.max()) + 1, classes)
    for rows in blocks(n, block_rows(classes, *(each.values.shape[1] for each in readouts), cells=2**20)):
        p, q = (each.log_probabilities(rows) for each in readouts)
        figures.fill(rows, p, q)
        for each in (p, q):
            each -= each.mean(axis=1, keepdims=True) if reference is None else each[:, [reference]].copy()
        odds.absorb(p, q, block_of[rows])
        report("probabilities", rows.stop, n)
    return figures, odds


def _divergences(rows: RowFigures, block_of: Array | None) -> dict[str, Divergence]:
    """The mean of every quantity of rows, with a jackknife interval where there are blocks."""
    made = {}
    for name, most in (("kl", np.inf), ("kl_reverse", np.inf), ("total_variation", 1.0), ("agreement", 1.0)):
        values = getattr(rows, name)
        found = summarise(values, 1.0)
        span = None
        if block_of is not None:
            sizes = np.bincount(block_of)
            se = ratio_jackknife(np.bincount(block_of, values), sizes)[1]
            span = t_interval(found.mean, float(se), len(sizes), least=0.0, most=most)
        made[name] = Divergence(found.mean, found.sup, found.quantiles, span)
    return made


def _log_odds(odds: LogOdds, rows: RowFigures, intervals: bool, label: Any) -> LogOddsDistance:
    count = len(odds.counts)
    spread, mean, standardised = odds.figures(np.ones(count))
    place = int(np.argmax(spread))
    largest = np.array([spread.max(), standardised.max()])
    spans: list[Interval | None] = [None, None]
    if intervals:
        left_out = np.array([[each.max() for each in odds.figures(kept)[::2]] for kept in 1.0 - np.eye(count)])
        se = jackknife_se(left_out, largest, odds.counts)
        spans = [
            t_interval(float(value), float(each), count, least=0.0, most=most)
            for value, each, most in zip(largest, se, (np.inf, 2.0), strict=True)
        ]
    order = np.argsort(-spread, kind="stable")[:_CLASSES_SHOWN]
    return LogOddsDistance(
        value=float(spread[place]),
        interval=spans[0],
        worst_class=label(place),
        mean_difference=float(np.abs(mean).max()),
        over_classes=float(rows.over_classes.max()),
        standardised=float(standardised.max()),
        standardised_interval=spans[1],
        by_class=tuple((label(int(each)), float(spread[each]), float(standardised[each])) for each in order),
    )


@dataclass(frozen=True, eq=False)
class Readout:
    """A model's logits: features times a head with its biases, or stored as they are."""

    values: Matrix
    head: Array | None
    bias: Array | None
    name: str

    @classmethod
    def of_features(cls, features: Matrix, head: Head) -> Readout:
        """Logits that a head reads from features."""
        rows = head.rows()
        # One vector added to every class changes no probability; without it large offsets cost no digits.
        return cls(features, rows - rows.mean(axis=0), head.bias, head.name)

    @property
    def classes(self) -> int:
        """How many classes."""
        return int(self.values.shape[1] if self.head is None else self.head.shape[0])

    def log_probabilities(self, rows: slice) -> Array:
        """The (rows, classes) logarithms of the softmax, in float64."""
        logits = np.asarray(read_rows(self.values, rows), dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused with its place
            if self.head is not None:
                logits = logits @ self.head.T
            if self.bias is not None:
                logits = logits + self.bias
            logits = logits - logits.max(axis=1, keepdims=True)
        if not np.isfinite(logits).all():
            refuse_non_finite(self.values, self.name)
            raise InputError(f"{self.name} gives logits so large that they leave float64: rescale it")
        with np.errstate(under="ignore"):
            return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class RowFigures:
    """What one pass says about each row: both divergences, total variation, agreement, the spread over classes."""

    kl: Array
    kl_reverse: Array
    total_variation: Array
    agreement: Array
    over_classes: Array

    @classmethod
    def empty(cls, n: int) -> RowFigures:
        """Room for ``n`` rows."""
        return cls(*(np.empty(n) for _ in range(5)))

    def fill(self, rows: slice, p: Array, q: Array) -> None:
        """Put in the figures of some rows, from log-probabilities."""
        apart = p - q
        with np.errstate(under="ignore"):
            first, second = np.exp(p), np.exp(q)
            self.kl[rows] = np.maximum(np.einsum("ij,ij->i", first, apart), 0.0)
            self.kl_reverse[rows] = np.maximum(-np.einsum("ij,ij->i", second, apart), 0.0)
            self.total_variation[rows] = np.abs(first - second).sum(axis=1) / 2
        self.agreement[rows] = p.argmax(axis=1) == q.argmax(axis=1)
        self.over_classes[rows] = apart.std(axis=1)


class LogOdds:
    r"""Sums over rows, unit by unit and class by class, of log-odds :math:`\psi,\psi'` and of their difference.

    From them follow, for any of the units left out, :math:`\operatorname{std}_x[\psi_y-\psi'_y]` and the
    correlation of :math:`\psi_y` with :math:`\psi'_y`. Sums are taken about the mean of the first block, so that they
    do not cancel.
    """

    def __init__(self, units: int, classes: int) -> None:
        self.counts = np.zeros(units)
        self.sums = np.zeros((units, 7, classes))
        self._about: Array | None = None

    def absorb(self, psi: Array, other: Array, units: Array) -> None:
        """Add rows with the unit of each."""
        if self._about is None:
            self._about = np.stack([psi.mean(axis=0), other.mean(axis=0), (psi - other).mean(axis=0)])
        order = np.argsort(units, kind="stable")
        here, starts, counts = np.unique(units[order], return_index=True, return_counts=True)
        self.counts[here] += counts
        a, b = psi - self._about[0], other - self._about[1]
        d = psi - other - self._about[2]
        for place, values in enumerate((a, b, d, a * a, b * b, d * d, a * b)):
            self.sums[here, place] += np.add.reduceat(values[order], starts, axis=0)

    def figures(self, counts: Array) -> tuple[Array, Array, Array]:
        """The standard deviation and mean of the difference, and the standardised distance, class by class.

        ``counts`` says how often each unit is taken.
        """
        n = float(counts @ self.counts)
        a, b, d, aa, bb, dd, ab = (counts @ self.sums.reshape(len(counts), -1)).reshape(7, -1) / n
        spread = np.sqrt(np.maximum(dd - d**2, 0.0))
        about = np.zeros_like(d) if self._about is None else self._about[2]
        va, vb = np.maximum(aa - a**2, 0.0), np.maximum(bb - b**2, 0.0)
        scale = np.sqrt(va * vb)
        rho = np.divide(ab - a * b, scale, out=np.where((va > 0) == (vb > 0), 1.0, 0.0), where=scale > 0)
        return spread, d + about, np.sqrt(np.maximum(2 - 2 * np.clip(rho, -1, 1), 0.0))


_BLOCK_CELLS = 2**26  # of all blocks' moments together: 512 MiB
_WORK = 2e11  # floating-point operations that intervals may take
_LEAST_JACKKNIFE_BLOCKS = 10


def representation_distances(
    pair: Pair, labels: Array | None, intervals: bool, rng: np.random.Generator, report: Progress
) -> RepresentationDistances | None:
    """The distances of paired features, with intervals where these can be had; None where a side does not vary."""
    widths = pair.x.shape[1], pair.y.shape[1]
    cells = widths[0] ** 2 + widths[0] * widths[1] + widths[1] ** 2
    require_memory(*widths, 1)
    block_of = blocks_of(pair.n, labels, max(_BLOCK_CELLS // cells, 1), rng)
    parts = fold_moments(
        pair.x,
        pair.y,
        block_of,
        int(block_of.max()) + 1,
        names=pair.names,
        progress=lambda done, of: report("moments", done, of),
    )
    total = merged(parts)
    if pair.n < 3 or not (np.trace(total.xx) > 0 and np.trace(total.yy) > 0):
        return None
    value = _figures(total)
    enough = len(parts) >= _LEAST_JACKKNIFE_BLOCKS and len(parts) * float(sum(widths)) ** 3 <= _WORK
    spans = _jackknifed(parts, value, report) if intervals and enough else [None] * 4
    return RepresentationDistances(*value.tolist(), *spans)  # in the order of _figures


def svd_distance(moments: Moments) -> float:
    """One minus the mean correlation of the PLS-SVD variates; not blind to linear maps, unlike CCA."""
    left, values, right = np.linalg.svd(moments.xy, full_matrices=False)
    kept = values > values[0] * 1e-12 if values[0] > 0 else np.zeros(len(values), dtype=bool)
    kept[0] = True
    x = np.einsum("ij,ij->j", left, moments.xx @ left)[kept]
    y = np.einsum("ij,ij->i", right, right @ moments.yy)[kept]
    scale = np.sqrt(x * y)
    rho = np.divide(values[kept], scale, out=np.zeros(int(kept.sum())), where=scale > 0)
    return float(1 - np.minimum(rho, 1.0).mean())


def _figures(moments: Moments) -> Array:
    pair = paired(moments)
    r2 = prepare_linear_r2(pair)
    return np.array([r2.value, r2.details["reverse"], prepare_cca(pair).value, svd_distance(moments)])


def _jackknifed(parts: Sequence[Moments], value: Array, report: Progress) -> Sequence[Interval | None]:
    """Intervals from the figures without each block; none where a side varies in one block alone."""
    left_out = []
    for block in range(len(parts)):
        rest = merged_without(parts, block)
        if rest.n < 3 or not (np.trace(rest.xx) > 0 and np.trace(rest.yy) > 0):
            return [None] * 4
        left_out.append(_figures(rest))
        report("representations", block + 1, len(parts))
    se = jackknife_se(np.array(left_out), value, np.array([part.n for part in parts]))
    most = (1.0, 1.0, 1.0, 2.0)
    return [
        t_interval(float(each), float(error), len(parts), least=0.0, most=upper)
        for each, error, upper in zip(value, se, most, strict=True)
    ]


def blocks_of(n: int, labels: Array | None, most: int, rng: np.random.Generator) -> Array:
    """The block of each row that intervals leave out together, at most so many."""
    return assign_blocks(n, labels, rng, min(most, BLOCKS if labels is None else MOST_GROUP_BLOCKS))
