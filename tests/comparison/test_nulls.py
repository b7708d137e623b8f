"""P-values are uniform where there is nothing to find, and related pairs are found whatever the shuffles."""

import numpy as np
import pytest
from scipy import stats

import isorep
from isorep import Moments
from isorep.comparison.by_column import ByColumn, scenes_of
from isorep.comparison.fits import FewRows, TrainingSet
from isorep.comparison.null import Refitted, Scoring, shuffled_errors
from isorep.comparison.residuals import Centre
from isorep.resampling import Shuffles, assign_folds
from isorep.row_span import spans_of_few

from ..data import rotation

FAST = {"rungs": ("rigid", "linear"), "worst_case": False, "diameter": "bound"}


def walks(groups, rng, d=3):
    """A random walk inside every group."""
    steps = rng.normal(size=(len(groups), d))
    return np.concatenate([np.cumsum(steps[groups == group], axis=0) for group in range(groups.max() + 1)])


def test_p_values_of_independent_walks_in_groups_of_unequal_size_are_uniform():
    replicates, found, explained = 120, {"rigid": [], "linear": []}, 0
    for seed in range(replicates):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(12), rng.integers(3, 40, 12))
        result = isorep.compare(walks(groups, rng), walks(groups, rng), groups=groups, n_null=19, n_boot=0, **FAST)
        explained += result.verdict.rung is not None
        for name, each in found.items():
            each.append(result.rungs[name].null.p_value)
    for name, each in found.items():
        for level in (0.1, 0.5):
            low, high = stats.binom.interval(0.999, replicates, level)
            assert low <= np.sum(np.array(each) <= level + 1e-9) <= high, (name, level)
    assert explained <= stats.binom.ppf(0.999, replicates, 0.1)


def ten_runs():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 4)
    shared = rng.normal(size=(60, 3))[groups] + 0.3 * rng.normal(size=(240, 3))
    return [shared @ rotation(3, run) + 0.3 * rng.normal(size=shared.shape) for run in range(10)], groups


def test_all_related_pairs_of_ten_runs_are_explained():
    runs, groups = ten_runs()
    result = isorep.compare_many(runs, rungs=("rigid", "linear"), groups=groups)
    apart = ~np.eye(10, dtype=bool)
    linear = result.rungs["linear"]
    assert all(result.verdicts[i][j] is not None for i in range(10) for j in range(10) if i != j)
    assert (linear.null_low[apart] > linear.upper[apart]).all(), "no pair in its true order is among the shuffled"
    assert (linear.null[apart] > 0.9).all()
    assert result.verdict.rung == "rigid"


def test_every_pair_draws_its_own_shuffles():
    runs, groups = ten_runs()
    same = isorep.compare_many([runs[0], runs[1]] * 3, rungs=("linear",), groups=groups, n_null=5)
    nulls = [same.rungs["linear"].null[i, j] for i, j in ((0, 1), (2, 3), (4, 5), (0, 3), (2, 5))]
    assert len(set(nulls)) == 5, "the same two runs, at five places"
    again = isorep.compare_many([runs[0], runs[1]] * 3, rungs=("linear",), groups=groups, n_null=5)
    np.testing.assert_array_equal(again.rungs["linear"].null, same.rungs["linear"].null)


def test_p_is_never_below_what_draws_and_distinct_shuffles_allow():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    alike = x + 0.1 * rng.normal(size=x.shape)
    null = isorep.compare(x, alike, n_null=9, **FAST).rungs["linear"].null
    assert null.p_value == null.smallest_p == pytest.approx(0.1)
    assert null.p_text == "<= 0.1"
    few = isorep.compare(x, alike, n_null=200, groups=np.arange(200) % 5, **FAST)
    assert few.rungs["linear"].null.p_value == few.rungs["linear"].null.smallest_p == pytest.approx(1 / 120)
    assert any("there are only 120 different ways to shuffle" in caveat for caveat in few.caveats)
    many = isorep.compare_many([x, alike], rungs=("rigid", "linear"), groups=np.arange(200) % 5)
    assert np.nanmin(many.rungs["linear"].p_value) == pytest.approx(1 / 120)


def test_what_classes_explain_is_chance_within_them():
    """Two sides that share their class and nothing else agree, and do not inside classes."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 6, 400)
    x, y = (rng.normal(size=(6, 4))[classes] + 0.3 * rng.normal(size=(400, 4)) for _ in range(2))
    alone = isorep.compare(x, y, n_null=40, **FAST)
    assert alone.verdict.rung == "linear"
    inside = isorep.compare(x, y, n_null=40, within=classes, **FAST)
    assert inside.verdict.rung is None
    assert "is no better than chance" in inside.verdict.sentence
    assert inside.rungs["linear"].null.p_value > 0.05
    assert inside.rungs["linear"].held_out.mean == pytest.approx(alone.rungs["linear"].held_out.mean)
    assert "chance is within 6 classes" in " ".join(inside.caveats)
    assert "chance is within" not in " ".join(alone.caveats)
    many = isorep.compare_many([x, y], rungs=("rigid", "linear"), within=classes)
    assert many.agreed_rung(0, 1) is None
    assert isorep.compare_many([x, y], rungs=("rigid", "linear")).agreed_rung(0, 1) == "linear"


ALIGNERS = {
    "signed_permutation": isorep.SignedPermutation,
    "rigid": isorep.Rigid,
    "linear": isorep.Linear,
}


@pytest.mark.parametrize("kind", ["few rows", "many rows", "groups", "repeated rows", "narrower target"])
def test_every_draw_is_a_plain_refit_on_shuffled_rows(kind, rng):
    n, d_y = 2800 if kind == "many rows" else 120, 2 if kind == "narrower target" else 3
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, d_y)) + 4.0
    labels = np.repeat(np.arange(30), 4) if kind == "groups" else None
    scored = rng.random(n) < 0.6 if kind == "repeated rows" else None
    fold_of = assign_folds(n, 5, labels, rng)
    shuffles = Shuffles(n, labels)
    centre = Centre(x.mean(axis=0), y.mean(axis=0), np.dtype(float))
    training = TrainingSet(Moments.from_rows(x, y), (1e-16, 1e-16))
    seed = np.random.SeedSequence(3)
    scoring = Scoring(fold_of, scored, None if labels is None else 30)
    drawn = shuffled_errors([Refitted(x, y, centre, training, list(ALIGNERS))], shuffles, scoring, 3, seed)
    partners = [shuffles.rows] + [
        shuffles.draw(np.random.default_rng(each)) for each in np.random.SeedSequence(3).spawn(3)
    ]
    folds = [0] if kind == "many rows" else range(5)
    for name, aligner in ALIGNERS.items():
        plain = np.zeros((4, 2))
        for which, partner in enumerate(partners):
            sums = np.zeros((2, 2))
            for fold in folds:
                held = np.flatnonzero(fold_of[shuffles.rows] == fold)
                train = np.setdiff1d(np.arange(len(shuffles.rows)), held)
                counted = held if scored is None else held[scored[shuffles.rows][held]]
                if kind == "many rows":
                    counted = counted[np.linspace(0, len(counted) - 1, 500).astype(int)]
                sides = (x[shuffles.rows], y[partner])
                if kind == "narrower target":  # the wider side is shuffled
                    sides = (x[partner], y[shuffles.rows])
                for way, (source, target) in enumerate((sides, sides[::-1])):
                    errors = aligner().fit(source[train], target[train]).residuals(source[counted], target[counted])
                    mean = (x, y)[1 - way].mean(axis=0)
                    sums[way] += errors.sum(), np.linalg.norm(target[counted] - mean, axis=1).sum()
            plain[which] = sums[:, 0] / sums[:, 1]
        np.testing.assert_allclose(drawn.observed[name], plain[0], rtol=1e-9)
        np.testing.assert_allclose(drawn.draws[name].T, plain[1:], rtol=1e-9)


@pytest.mark.parametrize("wide", ["both", "source", "target"])
def test_draws_of_more_columns_than_rows_are_those_in_the_span_of_the_rows(wide, rng):
    n, d_x, d_y = 40, 60 if wide != "target" else 5, 70 if wide != "source" else 6
    x, y = rng.normal(size=(n, d_x)), rng.normal(size=(n, d_y)) + 4.0
    y[:, : min(d_x, d_y)] += x[:, : min(d_x, d_y)]
    shuffles, scoring = Shuffles(n), Scoring(assign_folds(n, 4, None, rng))

    def errors(x, y, names):
        spans = spans_of_few(x, y, ("x", "y"), 30)
        few = FewRows(spans, np.arange(n))
        training = TrainingSet(Moments.from_rows(x, y), (1e-16, 1e-16), few=few)
        inside = Refitted(
            *(span.rows for span in spans), Centre(*(span.rows.mean(axis=0) for span in spans), float), training, names
        )
        return shuffled_errors(scenes_of(ByColumn(*spans), inside), shuffles, scoring, 5, np.random.SeedSequence(3))

    drawn = errors(x, y, ["identity", "signed_permutation", "rigid", "linear"])
    partner = shuffles.draw(np.random.default_rng(np.random.SeedSequence(3).spawn(5)[0]))
    for name, aligner in ALIGNERS.items():
        if name == "rigid":  # no row says where the axes outside the span go
            continue
        total = np.zeros(2)
        turned = name == "linear" and wide == "source"  # the side of fewer coordinates keeps its place
        for fold in range(4):
            held, train = scoring.fold_of == fold, scoring.fold_of != fold
            source, target = (x[partner], y) if turned else (x, y[partner])
            total += (
                aligner().fit(source[train], target[train]).residuals(source[held], target[held]).sum(),
                np.linalg.norm(target[held] - y.mean(axis=0), axis=1).sum(),
            )
        np.testing.assert_allclose(drawn.draws[name][0, 0], total[0] / total[1], rtol=1e-6)
    turned_axes = errors(x @ rotation(d_x, 1), y @ rotation(d_y, 2), ["rigid", "linear"])
    np.testing.assert_allclose(turned_axes.draws["linear"], drawn.draws["linear"], rtol=1e-6)
    assert (drawn.observed["rigid"] < drawn.draws["rigid"].min(axis=1)).all() or wide != "both"


@pytest.mark.filterwarnings("ignore:only .* rows for:UserWarning")
@pytest.mark.parametrize("shape", [(60, 100), (70, 64), (250, 220)])
def test_shuffled_pairings_of_few_float32_rows_are_those_of_float64(shape):
    n, d = shape
    rng = np.random.default_rng(0)
    shared = rng.standard_t(5, size=(n, 20))
    x, y = (shared @ rng.normal(size=(20, d)) + 0.3 * rng.normal(size=(n, d)) for _ in range(2))
    options = {"rungs": ("rigid", "linear"), "n_null": 19, "worst_case": False}
    exact, rounded = (isorep.compare(x.astype(dtype), y.astype(dtype), **options) for dtype in ("f8", "f4"))
    for name, rung in exact.rungs.items():
        found = rounded.rungs[name].null
        np.testing.assert_allclose(found.draws, rung.null.draws, rtol=0.1)  # the input is rounded, too
        assert found.p_value == rung.null.p_value == 0.05
        assert found.observed == pytest.approx(rung.held_out.mean, rel=0.2)
