"""All pairs from joint moments: the same numbers as pair by pair, the same invariances, at any shape."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import isorep
from isorep.moments import JointMoments, Moments, joint_moments, leave_one_out, merged, require_joint_memory
from isorep.resampling import assign_folds

from ..data import mixing, rotation, signed_permutation, sources

MOMENT_RUNGS = ("identity", "signed_permutation", "rigid", "linear")
LADDER = {"rungs": MOMENT_RUNGS, "n_null": 0}


def seeds(count=4, n=500, d=4, noise=0.3, seed=0):
    """Runs that share sources up to rotation, scale and place, each with its own noise."""
    rng = np.random.default_rng(seed)
    shared = sources(n, d, seed)
    return [(1 + i) * (shared @ rotation(d, seed + i) + noise * rng.normal(size=(n, d))) + 3 * i for i in range(count)]


def in_radii(rung, side):
    """A held-out RMS error of isorep.compare in RMS radii of the target."""
    return rung.held_out.rms * rung.unit / side.rms_radius


@pytest.fixture(scope="module")
def everything():
    return isorep.compare_many(seeds(), residuals=True)


@pytest.mark.parametrize(("i", "j"), [(0, 1), (1, 3), (3, 0)])
def test_errors_equal_those_of_the_pair_compared_alone(everything, i, j):
    runs = seeds()
    alone = isorep.compare(runs[i], runs[j], n_null=0, n_boot=0, worst_case=False)
    for name, matrix in everything.rungs.items():
        for source, target, direction, side in (
            (i, j, alone.forward, alone.target),
            (j, i, alone.reverse, alone.source),
        ):
            rung = direction.rungs[name]
            assert matrix.rms[source, target] == pytest.approx(in_radii(rung, side), abs=1e-9)
            inside = rung.in_sample.rms * rung.unit / side.rms_radius
            assert matrix.rms_in_sample[source, target] == pytest.approx(inside, abs=1e-9)
            assert matrix.error[source, target] == pytest.approx(rung.held_out.mean, abs=1e-9)
            assert matrix.in_sample[source, target] == pytest.approx(rung.in_sample.mean, abs=1e-9)
            told = rung.in_diameters.held_out
            assert matrix.mean_error[source, target] == pytest.approx(told.mean, rel=1e-9)
            assert matrix.sup[source, target] == pytest.approx(told.sup, rel=1e-9)
            assert matrix.quantiles["0.95"][source, target] == pytest.approx(told.quantiles["0.95"], rel=1e-9)


@pytest.mark.parametrize("shape", ["widths", "few rows", "dependent", "constant", "large mean", "condition", "float16"])
def test_errors_equal_those_of_the_pair_whatever_the_shape(shape):
    runs = seeds(3, 60 if shape == "few rows" else 300, 6)
    tolerance = 1e-7
    if shape == "widths":
        runs[1], runs[2] = runs[1][:, :3], np.column_stack([runs[2], runs[2][:, :2] ** 2])
    if shape == "few rows":
        rng = np.random.default_rng(5)
        runs = [np.column_stack([run, rng.normal(size=(60, 70))]) for run in runs]
    if shape == "dependent":
        runs[0] = np.column_stack([runs[0], runs[0][:, 0] - runs[0][:, 1]])
    if shape == "constant":
        runs[1][:, 2] = 7.0
    if shape == "large mean":
        runs[0] = runs[0] + 1e6
        tolerance = 1e-5
    if shape == "condition":
        runs[0] = runs[0] @ mixing(6, 3, 1e9)
        tolerance = 1e-5
    if shape == "float16":
        runs = [run.astype(np.float16) for run in runs]
        tolerance = 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        many = isorep.compare_many(runs, **LADDER)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            alone = isorep.compare(runs[i], runs[j], n_boot=0, worst_case=False, **LADDER)
            for name, matrix in many.rungs.items():
                forward, reverse = alone.forward.rungs[name], alone.reverse.rungs[name]
                assert matrix.error[i, j] == pytest.approx(forward.held_out.mean, abs=tolerance)
                assert matrix.error[j, i] == pytest.approx(reverse.held_out.mean, abs=tolerance)
                assert matrix.rms[i, j] == pytest.approx(in_radii(forward, alone.target), abs=tolerance)
                assert matrix.rms[j, i] == pytest.approx(in_radii(reverse, alone.source), abs=tolerance)
            assert (many.runs[i].rank, many.runs[j].rank) == (alone.source.rank, alone.target.rank)


def test_ill_conditioned_runs_are_named_and_solved_by_a_second_pass():
    runs = seeds(3, 400, 5, noise=0.0)
    runs[1] = runs[1] @ mixing(5, 0, 1e9)
    result = isorep.compare_many(runs, **LADDER)
    assert result.rungs["linear"].max < 1e-5
    assert any("run 1 are nearly dependent" in caveat for caveat in result.caveats)


@settings(max_examples=8)
@given(st.integers(0, 1000), st.integers(0, 2))
def test_rigid_and_linear_do_not_change_when_any_run_is_rotated(seed, which):
    runs = seeds(3, 200, 3)
    plain = isorep.compare_many(runs, **LADDER)
    runs[which] = 2.5 * runs[which] @ rotation(3, seed) - 4
    moved = isorep.compare_many(runs, **LADDER)
    for name in ("rigid", "linear"):
        np.testing.assert_allclose(moved.rungs[name].rms, plain.rungs[name].rms, atol=1e-9)
    np.testing.assert_allclose(moved.consensus.shares, plain.consensus.shares, atol=1e-3)


@settings(max_examples=8)
@given(st.integers(0, 1000), st.integers(0, 2))
def test_the_permutation_rung_does_not_change_when_dimensions_of_a_run_are_permuted(seed, which):
    runs = seeds(3, 200, 3)
    plain = isorep.compare_many(runs, **LADDER)
    runs[which] = runs[which] @ signed_permutation(3, seed)
    moved = isorep.compare_many(runs, **LADDER)
    np.testing.assert_allclose(moved.rungs["signed_permutation"].rms, plain.rungs["signed_permutation"].rms, atol=1e-9)


@settings(max_examples=8)
@given(st.integers(0, 1000))
def test_errors_from_a_run_by_linear_maps_do_not_change_when_it_is_mixed(seed):
    runs = seeds(3, 200, 3)
    plain = isorep.compare_many(runs, **LADDER).rungs["linear"].rms
    runs[1] = runs[1] @ mixing(3, seed) + 2
    mixed = isorep.compare_many(runs, **LADDER).rungs["linear"].rms
    np.testing.assert_allclose(mixed[1], plain[1], atol=1e-8)
    np.testing.assert_allclose(mixed[[0, 2]][:, [0, 2]], plain[[0, 2]][:, [0, 2]], atol=1e-12)


def test_without_noise_every_rung_from_its_group_on_is_exact():
    shared = sources(400, 4)
    result = isorep.compare_many([shared, 2 * shared @ rotation(4, 0) + 1, 0.5 * shared @ rotation(4, 1)])
    for name in ("rigid", "linear"):
        assert result.rungs[name].max < 1e-7
    assert result.rungs["ica"].in_sample.max() < 1e-5
    assert result.rungs["ica"].max < 0.4, "its two sides are unmixed on rows of their own, and 400 determine so much"
    assert result.rungs["signed_permutation"].max > 0.1
    assert result.consensus.share == pytest.approx(1)
    assert result.verdict.rung == "rigid"


def test_the_same_run_several_times_has_no_error_and_no_outlier():
    run = sources(200, 3)
    result = isorep.compare_many([run] * 4)
    assert result.rungs["identity"].max < 1e-7
    assert result.verdict.rung == "identity"
    assert result.outliers == ()
    np.testing.assert_array_equal(np.diag(result.rungs["rigid"].rms), 0)


def test_in_sample_mean_square_is_monotone_along_the_ladder(everything):
    ladder = [everything.rungs[name].rms_in_sample for name in MOMENT_RUNGS]
    for larger, smaller in pairwise(ladder):
        assert (smaller <= larger + 1e-12).all()


def test_the_order_of_the_runs_does_not_matter():
    runs = seeds(5)
    plain = isorep.compare_many(runs)
    order = [3, 0, 4, 2, 1]
    other = isorep.compare_many([runs[i] for i in order])
    for name, matrix in plain.rungs.items():
        np.testing.assert_allclose(other.rungs[name].rms, matrix.rms[np.ix_(order, order)], atol=1e-9)
    np.testing.assert_allclose(other.consensus.shares, plain.consensus.shares[order], atol=1e-6)
    np.testing.assert_allclose(other.consensus.spectrum, plain.consensus.spectrum, atol=1e-6)
    assert sorted(f.score for f in other.components.families) == pytest.approx(
        sorted(f.score for f in plain.components.families)
    )


def test_dtype_and_block_size_do_not_matter(monkeypatch):
    runs = seeds(3)
    exact = isorep.compare_many(runs, **LADDER)
    single = isorep.compare_many([run.astype(np.float32) for run in runs], **LADDER)
    monkeypatch.setattr("isorep.moments.block_rows", lambda *widths: 37)
    blocked = isorep.compare_many(runs, **LADDER)
    for name, matrix in exact.rungs.items():
        np.testing.assert_allclose(blocked.rungs[name].rms, matrix.rms, atol=1e-12)
        np.testing.assert_allclose(single.rungs[name].rms, matrix.rms, atol=1e-6)


def test_joint_moments_of_folds_equal_those_of_pairs_and_add_up(rng):
    runs = [rng.normal(size=(120, d)) + 1e5 for d in (2, 3, 4)]
    folds = np.arange(120) % 3
    joint = joint_moments(runs, folds, 3, names=("a", "b", "c"))
    for fold, found in enumerate(joint):
        for i, j in ((0, 1), (2, 0), (1, 2), (1, 1)):
            expected = Moments.from_rows(runs[i][folds == fold], runs[j][folds == fold])
            pair = found.pair(i, j)
            for part in ("source_mean", "target_mean", "xx", "xy", "yy"):
                np.testing.assert_allclose(getattr(pair, part), getattr(expected, part), rtol=1e-9, atol=1e-9)
    whole = Moments.from_rows(runs[0], runs[2])
    np.testing.assert_allclose(merged(joint).pair(0, 2).xy, whole.xy, atol=1e-8)
    rest = Moments.from_rows(runs[0][folds != 1], runs[2][folds != 1])
    np.testing.assert_allclose(leave_one_out(joint)[1].pair(0, 2).xy, rest.xy, atol=1e-8)
    assert isinstance(joint[0].blank(), JointMoments)


def test_moments_that_do_not_fit_into_memory_are_refused():
    with pytest.raises(isorep.InputError, match="3 runs with 3000000 columns together need about"):
        require_joint_memory([1_000_000] * 3, 5)


def test_the_null_of_unrelated_runs_is_where_they_are(rng):
    result = isorep.compare_many([rng.normal(size=(600, 4)) for _ in range(4)], n_null=20)
    for name in ("rigid", "linear", "signed_permutation"):
        matrix = result.rungs[name]
        apart = ~np.eye(4, dtype=bool)
        np.testing.assert_allclose(matrix.error[apart], matrix.null[apart], rtol=0.03)
        assert matrix.p_value[apart].min() > matrix.smallest_p
        assert np.isnan(np.diag(matrix.null)).all()
    assert result.verdict.rung is None
    assert "No rung explains any pair of the" in result.verdict.sentence
    assert all(rung is None for row in result.verdicts for rung in row)


def test_groups_keep_leakage_out_and_the_null_in_place():
    """Unrelated runs that are constant within groups agree if rows are held out, and do not if groups are."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    runs = [rng.normal(size=(40, 20))[groups] + 0.01 * rng.normal(size=(400, 20)) for _ in range(3)]
    leaking = isorep.compare_many(runs, rungs=("linear",), n_null=0)
    honest = isorep.compare_many(runs, rungs=("linear",), groups=groups, n_null=2)
    assert leaking.rungs["linear"].max < 0.9
    assert honest.rungs["linear"].mean > 1
    assert np.nanmean(honest.rungs["linear"].null) == pytest.approx(honest.rungs["linear"].mean, rel=0.2)
    assert honest.settings["groups"] == 40


def test_folds_are_those_of_compare_and_standard_errors_those_of_their_errors():
    runs = seeds(3)
    result = isorep.compare_many(runs, **LADDER)
    folds = assign_folds(500, 5, None, np.random.default_rng(np.random.SeedSequence(0).spawn(4)[0]))
    aligner = isorep.Rigid()
    norms = np.empty(500)
    for fold in range(5):
        test = folds == fold
        norms[test] = aligner.fit(runs[0][~test], runs[2][~test]).residuals(runs[0][test], runs[2][test])
    radii = np.linalg.norm(runs[2] - runs[2].mean(axis=0), axis=1)
    left_out = np.array([norms[folds != fold].sum() / radii[folds != fold].sum() for fold in range(5)])
    rigid = result.rungs["rigid"]
    assert rigid.error[0, 2] == pytest.approx(norms.sum() / radii.sum())
    np.testing.assert_allclose(rigid.left_out[:, 0, 2], left_out)
    se = np.sqrt(4 / 5 * ((left_out - left_out.mean()) ** 2).sum())
    assert rigid.se[0, 2] == pytest.approx(se)
    assert rigid.upper[0, 2] == pytest.approx(rigid.error[0, 2] + stats.t.ppf(0.975, 4) * se)


def test_few_rows_are_warned_of():
    with pytest.warns(UserWarning, match="only 30 rows for 20 dimensions"):
        result = isorep.compare_many(seeds(3, 30, 20), **LADDER)
    assert result.caveats[0].startswith("only 30 rows")
