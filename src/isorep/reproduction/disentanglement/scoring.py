"""InfoMEC of latents against classes, with what it costs kept in mind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...representation import Array
from ...structure.columns import Columns, as_columns
from ...structure.infomec import active_latents, measure_infomec, shares
from ...structure.information import information
from ...structure.pairs import paired

_TOLERANCE = 1e-4
_RANK = 1e-9


@dataclass(frozen=True, eq=False)
class Scored:
    """InfoMEC, its matrix (factors x latents), which latents are active, and the explicitness of every factor."""

    infom: float
    infoe: float
    infoc: float
    nmi: Array
    active: Array
    explicitness: dict[str, float]

    def to_dict(self, whole: bool = False) -> dict[str, Any]:
        """Plain data; with ``whole`` also the matrix."""
        found: dict[str, Any] = {
            "InfoM": self.infom,
            "InfoE": self.infoe,
            "InfoC": self.infoc,
            "active": int(self.active.sum()),
            "explicitness": self.explicitness,
            "best": dict(zip(self.explicitness, self.nmi.max(1).tolist(), strict=True)),
        }
        return found | {"nmi": self.nmi.tolist()} if whole else found


def score(
    names: tuple[str, ...], factors: Array, latents: Array, *, discrete: bool = False, same: Any = None
) -> Scored:
    """InfoMEC of latents; ``same`` is the score of others that span the same space.

    An unpenalised regression from all latents predicts the same whichever basis it is given, so that explicitness does
    not change under invertible linear maps and need not be fitted again.
    """
    columns = as_columns(dict(zip(names, factors.T, strict=True)), "factors", True)
    pair = paired(columns, latents, discrete_latents=discrete)
    if same is None and discrete:
        found = measure_infomec(pair, tolerance=_TOLERANCE)
        return Scored(found.infom, found.infoe, found.infoc, found.nmi, found.active, found.explicitness)
    told = same or measure_infomec(paired(columns, _white(latents), discrete_latents=False), tolerance=_TOLERANCE)
    nmi = information(pair.factors, pair.latents).normalised
    active = active_latents(pair.latents)
    varies = _varies(pair.factors)
    seen = nmi[varies][:, active]
    modular = [value for value in shares(seen.T) if value is not None]
    compact = [value or 0.0 for value in shares(seen)]
    return Scored(
        float(np.mean(modular)) if modular else 0.0,
        told.infoe,
        float(np.mean(compact)) if compact else 0.0,
        nmi,
        active,
        told.explicitness,
    )


def _white(latents: Array) -> Array:
    """The same space in white coordinates, in which the regressions settle many times sooner."""
    centred = latents - latents.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left[:, sizes > sizes[0] * _RANK] * np.sqrt(len(latents))) if sizes[0] > 0 else latents


def _varies(factors: Columns) -> Array:
    return np.array([not factor.constant for factor in factors])
