"""Streamed rows: processor time and memory of a comparison from moments, at up to 100 million rows.

    python benchmarks/stream.py                         # 1 and 10 million rows of 64 columns, two sides
    python benchmarks/stream.py --millions 100          # about ten times as long as 10

Blocks of rows are made when they are needed, from the number of the block, and never stored: two sides of 100 million
rows of 64 columns are 51 GB as float32. Two calls are measured. A similarity index without a null needs second moments;
the fit of a rigid map needs them too, and its map is compared with the one that made the second side. Seconds are
processor time, which includes making the rows, also stated alone. Results go to benchmarks/results/stream.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, Table, apart_watched, keep, machine, promise

RESULTS = Path(__file__).parent / "results" / "stream.json"
WIDTH, BLOCK, NOISE = 64, 2**16, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, nargs="*", default=[1, 10], help="rows, in millions")
    parser.add_argument("--record", action="store_true", help="put the last call into the page of promises")
    parser.add_argument("--only", nargs="*", choices=CALLS, default=list(CALLS), help="calls; default: all")
    chosen = parser.parse_args()
    results: dict[str, Any] = machine()
    table = Table({"rows": 14, "call": 24, "processor": 11, "per 1e6 rows": 14, "peak memory": 13, "error": 0})
    for millions in chosen.millions:
        n = int(1e6 * millions)
        for name in chosen.only:
            found = apart_watched(run, name, n)
            if "failed" in found:
                raise SystemExit(found["failed"])
            results[f"{name}, {n} rows"] = found
            spent = f"{found['cpu_s']:.1f} s", f"{found['cpu_s'] / millions:.2f} s"
            table.add(f"{n:,}", name, *spent, f"{found['resident_gb']:.2f} GB", f"{found['error']:.1e}")
            keep(RESULTS, results)
    if chosen.record:
        promise("stream", {"rows": n, "columns": WIDTH, "call": name} | found)


def run(stage: Stage, name: str, n: int) -> dict[str, Any]:
    """One call in a process of its own; memory is that of the whole process."""
    import dask

    import isorep

    dask.config.set(scheduler="threads", num_workers=1)
    isorep.Rigid().fit(*sides(4 * BLOCK))  # modules are loaded
    x, y = sides(n)
    with stage:
        begin = time.process_time()
        error = CALLS[name](x, y)
        spent = time.process_time() - begin
    return {"cpu_s": spent, "error": error}


def sides(n: int) -> tuple[Any, Any]:
    """Two Dask arrays: uniform rows, and the same ones rotated with noise."""
    import dask.array as da

    numbers = da.arange(-(-n // BLOCK), chunks=1)
    cut = (tuple(min(BLOCK, n - start) for start in range(0, n, BLOCK)), (WIDTH,))
    made = [
        numbers.map_blocks(
            side, n, rotated, chunks=cut, new_axis=1, dtype=np.float32, meta=np.empty((0, 0), np.float32)
        )
        for rotated in (False, True)
    ]
    return made[0], made[1]


def side(number: Any, n: int, rotated: bool) -> Any:
    """One block of a side, which its number determines."""
    block = int(number[0])
    rng = np.random.Generator(np.random.SFC64(block))
    rows = min(BLOCK, n - block * BLOCK)
    x = rng.random((rows, WIDTH), dtype=np.float32)
    if not rotated:
        return x
    noise = rng.random((rows, WIDTH), dtype=np.float32)
    return x @ rotation().astype(np.float32) + np.float32(NOISE) * noise


def rotation() -> Any:
    """The rotation between the two sides."""
    return np.linalg.qr(np.random.default_rng(0).normal(size=(WIDTH, WIDTH)))[0]


def making(x: Any, y: Any) -> float:
    """Make all rows, and nothing else: the sum of a column is that of uniform numbers."""
    import dask

    total = dask.compute(x[:, 0].mean(), y[:, 0].mean())
    return abs(float(total[0]) - 0.5)


def linear_cka(x: Any, y: Any) -> float:
    """CKA of the two sides, from second moments, beside the value that rotation and noise imply."""
    from isorep.similarity import indices

    found = indices(x, y, names=["cka"], permutations=0)
    return abs(float(found.indices["cka"].value) - 1 / (1 + NOISE**2))


def rigid(x: Any, y: Any) -> float:
    """The rigid map, beside the rotation that made the second side."""
    import isorep

    fitted = isorep.Rigid().fit(x, y)
    return float(np.abs(fitted.map_.linear - rotation()).max())


CALLS: dict[str, Callable[[Any, Any], float]] = {
    "rows alone": making,
    "rigid map": rigid,
    "cka without a null": linear_cka,
}


if __name__ == "__main__":
    main()
