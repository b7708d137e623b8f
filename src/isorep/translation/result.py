"""Result of a translation: frozen records with printing, tables and JSON.

The verdict answers "can I translate instead of embedding again?" by a fixed rule; caveats list its limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import InputError
from ..pairs import Side
from ..representation import Array, RowMatch
from ..resampling import FEW_GROUPS, Interval
from ..results import ResultRecord, Verdict, aligned, decimals, plain, told, wrapped
from .maps import Curve, Setting
from .retrieval import Recall, Retrieval
from .translator import Translator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KEPT, _SAME_NEIGHBOURS = 0.99, 0.8
_USEFUL = 0.9


@dataclass(frozen=True)
class HeldOut:
    """Errors on the test fold; lower is closer, and 1 is no better than predicting the mean.

    ``mean`` is in mean distances of the new vectors to their mean, as in :func:`isorep.compare`, ``rms`` in their RMS
    radii. ``interval`` is for ``mean``, over the test rows; ``r2`` the share of variance explained; ``cosine`` the mean
    cosine between a translated vector and its native one.
    """

    mean: float
    rms: float
    r2: float
    cosine: float
    interval: Interval | None


@dataclass(frozen=True)
class MapRecord:
    """One kind of map: its setting, the RMS error it was selected by, and its errors on the test fold."""

    kind: str
    setting: Setting
    selection_error: float
    held_out: HeldOut
    recall: Recall


@dataclass(frozen=True)
class Translation(ResultRecord):
    """The result of :func:`isorep.translate`.

    Attributes
    ----------
    maps : dict of str to MapRecord
        ``rigid``, ``linear``, ``ridge``, ``low_rank``: errors and recall on the test fold.
    best : str
        The map of least error on the selection folds; the test fold is not used.
    retrieval : Retrieval
        Recall and overlap at k, compared with native vectors, untranslated vectors and chance.
    curve : Curve
        The error of the best map against the number of pairs, and how many are enough.
    translator : Translator
        The best map, fitted to all pairs; :meth:`save` writes it.
    verdict : Verdict
        The answer is ``translate``, ``with losses``, ``re-embed`` or ``unrelated``.
    caveats : tuple of str
        Limits of these numbers, most important first.
    """

    schema: ClassVar[str] = "isorep.translate/2"
    page_by: ClassVar[str] = "translation.page:page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"translator"})
    maps: dict[str, MapRecord]
    best: str
    retrieval: Retrieval
    curve: Curve
    translator: Translator
    old: Side
    new: Side
    pairs: dict[str, int]
    settings: dict[str, Any]
    verdict: Verdict
    caveats: tuple[str, ...] = ()

    def transform(self, X: Any) -> Any:
        """Translate rows by the best map."""
        return self.translator.transform(X)

    def save(self, path: str | Path) -> None:
        """Write the best map to a safetensors file: ``isorep.Translator.load`` reads it."""
        self.translator.save(path)

    def loss(self, k: int) -> float:
        """Loss of recall at k of translated queries relative to native ones, from 0 to 1."""
        return self.retrieval.ceiling.recall[k] - self.maps[self.best].recall.recall[k]

    def table(self, width: float | None = None) -> str:
        """The maps as text: held-out error, R², cosine and recall of translated queries; then floor and ceiling.

        The best map is marked. The cosine is left out where the terminal, or ``width``, has no room.
        """
        at, searched = self.retrieval.at, self.retrieval
        rows = [("map", "held-out\nerror", "95% interval", "R²", "cosine", *(f"recall\n@{k}" for k in at))]
        for name, record in self.maps.items():
            held = record.held_out
            interval = f"[{held.interval.low:.4f}, {held.interval.high:.4f}]" if held.interval else "-"
            errors = (decimals(held.mean), interval, decimals(held.r2, 3), decimals(held.cosine, 3))
            shares = (f"{record.recall.recall[k]:.4f}" for k in at)
            rows.append((name, *errors, *shares))
        others = {"untranslated": searched.floor, "native": searched.ceiling, "store translated": searched.store}
        rows += [(name, "", "", "", "", *(f"{each.recall[k]:.4f}" for k in at)) for name, each in others.items()]
        return aligned(rows, marked=[self.best], optional=("cosine",), width=width)

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per map: held-out error with interval, R², cosine, recall; then untranslated and native vectors."""
        rows: list[dict[str, Any]] = []
        for name, record in self.maps.items():
            held, interval = record.held_out, record.held_out.interval
            ends = {"low": interval.low if interval else None, "high": interval.high if interval else None}
            errors = {"error": held.mean, **ends, "r2": held.r2, "cosine": held.cosine}
            rows.append(
                {"map": name, **errors, **_recalls(record.recall, self.retrieval.at), "best": name == self.best}
            )
        none = dict.fromkeys(("error", "low", "high", "r2", "cosine"))
        searched = self.retrieval
        others = {"untranslated": searched.floor, "native": searched.ceiling, "store translated": searched.store}
        rows += [{"map": name, **none, **_recalls(each, searched.at), "best": False} for name, each in others.items()]
        return rows

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
        """Recall at k of queries translated by every map, beside native and untranslated ones; 10 where measured."""
        from ..report.plots import Mark, dots

        searched, at = self.retrieval, headline_k(self.retrieval.at) if k is None else k
        if at not in searched.at:
            raise InputError(f"recall@{at} was not measured; there are {', '.join(map(str, searched.at))}")
        marks = [Mark("native", searched.ceiling.recall[at])]
        marks += [
            Mark(name.replace("_", "-"), each.recall.recall[at], strong=name == self.best)
            for name, each in self.maps.items()
        ]
        marks.append(Mark("untranslated", searched.floor.recall[at]))
        chance = (searched.chance[at], "chance")
        label = f"recall@{at} among {searched.corpus:,} vectors"
        return dots(ax, marks, label, width=width, limits=(0.0, 1.03), reference=chance, value_name="queries")

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
        best = "> marks the map that is kept: the smallest error on the selection folds."
        return told(self.verdict, f"{self.table()}\n{best}", wrapped(f"pairs: {self.curve}"), notes=self.caveats)


def _recalls(recall: Recall, at: tuple[int, ...]) -> dict[str, float]:
    return {f"recall@{k}": recall.recall[k] for k in at}


def headline_k(at: tuple[int, ...]) -> int:
    """The number of neighbours k in the verdict: 10 where it was measured, otherwise the middle one."""
    return 10 if 10 in at else at[len(at) // 2]


def unrelated(best: MapRecord) -> bool:
    """Whether the best map is no better than the mean, by the upper end of its interval."""
    upper = best.held_out.mean if best.held_out.interval is None else best.held_out.interval.high
    return not upper < 1


def judge(old: str, new: str, best: MapRecord, retrieval: Retrieval) -> Verdict:
    """By the share of native recall that translated queries keep: at least 99%, at least 90%, or less.

    The best answer also requires that they find at least 80% of the neighbours that native queries find.
    """
    if unrelated(best):
        interval = best.held_out.interval
        upto = "" if interval is None else f", up to {interval.high:.3f} by its interval"
        return Verdict(
            "unrelated",
            f"As paired, the rows of {old} and {new} are not shown to be related: on held-out rows, the best map "
            f"may be no better than the mean (error {best.held_out.mean:.3f}{upto}, where 1 is the mean). Check "
            "that both hold the same items in the same order before you embed again.",
        )
    k = headline_k(retrieval.at)
    own, native, raw = (each.recall[k] for each in (best.recall, retrieval.ceiling, retrieval.floor))
    kept, same = own / native if native > 0 else 0.0, best.recall.overlap[k]
    if kept >= _KEPT and same >= _SAME_NEIGHBOURS:
        answer, words = "translate", f"{old} can be translated to {new} instead of embedding again"
    elif kept >= _USEFUL:
        answer, words = "with losses", f"{old} can be translated to {new} with some loss"
    else:
        answer, words = "re-embed", f"Translating {old} to {new} loses much: embed again where retrieval matters"
    sentence = (
        f"{words}. Queries translated by the {best.kind.replace('_', '-')} map find their own item among the first {k} "
        f"of {retrieval.corpus:,} in {own:.1%} of cases (native {native:.1%}, untranslated {raw:.1%}) and {same:.0%} "
        f"of the {k} neighbours that native queries find; the held-out error is {best.held_out.mean:.3f} mean "
        f"distances to the mean, R² {best.held_out.r2:.2f}."
    )
    return Verdict(answer, sentence)


def collect_caveats(
    old: Side,
    new: Side,
    pairs: Mapping[str, int],
    match: RowMatch,
    groups: Array | None,
    retrieval: Retrieval,
    resolved: bool,
) -> list[str]:
    """All that apply, most important first: sentences, each with whether it applies."""
    training, corpus = pairs["training"], retrieval.corpus
    fitted = "zero-padded" if old.columns < new.columns else "cut"
    few, widths = training < 5 * old.columns, f"{old.columns} and {new.columns}"
    n_groups = FEW_GROUPS if groups is None else int(groups.max()) + 1
    dropped = f"{match.dropped_from_source} dropped from {old.name} and {match.dropped_from_target} from {new.name}"
    said = [
        (few, f"only {training:,} training pairs for {old.columns} dimensions (fewer than 5 per dimension)"),
        (
            True,
            f"recall is among {corpus:,} vectors; in a store m times as large, recall@k is roughly recall@(k/m) here",
        ),
        (retrieval.queries < 200, f"recall is the mean of only {retrieval.queries} queries"),
        (match.source_rows is not None, f"joined by id: {pairs['all']:,} common rows, {dropped}"),
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
