r"""Log-bilinear model of words: the next word from a weighted sum of the vectors of the words before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import InputError
from ..settings import check_counts
from .evaluation import nn, torch

START = 1e-3
"""Vectors are drawn from -START to START."""


class LogBilinear(nn.Module):
    r"""A vector for each word as part of a context, one for it as the next word, and a bias.

    .. math:: f(w_1\ldots w_n)=\sum_{i}c_i\odot r_{w_i},\qquad s(w)=f^\top q_w+b_w,\qquad p(w)\propto e^{s(w)}

    with one vector of weights :math:`c_i` for each place of the context (Mnih and Teh 2012). :math:`f` represents
    contexts, :math:`q` words.

    Parameters
    ----------
    words : int
        The vocabulary that is predicted.
    dimension : int
    context : int
        Words before the predicted one.
    context_words : int, optional
        The vocabulary of contexts, if it is larger: words beyond ``words`` are seen and not predicted.
    shares : tensor, optional
        The share of each word in the text: biases start at its logarithm, by default at zero.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import LogBilinear
    >>> network = LogBilinear(50, dimension=2, context=3)
    >>> network(torch.zeros(4, 3, dtype=torch.long)).shape
    torch.Size([4, 50])
    """

    def __init__(
        self, words: int, dimension: int, context: int, *, context_words: int | None = None, shares: Any = None
    ) -> None:
        super().__init__()
        seen = words if context_words is None else context_words
        check_counts(words=(words, 2), dimension=(dimension, 1), context=(context, 1))
        if seen < words:
            raise InputError(f"context_words is {context_words!r}: it must be at least words, {words}")
        self.contexts = nn.Parameter(torch.empty(seen, dimension).uniform_(-START, START))
        self.embeddings = nn.Parameter(torch.empty(words, dimension).uniform_(-START, START))
        self.weights = nn.Parameter(torch.full((context, dimension), 1.0 / context))
        self.bias = nn.Parameter(torch.zeros(words) if shares is None else _logarithms(shares, words))

    def represent(self, contexts: Any) -> Any:
        """f, one row per context."""
        return (self.contexts[contexts] * self.weights).sum(-2)

    def forward(self, contexts: Any) -> Any:
        """Scores of all words after each context."""
        return self.represent(contexts) @ self.embeddings.T + self.bias

    def scores(self, contexts: Any, words: Any) -> Any:
        """Scores of some words after each context: one row per context."""
        picked = (self.embeddings[words] * self.represent(contexts)[..., None, :]).sum(-1)
        return picked + self.bias[words]


def softmax_loss(module: Any, batch: Any) -> Any:
    """Mean of -log p(word | context) over a batch (contexts, words), over the whole vocabulary."""
    contexts, words = batch[:2]
    logits = module(contexts)
    return -torch.log_softmax(logits, dim=-1).gather(-1, words[..., None]).mean()


def noise_contrastive_loss(frequencies: Any, noise: int) -> Callable[..., Any]:
    r"""Noise-contrastive estimation: the word against ``noise`` others drawn by frequency, scores as log-probabilities.

    .. math:: -\log\sigma\bigl(\Delta(w)\bigr)-\sum_{j=1}^{k}\log\sigma\bigl(-\Delta(v_j)\bigr),\qquad
        \Delta(w)=s(w)-\log\bigl(k\,p_n(w)\bigr)

    A batch is (contexts, words, noise words), as :func:`noise_words` prepares it.

    Parameters
    ----------
    frequencies : tensor
        :math:`p_n`, the share of each word.
    noise : int
        :math:`k`.
    """
    log_expected = torch.log(noise * frequencies)

    def loss(module: Any, batch: Any) -> Any:
        contexts, words, others = batch
        asked = torch.cat([words[..., None], others], dim=-1)
        above = module.scores(contexts, asked) - log_expected[asked]
        true, false = above[..., 0], above[..., 1:]
        return -(nn.functional.logsigmoid(true) + nn.functional.logsigmoid(-false).sum(-1)).mean()

    return loss


def noise_words(frequencies: Any, noise: int) -> Callable[..., Any]:
    """Adds ``noise`` words drawn by their share to every example of a batch (contexts, words)."""
    edges = torch.cumsum(frequencies.double(), 0)
    edges = edges / edges[-1]

    def prepare(batch: Any, generator: Any) -> Any:
        contexts, words = batch
        drawn = torch.rand(len(words), noise, generator=generator, dtype=torch.float64)
        return contexts, words, torch.searchsorted(edges, drawn).clamp_max(len(edges) - 1)

    return prepare


def _logarithms(shares: Any, words: int) -> Any:
    found = torch.as_tensor(shares, dtype=torch.get_default_dtype())
    if found.shape != (words,) or not bool((found > 0).all()):
        raise InputError(f"shares are {words} numbers above zero, one for each word")
    return torch.log(found)
