"""The page of a translation: the answer, recall, maps, pairs and drift."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product

from ..report.charts import COLOURS
from ..report.document import Answer, Definitions, Figure, Forms, Page, Prose, Row, Section, Table
from ..report.figures import IntervalRow, Intervals, Key, Line, Lines
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, fixed, percent
from ..resampling import Interval
from .confidence import Calibration
from .extrapolation import StoreRecall
from .regions import Region
from .relevance import Relevance
from .result import Translation, confidence_sentence, headline_k, regions_sentence
from .retrieval import Recall
from .unpaired import UnpairedTranslation, check_sentence

REACHED = {"translate": True, "with losses": None, "re-embed": False, "undecided": None, "unrelated": False}
HEADLINES = {
    "translate": "Old vectors can be translated instead of embedding again.",
    "with losses": "Old vectors can be translated with some loss.",
    "re-embed": "Translating loses much: embed again where retrieval matters.",
    "undecided": "Whether old vectors can be translated cannot be told.",
    "unrelated": "The rows, as paired, are not shown to be related.",
}
STEPS = {"translate": "translate", "with losses": "translate with losses", "re-embed": "embed again"}
COLOUR = COLOURS | {"ridge": "s1", "low_rank": "s4", "cosine": "s3", "mlp": "s5"}
RETRIEVAL = (
    "Queries ({queries:,}) search {corpus:,} vectors of the test fold, which no map was fitted to, by {metric}. Store "
    "translated is the case of a migration: stored old vectors are translated, and queries come from the new model. "
    "Queries translated is the case of a store that was embedded again while queries still come from the old model. "
    "Each scenario has its own best map."
)
SHARES = {
    "recall": ("Own item found", "The share of queries whose own item is among the k nearest."),
    "overlap": ("Neighbours kept", "Of the k items nearest to the native query, the share that is found."),
}
SIZES = (
    "Recall at {k} of the best map of each scenario. It is measured among {corpus:,} vectors and estimated beyond: the "
    "number of items closer than the query's own is Poisson, with a rate that is log-normal over queries and grows "
    "with the store. A smaller store is a random part of these vectors. Intervals are 95%, and beyond the sample they "
    "include what the method misses when it predicts the sample from an eighth of it. The store must hold items like "
    "those of the pairs."
)
MAPS = (
    "Cosines are between translated and native vectors of the test fold. Errors are distances from the native vector "
    "before lengths are set: the mean in mean distances of {new} to its mean, the RMS in RMS radii; lower is closer, "
    "and the mean vector errs 1. The best map is the one with the highest recall on a selection fold; of several, the "
    "one of least error."
)
CONFIDENCE = (
    "The confidence of a vector is the cosine between its translation and the new model's vector, predicted from the "
    "old vector alone. {said} Each half of the test fold is predicted from the other half."
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
        tuple(_sections(result)),
        data=" → ".join(f"{side.name} {size(side.rows, side.columns)}" for side in (result.old, result.new)),
    )


def _sections(result: Translation) -> Iterator[Section]:
    old, new = result.old.name, result.new.name
    yield _retrieval(result)
    yield _sizes(result)
    if result.relevance is not None:
        yield _relevance(result.relevance)
    yield Section("maps", "Maps", (Prose((MAPS.format(new=new),)), _map_table(result), _map_figure(result)))
    if result.regions is not None:
        yield _regions(result.regions, headline_k(result.retrieval.at))
    if result.calibration is not None:
        yield _confidence(result.calibration)
    yield Section("pairs", "Error by the number of pairs", (Prose((result.curve.sentence,)), _curve(result)))
    yield Section("drift", "What the map is for", (Prose((DRIFT.format(old=old),)), _reference(result)))


def _tiles(result: Translation) -> tuple[tuple[str, str, str], ...]:
    k, best, searched = headline_k(result.retrieval.at), result.maps[result.best], result.retrieval
    native, tiles = _share(searched.ceiling.recall[k]), []
    for name, each in searched.scenarios.items():
        mine = each.maps[each.best]
        said = f"{_name(each.best)} map, among {count(searched.corpus)}; native {native}, neighbours kept "
        tiles.append((f"recall at {k}, {name} translated", _share(mine.recall[k]), said + _share(mine.overlap[k])))
    enough = "not shown" if result.curve.enough is None else count(result.curve.enough)
    size = result.settings["store_size"]
    if size is not None:
        point = next(point for point in result.chosen.sizes if point.size == size)
        said = f"{_share(point.low[k])} to {_share(point.high[k])}"
        tiles.append((f"recall at {k} among {count(size)}", _share(point.recall[k]), f"{result.scenario}: {said}"))
    length = "lengths vary" if result.norm is None else f"scaled to length {compact(result.norm)}"
    return (
        *tiles,
        ("mean cosine", fixed(best.held_out.cosine, 3), f"with native vectors; {length}"),
        ("pairs that are enough", enough, _about_curve(result)),
    )


def _about_curve(result: Translation) -> str:
    return f"of {count(result.pairs['training'])} training pairs, for the {_name(result.curve.kind)} map"


def _retrieval(result: Translation) -> Section:
    searched = result.retrieval
    sides = {"native": searched.ceiling}
    sides |= {f"{name} translated": each.maps[each.best] for name, each in searched.scenarios.items()}
    sides["untranslated"] = result.chosen.untranslated
    figures = tuple(_share_figure(kind, *words, sides) for kind, words in SHARES.items())
    rows: list[tuple[str | float | None, ...]] = []
    for name, each in searched.scenarios.items():
        for kind, found in {**each.maps, "untranslated": each.untranslated}.items():
            mark = " (best)" if kind == each.best else ""
            rows.append((f"{name}: {_name(kind)}{mark}", *found.recall.values(), *found.overlap.values()))
    rows.append(("native", *searched.ceiling.recall.values(), *searched.ceiling.overlap.values()))
    rows.append(("guessing", *searched.chance.values(), *(None for _ in searched.at)))
    columns = {"vectors": str} | {f"{word}@{k}": fixed for word, k in product(("recall", "kept"), searched.at)}
    title = "Recall and neighbours kept, where the store or the queries are translated"
    said = RETRIEVAL.format(queries=searched.queries, corpus=searched.corpus, metric=searched.metric)
    verdicts = tuple(f"{name.capitalize()} translated: {each.verdict}" for name, each in searched.scenarios.items())
    parts = (Prose((said, *verdicts)), Row(figures), Table.of("recall", title, columns, rows))
    return Section("retrieval", "Retrieval", parts)


def _sizes(result: Translation) -> Section:
    k, lines, rows = headline_k(result.retrieval.at), [], []
    for (name, each), series in zip(result.retrieval.scenarios.items(), ("s3", "s2"), strict=True):
        points = [(math.log10(point.size), point.recall[k]) for point in each.sizes]
        labels = tuple(_size_label(point, k) for point in each.sizes)
        lines.append(Line(f"{name} translated", series, tuple(points), labels))
        rows += [
            (f"{name}: {_name(each.best)}", point.size, point.recall[k], point.low[k], point.high[k],
             point.guessing[k], "measured" if point.measured else "estimated")
            for point in each.sizes
        ]  # fmt: skip
    ticks = tuple((math.log10(point.size), _short(point.size)) for point in _apart(each.sizes))
    chart = Lines(tuple(lines), ("vectors in the store", f"recall at {k}"), y_range=(0.0, 1.0), ticks=ticks)
    numbers: Forms = dict.fromkeys(("recall", "low", "high"), fixed)
    columns: Forms = {"translated": str, "vectors": count, **numbers, "guessing": compact, "how": str}
    table = Table.of("sizes", "Recall by size, with 95% intervals", columns, rows)
    said = SIZES.format(k=k, corpus=result.retrieval.corpus)
    caption = f"The point at {count(result.retrieval.corpus)} vectors is measured, the others are estimated."
    figure = Figure("sizes-figure", "Recall against the size of the store", caption, "", chart)
    return Section("sizes", "Recall by the size of the store", (Prose((said,)), figure, table))


def _apart(points: tuple[StoreRecall, ...]) -> list[StoreRecall]:
    """Sizes whose ticks do not touch: at least a factor of five apart."""
    kept: list[StoreRecall] = []
    for point in points:
        if not kept or point.size >= 5 * kept[-1].size:
            kept.append(point)
    return kept


def _size_label(point: StoreRecall, k: int) -> str:
    ends = f"{_share(point.low[k])} to {_share(point.high[k])}"
    return f"{count(point.size)} vectors: {_share(point.recall[k])} ({ends})"


def _short(size: int) -> str:
    for unit, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if size >= unit:
            return f"{size / unit:.3g}{letter}"
    return str(size)


def _relevance(found: Relevance) -> Section:
    rows = []
    for name, each in found.scenarios.items():
        rows.append((f"{name} translated", each.ndcg, each.recall))
        rows.append((f"{name} untranslated", each.untranslated_ndcg, each.untranslated_recall))
    rows.append(("native", each.native_ndcg, each.native_recall))
    said = (
        f"Judged queries: {count(found.queries)}, relevant documents of them: {count(found.judged)}, among the "
        f"{count(found.documents)} documents of the test fold, which the map was not fitted to. "
        f"Judgements left out: {count(found.unknown)}, for documents that are not among the pairs, or queries "
        "without a vector."
    )
    columns: Forms = {"vectors": str, "nDCG@10": fixed, "recall@10": fixed}
    return Section(
        "relevance", "Your queries", (Prose((said,)), Table.of("judged", "By your judgements", columns, rows))
    )


def _regions(found: tuple[Region, ...], k: int) -> Section:
    columns: Forms = {
        "label": str,
        "rows": count,
        "cosine": fixed,
        "others": fixed,
        "queries": count,
        f"recall@{k}": fixed,
        "corrected p": compact,
        "significantly worse": str,
    }
    rows = [
        (each.label, each.rows, each.cosine, each.others, each.queries, each.recall, each.p_value,
         "yes" if each.worse else "no")
        for each in found
    ]  # fmt: skip
    table = Table.of("labels", "Labels, those of least cosine first", columns, rows)
    return Section("labels", "Where the map fails", (Prose((regions_sentence(found),)), table))


def _confidence(found: Calibration) -> Section:
    points = tuple(zip(found.predicted, found.measured, strict=True))
    labels = tuple(f"predicted {fixed(a, 3)}, measured {fixed(b, 3)}" for a, b in points)
    low, high = min(map(min, points)), max(map(max, points))
    if not high > low:
        low, high = low - 0.01, high + 0.01
    lines = (
        Line("measured", "s2", points, labels),
        Line("as predicted", "s0", ((low, low), (high, high)), ("", "")),
    )
    ticks = tuple((low + (high - low) * part / 4, fixed(low + (high - low) * part / 4, 2)) for part in range(5))
    chart = Lines(lines, ("predicted cosine", "measured cosine"), y_range=(low, high), ticks=ticks)
    caption = "Tenths of the test rows, from the least to the most confident."
    said = CONFIDENCE.format(said=confidence_sentence(found).capitalize())
    table = Table.of(
        "calibration", "The tenths in numbers", {"predicted": fixed, "measured": fixed}, list(points), folded=True
    )
    figure = Figure("confidence-figure", "Predicted and measured cosine", caption, "", chart, table=table)
    return Section("confidence", "Confidence of single vectors", (Prose((said,)), figure))


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
    numbers: Forms = dict.fromkeys(("RMS", "R²", "cosine", "selection RMS"), fixed)
    columns: Forms = {
        "map": str,
        "held-out error": fixed,
        "95% interval": str,
        **numbers,
        "strength": compact,
        "rank": count,
        "hidden units": count,
    }
    k, at = headline_k(result.retrieval.at), result.retrieval.at
    other = next(name for name in result.retrieval.scenarios if name != result.scenario)
    recalls = [*(f"{result.scenario} recall@{each}" for each in at), f"{other} recall@{k}"]
    columns = {**columns, **dict.fromkeys(recalls, fixed)}
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
            *(each.setting.strength, each.setting.rank, each.setting.hidden),
            *(each.recalls[result.scenario].recall[number] for number in at),
            each.recalls[other].recall[k],
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
        "Held out, before lengths are set, with a jackknife interval over test rows.",
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


UNPAIRED_REACHED = {"found": True, "in part": None, "refused": False}
UNPAIRED_HEADLINES = {
    "found": "Components match: old vectors can be translated without pairs.",
    "in part": "Some components match: old vectors can be translated in part.",
    "refused": "Components do not match: no map can be given without pairs.",
}
UNPAIRED_STEPS = {"found": "translate", "in part": "translate in part", "refused": "use pairs"}
COMPONENTS = (
    "ICA gives the components of each side up to order and sign. They are matched by their distributions and by their "
    "relations to each other. Distances are measured on rows that the match was not made with, in units of sampling "
    "noise: 1 is what two samples of one component have, and 2 counts as none, since components are estimated, too. A "
    "match counts if it is closer than half of the distance of the nearest other component or sign, closer than a "
    "twentieth of that of an independent Gaussian, and if these differences exceed noise."
)


def unpaired_page(result: UnpairedTranslation) -> Page:
    """The answer of a translation without pairs, and its components."""
    (old, new), answer = result.names, result.verdict.answer
    columns: Forms = {
        "old": str,
        "new": str,
        "share of variance": _share,
        "distance": compact,
        "nearest other": compact,
        "Gaussian": compact,
        "reading": str,
    }
    rows = [
        (
            f"ica{each.old}",
            f"{'-' if each.sign < 0 else '+'}ica{each.new}",
            *(each.share, each.distance, each.alternative, each.gaussian),
            each.problem or "counts",
        )
        for each in result.matches
    ]
    chance = (
        f"Random matches of components are as close with p = {fixed(result.p_value, 3)}. Unrelated data can pass this "
        "test, too: the distances decide."
    )
    said = [COMPONENTS, chance, *([] if result.check is None else [f"Pairs: {check_sentence(result.check)}"])]
    table = Table.of("components", "Matched components", columns, rows)
    near = f"{result.near_gaussian[0]} and {result.near_gaussian[1]}"
    tiles = (
        ("components that match", f"{len(result.counted)} of {result.components}", f"near-Gaussian: {near}"),
        ("variance that they carry", _share(result.carried), f"of {new}"),
    )
    return page_of(
        result,
        f"{old} → {new} · translation without pairs",
        f"Translation of {old} (old) to {new} (new) without pairs",
        Answer.of(
            UNPAIRED_HEADLINES[answer], result.verdict.sentence, UNPAIRED_REACHED[answer], UNPAIRED_STEPS, answer
        ),
        tiles,
        (Section("components", "Components", (Prose(tuple(said)), table)),),
        data=f"{old} {count(result.rows[0])} rows → {new} {count(result.rows[1])} rows",
    )


def _name(kind: str) -> str:
    return kind.replace("_", "-")


def _share(value: float) -> str:
    return percent(value, 1)


def _ends(interval: Interval | None) -> str:
    return MISSING if interval is None else f"[{fixed(interval.low)}, {fixed(interval.high)}]"
