"""What a pass costs on a Dask cluster, at 1, 2 and 4 worker processes, and what that means for 1e9 rows.

    python benchmarks/clusters.py                # two sides of 65,536 x 384, a few minutes on two cores
    python benchmarks/clusters.py --scale 0.1    # rows scaled down
    python benchmarks/clusters.py --workers 1 2  # smaller clusters

Workers are processes of one thread on this machine: beyond its cores they share them, and with other programs they
share them anyway. So processor seconds are measured beside wall-clock ones: those of the busiest worker, and those of
the client with the scheduler. Their sum is what a pass would take with a core for each. Nothing is asserted. Results go
to benchmarks/results/clusters.json too.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Table, apart, keep, machine, timed

RESULTS = Path(__file__).parent / "results" / "clusters.json"
ROWS, WIDTH, FILES, FOLDS = 65_536, 384, 8, 5
TINY = 512  # chunks of next to no rows: what is left is overhead
PER_CHUNK = 5.15  # tasks of a pass: a read for each side, the pass, its two results, and a share of the tree of sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4], help="numbers of worker processes")
    chosen = parser.parse_args()
    n = int(ROWS * chosen.scale)
    load = os.getloadavg()[0]
    print(f"two sides of {n:,} x {WIDTH} float32, {FILES} npy files each; {os.cpu_count()} cores, load {load:.1f}")
    results: dict[str, Any] = machine() | {"scale": chosen.scale, "load": load}
    with tempfile.TemporaryDirectory() as folder:
        apart(write_sides, folder, n)
        here = apart(run_here, folder)
        print(f"  one process, memory maps: moments {here['moments_cpu_s']:.2f} processor seconds\n")
        results["here"] = {"moments_cpu_s": here["moments_cpu_s"]}
        columns = {"workers": 8, "pass": 21, "tasks": 7, "busiest worker": 16, "client": 9, "sum": 8, "wall clock": 0}
        table = Table(columns)
        for workers in chosen.workers:
            found = apart(run_cluster, folder, workers)
            results[f"workers_{workers}"] = found
            for name, each in found["passes"].items():
                told = (f"{each[key]:.2f}" for key in ("worker_s", "client_s", "sum_s", "wall_s"))
                table.add(str(workers), name, str(each["tasks"]), *told)
    print(f"\n  largest difference of a moment from one process: {results[f'workers_{chosen.workers[-1]}']['gap']:.1e}")
    for workers in chosen.workers:
        task = results[f"workers_{workers}"]["task_s"]
        print(f"  {workers} workers, a task that does nothing: {1e3 * task:.2f} ms of client and scheduler")
    results["model"] = model(n, results[f"workers_{chosen.workers[0]}"])
    keep(RESULTS, results)


def model(n: int, one: dict[str, Any]) -> list[dict[str, float]]:
    """What passes over 1e9 rows would take: the rows' part shrinks with the workers, the scheduler's does not."""
    chunk = 2**24 // WIDTH
    print(f"\n  model: rows / (workers x rate) beside tasks x {1e3 * one['task_s']:.2f} ms, {chunk:,} rows per chunk")
    table = Table({"rows": 15, "workers": 8, "pass": 21, "workers' s": 12, "tasks": 10, "scheduler's s": 0})
    told = []
    for rows in (1e8, 1e9):
        for workers in (10, 100):
            for name in ("moments from files", "residuals"):
                each = one["passes"][name]
                compute = rows / (workers * n / each["worker_s"])
                tasks = PER_CHUNK * rows / chunk
                overhead = tasks * one["task_s"]
                told.append({"rows": rows, "workers": workers, "workers_s": compute, "scheduler_s": overhead})
                table.add(f"{rows:,.0f}", str(workers), name, f"{compute:.0f}", f"{tasks:,.0f}", f"{overhead:.0f}")
    return told


def write_sides(place: str, n: int) -> None:
    rng = np.random.default_rng(0)
    mixing = [np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0] for _ in range(2)]
    for side in range(2):
        (Path(place) / f"side{side}").mkdir()
    for index, size in enumerate(np.full(FILES, n // FILES)):
        shared = rng.laplace(size=(size, WIDTH))
        for side, matrix in enumerate(mixing):
            rows = shared @ matrix + 0.3 * rng.normal(size=shared.shape)
            np.save(Path(place) / f"side{side}" / f"{index}.npy", rows.astype(np.float32))


def run_here(place: str) -> dict[str, Any]:
    import isorep

    x, y = (isorep.read(Path(place) / f"side{side}") for side in range(2))
    began = time.process_time()
    total = moments_of(x, y)
    return {"moments_cpu_s": time.process_time() - began, "total": [total.source_mean, total.xx, total.xy]}


def moments_of(x: Any, y: Any) -> Any:
    from isorep.moments import merged

    return merged(fold_sums(x.values, y.values))


def fold_sums(x: Any, y: Any) -> Any:
    from isorep.moments import fold_moments

    return fold_moments(x, y, np.arange(x.shape[0]) % FOLDS, FOLDS)


def run_cluster(place: str, workers: int) -> dict[str, Any]:
    """Passes over the same files on a cluster of this machine."""
    import dask
    from dask import array
    from distributed import Client, LocalCluster

    import isorep
    from isorep import chunked
    from isorep.comparison.fits import TrainingSet, fit
    from isorep.comparison.residuals import Centre, FittedRung, residual_pass
    from isorep.moments import leave_one_out, merged

    warnings.simplefilter("ignore")
    plain, counts = dask.compute, []

    def counted(*collections: Any, **options: Any) -> Any:
        graph: dict[Any, Any] = {}
        for each in collections:
            graph.update(dict(each.__dask_graph__()))
        counts.append(len(graph))
        return plain(*collections, **options)

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR
        ) as cluster,
        Client(cluster) as client,
    ):

        def measured(action: Callable[[], Any]) -> dict[str, float]:
            """Once to import and to count tasks, then measured: processor seconds of workers and of this process."""
            counts.clear()
            dask.compute = counted
            action()
            dask.compute = plain
            before, began = client.run(time.process_time), time.process_time()
            wall, _ = timed(action)
            mine, after = time.process_time() - began, client.run(time.process_time)
            busiest = max(after[each] - before[each] for each in before)
            seconds = {"worker_s": busiest, "client_s": mine, "sum_s": busiest + mine, "wall_s": wall}
            return seconds | {"tasks": sum(counts)}

        x, y = (isorep.read(Path(place) / f"side{side}", in_chunks=True) for side in range(2))
        passes = {"moments from files": measured(lambda: fold_sums(x.values, y.values))}
        a, b = chunked.keep_all([x.values, y.values])
        passes["moments, rows kept"] = measured(lambda: fold_sums(a, b))
        sums = fold_sums(a, b)
        total = merged(sums)
        sets = [TrainingSet(each, (1e-7, 1e-7)) for each in (total, *leave_one_out(sums))]
        names = ["rigid", "linear"]
        maps = [fit(names, each) for each in sets]
        folds = np.arange(len(x)) % FOLDS
        rungs = {name: FittedRung(maps[0][name], [[each[name]] for each in maps[1:]], folds) for name in names}
        centre = Centre(total.source_mean, total.target_mean, np.float32)
        passes["residuals"] = measured(lambda: residual_pass(a, b, centre, rungs, pulled=names))
        chunked._LEAST_CELLS = 1
        tiny = chunked.ChunkedRows(array.zeros((TINY, 4), chunks=(1, 4)))
        overhead = measured(lambda: list(chunked.pass_over(_nothing, [tiny])))
    return {
        "passes": passes,
        "task_s": overhead["client_s"] / overhead["tasks"],
        "gap": _gap(apart(run_here, place)["total"], [total.source_mean, total.xx, total.xy]),
    }


def _nothing(start: int, rows: Any) -> None:
    """A task without work."""


def _gap(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in zip(one, other, strict=True))


if __name__ == "__main__":
    main()
