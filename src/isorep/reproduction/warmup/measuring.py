"""What is measured of a pair of autoencoders: how far apart up to a rigid motion, and what theory says it may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...alignment import Rigid
from ...comparison import diameter
from ...decoder import bilipschitz, bounds
from ...representation import Array
from .curves import roots
from .presets import Preset

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def measure_pair(first: Any, second: Any, images: Array, unseen: Array, preset: Preset, *, seed: int) -> dict[str, Any]:
    """Rigid error of the first's latents on the second's, constants of both decoders, bounds and outputs."""
    sides = [_Side(trained, images, unseen, preset, seed) for trained in (first, second)]
    source, target = sides
    unit = diameter(target.latents, search="exact").value
    motion = Rigid(scale=False).fit(source.latents, target.latents)
    shuffled = np.random.default_rng([seed, 11]).permutation(len(images))
    by_chance = Rigid(scale=False).fit(source.latents[shuffled], target.latents)
    apart = np.linalg.norm(source.outputs - target.outputs, axis=1)
    error = _errors(motion, source.latents, target.latents, unit)
    return {
        "seeds": [first.seed, second.seed],
        "error": error,
        "held_out": _errors(motion, source.unseen, target.unseen, unit),
        "chance": _errors(by_chance, source.latents[shuffled], target.latents, unit)["mean"],
        "diameter": unit,
        "sides": [side.facts() for side in sides],
        "mismatch": {"rms": float(np.sqrt((apart**2).mean())), "max": float(apart.max())},
        "bound": _bound(source, target, unit, apart, error["rms"]),
    }


def spectrum_gap(images: Array, latents: int) -> float:
    """Ratio of the first eigenvalue of the uncentred second moments that the latents leave out, to the last they keep.

    Near 1 the best linear autoencoder is hardly unique, and two trainings need not agree even at leak 1.
    """
    values = np.linalg.eigvalsh(images.T.astype(np.float64) @ images)
    return float(values[-latents - 1] / values[-latents])


class _Side:
    """One trained autoencoder on the images."""

    def __init__(self, trained: Any, images: Array, unseen: Array, preset: Preset, seed: int) -> None:
        import torch

        self._trained, self._preset = trained, preset
        with torch.no_grad():
            latents = trained.module.encoder(torch.from_numpy(images))
            outputs = trained.module.decoder(latents)
            other = trained.module.encoder(torch.from_numpy(unseen))
            again = trained.module.decoder(other)
        self.latents, self.unseen = (each.double().numpy() for each in (latents, other))
        self.outputs = outputs.double().numpy()
        self.reconstruction = float(((self.outputs - images) ** 2).mean())
        self._reconstruction_unseen = float(((again.double().numpy() - unseen) ** 2).mean())
        rows = np.random.default_rng([seed, 5]).permutation(len(images))[: preset.samples]
        points = self.latents[np.sort(rows)].astype(np.float32)
        decoder = trained.module.decoder
        self.exact = bilipschitz(decoder, points, random_state=seed)
        self._paper = bilipschitz(decoder, points, mode="paper", n_directions=preset.directions, random_state=seed)

    def facts(self) -> dict[str, Any]:
        """Plain numbers."""
        history = self._trained.history
        return {
            "reconstruction": self.reconstruction,
            "reconstruction_unseen": self._reconstruction_unseen,
            "loss": history.training[-1],
            "steps": history.steps[-1],
            "ended": self._trained.ended,
            "defect": self._trained.module.defect(),
            "exact": self._constants(self.exact),
            "paper": self._constants(self._paper),
        }

    @staticmethod
    def _constants(found: Any) -> dict[str, Any]:
        local = np.maximum(found.local, 1.0)  # below 1 by rounding
        return {
            "max": float(local.max()),
            "mean": float(local.mean()),
            "quantiles": [float(value) for value in np.quantile(local, QUANTILES)],
            "mean_roots": {form: float(roots(local - 1, form).mean()) for form in ("2L+L2", "L+L2")},
        }


def _errors(motion: Rigid, source: Array, target: Array, unit: float) -> dict[str, float]:
    """Errors of a rigid motion in diameters of the target."""
    away = np.linalg.norm(motion.transform(source) - target, axis=1) / unit
    return {"mean": float(away.mean()), "rms": float(np.sqrt((away**2).mean())), "sup": float(away.max())}


def _bound(source: _Side, target: _Side, unit: float, apart: Array, rms: float) -> dict[str, Any]:
    """The bound on the root mean square error in diameters of the target, with and without the outputs' mismatch."""
    sizes: dict[str, Any] = {
        "diameter": diameter(source.latents, search="exact").value,
        "target_diameter": unit,
        "radii": tuple(_radius(side.latents) for side in (source, target)),
    }
    mean = float(np.sqrt((apart**2).mean()))
    found = bounds(source.exact, target.exact, mismatch=float(apart.max()), mismatch_rms=mean, **sizes)["rms"]
    equal = bounds(source.exact, target.exact, **sizes)["rms"]
    return {
        "rms": rms,
        "value": found.value / unit,
        "vacuous": found.vacuous,
        "violated": rms > found.value / unit,
        "equal_outputs": equal.value / unit,
        "equal_outputs_vacuous": equal.vacuous,
        "equal_outputs_violated": rms > equal.value / unit,
        "chance": found.chance / unit,
    }


def _radius(latents: Array) -> float:
    return float(np.sqrt(((latents - latents.mean(0)) ** 2).sum(1).mean()))
