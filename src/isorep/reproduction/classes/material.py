"""The two tasks: labels by angle, as published, and probabilities that a network of the same family gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...representation import Array
from .presets import Preset

SPREAD = 3.0
"""Standard deviation of both inputs; networks see them divided by it."""
TASKS = {"angle": "labels by angle", "taught": "taught probabilities"}
_FEATURES, _FREQUENCY, _SHARPNESS = 64, 1.5, 2.0


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs, probabilities of the classes, and the class itself (the likeliest one), to train on and to measure on."""

    inputs: Array
    wanted: Array
    test_inputs: Array
    test_wanted: Array

    @property
    def labels(self) -> Array:
        """The likeliest class of every test example."""
        return np.asarray(self.test_wanted.argmax(1))

    @property
    def floor(self) -> float:
        """The entropy of the test labels: no loss is below it."""
        log = np.log(np.maximum(self.test_wanted, 1e-30))
        return float(-(self.test_wanted * log).sum(1).mean())


def examples(task: str, classes: int, dimension: int, preset: Preset, seed: int) -> Examples:
    """The examples of a task; inputs are the same for all settings."""
    rng = np.random.default_rng([seed, 29])
    points = rng.normal(0, SPREAD, (preset.rows + preset.test_rows, 2))
    inputs = points / SPREAD
    wanted = by_angle(points, classes) if task == "angle" else taught(inputs, classes, dimension, seed)
    parts = [each.astype(np.float32) for each in (inputs, wanted)]
    return Examples(parts[0][: preset.rows], parts[1][: preset.rows], parts[0][preset.rows :], parts[1][preset.rows :])


def by_angle(points: Array, classes: int) -> Array:
    """The class is the sector of the plane in which a point lies: rows with a single 1."""
    turn = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1.0
    return np.asarray(np.eye(classes)[np.minimum((classes * turn).astype(int), classes - 1)])


def taught(inputs: Array, classes: int, dimension: int, seed: int) -> Array:
    """Probabilities softmax(f(x)·g(y)) of a teacher: smooth random f of unit variance, and normal g.

    The teacher's f depends on the dimension alone, and more classes are added to the same ones: a sweep over classes
    changes nothing else.
    """
    rng = np.random.default_rng([seed, 31, dimension])
    waves = rng.normal(0, _FREQUENCY, (2, _FEATURES)), rng.uniform(0, 2 * np.pi, _FEATURES)
    mixing = rng.normal(size=(_FEATURES, dimension))
    found = np.cos(inputs @ waves[0] + waves[1]) @ mixing
    found = (found - found.mean(0)) / found.std(0)
    vectors = np.random.default_rng([seed, 37, dimension]).normal(size=(classes, dimension))
    logits = found @ vectors.T * (_SHARPNESS / np.sqrt(dimension))
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))
