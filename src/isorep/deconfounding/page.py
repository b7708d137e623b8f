"""The page of a deconfounding: the answer, conditions, paired tests, components, the filter and how batches mix."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from ..ica.cards import Example
from ..ica.cards_page import card_parts, with_cards
from ..report.document import Answer, Cell, Column, Definitions, Figure, Forms, Page, Part, Prose, Row, Section, Table
from ..report.figures import IntervalRow, Intervals, Key, Line, Lines
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, fixed, percent
from .components import Component
from .maps import BEFORE, Plane
from .measures import Measure
from .result import CHANCE, Deconfounding, Mean, in_counts, told_p
from .transforms import condition_name

REACHED = {"helps": True, "hurts": False, "not shown": None, "too few batches": None}
HEADLINES = {
    "too few batches": "Too few batches to tell whether ICA helps.",
    "helps": "ICA helps on held-out batches.",
    "hurts": "ICA hurts on held-out batches.",
    "not shown": "ICA is not shown to help or to hurt.",
}
STEPS = {"helps": "ICA helps", "not shown": "not shown", "hurts": "ICA hurts"}
PALETTE = ("s1", "s2", "s3", "s4", "s5", "s6", "s0")  # of maps, the last for all other values
OTHERS = "others"
MOST_OPEN = 20
COLOURS = {"base": "s0", "pca": "s1", "pca_ica": "s2", "pca_rand": "s3"}
SHOWN_EXAMPLES = 3
CONDITIONS = (
    "A classifier learns on some batches to tell {positive} from {control} ({label}) and is judged on the others. Base "
    "is the embedding as it is, PCA whitens it, PCA+ICA and PCA+Rand turn the whitened space to independent components "
    "and at random. Conditions marked * use the controls of the held-out batch, those marked + its rows without labels."
)
CONCENTRATION = (
    "Hoyer sparsity is 0 where trees use all features alike and 1 where they use one. Top and rest are the AUROC of "
    "the most important share of features and of the others; share, ratio and Gini compare the two."
)
PAIRED = (
    "Each pair is one held-out {unit}, seen under both conditions. Intervals and p-values come from one sign-flip "
    "test: an interval excludes zero where p is at most 0.05. PCA+ICA against Base decides; the others are corrected "
    "after Holm."
)
FEW = (
    "Each pair is one held-out {unit}, seen under both conditions. Fewer than six pairs cannot give a p of 0.05: "
    "intervals are Student's and allow for training rows that folds share (Nadeau & Bengio 2003)."
)
DIMENSIONS = (
    "Whitening kept {kept} dimensions. The number was chosen in every fold inside its training batches: scores on "
    "batches left out there within one standard error of the best; of these the number at the noise floor of the "
    "spectrum, or else the smallest."
)
COMPONENTS = (
    "Components are found without labels. Information is mutual information in nats, of ten bins of equal counts. A "
    "component recurs if nine of ten refits to rows drawn anew find it again, correlated above 0.9."
)
FILTER = (
    "Components are dropped if batches explain more than {limit} of their values or of their spread, and more than the "
    "label does. "
    "They are chosen on the training batches of each fold, and the others are judged on the held-out ones."
)
MIXING = (
    "On a sample of {rows} rows of {batches} batches under the transforms of the first fold, with chance levels in "
    "brackets. Replicates: mean average precision of rows with one label in other batches, ranked by cosine similarity "
    "among the controls of the row's own batch. Neighbours: share of the nearest rows in other batches that have the "
    "row's label. Connected: share of a label's rows in the largest part of the graph of nearest neighbours.",
    "Batch AUROC is that of a linear classifier of the batch, judged on every second row, and of a random forest; "
    "chance is 0.5. Mixed is the share of neighbourhoods whose batches a chi-square test accepts as those of all rows "
    "(kBET); 0.95 by chance. Variance is the share between batches (principal component regression).",
)
MAP = (
    "{many} rows in two dimensions: the embedding, and the embedding put together again from the components that are "
    "not batch-driven ({dropped}). Both are coloured by {batch} and by {label}."
)
SHORT = partial(fixed, digits=3)


def page(result: Deconfounding) -> Page:
    """All of it, most important first."""
    name, answer = result.data.name, result.verdict.answer
    matrix = "" if result.place is None else f" of {result.place}"
    return page_of(
        result,
        f"{name} · deconfounding",
        f"Biology and batch in {name}",
        Answer.of(
            HEADLINES.get(answer, "ICA was not compared with the embedding as it is."),
            result.verdict.sentence,
            REACHED.get(answer),
            STEPS,
            answer,
        ),
        _tiles(result),
        (
            _conditions(result),
            _tests(result),
            _batches(result),
            _maps(result),
            _dimensions(result),
            _tasks(result),
            _components(result),
            _filter(result),
            _mixing(result),
        ),
        data=f"{name} {size(result.data.rows, result.data.columns)}{matrix}, {count(result.data.batches)} batches",
    )


def _tiles(result: Deconfounding) -> list[tuple[str, str, str]]:
    data, tiles = result.data, []
    for name in ("base", "pca_ica"):
        if name in result.conditions:
            auroc = result.conditions[name].scores[result.headline].auroc
            tiles.append((f"AUROC, {condition_name(name)}", fixed(auroc.value, 3), _error(auroc, 3)))
    only = f"{count(data.control_only)} with controls only" if data.control_only else f"{count(data.rows)} rows"
    tiles.append(("batches", count(data.batches), only))
    if result.components:
        driven = sum(component.batch_driven for component in result.components)
        tiles.append(("batch-driven components", count(driven), f"of {count(len(result.components))}"))
    return tiles


def _conditions(result: Deconfounding) -> Section:
    several, published = len(result.settings["classifiers"]) > 1, bool(result.settings["top"])
    rows: list[tuple[Any, ...]] = []
    concentrated: list[tuple[Any, ...]] = []
    data = result.data
    for name, condition in result.conditions.items():
        shown = Cell(condition.title, strong=name == "pca_ica")
        for classifier, scores in condition.scores.items():
            means = map(_mean, (scores.auroc, scores.average_precision, *((scores.hoyer,) if published else ())))
            rows.append((shown, *((classifier,) if several else ()), condition.dimensions, *means))
        for share, each in condition.scores[result.headline].concentration.items():
            means = map(_mean, (each.top, each.rest, each.share))
            concentrated.append((shown, float(share), *means, each.ratio.value, each.gini.value))
    columns: Forms = {"condition": str, **({"classifier": str} if several else {}), "dimensions": count}
    columns = {**columns, **dict.fromkeys(("AUROC", "average precision", *(("Hoyer",) if published else ())), SHORT)}
    table = Table.of("conditions", "On held-out batches, ± standard error", columns, rows)
    figures = dict.fromkeys(("AUROC top", "AUROC rest", "share", "ratio", "Gini"), SHORT)
    columns = {"condition": str, "top": compact, **figures}
    concentrated.sort(key=lambda row: row[1])
    second = Table.of("concentration", "Concentration, ± standard error", columns, concentrated)
    parts = (
        Prose((CONDITIONS.format(positive=result.positive, control=" and ".join(data.control), label=data.label),)),
        _auroc_figure(result),
        table,
        *((Prose((CONCENTRATION,)), second) if concentrated else ()),
    )
    return Section("conditions", "Conditions", parts)


def _auroc_figure(result: Deconfounding) -> Figure:
    rows = []
    for name, condition in result.conditions.items():
        auroc = condition.scores[result.headline].auroc
        low, value, high = (auroc.value + step * (auroc.error or 0) for step in (-1, 0, 1))
        rows.append(
            IntervalRow(
                condition_name(name),
                COLOURS.get(name, "s4"),
                value,
                None if auroc.error is None else (low, high),
                strong=name == "pca_ica",
                labels=(f"{fixed(auroc.value)} {_error(auroc)}".rstrip(), "", ""),
                printed=fixed(auroc.value, 3),
            )
        )
    return Figure(
        "auroc-figure",
        "AUROC by condition",
        f"On held-out batches, by {result.headline}, with one standard error; stems begin at chance, {CHANCE}.",
        "",
        Intervals(tuple(rows), f"AUROC on held-out batches; {CHANCE} is chance", origin=CHANCE, end=1.02),
        legend=(Key("dot", "", "mean"), Key("whisker", "", "± standard error")),
    )


def _tests(result: Deconfounding) -> Section | None:
    if not result.tests:
        return None
    numbers = dict.fromkeys(("difference", "95% interval", "p", "p, corrected"), fixed)
    columns: Forms = {"condition": str, "against": str, **numbers, "better in": count, "pairs": count}
    rows = []
    for test in result.tests:
        names, interval = map(condition_name, (test.condition, test.against)), Cell.between(test.interval, fixed)
        p = Cell(told_p(test.p_value, test.pairs), test.p_value, strong=test.primary and test.answer != "not shown")
        corrected = Cell(MISSING) if test.corrected is None else Cell(compact(test.corrected, 3), test.corrected)
        rows.append((*names, test.difference, interval, p, corrected, test.better, test.pairs))
    table = Table.of("tests", "Paired differences in AUROC", columns, rows)
    said = (PAIRED if result.tests[0].p_value is not None else FEW).format(unit=result.unit_word)
    return Section("tests", "Paired tests", (Prose((said,)), table))


def _dimensions(result: Deconfounding) -> Section | None:
    """The scores by which the number of dimensions was chosen."""
    if result.dimensions is None or not result.dimensions.curve:
        return None
    columns: Forms = {"dimensions": count, "AUROC": SHORT, "folds that chose it": count}
    curve = result.dimensions.curve
    rows = [(point.dimensions, point.auroc, point.chosen) for point in curve]
    table = Table.of("dimensions", "Linear discriminant on left-out training batches", columns, rows)
    labels = tuple(f"{point.dimensions} dimensions: {fixed(point.auroc, 3)}" for point in curve)
    points = tuple((math.log2(point.dimensions), point.auroc) for point in curve)
    figure = Figure(
        "dimensions-figure",
        "AUROC by number of dimensions",
        "Of a linear discriminant on batches left out of the training batches, averaged over folds.",
        "",
        Lines(
            (Line("AUROC", "s2", points, labels),),
            ("dimensions (log scale)", "AUROC"),
            240,
            ticks=tuple((math.log2(point.dimensions), str(point.dimensions)) for point in curve),
        ),
    )
    said = DIMENSIONS.format(kept=result.dimensions)
    return Section("dimensions", "Number of dimensions", (Prose((said,)), figure, table))


def _tasks(result: Deconfounding) -> Section | None:
    """Mean AUROC of every task, where there are several."""
    if len(result.tasks) < 2:
        return None
    rows = tuple(
        (Cell(task), *(_number(result.mean("auroc", name, task=task).value, 3) for name in result.conditions))
        for task in result.tasks
    )
    columns = (Column("task", numeric=False), *(Column(condition_name(name)) for name in result.conditions))
    return Section("tasks", "Tasks", (Table("tasks", "Mean AUROC of every task", columns, rows),))


def _components(result: Deconfounding) -> Section | None:
    """Every component: what label and batch have to do with it."""
    every = result.components
    if not every:
        return None
    clouds = []
    for driven, name, series in ((False, "kept", "s2"), (True, "batch-driven", "s1")):
        mine = [(each.number, each.by_label, each.by_batch()) for each in every if each.batch_driven == driven]
        labels = tuple(f"component {at}: label {fixed(x, 3)}, batch {fixed(y, 3)}" for at, x, y in mine)
        clouds.append(Line(name, series, tuple((x, y) for _, x, y in mine), labels, dotted=True))
    shown = tuple(cloud for cloud in clouds if cloud.points)
    reach = 0.0, 1.05 * max(1e-3, *(each.by_batch() for each in every))
    axes = "R² with label (values or spread)", "R² with batch"
    figure = Figure(
        "components-figure",
        "Biology against batch",
        "Each dot is a component of PCA+ICA: the share of its values or of its spread, whichever is larger, that the "
        "label explains, and the largest such share of a batch column, both less what chance would explain.",
        f"{len(every)} components, of which {len(clouds[1].points)} are batch-driven.",
        Lines(shown, axes, 340, y_range=reach),
    )
    table, cards = _component_table(every), result.cards
    if cards is None:
        return Section("components", "Components", (Prose((COMPONENTS,)), figure, table))
    first = (result.data.label, *result.data.batch)
    grid = card_parts(cards, first=first, badges=lambda card: ("batch-driven",) * every[card.number].batch_driven)
    whole = with_cards(table, cards, skip=first)
    return Section("components", "Components", (Prose((COMPONENTS,)), figure, *grid, whole))


def _component_table(every: tuple[Component, ...]) -> Table:
    batches = list(every[0].batch_r2)
    kinds = ("R²", "R² of spread", "information")
    numbers = ["component", *(f"{column} {kind}" for column in ("label", *batches) for kind in kinds)]
    words = ("recurs", "remark", "highest rows", "lowest rows")
    rows = []
    for each in every:
        values = [each.label_r2, each.label_spread_r2, each.label_information]
        for batch in batches:
            values += [each.batch_r2[batch], each.batch_spread_r2[batch], each.batch_information[batch]]
        remarks = ["batch-driven"] * each.batch_driven + ["near-Gaussian"] * bool(each.gaussian)
        recurs = {True: "yes", False: "no", None: MISSING}[each.recurs]
        texts = (recurs, ", ".join(remarks), _examples(each.highest), _examples(each.lowest))
        cells = (Cell(count(each.number), each.number), *map(_number, values), _number(each.recurrence, 3))
        rows.append((*cells, *map(Cell, texts)))
    columns = (*map(Column, (*numbers, "recurrence")), *(Column(title, numeric=False) for title in words))
    return Table("components", "All components", columns, tuple(rows), folded=True)


def _filter(result: Deconfounding) -> Section | None:
    """What dropping batch-driven components does."""
    without = result.filtered
    if without is None:
        return None
    items = (
        ("AUROC without them", fixed(without.auroc.value), _error(without.auroc)),
        ("difference", fixed(without.difference), f"95% interval {Cell.between(without.interval, fixed).text}"),
        ("p", told_p(without.p_value, without.pairs), in_counts(without, result.unit_word)),
        ("components dropped per fold", fixed(without.dropped, 1), ""),
    )
    said = FILTER.format(limit=compact(result.settings["batch_limit"]))
    return Section("filter", "Without batch-driven components", (Prose((said,)), Definitions(items)))


def _mixing(result: Deconfounding) -> Section | None:
    """Batches and labels in each space."""
    spaces = result.spaces()
    if not spaces:
        return None
    first = spaces[0][1]
    titles = ("replicates", "neighbours", "connected", "variance between batches")
    numbers = ("batch AUROC", "batch AUROC, forest", "mixed", "batch silhouette", "label silhouette")
    columns: Forms = {"condition": str, **dict.fromkeys(titles, SHORT), **dict.fromkeys(numbers, SHORT)}
    rows = []
    for title, each in spaces:
        measures = (each.replicates, each.neighbours, each.connectivity, each.batch_variance)
        values = (each.batch_auroc, each.batch_forest_auroc, each.accepted)
        rows.append((title, *map(_measure, measures), *values, each.batch_silhouette, each.label_silhouette))
    table = Table.of("mixing", "Labels and batches in each space", columns, rows)
    said = tuple(each.format(rows=count(first.rows), batches=count(first.batches)) for each in MIXING)
    return Section("mixing", "Labels across batches, and batches", (Prose(said), table))


def _measure(found: Measure | None) -> Cell:
    if found is None:
        return Cell(MISSING)
    return Cell(f"{fixed(found.value, 3)} ({fixed(found.chance, 3)})", found.value)


def _batches(result: Deconfounding) -> Section | None:
    """The AUROC of every held-out batch by name."""
    scores = [score for score in result.scores if score.classifier == result.headline and score.batch is not None]
    names = sorted({score.batch for score in scores if score.batch is not None})
    if len(names) < 2:
        return None
    found: dict[tuple[str, str], list[float]] = {}
    for score in scores:
        found.setdefault((str(score.batch), score.condition), []).append(score.auroc)
    means = {key: float(np.mean(values)) for key, values in found.items()}
    lines = []
    for name in [each for each in ("base", "pca_ica") if each in result.conditions]:
        known = [(place, means[batch, name]) for place, batch in enumerate(names, 1) if (batch, name) in means]
        labels = tuple(f"{names[place - 1]}: {fixed(value, 3)}" for place, value in known)
        points = tuple((float(place), value) for place, value in known)
        lines.append(Line(condition_name(name), COLOURS[name], points, labels, dotted=True))
    rows = tuple(
        (Cell(batch), *(_number(means.get((batch, name)), 3) for name in result.conditions)) for batch in names
    )
    columns = (Column("held-out batch", numeric=False), *(Column(each.title) for each in result.conditions.values()))
    table = Table("batches", "AUROC on every held-out batch", columns, rows, folded=len(rows) > MOST_OPEN)
    if not lines:
        return Section("batches", "Every held-out batch", (table,))
    low = min(0.5, *(value for line in lines for _, value in line.points))
    figure = Figure(
        "batches-figure",
        "Every held-out batch",
        f"AUROC by {result.headline} on each batch while it was held out; {CHANCE} is chance.",
        "",
        Lines(tuple(lines), ("held-out batch, in the order of the table", "AUROC"), 260, y_range=(low - 0.02, 1.02)),
    )
    return Section("batches", "Every held-out batch", (figure, table))


def _maps(result: Deconfounding) -> Section | None:
    """Rows in two dimensions, before and after, coloured by batch and by label."""
    maps = result.maps
    if maps is None or not result.components:
        return None
    driven = sum(component.batch_driven for component in result.components)
    dropped = f"{count(driven)} of {count(len(result.components))} are" if driven else "none is, so all are kept"
    names = {"batch": result.data.batch[0], "label": result.data.label}
    parts: list[Part] = [Prose((MAP.format(many=count(len(maps.rows)), dropped=dropped, **names),))]
    for role, values in (("batch", maps.batch), ("label", maps.label)):
        for method in dict.fromkeys(plane.method for plane in maps.planes):
            figures = [
                _plane(plane, values, f"map-{role}-{method.lower()}-{at}", names[role])
                for at, plane in enumerate(plane for plane in maps.planes if plane.method == method)
            ]
            parts.append(Row(tuple(figures)))
    return Section("maps", "Maps", tuple(parts))


def _plane(plane: Plane, names: tuple[str, ...], key: str, what: str) -> Figure:
    """One map; the largest classes have colours of their own."""
    common = [name for name, _ in Counter(names).most_common()]
    told = common if len(common) <= len(PALETTE) else common[: len(PALETTE) - 1]
    lines = []
    for place, name in enumerate([*told, *([OTHERS] if len(told) < len(common) else [])]):
        mine = [at for at, each in enumerate(names) if (each == name if name != OTHERS else each not in told)]
        labels = tuple(names[at] for at in mine)
        lines.append(Line(name, PALETTE[place], tuple(plane.points[at] for at in mine), labels, dotted=True))
    shown = "" if plane.shown is None else f" The two axes show {percent(plane.shown)} of the variance."
    return Figure(
        key,
        f"{plane.method} of the {plane.space}" if plane.space == BEFORE else f"{plane.method} {plane.space}",
        f"Coloured by {what}.{shown}",
        f"{len(names)} rows of {len(common)} values of {what}.",
        Lines(tuple(lines), (f"{plane.method} 1", f"{plane.method} 2"), square=True),
    )


def _error(mean: Mean, digits: int = 4) -> str:
    return "" if mean.error is None else f"± {fixed(mean.error, digits)}"


def _mean(mean: Mean | None) -> Cell:
    """A mean with its standard error; of no values there is none."""
    if mean is None or not mean.n:
        return Cell(MISSING)
    return Cell(f"{fixed(mean.value, 3)} {_error(mean, 3)}".rstrip(), mean.value)


def _number(value: float | None, digits: int = 4) -> Cell:
    return Cell(fixed(value, digits), value)


def _examples(rows: tuple[Example, ...]) -> str:
    return ", ".join(row.id or str(row.row) for row in rows[:SHOWN_EXAMPLES])
