"""The block that transformers here are made of."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .backend import nn, torch


class Block(nn.Module):
    """Attention and two dense layers, each after a layer norm and added to what came in.

    Parameters
    ----------
    width, heads : int
        The width divides into the heads.
    causal : bool
        Whether a position sees itself and earlier ones alone.
    """

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        if heads < 1 or width < 1 or width % heads:
            raise InputError(f"a width of {width} does not divide into {heads} heads")
        self.heads, self.causal = heads, causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: Any) -> Any:
        """States (n, positions, width) to states of the same shape."""
        n, count, width = tokens.shape
        parts = self.queries(self.before(tokens)).reshape(n, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attend = _causal if self.causal else _open
        tokens = tokens + self.out(attend(query, key, value).transpose(1, 2).reshape(n, count, width))
        return tokens + self.dense(self.between(tokens))

    def last(self, state: Any, earlier: Any) -> Any:
        """The last position's new state (width) given the states (positions, width) before it.

        What ``forward`` gives for the last of all positions, as a function of its state alone: keys and values of
        earlier positions do not depend on it.
        """
        count, width = earlier.shape
        query, key, value = self.queries(self.before(state)).reshape(3, self.heads, -1)
        _, keys, values = self.queries(self.before(earlier)).reshape(count, 3, self.heads, -1).permute(1, 2, 0, 3)
        scores = torch.cat([(keys @ query[..., None])[..., 0], (key * query).sum(-1, keepdim=True)], dim=-1)
        weights = torch.softmax(scores / (width // self.heads) ** 0.5, dim=-1)
        mixed = (weights[:, None, :-1] @ values)[:, 0] + weights[:, -1:] * value
        state = state + self.out(mixed.reshape(width))
        return state + self.dense(self.between(state))


def _open(query: Any, key: Any, value: Any) -> Any:
    """Attention of all positions to all; all are (n, heads, positions, width of a head)."""
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1) @ value


def _causal(query: Any, key: Any, value: Any) -> Any:
    """Attention to no later position, as products: torch's own kernel is no faster here, and cannot be mapped."""
    n, heads, count, width = query.shape
    later = torch.full((count, count), float("-inf"), dtype=query.dtype, device=query.device).triu(1)
    query, key, value = (part.reshape(n * heads, count, width) for part in (query, key, value))
    weights = torch.softmax(torch.baddbmm(later, query, key.mT, alpha=width**-0.5), dim=-1)
    return (weights @ value).reshape(n, heads, count, width)
