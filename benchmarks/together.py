"""Commands at once: four ``isorep compare`` processes side by side, beside the same four one after the other.

    python benchmarks/together.py                # 2,000 x 64 and 10,000 x 384 with --fast

Wall-clock time is what is asked for here, so the machine must be idle. Results go to benchmarks/results/together.json.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Table, keep, machine, promise

RESULTS = Path(__file__).parent / "results" / "together.json"
SIZES, PROCESSES = ((2_000, 64), (10_000, 384)), 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1, help="of each measurement; the fastest counts")
    parser.add_argument("--record", action="store_true", help="put the ratios into the page of promises")
    chosen = parser.parse_args()
    results: dict[str, Any] = machine() | {"load": os.getloadavg()[0]}
    table = Table({"rows x columns": 16, "one by one": 12, "at once": 12, "at once / one by one": 0})
    for rows, columns in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), rows, columns)
            compare(folder, 1)  # files are in memory, bytecode is written
            apart = min(timed(folder, 1) for _ in range(chosen.repeats))
            together = min(timed(folder, PROCESSES) for _ in range(chosen.repeats))
        results[f"{rows} x {columns}"] = {"apart_s": apart, "together_s": together, "ratio": together / apart}
        table.add(f"{rows:,} x {columns}", f"{apart:.2f} s", f"{together:.2f} s", f"{together / apart:.2f}")
    keep(RESULTS, results)
    if chosen.record:
        sizes = [f"{rows} x {columns}" for rows, columns in SIZES]
        promise("together", {"processes": PROCESSES, "ratios": {size: results[size]["ratio"] for size in sizes}})


def write(folder: Path, rows: int, columns: int) -> None:
    """Two runs that differ by a rotation and noise."""
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(rows, columns))
    rotation = np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    np.save(folder / "a.npy", x)
    np.save(folder / "b.npy", x @ rotation + 0.1 * rng.normal(size=(rows, columns)))


def timed(folder: str, at_once: int) -> float:
    """Seconds of four processes, so many at once."""
    begin = time.perf_counter()
    for _ in range(PROCESSES // at_once):
        compare(folder, at_once)
    return time.perf_counter() - begin


def compare(folder: str, count: int) -> None:
    command = [sys.executable, "-m", "isorep", "compare", "a.npy", "b.npy", "--fast", "--quiet"]
    running = [subprocess.Popen(command, cwd=folder) for _ in range(count)]
    if any(process.wait() for process in running):
        raise SystemExit("a comparison failed")


if __name__ == "__main__":
    main()
