r"""Losses that train a decoder towards independent mechanisms; torch is required.

Each takes the decoder and a batch of latents and returns the mean over the batch, differentiable in the decoder's
parameters. A decoder works on each row alone, so one forward-mode product along a latent serves the whole batch, and
:math:`d` of them make the Jacobian; ``probes`` random directions per block give unbiased estimates of some losses for
less. All work inside :func:`torch.func.vmap` over stacked models: pass
``lambda z: torch.func.functional_call(model, parameters, (z,))``, with ``randomness="different"`` for probes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from operator import index

from ...errors import InputError, missing_extra

try:
    import torch
    from torch import Tensor
    from torch.func import jvp, vmap
except ModuleNotFoundError:
    raise missing_extra("torch", "torch", "a loss on a decoder's Jacobian") from None

with warnings.catch_warnings():  # the first product loads parts of torch that torch itself calls deprecated
    warnings.filterwarnings("ignore", message=".*`torch.jit.* is deprecated")
    jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))

Decoder = Callable[[Tensor], Tensor]
WEIGHTINGS = (None, "image")
_TINY = 1e-12  # what divides is no smaller

__all__ = [
    "compositional_contrast",
    "cross_hessian_penalty",
    "decode_and_jacobian",
    "ima_contrast",
    "jacobian_sparsity",
]


def compositional_contrast(
    decoder: Decoder,
    latents: Tensor,
    blocks: Sequence[Sequence[int]],
    *,
    weighting: str | None = None,
    probes: int | None = None,
    jacobian: Tensor | None = None,
) -> Tensor:
    r"""The compositional contrast of Brady et al. (2023), 0 exactly where blocks move disjoint outputs (Type D).

    .. math:: C=\sum_n\sum_{i<j}N_{ni}N_{nj},\qquad N_{ni}=\Bigl\|\frac{\partial g_n}{\partial z_{C_i}}\Bigr\|

    It shrinks with the outputs, so combine it with a reconstruction loss.

    Parameters
    ----------
    decoder : callable
        Map from rows (n, d) to outputs (n, ...), each row on its own.
    latents : tensor (n, d)
        A batch of latents.
    blocks : sequence of sequences of int
        The latents of every block.
    weighting : {None, "image"}
        ``"image"`` divides norms by their mean over blocks and weights outputs by that mean over its largest.
    probes : int, optional
        Number of Gaussian directions per block to estimate from, instead of all latents:
        :math:`\mathbb E|J_nu|=\sqrt{2/\pi}\,N_n`, and directions of different blocks are independent, so
        :math:`\frac\pi2|J_nu_i||J_nu_j|` is unbiased. Only without ``weighting``.
    jacobian : tensor (n, outputs, d), optional
        The Jacobian, if already computed, as by :func:`decode_and_jacobian`.

    Examples
    --------
    >>> import torch
    >>> from isorep.decoder.mechanism.losses import compositional_contrast
    >>> weights = torch.tensor([[1.0, 3.0], [0.0, 4.0]])
    >>> float(compositional_contrast(lambda z: z @ weights, torch.zeros(5, 2), [[0], [1]]))
    12.0
    """
    if weighting not in WEIGHTINGS:
        raise InputError(f"weighting is {weighting!r}; known is 'image'")
    _check_blocks(blocks, latents)
    if probes is not None:
        if weighting is not None or probes < 1:
            raise InputError("probes is a number from 1 on, and goes without weighting")
        estimates = [_pairs(_probed(decoder, latents, blocks).abs()) for _ in range(probes)]
        return math.pi / 2 * torch.stack(estimates).mean(0).sum(-1).mean()
    columns = _columns(decoder, latents) if jacobian is None else jacobian
    norms = torch.stack([_norm(_part(columns, block)) for block in blocks], dim=-1)
    if weighting == "image":
        mean = norms.mean(-1, keepdim=True)
        weight = mean / mean.amax(-2, keepdim=True).clamp_min(_TINY)
        norms = norms / mean.clamp_min(_TINY)
        return (_pairs(norms) * weight[..., 0]).sum(-1).mean()
    return _pairs(norms).sum(-1).mean()


def jacobian_sparsity(decoder: Decoder, latents: Tensor, *, jacobian: Tensor | None = None) -> Tensor:
    r"""The l1 norm of the Jacobian with columns of unit length: a scale-invariant soft count of nonzeros.

    .. math:: \frac1d\sum_a\frac{\|J_{\cdot a}\|_1}{\|J_{\cdot a}\|_2}\in[1,\sqrt{\text{outputs}}]

    Type M's theorem requires few nonzeros, and Type S aligns the sparsest dictionary. A latent that moves
    nothing counts 0.
    """
    columns = _columns(decoder, latents) if jacobian is None else jacobian
    return _unit(columns).abs().sum(-2).mean()


def ima_contrast(decoder: Decoder, latents: Tensor, *, jacobian: Tensor | None = None) -> Tensor:
    r"""The contrast of independent mechanism analysis (Gresele et al. 2021), 0 exactly where columns are orthogonal.

    .. math:: \sum_a\log\|J_{\cdot a}\|-\tfrac12\log\det J^\top J

    which for a square Jacobian is :math:`\sum_a\log\|J_{\cdot a}\|-\log|\det J|`. Infinite where rank is lost.
    """
    columns = _columns(decoder, latents) if jacobian is None else jacobian
    if columns.shape[-1] > columns.shape[-2]:
        raise InputError(
            f"{columns.shape[-1]} latents and {columns.shape[-2]} outputs: no Jacobian of this shape has full rank"
        )
    unit = _unit(columns)
    square = columns.shape[-1] == columns.shape[-2]
    log_volumes: Tensor = torch.linalg.slogdet(unit)[1] if square else 0.5 * torch.linalg.slogdet(unit.mT @ unit)[1]
    return -log_volumes.mean()


def cross_hessian_penalty(
    decoder: Decoder, latents: Tensor, blocks: Sequence[Sequence[int]], *, probes: int | None = 1
) -> Tensor:
    r"""Squared second derivatives across blocks, 0 exactly where the decoder is additive (Type H₂).

    .. math:: \sum_{i<j}\|\nabla^2_{C_i,C_j}g\|_F^2

    Always 0 for ReLU networks, whose second derivatives vanish almost everywhere.

    Parameters
    ----------
    decoder, latents, blocks
        As in :func:`compositional_contrast`.
    probes : int or None
        Number of random signs u, v per pair of blocks: :math:`\mathbb E\,(u^\top\nabla^2v)^2` is the squared norm. None
        uses all pairs of latents.
    """
    if probes is not None and probes < 1:
        raise InputError("probes is a number from 1 on, or None")
    _check_blocks(blocks, latents)
    pairs = list(combinations([list(block) for block in blocks], 2))
    if not pairs:
        return latents.new_zeros(())
    if probes is None:
        whole = [_whole(decoder, latents, *pair).square().sum((0, 1, 3)).mean() for pair in pairs]
        return torch.stack(whole).sum()
    us, vs = (_signs(latents, [pair[side] for pair in pairs] * probes) for side in (0, 1))
    mixed = vmap(lambda u, v: _second(decoder, latents, u, v))(us, vs)
    return mixed.square().sum((0, 2)).mean() / probes


def decode_and_jacobian(decoder: Decoder, latents: Tensor) -> tuple[Tensor, Tensor]:
    """Compute outputs (n, outputs) and Jacobians (n, outputs, d) together, for a reconstruction and these losses."""
    flat = _flattened(decoder)

    def pushed(axis: Tensor) -> tuple[Tensor, Tensor]:
        found = jvp(flat, (latents,), (axis,))
        return found[0], found[1]

    outputs, columns = vmap(pushed, out_dims=(0, -1))(_axes(latents, range(latents.shape[-1])))
    return outputs[0], columns  # outputs are one view for all directions


def _columns(decoder: Decoder, latents: Tensor) -> Tensor:
    return decode_and_jacobian(decoder, latents)[1]


def _probed(decoder: Decoder, latents: Tensor, blocks: Sequence[Sequence[int]]) -> Tensor:
    """The derivative along one Gaussian direction in every block: (n, outputs, K)."""
    drawn = torch.randn_like(latents)
    masks = _masks(latents, blocks)
    flat = _flattened(decoder)
    return vmap(lambda mask: jvp(flat, (latents,), (drawn * mask,))[1], out_dims=-1)(masks)  # type: ignore[no-any-return]


def _second(decoder: Decoder, latents: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """The second derivative along u and v, (n, outputs)."""
    flat = _flattened(decoder)
    return jvp(lambda z: jvp(flat, (z,), (u,))[1], (latents,), (v,))[1]  # type: ignore[no-any-return]


def _whole(decoder: Decoder, latents: Tensor, first: Sequence[int], second: Sequence[int]) -> Tensor:
    """All second derivatives of two blocks, (first, second, n, outputs)."""

    def along(u: Tensor) -> Tensor:
        return vmap(lambda v: _second(decoder, latents, u, v))(_axes(latents, second))

    return vmap(along)(_axes(latents, first))


def _flattened(decoder: Decoder) -> Decoder:
    return lambda z: decoder(z).reshape(z.shape[0], -1)


def _axes(latents: Tensor, places: Sequence[int]) -> Tensor:
    """Unit directions, the same in every row: (places, n, d)."""
    eye = torch.eye(latents.shape[-1], dtype=latents.dtype, device=latents.device)[list(places)]
    return eye[:, None].expand(-1, latents.shape[0], -1)


def _masks(latents: Tensor, blocks: Sequence[Sequence[int]]) -> Tensor:
    eye = torch.eye(latents.shape[-1], dtype=latents.dtype, device=latents.device)
    return torch.stack([eye[list(block)].sum(0) for block in blocks])


def _signs(latents: Tensor, blocks: Sequence[Sequence[int]]) -> Tensor:
    """Random signs in every block and zeros elsewhere, (blocks, n, d)."""
    masks = _masks(latents, blocks)[:, None]
    return torch.randn((len(blocks), *latents.shape), dtype=latents.dtype, device=latents.device).sign() * masks


def _check_blocks(blocks: Sequence[Sequence[int]], latents: Tensor) -> None:
    """A slice beyond the last latent would be empty, and its loss 0."""
    d = latents.shape[-1]
    try:
        places = [index(place) for block in blocks for place in block]
    except TypeError:
        raise InputError(f"blocks is {blocks!r}: pass the latents of every block, as in [[0, 1], [2]]") from None
    bad = not places or not all(len(block) for block in blocks) or not all(0 <= place < d for place in places)
    if bad or len(set(places)) < len(places):
        listed = [list(each) for each in blocks]
        raise InputError(f"blocks hold some of the latents 0 to {d - 1} each and share none: they are {listed}")


def _part(columns: Tensor, block: Sequence[int]) -> Tensor:
    """Columns of a block; a slice where they are neighbours, as gathering them costs more than their norm."""
    places = list(block)
    if places == list(range(places[0], places[0] + len(places))):
        return columns[..., places[0] : places[-1] + 1]
    return columns[..., places]


def _unit(columns: Tensor) -> Tensor:
    """Columns of unit length; those that are zero stay zero."""
    largest = columns.abs().amax(-2, keepdim=True)
    scaled = columns / torch.where(largest > 0, largest, torch.ones_like(largest)).detach()  # small squares vanish
    norms = _norm(scaled, dim=-2).unsqueeze(-2)
    return scaled / torch.where(norms > 0, norms, torch.ones_like(norms))


def _norm(values: Tensor, dim: int = -1) -> Tensor:
    """Norms whose gradient is zero, not infinite, at zero."""
    squares = values.square().sum(dim)
    return torch.where(squares > 0, squares, torch.ones_like(squares)).sqrt() * (squares > 0)


def _pairs(norms: Tensor) -> Tensor:
    return 0.5 * (norms.sum(-1).square() - norms.square().sum(-1))
