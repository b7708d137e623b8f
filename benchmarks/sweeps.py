"""What a sweep over the data costs: from a memory map, beside its bare matrix products, and on a Dask cluster."""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, Table, apart, apart_watched, show, timed
from mixtures import rotation, rows_of_laplace, write_mixture

# One process ----------------------------------------------------------------------------------------------------


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
    from isorep.ica.unmixing import as_source
    from isorep.threads import Crew

    warnings.simplefilter("ignore")
    x = open_rows(place, rows)
    whitening = isorep.Whitening().fit(x)
    directions, contrast = rotation(whitening.components_.shape[0], 0), contrast_named("logcosh")
    with Crew() as crew:
        white = as_source(x).whitened(whitening.mean_, whitening.components_.T, crew)
        products = Products(directions.astype(white.values.dtype))
        white.sweep(directions, contrast)
        pairs = [
            (timed(lambda: white.sweep(directions, contrast))[0], timed(lambda: white.means(products))[0])
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
    from isorep.ica.unmixing import as_source
    from isorep.threads import Crew

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
