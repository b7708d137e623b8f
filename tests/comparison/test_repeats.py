"""Repeated rows: what a map was fitted to is not scored, and two unrelated tables do not agree."""

import numpy as np
import pytest

import isorep
from isorep.pairs import near_copies, repeats_across_folds, repeats_without_groups

from ..data import rotation

FAST = {"rungs": ("identity", "rigid", "linear"), "n_null": 20}
COMPARE = {**FAST, "worst_case": False, "diameter": "bound"}
TYPES, TOKENS = 200, 3000


def tables():
    """Two independent embedding tables, and tokens with the frequencies of words in documents of thirty."""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, TYPES + 1)
    tokens = rng.choice(TYPES, TOKENS, p=share / share.sum())
    return rng.normal(size=(TYPES, 20)), rng.normal(size=(TYPES, 20)), tokens, np.arange(TOKENS) // 30


def said(result, words):
    return [caveat for caveat in result.caveats if words in caveat]


def test_two_independent_tables_are_not_explained_and_a_shared_one_is():
    one, other, tokens, _ = tables()
    result = isorep.compare(one[tokens], other[tokens], **COMPARE)
    assert result.verdict.rung is None
    assert result.rungs["linear"].null.p_value > 0.05
    distinct = len(np.unique(tokens))
    (found,) = said(result, "equal an earlier row")
    assert f"{TOKENS - distinct} of {TOKENS} rows of source equal an earlier row and" in found
    assert found.endswith(f"equal rows are held out and shuffled together, as {distinct} sets")
    assert not said(result, "near-copy")
    shared = isorep.compare(one[tokens], 2 * one[tokens] @ rotation(20, 1), **COMPARE)
    assert shared.verdict.rung == "rigid"
    assert shared.settings["rows_scored"] == TOKENS


def test_two_independent_tables_are_not_explained_with_documents_as_groups_either():
    one, other, tokens, documents = tables()
    result = isorep.compare(one[tokens], other[tokens], groups=documents, **COMPARE)
    assert result.verdict.rung is None
    assert result.settings["rows_scored"] < 100
    assert not any(rung.below_null for rung in result.rungs.values())
    assert min(rung.null.p_value for rung in result.rungs.values()) > 0.05, "rows that are fitted to do not count"
    assert said(result, f"{result.settings['rows_scored']} rows are scored, those that do not occur again among")
    assert not said(result, "near-copy")


def test_many_runs_of_repeated_rows_are_judged_as_pairs_are():
    one, other, tokens, documents = tables()
    runs = [one[tokens], other[tokens], one[tokens] @ rotation(20, 1)]
    result = isorep.compare_many(runs, **FAST)
    assert result.verdicts == ((None, None, "rigid"), (None, None, None), ("rigid", None, None))
    assert said(result, "equal rows are held out and shuffled together")
    again = isorep.compare_many([run[:600] for run in runs], groups=documents[:600], **FAST)
    assert again.agreed_rung(0, 1) is None
    assert np.nanmin(again.rungs["linear"].p_value[0, 1]) > 0.05


def test_groups_give_way_to_equal_rows_where_hardly_a_row_could_be_scored():
    rng = np.random.default_rng(0)
    tokens, groups = np.arange(900) % 60, np.arange(900) // 30
    one, other = rng.normal(size=(60, 3)), rng.normal(size=(60, 3))
    apart = isorep.compare(one[tokens], other[tokens], groups=groups, **COMPARE)
    assert apart.verdict.rung is None
    assert any("groups are not kept whole" in caveat for caveat in apart.caveats)
    assert apart.settings["rows_scored"] == 900
    same = isorep.compare(one[tokens], 2 * one[tokens] @ rotation(3, 1), groups=groups, **COMPARE)
    assert same.verdict.rung == "rigid"


def test_few_rows_that_can_be_scored_give_no_verdict():
    rng = np.random.default_rng(0)
    tokens, groups = np.arange(300) % 12, np.arange(300) // 10
    tokens[:5] = 12 + np.arange(5)
    one = rng.normal(size=(17, 3))
    result = isorep.compare(one[tokens], one[tokens], groups=groups, **COMPARE)
    assert result.verdict.rung is None
    assert "No verdict: only 5 rows could be scored" in result.verdict.sentence
    many = isorep.compare_many([one[tokens]] * 3, groups=groups, **FAST)
    assert "No verdict: only 5 rows could be scored" in many.verdict.sentence
    assert many.agreed_rung(0, 1) is None


def test_rows_without_repeats_are_left_alone():
    rng = np.random.default_rng(0)
    codes = (np.arange(100), np.arange(100))
    assert repeats_without_groups(codes, 5, None).groups is None
    assert repeats_without_groups(codes, 5, None).notes(("a", "b"), 100) == []
    assert repeats_across_folds(codes, rng.integers(0, 5, 100)).scored is None


def test_rows_that_are_equal_on_either_side_belong_together():
    one, other = np.arange(100), np.arange(100)
    one[1], other[2] = 0, 1  # rows 0 and 1 are equal on one side, rows 1 and 2 on the other
    one, other = (np.unique(side, return_inverse=True)[1] for side in (one, other))
    groups = repeats_without_groups((one, other), 5, None).groups
    assert groups[0] == groups[1] == groups[2]
    assert len(np.unique(groups)) == 98
    classes = np.arange(100) % 2
    apart = repeats_without_groups((one, other), 5, classes).groups
    assert apart is not None
    assert apart[0] == apart[2] != apart[1], "sets lie inside one class"


def test_too_few_different_rows_are_said_to_be_fitted_to():
    rng = np.random.default_rng(0)
    x = np.eye(4)[rng.integers(0, 4, 200)]
    result = isorep.compare(x, x + 0.1 * rng.normal(size=x.shape), **COMPARE)
    (found,) = said(result, "equal an earlier row")
    assert found == (
        "196 of 200 rows of source equal an earlier row: too few distinct rows to hold out equal rows together, "
        "so maps were fitted to them"
    )


def test_a_side_whose_equal_rows_are_not_held_out_is_not_said_to_be():
    rng = np.random.default_rng(0)
    labels = np.eye(4)[rng.integers(0, 4, 400)]
    pairs = rng.normal(size=(200, 3))[np.arange(400) // 2]
    one, other = said(isorep.compare(labels, pairs, **COMPARE), "equal an earlier row")
    assert one == (
        "200 of 400 rows of target equal an earlier row: equal rows are held out and shuffled together, as 200 sets"
    )
    assert other.startswith("396 of 400 rows of source equal an earlier row: too few distinct rows")


def test_only_one_side_with_repeats_is_named():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 3))[np.arange(600) // 2]
    result = isorep.compare(x, x + 0.1 * rng.normal(size=x.shape), **COMPARE)
    (found,) = said(result, "equal an earlier row")
    assert found.startswith("300 of 600 rows of source equal an earlier row: equal rows are held out")


def test_near_copies_are_pointed_out_unless_they_are_in_one_group():
    rng = np.random.default_rng(0)
    pairs = np.arange(400) // 2
    x = rng.normal(size=(200, 8))[pairs] + 0.01 * rng.normal(size=(400, 8))
    y = rng.normal(size=(400, 8))
    result = isorep.compare(x, y, **COMPARE)
    (found,) = said(result, "near-copy")
    assert found.startswith("about 100% of the rows of source have a near-copy")
    assert not said(isorep.compare(x, y, groups=pairs, **COMPARE), "near-copy")
    assert said(isorep.compare(x, y, groups=np.arange(400) % 200, **COMPARE), "near-copy"), "copies in other groups"


@pytest.mark.parametrize("d", [1, 2, 3, 30])
@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "uniform"])
def test_rows_of_a_smooth_distribution_have_no_near_copies(d, draw):
    rng = np.random.default_rng(3)
    rows = getattr(rng, draw)(size=(1000, d))
    assert near_copies(rows, float(d), rng) is None
