"""What is measured of latents: scores of every way to unmix them, and the decoder's conditioning beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ...decoder import jacobian
from ...disentangling import Unmixing, decoder_response, traversal, unmix
from ...disentangling.conditioning import decoder_constants
from ...disentangling.traversals import encoded, lost
from ...representation import Array
from ..experiment import Outcome
from .material import Material
from .presets import Preset
from .scoring import Scored, score

ICA_KINDS = ("published", "scaled", "whitened", "pruned")
_FEW = 3  # components beyond which there are enough planes to rank
_ROWS_FITTED = 20_000  # latents that ICA is fitted to at most


@dataclass(frozen=True, eq=False)
class Bench:
    """The images that models of one replicate are judged on."""

    material: Material
    preset: Preset
    seed: int

    @property
    def images(self) -> Array:
        """The training images whose latents are looked at: those that ICA is fitted to, and those that are scored."""
        return self.material.images[: max(_ROWS_FITTED, self.preset.scored)]

    def conditions(
        self,
        latents: Array,
        held_out: Array,
        *,
        kinds: tuple[str, ...],
        response: Array | None = None,
        discrete: bool = False,
        rotate: bool = False,
        whole: bool = False,
    ) -> tuple[dict[str, Outcome], dict[str, Unmixing]]:
        """Scores on training images and on held-out ones: as they are, unmixed in each way, and turned at random."""
        maps: dict[str, Unmixing] = {}
        raw = self._both(latents, held_out, discrete=discrete)
        found = {"raw": self._record(raw, whole)}
        if rotate:
            turned = _rotation(latents.shape[1], self.seed)
            both = self._both(latents @ turned, held_out @ turned, same=None if discrete else raw)
            found["rotated"] = self._record(both)
        for kind in kinds:
            maps[kind] = made = unmix(latents[:_ROWS_FITTED], kind, response=response, random_state=self.seed)
            spans = made.components == latents.shape[1] and not discrete
            both = self._both(made.transform(latents), made.transform(held_out), same=raw if spans else None)
            found[kind] = self._record(both, whole) | {"components": made.components, "converged": made.converged}
            if kind == "pruned" and made.conditioning is not None and made.components > _FEW:
                found[kind]["planes"] = planes(made.conditioning, both[0].nmi)
        return found, maps

    def _both(
        self, latents: Array, held_out: Array, *, discrete: bool = False, same: tuple[Scored, Scored] | None = None
    ) -> tuple[Scored, Scored]:
        material, count = self.material, self.preset.scored
        sides = ((material.factors, latents), (material.held_out_factors, held_out))
        seen, unseen = (
            score(
                material.names,
                factors[:count],
                values[:count],
                discrete=discrete,
                same=None if same is None else same[place],
            )
            for place, (factors, values) in enumerate(sides)
        )
        return seen, unseen

    def _record(self, both: tuple[Scored, Scored], whole: bool = False) -> Outcome:
        return {"seen": both[0].to_dict(whole), "held_out": both[1].to_dict()}


def evaluator(bench: Bench, discrete: bool, has_axes: bool, draw: bool) -> Callable[[Any, int], Outcome]:
    """What the trainer asks after some steps: ``evaluate(module, step)``."""
    material, preset = bench.material, bench.preset

    def evaluate(module: Any, step: int) -> Outcome:
        last = step == preset.steps
        latents, held_out = encoded(module, bench.images), encoded(module, material.held_out)
        outcome: Outcome = {"lost": lost(module, material.held_out, held_out)}
        if not has_axes:
            found, _ = bench.conditions(latents, held_out, kinds=(), discrete=discrete)
            return outcome | {"conditions": found}
        sample = latents[: preset.jacobians]
        response = decoder_response(jacobian(module.decode, sample.astype(np.float32)))
        found, maps = bench.conditions(
            latents,
            held_out,
            kinds=ICA_KINDS,
            response=response,
            discrete=discrete,
            rotate=True,
            whole=last and draw,
        )
        outcome |= {"conditions": found, "geometry": decoder_constants(module, maps["pruned"], sample)}
        if last and draw:
            outcome["sheets"] = sheets(module, maps["pruned"], latents)
        return outcome

    return evaluate


def planes(conditioning: Array, nmi: Array) -> Outcome:
    """Whether planes in which components may turn are those whose components tell of the same factors.

    The overlap of two components is the sum over factors of the smaller share of their information.
    """
    total = nmi.sum(0)
    parts = nmi / np.where(total > 0, total, 1.0)
    firm, overlap = [], []
    for i in range(len(conditioning)):
        for j in range(i):
            firm.append(float(conditioning[i, j]))
            overlap.append(float(np.minimum(parts[:, i], parts[:, j]).sum()))
    varies = np.ptp(firm) > 0 and np.ptp(overlap) > 0
    return {
        "curvature": firm,
        "overlap": overlap,
        "spearman": float(spearmanr(firm, overlap).statistic) if varies else None,
    }


def sheets(module: Any, pruned: Unmixing, latents: Array) -> Outcome:
    """Traversals of the components, and of the latents as they are."""
    identity = np.eye(latents.shape[1])
    plain = Unmixing("raw", np.zeros(len(identity)), identity, identity, True)
    found = {}
    for name, made in (("components", pruned), ("latents", plain)):
        sheet, order = traversal(module, made, latents)
        found[name] = sheet.to_dict() | {"order": list(order)}
    return found


def _rotation(size: int, seed: int) -> Array:
    turned, upper = np.linalg.qr(np.random.default_rng([seed, 7]).normal(size=(size, size)))
    return np.asarray(turned * np.sign(np.diag(upper)))
