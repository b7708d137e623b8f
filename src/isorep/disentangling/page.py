"""The page of a disentanglement (schema ``isorep.disentangle/1``): the answer, traversals, components, trainings."""

from __future__ import annotations

from ..report.charts import rung_name
from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key, Picture
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed, percent

MOST_COMPONENTS, MOST_TRAININGS, MOST_DRAWN = 500, 100, 24


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    name = result["data"]["name"].text("images")
    sections = [_traversals(result), _components(result), _trainings(result), _agreement(result), *closing(result.raw)]
    return Page(
        title=f"{name} · disentanglement · isorep",
        eyebrow=f"Independent components of {name}",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    found = [node["comes_back"].raw for node in result["components"].nodes(MOST_COMPONENTS)]
    known = [value for value in found if isinstance(value, bool)]
    reached = None if not known or (any(known) and not all(known)) else all(known)
    sentence = result["verdict"].text("This result holds no verdict.")
    detail = (
        "A component that comes back is determined by the images and the kind of network; that it is a factor of the "
        "world is another question."
    )
    first = next(iter(result["trainings"].nodes(1)), Node(None))
    tiles = []
    if found:
        tiles.append(("components", count(len(found)), f"{count(sum(known))} come back" if known else "one training"))
    if first["lost"].number() is not None:
        tiles.append(("variance lost", percent(first["lost"].number()), "of held-out images"))
    if first["constant"].number() is not None:
        tiles.append(("decoder's constant", compact(first["constant"].number(), 3), "up to scale; 1 is an isometry"))
    if result["data"]["images"].number() is not None:
        tiles.append(
            ("images", count(result["data"]["images"].number()), f"{len(result['trainings'].nodes())} trainings")
        )
    verdict = Answer(sentence, detail, reached)
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _traversals(result: Node) -> Section | None:
    try:
        picture = Picture(result["sheet"]["png"].text(), "Traversals")
    except ValueError:
        return None
    rows = [node.whole() for node in result["rows"].nodes(MOST_DRAWN)]
    named = ", ".join(f"c{row}" for row in rows if row is not None)
    caption = (
        "Each row moves one component from its 5 % to its 95 % quantile, the others at rest"
        + (f"; from the top: {named}" if named else "")
        + "."
    )
    figure = Figure("traversals-figure", "Traversals", caption, caption, picture)
    return Section("traversals", "What components do", (figure,))


def _components(result: Node) -> Section | None:
    nodes = result["components"].nodes(MOST_COMPONENTS)
    rows, drawn = [], []
    for node in nodes:
        name = node["name"].text(MISSING)
        shared = [value for value in node["correlations"].numbers(MOST_TRAININGS) if value is not None]
        returned = node["comes_back"].raw
        back = MISSING if not isinstance(returned, bool) else "yes" if returned else "no"
        least = min(shared) if shared else None
        mean = sum(shared) / len(shared) if shared else None
        gaussian = "near-Gaussian" if node["gaussian"].raw is True else ""
        rows.append((Cell(name), Cell(back), Cell(fixed(mean, 3), mean), Cell(fixed(least, 3), least), Cell(gaussian)))
        if shared and all(0 <= value <= 1 for value in shared) and mean is not None:
            said = f"{fixed(mean, 3)}, {fixed(min(shared), 3)} to {fixed(max(shared), 3)}"
            drawn.append(
                IntervalRow(name, "s2", mean, (min(shared), max(shared)), labels=(said, "", ""), printed=fixed(mean, 3))
            )
    if not rows:
        return None
    titles = (("component", False), ("comes back", False), ("mean", True), ("least", True), ("", False))
    table = Table(
        "components",
        "Correlation with the partner in other trainings",
        tuple(Column(title, numeric=numeric) for title, numeric in titles),
        tuple(rows),
    )
    said = (
        "Components of the first training are matched one to one with those of each other one by absolute correlation. "
        "One comes back if the correlation is at least 0.9 in all of them."
    )
    figure = _figure(drawn[:MOST_DRAWN])
    return Section("components", "Components", tuple(part for part in (Prose((said,)), figure, table) if part))


def _figure(drawn: list[IntervalRow]) -> Figure | None:
    if not drawn:
        return None
    return Figure(
        "recurrence-figure",
        "Which components come back",
        "Mean absolute correlation with the partner in other trainings, and its range.",
        "; ".join(f"{row.name}: {row.printed}" for row in drawn),
        Intervals(tuple(drawn), "absolute correlation"),
        legend=(Key("dot", "s2", "mean"), Key("whisker", "s2", "range over trainings")),
    )


def _trainings(result: Node) -> Section | None:
    rows = []
    for node in result["trainings"].nodes(MOST_TRAININGS):
        numbers = [node[name].number() for name in ("seed", "loss", "lost", "directions", "constant", "condition")]
        texts = (
            compact(numbers[0], 8),
            fixed(numbers[1]),
            fixed(numbers[2], 3),
            count(numbers[3]),
            compact(numbers[4], 3),
            compact(numbers[5], 3),
        )
        rows.append(tuple(Cell(text, value) for text, value in zip(texts, numbers, strict=True)))
    if not rows:
        return None
    titles = ("seed", "loss", "variance lost", "directions", "constant", "condition")
    table = Table("trainings", "Each training", tuple(Column(title) for title in titles), tuple(rows))
    said = (
        "Loss is the mean cross-entropy per pixel, variance lost that of held-out reconstructions. Directions are "
        "those of the latents that the decoder responds to; the constant (up to scale, 1 is an isometry) and the "
        "median condition number are those of the decoder along them."
    )
    return Section("trainings", "Trainings", (Prose((said,)), table))


def _agreement(result: Node) -> Section | None:
    rows = []
    for name, node in result["agreement"]["rungs"].items()[:12]:
        numbers = [node[key].number() for key in ("mean", "worst", "null")]
        rows.append((Cell(rung_name(name)), *(Cell(fixed(value), value) for value in numbers)))
    if not rows:
        return None
    columns = (Column("rung", numeric=False), Column("mean"), Column("worst"), Column("shuffled"))
    table = Table(
        "agreement",
        "Held-out error, in mean distances to the mean; lower is closer, 1 is no better than the mean",
        columns,
        tuple(rows),
    )
    said = result["agreement"]["sentence"].text()
    parts = (Prose((said,)), table) if said else (table,)
    return Section("agreement", "How far the latents agree", parts)
