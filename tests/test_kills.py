"""A command that is killed leaves nothing half-written, and gives the same bytes when it runs again."""

import random

import pytest

from . import faults


@pytest.mark.parametrize("name", ["ica fit", "translate apply"])
def test_a_killed_command_gives_the_same_bytes_when_it_runs_again(tmp_path, name):
    case = next(case for case in faults.CASES if case.name == name)
    faults.prepare(tmp_path, rows=600)
    _, wrong = faults.check(case, tmp_path, 1, random.Random(1))
    assert wrong == []
