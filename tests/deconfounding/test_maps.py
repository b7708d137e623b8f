"""Maps of rows with and without batch-driven components, what ICA needs, and the measures of every space."""

import numpy as np
import pytest

import isorep
from isorep.deconfounding.maps import AFTER, BEFORE, Needs

from .screens import screen


@pytest.fixture(scope="module")
def planted():
    x, treated, plate = screen(n_batches=8, wells=80, dimensions=16, effect=1.0)
    return isorep.deconfound(x, treated, plate, classifiers="logistic", n_restarts=2), x, plate


def test_without_batch_driven_components_maps_show_less_of_the_batch(planted):
    result, x, plate = planted
    before, after = result.maps.planes[:2]
    assert (before.method, before.space, after.space) == ("PCA", BEFORE, AFTER)
    rows = np.array(result.maps.rows)
    assert [str(each) for each in plate[rows]] == list(result.maps.batch)

    def between(points):
        centred = np.array(points) - np.mean(points, axis=0)
        means = [centred[plate[rows] == code].mean(axis=0) for code in plate[rows]]
        return float((np.array(means) ** 2).sum() / (centred**2).sum())

    assert between(after.points) < 0.5 * between(before.points)
    assert 0 < after.shown <= 1
    centred = x[rows] - x[rows].mean(axis=0)
    assert np.isclose(before.shown, float((np.linalg.svd(centred)[1][:2] ** 2).sum() / (centred**2).sum()))


def test_maps_of_one_column_are_flat():
    x, treated, plate = screen(n_batches=6, wells=30, dimensions=16)
    result = isorep.deconfound(x[:, :1], treated, plate, classifiers="logistic", n_restarts=0)
    assert all(y == 0 for plane in result.maps.planes for _, y in plane.points if plane.method == "PCA")


def test_every_space_is_measured_with_its_chance(planted):
    result, _, _ = planted
    text = result.measures_table(width=200)
    spaces = result.spaces()
    assert spaces[-1][0] == "PCA+ICA, filtered"
    for title, mixing in spaces:
        assert title in text
        assert f"{mixing.replicates.value:.2f} ({mixing.replicates.chance:.2f})" in text
    ica, turned = (result.conditions[name].mixing for name in ("pca_ica", "pca_rand"))
    assert ica.neighbours == turned.neighbours  # rotations keep distances
    assert ica.batch_forest_auroc != turned.batch_forest_auroc  # and not the axes that trees split on
    assert {"replicates", "neighbours", "connectivity", "batch_forest_auroc"} <= set(result.to_frame().columns)


def test_sparsity_is_shown_with_shares_of_features_only(planted):
    result, _, _ = planted
    assert "Hoyer" not in result.table(width=200)
    assert not any("Hoyer" in caveat for caveat in result.caveats)


@pytest.mark.parametrize(
    ("needs", "met"),
    [
        (Needs(16, 16, 8, 75.0), True),
        (Needs(16, 16, 7, 75.0), False),
        (Needs(16, 7, 16, 75.0), False),
        (Needs(16, 8, None, 75.0), True),
    ],
)
def test_what_ica_needs_is_met_by_half_of_the_axes(needs, met):
    assert needs.met is met
    assert ("at least half of the axes" in str(needs)) is met
    assert ("reproducible" in str(needs)) is (needs.reproducible is not None)


def test_gaussian_rows_do_not_determine_axes():
    rng = np.random.default_rng(0)
    plate, treated = np.repeat(np.arange(8), 100), np.tile([False, True], 400)
    x = rng.normal(size=(800, 6)) + 0.5 * treated[:, None]
    result = isorep.deconfound(x, treated, plate, classifiers="logistic", n_components=6, n_restarts=2)
    assert not result.needs.met
    assert "These rows determine fewer than half of the axes" in str(result)
