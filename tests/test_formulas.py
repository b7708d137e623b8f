"""The page of formulas names functions that exist."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "formulas.md"
ENTRIES = re.findall(r"^\|.*\| `([\w.]+):([\w.]+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_row_of_the_tables_is_an_entry():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    heads = sum(line == "| formula | from | function |" for line in rows)
    assert heads > 5
    assert len(ENTRIES) == len(rows) - heads


@pytest.mark.parametrize(("module", "name"), ENTRIES)
def test_a_formula_is_where_the_page_says(module, name):
    found = getattr(import_module(module), name)
    assert found.__module__ == module
    assert found.__doc__
