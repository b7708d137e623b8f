"""Notebook output: the headline and the first table of a page, in inline styles that suit dark and light themes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..results import cut
from .document import Answer, Column, Figure, Notes, Page, Row, Section, Table
from .read import MISSING, compact

MOST_ROWS, MOST_COLUMNS, MOST_LETTERS, MOST_NOTES = 12, 9, 48, 5
TABLE = "border-collapse:collapse;margin:.3em 0;font-variant-numeric:tabular-nums;color:inherit"
CELL = "white-space:nowrap;padding:.25em .7em;border-bottom:1px solid rgba(128,128,128,.35);background:none;text-align:"

Cells = list[tuple[str, bool]]
"""The texts of a row, and whether it stands out."""


def page_in_notebook(page: Page) -> str:
    """What a page answers, its first table, and what to keep in mind."""
    answer = next(part for part in page.opening if isinstance(part, Answer))
    table = next(_tables(page.sections), None)
    notes = [note for section in page.sections if section.name == "caveats" for note in _notes(section)]
    shown = Markup("")
    if table is not None:
        rows = [[(cell.text, row[0].strong) for cell in row] for row in table.rows]
        shown = Markup('<p style="margin:0 0 .3em;opacity:.75">{}</p>{}').format(
            table.title, _table(table.columns, rows)
        )
    return _output(answer.sentence, answer.detail, shown, notes)


def rows_in_notebook(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A record without a page: its name and its rows."""
    names = list(rows[0]) if rows else []
    numeric = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
    columns = [Column(name.replace("_", " "), right) for name, right in zip(names, numeric, strict=True)]
    cells = [[(_text(row[name]), False) for name in names] for row in rows]
    return _output(title, "", _table(columns, cells) if columns else Markup(""), ())


def _output(headline: str, detail: str, table: Markup, notes: Sequence[str]) -> str:
    more = len(notes) - MOST_NOTES
    said = [f"note: {note}" for note in notes[:MOST_NOTES]]
    said += [f"{more} more in the report and in the JSON"] if more > 0 else []
    lines = Markup("").join(Markup('<p style="margin:0 0 .4em;opacity:.75">{}</p>').format(line) for line in said)
    page = Markup(
        '<div style="max-width:60em;overflow-x:auto">'
        '<p style="margin:0 0 .5em;font-size:1.1em;font-weight:600">{}</p>{}{}{}</div>'
    )
    more_words = Markup('<p style="margin:0 0 .6em">{}</p>').format(detail) if detail else ""
    return str(page.format(headline, more_words, table, lines))


def _tables(parts: Iterable[Any]) -> Iterator[Table]:
    """Tables in the order of the page, those behind figures among them."""
    for part in parts:
        if isinstance(part, Table):
            yield part
        elif isinstance(part, Figure) and part.table is not None:
            yield part.table
        elif isinstance(part, Section | Row):
            yield from _tables(part.parts)


def _notes(section: Section) -> Iterator[str]:
    for part in section.parts:
        if isinstance(part, Notes):
            yield from part.items


def _table(columns: Sequence[Column], rows: Sequence[Cells]) -> Markup:
    """A table of a few rows and columns; what is left out is counted under it."""
    columns = columns[:MOST_COLUMNS]
    head = [_cell("th", column, column.title, False) for column in columns]
    body = [
        [_cell("td", column, text, strong) for column, (text, strong) in zip(columns, row, strict=False)]
        for row in rows[:MOST_ROWS]
    ]
    lines = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(cells)) for cells in (head, *body))
    left = len(rows) - MOST_ROWS
    under = Markup('<p style="margin:0 0 .4em;opacity:.75">and {} more rows</p>').format(left) if left > 0 else ""
    return Markup('<table style="{}">{}</table>{}').format(TABLE, lines, under)


def _cell(element: str, column: Column, text: str, strong: bool) -> Markup:
    style = CELL + ("right" if column.numeric else "left") + (";font-weight:700" if strong else "")
    return Markup('<{0} style="{1}">{2}</{0}>').format(Markup(element), style, cut(text, MOST_LETTERS))


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return compact(float(value)) if isinstance(value, float) and math.isfinite(value) else str(value)
