"""Extracting all hidden states of a small GPT-2, beside the loop one would write by hand.

    python benchmarks/extract.py               # 2,000 texts, about 100,000 tokens; a minute on one core
    python benchmarks/extract.py --texts 500 --formats npy

The model has random weights and is built here, so nothing is downloaded. The loop pads batches of 64 texts, in the
order of the input or sorted by length, keeps all rows in memory and saves them at the end. isorep streams them. Every
way runs in a process of its own with one thread, and times are its CPU seconds, so that other work on the machine
counts little. Nothing is asserted. Results go to benchmarks/results/extract.json too.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import apart, keep, machine, show

RESULTS = Path(__file__).parent / "results" / "extract.json"
LAYERS, WIDTH, WORDS, BATCH = 4, 128, 1000, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--formats", nargs="*", default=["npy", "parquet", "zarr"], help="that isorep writes")
    chosen = parser.parse_args()
    count = chosen.texts
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokens = apart(prepare, folder, count)
        print(f"{LAYERS} layers of {WIDTH}, {count} texts, {tokens} tokens, {LAYERS + 1} hidden states, one thread\n")
        results: dict[str, Any] = {"texts": count, "tokens": tokens}
        results["in order"] = apart(by_hand, folder, count, False)
        tell("by hand, in the order of the input", results["in order"])
        results["sorted"] = best = apart(by_hand, folder, count, True)
        tell("by hand, sorted by length", best)
        for kind in chosen.formats:
            results[kind] = found = apart(extracted, folder, count, kind)
            tell(f"isorep, {kind}", found, f"{found['seconds'] / best['seconds']:.2f} times the sorted loop")
    keep(RESULTS, machine() | {"load": os.getloadavg()[0]} | results)
    print(f"\nwritten to {RESULTS}; load {os.getloadavg()[0]:.1f} at the end: above 1 is other work")


def tell(name: str, found: dict[str, float], remark: str = "") -> None:
    show(name, found["seconds"], f"{found['memory']:.0f} MiB above the start  {remark}")


def prepare(folder: Path, count: int) -> int:
    """A model, its tokenizer and texts."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2Model, PreTrainedTokenizerFast

    words = {word: place for place, word in enumerate(["[UNK]", "[PAD]", *(f"w{i}" for i in range(WORDS))])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(words), n_positions=256, n_embd=WIDTH, n_layer=LAYERS, n_head=4, bos_token_id=2, eos_token_id=3
    )
    GPT2Model(config).save_pretrained(folder / "model")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]").save_pretrained(
        folder / "model"
    )
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 100, count)
    lines = [" ".join(f"w{i}" for i in rng.integers(0, WORDS, length)) for length in lengths]
    (folder / "texts.txt").write_text("\n".join(lines))
    return int(lengths.sum())


def by_hand(folder: Path, count: int, by_length: bool) -> dict[str, float]:
    import torch
    from transformers import AutoTokenizer, GPT2Model

    model = GPT2Model.from_pretrained(folder / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    texts = (folder / "texts.txt").read_text().splitlines()
    before = peak()
    began = time.process_time()
    order = sorted(range(count), key=lambda i: -len(texts[i])) if by_length else list(range(count))
    kept: list[Any] = [None] * count
    with torch.inference_mode():
        for start in range(0, count, BATCH):
            part = order[start : start + BATCH]
            batch = tokenizer([texts[i] for i in part], return_tensors="pt", padding=True)
            states = model(**batch, output_hidden_states=True, use_cache=False).hidden_states
            for row, place in enumerate(part):
                real = int(batch["attention_mask"][row].sum())
                kept[place] = [state[row, :real].numpy().copy() for state in states]
    for layer in range(LAYERS + 1):
        np.save(folder / f"by_hand_{layer}.npy", np.concatenate([states[layer] for states in kept]))
    return {"seconds": time.process_time() - began, "memory": peak() - before}


def extracted(folder: Path, count: int, kind: str) -> dict[str, float]:
    from isorep import extract, read

    extract(str(folder / "model"), ["w1 w2"], layers=[0], pool="token")  # what is loaded once
    before = peak()
    began = time.process_time()
    layers = list(range(LAYERS + 1))
    out = folder / kind
    extract(
        str(folder / "model"), str(folder / "texts.txt"), layers=layers, pool="token", output=f"{out}/", format=kind
    )
    found = {"seconds": time.process_time() - began, "memory": peak() - before}
    own, hand = read(out / f"hidden_{LAYERS}.{kind}").values, np.load(folder / f"by_hand_{LAYERS}.npy")
    return found | {"difference": float(np.abs(np.asarray(own) - hand).max())}


def peak() -> float:
    """The most memory this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
