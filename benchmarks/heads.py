"""The diversity of a large head and its best-conditioned differences, beside the plain ways to them.

    python benchmarks/heads.py                 # 50,000 x 768 float32; some minutes on one core
    python benchmarks/heads.py --scale 0.1     # fewer classes

The plain ways are a full SVD of the centred head and scipy's pivoted QR of its transpose, both in float64. Everything
runs in one thread, and times are its CPU seconds, so that other work on the machine counts little. Ratios (plain way
over isorep) are printed beside the times; nothing is asserted. Results go to benchmarks/results/heads.json too.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import keep, machine, show
from scipy import linalg

from isorep.heads import diversity, head_map
from isorep.heads.diversity import best_differences, condition
from isorep.heads.spectrum import spectrum

RESULTS = Path(__file__).parent / "results" / "heads.json"
WIDTH = 768


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of classes")
    chosen = parser.parse_args()
    classes = max(int(50_000 * chosen.scale), 4 * WIDTH)
    print(f"{platform.processor() or platform.machine()}, numpy {np.__version__}, one thread, CPU seconds\n")
    print(f"a head of {classes} x {WIDTH} float32, singular values over three decades")
    g = vocabulary(classes)
    results: dict[str, Any] = {"classes": classes, "width": WIDTH}

    results["svd"], values = timed(lambda: linalg.svdvals(centred(g), overwrite_a=True))
    show("full SVD of the centred head", results["svd"], f"condition {values[0] / values[-1]:.4g}")
    results["spectrum"], found = timed(lambda: spectrum(g, "head"))
    remark = f"condition {found.condition:.4g}, ratio {results['svd'] / results['spectrum']:.1f}"
    show("isorep: rank, condition, axes", results["spectrum"], remark)

    results["qr"], plain = timed(lambda: pivoted(g))
    show("scipy pivoted QR, differences", results["qr"], f"condition {plain:.4g}")
    results["differences"], best = timed(lambda: best_differences(g, found))
    remark = (
        f"condition {best.condition:.4g}, {plain / best.condition:.1f} times better conditioned, "
        f"ratio {results['qr'] / results['differences']:.1f}"
    )
    show("isorep: best differences", results["differences"], remark)
    results |= {"qr_condition": plain, "condition": best.condition, "exchanged": best.exchanged}

    results["diversity"], _ = timed(lambda: diversity(g, weights=np.arange(1, classes + 1)))
    show("isorep: diversity, with weights", results["diversity"], "everything together")
    other = vocabulary(classes, 1)
    results["pinv"], _ = timed(lambda: np.linalg.lstsq(centred(other), centred(g), rcond=None))
    show("numpy least squares of two heads", results["pinv"])
    results["map"], _ = timed(lambda: head_map(g, other))
    show("isorep: head map, with angles", results["map"], f"ratio {results['pinv'] / results['map']:.1f}")
    keep(RESULTS, machine() | {"scale": chosen.scale, "load": os.getloadavg()[0]} | results)
    print(f"\nwritten to {RESULTS}; load {os.getloadavg()[0]:.1f} at the end: above 1 is other work")


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process, and the result."""
    began = time.process_time()
    result = action()
    return time.process_time() - began, result


def vocabulary(classes: int, seed: int = 0) -> np.ndarray:
    """Embeddings with heavy tails, a large common offset and a spectrum over three decades, in a random basis."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(5, size=(classes, WIDTH)).astype(np.float32) * np.logspace(0, -3, WIDTH, dtype=np.float32)
    basis = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
    return rows @ basis + 3


def centred(g: np.ndarray) -> np.ndarray:
    rows = g.astype(np.float64)
    return rows - rows.mean(axis=0)


def pivoted(g: np.ndarray) -> float:
    """The condition of the classes that plain pivoted QR picks, less the class nearest to the mean."""
    rows = centred(g)
    _, order = linalg.qr(rows.T, mode="r", pivoting=True, check_finite=False)
    left = order[WIDTH:]
    hub = left[np.argmin(np.linalg.norm(rows[left], axis=1))]
    return condition(rows, np.stack([order[:WIDTH], np.full(WIDTH, hub)], axis=1))


if __name__ == "__main__":
    main()
