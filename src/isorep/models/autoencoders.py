"""Fully connected autoencoders with orthogonal layers: decoders whose bi-Lipschitz constant the leak controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from .orthogonal import defect, orthogonal
from .sampling import INITIAL, generator
from .torch_tools import nn, torch


class OrthogonalAutoencoder(nn.Module):
    r"""An autoencoder of orthogonal layers without biases, LeakyReLU between them, the decoder the encoder's mirror.

    With K layers of non-decreasing width and leak :math:`\alpha`, the Jacobian of the decoder has singular values from
    :math:`\alpha^{K-1}` to 1 wherever it exists, so that its local bi-Lipschitz constant is at most
    :math:`\alpha^{-(K-1)}`: an isometry for :math:`\alpha=1`.

    Parameters
    ----------
    widths : sequence of int
        From the input to the latents, such as ``(784, 64, 32, 5)``. They must not grow: a decoder layer that narrows
        has a kernel, and the bound above fails.
    leak : float
        The slope :math:`\alpha` of LeakyReLU below zero, above 0 and at most 1; 1 makes the network linear.
    seed : int
        Of the weights, which are uniform among orthogonal matrices.

    Examples
    --------
    >>> from isorep.models import OrthogonalAutoencoder
    >>> network = OrthogonalAutoencoder((16, 8, 4, 2), leak=0.5)
    >>> network.bound
    4.0
    """

    def __init__(self, widths: Sequence[int], leak: float, *, seed: int = 0, dtype: Any = None) -> None:
        super().__init__()
        self.widths = tuple(int(width) for width in widths)
        if len(self.widths) < 2 or min(self.widths) < 1:
            raise InputError("an autoencoder has at least two widths, of at least 1: input and latents")
        for wide, narrow in zip(self.widths, self.widths[1:], strict=False):
            if narrow > wide:
                raise InputError(
                    f"the widths grow from {wide} to {narrow}: then a layer of the decoder narrows, has a kernel, "
                    "and no bi-Lipschitz bound holds; give widths that do not grow"
                )
        if not 0 < leak <= 1:
            raise InputError(f"the leak is {leak}: it must be above 0 and at most 1")
        self.leak = float(leak)
        pairs = list(zip(self.widths, self.widths[1:], strict=False))
        draw = generator(seed, INITIAL)
        self.encoder = _Orthogonal([(narrow, wide) for wide, narrow in pairs], self.leak, draw, dtype)
        self.decoder = _Orthogonal([(wide, narrow) for wide, narrow in reversed(pairs)], self.leak, draw, dtype)

    def forward(self, inputs: Any) -> Any:
        """Inputs, encoded and decoded."""
        return self.decoder(self.encoder(inputs))

    @property
    def layers(self) -> int:
        """K: layers of the decoder."""
        return len(self.widths) - 1

    @property
    def bound(self) -> float:
        r"""What the local bi-Lipschitz constant of the decoder can be at most, :math:`\alpha^{-(K-1)}`."""
        return float(self.leak ** -(self.layers - 1))

    def defect(self) -> float:
        """How far the layers are from orthogonal: the largest entry of any Gram matrix less the identity."""
        return max(defect(weight) for weight in self.parameters())


def reconstruction_loss(module: Any, batch: Any) -> Any:
    """Squared error of a reconstruction, mean over entries."""
    return torch.nn.functional.mse_loss(module(batch), batch)


class _Orthogonal(nn.Module):
    """Orthogonal layers with LeakyReLU between them."""

    def __init__(self, shapes: list[tuple[int, int]], leak: float, draw: Any, dtype: Any) -> None:
        super().__init__()
        self.leak = leak
        self.weights = nn.ParameterList([nn.Parameter(orthogonal(*shape, draw, dtype)) for shape in shapes])

    def forward(self, values: Any) -> Any:
        for place, weight in enumerate(self.weights):
            if place:
                values = torch.nn.functional.leaky_relu(values, self.leak)
            values = values @ weight.T
        return values
