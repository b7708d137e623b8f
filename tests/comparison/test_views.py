"""Few rows or few dimensions that decide: both answers are told, and only where they differ."""

import numpy as np
import pytest

import isorep
from isorep.comparison.result import Verdict, View
from isorep.comparison.views import few_columns, outlying_rows, qualified

from ..data import mixing, rotation

FAST = {"rungs": ("identity", "rigid", "linear"), "n_null": 20, "worst_case": False, "diameter": "bound"}
N, D = 600, 64


def led(rng, leader):
    """One dimension with 98 % of the variance, and 63 of its own."""
    return np.column_stack([np.sqrt(0.98 / 0.02 * (D - 1)) * leader, rng.normal(size=(N, D - 1))])


def said(result, words):
    return [caveat for caveat in result.caveats if words in caveat]


def test_one_shared_dimension_over_independent_ones_is_said_to_decide():
    rng = np.random.default_rng(0)
    leader = rng.normal(size=N)
    result = isorep.compare(led(rng, leader), led(rng, leader), **FAST)
    assert result.verdict.rung is not None
    assert result.verdict.qualified == (
        "Few dimensions decide this. With all columns at unit variance the verdict changes: no rung suffices."
    )
    assert result.verdict.sentence.endswith(result.verdict.qualified)
    assert result.reverse.verdict.qualified == result.verdict.qualified
    (view,) = result.views
    assert (view.name, view.rung) == ("at_unit_variance", None)
    assert view.errors["linear"] > 0.95
    (found,) = said(result, "few dimensions dominate")
    assert found.startswith("few dimensions dominate source and target: 1 of 64 principal directions hold 90%")
    told = float(found.rsplit(" ", 1)[1])
    assert "the median R² per principal direction of the target, " in found
    assert found.endswith(f" map, is {told:.2f}")
    assert told < 0.05


@pytest.mark.parametrize("turned", [(False, True), (True, True)])
def test_that_is_said_whatever_basis_the_sides_come_in(turned):
    rng = np.random.default_rng(0)
    leader = rng.normal(size=N)
    sides = [led(rng, leader) @ (rotation(D, 3) if turn else np.eye(D)) for turn in turned]
    result = isorep.compare(*sides, **FAST)
    assert result.verdict.qualified == (
        "Few dimensions decide this. With all principal directions at unit variance the verdict changes: no rung "
        "suffices."
    )


@pytest.mark.parametrize(
    ("change", "rung"),
    [(lambda x: x, "identity"), (lambda x: x @ rotation(D, 1), "rigid"), (lambda x: x @ mixing(D, 1, 5.0), "linear")],
)
def test_sides_that_agree_in_all_dimensions_are_not_qualified(change, rung):
    rng = np.random.default_rng(0)
    x = led(rng, rng.normal(size=N))
    result = isorep.compare(x, change(x) + 0.01 * rng.normal(size=x.shape), **FAST)
    assert result.verdict.rung == rung
    assert said(result, "few dimensions dominate")
    assert result.views != ()
    assert result.verdict.qualified is None


def test_dimensions_of_one_size_call_for_no_view():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D))
    result = isorep.compare(x, x + rng.normal(size=x.shape), **FAST)
    assert result.views == ()
    assert result.verdict.qualified is None
    assert not said(result, "few dimensions dominate")


def test_an_independent_dimension_over_shared_ones_is_said_to_decide_too():
    rng = np.random.default_rng(0)
    x = led(rng, rng.normal(size=N))
    y = x.copy()
    y[:, 0] = rng.permutation(y[:, 0])
    result = isorep.compare(x, y, **FAST)
    assert result.verdict.rung is None
    changed = "With all columns at unit variance the verdict changes: the smallest rung that suffices is"
    assert changed in result.verdict.qualified


def test_one_giant_row_that_both_sides_share_is_said_to_decide():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 5)), rng.normal(size=(200, 5))
    x[7] = y[7] = 1000
    result = isorep.compare(x, y, **FAST)
    assert result.verdict.rung is not None
    assert result.verdict.qualified.startswith("Few rows decide this.")
    without = "Without the row that carries half of the variance the verdict changes: no rung suffices."
    assert without in result.verdict.sentence
    assert next(view for view in result.views if view.name == "without_outlying_rows").errors["linear"] > 0.95
    assert said(result, "few rows dominate source and target: 1 of 200 rows")


def test_a_giant_row_over_rows_that_agree_is_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    x[7] *= 200
    y = x @ rotation(5, 1) + 0.1 * rng.normal(size=x.shape)
    result = isorep.compare(x, y, **FAST)
    assert result.verdict.rung == "rigid"
    assert [view.name for view in result.views][:1] == ["without_outlying_rows"]
    assert result.verdict.qualified is None


def test_rows_and_columns_that_carry_most_are_found():
    radii = np.ones((2, 1000))
    assert not outlying_rows(radii).any()
    radii[0, 3], radii[1, 5] = 100, 100
    assert np.flatnonzero(outlying_rows(radii)).tolist() == [3, 5]
    assert few_columns([np.array([100.0, 1, 1, 1, 1])])
    assert not few_columns([np.array([100.0, 1, 1, 1, 1]), np.ones(5)])
    assert not few_columns([np.full(5, 20.0)])


@pytest.mark.parametrize(
    ("name", "told", "seen", "differs"),
    [
        ("without_outlying_rows", "linear", "rigid", True),
        ("at_unit_variance", "linear", "rigid", False),  # a stretch is undone by whitening
        ("at_unit_variance", "rigid", "linear", True),
        ("at_unit_variance", None, "linear", True),
        ("at_unit_variance", "rigid", None, True),
        ("at_unit_variance", "rigid", "rigid", False),
    ],
)
def test_a_view_qualifies_a_verdict_that_it_does_not_bear_out(name, told, seen, differs):
    verdict = Verdict(told, "They agree.")
    view = View(name, "seen so", seen, None, {}, {})
    assert (qualified(verdict, [view]).qualified is not None) == differs
    assert qualified(verdict, [view]).rung == told
    assert qualified(Verdict(None, "No verdict: nothing."), [view]).qualified is None
