"""Images with factors, in two parts of which one is held out: rendered for each replicate, or read from files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .catalogue import load, present, published_set
from .images import FactorImages
from .rooms import Rooms
from .scenes import RenderedImages
from .sprites import Sprites, Squares

RENDERED = ("rooms", "sprites", "squares")
SPRITE_SIZES = (3, 6, 20, 16, 16)
"""Values of each factor of sprites: as many as logistic regressions of a few thousand images can distinguish."""
MOST_RENDERED = 100_000
"""Number of images rendered if all are requested: a whole grid does not fit in memory."""
_JACOBIANS = 48


@dataclass(frozen=True, eq=False)
class FactorSplit:
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

    def geometry(self) -> dict[str, Any]:
        """The effect of each factor on the pixels, with factors of unit variance, and the constant of the generator."""
        scene = self.rendered
        if scene is None or scene.factor_values is None:
            return {}
        continuous, values = scene.scene.continuous, scene.factor_values
        places = [self.names.index(name) for name in continuous]
        rows = values[:: max(len(values) // _JACOBIANS, 1)][:_JACOBIANS]
        jacobian = scene.factor_jacobian(rows) * values[:, places].std(0)
        squares = np.einsum("npi,npj->nij", jacobian, jacobian, optimize=True)
        spectra = np.sqrt(np.maximum(np.linalg.eigvalsh(squares), 0))
        stretch = np.sqrt(np.einsum("nii->ni", squares).mean(0))
        least, most = float(spectra[:, 0].min()), float(spectra[:, -1].max())
        return {
            "stretch": dict(zip(continuous, stretch.tolist(), strict=True)),
            "similarity": float(np.sqrt(most / least)) if least > 0 else float("inf"),
            "median_condition": float(np.median(spectra[:, -1] / np.maximum(spectra[:, 0], 1e-12))),
        }


def available(scene: str, data: Path | None) -> bool:
    """Whether a scene is available."""
    return scene in RENDERED or (data is not None and present(published_set(scene), data))


@lru_cache(maxsize=1)
def factor_split(
    scene: str, replicate: int, seed: int, images: int | None, held_out: int, size: int, data: Path | None
) -> FactorSplit:
    """Images to train on (all if None) and held-out ones; the last result stays in memory."""
    if scene in RENDERED:
        draw = int(np.random.SeedSequence([seed, replicate]).generate_state(1)[0])
        count = (images or MOST_RENDERED) + held_out
        if scene == "rooms":
            source_images: FactorImages = Rooms(size=size, colour="ramp").draw(count, draw, continuous=False)
        elif scene == "squares":
            source_images = Squares(size=size).draw(count, draw, continuous=False)
        else:
            source_images = Sprites(size=size).draw(count, draw, continuous=False, sizes=SPRITE_SIZES)
        kept, aside = source_images.subset(slice(held_out, None)), source_images.subset(slice(0, held_out))
    else:
        source_images = load(scene, data)
        if held_out >= len(source_images):
            raise InputError(f"{scene} has {len(source_images)} images, so {held_out} of them cannot be held out")
        kept, aside = source_images.split(held_out / len(source_images), seed)
        if images is not None and images < len(kept):
            kept = kept.subset(slice(0, images))
    pixels, unseen = (np.ascontiguousarray(np.moveaxis(each.images(), -1, 1)) for each in (kept, aside))
    drawn = source_images if isinstance(source_images, RenderedImages) else None
    return FactorSplit(scene, pixels, kept.factors, unseen, aside.factors, source_images.factor_names, drawn)
