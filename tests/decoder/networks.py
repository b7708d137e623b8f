"""Small decoders whose Jacobians are known, or hard to get."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


def linear(matrix, dtype=torch.float64):
    """The map z -> A z as a module."""
    matrix = torch.as_tensor(np.asarray(matrix), dtype=dtype)
    module = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False, dtype=dtype)
    with torch.no_grad():
        module.weight.copy_(matrix)
    return module


def with_values(values, outputs, *, seed=0):
    """A matrix (outputs, len(values)) with these singular values."""
    rng = np.random.default_rng(seed)
    d = len(values)
    left = np.linalg.qr(rng.standard_normal((outputs, d)))[0]
    right = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (left * np.asarray(values)) @ right.T


def mlp(d=5, outputs=12, *, seed=0, dtype=torch.float64):
    """A smooth network."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, 20), nn.Tanh(), nn.Linear(20, outputs)).to(dtype)


class Images(nn.Module):
    """A convolutional decoder with dropout, batch statistics and an in-place ReLU."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(6, 4 * 4 * 4)
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(4, 8, 4, 2, 1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Conv2d(8, 3, 3, padding=1),
        )

    def forward(self, z):
        return self.layers(self.up(z).reshape(-1, 4, 4, 4))


class Tokens(nn.Module):
    """A block of self-attention over four tokens made of one latent."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(6, 4 * 16)
        self.block = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.out = nn.Linear(16, 5)

    def forward(self, z):
        return self.out(self.block(self.up(z).reshape(-1, 4, 16)))


class Square(torch.autograd.Function):
    """x squared, as torch.func cannot transform it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class SquareOnce(Square):
    """The same, and its derivative has none."""

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient
