"""The answer to "can I translate instead of embedding again?", by rule, and what to keep in mind about it."""

from __future__ import annotations

from collections.abc import Mapping

from ..comparison.result import Side
from ..representation import Array, RowMatch
from ..resampling import FEW_GROUPS
from ..results import Verdict
from .result import MapRecord
from .retrieval import Retrieval

_KEPT, _SAME_NEIGHBOURS = 0.99, 0.8
_USEFUL = 0.9


def headline_k(at: tuple[int, ...]) -> int:
    """The number of neighbours that the verdict speaks of: 10 where it was measured, otherwise the middle one."""
    return 10 if 10 in at else at[len(at) // 2]


def unrelated(best: MapRecord) -> bool:
    """Whether the best map is no better than the mean, by the upper end of its interval."""
    upper = best.held_out.mean if best.held_out.interval is None else best.held_out.interval.high
    return not upper < 1


def judge(old: str, new: str, best: MapRecord, retrieval: Retrieval) -> Verdict:
    """By the share of native recall that translated queries keep: 99 % and more, 90 % and more, or less.

    The best answer also asks that they find at least 80 % of the neighbours that native queries find.
    """
    if unrelated(best):
        interval = best.held_out.interval
        upto = "" if interval is None else f", up to {interval.high:.3f} by its interval"
        return Verdict(
            "unrelated",
            f"As paired, the rows of {old} and {new} are not shown to be related: on rows it has not seen, the best "
            f"map may be no better than the mean (error {best.held_out.mean:.3f}{upto}, where 1 is the mean). Check "
            "that both hold the same items in the same order before you embed again.",
        )
    k = headline_k(retrieval.at)
    found, native, raw = (each.recall[k] for each in (best.recall, retrieval.ceiling, retrieval.floor))
    kept = found / native if native > 0 else 0.0
    answer, words = (
        ("translate", f"{old} can be translated to {new} instead of embedding again")
        if kept >= _KEPT and best.recall.overlap[k] >= _SAME_NEIGHBOURS
        else ("with losses", f"{old} can be translated to {new} with some loss")
        if kept >= _USEFUL
        else ("re-embed", f"Translating {old} to {new} loses much: embed again where retrieval matters")
    )
    kind = best.kind.replace("_", "-")
    sentence = (
        f"{words}. Queries translated by the {kind} map find their own item among the first {k} of "
        f"{retrieval.corpus:,} in {found:.1%} of cases (native {native:.1%}, untranslated {raw:.1%}) and "
        f"{best.recall.overlap[k]:.0%} of the {k} neighbours that native queries find; the held-out error is "
        f"{best.held_out.mean:.3f} mean distances to the mean, R² {best.held_out.r2:.2f}."
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
    """All that apply, most important first."""
    said = []
    if pairs["training"] < 5 * old.columns:
        said.append(
            f"only {pairs['training']:,} training pairs for {old.columns} dimensions (fewer than 5 per dimension): "
            "more pairs are likely to help"
        )
    said.append(
        f"recall is among {retrieval.corpus:,} vectors; in a store m times as large, expect at k about what k/m is here"
    )
    if retrieval.queries < 200:
        said.append(f"recall is the mean of only {retrieval.queries} queries")
    if match.source_rows is not None:
        said.append(
            f"joined by id: {pairs['all']:,} common rows, {match.dropped_from_source} dropped from {old.name} and "
            f"{match.dropped_from_target} from {new.name}"
        )
    if match.half_identified:
        said.append("rows are paired by position: only one side has row ids, so nothing confirms it")
    if groups is not None and int(groups.max()) + 1 < FEW_GROUPS:
        said.append(f"only {int(groups.max()) + 1} groups: intervals over so few are approximate")
    for side in (old, new):
        if side.rank < min(side.columns, pairs["all"] - 1):
            constant = f", {side.constant_columns} of them constant columns" if side.constant_columns else ""
            said.append(
                f"{side.name} is rank-deficient: {side.rank} of {side.columns} dimensions vary "
                f"({side.columns - side.rank} do not{constant})"
            )
    if not resolved:
        said.append(
            f"some directions of {old.name} vary a million times less than others: the linear map leaves them out"
        )
    if old.columns != new.columns:
        said.append(
            f"widths differ ({old.columns} and {new.columns}): untranslated vectors are "
            f"{'padded with zeros' if old.columns < new.columns else 'cut'} to be searched with"
        )
    return said
