"""Model folders: rows equal those of a plain forward pass, document by document; what is hostile is refused."""

import json
import pickle
import shutil

import numpy as np
import pytest

import isorep

from .conftest import CONTEXT, TEXTS, edit_json, save_tokenizer

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def plain_pass(folder, texts, layer, special=((), ())):
    """Each window on its own, without padding: a list of (tokens, width) arrays a document."""
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    before, after = special
    room = CONTEXT - len(before) - len(after)
    found = []
    for text in texts:
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        parts = []
        for start in range(0, len(tokens), room):
            window = torch.tensor([[*before, *tokens[start : start + room], *after]])
            with torch.no_grad():
                parts.append(model(window, output_hidden_states=True).hidden_states[layer][0].numpy())
        found.append(np.concatenate(parts) if parts else np.empty((0, 8)))
    return found


@pytest.fixture(scope="module")
def wanted(gpt2):
    return {layer: plain_pass(gpt2 / "seed0", TEXTS, layer) for layer in (0, 1, 2)}


def test_token_rows_equal_a_plain_pass_and_no_padding_or_empty_document_is_a_row(gpt2, wanted, tmp_path):
    found = isorep.extract(gpt2 / "seed0", TEXTS, layers=[0, "h.0", -1], pool="token", output=tmp_path / "out")
    assert list(found.layers) == ["hidden_0", "h.0", "hidden_2"]
    for name, layer in (("hidden_0", 0), ("h.0", 1), ("hidden_2", 2)):
        np.testing.assert_allclose(found[name].values, np.concatenate(wanted[layer]), atol=1e-5)
    lengths = [len(rows) for rows in wanted[0]]
    assert found["h.0"].ids.tolist() == [f"{place}:{at}" for place, n in enumerate(lengths) for at in range(n)]
    assert found.groups.tolist() == [place for place, n in enumerate(lengths) for _ in range(n)]
    assert (found.data.examples, found.data.empty, found.data.cut) == (6, 1, 1)
    assert not list(tmp_path.glob("*/.*"))


@pytest.mark.parametrize("pool", ["mean", "max", "first", "last"])
def test_pooled_rows_are_those_of_all_windows_of_a_document(gpt2, wanted, pool):
    found = isorep.extract(gpt2 / "seed0", TEXTS, layers=-1, pool=pool, batch=2)
    reduce = {
        "mean": lambda rows: rows.mean(axis=0),
        "max": lambda rows: rows.max(axis=0),
        "first": lambda rows: rows[0],
        "last": lambda rows: rows[-1],
    }[pool]
    np.testing.assert_allclose(found["hidden_2"].values, [reduce(rows) for rows in wanted[2] if len(rows)], atol=1e-5)
    assert found["hidden_2"].ids.tolist() == [0, 1, 3, 4, 5]
    assert found.groups is None


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_weights_of_half_precision_are_computed_with_in_single_precision(neox, tmp_path, kind):
    from transformers import AutoModel

    half = AutoModel.from_pretrained(neox).to(getattr(torch, kind))
    half.save_pretrained(tmp_path / "half")
    half.float().save_pretrained(tmp_path / "single")  # the same numbers
    for folder in ("half", "single"):
        save_tokenizer(tmp_path / folder, special=True)
    single = isorep.extract(tmp_path / "single", TEXTS, layers=-1)
    found = isorep.extract(tmp_path / "half", TEXTS, layers=-1)
    np.testing.assert_array_equal(found["hidden_2"].values, single["hidden_2"].values)
    assert [note for note in found.caveats if f"stored as {kind}" in note]
    assert not [note for note in single.caveats if "stored as" in note]
    stored = isorep.extract(tmp_path / "half", TEXTS, layers=-1, compute="stored")
    assert stored.settings["compute"] == "stored"
    assert 1e-5 < abs(stored["hidden_2"].values - single["hidden_2"].values).max() < 0.1
    with pytest.raises(isorep.InputError, match="compute is 'half': choose from float32, stored"):
        isorep.extract(tmp_path / "half", TEXTS, compute="half")


def test_special_tokens_go_around_every_window_and_may_be_left_out(neox):
    texts = [text for text in TEXTS if text]
    whole = plain_pass(neox, texts, -1, special=((2,), (3,)))
    with_special = isorep.extract(neox, texts, layers=["hidden_2"], pool="token")
    np.testing.assert_allclose(with_special["hidden_2"].values, np.concatenate(whole), atol=1e-6)
    without = isorep.extract(neox, texts, layers=-1, pool="token", special=False)
    kept = [np.delete(rows, [i for i in range(len(rows)) if i % CONTEXT in (0, CONTEXT - 1)] + [len(rows) - 1], axis=0)
            for rows in whole]  # fmt: skip
    np.testing.assert_allclose(without["hidden_2"].values, np.concatenate(kept), atol=1e-6)
    short = isorep.extract(neox, texts, pool="token", truncate=True)
    assert len(short["hidden_2"]) == sum(min(len(rows), CONTEXT) for rows in whole)


def test_token_ids_are_taken_without_further_special_tokens(neox):
    tokens = np.array([[2, 5, 6, 7, 3], [2, 8, 9, 3, 1]])
    found = isorep.extract(neox, tokens, pool="token", pad=1)
    (wanted,) = plain_pass(neox, ["cat sat on"], -1, special=((2,), (3,)))
    assert found["hidden_2"].ids.tolist() == [
        *(f"0:{place}" for place in range(5)),
        *(f"1:{place}" for place in range(4)),
    ]
    np.testing.assert_allclose(found["hidden_2"].values[:5], wanted, atol=1e-6)


def test_token_ids_give_the_same_rows_as_their_text(gpt2, wanted, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gpt2 / "seed0")
    tokens = np.full((len(TEXTS), 40), 1)
    for row, text in enumerate(TEXTS):
        ids = tokenizer(text)["input_ids"]
        tokens[row, : len(ids)] = ids
    np.save(tmp_path / "tokens.npy", tokens)
    found = isorep.extract(gpt2 / "seed0", tmp_path / "tokens.npy", layers=2, pool="token", pad=1)
    np.testing.assert_allclose(found["hidden_2"].values, np.concatenate(wanted[2]), atol=1e-5)


def test_a_model_in_memory_is_left_as_it_was(gpt2, wanted):
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(gpt2 / "seed0").train()
    model.h[0].eval()
    tokenizer = AutoTokenizer.from_pretrained(gpt2 / "seed0")
    found = isorep.extract(model, TEXTS, layers="h.1.mlp, -1", pool="token", tokenizer=tokenizer)
    np.testing.assert_allclose(found["hidden_2"].values, np.concatenate(wanted[2]), atol=1e-5)
    assert model.training
    assert not model.h[0].training
    assert model.config.use_cache
    assert not model.h[1].mlp._forward_hooks
    with pytest.raises(isorep.InputError, match="no tokenizer: give token ids"):
        isorep.extract(model, TEXTS)


def test_one_document_in_every_kind_of_file_gives_the_same_row(gpt2, tmp_path):
    import pyarrow
    import pyarrow.parquet

    (tmp_path / "a.txt").write_text(TEXTS[1] + "\n")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "b.txt").write_text(TEXTS[1])
    (tmp_path / "c.jsonl").write_text(json.dumps({"id": "c", "body": TEXTS[1], "author": "x"}) + "\n\n")
    pyarrow.parquet.write_table(pyarrow.table({"text": [TEXTS[1]], "id": ["d"]}), tmp_path / "d.parquet")
    places = [
        ("a.txt", {}, [0]),
        ("texts", {}, ["b.txt"]),
        ("c.jsonl", {"text_field": "body", "group_field": "author"}, ["c"]),
        ("d.parquet", {}, ["d"]),
    ]
    rows = []
    for name, options, ids in places:
        found = isorep.extract(gpt2 / "seed0", tmp_path / name, **options)
        assert found["hidden_2"].ids.tolist() == ids
        rows.append(found["hidden_2"].values[:])
        assert (found.groups is None) == (name != "c.jsonl")
    assert all(np.array_equal(rows[0], other) for other in rows[1:])
    with pytest.raises(isorep.InputError, match=r"line 1 has no text 'text'"):
        isorep.extract(gpt2 / "seed0", tmp_path / "c.jsonl")
    (tmp_path / "c.jsonl").write_text('{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}\n')
    with pytest.raises(isorep.InputError, match="document 1 has the id '1', as an earlier one has"):
        isorep.extract(gpt2 / "seed0", tmp_path / "c.jsonl", limit=5)
    (tmp_path / "a.txt").write_text("\n \n")
    with pytest.raises(isorep.InputError, match=r"all examples of a\.txt are empty"):
        isorep.extract(gpt2 / "seed0", tmp_path / "a.txt")


@pytest.fixture
def copy(gpt2, tmp_path):
    return shutil.copytree(gpt2 / "seed0", tmp_path / "model")


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def refused(folder, match, **options):
    with pytest.raises(isorep.InputError, match=match) as caught:
        isorep.extract(folder, ["a"], **options)
    assert "\n" not in str(caught.value)


def test_folders_without_what_they_need_are_refused(copy):
    refused(copy, r"takes 12 tokens at once", context=13)
    refused(copy, "there is no layer 3: hidden states are numbered 0 to 2, or -3 to -1", layers=3)
    refused(copy, r"there is no layer 'h\.5'; near are h\.[01]", layers="h.5")
    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[:100])
    refused(copy, "cannot be loaded")
    (copy / "model.safetensors").unlink()
    refused(copy, "holds no weights")
    (copy / "config.json").write_text("[]")
    refused(copy, "holds no JSON object")
    (copy / "config.json").unlink()
    refused(copy, r"no config\.json")


def test_weights_that_do_not_cover_the_model_are_refused_and_not_drawn_at_random(copy):
    edit_json(copy / "config.json", n_layer=3)
    refused(copy, r"lack \d+ parameters .* such as h\.2")


@pytest.mark.parametrize(
    ("file", "entries", "match"),
    [
        ("config.json", {"auto_map": {"AutoModel": "evil.Evil"}}, "asks to run code of its own"),
        ("config.json", {"text_config": {"auto_map": {"AutoModel": "evil.Evil"}}}, "asks to run code of its own"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}}, "asks to run code of its own"),
        ("config.json", {"_attn_implementation": "someone/kernel"}, "asks for a kernel from elsewhere"),
        ("config.json", {"model_type": "nonsense"}, "cannot be loaded"),
    ],
)
def test_no_code_of_a_folder_is_run(copy, file, entries, match):
    (copy / "evil.py").write_text("raise SystemExit('run')")
    edit_json(copy / file, **entries)
    refused(copy, match)


def test_links_out_of_a_folder_are_not_followed_but_those_of_a_cache_are(copy, tmp_path):
    cache = tmp_path / "hub" / "snapshots" / "abc"
    shutil.copytree(copy, cache)
    (tmp_path / "hub" / "blobs").mkdir()
    (cache / "model.safetensors").rename(tmp_path / "hub" / "blobs" / "f00")
    (cache / "model.safetensors").symlink_to("../../blobs/f00")
    assert len(isorep.extract(cache, ["cat"])["hidden_2"]) == 1
    (tmp_path / "secret").write_text("{}")
    (copy / "vocab.json").symlink_to(tmp_path / "secret")
    refused(copy, "link out of the model's folder")


def test_an_index_may_name_files_of_its_folder_only(copy):
    (copy / "model.safetensors").rename(copy / "a.safetensors")
    for name, match in (("../a.safetensors", "no .safetensors file of this"), ("b.safetensors", "is missing")):
        (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": name}}))
        refused(copy, match)


def test_pickled_weights_are_read_only_when_allowed_and_only_as_tensors(copy, gpt2, tmp_path):
    from safetensors.torch import load_file

    tensors = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save(tensors, copy / "pytorch_model.bin")
    refused(copy, "weights as a pickle")
    found = isorep.extract(copy, TEXTS[:2], allow_torch_weights=True)
    safe = isorep.extract(gpt2 / "seed0", TEXTS[:2])
    assert np.array_equal(found["hidden_2"].values, safe["hidden_2"].values)
    for save in (torch.save, lambda thing, path: path.write_bytes(pickle.dumps(thing))):
        save({"wte.weight": Canary(tmp_path / "canary")}, copy / "pytorch_model.bin")
        refused(copy, "cannot be loaded|not an archive", allow_torch_weights=True)
    assert not (tmp_path / "canary").exists()


def test_a_tokenizer_that_is_damaged_is_refused(copy):
    (copy / "tokenizer.json").write_text("{}")
    refused(copy, "the tokenizer of .* cannot be loaded")
    save_tokenizer(copy)


@pytest.mark.parametrize("alone", [True, False])
def test_an_encoder_is_taken_with_or_without_its_decoder(alone, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=20, d_model=8, d_kv=4, d_ff=16, num_layers=2, num_heads=2, pad_token_id=1, decoder_start_token_id=1
    )
    model = (transformers.T5EncoderModel if alone else transformers.T5Model)(config).eval()
    model.save_pretrained(tmp_path)
    tokens = np.array([[4, 5, 6, 7], [8, 9, 1, 1]])
    found = isorep.extract(tmp_path, tokens, pool="token", pad=1)
    with torch.no_grad():
        wanted = [model.get_encoder()(torch.as_tensor([row]))[0][0].numpy() for row in ([4, 5, 6, 7], [8, 9])]
    np.testing.assert_allclose(found["hidden_2"].values, np.concatenate(wanted), atol=1e-5)
    assert found.caveats == ("only the encoder of an encoder-decoder model is used",)


def test_an_encoder_that_lacks_weights_of_its_own_is_refused(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    transformers.T5EncoderModel(config).save_pretrained(tmp_path)
    edit_json(tmp_path / "config.json", num_layers=2)
    refused(tmp_path, r"lack \d+ parameters .* such as encoder\.block\.1")
