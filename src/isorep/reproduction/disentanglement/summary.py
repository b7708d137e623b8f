"""Outcomes of the units as tables beside the published one, figures, findings and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..experiment import Outcome, Row, Summary, Table
from .charts import charts
from .findings import findings, verdict
from .presets import Preset
from .published import AGGREGATED, DATA, MEASURES, SOURCE, TABLE
from .reading import CONTROLS, Chosen, Mean, Reading, title

HIGHER = "higher is better"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables: list[Table | None] = [
        _scores(reading, scene, how) for scene in reading.scenes for how in ("published", "held-out")
    ]
    tables += [_aggregated(reading), _sweep(reading)]
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table is not None),
        charts=charts(reading),
        findings=findings(reading),
    )


def _scores(reading: Reading, scene: str, how: str) -> Table:
    """All models and controls of a scene under one rule of selection."""
    rows = []
    for model in (*reading.models, *CONTROLS):
        for way in reading.ways(model):
            chosen = (reading.as_published if how == "published" else reading.held_out)(scene, model, way)
            published = _published(scene, model, way) if how == "published" else ()
            rows.append(_row(title(model, way), chosen, published))
    said = (
        "setting and step with the best mean InfoM on training images, as published"
        if how == "published"
        else "setting and step that the other replicates choose, on images never trained on"
    )
    return Table(f"{scene}-{how}", f"{DATA.get(scene, scene)}: {said}", MEASURES, tuple(rows), HIGHER, _source(scene))


def _row(name: str, chosen: Chosen, published: tuple[float, ...] = ()) -> Row:
    if not chosen.scores:
        return Row(name, (), (), published)
    means = [chosen.mean(measure) for measure in MEASURES]
    return Row(name, tuple(mean.value for mean in means), tuple(mean.error for mean in means), published)


def _published(scene: str, model: str, way: str) -> tuple[float, ...]:
    """Published scores: those of Shapes3D beside rooms, which are drawn in its manner, and means beside others."""
    known = TABLE.get((model, way))
    if known is None:
        return ()
    if scene in known:
        return known[scene]
    return known["shapes3d"] if scene == "rooms" else AGGREGATED[model, way]


def _source(scene: str) -> str:
    if scene in DATA:
        return f"{SOURCE}, {DATA[scene]}"
    return f"{SOURCE}, {'Shapes3D' if scene == 'rooms' else 'all data sets'}: other images"


def _aggregated(reading: Reading) -> Table | None:
    """Means over the data sets of the paper, where all were run."""
    if not set(DATA) <= set(reading.scenes):
        return None
    rows = []
    for model in reading.models:
        for way in reading.ways(model):
            found = [reading.as_published(scene, model, way) for scene in DATA]
            means = [[chosen.mean(measure).value for chosen in found] for measure in MEASURES]
            values = tuple(
                None if any(value is None for value in each) else float(np.mean([value or 0.0 for value in each]))
                for each in means
            )
            rows.append(Row(title(model, way), values, (), AGGREGATED.get((model, way), ())))
    return Table("aggregated", "Mean over the data sets", MEASURES, tuple(rows), HIGHER, SOURCE)


def _sweep(reading: Reading) -> Table | None:
    """Weight decay of the autoencoder: reconstruction, conditioning, and what ICA makes of it; held-out images."""
    rows = []
    for scene in reading.scenes:
        for setting, points in reading.last_points(scene).items():
            columns = (
                [point["lost"] for point in points],
                [point["geometry"]["directions"] for point in points],
                [point["geometry"]["active"]["similarity"] for point in points],
                [point["geometry"]["active"]["median_condition"] for point in points],
                *(
                    [point["conditions"][way]["held_out"]["InfoM"] for point in points]
                    for way in ("raw", "published", "scaled", "pruned")
                ),
                [point["conditions"]["raw"]["held_out"]["InfoE"] for point in points],
            )
            means = [Mean.of(column) for column in columns]
            rows.append(
                Row(
                    f"{DATA.get(scene, scene)}, {setting}",
                    tuple(mean.value for mean in means),
                    tuple(mean.error for mean in means),
                )
            )
    names = ("lost", "directions", "constant", "condition", "AE", "as published", "rescaled", "pruned", "InfoE")
    title_ = (
        "The autoencoder by weight decay: share of the variance that reconstructions lose, directions the decoder "
        "responds to, its bi-Lipschitz constant (up to scale) and median condition number among these, and InfoM"
    )
    return Table("sweep", title_, names, tuple(rows), "held-out images, after the last step") if rows else None
