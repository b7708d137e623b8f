"""Result of scoring against factors, as small frozen records that print, tabulate and serialise themselves.

From numbers to words: which factor has a latent of its own, which are mixed, split or lost.
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
from ..results import Record, ResultRecord, Verdict, aligned, plain
from .columns import Pair
from .families import ALPHA, SCORES
from .infomec import plot_information

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 2 / 3
"""A latent is a factor's own if it holds this share of what latents know about it, and knows little else."""
STATES = {
    "undecided": "mostly in one latent, but random axes may give as much",
    "split": "split over several latents",
    "mixed": "in a latent with other factors",
    "mixed and split": "split over latents with other factors in them",
    "spread": "in no single latent above chance, but in all together",
    "inactive": "only in latents that hardly vary",
    "lost": "in no latent above chance",
}
UNKNOWN = ("untested", "spread", "inactive", "lost", "constant")
"""States of factors that no active latent informs about above chance, as far as is known."""
_NAMED = 4
LOWEST = -0.5  # score from which on an axis is drawn, where some are negative


@dataclass(frozen=True)
class Score(Record):
    """One score: higher is better, 1 is best.

    ``value`` is that of all rows and ``interval`` says how far it moves on other rows. ``chance`` is what shuffled rows
    give; ``chance.observed`` is the score of the very rows that were shuffled, which its p-value compares with them.
    ``axes`` is what random axes give, for scores that claim something about axes; ``axes.observed`` is the score of the
    whitened latents that were turned.
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

        None without a null or where chance is the best.
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

    ``chance`` is what the best latent of a factor exceeds in 5 % of shuffles, and ``significant`` says which cells are
    above it, in the rows that were shuffled; both are None where shuffles are too few to tell.
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
        What each latent is about.
    verdict : Verdict
        Its answer is ``recovered``, ``partly``, ``not recovered`` or ``not asked``.
    ladder : Comparison or None
        Up to which group latents equal the factors.
    records : dict of str to object
        The complete result of each family, such as ``records["dci"].importances``.
    columns : dict
        Of ``factors`` and ``latents``: which are discrete, and by which rule.
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

    def table(self) -> str:
        """One line per score: its value, interval, what shuffled rows give, and the score corrected for that."""
        rows = [("score", "value", "95 % interval", "chance (shuffled rows)", "95 % of it", "corrected", "p")]
        for score in self.scores.values():
            span = "-" if score.interval is None else f"{score.interval.low:.3f} to {score.interval.high:.3f}"
            rows.append((score.name, f"{score.value:.4f}", span, *_cells(score.chance, score.corrected)))
        return aligned(rows)

    def axes_table(self) -> str:
        """One line per score that claims aligned axes: that of the whitened latents, and what random axes give."""
        rows = [("score", "whitened", "chance (random axes)", "95 % of it", "corrected", "p")]
        for score in self.scores.values():
            if score.axes is not None:
                rows.append((score.name, f"{score.axes.observed:.4f}", *_cells(score.axes, score.axes_corrected)))
        return aligned(rows)

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per score: value, interval, what shuffled rows give (mean and 95th percentile), corrected, p."""
        return [
            {
                "score": score.name,
                "value": score.value,
                "low": score.interval.low if score.interval else None,
                "high": score.interval.high if score.interval else None,
                "chance": score.chance.mean if score.chance else None,
                "chance_95th_percentile": score.chance.high if score.chance else None,
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

    def factor_table(self) -> str:
        """One line a factor: what became of it, its latent, and by how much."""
        rows = [("factor", "state", "latent", "NMI", "share", "purity", "p (random axes)", "explicitness")]
        for each in self.factors:
            explicit = "-" if each.explicitness is None else f"{each.explicitness:.3f}"
            p = "-" if each.axes_p is None else f"{each.axes_p:.2g}"
            numbers = (f"{each.nmi:.3f}", f"{each.share:.2f}", f"{each.purity:.2f}", p, explicit)
            rows.append((each.name, each.state, each.latent or "-", *numbers))
        return aligned(rows, left=(0, 1, 2))

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
        parts = [self.table()]
        if any(score.axes is not None for score in self.scores.values()):
            parts += ["", self.axes_table()]
        if self.factors:
            parts += ["", self.factor_table()]
        parts += ["", f"verdict: {self.verdict}"]
        if self.ladder is not None:
            parts.append(f"ladder: {self.ladder.verdict}")
        parts += [f"note: {caveat}" for caveat in self.caveats]
        return "\n".join(parts)


@dataclass(frozen=True)
class FactorReading:
    """What became of a factor.

    ``state`` is ``captured``, ``undecided``, ``split``, ``mixed``, ``mixed and split``, ``spread``, ``inactive``,
    ``lost``, ``constant`` or, without enough shuffles, ``untested``. ``latent`` knows most about it (``nmi``),
    ``share`` of what all latents know together, and ``purity`` is the share that this factor has in what the latent
    knows; ``chance`` is what the best latent exceeds in 5 % of shuffles. ``axes_p`` is the p-value of the factor's
    having a latent of its own, against random axes; None where there are none.
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
    """What a latent is about: ``pure``, ``undecided``, ``mixed``, ``uninformative``, ``inactive`` or ``untested``."""

    name: str
    state: str
    factor: str | None
    nmi: float
    purity: float
    factors: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What readings rest on: the information of all rows, which of it is above chance, and p-values by factor.

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
        """Whether a factor's having a latent of its own is more than random axes give, or cannot be asked."""
        return self.axes.get(factor, 0.0) <= ALPHA


def read_factors(pair: Pair, evidence: Evidence) -> tuple[FactorReading, ...]:
    """What became of every factor; only information above chance counts."""
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
    """The state of a factor and what is said of it; ``idle`` latents inform about it, but hardly vary."""
    shares = f"share {reading.share:.2f}, purity {reading.purity:.2f}"
    split, mixed = reading.share < MOST, reading.purity < MOST
    if constant:
        return "constant", "constant"
    if evidence.significant is None:
        return "untested", "not tested: shuffles are too few to know chance"
    if not reading.latents and idle:
        return "inactive", f"known only by latents that hardly vary: {_listed(idle)}"
    if not reading.latents and evidence.explicit.get(reading.name, 1.0) <= ALPHA:
        together = f"all together explain it (explicitness {reading.explicitness or 0.0:.2f})"
        return "spread", f"in no single latent above chance, but {together}"
    if not reading.latents:
        return "lost", "lost: no latent informs about it above chance, nor do all together by a linear map"
    if split and mixed:
        over = (
            f"split over {_listed(reading.latents)}, where {_listed(beside)} {'is' if len(beside) == 1 else 'are'} too"
        )
        return "mixed and split", over
    if split:
        return "split", f"split over {_listed(reading.latents)}"
    if mixed:
        return "mixed", f"in {reading.latent} together with {_listed(beside)}"
    if not evidence.aligned(reading.name):
        return (
            "undecided",
            f"mostly in {reading.latent} ({shares}), but random axes may give as much (p {reading.axes_p:.2g})",
        )
    return "captured", f"captured by {reading.latent} ({shares})"


def read_latents(pair: Pair, evidence: Evidence) -> tuple[LatentReading, ...]:
    """What every latent is about."""
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
        return Verdict("not asked", "Shuffles are too few to know chance, so nothing is said about single factors.")
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
    """Where no factor is captured: the information beside shuffled rows, and the axes beside random ones."""
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
        return [f"{there}, but their axes are arbitrary as far as can be told: whitened, {numbers}"]
    return [f"{there}; whitened, {numbers}"]


def _corrected(null: Null | None) -> float | None:
    if null is None or not null.mean < 1 - 1e-12:
        return None
    return (null.observed - null.mean) / (1 - null.mean)


def _cells(null: Null | None, corrected: float | None) -> tuple[str, str, str, str]:
    """Mean, 95 % point, corrected value and p-value as they are printed."""
    if null is None:
        return ("-", "-", "-", "-")
    return f"{null.mean:.3f}", f"{null.high:.3f}", "-" if corrected is None else f"{corrected:.3f}", null.p_text


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:_NAMED])
    return ", ".join(shown) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
