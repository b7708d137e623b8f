"""The steps that a decoder takes: how large their results are, and which have kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_KINKED = {
    "relu": "ReLU",
    "threshold": "ReLU",
    "leaky_relu": "LeakyReLU",
    "rrelu": "RReLU",
    "prelu": "PReLU",
    "_prelu_kernel": "PReLU",
    "hardtanh": "hard tanh",
    "hardsigmoid": "hard sigmoid",
    "hardswish": "hard swish",
    "clamp": "clamp",
    "clamp_min": "clamp",
    "clamp_max": "clamp",
    "abs": "absolute value",
    "maximum": "maximum",
    "minimum": "minimum",
    "max_pool2d_with_indices": "max pooling",
    "max_pool3d_with_indices": "max pooling",
    "adaptive_max_pool2d": "max pooling",
    "amax": "maximum",
    "amin": "minimum",
    "sort": "sorting",
    "topk": "sorting",
    "floor": "rounding",
    "ceil": "rounding",
    "sign": "sign",
    "softshrink": "soft shrinkage",
    "hardshrink": "hard shrinkage",
    "round": "rounding",
}


def widths(
    function: Callable[[torch.Tensor], torch.Tensor], row: torch.Tensor, least: int
) -> tuple[int, int, tuple[str, ...]]:
    """Numbers a row in the largest step and in all steps, which two rows take more than one does; and the kinks.

    ``least`` is the number of rows that the decoder always works on at once.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Steps(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.sizes: list[int] = []
            self.names: set[str] = set()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            results = out if isinstance(out, tuple | list) else [out]
            self.sizes.append(sum(int(each.numel()) for each in results if hasattr(each, "numel")))
            self.names.add(func.overloadpacket.__name__.rstrip("_"))
            return out

    watched = []
    try:
        for count in (least, 2 * least):
            with Steps() as mode:
                function(row.expand(count, -1))
            watched.append(mode)
    except Exception:  # programs that cannot be watched are planned for by their output alone
        return 4 * row.shape[1], 16 * row.shape[1], ()
    one, two = watched
    kinks = tuple(sorted({_KINKED[name] for name in one.names & set(_KINKED)}))
    if len(one.sizes) != len(two.sizes):
        return max(one.sizes), sum(one.sizes), kinks
    growth = [max(more - less, 0) // least for less, more in zip(one.sizes, two.sizes, strict=True)]
    return max(growth, default=1), sum(growth), kinks
