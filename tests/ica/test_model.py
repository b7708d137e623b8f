"""A fitted ICA in a file: everything comes back, nothing foreign gets in, and applying it never needs all rows."""

import json

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import isorep
from isorep import ICA, InputError, Representation
from isorep.ica.model import applied, load_model, model_facts, save_model

from ..data import mixing, sources

DATA = sources(600, 5) @ mixing(5, 0)
KINDS = {
    "plain": ICA(),
    "zca": ICA(whiten="zca", contrast="exp", random_state=7, tol=1e-3),
    "fewer": ICA(n_components=np.int64(3), rounding=np.float32(1e-6), random_state=np.random.RandomState(0)),
    "unwhitened": ICA(whiten=None, max_iter=400),
}


def fitted(kind="plain", data=DATA):
    return KINDS[kind].fit(data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_attribute_of_a_fit_comes_back(tmp_path, kind):
    frame = pd.DataFrame(DATA, columns=list("abcde"))
    ica = fitted(kind, frame)
    ica.save(tmp_path / "m.safetensors")
    again = ICA.load(tmp_path / "m.safetensors")
    assert set(vars(again)) == set(vars(ica))
    for name, value in vars(ica).items():
        if name != "random_state":
            np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
            assert type(getattr(again, name)) is type(value) or isinstance(value, np.generic), name
    assert again.random_state == (None if kind == "fewer" else ica.random_state)
    np.testing.assert_array_equal(again.transform(frame), ica.transform(frame))
    np.testing.assert_array_equal(again.get_feature_names_out(), ica.get_feature_names_out())


def test_what_is_known_about_the_training_data_is_kept(tmp_path):
    save_model(fitted(), tmp_path / "m.safetensors", extra={"rows": 600, "fingerprint": "ab"})
    facts = model_facts(tmp_path / "m.safetensors")
    assert facts["isorep"] == isorep.__version__
    assert facts["training"] == {"rows": 600, "fingerprint": "ab"}
    assert (facts["columns"], facts["components"], facts["rank"]) == (5, 5, 5)


def test_saving_again_gives_the_same_bytes_and_follows_a_link(tmp_path):
    first, second, link = (tmp_path / f"{name}.safetensors" for name in ("first", "second", "link"))
    fitted().save(first)
    link.symlink_to(second)
    fitted().save(link)
    assert link.is_symlink()
    assert first.read_bytes() == second.read_bytes()


def test_a_fit_that_cannot_be_kept_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        ICA().save(tmp_path / "m.safetensors")
    ica = ICA().fit(DATA)
    for path, words in (
        (tmp_path / "m.npz", "must end in .safetensors"),
        (tmp_path / "nowhere" / "m.safetensors", "is not a folder"),
    ):
        with pytest.raises(InputError, match=words):
            ica.save(path)
    (tmp_path / "device.safetensors").symlink_to("/dev/null")
    with pytest.raises(InputError, match="not a regular file"):
        ica.save(tmp_path / "device.safetensors")
    ica.kurtosis_[2] = np.nan
    with pytest.raises(InputError, match="kurtosis_ holds values that are not finite"):
        ica.save(tmp_path / "m.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["device.safetensors"]


def parts(path):
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["isorep"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def without(arrays, name):
    return {key: values for key, values in arrays.items() if key != name}


FOREIGN = {
    "another tag": (lambda f, a: (f | {"format": "isorep ica model 99"}, a), "'isorep ica model 99'"),
    "no tag": (lambda f, a: ({}, a), "does not say"),
    "no dict": (lambda f, a: ([1], a), "does not say"),
    "a missing array": (lambda f, a: (f, without(a, "mixing")), "lacks mixing"),
    "a missing moment": (lambda f, a: (f, without(a, "kurtosis")), "lacks kurtosis"),
    "one more array": (lambda f, a: (f, a | {"odd": a["mean"]}), "also holds odd"),
    "another shape": (lambda f, a: (f, a | {"mixing": a["mixing"][:4]}), r"mixing have the shape \(4, 5\)"),
    "no shape": (lambda f, a: (f, a | {"path": np.array(1.0)}), r"path have the shape \(\)"),
    "another width": (lambda f, a: (f | {"columns": 4, "rank": 4, "components": 4}, a), r"shape \(5, 5\)"),
    "another type": (lambda f, a: (f, a | {"mean": a["mean"].astype(np.float32)}), "mean have the type F32"),
    "a number as flag": (lambda f, a: (f, a | {"gaussian": a["mean"]}), "gaussian have the type F64"),
    "NaN": (lambda f, a: (f, a | {"components": a["components"] * np.nan}), "components are not finite"),
    "zeros": (lambda f, a: (f, {name: np.zeros_like(each) for name, each in a.items()}), "its components is zero"),
    "a mixing of zeros": (lambda f, a: (f, a | {"mixing": a["mixing"] * 0}), "its components is zero"),
    "infinity": (lambda f, a: (f, a | {"mean": a["mean"] + np.inf}), "mean are not finite"),
    "no settings": (lambda f, a: (f | {"settings": None}, a), "its settings"),
    "odd settings": (lambda f, a: (f | {"settings": f["settings"] | {"x": 1}}, a), "its settings"),
    "an odd setting": (lambda f, a: (f | {"settings": f["settings"] | {"tol": "x"}}, a), "its setting tol is 'x'"),
    "an odd contrast": (lambda f, a: (f | {"settings": f["settings"] | {"contrast": "x"}}, a), "contrast is 'x'"),
    "another whitening": (lambda f, a: (f | {"settings": f["settings"] | {"whiten": None}}, a), "rank"),
    "no rank": (lambda f, a: (f | {"rank": None}, a), "rank"),
    "an impossible rank": (lambda f, a: (f | {"rank": 10**6}, a), "its rank is '1000000'"),
    "no sweeps": (lambda f, a: (f | {"sweeps": 0}, a), "number of sweeps is '0'"),
    "a flag as number": (lambda f, a: (f | {"columns": True}, a), "number of columns is 'True'"),
    "no end": (lambda f, a: (f | {"converged": "yes"}, a), "how the fit ended"),
    "odd names": (lambda f, a: (f | {"names": ["a"]}, a), "column names"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_foreign_or_hostile_file_is_refused_with_one_sentence(tmp_path, case):
    path = tmp_path / "m.safetensors"
    fitted().save(path)
    change, words = FOREIGN[case]
    facts, arrays = change(*parts(path))
    save_file(
        {name: np.ascontiguousarray(values) if values.ndim else values for name, values in arrays.items()},
        path,
        metadata={"isorep": json.dumps(facts)},
    )
    with pytest.raises(InputError, match=words) as refused:
        load_model(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_no_model_at_all_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    fitted().save(path)
    whole = path.read_bytes()
    for content in (b"", b"\x80\x04\x95", whole[:-8], whole[:100], whole + b"x", b"\xff" * 64, b"[" * 1000):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a model that isorep saved"):
            load_model(path)
    save_file({"x": np.zeros(3)}, path, metadata={"isorep": "[" * 100000})
    with pytest.raises(InputError, match="not a model that isorep saved"):
        load_model(path)
    save_file({"x": np.zeros(3)}, path)
    with pytest.raises(InputError, match="does not say that it is one"):
        load_model(path)
    with pytest.raises(InputError, match="regular file"):
        load_model(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_model(tmp_path / "absent.safetensors")


def test_damage_anywhere_in_the_header_is_an_input_error_or_harmless(tmp_path, rng):
    path = tmp_path / "m.safetensors"
    fitted().save(path)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.integers(header)] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            assert np.isfinite(load_model(path).transform(DATA)).all()
        except InputError:
            continue


def test_a_model_beyond_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    fitted().save(tmp_path / "m.safetensors")
    monkeypatch.setattr("isorep.storage.model_files.memory_size", lambda: 1000)
    with pytest.raises(InputError, match="too much for this machine's memory"):
        load_model(tmp_path / "m.safetensors")


class Watched:
    """Rows that remember the largest block anybody asked for."""

    def __init__(self, values):
        self._values, self.shape, self.dtype, self.largest = values, values.shape, values.dtype, 0

    def __getitem__(self, rows):
        block = self._values[rows]
        self.largest = max(self.largest, block.size)
        return block


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_applying_reads_blocks_keeps_ids_and_precision_and_comes_back(tmp_path, dtype, monkeypatch):
    monkeypatch.setattr("isorep.storage.registry._BLOCK_BYTES", 2**12)
    ica = fitted()
    rows = Watched(DATA.astype(dtype))
    there = applied(ica, Representation(rows, ids=np.arange(600) + 7, name="x"))
    assert rows.largest == 0
    isorep.write(there, tmp_path / "s.npz")
    assert 0 < rows.largest < DATA.size
    found = isorep.read(tmp_path / "s.npz")
    assert found.values.dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_array_equal(found.ids, np.arange(600) + 7)
    np.testing.assert_allclose(found.values, ica.transform(DATA.astype(dtype)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(there.values[[5, 3, 3]], found.values[[5, 3, 3]], rtol=1e-5, atol=1e-6)
    back = applied(ica, found, inverse=True)
    np.testing.assert_allclose(back.values[:], DATA.astype(dtype), atol=1e-10 if dtype == np.float64 else 1e-4)


def test_wide_rows_of_few_components_are_read_in_small_blocks_too(tmp_path):
    wide = np.random.default_rng(0).laplace(size=(8192, 300)).astype(np.float32)
    ica = ICA(n_components=1, max_iter=3).fit(wide[:600])
    rows = Watched(wide)
    isorep.write(applied(ica, Representation(rows)), tmp_path / "s.npy")
    assert rows.largest <= 2**21 < wide.size


def test_applying_to_other_columns_or_to_values_that_are_not_finite_is_refused(tmp_path):
    ica = fitted()
    with pytest.raises(InputError, match="x has 3 columns, and the model was fitted to 5 columns"):
        applied(ica, Representation(DATA[:, :3], name="x"))
    with pytest.raises(InputError, match="x has 6 columns, and the model maps 5 components back"):
        applied(ica, Representation(np.ones((4, 6)), name="x"), inverse=True)
    spoilt = DATA.copy()
    spoilt[500, 2] = np.inf
    with pytest.raises(InputError, match="x holds 1 infinite value, the first at row 500, column 2"):
        isorep.write(applied(ica, Representation(spoilt, name="x")), tmp_path / "s.csv")
    assert list(tmp_path.iterdir()) == []


def test_values_that_overflow_are_refused_and_not_written(tmp_path):
    rows = np.random.default_rng(0).laplace(size=(300, 3))
    ica = isorep.ICA(random_state=0).fit(rows)
    ica.components_ = np.full_like(ica.components_, 1e308)
    with pytest.raises(isorep.InputError, match="overflow"):
        ica.transform(1e10 * rows)
    assert np.isfinite(isorep.ICA(random_state=0).fit(rows).transform(1e10 * rows)).all()
