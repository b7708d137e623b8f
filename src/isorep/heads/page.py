"""The page of heads (schema ``isorep.heads/1``): diversity, the map that heads predict, closeness in distribution.

Closeness in distribution beside closeness of representations (part of ``isorep.heads/1``).

The map that two heads predict, beside the regression (part of ``isorep.heads/1``).
"""

from __future__ import annotations

import math

from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Part, Prose, Row, Section, Table
from ..report.figures import Cloud, IntervalRow, Intervals, Key, Line, Lines, Scatter
from ..report.page import closing, made_by
from ..report.read import Node, compact, count, fixed, percent

MOST_HEADS, MOST_VALUES, MOST_PAIRS = 4, 512, 512
LARGEST_VALUE = 1e12
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
        *closing(result.raw),
    ]
    return Page(
        title=f"{title} · heads · isorep",
        eyebrow=f"What the heads of models identify: {title}",
        opening=_opening(result, heads),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _names(result: Node) -> list[str]:
    return [node.text("a model") for part in ("map", "closeness") for node in result[part]["names"].nodes(2)][:2]


def _opening(result: Node, heads: list[Node]) -> tuple[Answer | Definitions, ...]:
    sentence, colon, rest = result["verdict"].text("This result holds no verdict.").partition(": ")
    holds = result["holds"].raw
    verdict = Answer(
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
    parts: list[Part] = [
        Prose((said, margin) if said and said != verdict else (margin,)),
        Definitions(_head_facts(node)),
    ]
    parts += [part for part in (_conditions(node, place), _spectrum(node, place), _pairs(found, place)) if part]
    return Section(f"head-{place + 1}", f"Diversity of {name}", tuple(parts))


def _head_facts(node: Node) -> tuple[tuple[str, str, str], ...]:
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
        if value is not None and 1 <= value < LARGEST_VALUE:
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
        Intervals(tuple(rows), "decimal logarithm of the condition number"),
    )


def _spectrum(node: Node, place: int) -> Figure | None:
    drawn = []
    for name, series, each in (
        ("classes, all alike", "s2", node["classes"]["spectrum"]),
        ("classes by frequency", "s3", node["weighted_spectrum"]),
        ("features", "s1", node["features"]["spectrum"]),
    ):
        values = [
            value
            for value in each.numbers(MOST_VALUES)
            if value is not None and 1 / LARGEST_VALUE < value < LARGEST_VALUE
        ]
        if values:
            top = max(values)
            points = tuple((float(axis + 1), max(value / top, 1 / LARGEST_VALUE)) for axis, value in enumerate(values))
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
        Lines(tuple(drawn), ("principal axis", "share of the largest"), 280, log=True, y_range=(least, 1.0)),
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


MOST_CLASSES = 200
LARGEST = 1e9
_HOW = (
    "Intervals leave out a block of rows, or of whole groups, at a time and take everything again without it "
    "(delete-block jackknife); no row is repeated."
)


def closeness_section(node: Node, verdict: str) -> Section | None:
    """Divergences, log-odds and the distances of the features."""
    if not node:
        return None
    own = node["verdict"].text()
    said = (
        own if own != verdict else "",
        "A small divergence bounds no distance of representations: what happens in classes of tiny probability hardly "
        "counts in it. The log-odds of every class count alike in the log-odds distance, and that one carries over.",
    )
    parts: list[Part] = [Prose(tuple(text for text in said if text)), _closeness_table(node)]
    if node["kl"]["interval"]["low"].number() is not None:
        parts.append(Prose((_HOW,)))
    figure = _by_class(node["log_odds"])
    if figure is not None:
        parts.append(figure)
    return Section("closeness", "Closeness in distribution", tuple(parts))


def _closeness_table(node: Node) -> Table:
    odds, features = node["log_odds"], node["representations"]
    asked = [
        (words, node[name]["mean"], node[name]["interval"], node[name]["largest"], closer)
        for words, name, closer in (
            ("KL(source ‖ target), nats", "kl", "lower"),
            ("KL(target ‖ source), nats", "kl_reverse", "lower"),
            ("total variation", "total_variation", "lower"),
            ("agreement of predictions", "agreement", "higher"),
        )
    ]
    nothing = Node(None)
    asked += [
        ("log-odds distance, nats", odds["value"], odds["interval"], nothing, "lower"),
        ("log-odds distance, standardised", odds["standardised"], odds["standardised_interval"], nothing, "lower"),
        ("largest mean of log-odds, nats", odds["mean_difference"], nothing, nothing, "lower"),
        ("largest spread over classes, nats", odds["over_classes"], nothing, nothing, "lower"),
        ("linear R², target from source", features["linear_r2"], features["linear_r2_interval"], nothing, "higher"),
        (
            "linear R², source from target",
            features["linear_r2_reverse"],
            features["linear_r2_reverse_interval"],
            nothing,
            "higher",
        ),
        ("mean CCA", features["cca"], features["cca_interval"], nothing, "higher"),
        ("SVD distance", features["svd_distance"], features["svd_distance_interval"], nothing, "lower"),
    ]
    rows = []
    for name, value, interval, largest, closer in asked:
        found = value.number()
        if found is None:
            continue
        low, high = interval["low"].number(), interval["high"].number()
        span = f"{compact(low)} to {compact(high)}" if low is not None and high is not None else "–"
        at_most = largest.number()
        rows.append(
            (Cell(name), Cell(compact(found), found), Cell(span, low), Cell(compact(at_most), at_most), Cell(closer))
        )
    titles = ("quantity", "value", "95 % interval", "largest", "closer is")
    columns = tuple(Column(title, numeric=title not in ("quantity", "closer is")) for title in titles)
    return Table("closeness-numbers", "Both kinds of closeness", columns, tuple(rows))


def _by_class(odds: Node) -> Figure | None:
    found = []
    for node in odds["by_class"].nodes(MOST_CLASSES):
        cells = node.nodes(3)
        value = cells[1].number() if len(cells) == 3 else None
        if value is not None and 0 <= value < LARGEST:
            found.append((cells[0].text("–"), value))
    if not found:
        return None
    points = tuple((float(place + 1), value) for place, (_, value) in enumerate(found))
    labels = tuple(f"class {name}: {compact(value)} nats" for name, value in found)
    line = Line("log-odds distance", "s1", points, labels, dotted=True)
    top = max(value for _, value in found)
    return Figure(
        "classes-figure",
        "Log-odds class by class",
        "Standard deviation over rows of the difference between the two models' log-odds, farthest classes first.",
        f"{len(found)} classes from {labels[0]} down to {labels[-1]}.",
        Lines((line,), ("class, by distance", "nats"), 240, y_range=(0.0, max(top, 1e-12))),
        legend=(Key("dot", "s1", "one class"),),
    )


MOST_POINTS, MOST_ANGLES = 1000, 512


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
    parts: list[Part] = [Prose(tuple(text for text in said if text)), Definitions(_map_facts(node))]
    parts += [part for part in (_errors(node), _planes(node), _map_table(node), _angles(node)) if part is not None]
    return Section("map", "The map that heads predict", tuple(parts))


def _map_facts(node: Node) -> tuple[tuple[str, str, str], ...]:
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
        Intervals(tuple(rows), "diameters of the target"),
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
        Scatter(target, mapped, bounds, ("axis 1", "axis 2")),
        narrow=True,
        legend=(Key("dot", "s2", "target"), Key("dot", "s1", "mapped source")),
    )


def _points(node: Node) -> list[tuple[float, float]]:
    found = node.points(MOST_POINTS)
    return found if all(abs(x) < LARGEST and abs(y) < LARGEST for x, y in found) else []


def _map_table(node: Node) -> Table | None:
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
