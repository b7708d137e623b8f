"""Maps of rows with and without batch-driven components, what ICA needs, and the measures of every space."""

import numpy as np
import pytest

import isorep
from isorep import InputError
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
        (Needs(16, 7, None, 75.0), False),
    ],
)
def test_what_ica_needs_is_met_by_half_of_the_axes(needs, met):
    assert needs.met is met
    tested = needs.reproducible is not None
    assert ("at least half of the axes" in str(needs)) is (met and tested)
    assert ("fewer than half of the axes" in str(needs)) is not met
    assert ("Without refits it is not known" in str(needs)) is (met and not tested)
    assert ("reproducible" in str(needs)) is tested


def test_gaussian_rows_do_not_determine_axes():
    rng = np.random.default_rng(0)
    plate, treated = np.repeat(np.arange(8), 100), np.tile([False, True], 400)
    x = rng.normal(size=(800, 6)) + 0.5 * treated[:, None]
    result = isorep.deconfound(x, treated, plate, classifiers="logistic", n_components=6, n_restarts=2)
    assert not result.needs.met
    assert "These rows determine fewer than half of the axes" in str(result)


def test_one_component_is_and_two_are():
    assert "1 of 4 components differs from Gaussian, 1 is reproducible" in str(Needs(4, 1, 1, 9.0))
    assert "2 of 4 components differ from Gaussian, 2 are reproducible" in str(Needs(4, 2, 2, 9.0))


def test_maps_are_drawn_before_and_after_by_batch_or_label(planted):
    from matplotlib.figure import Figure

    result, _, _ = planted
    drawn = {}
    for filtered in (False, True):
        for colour in ("batch", "label"):
            axes = result.plot_maps(ax=Figure().subplots(), filtered=filtered, colour=colour)
            points = np.concatenate([each.get_offsets() for each in axes.collections])
            drawn[filtered, colour] = np.sort(points, axis=0)
            named = axes.get_legend() is not None
            assert named is (colour == "label")  # two labels have names, eight plates have a scale
            assert len(axes.collections) == (2 if colour == "label" else 8)
    assert np.array_equal(drawn[False, "batch"], drawn[False, "label"])
    assert not np.allclose(drawn[False, "batch"], drawn[True, "batch"])
    with pytest.raises(InputError, match="colour is 'plate': choose from batch, label"):
        result.plot_maps(ax=Figure().subplots(), colour="plate")
    with pytest.raises(InputError, match="there is no map of the embedding by 'tsne'; there are PCA"):
        result.plot_maps(ax=Figure().subplots(), method="tsne")


def test_the_curve_of_dimensions_is_drawn_where_there_is_one(planted):
    from matplotlib.figure import Figure

    result, x, plate = planted
    axes = result.plot_dimensions(ax=Figure().subplots())
    assert axes.lines[0].get_xdata().tolist() == [point.dimensions for point in result.dimensions.curve]
    assert axes.lines[1].get_xdata().tolist() == sorted(set(result.dimensions.by_fold))
    given = isorep.deconfound(
        x, np.arange(len(x)) % 2 == 0, plate, n_components=4, classifiers="logistic", n_restarts=0
    )
    with pytest.raises(InputError, match="not chosen by a score"):
        given.plot_dimensions(ax=Figure().subplots())


def test_measures_of_labels_and_batches_may_be_left_out():
    x, treated, plate = screen(n_batches=6, wells=40, dimensions=16)
    asked = {"classifiers": "logistic", "n_restarts": 0, "conditions": ("base", "pca_ica")}
    result = isorep.deconfound(x, treated, plate, mixing=False, **asked)
    assert result.spaces() == []
    assert result.measures_table() == ""
    assert not any("mixing was not measured" in caveat for caveat in result.caveats)
