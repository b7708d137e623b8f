"""``isorep.heads.closeness``: how close two models are in distribution, beside how close their representations are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..comparison.settings import check_seed
from ..comparison.stages import open_pair
from ..comparison.statistics import summarise
from ..errors import InputError
from ..representation import Array, Matrix
from ..resampling import Interval, jackknife_se, ratio_jackknife, t_interval
from ..rows import Progress, block_rows, blocks, no_progress
from .closeness_result import Closeness, Divergence, LogOddsDistance
from .inputs import Head, joined, open_heads
from .readout import LogOdds, Readout, RowFigures
from .representations import blocks_of, representation_distances

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
    heads: list[Head | None] = [None, None]
    if with_heads:
        heads = list(open_heads(source_head, target_head, source_bias, target_bias))
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
