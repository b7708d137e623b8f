"""torch, or the sentence that names the extra it comes with."""

from __future__ import annotations

from ..errors import missing_extra

try:
    import torch
    from torch import nn
except ModuleNotFoundError:
    raise missing_extra("torch", "torch", "training a network") from None

__all__ = ["nn", "torch"]
