"""How well conditioned the decoder of an autoencoder is, over all latents and over active directions alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..decoder import bilipschitz
from ..representation import Array
from .unmixing import Unmixing


def decoder_constants(module: Any, pruned: Unmixing, sample: Array) -> dict[str, Any]:
    """Bi-Lipschitz constants of ``module.decode`` at a sample of latents.

    ``all`` is over every latent. ``active`` is over the directions that a pruned unmixing keeps, in orthonormal
    coordinates of these, so that lengths are those of the latents.
    """
    from ..models.backend import nn, torch

    first = next(module.parameters())
    basis = np.linalg.qr(pruned.back)[0]
    onto, mean = (torch.from_numpy(part).to(first) for part in (basis, pruned.mean))

    class Restricted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = module

        def forward(self, coordinates: Any) -> Any:
            return self.whole.decode(coordinates @ onto.T + mean)

    whole = bilipschitz(module.decode, sample.astype(np.float32), n_directions=0)
    active = bilipschitz(Restricted(), ((sample - pruned.mean) @ basis).astype(np.float32), n_directions=0)
    activity = pruned.activity if pruned.activity is not None else np.ones(1)
    return {
        "directions": pruned.components,
        "activity": (activity / activity[0]).tolist(),
        "all": _constants(whole),
        "active": _constants(active),
    }


def _constants(found: Any) -> dict[str, float]:
    constants = found.constants
    return {
        "constant": constants.constant,
        "similarity": constants.similarity_constant,
        "condition": constants.condition,
        "median_condition": constants.median_condition,
    }
