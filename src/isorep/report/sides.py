"""The representations that were compared, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from .parts import Cell, Column, Table
from .values import MISSING, Node, compact, count, percent


def sides_table(name: str, title: str, first: str, sides: Sequence[tuple[str, Node]]) -> Table:
    """Size, rank, condition and spread of every side, with what it is called in the first column."""
    rows = []
    for said, side in sides:
        numbers = [side[key].number() for key in ("rows", "columns", "rank", "condition", "constant_columns")]
        texts = [*map(count, numbers[:3]), compact(numbers[3]), count(numbers[4])]
        radius, half = side["rms_radius"].number(), side["half_variance_share"].number()
        rows.append(
            (
                Cell(said),
                *(Cell(text, number) for text, number in zip(texts, numbers, strict=True)),
                Cell(compact(radius), radius),
                Cell(percent(half, 1), half),
                Cell(side["dtype"].text(MISSING)),
            )
        )
    titles = ("rows", "dimensions", "rank", "condition", "constant", "RMS radius", "half the variance in")
    numeric = tuple(Column(each) for each in titles)
    return Table(name, title, (Column(first, numeric=False), *numeric, Column("dtype", numeric=False)), tuple(rows))
