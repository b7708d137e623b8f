r"""Linear ends of two networks: the map between penultimate layers that equal logits determine (A.3.4).

Two networks with equal distributions have equal log-odds, :math:`W_1e_1+b_1=W_2e_2+b_2` with heads and biases centred
over classes, as softmax fixes logits up to a constant per row. Where :math:`W_2` has full column rank,

.. math:: e_2=Ae_1+a,\qquad A=W_2^+W_1,\quad a=W_2^+(b_1-b_2),

and where the logits differ, by :math:`\varepsilon_i` in row :math:`i`, the ends differ from that by
:math:`W_2^+\varepsilon_i`. With :math:`r_1,r_2` the networks from a layer to the ends,
:math:`h=r_2^{-1}\circ A\circ r_1` ties the layers, so that

.. math:: \sigma_{\min}(A)\frac{\sigma_1^{\min}}{\sigma_2^{\max}}\le\frac{\|h(x)-h(x')\|}{\|x-x'\|}\le
          \sigma_{\max}(A)\frac{\sigma_1^{\max}}{\sigma_2^{\min}} .

A rigid motion follows only as far as :math:`A` is near an isometry, or near a scaled one where a scale is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..representation import Array
from ..results import Record
from . import split
from .distances import Mismatch, rms_radius

if TYPE_CHECKING:
    import torch
    from torch import nn

EQUAL_OUTPUTS, LINEAR, NOT_DETERMINED = "equal outputs", "linear", "not determined"
ROUNDING = 1e-6  # singular values below this share of the largest are lost: networks work in float32
_AFFINE = 1e-4  # largest deviation of outputs from an affine map of the end, relative to their spread


@dataclass(frozen=True)
class EndMap(Record):
    r"""Relation between the ends of two networks.

    Attributes
    ----------
    answer : {"equal outputs", "linear", "not determined"}
        The identity between outputs, the map that two linear heads determine, or nothing.
    sentence : str
    smallest, largest : float
        Singular values of the map :math:`A` from the first end to the second: 0 and infinity where nothing ties them.
    rank, width : int or None
        Rank of the second head, centred over classes where outputs are logits, and width of the end.
    inverse : float or None
        :math:`\|W_2^+\|`: the largest change of the second end per difference of logits.
    outputs : float or None
        The root mean square difference of the outputs that the heads are compared by.
    mismatch : Mismatch or None
        :math:`\|e_2-Ae_1-a\|` over the rows.
    """

    derived: ClassVar[tuple[str, ...]] = ("determined", "similarity_constant")
    answer: str
    sentence: str
    smallest: float = 0.0
    largest: float = math.inf
    rank: int | None = None
    width: int | None = None
    inverse: float | None = None
    outputs: float | None = None
    mismatch: Mismatch | None = None

    @property
    def determined(self) -> bool:
        """Whether the ends are related by a known map."""
        return self.answer != NOT_DETERMINED

    @property
    def similarity_constant(self) -> float:
        """The constant of the map after the best global scale: 1 for a scaled isometry."""
        return math.sqrt(self.largest / self.smallest) if self.smallest > 0 else math.inf


def equal_outputs(first: Array, second: Array) -> EndMap:
    """The ends are the outputs, which Theorem 1 assumes to be equal."""
    if first.shape != second.shape:
        widths = f"{first.shape[1]} and {second.shape[1]}"
        return EndMap(NOT_DETERMINED, f"not determined: the outputs have {widths} dimensions, and cannot be equal")
    apart = mismatch(first, second)
    said = f"The rest ends at the output. The outputs differ by {apart.share:.2g} of their spread (RMS)."
    return EndMap(EQUAL_OUTPUTS, said, 1.0, 1.0, mismatch=apart, outputs=apart.rms, width=first.shape[1])


def linear_ends(
    networks: Sequence[nn.Module],
    rows: Sequence[torch.Tensor],
    to: str,
    ends: Sequence[torch.Tensor],
    outputs: Sequence[Array],
    *,
    logits: bool,
) -> EndMap:
    """The map between two layers ``to`` that the affine rest of both networks determines."""
    heads = []
    for network, inputs, end, output in zip(networks, rows, ends, outputs, strict=True):
        head = _head(split.Split(network, to, None), end, inputs, output, logits)
        if head is None:
            return _open(
                f"the outputs are not a linear function of {to}, so equal outputs do not relate the ends linearly"
            )
        heads.append(head)
    (first, shift1), (second, shift2) = heads
    if len(first) != len(second):
        return _open(f"the outputs have {len(first)} and {len(second)} dimensions, and cannot be equal")
    spread, width = np.linalg.svd(second, compute_uv=False), second.shape[1]
    rank = int((spread > ROUNDING * spread[0]).sum()) if spread[0] > 0 else 0
    if rank < width:
        centred = " once softmax's constant per row is taken out" if logits and len(second) > 1 else ""
        return _open(f"the second network's outputs use {rank} of {width} directions of {to}{centred}", rank, width)
    inverse = np.linalg.pinv(second)
    matrix, shift = inverse @ first, inverse @ (shift1 - shift2)
    values = [np.asarray(end.reshape(len(end), -1).double().cpu().numpy()) for end in ends]
    apart = mismatch(values[0] @ matrix.T + shift, values[1])
    logit = mismatch(values[0] @ first.T + shift1, values[1] @ second.T + shift2)
    singular = np.linalg.svd(matrix, compute_uv=False)
    full = matrix.shape[1] <= matrix.shape[0] and singular[-1] > ROUNDING * singular[0]
    least, most = float(singular[-1]) if full else 0.0, float(singular[0])
    said = (
        f"The outputs relate {to} of the two networks by a linear map with singular values {least:.3g} to {most:.3g}. "
        f"The ends differ from it by {apart.share:.2g} of their spread (RMS)."
    )
    norm = float(np.linalg.norm(inverse, 2))
    return EndMap(LINEAR, said, least, most, rank, width, norm, logit.rms, apart)


def mismatch(first: Array, second: Array) -> Mismatch:
    """The mismatch of paired rows."""
    norms = np.linalg.norm(first - second, axis=1)
    spread = math.hypot(rms_radius(first), rms_radius(second)) / math.sqrt(2)
    return Mismatch(float(norms.max()), float(np.sqrt((norms**2).mean())), spread)


def _open(why: str, rank: int | None = None, width: int | None = None) -> EndMap:
    return EndMap(NOT_DETERMINED, f"not determined: {why}", rank=rank, width=width)


def _head(
    rest: split.Split, end: torch.Tensor, inputs: torch.Tensor, outputs: Array, logits: bool
) -> tuple[Array, Array] | None:
    """The weights and biases of what follows the end, centred over classes for logits; None where it is not affine.

    Outputs that are probabilities are taken by their logarithms.
    """
    weights, told = next(split.rest_jacobians(rest, end[:1], inputs[:1]))[0], outputs
    if logits and outputs.shape[1] > 1:  # one alone is the log-odds of two classes, and has no constant to take out
        if (outputs > 0).all() and np.abs(outputs.sum(axis=1) - 1).max() < _AFFINE:
            weights, told = weights / outputs[0][:, None], np.log(outputs)
        weights, told = weights - weights.mean(axis=0), told - told.mean(axis=1, keepdims=True)
    linear = np.asarray(end.reshape(len(end), -1).double().cpu().numpy()) @ weights.T
    shift = (told - linear).mean(axis=0)
    off, spread = np.abs(linear + shift - told).max(), np.abs(told - told.mean(axis=0)).max()
    rounding = 16 * float(np.finfo(str(end.dtype).removeprefix("torch.")).eps) * np.abs(outputs).max()
    return (weights, shift) if off <= _AFFINE * spread + rounding else None
