"""Many seeds of a small network: one after the other, and as one program.

    python benchmarks/training.py                # some minutes on two cores
    python benchmarks/training.py --threads 1    # threads of torch
    python benchmarks/training.py --steps 0.2    # fewer steps
    python benchmarks/training.py --cases 2      # fewer networks

The networks are those of ``isorep reproduce warmup`` at its three scales, with Adam that keeps weights orthogonal, and
plain networks of the same widths with torch's fused Adam. Both ways take the same steps from the same seeds; the first
step of each is not counted. Throughput is models a second if a model took 1000 steps, by the clock and by processor
time: on a busy machine only the second says something. Ratios are printed; nothing is asserted. Results go to
benchmarks/results/training.json too.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Table, apart, keep, machine

RESULTS = Path(__file__).parent / "results" / "training.json"
CASES: dict[str, tuple[tuple[int, ...], int, int | None, int, int]] = {
    "smoke: 600 images at once": ((64, 32, 16, 5), 600, None, 6, 60),
    "digits, laptop: 1400 images at once": ((64, 32, 16, 5), 1400, None, 10, 30),
    "digits: batches of 100": ((64, 32, 16, 5), 1400, 100, 10, 60),
    "MNIST, laptop: batches of 200": ((784, 64, 32, 5), 5000, 200, 10, 15),
    "MNIST: batches of 500": ((784, 64, 32, 5), 5000, 500, 10, 10),
    "MNIST: batches of 100": ((784, 64, 32, 5), 5000, 100, 10, 20),
    "MNIST, paper: batches of 1000": ((784, 256, 64, 10), 5000, 1000, 6, 4),
}
"""Widths, rows, batch, models, steps."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of torch")
    parser.add_argument("--steps", type=float, default=1.0, help="multiplies the number of steps")
    parser.add_argument("--cases", type=int, default=len(CASES), help="how many of the cases, small ones first")
    chosen = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {chosen.threads} threads\n")
    results: dict[str, Any] = {}
    for kind in ("orthogonal", "plain"):
        print(f"{kind.upper()} networks: models a second at 1000 steps each, by the clock (by processor time)")
        headings = {"": 38, "models": 7, "one by one": 18, "one program": 18, "ratio": 15, "auto": 12}
        table = Table(headings)
        for name, case in list(CASES.items())[: chosen.cases]:
            found = apart(measure, kind, case, chosen.threads, chosen.steps)
            results[f"{kind}, {name}"] = found
            table.add(
                name,
                str(case[3]),
                *(f"{found[way]['clock']:.3f} ({found[way]['processor']:.3f})" for way in ("alone", "together")),
                f"{found['ratio']['clock']:.2f} ({found['ratio']['processor']:.2f})",
                "one program" if found["auto"] else "one by one",
            )
        print()
    keep(RESULTS, machine() | {f"threads {chosen.threads}": results})


def measure(kind: str, case: tuple[tuple[int, ...], int, int | None, int, int], threads: int, share: float) -> Any:
    """Throughput both ways, the better of two runs each."""
    import torch

    from isorep.models import Group, OrthogonalAutoencoder, Recipe, reconstruction_loss
    from isorep.models.batched import worth_together

    torch.set_num_threads(threads)
    widths, rows, batch, models, steps = case
    steps = max(int(steps * share), 3)
    data = torch.from_numpy(np.random.default_rng(0).random((rows, widths[0]), dtype=np.float32))

    def plain(seed: int) -> Any:
        layers: list[Any] = []
        for inner, outer in zip((*widths, *widths[-2::-1]), (*widths[1:], *widths[-2::-1]), strict=False):
            layers += [torch.nn.Linear(inner, outer), torch.nn.LeakyReLU(0.5)]
        return torch.nn.Sequential(*layers[:-1])

    def orthogonal(seed: int) -> Any:
        return OrthogonalAutoencoder(widths, 0.5, seed=seed)

    build = orthogonal if kind == "orthogonal" else plain
    group = Group("orthogonal_adam" if kind == "orthogonal" else "adam", 1e-2, clip_norm=1.0)
    recipe = Recipe(steps=steps + 1, batch=batch, groups=group, record_every=1)
    found: dict[str, Any] = {}
    for way in ("alone", "together"):
        runs = [_throughput(build, data, reconstruction_loss, recipe, models, way == "together") for _ in range(2)]
        found[way] = {unit: max(run[unit] for run in runs) for unit in ("clock", "processor")}
    found["ratio"] = {unit: found["together"][unit] / found["alone"][unit] for unit in ("clock", "processor")}
    found["auto"] = worth_together(build(0), batch or rows)
    return found


def _throughput(build: Any, data: Any, loss: Any, recipe: Any, models: int, together: bool) -> dict[str, float]:
    from isorep.models import train_many

    spent = {"clock": 0.0, "processor": 0.0}
    last: tuple[float, float] | None = None

    def progress(stage: str, done: int, total: int) -> None:
        """Time between records, which are steps; a model's first step is left out."""
        nonlocal last
        now = (time.perf_counter(), time.process_time())
        first = done == 1 if together else done % (recipe.steps or 1) == 1
        if last is not None and not first:
            spent["clock"] += now[0] - last[0]
            spent["processor"] += now[1] - last[1]
        last = (time.perf_counter(), time.process_time())

    train_many(build, data, loss, recipe, seeds=range(models), batched=together, progress=progress)
    steps = (recipe.steps or 1) - 1
    return {unit: models * steps / 1000 / seconds for unit, seconds in spent.items()}


if __name__ == "__main__":
    main()
