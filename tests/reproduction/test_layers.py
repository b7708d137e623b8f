"""The layers experiment: end to end through the command, resumed, with model folders, and claims."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.datasets import Document  # noqa: E402
from isorep.models import GPT, BytePairs, next_token_loss, states  # noqa: E402
from isorep.models.corpus import parsed, split, windows_of  # noqa: E402
from isorep.models.gpt import state_jacobians  # noqa: E402
from isorep.reproduction import Run, experiment_named, layers, reproduce, runner  # noqa: E402
from isorep.reproduction.layers import EXPERIMENT, SCALES, Preset, corpus_for, places_of, plan  # noqa: E402
from isorep.reproduction.layers_summary import mean_correlation, summarise  # noqa: E402

TINY = Preset(
    sizes=("8x1",),
    seeds=2,
    heads=2,
    context=8,
    vocabulary=270,
    held_out=5,
    steps=6,
    batch=4,
    warmup=2,
    rows=200,
    components=(2, 8),
    rungs=("rigid", "linear"),
    n_null=2,
    n_boot=0,
    jacobians=2,
)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder of twelve documents in a language of eighty words."""
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdeilnorst"), rng.integers(2, 7))) for _ in range(80)]
    follows = rng.integers(0, 80, (80, 4))
    for name in range(12):
        place, said = int(rng.integers(80)), []
        for _ in range(150):
            place = int(rng.choice(follows[place]))
            said.append(words[place])
        (folder / f"{name:02d}.txt").write_text(" ".join(said))
    return folder


@pytest.fixture(scope="module")
def smoke(tmp_path_factory, text):
    """Folder, output and metrics of ``isorep reproduce layers --scale smoke`` with smaller settings."""
    folder = tmp_path_factory.mktemp("layers")
    call = [
        "reproduce",
        "layers",
        "--scale",
        "smoke",
        "--out",
        str(folder / "run"),
        "--html",
        str(folder / "page.html"),
    ]
    changes = {"text": text, "characters": 10_000, "sizes": "12x3,16x4", "context": 12, "steps": 20, "held_out": 5}
    changes |= {
        "rows": 300,
        "vocabulary": 280,
        "components": "4,12",
        "jacobians": 3,
        "n_null": 2,
        "rungs": "identity,rigid,linear",
    }
    for name, value in changes.items():
        call += ["--set", f"{name}={value}"]
    done = subprocess.run(
        [sys.executable, "-c", "from isorep.cli.main import run; run()", *call],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | {"OMP_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder, done.stdout, json.loads((folder / "run" / "metrics.json").read_text())


def tiny(monkeypatch, tmp_path, text, name="run", **more):
    preset = replace(TINY, text=str(text), **more)
    monkeypatch.setattr(runner, "experiment_named", lambda _: replace(EXPERIMENT, scales={"smoke": preset}))
    return reproduce("layers", scale="smoke", out=tmp_path / name)


def test_a_smoke_run_goes_from_the_command_to_tables_figures_and_page(smoke):
    folder, out, found = smoke
    told = out + (folder / "run" / "table.txt").read_text()
    for words in (
        "SVCCA by layer",
        "12x3 with 16x4",
        "untrained",
        "constant of the rest",
        "verdict: The published effect",
    ):
        assert words in told
    html = (folder / "page.html").read_text()
    for name in ("svcca-12x3", "ladder-16x4", "svcca-12x3-16x4", "constants"):
        assert (folder / "run" / "figures" / f"{name}.svg").exists()
        assert f"{name}-figure" in html
    assert "whisker" in (folder / "run" / "figures" / "svcca-12x3-16x4.svg").read_text(), "means have error bars"
    assert not (folder / "run" / "state").exists()
    assert len(found["units"]) == 4 + 2 + 2


def test_the_outcomes_of_a_smoke_run_are_consistent(smoke):
    units = smoke[2]["units"]
    for key, outcome in units.items():
        if key.startswith("model"):
            assert outcome["constants"][-1]["local"] == 1
            assert len(outcome["constants"]) == len(outcome["initial_constants"]) == int(outcome["size"][-1]) + 1
            assert all(
                each["low"] <= each["local"] <= each["high"] <= each["similarity"] for each in outcome["constants"]
            )
            continue
        for layer in outcome["layers"]:
            ladder = {rung: entry["error"] for rung, entry in layer["ladder"].items()}
            assert ladder["linear"] < ladder["rigid"] < ladder["identity"]
            assert all(0 < entry["chance"] < entry["value"] <= 1 for entry in layer["svcca"].values())
        assert set(outcome["initial"][0]["ladder"]) == {"rigid", "linear"}
    own, across = units["pair-12x3-0.12x3-1"], units["pair-12x3-0.16x4-1"]
    assert [layer["labels"][0] for layer in own["layers"]] == ["last", "block 2", "block 1", "embedding"]
    assert [layer["labels"] for layer in across["layers"]] == [
        ["last"] * 2,
        ["block 2", "block 3"],
        ["block 1", "block 2"],
    ]
    first = smoke[2]["tables"][0]["rows"][0]
    assert first["values"][:4] == pytest.approx([layer["svcca"]["4"]["value"] for layer in own["layers"]], abs=1e-4)


def test_trained_networks_are_kept_for_others(smoke):
    from safetensors.torch import load_file

    folder = smoke[0] / "run" / "models"
    pairs = BytePairs([tuple(pair) for pair in json.loads((folder / "tokens.json").read_text())["merges"]])
    model = GPT(pairs.vocabulary, 12, 3, 4, 12)
    model.load_state_dict(load_file(folder / "12x3-1.safetensors"))
    assert sorted(each.name for each in folder.glob("*.safetensors"))[0] == "12x3-0.safetensors"


def test_an_interrupted_run_goes_on_to_the_same_numbers_and_trains_nothing_twice(monkeypatch, tmp_path, text):
    whole = tiny(monkeypatch, tmp_path, text, "whole")
    from isorep import models

    real, trained = models.train, []

    def counted(*given, **named):
        trained.append(named["seed"])
        if len(trained) == 2:
            named["progress"] = stopped
        return real(*given, **named | {"checkpoint_seconds": 0})

    def stopped(stage, done, total):
        if done >= 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(models, "train", counted)
    with pytest.raises(KeyboardInterrupt):
        tiny(monkeypatch, tmp_path, text, "again")
    assert (tmp_path / "again" / "state" / "model-8x1-1").is_dir()
    again = tiny(monkeypatch, tmp_path, text, "again")
    assert again.outcomes == whole.outcomes
    assert len(trained) == 3, "the first is finished, the second goes on"
    for path in (tmp_path / "again" / "units").iterdir():
        path.unlink()
    monkeypatch.setattr(models, "train", None)
    assert tiny(monkeypatch, tmp_path, text, "again").outcomes == whole.outcomes


def test_weights_of_another_training_are_refused(tmp_path, text):
    preset = replace(TINY, text=str(text), steps=1)
    corpus = corpus_for(preset, 0)
    run = Run(preset, None, 0, folder=tmp_path)
    layers.trained_model("8x1", 0, corpus, run)
    (tmp_path / "models" / "8x1-0.safetensors").rename(tmp_path / "models" / "8x1-1.safetensors")
    with pytest.raises(InputError, match="holds weights of another training"):
        layers.trained_model("8x1", 1, corpus, run)
    (tmp_path / "models" / "8x1-1.safetensors").write_bytes(b"half a file")
    assert layers.trained_model("8x1", 1, corpus, run)[1]["steps"] == 1, "a damaged file is made anew"


def test_with_a_patience_the_held_out_loss_ends_the_training(tmp_path, text):
    preset = replace(TINY, text=str(text), steps=30, learning_rate=0.5, warmup=0)
    corpus = corpus_for(preset, 0)
    assert layers.trained_model("8x1", 0, corpus, Run(preset, None, 0))[1]["ended"] == "done"
    module, facts = layers.trained_model("8x1", 0, corpus, Run(replace(preset, patience=2), None, 0))
    assert facts["ended"] == "early"
    assert facts["steps"] < 30
    with torch.no_grad():
        loss = float(next_token_loss(module, torch.from_numpy(corpus.held_out)))
    assert loss == pytest.approx(facts["held_out_loss"], rel=1e-3), "the weights are those of the least loss"


# Model folders ------------------------------------------------------------------------------------------------------


def made_folder(path: Path, seed: int, layers: int, *, merged: bool = False) -> str:
    """A tiny GPT-2 of the transformers library with a tokenizer of bytes."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as kinds

    letters = {letter: place for place, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = [("e", "s")] if merged else []
    tokenizer = Tokenizer(kinds.BPE(vocab=letters | ({"es": 256} if merged else {}), merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(path)
    torch.manual_seed(seed)
    sizes = {"vocab_size": 257, "n_positions": 16, "n_embd": 12, "n_layer": layers, "n_head": 2}
    model = transformers.GPT2Model(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(path)
    return str(path)


def test_model_folders_are_compared_by_their_own_tokens(monkeypatch, tmp_path, text):
    first, second = made_folder(tmp_path / "a", 0, 2), made_folder(tmp_path / "b", 1, 3)
    found = tiny(monkeypatch, tmp_path, text, models=(first, second), rungs=("linear", "ica"))
    assert list(found.outcomes) == ["model-0", "model-1", "pair-0.1"]
    pair = found.outcomes["pair-0.1"]
    assert [layer["labels"] for layer in pair["layers"]] == [["last"] * 2, ["block 1", "block 2"]]
    assert all(set(layer["ladder"]) == {"linear", "ica"} for layer in pair["layers"])
    assert pair["rows"] <= 200
    assert pair["documents"] > 1
    assert found.summary.tables[-1].rows[0].name == "1: a"

    network, _ = states.folder_network(first, None, 16)
    tokens = np.arange(16).reshape(2, 8)
    module = states.opened(first).module
    with torch.no_grad():
        last = module(torch.from_numpy(tokens)).last_hidden_state.flatten(0, 1)
    found = network.states(tokens, ())
    assert np.allclose(found.at[0], last.numpy(), atol=1e-5)
    assert (found.layers, sorted(found.at)) == (2, [0, 1, 2])
    assert sorted(network.states(tokens, (0, 2, 5)).at) == [0, 2], "only what is asked for is kept"


def test_folders_that_cannot_be_paired_are_refused(monkeypatch, tmp_path, text):
    first, other = made_folder(tmp_path / "a", 0, 1), made_folder(tmp_path / "b", 1, 1, merged=True)
    with pytest.raises(InputError, match="cut text into other tokens"):
        tiny(monkeypatch, tmp_path, text, "one", models=(first, other))
    with pytest.raises(InputError, match="takes 16 tokens at once, and context is 20"):
        tiny(monkeypatch, tmp_path, text, "two", models=(first, other), context=20)
    with pytest.raises(InputError, match="no-such is not a folder"):
        plan(replace(TINY, models=(first, "no-such")), None)
    with pytest.raises(InputError, match="at least two folders"):
        plan(replace(TINY, models=(first,)), None)


def test_a_model_that_looks_ahead_has_no_map_of_one_token(monkeypatch, tmp_path, text):
    transformers = pytest.importorskip("transformers")
    folders = [made_folder(tmp_path / name, 0, 1) for name in "ab"]
    module = states.opened(folders[0]).module.eval()
    window = np.array([[3, 1, 4, 1]])
    assert not states.looks_ahead(lambda tokens: [module(input_ids=tokens).last_hidden_state], window)
    for seed, folder in enumerate(folders):
        torch.manual_seed(seed)
        sizes = {"vocab_size": 257, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = transformers.BertConfig(**sizes, intermediate_size=8, max_position_embeddings=16)
        transformers.BertModel(config).save_pretrained(folder)
    states.opened.cache_clear()
    with pytest.raises(InputError, match="a is no causal model: its states depend on later tokens"):
        tiny(monkeypatch, tmp_path, text, "one", models=tuple(folders))
    found = tiny(monkeypatch, tmp_path, text, "two", models=tuple(folders), jacobians=0, rungs=("linear",))
    assert list(found.outcomes) == ["model-0", "model-1", "pair-0.1"]


# Pieces -------------------------------------------------------------------------------------------------------------


def test_jacobians_by_rows_are_those_of_the_blocks():
    torch.manual_seed(0)
    model = GPT(20, 8, 2, 2, 5)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    tokens = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    by_rows = states.row_jacobians(model.hidden_states, tokens)
    for one, other in zip(by_rows, state_jacobians(model, torch.from_numpy(tokens)), strict=True):
        assert np.allclose(one, other.numpy(), atol=1e-4)


def test_constants_leave_out_the_two_directions_that_the_norm_loses():
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    rest = np.stack([turned @ np.diag([8.0, 4, 2, 1e-9, 0]), np.diag([3.0, 3, 3, 0, 0])])
    before, last = states.constants([rest, np.stack([np.eye(5)] * 2)])
    assert before["local"] == pytest.approx((2 + 1) / 2)
    assert before["similarity"] == pytest.approx(2)
    assert before["constant"] == pytest.approx(8)
    assert last == {"local": 1, "low": 1, "high": 1, "similarity": 1, "constant": 1}


def test_documents_are_held_out_whole_and_the_largest_never():
    documents = [
        Document("all", "x" * 5000),
        *(Document(str(place), "y" * 100) for place in range(9)),
        Document("z", "z"),
    ]
    train, held_out = split(documents, 4, 50, seed=0)
    assert len(train) == 7
    assert {each.name for each in held_out}.isdisjoint({each.name for each in train} | {"all", "z"})
    assert split(documents, 4, 50, seed=0)[1] == held_out
    with pytest.raises(InputError, match="9 documents cannot be held out"):
        split(documents, 9, 50, seed=0)


def test_windows_are_spread_and_do_not_overlap():
    assert windows_of(np.arange(11), 2, 3).tolist() == [[0, 1], [4, 5], [8, 9]]
    assert windows_of(np.arange(3), 4, 3).shape == (0, 4)


def test_embeddings_are_compared_with_embeddings_alone():
    assert places_of(TINY, (2, 2)) == [0, 1, 2]
    assert places_of(TINY, (2, 4)) == [0, 1]
    assert places_of(replace(TINY, places=(0, 2, 5)), (6, 3)) == [0, 2]


def test_sizes_and_seeds_that_make_no_pairs_are_refused():
    assert parsed("64x4") == (64, 4)
    with pytest.raises(InputError, match="'64' is not a size such as 64x4"):
        plan(replace(TINY, sizes=("64",)), None)
    with pytest.raises(InputError, match="width of 9x1 does not divide into 2 heads"):
        plan(replace(TINY, sizes=("9x1",)), None)
    with pytest.raises(InputError, match="rungs affine: choose from"):
        plan(replace(TINY, rungs=("affine",)), None)
    with pytest.raises(InputError, match="at least 2 seeds"):
        plan(replace(TINY, seeds=1), None)
    assert len(plan(SCALES["laptop"], None).units) == 8 + 2 * 6 + 4
    assert experiment_named("layers") is EXPERIMENT
    assert layers.seed_of(0, 0) != layers.seed_of(0, 1)


# Claims -------------------------------------------------------------------------------------------------------------

FALLING = (0.9, 0.8, 0.7, 0.6, 0.95)
CONSTANTS = (9.0, 4.0, 3.0, 2.0, 1.0)
REST, CONTROL = "the rigid error of a layer grows", "training"


def constructed(svcca, errors=(0.1, 0.2, 0.3, 0.4, 0.5), *, pairs=4, group="8x4", before=None, constants=CONSTANTS):
    """Outcomes of networks with four blocks; values are from the last layer to the embedding, constants reversed."""
    rng = np.random.default_rng(0)
    sizes = {"size": "8x4", "parameters": 10}
    outcomes = {
        f"model-{place}": {**sizes, "place": place, "constants": constants and [{"local": each} for each in constants]}
        for place in range(2)
    }
    labels = ["last", "block 3", "block 2", "block 1", "embedding"]
    for pair in range(pairs):
        outcome = {"pair": [{"size": "8x4", "place": place} for place in range(2)], "group": group}
        for when, values in (("layers", svcca), ("initial", before or ())):
            outcome[when] = [
                {
                    "place": place,
                    "labels": [labels[place]] * 2,
                    "svcca": {"2": {"value": value + 0.001 * rng.normal()}, "8": {"value": 0.5 * value}},
                    "ladder": {rung: {"error": errors[place], "chance": 1.0} for rung in ("rigid", "linear")},
                }
                for place, value in enumerate(values)
            ]
        outcomes[f"pair-{pair}"] = outcome
    return outcomes


def judged(outcomes, words):
    return next(each.holds for each in summarise(TINY, outcomes).claims if each.text.startswith(words))


def test_the_last_layer_is_the_most_similar_where_it_is_in_every_case():
    found = summarise(TINY, constructed(FALLING))
    assert found.reached is True, "the embedding does not count"
    assert found.verdict.startswith("The published effect is seen. Published: the last layer is the most similar one")
    assert summarise(TINY, constructed((0.6, 0.7, 0.8, 0.9, 0.5))).reached is False
    mixed = constructed(FALLING)
    for key in ("pair-0", "pair-1", "pair-2", "pair-3"):
        mixed[key]["layers"][0]["svcca"]["8"]["value"] = 0.1
    found = summarise(TINY, mixed)
    assert (found.reached, "8x4, 8 components" in found.claims[0].measure) == (False, True)
    assert summarise(TINY, constructed((0.8, 0.8, 0.7, 0.6, 0.5))).reached is not True, "a tie is not the most similar"
    assert summarise(TINY, constructed(FALLING, pairs=1)).reached is None, "one pair has no error"


def test_pairs_of_two_sizes_have_a_claim_of_their_own():
    assert not any(each.text.endswith("as published") for each in summarise(TINY, constructed(FALLING)).claims)
    for svcca, answer in ((FALLING, True), ((0.6, 0.7, 0.8, 0.9, 0.5), False)):
        claim = summarise(TINY, constructed(svcca, group="8x4 with 12x4")).claims[1]
        assert (claim.text.endswith("as published"), claim.holds) == (True, answer)
    assert summarise(TINY, constructed(FALLING, group="8x4 with 12x4", pairs=1)).claims[1].holds is None


def test_training_makes_last_layers_more_similar_or_not():
    for before, answer in ((0.2, True), (0.95, False)):
        assert judged(constructed(FALLING, before=[before] * 5), CONTROL) is answer
    assert judged(constructed(FALLING, before=[0.2] * 5, pairs=1), CONTROL) is None


def test_errors_follow_the_constant_of_what_remains_or_go_against_it():
    assert judged(constructed(FALLING), REST) is True
    assert judged(constructed(FALLING, errors=(0.5, 0.4, 0.3, 0.2, 0.1)), REST) is False
    assert judged(constructed(FALLING, pairs=2), REST) is None, "two pairs have no interval"
    assert len(summarise(TINY, constructed(FALLING, constants=None)).claims) == 1, "jacobians=0"


def test_within_a_layer_the_depth_does_not_count():
    for sign, answer in ((1, True), (-1, False)):
        outcomes = constructed(FALLING)
        for pair in range(4):
            outcomes[f"model-{pair + 2}"] = {
                "size": "8x4",
                "parameters": 10,
                "place": pair + 2,
                "constants": [{"local": each + pair} for each in CONSTANTS],
            }
            outcomes[f"pair-{pair}"]["pair"] = [{"size": "8x4", "place": pair + 2}] * 2
            for layer in outcomes[f"pair-{pair}"]["layers"]:
                layer["ladder"]["rigid"]["error"] += sign * 0.01 * pair
        assert judged(outcomes, "the same within") is answer
    few = {key: value for key, value in outcomes.items() if key not in ("pair-2", "pair-3")}
    assert not any(each.text.startswith("the same within") for each in summarise(TINY, few).claims), "two pairs"


def test_nothing_measured_has_no_claims_and_unknown_layers_no_numbers():
    nothing = summarise(TINY, {})
    assert (nothing.verdict, nothing.reached, nothing.tables) == ("Nothing was measured.", None, ())
    short = constructed(FALLING)
    for key in ("pair-0", "pair-1", "pair-2", "pair-3"):
        short[key]["layers"] = short[key]["layers"][:1]
    found = summarise(TINY, short)
    assert (found.reached, "unknown" in found.verdict) == (None, True), "no other layer"


def test_correlations_over_layers_are_averaged_over_pairs():
    layers = np.arange(4.0)
    up, down = (layers, layers**3), (layers, -layers)
    assert mean_correlation([up, up, up]).interval.low == pytest.approx(1)
    found = mean_correlation([up, up, down, up])
    assert found.mean == pytest.approx(0.5)
    assert found.interval.low < 0.5 < found.interval.high
    assert mean_correlation([up, down]).interval is None
    assert mean_correlation([(layers[:3], layers[:3])]).mean is None, "three layers are too few"
    assert mean_correlation([(np.ones(4), layers)]).mean is None
