"""Outputs of torch networks as arrays, a part of the inputs at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..representation import Array

_AT_ONCE = 256


def batched_outputs(outputs: Callable[[Any], Sequence[Any]], inputs: Array, at_once: int = _AT_ONCE) -> list[Array]:
    """Outputs of all inputs as float32 rows, computed for a part of the inputs at a time."""
    import torch

    parts = []
    with torch.no_grad():
        for start in range(0, len(inputs), at_once):
            found = outputs(torch.from_numpy(inputs[start : start + at_once]))
            parts.append([each.float().numpy() for each in found])
    return [np.concatenate(each) for each in zip(*parts, strict=True)]
