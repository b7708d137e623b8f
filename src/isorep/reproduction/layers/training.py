"""Small GPTs: trained once, kept in the folder of the run, read again by whatever needs them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...files import finite_json, replacing, write_text
from ..experiment import Run
from .presets import Preset, parsed
from .text import Corpus

FOLDER = "models"
_DECISIVE = (
    "heads", "context", "text", "characters", "vocabulary", "held_out", "steps", "batch", "learning_rate", "warmup"
)  # fmt: skip


def trained_model(size: str, place: int, corpus: Corpus, run: Run) -> tuple[Any, dict[str, Any]]:
    """A trained GPT in evaluation mode with the facts of its training: read from the run's folder if it is there."""
    seed = seed_of(run.seed, place)
    belongs = _belongs(size, seed, corpus, run)
    path = None if run.folder is None else run.folder / FOLDER / f"{size}-{place}.safetensors"
    kept = None if path is None else _kept(path, belongs)
    if kept is not None:
        module = untrained_model(size, seed, corpus, run.preset)
        module.load_state_dict(kept[0])
        return module.eval(), kept[1]
    module, facts = _train(size, place, corpus, run)
    if path is not None:
        _keep(path, module, belongs, facts, corpus)
    return module, facts


def untrained_model(size: str, seed: int, corpus: Corpus, preset: Preset) -> Any:
    """The network as training begins with it."""
    from ...models.batched import seeded

    return seeded(lambda _: _built(size, corpus, preset), seed).eval()


def seed_of(seed: int, place: int) -> int:
    """The seed of a training: the same for all sizes."""
    return int(np.random.SeedSequence([seed, 41, place]).generate_state(1)[0])


def _built(size: str, corpus: Corpus, preset: Preset) -> Any:
    from ...models import GPT

    width, layers = parsed(size)
    return GPT(corpus.pairs.vocabulary, width, layers, preset.heads, preset.context)


def _train(size: str, place: int, corpus: Corpus, run: Run) -> tuple[Any, dict[str, Any]]:
    from ...models import Group, Recipe, Schedule, next_token_loss, train

    preset: Preset = run.preset
    found = train(
        lambda _: _built(size, corpus, preset),
        corpus.train,
        next_token_loss,
        Recipe(
            steps=preset.steps,
            batch=preset.batch,
            groups=Group("adamw", preset.learning_rate, options={"weight_decay": 0.1}, clip_norm=1.0),
            schedule=Schedule("cosine", warmup=preset.warmup),
            record_every=max(preset.steps // 5, 1),
        ),
        seed=seed_of(run.seed, place),
        validation=corpus.held_out,
        checkpoint=None if run.scratch is None else run.scratch / f"{size}-{place}.safetensors",
        progress=run.progress,
    )
    history = found.history
    return found.module, {
        "loss": history.training[-1],
        "held_out_loss": history.validation[-1],
        "steps": history.steps[-1],
        "parameters": sum(each.numel() for each in found.module.parameters()),
    }


def _belongs(size: str, seed: int, corpus: Corpus, run: Run) -> str:
    """What decides the weights, as text."""
    settings = asdict(run.preset)
    return json.dumps({"size": size, "seed": seed, "text": corpus.digest} | {key: settings[key] for key in _DECISIVE})


def _keep(path: Path, module: Any, belongs: str, facts: dict[str, Any], corpus: Corpus) -> None:
    from safetensors.torch import save_file

    path.parent.mkdir(exist_ok=True)
    weights = {name: value.detach().contiguous().clone() for name, value in module.state_dict().items()}
    with replacing(path) as temporary:
        save_file(weights, temporary, metadata={"belongs": belongs, "facts": json.dumps(facts)})
    write_text(path.parent / "tokens.json", finite_json({"merges": corpus.pairs.merges}))


def _kept(path: Path, belongs: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Weights and facts of a file that is of this very training; a damaged one is made anew."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            known = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(known.get("facts", "null"))
    except (SafetensorError, ValueError):
        return None
    if known.get("belongs") != belongs:
        raise InputError(f"{path} holds weights of another training: name another folder with --out")
    return (weights, facts) if isinstance(facts, dict) else None
