"""The ladder end to end: invariances, held-out honesty, nulls, groups, verdicts."""

import json
from importlib import import_module

import numpy as np
import pytest

import isorep
from isorep.comparison import RUNGS, ica_efficiency
from isorep.resampling import assign_folds

from ..data import mixing, noisy_pair, rotation, signed_permutation, sources

FAST = {"n_null": 8, "n_boot": 200, "worst_case": False}
LINEAR_RUNGS = ("identity", "signed_permutation", "rigid", "linear")


def compare(*arguments, **settings):
    return isorep.compare(*arguments, **{**FAST, **settings})


def errors(result, which="held_out"):
    return {name: getattr(rung, which).mean for name, rung in result.rungs.items()}


@pytest.mark.parametrize(
    ("group", "rung"),
    [
        (lambda x: x, "identity"),
        (lambda x: 3 * x @ signed_permutation(4, 0) + 1, "signed_permutation"),
        (lambda x: 0.5 * x @ rotation(4, 0) - 2, "rigid"),
        (lambda x: x @ mixing(4, 0) + 5, "linear"),
    ],
)
def test_the_verdict_is_the_smallest_group_that_relates_the_two(group, rung):
    x = sources(800, 4)
    rng = np.random.default_rng(1)
    y = group(x)
    y = y + 0.01 * y.std() * rng.normal(size=y.shape)
    result = compare(x, y)
    assert result.verdict.rung == rung
    assert result.rungs[rung].held_out.mean < 0.02
    assert result.rungs[rung].in_diameters.held_out.mean < 0.01
    if rung in ("signed_permutation", "rigid", "linear"):
        assert result.reverse.verdict.rung == rung


def test_without_noise_every_rung_from_its_group_on_is_exact():
    x = sources(800, 4)
    result = compare(x, 2 * x @ rotation(4, 0) + 1)
    found = errors(result)
    assert found["rigid"] < 1e-9
    assert found["linear"] < 1e-9
    assert found["signed_permutation"] > 0.05
    assert errors(result, "in_sample")["ica"] < 1e-6
    assert 0.01 < found["ica"] < 0.3, "its two sides are unmixed on rows of their own, and 800 determine so much"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_do_not_change_when_either_run_is_rotated_scaled_or_moved(dtype):
    x, y = noisy_pair(600, 4, 0.3)
    plain = compare(x, y)
    moved_x, moved_y = (3 * x @ rotation(4, 9) - 4).astype(dtype), (y @ rotation(4, 5) + 10).astype(dtype)
    moved = compare(moved_x, moved_y)
    for name, atol in (("rigid", 1e-5), ("linear", 1e-5), ("ica", 1e-3)):
        assert errors(moved)[name] == pytest.approx(errors(plain)[name], abs=atol)
        assert errors(moved, "in_sample")[name] == pytest.approx(errors(plain, "in_sample")[name], abs=atol)
    assert moved.diameter.value == pytest.approx(plain.diameter.value, rel=1e-5)


def test_in_sample_mean_square_is_monotone_along_the_ladder():
    x, y = noisy_pair(300, 5, 0.5)
    result = compare(x, y, rungs=LINEAR_RUNGS)
    for direction in (result.forward, result.reverse):
        squares = [direction.rungs[name].in_sample.rms for name in LINEAR_RUNGS]
        assert squares == sorted(squares, reverse=True)


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("widths", [(4, 4), (3, 5), (5, 3)])
def test_held_out_errors_from_moments_equal_refits(rng, shift, widths):
    x = rng.normal(size=(120, widths[0])) + shift
    y = rng.normal(size=(120, widths[1])) + np.pad(x, ((0, 0), (0, 2)))[:, : widths[1]] - shift
    result = compare(x, y, rungs=LINEAR_RUNGS, n_null=0)
    folds = assign_folds(120, 5, None, np.random.default_rng(np.random.SeedSequence(0).spawn(4)[0]))
    aligners = {"signed_permutation": isorep.SignedPermutation(), "rigid": isorep.Rigid(), "linear": isorep.Linear()}
    for direction, source, target in ((result.forward, x, y), (result.reverse, y, x)):
        for name, aligner in aligners.items():
            norms = np.empty(120)
            for fold in range(5):
                test = folds == fold
                norms[test] = aligner.fit(source[~test], target[~test]).residuals(source[test], target[test])
            unit = np.linalg.norm(target - target.mean(axis=0), axis=1).mean()
            assert direction.rungs[name].unit == pytest.approx(unit)
            assert direction.baseline == pytest.approx(unit / direction.diameter.value)
            tolerance = 1e-9 if shift == 0 else 1e-6
            assert direction.rungs[name].held_out.mean == pytest.approx(norms.mean() / unit, rel=tolerance)
            assert direction.rungs[name].held_out.sup == pytest.approx(norms.max() / unit, rel=tolerance)
            median = direction.rungs[name].held_out.quantiles["0.5"]
            assert median == pytest.approx(np.median(norms) / unit, rel=tolerance)
            in_diameters = direction.rungs[name].in_diameters.held_out.mean
            assert in_diameters == pytest.approx(norms.mean() / direction.diameter.value, rel=tolerance)


def test_in_sample_errors_equal_the_aligners_own():
    x, y = noisy_pair(500, 4, 0.3)
    result = compare(x, y, n_null=0)
    unit = np.linalg.norm(y - y.mean(axis=0), axis=1).mean()
    for name, aligner in (("rigid", isorep.Rigid()), ("linear", isorep.Linear()), ("ica", isorep.ICAAlignment())):
        expected = aligner.fit(x, y).residuals(x, y)
        close = 1e-3 if name == "ica" else 1e-6  # the ladder's components are settled to a thousandth of a radian
        assert result.rungs[name].in_sample.mean == pytest.approx(expected.mean() / unit, rel=close)


def test_dtype_and_block_size_do_not_matter(monkeypatch):
    x, y = noisy_pair(500, 4, 0.3)
    whole = compare(x, y, rungs=LINEAR_RUNGS, n_null=0)
    exact = errors(whole)
    single = errors(compare(x.astype(np.float32), y.astype(np.float32), rungs=LINEAR_RUNGS, n_null=0))
    half = errors(compare(x.astype(np.float16), y.astype(np.float32), rungs=LINEAR_RUNGS, n_null=0))
    for module in ("moments", "comparison.residuals", "comparison.diameter", "comparison.intervals"):
        monkeypatch.setattr(import_module(f"isorep.{module}"), "block_rows", lambda *widths, cells=0: 37)
    blocked = compare(x, y, rungs=LINEAR_RUNGS, n_null=0)
    for name in LINEAR_RUNGS:
        assert errors(blocked)[name] == pytest.approx(exact[name], rel=1e-10)
        assert blocked.rungs[name].interval.high == pytest.approx(whole.rungs[name].interval.high, rel=1e-9)
        assert single[name] == pytest.approx(exact[name], rel=1e-5)
        assert half[name] == pytest.approx(exact[name], rel=1e-3)


def test_the_same_call_gives_the_same_json():
    x, y = noisy_pair(300, 3, 0.3)
    first, second = (compare(x, y).to_dict() for _ in range(2))
    assert first.pop("seconds").keys() == second.pop("seconds").keys()
    assert first == second


def test_pure_noise_is_at_the_null_held_out_on_every_rung_and_in_sample_linear_is_not(rng):
    x, y = rng.normal(size=(200, 50)), rng.normal(size=(200, 50))
    with pytest.warns(UserWarning, match="overfitted"):
        result = compare(x, y, n_null=20)
    for name in LINEAR_RUNGS:
        rung = result.rungs[name]
        assert rung.null.low - 0.03 <= rung.held_out.mean <= rung.null.high + 0.03, name
    assert not any(rung.below_null for rung in result.rungs.values())
    assert not any(rung.below_mean for rung in result.rungs.values())
    linear = result.rungs["linear"]
    assert linear.in_sample.mean < linear.null.low - 0.05
    assert result.verdict.rung is None
    assert "source and target are not explained by any rung: the best one, " in str(result.verdict)
    assert "is no better than chance" in str(result.verdict)


def test_the_null_of_a_large_sample_is_the_one_of_all_rows(monkeypatch):
    x, y = noisy_pair(3000, 4, 0.5)
    full = compare(x, y, rungs=LINEAR_RUNGS, n_boot=0)
    monkeypatch.setattr("isorep.comparison.null.LEAST_ROWS", 500)
    sampled = compare(x, y, rungs=LINEAR_RUNGS, n_boot=0)
    for name in LINEAR_RUNGS[1:]:
        null = sampled.rungs[name].null
        assert null.mean == pytest.approx(full.rungs[name].null.mean, rel=2e-2)
        assert null.mean != full.rungs[name].null.mean, "other rows were shuffled"
        assert null.observed == pytest.approx(sampled.rungs[name].held_out.mean, rel=0.1)
        assert full.rungs[name].null.observed == pytest.approx(full.rungs[name].held_out.mean, rel=0.05)


def test_near_copies_leak_without_groups_and_not_with_them(rng):
    x, y = rng.normal(size=(60, 40)), rng.normal(size=(60, 40))
    groups = np.repeat(np.arange(60), 8)
    x, y = x[groups] + 0.01 * rng.normal(size=(480, 40)), y[groups] + 0.01 * rng.normal(size=(480, 40))
    leaking = compare(x, y, rungs=LINEAR_RUNGS, n_null=19)
    honest = compare(x, y, rungs=LINEAR_RUNGS, n_null=19, groups=groups)
    assert leaking.rungs["linear"].below_null
    assert not honest.rungs["linear"].below_null
    assert honest.verdict.rung is None
    assert honest.rungs["linear"].held_out.mean > 2 * leaking.rungs["linear"].held_out.mean


def test_grouped_rows_widen_the_interval(rng):
    groups = np.repeat(np.arange(30), 20)
    x = rng.normal(size=(600, 3))
    y = x + (rng.normal(size=(30, 3)) * rng.exponential(size=(30, 1)))[groups]
    alone, together = compare(x, y), compare(x, y, groups=[f"plate {g}" for g in groups])
    rigid = [result.rungs["rigid"].interval for result in (alone, together)]
    assert rigid[1].high - rigid[1].low > 2 * (rigid[0].high - rigid[0].low)


def test_the_interval_covers_and_shrinks_with_more_rows():
    widths = []
    for n in (200, 3200):
        x, y = noisy_pair(n, 3, 0.3)
        rung = compare(x, y, rungs=("rigid", "linear")).rungs["rigid"]
        assert rung.interval.low < rung.held_out.mean < rung.interval.high
        widths.append(rung.interval.high - rung.interval.low)
    assert widths[1] < widths[0] / 2.5


def test_the_published_efficiencies_follow_from_the_published_errors():
    table = {  # Table 1 of Nelson et al. (2026): signed permutation, rigid, ICA, efficiency in per cent
        "Pythia-160M": (0.219, 0.150, 0.202, 25),
        "MAE": (0.197, 0.109, 0.145, 59),
        "CheXpert": (0.218, 0.104, 0.175, 38),
        "ResNet-18": (0.382, 0.206, 0.312, 40),
    }
    for name, (permutation, rigid, ica, published) in table.items():
        assert round(100 * ica_efficiency(permutation, rigid, ica)) == published, name
    assert ica_efficiency(0.1, 0.1, 0.05) is None


def test_efficiency_of_shared_sources_is_near_one_and_none_for_a_wider_source():
    x, y = noisy_pair(4000, 6, 0.05)
    result = compare(x, y, n_null=0, n_boot=0)
    assert 0.85 < result.ica_efficiency < 1
    assert result.forward.ica_efficiency_in_sample == pytest.approx(1, abs=0.05)
    wider = compare(np.column_stack([x, sources(4000, 1, 9)]), y, n_null=0, n_boot=0)
    assert wider.ica_efficiency is None
    assert wider.reverse.ica_efficiency is not None


def test_all_units_and_all_parts_are_in_the_json(tmp_path):
    x, y = noisy_pair(300, 3, 0.3)
    result = compare(x, y)
    path = tmp_path / "result.json"
    result.to_json(path)
    data = json.loads(path.read_text())
    assert data["schema"] == "isorep.compare/2"
    rung = data["forward"]["rungs"]["rigid"]
    diameter = data["forward"]["diameter"]["value"]
    unit = np.linalg.norm(y - y.mean(axis=0), axis=1).mean()
    assert rung["raw"]["held_out"]["mean"] == pytest.approx(rung["held_out"]["mean"] * unit, rel=1e-5)
    for part in ("held_out", "in_sample"):
        for quantity in ("mean", "rms", "sup"):
            raw, in_diameters = rung["raw"][part][quantity], rung["diameters"][part][quantity]
            assert raw == pytest.approx(in_diameters * diameter, rel=1e-5)
    assert rung["diameters"]["null"]["mean"] == pytest.approx(rung["null"]["mean"] * unit / diameter, rel=1e-5)
    assert data["forward"]["baseline"] == pytest.approx(unit / diameter, rel=1e-5)
    assert set(rung["held_out"]["quantiles"]) >= {"0.05", "0.5", "0.95"}
    assert set(data["reverse"]["rungs"]) == set(RUNGS)
    assert data["source"]["rank"] == 3
    assert data["verdict"]["rung"] == "rigid"
    assert list(tmp_path.iterdir()) == [path], "no temporary file is left"


def test_rank_condition_and_constant_columns_are_reported_and_harmless(rng):
    x, y = noisy_pair(400, 4, 0.1)
    padded = np.column_stack([x, x[:, :2], np.full(400, 3.0)])
    result = compare(padded, y)
    assert (result.source.rank, result.source.constant_columns) == (4, 1)
    assert result.target.rank == 4
    assert errors(result)["linear"] == pytest.approx(errors(compare(x, y))["linear"], rel=1e-6)
    assert any("rank-deficient" in caveat for caveat in result.caveats)
    singular = np.linalg.svd(x - x.mean(0), compute_uv=False)
    assert compare(x, y).source.condition == pytest.approx(singular[0] / singular[-1])


def test_an_ill_conditioned_source_takes_the_second_pass_and_says_so():
    shared = sources(500, 5)
    x, y = shared @ mixing(5, 0, 1e9), shared @ mixing(5, 4)
    result = compare(x, y, rungs=("rigid", "linear"))
    assert errors(result)["linear"] < 1e-4
    assert result.source.condition == pytest.approx(1e9, rel=0.3)
    assert any("second, preconditioned pass" in caveat for caveat in result.caveats)


def test_fewer_rows_than_dimensions_work_and_warn(rng):
    x = rng.normal(size=(30, 60))
    with pytest.warns(UserWarning, match="only 30 rows for 60 dimensions"):
        result = compare(x, x @ rotation(60, 0))
    assert result.rungs["linear"].in_sample.mean < 1e-8
    assert result.rungs["linear"].held_out.mean > 0.1


def test_one_column_and_three_rows_work(rng):
    x = rng.normal(size=(3, 1))
    with pytest.warns(UserWarning, match="only 3 rows"):
        result = compare(x, 2 * x, folds=3, n_null=2)
    assert result.rungs["rigid"].in_sample.mean < 1e-12


def test_join_reports_what_it_dropped_and_takes_groups_along(rng):
    x, y = noisy_pair(100, 3, 0.1)
    names = [f"r{i}" for i in range(100)]
    order = rng.permutation(100)[:90]
    a = isorep.Representation(x, names, "a")
    b = isorep.Representation(y[order], [names[i] for i in order], "b")
    with pytest.raises(isorep.InputError, match="10 rows of a not in b"):
        compare(a, b)
    joined = compare(a, b, join=True, groups=np.arange(100) // 4)
    kept = np.sort(order)
    expected = compare(x[kept], y[kept], groups=kept // 4)
    assert errors(joined) == pytest.approx(errors(expected))
    assert joined.settings["rows_dropped"] == [10, 0]
    assert any("10 dropped from a" in caveat for caveat in joined.caveats)


def test_paths_and_representations_and_arrays_are_all_taken(tmp_path):
    x, y = noisy_pair(100, 3, 0.1)
    np.save(tmp_path / "a.npy", x)
    from_files = compare(tmp_path / "a.npy", isorep.Representation(y, name="b"))
    assert errors(from_files) == pytest.approx(errors(compare(x, y)))


def test_switched_off_parts_are_absent_and_no_verdict_is_made_up():
    x, y = noisy_pair(100, 3, 0.1)
    result = compare(x, y, n_null=0, n_boot=0)
    assert result.rungs["rigid"].null is None
    assert result.rungs["rigid"].interval is None
    assert result.verdict.rung is None
    assert "No verdict" in str(result.verdict)
    assert "linear" in str(compare(x, y, rungs="rigid").verdict)
    assert list(compare(x, y, rungs=["linear", "rigid"]).rungs) == ["rigid", "linear"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"folds": 1}, "folds is 1"),
        ({"folds": 500}, "100 rows and 500 folds"),
        ({"folds": 2, "groups": [0] * 99 + [1]}, "1 row is left to fit on"),
        ({"groups": np.arange(100) % 3}, "3 groups and 5 folds"),
        ({"groups": np.arange(7)}, "one label per row"),
        ({"groups": [None] + ["a"] * 99}, "missing for 1 rows, the first at row 0"),
        ({"rungs": ("affine",)}, "choose from identity"),
        ({"rungs": ()}, "is empty"),
        ({"n_null": -1}, "n_null"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"random_state": -1}, "random_state"),
        ({"diameter": "rough"}, "auto, exact, bound"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    x, y = noisy_pair(100, 3, 0.1)
    with pytest.raises(isorep.InputError, match=words):
        compare(x, y, **settings)


def test_widths_that_no_memory_holds_are_refused_before_the_work():
    wide = np.broadcast_to(np.float32(1), (5, 200_000))
    with pytest.raises(isorep.InputError, match="reduce the width first"):
        compare(wide, wide)


def test_identical_rows_are_refused(rng):
    with pytest.raises(isorep.InputError, match="all rows of target are identical"):
        compare(rng.normal(size=(10, 2)), np.full((10, 2), 0.1))


def test_fewer_than_three_rows_are_refused(rng):
    with pytest.raises(isorep.InputError, match="at least 3"):
        compare(rng.normal(size=(2, 2)), rng.normal(size=(2, 2)))


def test_ica_resolves_shared_sources_as_far_as_noise_allows():
    """8 Laplace sources, two rotations, scale 1.7: in sample ICA is exact, and with noise 0.5 nearly as good as rigid.

    The error of ICA over that of rigid (0.146/0.139) and the efficiency (0.86) are those of an independent
    implementation on the same model.
    """
    rng = np.random.default_rng(0)
    shared = rng.laplace(size=(20000, 8)) / np.sqrt(2)
    for noise in (0.0, 0.5):
        x = shared @ rotation(8, 1) + noise * rng.normal(size=shared.shape)
        y = 1.7 * (shared @ rotation(8, 2) + noise * rng.normal(size=shared.shape))
        result = isorep.compare(x, y, n_null=0, n_boot=0, folds=2, diameter="bound")
        found = errors(result, "in_sample")
        if noise == 0:
            assert max(found["rigid"], found["linear"], found["ica"]) < 1e-4
            assert result.forward.ica_efficiency_in_sample == pytest.approx(1, abs=1e-3)
        else:
            assert found["linear"] <= found["rigid"] + 1e-9
            assert found["ica"] / found["rigid"] == pytest.approx(0.146 / 0.139, abs=0.02)
            assert result.forward.ica_efficiency_in_sample == pytest.approx(0.86, abs=0.08)


def test_every_rung_has_a_phrase_for_the_verdict_and_a_colour_of_its_own():
    from isorep.comparison.plots import SHADES
    from isorep.report.charts import COLOURS, PHRASES

    assert set(RUNGS) == set(PHRASES) == set(COLOURS)
    assert len({SHADES[colour] for colour in COLOURS.values()}) == len(RUNGS)


def test_few_groups_leave_it_undecided_and_many_do_not():
    x, y = noisy_pair(300, 3, 0.1)
    few = compare(x, y, groups=np.arange(300) // 100, folds=3, n_null=20)
    assert str(few.verdict).startswith("It is undecided whether source and target are related: the best one, ")
    many = compare(x, y, groups=np.arange(300) // 10, n_null=20)
    assert "undecided" not in str(many.verdict)
