"""Is the autoencoder with ICA ahead of the others, in modularity at comparable explicitness?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from .reading import CONTROLS, Chosen, Reading, title

OURS = ("ae", "scaled")
"""The published method, made independent of the latents' scale."""
COMPARABLE = 0.05
"""Explicitness may be so much lower and still be comparable."""
ICA_WAYS = ("published", "scaled", "whitened", "pruned")


@dataclass(frozen=True)
class Test:
    """InfoM of AE + ICA less that of an opponent, over replicates."""

    name: str
    difference: float
    error: float | None
    explicitness: float
    answer: str


def tests(reading: Reading, scene: str) -> list[Test]:
    """Against the AE itself, random rotations of it, the other models, and the controls.

    Of an opponent that has ICA, too, the way to unmix with the best mean InfoM stands for it.
    """
    ours = reading.held_out(scene, *OURS)
    opponents: list[tuple[str, Chosen]] = [
        (title("ae", way), reading.held_out(scene, "ae", way)) for way in ("raw", "rotated")
    ]
    for model in reading.models:
        if model != "ae":
            opponents.append((title(model, "raw"), reading.held_out(scene, model, "raw")))
    for model in CONTROLS:
        opponents.append(_strongest(reading, scene, model))
    return [compared(name, ours, theirs) for name, theirs in opponents if theirs.scores and ours.scores]


def specialists_with_ica(reading: Reading, scene: str) -> list[Test]:
    """The same against the other models with ICA of their own."""
    ours = reading.held_out(scene, *OURS)
    found = []
    for model in reading.models:
        if model != "ae" and any(way in ICA_WAYS for way in reading.ways(model)):
            name, theirs = _strongest(reading, scene, model)
            if theirs.scores and ours.scores:
                found.append(compared(name, ours, theirs))
    return found


def _strongest(reading: Reading, scene: str, model: str) -> tuple[str, Chosen]:
    found = {way: reading.held_out(scene, model, way) for way in reading.ways(model) if way in ICA_WAYS}
    means = {way: chosen.mean("InfoM").value or 0.0 for way, chosen in found.items()}
    if not means:
        return title(model, "raw"), reading.held_out(scene, model, "raw")
    best = max(means, key=lambda way: means[way])
    return title(model, best), found[best]


def quantile(count: int) -> float:
    """Standard errors that a 95 % interval of a mean over so few values reaches, by Student's t."""
    return float(student.ppf(0.975, count - 1)) if count > 1 else 0.0


def compared(name: str, ours: Chosen, theirs: Chosen) -> Test:
    """Paired over replicates where both have all of them; a difference is shown if its 95 % interval leaves out 0."""
    a, b = ours.values("InfoM"), theirs.values("InfoM")
    explicitness = float(np.mean(ours.values("InfoE")) - np.mean(theirs.values("InfoE")))
    if len(a) == len(b) and len(a) > 1:
        differences = np.subtract(a, b)
        mean, error = float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(a)))
    else:
        mean, error = float(np.mean(a) - np.mean(b)), None
    if abs(mean) <= (error or 0.0) * quantile(len(a)):
        answer = "not shown"
    elif mean < 0:
        answer = "behind"
    else:
        answer = "ahead" if explicitness >= -COMPARABLE else "ahead, but less explicit"
    return Test(name, mean, error, explicitness, answer)
