"""Result of scoring against factors: frozen records with printing, tables and JSON.

Readings in words: which factors have a latent of their own, and which are mixed, split or lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..comparison import Comparison
from ..errors import InputError
from ..representation import Array
from ..resampling import Interval, Null
from ..results import Record, ResultRecord, Verdict, aligned, decimals, plain, told, wrapped
from .columns import Pair
from .families import ALPHA, SCORES
from .infomec import plot_information

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 2 / 3
"""Smallest share and purity of a factor's own latent."""
STATES = {
    "undecided": "mostly in one latent, but not significantly more than in random axes",
    "split": "split across several latents",
    "mixed": "in a latent with other factors",
    "mixed and split": "split across latents that are shared with other factors",
    "spread": "not in any single latent above chance, but in all together",
    "inactive": "only in latents that hardly vary",
    "lost": "not in any latent above chance",
}
UNKNOWN = ("untested", "spread", "inactive", "lost", "constant")
"""States of factors without information above chance in any active latent."""
_NAMED = 4
LOWEST = -0.5  # score from which on an axis is drawn, where some are negative


@dataclass(frozen=True)
class Score(Record):
    """One score: higher is better, 1 is best.

    ``value`` is the score of all rows and ``interval`` its 95% interval. ``chance`` is the null of shuffled rows;
    ``chance.observed`` is the score of the rows that were shuffled, with which its p-value is computed. ``axes`` is the
    null of random axes, for scores that claim aligned axes; ``axes.observed`` is the score of the whitened latents
    before rotation.
    """

    derived: ClassVar[tuple[str, ...]] = ("corrected", "axes_corrected")
    name: str
    value: float
    interval: Interval | None = None
    chance: Null | None = None
    axes: Null | None = None

    @property
    def corrected(self) -> float | None:
        """The score on a scale from chance (0) to the best (1), both of the rows that were shuffled.

        None without a null or where chance is already the best value.
        """
        return _corrected(self.chance)

    @property
    def axes_corrected(self) -> float | None:
        """The whitened latents' score on a scale from random axes (0) to the best (1)."""
        return _corrected(self.axes)

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, eq=False)
class Information(Record):
    """Normalised mutual information, factors by latents.

    ``chance`` is the level that the best latent of a factor exceeds in 5% of shuffles, and ``significant`` marks the
    cells above it, in the rows that were shuffled; both are None with too few shuffles.
    """

    nmi: Array
    active: Array
    chance: Array | None
    significant: Array | None
    factors: tuple[str, ...]
    latents: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FactorScores(ResultRecord):
    """The result of :func:`isorep.score_factors`.

    Attributes
    ----------
    scores : dict of str to Score
        Every score with its interval and its chance levels; also as ``result["infom"]``.
    information : Information or None
        The matrix of normalised mutual information behind InfoMEC.
    factors : tuple of FactorReading
        Which factors are captured, undecided, mixed, split or lost, and in which latents.
    latents : tuple of LatentReading
        The factors that each latent informs about.
    verdict : Verdict
        The answer is ``recovered``, ``partly``, ``not recovered`` or ``not asked``.
    ladder : Comparison or None
        The ladder from latents to factors: up to which group of maps they agree.
    records : dict of str to object
        The complete result of each family, such as ``records["dci"].importances``.
    columns : dict
        Kinds of the ``factors`` and ``latents``: which are discrete, and by which rule.
    caveats : tuple of str
    """

    schema: ClassVar[str] = "isorep.structure/2"
    page_by: ClassVar[str] = "structure.page:page"
    scores: dict[str, Score]
    information: Information | None
    factors: tuple[FactorReading, ...]
    latents: tuple[LatentReading, ...]
    verdict: Verdict
    names: tuple[str, str]
    rows: int
    columns: dict[str, Any]
    settings: dict[str, Any]
    ladder: Comparison | None = None
    records: dict[str, Any] = field(default_factory=dict, repr=False)
    seconds: dict[str, float] = field(default_factory=dict, repr=False)
    caveats: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Score:
        return self.scores[name]

    def table(self, width: float | None = None) -> str:
        """One line per score: its value, interval, what shuffled rows give, and the score corrected for that.

        "chance, 95% range" reaches from the 2.5th to the 97.5th percentile of shuffles. The corrected
        score is left out where the terminal, or ``width``, has no room.
        """
        rows = [("score", "value", "95% interval", *CHANCE)]
        for score in self.scores.values():
            span = "-" if score.interval is None else _span(score.interval.low, score.interval.high)
            rows.append((score.name, decimals(score.value), span, *_cells(score.chance, score.corrected)))
        return aligned(rows, optional=("corrected",), width=width)

    def axes_table(self, width: float | None = None) -> str:
        """One line per score that claims aligned axes: that of the whitened latents, and what random axes give."""
        rows = [("score", "value,\nwhitened", *CHANCE)]
        for score in self.scores.values():
            if score.axes is not None:
                rows.append((score.name, decimals(score.axes.observed), *_cells(score.axes, score.axes_corrected)))
        return aligned(rows, optional=("corrected",), width=width)

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per score: value, interval, what shuffled rows give (mean and 95% range), corrected, p."""
        return [
            {
                "score": score.name,
                "value": score.value,
                "low": score.interval.low if score.interval else None,
                "high": score.interval.high if score.interval else None,
                "chance": score.chance.mean if score.chance else None,
                "chance_low": score.chance.range_95[0] if score.chance else None,
                "chance_high": score.chance.range_95[1] if score.chance else None,
                "corrected": score.corrected,
                "p_value": score.chance.p_value if score.chance else None,
            }
            for score in self.scores.values()
        ]

    def panels(self) -> list[str]:
        """Those of what was asked for."""
        there = {"plot_ladder": self.ladder, "plot_matrix": self.information, "plot_scores": self.scores or None}
        return [name for name in super().panels() if there[name] is not None]

    def plot_ladder(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The ladder of the latents onto the standardised factors; see :meth:`isorep.Comparison.plot_ladder`."""
        if self.ladder is None:
            raise InputError("there is no ladder to draw: it was not asked for, or there were too few columns for it")
        return self.ladder.plot_ladder(ax, width=width)

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """Every score with its interval and what shuffled rows give.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").

        Examples
        --------
        >>> import numpy as np, isorep
        >>> from matplotlib.figure import Figure
        >>> Z = np.random.default_rng(0).uniform(size=(200, 2))
        >>> found = isorep.score_factors(Z, Z, scores=["mcc"], n_null=5, ladder=False)
        >>> found.plot_scores(ax=Figure().subplots()).get_xlabel()
        'score (1 is best)'
        """
        from ..report.plots import Mark, dots, middle, span

        marks = [
            Mark(
                SCORES[score.name][0],
                score.value,
                span(score.interval),
                None if score.chance is None else score.chance.mean,
                middle(score.chance),
            )
            for score in self.scores.values()
        ]
        lowest = min((x for mark in marks for x in mark.known), default=0.0)
        limits = (max(LOWEST, lowest) if lowest < 0 else 0.0, 1.03)
        return dots(ax, marks, "score (1 is best)", width=width, limits=limits, value_name="score")

    def plot_matrix(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """Normalised mutual information, factors by latents."""
        known = self.information
        if known is None:
            raise InputError("there is no mutual information to draw: no score that was asked for takes it")
        return plot_information(ax, known.nmi, known.factors, known.latents, width)

    def factor_table(self, width: float | None = None) -> str:
        """One line per factor: what became of it, its latent, and by how much."""
        rows = [("factor", "state", "latent", "NMI", "share", "purity", "p (random\naxes)", "explicit-\nness")]
        for each in self.factors:
            explicit = "-" if each.explicitness is None else f"{each.explicitness:.3f}"
            p = "-" if each.axes_p is None else f"{each.axes_p:.2g}"
            numbers = (decimals(each.nmi, 3), f"{each.share:.2f}", f"{each.purity:.2f}", p, explicit)
            rows.append((each.name, each.state, each.latent or "-", *numbers))
        return aligned(rows, left=(0, 1, 2), width=width)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        more = {
            "names": {"latents": self.names[0], "factors": self.names[1]},
            "unit": "scores run to 1, higher is better; mutual information over the entropy of the factor",
        }
        if self.ladder is not None:
            more["ladder"] = {
                "verdict": plain(self.ladder.verdict),
                "unit": "mean distances of the standardised factors to their mean, lower is closer",
                "rungs": plain(self.ladder.rungs),
                "caveats": list(self.ladder.caveats),
            }
        return super().to_dict() | more

    def __str__(self) -> str:
        parts = [wrapped(f"Scores against shuffled rows; {HIGHER}") + f"\n{self.table()}"]
        if any(score.axes is not None for score in self.scores.values()):
            parts.append(
                wrapped(f"Scores of whitened latents against random axes; {HIGHER}") + f"\n{self.axes_table()}"
            )
        if self.factors:
            parts.append(self.factor_table())
        if self.ladder is not None:
            parts.append(wrapped(f"ladder: {self.ladder.verdict}"))
        return told(self.verdict, *parts, notes=self.caveats)


@dataclass(frozen=True)
class FactorReading:
    """State of a factor in the latents.

    ``state`` is ``captured``, ``undecided``, ``split``, ``mixed``, ``mixed and split``, ``spread``, ``inactive``,
    ``lost``, ``constant`` or, without enough shuffles, ``untested``. ``latent`` is the most informative one: ``nmi`` is
    its information, ``share`` that as a share of all latents' information about the factor, and ``purity`` the factor's
    share of the latent's information. ``chance`` is the level that the best latent exceeds in 5% of shuffles.
    ``axes_p`` is the p-value of the factor's having a latent of its own, against random axes; None without that null.
    """

    name: str
    state: str
    latent: str | None
    nmi: float
    chance: float | None
    share: float
    purity: float
    latents: tuple[str, ...]
    explicitness: float | None
    sentence: str
    axes_p: float | None = None


@dataclass(frozen=True)
class LatentReading:
    """State of a latent: ``pure``, ``undecided``, ``mixed``, ``uninformative``, ``inactive`` or ``untested``."""

    name: str
    state: str
    factor: str | None
    nmi: float
    purity: float
    factors: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Input of the readings: the information of all rows, which of it is above chance, and p-values by factor.

    ``significant`` and ``chance`` are None where shuffles are too few. ``explicit`` are the p-values of the factors'
    explicitness, ``axes`` those of their having a latent of their own against random axes.
    """

    nmi: Array
    active: Array
    explicitness: dict[str, float]
    significant: Array | None
    chance: Array | None
    explicit: dict[str, float]
    axes: dict[str, float]

    @property
    def known(self) -> Array:
        """The information that counts: above chance, in active latents."""
        counts = np.ones_like(self.nmi, dtype=bool) if self.significant is None else self.significant
        return np.where(counts & self.active, self.nmi, 0.0)

    def aligned(self, factor: str) -> bool:
        """Whether a factor has a latent of its own beyond random axes, or this cannot be tested."""
        return self.axes.get(factor, 0.0) <= ALPHA


def read_factors(pair: Pair, evidence: Evidence) -> tuple[FactorReading, ...]:
    """The state of every factor; only information above chance counts."""
    known, factors = evidence.known, []
    for index, factor in enumerate(pair.factors):
        row = known[index]
        best = int(row.argmax()) if row.max() > 0 else int(evidence.nmi[index].argmax())
        holders = tuple(pair.latents.names[j] for j in np.argsort(-row, kind="stable") if row[j] > 0)
        others = [i for i in np.argsort(-known[:, best], kind="stable") if known[i, best] > 0 and i != index]
        reading = FactorReading(
            name=factor.name,
            state="",
            latent=pair.latents.names[best] if holders else None,
            nmi=float(evidence.nmi[index, best]),
            chance=None if evidence.chance is None else float(evidence.chance[index]),
            share=float(row[best] / row.sum()) if holders else 0.0,
            purity=float(row[best] / known[:, best].sum()) if holders else 0.0,
            latents=holders,
            explicitness=evidence.explicitness.get(factor.name),
            sentence="",
            axes_p=evidence.axes.get(factor.name),
        )
        beside = [pair.factors.names[i] for i in others]
        state, said = _said(reading, factor.constant, _idle(pair, evidence, index), beside, evidence)
        factors.append(replace(reading, state=state, sentence=f"{factor.name} is {said}"))
    return tuple(factors)


def _idle(pair: Pair, evidence: Evidence, index: int) -> list[str]:
    """The latents that inform about a factor above chance, but hardly vary."""
    if evidence.significant is None:
        return []
    return [pair.latents.names[j] for j in np.flatnonzero(evidence.significant[index] & ~evidence.active)]


def _said(
    reading: FactorReading, constant: bool, idle: Sequence[str], beside: Sequence[str], evidence: Evidence
) -> tuple[str, str]:
    """The state of a factor and its sentence; ``idle`` latents inform about it, but hardly vary."""
    shares = f"share {reading.share:.2f}, purity {reading.purity:.2f}"
    split, mixed = reading.share < MOST, reading.purity < MOST
    if constant:
        return "constant", "constant"
    if evidence.significant is None:
        return "untested", "not tested: too few shuffles to estimate chance"
    if not reading.latents and idle:
        return "inactive", f"only in latents that hardly vary: {_listed(idle)}"
    if not reading.latents and evidence.explicit.get(reading.name, 1.0) <= ALPHA:
        together = f"all together explain it (explicitness {reading.explicitness or 0.0:.2f})"
        return "spread", f"not in any single latent above chance, but {together}"
    if not reading.latents:
        return "lost", "lost: no latent informs about it above chance, nor do all together by a linear map"
    if split and mixed:
        return "mixed and split", f"split across {_listed(reading.latents)}, which also hold {_listed(beside)}"
    if split:
        return "split", f"split across {_listed(reading.latents)}"
    if mixed:
        return "mixed", f"in {reading.latent} together with {_listed(beside)}"
    if not evidence.aligned(reading.name):
        return (
            "undecided",
            f"mostly in {reading.latent} ({shares}), not significantly more than in random axes "
            f"(p {reading.axes_p:.2g})",
        )
    return "captured", f"captured by {reading.latent} ({shares})"


def read_latents(pair: Pair, evidence: Evidence) -> tuple[LatentReading, ...]:
    """The state of every latent."""
    known, latents = evidence.known, []
    for index, name in enumerate(pair.latents.names):
        column = known[:, index]
        best = int(column.argmax()) if column.max() > 0 else int(evidence.nmi[:, index].argmax())
        about = tuple(pair.factors.names[i] for i in np.argsort(-column, kind="stable") if column[i] > 0)
        purity = float(column[best] / column.sum()) if about else 0.0
        factor = pair.factors.names[best] if about else None
        if not evidence.active[index]:
            state = "inactive"
        elif evidence.significant is None:
            state = "untested"
        elif factor is None:
            state = "uninformative"
        else:
            state = "mixed" if purity < MOST else "pure" if evidence.aligned(factor) else "undecided"
        latents.append(LatentReading(name, state, factor, float(evidence.nmi[best, index]), purity, about))
    return tuple(latents)


def judge(factors: Sequence[FactorReading], scores: Mapping[str, Score] | None = None) -> Verdict:
    """All factors captured, some, or none; and if none is, whether the axes are better than random ones."""
    asked = [each for each in factors if each.state != "constant"]
    if not asked:
        return Verdict("not recovered", "No factor varies, so there is nothing to recover.")
    if any(each.state == "untested" for each in asked):
        return Verdict("not asked", "Too few shuffles to estimate chance, so single factors are not judged.")
    captured = [f"{each.name} {each.latent}" for each in asked if each.state == "captured"]
    answer = "recovered" if len(captured) == len(asked) else "partly" if captured else "not recovered"
    if len(asked) == 1:
        opening = f"The factor {'has' if captured else 'is not shown to have'} a latent of its own"
    elif answer == "recovered":
        opening = f"All {len(asked)} factors have a latent of their own"
    elif answer == "partly":
        have = "has a latent of its own" if len(captured) == 1 else "have a latent of their own"
        opening = f"{len(captured)} of {len(asked)} factors {have}"
    else:
        opening = f"None of {len(asked)} factors is shown to have a latent of its own"
    said = [f"{opening} ({_listed(captured)})" if captured else opening]
    if not captured and any(each.state not in UNKNOWN for each in asked):
        said += _axes(asked, scores or {})
    for state, words in STATES.items():
        names = [each.name for each in asked if each.state == state]
        if names:
            said.append(f"{words}: {_listed(names)}")
    return Verdict(answer, "; ".join(said) + ".")


def _axes(asked: Sequence[FactorReading], scores: Mapping[str, Score]) -> list[str]:
    """Where no factor is captured: the information compared with shuffled rows, and the axes with random ones."""
    nulls = {words: scores[name].axes for name, words in (("infom", "InfoM"), ("infoc", "InfoC")) if name in scores}
    shown = {words: null for words, null in nulls.items() if null is not None}
    if not shown:
        return []
    numbers = ", ".join(
        f"{words} {null.observed:.2f} against {null.mean:.2f} in random axes (p {null.p_text})"
        for words, null in shown.items()
    )
    informed = sum(each.state not in UNKNOWN for each in asked)
    whole = scores["infoe"].chance if "infoe" in scores else None
    linear = f" (InfoE {whole.observed:.2f} against {whole.mean:.2f} in shuffled rows)" if whole is not None else ""
    there = f"latents inform about {informed} of {len(asked)} factors{linear}"
    arbitrary = all(null.p_value > ALPHA for null in shown.values()) and all(
        each.axes_p is None or each.axes_p > ALPHA for each in asked
    )
    if arbitrary:
        return [f"{there}, but their axes are indistinguishable from random axes: whitened, {numbers}"]
    return [f"{there}; whitened, {numbers}"]


def _corrected(null: Null | None) -> float | None:
    if null is None or not null.mean < 1 - 1e-12:
        return None
    return (null.observed - null.mean) / (1 - null.mean)


def _cells(null: Null | None, corrected: float | None) -> tuple[str, str, str, str]:
    """Mean, 95% range, corrected value and p-value as they are printed, under the titles in ``CHANCE``."""
    if null is None:
        return ("-", "-", "-", "-")
    return decimals(null.mean, 3), _span(*null.range_95), decimals(corrected, 3), null.p_text


CHANCE = ("chance", "chance,\n95% range", "corrected", "p")
HIGHER = "higher is better, 1 is best"


def _span(low: float, high: float) -> str:
    return f"{decimals(low, 3)} to {decimals(high, 3)}"


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:_NAMED])
    return ", ".join(shown) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
