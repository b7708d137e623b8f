"""``isorep.disentangle`` end to end: factors are found, come back, are saved and loaded; wrong calls are refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import isorep
from isorep.cli.commands import app
from isorep.disentangling import load
from isorep.disentangling.page import _tiles

from .conftest import bars, placed

torch = pytest.importorskip("torch")


def test_the_factors_of_simple_images_are_components_that_come_back(found):
    result, images, factors = found
    assert len(result.components) == 3
    assert all(component.comes_back for component in result.components)
    assert result.returned == "All 3 components are reproducible in the other training"
    # Brightness is linear in the pixels: three principal components lose nothing, and no success is told.
    assert result.trainings[0].principal > 0.999
    assert not result.learnt
    assert result.verdict.startswith("No better than principal components: 3 components keep ")
    assert result.verdict.endswith("3 principal components of the pixels 100%. " + result.returned + ".")
    shared = np.abs(np.corrcoef(factors.T, result.transform(images).T)[:3, 3:])
    assert shared.max(1).min() > 0.95
    assert result.trainings[0].lost < 0.1
    assert result.trainings[0].constant < 5
    for words in (
        "All 3 components are reproducible",
        "responds to 3 of 6",
        "latents of all trainings",
        "note: only 300 images",
    ):
        assert words in str(result)


BACK = "All 3 components are reproducible in the other training"
NO_BETTER = "No better than principal components"
NOT_SHOWN = "Not shown to be better than principal components"


def judged(result, *kept):
    """The result with other shares of the held-out variance: kept by components, by PCA, and which is ahead."""
    trainings = tuple(
        replace(each, kept=own, principal=other, ahead=ahead)
        for each, (own, other, ahead) in zip(result.trainings, kept, strict=True)
    )
    return replace(result, trainings=trainings)


@pytest.mark.parametrize(
    ("kept", "begins", "learnt"),
    [
        (((0.9, 0.6, True), (0.8, 0.6, True)), f"{BACK}: 3 components keep 80%", True),
        (((0.9, 0.6, True), (0.8, 0.9, False)), f"{NO_BETTER}: 3 components keep 80%", False),
        (((0.9, 0.95, False), (0.8, 0.6, True)), f"{NO_BETTER}: 3 components keep 90%", False),
        (((0.9, 0.6, True), (0.4, 0.3, True)), "Most of the held-out variance is lost: 3 components keep 40%", False),
        (((0.5, 0.3, True), (0.6, 0.3, True)), f"{BACK}: 3 components keep 50%", True),
        (((-2.0, 0.3, False), (0.6, 0.3, True)), f"{NO_BETTER}: 3 components keep nothing", False),
        (((0.9, 0.6, False), (0.8, 0.6, True)), f"{NOT_SHOWN}: 3 components keep 90%", None),
        (((0.4, 0.3, False), (0.8, 0.6, True)), f"{NOT_SHOWN}: 3 components keep 40%", False),
        (((0.8, 0.6, False), (0.9, 0.95, False)), f"{NO_BETTER}: 3 components keep 90%", False),
        (((0.8, 0.8, False), (0.9, 0.5, True)), f"{NO_BETTER}: 3 components keep 80%", False),
    ],
)  # fmt: skip
def test_the_verdict_says_what_is_kept_beside_principal_components(found, kept, begins, learnt):
    result = judged(found[0], *kept)
    assert result.verdict.startswith(begins)
    assert "of the held-out variance in the worst training, 3 principal components of the pixels" in result.verdict
    assert "All 3 components are reproducible" in result.verdict
    assert result.learnt is learnt
    assert json.loads(result.to_json())["learnt"] is learnt
    tile = {title: (value, said) for title, value, said in _tiles(result, 3)}["held-out variance kept"]
    told = result.verdict.split("keep ")[1].split(" of the")[0].replace("nothing", "0%")
    assert tile[0].replace(" ", "") == told
    assert tile[1].endswith("by as many principal components; worst training")


def test_components_are_drawn(found):
    result, images, _ = found
    again = result.draw(result.transform(images[:10]))
    assert again.shape == (10, 8, 8, 1)
    assert np.abs(again[..., 0] - images[:10]).mean() < 0.1


def test_the_result_is_plain_data(found):
    result, _, _ = found
    plain = json.loads(result.to_json())
    assert plain["schema"] == "isorep.disentangle/1"
    assert plain["data"] == {
        "name": "images",
        "images": 300,
        "trained_on": 270,
        "held_out": 30,
        "channels": 1,
        "height": 8,
        "width": 8,
    }
    assert set(plain["agreement"]["rungs"]) == {"identity", "signed_permutation", "rigid", "linear", "ica"}
    assert len(plain["trainings"]) == 2


def test_what_is_saved_comes_back(found, tmp_path):
    result, images, _ = found
    result.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert np.allclose(loaded.transform(images), result.transform(images))
    assert np.allclose(loaded.draw(np.zeros(3)), result.draw(np.zeros(3)))
    result.save_sheet(tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_bytes() == result.sheet.png
    with pytest.raises(isorep.InputError, match=r"must end in .safetensors"):
        result.save(tmp_path / "model.pt")


@pytest.mark.parametrize(
    "change",
    [
        {"latents": 7},
        {"latents": 10**9},
        {"height": 10**6, "width": 10**6},
        {"channels": 2},
        {"network": "evil"},
        {"network": None},
        {"components": -1},
        {"format": "something else"},
    ],
)
def test_files_that_lie_are_refused(found, tmp_path, change):
    from safetensors import safe_open
    from safetensors.numpy import save_file

    result, _, _ = found
    path = tmp_path / "model.safetensors"
    result.save(path)
    with safe_open(path, "numpy") as file:
        facts = json.loads(file.metadata()["isorep"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(arrays, path, metadata={"isorep": json.dumps(facts | change)})
    with pytest.raises(isorep.InputError, match="is not a model that isorep saved"):
        load(path)


def test_the_same_call_gives_the_same_and_goes_on_from_checkpoints(tmp_path):
    images, _ = bars(80)
    asked = {"latents": 4, "size": 8, "steps": 5, "batch": 16, "n_seeds": 1, "checkpoints": tmp_path / "kept"}
    one, two = isorep.disentangle(images, **asked), isorep.disentangle(images, **asked)
    assert np.array_equal(one.transform(images), two.transform(images))
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["training-0.safetensors"]
    assert one.ensemble is None
    assert "components from a single training" in one.verdict
    assert "in the worst training" not in one.verdict
    assert "raise n_seeds" in str(one)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"latents": 1}, "latents"),
        ({"n_seeds": 0}, "n_seeds"),
        ({"held_out": 1.0}, "held_out is 1.0"),
        ({"held_out": 0.999}, "leaves 0 of 70 images to train on"),
        ({"weight_decay": float("nan")}, "weight_decay is nan"),
        ({"network": "resnet"}, "network is 'resnet'"),
        ({"network": "published"}, "sides are multiples of 16"),
        ({"network": "spatial"}, "sides are multiples of 4 from 16 on, not 8 x 8"),
        ({"size": 3}, "size is 3"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": 2**32}, "from 0 to 4294967295"),
        ({"device": "abacus"}, "device"),
    ],
)
def test_calls_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(isorep.InputError, match=words):
        isorep.disentangle(bars(70)[0], **{"size": 8, "steps": 1} | settings)


def test_the_command(tmp_path):
    np.savez(tmp_path / "bars.npz", images=(255 * bars(80)[0]).astype(np.uint8))
    given = ["disentangle", str(tmp_path / "bars.npz"), "--size", "8", "--steps", "4", "--seeds", "2"]
    given += ["--latents", "4"]
    outputs = {"--json": "a.json", "--html": "a.html", "--model": "a.safetensors", "--sheet": "a.png"}
    for option, name in outputs.items():
        given += [option, str(tmp_path / name)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert "data  bars.npz: 80 images of 8 x 8 x 1, 8 of them held out" in done.output
    assert "verdict:" in done.output
    for name in outputs.values():
        assert (tmp_path / name).stat().st_size > 100, name
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    wrong = CliRunner().invoke(app, [*given[:8], "--sheet", str(tmp_path / "a.jpg")])
    assert "must end in .png" in str(wrong.exception)


@pytest.mark.parametrize("option", ["--model", "--json"])
def test_no_checkpoint_is_replaced_by_an_output(tmp_path, option):
    np.save(tmp_path / "bars.npy", (255 * bars(80)[0]).astype(np.uint8))
    (tmp_path / "kept").mkdir()
    output = tmp_path / "kept" / "training-0.safetensors"
    given = ["disentangle", str(tmp_path / "bars.npy"), "--checkpoints", str(tmp_path / "kept"), option, str(output)]
    done = CliRunner().invoke(app, given)
    assert "is a checkpoint of this command" in str(done.exception)
    assert not output.exists()


def test_images_that_come_first_do_not_decide_what_the_decoder_responds_to():
    """A decoder hardly responds where it saturates, as at the black images that a sorted folder begins with."""
    images = np.concatenate([np.zeros((60, 8, 8)), bars(200)[0]])
    result = isorep.disentangle(images, latents=6, size=8, steps=200, batch=32, n_seeds=1)
    assert len(result.components) == 3


def test_held_out_images_that_are_alike_are_not_judged(tmp_path):
    images, _ = bars(80)
    images[np.random.default_rng(0).permutation(80)[:8]] = 0.5  # as they are drawn for this seed
    result = isorep.disentangle(images, latents=2, size=8, steps=3, n_seeds=2)
    assert np.isnan(result.trainings[0].lost)
    assert "nan" not in str(result)
    assert "could not be tested" in str(result)
    assert result.learnt is None
    assert result.verdict.endswith("the variance they keep is unknown, because the held-out images are all equal.")
    assert json.loads(result.to_json())["trainings"][0]["lost"] is None
    result.to_html(tmp_path / "page.html")
    assert "could not be tested" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_more_images_are_asked_for_where_those_at_hand_were_learnt_by_heart():
    images = np.random.default_rng(0).random((70, 8, 8))
    asked = {"latents": 60, "size": 8, "batch": 32, "n_seeds": 1}
    assert "give more images" in str(isorep.disentangle(images, steps=150, weight_decay=0.0, **asked))
    assert "train longer" in str(isorep.disentangle(images, steps=2, **asked))


def test_a_single_component_is_no_plural():
    images = np.linspace(0, 1, 80)[:, None, None] * np.ones((80, 8, 8))
    result = isorep.disentangle(images, latents=2, size=8, steps=100, n_seeds=2)
    assert result.returned == "The only component is reproducible in the other training"
    assert "1 component keeps" in result.verdict
    assert ", 1 principal component of the pixels " in result.verdict


def test_a_stopped_command_says_where_its_trainings_are(tmp_path, monkeypatch):
    from isorep.cli.common import Interrupted

    def stopped(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(isorep, "disentangle", stopped)
    done = CliRunner().invoke(app, ["disentangle", "images", "--checkpoints", str(tmp_path / "kept")])
    assert isinstance(done.exception, Interrupted)
    assert "kept keeps the trainings" in str(done.exception)


def test_a_spatial_network_learns_where_things_are_and_principal_components_do_not(tmp_path):
    result, images, factors = placed()
    assert result.settings["network"] == "spatial"
    assert (result.settings["weight_decay"], result.settings["learning_rate"]) == (0.01, 3e-3)
    held = np.sort(np.random.default_rng(0).permutation(300)[:30])  # as they are drawn for this seed
    rest = np.setdiff1d(np.arange(300), held)
    found = np.column_stack([result.transform(images), np.ones(300)])
    weights = np.linalg.lstsq(found[rest], factors[rest], rcond=None)[0]
    missed = ((found[held] @ weights - factors[held]) ** 2).sum(0) / ((factors[held] - factors[held].mean(0)) ** 2).sum(
        0
    )
    assert (1 - missed)[:2].min() > 0.9
    first = result.trainings[0]
    assert first.ahead
    assert first.kept > first.principal
    assert result.learnt
    assert result.verdict.startswith(f"{first.directions} components from a single training: ")
    result.save(tmp_path / "model.safetensors")
    assert np.allclose(load(tmp_path / "model.safetensors").transform(images), result.transform(images))


def test_noise_is_learnt_no_better_than_by_principal_components():
    images = np.random.default_rng(0).random((80, 16, 16))
    result = isorep.disentangle(images, latents=4, size=16, steps=60, n_seeds=1)
    assert not result.learnt
    assert result.verdict.startswith("No better than principal components: ")


@pytest.mark.parametrize(("size", "network"), [(16, "spatial"), (8, "dense"), (18, "dense")])
def test_convolutions_are_taken_where_images_are_large_enough(size, network):
    result = isorep.disentangle(bars(70, size)[0], latents=2, size=size, steps=1, n_seeds=1)
    assert result.settings["network"] == network
