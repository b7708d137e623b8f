"""Checkpoints: what was saved comes back, and what has changed since is refused."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from isorep import InputError
from isorep.checkpoint import Checkpoint

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "none": np.empty((0, 3)), "one": np.array(2.5, np.float32)}


def kept(path, library="numpy"):
    return Checkpoint(path, "fit", {"seed": 1}, 0.0, library)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_states_come_back(tmp_path, library):
    arrays = ARRAYS if library == "numpy" else {name: torch.tensor(array) for name, array in ARRAYS.items()}
    if library == "torch":
        arrays |= {"half": torch.ones(3, dtype=torch.bfloat16), "flag": torch.tensor([True, False])}
    kept(tmp_path / "c", library).save({"step": 3, "path": [(1.5, 2.0)]}, arrays)
    facts, found = kept(tmp_path / "c", library).load()
    assert facts == {"step": 3, "path": [[1.5, 2.0]]}
    for name, array in arrays.items():
        assert np.array_equal(np.asarray(found[name].tolist()), np.asarray(array.tolist()))


def test_a_number_that_has_changed_is_noticed(tmp_path):
    kept(tmp_path / "c").save({"step": 3}, ARRAYS)
    with safe_open(tmp_path / "c", "numpy") as file:
        facts = json.loads(file.metadata()["isorep"])
        arrays = {name: file.get_tensor(name) for name in ARRAYS}
    for changed, held in (
        (facts, arrays | {"a": arrays["a"] + 1e-9}),
        (facts | {"state": {"step": 4}}, arrays),
        (facts, {name: array for name, array in arrays.items() if name != "one"}),
    ):
        save_file(held, tmp_path / "c", metadata={"isorep": json.dumps(changed)})
        with pytest.raises(InputError, match="damaged checkpoint"):
            kept(tmp_path / "c").load()
    save_file(arrays, tmp_path / "c", metadata={"isorep": json.dumps(facts)})
    assert kept(tmp_path / "c").load() is not None


FAILURES = (ValueError("no shape"), KeyError("a"), ZeroDivisionError(), AttributeError("x"), RuntimeError("no memory"))


@pytest.mark.parametrize("error", FAILURES)
def test_a_state_with_which_the_computation_fails_may_be_damaged(tmp_path, error):
    kept(tmp_path / "c").save({"step": 3}, ARRAYS)
    resumed, fresh = kept(tmp_path / "c"), kept(tmp_path / "other")
    assert resumed.load() is not None
    assert fresh.load() is None
    words = r"c failed \(.+\): remove this checkpoint if it is damaged"
    with pytest.raises(InputError, match=words), resumed.resuming():
        raise error
    with pytest.raises(type(error)), fresh.resuming():  # it is no fault of the file
        raise error
    with pytest.raises(InputError, match="as it is"), resumed.resuming():
        raise InputError("as it is")


def test_a_header_that_fills_the_memory_is_refused(tmp_path):
    save_file(ARRAYS, tmp_path / "c", metadata={"isorep": "x" * 2**24})
    with pytest.raises(InputError, match="its header has"):
        kept(tmp_path / "c").load()
