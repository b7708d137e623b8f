"""What a pass costs on a Dask cluster, at 1, 2 and 4 worker processes, and what that means for 1e9 rows.

    python benchmarks/clusters.py                # two sides of 98,304 x 384, a few minutes on two cores
    python benchmarks/clusters.py --scale 0.1    # rows scaled down

Workers are processes of one thread on this machine: beyond its cores they share them. Passes are the least of two;
nothing is asserted. Results go to benchmarks/results/clusters.json too.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Table, apart, keep, machine, show, timed

RESULTS = Path(__file__).parent / "results" / "clusters.json"
ROWS, WIDTH, FILES, FOLDS = 98_304, 384, 12, 5
TINY = 512  # chunks of next to no rows: what is left is overhead
BANDWIDTH = 1.25e9  # bytes a second between machines: 10 Gbit/s
RUNGS = ("identity", "signed_permutation", "rigid", "linear")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    chosen = parser.parse_args()
    n = int(ROWS * chosen.scale)
    load = os.getloadavg()[0]
    print(f"two sides of {n:,} x {WIDTH} float32, {FILES} npy files each; {os.cpu_count()} cores, load {load:.1f}")
    results: dict[str, Any] = machine() | {"scale": chosen.scale, "load": load}
    with tempfile.TemporaryDirectory() as folder:
        apart(write_sides, folder, n)
        here = apart(run_here, folder)
        show("one process, memory maps: moments", here["moments_s"])
        show("one process, memory maps: compare, four rungs", here["compare_s"])
        results["here"] = here
        for workers in (1, 2, 4):
            found = apart(run_cluster, folder, workers)
            results[f"workers_{workers}"] = found
            print(f"  {workers} worker{'s' if workers > 1 else ''}")
            show("    moments from files", found["moments_s"], f"{found['moments_tasks']} tasks")
            show("    moments of rows that workers keep", found["kept_s"])
            show("    residuals of rows that workers keep", found["residuals_s"], f"{found['residuals_tasks']} tasks")
            print(
                f"      a task that does nothing: {1e3 * found['task_s']:.2f} ms, of which client and scheduler work "
                f"{1e3 * found['task_cpu_s']:.2f} ms"
            )
            if workers == 2:
                tasks = f"{found['compare_tasks']} tasks in {found['passes']} passes and samples"
                show("    compare, four rungs", found["compare_s"], tasks)
                print(f"      largest difference of a held-out RMS from one process: {gap(here, found):.1e}")
    results["model"] = model(n, results["workers_1"])
    keep(RESULTS, results)


def gap(here: dict[str, Any], found: dict[str, Any]) -> float:
    return float(np.abs(np.subtract(here["rms"], found["rms"])).max())


def model(n: int, one: dict[str, Any]) -> list[dict[str, float]]:
    """What passes over 1e9 rows would take: the rows' part shrinks with the workers, the scheduler's does not."""
    rates = {name: n / one[f"{name}_s"] for name in ("moments", "residuals")}
    chunk = 2**24 // WIDTH
    print(
        f"  model at {WIDTH} columns: rows / (workers x rate) + tasks x {1e3 * one['task_cpu_s']:.2f} ms + sums; rates "
        f"{rates['moments']:,.0f} and {rates['residuals']:,.0f} rows a second per worker, {chunk:,} rows per chunk"
    )
    table = Table({"workers": 8, "rows": 15, "pass": 11, "s": 10, "rows' part": 11, "tasks": 10, "s of tasks": 0})
    told = []
    for rows in (1e8, 1e9):
        for workers in (10, 100, 1000):
            for name, per_chunk in (("moments", 6.3), ("residuals", 6.3)):
                tasks = per_chunk * rows / chunk
                sums = 8 * 3 * FOLDS * WIDTH**2 * np.log2(workers) / BANDWIDTH
                compute, overhead = rows / (workers * rates[name]), tasks * one["task_cpu_s"]
                seconds = max(compute, overhead) + sums
                told.append({"workers": workers, "rows": rows, "seconds": seconds, "tasks": tasks})
                table.add(
                    str(workers),
                    f"{rows:,.0f}",
                    name,
                    f"{seconds:.0f}",
                    f"{compute:.0f}",
                    f"{tasks:,.0f}",
                    f"{overhead:.0f}",
                )
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
    from isorep.moments import fold_moments

    x, y = (isorep.read(Path(place) / f"side{side}") for side in range(2))
    folds = np.arange(len(x)) % FOLDS
    moments = min(timed(lambda: fold_moments(x.values, y.values, folds, FOLDS))[0] for _ in range(2))
    seconds, result = timed(lambda: compared(x, y))
    return {"moments_s": moments, "compare_s": seconds, "rms": rms_of(result)}


def compared(x: Any, y: Any) -> Any:
    import isorep

    warnings.simplefilter("ignore")
    return isorep.compare(x, y, rungs=RUNGS, n_null=0, diameter="bound", worst_case=False)


def rms_of(result: Any) -> list[float]:
    return [result.rungs[name].held_out.rms for name in RUNGS]


def run_cluster(place: str, workers: int) -> dict[str, Any]:
    """Passes over the same files on a cluster of this machine."""
    import dask
    from dask import array
    from distributed import Client, LocalCluster

    import isorep
    from isorep import chunked
    from isorep.comparison.fits import TrainingSet, fit
    from isorep.comparison.residuals import Centre, FittedRung, residual_pass
    from isorep.moments import fold_moments, leave_one_out, merged

    warnings.simplefilter("ignore")
    tasks: list[int] = []
    plain = dask.compute

    def counted(*collections: Any, **options: Any) -> Any:
        tasks.append(len(dict(dask.base.collections_to_expr(collections).__dask_graph__())))
        return plain(*collections, **options)

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR
        ) as cluster,
        Client(cluster),
    ):
        x, y = (isorep.read(Path(place) / f"side{side}", in_chunks=True) for side in range(2))
        folds = np.arange(len(x)) % FOLDS

        def moments(one: Any, other: Any) -> Any:
            return fold_moments(one, other, folds, FOLDS)

        moments(x.values, y.values)  # workers import what they need
        from_files = min(timed(lambda: moments(x.values, y.values))[0] for _ in range(2))
        a, b = (side.values.kept() for side in (x, y))
        sums = moments(a, b)
        by_workers = min(timed(lambda: moments(a, b))[0] for _ in range(2))
        total = merged(sums)
        sets = [TrainingSet(each, (1e-7, 1e-7)) for each in (total, *leave_one_out(sums))]
        names = ["rigid", "linear"]
        maps = [fit(names, each) for each in sets]
        rungs = {name: FittedRung(maps[0][name], [[each[name]] for each in maps[1:]], folds) for name in names}
        centre = Centre(total.source_mean, total.target_mean, np.float32)

        def residuals() -> Any:
            return residual_pass(a, b, centre, rungs, pulled=names)

        residuals()
        residuals_s = min(timed(residuals)[0] for _ in range(2))
        chunked._LEAST_CELLS = 1
        tiny = chunked.ChunkedRows(array.zeros((TINY, 4), chunks=(1, 4)))
        nothing = lambda start, rows: None  # noqa: E731
        list(chunked.pass_over(nothing, [tiny]))
        dask.compute = counted
        overhead = min(timed(lambda: list(chunked.pass_over(nothing, [tiny])))[0] for _ in range(2)) / tasks[-1]
        began = time.process_time()  # of this process and the scheduler in it: what other programs do is not in it
        list(chunked.pass_over(nothing, [tiny]))
        processor = (time.process_time() - began) / tasks[-1]
        chunked._LEAST_CELLS = 2**19
        tasks.clear()
        moments(x.values, y.values)
        moments_tasks = tasks[-1]
        residual_pass(x.values, y.values, centre, rungs, pulled=names)
        residuals_tasks = tasks[-1]
        tasks.clear()
        seconds, result = timed(lambda: compared(x, y)) if workers == 2 else (float("nan"), None)
        dask.compute = plain
    return {
        "moments_s": from_files,
        "kept_s": by_workers,
        "residuals_s": residuals_s,
        "compare_s": seconds,
        "task_s": overhead,
        "task_cpu_s": processor,
        "moments_tasks": moments_tasks,
        "residuals_tasks": residuals_tasks,
        "compare_tasks": int(sum(tasks)),
        "passes": len(tasks),
        "rms": None if result is None else rms_of(result),
    }


if __name__ == "__main__":
    main()
