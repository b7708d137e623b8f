"""Which latent knows which factor, as pictures: mutual information, and the importances of DCI."""

from __future__ import annotations

from .figures import heatmap
from .parts import Cell, Column, Figure, Prose, Section, Table
from .rungs import on_both
from .values import Node, fixed

MOST_FACTORS, MOST_LATENTS = 40, 64


def information(result: Node) -> Section | None:
    """Mutual information of factors and latents."""
    node = result["information"]
    found = _matrix(node["nmi"], node["factors"], node["latents"])
    if found is None:
        return None
    values, factors, latents = found
    order = _ordered(values)
    shown = [[row[j] for j in order] for row in values]
    names = [latents[j] for j in order]
    active = [each.raw is not False for each in node["active"].nodes(MOST_LATENTS)]
    idle = [latents[j] for j in range(len(latents)) if j < len(active) and not active[j]]
    said = (
        "Mutual information of each factor with each latent, over the entropy of the factor: 1 if the latent "
        "determines it. A row with one dark cell is a factor in one latent, a column with one is a latent "
        "about one factor."
    )
    if idle:
        said += f" Inactive latents: {', '.join(idle[:12])}."
    figure = _heat("nmi-figure", "Which latent knows which factor", shown, factors, names, "latent")
    return Section("information", "Information", (Prose((said,)), figure))


def importances(result: Node) -> Section | None:
    """What boosted trees use for which factor."""
    node = result["records"]["dci"]
    found = _matrix(node["importances"], node["latents"], node["factors"], turned=True)
    if found is None:
        return None
    values, factors, latents = found
    order = _ordered(values)
    shown, names = [[row[j] for j in order] for row in values], [latents[j] for j in order]
    said = "How much boosted trees use each latent to predict each factor; every row sums to 1."
    figure = _heat("dci-figure", "Which latent is used for which factor", shown, factors, names, "latent")
    return Section("importances", "Importances (DCI)", (Prose((said,)), figure))


def _matrix(
    node: Node, rows: Node, columns: Node, turned: bool = False
) -> tuple[list[list[float | None]], list[str], list[str]] | None:
    """Values with their names, factors down and latents across; None where they do not fit each other."""
    most = (MOST_LATENTS, MOST_FACTORS) if turned else (MOST_FACTORS, MOST_LATENTS)
    titles = [
        [each.text("?") for each in names.nodes(limit)] for names, limit in zip((rows, columns), most, strict=True)
    ]
    values = [line.numbers(len(titles[1])) for line in node.nodes(len(titles[0]))]
    if (
        not values
        or not titles[1]
        or len(values) != len(titles[0])
        or any(len(row) != len(titles[1]) for row in values)
    ):
        return None
    if turned:
        return [list(row) for row in zip(*values, strict=True)], titles[1], titles[0]
    return values, titles[0], titles[1]


def _ordered(values: list[list[float | None]]) -> list[int]:
    """Latents in the order that puts each factor's best, among those that are left, on the diagonal."""
    left = list(range(len(values[0])))
    order = []
    for row in values:
        if left:
            best = max(left, key=lambda j: row[j] or 0.0)
            order.append(best)
            left.remove(best)
    return order + sorted(left, key=lambda j: -max((row[j] or 0.0) for row in values))


def _heat(
    name: str, title: str, values: list[list[float | None]], rows: list[str], columns: list[str], noun: str
) -> Figure:
    table = Table(
        f"{name}-table",
        "The numbers behind it",
        (Column("factor", numeric=False), *(Column(column) for column in columns)),
        tuple(
            (Cell(row), *(Cell(fixed(value, 3), value) for value in line))
            for row, line in zip(rows, values, strict=True)
        ),
        folded=True,
    )
    best = []
    for row, line in zip(rows, values, strict=True):
        top = max(range(len(line)), key=lambda j: line[j] or 0.0)
        best.append(f"{row}: most in {columns[top]} ({fixed(line[top], 2)})")
    return Figure(
        name,
        title,
        f"Factors down, {noun}s across in the order of the factors they know best.",
        "; ".join(best),
        on_both(
            lambda width: heatmap(
                values, rows, columns, (noun, "factor"), width, 90 if width < 500 else 140, signed=False
            )
        ),
        table=table,
    )
