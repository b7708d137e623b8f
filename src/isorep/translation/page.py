"""The page of a translation (schema ``isorep.translate/2``): the answer, recall, maps, pairs and drift."""

from __future__ import annotations

import math

from ..report.charts import COLOURS
from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Prose, Row, Section, Table
from ..report.figures import IntervalRow, Intervals, Key, Line, Lines
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed, present

ANSWERS = {"translate": True, "with losses": None, "re-embed": False}
STEPS = (("translate", "translate"), ("with losses", "translate with losses"), ("re-embed", "embed again"))
NAMES = {"low_rank": "low-rank"}
COLOUR = COLOURS | {"ridge": "s1", "low_rank": "s4"}
MOST_MAPS, MOST_COUNTS, MOST_POINTS = 8, 8, 60
LARGEST = 1e12


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    old, new = (result[side]["name"].text(side) for side in ("old", "new"))
    sections = [_retrieval(result), _maps(result, new), _pairs(result, new), _drift(result, old), *closing(result.raw)]
    return Page(
        title=f"{old} → {new} · translation · isorep",
        eyebrow=f"Translation of {old} (old) to {new} (new)",
        opening=_opening(result, new),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node, new: str) -> tuple[Answer | Definitions, ...]:
    head, stop, rest = result["verdict"]["sentence"].text("This result holds no verdict.").partition(". ")
    answer = result["verdict"]["answer"].text()
    steps = tuple((words, name == answer) for name, words in STEPS) if answer in ANSWERS else ()
    verdict = Answer(f"{head}." if stop else head, rest, ANSWERS.get(answer), steps)
    best = result["maps"][result["best"].text()]
    counts = _counts(result)
    k = "10" if "10" in counts else counts[len(counts) // 2] if counts else ""
    tiles = []
    found, native, raw = (
        node["recall"][k].number()
        for node in (best["recall"], result["retrieval"]["ceiling"], result["retrieval"]["floor"])
    )
    if found is not None:
        tiles.append((f"recall at {k}", _share(found), f"native {_share(native)}, untranslated {_share(raw)}"))
    overlap = best["recall"]["overlap"][k].number()
    if overlap is not None:
        tiles.append(("neighbours kept", _share(overlap), f"of the {k} that native queries find"))
    error, cosine = best["held_out"]["mean"].number(), best["held_out"]["cosine"].number()
    if error is not None:
        tiles.append(
            ("held-out error", fixed(error, 3), f"1 is no better than the mean; mean cosine {fixed(cosine, 3)}")
        )
    pairs, enough = result["pairs"]["training"].number(), result["curve"]["enough"].number()
    if pairs is not None:
        shown = "more than there are" if enough is None else count(enough)
        tiles.append(("pairs that are enough", shown, f"of {count(pairs)} training pairs"))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _retrieval(result: Node) -> Section | None:
    node, best = result["retrieval"], result["best"].text()
    counts = _counts(result)
    if not counts:
        return None
    sides = (
        ("native queries", "s0", node["ceiling"]),
        ("queries translated", "s2", node["maps"][best]),
        ("store translated", "s3", node["store"]),
        ("untranslated", "s1", node["floor"]),
    )
    figures = [
        _share_figure(kind, title, caption, counts, sides)
        for kind, title, caption in (
            ("recall", "Own item found", "The share of queries whose own item is among the k nearest."),
            ("overlap", "Neighbours kept", "Of the k items nearest to the native query, the share that is found."),
        )
    ]
    drawn = tuple(figure for figure in figures if figure is not None)
    queries, corpus, metric = (
        node["queries"].number(),
        node["corpus"].number(),
        node["metric"].text("an unknown metric"),
    )
    said = (
        f"{count(queries)} queries of the test fold search {count(corpus)} native new vectors by {metric}. Translated "
        "queries are the case of a store that was embedded again while queries still come from the old model. A "
        "translated store is the case of a migration: old vectors are translated, and queries are native."
    )
    return Section(
        "retrieval", "Retrieval", (Prose((said,)), *((Row(drawn),) if drawn else ()), _recall_table(node, counts))
    )


def _share_figure(
    kind: str, title: str, caption: str, counts: list[str], sides: tuple[tuple[str, str, Node], ...]
) -> Figure | None:
    drawn = []
    for name, series, node in sides:
        found = [(int(k), node[kind][k].number()) for k in counts]
        points = [(math.log10(k), min(max(share, 0.0), 1.0)) for k, share in found if share is not None]
        labels = tuple(f"at {k}: {_share(share)}" for k, share in found if share is not None)
        if points:
            drawn.append(Line(name, series, tuple(points), labels))
    if not drawn:
        return None
    ticks = [(math.log10(int(k)), k) for k in counts]
    told = "; ".join(f"{line.name} {', '.join(line.labels)}" for line in drawn)
    return Figure(
        f"{kind}-figure",
        title,
        caption,
        f"{title}. {told}.",
        Lines(tuple(drawn), ("k", "share"), 280, y_range=(0.0, 1.0), ticks=tuple(ticks)),
        narrow=True,
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
    )


def _recall_table(node: Node, counts: list[str]) -> Table:
    entries = [(f"{_name(kind)} map", each) for kind, each in node["maps"].items()[:MOST_MAPS]]
    entries += [
        ("store translated", node["store"]),
        ("native queries", node["ceiling"]),
        ("untranslated", node["floor"]),
    ]
    rows = []
    for name, each in entries:
        shares = [each[kind][k].number() for kind in ("recall", "overlap") for k in counts]
        rows.append((Cell(name), *(Cell(_hundredths(share), share) for share in shares)))
    chances = [node["chance"][k].number() for k in counts]
    rows.append(
        (Cell("guessing"), *(Cell(_hundredths(share), share) for share in chances), *(Cell(MISSING) for _ in counts))
    )
    columns = [Column(f"{title}@{k}") for title in ("recall", "kept") for k in counts]
    return Table(
        "recall",
        "Recall and neighbours kept, in per cent; the maps translate queries",
        (Column("vectors", numeric=False), *columns),
        tuple(rows),
    )


def _maps(result: Node, new: str) -> Section | None:
    found = result["maps"].items()[:MOST_MAPS]
    best = result["best"].text()
    rows, drawn = [], []
    for kind, node in found:
        held = node["held_out"]
        error, low, high = (each.number() for each in (held["mean"], held["interval"]["low"], held["interval"]["high"]))
        numbers = [error, held["rms"].number(), held["r2"].number(), held["cosine"].number()]
        numbers.append(node["selection_error"].number())
        strength, rank = node["setting"]["strength"].number(), node["setting"]["rank"].number()
        rows.append(
            (
                Cell(_name(kind), strong=kind == best),
                *(Cell(fixed(number), number) for number in numbers),
                Cell(compact(strength, 3), strength),
                Cell(count(rank), rank),
            )
        )
        if error is not None and 0 <= error < LARGEST:
            span = (low, high) if low is not None and high is not None and 0 <= low <= high < LARGEST else None
            said = f"{fixed(error)}" + (f", {fixed(span[0])} to {fixed(span[1])}" if span else "")
            row = IntervalRow(
                _name(kind),
                COLOUR.get(kind, "s0"),
                error,
                span,
                strong=kind == best,
                labels=(said, "", ""),
                printed=fixed(error),
            )
            drawn.append(row)
    if not rows:
        return None
    titles = ("map", "mean", "RMS", "R²", "cosine", "selection", "strength", "rank")
    table = Table("maps", "The maps", tuple(Column(t, numeric=t != "map") for t in titles), tuple(rows))
    said = (
        f"Errors are distances from the native vector on the test fold: the mean in mean distances of {new} to its "
        "mean, the RMS in RMS radii; lower is closer, and the mean vector errs 1. The best map is the one of least RMS "
        "error on the selection folds, which also chose strength and rank."
    )
    figure = Figure(
        "maps-figure",
        "Mean error of each map",
        "Held out, with a jackknife interval over test rows.",
        "; ".join(f"{row.name}: {row.printed}" for row in drawn),
        Intervals(tuple(drawn), "mean error; 1 is no better than the mean"),
        legend=(Key("dot", "", "held out"), Key("whisker", "", "95 % interval")),
    )
    return Section("maps", "Maps", (Prose((said,)), table, *((figure,) if drawn else ())))


def _pairs(result: Node, new: str) -> Section | None:
    node = result["curve"]
    found = [(each["pairs"].number(), each["error"].number()) for each in node["points"].nodes(MOST_POINTS)]
    points = [(x, y) for x, y in found if x is not None and y is not None and 1 <= x < LARGEST and 0 <= y < LARGEST]
    if len(points) < 2:
        return None
    points.sort()
    labels = tuple(f"{count(x)} pairs: {fixed(y)}" for x, y in points)
    line = Line("RMS error", "s2", tuple((math.log10(x), y) for x, y in points), labels)
    low, high = math.floor(math.log10(points[0][0])), math.ceil(math.log10(points[-1][0]))
    ticks = [
        (math.log10(digit * 10**power), count(digit * 10**power))
        for power in range(low, high + 1)
        for digit in ((1,) if high - low > 3 else (1, 3))
        if points[0][0] <= digit * 10**power <= points[-1][0]
    ]
    table = Table(
        "curve",
        "The curve in numbers",
        (Column("pairs"), Column("RMS error")),
        tuple((Cell(count(x), x), Cell(fixed(y), y)) for x, y in points),
        folded=True,
    )
    top = 1.05 * max(y for _, y in points) or 1.0
    figure = Figure(
        "curve-figure",
        "Error against the number of pairs",
        f"RMS error on the test fold of the {_name(node['kind'].text('best'))} map, fitted to part of the training "
        "pairs; strength and rank are chosen anew for every size.",
        f"From {fixed(points[0][1])} with {count(points[0][0])} pairs to {fixed(points[-1][1])} with "
        f"{count(points[-1][0])}.",
        Lines((line,), ("pairs", f"RMS error, radii of {new}"), 280, y_range=(0.0, top), ticks=tuple(ticks)),
        table=table,
    )
    said = node["sentence"].text()
    return Section("pairs", "How many pairs are enough", (*((Prose((said,)),) if said else ()), figure))


def _drift(result: Node, old: str) -> Section | None:
    node = result["reference"]
    known = [node[key].number() for key in ("radius", "distance", "limit", "rows", "held")]
    if not present(*known):
        return None
    radius, distance, limit, rows, held = known
    said = (
        f"The map keeps what vectors of {old} look like. Before it is applied, up to 10,000 rows are compared with "
        "that: the distance of their mean from the training mean, their median distance from it, and the share whose "
        "whitened norm exceeds what 999 of 1,000 rows of the old model stay below. Vectors of another model, or "
        "rescaled, shifted or normalised in another way, raise a warning; with --strict nothing is written."
    )
    items = (
        ("RMS radius", compact(radius), f"of {count(rows)} training rows"),
        ("median distance", compact(distance), f"of {count(held)} rows that were not fitted to"),
        ("limit of the whitened norm", compact(limit), "99.9 % of these stay below"),
    )
    return Section("drift", "What the map is for", (Prose((said,)), Definitions(items)))


def _counts(result: Node) -> list[str]:
    """The numbers of neighbours, as keys."""
    found = present(*result["retrieval"]["at"].numbers(MOST_COUNTS))
    return [str(int(k)) for k in found if 1 <= k < LARGEST]


def _name(kind: str) -> str:
    return NAMES.get(kind, kind)


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{_hundredths(value)} %"


def _hundredths(value: float | None) -> str:
    """A share in per cent, to a tenth."""
    return MISSING if value is None else fixed(100 * min(max(value, -1.0), 1.0), 1)
