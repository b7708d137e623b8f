"""What is said beside the numbers: offsets, few rows that dominate, R², efficiencies, and remarks about many runs."""

from dataclasses import replace

import numpy as np
import pytest

import isorep
from isorep.alignment.base import Error
from isorep.cli.compare import recurring_words
from isorep.comparison.caveats import (
    FEW_ROWS,
    about_components,
    about_offset,
    about_p_values,
    about_sides,
    about_size,
    about_units,
    span,
)
from isorep.comparison.fits import FittedICA, UnmixedSide
from isorep.comparison.residuals import efficiency_sentence, told_efficiency
from isorep.comparison.result import Rung
from isorep.comparison.verdict import WITHOUT_LINEAR, WITHOUT_NULL, agrees, error_text, judge
from isorep.pairs import Side, half_variance_share
from isorep.resampling import Interval, Shuffles, null_of

from ..data import noisy_pair, rotation, sources

FAST = {"n_null": 2, "n_boot": 0, "worst_case": False, "rungs": ("identity", "rigid", "linear")}
LADDER = {"rungs": ("identity", "rigid", "linear")}


def side(name, rank=4, constant=0, half=None, columns=4):
    return Side(name, 1000, columns, "float64", rank, 1.0, constant, 1.0, (), half)


def said(result, words):
    return [caveat for caveat in result.caveats if words in caveat]


def test_identity_says_how_much_of_it_is_a_difference_of_means():
    x, y = noisy_pair(300, 4, 0.1)
    assert not said(isorep.compare(x, y, **FAST), "difference of means")
    moved = isorep.compare(x, y + 50, **FAST)
    square = ((x - y - 50) ** 2).sum(axis=1).mean()
    assert moved.forward.identity_offset == pytest.approx(((x - y - 50).mean(0) ** 2).sum() / square)
    assert moved.to_dict()["reverse"]["identity_offset"] == moved.forward.identity_offset
    (found,) = said(moved, "difference of means")
    centred = np.sqrt(((x - x.mean(0) - y + y.mean(0)) ** 2).sum(axis=1).mean()) / moved.target.rms_radius
    assert f"an RMS error of {centred:.3g} RMS radii" in found
    assert isorep.compare(x, y, **FAST | {"rungs": ("rigid", "linear")}).forward.identity_offset is None


def test_an_offset_that_hardly_moves_a_row_is_not_worth_a_word():
    assert about_offset([0.9], [1.0]) != []
    assert about_offset([0.9], [0.01]) == []
    assert about_offset([0.4, 0.5], [1.0, 1.0]) == []
    assert about_offset([None], [0.0]) == []


def test_offsets_and_shares_of_many_runs_are_those_of_their_pairs():
    x, y = noisy_pair(300, 4, 0.1)
    y[:3] *= 40
    runs = [x, y + 50, x[:, :3] - 9]
    many = isorep.compare_many(runs, **LADDER)
    for i, j in ((0, 1), (2, 1), (2, 0)):
        alone = isorep.compare(runs[i], runs[j], **FAST)
        assert many.identity_offset[i, j] == pytest.approx(alone.forward.identity_offset)
        assert many.runs[i].half_variance_share == alone.source.half_variance_share
        assert many.runs[j].half_variance_share == alone.target.half_variance_share
        for name, rung in alone.rungs.items():
            assert rung.explained == pytest.approx(1 - many.rungs[name].rms[i, j] ** 2, abs=1e-9)
    assert len(said(many, "difference of means")) == 1
    assert said(many, "few rows dominate run 1: ")
    without = isorep.compare_many(runs, n_null=0, **LADDER)
    assert without.runs == many.runs, "a pass of its own gives the same shares"
    data = many.to_dict()
    assert data["identity_offset"][0][0] is None
    assert data["runs"][1]["half_variance_share"] < FEW_ROWS


def test_the_rows_that_carry_half_of_the_variance_are_counted():
    assert half_variance_share(np.ones(10)) == 0.5
    assert half_variance_share(np.array([1.0, 1, 1, 97])) == 0.25
    assert half_variance_share(np.array([30.0, 40, 0, 30])) == 0.5
    rng = np.random.default_rng(0)
    assert half_variance_share(rng.normal(size=20_000) ** 2) == pytest.approx(0.124, abs=0.01)


def test_few_rows_far_out_are_said_to_dominate():
    x, y = noisy_pair(400, 4, 0.1)
    assert not said(isorep.compare(x, y, **FAST), "dominate")
    x[:4] *= 30
    (found,) = said(isorep.compare(x, y, **FAST), "dominate")
    assert found.startswith("few rows dominate source: ")
    assert "of 400 rows" in found
    assert "hold half of the variance" in found


def test_several_runs_with_the_same_trouble_share_a_sentence():
    runs = [side(f"run {place}", rank=2 + place % 2, constant=1) for place in range(5)]
    assert about_sides(runs, [False] * 5) == [
        "all 5 runs are rank-deficient: 2 to 3 of 4 dimensions vary (1 to 2 do not, 1 of them constant columns)"
    ]
    runs = [side("a", rank=3), side("b"), side("c", rank=3)]
    assert about_sides(runs, [False, True, False]) == [
        "a and c are rank-deficient: 3 of 4 dimensions vary (1 does not)",
        "the columns of b are nearly dependent: its linear map took a second, preconditioned pass over the rows",
    ]
    many = [side(f"r{place}", rank=4 - (place < 30)) for place in range(40)]
    (found,) = about_sides(many, [False] * 40)
    assert found.startswith("r0, r1, r2, r3, r4, r5 and 24 other runs are rank-deficient")
    halves = [side("a", half=0.012), side("b", half=0.03), side("c", half=0.3)]
    (found,) = about_sides(halves, [False] * 3)
    assert found.startswith("few rows dominate a and b: 12 to 30 of 1000 rows (1.2 to 3.0%) hold half")
    assert span([2, 2]) == "2"


def test_five_runs_that_lack_dimensions_give_one_remark_of_each_kind():
    rng = np.random.default_rng(0)
    shared = sources(200, 3)
    noisy = [shared @ rotation(3, i) + 0.3 * rng.normal(size=(200, 3)) for i in range(5)]
    runs = [np.column_stack([run, np.ones(200)]) for run in noisy]
    result = isorep.compare_many(runs)
    assert len(said(result, "rank-deficient")) == 1
    assert len(said(result, "Gaussian")) <= 1


def test_r2_is_that_of_the_rows_and_stands_in_the_sentence():
    x, y = noisy_pair(300, 4, 0.1)
    result = isorep.compare(x, y, **FAST)
    rigid = result.rungs["rigid"]
    assert rigid.explained == pytest.approx(1 - (rigid.held_out.rms * rigid.unit / result.target.rms_radius) ** 2)
    assert result.to_dict()["forward"]["rungs"]["rigid"]["explained"] == rigid.explained
    assert f"mean distances to the mean, R² {rigid.explained:.3f} (chance" in result.verdict.sentence


def test_an_efficiency_beyond_one_is_explained_and_not_capped():
    assert told_efficiency(0.5, 0.4, 0.331) == pytest.approx(1.69)
    assert told_efficiency(0.5, 0.46, 0.3) is None
    assert efficiency_sentence(1.69).startswith("ICA efficiency 169%: ICA has a smaller error than rigid")
    assert efficiency_sentence(1.001).startswith("ICA efficiency 100%: the share of the gap")
    assert efficiency_sentence(-0.2).startswith("ICA efficiency -20%: ICA has a larger error than signed permutation")


@pytest.mark.parametrize(
    ("everywhere", "families", "words"),
    [
        (0, 0, "none recurs in another run"),
        (0, 1, "none recurs in all 5 runs, 1 does in some"),
        (0, 4, "none recurs in all 5 runs, 4 do in some"),
        (1, 4, "1 recurs in all 5 runs, 3 more in some"),
        (4, 4, "4 recur in all 5 runs, and no other in some"),
    ],
)
def test_recurring_components_are_counted_in_words(everywhere, families, words):
    assert recurring_words(everywhere, families, 5) == words


def test_the_table_of_many_runs_has_errors_and_ranges():
    x, y = noisy_pair(200, 3, 0.2)
    result = isorep.compare_many([x, y, x @ rotation(3, 5)], **LADDER)
    rung = result.rungs["rigid"]
    apart = ~np.eye(3, dtype=bool)
    means = rung.left_out[:, apart].mean(axis=1)
    assert rung.mean_se == pytest.approx(np.sqrt(4 / 5 * ((means - means.mean()) ** 2).sum()))
    assert (rung.min, rung.max) == (rung.error[apart].min(), rung.error[apart].max())
    assert rung.explained == pytest.approx((1 - rung.rms[apart] ** 2).mean())
    line = next(line for line in result.table().splitlines() if "rigid" in line)
    assert f"{rung.mean:.4f}    {rung.mean_se:.4f}  {rung.min:.4f} to {rung.max:.4f}" in line
    assert result.summary().count("row mapped onto column") == 1


def a_rung(name, error, reach=0.01, excess=0.0, chance=1.0, explained=None):
    """A rung with this error and half-width, and shuffled pairings about this chance."""
    held = Error(error, error, error, {})
    draws = np.linspace(chance - 0.02, chance + 0.02, 99)
    return Rung(
        name,
        held,
        held,
        Interval(error - reach, error + reach),
        Interval(-excess, excess),
        null_of(draws, error, higher_is_closer=False),
        1.0,
        explained=explained,
    )


@pytest.mark.parametrize(
    ("rigid", "linear", "rung", "words"),
    [
        (a_rung("rigid", 0.2), a_rung("linear", 0.19), "rigid", "a and b agree up to a rigid motion"),
        (a_rung("rigid", 0.5), a_rung("linear", 0.5), "rigid", "a and b agree up to a rigid motion"),
        (a_rung("rigid", 0.51), a_rung("linear", 0.51), "rigid", "a and b are partly related, up to a rigid motion"),
        (a_rung("rigid", 0.4, explained=0.8), a_rung("linear", 0.4), "rigid", "a and b agree up to a rigid motion"),
        (a_rung("rigid", 0.4, explained=0.79), a_rung("linear", 0.4), "rigid", "a and b are partly related, up to a"),
        (a_rung("rigid", 0.2, excess=0.04), a_rung("linear", 0.19), "linear", "agree up to a linear map."),
        (a_rung("rigid", 1.2), a_rung("linear", 1.1), None, "the best one, linear, is no better than chance."),
        (
            a_rung("rigid", 1.0),
            a_rung("linear", 0.9, 0.2),
            None,
            "the best one, linear, differs from chance, but its interval reaches it.",
        ),
        (
            a_rung("rigid", 1.2, chance=1.5),
            a_rung("linear", 1.1, chance=1.5),
            None,
            "the best one, linear, is no better than predicting the mean.",
        ),
        (
            a_rung("rigid", 1.2, chance=1.5),
            a_rung("linear", 0.98, 0.1, chance=1.5),
            None,
            "the best one, linear, may be no better than predicting the mean, by its interval.",
        ),
    ],
)
def test_every_verdict_is_said_where_it_is_true(rigid, linear, rung, words):
    verdict = judge({"rigid": rigid, "linear": linear}, 0.03, "a", "b")
    assert verdict.rung == rung
    assert words in verdict.sentence
    assert "mean distances to the mean" in verdict.sentence
    assert "(chance 1." in verdict.sentence


def test_rows_that_are_too_few_for_their_interval_are_not_said_to_be_at_chance():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y = 0.6 * x + rng.normal(size=x.shape)
    result = isorep.compare(x, y, rungs=("rigid", "linear"), worst_case=False)
    assert result.rungs["rigid"].null.p_value == pytest.approx(1 / 101)
    assert result.verdict.rung is None
    assert "differs from chance, but its interval reaches it" in result.verdict.sentence


def test_no_verdict_is_made_without_what_it_takes():
    rung = a_rung("linear", 0.1)
    assert judge({"rigid": rung}, 0.03, "a", "b").sentence == WITHOUT_LINEAR
    without = Rung("linear", rung.held_out, rung.in_sample, rung.interval, rung.excess, None, 1.0)
    assert judge({"linear": without}, 0.03, "a", "b").sentence == WITHOUT_NULL
    assert judge({"linear": rung}, 0.03, "a", "b", scored=19).sentence.startswith("No verdict: only 19 rows could be")
    assert judge({"linear": rung}, 0.03, "a", "b", scored=1).sentence.startswith("No verdict: only 1 row could be")
    assert judge({"linear": rung}, 0.03, "a", "b", scored=20).rung == "linear"


def test_an_error_is_told_with_its_unit_and_r2_where_it_is_known():
    assert error_text(0.3, 0.9) == "Held-out error: 0.300 mean distances to the mean, R² 0.900"
    assert error_text(0.0001234, -0.0001) == "Held-out error: 0.000123 mean distances to the mean, R² 0.000"
    assert error_text(0.3, None) == "Held-out error: 0.300 mean distances to the mean"


@pytest.mark.parametrize(
    ("error", "explained", "found"),
    [(0.5, 0.8, True), (0.5, 0.79, False), (0.51, 0.8, False), (0.1, -2.0, False), (0.5, None, True)],
)
def test_two_sides_agree_if_less_than_a_fifth_of_the_variance_is_unexplained(error, explained, found):
    assert agrees(error, explained) is found


def test_few_rows_are_said_to_be_few_and_rotations_undetermined():
    assert about_size(500, 100, 5) == []
    (few,) = about_size(499, 100, 5)
    assert few.startswith("only 499 rows for 100 dimensions (fewer than 5 per dimension)")
    assert len(about_size(126, 100, 5)) == 1
    assert "part of the rotation is undetermined" in about_size(125, 100, 5)[1]
    assert len(about_size(125, 100, 5, rank=100)) == 2
    assert len(about_size(125, 100, 5, rank=99)) == 1  # the training rows span one of both sides


def test_few_groups_and_few_shuffles_are_told():
    groups = np.repeat(np.arange(19), 3)
    (found,) = about_units(groups, Shuffles(57, groups), 100, True)
    assert found == "only 19 groups: intervals over so few are approximate"
    assert "only 19 sets of equal rows" in about_units(groups, Shuffles(57, groups), 100, False)[0]
    groups = np.repeat(np.arange(20), 3)
    assert about_units(groups, Shuffles(60, groups), 100, True) == []
    assert about_units(None, Shuffles(60), 100, False) == []
    four = np.repeat(np.arange(4), 3)
    assert "there are only 24 different ways" in about_units(four, Shuffles(12, four), 100, True)[0]
    assert not any("different ways" in each for each in about_units(four, Shuffles(12, four), 20, True))
    unequal = np.repeat(np.arange(20), [9] * 10 + [8] * 10)
    (cut,) = about_units(unequal, Shuffles(170, unequal), 100, True)
    assert cut.startswith("p-values compare 160 of 170 rows: ")


def test_medians_are_told_where_few_rows_set_the_means():
    x, y = noisy_pair(300, 4, 0.1)
    assert not said(isorep.compare(x, y, **FAST), "mean and median errors")
    y[:30] = 5 * np.random.default_rng(0).normal(size=(30, 4))
    result = isorep.compare(x, y, **FAST)
    (found,) = said(result, "mean and median errors onto target differ, as errors or distances to the mean are skewed")
    rung = result.rungs["rigid"]
    norms = np.linalg.norm(y - y.mean(axis=0), axis=1)
    median = rung.held_out.quantiles["0.5"] * rung.unit / np.median(norms)
    assert rung.median == pytest.approx(median)
    assert f"rigid {rung.median:.3f} (mean {rung.held_out.mean:.3f})" in found


def test_a_row_far_out_that_both_sides_share_leaves_one_story_where_both_errors_are_small():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 5))
    x[7] = 1000
    y = x + 0.1 * rng.normal(size=x.shape)
    assert not said(isorep.compare(x, y, **FAST), "differ from them")


def test_diameters_say_what_they_are():
    x, y = noisy_pair(300, 4, 0.1)
    assert not said(isorep.compare(x, y, **FAST), "diameter")
    bounded = isorep.compare(x, y, **FAST, diameter="bound")
    sizes = [each.diameter for each in (bounded.forward, bounded.reverse)]
    assert len(said(bounded, "errors in diameters use the lower bound")) == sum(not s.exact for s in sizes)
    assert not all(size.exact for size in sizes)
    y[0] *= 100
    (found,) = said(isorep.compare(x, y, **FAST), "outliers set the diameter")
    assert found.startswith("outliers set the diameter of target: it is ")


def test_directions_that_end_at_different_rungs_are_told():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 6))
    part = x[:, :2] + 0.05 * rng.normal(size=(600, 2))
    result = isorep.compare(x, part, **FAST | {"n_boot": 1, "n_null": 20})
    (found,) = said(result, "instead of")
    forward, reverse = result.verdict.rung or "no rung", result.reverse.verdict.rung or "no rung"
    assert found.startswith(f"from target to source the verdict is {reverse} instead of {forward}")
    ends = [each.rungs["linear"].held_out.mean for each in (result.forward, result.reverse)]
    assert f"held-out error of the linear map: {ends[0]:.3f} onto target and {ends[1]:.3f} onto source" in found
    y = x @ rotation(6, 0)
    assert not said(isorep.compare(x, y, **FAST), "instead of")
    assert said(result, "widths differ (6 and 2): the narrower side is padded with zeros")
    assert not said(isorep.compare(x, y, **FAST), "widths differ")


def test_rows_by_id_are_said_to_be_joined_or_half_known():
    x, y = noisy_pair(100, 3, 0.1)
    ids = np.arange(100)
    a, b = isorep.Representation(x, ids, "a"), isorep.Representation(y[:90], ids[:90], "b")
    assert (
        "joined by id: 90 common rows, 10 dropped from a and 0 from b"
        in isorep.compare(a, b, join=True, **FAST).caveats
    )
    half = "rows are paired by position: only one side has row ids, so the pairing is unconfirmed"
    assert half in isorep.compare(a, y, **FAST).caveats
    assert not said(isorep.compare(x, y, **FAST), "row ids")
    assert not said(isorep.compare(a, isorep.Representation(y, ids, "b"), **FAST), "row ids")


def test_remarks_about_many_runs_are_made_where_they_are_true():
    x, y = noisy_pair(300, 4, 0.2)
    z = x @ rotation(4, 3) + 0.2 * np.random.default_rng(5).normal(size=x.shape)
    four = isorep.compare_many([x, y, z, x + 0.1], **LADDER, n_null=0)
    three = isorep.compare_many([x, y, z[:, :3]], **LADDER, n_null=0)
    assert said(three, "outliers cannot be detected with 3 runs: at least 4 are needed")
    assert not said(four, "outliers cannot be detected")
    assert said(three, "widths differ (3, 4): narrower runs are padded with zeros")
    assert not said(four, "widths differ")
    assert not said(four, "drawn at random")


def test_many_rows_are_said_to_be_sampled(monkeypatch):
    monkeypatch.setattr("isorep.comparison.many.MOST_ROWS", 200)
    x, y = noisy_pair(300, 3, 0.2)
    result = isorep.compare_many([x, y], **LADDER, n_null=0)
    assert said(result, "maps are fitted to all 300 rows; mean errors are those of 200 rows, drawn at random")


def unmixed(gaussian=0, converged=True, rows=1000, in_parts=None):
    def fitted(gaussian):
        return FittedICA(np.zeros((4, 4)), np.zeros((4, 4)), np.arange(4) < gaussian, converged)

    parts = [gaussian] * 3 if in_parts is None else in_parts
    return UnmixedSide(fitted(gaussian), [fitted(each) for each in parts], rows)


def test_components_that_are_not_determined_settled_or_of_all_rows_are_told():
    sides = [side("a"), side("b"), side("c")]
    assert about_components(sides, [unmixed()] * 3) == []
    assert about_components(sides, [unmixed(), unmixed(converged=False), unmixed()]) == [
        "ICA of b did not converge within its sweeps"
    ]
    (found,) = about_components(sides, [unmixed(2), unmixed(), unmixed()])
    assert found.startswith("2 of 4 independent components of a are indistinguishable from Gaussian")
    (found,) = about_components(sides, [unmixed(2), unmixed(3), unmixed(2)])
    assert found.startswith("2 to 3 of 4 independent components of each of the 3 runs are indistinguishable")
    (found,) = about_components(sides[:2], [unmixed(2), unmixed(3)])
    assert found.startswith("2 of 4 independent components of a and 3 of 4 of b are indistinguishable from Gaussian")
    (found,) = about_components(sides[:2], [unmixed(3), unmixed(3)])
    assert found.startswith("3 of 4 independent components of each of a and b are indistinguishable")
    assert about_components(sides, [unmixed(rows=500)] * 3) == ["ICA of all 3 runs was estimated from 500 of 1000 rows"]


def test_components_that_a_third_of_the_rows_does_not_determine_are_told():
    sides = [side("a"), side("b")]
    (found,) = about_components(sides, [unmixed(in_parts=[4, 3, 3]), unmixed()])
    assert found == (
        "3 to 4 components of a are indistinguishable from Gaussian in a third of the rows (0 in all rows): the "
        "held-out ICA rung is fitted to thirds"
    )
    (found,) = about_components(sides, [unmixed(in_parts=[4, 3, 3]), unmixed(in_parts=[2, 2, 2])])
    assert found.startswith("3 to 4 components of a and 2 of b are indistinguishable from Gaussian in a third of the")
    assert "(0 in all rows)" in found
    (_, found) = about_components(sides, [unmixed(1, in_parts=[4, 4, 4]), unmixed(in_parts=[2, 2, 2])])
    assert found.startswith("4 components of a and 2 of b")
    assert "(1 and 0 in all rows)" in found
    assert about_components(sides, [unmixed(in_parts=[1, 0, 0]), unmixed()]) == []
    (found,) = about_components(sides, [unmixed(3, in_parts=[3, 3, 4]), unmixed()])
    assert "third" not in found


def test_two_runs_are_called_the_two_runs():
    x, y = noisy_pair(300, 4, 0.2)
    assert isorep.compare_many([x, y], **LADDER).verdict.sentence.startswith("The two runs agree up to a rigid motion")
    independent = [np.random.default_rng(seed).normal(size=(300, 4)) for seed in range(2)]
    sentence = isorep.compare_many(independent, **LADDER).verdict.sentence
    assert sentence.startswith("No rung explains any pair of the two runs.")


def test_a_p_value_that_does_not_fit_the_printed_error_is_explained():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 4)), rng.normal(size=(300, 4))
    result = isorep.compare(x, y, rungs=("linear",), n_null=40, worst_case=False)
    assert not said(result, "p compares the real pairing")
    assert not said(isorep.compare(*noisy_pair(300, 4, 0.2), rungs=("linear",), n_null=40), "p compares")
    rung = result.rungs["linear"]
    for error, p in ((rung.null.mean + 0.1, 0.02), (rung.null.low - 0.5, 0.4)):
        interval = replace(rung.interval, low=error - 0.01, high=error + 0.01)
        other = replace(rung, null=replace(rung.null, p_value=p), held_out=replace(rung.held_out, mean=error))
        direction = replace(result.forward, rungs={"linear": replace(other, interval=interval)})
        (found,) = about_p_values(replace(result, forward=direction))
        assert found.startswith("linear onto target: p compares the real pairing by the steps of shuffled ones, where ")
        assert found.endswith(f"the error of all rows is {error:.4f}")


def test_an_error_that_is_huge_on_one_rung_leaves_the_others_apart():
    rng = np.random.default_rng(0)
    x, turn = rng.laplace(size=(200, 4)), rotation(4, 1)
    far = x.copy()
    far[7] = 1e12
    for rows in (far, x + 1e15):  # one rung has an error of 1e10 and more
        result = isorep.compare(rows, rows @ turn, n_null=19, worst_case=False)
        assert max(rung.held_out.mean for rung in result.rungs.values()) > 1e9
        assert result.verdict.rung == "rigid"
        assert "< -1000" in str(result)
    assert efficiency_sentence(-1e9).startswith("ICA efficiency below -1000%:")
    assert efficiency_sentence(-2.0).startswith("ICA efficiency -200%:")


def test_what_centring_leaves_is_told_where_it_is_more_than_rounding():
    (near,) = about_offset([0.9], [1.0])
    (far,) = about_offset([1 - 1e-15], [1e15])
    assert near.endswith("with both sides centred, identity has an RMS error of 0.316 RMS radii")
    assert far.endswith("of its squared error")
