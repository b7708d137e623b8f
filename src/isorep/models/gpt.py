"""A small GPT: a causal transformer that predicts the next token.

The block that transformers here are made of.
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .evaluation import nn, torch

_SPREAD = 0.02  # of all weights at the start, as in GPT-2


class GPT(nn.Module):
    r"""Tokens to logits of the next one, by causal blocks with layer norms before them and learnt positions.

    The logits are :math:`\langle f(x_{\le t}), g(y)\rangle`: the state after the final norm against one vector for
    each token of the vocabulary, without a bias, so that f is identified up to an invertible linear map where both
    vary enough.

    Parameters
    ----------
    vocabulary : int
        How many tokens there are.
    width, n_layers, n_heads : int
        Of the states, the blocks and their attention.
    context : int
        Positions at most.
    tied : bool
        Whether the vectors of the head are those of the embedding.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import GPT
    >>> model = GPT(50, width=16, n_layers=2, n_heads=2, context=8)
    >>> tokens = torch.tensor([[3, 1, 4]])
    >>> model(tokens).shape, len(model.hidden_states(tokens))
    (torch.Size([1, 3, 50]), 4)
    """

    def __init__(
        self, vocabulary: int, width: int, n_layers: int, n_heads: int, context: int, *, tied: bool = False
    ) -> None:
        super().__init__()
        if min(vocabulary, n_layers, context) < 1:
            raise InputError(f"{vocabulary} tokens, {n_layers} layers and a context of {context}: all are at least 1")
        self.vocabulary, self.width, self.context = vocabulary, width, context
        self.blocks = nn.ModuleList([Block(width, n_heads, causal=True) for _ in range(n_layers)])
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.norm = nn.LayerNorm(width)
        self.head = None if tied else nn.Linear(width, vocabulary, bias=False)
        self._start(n_layers)

    def forward(self, tokens: Any) -> Any:
        """Tokens (n, positions) to logits (n, positions, vocabulary) of the token that follows each."""
        return self.logits(self.hidden_states(tokens)[-1])

    def hidden_states(self, tokens: Any) -> list[Any]:
        """States (n, positions, width) of the embedding, after every block, and after the final norm."""
        count = tokens.shape[-1]
        if count > self.context:
            raise InputError(f"{count} tokens are more than the context of {self.context}")
        states = [self.embedding(tokens) + self.positions.weight[:count]]
        for block in self.blocks:
            states.append(block(states[-1]))
        return [*states, self.norm(states[-1])]

    def logits(self, state: Any) -> Any:
        """Logits for states after the final norm."""
        weight = self.embedding.weight if self.head is None else self.head.weight
        return nn.functional.linear(state, weight)

    def _start(self, n_layers: int) -> None:
        """Weights as GPT-2 draws them: those that add to the stream are smaller the more of them there are."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue  # norms start as they are, biases are set below
            adds = name.endswith(("out.weight", "dense.2.weight"))
            nn.init.normal_(parameter, std=_SPREAD / (2 * n_layers) ** 0.5 if adds else _SPREAD)
        for part in self.modules():
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)


def next_token_loss(module: Any, tokens: Any) -> Any:
    """The mean cross-entropy, in nats, of each token of (n, positions) but the first given those before it."""
    tokens = tokens.long()
    logits = module(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def state_jacobians(module: GPT, tokens: Any) -> list[Any]:
    r"""How the last position's state after the final norm moves with its state at each layer: (n, width, width) each.

    Later states cannot move earlier ones, so the Jacobian of the blocks that remain is block triangular over positions,
    and a block on its diagonal is the product of the blocks' own,
    :math:`\partial h^{L}_t/\partial h^{l}_t=\prod_{k\ge l}\partial h^{k+1}_t/\partial h^{k}_t`. The list is in the
    order of :meth:`GPT.hidden_states`; the last one is the identity.
    """
    with torch.no_grad():
        states = module.hidden_states(tokens)
    last = states[-2][:, -1]
    found = [torch.eye(module.width, dtype=last.dtype).expand(len(tokens), -1, -1)]
    found.append(torch.func.vmap(torch.func.jacrev(module.norm))(last).detach())
    blocks: list[Any] = list(module.blocks)
    for block, state in zip(reversed(blocks), reversed(states[:-2]), strict=True):
        own = torch.func.vmap(torch.func.jacrev(block.last))(state[:, -1], state[:, :-1])
        found.append(found[-1] @ own.detach())
    return found[::-1]


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
