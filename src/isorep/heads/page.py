"""The page of heads: the map that they predict, closeness in distribution, and the diversity of each."""

from __future__ import annotations

import math

from ..report.document import Answer, Cell, Definitions, Figure, Forms, Page, Part, Prose, Row, Section, Table
from ..report.figures import Cloud, IntervalRow, Intervals, Key, Line, Lines, Scatter
from ..report.page import page_of, size
from ..report.read import compact, count, fixed, percent
from .closeness import Closeness
from .diversity import Diversity
from .head_map import ANGLES_SHOWN, HeadMap
from .regression import Plane, Regression
from .result import HeadResult

LEAST = 1e-12  # share of the largest spread that is still drawn
DIVERSITY = {
    "softmax": "A theorem on linear identifiability needs differences of class embeddings that span the space of "
    "features. Their centred matrix decides it; its condition number, and that of the best differences, say by what "
    "margin.",
    "contrastive": "A theorem on linear identifiability needs differences of candidates' embeddings, within the sets "
    "that are drawn together, that span the space of features. Their matrix, centred within sets, decides it; its "
    "condition number says by what margin.",
    "bernoulli": "A theorem on linear identifiability needs differences of sufficient statistics that span the space "
    "of features. For independent labels these are sums of label embeddings, so that the embeddings as they are decide "
    "it; their condition number says by what margin.",
    "gaussian": "A theorem on linear identifiability needs differences of sufficient statistics that span the space of "
    "features. For Gaussian outputs these are combinations of the rows of weights, so that the rows as they are decide "
    "it; their condition number says by what margin.",
}
LONGEST_HEADLINE = 12  # words
CLOSENESS = {
    "softmax": "A small divergence bounds no distance of representations: what happens in classes of tiny probability "
    "hardly counts in it. The log-odds of every class count alike in the log-odds distance, and that one carries over.",
    "contrastive": "A small divergence bounds no distance of representations: what happens in candidates of tiny "
    "probability hardly counts in it. The log-odds of every candidate, among all of them, count alike in the log-odds "
    "distance, and that one carries over.",
    "bernoulli": "A small divergence bounds no distance of representations: labels that are nearly certain hardly "
    "count in it. The logits of every label count alike in the log-odds distance, and that one carries over.",
    "gaussian": "A small divergence bounds no distance of representations: outputs that hardly vary, compared with "
    "their noise, hardly count in it. The standardised distance of means does not depend on the noise, and that one "
    "carries over.",
}
JACKKNIFE = (
    "Intervals leave out a block of rows, or of whole groups, at a time and take everything again without it "
    "(delete-block jackknife); no row is repeated."
)
MAP = (
    "Models with equal distributions have equal {}, so the pseudo-inverse of the target's {} times "
    "the source's maps the features. No pair of features goes into that map."
)
VACUOUS = "There are so few {} that any two heads are related by such a map: the weights alone test nothing."


def page(result: HeadResult) -> Page:
    """All parts that the result has, most important first."""
    heads, head_map, closeness = result.parts
    names = [each.name for each in heads] or next(list(each.names) for each in (head_map, closeness) if each)
    title, verdict = " and ".join(names), result.verdict
    return page_of(
        result,
        f"{title} · heads",
        f"What the heads of models identify: {title}",
        Answer(_headline(result), verdict, result.holds),
        _tiles(result),
        (
            None if head_map is None else _map(head_map, verdict),
            None if closeness is None else _closeness(closeness, verdict),
            *(_head(each, number, verdict) for number, each in enumerate(heads, 1)),
        ),
        data=_data(result),
    )


def _data(result: HeadResult) -> str:
    """The size of every head, and the rows of features where there are any."""
    heads, head_map, closeness = result.parts
    shapes = [(each.name, each.classes.used, each.classes.width) for each in heads]
    if not shapes and head_map is not None:
        shapes = [(name, head_map.classes, width) for name, width in zip(head_map.names, head_map.widths, strict=True)]
    said = [f"{name} {size(classes, width)}" for name, classes, width in shapes]
    rows = {each.features.rows for each in heads if each.features is not None}
    if closeness is not None:
        rows.add(closeness.rows)
        said = said or [f"{name} {size(closeness.rows, closeness.classes)}" for name in closeness.names]
    features = f", features of {' and '.join(map(count, sorted(rows)))} rows" if rows and shapes else ""
    return f"{' and '.join(said)}{features}"


def _headline(result: HeadResult) -> str:
    """What the verdict says before its numbers, where that is short."""
    head, colon, _ = result.verdict.partition(": ")
    if colon and len(head.split()) <= LONGEST_HEADLINE:
        return f"{head}."
    head_map = result.parts[1]
    if head_map is not None and head_map.regression is not None:
        return "No linear map explains half of the target."
    return "What the weights of the heads alone say."


def _tiles(result: HeadResult) -> list[tuple[str, str, str]]:
    heads, head_map, closeness = result.parts
    tiles = []
    for each in heads:
        classes = each.classes
        said = f"{count(classes.distinct)} distinct {each.words.rows}, condition {compact(classes.condition, 3)}"
        tiles.append((f"rank of {each.name}", f"{count(classes.rank)} of {count(classes.width)}", said))
    if head_map is not None and head_map.regression is not None:
        both = head_map.regression
        said = f"least squares {percent(both.regression.r2, 1)}, held out"
        tiles.append(("explained by the heads' map", percent(both.head.r2, 1), said))
    if closeness is not None:
        apart, divergence = closeness.log_odds.value, closeness.kl.mean
        nats = [f"{compact(apart, 3)} {closeness.words.unit}", f"{compact(divergence, 3)} nats"]
        tiles.append((closeness.distance, nats[0], f"mean KL {nats[1]}"))
    return tiles


def _own(sentence: str, verdict: str) -> tuple[str, ...]:
    """A part's own sentence, unless the page begins with it."""
    return () if sentence == verdict else (sentence,)


# Diversity


def _head(head: Diversity, number: int, verdict: str) -> Section:
    pairs = head.classes.pairs
    said = (*_own(head.verdict, verdict), DIVERSITY[head.family])
    parts: list[Part | None] = [Prose(said), _facts(head), _spectrum(head, number)]
    if pairs is not None:
        columns: Forms = {head.words.row: str, f"less {head.words.row}": str}
        title = "The best-conditioned differences"
        parts.append(Table.of(f"pairs-{number}", title, columns, pairs.classes, folded=True))
    return Section(f"head-{number}", f"Diversity of {head.name}", tuple(part for part in parts if part is not None))


def _facts(head: Diversity) -> Definitions:
    classes = head.classes
    facts = [
        (head.words.rows, count(classes.used), f"{count(classes.stored)} stored, as {head.dtype}"),
        ("dimensions in use", compact(classes.participation, 3), "by participation of variances"),
        ("constant columns" if head.words.centred else "zero columns", count(classes.constant_columns), ""),
    ]
    if head.features is not None:
        facts.append(("rows of features", count(head.features.rows), head.features.name))
    return Definitions((*((name, value, "") for name, value in head.quantities), *facts))


def _spectrum(head: Diversity, number: int) -> Figure | None:
    lines = []
    for name, series, values in (
        (f"{head.words.rows}, all alike", "s2", head.classes.spectrum),
        (f"{head.words.rows} by {head.words.weighing}", "s3", head.weighted_spectrum),
        ("features", "s1", head.features.spectrum if head.features else None),
    ):
        if values:
            points = tuple((float(axis), max(value / values[0], LEAST)) for axis, value in enumerate(values, 1))
            labels = tuple(f"axis {axis:.0f}: {compact(share, 3)} of the largest" for axis, share in points)
            lines.append(Line(name, series, points, labels))
    if not lines:
        return None
    least = min(share for line in lines for _, share in line.points)
    told = "; ".join(f"{line.name}: {len(line.points)} axes, the last {line.labels[-1]}" for line in lines)
    return Figure(
        f"spectrum-{number}-figure",
        "Spread along principal axes",
        "Standard deviations, relative to the largest. The right end is the theorem's margin.",
        f"Spread along principal axes. {told}.",
        Lines(tuple(lines), ("principal axis", "share of the largest"), log=True, y_range=(least, 1.0)),
    )


# Closeness


def _closeness(result: Closeness, verdict: str) -> Section:
    columns: Forms = {"quantity": str, "value": compact, "95% interval": compact, "largest": compact, "closer is": str}
    rows = [
        (name, value, Cell.between(interval, compact), largest, closer)
        for name, value, interval, largest, closer in result.quantities
    ]
    parts = (
        Prose((*_own(result.verdict, verdict), CLOSENESS[result.words.name])),
        Table.of("closeness-numbers", "Both kinds of closeness", columns, rows),
        *(() if result.kl.interval is None else (Prose((JACKKNIFE,)),)),
        _by_class(result),
    )
    return Section("closeness", "Closeness in distribution", parts)


def _by_class(result: Closeness) -> Figure:
    classes, words = result.log_odds.by_class, result.words
    points = tuple((float(rank), value) for rank, (_, value, _) in enumerate(classes, 1))
    labels = tuple(f"{words.row} {name}: {compact(value)} {words.unit}" for name, value, _ in classes)
    line = Line(result.distance, "s1", points, labels, dotted=True)
    top = max(1e-12, result.log_odds.value)
    return Figure(
        "classes-figure",
        f"{words.figure.capitalize()} {words.row} by {words.row}",
        f"Standard deviation over rows of the difference between the two models' {words.figure}, farthest {words.rows} "
        "first.",
        f"{len(classes)} {words.rows} from {labels[0]} down to {labels[-1]}.",
        Lines((line,), (f"{words.row}, by distance", words.unit), 240, y_range=(0.0, top)),
        legend=(Key("dot", "s1", f"one {words.row}"),),
    )


# The map


def _map(result: HeadMap, verdict: str) -> Section:
    words = result.words
    explained = MAP.format(words.figure, words.head), *((VACUOUS.format(words.rows),) if result.vacuous else ())
    said = (*_own(result.verdict, verdict), *explained)
    parts: list[Part] = [Prose(said)]
    if result.regression is not None:
        parts.append(_errors(result.regression))
    if result.figure is not None:
        parts.append(_planes(result.figure))
    forms: Forms = {"quantity": str, "value": str, "95% interval": fixed}
    rows = [(name, value, Cell.between(interval, fixed)) for name, value, interval in result.quantities]
    parts.append(Table.of("map-numbers", "All numbers of the map", forms, rows))
    degrees = [(number, math.degrees(angle)) for number, angle in enumerate(result.angles[:ANGLES_SHOWN], 1)]
    if degrees:
        columns: Forms = {"number": count, "degrees": lambda value: fixed(value, 3)}
        parts.append(Table.of("angles", "Principal angles", columns, degrees, folded=True))
    return Section("map", "The map that heads predict", tuple(parts))


def _errors(both: Regression) -> Figure:
    rows = []
    for name, series, each in (
        ("map from the heads", "s1", both.head),
        ("least squares, held out", "s3", both.regression),
    ):
        mean, span = each.error.mean, None if each.interval is None else (each.interval.low, each.interval.high)
        words = f"mean error {fixed(mean)}" + (f", {fixed(span[0])} to {fixed(span[1])}" if span else "")
        rows.append(IntervalRow(name, series, value=mean, interval=span, labels=(words, "", ""), printed=fixed(mean)))
    return Figure(
        "errors-figure",
        "Errors of the two maps",
        "Mean distance of mapped rows from their targets, with 95% intervals.",
        "; ".join(f"{row.name}: {row.labels[0]} diameters" for row in rows) + ".",
        Intervals(tuple(rows), "diameters of the target"),
    )


def _planes(plane: Plane) -> Row:
    every = [*plane.target, *plane.head, *plane.regression]
    (left, bottom), (right, top) = (tuple(end(side) for side in zip(*every, strict=True)) for end in (min, max))
    figures = []
    for key, how, points in (
        ("head", "from the heads alone", plane.head),
        ("regression", "from least squares", plane.regression),
    ):
        apart = [math.dist(here, there) for here, there in zip(points, plane.target, strict=True)]
        labels = tuple(f"row {name}: {fixed(gap, 3)} away here" for name, gap in zip(plane.rows, apart, strict=True))
        clouds = Cloud("target", "s2", plane.target, labels, hollow=True), Cloud("mapped source", "s1", points, labels)
        figure = Figure(
            f"plane-{key}-figure",
            f"Mapped {how}",
            "Rows on the target's principal plane, in its RMS radii; a thin line joins a row's two points.",
            f"{len(points)} rows mapped {how}: {fixed(sum(apart) / len(apart), 3)} RMS radii from their targets here.",
            Scatter(*clouds, (left, right, bottom, top), ("axis 1", "axis 2")),
            narrow=True,
        )
        figures.append(figure)
    return Row(tuple(figures))
