"""vec2vec's recipe (Jha et al. 2025), small: a translation learnt by adversaries, without pairs.

Each side has an adapter into a common latent space and one out of it, with a network in between that both share.
Adversaries compare translations with vectors of the other side, and the latents of both sides. Added are the
reconstruction of each side, the cycle there and back, and inner products within a batch, which a translation keeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, LATENTS, BATCH, STEPS = 128, 32, 256, 1000
RATE = 1e-3
RECONSTRUCTED, CYCLE, KEPT = 10.0, 10.0, 10.0  # weights of the losses beside the adversarial ones
STARTS = 2


def by_adversaries(a: np.ndarray, b: np.ndarray, x: np.ndarray, seed: int, steps: int = STEPS) -> np.ndarray:
    """Rows ``x`` of the first side translated, by the start whose cycle and kept products are the best."""
    tries = [_trained(a, b, seed + start, steps) for start in range(STARTS)]
    network, means, _ = min(tries, key=lambda each: float(each[2]))
    return np.asarray(network(x - means[0]) + means[1])


def _trained(a: np.ndarray, b: np.ndarray, seed: int, steps: int) -> tuple[Any, tuple[np.ndarray, np.ndarray], float]:
    import torch
    from torch import nn
    from torch.nn.functional import normalize, softplus

    torch.manual_seed(seed)
    means = a.mean(axis=0), b.mean(axis=0)
    sides = [
        normalize(torch.from_numpy(np.asarray(rows - mean, dtype=np.float32)), dim=1)
        for rows, mean in zip((a, b), means, strict=True)
    ]
    widths = [side.shape[1] for side in sides]

    def layers(first: int, last: int, hidden: int = 1) -> nn.Sequential:
        parts: list[nn.Module] = [nn.Linear(first, WIDTH)]
        for _ in range(hidden):
            parts += [nn.LayerNorm(WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH)]
        return nn.Sequential(*parts, nn.SiLU(), nn.Linear(WIDTH, last))

    into = nn.ModuleList([layers(width, LATENTS) for width in widths])
    out = nn.ModuleList([layers(LATENTS, width) for width in widths])
    shared = layers(LATENTS, LATENTS, 2)
    judges = nn.ModuleList([*(layers(width, 1) for width in widths), layers(LATENTS, 1)])

    def latent(rows: Any, side: int) -> Any:
        return shared(into[side](rows))

    def placed(values: Any, side: int) -> Any:
        return normalize(out[side](values), dim=1)

    made = [*into.parameters(), *out.parameters(), *shared.parameters()]
    builder = torch.optim.AdamW(made, RATE, betas=(0.5, 0.9))
    judge = torch.optim.AdamW(judges.parameters(), RATE, betas=(0.5, 0.9))
    drawn = torch.Generator().manual_seed(seed)
    level = 0.0
    for step in range(steps):
        rows = [side[torch.randint(len(side), (BATCH,), generator=drawn)] for side in sides]
        codes = [latent(each, side) for side, each in enumerate(rows)]
        moved = [placed(codes[1], 0), placed(codes[0], 1)]  # what is called new in each side's space
        # Adversaries tell rows from translations, and the latents of one side from those of the other.
        told = [softplus(-judges[k](rows[k])).mean() + softplus(judges[k](moved[k].detach())).mean() for k in (0, 1)]
        apart = softplus(-judges[2](codes[0].detach())).mean() + softplus(judges[2](codes[1].detach())).mean()
        judge.zero_grad()
        (sum(told) + apart).backward()
        judge.step()
        fooled = sum(softplus(-judges[k](moved[k])).mean() for k in (0, 1))
        fooled = fooled + softplus(judges[2](codes[0])).mean() + softplus(-judges[2](codes[1])).mean()
        again = sum((placed(codes[k], k) - rows[k]).square().sum(1).mean() for k in (0, 1))
        back = [placed(latent(moved[1], 1), 0), placed(latent(moved[0], 0), 1)]
        cycle = sum((back[k] - rows[k]).square().sum(1).mean() for k in (0, 1))
        kept = sum((moved[1 - k] @ moved[1 - k].T - rows[k] @ rows[k].T).square().mean() for k in (0, 1))
        builder.zero_grad()
        (fooled + RECONSTRUCTED * again + CYCLE * cycle + KEPT * kept).backward()
        builder.step()
        if step >= 0.9 * steps:  # what can be judged without pairs, averaged over the end
            level += float((cycle + kept).detach())

    def translated(values: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            rows = normalize(torch.from_numpy(np.asarray(values, dtype=np.float32)), dim=1)
            return np.asarray(placed(latent(rows, 0), 1).double().numpy())

    return translated, means, level
