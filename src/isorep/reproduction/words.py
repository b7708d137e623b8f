"""Word embeddings (Figure 1 of Roeder, Metz and Kingma 2021): two trainings coincide after a linear map.

Log-bilinear models of the prose in Python's standard library, or of the user's own text. Each unit trains all seeds of
one dimension and one estimator. It measures rungs of the ladder for contexts and for words, words by frequency, and
the maps that theory predicts.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..alignment import Linear
from ..datasets.text import Document, standard_library_text, text_digest, text_documents
from ..errors import InputError, MissingFileError
from ..heads import diversity, head_map
from ..representation import Array
from ..similarity import cca
from .experiment import ROEDER, Experiment, Outcome, Plan, Run, Unit, by_scale, scaled
from .outcomes import adam_recipe, every_pair, explained, folds_of, held_out, ladder, seeds_from, threads

ESTIMATORS = {"softmax": "full softmax", "nce": "noise-contrastive"}
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_BLOCK, _EVERY = 500, 10
LEAST = 1000
"""Smallest number of examples to train on."""
_FOLDS = 5
_SHOWN = 300


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    text : str
        A text file or a folder of them; default: the prose of Python's standard library.
    characters : int or None
        Largest number of characters of the text.
    vocabulary : int
        The most frequent words, which are predicted; others are one word of contexts.
    context : int
        Words before the predicted one.
    dimensions : tuple of int
        The first is drawn.
    estimators : tuple of str
        ``softmax`` (the likelihood over the whole vocabulary) or ``nce`` (noise-contrastive, as published). The first
        is run at all dimensions, others at the first dimension.
    noise : int
        Noise words of an example.
    seeds : int
        Trainings of every setting; all pairs are compared.
    steps, batch, learning_rate, schedule
        Settings of Adam.
    contexts : int
        Held-out contexts to measure on, at most.
    bands : tuple of int
        Last ranks of the frequency bands.
    labelled : int
        Words that are written into the figures.
    high : float
        Held-out R² above which two representations count as nearly coinciding.
    threads : int
        Number of torch threads while training; 0 leaves the setting unchanged.
    """

    text: str = ""
    characters: int | None = scaled(450_000, None, None)
    vocabulary: int = scaled(300, 1000, 5000)
    context: int = scaled(3, 3, 5)
    dimensions: tuple[int, ...] = scaled((2, 8), (2, 8, 32), (2, 8, 32, 128))
    estimators: tuple[str, ...] = scaled(("softmax",), ("softmax", "nce"), ("nce", "softmax"))
    noise: int = 25
    seeds: int = scaled(3, 4, 6)
    steps: int = scaled(400, 2000, 60_000)
    batch: int = scaled(256, 512, 512)
    learning_rate: float = scaled(2e-2, 3e-2, 1e-2)
    schedule: str = "cosine"
    contexts: int = scaled(1500, 4000, 10_000)
    bands: tuple[int, ...] = scaled((50, 150, 300), (50, 150, 400, 1000), (100, 300, 1000, 2500, 5000))
    labelled: int = 16
    high: float = scaled(0.8, 0.9, 0.9)
    threads: int = 0


SCALES = by_scale(Preset)


def plan(preset: Preset, data: Path | None) -> Plan:
    """The first estimator at all dimensions, the others at the first."""
    _check(preset)
    settings = [(preset.estimators[0], dimension) for dimension in preset.dimensions]
    settings += [(estimator, preset.dimensions[0]) for estimator in preset.estimators[1:]]
    units = tuple(
        Unit(
            f"{estimator}-dimension-{dimension}",
            f"{ESTIMATORS[estimator]}, {dimension} dimensions",
            {"estimator": estimator, "dimension": dimension},
        )
        for estimator, dimension in settings
    )
    path = Path(preset.text).expanduser() if preset.text else None
    return Plan(units, (path,) if path is not None and path.is_file() else ())


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train all seeds of a setting, and compare every pair."""
    preset: Preset = run.preset
    wanted = unit.arguments
    given = corpus(preset.text, preset.characters, preset.vocabulary, preset.context)
    seeds = seeds_from(run.seed, 59, count=preset.seeds)
    with threads(preset.threads):
        trained = _trained(wanted["estimator"], wanted["dimension"], given, seeds, run)
        outcome: Outcome = {**wanted, "corpus": given.facts, "unigram": given.unigram, "together": trained[0].together}
        outcome |= measure(trained, given, preset, run.seed)
    if wanted["dimension"] == 2:
        outcome["picture"] = picture(trained, given, preset, run.seed)
    return outcome


def _trained(estimator: str, dimension: int, given: Corpus, seeds: list[int], run: Run) -> list[Any]:
    import torch

    from ..models import LogBilinear, noise_contrastive_loss, noise_words, softmax_loss, train_many

    preset: Preset = run.preset
    shares = torch.from_numpy(given.shares.astype(np.float32))
    words = len(given.vocabulary)
    contrastive = estimator == "nce"
    return train_many(
        lambda seed: LogBilinear(words, dimension, preset.context, context_words=words + 2, shares=shares),
        (given.contexts, given.words),
        noise_contrastive_loss(shares, preset.noise) if contrastive else softmax_loss,
        adam_recipe(preset, preset.steps),
        seeds=seeds,
        prepare=noise_words(shares, preset.noise) if contrastive else None,
        checkpoint=None if run.scratch is None else run.scratch / "training.safetensors",
        progress=run.progress,
    )


def _check(preset: Preset) -> None:
    unknown = [estimator for estimator in preset.estimators if estimator not in ESTIMATORS]
    if unknown or not preset.estimators or len(set(preset.estimators)) < len(preset.estimators):
        raise InputError(f"estimators are {' and '.join(ESTIMATORS)}, each once: not {', '.join(preset.estimators)}")
    if not preset.dimensions or min(preset.dimensions) < 1 or len(set(preset.dimensions)) < len(preset.dimensions):
        raise InputError("dimensions are whole numbers of at least 1, each once")
    if preset.seeds < 2:
        raise InputError("seeds is at least 2: pairs are compared")
    if preset.vocabulary < 20 or preset.context < 1 or preset.noise < 1:
        raise InputError("there are at least 20 words in the vocabulary, 1 in a context, and 1 noise word")
    if preset.text and not Path(preset.text).expanduser().exists():
        raise MissingFileError(f"{preset.text} does not exist: name a text file or a folder of text files")


@dataclass(frozen=True, eq=False)
class Corpus:
    """Contexts and next words, as numbers by frequency; one block of 500 words in ten is held out.

    Two numbers follow those of the vocabulary: any other word, and the empty places before a document.
    """

    vocabulary: tuple[str, ...]
    contexts: Array
    words: Array
    test_contexts: Array
    test_words: Array
    test_blocks: Array
    shares: Array
    facts: dict[str, object]

    @property
    def unigram(self) -> float:
        """The held-out loss of the word frequencies alone."""
        return float(-np.log(self.shares[self.test_words]).mean())


@lru_cache(maxsize=2)
def corpus(text: str, characters: int | None, vocabulary: int, context: int) -> Corpus:
    """The examples of a text; the same text gives the same ones."""
    documents = text_documents(text, characters) if text else standard_library_text(characters)
    return examples(documents, vocabulary, context, text or "standard library of Python")


def words_of(text: str) -> list[str]:
    """Runs of letters in lower case, with an apostrophe inside; digits and underscores part words."""
    return _WORD.findall(text.lower())


def examples(documents: list[Document], vocabulary: int, context: int, source: str) -> Corpus:
    """Documents as contexts and next words."""
    texts = [words_of(document.text) for document in documents]
    counts = Counter(word for text in texts for word in text)
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:vocabulary]
    if len(ranked) < vocabulary:
        raise InputError(f"the text has {len(ranked)} different words, fewer than the vocabulary of {vocabulary}")
    numbers = {word: place for place, (word, _) in enumerate(ranked)}
    seen, following, blocks = _windows(texts, numbers, context)
    out = blocks % _EVERY == 0
    if min(int(out.sum()), int((~out).sum())) < LEAST:
        raise InputError(f"the text has {len(following)} words of the vocabulary: too few to train on and to hold out")
    shares = 1.0 + np.bincount(following[~out], minlength=vocabulary)
    total = sum(counts.values())
    facts = {
        "source": source,
        "digest": text_digest(documents),
        "documents": len(documents),
        "characters": sum(len(document.text) for document in documents),
        "words": total,
        "different_words": len(counts),
        "covered": sum(count for _, count in ranked) / total,
        "examples": int((~out).sum()),
        "held_out": int(out.sum()),
        "rarest": ranked[-1][1],
    }
    return Corpus(
        vocabulary=tuple(word for word, _ in ranked),
        contexts=seen[~out],
        words=following[~out],
        test_contexts=seen[out],
        test_words=following[out],
        test_blocks=blocks[out],
        shares=shares / shares.sum(),
        facts=facts,
    )


def _windows(texts: list[list[str]], numbers: dict[str, int], context: int) -> tuple[Array, Array, Array]:
    """All places whose word is in the vocabulary: the words before, the word, and the block of text."""
    other, empty = len(numbers), len(numbers) + 1
    seen, following, blocks = [], [], []
    first = 0
    for text in texts:
        coded = np.array([empty] * context + [numbers.get(word, other) for word in text], dtype=np.int64)
        if len(coded) <= context:
            continue
        window = np.lib.stride_tricks.sliding_window_view(coded, context + 1)
        block = first + np.arange(len(window)) // _BLOCK
        first = int(block[-1]) + 1
        known = window[:, -1] < other
        seen.append(window[known, :-1])
        following.append(window[known, -1])
        blocks.append(block[known])
    if not seen:
        raise InputError("the text holds no words")
    return np.concatenate(seen), np.concatenate(following), np.concatenate(blocks)


@dataclass(frozen=True, eq=False)
class Side:
    """One trained model: f of held-out contexts, the words' vectors g and biases, and its loss there."""

    f: Array
    g: Array
    bias: Array
    loss: float
    trained: Any


def measure(trained: list[Any], given: Corpus, preset: Preset, seed: int) -> dict[str, Any]:
    """All models, and every pair of them."""
    rows = _rows(given, preset, seed)
    sides = [_side(each, given, rows) for each in trained]
    blocks = given.test_blocks[rows]
    return {
        "contexts": len(rows),
        "bands": [list(band) for band in bands(preset)],
        "models": [_model(side, given) for side in sides],
        "pairs": every_pair(sides, lambda source, target: _pair(source, target, blocks, preset, seed)),
    }


def picture(trained: list[Any], given: Corpus, preset: Preset, seed: int) -> dict[str, Any]:
    """The first two models in two dimensions, before and after the linear map; every row by a map without its fold."""
    rows = _rows(given, preset, seed)
    first, second = (_side(each, given, rows) for each in trained[:2])
    folds = folds_of(len(given.vocabulary), _FOLDS, seed)
    x, y = first.g - first.g.mean(0), second.g - second.g.mean(0)
    mapped = held_out(x, y, folds)
    contexts = held_out(first.f, second.f, _block_folds(given.test_blocks[rows]))
    shown = slice(0, _SHOWN)
    return {
        "words": list(given.vocabulary[shown]),
        "labelled": _spread(y[shown], preset.labelled),
        "first": x[shown],
        "second": y[shown],
        "mapped": mapped[shown],
        "contexts": {"first": first.f[shown], "second": second.f[shown], "mapped": contexts[shown]},
    }


def bands(preset: Preset) -> list[tuple[int, int]]:
    """Ranks of words, from the most frequent: the first of a band and the one after its last."""
    ends = [end for end in sorted(set(preset.bands)) if 0 < end < preset.vocabulary]
    return list(pairwise([0, *ends, preset.vocabulary]))


def _rows(given: Corpus, preset: Preset, seed: int) -> Array:
    return np.sort(np.random.default_rng([seed, 61]).permutation(len(given.test_words))[: preset.contexts])


def _side(trained: Any, given: Corpus, rows: Array) -> Side:
    import torch

    from ..models import softmax_loss

    module = trained.module
    contexts, words = (torch.from_numpy(part[rows]) for part in (given.test_contexts, given.test_words))
    with torch.no_grad():
        return Side(
            module.represent(contexts).double().numpy(),
            module.embeddings.double().numpy(),
            module.bias.double().numpy(),
            float(softmax_loss(module, (contexts, words))),
            trained,
        )


def _model(side: Side, given: Corpus) -> dict[str, Any]:
    spans = diversity(side.g, weights=given.shares)
    return {
        "seed": side.trained.seed,
        "loss": side.loss,
        "ended": side.trained.ended,
        "rank": spans.classes.rank,
        "diverse": spans.classes.diverse,
        "condition": spans.classes.condition,
        "weighted_condition": spans.weighted_condition,
    }


def _pair(source: Side, target: Side, blocks: Array, preset: Preset, seed: int) -> dict[str, Any]:
    folds = _block_folds(blocks)
    word_folds = folds_of(len(source.g), _FOLDS, seed)
    x, y = source.g - source.g.mean(0), target.g - target.g.mean(0)
    mapped = held_out(x, y, word_folds)
    rng = np.random.default_rng([seed, 67])
    context_order, word_order = rng.permutation(len(source.f)), rng.permutation(len(x))
    by_heads = head_map(source.g, target.g, source.bias, target.bias).transform(source.f)
    return {
        "f": ladder(source.f, target.f, folds),
        "g": ladder(x, y, word_folds),
        "f_shuffled": explained(held_out(source.f[context_order], target.f, folds), target.f),
        "g_shuffled": explained(held_out(x[word_order], y, word_folds), y),
        "cca": cca(source.f, target.f).value,
        "cca_g": cca(x, y).value,
        "bands": [explained(mapped[start:stop], y[start:stop]) for start, stop in bands(preset)],
        "head": explained(by_heads, target.f),
        "transposed": explained(x @ _transposed(source.f, target.f), y),
    }


def _transposed(source: Array, target: Array) -> Array:
    """The map of words that the map of contexts implies: if f = f' N in rows, equal scores require g' = g N^T.

    The regression of source on target is used, as the inverse of the other one would amplify its noise.
    """
    return np.asarray(Linear().fit(target, source).map_.matrix.T)


def _block_folds(blocks: Array) -> Array:
    """Contexts of the same block of text stay in one fold, as they share words."""
    return np.unique(blocks, return_inverse=True)[1] % _FOLDS


def _spread(points: Array, count: int) -> list[int]:
    """Rows that lie far from each other, the most frequent word first: labels of these do not cover one another."""
    chosen = [0]
    scale = points.std(0)
    scaled = points / np.where(scale > 0, scale, 1.0)
    while len(chosen) < min(count, len(points)):
        away = np.linalg.norm(scaled[:, None] - scaled[chosen][None], axis=2).min(1)
        chosen.append(int(away.argmax()))
    return chosen


TITLE = "Words: embeddings from two trainings"
PAPER = f"{ROEDER}, Figure 1"
EXPERIMENT = Experiment("words", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch",))
