"""What rooms and sprites share: grids, draws, correlations, Jacobians, and pixels that depend on factors alone."""

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import isorep
from isorep.datasets import FactorImages, RenderedImages, Rooms, Sprites, Squares
from isorep.datasets.scenes import quantised

SCENES = [
    Rooms(size=24),
    Rooms(size=17, antialias=1, shadow="hard", colour="ramp"),
    Sprites(size=24, count=2, colour="arc"),
    Squares(size=21),
]


@pytest.mark.parametrize("scene", SCENES)
def test_pixels_depend_on_factors_alone(scene, monkeypatch):
    """Not on the run, the batch, its order, the size of blocks, or the number of threads; bit for bit."""
    data = scene.draw(150, seed=1)
    whole = data.render(data.factor_values)
    order = np.random.default_rng(0).permutation(150)
    np.testing.assert_array_equal(data.render(data.factor_values[order]), whole[order])
    for row in (0, 77, 149):
        np.testing.assert_array_equal(data.render(data.factor_values[row])[0], whole[row])
    with threadpool_limits(2):
        np.testing.assert_array_equal(data.render(data.factor_values), whole)
    monkeypatch.setattr("isorep.datasets.scenes._CHANNEL_CELLS", 1)
    np.testing.assert_array_equal(data.render(data.factor_values), whole)
    again = replace(scene)
    np.testing.assert_array_equal(again.draw(150, seed=1).images(), data.images())
    assert not np.array_equal(scene.draw(150, seed=2).factor_values, data.factor_values)


@pytest.mark.parametrize("scene", SCENES)
def test_images_are_bytes_of_what_is_rendered(scene):
    data = scene.draw(40, seed=3)
    assert isinstance(data, FactorImages)
    assert isinstance(data, RenderedImages)
    rendered = data.render(data.factor_values[[5, 2]])
    assert rendered.dtype == np.float32
    assert rendered.min() >= 0
    assert rendered.max() <= 1
    images = data.images([5, 2])
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images, quantised(rendered.copy()))
    assert data.floats([0]).shape == (1, scene.channels, scene.size, scene.size)
    precise = scene.render(data.factor_values[:8], dtype=np.float64)
    assert np.mean(np.abs(precise - scene.render(data.factor_values[:8])) > 1e-4) < 2e-3  # but for rays at an edge


def test_the_grid_is_in_order_and_is_that_of_the_originals():
    rooms = Rooms().grid()
    assert len(rooms) == 480_000
    assert rooms.factor_sizes == (10, 10, 10, 8, 4, 15)
    assert rooms.factors[:16, 5].tolist() == [*range(15), 0]
    assert rooms.factors[15, 4] == 1
    np.testing.assert_allclose(rooms.factor_values[[0, 14], 5], [-30, 30])
    np.testing.assert_allclose(np.unique(rooms.factor_values[:, 0]), np.linspace(0, 0.9, 10))
    assert len(Sprites().grid()) == 737_280
    small = Sprites(size=16).grid((3, 2, 4, 2, 1))
    np.testing.assert_array_equal(np.unravel_index(np.arange(48), (3, 2, 4, 2, 1)), small.factors.T)
    assert np.unique(small.factor_values[:, 2]).tolist() == [0, 90, 180, 270]
    part = small.subset(small.factors[:, 0] == 1)
    np.testing.assert_array_equal(part.images(), small.images(small.factors[:, 0] == 1))
    assert isinstance(part, RenderedImages)
    with pytest.raises(isorep.InputError, match="too many to list"):
        Sprites(count=2).grid()
    for wrong in ((1, 2), (4, 1, 1, 1, 1), (0, 1, 1, 1, 1)):
        with pytest.raises(isorep.InputError, match=r"sizes|shape has 3"):
            Sprites().grid(wrong)


def test_draws_fill_their_ranges_and_stay_on_the_grid_if_asked():
    free = Rooms().draw(4000, seed=0)
    assert free.factor_sizes == (0, 0, 0, 0, 4, 0)
    np.testing.assert_array_equal(free.factors, free.factor_values)
    assert np.bincount(free.factors[:, 4].astype(int)).min() > 900
    assert free.factor_values[:, 3].min() > 0.75
    assert free.factor_values[:, 3].max() < 1.25
    assert len(np.unique(free.factor_values[:, 5])) == 4000
    stepped = Rooms().draw(4000, seed=0, continuous=False)
    assert stepped.factor_sizes == (10, 10, 10, 8, 4, 15)
    assert stepped.factors.dtype.kind == "i"
    assert [len(np.unique(column)) for column in stepped.factors.T] == [10, 10, 10, 8, 4, 15]
    assert [len(np.unique(column)) for column in stepped.factor_values.T] == [10, 10, 10, 8, 4, 15]


def test_factors_have_the_correlation_that_was_asked_for():
    scene = Sprites(count=2)
    data = scene.draw(20_000, seed=0, correlation={("1.x", "2.x"): 0.8, ("1.y", "1.scale"): -0.5})
    found = np.corrcoef(data.factor_values.T)
    index = scene.factor_names.index
    assert found[index("1.x"), index("2.x")] == pytest.approx(0.8, abs=0.01)
    assert found[index("1.y"), index("1.scale")] == pytest.approx(-0.5, abs=0.015)
    assert abs(found[index("1.x"), index("1.y")]) < 0.025
    column = np.sort(data.factor_values[:, index("2.x")])
    assert np.abs(column - np.linspace(0, 1, 20_000)).max() < 0.015  # still uniform
    matrix = np.eye(6)
    matrix[0, 1] = matrix[1, 0] = 0.7
    rooms = Rooms().draw(20_000, seed=0, correlation=matrix, continuous=False)
    assert np.corrcoef(rooms.factors[:, 0], rooms.factors[:, 1])[0, 1] == pytest.approx(0.7, abs=0.02)
    one = Rooms().draw(50, correlation={("floor_hue", "wall_hue"): 1.0}).factor_values
    np.testing.assert_allclose(one[:, 0], one[:, 1], atol=1e-6)
    np.testing.assert_array_equal(
        scene.draw(10, seed=4, correlation={("1.x", "2.x"): 0.3}).factor_values,
        scene.draw(10, seed=4, correlation={("1.x", "2.x"): 0.3}).factor_values,
    )


@pytest.mark.parametrize(
    ("correlation", "said"),
    [
        ({("floor_hue", "colour"): 0.5}, "not two factors"),
        ({("floor_hue", "floor_hue"): 0.5}, "not two factors"),
        ({("floor_hue", "wall_hue"): 1.5}, "symmetric matrix"),
        ({("floor_hue", "wall_hue"): np.nan}, "symmetric matrix"),
        (np.eye(5), "symmetric matrix"),
        (
            {("floor_hue", "wall_hue"): 0.9, ("wall_hue", "object_hue"): 0.9, ("floor_hue", "object_hue"): -0.9},
            "semidef",
        ),
    ],
)
def test_impossible_correlations_are_refused(correlation, said):
    with pytest.raises(isorep.InputError, match=said):
        Rooms().draw(5, correlation=correlation)


@pytest.mark.parametrize("scene", [Rooms(size=16, antialias=4), Sprites(size=16, count=2)])
def test_the_jacobian_is_the_difference_of_renders(scene):
    values = scene.draw(6, seed=5).factor_values
    jacobian = scene.factor_jacobian(values, step=0.02)
    pixels = scene.size**2 * scene.channels
    assert jacobian.shape == (6, pixels, len(scene.continuous))
    for column, name in enumerate(scene.continuous):
        factor = scene.factors[scene.factor_names.index(name)]
        step = 0.02 * (factor.high - factor.low)
        above, below = values.copy(), values.copy()
        above[:, scene.factor_names.index(name)] += step
        below[:, scene.factor_names.index(name)] -= step
        slope = (scene.render(above).astype(float) - scene.render(below)).reshape(6, pixels) / (2 * step)
        off = np.abs(jacobian[:, :, column] - slope) * step
        assert np.quantile(off, 0.99) < 1e-6  # single precision moves a few rays across an edge
        assert np.abs(jacobian[:, :, column]).max() > 0
    with pytest.raises(isorep.InputError, match="step is 0"):
        scene.factor_jacobian(values, step=0)


def test_a_factor_without_effect_has_no_derivative():
    rooms = Rooms(size=16, shadow="none")
    sphere = [[0.1, 0.4, 0.7, 1.0, 2, 10.0]]
    jacobian = rooms.factor_jacobian(sphere)
    names = rooms.continuous
    assert names == ("floor_hue", "wall_hue", "object_hue", "scale", "orientation")
    hue = {name: np.abs(jacobian[0, :, names.index(name)]).reshape(16, 16, 3).max(axis=2) > 0 for name in names[:3]}
    assert not (hue["floor_hue"][:2]).any()  # the top rows are wall
    assert not (hue["wall_hue"][-2:]).any()  # the bottom rows are floor
    assert hue["object_hue"].any()
    assert not hue["object_hue"][:, :2].any()
    behind = Sprites(size=16, count=2).factor_jacobian([[0, 0.5, 0, 0.5, 0.5, 0, 1.0, 0, 0.5, 0.5]])
    assert not behind[..., :4].any()  # the first sprite is hidden by the second
    assert behind[..., 4:].any()


def test_values_that_cannot_be_rendered_are_refused():
    rooms = Rooms(size=8)
    good = [0.1, 0.4, 0.7, 1.0, 2, 10.0]
    for place, value, said in (
        (3, 3.0, "scale lies between 0.75 and 1.25"),
        (4, 0.5, "shape is a choice"),
        (4, 4, "shape lies between 0 and 3"),
        (0, np.nan, "must be finite"),
    ):
        wrong = list(good)
        wrong[place] = value
        with pytest.raises(isorep.InputError, match=said):
            rooms.render([wrong])
    with pytest.raises(isorep.InputError, match="one column for each of floor_hue"):
        rooms.render([good[:5]])
    with pytest.raises(isorep.InputError, match="hue lies between"):
        Rooms(size=8, colour="ramp").render([[1.5, *good[1:]]])
    with pytest.raises(isorep.InputError, match="n is 0"):
        rooms.draw(0)
    with pytest.raises(isorep.InputError, match="continuous=False"):
        rooms.draw(2, sizes=(2, 2, 2, 2, 2, 2))
    for wrong in ({"size": 2}, {"antialias": 0}, {"shadow": "long"}, {"colour": "white"}):
        with pytest.raises(isorep.InputError, match=r"must be a whole number|choose from"):
            Rooms(**wrong)
    for wrong in ({"size": 2}, {"count": 0}, {"composition": "under"}, {"colour": "red"}):
        with pytest.raises(isorep.InputError, match=r"must be a|choose from"):
            Sprites(**wrong)
    for wrong in ({"size": 2}, {"softness": 0.0}, {"softness": float("nan")}):
        with pytest.raises(isorep.InputError, match="must be a"):
            Squares(**wrong)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Rooms(size=33.0), "4 to 512"),
        (lambda: Sprites(count=1.5), "1 to 16"),
        (lambda: Rooms().draw(2.5), "must be a whole number"),
        (lambda: Rooms().draw(2, seed=-1), "seed is -1"),
        (lambda: Rooms().grid([1.5] * 6), "positive integers"),
        (lambda: Rooms().render("abc"), "rows of numbers"),
        (lambda: Rooms().render([0, 0, 0, 1, 0, 0], dtype=np.uint8), "float32 or float64, not as uint8"),
        (lambda: Rooms().draw(9, correlation="x"), "rows of numbers"),
        (lambda: Rooms().draw(9, correlation=[[1, 0], [0]]), "rows of numbers"),
        (lambda: Rooms().draw(9, correlation={("scale",): 0.5}), "a correlation is given as"),
        (lambda: Rooms().draw(9, correlation={("scale", "shape"): "x"}), "a correlation is given as"),
        (lambda: Rooms().draw(9).sample(2.5), "must be a whole number"),
        (lambda: Rooms().draw(9).sample(2, seed=-1), "seed is -1"),
        (lambda: Rooms().draw(9).split(float("nan")), "share between 0 and 1"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(call, words):
    with pytest.raises(isorep.InputError, match=words):
        call()


@pytest.mark.parametrize("scene", SCENES)
def test_a_sheet_has_a_row_for_each_factor_which_alone_varies_in_it(scene):
    from matplotlib.figure import Figure

    values = scene.draw(1, seed=3).factor_values[0]
    axes = scene.plot_factors(values, Figure().subplots(), columns=6)
    assert [each.get_text() for each in axes.get_yticklabels()] == list(scene.factor_names)
    sheet = np.asarray(axes.images[0].get_array())
    assert sheet.shape[:2] == (len(scene.factors) * scene.size, 6 * scene.size)
    place, column = len(scene.factors) - 1, 4
    moved = values.copy()
    moved[place] = scene.factors[place].grid(6)[column]
    cell = sheet[place * scene.size :, column * scene.size : (column + 1) * scene.size]
    np.testing.assert_array_equal(cell.reshape(scene.size, scene.size, -1), scene.render(moved)[0])
    with pytest.raises(isorep.InputError, match="one row"):
        scene.plot_factors(np.stack([values, values]))
    with pytest.raises(isorep.InputError, match="columns"):
        scene.plot_factors(values, columns=1)
