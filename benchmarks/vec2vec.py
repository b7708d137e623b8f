"""vec2vec's recipe (Jha et al. 2025), small: a translation learnt by adversaries, without pairs.

Each side has an adapter into a common latent space and one out of it, with a network in between that both share.
Adversaries (least squares, smoothed labels) compare translations with vectors of the other side, and the latents of
both sides. Added are the reconstruction of each side, the cycle there and back, and inner products within a batch,
which a translation and a cycle keep. Weights of the losses are those of the public configuration. Networks are
narrower, the rate higher, and vectors are centred first, which is of help without pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, LATENTS, BATCH, STEPS = 128, 64, 256, 2000
RATE, JUDGES_RATE = 1e-3, 5e-4
SMOOTH = 0.9  # what adversaries are to say of true rows
RECONSTRUCTED, CYCLE, KEPT, CYCLE_KEPT = 1.0, 10.0, 1.0, 10.0  # weights beside the adversarial losses, which have 1
STARTS = 2
RECORDS = 10


Means = tuple[np.ndarray, np.ndarray]


def by_adversaries(
    a: np.ndarray, b: np.ndarray, x: np.ndarray, seed: int, steps: int = STEPS
) -> tuple[np.ndarray, list[float]]:
    """Rows ``x`` of the first side translated, by the start with the least loss at its end that needs no adversary.

    Also that loss (weighted reconstruction, cycle and kept products), averaged over each tenth of the steps.
    """
    tries = [_trained(a, b, seed + start, steps) for start in range(STARTS)]
    network, means, levels = min(tries, key=lambda each: each[2][-1])
    return np.asarray(network(x - means[0]) + means[1]), levels


def _trained(a: np.ndarray, b: np.ndarray, seed: int, steps: int) -> tuple[Any, Means, list[float]]:
    import torch
    from torch import nn
    from torch.nn.functional import normalize

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

    def says(judged: int, rows: Any, label: float) -> Any:
        return (judges[judged](rows) - label).square().mean()

    def products(rows: Any, others: Any) -> Any:
        return (rows @ rows.T - others @ others.T).square().mean()

    made = [*into.parameters(), *out.parameters(), *shared.parameters()]
    builder = torch.optim.AdamW(made, RATE, betas=(0.5, 0.9))
    judge = torch.optim.AdamW(judges.parameters(), JUDGES_RATE, betas=(0.5, 0.9))
    drawn = torch.Generator().manual_seed(seed)
    recorded: list[float] = []
    for _ in range(steps):
        rows = [side[torch.randint(len(side), (BATCH,), generator=drawn)] for side in sides]
        codes = [latent(each, side) for side, each in enumerate(rows)]
        moved = [placed(codes[1], 0), placed(codes[0], 1)]  # translations, by the side that they are in
        told = sum(says(k, rows[k], SMOOTH) + says(k, moved[k].detach(), 0.0) for k in (0, 1))
        told = told + says(2, codes[0].detach(), SMOOTH) + says(2, codes[1].detach(), 0.0)
        judge.zero_grad()
        told.backward()
        judge.step()
        fooled = sum(says(k, moved[k], SMOOTH) for k in (0, 1)) + says(2, codes[0], 0.0) + says(2, codes[1], SMOOTH)
        again = sum((placed(codes[k], k) - rows[k]).square().sum(1).mean() for k in (0, 1))
        back = [placed(latent(moved[1], 1), 0), placed(latent(moved[0], 0), 1)]
        cycle = sum((back[k] - rows[k]).square().sum(1).mean() for k in (0, 1))
        kept = sum(products(moved[1 - k], rows[k]) for k in (0, 1))
        cycle_kept = sum(products(back[k], rows[k]) for k in (0, 1))
        paired = RECONSTRUCTED * again + CYCLE * cycle + KEPT * kept + CYCLE_KEPT * cycle_kept
        builder.zero_grad()
        (fooled + paired).backward()
        builder.step()
        recorded.append(float(paired.detach()))

    def translated(values: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            rows = normalize(torch.from_numpy(np.asarray(values, dtype=np.float32)), dim=1)
            return np.asarray(placed(latent(rows, 0), 1).double().numpy())

    levels = [float(part.mean()) for part in np.array_split(recorded, min(RECORDS, steps))]
    return translated, means, levels
