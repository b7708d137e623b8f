"""The page of two models layer by layer: one row per layer, errors over layers, and the ladder of every layer."""

from __future__ import annotations

from ..report.charts import colour, rung_name
from ..report.document import Answer, Figure, Forms, Heading, Page, Part, Prose, Section, Table
from ..report.figures import Line, Lines
from ..report.page import page_of, sizes
from ..report.read import count, fixed
from .layers import NONE, UNJUDGED, LayerComparison, chance_of, error_of, told_rung
from .page import ladder_table
from .result import Rung, Verdict
from .rows_page import three
from .verdict import best_rung

LONGEST = 16  # letters of a layer's name on an axis
HIGHEST = 2.0  # errors above are drawn at the edge
CHANCE = "s5"
UNIT = (
    "Mean errors on rows that the maps have not seen, in mean distances of {0} to its mean; lower is closer and 1 is "
    "no better than predicting the mean. Each layer of {1} is mapped onto the one of the same name of {0}. Chance and "
    "R² are those of the rung with the smallest error."
)


def page(result: LayerComparison) -> Page:
    """All of it, most important first."""
    source, target = result.source, result.target
    told = {told_rung(each.verdict) for each in result.layers.values()}
    found = [each.verdict.rung is not None for each in result.layers.values()]
    sure = None if result.verdict.qualified or len(told) > 1 else all(found)
    return page_of(
        result,
        f"{source} → {target}, layer by layer",
        f"Comparison of the layers of {source} (source) with those of {target} (target)",
        Answer(_headline(told, len(result.layers)), result.verdict.sentence, sure),
        _tiles(result),
        (
            Section(
                "layers",
                "Layer by layer",
                (Prose((UNIT.format(target, source),)), layer_table(result), _error_figure(result)),
            ),
            Section("every-layer", "Every layer", tuple(_every_layer(result))),
            Section(
                "reverse",
                "The reverse direction",
                (Prose((UNIT.format(source, target),)), layer_table(result, reverse=True)),
            ),
        ),
        data=f"{source} {sizes((each.source.rows, each.source.columns) for each in result.layers.values())} → "
        f"{target} {sizes((each.target.rows, each.target.columns) for each in result.layers.values())}",
    )


def _headline(told: set[str], layers: int) -> str:
    where = "the one layer compared" if layers == 1 else f"all {layers} layers"
    if len(told) > 1:
        return f"The answer differs between the {layers} layers."
    (rung,) = told
    if rung.startswith(UNJUDGED):
        return f"No verdict on {where}."
    if rung.startswith(NONE):
        return f"No rung suffices in {where}."
    name = rung_name(rung.partition(" (")[0])
    return f"{name[:1].upper()}{name[1:]} is the smallest rung that suffices in {where}."


def _tiles(result: LayerComparison) -> list[tuple[str, str, str]]:
    best = {layer: each.rungs[best_rung(each.rungs)] for layer, each in result.layers.items()}
    low, high = (pick(best, key=lambda layer: best[layer].held_out.mean) for pick in (min, max))
    only = len(result.only_source) + len(result.only_target)
    beside = f"{count(only)} more on one side only" if only else "in both folders"
    return [
        ("layers compared", count(len(best)), beside),
        *(
            (
                words,
                three(best[layer].held_out.mean),
                f"layer {layer}, {rung_name(best[layer].name)}; {_chance(best[layer])}",
            )
            for words, layer in (("closest layer", low), ("farthest layer", high))
        ),
    ]


def _chance(rung: Rung) -> str:
    chance = chance_of(rung)
    return "no chance level" if chance is None else f"chance {three(chance)}"


def layer_table(result: LayerComparison, *, reverse: bool = False) -> Table:
    """One row per layer: the verdict's rung, the error of every rung, and chance and R² of the best one."""
    columns: Forms = dict.fromkeys((rung_name(rung).removeprefix("signed ") for rung in result.rungs), three)
    columns = {"layer": str, "verdict": str, **columns, "chance": three, "R²": three}
    rows = []
    for layer, direction in result.directions(reverse=reverse).items():
        best = direction.rungs[best_rung(direction.rungs)]
        errors = (error_of(direction, name) for name in result.rungs)
        rows.append((layer, _told(direction.verdict), *errors, chance_of(best), best.explained))
    ends = (result.target, result.source) if reverse else (result.source, result.target)
    return Table.of("layers-reverse" if reverse else "layers-table", " → ".join(ends), columns, rows)


def _told(verdict: Verdict) -> str:
    rung = verdict.rung or ""
    return told_rung(verdict).replace(rung, rung_name(rung)) if rung else told_rung(verdict)


def _error_figure(result: LayerComparison) -> Figure:
    """One line per rung over the layers, and the chance level of the best rung."""
    directions = list(result.directions().values())
    names = list(result.layers)
    best = [direction.rungs[best_rung(direction.rungs)] for direction in directions]
    series = {rung_name(rung): [error_of(each, rung) for each in directions] for rung in result.rungs}
    colours = [*map(colour, result.rungs), CHANCE]
    lines = []
    for (name, values), hue in zip(
        {**series, "chance of the best": list(map(chance_of, best))}.items(), colours, strict=True
    ):
        known = [(place, value) for place, value in enumerate(values) if value is not None]
        labels = tuple(f"{names[place]} {fixed(value)}" for place, value in known)
        if known:
            points = tuple((float(place), value) for place, value in known)
            lines.append(Line(name, hue, points, labels, dotted=hue == CHANCE))
    shared = _shared_start(names)
    top = max(y for line in lines for _, y in line.points)
    chance = " Chance is what shuffled rows give to the rung with the smallest error; that of every rung is below."
    beside = chance if lines[-1].series == CHANCE else ""
    cut = f" Errors above {HIGHEST:g} are drawn at the edge." if top > HIGHEST else ""
    return Figure(
        "layer-errors-figure",
        "Errors over layers",
        f"Held-out mean error of every rung; 1 is the error of predicting the mean.{beside}{cut}",
        "",
        Lines(
            tuple(lines),
            (f"layer {shared}…" if shared else "layer", "mean error; 1 is no better than the mean"),
            320,
            y_range=(0.0, min(max(1.05, 1.05 * top), HIGHEST)),
            ticks=tuple((float(place), _short(name.removeprefix(shared))) for place, name in enumerate(names)),
        ),
    )


def _shared_start(names: list[str]) -> str:
    """What all names begin with, up to a dot or an underscore."""
    first, last = min(names), max(names)  # what these two share, all share
    same = next((place for place, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), 0)
    return first[: max(first.rfind(".", 0, same), first.rfind("_", 0, same)) + 1]


def _short(name: str) -> str:
    """The end of a long name, where layers differ."""
    return name if len(name) <= LONGEST else f"…{name[-LONGEST + 1 :]}"


def _every_layer(result: LayerComparison) -> list[Part]:
    parts: list[Part] = []
    for number, (layer, each) in enumerate(result.layers.items()):
        parts += [
            Heading(f"Layer {layer}"),
            Prose((each.verdict.sentence,)),
            ladder_table(each.forward, f"ladder-{number}"),
        ]
    return parts
