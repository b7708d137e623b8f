"""The units of work: all seeds of one dimension and estimator, trained as one program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, MissingFileError
from ..experiment import Outcome, Plan, Run, Unit
from ..threads import threads
from .material import Corpus, corpus
from .measuring import measure, picture
from .presets import Preset

ESTIMATORS = {"softmax": "full softmax", "nce": "noise-contrastive"}


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
    seeds = [int(seed) for seed in np.random.SeedSequence([run.seed, 59]).generate_state(preset.seeds)]
    with threads(preset.threads):
        trained = _trained(wanted["estimator"], wanted["dimension"], given, seeds, run)
        found: Outcome = {**wanted, "corpus": given.facts, "unigram": given.unigram, "together": trained[0].together}
        found |= measure(trained, given, preset, run.seed)
    if wanted["dimension"] == 2:
        found["picture"] = picture(trained, given, preset, run.seed)
    return found


def _trained(estimator: str, dimension: int, given: Corpus, seeds: list[int], run: Run) -> list[Any]:
    import torch

    from ...models import (
        Group,
        LogBilinear,
        Recipe,
        Schedule,
        noise_contrastive_loss,
        noise_words,
        softmax_loss,
        train_many,
    )

    preset: Preset = run.preset
    shares = torch.from_numpy(given.shares.astype(np.float32))
    words = len(given.vocabulary)
    contrastive = estimator == "nce"
    return train_many(
        lambda seed: LogBilinear(words, dimension, preset.context, context_words=words + 2, shares=shares),
        (given.contexts, given.words),
        noise_contrastive_loss(shares, preset.noise) if contrastive else softmax_loss,
        Recipe(
            steps=preset.steps,
            batch=preset.batch,
            groups=Group("adam", preset.learning_rate),
            schedule=Schedule(preset.schedule),
            record_every=max(preset.steps // 20, 1),
        ),
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
