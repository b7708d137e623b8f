"""The page of latents compared with the true factors: what is measured and what Theorem 3 allows."""

from __future__ import annotations

from ..report.document import Answer, Definitions, Page, Prose, Section
from ..report.page import page_of, size
from ..report.read import fixed, percent
from .page import number
from .pair_page import (
    allowance,
    assumption_table,
    bound_table,
    bounds_headline,
    error_figure,
    error_table,
    ica_section,
    side_table,
    violations,
)
from .structural_result import TITLES, Structural

MEASURED = (
    "Measured errors are those of the best rigid motion from latents to factors without a scale, in diameters of the "
    "factors.",
    "The process counts as the decoder of the factors. Bounds take the reconstruction to be perfect, or allow for its "
    "error; by chords they take ratios of distances in the place of singular values.",
)
STATISTICAL = (
    "Two models that are near the factors are near each other (A.5): the errors of their rigid motions add up. The "
    "first number is for two models as near as this one."
)
SIDES = {
    "how": "singular values",
    "rows": "rows they were taken at",
    "inputs": "inputs",
    "outputs": "outputs",
    "constant": "constant 1 + L",
    "similarity_constant": "constant up to scale",
    "largest": "largest singular value",
    "smallest": "smallest singular value",
    "chord_largest": "longest chord over distance",
    "chord_smallest": "shortest chord over distance",
    "diameter": "diameter of the inputs",
}


def page(result: Structural) -> Page:
    """All of it, most important first."""
    figures = tuple(error_figure(result, error, TITLES) for error in ("rms", "sup"))
    return page_of(
        result,
        "Latents and factors · Theorem 3",
        "Latents compared with the true factors",
        Answer(bounds_headline(bool(result.violated)), result.sentence, not result.violated),
        _tiles(result),
        (
            Section("errors", "Measured and allowed", (Prose(MEASURED), *figures, error_table(result, "the factors"))),
            Section("bounds", "Bounds", (*violations(result, TITLES), bound_table(result, TITLES, "the factors"))),
            Section("assumptions", "Assumptions", (assumption_table(result),)),
            Section("maps", "Process and decoder", (side_table("Both maps", (result.process, result.decoder), SIDES),)),
            Section("statistical", "Two models near the factors", (Prose((STATISTICAL,)), _statistical(result))),
            None if result.ica is None else ica_section(result.ica, ("latents", "factors")),
        ),
        data=f"latents {size(result.rows, result.decoder.inputs)}, factors {size(result.rows, result.process.inputs)}",
    )


def _tiles(result: Structural) -> list[tuple[str, str, str]]:
    source, measured = result.allowed
    tiles = [
        *allowance(result.broken, source, result.bounds[source].rms, measured, TITLES),
        ("process", number(result.process.similarity_constant, 3), "constant up to scale"),
        ("decoder", number(result.decoder.similarity_constant, 3), "constant up to scale"),
    ]
    if result.mismatch is not None:
        tiles.append(("reconstruction error", percent(result.mismatch.share), "of the data's spread"))
    if result.unmixed is not None:
        tiles.append(("after ICA", fixed(result.unmixed.mean, 3), "mean correlation with the factors"))
    return tiles


def _statistical(result: Structural) -> Definitions:
    told = result.statistical
    items = [("largest error, at most", number(told.bound.value), "diameters, two models as near as this one")]
    of = "two models as near as this one" if told.between is None else "this model and the other"
    items.append(("root mean square error, at most", number(told.rms_bound), f"diameters, {of}"))
    if told.between is not None and told.error is not None:
        items.append(("root mean square error, measured", number(told.between.rms), "between the two models"))
        items.append(("the other model's error", number(told.error.rms), "from the factors"))
    return Definitions(tuple(items))
