"""A result inside a notebook: the ladder and the verdict, with inline styles only."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from .compare_many import pairs_table, run_names
from .ladder import ladder_table
from .parts import Table
from .values import Node

TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:0 0 .75em"
CELL = "padding:.3em .8em;border-bottom:1px solid rgba(128,128,128,.35);background:none;text-align:"


def snippet(result: Any) -> str:
    """HTML for one cell's output; colours are left to the notebook, light or dark."""
    node = Node(result)
    table = ladder_table(node["forward"], "ladder", "", node["verdict"]["rung"].text())
    source, target = node["forward"]["source"].text("source"), node["forward"]["target"].text("target")
    return _cell_output(
        node, f"{source} → {target}: mean error; lower is closer, 1 is no better than the mean of {target}", table
    )


def many_snippet(result: Any) -> str:
    """The same for many runs: the verdict, and the ladder over all pairs."""
    node = Node(result)
    names = run_names(node)
    said = f"{len(names)} runs, all ordered pairs: mean error; lower is closer, 1 is no better than the mean"
    return _cell_output(node, said, pairs_table(node, names))


def _cell_output(node: Node, unit: str, table: Table) -> str:
    head = Markup("").join(_cell("th", column.title, column.numeric, False) for column in table.columns)
    rows = [
        Markup("").join(
            _cell("td", cell.text, column.numeric, row[0].strong)
            for cell, column in zip(row, table.columns, strict=True)
        )
        for row in table.rows
    ]
    body = Markup("").join(Markup("<tr>{}</tr>").format(row) for row in (head, *rows))
    notes = Markup("").join(
        Markup('<p style="margin:0 0 .4em;opacity:.75">note: {}</p>').format(caveat.text())
        for caveat in node["caveats"].nodes()
    )
    return str(
        Markup(
            '<div style="max-width:60em"><p style="margin:0 0 .5em;font-size:1.1em;font-weight:600">{}</p>'
            '<p style="margin:0 0 .3em;opacity:.75">{}</p>'
            '<table style="{}">{}</table>{}</div>'
        ).format(node["verdict"]["sentence"].text(), unit, TABLE, body, notes)
    )


def _cell(element: str, text: str, numeric: bool, strong: bool) -> Markup:
    style = CELL + ("right" if numeric else "left") + (";font-weight:700" if strong else "")
    return Markup('<{0} style="{1}">{2}</{0}>').format(Markup(element), style, text)
