"""Tiny language models with a tiny tokenizer, saved to disk as a user has them."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "it", "run", "far", "away", "from", "here"]
CONTEXT = 12
TEXTS = [
    "the cat sat",
    "on a mat and saw it",
    "",
    "run",
    " ".join(WORDS * 2),
    "it sat on the mat and the cat saw it",
]


def save_tokenizer(folder, *, special=False):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: place for place, word in enumerate(["[UNK]", "[PAD]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]").save_pretrained(folder)


def save_gpt2(folder, seed, **options):
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=20, n_positions=CONTEXT, n_embd=8, n_layer=2, n_head=2, bos_token_id=2, eos_token_id=3, **options
    )
    model = GPT2LMHeadModel(config)
    for parameter in model.parameters():
        parameter.data *= 4  # far from linear
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    """Two seeds of one model."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("gpt2")
    for seed in (0, 1):
        save_gpt2(folder / f"seed{seed}", seed)
        save_tokenizer(folder / f"seed{seed}")
    return folder


@pytest.fixture(scope="session")
def neox(tmp_path_factory):
    """Another architecture, whose tokenizer puts special tokens around a text."""
    pytest.importorskip("transformers")
    from transformers import GPTNeoXConfig, GPTNeoXModel

    folder = tmp_path_factory.mktemp("neox")
    torch.manual_seed(0)
    config = GPTNeoXConfig(
        vocab_size=20,
        max_position_embeddings=CONTEXT,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        bos_token_id=2,
        eos_token_id=3,
    )
    GPTNeoXModel(config).save_pretrained(folder)
    save_tokenizer(folder, special=True)
    return folder


def edit_json(path, **entries):
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))
