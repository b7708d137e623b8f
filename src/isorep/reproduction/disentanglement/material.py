"""The images of a scene with their factors: rendered anew for each replicate, or read from their files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets import FactorImages, RenderedImages, Rooms, Sprites, Squares, load
from ...datasets.catalogue import find_entry, present
from ...errors import InputError
from ...representation import Array
from ..experiment import Run
from .presets import RENDERED, Preset

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
