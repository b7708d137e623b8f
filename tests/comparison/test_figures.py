"""The figures' data are small, and say what the rows say."""

import numpy as np
import pytest

import isorep
from isorep.resampling import assign_folds

from ..data import noisy_pair, signed_permutation, sources


def test_per_dimension_reproducibility_equals_explicit_held_out_r2():
    x, y = noisy_pair(200, 4, 0.4)
    x = x + 5
    figures = isorep.compare(x, y, n_null=0, n_boot=0).figures
    folds = assign_folds(200, 5, None, np.random.default_rng(np.random.SeedSequence(0).spawn(4)[0]))
    for name, aligner in (("rigid", isorep.Rigid()), ("linear", isorep.Linear())):
        errors = np.zeros(4)
        for fold in range(5):
            test = folds == fold
            errors += ((y[test] - aligner.fit(x[~test], y[~test]).transform(x[test])) ** 2).sum(axis=0)
        expected = 1 - errors / ((y - y.mean(0)) ** 2).sum(axis=0)
        np.testing.assert_allclose(figures.dimensions.r2[name], expected, atol=1e-9)
    dimensions = figures.dimensions
    assert (np.diff(dimensions.r2["linear"][dimensions.order]) <= 0).all()


def test_matched_dimensions_stand_on_the_diagonal():
    x = sources(500, 6)
    matrix = signed_permutation(6, 0)
    matching = isorep.compare(x, x @ matrix, n_null=0, n_boot=0, rungs=("rigid", "linear")).figures.matching
    diagonal = np.diag(matching.correlations)
    np.testing.assert_allclose(np.abs(diagonal), 1, atol=1e-3)
    for source, target, value in zip(matching.source_dims, matching.target_dims, diagonal, strict=True):
        assert matrix[source, target] == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("widths", [(3, 60), (60, 3), (5, 5)])
def test_sizes_are_limited_and_all_rows_are_counted(rng, widths):
    x, y = rng.normal(size=(600, widths[0])), rng.normal(size=(600, widths[1]))
    result = isorep.compare(x, y, n_null=2, n_boot=0, rungs=("identity", "signed_permutation", "rigid", "linear"))
    figures = result.figures
    assert len(figures.scatter.rows) == len(figures.scatter.after) == 400
    assert figures.matching.shown <= 48
    assert len(figures.dimensions.order) == widths[1]
    for name, counts in figures.residuals.counts.items():
        assert 300 < sum(counts) == 600 - figures.residuals.beyond.get(name, 0)
    assert len(result.source.spectrum) == widths[0]
    assert result.source.spectrum[0] / result.source.spectrum[-1] == pytest.approx(result.source.condition)


def test_one_dimension_makes_a_plane_too(rng):
    x = rng.normal(size=(60, 1))
    result = isorep.compare(x, 2 * x, n_null=2, n_boot=10)
    assert np.shape(result.figures.scatter.after) == (60, 2)
    assert result.figures.scatter.explained.tolist() == [1.0, 0.0]


def test_alignment_brings_the_scatter_together():
    x, y = noisy_pair(400, 3, 0.05)
    scatter = isorep.compare(x, y, n_null=3, n_boot=50).figures.scatter
    before, after = (np.abs(each - scatter.target).mean() for each in (scatter.before, scatter.after))
    assert after < 0.2 * before
    assert scatter.rung == "rigid"


def test_rows_are_named_by_id():
    x, y = noisy_pair(50, 3, 0.1)
    named = isorep.Representation(x, [f"r{i}" for i in range(50)])
    assert isorep.compare(named, y, n_null=0, n_boot=0).figures.scatter.rows[:2] == ("r0", "r1")
