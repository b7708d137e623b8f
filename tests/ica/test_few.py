"""A few components among many Gaussian dimensions, found without a search of all directions."""

import numpy as np
import pytest

from isorep.ica.contrasts import contrast_named
from isorep.ica.few import few_components
from isorep.ica.unmixing import as_source, whiten

from ..data import rotation

WIDTH = 140


def found_in(rows):
    source = as_source(rows)
    whitening = whiten(source)
    contrast = contrast_named("logcosh")
    return whitening, few_components(source, whitening, contrast, 0, tol=1e-3, max_iter=100)


def rows_with(strong, n=4000):
    """Gaussian columns but for the first ones, which have heavy tails."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, WIDTH))
    rows[:, :strong] = rng.standard_t(3, size=(n, strong))
    return rows


@pytest.mark.parametrize("strong", [0, 5])
def test_components_above_noise_are_found_and_no_others(strong):
    rows = rows_with(strong)
    whitening, found = found_in((rows * np.geomspace(1, 0.1, WIDTH)) @ rotation(WIDTH, 1))
    assert found.count == strong
    assert found.converged
    np.testing.assert_allclose(found.matrix @ found.matrix.T, np.eye(WIDTH), atol=1e-9)
    unmixed = rotation(WIDTH, 1) @ (found.matrix[:strong] @ whitening.components_).T
    shares = np.abs(unmixed * np.geomspace(1, 0.1, WIDTH)[:, None] * rows.std(axis=0)[:, None])[:strong]
    np.testing.assert_allclose(shares.max(axis=0, initial=0), np.ones(strong), atol=0.1)
    assert len(set(shares.argmax(axis=0) if strong else ())) == strong


@pytest.mark.parametrize("rows_per_dimension", [2.5, 4, 8])
def test_noise_has_no_components_however_few_its_rows_are(rows_per_dimension):
    for seed in range(6):
        rows = np.random.default_rng(seed).normal(size=(int(rows_per_dimension * WIDTH), WIDTH))
        assert found_in(rows)[1].count == 0


def test_many_components_call_for_a_search():
    assert found_in(rows_with(120))[1] is None


def test_rows_fewer_than_two_per_dimension_determine_none():
    found = found_in(rows_with(5, n=250))[1]
    assert found.count == 0
    np.testing.assert_array_equal(found.matrix, np.eye(WIDTH))
