"""Contrastive pairs: two encoders that tell which second half belongs to a first among those of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from .autoencoders import dense
from .evaluation import nn, torch

HIDDEN = (256, 256)
OUTPUTS = 64


class ContrastivePair(nn.Module):
    r"""Two fully connected encoders with ReLU, f of one view of an example and g of the other.

    .. math:: p(j\mid x_i)=\frac{\exp(f(x_i)^\top g(y_j)/\tau)}{\sum_{k}\exp(f(x_i)^\top g(y_k)/\tau)}

    over the second views of a batch. As published (Roeder et al. 2021), outputs are not normalised and :math:`\tau=1`:
    f and g are then identifiable up to linear maps where both are diverse enough. A shift of all g leaves p as it is,
    so that the last bias of g has no gradient but rounding: compare g centred.

    Parameters
    ----------
    inputs : int or tuple of two int
        Numbers of each view.
    hidden : sequence of int
        Widths between inputs and outputs, of both encoders.
    outputs : int
        Numbers that f and g give.
    normalise : bool
        Whether outputs are brought to length 1.
    temperature : float
        :math:`\tau`.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import ContrastivePair
    >>> pair = ContrastivePair((12, 8), hidden=(16,), outputs=4)
    >>> pair(torch.zeros(5, 12), torch.zeros(5, 8)).shape
    torch.Size([5, 5])
    """

    def __init__(
        self,
        inputs: int | tuple[int, int],
        *,
        hidden: Sequence[int] = HIDDEN,
        outputs: int = OUTPUTS,
        normalise: bool = False,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        first, second = (inputs, inputs) if isinstance(inputs, int) else inputs
        if min(first, second, outputs, *hidden) < 1:
            raise InputError(f"{first} and {second} inputs, widths {list(hidden)}, {outputs} outputs: all from 1 on")
        if not 0 < temperature < float("inf"):
            raise InputError(f"temperature is {temperature}: it must be above zero")
        self.normalise, self.temperature = bool(normalise), float(temperature)
        self.f = dense((first, *hidden, outputs))
        self.g = dense((second, *hidden, outputs))

    def embed(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Give f of the first views and g of the second, as the loss sees them: (n, outputs) each."""
        found = self.f(first), self.g(second)
        if not self.normalise:
            return found
        return nn.functional.normalize(found[0], dim=-1), nn.functional.normalize(found[1], dim=-1)

    def forward(self, first: Any, second: Any) -> Any:
        """Logits (n, m): row i scores every second view against the i-th first view."""
        one, other = self.embed(first, second)
        return one @ other.mT / self.temperature


def contrastive_loss(module: Any, batch: Any) -> Any:
    r"""InfoNCE with the other examples of the batch as distractors.

    .. math:: \frac1n\sum_i\Bigl(\log\sum_j\exp\ell_{ij}-\ell_{ii}\Bigr)

    with :math:`\ell` the logits of a :class:`ContrastivePair` and ``batch`` a tuple of first and second views. At
    chance it is :math:`\log n`: losses of different batches cannot be compared.
    """
    logits = module(*batch)
    return (torch.logsumexp(logits, dim=-1) - logits.diagonal(dim1=-2, dim2=-1)).mean()
