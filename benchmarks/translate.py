"""Speed of translating stored vectors beside plain copying, and of fitting beside scikit-learn and brute force.

    python benchmarks/translate.py                # everything, about ten minutes on two cores and 31 GB of disk
    python benchmarks/translate.py apply          # one part: apply, fit
    python benchmarks/translate.py --scale 0.1    # rows scaled down

Files are out of the page cache before every run, and times end when the output is on the disk. Ratios are printed
beside the times; nothing is asserted. Results go to benchmarks/results/translate.json too.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import MemoryWatch, apart, keep, machine, show, timed

WIDTH = 384
RESULTS = Path(__file__).parent / "results" / "translate.json"
STRENGTHS = np.logspace(-8, 3, 45)
SPARE = 4e9  # bytes of disk to leave free


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="apply, fit; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    parser.add_argument("--rounds", type=int, default=2, help="how often copying and translating take turns")
    chosen = parser.parse_args()
    parts = chosen.parts or ["apply", "fit"]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}\n")
    results: dict[str, Any] = machine() | {"scale": chosen.scale}
    if "apply" in parts:
        results["apply"] = apply_part(int(10_000_000 * chosen.scale), chosen.rounds)
    if "fit" in parts:
        results["fit"] = fit_part(int(50_000 * chosen.scale))
    keep(RESULTS, results)
    print(f"\nwritten to {RESULTS}")


# Applying -------------------------------------------------------------------------------------------------------


def apply_part(n: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        room = shutil.disk_usage(folder).free - SPARE
        n = min(n, int(room / (2 * WIDTH * 4)))
        print(f"APPLY a linear map of {WIDTH} x {WIDTH} to {n:,} float32 rows from disk ({n * WIDTH * 4 / 1e9:.1f} GB)")
        apart(make_input, name, n)
        runs: dict[str, list[dict[str, float]]] = {"copy": [], "apply": []}
        for _ in range(rounds):
            for kind, run in (("copy", run_copy), ("apply", run_apply)):
                runs[kind].append(apart(run, name))
    best = {kind: min(found, key=lambda run: run["seconds"]) for kind, found in runs.items()}
    copy, translated = best["copy"]["seconds"], best["apply"]["seconds"]
    ratio = copy / translated
    show("reading and writing the file, in blocks of 32 MiB", copy, f"{2 * n * WIDTH * 4 / copy / 1e9:.2f} GB/s")
    show("isorep: translated", translated, f"{ratio:.2f} of that speed, {n / translated / 1e3:.0f} thousand rows/s")
    print(f"    own memory at its peak: {best['apply']['own_gb']:.2f} GB")
    for kind, found in runs.items():
        for run in found:
            print(
                f"    {kind}: {run['seconds']:.1f} s, {run['cpu_s']:.1f} s of CPU, load {run['load']:.1f} at its start"
            )
    print("    a load above 0 is other work: it slows products, which need the cores, more than copying\n")
    return {"n": n, "d": WIDTH, "runs": runs, "copy_s": copy, "apply_s": translated, "ratio": ratio}


def make_input(name: str, n: int) -> None:
    """Random rows, and a map fitted to a sample of them."""
    import isorep

    folder, rng = Path(name), np.random.default_rng(0)
    out = np.lib.format.open_memmap(folder / "old.npy", "w+", np.float32, (n, WIDTH))
    for start in range(0, n, 100_000):
        out[start : start + 100_000] = rng.standard_normal((min(100_000, n - start), WIDTH), np.float32)
    out.flush()
    sample = np.array(out[: min(n, 4000)])
    new = sample @ rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / np.sqrt(WIDTH)
    isorep.translate(sample, new, maps=["linear"], n_queries=10, n_boot=0).save(folder / "map.safetensors")


def run_copy(name: str) -> dict[str, float]:
    folder = Path(name)

    def copy() -> None:
        with (folder / "old.npy").open("rb") as source, (folder / "copy.npy").open("wb") as target:
            while block := source.read(2**25):
                target.write(block)
        os.sync()

    forget(folder / "old.npy")
    found = watched(copy)
    (folder / "copy.npy").unlink()
    return found


def run_apply(name: str) -> dict[str, float]:
    import isorep
    from isorep.translation.translator import open_source, translate_files

    folder = Path(name)
    translator = isorep.Translator.load(folder / "map.safetensors")

    def translate() -> None:
        source = open_source(folder / "old.npy")
        if translator.drift(source.rows):
            raise RuntimeError("the rows look foreign")
        translate_files(translator, source, folder / "new.npy")
        os.sync()

    forget(folder / "old.npy")
    with MemoryWatch() as watch:
        found = watched(translate)
    check(folder, translator)
    (folder / "new.npy").unlink()
    return found | {"own_gb": watch.anonymous}


def watched(action: Callable[[], None]) -> dict[str, float]:
    """Wall clock, CPU time of all threads, and the load that others put on the machine."""
    load, began = os.getloadavg()[0], time.process_time()
    seconds, _ = timed(action)
    return {"seconds": seconds, "cpu_s": time.process_time() - began, "load": load}


def forget(path: Path) -> None:
    """Have the system drop a file from its cache."""
    os.sync()
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def check(folder: Path, translator: Any) -> None:
    """A few translated rows are what they should be."""
    old, new = (np.load(folder / f"{kind}.npy", mmap_mode="r") for kind in ("old", "new"))
    some = np.linspace(0, len(old) - 1, 50).astype(int)
    expected = (old[some].astype(float) - translator.old_mean) @ translator.matrix + translator.new_mean
    np.testing.assert_allclose(new[some], expected, rtol=1e-3, atol=1e-4)


# Fitting --------------------------------------------------------------------------------------------------------


def fit_part(n: int) -> dict[str, Any]:
    print(f"FIT at {n:,} pairs x {WIDTH} float32: strengths, errors, recall of 1,000 queries")
    result = apart(run_fit, n) | apart(run_ridge_only, n) | apart(run_usual, n)
    whole, ridge, usual = result["isorep_s"], result["ridge_s"], result["usual_s"]
    show("isorep: four maps, both directions of retrieval, learning curve, intervals", whole)
    show("isorep: ridge alone, with the rest", ridge)
    show("by hand: RidgeCV of 45 strengths, then all scores at once", usual, f"{usual / ridge:.1f} x isorep's ridge")
    print(f"    of which RidgeCV {result['usual_fit_s']:.1f} s and recall {result['usual_recall_s']:.1f} s")
    print(f"    held-out RMS in radii: isorep {result['ridge_rms']:.6f}, by hand {result['usual_rms']:.6f}")
    print(f"    recall at 10: isorep {result['ridge_recall']:.3f}, by hand {result['usual_recall']:.3f}\n")
    return {"n": n, "d": WIDTH} | result


def pair(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A shared signal with a wide spectrum, seen by two models with noise of their own."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((n, WIDTH), np.float32) * np.geomspace(1, 0.03, WIDTH).astype(np.float32)
    sides = []
    for _ in range(2):
        turned = signal @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
        sides.append(turned + np.float32(0.1) * rng.standard_normal((n, WIDTH), np.float32))
    return sides[0], sides[1]


def run_fit(n: int) -> dict[str, float]:
    import isorep

    x, y = pair(n)
    isorep.translate(x[:2000, :32], y[:2000, :32], n_boot=10)  # imports and BLAS warm up
    seconds, result = timed(lambda: isorep.translate(x, y))
    return {"isorep_s": seconds, "best_rms": result.maps[result.best].held_out.rms}


def run_ridge_only(n: int) -> dict[str, float]:
    import isorep

    x, y = pair(n)
    isorep.translate(x[:2000, :32], y[:2000, :32], n_boot=10)
    seconds, result = timed(lambda: isorep.translate(x, y, maps=["ridge"]))
    record = result.maps["ridge"]
    return {"ridge_s": seconds, "ridge_rms": record.held_out.rms, "ridge_recall": record.recall.recall[10]}


def run_usual(n: int) -> dict[str, float]:
    """What one writes by hand: one split, RidgeCV on the training rows, all scores of 1,000 queries at once."""
    from sklearn.linear_model import RidgeCV

    x, y = pair(n)
    order = np.random.default_rng(0).permutation(n)
    test, train = order[: n // 5], order[n // 5 :]
    unit = float(x[train].var(axis=0).mean()) * len(train)
    fit_seconds, fitted = timed(lambda: RidgeCV(STRENGTHS * unit).fit(x[train], y[train]))
    mapped = fitted.predict(x[test])
    rms = float(np.sqrt(((mapped - y[test]) ** 2).sum(axis=1).mean()) / np.sqrt(y.var(axis=0).sum()))

    def recall() -> float:
        queries, corpus = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (mapped[:1000], y))
        found = np.argpartition(-(queries @ corpus.T), 10, axis=1)[:, :10]
        return float((found == test[:1000, None]).any(axis=1).mean())

    recall_seconds, share = timed(recall)
    return {
        "usual_s": fit_seconds + recall_seconds,
        "usual_fit_s": fit_seconds,
        "usual_recall_s": recall_seconds,
        "usual_rms": rms,
        "usual_recall": share,
    }


if __name__ == "__main__":
    main()
