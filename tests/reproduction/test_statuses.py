"""Statuses of the published experiments: every page opens with one, and the overview agrees with all of them."""

import re
from pathlib import Path

import pytest

from isorep.reproduction.experiment import EXPERIMENTS

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
WORDS = {"reproduced": "reproduced", "partly": "partly reproduced", "not": "not reproduced"}
_NUMBER = re.compile(r"\d+\.\d+|\d+%|\d+ of \d+")


def page_of(name):
    return (GUIDE / f"reproduce-{name}.md").read_text()


def status_of(text):
    """The status that opens a page, and the paragraph that explains it."""
    opening = text.split("\n\n")[1]
    found = re.match(r"\*\*Status: ([a-z ]+)\.\*\* (.+)", opening, re.DOTALL)
    return (found[1], found[2]) if found else (None, "")


def overview():
    """Cells of the overview's rows, table by table, by experiment."""
    tables, rows = [], {}
    for line in (GUIDE / "reproduce.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.search(r"`(\w+)`", cells[0])
        if line.startswith("| ") and name and name[1] in EXPERIMENTS:
            rows[name[1]] = cells
        elif rows:
            tables.append(rows)
            rows = {}
    return tables


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_page_opens_with_its_status_and_a_number_that_gives_it(name):
    status, reason = status_of(page_of(name))
    assert status in WORDS.values()
    assert _NUMBER.search(reason), "a status rests on a number"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_overview_has_the_status_of_the_page(name):
    cell = overview()[0][name][-1]
    assert WORDS[cell.split()[0].rstrip(":")] == status_of(page_of(name))[0]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_numbers_of_the_overview_are_those_of_the_page(name):
    page = page_of(name)
    result = overview()[1][name][2]
    numbers = re.findall(r"\d+\.\d+|\d+ of \d+", result)
    assert numbers
    assert [number for number in numbers if number not in page] == []
