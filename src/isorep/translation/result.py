"""Result of a translation: frozen records with printing, tables and JSON.

The verdict answers "can I translate instead of embedding again?" by a fixed rule; caveats list its limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import InputError
from ..files import visible
from ..pairs import Side
from ..representation import Array, RowMatch
from ..resampling import FEW_GROUPS, Interval
from ..results import MARK, ResultRecord, Verdict, aligned, counted, decimals, plain, told, wrapped
from .confidence import Calibration
from .extrapolation import StoreRecall
from .maps import Curve, Setting
from .regions import Region
from .relevance import Relevance
from .retrieval import Recall, Retrieval, Scenario
from .translator import Translator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KEPT, _SAME_NEIGHBOURS = 0.99, 0.8
_USEFUL = 0.9
_CROWDED = 0.25  # the recall of guessing from which on recall says little
_MOST_LABELS = 12


@dataclass(frozen=True)
class HeldOut:
    """Errors on the test fold; lower is closer, and 1 is no better than predicting the mean.

    ``mean`` is in mean distances of the new vectors to their mean, as in :func:`isorep.compare`, ``rms`` in their RMS
    radii. ``interval`` is for ``mean``, over the test rows; ``r2`` the share of variance explained; ``cosine`` the mean
    cosine between a translated vector and its native one. Errors are of outputs before their length is set; those of
    maps trained on rows (``cosine``, ``mlp``) are of outputs shrunk towards their mean by a factor that the selection
    fold chose, so that they compare with least squares.
    """

    mean: float
    rms: float
    r2: float
    cosine: float
    interval: Interval | None


@dataclass(frozen=True)
class MapRecord:
    """One kind of map: its setting, RMS error on the selection folds, and errors and recall on the test fold.

    ``recalls`` is by scenario.
    """

    kind: str
    setting: Setting
    selection_error: float
    held_out: HeldOut
    recalls: dict[str, Recall]


@dataclass(frozen=True)
class Translation(ResultRecord):
    """The result of :func:`isorep.translate`.

    Attributes
    ----------
    maps : dict of str to MapRecord
        Every kind that was tried: errors and recall on the test fold.
    best : str
        The map with the highest recall on a selection fold, in the chosen scenario; of several, the one of least error.
    scenario : str
        What will be translated, ``store`` or ``queries``: it decides ``best`` and ``verdict``.
    norm : float or None
        The length that translated vectors get, that of the new ones; None where lengths vary.
    retrieval : Retrieval
        Both scenarios: recall and overlap at k, compared with native vectors, untranslated vectors and chance; recall
        by the size of the store.
    curve : Curve
        The error against the number of pairs, of the best map from moments; and how many are enough, if that is kept.
    translator : Translator
        The best map; :meth:`save` writes it. From moments it is fitted to all pairs, otherwise to the training pairs.
    verdict : Verdict
        That of the scenario: ``translate``, ``with losses``, ``re-embed``, ``undecided`` or ``unrelated``.
    calibration : Calibration or None
        How predicted cosines of single vectors compare with measured ones; None with too few test rows.
    regions : tuple of Region or None
        Cosine and recall by label, where labels were given.
    relevance : Relevance or None
        nDCG and recall by the user's own judgements, where these were given.
    caveats : tuple of str
        Limits of these numbers, most important first.
    """

    schema: ClassVar[str] = "isorep.translate/3"
    page_by: ClassVar[str] = "translation.page:page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"translator"})
    maps: dict[str, MapRecord]
    best: str
    scenario: str
    norm: float | None
    retrieval: Retrieval
    curve: Curve
    translator: Translator
    old: Side
    new: Side
    pairs: dict[str, int]
    settings: dict[str, Any]
    verdict: Verdict
    calibration: Calibration | None = None
    regions: tuple[Region, ...] | None = None
    relevance: Relevance | None = None
    caveats: tuple[str, ...] = ()

    def transform(self, X: Any) -> Any:
        """Translate rows by the best map."""
        return self.translator.transform(X)

    def save(self, path: str | Path) -> None:
        """Write the best map to a safetensors file: ``isorep.Translator.load`` reads it."""
        self.translator.save(path)

    @property
    def chosen(self) -> Scenario:
        """Retrieval in the chosen scenario."""
        return self.retrieval.scenarios[self.scenario]

    def loss(self, k: int, scenario: str | None = None) -> float:
        """Loss of recall at k of the best map relative to native vectors, from 0 to 1, in the sample."""
        found = self.retrieval.scenarios[scenario or self.scenario]
        return self.retrieval.ceiling.recall[k] - found.maps[found.best].recall[k]

    def table(self, width: float | None = None) -> str:
        """The maps as text: cosine and error on held-out rows, and recall in the chosen scenario and in the other.

        The best map is marked. R² and intervals are left out where the terminal, or ``width``, has no room.
        """
        at, searched, k = self.retrieval.at, self.retrieval, headline_k(self.retrieval.at)
        other = next(name for name in searched.scenarios if name != self.scenario)
        titles = ["map", "cosine", "error", "95% interval", "R²"]
        titles += [f"{self.scenario}\n@{each}" for each in at] + [f"{other}\n@{k}"]
        rows = [tuple(titles)]
        for name, record in self.maps.items():
            held = record.held_out
            interval = f"[{decimals(held.interval.low)}, {decimals(held.interval.high)}]" if held.interval else "-"
            errors = (decimals(held.cosine, 3), decimals(held.mean), interval, decimals(held.r2, 3))
            mine, theirs = record.recalls[self.scenario].recall, record.recalls[other].recall
            rows.append((name, *errors, *(f"{mine[each]:.4f}" for each in at), f"{theirs[k]:.4f}"))
        native, (raw, other_raw) = (
            searched.ceiling.recall,
            (searched.scenarios[each].untranslated.recall for each in (self.scenario, other)),
        )
        guessed = ("guessing", searched.chance, searched.chance)
        for name, mine, theirs in (("untranslated", raw, other_raw), ("native", native, native), guessed):
            rows.append((name, "", "", "", "", *(f"{mine[each]:.4f}" for each in at), f"{theirs[k]:.4f}"))
        return aligned(rows, marked=[self.best], optional=("R²", "95% interval"), width=width)

    def size_table(self) -> str:
        """Recall of the best map in both scenarios by the size of the store, with 95% intervals, and of guessing."""
        k = headline_k(self.retrieval.at)
        rows = [("vectors", *(f"{name} translated\nrecall@{k}" for name in self.retrieval.scenarios), "guessing", "")]
        for points in zip(*(each.sizes for each in self.retrieval.scenarios.values()), strict=True):
            cells = [f"{point.recall[k]:.3f} [{point.low[k]:.3f}, {point.high[k]:.3f}]" for point in points]
            how = "measured" if points[0].measured else "estimated"
            rows.append((f"{points[0].size:,}", *cells, _percent(points[0].guessing[k]), how))
        return aligned(rows, left=(4,))

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per map: held-out error with interval, R², cosine and recall, in the chosen scenario first.

        Untranslated and native vectors and guessing follow.
        """
        rows: list[dict[str, Any]] = []
        for name, record in self.maps.items():
            held, interval = record.held_out, record.held_out.interval
            ends = {"low": interval.low if interval else None, "high": interval.high if interval else None}
            errors = {"error": held.mean, **ends, "r2": held.r2, "cosine": held.cosine}
            recalls = self._shares(record.recalls)
            rows.append({"map": name, **errors, **recalls, "best": name == self.best})
        none = dict.fromkeys(("error", "low", "high", "r2", "cosine"))
        raw = {name: each.untranslated for name, each in self.retrieval.scenarios.items()}
        native = dict.fromkeys(raw, self.retrieval.ceiling)
        guessed = dict.fromkeys(raw, Recall(self.retrieval.chance, {}))
        others = {"untranslated": raw, "native": native, "guessing": guessed}
        rows += [{"map": name, **none, **self._shares(each), "best": False} for name, each in others.items()]
        return rows

    def _shares(self, recalls: Mapping[str, Recall]) -> dict[str, float]:
        """Recall in the chosen scenario at each k, and in the other one at the k of the verdict."""
        other = next(name for name in self.retrieval.scenarios if name != self.scenario)
        k = headline_k(self.retrieval.at)
        return _recalls(recalls[self.scenario], self.retrieval.at) | {f"{other} recall@{k}": recalls[other].recall[k]}

    def plot_ladder(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The held-out error of every kind of map with its interval, the best one marked.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").
        """
        from ..report.plots import Mark, dots, span

        marks = [
            Mark(name.replace("_", "-"), each.held_out.mean, span(each.held_out.interval), strong=name == self.best)
            for name, each in self.maps.items()
        ]
        return dots(
            ax,
            marks,
            "held-out error\n(mean distances to the mean)",
            width=width,
            reference=(1.0, "no better than the mean"),
            farthest=2.0,
            value_name="held out",
            purpose="plot_ladder()",
        )

    def plot_scores(self, ax: Axes | None = None, *, k: int | None = None, width: str = "single") -> Axes:
        """Recall at k in the chosen scenario by every map, beside native and untranslated vectors; by default at 10."""
        from ..report.plots import Mark, dots

        searched, at = self.retrieval, headline_k(self.retrieval.at) if k is None else k
        if at not in searched.at:
            raise InputError(f"recall@{at} was not measured; there are {', '.join(map(str, searched.at))}")
        marks = [Mark("native", searched.ceiling.recall[at])]
        marks += [
            Mark(name.replace("_", "-"), each.recalls[self.scenario].recall[at], strong=name == self.best)
            for name, each in self.maps.items()
        ]
        marks.append(Mark("untranslated", self.chosen.untranslated.recall[at]))
        chance = (searched.chance[at], "chance")
        label = f"recall@{at} among {searched.corpus:,} vectors"
        return dots(
            ax,
            marks,
            label,
            width=width,
            limits=(0.0, 1.03),
            reference=chance,
            value_name=f"{self.scenario} translated",
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the map itself, as plain data with a versioned schema."""
        reference = plain(self.translator.reference)
        more = {
            "unit": "mean distances of the new vectors to their mean, lower is closer (rms: RMS radii); recall and "
            "overlap: shares, higher is better",
            "reference": {key: value for key, value in reference.items() if key not in ("mean", "whitener")},
            "fingerprints": self.translator.facts.get("fingerprints"),
        }
        return super().to_dict() | more

    def __str__(self) -> str:
        other = next(name for name in self.retrieval.scenarios if name != self.scenario)
        best = (
            "> marks the map that is kept: the highest recall on a selection fold, then the smallest error. Columns "
            f"{self.scenario} and {other}: recall of the query's own item where the {_translated(self.scenario)} or "
            f"the {_translated(other)}."
        )
        second = self.retrieval.scenarios[other]
        blocks = [
            f"{self.table()}\n{wrapped(best)}",
            self.size_table(),
            wrapped(f"other scenario: {second.verdict}"),
            *([] if self.relevance is None else [self._judgements()]),
            *([] if self.regions is None else [self._labels()]),
            *([] if self.calibration is None else [wrapped(f"confidence: {confidence_sentence(self.calibration)}")]),
            wrapped(f"pairs: {self.curve}"),
        ]
        return told(self.verdict, *blocks, notes=self.caveats)

    def _judgements(self) -> str:
        found = self.relevance
        assert found is not None
        rows = [("judged queries", "nDCG@10", "recall@10")]
        for name, each in found.scenarios.items():
            rows.append((f"{name} translated", f"{each.ndcg:.4f}", f"{each.recall:.4f}"))
            rows.append((f"{name} untranslated", f"{each.untranslated_ndcg:.4f}", f"{each.untranslated_recall:.4f}"))
        rows.append(("native", f"{each.native_ndcg:.4f}", f"{each.native_recall:.4f}"))
        about = (
            f"judged queries: {found.queries:,}, relevant documents of them: {found.judged:,}, among the "
            f"{found.documents:,} documents of the test fold"
        )
        return f"{aligned(rows)}\n{wrapped(about)}"

    def _labels(self) -> str:
        assert self.regions is not None
        k = headline_k(self.retrieval.at)
        rows = [("rows", "cosine", f"recall\n@{k}", "p")]
        for each in self.regions[:_MOST_LABELS]:
            recall = "-" if each.recall is None else f"{each.recall:.3f}"
            rows.append((str(each.rows), f"{each.cosine:.3f}", recall, decimals(each.p_value, 4)))
        shown = self.regions[:_MOST_LABELS]
        names = ["label", *shortened([visible(each.label) for each in self.regions])[: len(shown)]]
        marks = ["", *(MARK if each.worse else "" for each in shown)]
        blank = " " * len(MARK) if any(marks) else ""
        cells = [(f"{mark or blank}{name}", *row) for mark, name, row in zip(marks, names, rows, strict=True)]
        return f"{aligned(cells)}\n{wrapped(regions_sentence(self.regions))}"


def shortened(labels: Sequence[str], most: int = 40) -> list[str]:
    """Labels of at most so many characters, all different: their middle is left out, and a number tells the rest."""
    given, found = set(labels), list[str]()
    taken = {label for label in given if len(label) <= most}
    for label in labels:
        short, number = label, 1
        if len(label) > most:
            head = most // 2
            short = f"{label[:head]}…{label[len(label) - (most - head - 1) :]}"
            while short in taken:
                number += 1
                tail = f"… ({number})"
                short = f"{label[: most - len(tail)]}{tail}"
            taken.add(short)
        found.append(short)
    return found


def _percent(share: float) -> str:
    return "below 0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def _translated(scenario: str) -> str:
    return "store is translated" if scenario == "store" else "queries are translated"


def confidence_sentence(found: Calibration) -> str:
    """What the predicted cosine of a single vector is worth."""
    if not found.tells:
        return (
            f"the predicted cosine of a vector hardly separates held-out vectors (rank correlation "
            f"{found.correlation:.2f} with the measured one)."
        )
    return (
        f"the predicted cosine of a vector has the rank correlation {found.correlation:.2f} with the measured one; the "
        f"least confident tenth of held-out vectors has the mean cosine {found.measured[0]:.3f} (predicted "
        f"{found.predicted[0]:.3f}), the most confident {found.measured[-1]:.3f} (predicted {found.predicted[-1]:.3f})."
    )


def regions_sentence(found: tuple[Region, ...]) -> str:
    """The labels on which the map is significantly worse."""
    worse = [each for each in found if each.worse]
    if not worse:
        return "No label is significantly worse than the others (Welch's test of cosines, 5%, corrected by Holm)."
    named = ", ".join(f"{each.label} ({each.cosine:.3f} against {each.others:.3f})" for each in worse[:_MOST_LABELS])
    more = f" and {len(worse) - _MOST_LABELS} more" if len(worse) > _MOST_LABELS else ""
    return f"The map is significantly worse on {len(worse)} of {len(found)} labels, by mean cosine: {named}{more}."


def _recalls(recall: Recall, at: tuple[int, ...]) -> dict[str, float]:
    return {f"recall@{k}": recall.recall[k] for k in at}


def headline_k(at: tuple[int, ...]) -> int:
    """The number of neighbours k in the verdict: 10 where it was measured, otherwise the middle one."""
    return 10 if 10 in at else at[len(at) // 2]


def unrelated(best: MapRecord, recall: Recall, retrieval: Retrieval) -> bool:
    """Whether the best map is no better than the mean, by the upper end of its interval, nor recall than guessing."""
    upper = best.held_out.mean if best.held_out.interval is None else best.held_out.interval.high
    k = headline_k(retrieval.at)
    guessed = retrieval.chance[k]
    return not upper < 1 and recall.recall[k] <= guessed + 4 * (guessed * (1 - guessed) / retrieval.queries) ** 0.5


def is_enough(recall: float, native: float, overlap: float) -> bool:
    """Whether retrieval keeps at least 99% of the native recall, and 80% of the neighbours."""
    return native > 0 and recall / native >= _KEPT and overlap >= _SAME_NEIGHBOURS


_WHAT = {
    "store": "Native queries find their own item among the first {k} of {size:,} vectors translated by the {kind} map "
    "in {share} of cases (guessing {guess}; native store {native:.1%}, untranslated {raw:.1%}{among}) and {same:.0%} "
    "of the {k} neighbours that a native store gives them",
    "queries": "Queries translated by the {kind} map find their own item among the first {k} of {size:,} native "
    "vectors in {share} of cases (guessing {guess}; native queries {native:.1%}, untranslated {raw:.1%}{among}) and "
    "{same:.0%} of the {k} neighbours that native queries find",
}


def judge(
    old: str,
    new: str,
    scenario: str,
    best: MapRecord,
    judged: StoreRecall,
    untranslated: Recall,
    retrieval: Retrieval,
) -> Verdict:
    """By the share of native recall that is kept: at least 99%, at least 90%, or less.

    The best answer also requires at least 80% of the neighbours that native vectors give. ``judged`` is the recall at
    the size of the store, where it was named; otherwise that of the sample. If its interval spans the 90%, or if
    guessing finds more than a quarter of the items, nothing is decided.
    """
    k, recall = headline_k(retrieval.at), best.recalls[scenario]
    if unrelated(best, recall, retrieval):
        interval = best.held_out.interval
        upto = "" if interval is None else f", up to {decimals(interval.high, 3)} by its interval"
        return Verdict(
            "unrelated",
            f"As paired, the rows of {old} and {new} are not shown to be related: on held-out rows, the best map "
            f"may be no better than the mean (error {decimals(best.held_out.mean, 3)}{upto}, where 1 is the mean) "
            f"and is not shown to find items better than guessing (recall at {k}: {recall.recall[k]:.1%}, guessing "
            f"{_percent(retrieval.chance[k])}). Check that both hold the same items in the same order before you "
            "embed again.",
        )
    own, native, raw, same = judged.recall[k], retrieval.ceiling.recall[k], untranslated.recall[k], recall.overlap[k]
    there = native if judged.native is None else judged.native[k]
    kept = own / there if there > 0 else 0.0
    what = (
        f"{old} can be translated to {new}" if scenario == "store" else f"Queries of {old} can be translated to {new}"
    )
    whose = old if scenario == "store" else f"queries of {old}"
    among = f" in a store of {judged.size:,} vectors" if judged.size != retrieval.corpus else ""
    open_question = f"Whether {whose} can be translated to {new}{among} cannot be told"
    fewest = min(judged.size, retrieval.corpus)
    guess = max(judged.guessing[k], retrieval.chance[k])
    if k > _CROWDED * fewest:
        way = "name a smaller k" if fewest < retrieval.corpus else "search more held-out vectors, or name a smaller k"
        answer, words = "undecided", f"{open_question}: k = {k} is more than a quarter of {fewest:,} vectors; {way}"
    elif guess > _CROWDED:
        way = "; name a smaller k" if min(retrieval.chance.values()) <= _CROWDED else ""
        why = f"new vectors repeat, so that guessing finds {_percent(guess)}{way}"
        answer, words = "undecided", f"{open_question}: {why}"
    elif there > 0 and judged.low[k] < _USEFUL * there <= judged.high[k]:
        way = "give more pairs" if retrieval.queries == retrieval.corpus else "give more pairs or queries"
        answer, words = "undecided", f"{open_question} from {counted(retrieval.queries, 'query', 'queries')}: {way}"
    elif is_enough(own, there, same):
        answer, words = "translate", f"{what} instead of embedding again"
    elif kept >= _USEFUL:
        answer, words = "with losses", f"{what} with some loss"
    else:
        answer, words = "re-embed", f"Translating {whose} to {new} loses much: embed again where retrieval matters"
    share = f"{'' if judged.measured else 'an estimated '}{own:.1%} [{judged.low[k]:.1%}, {judged.high[k]:.1%}]"
    among = "" if judged.measured else f", both among {retrieval.corpus:,}"
    sentence = _WHAT[scenario].format(
        k=k,
        size=judged.size,
        kind=best.kind.replace("_", "-"),
        share=share,
        guess=_percent(judged.guessing[k]),
        native=native,
        raw=raw,
        among=among,
        same=same,
    )
    about = "" if judged.measured else f" in a sample of {retrieval.corpus:,}"
    return Verdict(
        answer, f"{words}. {sentence}{about}; the mean cosine with native vectors is {best.held_out.cosine:.3f}."
    )


def collect_caveats(
    old: Side,
    new: Side,
    pairs: Mapping[str, int],
    match: RowMatch,
    groups: Array | None,
    retrieval: Retrieval,
    resolved: bool,
    *,
    norm: float | None,
    normalise: bool | None,
    store_size: int | None,
) -> list[str]:
    """All that apply, most important first: sentences, each with whether it applies."""
    training, corpus = pairs["training"], retrieval.corpus
    fitted = "zero-padded" if old.columns < new.columns else "cut"
    few, widths = training < 5 * old.columns, f"{old.columns} and {new.columns}"
    n_groups = FEW_GROUPS if groups is None else int(groups.max()) + 1
    lost = f"{match.dropped_from_source} dropped from {old.name} and {match.dropped_from_target} from {new.name}"
    by_dot = retrieval.metric == "cosine" and norm is None
    said = [
        (few, f"only {training:,} training pairs for {old.columns} dimensions (fewer than 5 per dimension)"),
        (norm is not None, f"translated vectors are scaled to the length of new ones, {norm or 0:.4g}"),
        (
            by_dot and normalise is False,
            "translated vectors keep the lengths that the map gives them: recall is by cosine, and an index by dot "
            "product or Euclidean distance may rank otherwise",
        ),
        (
            by_dot and normalise is not False,
            f"the lengths of vectors of {new.name} vary, so translated ones are not normalised: recall is by cosine, "
            "and an index by dot product or Euclidean distance may rank otherwise",
        ),
        (
            store_size is None,
            f"recall is among {corpus:,} vectors and falls with the size of the store: name yours (--store-size, "
            "store_size=), and the verdict and the choice of map are for it",
        ),
        (
            store_size is not None and store_size > corpus,
            f"recall in {store_size or 0:,} vectors is extrapolated from {corpus:,}, as if the store held items like "
            "those of the pairs",
        ),
        (retrieval.queries < 200, f"recall is the mean of only {counted(retrieval.queries, 'query', 'queries')}"),
        (match.source_rows is not None, f"joined by id: {pairs['all']:,} common rows, {lost}"),
        (
            match.half_identified,
            "rows are paired by position: only one side has row ids, so the pairing is unconfirmed",
        ),
        (n_groups < FEW_GROUPS, f"only {n_groups} groups: intervals over so few are approximate"),
    ]
    for side in (old, new):
        constant = f", {side.constant_columns} of them constant columns" if side.constant_columns else ""
        vary = f"{side.rank} of {side.columns} dimensions vary ({side.columns - side.rank} do not{constant})"
        said.append((side.rank < min(side.columns, pairs["all"] - 1), f"{side.name} is rank-deficient: {vary}"))
    said += [
        (not resolved, f"linear leaves out directions of {old.name} that vary a million times less than others"),
        (old.columns != new.columns, f"widths differ: {widths}; untranslated vectors are {fitted} to be searched with"),
    ]
    return [sentence for applies, sentence in said if applies]


def left_out_caveats(
    corpus: int, *, dropped: Sequence[int], unknown: int, unjudged: bool, untried: Sequence[str]
) -> list[str]:
    """What was asked for and is not there: recall at some k, judgements, a scenario of theirs, and maps."""
    said = [
        (
            bool(dropped),
            f"recall at {', '.join(map(str, dropped))} is left out: there are only {corpus:,} held-out vectors to "
            "search",
        ),
        (
            unknown > 0,
            f"relevance judgements left out: {unknown:,}, for documents that are not among the pairs, or queries "
            "without a vector",
        ),
        (
            unjudged,
            "your judgements are measured with a translated store only: translated queries need those of the old "
            "model (--old-queries, old_queries=)",
        ),
        (bool(untried), f"{' and '.join(untried)} maps were not tried: --maps all tries every map"),
    ]
    return [sentence for applies, sentence in said if applies]
