"""The worst case: what is certified about the best map, and which rows fit worst."""

from __future__ import annotations

from .figures import IntervalRow, intervals
from .parts import Cell, Column, Figure, Key, Prose, Section, Table
from .rungs import on_both
from .values import MISSING, Node, count, fixed

GROUPS = {"rigid": "rigid", "rigid_with_scale": "rigid, with one scale"}
QUANTITIES = {
    "lower": "best worst row, at least",
    "upper": "best worst row, at most",
    "least_squares_sup": "worst row under least squares",
    "rms": "RMS under least squares",
    "rms_upper": "RMS, bound from Gram matrices",
    "distortion": "largest distance distortion",
    "near_isometry_defect": "near-isometry defect",
}
MOST_ROWS = 200


def worst_case(result: Node, target: str) -> Section | None:
    """The section on the certificates; None without one."""
    found = _certificates(result)
    if not found:
        return None
    parts: list[object] = [Prose(tuple(_sentence(*entry) for entry in found))]
    if result["worst_case"]["sample"]["sentence"]:
        parts.append(Prose((result["worst_case"]["sample"]["sentence"].text(),)))
    parts += [_figure(found, target), _quantities(found)]
    for place, (group, node) in enumerate(found):
        parts += _worst_rows(group, node, folded=place > 0)
    return Section("worst-case", "Worst case", tuple(parts))


def bracket(result: Node) -> tuple[float, float] | None:
    """The certified ends of the smallest possible largest error over rigid maps without scaling."""
    node = result["worst_case"]["rigid"]
    lower, upper = node["lower"].number(), node["upper"].number()
    return None if lower is None or upper is None else (lower, upper)


def _certificates(result: Node) -> list[tuple[str, Node]]:
    found = [(group, result["worst_case"][group]) for group in GROUPS]
    return [(group, node) for group, node in found if _ends(node) is not None]


def _ends(node: Node) -> tuple[float, float] | None:
    lower, upper = node["lower"].number(), node["upper"].number()
    return None if lower is None or upper is None or not lower <= upper else (lower, upper)


def _sentence(group: str, node: Node) -> str:
    by = f" (by {node['lower_by'].text()})" if node["lower_by"] else ""
    lower, upper = fixed(node["lower"].number()), fixed(node["upper"].number())
    if group == "rigid":
        return (
            f"Whatever rotation, reflection and translation is chosen, some row is off by at least {lower} diameters"
            f"{by}; one is known that keeps every row within {upper}."
        )
    return f"With one scale allowed as well, as on the ladder, the two ends are {lower}{by} and {upper}."


def _figure(found: list[tuple[str, Node]], target: str) -> Figure:
    rows = []
    for group, node in found:
        least = node["least_squares_sup"].number()
        upper = fixed(node["upper"].number())
        said = f"best worst row between {fixed(node['lower'].number())} and {upper}"
        rows.append(
            IntervalRow(
                GROUPS[group],
                "s2",
                interval=_ends(node),
                second=least,
                labels=(said, f"worst row under least squares {fixed(least)}", ""),
                printed=f"≤ {upper}",
            )
        )
    told = "; ".join(f"{row.name}: {row.labels[0]}, {row.labels[1]}" for row in rows)
    return Figure(
        "certificate-figure",
        "The certificate",
        "No map of the group does better than the left end of its bracket; one reaches the right end.",
        f"In diameters of {target}. {told}.",
        on_both(lambda width: intervals(rows, f"error of the worst row, diameters of {target}", width)),
        legend=(Key("whisker", "s2", "certified bracket"), Key("ring", "s2", "worst row under least squares")),
    )


def _quantities(found: list[tuple[str, Node]]) -> Table:
    rows = []
    for key, title in QUANTITIES.items():
        numbers = [node[key].number() for _, node in found]
        rows.append((Cell(title), *(Cell(fixed(number), number) for number in numbers)))
    pairs = [node["pairs_checked"].number() for _, node in found]
    rows.append((Cell("pairs of rows compared"), *(Cell(count(number), number) for number in pairs)))
    kept = tuple(row for row in rows if any(cell.text != MISSING for cell in row[1:]))
    columns = (Column("quantity", numeric=False), *(Column(GROUPS[group]) for group, _ in found))
    return Table("certificate", "What is known, in diameters", columns, kept)


def _worst_rows(group: str, node: Node, folded: bool) -> list[Table]:
    entries = node["worst_rows"].nodes(MOST_ROWS)
    named = any(entry["id"].text() for entry in entries)
    rows = []
    for entry in entries:
        place, error = entry["row"].number(), entry["error"].number()
        name = (Cell(entry["id"].text(MISSING)),) if named else ()
        rows.append((*name, Cell(count(place), place), Cell(fixed(error), error)))
    columns = ((Column("row id", numeric=False),) if named else ()) + (Column("row number"), Column("error"))
    title = f"The rows that fit worst under least squares: {GROUPS[group]}"
    return [Table(f"worst-rows-{group.replace('_', '-')}", title, columns, tuple(rows), folded)] if rows else []
