"""What became of each factor, latent, slot and column, as tables, and the ladder from latents onto factors."""

from __future__ import annotations

from .parts import Cell, Column, Notes, Prose, Section, Table
from .rungs import rung_name
from .structure_information import MOST_FACTORS, MOST_LATENTS
from .values import MISSING, Node, count, fixed


def factors_section(result: Node) -> Section | None:
    """One row a factor."""
    rows = []
    for node in result["factors"].nodes(MOST_FACTORS):
        state = node["state"].text(MISSING)
        rows.append(
            (
                Cell(node["name"].text()),
                Cell(state, strong=state == "captured"),
                Cell(node["latent"].text(MISSING)),
                _number(node["nmi"]),
                _number(node["share"], 2),
                _number(node["purity"], 2),
                _number(node["explicitness"]),
            )
        )
    if not rows:
        return None
    sentences = tuple(f"{each}." for each in (node["sentence"].text() for node in result["factors"].nodes(12)) if each)
    titles = ("factor", "state", "best latent", "NMI", "share", "purity", "explicitness")
    table = Table("factors", "What became of each factor", titled(titles, titles[:3]), tuple(rows))
    said = (
        "Information counts above what the best latent reaches in 95 % of shuffles, and above 0.05. Share is how much "
        "of what all latents know about the factor is in its best latent; purity, how much of what that latent knows "
        "is about this factor. A factor is captured if both reach two thirds, split if share does not, mixed if purity "
        "does not, and lost if no latent knows it. Explicitness is its part of InfoE."
    )
    parts = (Notes(sentences) if sentences else None, table, Prose((said,)))
    return Section("factors", "Factors", tuple(part for part in parts if part is not None))


def latents_section(result: Node) -> Section | None:
    """One row a latent."""
    rows = []
    for node in result["latents"].nodes(4 * MOST_LATENTS):
        about = ", ".join(each.text() for each in node["factors"].nodes(6))
        rows.append(
            (
                Cell(node["name"].text()),
                Cell(node["state"].text(MISSING), strong=node["state"].text() == "pure"),
                Cell(node["factor"].text(MISSING)),
                _number(node["nmi"]),
                _number(node["purity"], 2),
                Cell(about or MISSING),
            )
        )
    if not rows:
        return None
    titles = ("latent", "state", "main factor", "NMI", "purity", "informs about")
    columns = titled(titles, (*titles[:3], titles[-1]))
    return Section("latents", "Latents", (Table("latents", "What each latent is about", columns, tuple(rows)),))


def slots_section(result: Node) -> Section | None:
    """Which inferred slot holds which true one."""
    node = result["records"]["slots"]
    rows = []
    on, off = node["on"].numbers(MOST_FACTORS), node["off"].numbers(MOST_FACTORS)
    for place, match in enumerate(node["matches"].nodes(MOST_FACTORS)):
        cells = [values[place] if place < len(values) else None for values in (on, off)]
        rows.append((Cell(str(place)), Cell(match.text(MISSING)), *(Cell(fixed(cell, 3), cell) for cell in cells)))
    if not rows:
        return None
    titles = ("true slot", "inferred slot", "R² from it", "best R² from another")
    return Section("slots", "Slots", (Table("slots", "Matched slots", titled(titles, titles[:2]), tuple(rows)),))


def ladder_section(result: Node) -> Section | None:
    """What the best map of each group leaves."""
    rows = []
    for name, node in result["ladder"]["rungs"].items()[:10]:
        mean = node["held_out"]["mean"].number()
        null = node["null"]["mean"].number()
        rows.append(
            (Cell(rung_name(name)), Cell(fixed(mean), mean), span(node["interval"], 4), Cell(fixed(null), null))
        )
    if not rows:
        return None
    titles = ("group", "mean error, unseen rows", "95 % interval", "chance")
    said = (
        "The best map of each group from latents onto factors, and what it leaves on unseen rows, in diameters of the "
        f"standardised factors; lower is closer. {result['ladder']['verdict']['sentence'].text()}"
    )
    table = Table("ladder", "Up to which group latents are the factors", titled(titles, titles[:1]), tuple(rows))
    return Section("ladder", "Ladder", (Prose((said,)), table))


def columns_section(result: Node) -> Section | None:
    """Which columns are discrete, and by which rule."""
    rows = []
    for side in ("factors", "latents"):
        for node in result["columns"][side].nodes(4 * MOST_LATENTS):
            kind = "discrete" if node["discrete"].raw is True else "continuous"
            distinct = node["distinct"].number()
            cells = (Cell(side[:-1]), Cell(node["name"].text()), Cell(kind), Cell(node["why"].text(MISSING)))
            rows.append((*cells, Cell(count(distinct), distinct)))
    if not rows:
        return None
    titles = ("side", "column", "taken as", "because", "distinct values")
    table = Table("columns", "How columns were taken", titled(titles, titles[:4]), tuple(rows), folded=True)
    return Section("columns", "Columns", (table,))


def span(node: Node, digits: int = 3) -> Cell:
    """An interval in words, sorted by its lower end."""
    low, high = node["low"].number(), node["high"].number()
    return Cell(MISSING if low is None or high is None else f"{fixed(low, digits)} to {fixed(high, digits)}", low)


def _number(node: Node, digits: int = 3) -> Cell:
    value = node.number()
    return Cell(fixed(value, digits), value)


def titled(titles: tuple[str, ...], words: tuple[str, ...]) -> tuple[Column, ...]:
    """Columns with these titles; all but ``words`` are numbers."""
    return tuple(Column(title, numeric=title not in words) for title in titles)
