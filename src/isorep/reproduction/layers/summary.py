"""Outcomes of the units as tables, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from ..experiment import Outcome, Row, Summary, Table
from ..warmup.curves import Correlation
from .charts import charts
from .findings import findings, verdict
from .presets import Preset
from .reading import Group, Number, Reading, mean_of

Cell = tuple[Number, Number]


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = [_svcca(reading), *(_ladder(group, preset) for group in reading.groups), _follows(reading)]
    tables += [_models(reading)]
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _svcca(reading: Reading) -> Table:
    places = sorted({place for group in reading.groups for place in group.places})
    rows = []
    for group in reading.groups:
        for key, words in (("layers", ""), ("initial", ", untrained")):
            for components in group.components:
                cells = [group.svcca(place, components, key) for place in places]
                if any(value is not None for value, _ in cells):
                    rows.append(Row(f"{group.name}, {components} components{words}", *_columns(cells)))
    return Table(
        "svcca",
        "SVCCA by layer, counted from the last, ± s.e. over pairs",
        tuple("last" if place == 0 else f"−{place}" for place in places),
        tuple(rows),
        "higher is closer; of networks of one size the first layer is the embedding",
    )


def _ladder(group: Group, preset: Preset) -> Table:
    rows = []
    for place in group.places:
        cells = [group.error(place, rung) for rung in preset.rungs]
        cells += [group.error(place, "linear", share=True), group.error(place, "linear", "initial", share=True)]
        cells += [group.constant(place)]
        rows.append(Row(group.label(place), *_columns(cells)))
    columns = tuple(rung.replace("_", " ") for rung in preset.rungs)
    return Table(
        f"ladder-{group.anchor}",
        f"{group.name}: errors in diameters by layer, held out by document, ± s.e. over {group.count}",
        (*columns, "linear / chance", "untrained", "constant of the rest"),
        tuple(rows),
        "lower is closer; the constant is 1 where nothing remains",
    )


def _follows(reading: Reading) -> Table:
    rows = []
    for group in reading.groups:
        for last, words in ((True, "all layers"), (False, "without the last")):
            found = [
                group.follows(rung, share=share, last=last) for rung in ("rigid", "linear") for share in (False, True)
            ]
            if any(each.value is not None for each in found):
                rows.append(Row(f"{group.name}, {words}", *_columns([_half(each) for each in found])))
    return Table(
        "follows",
        "Rank correlation over layers of the error with the constant of the remaining network, mean of pairs ± half of "
        "the 95 % interval",
        ("rigid", "rigid / chance", "linear", "linear / chance"),
        tuple(rows),
        "1: the error grows with the constant; depth drives both",
    )


def _models(reading: Reading) -> Table:
    rows = []
    for size in reading.sizes:
        models = reading.of_size(size)
        cells = [mean_of([each.get(key) for each in models]) for key in ("loss", "held_out_loss", "unigram")]
        parameters = mean_of([each["parameters"] / 1000 for each in models])[0]
        rows.append(
            Row(f"{size}, {len(models)} trained" if len(models) > 1 else size, *_columns([*cells, (parameters, None)]))
        )
    columns = ("training", "held out", "frequency alone", "1000 parameters")
    return Table(
        "models", "Networks: cross-entropy of a token in nats, ± s.e.", columns, tuple(rows), "lower is better"
    )


def _half(found: Correlation) -> Cell:
    return found.value, None if found.low is None or found.high is None else (found.high - found.low) / 2


def _columns(cells: list[Cell]) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)
