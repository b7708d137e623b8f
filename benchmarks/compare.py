"""Speed and memory of the ladder and the diameter, beside the usual ways of doing the same work.

    python benchmarks/compare.py                # everything, about a quarter of an hour on two cores
    python benchmarks/compare.py command        # one part: command, sizes, few, ladder, mapped, diameter
    python benchmarks/compare.py --scale 0.1    # rows scaled down

``command`` is what everybody runs first: ``isorep compare a.npy b.npy``, all defaults, start-up included, on rows as
embeddings have them (power-law spectrum, clusters, heavy tails; the target is a rotation and noise). Beside it stands
the ladder by hand with scipy: refitted per fold, both directions, without a null, intervals or ICA. ``sizes`` is the
same command where it is wide, long, or has many runs, and at growing numbers of rows (about 40 minutes). ``few`` is
the same where rows are fewer than columns, beside the ladder by hand where that ends within minutes.

Each case runs in a process of its own, so that peak memory means something. Ratios are printed beside the times;
nothing is asserted. Results go to benchmarks/results/compare.json too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import MemoryWatch, apart, machine, show, timed

RUNGS = ("identity", "signed_permutation", "rigid", "linear")
RESULTS = Path(__file__).parent / "results" / "compare.json"
COMMANDS = ((2_000, 64, 2), (10_000, 384, 2), (10_000, 384, 5), (50_000, 768, 2))

FEW = ((200, 1_500), (300, 4_096), (1_000, 1_536))
BY_HAND = 2_048  # columns up to which scipy's decompositions are waited for


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="command, sizes, few, ladder, mapped, diameter; all")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    parser.add_argument("--cases", type=int, default=len(COMMANDS), help="how many sizes of the command to run")
    parser.add_argument("--skip-usual", action="store_true", help="leave out the slow peers")
    chosen = parser.parse_args()
    parts = chosen.parts or ["command", "sizes", "few", "ladder", "mapped", "diameter"]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}\n")
    results: dict[str, Any] = machine() | {"scale": chosen.scale}
    if "command" in parts:
        results["command"] = [command_part(int(n * chosen.scale), d, runs) for n, d, runs in COMMANDS[: chosen.cases]]
    if "sizes" in parts:
        results["sizes"] = sizes_part(chosen.scale)
    if "few" in parts:
        results["few"] = [few_part(max(int(n * chosen.scale), 60), d) for n, d in FEW]
    if "ladder" in parts:
        results["ladder"] = ladder_part(int(50_000 * chosen.scale), 768, chosen.skip_usual)
    if "mapped" in parts:
        results["mapped"] = mapped_part(int(1_000_000 * chosen.scale), 384)
    if "diameter" in parts:
        results["diameter"] = diameter_part(int(200_000 * chosen.scale), 384)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2))
    print(f"\nwritten to {RESULTS}")


# The command ----------------------------------------------------------------------------------------------------


def command_part(n: int, d: int, runs: int) -> dict[str, Any]:
    print(f"COMMAND isorep compare, all defaults: {runs} runs of {n:,} x {d} float32")
    with tempfile.TemporaryDirectory() as folder:
        rows = apart(save_realistic, Path(folder), n, d, runs)
        told = Path(folder) / "result.json"
        result: dict[str, Any] = {"n": n, "d": d, "runs": runs, "inputs_gb": runs * n * d * 4 / 1e9}
        result |= run_command([*rows, "--json", str(told)], None)
        stages = json.loads(told.read_text()).get("seconds", {})
        one = run_command(rows, "1")
        result |= {"one_thread_cpu_s": one["cpu_s"], "stages_s": stages}
    show("all defaults, wall", result["wall_s"], f"{result['cpu_s']:.1f} s of processor time")
    show("  one thread, processor time", result["one_thread_cpu_s"])
    print(f"    peak memory {result['peak_gb']:.2f} GB, of which inputs {result['inputs_gb']:.2f} GB")
    if runs == 2:
        by_hand = apart(run_by_hand, n, d)
        result["by_hand_s"] = by_hand
        show("ladder by hand with scipy", by_hand, f"the command takes {result['wall_s'] / by_hand:.2f} times as long")
        for stage, seconds in stages.items():
            show(f"  {stage}", seconds, f"{seconds / by_hand:.2f} of the ladder by hand")
    print()
    return result


def sizes_part(scale: float) -> list[dict[str, Any]]:
    """The command with all defaults where rows, columns or runs are many; each line is one run."""
    print("SIZES isorep compare, all defaults")
    results = []
    growing = [(rows, 64, 2) for rows in (50_000, 100_000, 200_000, 400_000)]
    for n, d, runs in (*growing, (5_000_000, 64, 2), (20_000, 4_096, 2), (2_000, 64, 40)):
        n = max(int(n * scale), 1_000)
        with tempfile.TemporaryDirectory() as folder:
            files = apart(write_realistic, Path(folder), n, d, runs)
            result = {"n": n, "d": d, "runs": runs, "inputs_gb": runs * n * d * 4 / 1e9} | run_command(files, None)
        results.append(result)
        show(f"{runs} runs of {n:,} x {d}", result["wall_s"], f"{1e6 * result['wall_s'] / n:.0f} µs per row")
        print(
            f"    {result['cpu_s']:.0f} s of processor time; peak memory {result['peak_gb']:.2f} GB, "
            f"with mapped pages; inputs {result['inputs_gb']:.2f} GB"
        )
    print()
    return results


def few_part(n: int, d: int) -> dict[str, Any]:
    """The command with all defaults where rows are fewer than columns, with one thread."""
    print(f"FEW ROWS isorep compare: 2 runs of {n:,} x {d} float32, one thread")
    with tempfile.TemporaryDirectory() as folder:
        rows = apart(save_realistic, Path(folder), n, d, 2)
        result: dict[str, Any] = {"n": n, "d": d}
        for name, options in (("all defaults", []), ("--fast", ["--fast"])):
            result[name] = run_command([*rows, *options], "1")
            show(f"{name}, processor time", result[name]["cpu_s"], f"{result[name]['peak_gb']:.2f} GB")
    if d <= BY_HAND:
        result["usual_s"] = apart(run_by_hand, n, d)
        show("ladder by hand, without null, intervals or ICA", result["usual_s"])
    print()
    return result


def write_realistic(folder: Path, n: int, d: int, runs: int) -> list[str]:
    """The files of :func:`realistic`, written block by block: the rows of one block are drawn like those of another."""
    rng = np.random.default_rng(0)
    turns = [np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(runs)]
    centres, spectrum = rng.normal(size=(10, d)), (np.arange(d) + 1.0) ** -0.5
    paths = [folder / f"run{run}.npy" for run in range(runs)]
    files = [np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d)) for path in paths]
    for start in range(0, n, 50_000):
        rows = min(50_000, n - start)
        shared = (rng.standard_t(5, size=(rows, d)) + centres[rng.integers(0, 10, rows)]) * spectrum
        for file, turn in zip(files, turns, strict=True):
            file[start : start + rows] = shared @ turn + 0.1 * shared.std() * rng.normal(size=(rows, d))
    for file in files:
        file.flush()
    return [str(path) for path in paths]


def run_command(arguments: list[str], threads: str | None) -> dict[str, float]:
    """Wall and processor seconds and peak memory of the command, in a process of its own."""
    environment = dict(os.environ)
    if threads is not None:
        environment |= {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    started = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "isorep", "compare", *arguments], env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"isorep compare ended with status {status}")
    return {
        "wall_s": time.perf_counter() - started,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_gb": used.ru_maxrss * 1024 / 1e9,
    }


def realistic(n: int, d: int, runs: int) -> list[np.ndarray]:
    """Runs as embeddings look: a power-law spectrum, ten clusters, heavy tails; each a rotation and noise."""
    rng = np.random.default_rng(0)
    shared = rng.standard_t(5, size=(n, d)) + rng.normal(size=(10, d))[rng.integers(0, 10, n)]
    shared *= (np.arange(d) + 1.0) ** -0.5
    turns = [np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(runs)]
    noise = 0.1 * shared.std()
    return [(shared @ turn + noise * rng.normal(size=(n, d))).astype(np.float32) for turn in turns]


def save_realistic(folder: Path, n: int, d: int, runs: int) -> list[str]:
    """Write them, in a process apart: the system counts the memory of whoever starts a command as the command's."""
    paths = [str(folder / f"run{run}.npy") for run in range(runs)]
    for path, values in zip(paths, realistic(n, d, runs), strict=True):
        np.save(path, values)
    return paths


def run_by_hand(n: int, d: int) -> float:
    x, y = realistic(n, d, 2)
    return by_hand(x, y)[0]


# The ladder -----------------------------------------------------------------------------------------------------


def ladder_part(n: int, d: int, skip_usual: bool) -> dict[str, Any]:
    print(f"LADDER at {n:,} x {d} float32: four rungs, in sample and 5 folds, both directions")
    result: dict[str, Any] = {"n": n, "d": d}
    result |= apart(run_ladder, n, d)
    moments, ladder = result["moments_s"], result["ladder_s"]
    show("joint float64 moments, one plain pass", moments)
    show("isorep ladder (null, intervals, exact diameter off)", ladder, f"{ladder / moments:.1f} x the moments pass")
    print(f"    peak memory above the two inputs ({result['inputs_gb']:.2f} GB): {result['own_gb']:.2f} GB")
    show("  + bootstrap intervals, 1000 draws", result["intervals_s"])
    show("  + null, 20 shuffled pairings", result["null_s"], f"{result['null_s'] / ladder:.1f} x the ladder")
    if not skip_usual:
        result |= apart(run_usual, n, d)
        usual = result["usual_s"]
        show("usual: scipy lstsq and orthogonal_procrustes a fold", usual, f"{usual / ladder:.1f} x isorep")
        show("CEBRA's consistency (in-sample linear R^2), one fit a direction", result["cebra_s"], result["cebra_with"])
        print(f"    held-out linear error: isorep {result['linear']:.6f}, usual way {result['usual_linear']:.6f}")
        print(f"    held-out rigid error:  isorep {result['rigid']:.6f}, usual way {result['usual_rigid']:.6f}")
        print(
            f"    CEBRA reports {result['cebra_score']:.4f} for these runs and {result['cebra_noise']:.4f} for pure "
            f"noise at {result['cebra_noise_n']} rows; the held-out null does not"
        )
    print()
    return result


def run_ladder(n: int, d: int) -> dict[str, Any]:
    import isorep

    x, y = pair(n, d)
    isorep.compare(x[:4000, :64], y[:4000, :64], rungs=RUNGS, n_null=1, n_boot=10)  # imports and BLAS warm up
    times: dict[str, list[float]] = {"moments": [], "ladder": []}
    for _ in range(3):
        times["moments"].append(timed(lambda: plain_moments(x, y))[0])
        with MemoryWatch() as watch:
            seconds, result = timed(lambda: isorep.compare(x, y, rungs=RUNGS, n_null=0, n_boot=0, diameter="bound"))
        times["ladder"].append(seconds)
    ladder = min(times["ladder"])
    with_intervals = timed(lambda: isorep.compare(x, y, rungs=RUNGS, n_null=0, diameter="bound"))[0]
    with_null = timed(lambda: isorep.compare(x, y, rungs=RUNGS, n_boot=0, diameter="bound"))[0]
    unit = result.rungs["linear"].unit
    return {
        "moments_s": min(times["moments"]),
        "ladder_s": ladder,
        "ratio": ladder / min(times["moments"]),
        "own_gb": watch.anonymous,
        "inputs_gb": (x.nbytes + y.nbytes) / 1e9,
        "intervals_s": max(0.0, with_intervals - ladder),
        "null_s": with_null - ladder,
        "linear": result.rungs["linear"].held_out.mean * unit,
        "rigid": result.rungs["rigid"].held_out.mean * unit,
    }


def run_usual(n: int, d: int) -> dict[str, Any]:
    """What one writes by hand: centre, fit, predict, for every fold and both directions."""
    x, y = pair(n, d)
    usual, errors = by_hand(x, y)
    score, seconds, used = cebra_score(x, y)
    m = 2 * d
    rng = np.random.default_rng(1)
    noise, _, _ = cebra_score(rng.normal(size=(m, d)), rng.normal(size=(m, d)))
    return {
        "usual_s": usual,
        "usual_linear": float(np.concatenate(errors["lstsq"]).mean()),
        "usual_rigid": float(np.concatenate(errors["procrustes"]).mean()),
        "cebra_s": seconds,
        "cebra_score": score,
        "cebra_noise": noise,
        "cebra_noise_n": m,
        "cebra_with": used,
    }


def by_hand(x: np.ndarray, y: np.ndarray) -> tuple[float, dict[str, list[np.ndarray]]]:
    """The seconds it takes, and the held-out errors of the first direction."""
    folds = np.random.default_rng(0).permutation(len(x)) % 5
    started = time.perf_counter()
    errors: dict[str, list[np.ndarray]] = {"lstsq": [], "procrustes": []}
    for source, target in ((x, y), (y, x)):
        for fold in (None, 0, 1, 2, 3, 4):
            train = slice(None) if fold is None else folds != fold
            test = slice(None) if fold is None else folds == fold
            for name, fit in (("lstsq", usual_linear), ("procrustes", usual_rigid)):
                predict = fit(source[train], target[train])
                norms = np.linalg.norm(target[test] - predict(source[test]), axis=1)
                if fold is not None and source is x:
                    errors[name].append(norms)
    return time.perf_counter() - started, errors


def usual_linear(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    from scipy.linalg import lstsq

    x_mean, y_mean = x.mean(0), y.mean(0)
    matrix = lstsq(x - x_mean, y - y_mean)[0]
    return lambda rows: (rows - x_mean) @ matrix + y_mean


def usual_rigid(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    from scipy.linalg import orthogonal_procrustes

    x_mean, y_mean = x.mean(0), y.mean(0)
    rotation, overlap = orthogonal_procrustes(x - x_mean, y - y_mean)
    scale = overlap / ((x - x_mean) ** 2).sum()
    return lambda rows: (rows - x_mean) @ rotation * scale + y_mean


def cebra_score(x: np.ndarray, y: np.ndarray) -> tuple[float, float, str]:
    """CEBRA's consistency between runs: the in-sample R^2 of a linear regression, averaged over directions."""
    try:
        from cebra.integrations.sklearn.metrics import consistency_score
    except ImportError:
        from sklearn.linear_model import LinearRegression

        started = time.perf_counter()
        scores = [LinearRegression().fit(a, b).score(a, b) for a, b in ((x, y), (y, x))]
        return float(np.mean(scores)), time.perf_counter() - started, "its algorithm; cebra is not installed"
    started = time.perf_counter()
    scores, *_ = consistency_score([x, y], between="runs")
    return float(np.mean(scores)), time.perf_counter() - started, "cebra itself"


def plain_moments(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """The joint float64 moments in one blocked pass: the yardstick."""
    d_x, d_y = x.shape[1], y.shape[1]
    xx, xy, yy = np.zeros((d_x, d_x)), np.zeros((d_x, d_y)), np.zeros((d_y, d_y))
    for start in range(0, len(x), 8192):
        a, b = x[start : start + 8192].astype(np.float64), y[start : start + 8192].astype(np.float64)
        a -= a.mean(0)
        b -= b.mean(0)
        xx += a.T @ a
        xy += a.T @ b
        yy += b.T @ b
    return xx, xy, yy


# Memory maps ----------------------------------------------------------------------------------------------------


def mapped_part(n: int, d: int) -> dict[str, Any]:
    print(f"MEMORY MAPS of {n:,} x {d} float32 ({2 * n * d * 4 / 1e9:.1f} GB in two files)")
    with tempfile.TemporaryDirectory() as folder:
        write_pair(Path(folder), n, d)
        result = apart(run_mapped, folder)
    show("isorep ladder (null, intervals, exact diameter off)", result["ladder_s"])
    print(
        f"    own memory at its peak: {result['anonymous_gb']:.2f} GB; with mapped pages {result['resident_gb']:.2f} GB"
    )
    show("  with intervals and 5 shuffled pairings", result["null_s"])
    print(f"    own memory at its peak: {result['null_anonymous_gb']:.2f} GB\n")
    return result


def run_mapped(folder: str) -> dict[str, Any]:
    import isorep

    a, b = isorep.read(Path(folder) / "a.npy"), isorep.read(Path(folder) / "b.npy")
    with MemoryWatch() as watch:
        seconds, _ = timed(lambda: isorep.compare(a, b, rungs=RUNGS, n_null=0, n_boot=0, diameter="bound"))
    with MemoryWatch() as second:
        null_seconds, _ = timed(lambda: isorep.compare(a, b, rungs=RUNGS, n_null=5, diameter="bound"))
    return {
        "ladder_s": seconds,
        "anonymous_gb": watch.anonymous,
        "resident_gb": watch.resident,
        "null_s": null_seconds,
        "null_anonymous_gb": second.anonymous,
    }


def write_pair(folder: Path, n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0].astype(np.float32)
    files = [
        np.lib.format.open_memmap(folder / name, mode="w+", dtype=np.float32, shape=(n, d))
        for name in ("a.npy", "b.npy")
    ]
    for start in range(0, n, 50_000):
        x = rng.standard_normal((min(50_000, n - start), d), dtype=np.float32)
        files[0][start : start + len(x)] = x
        files[1][start : start + len(x)] = x @ rotation + 0.3 * rng.standard_normal(x.shape, dtype=np.float32)
    for file in files:
        file.flush()


# The diameter ---------------------------------------------------------------------------------------------------


def diameter_part(n: int, d: int) -> dict[str, Any]:
    result: dict[str, Any] = {"n": n, "d": d}
    for kind in ("heavy", "isotropic"):
        words = "1 % of the rows at 5 times the typical norm" if kind == "heavy" else "isotropic Gaussian"
        print(f"DIAMETER of {n:,} x {d} float32, {words}")
        each = apart(run_diameter, n, d, kind)
        show("blocked search over all pairs", each["blocked_s"])
        show("isorep, exact", each["exact_s"], f"{each['blocked_s'] / each['exact_s']:.1f} times faster")
        print(f"    own memory at its peak {each['own_gb']:.2f} GB; same answer: {each['same']}")
        show(
            "isorep, two-sided bound",
            each["bound_s"],
            f"{each['lower']:.4f} .. {each['upper']:.4f}, exact {each['value']:.4f}",
        )
        result[kind] = each
    print()
    return result


def run_diameter(n: int, d: int, kind: str) -> dict[str, Any]:
    import isorep

    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32)
    if kind == "heavy":
        x[rng.choice(n, n // 100, replace=False)] *= 5
    isorep.diameter(x[:1000])
    with MemoryWatch() as watch:
        exact_seconds, exact = timed(lambda: isorep.diameter(x, search="exact"))
    bound_seconds, bound = timed(lambda: isorep.diameter(x, search="bound"))
    blocked_seconds, blocked = timed(lambda: blocked_diameter(x))
    return {
        "exact_s": exact_seconds,
        "blocked_s": blocked_seconds,
        "bound_s": bound_seconds,
        "value": exact.value,
        "lower": bound.lower,
        "upper": bound.upper,
        "own_gb": watch.anonymous,
        "same": bool(abs(exact.value - blocked) < 1e-4 * blocked),
    }


def blocked_diameter(x: np.ndarray, size: int = 4096) -> float:
    """The usual exact search: squared distances block by block, each pair of blocks once."""
    squares = (x * x).sum(1)
    best = 0.0
    for i in range(0, len(x), size):
        for j in range(i, len(x), size):
            block = x[i : i + size] @ x[j : j + size].T
            block *= -2
            block += squares[i : i + size, None]
            block += squares[None, j : j + size]
            best = max(best, float(block.max()))
    return float(np.sqrt(best))


# Data -----------------------------------------------------------------------------------------------------------


def pair(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two runs: a rotated copy with noise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), dtype=np.float32)
    y = x @ np.linalg.qr(rng.normal(size=(d, d)))[0].astype(np.float32)
    for start in range(0, n, 10_000):
        y[start : start + 10_000] += 0.3 * rng.standard_normal(y[start : start + 10_000].shape, dtype=np.float32)
    return x, y


if __name__ == "__main__":
    main()
