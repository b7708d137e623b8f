"""A slot generator as a torch module, for what needs derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import missing_extra
from .slots import SLOPE

if TYPE_CHECKING:
    from .slots import SlotGenerator

try:
    import torch
    from torch import nn
except ModuleNotFoundError:
    raise missing_extra("torch", "torch", "a slot generator as a module") from None


def slot_module(generator: SlotGenerator, dtype: Any = None) -> nn.Module:
    """The generator with its weights as buffers."""
    return _Slots(generator, dtype or torch.float32)


class _Slots(nn.Module):
    def __init__(self, generator: SlotGenerator, dtype: torch.dtype) -> None:
        super().__init__()
        self.blocks = generator.blocks
        self.interaction, self.activation = generator.interaction, generator.activation
        self.strength, self.outputs = generator.strength, generator.outputs
        for k, (first, second) in enumerate(zip(generator.first, generator.second, strict=True)):
            self.register_buffer(f"first{k}", torch.tensor(first, dtype=dtype))
            self.register_buffer(f"second{k}", torch.tensor(second, dtype=dtype))
            place = torch.zeros(generator.window, generator.outputs, dtype=dtype)
            place[torch.arange(generator.window), torch.tensor(generator.windows[k])] = 1
            self.register_buffer(f"place{k}", place)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """Outputs (n, outputs) of latents (n, d)."""
        placed = []
        for k, block in enumerate(self.blocks):
            hidden = latents[:, block[0] : block[-1] + 1] @ self.get_buffer(f"first{k}").T
            if self.activation == "leaky_relu":
                hidden = nn.functional.leaky_relu(hidden, SLOPE)
            else:
                hidden = SLOPE * hidden + (1 - SLOPE) * nn.functional.softplus(hidden, threshold=50)
            found = hidden @ self.get_buffer(f"second{k}").T @ self.get_buffer(f"place{k}")
            if self.interaction == "occlusion":
                covered = self.get_buffer(f"place{k}").sum(0) > 0
                found = torch.where(covered, found, torch.full_like(found, -torch.inf))
            placed.append(found)
        stacked = torch.stack(placed)
        if self.interaction == "occlusion":
            return stacked.amax(0)
        total = stacked.sum(0)
        if self.interaction == "product":
            total = total + 0.5 * self.strength * (total**2 - (stacked**2).sum(0))
        return total
