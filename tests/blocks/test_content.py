"""Content and style: known blocks with their dimension, none by chance, invariances, and input that has no answer."""

import json

import numpy as np
import pytest
from scipy.stats import binom

import isorep
from isorep import InputError, Representation
from isorep.blocks import content_style

from .worlds import latents, views_of

FAST = {"n_null": 39}


def explained(source, target):
    """The share of a target's variance that a linear map of the source explains."""
    return isorep.similarity.linear_r2(source, target).value


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("styles", [(4, 3), (4, 3, 5), (3, 3, 3, 3)])
def test_a_known_block_is_found_with_its_dimension(dimension, styles):
    content = latents(400, dimension)
    found = content_style(views_of(content, styles), **FAST)
    assert found.dimension == dimension
    low, high = found.dimension_interval
    assert low == dimension <= high
    assert found.content.shape == (400, dimension)
    assert explained(found.content, content) > 0.97
    for view, style in zip(found.views, found.styles, strict=True):
        assert explained(style, content) < 0.1
        assert 0 < view.content_share < 1
        assert view.content_share + view.style_share == pytest.approx(1)
    assert f"{dimension} dimension" in found.verdict


def test_independent_views_share_nothing_but_for_the_level():
    rng = np.random.default_rng(0)
    some = sum(bool(content_style(list(rng.normal(size=(2, 120, 4))), n_null=19).dimension) for _ in range(30))
    assert some <= binom.ppf(0.9995, 30, 0.05)
    found = content_style(list(rng.normal(size=(3, 200, 5))), **FAST)
    assert (found.dimension, found.content.shape) == (0, (200, 0))
    assert found.verdict.startswith("No shared block")
    assert found.views[0].content_share == 0


def test_what_only_some_views_share_is_no_content():
    shared, partly = latents(600, 1), latents(600, 2, seed=1)
    one, two = views_of(np.hstack([shared, partly]), (3, 3))
    (three,) = views_of(shared, (5,), seed=5)
    found = content_style([one, two, three], **FAST)
    assert found.dimension == 1
    assert explained(found.content, shared) > 0.97
    assert content_style([one, two], **FAST).dimension == 3


def test_two_views_give_canonical_correlations():
    views = views_of(latents(300, 2), (3, 4), noise=0.8)
    found = content_style(views, **FAST)
    known = isorep.similarity.cca(*views).details["correlations"]
    assert [each.in_sample for each in found.components] == pytest.approx(list(known), abs=1e-6)
    assert all(each.held_out < each.in_sample + 0.05 for each in found.components)


@pytest.mark.parametrize("count", [2, 3])
def test_invertible_maps_of_views_and_their_order_change_nothing(count):
    views = views_of(latents(300, 2), (3,) * count)
    rng = np.random.default_rng(3)
    mixed = [2 * view @ rng.normal(size=(view.shape[1],) * 2) - 5 for view in views]
    found, again = (content_style(each, **FAST) for each in (views, mixed))
    for one, other in zip(found.components, again.components, strict=True):
        assert one.held_out == pytest.approx(other.held_out, abs=1e-5)
        assert one.p_value == other.p_value
    turned = content_style(views[::-1], **FAST)
    assert turned.dimension == found.dimension == again.dimension == 2
    assert explained(turned.content, found.content) > 0.999


def test_new_rows_are_projected_as_old_ones_are():
    found = content_style(views := views_of(latents(300, 2), (3, 4)), **FAST)
    both = [view.content(rows) for view, rows in zip(found.views, views, strict=True)]
    assert np.mean(both, axis=0) == pytest.approx(found.content)
    assert found.views[1].style(views[1][:5]) == pytest.approx(found.styles[1][:5])
    for view, rows in zip(found.views, views, strict=True):
        scores = view.content(rows)
        assert scores.std(axis=0) == pytest.approx(1, abs=1e-6)
        assert np.abs(scores.T @ view.style(rows)).max() < 1e-6 * len(rows)  # style is uncorrelated with content
        rest = np.sum(view.style(rows).var(axis=0)) / np.sum(rows.var(axis=0))
        assert rest == pytest.approx(view.style_share, abs=1e-6)


def test_copies_share_everything_and_then_there_is_no_style():
    x = latents(200, 3)
    found = content_style([x, 2 * x @ [[1, 2, 0], [0, 1, 0], [1, 0, 3.0]]], **FAST)
    assert (found.dimension, found.dimension_interval, found.styles[0].shape) == (3, (3, 3), (200, 0))


def test_groups_are_held_out_and_shuffled_as_wholes():
    """Two views of 12 groups whose rows are near-copies of their group: 12 independent rows, which share nothing."""
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(12), 25)
    views = [rng.normal(size=(12, 2))[groups] + 0.01 * rng.normal(size=(300, 2)) for _ in range(2)]
    assert content_style(views, **FAST).dimension > 0  # what groups are for
    found = content_style(views, groups=groups, **FAST)
    assert found.dimension == 0
    assert any("12 groups" in each for each in found.caveats)


def test_classes_that_both_views_separate_are_chance_within_classes():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, 400)
    views = [np.eye(2)[classes] @ rng.normal(size=(2, 4)) * 3 + rng.normal(size=(400, 4)) for _ in range(2)]
    assert content_style(views, **FAST).dimension == 1
    assert content_style(views, within=classes, **FAST).dimension == 0


def test_few_groups_leave_the_dimension_undecided():
    views = views_of(latents(90, 2), (2, 2))
    found = content_style(views, groups=np.repeat([0, 1, 2], 30), folds=3, **FAST)
    assert (found.dimension, found.dimension_interval) == (None, None)
    assert found.verdict.startswith("Undecided")
    assert "no p-value can be below 0.17" in " ".join(found.caveats)


def test_wide_rank_deficient_constant_and_float32_views():
    content = latents(150, 2)
    wide = views_of(content, (3, 3), width=400)
    found = content_style(wide, **FAST)
    assert found.dimension == 2
    assert any("directions of view 1 are examined" in each for each in found.caveats)
    narrow = views_of(content, (3, 3))
    deficient = np.hstack([narrow[0], narrow[0] @ np.ones((6, 2)), np.full((150, 1), 4.0)])
    plain = content_style(narrow, **FAST)
    same = content_style([deficient, narrow[1].astype(np.float32)], **FAST)
    assert (same.views[0].rank, same.views[0].columns) == (6, 9)
    assert [each.held_out for each in same.components] == pytest.approx(
        [each.held_out for each in plain.components], abs=1e-3
    )


def test_components_and_the_least_correlation_are_limits():
    weak = latents(400, 2) @ np.diag([1.0, 0.35])  # the second is mostly noise
    views = views_of(weak, (2, 2), noise=0.6)
    correlations = [each.held_out for each in content_style(views, **FAST).components]
    between = float(np.mean(sorted(correlations)[-2:]))
    found = content_style(views, least=between, **FAST)
    assert found.dimension == 1
    assert f"the smallest that counts is {between:.2f}" in found.verdict
    none = content_style(views, least=0.99, **FAST)
    assert none.dimension == 0
    assert "exceeds both chance and the smallest correlation that counts" in none.verdict
    assert "beyond chance" not in none.verdict
    limited = content_style(views, components=2, **FAST)
    assert [view.examined for view in limited.views] == [2, 2]


def test_rows_that_repeat_are_held_out_together():
    content = latents(60, 2)
    views = [np.repeat(view, 5, axis=0) for view in np.random.default_rng(1).normal(size=(2, 60, 4))]
    found = content_style(views, **FAST)
    assert found.dimension == 0
    assert any("held out and shuffled together" in each for each in found.caveats)
    repeated = [np.repeat(view, 3, axis=0) for view in views_of(content, (2, 2))]
    assert content_style(repeated, **FAST).dimension == 2


def test_a_shifted_view_is_named():
    one, two = views_of(latents(400, 3), (2, 2), noise=0.01)
    found = content_style([one, np.roll(two, 1, axis=0)], **FAST)
    assert found.dimension == 0
    assert any("the pairing looks broken" in each for each in found.caveats)


def test_content_is_the_same_in_a_rerun_and_style_is_not():
    content = latents(300, 2)
    first, again = views_of(content, (2, 3), seed=0), views_of(content, (2, 3), seed=1)
    found = content_style(first, reruns=[again], **FAST)
    (rerun,) = found.reruns
    assert rerun.dimension == 2
    assert rerun.content.verdict.rung in ("signed_permutation", "rigid")
    assert rerun.content.rungs["rigid"].explained > 0.95
    assert rerun.style.verdict.rung is None
    assert rerun.names == ("rerun 1 view 1", "rerun 1 view 2")
    assert "Content of the first run and content of rerun 1 agree" in rerun.sentence
    assert all(each.startswith("rerun 1: ") for each in found.caveats)
    nothing = content_style(first, reruns=[list(np.random.default_rng(0).normal(size=(2, 300, 3)))], **FAST)
    assert nothing.reruns[0].content is None
    assert "no content to compare" in nothing.reruns[0].sentence


def test_reruns_are_told_on_lines_of_their_own_also_without_content():
    content = latents(200, 1)
    first = views_of(content, (2, 2))
    noise = list(np.random.default_rng(3).normal(size=(2, 200, 3)))
    found = content_style(first, reruns=[views_of(content, (2, 2), seed=1), noise], **FAST)
    said = str(found)
    assert "\\n" not in said
    assert [line.split(":")[0] for line in said.splitlines() if line.startswith("rerun")] == ["rerun 1", "rerun 2"]
    same, other = found.reruns
    assert same.sentence.startswith("Content of the first run")
    assert other.dimension == 0
    assert other.sentence.startswith("At least one of the two runs has no known shared block")
    assert other.sentence.endswith(other.style.verdict.sentence[1:])


def test_few_labels_in_one_view_are_no_repeated_rows():
    labels = np.random.default_rng(0).integers(0, 5, size=200)
    first = np.random.default_rng(1).normal(size=(200, 3)) + 3 * np.eye(5)[labels][:, :3]
    assert content_style([first, np.eye(5)[labels]], **FAST).dimension == 3


def test_ids_pair_views_and_are_kept():
    ids = [f"cell {row}" for row in range(300)]
    one, two = views_of(latents(300, 2), (2, 2))
    order = np.random.default_rng(0).permutation(300)[:250]
    moved = Representation(two[order], ids=[ids[row] for row in order], name="b")
    with pytest.raises(InputError):
        content_style([Representation(one, ids=ids, name="a"), moved], **FAST)
    found = content_style([Representation(one, ids=ids, name="a"), moved], join=True, **FAST)
    assert (found.rows, found.dimension) == (250, 2)
    assert list(found.ids) == [ids[row] for row in np.sort(order)]
    assert found.views[0].content(one[np.sort(order)]).shape == (250, 2)


def test_a_result_says_the_same_everywhere(tmp_path):
    views = {"day": views_of(latents(200, 2), (2,))[0], "night": views_of(latents(200, 2), (3,), seed=1)[0]}
    found = content_style(views, **FAST)
    found.to_json(tmp_path / "b.json")
    told = json.loads((tmp_path / "b.json").read_text())
    assert told["schema"] == "isorep.blocks/1"
    assert (told["dimension"], told["names"], told["verdict"]) == (2, ["day", "night"], found.verdict)
    assert "content_map" not in told["views"][0]
    frame = found.to_frame()
    assert list(frame["shared"]) == [each.shared for each in found.components]
    again = content_style(views, **FAST)
    assert again.to_json() == found.to_json()


@pytest.mark.parametrize(
    ("views", "more", "match"),
    [
        ([np.ones((30, 2))], {}, "1 view was given: content is what at least two views"),
        (np.ones((30, 2)), {}, "1 view was given"),
        ([], {}, "no view was given"),
        ([np.eye(30), np.eye(29)], {}, "rows"),
        ([np.random.default_rng(0).normal(size=(10, 2))] * 2, {}, "there are 10 rows: content and style need at least"),
        ([np.random.default_rng(0).normal(size=(30, 2)), np.ones((30, 2))], {}, "all rows of view 2 are identical"),
        ([np.random.default_rng(0).normal(size=(30, 2))] * 2, {"n_null": 5}, "n_null is 5"),
        ([np.random.default_rng(0).normal(size=(30, 2))] * 2, {"least": 1.0}, r"least is 1\.0"),
        (
            [np.random.default_rng(0).normal(size=(30, 2))] * 2,
            {"reruns": np.ones((30, 2))},
            "reruns are lists of views",
        ),
        ([np.random.default_rng(0).normal(size=(30, 2))] * 2, {"reruns": [[np.ones((30, 2))]]}, "1 view was given"),
        (
            [np.random.default_rng(0).normal(size=(30, 2))] * 2,
            {"reruns": [[np.ones((30, 2))]]},
            "1 view was given for rerun 1",
        ),
        (
            np.repeat(np.random.default_rng(0).normal(size=(2, 12, 4)), 10, axis=1),
            {},
            "12 of 120 rows differ from all earlier ones: content and style need at least 20",
        ),
        ([np.full((30, 2), np.nan), np.ones((30, 2))], {}, "view 1"),
    ],
)
def test_input_without_an_answer_is_refused_in_a_sentence(views, more, match):
    with pytest.raises(InputError, match=match):
        content_style(views, **more)
