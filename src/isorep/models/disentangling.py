"""The models of the disentanglement benchmark, their losses and how they are trained: by name, as published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import InputError
from .networks import Shape
from .plain_autoencoder import BioAE, PlainAutoencoder
from .quantised import QLAE, VQVAE
from .recipe import Group, Recipe, Schedule
from .vae import BetaTCVAE, BetaVAE


@dataclass(frozen=True)
class Method:
    """A model of the benchmark.

    Attributes
    ----------
    name, title : str
    model : type
        A subclass of :class:`PlainAutoencoder`.
    weight_decay : float
        As published for most data sets; 0 for models without any.
    settings : mapping
        Arguments of the model.
    by_data : mapping of str to mapping
        What was published otherwise for a data set; ``weight_decay`` may be among them.
    """

    name: str
    title: str
    model: type[PlainAutoencoder]
    weight_decay: float = 0.0
    settings: Mapping[str, float] = field(default_factory=dict)
    by_data: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def settings_for(self, data: str) -> tuple[dict[str, float], float]:
        """The model's arguments and the weight decay for a data set."""
        found = {"weight_decay": self.weight_decay, **self.settings, **self.by_data.get(data, {})}
        decay = found.pop("weight_decay")
        return found, decay

    def builder(self, shape: Shape, latents: int, *, network: str, rows: int, **settings: float) -> Any:
        """``build(seed)`` for the trainer, which seeds torch before it calls."""
        given: dict[str, Any] = {"network": network, **settings}
        if issubclass(self.model, BetaTCVAE):
            given["rows"] = rows
        return partial(_built, self.model, shape, latents, given)


def method_named(name: str) -> Method:
    """A model of the benchmark by its name."""
    if name not in METHODS:
        raise InputError(f"there is no model {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name]


def benchmark_recipe(
    steps: int,
    *,
    weight_decay: float = 0.0,
    learning_rate: float = 1e-3,
    batch: int = 128,
    falls_after: float | None = None,
    record_every: int | None = None,
) -> Recipe:
    """How models of the benchmark are trained.

    Gradients of weights are clipped entry by entry to [-1, 1] and moved by AdamW. Biases and codebooks are moved by
    Adam, neither clipped nor decayed. ``falls_after`` is the share of steps after which the learning rate falls to
    zero along a cosine; as published it stays.
    """
    return Recipe(
        steps=steps,
        batch=batch,
        groups=(
            Group("adam", learning_rate, names=("*bias", "*codebook")),
            Group("adamw", learning_rate, options={"weight_decay": weight_decay}, clip_value=1.0),
        ),
        schedule=Schedule() if falls_after is None else Schedule("cosine", start=falls_after),
        record_every=record_every,
    )


def _built(model: type[PlainAutoencoder], shape: Shape, latents: int, given: dict[str, Any], seed: int) -> Any:
    return model(shape, latents, **given)


METHODS = {
    method.name: method
    for method in (
        Method("ae", "AE", PlainAutoencoder, weight_decay=1e-3),
        Method(
            "beta_vae",
            "β-VAE",
            BetaVAE,
            settings={"beta": 3.0},
            by_data={"mpi3d_real_complex": {"beta": 0.1}, "falcor3d": {"beta": 10.0}, "isaac3d": {"beta": 0.3}},
        ),
        Method(
            "beta_tcvae",
            "β-TCVAE",
            BetaTCVAE,
            settings={"beta": 3.0},
            by_data={"mpi3d_real_complex": {"beta": 0.3}, "isaac3d": {"beta": 1.0}},
        ),
        Method("bioae", "BioAE", BioAE, weight_decay=1e-4, by_data={"isaac3d": {"activity": 0.1}}),
        Method("vqvae", "VQ-VAE", VQVAE),
        Method("vqvae_decay", "VQ-VAE with weight decay", VQVAE, weight_decay=0.01),
        Method("qlae", "QLAE", QLAE, weight_decay=0.1, by_data={"mpi3d_real_complex": {"weight_decay": 1e-3}}),
    )
}
"""Every model of the benchmark."""
