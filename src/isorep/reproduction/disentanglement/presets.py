"""How large each scale is."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError
from .published import DATA

RENDERED = ("rooms", "sprites", "squares")
MODELS = ("ae", "beta_vae", "beta_tcvae", "bioae", "vqvae", "vqvae_decay", "qlae")
PUBLISHED_STEPS = 200_000


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    scenes : tuple of str
        ``rooms``, ``sprites`` and ``squares`` are rendered; the others are read from their files.
    models : tuple of str
        Models of the benchmark, or ``all``.
    weight_decays : tuple of float
        Of the autoencoder. What counts is learning rate x weight decay x steps, so that small scales take larger ones.
    betas : tuple of float
        Of the variational models; empty for the published ones.
    replicates : int
        New images (where they are rendered) and new weights.
    images, held_out, scored : int
        Images to train on (None for all, which are 100,000 of rendered ones), images that are never trained on, and
        images that are scored of each.
    size : int
        Side of rendered images.
    network : str
        ``dense``, ``light`` or ``published``.
    steps, batch : int
        Of the training.
    falls_after : float or None
        The share of the steps after which the learning rate falls; None as published.
    scored_at : tuple of int
        Steps after which models are scored; the last is always among them.
    jacobians : int
        Latents at which the decoder is differentiated.
    tolerance : float
        A setting reconstructs well if it loses at most this many times as much as the model's best one.
    device : str
        Where networks are trained.
    """

    scenes: tuple[str, ...]
    models: tuple[str, ...]
    weight_decays: tuple[float, ...]
    betas: tuple[float, ...]
    replicates: int
    images: int | None
    held_out: int
    scored: int
    size: int
    network: str
    steps: int
    batch: int
    falls_after: float | None
    scored_at: tuple[int, ...]
    jacobians: int = 48
    tolerance: float = 1.5
    device: str = "cpu"

    def __post_init__(self) -> None:
        for given, known, noun in (
            (self.scenes, (*RENDERED, *DATA), "scene"),
            (self.models, (*MODELS, "all"), "model"),
        ):
            for name in given:
                if name not in known:
                    raise InputError(f"there is no {noun} {name!r}; there are {', '.join(known)}")
        if "ae" not in self.all_models:
            raise InputError("models must have ae among them: it is what the others are set beside")
        counts = {"replicates": self.replicates, "steps": self.steps, "batch": self.batch}
        counts |= {"held_out": self.held_out, "scored": self.scored, "jacobians": self.jacobians}
        for name, value in counts.items():
            if value < 1:
                raise InputError(f"{name} is {value}: it must be at least 1")
        if not self.scenes or not self.weight_decays or min((*self.weight_decays, *self.betas)) < 0:
            raise InputError("there must be scenes and weight decays, and none of these or of betas below 0")

    @property
    def all_models(self) -> tuple[str, ...]:
        """The models, spelt out."""
        return MODELS if "all" in self.models else self.models

    @property
    def all_scored_at(self) -> tuple[int, ...]:
        """The steps after which models are scored."""
        return tuple(sorted({step for step in self.scored_at if 0 <= step < self.steps} | {self.steps}))


SCALES = {
    "smoke": Preset(
        scenes=("rooms",),
        models=("ae", "beta_vae"),
        weight_decays=(0.1, 0.5),
        betas=(0.3,),
        replicates=2,
        images=2000,
        held_out=500,
        scored=500,
        size=16,
        network="dense",
        steps=300,
        batch=32,
        falls_after=2 / 3,
        scored_at=(),
        jacobians=16,
    ),
    "laptop": Preset(
        scenes=RENDERED,
        models=("ae", "beta_vae"),
        weight_decays=(0.03, 0.1, 0.3, 1.0),
        betas=(0.1, 0.5),
        replicates=3,
        images=6000,
        held_out=1500,
        scored=1500,
        size=32,
        network="dense",
        steps=1200,
        batch=32,
        falls_after=2 / 3,
        scored_at=(600,),
    ),
    "paper": Preset(
        scenes=(*DATA, "rooms"),
        models=("all",),
        weight_decays=(1e-4, 1e-3, 1e-2, 1e-1),
        betas=(),
        replicates=3,
        images=None,
        held_out=10_000,
        scored=10_000,
        size=64,
        network="published",
        steps=PUBLISHED_STEPS,
        batch=128,
        falls_after=None,
        scored_at=(0, *range(500, 5000, 500), *range(5000, PUBLISHED_STEPS, 5000)),
        jacobians=64,
    ),
}
