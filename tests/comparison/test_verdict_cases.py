"""The verdict on pairs with a known answer."""

import warnings

import pytest

import isorep

from .verdict_cases import KINDS, LADDER, TRUTHS, case, is_false


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_right_and_never_confidently_false(kind):
    wrong = []
    for truth in TRUTHS:
        given = case(kind, truth, seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few rows per dimension
            verdict = isorep.compare(
                given.source,
                given.target,
                rungs=LADDER,
                n_null=40,
                worst_case=False,
                diameter="bound",
                **given.settings,
            ).verdict
        assert not (is_false(verdict.rung, truth) and verdict.qualified is None), f"{given.name}: {verdict}"
        if verdict.rung != truth:
            wrong.append(f"{given.name}: {verdict.rung}")
    assert len(wrong) <= 1, wrong  # one in five leaves room for other rounding, where an interval ends at the tolerance


def test_what_counts_as_false():
    assert is_false("rigid", None)
    assert is_false("rigid", "linear")
    assert not is_false("linear", "rigid")
    assert not is_false(None, "rigid")
