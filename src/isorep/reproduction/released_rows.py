"""Rows of released pairs: what each model is shown, and the representations that are compared.

Each function gives :class:`Compared` representations one by one: both sides trained, and untrained where the
architecture is known. Speech, atoms and DNA are in ``released_speech`` and ``released_science``.
"""

from __future__ import annotations

import gzip
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.catalogue import find_cifar10, labelled_images
from ..errors import InputError, import_extra
from ..models.corpus import documents_of
from ..models.pair_files import untrained_model
from ..models.released import Released
from ..models.states import batched_outputs
from ..representation import Array
from ..translation import translate
from .experiment import Run
from .outcomes import explained, folds_of, held_out, seeds_from


@dataclass(frozen=True)
class Compared:
    """Two sides row by row, before ``components`` are taken.

    ``label`` is what is compared, ``pair`` are the places of both models in their family, and ``facts`` are further
    measures of this pair.
    """

    label: str
    trained: tuple[Array, Array]
    pair: tuple[int, int] = (0, 1)
    untrained: tuple[Array, Array] | None = None
    groups: Array | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def words(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """The most frequent words that both tables have; they are files of numbers, without an untrained state."""
    parquet = import_extra("pyarrow.parquet", "io", "the words of a parquet file")
    glove, wink = models["glove-50"].opened(folder), models["wink-100"].opened(folder)
    values = np.load(first_file(glove, "*.npy"), mmap_mode="r", allow_pickle=False)
    listed = parquet.read_table(first_file(glove, "*.parquet"))
    texts = next((name for name in listed.column_names if str(listed.schema.field(name).type).endswith("string")), None)
    if texts is None:
        raise InputError(f"{first_file(glove, '*.parquet').name} has no column of words")
    places = {word: place for place, word in enumerate(listed[texts].to_pylist())}
    if len(places) != len(values):
        raise InputError(f"there are {len(places)} words and {len(values)} vectors")
    chosen, vectors = [], []
    for word, vector in wink_vectors(first_file(wink, "*.json")):
        if word in places:
            chosen.append(places[word])
            vectors.append(vector)
        if len(chosen) == run.preset.rows:
            break
    yield Compared("most frequent", (np.asarray(values[chosen], np.float64), np.array(vectors)))


def wink_vectors(path: Path) -> Iterator[tuple[str, list[float]]]:
    """Words and vectors of a table of wink, in their order, read piece by piece: the whole takes gigabytes."""
    decoder, text, width = json.JSONDecoder(), "", 0
    with path.open(encoding="utf-8") as file:
        while '"vectors":' not in text:
            block = file.read(2**20)
            if not block:
                raise InputError(f"{path.name} has no vectors: it is no table of wink")
            text += block
        header, _, text = text.partition('"vectors":')
        found = re.search(r'"dimensions" *: *(\d+)', header)
        width = int(found.group(1)) if found else 0
        text = text.lstrip(" {\n")
        while width:
            try:
                word, end = decoder.raw_decode(text)
                vector, stop = decoder.raw_decode(text, re.compile(r"\s*:\s*").match(text, end).end())  # type: ignore[union-attr]
            except (ValueError, AttributeError):  # the piece ends here
                block = file.read(2**20)
                if not block:
                    return
                text += block
                continue
            yield word, vector[:width]
            text = text[stop:].lstrip(", \n") if stop > 2**19 else re.sub(r"^[, \n]+", "", text[stop:])
            if text.startswith("}"):
                return


def sentences(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """Embeddings of sentences, their tokens one by one, and the tables of input embeddings."""
    import_extra("transformers", "hf", "sentence embeddings")
    homes = [first_file(models[name].opened(folder), "config.json").parent for name in ("minilm", "mpnet")]
    texts = sentences_of(run.preset.text, run.preset.texts)
    sides = {"trained": [_tokens(home, texts, run, None) for home in homes]}
    if run.preset.control:
        seeds = seeds_from(run.seed, 71, count=2)
        sides["untrained"] = [_tokens(home, texts, run, seed) for home, seed in zip(homes, seeds, strict=True)]
    tokens, whole, groups = {}, {}, None
    for when, both in sides.items():
        common = [place for place in range(len(texts)) if len(both[0][place]) == len(both[1][place]) > 2]
        if len(common) < 2:
            raise InputError("the two models cut the sentences into different tokens")
        first, second = (_unit(np.stack([side[place].mean(0) for place in common])) for side in both)
        whole[when] = first, second
        tokens[when] = tuple(np.concatenate([side[place][1:-1] for place in common]) for side in both)
        groups = np.repeat(common, [len(both[0][place]) - 2 for place in common])
    facts = {"translation": translation(*whole["trained"], run)}
    yield Compared("sentences", whole["trained"], untrained=whole.get("untrained"), facts=facts)
    assert groups is not None
    picked = some_rows(len(groups), run)
    chosen = {when: (both[0][picked], both[1][picked]) for when, both in tokens.items()}
    yield Compared("tokens", chosen["trained"], untrained=chosen.get("untrained"), groups=groups[picked])
    yield Compared("input embeddings", _vocabularies(homes, run))


def translation(old: Array, new: Array, run: Run) -> dict[str, Any]:
    """Recall of a store of the old model's vectors after a switch to the new one, on held-out sentences."""
    with warnings.catch_warnings():  # on few rows, which the recall shows
        warnings.simplefilter("ignore")
        found = translate(old, new, at=(1, 10), n_boot=0, random_state=run.seed, progress=run.progress)
    searched = found.retrieval
    told: dict[str, Any] = {"vectors": searched.corpus}
    for name, each in searched.scenarios.items():
        told[name] = {
            "map": each.best,
            "recall": [each.maps[each.best].recall[k] for k in searched.at],
            "untranslated": [each.untranslated.recall[k] for k in searched.at],
        }
    return told | {"chance": [searched.chance[k] for k in searched.at]}


def sentences_of(text: str, count: int) -> list[str]:
    """Lines of the user's file, plain or gzipped, or sentences of the prose of Python's library."""
    if text:
        path = Path(text).expanduser()
        if not path.is_file():
            raise InputError(f"text is {path}, which is no file: name a file with one sentence per line")
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    else:
        prose = " ".join(each.text for each in documents_of("", 400 * count))
        lines = [" ".join(each.split()) for each in re.split(r"(?<=[.!?])\s+", prose)]
    found = list(dict.fromkeys(line for line in lines if 3 <= len(line.split()) <= 40))[:count]
    if len(found) < 2:
        raise InputError("there are fewer than 2 sentences of 3 to 40 words")
    return found


def _tokens(home: Path, texts: list[str], run: Run, seed: int | None) -> list[Array]:
    """States of all tokens of each sentence after the last layer, special tokens at its ends."""
    from ..models import extract

    options: dict[str, Any] = {"model": home} if seed is None else untrained_model(str(home), seed)
    options.pop("pixels", None)
    found = extract(data=texts, layers=-1, pool="token", progress=run.progress, **options)
    values, groups = np.asarray(found[next(iter(found.layers))].values), found.groups
    assert groups is not None
    owners = np.array([int(each) for each in groups])
    return [values[owners == place] for place in range(len(texts))]


def _vocabularies(homes: list[Path], run: Run) -> tuple[Array, Array]:
    """Input embeddings of the tokens that both vocabularies have, without special and unused ones."""
    from safetensors.numpy import load_file

    tables, places = [], []
    for home in homes:
        lines = (home / "vocab.txt").read_text("utf-8").splitlines()
        places.append({token: place for place, token in enumerate(lines) if not re.fullmatch(r"[\[<].+[\]>]", token)})
        stored = load_file(home / "model.safetensors")
        tables.append(next(value for name, value in stored.items() if name.endswith("word_embeddings.weight")))
    shared = sorted(set(places[0]) & set(places[1]), key=lambda token: places[0][token])
    picked = [shared[place] for place in some_rows(len(shared), run)]
    one, other = (
        table[[where[token] for token in picked]].astype(np.float64)
        for table, where in zip(tables, places, strict=True)
    )
    return one, other


def images(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """Penultimate features of photographs, and how far they agree in what the classifier reads and what it does not."""
    from ..models.efficientnet import IMAGENET, load_efficientnet, recognised
    from ..models.evaluation import torch

    preset = run.preset
    data = run.data if find_cifar10(run.data) else None
    drawn = labelled_images(data, 32, preset.images, preset.images, False, run.seed)
    shown = drawn.rows
    names = [name for name in models if name.startswith("efficientnet")]
    files = [first_file(models[name].opened(folder), "*.pth") for name in names]
    seeds = seeds_from(run.seed, 73, count=len(names))
    sides: dict[str, list[Array]] = {}
    right: dict[str, list[float | None]] = {}
    heads = []
    for when in ("trained", "untrained") if preset.control else ("trained",):
        for place, file in enumerate(files):
            network = load_efficientnet(file, seed=None if when == "trained" else seeds[place])
            side = preset.pixels or NATIVE[place]

            def outputs(part: Any, network: Any = network, side: int = side) -> list[Any]:
                larger = torch.nn.functional.interpolate(
                    part.float() / 255, (side, side), mode="bilinear", antialias=False, align_corners=False
                )
                return [network.represent(larger)]

            found = batched_outputs(outputs, shown, 16)[0].astype(np.float64)
            weights, bias = (each.detach().double().numpy() for each in (network._fc.weight, network._fc.bias))
            known = drawn.classes[: len(shown)] if data is not None and len(weights) == IMAGENET else None
            sides.setdefault(when, []).append(found)
            right.setdefault(when, []).append(None if known is None else recognised(found @ weights.T + bias, known))
            if when == "trained":
                heads.append(weights)
            run.progress("images", len(sides[when]), len(files))
    for one, other in pairwise(range(len(names))):
        both = {when: (each[one], each[other]) for when, each in sides.items()}
        facts = {
            "head": {when: head_parts(*pair, heads[other], run) for when, pair in both.items()},
            "recognised": {when: [each[one], each[other]] for when, each in right.items()},
        }
        yield Compared("penultimate layer", both["trained"], (one, other), both.get("untrained"), facts=facts)


NATIVE = (224, 240, 260)
"""Pixels that EfficientNet-Lite 0, 1 and 2 were trained on."""


def head_parts(source: Array, target: Array, head: Array, run: Run) -> dict[str, Any]:
    """Held-out R² of a linear map in the directions that the target's classifier reads, and in all others.

    Only differences of scores matter, so the head's rows are centred. ``shuffled`` are the same with rows of the source
    in random order.
    """
    centred = head - head.mean(0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=True)
    rank = int((sizes > sizes[0] * 1e-6).sum())
    reduced, _ = leading(source, run.preset.components)
    folds = folds_of(len(source), 5, run.seed)
    order = np.random.default_rng([run.seed, 79]).permutation(len(source))
    told: dict[str, Any] = {"classes": len(head), "columns": head.shape[1], "rank": rank}
    around = target - target.mean(0)
    for name, part in (("read", directions[:rank]), ("unread", directions[rank:])):
        seen = around @ part.T
        told[name] = {"variance": float((seen**2).sum() / (around**2).sum()) if len(part) else 0.0}
        for how, rows in (("linear", reduced), ("shuffled", reduced[order])):
            told[name][how] = explained(held_out(rows, seen, folds), seen) if len(part) else None
    return told


def leading(rows: Array, components: int) -> tuple[Array, float]:
    """Scores on the leading principal components where there are more columns, and the share of variance they keep."""
    centred = np.asarray(rows, np.float64) - rows.mean(0)
    if not components or rows.shape[1] <= components:
        return np.asarray(rows, np.float64), 1.0
    values, directions = np.linalg.eigh(centred.T @ centred)
    kept = directions[:, ::-1][:, :components]
    return centred @ kept, float(values[::-1][:components].sum() / values.sum())


def first_file(folder: Path, pattern: str) -> Path:
    """The first file of an unpacked package whose name fits."""
    found = sorted(folder.rglob(pattern))
    if not found:
        raise InputError(f"{folder} has no file {pattern}")
    return found[0]


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def some_rows(count: int, run: Run) -> Array:
    """At most so many rows as are compared, at random, in their order."""
    rng = np.random.default_rng([run.seed, 107])
    return np.sort(rng.permutation(count)[: run.preset.rows])
