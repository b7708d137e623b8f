"""What is measured of trained classifiers: how far two agree, in all of f and in the part that the head reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...alignment import Linear
from ...heads import diversity, head_map
from ...representation import Array
from ...similarity import cca
from ..pairs import all_pairs, explained, folds_of, held_out, ladder
from .material import Examples

_FOLDS = 5
_SHUFFLES = 20
_SHOWN = 300
TINY = 1e-9
"""Directions of less than this share of the largest spread are none."""


@dataclass(frozen=True, eq=False)
class Side:
    """One trained classifier on the test rows: f, g centred over classes, its loss, and its diversity."""

    f: Array
    g: Array
    loss: float
    accuracy: float
    found: Any

    @property
    def span(self) -> Array:
        """An orthonormal basis of the directions that differences of g have: what the head reads of f."""
        return _span(self.g)

    @property
    def outside(self) -> Array:
        """A basis of all other directions; none where the classes are diverse."""
        basis = self.span
        return np.asarray(np.linalg.svd(basis, full_matrices=True)[0][:, basis.shape[1] :])


def measure(trained: list[Any], given: Examples, seed: int) -> dict[str, Any]:
    """All models, and every pair of them."""
    sides = [_side(each, given) for each in trained]
    return {
        "models": [_model_facts(side) for side in sides],
        "pairs": [
            {"first": first, "second": second} | _pair(sides[first], sides[second], seed)
            for first, second in all_pairs(len(sides))
        ],
    }


def curve(trained: list[Any], seed: int) -> list[dict[str, Any]]:
    """Every pair over training: canonical correlations of f on examples, of g on classes and of shuffled examples.

    And R² of the map from the two heads alone, and of a held-out regression.
    """
    kept = [dict(each.history.evaluations) for each in trained]
    points = []
    for step in kept[0]:
        if not all(step in each for each in kept):
            continue
        f, g = ([np.array(each[step][name]) for each in kept] for name in ("f", "g"))
        pairs = [
            {
                "first": i,
                "second": j,
                "f": _correlation(f[i], f[j]),
                "g": _correlation(g[i], g[j]),
                "shuffled": _shuffled(f[i], f[j], seed, 1),
                "head": _by_heads(f[i], f[j], g[i], g[j]),
                "regression": explained(held_out(f[i], f[j], folds_of(len(f[i]), _FOLDS, seed)), f[j]),
            }
            for i, j in all_pairs(len(kept))
        ]
        points.append({"step": int(step), "pairs": pairs})
    return points


def cloud(trained: list[Any], given: Examples) -> dict[str, Any]:
    """The f of the first two models on some test rows, and the first mapped onto the second by the best linear map."""
    first, second = (_side(each, given).f for each in trained[:2])
    fitted = Linear().fit(first[_SHOWN:], second[_SHOWN:]) if len(first) > 2 * _SHOWN else Linear().fit(first, second)
    rows = slice(0, _SHOWN)
    return {
        "labels": given.labels[rows].tolist(),
        "first": first[rows],
        "second": second[rows],
        "mapped": fitted.transform(first[rows]),
    }


def _side(trained: Any, given: Examples) -> Side:
    import torch

    module = trained.module
    with torch.no_grad():
        inputs = torch.from_numpy(given.test_inputs)
        f = module.represent(inputs).double().numpy()
        log = torch.log_softmax(module(inputs), dim=-1).double().numpy()
        g = module.embeddings.double().numpy()
    loss = float(-(given.test_wanted * log).sum(1).mean())
    return Side(f, g - g.mean(0), loss, float((log.argmax(1) == given.labels).mean()), trained)


def _span(g: Array) -> Array:
    _, sizes, directions = np.linalg.svd(g - g.mean(0), full_matrices=False)
    return np.asarray(directions[sizes > TINY * sizes[0]].T)


def _model_facts(side: Side) -> dict[str, Any]:
    found = diversity(side.g).classes
    return {
        "seed": side.found.seed,
        "loss": side.loss,
        "accuracy": side.accuracy,
        "ended": side.found.ended,
        "rank": found.rank,
        "diverse": found.diverse,
        "condition": found.condition,
    }


def _pair(source: Side, target: Side, seed: int) -> dict[str, Any]:
    folds = folds_of(len(source.f), _FOLDS, seed)
    whole = cca(source.f, target.f)
    shuffled = np.random.default_rng([seed, 47]).permutation(len(source.f))
    within = source.f @ source.span, target.f @ target.span
    return {
        "cca": whole.value,
        "least": float(min(whole.details["correlations"])),
        "cca_g": _correlation(source.g, target.g),
        "cca_shuffled": _shuffled(source.f, target.f, seed, _SHUFFLES),
        "cca_g_shuffled": _shuffled(source.g, target.g, seed, _SHUFFLES),
        "f": ladder(source.f, target.f, folds),
        "f_shuffled": explained(held_out(source.f[shuffled], target.f, folds), target.f),
        "g": _classes(source.g, target.g),
        "cca_within": _correlation(*within),
        "within": explained(held_out(*within, folds), within[1]),
        "outside": _outside(source, target, folds),
        "logits": explained(source.f @ source.g.T, target.f @ target.g.T),
        "head": _by_heads(source.f, target.f, source.g, target.g),
    }


def _outside(source: Side, target: Side, folds: Array) -> float | None:
    """How well all of the source's f predicts the target's where the target's head does not look."""
    if target.outside.shape[1] == 0:
        return None
    unread = target.f @ target.outside
    return explained(held_out(source.f, unread, folds), unread)


def _by_heads(f: Array, other_f: Array, g: Array, other_g: Array) -> float:
    """R² of the map that two heads predict, in the span of the target's head: nothing was fitted to f."""
    basis = _span(other_g)
    return explained(head_map(g, other_g).transform(f) @ basis, other_f @ basis)


def _classes(source: Array, target: Array) -> dict[str, float] | None:
    """Rungs for g, each class by a map fitted to the others; none where others are too few to fit one."""
    if len(source) < source.shape[1] + 3:
        return None
    return ladder(source, target, np.arange(len(source)))


def _correlation(x: Array, y: Array) -> float:
    """Mean canonical correlation; nothing can be said of constants, or of two rows, which always agree."""
    if len(x) < 3 or min(x.std(0).max(), y.std(0).max()) <= 0:
        return float("nan")
    return float(cca(x, y).value)


def _shuffled(x: Array, y: Array, seed: int, times: int) -> float:
    rng = np.random.default_rng([seed, 53])
    return float(np.mean([_correlation(rng.permutation(x), y) for _ in range(times)]))
