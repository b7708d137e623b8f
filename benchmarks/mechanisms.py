"""What losses on a decoder's mechanisms add to a training step, and what the criteria cost.

    python benchmarks/mechanisms.py                # everything, some minutes on two cores
    python benchmarks/mechanisms.py losses         # one part: losses, criteria
    python benchmarks/mechanisms.py --repeats 20   # shorter
    python benchmarks/mechanisms.py --slots 2      # one size

The networks are those of the slot experiments: K slots of 3 latents and 20 outputs, encoder and decoder with two hidden
layers of 80, LeakyReLU(0.2) (tanh for second derivatives), batch 64, Adam. A step is forward, backward and update of
the autoencoder; the median counts, in processor time of one thread, so that other work does not. Results go to
benchmarks/results/mechanisms.json too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Table, apart, keep, machine

RESULTS = Path(__file__).parent / "results" / "mechanisms.json"
SLOTS, BATCH, SEEDS = (2, 3, 5), 64, 5
LOSSES = ("plain", "contrast", "contrast, 1 probe", "l1 sparsity", "IMA contrast", "cross-Hessian, 1 probe")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="losses, criteria; all by default")
    parser.add_argument("--repeats", type=int, default=60, help="steps that are timed")
    parser.add_argument("--slots", type=int, nargs="*", default=list(SLOTS), help="numbers of slots")
    chosen = parser.parse_args()
    results: dict[str, Any] = {}
    if not chosen.parts or "losses" in chosen.parts:
        results["losses"] = losses_part(chosen.repeats, chosen.slots)
    if not chosen.parts or "criteria" in chosen.parts:
        results["criteria"] = criteria_part(chosen.slots)
    keep(RESULTS, machine() | results)
    print(f"\nwritten to {RESULTS}")


# Losses -----------------------------------------------------------------------------------------------------------


def losses_part(repeats: int, numbers: list[int]) -> dict[str, Any]:
    print("LOSSES: milliseconds a step, and times the plain step; one model, and five stacked ones")
    table = Table({"loss": 24, "slots": 5, "one": 8, "times": 6, "five": 8, "times plain five": 16})
    found: dict[str, Any] = {}
    for slots in numbers:
        runs = apart(time_losses, slots, repeats)
        plain = runs["plain"]
        for name, (one, five) in runs.items():
            table.add(name, str(slots), f"{one:.2f}", f"{one / plain[0]:.1f}", f"{five:.2f}", f"{five / plain[1]:.1f}")
        found[str(slots)] = runs
    return found


def time_losses(slots: int, repeats: int) -> dict[str, tuple[float, float]]:
    import torch

    torch.set_num_threads(1)
    return {name: (step_time(name, slots, 1, repeats), step_time(name, slots, SEEDS, repeats)) for name in LOSSES}


def step_time(name: str, slots: int, models: int, repeats: int) -> float:
    import torch
    from torch import nn

    from isorep.decoder.mechanism import losses

    torch.manual_seed(0)
    latents, outputs = 3 * slots, 20 * slots
    blocks = [[3 * k, 3 * k + 1, 3 * k + 2] for k in range(slots)]

    def perceptron(first: int, last: int) -> nn.Module:
        def bend() -> nn.Module:
            return nn.Tanh() if "Hessian" in name else nn.LeakyReLU(0.2)

        return nn.Sequential(nn.Linear(first, 80), bend(), nn.Linear(80, 80), bend(), nn.Linear(80, last))

    def penalty(decoder: Callable[..., Any], z: Any) -> tuple[Any, Any]:
        """Outputs, and the loss on the decoder; where the Jacobian is made, outputs come with it."""
        if name == "plain":
            return decoder(z), 0.0
        if name == "contrast, 1 probe":
            return decoder(z), losses.compositional_contrast(decoder, z, blocks, probes=1)
        if "Hessian" in name:
            return decoder(z), losses.cross_hessian_penalty(decoder, z, blocks, probes=1)
        found, jacobian = losses.decode_and_jacobian(decoder, z)
        if name == "contrast":
            return found, losses.compositional_contrast(decoder, z, blocks, jacobian=jacobian)
        if name == "l1 sparsity":
            return found, losses.jacobian_sparsity(decoder, z, jacobian=jacobian)
        return found, losses.ima_contrast(decoder, z, jacobian=jacobian)

    pairs = [(perceptron(outputs, latents), perceptron(latents, outputs)) for _ in range(models)]
    x = torch.randn(BATCH, outputs)
    if models == 1:
        encoder, decoder = pairs[0]
        parameters = [*encoder.parameters(), *decoder.parameters()]

        def loss() -> Any:
            found, extra = penalty(decoder, encoder(x))
            return (found - x).square().mean() + 0.01 * extra
    else:
        encoders, _ = torch.func.stack_module_state([pair[0] for pair in pairs])
        decoders, _ = torch.func.stack_module_state([pair[1] for pair in pairs])
        parameters = [*encoders.values(), *decoders.values()]
        call = torch.func.functional_call

        def of_one(encoder: Any, decoder: Any) -> Any:
            z = call(pairs[0][0], encoder, (x,))
            found, extra = penalty(lambda rows: call(pairs[0][1], decoder, (rows,)), z)
            return (found - x).square().mean() + 0.01 * extra

        def loss() -> Any:
            return torch.func.vmap(of_one, randomness="different")(encoders, decoders).sum()

    optimiser = torch.optim.Adam(parameters, lr=1e-3)
    times = []
    for _ in range(repeats + 5):
        started = time.process_time()
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
        times.append(time.process_time() - started)
    return 1e3 * float(np.quantile(times[5:], 0.1))  # a machine has slow moments, and no fast ones


# Criteria ---------------------------------------------------------------------------------------------------------


def criteria_part(numbers: list[int]) -> dict[str, Any]:
    print("CRITERIA: seconds for 100 samples of a generator with 20 outputs a slot, 4 shared")
    table = Table({"slots": 6, "latents": 7, "outputs": 7, "seconds": 8, "Type S by": 20})
    found = {}
    for slots in numbers:
        run = apart(time_criteria, slots)
        table.add(str(slots), str(3 * slots), str(run["outputs"]), f"{run['total']:.2f}", run["by"])
        found[str(slots)] = run
    return found


def time_criteria(slots: int) -> dict[str, Any]:
    import torch

    import isorep
    from isorep.datasets import slot_generator

    torch.set_num_threads(1)
    generator = slot_generator(slots, overlap=4, activation="smooth")
    latents, module = generator.sample(400), generator.module(torch.float64)
    isorep.decoder.mechanisms(module, latents, generator.blocks, samples=2)  # nobody's first call is timed
    started = time.process_time()
    found = isorep.decoder.mechanisms(module, latents, generator.blocks)
    total = time.process_time() - started
    level = found.type_s.evidence[0].levels[0]
    return {
        "total": total,
        "outputs": generator.outputs,
        "by": level.method,
        "states": {name: each.state for name, each in found.criteria.items()},
        "gap": level.worst,
        "true_gap": generator.truth.gap,
    }


if __name__ == "__main__":
    main()
