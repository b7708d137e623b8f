r"""Adam on matrices with orthonormal rows or columns, and autoencoders made of them.

A step is taken within the tangent space of the matrices with orthonormal columns, where the new matrix :math:`W+D` has
:math:`(W+D)^\top(W+D)=I+D^\top D`. It is brought back to the nearest such matrix,
:math:`W\leftarrow W(W^\top W)^{-1/2}`. The inverse root is found by Newton-Schulz iterations on the small Gram matrix,
so that the tall one is touched twice, however large the step was.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..errors import InputError
from .evaluation import nn, torch
from .sampling import INITIAL, generator

_SMALL = 1e-6  # a defect as large as single precision leaves one
_LARGE = 0.9  # beyond this the series need not converge: singular vectors instead
_MOST = 8
_FEW = 2**15  # numbers of a matrix up to which it is moved together with others of its shape


class OrthogonalAdam(torch.optim.Optimizer):
    r"""Adam whose parameters stay orthogonal: the last two dimensions are the matrix, those before count models.

    With :math:`P(G)=G-W\,\mathrm{sym}(W^\top G)` the projection on the tangent space, moments are those of
    :math:`P(G)`, the step is :math:`D=-\eta P(\hat m/(\sqrt{\hat v}+\epsilon))`, and :math:`W+D` is brought back to
    orthonormal columns (rows, where a matrix is wider than high).

    Parameters
    ----------
    params : iterable of tensors
        At least two-dimensional, with orthonormal rows or columns (:func:`orthogonal`).
    lr, betas, eps : float, pair of float, float
        As in Adam.
    """

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move every parameter that has a gradient; small matrices of the same shape are moved together."""
        for group in self.param_groups:
            alike: dict[Any, list[Any]] = {}
            for place, parameter in enumerate(group["params"]):
                if parameter.grad is not None:
                    own = place if parameter.numel() > _FEW else None  # copies cost more than calls
                    key = (_tall(parameter).shape, parameter.dtype, parameter.device, own)
                    alike.setdefault(key, []).append(parameter)
            for parameters in alike.values():
                self._move(parameters, group)

    def _move(self, parameters: list[Any], settings: dict[str, Any]) -> None:
        (first, second), eps, rate = settings["betas"], settings["eps"], settings["lr"]
        states = [self.state[parameter] for parameter in parameters]
        for parameter, state in zip(parameters, states, strict=True):
            if not state:
                state["step"] = torch.zeros(())
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            state["step"] += 1
        count = float(states[0]["step"])
        matrix, gradient = _joined(parameters), _joined([parameter.grad for parameter in parameters])
        mean = _joined([state["exp_avg"] for state in states])
        square = _joined([state["exp_avg_sq"] for state in states])
        tangent = _tangent(matrix, gradient)
        mean.lerp_(tangent, 1 - first)
        square.mul_(second).addcmul_(tangent, tangent, value=1 - second)
        size = square.sqrt().div_((1 - second**count) ** 0.5).add_(eps)
        matrix.sub_(_tangent(matrix, mean / size), alpha=rate / (1 - first**count))
        _bring_back(matrix)
        _put(matrix, parameters)
        _put(mean, [state["exp_avg"] for state in states])
        _put(square, [state["exp_avg_sq"] for state in states])


def orthogonal(rows: int, columns: int, generator: Any = None, dtype: Any = None) -> Any:
    """A random matrix with orthonormal columns (rows, where it is wider than high), uniform among them."""
    high, low = max(rows, columns), min(rows, columns)
    factor, upper = torch.linalg.qr(torch.randn(high, low, generator=generator, dtype=torch.float64))
    factor = factor * torch.sign(torch.diagonal(upper))
    return (factor if rows >= columns else factor.T).to(dtype or torch.get_default_dtype()).contiguous()


def defect(matrix: Any) -> float:
    r"""The largest entry of :math:`|W^\top W-I|`, over all models where there are several."""
    return float(_gap(_tall(matrix.detach())).abs().amax())


def _tall(matrix: Any) -> Any:
    """A view with at least as many rows as columns."""
    return matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mT


def _joined(tensors: list[Any]) -> Any:
    """Matrices of one shape, in a new first dimension; one alone is itself."""
    return _tall(tensors[0]) if len(tensors) == 1 else torch.stack([_tall(tensor) for tensor in tensors])


def _put(joined: Any, tensors: list[Any]) -> None:
    """The matrices back where they came from."""
    if len(tensors) > 1:
        for tensor, value in zip(tensors, joined, strict=True):
            _tall(tensor).copy_(value)


def _tangent(matrix: Any, gradient: Any) -> Any:
    inner = matrix.mT @ gradient
    return gradient - matrix @ (0.5 * (inner + inner.mT))


def _gap(matrix: Any) -> Any:
    gram = matrix.mT @ matrix
    gram.diagonal(dim1=-2, dim2=-1).sub_(1)
    return gram


def _bring_back(matrix: Any) -> None:
    """The nearest matrices with orthonormal columns, in place."""
    gap = _gap(matrix)
    size = torch.linalg.matrix_norm(gap)
    far = size > _LARGE
    if bool(far.any()):
        u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
        matrix.copy_(torch.where(far[..., None, None], u @ vh, matrix))
        gap = gap.masked_fill(far[..., None, None], 0)  # these are there already
    matrix.sub_(matrix @ _correction(gap))


def _correction(gap: Any) -> Any:
    r"""The difference between I and the inverse square root of I + gap.

    With :math:`Z=I-C` and :math:`E=I-Z(I+A)Z`, a step is :math:`Z\leftarrow(I+\tfrac12E+\tfrac38E^2)Z`, of third order;
    everything commutes. A matrix whose defect is small already is left as it is, as it would be alone.
    """
    correction = 0.5 * gap - 0.375 * (gap @ gap)
    for _ in range(_MOST):
        shifted = correction - gap + gap @ correction  # I - Z (I + A) = C - A + A C
        left = shifted + correction - shifted @ correction  # I - (I - S)(I - C) = S + C - S C
        wanted = torch.linalg.matrix_norm(left) > _SMALL
        if not bool(wanted.any()):
            break
        step = (0.5 * left + 0.375 * (left @ left)) * wanted[..., None, None]
        correction = correction - step + step @ correction
    return correction


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
        Seed of the weights, which are uniform among orthogonal matrices.

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
        pairs = list(pairwise(self.widths))
        for wide, narrow in pairs:
            if narrow > wide:
                kernel = "then a layer of the decoder narrows, has a kernel, and no bi-Lipschitz bound holds"
                raise InputError(f"the widths grow from {wide} to {narrow}: {kernel}; give widths that do not grow")
        if not 0 < leak <= 1:
            raise InputError(f"the leak is {leak}: it must be above 0 and at most 1")
        self.leak = float(leak)
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
        r"""Upper bound on the local bi-Lipschitz constant of the decoder, :math:`\alpha^{-(K-1)}`."""
        return float(self.leak ** -(self.layers - 1))

    def defect(self) -> float:
        """Distance of the layers from orthogonal: the largest entry of any Gram matrix minus the identity."""
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
        for index, weight in enumerate(self.weights):
            if index:
                values = torch.nn.functional.leaky_relu(values, self.leak)
            values = values @ weight.T
        return values
