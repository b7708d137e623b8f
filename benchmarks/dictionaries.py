"""Recurrence of large dictionaries: time, memory, and how far the one-to-one matching is from the optimum.

    python benchmarks/dictionaries.py                 # 16,384 x 768 twice, float32; some minutes on one core
    python benchmarks/dictionaries.py --scale 0.25    # fewer atoms

Half of the atoms are shared, with noise; cosines of shared pairs are about 0.89. The dense way, scipy's assignment of
the whole matrix, runs beside it up to 4,096 atoms. Each part has a fresh process with one thread; times are wall-clock
and CPU seconds, memory is the peak above the level before. Results go to benchmarks/results/dictionaries.json too.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, Table, apart_watched, keep, machine

RESULTS = Path(__file__).parent / "results" / "dictionaries.json"
WIDTH = 768
DENSE_MOST = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of atoms")
    chosen = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, numpy {np.__version__}, one thread\n")
    table = Table({"part": 34, "atoms": 8, "wall": 9, "CPU": 9, "memory": 9, "": 40})
    results: dict[str, Any] = {}
    largest = int(16_384 * chosen.scale)
    with tempfile.TemporaryDirectory() as folder:
        for atoms in sorted({min(DENSE_MOST, largest), largest}):
            paths = written(Path(folder), atoms)
            parts = {"recurrence, all of it": whole, "one-to-one, candidates": sparse}
            if atoms <= DENSE_MOST:
                parts["one-to-one, scipy on the matrix"] = dense
            for name, part in parts.items():
                facts = apart_watched(part, *paths)
                results[f"{name}, {atoms}"] = facts
                if "failed" in facts:
                    raise SystemExit(facts["failed"])
                remark = ", ".join(f"{key} {facts[key]:.6g}" for key in ("share", "mean", "gap") if key in facts)
                times = f"{facts['seconds']:.1f} s", f"{facts['cpu']:.1f} s"
                table.add(name, f"{atoms:,}", *times, f"{facts['own_gb']:.2f} GB", remark)
    keep(RESULTS, machine() | {"load": os.getloadavg()[0]} | results)
    print(f"\nwritten to {RESULTS}; load {os.getloadavg()[0]:.1f} at the end: above 1 is other work")


def written(folder: Path, atoms: int) -> tuple[str, str]:
    """Two files of unit atoms, half of them shared."""
    rng = np.random.default_rng(0)
    source = rng.standard_normal((atoms, WIDTH), dtype=np.float32)
    target = rng.standard_normal((atoms, WIDTH), dtype=np.float32)
    half = atoms // 2
    target[:half] = source[:half] + 0.5 * target[:half]
    paths = str(folder / f"a{atoms}.npy"), str(folder / f"b{atoms}.npy")
    for path, values in zip(paths, (source, target[rng.permutation(atoms)]), strict=True):
        np.save(path, values / np.linalg.norm(values, axis=1, keepdims=True))
    return paths


def whole(stage: Stage, first: str, second: str) -> dict[str, Any]:
    from isorep.dictionaries import recurrence

    with stage:
        began = time.process_time()
        level = (pair := recurrence(first, second).pairs[0].decoder).one_to_one
        cpu = time.process_time() - began
    return {"cpu": cpu, "share": level.share, "mean": level.mean, "gap": pair.gap}


def sparse(stage: Stage, first: str, second: str) -> dict[str, Any]:
    from isorep.dictionaries import one_to_one

    source, target = np.load(first), np.load(second)
    with stage:
        began = time.process_time()
        found = one_to_one(source, target)
        cpu = time.process_time() - began
    return {"cpu": cpu, "mean": float(found.similarity.mean()), "gap": found.gap / len(source)}


def dense(stage: Stage, first: str, second: str) -> dict[str, Any]:
    from scipy.optimize import linear_sum_assignment

    source, target = np.load(first), np.load(second)
    with stage:
        began = time.process_time()
        weights = np.maximum(source @ target.T, 0).astype(np.float64)
        mean = weights[linear_sum_assignment(-weights)].mean()
        cpu = time.process_time() - began
    return {"cpu": cpu, "mean": float(mean)}


if __name__ == "__main__":
    main()
