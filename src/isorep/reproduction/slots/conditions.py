"""What a slot autoencoder is trained with: one loss beside the reconstruction, or two in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError


@dataclass(frozen=True)
class Condition:
    """A way to train.

    Attributes
    ----------
    words, short : str
        What to call it in a table, and in a figure.
    loss : str
        Beside the reconstruction; empty for none.
    additive, smooth : bool
        Of the network.
    stages : tuple of (float, float)
        Shares of all steps, and the factor of λ in them.
    regroup : bool
        Whether slots exchange directions after every stage where that lowers the contrast.
    """

    words: str
    short: str
    loss: str = ""
    additive: bool = False
    smooth: bool = False
    stages: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    regroup: bool = False


_WARM = ((1 / 3, 0.0), (2 / 3, 1.0))

CONDITIONS = {
    "plain": Condition("reconstruction alone", "reconstruction"),
    "contrast": Condition("contrast", "contrast", "contrast"),
    "additive": Condition("additive decoder", "additive", additive=True),
    "warm": Condition("contrast, warm-up of λ: a third without", "warm-up", "contrast", stages=_WARM),
    "cooled": Condition(
        "contrast, λ a hundredth in the last third", "cooled", "contrast", stages=((2 / 3, 1.0), (1 / 3, 0.01))
    ),
    "unit": Condition("contrast at unit spread of the latents", "unit spread", "unit"),
    "regrouped": Condition(
        "contrast at unit spread, slots regrouped", "regrouped", "unit", stages=((1 / 3, 1.0),) * 3, regroup=True
    ),
    "unit_warm": Condition(
        "contrast at unit spread, warm-up of λ: a third without", "unit spread, warm-up", "unit", stages=_WARM
    ),
    "scaled": Condition("contrast of norms over their mean, free of scale", "free of scale", "scaled"),
    "sparsity": Condition("l1 sparsity of the Jacobian", "l1 sparsity", "sparsity"),
    "orthogonal": Condition("orthogonal columns of the Jacobian (IMA)", "orthogonal (IMA)", "orthogonal"),
    "hessian": Condition("cross-Hessian, smooth network", "cross-Hessian", "hessian", smooth=True),
    "additive_contrast": Condition("contrast, additive decoder", "additive, contrast", "contrast", additive=True),
    "restarts": Condition("contrast at unit spread, restarts", "restarts, mean", "unit"),
}


def parsed(text: str) -> tuple[str, float]:
    """Name and λ of ``name@strength``."""
    name, _, strength = text.partition("@")
    try:
        value = float(strength)
    except ValueError:
        value = -1.0
    if name not in CONDITIONS or not CONDITIONS[name].loss or not 0 < value < float("inf"):
        known = ", ".join(key for key, each in CONDITIONS.items() if each.loss)
        raise InputError(f"{text!r} is not name@strength with a strength above 0 and a name of {known}")
    return name, value


def loss_of(kind: str, strength: float, blocks: Sequence[Sequence[int]]) -> Callable[[Any, Any], Any]:
    """Mean squared error of a number and λ times the loss, with both as parts."""
    from torch.nn.functional import mse_loss

    from ...decoder.mechanism import losses

    def plain(module: Any, batch: Any) -> Any:
        return mse_loss(module(batch), batch)

    def hessian(module: Any, batch: Any) -> Any:
        latents = module.encoder(batch)
        lost = mse_loss(module.decoder(latents), batch)
        added = losses.cross_hessian_penalty(module.decoder, latents, blocks, probes=None)
        return {"loss": lost + strength * added, "reconstruction": lost, "penalty": added}

    def through_jacobian(module: Any, batch: Any) -> Any:
        latents = module.encoder(batch)
        outputs, jacobian = module.decoder.with_jacobian(latents)
        lost = mse_loss(outputs, batch)
        if kind == "sparsity":
            added = losses.jacobian_sparsity(module.decoder, latents, jacobian=jacobian)
        elif kind == "orthogonal":
            added = losses.ima_contrast(module.decoder, latents, jacobian=jacobian)
        else:
            if kind == "unit":  # latents that grow would shrink the contrast, and leave slots as mixed as they are
                jacobian = jacobian * latents.std(0)
            weighting = "image" if kind == "scaled" else None
            added = losses.compositional_contrast(
                module.decoder, latents, blocks, weighting=weighting, jacobian=jacobian
            )
        return {"loss": lost + strength * added, "reconstruction": lost, "penalty": added}

    if not kind or strength == 0:
        return plain
    return hessian if kind == "hessian" else through_jacobian
