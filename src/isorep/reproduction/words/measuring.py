"""What is measured of trained word models: rungs for contexts and for words, by frequency, and what theory predicts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...alignment import Linear
from ...heads import diversity, head_map
from ...representation import Array
from ...similarity import cca
from ..pairs import all_pairs, explained, folds_of, held_out, ladder
from .material import Corpus
from .presets import Preset

_FOLDS = 5
_SHOWN = 300


@dataclass(frozen=True, eq=False)
class Side:
    """One trained model: f of held-out contexts, the words' vectors g and biases, and its loss there."""

    f: Array
    g: Array
    bias: Array
    loss: float
    found: Any


def measure(trained: list[Any], given: Corpus, preset: Preset, seed: int) -> dict[str, Any]:
    """All models, and every pair of them."""
    rows = _rows(given, preset, seed)
    sides = [_side(each, given, rows) for each in trained]
    blocks = given.test_blocks[rows]
    return {
        "contexts": len(rows),
        "bands": [list(band) for band in bands(preset)],
        "models": [_model(side, given) for side in sides],
        "pairs": [
            {"first": i, "second": j} | _pair(sides[i], sides[j], blocks, preset, seed)
            for i, j in all_pairs(len(sides))
        ],
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
    edges = [0, *ends, preset.vocabulary]
    return list(pairwise(edges))


def _rows(given: Corpus, preset: Preset, seed: int) -> Array:
    chosen = np.random.default_rng([seed, 61]).permutation(len(given.test_words))[: preset.contexts]
    return np.sort(chosen)


def _side(trained: Any, given: Corpus, rows: Array) -> Side:
    import torch

    from ...models import softmax_loss

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
    found = diversity(side.g, weights=given.shares)
    return {
        "seed": side.found.seed,
        "loss": side.loss,
        "ended": side.found.ended,
        "rank": found.classes.rank,
        "diverse": found.classes.diverse,
        "condition": found.classes.condition,
        "weighted_condition": found.weighted_condition,
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
    """The map of words that the map of contexts implies: if f = f' N in rows, equal scores ask for g' = g N^T.

    The regression of source on target is taken, as the inverse of the other one would enlarge its noise.
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
