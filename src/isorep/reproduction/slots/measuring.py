"""What is measured of a trained autoencoder: SIS, how its latents move with the true ones, and what ICA adds."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ...datasets.slots import SlotGenerator
from ...ica import ICA
from ...representation import Array
from ...structure import slot_identifiability

_JACOBIANS = 256  # examples at which derivatives are taken
_ICA_ROWS = 20_000


@dataclass(frozen=True)
class Examples:
    """True latents and outputs: to train on, and others to score."""

    latents: Array
    outputs: Array
    test_latents: Array
    test_outputs: Array


def examples(generator: SlotGenerator, law: str, rows: int, test_rows: int, seed: int) -> Examples:
    """Examples of one law, in single precision for the network."""
    if law == "uniform":
        latents = np.random.default_rng([seed, 3]).uniform(-(3**0.5), 3**0.5, (rows + test_rows, generator.d))
    else:
        latents = generator.sample(rows + test_rows, dependent=law == "dependent", random_state=seed)
    outputs = generator(latents).astype(np.float32)
    return Examples(latents[:rows], outputs[:rows], latents[rows:], outputs[rows:])


def measure(trained: Any, generator: SlotGenerator, given: Examples) -> dict[str, Any]:
    """SIS, reconstruction and derivatives of one training."""
    history = trained.history
    found: dict[str, Any] = {
        "seed": trained.seed,
        "ended": trained.ended,
        "loss": history.training[-1],
        "reconstruction_training": history.parts.get("reconstruction", history.training)[-1],
        "penalty": history.parts["penalty"][-1] if "penalty" in history.parts else None,
        "sis": None,
    }
    if trained.ended == "diverged":
        return found
    latents = encoded(trained.module, given.test_outputs)
    lost = decoded(trained.module, latents) - given.test_outputs
    score = slot_identifiability(given.test_latents, latents, slots=list(generator.dimensions))
    return found | {
        "sis": score.value,
        "on": float(score.on.mean()),
        "off": float(score.off.mean()),
        "r2": score.r2.tolist(),
        "matches": list(score.matches),
        "error": float((lost**2).mean() / given.test_outputs.var()),
        "own": own_share(trained.module, generator, given),
        "size": float(np.sqrt((latents**2).mean())),
    }


def unmixed(trained: Any, generator: SlotGenerator, given: Examples, seed: int) -> dict[str, float | None]:
    """SIS of the latents as they are, of independent components and of a random rotation, grouped knowing the truth."""
    if trained.ended == "diverged":
        return {"grouped": None, "ica": None, "rotated": None}
    train, test = (encoded(trained.module, part) for part in (given.outputs[:_ICA_ROWS], given.test_outputs))
    with warnings.catch_warnings():  # Gaussian latents have no independent components: that is the point here
        warnings.simplefilter("ignore")
        ica = ICA(random_state=seed).fit(train)
    components = ica.transform(test)
    turned = np.linalg.qr(np.random.default_rng([seed, 5]).normal(size=(components.shape[1],) * 2))[0]
    sides = {"grouped": test, "ica": components, "rotated": components @ turned}
    return {name: grouped_sis(side, given.test_latents, generator.dimensions) for name, side in sides.items()}


def ceiling(generator: SlotGenerator, given: Examples) -> float:
    """SIS of the true latents themselves: below 1 where slots tell of each other, and by the ridge penalty."""
    sizes = list(generator.dimensions)
    return slot_identifiability(given.test_latents, given.test_latents, slots=sizes).value


def grouped_sis(components: Array, latents: Array, sizes: Sequence[int]) -> float | None:
    """SIS of single components, each put to the true slot that explains it best: no method could choose better."""
    if components.shape[1] != sum(sizes):  # a collapsed autoencoder has fewer components than latents
        return None
    told = slot_identifiability(components, latents, slots=list(sizes), factor_slots=[1] * components.shape[1]).r2
    places = np.repeat(np.arange(len(sizes)), sizes)
    chosen, seats = linear_sum_assignment(-told[:, places])
    order = np.empty(len(places), dtype=int)
    order[seats] = chosen
    return slot_identifiability(latents, components[:, order], slots=list(sizes)).value


def own_share(module: Any, generator: SlotGenerator, given: Examples) -> float:
    r"""How much of what moves an inferred slot is one true slot, by derivatives, whatever the latents' distribution.

    With :math:`h=\text{encoder}\circ g`, the mean over samples and slots of
    :math:`\|D_{\pi(j)}h_j\|^2/\|Dh_j\|^2`, true latents in units of their spread: 1 if every inferred slot is a
    function of one true slot, 1/K if nothing is told apart.
    """
    import torch

    latents, outputs = given.test_latents[:_JACOBIANS], given.test_outputs[:_JACOBIANS]
    with torch.no_grad():
        inner = module.encoder.with_jacobian(torch.from_numpy(outputs))[1].double().numpy()
    whole = inner @ generator.jacobian(latents) * given.test_latents.std(0)
    blocks = generator.blocks
    squares = np.stack(
        [np.stack([(whole[:, own][:, :, part] ** 2).sum((1, 2)) for part in blocks], -1) for own in blocks], 1
    )
    shares = (squares / np.maximum(squares.sum(-1, keepdims=True), 1e-300)).mean(0)
    rows, columns = linear_sum_assignment(-shares)
    return float(shares[rows, columns].mean())


def encoded(module: Any, outputs: Array) -> Array:
    """Inferred latents in double precision."""
    import torch

    with torch.no_grad():
        return np.asarray(module.encoder(torch.from_numpy(outputs)).double().numpy())


def decoded(module: Any, latents: Array) -> Array:
    """Outputs again."""
    import torch

    with torch.no_grad():
        return np.asarray(module.decoder(torch.from_numpy(latents.astype(np.float32))).numpy())
