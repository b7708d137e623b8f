"""The page of a disentanglement: the answer, traversals, components, trainings and how far latents agree."""

from __future__ import annotations

import math
from functools import partial

from ..report.charts import rung_name
from ..report.document import Answer, Figure, Forms, Page, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key, Picture
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, fixed, percent
from .result import COMES_BACK, HALF, Disentanglement

MOST_DRAWN = 24
WORLD = (
    "A reproducible component is determined by the images and the kind of network; that it is a factor of the "
    "world is another question."
)
MATCHED = (
    "Components of the first training are matched one to one with those of each other one by absolute correlation. "
    f"One is reproducible if the correlation is at least {COMES_BACK} in all of them."
)
DRAWN = ("image", "components", "difference", "PCA")
RECONSTRUCTIONS = (
    "Images that the first training has not seen, from the best reconstructed to the worst: as they are, drawn from "
    "the components, the difference of the two (grey is none), and drawn from as many principal components of the "
    "pixels."
)
TRAININGS = (
    "Loss is the mean cross-entropy per pixel, variance lost that of held-out reconstructions from all latents, "
    "variance kept that from the components alone, kept by PCA that from as many principal components of the pixels. "
    "Directions are those of the latents that the decoder responds to; the constant (up to scale, 1 is an isometry) "
    "and the median condition number are those of the decoder along them."
)


def page(result: Disentanglement) -> Page:
    """All of it, most important first."""
    name = result.data["name"]
    back = [component.comes_back is True for component in result.components]
    # No success without more than principal components have; a mixed answer where some components are reproducible.
    open_ended = result.learnt is None or result.ensemble is None or (any(back) and not all(back))
    answer = False if result.learnt is False else None if open_ended else all(back)
    return page_of(
        result,
        f"{name} · disentanglement",
        f"Independent components of {name}",
        Answer(_headline(result, sum(back)), f"{result.verdict} {WORLD}", answer),
        _tiles(result, sum(back)),
        (_traversals(result), _reconstructions(result), _components(result), _trainings(result), _agreement(result)),
        data=f"{name} {count(result.data['images'])} images of "
        f"{size(result.data['height'], result.data['width'])} pixels",
    )


def _headline(result: Disentanglement, back: int) -> str:
    worst, components = result.worst, len(result.components)
    if math.isnan(worst.kept):
        return "The held-out images are all alike: nothing can be judged."
    if not worst.ahead and worst.kept <= worst.principal:
        return "No better than principal components."
    if not worst.ahead:
        return "Not shown to be better than principal components."
    if worst.kept < HALF:
        return "Most of the held-out variance is lost."
    if result.ensemble is None:
        return f"{components} components from a single training."
    return f"{back} of {components} components are reproducible in every other training."


def _tiles(result: Disentanglement, back: int) -> tuple[tuple[str, str, str], ...]:
    first, worst, trainings = result.trainings[0], result.worst, len(result.trainings)
    # The training that the verdict quotes; an error above the variance keeps none of it.
    kept, principal = (percent(max(each, 0.0)) for each in (worst.kept, worst.principal))
    which = "; worst training" if trainings > 1 else ""
    return (
        ("components", count(len(result.components)), f"{back} reproducible" if trainings > 1 else "one training"),
        ("held-out variance kept", kept, f"{principal} by as many principal components{which}"),
        ("decoder's constant", compact(first.constant, 3), "up to scale; 1 is an isometry"),
        ("images", count(result.data["images"]), f"{trainings} training{'s' if trainings > 1 else ''}"),
    )


def _traversals(result: Disentanglement) -> Section | None:
    try:
        picture = Picture(result.sheet.to_dict()["png"], "Traversals", tuple(f"ica{row}" for row in result.rows))
    except ValueError:  # many large images make a sheet that no page has room for
        return None
    caption = "Each row moves one component from its 5% to its 95% quantile, the others at rest."
    figure = Figure("traversals-figure", "Traversals", caption, "", picture)
    return Section("traversals", "What components do", (figure,))


def _reconstructions(result: Disentanglement) -> Section | None:
    try:
        picture = Picture(result.reconstructions.to_dict()["png"], "Held-out images and what is drawn of them", DRAWN)
    except ValueError:
        return None
    figure = Figure("reconstructions-figure", "Held-out images", RECONSTRUCTIONS, "", picture)
    return Section("reconstructions", "What components keep", (figure,))


def _components(result: Disentanglement) -> Section:
    short = partial(fixed, digits=3)
    rows, drawn = [], []
    for each in result.components:
        shared = each.correlations
        mean, least = (sum(shared) / len(shared), min(shared)) if shared else (None, None)
        back = {True: "yes", False: "no", None: MISSING}[each.comes_back]
        rows.append((each.name, back, mean, least, "near-Gaussian" if each.gaussian else ""))
        if mean is not None:
            span = (min(shared), max(shared))
            said = f"{short(mean)}, {short(span[0])} to {short(span[1])}"
            drawn.append(IntervalRow(each.name, "s2", mean, span, labels=(said, "", ""), printed=short(mean)))
    figure = Figure(
        "recurrence-figure",
        "Which components are reproducible",
        "Mean absolute correlation with the partner in other trainings, and its range.",
        "",
        Intervals(tuple(drawn[:MOST_DRAWN]), "absolute correlation", end=1.04),
        legend=(Key("dot", "s2", "mean"), Key("whisker", "s2", "range over trainings")),
    )
    columns: Forms = {"component": str, "reproducible": str, "mean": short, "least": short, "": str}
    table = Table.of("components", "Correlation with the partner in other trainings", columns, rows)
    return Section("components", "Components", (Prose((MATCHED,)), *((figure,) if drawn else ()), table))


def _trainings(result: Disentanglement) -> Section:
    short = partial(compact, digits=3)
    columns: Forms = {
        "seed": partial(compact, digits=8),
        "loss": fixed,
        "variance lost": partial(fixed, digits=3),
        "variance kept": partial(fixed, digits=3),
        "kept by PCA": partial(fixed, digits=3),
        "directions": count,
        "constant": short,
        "condition": short,
    }
    rows = [
        (each.seed, each.loss, each.lost, each.kept, each.principal, each.directions, each.constant, each.condition)
        for each in result.trainings
    ]
    table = Table.of("trainings", "Each training", columns, rows)
    return Section("trainings", "Trainings", (Prose((TRAININGS,)), table))


def _agreement(result: Disentanglement) -> Section | None:
    agreement = result.agreement
    if agreement is None:
        return None
    columns: Forms = {"rung": str, "mean": fixed, "worst": fixed, "shuffled": fixed}
    rows = [(rung_name(name), *rung.values()) for name, rung in agreement["rungs"].items()]
    title = "Held-out error, in mean distances to the mean; lower is closer, 1 is no better than the mean"
    table = Table.of("agreement", title, columns, rows)
    return Section("agreement", "How far the latents agree", (Prose((agreement["sentence"],)), table))
