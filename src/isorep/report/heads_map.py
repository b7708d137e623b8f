"""The map that two heads predict, beside the regression (part of ``isorep.heads/1``)."""

from __future__ import annotations

import math

from .figures import NARROW, Cloud, IntervalRow, intervals, scatter
from .parts import Cell, Column, Definitions, Figure, Key, Prose, Row, Section, Table
from .rungs import on_both
from .values import Node, compact, count, fixed, percent

MOST_POINTS, MOST_ANGLES = 1000, 512
LARGEST = 1e9


def map_section(node: Node, verdict: str) -> Section | None:
    """What heads predict and what paired features say about it."""
    if not node:
        return None
    own = node["verdict"].text()
    said = [
        own if own != verdict else "",
        "Models with equal distributions have equal log-odds, so the pseudo-inverse of the target's centred head times "
        "the source's maps the features. No pair of features goes into that map.",
    ]
    if node["vacuous"].raw is True:
        said.append(
            "There are so few classes that any two heads are related by such a map: the weights alone test nothing."
        )
    parts: list[object] = [Prose(tuple(text for text in said if text)), Definitions(_facts(node))]
    parts += [part for part in (_errors(node), _planes(node), _table(node), _angles(node)) if part is not None]
    return Section("map", "The map that heads predict", tuple(parts))


def _facts(node: Node) -> tuple[tuple[str, str, str], ...]:
    ranks, widths = (node[key].numbers(2) for key in ("ranks", "widths"))
    angles = [angle for angle in node["angles"].numbers(MOST_ANGLES) if angle is not None]
    widest = math.degrees(min(max(angles), math.pi)) if angles else None
    both = node["regression"]
    dimensions = both["effective_dimensions"].numbers(2)
    facts = [
        ("classes", count(node["classes"].number()), ""),
        ("ranks", " and ".join(count(rank) for rank in ranks) or "–", f"of {' and '.join(map(count, widths))}"),
        ("widest principal angle", "–" if widest is None else f"{fixed(widest, 2)}°", "0 for equal distributions"),
        (
            "angles forced to zero",
            count(node["forced_angles"].number()),
            "whatever the heads, for want of classes",
        ),
        ("source head unexpressed", percent(node["unexpressed"].number()), "outside the target's columns"),
    ]
    if dimensions:
        facts.append(("effective dimensions", " and ".join(map(count, dimensions)), "rank of what classes see"))
    return tuple(facts)


def _errors(node: Node) -> Figure | None:
    both = node["regression"]
    rows = []
    for name, series, each in (
        ("map from the heads", "s1", both["head"]),
        ("least squares, held out", "s3", both["regression"]),
    ):
        mean = each["error"]["mean"].number()
        if mean is None or not 0 <= mean < LARGEST:
            continue
        low, high = (each["interval"][key].number() for key in ("low", "high"))
        span = (low, high) if low is not None and high is not None and 0 <= low <= high < LARGEST else None
        words = f"mean error {fixed(mean)}" + (f", {fixed(span[0])} to {fixed(span[1])}" if span else "")
        rows.append(IntervalRow(name, series, value=mean, interval=span, labels=(words, "", ""), printed=fixed(mean)))
    if not rows:
        return None
    return Figure(
        "errors-figure",
        "Errors of the two maps",
        "Mean distance of mapped rows from their targets, with 95 % intervals.",
        "; ".join(f"{row.name}: {row.labels[0]} diameters" for row in rows) + ".",
        on_both(lambda width: intervals(rows, "diameters of the target", width)),
    )


def _planes(node: Node) -> Row | None:
    figure = node["figure"]
    there = _points(figure["target"])
    panels = [(key, _points(figure[key])) for key in ("head", "regression")]
    panels = [(key, points) for key, points in panels if points and len(points) == len(there)]
    if not panels:
        return None
    every = [*there, *(point for _, points in panels for point in points)]
    bounds = (min(x for x, _ in every), max(x for x, _ in every), min(y for _, y in every), max(y for _, y in every))
    names = [each.text() for each in figure["rows"].nodes(MOST_POINTS)]
    names = names if len(names) == len(there) else [str(place) for place in range(len(there))]
    return Row(tuple(_panel(key, points, there, names, bounds) for key, points in panels))


def _panel(
    key: str,
    points: list[tuple[float, float]],
    there: list[tuple[float, float]],
    names: list[str],
    bounds: tuple[float, float, float, float],
) -> Figure:
    how = "from the heads alone" if key == "head" else "from least squares"
    apart = [math.hypot(a - c, b - d) for (a, b), (c, d) in zip(points, there, strict=True)]
    labels = tuple(f"row {name}: {fixed(gap, 3)} away here" for name, gap in zip(names, apart, strict=True))
    target = Cloud("target", "s2", tuple(there), labels, hollow=True)
    mapped = Cloud("mapped source", "s1", tuple(points), labels)
    return Figure(
        f"plane-{key}-figure",
        f"Mapped {how}",
        "Rows on the target's principal plane, in its RMS radii; a thin line joins a row's two points.",
        f"{len(points)} rows mapped {how}: {fixed(sum(apart) / len(apart), 3)} RMS radii from their targets here.",
        (scatter(target, mapped, bounds, ("axis 1", "axis 2"), NARROW),),
        legend=(Key("dot", "s2", "target"), Key("dot", "s1", "mapped source")),
    )


def _points(node: Node) -> list[tuple[float, float]]:
    found = node.points(MOST_POINTS)
    return found if all(abs(x) < LARGEST and abs(y) < LARGEST for x, y in found) else []


def _table(node: Node) -> Table | None:
    both, prediction = node["regression"], node["head_prediction"]
    asked = (
        ("R² of the heads' map", both["head"]["r2"], 4),
        ("R² of the heads' map with its own intercept", both["head_r2_own_intercept"], 4),
        ("R² of least squares, held out", both["regression"]["r2"], 4),
        ("share of it that the heads predict", both["share"], 4),
        ("mean error of the heads' map, diameters", both["head"]["error"]["mean"], 4),
        ("largest error of the heads' map, diameters", both["head"]["error"]["sup"], 4),
        ("mean error of least squares, diameters", both["regression"]["error"]["mean"], 4),
        ("excess, low end, diameters", both["excess"]["low"], 4),
        ("excess, high end, diameters", both["excess"]["high"], 4),
        ("maps apart, RMS radii", both["difference"], 4),
        ("heads' map off at the mean, RMS radii", both["intercept_gap"], 4),
        ("R² of the target's head by the inverse map", prediction["inverse"]["r2"], 4),
        ("R² of its log-odds by the inverse map", prediction["inverse"]["log_odds_r2"], 4),
        ("R² of the target's head by the reverse regression", prediction["reverse"]["r2"], 4),
        ("R² of its log-odds by the reverse regression", prediction["reverse"]["log_odds_r2"], 4),
        ("condition of the regression's matrix", prediction["condition"], None),
    )
    rows = []
    for name, each, digits in asked:
        value = each.number()
        if value is not None:
            text = compact(value) if digits is None else fixed(value, digits)
            rows.append((Cell(name), Cell(text, value)))
    if not rows:
        return None
    return Table(
        "map-numbers", "All numbers of the map", (Column("quantity", numeric=False), Column("value")), tuple(rows)
    )


def _angles(node: Node) -> Table | None:
    found = [angle for angle in node["angles"].numbers(MOST_ANGLES) if angle is not None and 0 <= angle < 4]
    if not found:
        return None
    rows = tuple(
        (Cell(str(place + 1), place + 1), Cell(fixed(math.degrees(angle), 3), math.degrees(angle)))
        for place, angle in enumerate(found)
    )
    return Table("angles", "Principal angles", (Column("place"), Column("degrees")), rows, folded=True)
