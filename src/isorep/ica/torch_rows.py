"""Sweeps on a torch device: the same sums as on the processor, from whitened rows that stay on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError, missing_extra
from ..representation import Array
from ..rows import blocks
from .contrasts import Contrast
from .white import ArrayRows, Portrait, Sums, Sweep, WhiteRows, add, as_portrait, as_sweep

_BLOCK_CELLS = 2**25

_Kernel = Callable[[Any], tuple[Any, Any, Any]]  # y -> g(y), g'(y), G(y)


def on_device(rows: WhiteRows, device: str) -> TorchRows:
    """Whitened rows copied to a torch device."""
    try:
        import torch
    except ImportError:
        raise missing_extra("torch", "torch", f"device={device!r}") from None
    if not isinstance(rows, ArrayRows):
        raise InputError("device= is for rows on this machine; Dask workers compute where they are")
    try:
        place = torch.device(device)
        precision = torch.float64 if rows.values.dtype == np.float64 and place.type != "mps" else torch.float32
        values = torch.empty((rows.n, rows.width), dtype=precision, device=place)
        for part in blocks(rows.n, max(_BLOCK_CELLS // rows.width, 1)):
            values[part] = torch.from_numpy(np.array(rows.values[part])).to(precision).to(place)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"torch cannot use the device {device!r}: {str(error).splitlines()[0]}") from None
    return TorchRows(values)


class TorchRows:
    """Whitened rows in a tensor."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.n, self.width = (int(size) for size in values.shape)

    def sweep(self, directions: Array, contrast: Contrast) -> Sweep:
        """One pass at these directions."""
        kernel, matrix = _KERNELS[contrast.name], self._placed(directions.T)

        def block(z: Any) -> list[Any]:
            g, slope, value = kernel(z @ matrix)
            return [g.T @ z, slope.sum(0), value.sum(0)]

        return as_sweep(self._sums(block), self.n)

    def fourth_order(self) -> Array:
        """The start's matrix."""
        return np.asarray(self._sums(lambda z: [(z * (z * z).sum(1, keepdim=True)).T @ z])[0] / self.n)

    def portrait(self, directions: Array, contrast: Contrast) -> Portrait:
        """One last pass at the components found."""
        kernel, matrix = _KERNELS[contrast.name], self._placed(directions.T)

        def block(z: Any) -> list[Any]:
            y = z @ matrix
            g, slope, value = kernel(y)
            square = y * y
            sums = [each.sum(0) for each in (slope, value, g * y, g * g, square * y, square * square)]
            return [*sums, slope.T @ square]

        return as_portrait(self._sums(block), self.n)

    def project(self, directions: Array) -> TorchRows:
        """The rows' coordinates along orthonormal directions."""
        return TorchRows(self.values @ self._placed(directions.T))

    def sample(self, rows: int, rng: np.random.Generator) -> TorchRows:
        """Some rows drawn at random; these rows themselves if there are no more."""
        import torch

        if rows >= self.n:
            return self
        chosen = np.sort(rng.choice(self.n, rows, replace=False))
        return TorchRows(self.values[torch.from_numpy(chosen).to(self.values.device)])

    def _placed(self, matrix: Array) -> Any:
        import torch

        return torch.from_numpy(np.ascontiguousarray(matrix)).to(self.values.dtype).to(self.values.device)

    def _sums(self, block: Callable[[Any], list[Any]]) -> Sums:
        size = max(_BLOCK_CELLS // self.width, 1)
        return add([each.double().cpu().numpy() for each in block(self.values[rows])] for rows in blocks(self.n, size))


def _logcosh(y: Any) -> tuple[Any, Any, Any]:
    import torch

    g = torch.tanh(y)
    size = y.abs()
    return g, 1 - g * g, size + torch.log1p(torch.exp(-2 * size)) - float(np.log(2.0))


def _exp(y: Any) -> tuple[Any, Any, Any]:
    import torch

    bell = torch.exp(-y * y / 2)
    return y * bell, (1 - y * y) * bell, -bell


def _cube(y: Any) -> tuple[Any, Any, Any]:
    square = y * y
    return square * y, 3 * square, square * square / 4


_KERNELS: dict[str, _Kernel] = {"logcosh": _logcosh, "exp": _exp, "cube": _cube}
