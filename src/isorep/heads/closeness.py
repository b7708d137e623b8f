r"""``isorep.heads.closeness``: distances of two models in distribution and between their representations.

Log-probabilities are taken in blocks of rows, from features and heads or from logits. Distances of representations are
the share of variance that a linear map explains, the mean canonical correlation, and, after Nielsen et al. (2025),

.. math:: d_{\mathrm{SVD}}=1-\frac1r\sum_{i=1}^{r}\operatorname{corr}(f u_i,f'v_i)

with :math:`u_i,v_i` the singular vectors of the cross-covariance (PLS-SVD), all from second moments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..alignment.base import summarise
from ..errors import InputError
from ..moments import Moments, fold_moments, merged, merged_without, require_memory
from ..pairs import Pair
from ..representation import Array
from ..resampling import BLOCKS, MOST_GROUP_BLOCKS, Interval, assign_blocks, jackknife_se, ratio_jackknife, t_interval
from ..results import ARROWS, aligned
from ..rows import Progress, block_rows, blocks, no_progress
from ..settings import check_seed
from ..similarity.cca import prepare_cca, prepare_linear_r2
from ..similarity.frames import paired
from ..threads import Crew, one_blas_thread
from .families import FAMILIES, Family, family_named
from .inputs import Head, open_heads, open_rows
from .outcomes import ROW_QUANTITIES, Outcomes, Readout, noise_roots
from .result import HeadResult, Parts, few_units, interval_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLOSE_KL = 0.01  # nats: below it two distributions pass for the same
CLOSE_ODDS = 0.1  # standardised log-odds distance, a correlation of 0.995 in every class
REPRESENTATION_DISTANCES = (
    ("linear R², target from source", "linear_r2", "higher"),
    ("linear R², source from target", "linear_r2_reverse", "higher"),
    ("mean CCA", "cca", "higher"),
    ("SVD distance", "svd_distance", "lower"),
)
_MOST_CELLS = 2**24  # blocks x classes that log-odds are summed in
_LEAST_BLOCKS = 20  # for any number of classes
_CLASSES_SHOWN = 200
_BLOCK_CELLS = 2**26  # of all blocks' moments together: 512 MiB
_WORK = 2e11  # floating-point operations that intervals may take
_LEAST_JACKKNIFE_BLOCKS = 10
Quantity = tuple[str, float, Interval | None, float | None, str]


@one_blas_thread
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
    family: str = "softmax",
    precisions: Any = None,
    progress: Progress | None = None,
) -> Closeness:
    r"""Measure how close two models are in distribution, and how close their representations are.

    A small mean Kullback-Leibler divergence does not bound the distance of representations; the log-odds do
    (Nielsen et al. 2025). With :math:`\psi_y(x)=\log p(y|x)-\log p(y_0|x)` the log-odds distance is

    .. math:: d_{\mathrm{LLV}}=\max_y\operatorname{std}_x[\psi_y-\psi'_y]

    in nats. Also reported are its symmetric version :math:`\max_x\operatorname{std}_y`, the largest mean difference,
    and a standardised distance between 0 and 2, for which each log-odds is divided by its own standard deviation.

    Parameters
    ----------
    source, target : (n, M) arrays, Representations or paths
        Features of the same inputs under two models; or, without heads, their (n, K) logits.
    source_head, target_head : (K, M) arrays, Representations or paths, optional
        The embeddings of the same K classes, in the same order.
    source_bias, target_bias : (K,) arrays, optional
        Biases, added to the logits.
    reference : int, optional
        The class :math:`y_0`. Default: the mean of all classes instead of a single class.
    groups : (n,) array, optional
        Group per row; rows of a group are left out together.
    join : bool
        Keep the rows that both have, by row id. Default: no.
    intervals : bool
        Compute intervals, by a jackknife over blocks of rows (or of groups). Default: yes.
    random_state : int
        Seed of the blocks.
    family : {"softmax", "contrastive", "bernoulli", "gaussian"}
        As in :func:`diversity`. The log-odds of a label are its logit. For Gaussian outputs, means replace
        log-odds, in standard deviations of the noise.
    precisions : (K,) array, optional
        For ``gaussian``: one over the variance of each output's noise, the same in both models; default 1.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

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
    words = family_named(family)
    if reference is not None and not words.centred:
        raise InputError(f"a reference class belongs to a softmax, and the family is {family}")
    if precisions is not None and family != "gaussian":
        raise InputError(f"precisions belong to gaussian outputs, and the family is {family}")
    report = progress or no_progress
    pair, labels, note = open_rows(source, target, ("source", "target"), groups, join)
    if pair.n < 2:
        raise InputError(f"{' and '.join(pair.names)} have {pair.n} row: at least 2 are needed")
    if (source_head is None) != (target_head is None):
        raise InputError("one head was given: name both heads with features, or neither with logits")
    heads: tuple[Head | None, Head | None] = (None, None)
    if source_head is not None:
        heads = open_heads(source_head, target_head, source_bias, target_bias)
    elif source_bias is not None or target_bias is not None:
        raise InputError("logits hold their biases already: a bias goes with a head")
    readouts = (
        Readout.of(pair.x, heads[0], pair.names[0], words),
        Readout.of(pair.y, heads[1], pair.names[1], words),
    )
    classes = _common_classes(readouts, words)
    roots = noise_roots(precisions, classes)
    if reference is not None and not (isinstance(reference, int | np.integer) and 0 <= reference < classes):
        raise InputError(f"reference is {reference!r} and must be the place of one of {classes} classes, from 0 on")
    rng = np.random.default_rng(random_state)
    block_of = blocks_of(pair.n, labels, max(_LEAST_BLOCKS, _MOST_CELLS // (7 * classes)), rng)
    figures, odds = _pass(readouts, pair.n, block_of, Outcomes(words, reference, roots), report)
    distances = None if heads[0] is None else representation_distances(pair, labels, intervals, rng, report)
    label = str if heads[0] is None else heads[0].label
    worst = int(np.argmax(figures[0]))
    return Closeness(
        names=pair.names,
        rows=pair.n,
        classes=classes,
        **_divergences(figures, block_of if intervals else None, words),
        worst_row=str(worst if pair.ids is None else pair.ids[worst]),
        log_odds=_log_odds(odds, float(figures[-1].max()), intervals, label),
        representations=distances,
        settings={
            "reference": None if reference is None else int(reference),
            "groups": None if labels is None else int(labels.max()) + 1,
            "intervals": bool(intervals),
            "random_state": int(random_state),
            "joined": note,
            "family": family,
        },
    )


@dataclass(frozen=True)
class Divergence:
    """A quantity of each row: its mean with an interval, its largest value and its quantiles."""

    mean: float
    largest: float
    quantiles: dict[str, float]
    interval: Interval | None


@dataclass(frozen=True)
class LogOddsDistance:
    """The log-odds distance in nats, with the class that has it.

    ``mean_difference`` is the largest mean over rows, ``over_classes`` the largest standard deviation over classes of
    any row, ``standardised`` the distance with every log-odds at unit variance (0 to 2). ``by_class`` lists name,
    distance and standardised distance of the classes farthest apart.
    """

    value: float
    interval: Interval | None
    worst_class: str
    mean_difference: float
    over_classes: float
    standardised: float
    standardised_interval: Interval | None
    by_class: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class RepresentationDistances:
    """Linear R² of target from source and the reverse (in-sample), mean CCA, and the SVD distance.

    In-sample values grow with the width over the number of rows; their intervals are for the expected value at this
    number of rows.
    """

    linear_r2: float
    linear_r2_reverse: float
    cca: float
    svd_distance: float
    linear_r2_interval: Interval | None = None
    linear_r2_reverse_interval: Interval | None = None
    cca_interval: Interval | None = None
    svd_distance_interval: Interval | None = None


@dataclass(frozen=True)
class Closeness(HeadResult):
    """Closeness of two models on the same rows. Lower is closer, except for ``agreement`` (share of equal predictions).

    ``kl`` is KL(source ‖ target) and ``kl_reverse`` KL(target ‖ source), in nats. For labels, total variation and
    agreement are means over labels. Gaussian outputs have no agreement, and ``log_odds`` is about their means.
    """

    derived: ClassVar[tuple[str, ...]] = ("close", "misleading", "verdict")
    names: tuple[str, str]
    rows: int
    classes: int
    kl: Divergence
    kl_reverse: Divergence
    worst_row: str
    total_variation: Divergence
    agreement: Divergence | None
    log_odds: LogOddsDistance
    representations: RepresentationDistances | None
    settings: dict[str, Any]

    @property
    def close(self) -> bool:
        """Whether the models are close in the sense that bounds representations: in every class's log-odds."""
        return self.log_odds.standardised <= CLOSE_ODDS

    holds = close

    @property
    def parts(self) -> Parts:
        """One pair of models."""
        return Parts(closeness=self)

    @property
    def words(self) -> Family:
        """The words of the family."""
        return FAMILIES[self.settings["family"]]

    @property
    def distance(self) -> str:
        """The name of the distance that bounds representations."""
        return "log-odds distance" if self.words.figure == "log-odds" else f"distance of {self.words.figure}"

    @property
    def misleading(self) -> bool:
        """Whether the models are close in divergence but not in log-odds."""
        return max(self.kl.mean, self.kl_reverse.mean) <= CLOSE_KL and not self.close

    @property
    def verdict(self) -> str:
        """One sentence on both kinds of closeness."""
        kl = f"mean KL {max(self.kl.mean, self.kl_reverse.mean):.3g} nats"
        words = self.words
        odds = (
            f"{self.distance} {self.log_odds.value:.3g} {words.unit} ({words.row} {self.log_odds.worst_class}; "
            f"standardised {self.log_odds.standardised:.2f})"
        )
        features = ""
        if self.representations is not None:
            shares = sorted((self.representations.linear_r2, self.representations.linear_r2_reverse))
            features = f", and a linear map explains {shares[0]:.1%} to {shares[1]:.1%} of the features"
        if self.misleading:
            return f"Close in divergence, not in {words.figure}: {kl}, but {odds}{features}."
        if self.close:
            carried = "the closeness that carries over to representations"
            return f"Close in {words.figure}, {carried}: {odds}, {kl}{features}."
        return f"Not close in distribution: {kl}, {odds}{features}."

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of these numbers, as sentences."""
        said = [self.settings["joined"]] if self.settings.get("joined") else []
        each = self.representations
        if self.settings["intervals"]:
            if each is not None and each.cca_interval is None:
                said.append("no intervals for the distances of representations: features are too wide, or rows too few")
            said += few_units(self.rows, self.settings["groups"])
        return tuple(said)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Every number: its name, value, interval, the largest of any row, and which way is closer."""
        odds, features = self.log_odds, self.representations
        rows = {"KL(source ‖ target), nats": self.kl, "KL(target ‖ source), nats": self.kl_reverse}
        rows["total variation" + (", mean over labels" if self.words.row == "label" else "")] = self.total_variation
        told: list[Quantity] = [(name, each.mean, each.interval, each.largest, "lower") for name, each in rows.items()]
        if self.agreement is not None:
            told.append(("agreement of predictions", self.agreement.mean, self.agreement.interval, None, "higher"))
        over = "spread over" if self.words.centred else "root mean square over"
        told += [
            (f"{self.distance}, {self.words.unit}", odds.value, odds.interval, None, "lower"),
            (f"{self.distance}, standardised", odds.standardised, odds.standardised_interval, None, "lower"),
            (f"largest mean of {self.words.figure}, {self.words.unit}", odds.mean_difference, None, None, "lower"),
            (f"largest {over} {self.words.rows}, {self.words.unit}", odds.over_classes, None, None, "lower"),
        ]
        for words, name, closer in REPRESENTATION_DISTANCES if features is not None else ():
            told.append((words, getattr(features, name), getattr(features, f"{name}_interval"), None, closer))
        return tuple(told)

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """Total variation and the agreement of predictions over the rows, with their intervals, from 0 to 1.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").
        """
        from ..report.plots import Mark, dots, span

        named = {"total variation ↓": self.total_variation, "agreement": self.agreement}
        marks = [Mark(name, each.mean, span(each.interval)) for name, each in named.items() if each is not None]
        return dots(ax, marks, "mean over rows (↓: lower is closer)", width=width, limits=(0.0, 1.03))

    def table(self) -> str:
        """One line per quantity, with its interval and its direction."""
        rows = [("closeness in distribution", "value", "95% interval", "largest")]
        for name, value, interval, largest, closer in self.quantities:
            most = "" if largest is None else f"{largest:.4g}"
            rows.append((f"{name} {'↑' if closer == 'higher' else '↓'}", f"{value:.4g}", interval_text(interval), most))
        return f"{aligned(rows)}\n{ARROWS}"


def _common_classes(readouts: tuple[Readout, Readout], words: Family) -> int:
    a, b = readouts
    if a.classes != b.classes:
        counts = f"{a.name} has {a.classes} {words.rows} and {b.name} has {b.classes}"
        raise InputError(f"{counts}: heads share their {words.rows}")
    if a.classes < 2 and words.centred:
        raise InputError("there is one class: its probability is 1 whatever the features")
    return a.classes


def _pass(
    readouts: tuple[Readout, Readout], n: int, block_of: Array, outcomes: Outcomes, report: Progress
) -> tuple[Array, LogOdds]:
    """One pass over the rows of both models: the figures of each row, and the sums of log-odds."""
    classes = readouts[0].classes
    figures, odds = np.empty((len(ROW_QUANTITIES) + 1, n)), LogOdds(int(block_of.max()) + 1, classes)

    def read_out(rows: slice) -> tuple[slice, Array, Array]:
        figures[:, rows], p, q = outcomes.compared(*(each.logits(rows) for each in readouts))
        return rows, p, q

    with Crew() as crew:
        slices = blocks(n, block_rows(classes, *(each.values.shape[1] for each in readouts), cells=2**20))
        for rows, p, q in crew.stream(read_out, slices):
            odds.absorb(p, q, block_of[rows])
            report("probabilities", rows.stop, n)
    return figures, odds


def _divergences(figures: Array, block_of: Array | None, family: Family) -> dict[str, Any]:
    """The mean of every quantity of rows, with a jackknife interval where there are blocks."""
    divergences: dict[str, Any] = {}
    for (name, most), values in zip(ROW_QUANTITIES.items(), figures, strict=False):
        summary, span = summarise(values, 1.0), None
        if block_of is not None:
            sizes = np.bincount(block_of)
            se = ratio_jackknife(np.bincount(block_of, values), sizes)[1]
            span = t_interval(summary.mean, float(se), len(sizes), least=0.0, most=most)
        divergences[name] = Divergence(summary.mean, summary.sup, summary.quantiles, span)
    if family.name == "gaussian":
        divergences["agreement"] = None
    return divergences


def _log_odds(odds: LogOdds, over_classes: float, intervals: bool, label: Callable[[int], str]) -> LogOddsDistance:
    count = len(odds.counts)
    spread, mean, standardised = odds.figures(np.ones(count))
    spans: Sequence[Interval | None] = [None, None]
    if intervals:
        largest = np.array([spread.max(), standardised.max()])
        left_out = [np.array([each.max() for each in odds.figures(kept)[::2]]) for kept in 1.0 - np.eye(count)]
        spans = _jackknifed(left_out, largest, odds.counts, (np.inf, 2.0))
    order = np.argsort(-spread, kind="stable")[:_CLASSES_SHOWN].tolist()
    return LogOddsDistance(
        value=float(spread.max()),
        interval=spans[0],
        worst_class=label(order[0]),
        mean_difference=float(np.abs(mean).max()),
        over_classes=over_classes,
        standardised=float(standardised.max()),
        standardised_interval=spans[1],
        by_class=tuple((label(each), float(spread[each]), float(standardised[each])) for each in order),
    )


class LogOdds:
    r"""Sums over rows, unit by unit and class by class, of log-odds :math:`\psi,\psi'` and of their difference.

    From them follow, for any of the units left out, :math:`\operatorname{std}_x[\psi_y-\psi'_y]` and the
    correlation of :math:`\psi_y` with :math:`\psi'_y`. Sums are taken about the mean of the first block, so that they
    do not cancel.
    """

    def __init__(self, units: int, classes: int) -> None:
        self.counts = np.zeros(units)
        self.sums = np.zeros((units, 7, classes))
        self._about = np.zeros((3, classes))

    def absorb(self, psi: Array, other: Array, units: Array) -> None:
        """Add rows with the unit of each."""
        if not self.counts.any():
            self._about = np.stack([psi.mean(axis=0), other.mean(axis=0), (psi - other).mean(axis=0)])
        order = np.argsort(units, kind="stable")
        here, starts, counts = np.unique(units[order], return_index=True, return_counts=True)
        self.counts[here] += counts
        a, b = psi - self._about[0], other - self._about[1]
        d = psi - other - self._about[2]
        for index, values in enumerate((a, b, d, a * a, b * b, d * d, a * b)):
            self.sums[here, index] += np.add.reduceat(values[order], starts, axis=0)

    def figures(self, counts: Array) -> tuple[Array, Array, Array]:
        """The standard deviation and mean of the difference, and the standardised distance, class by class.

        ``counts`` is the multiplicity of each unit.
        """
        n = float(counts @ self.counts)
        a, b, d, aa, bb, dd, ab = (counts @ self.sums.reshape(len(counts), -1)).reshape(7, -1) / n
        spread = np.sqrt(np.maximum(dd - d**2, 0.0))
        va, vb = np.maximum(aa - a**2, 0.0), np.maximum(bb - b**2, 0.0)
        scale = np.sqrt(va * vb)
        rho = np.divide(ab - a * b, scale, out=np.where((va > 0) == (vb > 0), 1.0, 0.0), where=scale > 0)
        return spread, d + self._about[2], np.sqrt(np.maximum(2 - 2 * np.clip(rho, -1, 1), 0.0))


def representation_distances(
    pair: Pair, labels: Array | None, intervals: bool, rng: np.random.Generator, report: Progress
) -> RepresentationDistances | None:
    """The distances of paired features, with intervals where possible; None where a side does not vary."""
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
    spans: Sequence[Interval | None] = [None] * 4
    if intervals and enough:
        left_out: list[Array] = []
        with Crew() as crew:
            for each in crew.stream(lambda block: _without(parts, block.start), blocks(len(parts), 1)):
                if each is None:
                    break
                left_out.append(each)
                report("representations", len(left_out), len(parts))
        if len(left_out) == len(parts):
            spans = _jackknifed(left_out, value, [part.n for part in parts], (1.0, 1.0, 1.0, 2.0))
    return RepresentationDistances(*value.tolist(), *spans)  # in the order of _figures


def _without(parts: Sequence[Moments], block: int) -> Array | None:
    """The distances without a block; None if a side varies in that block alone."""
    rest = merged_without(parts, block)
    if rest.n < 3 or not (np.trace(rest.xx) > 0 and np.trace(rest.yy) > 0):
        return None
    return _figures(rest)


def svd_distance(moments: Moments) -> float:
    """One minus the mean correlation of the PLS-SVD variates; not invariant to linear maps, unlike CCA."""
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


def _jackknifed(
    left_out: Sequence[Array], value: Array, sizes: Sequence[int] | Array, most: Sequence[float]
) -> list[Interval]:
    """Intervals of several figures from those without each block."""
    se = jackknife_se(np.array(left_out), value, np.asarray(sizes))
    return [
        t_interval(float(each), float(error), len(sizes), least=0.0, most=upper)
        for each, error, upper in zip(value, se, most, strict=True)
    ]


def blocks_of(n: int, labels: Array | None, most: int, rng: np.random.Generator) -> Array:
    """The jackknife block of each row, at most ``most`` blocks."""
    return assign_blocks(n, labels, rng, min(most, BLOCKS if labels is None else MOST_GROUP_BLOCKS))
