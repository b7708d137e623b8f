"""Shuffles, nulls and intervals: exact where they claim to be, and honest where they cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isorep.errors import InputError
from isorep.resampling import (
    Shuffles,
    assign_blocks,
    assign_folds,
    group_codes,
    jackknife,
    jackknife_se,
    null_of,
    p_text,
    pearson3_tail,
    ratio_jackknife,
    skewness,
    t_interval,
)
from isorep.rows import equal_rows


def _binomial_range(share: float, replicates: int) -> tuple[float, float]:
    """What a share can look like over replicates: its 99.9 % range."""
    low, high = stats.binom.interval(0.999, replicates, share)
    return low / replicates, high / replicates


class TestDistributions:
    """Tails and quantiles from special functions are those of scipy.stats."""

    @given(st.floats(-8, 8), st.floats(-1.5, 1.5))
    def test_pearson_iii(self, z: float, skew: float) -> None:
        assert pearson3_tail(z, skew) == pytest.approx(float(stats.pearson3.sf(z, skew)), rel=1e-12, abs=1e-12)

    @given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=50, unique=True), st.floats(0.01, 100))
    def test_skewness(self, values: list[int], unit: float) -> None:
        given = unit * np.array(values, dtype=np.float64)
        assert skewness(given) == pytest.approx(float(stats.skew(given, bias=False)), rel=1e-12, abs=1e-12)

    def test_values_that_differ_by_rounding_have_no_skewness(self) -> None:
        assert math.isnan(skewness(np.full(20, 0.3)))

    @given(st.integers(2, 200), st.floats(0.5, 0.999))
    def test_student(self, blocks: int, level: float) -> None:
        reach = float(stats.t.ppf((1 + level) / 2, blocks - 1))
        assert t_interval(0.0, 1.0, blocks, level=level).high == pytest.approx(reach, rel=1e-12)

    @given(st.lists(st.floats(-3, 3), min_size=20, max_size=40, unique=True), st.floats(-9, 9), st.booleans())
    def test_fitted_tail(self, draws: list[float], observed: float, higher: bool) -> None:
        values, sign = np.array([*draws, -4.0, 4.0]), 1 if higher else -1
        n, spread = len(values), float(np.std(values, ddof=1))
        z = sign * (observed - float(np.mean(values))) / (spread * math.sqrt(1 + 1 / n))
        skew = float(np.clip(sign * stats.skew(values, bias=False), -1.5, 1.5))
        expected = max(float(stats.t.sf(z, n - 1)), float(stats.pearson3.sf(z, skew)), 1e-3)
        found = null_of(values, observed, higher_is_closer=higher, distinct=1e9, tail=True).p_value
        assert found == pytest.approx(expected, rel=1e-12)


class TestShuffles:
    def test_without_groups_permutations_are_uniform_and_keep_fixed_points(self, rng: np.random.Generator) -> None:
        shuffles = Shuffles(3)
        seen = [tuple(shuffles.draw(rng)) for _ in range(6000)]
        counts = np.array([seen.count(each) for each in sorted(set(seen))])
        assert len(counts) == 6 == round(shuffles.distinct)
        assert stats.chisquare(counts).pvalue > 1e-4

    @given(st.lists(st.integers(1, 30), min_size=2, max_size=40), st.integers(0, 2**31))
    def test_groups_move_as_wholes_in_their_order(self, sizes: list[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        shuffles = Shuffles(len(groups), groups)
        partners = shuffles.draw(rng)
        assert sorted(partners) == list(shuffles.rows)
        for group in np.unique(groups[shuffles.rows]):
            mine = shuffles.rows[groups[shuffles.rows] == group]
            taken = partners[groups[shuffles.rows] == group]
            other = np.unique(groups[taken])
            assert len(other) == 1
            assert list(mine) == list(np.flatnonzero(groups == group)[: len(mine)])
            assert list(taken) == list(np.flatnonzero(groups == other[0])[: len(mine)])

    def test_within_keeps_classes(self, rng: np.random.Generator) -> None:
        within = rng.integers(0, 4, 100)
        partners = Shuffles(100, within=within).draw(rng)
        assert (within[partners] == within).all()
        assert (partners != np.arange(100)).any()

    def test_classes_of_one_row_take_no_part(self, rng: np.random.Generator) -> None:
        within = np.array([0, 0, 0, 1, 2, 2])
        assert list(Shuffles(6, within=within).rows) == [0, 1, 2, 4, 5]
        with pytest.raises(InputError, match="nothing can be shuffled"):
            Shuffles(3, within=np.arange(3))

    def test_groups_and_classes_together(self, rng: np.random.Generator) -> None:
        groups = np.repeat(np.arange(10), 3)
        within = groups % 2
        partners = Shuffles(30, groups, within).draw(rng)
        assert (within[partners] == within).all()
        with pytest.raises(InputError, match="each must lie in one"):
            Shuffles(30, groups, np.arange(30) % 2)

    @pytest.mark.parametrize("sizes", [(5, 16), (1, 80), (6, 6)])
    def test_p_values_are_uniform_for_independent_walks_of_any_size(self, sizes: tuple[int, int]) -> None:
        rng = np.random.default_rng(7)
        replicates, found = 400, []
        for _ in range(replicates):
            groups = np.repeat(np.arange(12), rng.integers(sizes[0], sizes[1] + 1, 12))
            x, y = (_walks(groups, rng) for _ in range(2))
            shuffles = Shuffles(len(groups), groups)
            observed = _overlap(x[shuffles.rows], y[shuffles.rows])
            draws = [_overlap(x[shuffles.rows], y[shuffles.draw(rng)]) for _ in range(39)]
            found.append(null_of(draws, observed, higher_is_closer=True).p_value)
        low, high = _binomial_range(0.05, replicates)
        assert low <= np.mean(np.array(found) <= 0.05) <= high

    def test_thinned_keeps_the_kind_of_pairing(self, rng: np.random.Generator) -> None:
        groups = np.repeat(np.arange(50), 4)
        part = Shuffles(200, groups).thinned(80, rng)
        assert len(part.rows) == 80
        partners = part.draw(rng)
        assert sorted(partners) == list(part.rows)
        assert all(len(set(groups[partners[groups[part.rows] == g]])) == 1 for g in set(groups[part.rows]))

    def test_thinned_groups_lose_rows_before_groups_are_left_out(self, rng: np.random.Generator) -> None:
        groups = np.repeat(np.arange(20), 500)
        part = Shuffles(len(groups), groups).thinned(1000, rng)
        assert len(part.rows) == 1000
        assert len(set(groups[part.rows])) == 20
        assert len(set((part.rows % 500).tolist())) == 50  # the same places in every group

    def test_few_distinct_shuffles_are_said(self) -> None:
        few = Shuffles(8, np.repeat(np.arange(4), 2))
        assert few.distinct == pytest.approx(24)
        assert "only 24 different" in few.notes(100)[0]
        assert Shuffles(50).notes(100) == []

    def test_why_rows_take_no_part_is_said(self, rng: np.random.Generator) -> None:
        within = np.append(np.zeros(99, dtype=int), 1)
        assert "99 of 100 rows: a row that is alone in its class" in Shuffles(100, within=within).notes(10)[0]
        groups = np.repeat(np.arange(12), np.arange(1, 13))
        assert "cut to equal sizes" in Shuffles(len(groups), groups).notes(10)[0]
        assert "a random part of them" in Shuffles(100).thinned(50, rng).notes(10)[0]


class TestNull:
    def test_p_is_never_below_what_distinct_shuffles_allow(self) -> None:
        null = null_of(np.zeros(99), 1.0, higher_is_closer=True, distinct=24)
        assert null.p_value == null.smallest_p == pytest.approx(1 / 24)
        assert null_of(np.zeros(99), 1.0, higher_is_closer=True).p_value == 0.01

    def test_direction_and_ties(self) -> None:
        draws = np.array([0.0, 1.0, 2.0, 3.0])
        assert null_of(draws, 3.0, higher_is_closer=True).p_value == 2 / 5
        assert null_of(draws, 3.0, higher_is_closer=False).p_value == 1.0
        assert null_of(draws, 3.0 + 1e-13, higher_is_closer=True).p_value == 2 / 5

    def test_what_is_not_finite_has_no_p(self) -> None:
        assert math.isnan(null_of([1.0, math.nan], 1.0, higher_is_closer=True).p_value)

    def test_smallest_p_is_printed_as_a_bound(self) -> None:
        assert p_text(1 / 101, 1 / 101) == "<= 0.0099"
        assert p_text(2 / 101, 1 / 101) == "0.02"

    @pytest.mark.parametrize("draw", ["normal", "gamma"])
    def test_a_fitted_tail_is_calibrated(self, draw: str) -> None:
        rng = np.random.default_rng(3)
        values = rng.normal(size=(2000, 21)) if draw == "normal" else rng.gamma(6.0, size=(2000, 21))
        found = [null_of(v[1:], v[0], higher_is_closer=True, tail=True).p_value for v in values]
        assert 0.03 <= np.mean(np.array(found) <= 0.05) <= 0.08


class TestIntervals:
    def test_jackknife_of_a_mean_is_the_textbook_standard_error(self, rng: np.random.Generator) -> None:
        values = rng.normal(size=40)
        left_out = np.array([np.delete(values, row).mean() for row in range(40)])
        expected = values.std(ddof=1) / np.sqrt(40)
        assert float(jackknife_se(left_out, values.mean())) == pytest.approx(expected)

    def test_unequal_blocks_of_equal_rows_agree_with_equal_ones(self, rng: np.random.Generator) -> None:
        values = rng.normal(size=4000)
        even, odd = np.arange(4000) % 40, np.minimum(np.arange(4000) // 50, 39)
        reach = []
        for blocks in (even, rng.permutation(odd)):
            kept = np.array([values[blocks != block].mean() for block in range(40)])
            reach.append(float(jackknife_se(kept, values.mean(), np.bincount(blocks))))
        assert reach[1] == pytest.approx(reach[0], rel=0.5)  # a standard error from 40 blocks varies by 11 %

    def test_an_estimate_lies_inside_its_interval(self) -> None:
        assert t_interval(0.99, 0.1, 10, most=1.0).high == 1.0
        outside = t_interval(1.2, 0.1, 10, most=1.0)
        assert outside.low < 1.2 <= outside.high

    def test_ratio(self, rng: np.random.Generator) -> None:
        above, below = rng.gamma(5.0, size=25), rng.gamma(9.0, size=25)
        estimate, se = ratio_jackknife(above, below)
        blocks = np.arange(25)
        interval = jackknife(lambda kept: above[kept].sum() / below[kept].sum(), blocks, float(estimate))
        assert interval.high - estimate == pytest.approx(float(se) * stats.t.ppf(0.975, 24))

    def test_blocks_hold_whole_groups_of_about_equal_size(self, rng: np.random.Generator) -> None:
        groups = np.repeat(np.arange(300), rng.integers(1, 9, 300))
        blocks = assign_blocks(len(groups), groups, rng)
        assert blocks.max() == 49
        assert all(len(set(blocks[groups == group])) == 1 for group in range(300))
        sizes = np.bincount(blocks)
        assert sizes.max() <= 1.3 * sizes.min()


class TestRows:
    def test_rows_of_signalling_nan_are_told_apart_without_a_warning(self) -> None:
        values = np.array([[0x7D01, 0], [0x3C00, 0], [0x3C00, 0]], np.uint16).view(np.float16)
        assert equal_rows(values)[1:].tolist() in ([0, 0], [1, 1])

    def test_equal_rows_share_a_number(self, rng: np.random.Generator) -> None:
        values = rng.normal(size=(50, 7)).astype(np.float32)
        values[13] = values[4]
        values[20, :], values[21, :] = 0.0, -0.0
        codes = equal_rows(values)
        assert codes[13] == codes[4]
        assert codes[20] == codes[21]
        assert len(np.unique(codes)) == 48

    def test_one_changed_bit_and_swapped_columns_differ(self) -> None:
        row = np.arange(6.0)
        rows = np.stack([row, np.nextafter(row, 9), row[::-1], np.roll(row, 1)])
        assert len(np.unique(equal_rows(rows))) == 4

    def test_folds_keep_groups_together_and_do_not_follow_the_order_of_rows(self, rng: np.random.Generator) -> None:
        groups = np.repeat(np.arange(20), 5)
        folds = [assign_folds(100, 5, groups, np.random.default_rng(seed)) for seed in range(2)]
        assert all(len(set(folds[0][groups == group])) == 1 for group in range(20))
        assert list(np.bincount(folds[0])) == [20] * 5
        assert (folds[0] != folds[1]).any()

    def test_missing_labels_are_refused(self) -> None:
        with pytest.raises(InputError, match="within is missing for 1 rows, the first at row 1"):
            group_codes(["a", None, "b"], 3, "within")


def _walks(groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    steps = rng.normal(size=(len(groups), 2))
    return np.concatenate([np.cumsum(steps[groups == group], axis=0) for group in range(groups.max() + 1)])


def _overlap(x: np.ndarray, y: np.ndarray) -> float:
    return float((((x - x.mean(axis=0)).T @ (y - y.mean(axis=0))) ** 2).sum())


@pytest.mark.parametrize(("groups", "said"), [([0, 0, 1, 1, 2, 2], "use at most 3 folds"), ([0] * 6, "two groups")])
def test_too_few_groups_for_the_folds_are_refused_with_what_to_do(groups: list[int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        assign_folds(6, 5, np.array(groups), np.random.default_rng(0))
