"""The page of heads (schema ``isorep.heads/1``): diversity, the map that heads predict, closeness in distribution."""

from __future__ import annotations

import math

from .closing import closing, made_by
from .figures import IntervalRow, Line, intervals, lines
from .heads_closeness import closeness_section
from .heads_map import map_section
from .parts import Cell, Column, Definitions, Figure, Key, Page, Prose, Section, Table, Verdict
from .rungs import on_both
from .values import Node, compact, count, percent

MOST_HEADS, MOST_VALUES, MOST_PAIRS = 4, 512, 512
LARGEST = 1e12
COLOURS = ("s2", "s3", "s1", "s4")


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    heads = result["heads"].nodes(MOST_HEADS)
    names = [node["name"].text("a head") for node in heads] or _names(result)
    title = " and ".join(names) or "heads"
    verdict = result["verdict"].text()
    sections = [
        map_section(result["map"], verdict),
        closeness_section(result["closeness"], verdict),
        *(_head(node, place, verdict) for place, node in enumerate(heads)),
        *closing(result),
    ]
    return Page(
        title=f"{title} · heads · isorep",
        eyebrow=f"What the heads of models identify: {title}",
        opening=_opening(result, heads),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result),
    )


def _names(result: Node) -> list[str]:
    return [node.text("a model") for part in ("map", "closeness") for node in result[part]["names"].nodes(2)][:2]


def _opening(result: Node, heads: list[Node]) -> tuple[Verdict | Definitions, ...]:
    sentence, colon, rest = result["verdict"].text("This result holds no verdict.").partition(": ")
    holds = result["holds"].raw
    verdict = Verdict(
        f"{sentence}." if colon else sentence, rest[:1].upper() + rest[1:], holds if isinstance(holds, bool) else None
    )
    tiles = []
    for node in heads[:2]:
        found = node["classes"]
        rank, width = found["rank"].number(), found["width"].number()
        if rank is not None and width is not None:
            tiles.append(
                (
                    f"rank of {node['name'].text('the head')}",
                    f"{count(rank)} of {count(width)}",
                    f"{count(found['distinct'].number())} distinct classes, condition "
                    f"{compact(found['condition'].number(), 3)}",
                )
            )
    both = result["map"]["regression"]
    head, regression = both["head"]["r2"].number(), both["regression"]["r2"].number()
    if head is not None:
        tiles.append(("explained by the heads' map", percent(head), f"least squares {percent(regression)}, held out"))
    odds, kl = result["closeness"]["log_odds"]["value"].number(), result["closeness"]["kl"]["mean"].number()
    if odds is not None:
        tiles.append(("log-odds distance", f"{compact(odds, 3)} nats", f"mean KL {compact(kl, 3)} nats"))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _head(node: Node, place: int, verdict: str) -> Section | None:
    found = node["classes"]
    if not found:
        return None
    name = node["name"].text(f"head {place + 1}")
    said = node["verdict"].text()
    margin = (
        "A theorem on linear identifiability needs differences of class embeddings that span the space of features. "
        "Their centred matrix decides it; its condition number, and that of the best differences, say by what margin."
    )
    parts: list[object] = [Prose((said, margin) if said and said != verdict else (margin,)), Definitions(_facts(node))]
    parts += [part for part in (_conditions(node, place), _spectrum(node, place), _pairs(found, place)) if part]
    return Section(f"head-{place + 1}", f"Diversity of {name}", tuple(parts))


def _facts(node: Node) -> tuple[tuple[str, str, str], ...]:
    found, features = node["classes"], node["features"]
    width = found["width"].number()
    needed = "–" if width is None else count(width + 1)
    facts = [
        ("classes", count(found["used"].number()), f"{count(found['stored'].number())} stored"),
        ("distinct embeddings", count(found["distinct"].number()), f"at least {needed} needed"),
        ("rank", count(found["rank"].number()), f"of {count(width)}, as {node['dtype'].text('stored')} tells"),
        ("dimensions in use", compact(found["participation"].number(), 3), "by participation of variances"),
        ("constant columns", count(found["constant_columns"].number()), ""),
    ]
    if features:
        facts += [
            ("rows of features", count(features["rows"].number()), features["name"].text()),
            (
                "rank of features",
                count(features["rank"].number()),
                f"about the mean; {count(features['rank_about_zero'].number())} about zero",
            ),
            (
                "effective dimension",
                count(features["effective_dimension"].number()),
                f"classes see {percent(features['seen_share'].number())} of the features' variance",
            ),
        ]
    return tuple(facts)


def _conditions(node: Node, place: int) -> Figure | None:
    """Condition numbers on a scale of decades."""
    found, features = node["classes"], node["features"]
    asked = (
        ("centred head", found["condition"]),
        ("weighted by frequency", node["weighted_condition"]),
        ("best differences", found["pairs"]["condition"]),
        ("pivoted QR's choice", found["pairs"]["pivoted_condition"]),
        ("features, centred", features["condition"]),
        ("features, as they are", features["condition_about_zero"]),
    )
    rows = []
    for name, each in asked:
        value = each.number()
        if value is not None and 1 <= value < LARGEST:
            printed = compact(value, 3)
            labels = (f"condition number {printed}", "", "")
            rows.append(IntervalRow(name, COLOURS[place % 4], value=math.log10(value), labels=labels, printed=printed))
    if not rows:
        return None
    told = "; ".join(f"{row.name} {row.printed}" for row in rows)
    return Figure(
        f"conditions-{place + 1}-figure",
        "Condition numbers",
        "0 is perfectly conditioned; each unit to the right loses one more decimal of the map.",
        f"Condition numbers: {told}.",
        on_both(lambda width: intervals(rows, "decimal logarithm of the condition number", width)),
    )


def _spectrum(node: Node, place: int) -> Figure | None:
    drawn = []
    for name, series, each in (
        ("classes, all alike", "s2", node["classes"]["spectrum"]),
        ("classes by frequency", "s3", node["weighted_spectrum"]),
        ("features", "s1", node["features"]["spectrum"]),
    ):
        values = [value for value in each.numbers(MOST_VALUES) if value is not None and 1 / LARGEST < value < LARGEST]
        if values:
            top = max(values)
            points = tuple((float(axis + 1), max(value / top, 1 / LARGEST)) for axis, value in enumerate(values))
            labels = tuple(f"axis {axis + 1}: {compact(y, 3)} of the largest" for axis, (_, y) in enumerate(points))
            drawn.append(Line(name, series, points, labels))
    if not drawn:
        return None
    least = min(y for line in drawn for _, y in line.points)
    told = "; ".join(f"{line.name}: {len(line.points)} axes, the last {line.labels[-1]}" for line in drawn)
    return Figure(
        f"spectrum-{place + 1}-figure",
        "Spread along principal axes",
        "Standard deviations, relative to the largest. What is left at the right end is the theorem's margin.",
        f"Spread along principal axes. {told}.",
        on_both(
            lambda width: lines(
                drawn, ("principal axis", "share of the largest"), width, 280, log=True, y_range=(least, 1.0)
            )
        ),
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
    )


def _pairs(found: Node, place: int) -> Table | None:
    rows = []
    for node in found["pairs"]["classes"].nodes(MOST_PAIRS):
        both = node.nodes(2)
        if len(both) == 2:
            rows.append((Cell(both[0].text("–")), Cell(both[1].text("–"))))
    if not rows:
        return None
    columns = (Column("class", numeric=False), Column("less class", numeric=False))
    return Table(f"pairs-{place + 1}", "The best-conditioned differences", columns, tuple(rows), folded=True)
