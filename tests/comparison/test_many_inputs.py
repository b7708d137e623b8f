"""What is given to compare_many: runs in any form, rows that belong together, and clear refusals."""

import numpy as np
import pytest

import isorep
from isorep.representation import told_apart

from .test_many import LADDER, seeds


def test_a_dict_names_the_runs_and_names_do_too():
    runs = seeds(3, 100, 3)
    by_key = isorep.compare_many(dict(zip("abc", runs, strict=True)), **LADDER)
    assert by_key.names == ("a", "b", "c")
    assert isorep.compare_many(runs, names=["x", "y", "z"], **LADDER).names == ("x", "y", "z")
    assert isorep.compare_many(runs, **LADDER).names == ("run 0", "run 1", "run 2")
    assert isorep.compare_many(np.stack(runs), **LADDER).rungs["rigid"].max == by_key.rungs["rigid"].max


def test_paths_are_read_and_files_of_one_name_told_apart_by_folder(tmp_path):
    for place, run in enumerate(seeds(3, 100, 3)):
        (tmp_path / f"seed{place}").mkdir()
        np.save(tmp_path / f"seed{place}" / "latents.npy", run)
    result = isorep.compare_many([tmp_path / f"seed{i}" / "latents.npy" for i in range(3)], **LADDER)
    assert result.names == ("seed0/latents.npy", "seed1/latents.npy", "seed2/latents.npy")
    assert told_apart(["a", "b", "a"], [None] * 3) == ["a (1)", "b", "a (2)"]


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([np.ones((9, 2))], "1 run was given: at least 2"),
        ([], "no run was given"),
        (np.ones((9, 2)), "one run was given"),
        ("a.npy", "one run was given"),
        ([np.eye(9), np.eye(8)], "9 rows and run 1 has 8"),
        ([np.eye(9), np.eye(9), np.eye(9)[:5]], "run 0 has no partner from row 5 on"),
        ([np.eye(2), np.eye(2)], "2 rows in common"),
        ([np.eye(9), np.full((9, 2), 3.0)], "all rows of run 1 are identical"),
        ([np.eye(9), np.eye(9) * np.nan], "run 1 holds"),
        ([np.eye(9), np.arange(18).reshape(9, 2)], "integers"),
        ([np.eye(9), np.eye(9) * 1e300], "run 1 holds values so large"),
        ([np.eye(9), np.eye(9) * 1e-150], "run 1 spread by"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_by_name(runs, words):
    with pytest.raises(isorep.InputError, match=words):
        isorep.compare_many(runs)


@pytest.mark.parametrize(
    "wrong",
    [
        {"folds": 1},
        {"n_null": -1},
        {"tolerance": -0.1},
        {"rungs": ["affine"]},
        {"random_state": -1},
        {"names": ["a", "b"]},
        {"names": ["a", "a", "b"]},
        {"groups": [1, 2]},
    ],
)
def test_settings_that_make_no_sense_are_value_errors(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        isorep.compare_many(seeds(3, 60, 2), **wrong)


def with_ids(run, ids, name):
    return isorep.Representation(run, ids=ids, name=name)


def test_ids_are_compared_among_all_runs_that_have_them():
    runs = seeds(3, 60, 2)
    ids = np.arange(60)
    swapped = ids.copy()
    swapped[[4, 7]] = swapped[[7, 4]]
    with pytest.raises(isorep.InputError, match="b and c hold the same ids in another order: row 4"):
        isorep.compare_many([runs[0], with_ids(runs[1], ids, "b"), with_ids(runs[2], swapped, "c")])
    half = isorep.compare_many([runs[0], with_ids(runs[1], ids, "b"), with_ids(runs[2], ids, "c")], **LADDER)
    assert any("some runs have no row ids" in caveat for caveat in half.caveats)


def test_joined_runs_keep_the_rows_that_all_of_them_have():
    runs = seeds(3, 100, 3)
    ids = np.array([f"r{i}" for i in range(100)])
    order = np.random.default_rng(0).permutation(100)
    kept = np.arange(10, 90)
    joined = isorep.compare_many(
        [
            with_ids(runs[0][:90], ids[:90], "a"),
            with_ids(runs[1][order], ids[order], "b"),
            with_ids(runs[2][10:], ids[10:], "c"),
        ],
        join=True,
        groups=np.arange(90) // 5,
        **LADDER,
    )
    plain = isorep.compare_many([run[kept] for run in runs], groups=kept // 5, **LADDER)
    for name, matrix in plain.rungs.items():
        np.testing.assert_allclose(joined.rungs[name].rms, matrix.rms, atol=1e-12)
    assert joined.settings["rows_dropped"] == [10, 20, 10]
    assert "80 rows are in all runs; dropped: 10 from a, 20 from b, 10 from c" in joined.caveats[0]
    with pytest.raises(isorep.InputError, match="run 1 has no row ids"):
        isorep.compare_many([with_ids(runs[0], ids, "a"), runs[1]], join=True)
    halves = [with_ids(runs[0][:60], ids[:60], "a"), with_ids(runs[1][40:], ids[40:], "b")]
    with pytest.raises(isorep.InputError, match="no row id that all of them have"):
        isorep.compare_many([*halves, with_ids(runs[2][[0, 99]], ids[[0, 99]], "c")], join=True)
    with pytest.raises(isorep.InputError, match="with different ids"):
        isorep.compare_many(halves)


def test_memory_maps_are_read_in_blocks(tmp_path):
    runs = [run.astype(np.float32) for run in seeds(3, 200, 3)]
    for place, run in enumerate(runs):
        np.save(tmp_path / f"{place}.npy", run)
    mapped = isorep.compare_many([np.load(tmp_path / f"{i}.npy", mmap_mode="r") for i in range(3)], n_null=1)
    held = isorep.compare_many(runs, n_null=1)
    for name, matrix in held.rungs.items():
        np.testing.assert_allclose(mapped.rungs[name].rms, matrix.rms, atol=1e-12)
        np.testing.assert_allclose(mapped.rungs[name].null, matrix.null, atol=1e-12)


def test_progress_names_its_stages_and_ends():
    told = {}
    isorep.compare_many(
        seeds(3, 100, 3), residuals=True, progress=lambda stage, done, of: told.setdefault(stage, []).append((done, of))
    )
    assert set(told) >= {"moments", "independent components", "fits", "residuals", "null"}
    for stage in ("moments", "independent components", "residuals", "null"):
        assert told[stage][-1][0] == told[stage][-1][1]
    assert all(done <= of for done, of in told["fits"])
