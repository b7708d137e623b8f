"""How large each scale is.

The images of a scene with their factors: rendered anew for each replicate, or read from their files.

What was published: Table 2 of the paper, models x data sets x (InfoM, InfoE, InfoC).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import FactorImages, RenderedImages, Rooms, Sprites, Squares, load
from ..datasets.catalogue import find_entry, present
from ..errors import InputError
from ..representation import Array
from .experiment import Run

SPRITE_SIZES = (3, 6, 20, 16, 16)
"""Values of each factor of sprites: as many as logistic regressions of a few thousand images can tell apart."""


MOST_RENDERED = 100_000
"""Images that are rendered where all are asked for: a grid has too many to hold in memory."""


@dataclass(frozen=True, eq=False)
class Material:
    """Images as bytes, channels first, with their classes; ``held_out`` ones are never trained on."""

    scene: str
    images: Array
    factors: Array
    held_out: Array
    held_out_factors: Array
    names: tuple[str, ...]
    rendered: RenderedImages | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.images.shape[1:]
        return int(channels), int(height), int(width)

    @property
    def latents(self) -> int:
        """Latents of every model: twice the number of factors."""
        return 2 * len(self.names)


def material(scene: str, replicate: int, run: Run) -> Material:
    """The images of one replicate; the last ones asked for are kept."""
    preset: Preset = run.preset
    place = 0 if scene not in RENDERED else replicate  # files hold the same images every time
    return _made(scene, place, run.seed, preset.images, preset.held_out, preset.size, run.data)


def available(scene: str, data: Path | None) -> bool:
    """Whether a scene can be had."""
    return scene in RENDERED or (data is not None and present(find_entry(scene), data))


@lru_cache(maxsize=1)
def _made(
    scene: str, replicate: int, seed: int, images: int | None, held_out: int, size: int, data: Path | None
) -> Material:
    draw = int(np.random.SeedSequence([seed, replicate]).generate_state(1)[0])
    if scene in RENDERED:
        count = (images or MOST_RENDERED) + held_out
        if scene == "rooms":
            found: FactorImages = Rooms(size=size, colour="ramp").draw(count, draw, continuous=False)
        elif scene == "squares":
            found = Squares(size=size).draw(count, draw, continuous=False)
        else:
            found = Sprites(size=size).draw(count, draw, continuous=False, sizes=SPRITE_SIZES)
        kept, aside = found.subset(slice(held_out, None)), found.subset(slice(0, held_out))
    else:
        found = load(scene, data)
        if held_out >= len(found):
            raise InputError(f"{scene} has {len(found)} images, so {held_out} of them cannot be held out")
        kept, aside = found.split(held_out / len(found), seed)
        if images is not None and images < len(kept):
            kept = kept.subset(slice(0, images))
    return Material(
        scene,
        _channels_first(kept.images()),
        kept.factors,
        _channels_first(aside.images()),
        aside.factors,
        found.factor_names,
        found if isinstance(found, RenderedImages) else None,
    )


def _channels_first(images: Any) -> Array:
    return np.ascontiguousarray(np.moveaxis(images, -1, 1))


PAPER = (
    "Nelson, Fumero, Karaletsos and Locatello, Statistical and structural identifiability in representation learning, "
    "ICLR 2026, section 4.3, Table 2; protocol of Hsu, Dorrell, Whittington, Wu and Finn, Disentanglement via latent "
    "quantization, NeurIPS 2023"
)
SOURCE = "Table 2"
MEASURES = ("InfoM", "InfoE", "InfoC")

DATA = {
    "shapes3d": "Shapes3D",
    "mpi3d_real_complex": "MPI3D",
    "falcor3d": "Falcor3D",
    "isaac3d": "Isaac3D",
}
"""The data sets of the table, by the names that loaders know them by."""

Scores = tuple[float, float, float]

AGGREGATED: dict[tuple[str, str], Scores] = {
    ("ae", "raw"): (0.39, 0.76, 0.25),
    ("beta_vae", "raw"): (0.59, 0.81, 0.55),
    ("beta_tcvae", "raw"): (0.58, 0.72, 0.59),
    ("bioae", "raw"): (0.54, 0.75, 0.36),
    ("ae", "published"): (0.65, 0.83, 0.40),
}

TABLE: dict[tuple[str, str], dict[str, Scores]] = {
    ("ae", "raw"): {
        "shapes3d": (0.34, 0.99, 0.16),
        "mpi3d_real_complex": (0.42, 0.40, 0.31),
        "falcor3d": (0.37, 0.83, 0.20),
        "isaac3d": (0.41, 0.80, 0.34),
    },
    ("beta_vae", "raw"): {
        "shapes3d": (0.59, 0.99, 0.49),
        "mpi3d_real_complex": (0.45, 0.71, 0.51),
        "falcor3d": (0.71, 0.73, 0.70),
        "isaac3d": (0.60, 0.80, 0.51),
    },
    ("beta_tcvae", "raw"): {
        "shapes3d": (0.61, 0.82, 0.62),
        "mpi3d_real_complex": (0.51, 0.60, 0.57),
        "falcor3d": (0.66, 0.74, 0.71),
        "isaac3d": (0.54, 0.70, 0.46),
    },
    ("bioae", "raw"): {
        "shapes3d": (0.56, 0.98, 0.44),
        "mpi3d_real_complex": (0.45, 0.66, 0.36),
        "falcor3d": (0.54, 0.73, 0.31),
        "isaac3d": (0.63, 0.65, 0.33),
    },
    ("ae", "published"): {
        "shapes3d": (0.79, 0.99, 0.52),
        "mpi3d_real_complex": (0.44, 0.66, 0.31),
        "falcor3d": (0.71, 0.83, 0.33),
        "isaac3d": (0.64, 0.82, 0.43),
    },
}
"""Scores by (model, what was done to its latents) and data set."""

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
