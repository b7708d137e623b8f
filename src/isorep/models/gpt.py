"""Small transformers: a causal GPT that predicts the next token, and a masked autoencoder that fills in hidden patches.

Both are made of one block.
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .autoencoders import Prepare, Shape, as_unit
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
        Number of tokens.
    width, n_layers, n_heads : int
        Width of the states, number of blocks and of attention heads.
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
    r"""Jacobians of the last position's state after the final norm by its state at each layer: (n, width, width) each.

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
        Whether a position attends only to itself and earlier ones.
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

        The output of ``forward`` at the last position, as a function of its state alone: keys and values of
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


class MaskedAutoencoder(nn.Module):
    """Masked autoencoder: encodes the visible patches, and predicts the pixels of hidden ones.

    The encoder sees visible patches alone; the decoder sees their codes, and a learnt token wherever a patch is hidden,
    at all positions. The loss is the mean squared error of hidden patches. Which patches are hidden is drawn by
    ``prepare``, so that a batch is a dict of ``images`` and ``order``.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width of the images; both sides are multiples of ``patch``.
    patch : int
        Side of a patch.
    width, depth, heads : int
        Width, depth and heads of the encoder.
    decoder_width, decoder_depth : int
        Width and depth of the decoder, with as many heads.
    masked : float
        The share of patches that is hidden.
    normalise : bool
        Whether each patch is predicted after standardising it by its own mean and deviation.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        patch: int = 4,
        width: int = 64,
        depth: int = 4,
        heads: int = 4,
        decoder_width: int = 32,
        decoder_depth: int = 2,
        masked: float = 0.75,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        channels, height, low = shape
        if patch < 1 or height % patch or low % patch:
            raise InputError(f"images of {height} x {low} have no patches of {patch} x {patch}")
        if width % heads or decoder_width % heads:
            raise InputError(f"widths of {width} and {decoder_width} do not divide into {heads} heads")
        self.shape, self.patch, self.normalise = tuple(shape), patch, normalise
        self.patches = (height // patch) * (low // patch)
        self.visible = self.patches - round(masked * self.patches)
        if not 0 < self.visible < self.patches:
            raise InputError(f"with {masked:g} of {self.patches} patches hidden, none is left to see or to predict")
        self.masked = float(masked)
        size = channels * patch * patch
        self.embedding = nn.Linear(size, width)
        self.positions = nn.Parameter(0.02 * torch.randn(self.patches, width))
        self.encoder = nn.Sequential(*(Block(width, heads) for _ in range(depth)), nn.LayerNorm(width))
        self.bridge = nn.Linear(width, decoder_width)
        self.hidden = nn.Parameter(0.02 * torch.randn(decoder_width))
        self.decoder_positions = nn.Parameter(0.02 * torch.randn(self.patches, decoder_width))
        self.decoder = nn.Sequential(
            *(Block(decoder_width, heads) for _ in range(decoder_depth)), nn.LayerNorm(decoder_width)
        )
        self.pixels = nn.Linear(decoder_width, size)

    def encode(self, images: Any) -> Any:
        """The mean code of all patches, none of them hidden."""
        return self.tokens(images).mean(1)

    def tokens(self, images: Any) -> Any:
        """The code of every patch, none of them hidden."""
        return self.encoder(self.embedding(self.patched(as_unit(images))) + self.positions)

    def decode(self, tokens: Any) -> Any:
        """Images for codes of all patches, as ``tokens`` gives them."""
        return self.joined(self._predicted(self.bridge(tokens)))

    def losses(self, batch: Any) -> dict[str, Any]:
        """The mean squared error of the patches that come last in the order."""
        patches, order = self.patched(as_unit(batch["images"])), batch["order"]
        seen = order[:, : self.visible]
        embedded = self.embedding(patches) + self.positions
        codes = self.bridge(self.encoder(taken(embedded, seen)))
        hidden = self.hidden.expand(len(codes), self.patches - self.visible, -1)
        # From the order they were drawn in, back to where they lie in the image.
        placed = taken(torch.cat([codes, hidden], 1), order.argsort(1))
        wanted = self._normalised(patches) if self.normalise else patches
        errors = ((self._predicted(placed) - wanted) ** 2).mean(-1)
        return {"loss": torch.gather(errors, 1, order[:, self.visible :]).mean()}

    @staticmethod
    def prepare(patches: int) -> Prepare:
        """Images with a random order of so many patches for each."""

        def drawn(batch: Any, generator: Any) -> dict[str, Any]:
            draws = torch.rand(len(batch), patches, generator=generator, device=batch.device)
            return {"images": batch, "order": draws.argsort(1)}

        return drawn

    def patched(self, images: Any) -> Any:
        """Images (n, c, h, w) as patches (n, patches, c * side * side), row by row."""
        n, side = len(images), self.patch
        channels, height, low = self.shape
        parts = images.reshape(n, channels, height // side, side, low // side, side)
        return parts.permute(0, 2, 4, 1, 3, 5).reshape(n, self.patches, channels * side * side)

    def joined(self, patches: Any) -> Any:
        """Patches as images again."""
        n, side = len(patches), self.patch
        channels, height, low = self.shape
        parts = patches.reshape(n, height // side, low // side, channels, side, side)
        return parts.permute(0, 3, 1, 4, 2, 5).reshape(n, channels, height, low)

    def _predicted(self, codes: Any) -> Any:
        return self.pixels(self.decoder(codes + self.decoder_positions))

    def _normalised(self, patches: Any) -> Any:
        mean, variance = patches.mean(-1, keepdim=True), patches.var(-1, keepdim=True, unbiased=False)
        return (patches - mean) / (variance + 1e-6).sqrt()


def taken(tokens: Any, places: Any) -> Any:
    """Tokens (n, patches, width) at places (n, some)."""
    return torch.gather(tokens, 1, places[..., None].expand(*places.shape, tokens.shape[-1]))
