"""Which components come back, and the curvature behind it: against known sources and against finite differences."""

import json
from importlib import import_module

import numpy as np
import pytest
from scipy import linalg

import isorep
from isorep import ICA, InputError
from isorep.ica import summarise
from isorep.ica.contrasts import CONTRASTS
from isorep.ica.curvature import constants, curvature, hessian, weak_planes
from isorep.ica.refits import directions, drawn, match, quality
from isorep.ica.summary import _NORMAL_SPREAD

from ..data import mixing, rotation, signed_permutation, sources

pytestmark = pytest.mark.filterwarnings("ignore::isorep.GaussianityWarning", "ignore:stopped after:UserWarning")


def laplace_and_gaussian(n=4000, strong=4, weak=8):
    rng = np.random.default_rng(3)
    return np.column_stack([rng.laplace(size=(n, strong)), rng.normal(size=(n, weak))]) @ mixing(strong + weak, 0)


@pytest.fixture(scope="module")
def mixed():
    return isorep.stability(laplace_and_gaussian(), n_restarts=8)


def test_strong_sources_come_back_and_gaussian_ones_do_not(mixed):
    assert (mixed.scores[:4] > 0.95).all()
    assert (mixed.recurrence[:4] == 1).all()
    assert (mixed.scores[4:] < 0.9).all()
    np.testing.assert_array_equal(mixed.gaussian, [False] * 4 + [True] * 8)
    assert (mixed.quality[:4] > 0.9).all()
    assert (mixed.quality[4:] < 0.8).all()
    assert mixed.reading == (
        "4 of 12 components are reproducible in all 8 refits; "
        "8 are indistinguishable from Gaussian and not reproducible."
    )


def test_the_planes_of_gaussian_components_are_named_and_turn_further_than_the_others(mixed):
    named = {(plane.first, plane.second) for plane in mixed.planes}
    assert named == {(i, j) for i in range(4, 12) for j in range(i + 1, 12)}
    assert mixed.n_weak_planes == len(named)
    assert all(plane.expected > 0 and plane.error > 0 for plane in mixed.planes)
    # The median: how far the firmest of 28 free planes turns in 8 refits is chance.
    assert np.median([plane.observed for plane in mixed.planes]) > 1.5 * mixed.observed[:4].max()


def test_what_sampling_allows_is_what_refits_show():
    x = sources(6000, 6) @ mixing(6, 0)
    found = isorep.stability(x, n_restarts=20)
    ratio = found.observed / found.expected
    assert (ratio > 0.6).all()
    assert (ratio < 1.5).all()
    assert found.n_weak_planes == 0


def test_the_same_call_gives_the_same_numbers(mixed):
    again = isorep.stability(laplace_and_gaussian(), n_restarts=8)
    np.testing.assert_array_equal(mixed.correlations, again.correlations)
    assert mixed.to_json() == again.to_json()
    other = isorep.stability(laplace_and_gaussian(), n_restarts=2, random_state=1)
    assert not np.array_equal(mixed.correlations[:2], other.correlations)


def test_more_refits_leave_the_first_ones_as_they_are(mixed):
    few = isorep.stability(laplace_and_gaussian(), n_restarts=2)
    np.testing.assert_array_equal(mixed.correlations[:2], few.correlations)


@pytest.mark.parametrize("change", [signed_permutation(5, 1), rotation(5, 2), mixing(5, 4)])
def test_the_basis_of_the_columns_does_not_matter(change):
    x = sources(3000, 5) @ mixing(5, 0)
    first, second = (isorep.stability(values, n_restarts=3) for values in (x, x @ change + 2))
    np.testing.assert_allclose(first.correlations, second.correlations, atol=2e-3)
    np.testing.assert_allclose(first.quality, second.quality, atol=2e-3)


def test_other_starts_on_the_same_rows_end_in_the_same_place():
    found = isorep.stability(sources(4000, 6) @ mixing(6, 0), n_restarts=4, resample=False)
    assert (found.correlations > 0.999).all()
    assert found.rows_used == found.rows == 4000
    assert found.caveats[0].startswith("only the starts differed")


def test_groups_are_drawn_whole():
    units = np.array([0, 2, 1, 0, 2, 2])
    for seed in range(5):
        rows = drawn(units, 3, np.random.default_rng(seed))
        assert (np.diff(rows) >= 0).all()
        times = np.bincount(rows, minlength=6)
        assert times[0] == times[3]
        assert times[1] == times[4] == times[5]
        assert times[[0, 1, 2]].sum() == 3


def test_rows_that_are_copies_flatter_unless_they_are_grouped():
    x = np.repeat(sources(700, 4) @ mixing(4, 0), 8, axis=0)
    apart = isorep.stability(x, n_restarts=8)
    together = isorep.stability(x, n_restarts=8, groups=np.repeat([f"row {i}" for i in range(700)], 8))
    assert together.settings["groups"] == 700
    assert np.median(together.observed / apart.observed) > 2


def test_a_component_that_some_samples_do_not_have_counts_as_not_found():
    x = sources(500, 4)
    x[:, 3] = 0
    x[7, 3] = 50.0
    found = isorep.stability(x, n_restarts=12)
    lacking = [fit.components == 3 for fit in found.refits]
    assert 0 < sum(lacking) < 12
    assert ((found.correlations == 0).sum(axis=1) == lacking).all()
    assert any("found fewer than 4 components" in caveat for caveat in found.caveats)


def test_fewer_components_than_the_rank_and_copies_of_columns_are_a_normal_case():
    x = sources(3000, 5) * np.array([5, 4, 3, 0.2, 0.1]) @ rotation(5, 0)
    found = isorep.stability(np.column_stack([x, x[:, 0]]), n_restarts=3, ica=ICA(n_components=3))
    assert found.correlations.shape == (3, 3)
    assert (found.correlations > 0.99).all()
    assert (found.correlations <= 1).all()
    assert found.ica.rank_ == 5


def test_a_single_component_is_no_trouble():
    found = isorep.stability(sources(300, 1), n_restarts=2)
    assert found.reading == "1 of 1 components is reproducible in all 2 refits."
    assert found.planes == ()
    assert found.constants.gamma is None


def test_files_and_representations_give_what_arrays_give(tmp_path):
    x = sources(1500, 4) @ mixing(4, 0)
    np.save(tmp_path / "x.npy", x)
    plain = isorep.stability(x, n_restarts=2)
    stored = isorep.stability(isorep.read(tmp_path / "x.npy"), n_restarts=2)
    np.testing.assert_allclose(plain.correlations, stored.correlations, atol=1e-12)
    assert stored.name == "x.npy"


def test_large_data_are_sampled_and_the_result_says_so(monkeypatch):
    monkeypatch.setattr(import_module("isorep.ica.refits"), "MOST_CELLS", 4 * 500)
    found = isorep.stability(sources(3000, 4) @ mixing(4, 0), n_restarts=2)
    assert found.rows_used == 500
    assert any("each refit used 500 of 3000 rows" in caveat for caveat in found.caveats)
    np.testing.assert_allclose(found.expected**2, found.uncertainty**2 * 6)


def test_progress_tells_of_every_refit():
    seen = []
    isorep.stability(sources(500, 3), n_restarts=2, progress=lambda *step: seen.append(step))
    assert seen == [("reference fit", 0, 1), ("reference fit", 1, 1), ("refits", 1, 2), ("refits", 2, 2)]


def test_what_cannot_be_done_is_refused():
    x = sources(100, 2)
    for wrong in (0, 2.5, True):
        with pytest.raises(InputError, match="whole number"):
            isorep.stability(x, n_restarts=wrong)
    with pytest.raises(InputError, match="whiten=None"):
        isorep.stability(x, ica=ICA(whiten=None))
    with pytest.raises(InputError, match=r"one label per row is needed: \(100,\)"):
        isorep.stability(x, groups=[1, 2])
    with pytest.raises(InputError, match="missing for 1 rows"):
        isorep.stability(x, groups=[None, *"ab" * 49, "c"])
    with pytest.raises(InputError, match="nothing to draw"):
        isorep.stability(x, groups=[1] * 100)


def test_the_settings_are_taken_from_an_estimator_that_stays_as_it_is():
    ica = ICA(contrast="exp", max_iter=50)
    found = isorep.stability(sources(800, 3), n_restarts=1, ica=ica)
    assert not hasattr(ica, "components_")
    assert found.settings["ica"]["contrast"] == found.ica.contrast == "exp"


def test_the_result_prints_and_comes_back_from_json(mixed, tmp_path):
    text = mixed.to_json(tmp_path / "r.json")
    result = json.loads((tmp_path / "r.json").read_text())
    assert json.loads(text) == result
    assert result.pop("page")
    assert result == json.loads(json.dumps(mixed.to_dict()))
    assert result["schema"] == "isorep.stability/1"
    np.testing.assert_allclose(result["correlations"], mixed.correlations, rtol=1e-5)
    assert result["components"]["comes_back"] == [True] * 4 + [False] * 8
    assert "for diagnosis only" in result["constants"]["note"]
    names = [line.split()[0] for line in mixed.table().splitlines()[-12:]]
    assert names == list(mixed.ica.get_feature_names_out())
    assert mixed.table() in str(mixed)
    assert mixed.reading in repr(mixed)
    assert mixed.reading.partition(";")[0] in mixed._repr_html_()


def test_components_are_matched_whatever_their_order_and_sign():
    here = rotation(6, 0)
    found, turned = match(here, [signed_permutation(6, 1) @ here, signed_permutation(6, 2) @ here])
    np.testing.assert_allclose(found, 1)
    np.testing.assert_allclose(turned, np.eye(6), atol=1e-12)
    short, _ = match(here, [here[:4], here[:0]])
    np.testing.assert_allclose(short, [[1, 1, 1, 1, 0, 0], [0] * 6], atol=1e-12)


def test_the_turn_of_a_plane_is_the_angle_by_which_it_was_turned():
    angle = 0.3
    turn = np.eye(5)
    turn[np.ix_([1, 3], [1, 3])] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    here = rotation(5, 0)
    found, turned = match(here, [turn @ here])
    np.testing.assert_allclose(turned[1, 3], np.sin(angle))
    np.testing.assert_allclose(found[0], [1, np.cos(angle), 1, np.cos(angle), 1])


def test_clusters_are_tight_where_fits_agree_and_zero_for_what_nobody_else_finds():
    here = np.eye(6)
    again = here.copy()
    again[4:] = rotation(2, 0) @ here[4:]
    index = quality(here, [here, here])
    np.testing.assert_allclose(index, 1, atol=1e-12)
    lone = quality(here, [here[:5], here[:5]])
    np.testing.assert_allclose(lone[:5], 1, atol=1e-12)
    assert lone[5] == 0
    assert (quality(here, [again, here])[:4] > quality(here, [again, here])[4:].max()).all()


def test_unit_vectors_hold_the_correlations_of_sources():
    x = sources(2000, 4) @ mixing(4, 0)
    unmixing = np.random.default_rng(0).normal(size=(3, 4))
    root = linalg.sqrtm(np.cov(x.T))
    inside = directions(unmixing, root)
    np.testing.assert_allclose(inside @ inside.T, np.corrcoef((x @ unmixing.T).T), atol=1e-10)


# The curvature: THEORY 3.3 marks the formula as derived, so it is proven again here.


def signed_contrast(y, contrast, signs):
    values = CONTRASTS[contrast].apply(y.copy(), np.empty_like(y))[1] / len(y)
    return float(signs @ values)


def skew(k, i, j):
    plane = np.zeros((k, k))
    plane[i, j], plane[j, i] = np.sqrt(0.5), -np.sqrt(0.5)
    return plane


@pytest.fixture(scope="module", params=["logcosh", "exp", "cube"])
def fitted(request):
    """Dependent components, where planes do not decouple, of both signs."""
    rng = np.random.default_rng(0)
    x = sources(3000, 4) * rng.uniform(0.5, 1.5, size=(3000, 1))
    x[:, 3] += 0.3 * (x[:, 0] ** 2 - 1)
    ica = ICA(contrast=request.param).fit(x)
    y = ica.transform(x)
    contrast = CONTRASTS[request.param]
    g = y.copy()
    contrast.apply(g, np.empty_like(g))
    signs = np.sign(contrast.slopes(y).mean(axis=0) - (g * y).mean(axis=0))
    assert set(signs) == {-1.0, 1.0}
    return x, ica, y, signs


def numerical_hessian(y, contrast, signs, step=1e-3):
    k = y.shape[1]
    planes = [skew(k, i, j) for i, j in zip(*np.triu_indices(k, 1), strict=True)]

    def value(a, b, s, t):
        return signed_contrast(y @ linalg.expm(s * planes[a] + t * planes[b]).T, contrast, signs)

    result = np.empty((len(planes), len(planes)))
    for a in range(len(planes)):
        for b in range(len(planes)):
            corners = [value(a, b, s * step, t * step) * s * t for s in (1, -1) for t in (1, -1)]
            result[a, b] = sum(corners) / (4 * step**2)
    return result


def test_the_curvature_of_a_plane_is_the_second_derivative_of_the_contrast(fitted):
    x, ica, y, signs = fitted
    step = 1e-3
    middle = signed_contrast(y, ica.contrast, signs)
    found = curvature(x, ica)
    np.testing.assert_allclose(found.planes, ica.conditioning_, atol=1e-9)
    for i, j in zip(*np.triu_indices(4, 1), strict=True):
        up, down = (
            signed_contrast(y @ linalg.expm(sign * step * skew(4, i, j)).T, ica.contrast, signs) for sign in (1, -1)
        )
        np.testing.assert_allclose((up - 2 * middle + down) / step**2, ica.conditioning_[i, j], rtol=1e-4, atol=1e-5)


def test_the_least_curvature_of_a_plane_bounds_the_least_eigenvalue_of_the_hessian(fitted):
    x, ica, y, signs = fitted
    brute = numerical_hessian(y, ica.contrast, signs)
    found = curvature(x, ica)
    first, second = np.triu_indices(4, 1)
    np.testing.assert_allclose(np.diag(brute), ica.conditioning_[first, second], rtol=1e-3, atol=1e-4)
    least = linalg.eigvalsh(brute)[0]
    np.testing.assert_allclose(found.smallest, least, rtol=1e-3, atol=1e-4)
    assert least <= ica.conditioning_[first, second].min() + 1e-6
    assert constants(found, ica.contrast).gamma == found.smallest


def test_independent_components_have_planes_that_decouple():
    rng = np.random.default_rng(0)
    y = rng.laplace(size=(200_000, 3)) / np.sqrt(2)
    slopes, g = CONTRASTS["logcosh"].slopes(y), np.tanh(y)
    third = np.einsum("nj,na,nb->jab", slopes, y, y) / len(y)
    whole = hessian(third, g.T @ y / len(y), np.ones(3))
    np.testing.assert_allclose(whole - np.diag(np.diag(whole)), 0, atol=0.01)
    alpha = slopes.mean(axis=0) - (g * y).mean(axis=0)
    np.testing.assert_allclose(
        np.diag(whole), [(alpha[i] + alpha[j]) / 2 for i, j in ((0, 1), (0, 2), (1, 2))], atol=0.01
    )


class Fixed:
    """A fit whose components are given: whitened columns, whatever they are."""

    def __init__(self, x, contrast):
        values, vectors = linalg.eigh(np.cov(x.T, bias=True))
        self.components_ = (vectors / np.sqrt(values)) @ vectors.T
        self.mean_ = x.mean(axis=0)
        self.contrast = contrast


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_the_standard_error_is_the_spread_over_samples(contrast):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(80):
        x = np.column_stack([rng.uniform(-1, 1, (1500, 2)), rng.laplace(size=1500), rng.normal(size=1500)])
        found.append(curvature(x, Fixed(x, contrast)))
    pairs = np.triu_indices(4, 1)
    spread = np.std([each.planes[pairs] for each in found], axis=0)
    ratio = np.mean([each.error[pairs] for each in found], axis=0) / spread
    assert (ratio > 0.6).all()
    assert (ratio < 1.5).all()


@pytest.mark.parametrize("contrast", CONTRASTS)
def test_the_spread_in_a_gaussian_plane_is_the_constant_used_without_rows(contrast):
    x = np.random.default_rng(1).normal(size=(100_000, 4))
    found = curvature(x, Fixed(x, contrast))
    y = x @ Fixed(x, contrast).components_.T
    g = y.copy()
    CONTRASTS[contrast].apply(g, np.empty_like(g))
    signs = np.sign(CONTRASTS[contrast].slopes(y).mean(axis=0) - (g * y).mean(axis=0))
    same, opposite = _NORMAL_SPREAD[contrast]
    for i, j in zip(*np.triu_indices(4, 1), strict=True):
        expected = same if signs[i] == signs[j] else opposite
        np.testing.assert_allclose(found.error[i, j] * np.sqrt(len(x)), expected, rtol=0.05)


def test_components_that_depend_through_their_length_alone_turn_freely_though_none_is_gaussian():
    rng = np.random.default_rng(0)
    round_ = rng.normal(size=(4000, 6)) / np.sqrt(rng.chisquare(5, size=(4000, 1)) / 5)
    x = np.column_stack([round_, rng.uniform(-1, 1, size=(4000, 2))]) @ mixing(8, 0)
    found = isorep.stability(x, n_restarts=6)
    assert not found.gaussian.any()
    loose = set(np.flatnonzero(found.ica.kurtosis_ > 1))
    assert len(loose) == 6
    assert {place for plane in found.planes for place in (plane.first, plane.second)} <= loose
    assert found.n_weak_planes >= 10
    assert found.scores[sorted(loose)].max() < 0.95 < found.scores[sorted(set(range(8)) - loose)].min()
    assert "not reproducible although non-Gaussian" in found.reading


def test_a_saddle_is_called_one_and_has_no_kappa():
    rng = np.random.default_rng(0)
    s = rng.laplace(size=(5000, 2)) / np.sqrt(2)
    x = s @ np.array([[1, 1], [-1, 1]]) / np.sqrt(2)  # half way between two optima, a minimum of the contrast
    found = constants(curvature(x, Fixed(x, "cube")), "cube")
    assert found.saddle
    assert found.gamma < 0
    assert found.kappa is None


def test_kappa_follows_its_formula_and_the_bounds_of_the_contrast(mixed):
    found = mixed.constants
    norms = np.linalg.norm(mixed.ica.transform(laplace_and_gaussian()), axis=1)
    np.testing.assert_allclose(found.B, norms.max())
    assert (found.C1, found.C2) == (1, 1)
    assert found.exact
    assert found.gamma <= min(plane.curvature for plane in mixed.planes)
    # Gaussian components are not polished, so that their planes may bend either way by as much as noise does.
    expected = (found.B + np.sqrt(12)) / found.gamma if found.gamma > 0 else None
    assert found.kappa == (expected if expected is None else pytest.approx(expected))
    assert not found.saddle


def test_weak_planes_come_least_certain_first():
    planes, error = np.full((4, 4), 1.0), np.full((4, 4), 0.1)
    planes[0, 1] = planes[1, 0] = 0.25
    planes[2, 3] = planes[3, 2] = -0.1
    none = np.zeros(4, dtype=bool)
    assert weak_planes(planes, error, none).tolist() == [[2, 3], [0, 1]]
    assert weak_planes(planes, error, np.array([True, False, True, False])).tolist() == [[2, 3], [0, 1], [0, 2]]


# The summary of a fit.


def test_a_fit_is_summarised_with_its_versions_planes_and_caveats():
    x = laplace_and_gaussian(3000, 3, 4)
    ica = ICA().fit(x)
    result = summarise(ica, name="rows", rows=3000, seconds=1.5, peak_memory=2**30)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["schema"] == "isorep.ica/1"
    assert result["reading"] == "3 of 7 components differ from Gaussian; 4 span a near-Gaussian space."
    assert (result["rows"], result["columns"], result["rank"]) == (3000, 7, 7)
    assert result["versions"]["numpy"] == np.__version__
    np.testing.assert_allclose(result["conditioning"]["least"], ica.conditioning_, rtol=1e-5)
    weak = {(plane["first"], plane["second"]) for plane in result["planes"]["shown"]}
    assert {(i, j) for i in range(3, 7) for j in range(i + 1, 7)} <= weak
    assert any("indistinguishable from Gaussian" in caveat for caveat in result["caveats"])


def test_planes_are_judged_alike_with_and_without_rows(mixed):
    summary = summarise(mixed.ica, name="rows", rows=mixed.rows)
    theirs = {(plane["first"], plane["second"]): plane["error"] for plane in summary["planes"]["shown"]}
    assert set(theirs) == {(plane.first, plane.second) for plane in mixed.planes}
    for plane in mixed.planes:
        assert theirs[plane.first, plane.second] == pytest.approx(plane.error, rel=0.15)


def test_a_fit_without_whitening_is_summarised_too():
    ica = ICA(whiten=None).fit(sources(500, 3))
    result = summarise(ica, name="rows", rows=500)
    assert result["rank"] is None
    assert result["conditioning"] is None
    assert list(result["components"]) == ["count", "contrast"]
    assert "neither centred nor whitened" in result["caveats"][-1]


def test_many_components_are_summarised_in_blocks():
    from isorep.ica.summary import conditioning

    planes = np.random.default_rng(0).uniform(0.5, 1, size=(300, 300))
    planes = (planes + planes.T) / 2
    planes[120, 250] = planes[250, 120] = -0.25
    np.fill_diagonal(planes, -9)
    found = conditioning(planes)
    assert found["least"].shape == (64, 64)
    place = [int(np.searchsorted(found["edges"], which, side="right")) - 1 for which in (120, 250)]
    assert found["least"][place[0], place[1]] == found["least"].min() == -0.25


def test_a_generator_as_seed_is_named_and_not_spelt_out():
    x = sources(300, 2)
    result = summarise(ICA(random_state=np.random.RandomState(0)).fit(x), name="rows", rows=300)
    assert result["settings"]["random_state"] == "RandomState"
    found = isorep.stability(x, n_restarts=1, random_state=np.random.RandomState(0))
    assert found.to_dict()["settings"]["random_state"] is None


def test_few_rows_per_component_are_noted_and_long_tables_are_cut_in_print():
    rng = np.random.default_rng(0)
    few = isorep.stability(rng.laplace(size=(540, 60)), n_restarts=1)
    assert any("540 rows are 9.0 per component" in note for note in few.caveats)
    assert "and 10 more components" in str(few)
    assert len(few.table().splitlines()) == 60 + 2
    enough = isorep.stability(rng.laplace(size=(540, 50)), n_restarts=1)
    assert not any("per component:" in note for note in enough.caveats)
    assert "more components\n" not in enough.table(50) + "\n"
