"""The page of a translation: the answer, recall, maps, pairs and drift."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

from ..report.charts import COLOURS
from ..report.document import Answer, Definitions, Figure, Forms, Page, Prose, Row, Section, Table
from ..report.figures import IntervalRow, Intervals, Key, Line, Lines
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, fixed, percent
from ..resampling import Interval
from .result import Translation, headline_k
from .retrieval import Recall

REACHED = {"translate": True, "with losses": None, "re-embed": False, "unrelated": False}
HEADLINES = {
    "translate": "Old vectors can be translated instead of embedding again.",
    "with losses": "Old vectors can be translated with some loss.",
    "re-embed": "Translating loses much: embed again where retrieval matters.",
    "unrelated": "The rows, as paired, are not shown to be related.",
}
STEPS = {"translate": "translate", "with losses": "translate with losses", "re-embed": "embed again"}
COLOUR = COLOURS | {"ridge": "s1", "low_rank": "s4"}
RETRIEVAL = (
    "{queries:,} queries of the test fold search {corpus:,} native new vectors by {metric}. Translated queries are the "
    "case of a store that was embedded again while queries still come from the old model. A translated store is the "
    "case of a migration: old vectors are translated, and queries are native."
)
SHARES = {
    "recall": ("Own item found", "The share of queries whose own item is among the k nearest."),
    "overlap": ("Neighbours kept", "Of the k items nearest to the native query, the share that is found."),
}
MAPS = (
    "Errors are distances from the native vector on the test fold: the mean in mean distances of {new} to its mean, "
    "the RMS in RMS radii; lower is closer, and the mean vector errs 1. The best map is the one of least RMS error on "
    "the selection folds, which also chose strength and rank."
)
DRIFT = (
    "The map keeps what vectors of {old} look like. Before it is applied, up to 10,000 rows are compared with that: "
    "the distance of their mean from the training mean, their median distance from it, and the share whose whitened "
    "norm exceeds what 999 of 1,000 rows of the old model stay below. Vectors of another model, or rescaled, shifted "
    "or normalised in another way, raise a warning; with --strict nothing is written."
)


def page(result: Translation) -> Page:
    """All of it, most important first."""
    old, new, answer = result.old.name, result.new.name, result.verdict.answer
    return page_of(
        result,
        f"{old} → {new} · translation",
        f"Translation of {old} (old) to {new} (new)",
        Answer.of(HEADLINES[answer], result.verdict.sentence, REACHED[answer], STEPS, answer),
        _tiles(result),
        (
            _retrieval(result),
            Section("maps", "Maps", (Prose((MAPS.format(new=new),)), _map_table(result), _map_figure(result))),
            Section("pairs", "How many pairs are enough", (Prose((result.curve.sentence,)), _curve(result))),
            Section("drift", "What the map is for", (Prose((DRIFT.format(old=old),)), _reference(result))),
        ),
        data=" → ".join(f"{side.name} {size(side.rows, side.columns)}" for side in (result.old, result.new)),
    )


def _tiles(result: Translation) -> tuple[tuple[str, str, str], ...]:
    k, best, searched = headline_k(result.retrieval.at), result.maps[result.best], result.retrieval
    native, raw = (_share(each.recall[k]) for each in (searched.ceiling, searched.floor))
    enough = "more than there are" if result.curve.enough is None else count(result.curve.enough)
    cosine = fixed(best.held_out.cosine, 3)
    return (
        (f"recall at {k}", _share(best.recall.recall[k]), f"native {native}, untranslated {raw}"),
        ("neighbours kept", _share(best.recall.overlap[k]), f"of the {k} that native queries find"),
        ("held-out error", fixed(best.held_out.mean, 3), f"1 is no better than the mean; mean cosine {cosine}"),
        ("pairs that are enough", enough, f"of {count(result.pairs['training'])} training pairs"),
    )


def _retrieval(result: Translation) -> Section:
    searched = result.retrieval
    sides = {
        "native queries": searched.ceiling,
        "queries translated": searched.maps[result.best],
        "store translated": searched.store,
        "untranslated": searched.floor,
    }
    figures = tuple(_share_figure(kind, *words, sides) for kind, words in SHARES.items())
    every = {_name(kind): each for kind, each in searched.maps.items()}
    every |= {name: sides[name] for name in ("store translated", "native queries", "untranslated")}
    rows = [(name, *each.recall.values(), *each.overlap.values()) for name, each in every.items()]
    rows.append(("guessing", *searched.chance.values(), *(None for _ in searched.at)))
    columns = {"vectors": str} | {f"{word}@{k}": fixed for word, k in product(("recall", "kept"), searched.at)}
    title = "Recall and neighbours kept; the maps translate queries"
    said = RETRIEVAL.format(queries=searched.queries, corpus=searched.corpus, metric=searched.metric)
    return Section("retrieval", "Retrieval", (Prose((said,)), Row(figures), Table.of("recall", title, columns, rows)))


def _share_figure(kind: str, title: str, caption: str, sides: Mapping[str, Recall]) -> Figure:
    lines = []
    for (name, side), series in zip(sides.items(), ("s0", "s2", "s3", "s1"), strict=True):
        shares: dict[int, float] = getattr(side, kind)
        points = tuple((math.log10(k), share) for k, share in shares.items())
        lines.append(Line(name, series, points, tuple(f"at {k}: {_share(share)}" for k, share in shares.items())))
    ticks = tuple((math.log10(k), str(k)) for k in shares)
    chart = Lines(tuple(lines), ("k", "share"), y_range=(0.0, 1.0), ticks=ticks)
    return Figure(f"{kind}-figure", title, caption, "", chart, narrow=True)


def _map_table(result: Translation) -> Table:
    numbers: Forms = dict.fromkeys(("RMS", "R²", "cosine", "selection"), fixed)
    columns: Forms = {
        "map": str,
        "held-out error": fixed,
        "95% interval": str,
        **numbers,
        "strength": compact,
        "rank": count,
    }
    rows = [
        (
            _name(kind),
            *(
                each.held_out.mean,
                _ends(each.held_out.interval),
                each.held_out.rms,
                each.held_out.r2,
                each.held_out.cosine,
                each.selection_error,
            ),
            *(each.setting.strength, each.setting.rank),
        )
        for kind, each in result.maps.items()
    ]
    return Table.of("maps", "The maps", columns, rows, strong=_name(result.best))


def _map_figure(result: Translation) -> Figure:
    rows = []
    for kind, each in result.maps.items():
        mean, interval = each.held_out.mean, each.held_out.interval
        ends = None if interval is None else (interval.low, interval.high)
        said = fixed(mean) + ("" if ends is None else f", {fixed(ends[0])} to {fixed(ends[1])}")
        colour, best = COLOUR.get(kind, "s0"), kind == result.best
        rows.append(
            IntervalRow(_name(kind), colour, mean, ends, strong=best, labels=(said, "", ""), printed=fixed(mean))
        )
    return Figure(
        "maps-figure",
        "Held-out error of each map",
        "Held out, with a jackknife interval over test rows.",
        "",
        Intervals(tuple(rows), "held-out error; 1 is no better than the mean"),
        legend=(Key("dot", "", "held-out error"), Key("whisker", "", "95% interval")),
    )


def _curve(result: Translation) -> Figure:
    points = [(point.pairs, point.error) for point in result.curve.points]
    labels = tuple(f"{count(x)} pairs: {fixed(y)}" for x, y in points)
    line = Line("RMS error", "s2", tuple((math.log10(x), y) for x, y in points), labels)
    powers = range(math.floor(math.log10(points[0][0])), math.ceil(math.log10(points[-1][0])) + 1)
    round_numbers = [digit * 10**power for power in powers for digit in ((1,) if len(powers) > 4 else (1, 3))]
    ticks = tuple((math.log10(x), count(x)) for x in round_numbers if points[0][0] <= x <= points[-1][0])
    axes = ("pairs", f"RMS error, radii of {result.new.name}")
    return Figure(
        "curve-figure",
        "Error against the number of pairs",
        f"RMS error on the test fold of the {_name(result.curve.kind)} map, fitted to part of the training pairs; "
        "strength and rank are chosen anew for every size.",
        f"From {labels[0]} to {labels[-1]}.",
        Lines((line,), axes, y_range=(0.0, 1.05 * max(y for _, y in points) or 1.0), ticks=ticks),
        legend=(),
        table=Table.of("curve", "The curve in numbers", {"pairs": count, "RMS error": fixed}, points, folded=True),
    )


def _reference(result: Translation) -> Definitions:
    known = result.translator.reference
    return Definitions(
        (
            ("RMS radius", compact(known.radius), f"of {count(known.rows)} training rows"),
            ("median distance", compact(known.distance), f"of {count(known.held)} rows that were not fitted to"),
            ("limit of the whitened norm", compact(known.limit), "99.9% of these stay below"),
        )
    )


def _name(kind: str) -> str:
    return kind.replace("_", "-")


def _share(value: float) -> str:
    return percent(value, 1)


def _ends(interval: Interval | None) -> str:
    return MISSING if interval is None else f"[{fixed(interval.low)}, {fixed(interval.high)}]"
