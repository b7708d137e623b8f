"""Architectures with ways of their own: positions that start late, segments, padding that leaks, masks at random."""

import json

import numpy as np
import pytest

import isorep
from isorep.models import list_layers

from .conftest import CONTEXT, TEXTS, WORDS, edit_json, save_gpt2, save_tokenizer
from .test_transformers import plain_pass, refused

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXT = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "pad_token_id": 1,
}
IMAGE = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "image_size": 16,
    "patch_size": 4,
}
IMAGES = np.random.default_rng(0).standard_normal((5, 3, 16, 16)).astype(np.float32)
FULL = [text for text in TEXTS if text]


def save(folder, name, *, special=True, tokenizer=True, **options):
    """A model as its class saves it, with weights that are far from linear."""
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, name).config_class(**options)).eval()
    for parameter in model.parameters():
        parameter.data *= 4 if parameter.dim() > 1 else 1
    model.save_pretrained(folder)
    if tokenizer:
        save_tokenizer(folder, special=special)
    return folder


@pytest.mark.parametrize("name", ["RobertaForMaskedLM", "MPNetForMaskedLM"])
def test_positions_that_start_behind_the_padding_id_shorten_the_context(name, tmp_path):
    save(tmp_path, name, **TEXT, max_position_embeddings=CONTEXT + 2)
    found = isorep.extract(tmp_path, FULL, pool="token")
    assert found.settings["context"] == CONTEXT
    wanted = np.concatenate(plain_pass(tmp_path, FULL, -1, special=((2,), (3,))))
    np.testing.assert_allclose(found["hidden_2"].values, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("FNetForMaskedLM", {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "intermediate_size": 16}),
        ("ConvBertForMaskedLM", TEXT | {"embedding_size": 8, "conv_kernel_size": 3, "num_attention_heads": 4}),
    ],
)
def test_where_padding_changes_values_only_documents_of_one_length_share_a_batch(name, options, tmp_path):
    save(tmp_path, name, **options, max_position_embeddings=CONTEXT)
    found = isorep.extract(tmp_path, FULL, pool="token", batch=4)
    assert [note for note in found.caveats if "padding changes layer hidden_2" in note]
    wanted = np.concatenate(plain_pass(tmp_path, FULL, -1, special=((2,), (3,))))
    np.testing.assert_allclose(found["hidden_2"].values, wanted, atol=1e-5)


def test_attention_that_changes_with_length_is_that_of_each_document_alone(tmp_path):
    from transformers import AutoModel, AutoTokenizer

    save(tmp_path, "BigBirdForMaskedLM", **TEXT, max_position_embeddings=64, block_size=4, num_random_blocks=1)
    texts = [" ".join(WORDS[:3]), " ".join(WORDS * 3), " ".join(WORDS * 3)[4:], " ".join(WORDS[:4])]
    found = isorep.extract(tmp_path, texts, pool="token")["hidden_2"].values
    tokenizer, wanted = AutoTokenizer.from_pretrained(tmp_path), []
    for text in texts:
        model = AutoModel.from_pretrained(tmp_path).eval()  # one that has seen a short text keeps to full attention
        with torch.no_grad():
            wanted.append(model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy())
    np.testing.assert_allclose(found, np.concatenate(wanted), atol=1e-5)


def test_segments_that_a_tokenizer_gives_to_its_special_tokens_reach_the_model(tmp_path):
    from tokenizers import Tokenizer, processors
    from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

    save(tmp_path, "XLNetModel", vocab_size=20, d_model=8, n_layer=2, n_head=2, d_inner=16, special=False)
    tokens = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokens.post_processor = processors.TemplateProcessing(
        single="$A:0 [SEP]:0 [CLS]:2", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="[PAD]", model_input_names=names).save_pretrained(
        tmp_path
    )
    model, tokenizer = AutoModel.from_pretrained(tmp_path).eval(), AutoTokenizer.from_pretrained(tmp_path)
    with torch.no_grad():
        given = [tokenizer(text, return_tensors="pt") for text in FULL]
        wanted = np.concatenate([model(**each).last_hidden_state[0].numpy() for each in given])
        without = np.concatenate([model(each["input_ids"]).last_hidden_state[0].numpy() for each in given])
    found = isorep.extract(tmp_path, FULL, pool="token")["hidden_2"].values
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert abs(found - without).max() > 1e-4


def test_a_padding_id_that_the_model_does_not_have_never_reaches_it(tmp_path):
    from transformers import AutoTokenizer

    save_gpt2(tmp_path, 0)
    save_tokenizer(tmp_path)
    plain = isorep.extract(tmp_path, FULL)["hidden_2"].values
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.add_tokens([f"<{number}>" for number in range(9)])
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    assert tokenizer.pad_token_id >= 20
    tokenizer.save_pretrained(tmp_path)
    assert np.array_equal(isorep.extract(tmp_path, FULL)["hidden_2"].values, plain)
    tokens = np.array([[4, 5, 6, 7], [8, 9, -100, -100]])
    found = isorep.extract(tmp_path, tokens, pad=-100)["hidden_2"].values
    np.testing.assert_allclose(found[1:], isorep.extract(tmp_path, tokens[1:, :2])["hidden_2"].values, atol=1e-6)
    refusal = "knows the tokens 0 to 19, and there is a token -100: the tokenizer is not that of the model, or .*--pad"
    with pytest.raises(isorep.InputError, match=refusal):
        isorep.extract(tmp_path, tokens)


def test_a_pooler_without_weights_is_not_read_at_random(tmp_path):
    save(tmp_path, "BertForMaskedLM", **TEXT, max_position_embeddings=CONTEXT)
    assert "the weights have no pooler, which keeps its initial values" in isorep.extract(tmp_path, FULL).caveats
    for options in ({"layers": "pooler"}, {"layers": "pooler.dense"}, {"layers": "output", "key": "pooler_output"}):
        refused(tmp_path, r"have no pooler, so that what pooler\S* gives is random", **options)


def test_a_masked_autoencoder_is_shown_whole_images_with_patches_in_order(tmp_path):
    decoder = {"decoder_hidden_size": 8, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2}
    save(tmp_path, "ViTMAEForPreTraining", tokenizer=False, **IMAGE, **decoder, decoder_intermediate_size=16)
    found = isorep.extract(tmp_path, IMAGES, layers=["hidden_0", "output"], pool="token", batch=2)
    model = transformers.AutoModel.from_pretrained(tmp_path, mask_ratio=0.0).eval()
    with torch.no_grad():
        wanted = model(torch.as_tensor(IMAGES), noise=torch.arange(16.0).expand(5, 16), output_hidden_states=True)
    np.testing.assert_allclose(found["hidden_0"].values, wanted.hidden_states[0].reshape(-1, 8), atol=1e-5)
    np.testing.assert_allclose(found["output"].values, wanted.last_hidden_state.reshape(-1, 8), atol=1e-5)
    assert found.caveats == (f"{tmp_path.name} masks patches at random (75%): masking was switched off",)
    trained = transformers.AutoModel.from_pretrained(tmp_path)
    isorep.extract(trained, IMAGES)
    assert trained.config.mask_ratio == 0.75
    assert not trained._forward_pre_hooks


def test_models_of_two_sides_or_another_kind_of_input_are_refused_with_what_to_do(tmp_path):
    sides = {"text_config": TEXT | {"max_position_embeddings": CONTEXT}, "vision_config": IMAGE, "projection_dim": 8}
    two = save(tmp_path / "two", "CLIPModel", **sides)
    tokens = np.array([[2, 5, 3]])
    for data in (IMAGES, tokens, FULL):
        with pytest.raises(isorep.InputError, match=r"two takes texts and images together: .*vision_model\.save_pretr"):
            isorep.extract(two, data)
    transformers.AutoModel.from_pretrained(two).vision_model.save_pretrained(tmp_path / "side")
    assert isorep.extract(tmp_path / "side", IMAGES)["hidden_2"].shape == (5, 8)
    refused(tmp_path / "side", "holds texts, and side takes pixel_values: images, or an array")
    with pytest.raises(isorep.InputError, match="name the data too: side takes pixel_values"):
        list_layers(tmp_path / "side")
    save_gpt2(tmp_path / "words", 0)
    with pytest.raises(isorep.InputError, match="holds floating-point numbers, and words takes texts or token ids"):
        isorep.extract(tmp_path / "words", IMAGES)
    whole = transformers.T5Model(transformers.T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=16, num_layers=1))
    with pytest.raises(isorep.InputError, match=r"give its encoder, model\.get_encoder\(\)"):
        isorep.extract(whole, tokens)
    encoder = whole.get_encoder()
    with pytest.raises(
        isorep.InputError,
        match=r"'block.0.layer.0.SelfAttention.relative_attention_bias' gives \(3, 3, 8\) for one example",
    ):
        isorep.extract(encoder, tokens, layers="block.0.layer.0.SelfAttention.relative_attention_bias")
    edit_json(tmp_path / "words" / "config.json", model_type="vision-encoder-decoder", encoder={"model_type": "vit"},
              decoder={"model_type": "gpt2"})  # fmt: skip
    refused(
        tmp_path / "words", "AutoModel knows no model for its model_type 'vision-encoder-decoder'; load it in Python"
    )


def test_images_are_prepared_as_a_processor_says(tmp_path):
    pytest.importorskip("PIL.Image")
    save(tmp_path, "ViTModel", tokenizer=False, **IMAGE)
    pictures = np.random.default_rng(0).integers(0, 255, (4, 16, 16, 3), dtype=np.uint8)
    scaled = pictures.transpose(0, 3, 1, 2) / np.float32(255)
    inside = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.2], "size": {"height": 16, "width": 16}}
    mean = np.array([0.5, 0.4, 0.3], np.float32)[:, None, None]
    for name, given, inputs in (
        ("processor_config.json", {"image_processor": inside}, (scaled - mean) / np.float32(0.2)),
        ("preprocessor_config.json", inside | {"do_normalize": False}, scaled),
    ):
        (tmp_path / name).write_text(json.dumps(given))
        found = isorep.extract(tmp_path, pictures)["hidden_2"].values
        np.testing.assert_allclose(found, isorep.extract(tmp_path, inputs)["hidden_2"].values, atol=1e-5)


def test_token_ids_of_a_zarr_store_are_token_ids(tmp_path):
    zarr = pytest.importorskip("zarr")
    save_gpt2(tmp_path / "model", 0)
    tokens = np.array([[4, 5, 6, 1], [7, 8, 1, 1]])
    zarr.open_group(str(tmp_path / "t.zarr"), mode="w").create_array("values", data=tokens)
    wanted = isorep.extract(tmp_path / "model", tokens, pad=1)["hidden_2"].values
    for kind in ("auto", "tokens"):
        found = isorep.extract(tmp_path / "model", tmp_path / "t.zarr", pad=1, input=kind)
        assert np.array_equal(found["hidden_2"].values, wanted)


def test_a_stopped_run_goes_on_with_random_poolers_but_not_with_other_token_ids(tmp_path, monkeypatch):
    from isorep.extraction import run

    def advance(loop, *_):
        loop.journal.commit()
        raise KeyboardInterrupt

    monkeypatch.setattr(run.Loop, "_advance", advance)
    folder = save(tmp_path / "model", "BertForMaskedLM", **TEXT, max_position_embeddings=CONTEXT)
    tokens = np.random.default_rng(0).integers(4, 4 + len(WORDS), (6, 5))
    with pytest.raises(KeyboardInterrupt):
        isorep.extract(folder, tokens, output=tmp_path / "out.npy")
    monkeypatch.undo()
    with pytest.raises(isorep.InputError, match="stopped, with other contents"):
        isorep.extract(folder, tokens[::-1], output=tmp_path / "out.npy")
    assert isorep.extract(folder, tokens, output=tmp_path / "out.npy").resumed
