"""Singular values of decoders' Jacobians, beside the usual ways of doing the same work.

    python benchmarks/decoder.py                # everything, some minutes on two cores
    python benchmarks/decoder.py images         # one part: vectors, images, bias
    python benchmarks/decoder.py --scale 0.2    # rows scaled down

Every way runs in a process of its own, ends in all singular values of every row in double precision, and is compared
with the others. Ways that go row by row are timed on fewer rows and multiplied, which is fair: each row costs the same.
The last part prints what ten random directions say of a map whose constant is known. Ratios are printed beside the
times; nothing is asserted. Results go to benchmarks/results/decoder.json too.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, Table, apart_watched, keep, machine

RESULTS = Path(__file__).parent / "results" / "decoder.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="vectors, images, bias; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    chosen = parser.parse_args()
    results: dict[str, Any] = {}
    for name, rows in (("vectors", 1000), ("images", 100)):
        if not chosen.parts or name in chosen.parts:
            results[name] = part(name, max(int(rows * chosen.scale), 20))
    if not chosen.parts or "bias" in chosen.parts:
        results["bias"] = bias()
    keep(RESULTS, machine() | {"scale": chosen.scale} | results)
    print(f"\nwritten to {RESULTS}")


def part(name: str, n: int) -> dict[str, Any]:
    d, outputs = SIZES[name]
    print(f"{name.upper()}: {n:,} Jacobians of {outputs:,} x {d} in float32, {os.cpu_count()} cores")
    table = Table(
        {"way": 44, "seconds": 9, "times isorep": 12, "CPU seconds": 11, "own GB": 7, "largest difference": 18}
    )
    result, own = {}, None
    for way, (_, most) in WAYS.items():
        rows = min(n, most or n)
        run = apart_watched(measure, name, way, n, rows)
        if "failed" in run:
            print(f"{way}: {run['failed'].strip().splitlines()[-1]}")
            continue
        seconds = run["seconds"] * n / rows
        own = own or (seconds, run["values"])
        different = float(np.abs(run["values"] - own[1][: len(run["values"])]).max())
        cpu, own_gb = run["cpu"] * n / rows, run["own_gb"]
        table.add(way, f"{seconds:.2f}", f"{seconds / own[0]:.1f}", f"{cpu:.2f}", f"{own_gb:.2f}", f"{different:.1e}")
        result[way] = {"seconds": seconds, "cpu": cpu, "rows": rows, "own_gb": own_gb, "largest_difference": different}
    print()
    return result


def measure(stage: Stage, name: str, way: str, n: int, rows: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    decoder = MAKERS[name]()
    z = torch.randn(n, SIZES[name][0], generator=torch.Generator().manual_seed(0))[:rows]
    compute = WAYS[way][0]
    compute(decoder, z[:1])  # nobody's imports and first calls are timed
    with stage:
        started = time.process_time()
        values = compute(decoder, z)
        used = time.process_time() - started
    return {"values": np.asarray(values), "cpu": used}


# Decoders ---------------------------------------------------------------------------------------------------------

SIZES = {"vectors": (32, 784), "images": (64, 3 * 64 * 64)}


def vectors() -> Any:
    from torch import manual_seed, nn

    manual_seed(0)
    return nn.Sequential(
        nn.Linear(32, 256), nn.LeakyReLU(0.2), nn.Linear(256, 512), nn.LeakyReLU(0.2), nn.Linear(512, 784)
    ).eval()


def images() -> Any:
    from torch import manual_seed, nn

    manual_seed(0)
    steps: list[Any] = [nn.Linear(64, 128 * 8 * 8), nn.Unflatten(1, (128, 8, 8))]
    for before, after in ((128, 64), (64, 32)):
        steps += [nn.ConvTranspose2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
    return nn.Sequential(*steps, nn.ConvTranspose2d(32, 3, 4, 2, 1)).eval()


MAKERS: dict[str, Callable[[], Any]] = {"vectors": vectors, "images": images}


# Ways -------------------------------------------------------------------------------------------------------------


def with_isorep(decoder: Any, z: Any) -> Any:
    import isorep

    return isorep.decoder.singular_values(decoder, z)


def all_at_once(decoder: Any, z: Any) -> Any:
    import torch

    with torch.no_grad():
        jacobians = torch.func.vmap(torch.func.jacfwd(lambda row: decoder(row[None]).reshape(-1)))(z)
        return torch.linalg.svdvals(jacobians.double())


def _row_by_row(decoder: Any, z: Any, **options: Any) -> Any:
    import torch

    found = []
    for row in z:
        jacobian = torch.autograd.functional.jacobian(lambda x: decoder(x[None]).reshape(-1), row, **options)
        found.append(torch.linalg.svdvals(jacobian.detach().double()))
    return torch.stack(found)


def forward_row_by_row(decoder: Any, z: Any) -> Any:
    return _row_by_row(decoder, z, vectorize=True, strategy="forward-mode")


def reverse_row_by_row(decoder: Any, z: Any) -> Any:
    return _row_by_row(decoder, z)


WAYS: dict[str, tuple[Callable[[Any, Any], Any], int | None]] = {  # the way, and the rows it is timed on
    "isorep": (with_isorep, None),
    "vmap of jacfwd on all rows, then svdvals": (all_at_once, None),
    "autograd.functional.jacobian, forward, by row": (forward_row_by_row, 20),
    "autograd.functional.jacobian, by row": (reverse_row_by_row, 2),
}


# Bias -------------------------------------------------------------------------------------------------------------


def bias() -> dict[str, Any]:
    """What ten directions say of a map with singular values from e^-0.5 to e^0.5, whose constant is e^0.5."""
    import torch

    import isorep

    print("BIAS: ten random directions at 1,000 rows; the exact constant is 1.649")
    table = Table({"d": 5, "exact": 9, "mean of rows": 13, "largest of rows": 16})
    result = {}
    for d in (2, 8, 32, 128):
        values = torch.linspace(0.5, -0.5, d, dtype=torch.float64).exp()
        turn = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d)))[0]
        found = isorep.decoder.bilipschitz(lambda z, m=values[:, None] * turn.T: z @ m.T, torch.zeros(1000, d).double())
        told = found.directions
        table.add(str(d), f"{told.exact:.3f}", f"{told.mean_constant:.3f}", f"{told.constant:.3f}")
        result[str(d)] = {"exact": told.exact, "mean": told.mean_constant, "largest": told.constant}
    return result


if __name__ == "__main__":
    main()
