"""An autoencoder with its unmixing in a safetensors file, and back; what is read may have been written by anyone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..storage.models import Facts, ModelFile, Shapes, require_model_path, save_arrays
from .pictures import as_pictures
from .traversals import decoded, encoded
from .unmixing import Unmixing

if TYPE_CHECKING:
    from .result import Disentanglement

FORMAT = "isorep disentangled autoencoder 1"
_MOST_LATENTS, _MOST_SIDE = 4096, 256


@dataclass(frozen=True, eq=False)
class Disentangler:
    """A saved autoencoder with its unmixing.

    Attributes
    ----------
    module : torch.nn.Module
    unmixing : Unmixing
    size : int
        Side of the images it takes.
    """

    module: Any = field(repr=False)
    unmixing: Unmixing = field(repr=False)
    size: int

    def transform(self, images: Any) -> Array:
        """The components of images: c0, c1, ..."""
        pictures = as_pictures(images, size=self.size, fewest=1, channels=self.module.shape[0])
        return self.unmixing.transform(encoded(self.module, pictures.values))

    def draw(self, components: Any) -> Array:
        """Images in [0, 1] of shape (n, size, size, channels) for components."""
        drawn = decoded(self.module, self.unmixing.inverse_transform(np.atleast_2d(np.asarray(components))))
        return drawn.transpose(0, 2, 3, 1)


def save(result: Disentanglement, path: str | Path) -> None:
    """Write weights, unmixing and facts, completely or not at all."""
    target = require_model_path(path)
    arrays = {
        f"network.{name}": np.ascontiguousarray(value.detach().cpu().numpy())
        for name, value in result.module.state_dict().items()
    }
    unmixing = result.unmixing
    for name in ("mean", "matrix", "back"):
        arrays[f"unmixing.{name}"] = np.ascontiguousarray(getattr(unmixing, name), dtype=np.float64)
    channels, height, width = result.module.shape
    facts = {
        "format": FORMAT,
        "channels": channels,
        "height": height,
        "width": width,
        "latents": result.module.latents,
        "components": unmixing.components,
        "network": result.settings["network"],
        "kind": unmixing.kind,
    }
    save_arrays(target, arrays, facts)


def load(path: str | Path) -> Disentangler:
    """The autoencoder and unmixing that a file holds; a file that is damaged or something else is refused."""
    file = ModelFile(path, FORMAT)
    facts, arrays = file.read(lambda facts: _check(file, facts), _shapes)
    from ..models.backend import torch

    module = _network(facts)
    weights = {name.removeprefix("network."): value for name, value in arrays.items() if name.startswith("network.")}
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    mean, matrix, back = (arrays[f"unmixing.{name}"] for name in ("mean", "matrix", "back"))
    return Disentangler(module.eval(), Unmixing(str(facts["kind"]), mean, matrix, back, True), int(facts["height"]))


def _check(file: ModelFile, facts: Facts) -> None:
    file.require_counts(facts, "channels", "height", "width", "latents", "components")
    if facts["channels"] not in (1, 3) or facts["height"] != facts["width"] or facts["height"] > _MOST_SIDE:
        file.refuse("its images are not squares of 1 or 3 channels and a sensible size")
    if facts["latents"] > _MOST_LATENTS or facts["components"] > facts["latents"]:
        file.refuse("its numbers of latents and components do not fit")
    if not isinstance(facts.get("network"), str) or not isinstance(facts.get("kind"), str):
        file.refuse("it does not say what network it is")
    try:
        _network(facts, empty=True)
    except InputError as error:
        file.refuse(str(error))


def _shapes(facts: Facts) -> Shapes:
    latents, components = facts["latents"], facts["components"]
    shapes: Shapes = {
        f"network.{name}": ("F32", tuple(value.shape))
        for name, value in _network(facts, empty=True).state_dict().items()
    }
    return shapes | {
        "unmixing.mean": ("F64", (latents,)),
        "unmixing.matrix": ("F64", (components, latents)),
        "unmixing.back": ("F64", (latents, components)),
    }


def _network(facts: Facts, empty: bool = False) -> Any:
    """The network that the facts tell of; ``empty`` ones take no memory."""
    from ..models import PlainAutoencoder
    from ..models.backend import torch

    shape = (facts["channels"], facts["height"], facts["width"])
    with torch.device("meta" if empty else "cpu"):
        return PlainAutoencoder(shape, facts["latents"], network=facts["network"])
