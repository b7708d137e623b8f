r"""Adam on matrices with orthonormal rows or columns.

A step is taken within the tangent space of the matrices with orthonormal columns, where the new matrix :math:`W+D` has
:math:`(W+D)^\top(W+D)=I+D^\top D`. With the defect :math:`A=W^\top W-I` it is brought back by
:math:`W\leftarrow W(I-\tfrac12A+\tfrac38A^2)`, a Newton-Schulz step of one order more, after which the defect is of the
order :math:`A^3`.
"""

from __future__ import annotations

from typing import Any

from .backend import torch

_SMALL = 1e-2  # a defect that one step takes below 1e-6
_LARGE = 0.9  # beyond this the series need not converge: singular vectors instead
_MOST = 8


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
        """Move every parameter that has a gradient; matrices of the same shape are moved together."""
        for group in self.param_groups:
            alike: dict[Any, list[Any]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike.setdefault((_tall(parameter).shape, parameter.dtype, parameter.device), []).append(parameter)
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
    """Steps until the defect is small: each matrix by its own need, so that it is moved as it would be alone."""
    wanted: Any = None  # all of them
    for _ in range(_MOST):
        gap = _gap(matrix)
        size = gap.square().sum((-2, -1)).sqrt()
        if bool((size > _LARGE).any()):
            u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
            matrix.copy_(torch.where((size > _LARGE)[..., None, None], u @ vh, matrix))
            continue
        if wanted is not None:
            gap = gap * wanted[..., None, None]
        matrix.sub_(matrix @ _correction(gap))
        wanted = size > _SMALL if wanted is None else wanted & (size > _SMALL)
        if not bool(wanted.any()):
            return


def _correction(gap: Any) -> Any:
    """What is missing from I to the inverse square root of I + gap, to third order."""
    return 0.5 * gap - 0.375 * (gap @ gap)
