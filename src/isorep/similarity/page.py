"""The page of all similarity indices of a pair (schema ``isorep.similarity/1``).

The page of one index layer by layer (schema ``isorep.layers/1``).
"""

from __future__ import annotations

from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Prose, Section, Table
from ..report.figures import Heatmap, IntervalRow, Intervals, Key
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed, present

MOST_INDICES = 50
NAMES = {
    "cca": "mean CCA",
    "svcca": "SVCCA",
    "pwcca": "PWCCA",
    "linear_r2": "linear R²",
    "cka": "CKA",
    "cka_debiased": "debiased CKA",
    "cka_rbf": "Gaussian CKA",
    "cka_rbf_debiased": "debiased Gaussian CKA",
    "procrustes_distance": "Procrustes distance",
    "mcc": "MCC",
    "mutual_knn": "mutual kNN",
}
MEANING = {
    "cca": "mean canonical correlation; blind to any invertible linear map",
    "svcca": "the same after keeping the leading principal components",
    "pwcca": "canonical correlations weighted by how much of the source they carry",
    "linear_r2": "share of the target that a linear map of the source explains, in sample",
    "cka": "alignment of the two Gram matrices; blind to rotations, led by large variances",
    "cka_debiased": "the same with an unbiased estimate of each term",
    "cka_rbf": "alignment of Gaussian kernels: near rows count more",
    "procrustes_distance": "angle that is left after the best rotation, in radians",
    "mcc": "mean absolute correlation of dimensions matched one to one",
    "mutual_knn": "share of nearest neighbours that both sides have in common",
}


def index_name(name: str) -> str:
    """An index's name in words."""
    return NAMES.get(name, name)


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    source, target = result["source"]["name"].text("X"), result["target"]["name"].text("Y")
    sections = [_indices(result), *closing(result.raw)]
    return Page(
        title=f"{source} and {target} · similarity · isorep",
        eyebrow=f"How similar {source} and {target} are",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    head, _, rest = result["reading"].text("This result holds no reading.").partition("; ")
    p_values = present(*(node["null"]["p_value"].number() for _, node in _entries(result)))
    reached = None
    if p_values:
        closer = sum(1 for value in p_values if value <= 0.05)
        reached = True if closer == len(p_values) else None if closer else False
    verdict = Answer(f"{head}." if rest else head, rest[:1].upper() + rest[1:], reached)
    tiles = []
    rows = result["source"]["rows"].number()
    columns = [result[side]["columns"].number() for side in ("source", "target")]
    if rows is not None:
        tiles.append(("rows", count(rows), f"{count(columns[0])} and {count(columns[1])} columns"))
    permutations = result["settings"]["permutations"].number()
    if permutations:
        tiles.append(("permutations", count(permutations), f"of {_moved(result)}"))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _moved(result: Node) -> str:
    """What was shuffled."""
    groups, classes = (result["settings"][key].number() for key in ("groups", "within"))
    moved = "rows" if groups is None else f"{count(groups)} groups"
    return moved if classes is None else f"{moved} within {count(classes)} classes"


def p_text(p_value: float | None, smallest: float | None) -> str:
    """A p-value, the smallest possible one as a bound."""
    if p_value is None:
        return MISSING
    bound = smallest is not None and p_value <= smallest * (1 + 1e-9)
    return f"{'≤ ' if bound else ''}{compact(p_value, 2)}"


def chance_text(result: Node) -> str:
    """What chance means on this page, and what a p-value counts."""
    groups, classes = (result["settings"][key].number() for key in ("groups", "within"))
    moved = "rows" if groups is None else "whole groups of rows"
    said = f"Chance is what remains when {moved} of one side change places"
    if classes is not None:
        said += (
            " inside their class: it includes what the classes alone explain, and the p-value is about agreement "
            "beyond the classes"
        )
    return f"{said}. The p-value is the share of pairings, the real one among them, that look at least as close."


def _entries(result: Node) -> list[tuple[str, Node]]:
    return result["indices"].items()[:MOST_INDICES]


def _indices(result: Node) -> Section | None:
    entries = _entries(result)
    if not entries:
        return None
    parts = [
        part
        for part in (_figure(entries), _table(entries), Prose((_explanation(result, entries),)), _meanings(entries))
        if part is not None
    ]
    return Section("indices", "Indices", tuple(parts))


def _meanings(entries: list[tuple[str, Node]]) -> Definitions | None:
    known = tuple((index_name(name), MEANING[name], "") for name, _ in entries if name in MEANING)
    return Definitions(known) if known else None


def _explanation(result: Node, entries: list[tuple[str, Node]]) -> str:
    inexact = [index_name(name) for name, node in entries if node["null"]["exact"].raw is False]
    said = (
        f"{chance_text(result)} Few rows or many dimensions raise the chance level of most indices. Corrected values "
        "run from chance (0) to a perfect match (1) and can be set side by side; the plain ones cannot."
    )
    if _cut(entries):
        said += (
            " Not all rows can change places: chance, corrected value and p-value are those of the rows that can, "
            'whose own value is in the column "of rows used".'
        )
    if inexact:
        said += f" The null of {', '.join(inexact)} is a sketch with the exact mean and variance; the others are exact."
    return said


def _figure(entries: list[tuple[str, Node]]) -> Figure | None:
    rows = []
    for name, node in entries:
        corrected, best = node["corrected"].number(), node["best"].number()
        mean, low, high = (node["null"][key].number() for key in ("mean", "low", "high"))
        if corrected is None or best is None or mean is None or low is None or high is None or best == mean:
            continue
        edges = sorted((edge - mean) / (best - mean) for edge in (low, high))
        rows.append(
            IntervalRow(
                index_name(name),
                "s2",
                value=min(max(corrected, 0.0), 1.0),
                band=(0.0, 0.0, min(max(edges[1], 0.0), 1.0)),
                labels=(f"corrected {fixed(corrected)}", "", f"chance reaches {fixed(edges[1])}"),
                printed=fixed(corrected, 2),
            )
        )
    if not rows:
        return None
    told = "; ".join(f"{row.name} {row.printed}" for row in rows)
    return Figure(
        "indices-figure",
        "Null-corrected values",
        "0 is chance, 1 a perfect match; the band is as far as 95 % of shuffled pairings reach.",
        f"Corrected values: {told}.",
        Intervals(tuple(rows), "from chance (0) to a perfect match (1)"),
        legend=(Key("dot", "s2", "corrected value"), Key("tick", "", "chance, with a band up to its 95 % point")),
    )


def _cut(entries: list[tuple[str, Node]]) -> bool:
    """Whether nulls are those of a part of the rows."""
    both = [(node["value"].number(), node["null"]["observed"].number()) for _, node in entries]
    return any(value is not None and observed is not None and value != observed for value, observed in both)


def _table(entries: list[tuple[str, Node]]) -> Table:
    cut = _cut(entries)
    own = ("of rows used",) if cut else ()
    titles = ("index", "value", *own, "closer is", "chance", "5 to 95 % of chance", "corrected", "p")
    rows = []
    for name, node in entries:
        value, observed, mean, low, high, p_value, smallest, corrected = (
            entry.number()
            for entry in (
                node["value"],
                *(node["null"][key] for key in ("observed", "mean", "low", "high", "p_value", "smallest_p")),
                node["corrected"],
            )
        )
        span = f"{fixed(low)} to {fixed(high)}" if low is not None and high is not None else "–"
        rows.append(
            (
                Cell(index_name(name)),
                Cell(fixed(value), value),
                *((Cell(fixed(observed), observed),) if cut else ()),
                Cell("higher" if node["higher_is_closer"].raw is True else "lower"),
                Cell(fixed(mean), mean),
                Cell(span, low),
                Cell(fixed(corrected), corrected),
                Cell(p_text(p_value, smallest), p_value),
            )
        )
    columns = tuple(Column(title, numeric=title not in ("index", "closer is")) for title in titles)
    return Table("indices", "All indices", columns, tuple(rows))


MOST_LAYERS = 100


def assemble_layers(result: Node) -> Page:
    """All sections that the result has something for."""
    index = index_name(result["index"].text("the index"))
    sections = [_matrix(result, index), _best(result, index), *closing(result.raw)]
    return Page(
        title=f"{index} layer by layer · isorep",
        eyebrow=f"{index} between all layers of two models",
        opening=_layers_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _layers_opening(result: Node) -> tuple[Answer | Definitions, ...]:
    raw = result["index"].text("the index")
    reading = result["reading"].text("This result holds no reading.").replace(f": {raw} ", f": {index_name(raw)} ")
    head, _, rest = reading.partition(": ")
    p_value = result["overall"]["p_value"].number()
    verdict = Answer(
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
        Heatmap(tuple(map(tuple, shown)), tuple(names[0]), tuple(names[1]), ("target layer", "source layer")),
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
