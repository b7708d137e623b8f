r"""A classifier whose two sides are representations: :math:`p(y\mid x)\propto\exp(f(x)^\top g(y))`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from .backend import nn, torch
from .networks import dense


class EmbeddingClassifier(nn.Module):
    r"""Fully connected layers :math:`f` with ReLU between them, and a vector :math:`g(y)` for each class.

    .. math:: p(y\mid x)=\frac{\exp(f(x)^\top g(y)+b_y)}{\sum_{y'}\exp(f(x)^\top g(y')+b_{y'})}

    A table of vectors is every function of the class that there is, so that :math:`g` needs no layers. Two such
    models with the same :math:`p` have :math:`f'=Af+a` if the differences of :math:`g` span the whole space, which
    takes at least one class more than dimensions (Roeder, Metz and Kingma 2021).

    Parameters
    ----------
    inputs, classes, dimension : int
        Numbers of an example, classes, and dimensions of :math:`f` and :math:`g`.
    hidden : sequence of int
        Widths between.
    bias : bool
        Whether there is a :math:`b_y`; the published model has none.
    start : float
        Standard deviation of the entries of :math:`g` before training. From small ones the classes find their order
        together; from large ones each keeps a direction of its own, and training may end in a poor optimum.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import EmbeddingClassifier
    >>> network = EmbeddingClassifier(2, classes=18, dimension=2)
    >>> network(torch.zeros(5, 2)).shape, network.represent(torch.zeros(5, 2)).shape, network.embeddings.shape
    (torch.Size([5, 18]), torch.Size([5, 2]), torch.Size([18, 2]))
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        dimension: int,
        *,
        hidden: Sequence[int] = (64, 64),
        bias: bool = False,
        start: float = 0.01,
    ) -> None:
        super().__init__()
        for name, value, least in (("inputs", inputs, 1), ("classes", classes, 2), ("dimension", dimension, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} is {value!r}: it must be a whole number of at least {least}")
        if not (isinstance(start, int | float) and 0 < start < float("inf")):
            raise InputError(f"start is {start!r}: it must be a number above zero")
        self.layers = dense((inputs, *hidden, dimension))
        self.embeddings = nn.Parameter(start * torch.randn(classes, dimension))
        self.bias = nn.Parameter(torch.zeros(classes)) if bias else None

    def represent(self, inputs: Any) -> Any:
        """f(x), one row an example."""
        return self.layers(inputs)

    def forward(self, inputs: Any) -> Any:
        """The log-probabilities of the classes, up to a constant for each example."""
        logits = self.represent(inputs) @ self.embeddings.T
        return logits if self.bias is None else logits + self.bias


def label_loss(module: Any, batch: Any) -> Any:
    """Mean cross entropy of a batch (inputs, probabilities of the classes): a known label is a row with a single 1."""
    inputs, wanted = batch
    return -(wanted * torch.log_softmax(module(inputs), dim=-1)).sum(-1).mean()
