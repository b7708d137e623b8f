"""Speed, memory and quality of ICA beside its peers, and what a sweep over the data costs.

    python benchmarks/ica.py                 # everything, some two hours on two cores, most of it the peers'
    python benchmarks/ica.py medium hard     # some parts: wide, medium, small, hard, real, mapped, gemm, dask
    python benchmarks/ica.py --scale 0.05    # rows scaled down
    python benchmarks/ica.py small --sets 1  # one data set
    python benchmarks/ica.py --skip-peers    # isorep alone

Every fit runs in a process of its own that has fitted something small before, so that nobody's imports are timed. Each
method is given the data in the layout it likes best, (d, n) in float64 for Picard; that conversion is neither timed nor
counted as memory. Peak memory is anonymous memory above the level before the fit, sampled from outside; its multiple
is of the float32 data. scikit-learn runs to its own end; another
peer that takes longer than --limit is stopped. Components are judged by one function for
all: contrast is the sum over components, at unit variance, of |E log cosh y - E log cosh nu|, nu standard normal;
recovery is the mean |correlation| with the true sources, matched one to one, on up to 20,000 rows.

Peers have their own defaults; Picard is the orthogonal, extended one with tanh, without numexpr.

Nothing is asserted. Results go to benchmarks/results/ica.json too, where parts that were not run stay as they are.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, Table, apart, apart_watched, keep, machine
from mixtures import CIFAR, JUDGED_ROWS, MNIST, rows_of_laplace, write_cifar, write_hard, write_mixture, write_mnist
from sweeps import dask_part, gemm_part, mapped_part

RESULTS = Path(__file__).parent / "results" / "ica.json"
YARDSTICK = "scikit-learn float64"
PEERS = (YARDSTICK, "scikit-learn float32", "Picard float64", "fastica_torch float32")
STOPPED = PEERS[2:]
PACKAGES = ("scikit-learn", "python-picard", "fastica_torch", "torch", "dask", "distributed")
NORMAL_LOG_COSH = 0.37456720749143807  # E log cosh of a standard normal variable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    parser.add_argument("--sets", type=int, default=3, help="data sets of medium, small and hard")
    parser.add_argument("--skip-peers", action="store_true", help="isorep alone")
    parser.add_argument(
        "--limit", type=float, default=600, help="seconds after which a fit of the slower peers is stopped"
    )
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
    print(f"MEDIUM: {n:,} x 128 float32, sources and mixing as in wide; medians over seeds")
    return contest(chosen, [(write_mixture, n, 128, chosen.seed + i) for i in (1, 2, 3)[: chosen.sets]])


def small_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n = int(20_000 * chosen.scale)
    print(f"SMALL: {n:,} x 64 float32, sources and mixing as in wide; medians over seeds")
    return contest(chosen, [(write_mixture, n, 64, chosen.seed + i) for i in (4, 5, 6)[: chosen.sets]])


def hard_part(chosen: argparse.Namespace) -> dict[str, Any]:
    n, d = int(50_000 * chosen.scale), 128
    print(f"HARD: {n:,} x {d} float32, a quarter of the sources Gaussian, shared scales, 10 clusters")
    makers = [(write_hard, n, d, chosen.seed + i) for i in (7, 8, 9)[: chosen.sets]]
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
            limit = chosen.limit if name in STOPPED else None
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

    ica = FastICA(random_state=0, **settings).fit(x)
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
