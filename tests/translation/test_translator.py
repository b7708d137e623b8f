"""A map in a file: everything comes back, nothing foreign gets in, and foreign rows are noticed."""

import json
import warnings
from functools import cache

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import isorep
from isorep import DriftWarning, InputError, Representation, Translator
from isorep.translation.translator import open_source, require_output, translate_files

from ..data import mixing, sources


@cache
def basis(d, model):
    return mixing(d, model, condition=20)


def rows(n, seed, d=10, model=0):
    """Rows of a model: its own mixing and mean."""
    mean = 2 * np.random.default_rng(model).normal(size=d)
    return sources(n, d, seed) @ basis(d, model) + mean


@cache
def translator():
    x = rows(1000, 0)
    y = x @ np.random.default_rng(5).normal(size=(10, 7)) + 1
    return isorep.translate(x, y, n_queries=50).translator


def test_a_map_comes_back_as_it_was_saved(tmp_path):
    translator().save(tmp_path / "m.safetensors")
    again = Translator.load(tmp_path / "m.safetensors")
    for name in ("matrix", "old_mean", "new_mean"):
        np.testing.assert_array_equal(getattr(again, name), getattr(translator(), name))
    for name in ("mean", "whitener", "radius", "limit", "distance", "spread", "rows", "held"):
        np.testing.assert_array_equal(getattr(again.reference, name), getattr(translator().reference, name))
    assert (again.kind, again.facts) == (translator().kind, json.loads(json.dumps(translator().facts)))
    assert repr(again) == "Translator(linear, 10 -> 7 columns, 1000 pairs)"
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "m.safetensors").read_bytes()


def parts(path):
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["isorep"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


FOREIGN = {
    "another tag": (lambda f, a: (f | {"format": "isorep ica model 1"}, a), "'isorep ica model 1'"),
    "no tag": (lambda f, a: ({}, a), "does not say"),
    "another kind": (lambda f, a: (f | {"kind": "cubic"}, a), "its kind is 'cubic'"),
    "no kind": (lambda f, a: (f | {"kind": []}, a), "its kind"),
    "no width": (lambda f, a: (f | {"old columns": -1}, a), "number of old columns is '-1'"),
    "a huge width": (lambda f, a: (f | {"old columns": 10**9}, a), r"shape \(10, 7\) and not \(1000000000, 7\)"),
    "no rows": (lambda f, a: (f | {"reference rows": True}, a), "number of reference rows"),
    "an endless length": (lambda f, a: (f | {"norm": 10**400}, a), "its norm is '1000"),
    "no fit": (lambda f, a: (f | {"fit": None}, a), "how it was fitted"),
    "a missing array": (lambda f, a: (f, {k: v for k, v in a.items() if k != "whitener"}), "lacks whitener"),
    "one more array": (lambda f, a: (f, a | {"odd": a["old_mean"]}), "also holds odd"),
    "another shape": (lambda f, a: (f, a | {"matrix": a["matrix"].T}), r"matrix have the shape \(7, 10\)"),
    "another type": (lambda f, a: (f, a | {"matrix": a["matrix"].astype(np.float32)}), "the type F32"),
    "NaN": (lambda f, a: (f, a | {"matrix": a["matrix"] * np.nan}), "matrix are not finite"),
    "infinity": (lambda f, a: (f, a | {"new_mean": a["new_mean"] + np.inf}), "new_mean are not finite"),
    "no radius": (lambda f, a: (f, a | {"scales": a["scales"] * 0}), "scales are not positive"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_foreign_or_hostile_file_is_refused_with_one_sentence(tmp_path, case):
    path = tmp_path / "m.safetensors"
    translator().save(path)
    change, words = FOREIGN[case]
    facts, arrays = change(*parts(path))
    arrays = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    save_file(arrays, path, metadata={"isorep": json.dumps(facts)})
    with pytest.raises(InputError, match=words) as refused:
        Translator.load(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    translator().save(path)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    huge = whole[:8] + whole[8:header].replace(b"[10,7]", b"[10,7000000]") + whole[header:]
    for content in (b"", b"\x80\x04\x95", whole[:-8], whole[:100], whole + b"x", b"\xff" * 64, huge):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a map that isorep saved"):
            Translator.load(path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Translator.load(tmp_path / "absent.safetensors")
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        translator().save(tmp_path / "m.npz")


def test_rows_of_the_same_model_are_no_drift_whatever_their_number():
    many = rows(15_000, 7)
    for n in (1, 3, 30, 400, 15_000):
        drift = translator().drift(many[:n])
        assert not drift, str(drift)
    assert drift.rows == 10_000


FOREIGN_ROWS = {
    "another model": rows(400, 1, model=3),
    "rescaled": 1.6 * rows(400, 1),
    "shrunk": 0.5 * rows(400, 1),
    "shifted": rows(400, 1) + 1.0,
    "normalised": rows(400, 1) / np.linalg.norm(rows(400, 1), axis=1, keepdims=True),
    "shuffled columns": rows(400, 1)[:, ::-1],
    "absurd": 1e300 * rows(400, 1),
    "the mean alone": np.zeros((400, 10)) + rows(4000, 2).mean(axis=0),
}


@pytest.mark.parametrize("case", FOREIGN_ROWS)
def test_foreign_rows_raise_a_warning(case):
    drift = translator().drift(FOREIGN_ROWS[case])
    assert drift
    assert drift.to_dict()["alarms"] == list(drift.alarms)
    with pytest.warns(DriftWarning, match="do not look like those that the map was fitted to: "):
        translator().transform(FOREIGN_ROWS[case])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator().transform(FOREIGN_ROWS[case], check=False)


def test_rows_that_are_not_finite_are_refused_by_place():
    spoilt = rows(400, 1)
    spoilt[70, 4] = np.nan
    for look in (translator().drift, translator().transform):
        with pytest.raises(InputError, match="X holds 1 NaN value, the first at row 70, column 4"):
            look(spoilt)


@pytest.mark.parametrize(("n", "d"), [(60, 16), (500, 16), (500, 100), (150, 200)])
def test_few_training_rows_raise_no_false_alarm(n, d):
    x = rows(n, 0, d)
    fitted = isorep.translate(x, x[:, :5], maps="ridge", n_queries=10, n_boot=0).translator
    for seed in range(1, 6):
        assert not fitted.drift(rows(600, seed, d))
    assert fitted.drift(rows(600, 1, d, model=4))


def test_another_width_is_refused(tmp_path):
    with pytest.raises(InputError, match="X has 4 columns, and the map translates vectors of 10"):
        translator().transform(np.ones((3, 4)))
    with pytest.raises(InputError, match="x has 4 columns"):
        translator().translated(Representation(np.ones((3, 4)), name="x"))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_are_translated_in_blocks_with_their_ids(tmp_path, dtype, monkeypatch):
    monkeypatch.setattr("isorep.storage.registry._BLOCK_BYTES", 2**12)
    x = rows(900, 3).astype(dtype)
    path = tmp_path / "x.npz"
    np.savez(path, values=x, ids=np.arange(900) + 7)
    translate_files(translator(), open_source(path), tmp_path / "y.npz")
    found = isorep.read(tmp_path / "y.npz")
    expected = (x.astype(float) - translator().old_mean) @ translator().matrix + translator().new_mean
    tolerance = 1e-10 if dtype == np.float64 else 2e-5
    stored = 2e-3 if dtype == np.float16 else tolerance  # of a file, which keeps its type
    np.testing.assert_allclose(found.values[:], expected, rtol=stored, atol=stored)
    assert found.values.dtype == dtype
    np.testing.assert_array_equal(found.ids, np.arange(900) + 7)
    lazy = translator().translated(isorep.read(path)).values
    np.testing.assert_allclose(lazy[[5, 3, 3]], expected[[5, 3, 3]], rtol=tolerance, atol=tolerance)


def test_a_large_mean_does_not_drown_float32_rows(tmp_path):
    x = (rows(800, 0) + 1e4).astype(np.float32)
    y = (x.astype(float) - 1e4) @ np.eye(10, 4)
    fitted = isorep.translate(x, y, n_queries=10).translator
    np.testing.assert_allclose(fitted.transform(x), y, rtol=0, atol=2e-5)


def test_a_folder_of_shards_is_translated_file_by_file(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for place in range(3):
        np.savez(folder / f"part-{place}.npz", values=rows(50, place), ids=np.arange(50) + 50 * place)
    source = open_source(folder)
    require_output(folder, tmp_path / "out")
    translate_files(translator(), source, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"part-{place}.npz" for place in range(3)]
    np.testing.assert_allclose(isorep.read(tmp_path / "out").values[:], translator().transform(source.rows), rtol=1e-12)
    np.testing.assert_array_equal(isorep.read(tmp_path / "out").ids, np.arange(150))
    with pytest.raises(InputError, match="is not an empty folder"):
        require_output(folder, tmp_path / "out")


def test_what_stops_on_the_way_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("isorep.storage.registry._BLOCK_BYTES", 2**12)
    folder = tmp_path / "in"
    folder.mkdir()
    spoilt = rows(900, 3)
    spoilt[850, 2] = np.inf
    np.save(folder / "0.npy", rows(900, 2))
    np.save(folder / "1.npy", spoilt)
    np.save(tmp_path / "y.npy", np.ones(3))
    for name in ("y.npy", "out"):
        with pytest.raises(InputError, match=r"1 infinite value, the first at row (850|1750), column 2"):
            translate_files(translator(), open_source(folder), tmp_path / name)
    source = open_source(folder / "0.npy")
    for stop in (KeyboardInterrupt, MemoryError):

        def halted(done, total, stop=stop):
            if done > total // 2:
                raise stop

        with pytest.raises(stop):
            translate_files(
                translator(), source, tmp_path / "y.npy", progress=lambda _, done, total: halted(done, total)
            )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "y.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.ones(3))
    huge = Representation(np.full((2, 10), 1e38, np.float32), name="x")
    with pytest.raises(InputError, match="x holds values so large"):
        translator().transform(huge, check=False)
