"""The page of one index layer by layer (schema ``isorep.layers/1``)."""

from __future__ import annotations

from .closing import closing, made_by
from .figures import heatmap
from .parts import Cell, Column, Definitions, Figure, Page, Prose, Section, Table, Verdict
from .rungs import on_both
from .similarity import chance_text, index_name, p_text
from .values import Node, count, fixed, present

MOST_LAYERS = 100


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    index = index_name(result["index"].text("the index"))
    sections = [_matrix(result, index), _best(result, index), *closing(result)]
    return Page(
        title=f"{index} layer by layer · isorep",
        eyebrow=f"{index} between all layers of two models",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result),
    )


def _opening(result: Node) -> tuple[Verdict | Definitions, ...]:
    raw = result["index"].text("the index")
    reading = result["reading"].text("This result holds no reading.").replace(f": {raw} ", f": {index_name(raw)} ")
    head, _, rest = reading.partition(": ")
    p_value = result["overall"]["p_value"].number()
    verdict = Verdict(
        f"{head}." if rest else head, rest[:1].upper() + rest[1:], None if p_value is None else p_value <= 0.05
    )
    tiles = []
    corrected = result["overall"]["corrected"].number()
    if corrected is not None:
        tiles.append(
            ("closest cell, corrected", fixed(corrected, 2), "0 is the closest that chance picks, 1 a perfect match")
        )
    rows, permutations = (result["settings"][key].number() for key in ("rows", "permutations"))
    if rows is not None:
        tiles.append(("rows", count(rows), f"{count(permutations)} permutations" if permutations else "no null"))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _matrix(result: Node, index: str) -> Section | None:
    names = [[node.text("?") for node in result[key].nodes(MOST_LAYERS)] for key in ("source_layers", "target_layers")]
    with_null = any(present(*row.numbers()) for row in result["corrected"].nodes(MOST_LAYERS))
    key = "corrected" if with_null else "values"
    cells = [row.numbers(MOST_LAYERS) for row in result[key].nodes(MOST_LAYERS)]
    if len(cells) != len(names[0]) or not cells or any(len(row) != len(names[1]) for row in cells):
        return None
    shown = [[None if value is None else min(max(value, -1.0), 1.0) for value in row] for row in cells]
    what = "Corrected values: 0 is chance, 1 a perfect match." if with_null else "Plain values: no null was drawn."
    figure = Figure(
        "layers-figure",
        f"{index}, source layers by target layers",
        what,
        f"Heat map of {len(names[0])} by {len(names[1])} layers.",
        on_both(lambda width: heatmap(shown, names[0], names[1], ("target layer", "source layer"), width)),
        table=_cells(result, names),
    )
    parts = (figure, Prose((chance_text(result),))) if with_null else (figure,)
    return Section("matrix", "Layer by layer", parts)


def _cells(result: Node, names: list[list[str]]) -> Table:
    keys = ("values", "chance", "corrected", "p_values", "adjusted_p_values")
    grids = {key: [row.numbers(MOST_LAYERS) for row in result[key].nodes(MOST_LAYERS)] for key in keys}
    smallest = result["smallest_p"].number()
    rows = []
    for i, source in enumerate(names[0]):
        for j, target in enumerate(names[1]):
            numbers = [grids[key][i][j] if i < len(grids[key]) and j < len(grids[key][i]) else None for key in keys]
            shown = [*map(fixed, numbers[:3]), *(p_text(number, smallest) for number in numbers[3:])]
            cells = (Cell(text, number) for text, number in zip(shown, numbers, strict=True))
            rows.append((Cell(source), Cell(target), *cells))
    titles = ("source layer", "target layer", "value", "chance", "corrected", "p", "p, all cells")
    columns = tuple(Column(title, numeric=place > 1) for place, title in enumerate(titles))
    return Table("cells", "Every cell", columns, tuple(rows), folded=True)


def _best(result: Node, index: str) -> Section | None:
    smallest = result["smallest_p"].number()
    rows = []
    for node in result["best"].nodes(MOST_LAYERS):
        numbers = [node[key].number() for key in ("value", "chance", "corrected", "p_value")]
        shown = [*map(fixed, numbers[:3]), p_text(numbers[3], smallest)]
        cells = (Cell(text, number) for text, number in zip(shown, numbers, strict=True))
        rows.append((Cell(node["source"].text("?")), Cell(node["target"].text("?")), *cells))
    if not rows:
        return None
    titles = ("source layer", "closest", index, "chance", "corrected", "p")
    columns = tuple(Column(title, numeric=place > 1) for place, title in enumerate(titles))
    return Section(
        "closest",
        "Closest layers",
        (
            Table(
                "best",
                "The closest target layer of every source layer, beside the closest that chance picks",
                columns,
                tuple(rows),
            ),
        ),
    )
