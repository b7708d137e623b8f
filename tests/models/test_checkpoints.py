"""A training that is stopped goes on to the same numbers; files that are anything else are refused."""

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import isorep
from isorep.models import EarlyStopping, Group, Recipe, Schedule, reconstruction_loss, train, train_many

from ..waiting import until
from .test_training import DATA, noisy_loss, small, weights

RECIPE = Recipe(
    epochs=6,
    batch=16,
    groups=(Group("adamw", 0.01, ("*.weight",), clip_norm=0.5), Group("sgd", 0.01, options={"momentum": 0.9})),
    schedule=Schedule("cosine"),
    stop=EarlyStopping(patience=50, restore=True, on="validation"),
)


class Stopped(Exception):  # noqa: N818
    """In place of a pulled plug."""


def facts(trained):
    history = trained.history.to_dict()
    del history["seconds"]
    return history, trained.ended, trained.seed


def stopped_at(record):
    """A hook that ends the training at its n-th record."""
    count = 0

    def progress(stage, done, total):
        nonlocal count
        count += 1
        if count == record:
            raise Stopped

    return progress


@pytest.mark.parametrize("how", ["alone", "together", "dropout", "noise"])
def test_an_interrupted_training_ends_with_the_same_numbers(how, tmp_path):
    def dropping(seed):
        return torch.nn.Sequential(small(seed), torch.nn.Dropout(0.2))

    def run(**more):
        shared = {"validation": DATA[:9], "checkpoint_seconds": 0.0} | more
        if how == "together":
            return train_many(small, DATA, reconstruction_loss, RECIPE, seeds=[4, 2, 7], batched=True, **shared)
        loss = noisy_loss if how == "noise" else reconstruction_loss
        return [train(dropping if how == "dropout" else small, DATA, loss, RECIPE, seed=4, **shared)]

    path = tmp_path / "state.safetensors"
    whole = run()
    for record in (2, 3):
        with pytest.raises(Stopped):
            run(checkpoint=path, progress=stopped_at(record))
    parts = run(checkpoint=path)
    again = run(checkpoint=path, progress=stopped_at(1))  # finished: nothing is left to do
    for first, second, third in zip(whole, parts, again, strict=True):
        assert torch.equal(weights(first), weights(second))
        assert torch.equal(weights(first), weights(third))
        assert facts(first) == facts(second) == facts(third)


def test_models_that_have_stopped_are_kept_beside_those_that_run(tmp_path):
    recipe = Recipe(
        steps=40, groups=Group("adam", 0.05), stop=EarlyStopping(patience=1, min_delta=0.08), record_every=2
    )

    def run(**more):
        return train_many(small, DATA, reconstruction_loss, recipe, seeds=range(5), batched=True, **more)

    whole = run()
    lengths = [len(each.history.steps) for each in whole]
    assert len(set(lengths)) > 1, "they must not all stop at once for this test to say something"
    path = tmp_path / "state.safetensors"
    with pytest.raises(Stopped):
        run(checkpoint=path, checkpoint_seconds=0.0, progress=stopped_at(min(lengths) + 2))
    for first, second in zip(whole, run(checkpoint=path), strict=True):
        assert torch.equal(weights(first), weights(second))
        assert facts(first) == facts(second)


SCRIPT = """
import os, sys, time, torch
torch.set_num_threads(1)
from isorep.models import Group, OrthogonalAutoencoder, Recipe, Schedule, reconstruction_loss, train_many
data = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
recipe = Recipe(steps=300, batch=50, groups=Group("orthogonal_adam", 0.02, clip_norm=1.0), schedule=Schedule("cosine"))
def waiting(*_):
    if "WAIT" in os.environ and os.path.exists(path):
        time.sleep(1000)
for path in sys.argv[1:]:
    found = train_many(
        lambda seed: OrthogonalAutoencoder((16, 8, 4, 2), 0.5, seed=seed),
        data, reconstruction_loss, recipe, seeds=[3, 1], checkpoint=path, progress=waiting,
        checkpoint_seconds=0.02 if "WAIT" in os.environ else 1000.0,
    )
    weights = [value.flatten().tolist() for each in found for value in each.module.parameters()]
    print([weights, [each.history.training for each in found]])
"""


def test_a_killed_process_goes_on_to_the_same_numbers(tmp_path):
    path = tmp_path / "state.safetensors"
    command, settings = [sys.executable, "-c", SCRIPT, str(path)], os.environ | {"WAIT": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=settings) as process:
        until(path.exists, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert 0 < _state(path)["step"] < 300
    both = [sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "another.safetensors")]
    done = subprocess.run(both, capture_output=True, text=True, check=True)
    resumed, uninterrupted = done.stdout.splitlines()
    assert resumed == uninterrupted


def _state(path):
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["isorep"])["state"]


@pytest.fixture
def kept(tmp_path):
    """A state from the middle of a training."""
    path = tmp_path / "state.safetensors"
    with pytest.raises(Stopped):
        _run(path, progress=stopped_at(3), checkpoint_seconds=0.0)
    return path


def _run(path, **more):
    settings = {"recipe": Recipe(epochs=5, batch=16), "seeds": [1, 2], "data": DATA} | more
    data, recipe = settings.pop("data"), settings.pop("recipe")
    return train_many(small, data, reconstruction_loss, recipe, batched=True, checkpoint=path, **settings)


def test_a_checkpoint_of_another_training_is_refused(kept):
    before = kept.read_bytes()
    for changed, what in (
        ({"seeds": [1, 3]}, "seeds"),
        ({"recipe": Recipe(epochs=6, batch=16)}, "recipe"),
        ({"data": DATA + 1}, "data"),
        ({"validation": DATA}, "validation"),
    ):
        with pytest.raises(isorep.InputError, match=f"a training with (another )?{what}.*: name another file"):
            _run(kept, **changed)
    assert kept.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", pickle.dumps({"a": 1}), b"\xff" * 64])
def test_files_that_are_no_checkpoints_are_refused(tmp_path, content):
    path = tmp_path / "state.safetensors"
    path.write_bytes(content)
    with pytest.raises(isorep.InputError, match="is not a checkpoint"):
        _run(path)
    assert path.read_bytes() == content


def test_a_truncated_checkpoint_is_refused(kept):
    kept.write_bytes(kept.read_bytes()[:-100])
    with pytest.raises(isorep.InputError, match="is not a checkpoint"):
        _run(kept)


def test_tensors_alone_are_no_checkpoint(tmp_path):
    path = tmp_path / "state.safetensors"
    save_file({"model.0.weight": torch.zeros(2)}, path)
    with pytest.raises(isorep.InputError, match="is not a checkpoint of a training"):
        _run(path)
    save_file({"a": torch.zeros(2)}, path, metadata={"isorep": "[" * 100_000})
    with pytest.raises(isorep.InputError, match="is not a checkpoint"):
        _run(path)


def _dropped(name):
    return lambda state, tensors: tensors.pop(name)


@pytest.mark.parametrize(
    "harm",
    [
        lambda state, tensors: state.update(step=-4),
        lambda state, tensors: state.update(step=10**9),
        lambda state, tensors: state.update(step="4"),
        lambda state, tensors: state.update(alive=[1, 5]),
        lambda state, tensors: state.update(alive=None),
        lambda state, tensors: state.update(logs=[]),
        lambda state, tensors: state["logs"][0].update(training="many"),
        lambda state, tensors: state["logs"][0].update(ended="early"),
        lambda state, tensors: state["logs"][1].pop("waited"),
        lambda state, tensors: state.pop("seconds"),
        _dropped("model.0.weight"),
        _dropped("optimiser.0.weight|exp_avg"),
        lambda state, tensors: tensors.update({"model.0.weight": torch.zeros(2, 3)}),
        lambda state, tensors: tensors.update({"model.0.weight": tensors["model.0.weight"].float()}),
        lambda state, tensors: tensors.update({"model.extra": torch.zeros(2)}),
        lambda state, tensors: tensors.update({"optimiser.0.weight|momentum": torch.zeros(2)}),
        lambda state, tensors: tensors.update({"sum.loss": torch.zeros(9)}),
    ],
)
def test_damaged_states_are_refused(kept, harm):
    from safetensors import safe_open

    with safe_open(kept, "pt") as file:
        said = json.loads(file.metadata()["isorep"])
    tensors = load_file(kept)
    harm(said["state"], tensors)
    save_file(tensors, kept, metadata={"isorep": json.dumps(said)})
    with pytest.raises(isorep.InputError, match=r"is a damaged checkpoint .*: remove it"):
        _run(kept)


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    with pytest.raises(isorep.InputError, match="is not a folder"):
        _run(tmp_path / "no" / "state.safetensors")
    with pytest.raises(isorep.InputError, match="is a folder"):
        _run(Path(tmp_path))
