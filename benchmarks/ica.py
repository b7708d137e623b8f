"""Speed, memory and quality of ICA beside its peers, and what a sweep over the data costs.

    python benchmarks/ica.py                 # everything, some two hours on two cores, most of it the peers'
    python benchmarks/ica.py medium hard     # some parts: wide, medium, small, hard, real, mapped, gemm, dask
    python benchmarks/ica.py --scale 0.05    # rows scaled down
    python benchmarks/ica.py --skip-peers    # isorep alone

Every fit runs in a process of its own that has fitted something small before, so that nobody's imports are timed. Each
method is given the data in the layout it likes best, (d, n) in float64 for Picard; that conversion is neither timed nor
counted as memory. Peak memory is anonymous memory above the level before the fit, sampled from outside; its multiple
is of the float32 data. A peer that takes longer than --limit is stopped. Components are judged by one function for
all: contrast is the sum over components, at unit variance, of |E log cosh y - E log cosh nu|, nu standard normal;
recovery is the mean |correlation| with the true sources, matched one to one, on up to 20,000 rows.

Peers have their own defaults, but for the solver of scikit-learn's whitening in float64, which is the one its
documentation advises for many more rows than columns; in float32 it keeps the default, which is more accurate. Picard
is the orthogonal, extended one with tanh, without numexpr.

Nothing is asserted. Results go to benchmarks/results/ica.json too, where parts that were not run stay as they are.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import logging
import os
import platform
import re
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, Table, apart, apart_watched, keep, machine, show, timed

RESULTS = Path(__file__).parent / "results" / "ica.json"
DATA = Path(os.environ.get("ISOREP_DATA", Path(__file__).parents[2] / "shared" / "data"))
MNIST, CIFAR = DATA / "mnist.npz", DATA / "cifar10_jpeg.npz"
YARDSTICK = "scikit-learn float64"
PEERS = (YARDSTICK, "scikit-learn float32", "Picard float64", "fastica_torch float32")
PACKAGES = ("scikit-learn", "python-picard", "fastica_torch", "torch", "dask", "distributed")
JUDGED_ROWS = 20_000
NORMAL_LOG_COSH = 0.37456720749143807  # E log cosh of a standard normal variable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    parser.add_argument("--skip-peers", action="store_true", help="isorep alone")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a peer's fit is stopped")
    parser.add_argument("--seed", type=int, default=7000, help="of the first data set of each part")
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    facts = machine() | {"versions": {name: installed(name) for name in PACKAGES}}
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}, {versions}\n")
    for name in chosen.parts or PARTS:
        keep(RESULTS, facts | {name: {"scale": chosen.scale, "seed": chosen.seed, **PARTS[name](chosen)}})
        print()
    print(f"written to {RESULTS}")


def installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


# Beside the peers -----------------------------------------------------------------------------------------------


def wide_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n = int(222_000 * chosen.scale)
    print(f"WIDE: {n:,} x 384 float32, a quarter each Laplace, uniform, sparse and near-Gaussian, condition number 1e3")
    return contest(chosen, [(write_mixture, n, 384, chosen.seed)], repeats=2, best=min)


def medium_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n = int(50_000 * chosen.scale)
    print(f"MEDIUM: {n:,} x 128 float32, sources and mixing as in wide; medians of three seeds")
    return contest(chosen, [(write_mixture, n, 128, chosen.seed + i) for i in (1, 2, 3)])


def small_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n = int(20_000 * chosen.scale)
    print(f"SMALL: {n:,} x 64 float32, sources and mixing as in wide; medians of three seeds")
    return contest(chosen, [(write_mixture, n, 64, chosen.seed + i) for i in (4, 5, 6)])


def hard_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n, d = int(50_000 * chosen.scale), 128
    print(f"HARD: {n:,} x {d} float32, a quarter of the sources Gaussian, shared scales, 10 clusters; three seeds")
    makers = [(write_hard, n, d, chosen.seed + i) for i in (7, 8, 9)]
    options = {YARDSTICK: {"max_iter": 200}, "Picard float64": {"max_iter": 200, "tol": 1e-7}}
    result = contest(chosen, makers, peers=(YARDSTICK, "Picard float64"), options=options, judged=None)
    gaussian, unsettled = (listed(run[key] for run in result["runs"]["isorep"]) for key in ("gaussian", "unsettled"))
    print(f"  isorep names {gaussian} components Gaussian, where {d // 4} sources are; unsettled {unsettled}")
    return result | {"gaussian_sources": d // 4}


def real_part(chosen: argparse.Namespace) -> dict[str, Any]:
    result = {}
    for file, words, maker in (
        (MNIST, "MNIST pixels, 64 principal components", write_mnist),
        (CIFAR, "CIFAR-10 8 x 8 colour patches, 96 principal components", write_cifar),
    ):
        print(f"REAL: {words}; split-half: two fits to half of the rows each, matched as for recovery")
        if file.exists():
            result[maker.__name__.removeprefix("write_")] = contest(
                chosen, [(maker, chosen.scale, chosen.seed)], judged="split_half"
            )
        else:
            print(f"  left out: {file} is not there; set ISOREP_DATA to its folder")
    return result


def contest(
    chosen: argparse.Namespace,
    makers: list[tuple[Any, ...]],
    *,
    peers: tuple[str, ...] = PEERS,
    options: dict[str, dict[str, Any]] | None = None,
    repeats: int = 1,
    best: Callable[[list[float]], float] = statistics.median,
    judged: str | None = "recovery",
) -> dict[str, Any]:
    """Fit every method to every data set, and print a row a method as soon as it is known."""
    with tempfile.TemporaryDirectory() as folder:
        places = [str(Path(folder) / str(number)) for number in range(len(makers))]
        for place, (maker, *arguments) in zip(places, makers, strict=True):
            Path(place).mkdir()
            apart(maker, place, *arguments)
        input_gb = np.load(Path(places[0]) / "x.npy", mmap_mode="r").nbytes / 1e9
        table = Table(
            {"method": 22, "seconds": 8, "speed": 7, "iterations": 10, "converged": 9, "contrast": 9, "gain": 9}
            | ({judged.replace("_", "-"): 10, "difference": 10} if judged else {})
            | {"own GB": 7, "x input": 7, "": 0}
        )
        runs: dict[str, list[dict[str, Any]]] = {}
        for name in ("isorep",) if chosen.skip_peers else (peers[0], "isorep", *peers[1:]):
            limit = None if name == "isorep" else chosen.limit
            settings = (options or {}).get(name, {})
            tries = repeats if name == "isorep" else 1
            runs[name] = [
                measure(name, place, settings, limit, judged == "split_half") for place in places for _ in range(tries)
            ]
            add_row(table, name, runs[name], runs.get(YARDSTICK), input_gb, judged, best)
    print("  speed: times as fast as scikit-learn float64; gain: contrast above its contrast, relatively")
    for name, those in runs.items():
        for run in those:
            run["x_input"] = run.get("own_gb", 0.0) / input_gb
            if "failed" in run:
                print(f"  {name} failed: {run['failed'].strip().splitlines()[-1]}")
            elif "note" in run:
                print(f"  {name}: {run['note']}")
    if "restarts" in runs["isorep"][0]:
        scores = runs["isorep"][0]["restarts"]
        print(f"  isorep.stability over restarts: median score {np.median(scores):.3f}, least {np.min(scores):.3f}")
    return {"input_gb": input_gb, "runs": runs}


def measure(name: str, place: str, settings: dict[str, Any], limit: float | None, halves: bool) -> dict[str, Any]:
    """One fit, and its agreement between two halves of the rows if that is asked for; plain numbers come back."""
    run = apart_watched(run_method, name, place, settings, None, limit=limit)
    if halves and "components" in run:
        pair = [apart_watched(run_method, name, place, settings, half, limit=limit) for half in (0, 1)]
        if all("components" in half for half in pair):
            matched = apart(agreement, place, *((half["components"], half["mean"]) for half in pair))
            run |= {"split_half": float(matched.mean()), "steady": float((matched > 0.9).mean())}
        if name == "isorep":
            run |= apart(restarts, place)
    for drop in ("components", "mean"):
        run.pop(drop, None)
    return run


def add_row(
    table: Table,
    name: str,
    runs: list[dict[str, Any]],
    yardstick: list[dict[str, Any]] | None,
    input_gb: float,
    judged: str | None,
    best: Callable[[list[float]], float],
) -> None:
    def middle(key: str, form: str) -> str:
        values = [run[key] for run in runs if key in run]
        return format(statistics.median(values), form) if values else "-"

    def against(key: str, form: str, change: Callable[[float, float], float]) -> str:
        pairs = [pair for pair in zip(runs, yardstick or [], strict=False) if all(key in run for run in pair)]
        changes = [change(mine[key], theirs[key]) for mine, theirs in pairs]
        return format(statistics.median(changes), form) if changes else "-"

    times = [run["seconds"] for run in runs if "seconds" in run]
    if not times:
        table.add(name, "failed", *["-"] * (9 if judged else 7), "")
        return
    stopped = any("stopped" in run for run in runs)
    reached = sum(run.get("converged", False) for run in runs)
    own = max(run["own_gb"] for run in runs)
    remarks = [f"each {listed(f'{seconds:.2f}' for seconds in times)}"] if len(times) > 1 else []
    if "steady" in runs[0]:
        remarks.append(f"{runs[0]['steady']:.0%} of the components above 0.9")
    if stopped:
        remarks.append(f"stopped after {max(times):.0f} s")
    table.add(
        name,
        f"{'>' if stopped else ''}{best(times):.2f}",
        speed(best(times), stopped, yardstick, best),
        middle("iterations", ".0f"),
        f"{reached}/{len(runs)}" if len(runs) > 1 else "yes" if reached else "no",
        middle("contrast", ".4f"),
        against("contrast", "+.4%", lambda mine, theirs: mine / theirs - 1),
        *((middle(judged, ".4f"), against(judged, "+.5f", lambda mine, theirs: mine - theirs)) if judged else ()),
        f"{own:.3f}",
        f"{own / input_gb:.1f}",
        "; ".join(remarks),
    )


def speed(
    seconds: float, stopped: bool, yardstick: list[dict[str, Any]] | None, best: Callable[[list[float]], float]
) -> str:
    """Times as fast as the yardstick; only a bound where either was stopped."""
    times = [run["seconds"] for run in yardstick or [] if "seconds" in run]
    if not times:
        return "-"
    yardstick_stopped = any("stopped" in run for run in yardstick or [])
    if stopped and yardstick_stopped:
        return "-"
    return f"{'>' if yardstick_stopped else '<' if stopped else ''}{best(times) / seconds:.2f}"


def listed(values: Any) -> str:
    return ", ".join(map(str, values))


# Methods --------------------------------------------------------------------------------------------------------


def run_method(stage: Stage, name: str, place: str, settings: dict[str, Any], half: int | None) -> dict[str, Any]:
    """Fit a method to the rows in a folder, or to every second one, and judge what it found."""
    prepare, fit = METHODS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(prepare(rows_of_laplace(4000, 32)))
    x = np.load(Path(place) / "x.npy", mmap_mode="r")
    data = prepare(x if half is None else x[half::2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with stage:
            found = fit(data, **settings)
    del data
    said = " ".join(str(warning.message) for warning in caught)
    found.setdefault("converged", "did not converge" not in said)
    if gradient := re.search(r"Final gradient norm : (\S+?)\. Requested tolerance : (\S+?)\. ", said):
        found["note"] = f"not converged, largest gradient {gradient[1]} (asked for {gradient[2]})"
    if half is None:
        found |= judge(place, found["components"], found["mean"])
    return found


def fit_isorep(x: np.ndarray) -> dict[str, Any]:
    import isorep

    ica = isorep.ICA().fit(x)
    return {
        "components": ica.components_,
        "mean": ica.mean_,
        "iterations": ica.n_iter_,
        "converged": bool(ica.converged_),
        "gaussian": int(ica.gaussian_.sum()),
        "unsettled": int(ica.unsettled_.sum()),
    }


def fit_scikit_learn(x: np.ndarray, **settings: Any) -> dict[str, Any]:
    from sklearn.decomposition import FastICA

    solver = "eigh" if x.dtype == np.float64 else "svd"
    ica = FastICA(whiten="unit-variance", whiten_solver=solver, random_state=0, **settings).fit(x)
    return {"components": ica.components_, "mean": ica.mean_, "iterations": ica.n_iter_}


def fit_picard(x: np.ndarray, **settings: Any) -> dict[str, Any]:
    import picard
    import picard.densities

    picard.densities.ne = None  # where numexpr is installed it would be taken
    whitener, rotation, _, mean, iterations = picard.picard(
        x, fun="tanh", ortho=True, extended=True, random_state=0, return_X_mean=True, return_n_iter=True, **settings
    )
    return {"components": rotation @ whitener, "mean": mean, "iterations": iterations}


def fit_fastica_torch(x: Any) -> dict[str, Any]:
    from fastica_torch import FastICA

    ica = FastICA(random_state=0)
    ica.fit(x)
    found = {"components": ica.components_.numpy(), "mean": ica.mean_.numpy(), "iterations": ica.n_iter_}
    return found | {"converged": ica.n_iter_ < ica.max_iter}  # it does not say


def as_tensor(x: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.array(x))


METHODS: dict[str, tuple[Callable[[np.ndarray], Any], Callable[..., dict[str, Any]]]] = {
    "isorep": (np.array, fit_isorep),
    "scikit-learn float64": (lambda x: np.array(x, dtype=np.float64), fit_scikit_learn),
    "scikit-learn float32": (np.array, fit_scikit_learn),
    "Picard float64": (lambda x: np.array(x.T, dtype=np.float64, order="C"), fit_picard),
    "fastica_torch float32": (as_tensor, fit_fastica_torch),
}


def judge(place: str, components: np.ndarray, mean: np.ndarray) -> dict[str, float]:
    """Contrast over all rows and, where the sources are known, recovery; in float64 whoever found the components."""
    total, square, value, n = 0.0, 0.0, 0.0, 0
    for y in projected(place, components, mean):
        total, square, n = total + y.sum(axis=0), square + (y * y).sum(axis=0), n + len(y)
    centre = total / n
    spread = np.sqrt(square / n - centre**2)
    for y in projected(place, components, mean):
        size = np.abs((y - centre) / spread)
        value += (size + np.log1p(np.exp(-2 * size)) - np.log(2)).sum(axis=0)
    found = {"contrast": float(np.abs(value / n - NORMAL_LOG_COSH).sum())}
    if (Path(place) / "sources.npy").exists():
        true = np.load(Path(place) / "sources.npy")
        found["recovery"] = float(matched(true, np.vstack(list(projected(place, components, mean, len(true))))).mean())
    return found


def agreement(place: str, one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Matched correlations of two fits' components over the same rows."""
    return matched(*(np.vstack(list(projected(place, *fit, JUDGED_ROWS))) for fit in (one, other)))


def restarts(place: str) -> dict[str, Any]:
    import isorep

    if not hasattr(isorep, "stability"):
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"restarts": np.asarray(isorep.stability(np.load(Path(place) / "x.npy"), n_restarts=5).scores).tolist()}


def projected(
    place: str, components: np.ndarray, mean: np.ndarray, rows: int | None = None, size: int = 8192
) -> Iterator[np.ndarray]:
    x = np.load(Path(place) / "x.npy", mmap_mode="r")[:rows]
    unmixing = np.asarray(components, dtype=np.float64).T
    for start in range(0, len(x), size):
        yield (x[start : start + size].astype(np.float64) - mean) @ unmixing


def matched(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Correlations, without their signs, of columns matched one to one."""
    from scipy.optimize import linear_sum_assignment

    one, other = ((each - each.mean(axis=0)) / each.std(axis=0) for each in (one, other))
    correlations = np.abs(one.T @ other) / len(one)
    return correlations[linear_sum_assignment(-correlations)]


# What a sweep costs ---------------------------------------------------------------------------------------------


def mapped_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n, few, d = int(1_000_000 * chosen.scale), int(222_000 * chosen.scale), 384
    print(f"MAPPED: {n:,} x {d} float32 from a memory map ({n * d * 4 / 1e9:.2f} GB), beside {few:,} rows in memory")
    with tempfile.TemporaryDirectory() as folder:
        apart(write_mixture, folder, n, d, chosen.seed)
        result = {
            "mapped": apart_watched(run_fit, folder, None) | apart(run_sweep, folder, None),
            "memory": apart_watched(run_fit, folder, few) | apart(run_sweep, folder, few),
        }
    table = Table(
        {"rows in": 12, "seconds": 9, "sweeps": 7, "s / sweep": 9, "us / row": 9, "bare sweep": 10, "us / row ": 9}
        | {"own GB": 7, "resident": 8, "whitened rows in": 0}
    )
    for name, run in result.items():
        table.add(
            name,
            f"{run['seconds']:.2f}",
            f"{run['sweeps']:.1f}",
            f"{run['per_sweep_s']:.3f}",
            f"{1e6 * run['per_sweep_s'] / run['n']:.3f}",
            f"{run['sweep_s']:.3f}",
            f"{1e6 * run['sweep_s'] / run['n']:.3f}",
            f"{run['own_gb']:.3f}",
            f"{run['resident_gb']:.2f}",
            run["storage"],
        )
    one, other = result["mapped"], result["memory"]
    ratios = {key: one[key] / one["n"] / (other[key] / other["n"]) for key in ("seconds", "per_sweep_s", "sweep_s")}
    print(
        f"  a row costs {ratios['seconds']:.2f} times as much as in memory over the whole fit, "
        f"{ratios['per_sweep_s']:.2f} times in a sweep of the fit, {ratios['sweep_s']:.2f} times in a bare sweep"
    )
    return result | {"ratios": ratios}


def gemm_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n = int(222_000 * chosen.scale)
    print(f"GEMM: a sweep of {n:,} float32 rows beside its two matrix products alone, same blocks and threads")
    table = Table(
        {
            "columns": 7,
            "fit s": 9,
            "sweeps": 7,
            "s / sweep": 9,
            "bare sweep": 10,
            "products": 9,
            "share": 7,
            "GFLOP/s": 0,
        }
    )
    result = {}
    for d in (384, 768):
        with tempfile.TemporaryDirectory() as folder:
            apart(write_mixture, folder, n, d, chosen.seed)
            run = apart_watched(run_fit, folder, n) | apart(run_sweep, folder, n)
        run["gemm_share"] = run["products_s"] / run["sweep_s"]
        table.add(
            str(d),
            f"{run['seconds']:.2f}",
            f"{run['sweeps']:.1f}",
            f"{run['per_sweep_s']:.3f}",
            f"{run['sweep_s']:.3f}",
            f"{run['products_s']:.3f}",
            f"{run['gemm_share']:.1%}",
            f"{4e-9 * n * d**2 / run['sweep_s']:.0f} in the sweep, {4e-9 * n * d**2 / run['products_s']:.0f} alone",
        )
        result[str(d)] = run
    return result


def run_fit(stage: Stage, place: str, rows: int | None) -> dict[str, Any]:
    """Fit isorep to the first rows in memory, or to all of them where they lie, and watch its sweeps."""
    import isorep

    warnings.simplefilter("ignore")
    isorep.ICA().fit(rows_of_laplace(4000, 32))
    x = open_rows(place, rows)
    clock = Clock()
    with stage:
        ica = isorep.ICA().fit(x, progress=clock)
    return clock.facts() | reached(ica) | {"n": len(x)}


def reached(ica: Any) -> dict[str, Any]:
    return {"converged": bool(ica.converged_), "contrast": float(np.abs(ica.contrast_).sum())}


class Clock:
    """When sweeps were done. What comes before the first of them, and after the last, is not part of a sweep."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []

    def __call__(self, stage: str, sweeps: float, *_: float) -> None:
        if stage == "rotation":
            self._seen.append((time.perf_counter(), sweeps))

    def facts(self) -> dict[str, float]:
        (begun, first), (ended, last) = self._seen[0], self._seen[-1]
        return {"sweeps": last, "per_sweep_s": (ended - begun) / max(last - first, 1e-9)}


def run_sweep(place: str, rows: int | None) -> dict[str, Any]:
    """Single sweeps at all directions over whitened rows, stored as a fit stores them, and their products alone."""
    import isorep
    from isorep.ica.contrasts import contrast_named
    from isorep.ica.sources import as_source
    from isorep.rows import Crew

    warnings.simplefilter("ignore")
    x = open_rows(place, rows)
    whitening = isorep.Whitening().fit(x)
    directions, contrast = rotation(whitening.components_.shape[0], 0), contrast_named("logcosh")
    with Crew() as crew:
        white = as_source(x).whitened(whitening.mean_, whitening.components_.T, crew)
        products = Products(directions.astype(white.values.dtype))
        white.sweep(directions, contrast)
        pairs = [
            (timed(lambda: white.sweep(directions, contrast))[0], timed(lambda: white.sums(products))[0])
            for _ in range(3)
        ]
    storage = "a scratch file" if isinstance(white.values, np.memmap) else "memory"
    sweeps, alone = zip(*pairs, strict=True)
    return {"sweep_s": min(sweeps), "products_s": min(alone), "storage": storage}


class Products:
    """The two matrix products of a sweep over a block and nothing else."""

    def __init__(self, directions: np.ndarray) -> None:
        self._matrix = np.ascontiguousarray(directions.T)

    def __call__(self, z: np.ndarray) -> list[np.ndarray]:
        y = z @ self._matrix
        y.T @ z
        return [np.zeros(1)]


def open_rows(place: str, rows: int | None) -> np.ndarray:
    x = np.load(Path(place) / "x.npy", mmap_mode="r")
    return x if rows is None else np.array(x[:rows])


# Dask -----------------------------------------------------------------------------------------------------------

CHUNKS = 16
BANDWIDTH = 1.25e9  # bytes a second between machines: 10 Gbit/s


def dask_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n, d = int(222_000 * chosen.scale), 384
    print(f"DASK: {n:,} x {d} float32 in {CHUNKS} npy files, 2 worker processes of 1 thread, beside one process of 2")
    with tempfile.TemporaryDirectory() as folder:
        apart(write_mixture, folder, n, d, chosen.seed)
        apart(write_chunks, folder)
        serial = apart_watched(run_fit, folder, n) | apart(run_sweep, folder, n)
        try:
            cluster = apart(run_cluster, folder)
        except RuntimeError as error:
            print(f"  left out: {str(error).strip().splitlines()[-1]}")
            return {"serial": serial}
    show(
        "one process, in memory",
        serial["seconds"],
        f"{serial['sweeps']:.1f} sweeps, a bare sweep {serial['sweep_s']:.3f} s",
    )
    show(
        "cluster, from disk",
        cluster["seconds"],
        f"{cluster['sweeps']:.1f} sweeps, a bare sweep {cluster['sweep_s']:.3f} s: "
        f"{cluster['seconds'] / serial['seconds']:.2f} and {cluster['sweep_s'] / serial['sweep_s']:.2f} times that",
    )
    show("a sweep of next to no rows in as many chunks: the overhead", cluster["overhead_s"])
    for name, run in (("one process", serial), ("cluster", cluster)):
        print(f"    {name}: contrast {run['contrast']:.6f}, {'converged' if run['converged'] else 'not converged'}")
    return {"serial": serial, "cluster": cluster, "model": scaling(n, d, cluster)}


def scaling(n: int, d: int, cluster: dict[str, Any]) -> list[dict[str, float]]:
    """What a sweep would take on larger clusters."""
    rate = n / (2 * max(cluster["sweep_s"] - cluster["overhead_s"], 1e-9))
    print(f"  model of a sweep at {d} dimensions: rows / (workers x {rate:,.0f} rows a second)")
    print(f"    + {d}^2 x 8 bytes x log2(workers) / {BANDWIDTH / 1e9:.2f} GB/s + {cluster['overhead_s']:.3f} s")
    print(
        "  assumed: workers of one core like this machine's, rows that stay in their memory or are read as fast, sums"
    )
    print(
        "    added in rounds over 10 Gbit/s, an overhead that stays as measured here, and as many sweeps a fit as here"
    )
    table = Table({"workers": 8, "rows": 15, "s / sweep": 10, "rows' part": 10, "traffic": 9, "hours a fit": 0})
    model = []
    for rows in (1e8, 1e9):
        for workers in (2, 10, 100):
            compute, traffic = rows / (workers * rate), 8 * d**2 * np.log2(workers) / BANDWIDTH
            sweep = compute + traffic + cluster["overhead_s"]
            model.append({"workers": workers, "rows": rows, "sweep_s": sweep, "fit_s": sweep * cluster["sweeps"]})
            table.add(
                str(workers),
                f"{rows:,.0f}",
                f"{sweep:.2f}",
                f"{compute / sweep:.1%}",
                f"{traffic:.4f}",
                f"{sweep * cluster['sweeps'] / 3600:.2f}",
            )
    return model


def run_cluster(place: str) -> dict[str, Any]:
    """Fit on a cluster of this machine's two cores, and time single sweeps there."""
    import dask
    from dask import array, delayed
    from distributed import Client, LocalCluster

    import isorep
    from isorep.ica.contrasts import contrast_named
    from isorep.ica.sources import as_source
    from isorep.rows import Crew

    warnings.simplefilter("ignore")
    chunks = sorted(Path(place).glob("chunk-*.npy"))
    shapes = [np.load(chunk, mmap_mode="r").shape for chunk in chunks]
    x = array.concatenate(
        [
            array.from_delayed(delayed(np.load)(str(chunk)), shape, np.float32)
            for chunk, shape in zip(chunks, shapes, strict=True)
        ]
    )
    k = shapes[0][1]
    directions, contrast = rotation(k, 0), contrast_named("logcosh")

    def sweep_time(rows: Any, mean: np.ndarray, whitener: np.ndarray, repeats: int) -> float:
        with Crew() as crew:
            white = as_source(rows).whitened(mean, whitener, crew)
            white.sweep(directions, contrast)
            return min(timed(lambda: white.sweep(directions, contrast))[0] for _ in range(repeats))

    quiet = {"distributed.logging.distributed": "error", "temporary-directory": place}
    with (
        dask.config.set(quiet),
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs=logging.ERROR
        ) as cluster,
        Client(cluster),
    ):
        isorep.ICA().fit(array.from_array(rows_of_laplace(4000, 32), chunks=(1000, 32)))
        clock = Clock()
        seconds, ica = timed(lambda: isorep.ICA().fit(x, progress=clock))
        whitening = isorep.Whitening().fit(x)
        sweep = sweep_time(x, whitening.mean_, whitening.components_.T, 3)
        few = array.from_array(rows_of_laplace(32 * CHUNKS, k), chunks=(32, k))
        overhead = sweep_time(few, np.zeros(k), np.eye(k), 10)
    return clock.facts() | reached(ica) | {"seconds": seconds, "sweep_s": sweep, "overhead_s": overhead}


def write_chunks(place: str) -> None:
    x = np.load(Path(place) / "x.npy", mmap_mode="r")
    for number, rows in enumerate(np.array_split(np.arange(len(x)), CHUNKS)):
        np.save(Path(place) / f"chunk-{number:03}.npy", x[rows[0] : rows[-1] + 1])


# Data -----------------------------------------------------------------------------------------------------------


def write_mixture(place: str, n: int, d: int, seed: int) -> None:
    """A quarter each of four kinds of sources, mixed with condition number 1e3, written block by block."""
    rng = np.random.default_rng(seed)
    mixing = ill_conditioned(d, rng)
    x = np.lib.format.open_memmap(Path(place) / "x.npy", mode="w+", dtype=np.float32, shape=(n, d))
    for start in range(0, n, JUDGED_ROWS):
        values = sources(rng, min(JUDGED_ROWS, n - start), d)
        if start == 0:
            np.save(Path(place) / "sources.npy", values)
        x[start : start + len(values)] = values @ mixing
    x.flush()


def sources(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Columns of unit variance: Laplace, uniform, sparse and near-Gaussian in turn."""
    makers = (
        lambda size: rng.laplace(scale=np.sqrt(1 / 2), size=size),
        lambda size: rng.uniform(-np.sqrt(3), np.sqrt(3), size=size),
        lambda size: rng.standard_normal(size) * (rng.random(size) < 0.15) / np.sqrt(0.15),
        lambda size: (rng.standard_normal(size) + 0.6 * rng.laplace(size=size)) / np.sqrt(1.72),
    )
    values = np.empty((n, d))
    for kind, make in enumerate(makers):
        values[:, kind::4] = make((n, len(range(kind, d, 4))))
    return values


def write_hard(place: str, n: int, d: int, seed: int) -> None:
    """A quarter of the sources Gaussian; of the others every third shares a scale, and clusters run across them."""
    rng = np.random.default_rng(seed)
    values = sources(rng, n, d)
    gaussian = d // 4
    values[:, :gaussian] = rng.standard_normal((n, gaussian))
    scaled = np.arange(gaussian, d, 3)
    values[:, scaled] *= np.exp(0.3 * rng.standard_normal((n, 8)))[:, scaled % 8]
    values[:, gaussian:] += 0.5 * rng.standard_normal((10, d - gaussian))[rng.integers(0, 10, n)]
    np.save(Path(place) / "x.npy", (values @ ill_conditioned(d, rng)).astype(np.float32))


def rows_of_laplace(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).laplace(size=(n, d)).astype(np.float32)


def ill_conditioned(d: int, rng: np.random.Generator) -> np.ndarray:
    one, other = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    return one * np.geomspace(1, 1e-3, d) @ other


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def write_mnist(place: str, scale: float, seed: int) -> None:
    with np.load(MNIST) as file:
        images = np.concatenate([file["x_train"], file["x_test"]])
    order = np.random.default_rng(seed).permutation(len(images))[: int(len(images) * scale)]
    write_principal(place, images[order].reshape(len(order), -1), 64)


def write_cifar(place: str, scale: float, seed: int) -> None:
    """Two 8 x 8 patches from every training image."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    with np.load(CIFAR) as file:
        data, offsets, held_out = file["bytes"], file["offsets"], file["is_test"]
    patches = []
    for image in rng.permutation(np.flatnonzero(~held_out))[: int((~held_out).sum() * scale)]:
        pixels = np.asarray(Image.open(io.BytesIO(data[offsets[image] : offsets[image + 1]].tobytes())).convert("RGB"))
        for top, left in rng.integers(0, 25, (2, 2)):
            patches.append(pixels[top : top + 8, left : left + 8].reshape(-1))
    write_principal(place, np.stack(patches)[rng.permutation(len(patches))], 96)


def write_principal(place: str, pixels: np.ndarray, k: int) -> None:
    values = pixels.astype(np.float64) / 255
    values -= values.mean(axis=0)
    axes = np.linalg.eigh(values.T @ values)[1][:, ::-1][:, :k]
    np.save(Path(place) / "x.npy", (values @ axes).astype(np.float32))


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "wide": wide_part,
    "medium": medium_part,
    "small": small_part,
    "hard": hard_part,
    "real": real_part,
    "mapped": mapped_part,
    "gemm": gemm_part,
    "dask": dask_part,
}

if __name__ == "__main__":
    main()
