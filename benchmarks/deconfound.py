"""Time and memory of ``isorep.deconfound`` at the size of a published screen: transforms beside classifiers.

    python benchmarks/deconfound.py                 # 200,000 x 384, four conditions, 5 folds
    python benchmarks/deconfound.py --scale 0.1     # rows scaled down

The embedding is simulated (100 plates, 360 independent factors, 384 dimensions) and read from a float32 file. The goal
is that fitting the transforms takes less time than the classifiers, in less than 4 GB; nothing is asserted. Results go
to benchmarks/results/deconfound.json too.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, apart, apart_watched, keep, machine, show

ROWS, WIDTH, BATCHES = 200_000, 384, 100
CONDITIONS = ("base", "pca", "pca_ica", "pca_rand")
RESULTS = Path(__file__).parent / "results" / "deconfound.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    chosen = parser.parse_args()
    rows = int(ROWS * chosen.scale) // BATCHES * BATCHES
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}\n")
    print(
        f"DECONFOUND {rows:,} x {WIDTH}, {len(CONDITIONS)} conditions, 5 folds, LightGBM with the published parameters"
    )
    with tempfile.TemporaryDirectory() as folder:
        apart(make_screen, folder, rows)
        found = apart_watched(run, folder)
    if "failed" in found:
        raise RuntimeError(found["failed"])
    spent = found["spent"]
    for name in ("transforms", "classifiers"):
        show(name, spent[name])
    show("everything", found["seconds"], f"own memory at its peak {found['own_gb']:.2f} GB")
    print(f"    transforms take {spent['transforms'] / spent['classifiers']:.2f} of the time of the classifiers")
    print(f"    AUROC {found['auroc']}")
    print(f"    load {os.getloadavg()[0]:.1f} at the end: above 2 is other work")
    keep(
        RESULTS, machine() | {"scale": chosen.scale, "rows": rows, "width": WIDTH, "load": os.getloadavg()[0], **found}
    )
    print(f"\nwritten to {RESULTS}")


def make_screen(folder: str, rows: int) -> None:
    from isorep.datasets import simulate_batches

    screen = simulate_batches(
        batches=BATCHES, rows=rows // BATCHES, biological=180, technical=180, affected=4, dimensions=WIDTH, shift=0.5
    )
    np.save(Path(folder) / "values.npy", screen.values.astype(np.float32))
    np.savez(Path(folder) / "labels.npz", perturbed=screen.perturbed, batch=screen.batch)


def run(stage: Stage, folder: str) -> dict[str, Any]:
    import isorep

    labels = np.load(Path(folder) / "labels.npz")
    with stage:
        result = isorep.deconfound(
            Path(folder) / "values.npy",
            labels["perturbed"],
            labels["batch"],
            conditions=CONDITIONS,
            n_components="all",
            classifiers="lightgbm",
            folds=5,
            n_restarts=0,
        )
    auroc = {name: round(result.mean("auroc", name).value, 4) for name in CONDITIONS}
    return {"spent": dict(result.seconds), "auroc": auroc}


if __name__ == "__main__":
    main()
