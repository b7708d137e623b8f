"""Fewer rows than columns: fits in the coordinates of the rows' span give what fits in all columns give."""

from sys import modules

import numpy as np
import pytest

import isorep
from isorep.row_span import RowSpan, spans_of_few

from ..data import rotation

pytestmark = pytest.mark.filterwarnings("ignore:only .* rows for:UserWarning")
RUNGS = ("identity", "signed_permutation", "rigid", "linear")


def pair(n, d_x, d_y, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.laplace(size=(n, 8))
    return [
        shared @ rng.normal(size=(8, d)) + noise * rng.normal(size=(n, d)) + place for d, place in ((d_x, 0), (d_y, 3))
    ]


def shaped(kind):
    x, y = pair(60, 60 if kind == "narrow source" else 100, {"widths": 80, "narrow target": 10}.get(kind, 100))
    if kind == "narrow source":
        x = x[:, :10]
    if kind == "constant":
        x[:, 3], y[:, 5] = 7.1, y[:, 5] * 1e-6
    if kind == "scales":
        x *= np.geomspace(1, 1e4, 100)
    if kind == "large mean":
        x += 1e6
    if kind == "low rank":
        x, y = pair(60, 100, 100, noise=0.0)
    if kind == "permuted":
        y = -x[:, np.random.default_rng(1).permutation(100)]
    if kind in ("float32", "float16"):
        x, y = x.astype(kind), y.astype(kind)
    return x, y


KINDS = (
    *("plain", "widths", "narrow source", "narrow target", "constant", "scales", "large mean", "low rank", "permuted"),
    *("float32", "float16"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_intervals_and_figures_are_those_of_all_columns(kind, monkeypatch):
    x, y = shaped(kind)
    settings = {"rungs": RUNGS, "n_null": 5, "worst_case": False}
    few = isorep.compare(x, y, **settings)
    monkeypatch.setattr(modules["isorep.comparison.compare"], "spans_of_few", lambda *_: None)
    plain = isorep.compare(x, y, **settings)
    rounding = 1e-6 if few.source.dtype == "float64" else 1e-4
    for way in ("forward", "reverse"):
        for name in RUNGS:
            one, other = getattr(few, way).rungs[name], getattr(plain, way).rungs[name]
            open_ = name == "rigid" and kind != "low rank"  # outside of the training rows any rotation will do
            # Least squares of two far-off scales may not be the map of least norm where moments are all there is.
            loose = 0.3 if open_ else 0.02 if (name, kind) in (("linear", "widths"), ("linear", "scales")) else rounding
            assert one.held_out.mean == pytest.approx(other.held_out.mean, rel=loose, abs=1e-6)
            assert one.interval.high == pytest.approx(other.interval.high, rel=max(loose, 1e-5), abs=1e-6)
            assert one.in_sample.mean == pytest.approx(other.in_sample.mean, rel=rounding, abs=1e-5)
    for one, other in ((few.source, plain.source), (few.target, plain.target)):
        assert (one.rank, one.constant_columns, one.left_out_columns) == (
            other.rank,
            other.constant_columns,
            other.left_out_columns,
        )
        assert one.condition == pytest.approx(other.condition, rel=1e-3)
        assert one.rms_radius == pytest.approx(other.rms_radius)
    for name in ("signed_permutation", "linear"):
        np.testing.assert_allclose(
            few.figures.dimensions.r2[name], plain.figures.dimensions.r2[name], atol=0.05 if kind == "widths" else 1e-3
        )
    np.testing.assert_array_equal(few.figures.matching.source_dims, plain.figures.matching.source_dims)
    np.testing.assert_allclose(few.figures.matching.correlations, plain.figures.matching.correlations, atol=1e-4)
    for name in ("identity", "signed_permutation"):
        drawn = (np.abs(each.figures.scatter.by_rung[name]) for each in (few, plain))
        np.testing.assert_allclose(*drawn, atol=1e-3)
    assert few.forward.identity_offset == pytest.approx(plain.forward.identity_offset, rel=1e-6)


def test_chance_and_the_components_are_about_those_of_all_columns(monkeypatch):
    x, y = pair(150, 170, 160)
    settings = {"rungs": ("rigid", "linear", "ica"), "n_null": 30, "n_boot": 0, "worst_case": False}
    few = isorep.compare(x, y, **settings)
    monkeypatch.setattr(modules["isorep.comparison.compare"], "spans_of_few", lambda *_: None)
    plain = isorep.compare(x, y, **settings)
    for name in settings["rungs"]:
        one, other = few.rungs[name], plain.rungs[name]
        assert one.null.mean == pytest.approx(other.null.mean, rel=0.05)
        assert one.null.observed == pytest.approx(other.null.observed, rel=0.1)
    assert few.rungs["ica"].held_out.mean == pytest.approx(plain.rungs["ica"].held_out.mean, rel=0.05)


def test_views_standardise_columns():
    x, y = pair(200, 220, 220)
    x[:, 0] *= 300
    y[:, 0] *= 300
    result = isorep.compare(x, y, rungs=RUNGS, n_null=19, worst_case=False)
    (view,) = result.views
    assert view.name == "at_unit_variance"
    sides = ((each - each.mean(axis=0)) / each.std(axis=0) for each in (x, y))
    standardised = isorep.compare(*sides, rungs=RUNGS, n_null=0, n_boot=0, worst_case=False)
    for name in RUNGS:
        assert view.errors[name] == pytest.approx(standardised.rungs[name].held_out.mean, rel=1e-6)


def test_views_whiten_columns_where_one_large_group_leaves_few_training_rows():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(220, 40)) * np.repeat([25.0, 0.5], [2, 38])
    x, y = z @ rotation(40, 1), z @ rotation(40, 2) + 0.01 * rng.normal(size=z.shape)
    groups = np.maximum(np.arange(220) - 184, 0)  # 35 rows are left without the largest
    (view,) = isorep.compare(x, y, groups=groups, rungs=RUNGS, n_null=19, n_boot=0, worst_case=False).views
    assert view.name == "at_unit_variance"
    found = []
    for side in (x, y):
        values, axes = np.linalg.eigh(np.cov(side.T, ddof=0))
        found.append((side - side.mean(axis=0)) @ (axes / np.sqrt(values)) @ axes.T)
    whitened = isorep.compare(*found, groups=groups, rungs=RUNGS, n_null=0, n_boot=0, worst_case=False)
    for name in RUNGS:
        assert view.errors[name] == pytest.approx(whitened.rungs[name].held_out.mean, rel=1e-6)


def test_the_held_out_row_of_an_outlier_costs_the_ladder_what_it_costs_the_real_pairing_of_the_null():
    """Squares of a row a million times as long lose the digits that its direction needs."""
    x, y = pair(60, 100, 100)
    x[5] *= 1e6
    rung = isorep.compare(x, y, rungs=("rigid", "linear"), n_null=9, n_boot=0, worst_case=False).rungs["linear"]
    assert rung.held_out.mean > 1000
    assert rung.null.observed == pytest.approx(rung.held_out.mean, rel=1e-3)


@pytest.mark.parametrize("widths", [(60, 50), (35, 33), (35, 20)])
@pytest.mark.parametrize(("dtype", "decades"), [(np.float32, 8), (np.float64, 11)])
def test_columns_of_any_scale_count_in_the_null_as_in_the_ladder(widths, dtype, decades):
    x, y = pair(40, *widths, noise=0.05)
    x = (x * np.logspace(3 - decades, 3, widths[0])).astype(dtype)
    result = isorep.compare(x, y.astype(dtype), rungs=("linear",), n_null=9, n_boot=0, worst_case=False)
    for direction in (result, result.reverse):
        rung = direction.rungs["linear"]
        assert rung.null.observed == pytest.approx(rung.held_out.mean, rel=1e-4)


SHAPES = ((20, 40, 40), (20, 40, 18), (20, 20, 20), (20, 16, 16), (20, 40, 5))  # with 16 training rows


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(("n", "d_x", "d_y"), SHAPES)
def test_rotated_sides_have_the_errors_of_those_that_are_not(n, d_x, d_y, repeated):
    """Training rows leave part of a rotation open; what is put there must not depend on columns, nor on rounding."""
    x, y = pair(n, d_x, d_y)
    turned_x, turned_y = x @ rotation(d_x, 1), 3 * y @ rotation(d_y, 2) + 5
    if repeated:
        for one, other in ((x, y), (turned_x, turned_y)):
            one[3], other[3], other[8] = one[0], other[0], other[7]
    settings = {"rungs": RUNGS, "n_null": 0, "n_boot": 0, "worst_case": False}
    plain, turned = isorep.compare(x, y, **settings), isorep.compare(turned_x, turned_y, **settings)
    exchanged = isorep.compare(y, x, **settings)
    for name in RUNGS:
        for way, back in (("forward", "reverse"), ("reverse", "forward")):
            error = getattr(plain, way).rungs[name].held_out
            assert getattr(exchanged, back).rungs[name].held_out.mean == pytest.approx(error.mean, rel=1e-9)
            if name in ("rigid", "linear"):
                assert getattr(turned, way).rungs[name].held_out.mean == pytest.approx(error.mean, rel=1e-7)
                assert getattr(turned, way).rungs[name].held_out.sup == pytest.approx(error.sup, rel=1e-7)


@pytest.mark.parametrize(("n", "d_x", "d_y"), SHAPES)
def test_the_real_pairing_of_the_null_has_the_errors_of_the_ladder(n, d_x, d_y):
    result = isorep.compare(*pair(n, d_x, d_y), rungs=RUNGS, n_null=5, n_boot=0, worst_case=False)
    for direction in (result.forward, result.reverse):
        for rung in direction.rungs.values():
            assert rung.null.observed == pytest.approx(rung.held_out.mean, rel=1e-7)


def test_linear_maps_of_some_more_rows_than_columns_are_those_of_least_norm():
    """Training rows are fewer than columns, and all rows are not."""
    x, y = pair(30, 26, 25)
    result = isorep.compare(x, y, rungs=("linear",), n_null=0, n_boot=0, worst_case=False, folds=30)
    errors = [
        np.linalg.norm(y[i] - y[rest].mean(axis=0) - (x[i] - x[rest].mean(axis=0)) @ matrix)
        for i, rest, matrix in (
            (i, rest, np.linalg.pinv(x[rest] - x[rest].mean(axis=0)) @ (y[rest] - y[rest].mean(axis=0)))
            for i, rest in ((i, np.delete(np.arange(30), i)) for i in range(30))
        )
    ]
    assert result.rungs["linear"].held_out.mean * result.rungs["linear"].unit == pytest.approx(
        np.mean(errors), rel=1e-7
    )


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
def test_an_outlier_that_is_held_out_has_no_part_in_what_counts_as_rounding(size):
    """Float32 rows beside one a million times as long are no rounding where maps are fitted without that one."""
    x, y = (rows.astype(np.float32) for rows in pair(40, 70, 70))
    x[7], y[7] = x[7] * np.float32(size), y[7] * np.float32(size)
    settings = {"rungs": ("linear",), "n_null": 0, "n_boot": 0, "worst_case": False}
    one, other = (isorep.compare(x.astype(t), y.astype(t), **settings).rungs["linear"] for t in ("f4", "f8"))
    assert one.held_out.sup == pytest.approx(other.held_out.sup, rel=1e-3)
    assert one.held_out.mean < 0.9


def test_rows_that_are_all_alike_but_one_have_errors():
    x, y = pair(40, 70, 70)
    x[1:] = x[1]
    for one, other, way in ((x, y, "forward"), (y, x, "reverse")):
        rungs = getattr(isorep.compare(one, other, n_null=10, worst_case=False), way).rungs
        assert all(rung.held_out.mean < 3 and rung.null.mean < 3 for rung in rungs.values())
    with pytest.raises(isorep.InputError, match="all rows of source are identical"):
        isorep.compare(np.ones_like(x), y)


@pytest.mark.parametrize("kind", ["plain", "widths", "narrow target", "constant", "float32"])
def test_many_runs_have_the_errors_of_pairs(kind):
    x, y = shaped(kind)
    runs = [x, y, pair(60, 90, 100, seed=4)[0]]
    settings = {"rungs": (*RUNGS, "ica"), "random_state": 0}
    many = isorep.compare_many(runs, n_null=3, residuals=True, **settings)
    for i, j in ((0, 1), (1, 2)):
        alone = isorep.compare(runs[i], runs[j], n_null=0, n_boot=0, worst_case=False, **settings)
        for name, matrix in many.rungs.items():
            there, back = alone.forward.rungs[name], alone.reverse.rungs[name]
            assert matrix.error[i, j] == pytest.approx(there.held_out.mean, rel=1e-6)
            assert matrix.error[j, i] == pytest.approx(back.held_out.mean, rel=1e-6)
            assert matrix.rms[i, j] == pytest.approx(
                there.held_out.rms * there.unit / alone.target.rms_radius, rel=1e-6
            )
            assert matrix.sup[i, j] == pytest.approx(there.held_out.sup * there.unit / there.diameter, rel=1e-6)
        assert many.runs[i].rank == alone.source.rank
    alone = isorep.compare(runs[0], runs[1], n_null=0, n_boot=0, worst_case=False, **settings)
    for run, rows in enumerate(runs):
        assert many.dimensions[run].correlation.shape == many.dimensions[run].r2.shape == (rows.shape[1],)
    both = isorep.compare_many(runs[:2], n_null=0, **settings)
    np.testing.assert_allclose(
        np.maximum(both.dimensions[1].r2, -9), alone.figures.dimensions.r2["linear"], rtol=1e-6, atol=1e-6
    )


def test_the_consensus_takes_rows_in_their_columns():
    x, _ = pair(60, 100, 100)
    runs = [x, 2 * x @ rotation(100, 1) + 4, x[:, :80]]
    consensus = isorep.compare_many(runs, rungs=("rigid",), n_null=0).consensus
    images = [consensus.transform(run, rows) for run, rows in enumerate(runs)]
    np.testing.assert_allclose(images[0], images[1], atol=1e-6)
    for run, rows in enumerate(runs):
        lengths = np.linalg.norm(rows - rows.mean(axis=0), axis=1) / consensus.radii[run]
        np.testing.assert_allclose(np.linalg.norm(images[run], axis=1), lengths, rtol=1e-9)


def test_rows_of_the_worst_case_are_bracketed_in_their_span():
    x, y = pair(60, 100, 90)
    alone = isorep.worst_case(x, y, scale=True)
    whole = isorep.compare(x, y, rungs=("rigid",), n_null=0, worst_case=True).worst_case["rigid_with_scale"]
    assert alone.lower / alone.upper > 0.99
    assert alone.lower <= whole.upper * whole.unit * 1.001
    assert whole.lower * whole.unit <= alone.upper * 1.001


@pytest.mark.parametrize("shape", [(20, 50), (50, 20)])
def test_coordinates_keep_products_and_do_not_change_when_rows_are_rotated(shape, rng):
    x = rng.normal(size=shape) + 5.0
    span = RowSpan.of(x, "x", 16)
    centred = x - x.mean(axis=0)
    np.testing.assert_allclose(span.rows @ span.rows.T, centred @ centred.T, atol=1e-10)
    np.testing.assert_allclose(span.rows @ span.axes, centred, atol=1e-12)
    np.testing.assert_allclose(span.axes @ span.axes.T, np.eye(span.width), atol=1e-12)
    assert span.width == min(shape[0] - 1, shape[1])
    turned = RowSpan.of(x @ rotation(shape[1], 0), "x", 16)
    np.testing.assert_allclose(turned.rows, span.rows, atol=1e-9)


def test_the_order_in_memory_changes_no_bit():
    x, y = pair(40, 70, 60)
    settings = {"n_null": 3, "n_boot": 0, "worst_case": False}
    one, other = (isorep.compare(each, y, **settings) for each in (x, np.asfortranarray(x)))
    assert {name: rung.held_out for name, rung in one.rungs.items()} == {
        name: rung.held_out for name, rung in other.rungs.items()
    }


def test_rows_are_few_where_training_rows_are_no_more_than_columns(rng):
    x, y = rng.normal(size=(20, 15)), rng.normal(size=(20, 3))
    assert spans_of_few(x, y, ("x", "y"), 16) is None
    wide, narrow = spans_of_few(x, y, ("x", "y"), 15)
    assert narrow.rows is narrow.centred
    assert wide.rows is not wide.centred


def test_least_squares_from_rows_is_that_of_a_pseudo_inverse(rng):
    x, y = rng.normal(size=(30, 80)), rng.normal(size=(30, 4))
    span, chosen = RowSpan.of(x, "x", 25), np.arange(25)
    target = y[chosen] - y[chosen].mean(axis=0)
    found = span.axes.T @ span.least_squares(chosen, target)
    np.testing.assert_allclose(found, np.linalg.pinv(x[chosen] - x[chosen].mean(axis=0)) @ target, atol=1e-10)


def test_equal_rows_have_equal_coordinates_and_one_axis(rng):
    x = rng.normal(size=(20, 50))
    x[3] = x[9] = x[0]
    span = RowSpan.of(x, "x", 16)
    assert span.width == 17
    np.testing.assert_array_equal(span.rows[[3, 9]], span.rows[[0, 0]])
    np.testing.assert_allclose(span.rows @ span.axes, x - x.mean(axis=0), atol=1e-12)


def test_columns_that_do_not_vary_among_chosen_rows_are_no_directions(rng):
    x = np.hstack([rng.normal(size=(30, 60)), np.eye(30)])
    span, chosen = RowSpan.of(x, "x", 25), np.arange(25)
    target = rng.normal(size=(25, 2))
    target -= target.mean(axis=0)
    expected = np.linalg.pinv(x[chosen] - x[chosen].mean(axis=0)) @ target
    np.testing.assert_allclose(span.axes.T @ span.least_squares(chosen, target), expected, atol=1e-10)


def test_widths_whose_columns_cannot_be_matched_are_refused_with_the_remedy():
    wide = np.broadcast_to(np.float32(1), (5, 200_000))
    for call in (isorep.compare, lambda *runs: isorep.compare_many(runs)):
        with pytest.raises(isorep.InputError, match="leave signed_permutation out of the rungs"):
            call(wide, wide)


def test_columns_too_many_to_be_matched_unasked_have_no_correlations_of_dimensions(monkeypatch, tmp_path):
    runs = pair(30, 50, 45)
    monkeypatch.setattr(modules["isorep.comparison.many_errors"], "MATCHED_UNASKED", 49)
    result = isorep.compare_many(runs, rungs=("rigid", "linear"), n_null=0)
    assert [each.correlation for each in result.dimensions] == [None, None]
    assert result.dimensions[1].r2.shape == (45,)
    assert result.to_dict()["dimensions"][0]["correlation"] is None
    result.to_html(tmp_path / "page.html")
    assert "Single dimensions" in (tmp_path / "page.html").read_text()
    asked = isorep.compare_many(runs, rungs=("signed_permutation", "linear"), n_null=0)
    assert asked.dimensions[1].correlation.shape == (45,)
