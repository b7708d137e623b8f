"""Speed and memory of all pairs of many runs, beside comparing them pair by pair.

    python benchmarks/many.py                # 8 runs of 20,000 x 256, about two minutes on two cores
    python benchmarks/many.py --scale 0.1    # rows scaled down
    python benchmarks/many.py --runs 4       # fewer runs
    python benchmarks/many.py --skip-usual   # without the work by hand

Each case runs in a process of its own, so that peak memory means something. Ratios are printed beside the times;
nothing is asserted. Results go to benchmarks/results/many.json too.
"""

from __future__ import annotations

import argparse
import os
import platform
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from compare import usual_linear, usual_rigid
from measuring import Stage, apart_watched, keep, machine, show, timed

RUNGS = ("identity", "signed_permutation", "rigid", "linear")
RESULTS = Path(__file__).parent / "results" / "many.json"
RUNS, ROWS, WIDTH = 8, 20_000, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    parser.add_argument("--runs", type=int, default=RUNS, help="number of runs")
    parser.add_argument("--skip-usual", action="store_true", help="leave out the work by hand")
    chosen = parser.parse_args()
    n, count = int(ROWS * chosen.scale), chosen.runs
    pairs = count * (count - 1) // 2
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}\n")
    print(
        f"{pairs} PAIRS of {count} runs, {n:,} x {WIDTH} float32: held-out RMS of four rungs, 5 folds, both directions"
    )
    many = apart_watched(run_many, n, count)
    show("isorep.compare_many, with consensus and dimensions", many["seconds"])
    print(f"    peak memory above the {count} inputs ({many['inputs_gb']:.2f} GB): {many['own_gb']:.2f} GB")
    show("  + the null, 20 shuffles per pair", many["null_s"])
    show("  + mean, sup and quantiles, a pass for each pair", many["residuals_s"])
    results: dict[str, Any] = machine() | {"scale": chosen.scale, "runs": count, "many": many}
    for search, words in (("auto", "its defaults"), ("bound", "diameter bounded only")):
        each = apart_watched(run_pairwise, n, count, search)
        ratio = each["seconds"] / many["seconds"]
        show(
            f"isorep.compare {pairs} times, no null, no intervals, {words}",
            each["seconds"],
            f"{ratio:.1f} times as long",
        )
        print(f"    peak memory above the inputs: {each['own_gb']:.2f} GB")
        print(f"    largest difference of a held-out RMS: {np.abs(np.subtract(each['rms'], many['rms'])).max():.1e}")
        results[f"pairwise_{search}"] = each | {"ratio": ratio}
    if not chosen.skip_usual:
        usual = apart_watched(run_usual, n, count)
        ratio = usual["seconds"] / many["seconds"]
        show(
            "by hand: scipy lstsq and orthogonal_procrustes a pair and fold",
            usual["seconds"],
            f"{ratio:.1f} times as long",
        )
        results["usual"] = usual | {"ratio": ratio}
    keep(RESULTS, results)
    print(f"\nwritten to {RESULTS}")


def run_many(stage: Stage, n: int, count: int) -> dict[str, Any]:
    import isorep

    data = runs(n, count)
    isorep.compare_many([run[:2000, :32] for run in data[:3]], rungs=RUNGS, n_null=1)  # imports and BLAS warm up
    with stage:
        result = isorep.compare_many(data, rungs=RUNGS, n_null=0)
    plain = stage.seconds
    with_null = timed(lambda: isorep.compare_many(data, rungs=RUNGS, n_null=20))[0]
    with_residuals = timed(lambda: isorep.compare_many(data, rungs=RUNGS, n_null=0, residuals=True))[0]
    return {
        "inputs_gb": sum(run.nbytes for run in data) / 1e9,
        "null_s": with_null - plain,
        "residuals_s": with_residuals - plain,
        "rms": [[float(result.rungs[name].rms[pair]) for name in RUNGS] for pair in combinations(range(count), 2)],
    }


def run_pairwise(stage: Stage, n: int, count: int, search: str) -> dict[str, Any]:
    import isorep

    data = runs(n, count)
    asked = {"rungs": RUNGS, "n_null": 0, "n_boot": 0, "worst_case": False, "diameter": search}
    isorep.compare(data[0][:2000, :32], data[1][:2000, :32], **asked)
    with stage:
        results = [isorep.compare(data[i], data[j], **asked) for i, j in combinations(range(count), 2)]
    return {
        "rms": [
            [each.rungs[name].held_out.rms * each.rungs[name].unit / each.target.rms_radius for name in RUNGS]
            for each in results
        ]
    }


def run_usual(stage: Stage, n: int, count: int) -> dict[str, Any]:
    """What one writes by hand: centre, fit, predict, for every pair, direction and fold."""
    data = runs(n, count)
    folds = np.random.default_rng(0).permutation(n) % 5
    errors = []
    with stage:
        for i, j in combinations(range(count), 2):
            for source, target in ((data[i], data[j]), (data[j], data[i])):
                for fit in (usual_linear, usual_rigid):
                    squares = 0.0
                    for fold in range(5):
                        test = folds == fold
                        predict = fit(source[~test], target[~test])
                        squares += float(((target[test] - predict(source[test])) ** 2).sum())
                    errors.append(float(np.sqrt(squares / n)))
    return {"mean_rms": float(np.mean(errors))}


def runs(n: int, count: int) -> list[np.ndarray]:
    """Seeds: the same features with a falling spectrum, rotated, each with its own noise."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((n, WIDTH), dtype=np.float32) * np.geomspace(1, 0.05, WIDTH, dtype=np.float32)
    made = []
    for _ in range(count):
        turned = shared @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
        made.append(turned + 0.1 * rng.standard_normal((n, WIDTH), dtype=np.float32))
    return made


if __name__ == "__main__":
    main()
