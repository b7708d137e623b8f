"""GGUF files: rows equal those of the module that was written, and what is damaged or unknown is refused."""

import struct

import numpy as np
import pytest

import isorep
from isorep import InputError
from isorep.extraction.model import open_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WIDTH, LAYERS, WORDS = 32, 2, 40
TOKENS = np.random.default_rng(0).integers(0, WORDS, (5, 7))
NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gguf_name(name):
    """The name that a weight of Qwen 2 has in GGUF files."""
    module, kind = name.rsplit(".", 1)
    if module.startswith("layers."):
        _, layer, part = module.split(".", 2)
        return f"blk.{layer}.{NAMES[part]}.{kind}"
    return f"{NAMES[module]}.{kind}"


def write(path, *, architecture="qwen2", quantised=False, without=()):
    """A small Qwen 2 with random weights, as a module and as a GGUF file."""
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=16, rms_norm_eps=1e-6,
    )  # fmt: skip
    module = transformers.Qwen2Model(config).eval()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(16)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(WORDS)
    for name, value in module.state_dict().items():
        if name not in without:
            kind = gguf.GGMLQuantizationType.Q8_0 if quantised and value.ndim == 2 else gguf.GGMLQuantizationType.F32
            values = value.numpy()
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return module


@pytest.mark.parametrize(("quantised", "tolerance"), [(False, 1e-5), (True, 0.05)])
def test_rows_of_a_gguf_file_equal_those_of_the_module(tmp_path, quantised, tolerance):
    module = write(tmp_path / "small.gguf", quantised=quantised)
    found = isorep.extract(tmp_path / "small.gguf", TOKENS, layers=["layers.0", -1], pool="token")
    with torch.no_grad():
        states = module(torch.from_numpy(TOKENS), output_hidden_states=True).hidden_states
    for name, wanted in zip(found.layers, (states[1], states[-1]), strict=True):
        np.testing.assert_allclose(found[name].values, wanted.flatten(0, 1).numpy(), atol=tolerance)
    notes = " ".join(open_model(tmp_path / "small.gguf").notes)
    assert ("Q8_0" in notes) == quantised
    assert "no tokenizer: give token ids" in notes


def test_settings_beside_a_gguf_file_are_not_read(tmp_path):
    write(tmp_path / "small.gguf")
    (tmp_path / "config.json").write_text('{"model_type": "bert", "auto_map": {"AutoModel": "evil.py"}}')
    (tmp_path / "adapter_config.json").write_text("{}")
    assert type(open_model(tmp_path / "small.gguf").module).__name__ == "Qwen2Model"


def test_damaged_incomplete_and_unknown_files_are_refused(tmp_path):
    write(tmp_path / "small.gguf")
    whole = (tmp_path / "small.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.gguf").write_text("no model at all")
    write(tmp_path / "lacking.gguf", without=["layers.1.mlp.up_proj.weight"])
    write(tmp_path / "unknown.gguf", architecture="rwkv7")
    words = {"cut": "cannot be loaded", "text": "is no GGUF file", "lacking": "lack 1 parameters"}
    for name, why in (words | {"unknown": "rwkv7 is not supported"}).items():
        with pytest.raises(InputError, match=why) as caught:
            open_model(tmp_path / f"{name}.gguf")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("behind", [b"", bytes(2 * 10**6 + 1)])
def test_endless_lists_are_refused_before_they_are_read(tmp_path, behind):
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    entries = len(behind) or 2**60
    text = struct.pack("<Q", 1) + b"a"
    lists = text + struct.pack("<II", 8, 1) + struct.pack("<I", 0) + b"b" + text
    lists += struct.pack("<IIQ", 9, 0, entries) + behind
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + lists)
    with pytest.raises(InputError, match=f"declares {entries + 1} entries of lists"):
        open_model(tmp_path / "a.gguf")
