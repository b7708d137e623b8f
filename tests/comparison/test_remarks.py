"""What is said beside the numbers: offsets, few rows that dominate, R², efficiencies, and remarks about many runs."""

import numpy as np
import pytest

import isorep
from isorep.cli.compare_many import recurring_words
from isorep.comparison.caveats import FEW_ROWS, about_offset, about_sides, span
from isorep.comparison.result import Side
from isorep.comparison.sides import half_variance_share
from isorep.comparison.statistics import efficiency_sentence, told_efficiency

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
    assert "carry half of the variance" in found


def test_several_runs_with_the_same_trouble_share_a_sentence():
    runs = [side(f"run {place}", rank=2 + place % 2, constant=1) for place in range(5)]
    assert about_sides(runs, [False] * 5) == [
        "all 5 runs are rank-deficient: 2 to 3 of 4 dimensions vary (1 to 2 do not, 1 of them constant columns)"
    ]
    runs = [side("a", rank=3), side("b"), side("c", rank=3)]
    assert about_sides(runs, [False, True, False]) == [
        "a and c are rank-deficient: 3 of 4 dimensions vary (1 do not)",
        "the columns of b are nearly dependent: its linear map took a second, preconditioned pass over the rows",
    ]
    many = [side(f"r{place}", rank=4 - (place < 30)) for place in range(40)]
    (found,) = about_sides(many, [False] * 40)
    assert found.startswith("r0, r1, r2, r3, r4, r5 and 24 other runs are rank-deficient")
    halves = [side("a", half=0.012), side("b", half=0.03), side("c", half=0.3)]
    (found,) = about_sides(halves, [False] * 3)
    assert found.startswith("few rows dominate a and b: 12 to 30 of 1000 rows (1.2 to 3.0 %) carry half")
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
    assert f"mean distances to the mean, R² {rigid.explained:.2f} (chance" in result.verdict.sentence


def test_an_efficiency_beyond_one_is_explained_and_not_capped():
    assert told_efficiency(0.5, 0.4, 0.331) == pytest.approx(1.69)
    assert told_efficiency(0.5, 0.46, 0.3) is None
    assert efficiency_sentence(1.69).startswith("ICA efficiency 169%: ICA leaves less than rigid, so that this is no")
    assert efficiency_sentence(1.001).startswith("ICA efficiency 100%: the share of the gap")
    assert efficiency_sentence(-0.2).startswith("ICA efficiency -20%: ICA leaves more than signed permutation")


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
    line = result.table().splitlines()[2]
    assert f"{rung.mean:.4f}  {rung.mean_se:.4f}  {rung.min:.4f} to {rung.max:.4f}" in line
    assert result.summary().count("row mapped onto column") == 1
