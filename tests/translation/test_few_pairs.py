"""Fewer pairs than columns: maps fitted in the coordinates of the rows' span are those of all columns."""

import numpy as np
import pytest

import isorep
from isorep.alignment.base import partial_rotation
from isorep.translation import sums
from isorep.translation.drift import damped_whitener

from ..data import rotation

KINDS = ("rigid", "linear", "ridge", "low_rank")


def pair(n, d_old, d_new, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.laplace(size=(n, 8))
    return [
        shared @ rng.normal(size=(8, d)) + noise * rng.normal(size=(n, d)) + place
        for d, place in ((d_old, 0), (d_new, 3))
    ]


def shaped(kind):
    widths = {"narrow old": (10, 100), "narrow new": (100, 10), "widths": (100, 80)}.get(kind, (100, 100))
    old, new = pair(60, *widths)
    if kind == "unit":
        new /= np.linalg.norm(new, axis=1, keepdims=True)
    if kind == "constant":
        old[:, 3], old[:, 4] = 7.1, old[:, 4] * 1e-9
    if kind == "large mean":
        old, new = old + 1e5, new - 1e5
    if kind == "float32":
        old, new = old.astype(np.float32), new.astype(np.float32)
    return old, new


@pytest.mark.parametrize(
    "kind", ["plain", "widths", "narrow old", "narrow new", "unit", "constant", "large mean", "float32"]
)
def test_maps_errors_and_references_are_those_of_all_columns(kind, monkeypatch):
    old, new = shaped(kind)
    few = isorep.translate(old, new, maps=KINDS, at=(1, 2))
    monkeypatch.setattr(sums, "spans_of_few", lambda *_: None)
    plain = isorep.translate(old, new, maps=KINDS, at=(1, 2))
    assert (few.best, few.verdict.answer, few.norm) == (plain.best, plain.verdict.answer, plain.norm)
    rounding = 1e-3 if kind == "float32" else 1e-5
    for name in KINDS:
        assert few.maps[name].held_out.mean == pytest.approx(plain.maps[name].held_out.mean, rel=rounding), name
        assert few.maps[name].selection_error == pytest.approx(plain.maps[name].selection_error, rel=rounding), name
    np.testing.assert_allclose(
        [point.error for point in few.curve.points], [point.error for point in plain.curve.points], rtol=rounding
    )
    for one, other in ((few.old, plain.old), (few.new, plain.new)):
        assert (one.rank, one.constant_columns, one.left_out_columns) == (
            other.rank,
            other.constant_columns,
            other.left_out_columns,
        )
        assert one.condition == pytest.approx(other.condition, rel=1e-3)
    more = pair(5, old.shape[1], 1, seed=1)[0].astype(old.dtype) + old.mean(axis=0)
    here, there = few.translator, plain.translator
    size = np.abs(new).max() * rounding
    np.testing.assert_allclose(here.transform(more, check=False), there.transform(more, check=False), atol=size)
    rows = np.asarray(more, np.float64)
    np.testing.assert_allclose(here.reference.norms(rows), there.reference.norms(rows), rtol=rounding)
    assert here.reference.limit == pytest.approx(there.reference.limit, rel=rounding)
    for name in ("xx", "xy"):
        scale = np.abs(getattr(there.moments, name)).max()
        np.testing.assert_allclose(
            getattr(here.moments, name), getattr(there.moments, name), atol=max(rounding, 1e-6) * scale
        )


def test_few_pairs_added_to_few_give_the_map_of_all():
    old, new = pair(70, 100, 90)
    for kind in KINDS:
        some = isorep.translate(old[:50], new[:50], maps=kind, at=(1,))
        whole = isorep.translate(old, new, maps=kind, at=(1,))
        added = some.translator.update(old[50:], new[50:], check=False)
        if whole.translator.setting == some.translator.setting:  # those of the first fit are kept
            np.testing.assert_allclose(added.matrix, whole.translator.matrix, atol=1e-6)
        assert added.facts["pairs"] == 70


def test_a_rotation_maps_directions_that_no_pair_determines_to_the_mean():
    old = pair(40, 90, 1)[0]
    new = 2 * old @ rotation(90, 3) + 1
    fitted = isorep.translate(old, new, maps="rigid", at=(1,)).translator
    np.testing.assert_allclose(fitted.transform(old, check=False), new, atol=1e-8)
    axes = np.linalg.qr((old - old.mean(axis=0)).T, mode="complete")[0][:, 39:]  # no row varies along these
    outside = np.random.default_rng(0).normal(size=(3, 51)) @ axes.T
    np.testing.assert_allclose(
        fitted.transform(old[:3] + outside, check=False), fitted.transform(old[:3], check=False), atol=1e-8
    )


@pytest.mark.parametrize("rows", [4, 13])  # below half of the columns axes come from a sketch
def test_a_partial_rotation_turns_what_cross_moments_determine(rows):
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(d, 4)))[0] for d in (20, 16))
    cross = left * [5.0, 3.0, 2.0, 1e-3] @ right.T
    found, overlap = partial_rotation(cross, rows)
    np.testing.assert_allclose(found, left @ right.T, atol=1e-9)
    assert overlap == pytest.approx(10.001)
    np.testing.assert_array_equal(partial_rotation(np.zeros((20, 16)), rows)[0], 0.0)


def test_the_whitener_of_few_axes_has_the_damped_variance_outside_of_them():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    values, rows = np.array([5.0, 2.0, 1.0]), rng.normal(size=(4, 9))
    whole = damped_whitener(np.pad(values, (0, 6)), axes, 10)
    few = damped_whitener(values, axes[:, :3], 10)
    np.testing.assert_allclose(np.linalg.norm(rows @ few, axis=1), np.linalg.norm(rows @ whole, axis=1))


@pytest.mark.parametrize("columns", [20, 100])
def test_old_rows_that_vary_in_the_test_fold_alone_are_refused(columns):
    new = np.random.default_rng(0).normal(size=(60, columns))
    said = set()
    for place in range(60):
        old = np.zeros((60, columns))
        old[place, 3] = 1.0
        try:
            isorep.translate(old, new, maps=KINDS, at=(1, 2))
        except isorep.InputError as error:
            said.add(str(error))
    assert said == {"the rows of old that maps are fitted to are all identical: no map can be fitted"}


def test_values_whose_sums_overflow_are_called_so():
    old, new = pair(60, 100, 100)
    for scale in (1e200, 1e306):
        with pytest.raises(isorep.InputError, match="values so large that their squares overflow"):
            isorep.translate(old * scale, new, maps="linear", at=(1,))
