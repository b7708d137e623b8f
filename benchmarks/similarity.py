"""Nulls of similarity indices and mutual neighbours, beside the usual ways of doing the same work.

    python benchmarks/similarity.py                # everything, some minutes on two cores
    python benchmarks/similarity.py null           # one part: null, neighbours
    python benchmarks/similarity.py --scale 0.2    # rows scaled down
    python benchmarks/similarity.py --indices cka  # nulls of some indices

The usual way to a null is to compute the index again for every permutation. Recomputations are timed on 10 permutations
and multiplied, which is fair: each costs the same; the best of three runs counts. Ratios are printed beside the times;
nothing is asserted. Results go to benchmarks/results/similarity.json too.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stage, Table, apart, apart_watched, keep, machine, timed

RESULTS = Path(__file__).parent / "results" / "similarity.json"
PERMUTATIONS, TIMED = 200, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="null, neighbours; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    parser.add_argument(
        "--indices", nargs="*", default=list(WAYS), choices=list(WAYS), help="of the nulls; default: all"
    )
    chosen = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}\n")
    results: dict[str, Any] = {}
    if not chosen.parts or "null" in chosen.parts:
        results["null"] = null_part(int(5_000 * chosen.scale), 128, chosen.indices)
    if not chosen.parts or "neighbours" in chosen.parts:
        results["neighbours"] = neighbours_part(int(50_000 * chosen.scale), 384)
    keep(RESULTS, machine() | {"scale": chosen.scale} | results)
    print(f"\nwritten to {RESULTS}")


# Nulls ------------------------------------------------------------------------------------------------------------


def null_part(n: int, d: int, indices: list[str]) -> dict[str, Any]:
    print(f"NULL: {PERMUTATIONS} permutations at {n:,} x {d} float32, all cores")
    table = Table({"index": 20, "way": 46, "seconds": 9, "times isorep": 12, "null mean": 10, "null sd": 9})
    result = {}
    for index in indices:
        own = None
        for way in WAYS[index]:
            run = apart(run_null, index, way, n, d)
            own = run["seconds"] if own is None else own
            table.add(
                index,
                way,
                f"{run['seconds']:.3f}",
                f"{run['seconds'] / own:.1f}",
                f"{run['mean']:.5f}",
                f"{run['sd']:.5f}",
            )
            result[f"{index}: {way}"] = run
    return result


def pair(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two runs that share half of their space, with decaying spectra."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, d)) * np.geomspace(1, 0.1, d)
    other = np.hstack([z[:, : d // 2], rng.normal(size=(n, d - d // 2))]) @ rng.normal(size=(d, d))
    return z.astype(np.float32), other.astype(np.float32)


def run_null(index: str, way: str, n: int, d: int) -> dict[str, float]:
    x, y = pair(n, d)
    compute = WAYS[index][way]
    compute(x[:500], y[:500], 2)  # nobody's imports and first calls are timed
    runs = [timed(lambda: compute(x, y, PERMUTATIONS)) for _ in range(3)]
    seconds, draws = min(runs, key=lambda run: run[0])
    times = PERMUTATIONS / len(draws)
    return {"seconds": seconds * times, "mean": float(np.mean(draws)), "sd": float(np.std(draws))}


def isorep_null(name: str, **options: Any) -> Callable[..., np.ndarray]:
    def compute(x: np.ndarray, y: np.ndarray, permutations: int) -> np.ndarray:
        from isorep import similarity

        return getattr(similarity, name)(x, y, permutations=permutations, **options).null.draws

    return compute


def again(index: Callable[[np.ndarray, np.ndarray], float]) -> Callable[..., np.ndarray]:
    """The usual way: the index of freshly shuffled rows, again and again."""

    def compute(x: np.ndarray, y: np.ndarray, permutations: int) -> np.ndarray:
        rng = np.random.default_rng(0)
        return np.array([index(x, y[rng.permutation(len(y))]) for _ in range(min(permutations, TIMED))])

    return compute


def isorep_again(name: str, **options: Any) -> Callable[..., np.ndarray]:
    def index(x: np.ndarray, y: np.ndarray) -> float:
        from isorep import similarity

        return float(getattr(similarity, name)(x, y, **options))

    return again(index)


def calibrated(index: Callable[[Any, Any], Any]) -> Callable[..., np.ndarray]:
    """calibrated-similarity, which takes any function of two tensors."""

    def compute(x: np.ndarray, y: np.ndarray, permutations: int) -> np.ndarray:
        import torch
        from calibrated_similarity import calibrate

        draws: list[float] = []

        def watched(a: Any, b: Any) -> Any:
            value = index(a, b)
            draws.append(float(value))
            return value

        calibrate(torch.from_numpy(x), torch.from_numpy(y), watched, K=min(permutations, TIMED))
        return np.array(draws[1:])

    return compute


def cca_by_covariance(x: np.ndarray, y: np.ndarray) -> float:
    """The steps of google/svcca: joint covariance, inverse square roots by eigenvectors, singular values."""
    d = x.shape[1]
    covariance = np.cov(np.hstack([x, y]).astype(np.float64), rowvar=False)
    roots = []
    for block in (covariance[:d, :d], covariance[d:, d:]):
        values, vectors = np.linalg.eigh(block)
        roots.append((vectors / np.sqrt(values)) @ vectors.T)
    return float(np.linalg.svd(roots[0] @ covariance[:d, d:] @ roots[1])[1].mean())


def cca_by_qr(x: np.ndarray, y: np.ndarray) -> float:
    bases = [np.linalg.qr(each.astype(np.float64) - each.mean(axis=0, dtype=np.float64))[0] for each in (x, y)]
    return float(np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).mean())


def cka_by_features(x: np.ndarray, y: np.ndarray) -> float:
    x, y = (each.astype(np.float64) - each.mean(axis=0, dtype=np.float64) for each in (x, y))
    return float((np.linalg.norm(x.T @ y) ** 2) / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)))


def cka_by_grams(x: Any, y: Any) -> Any:
    """As the examples of calibrated-similarity write it, with n x n matrices."""
    x, y = x - x.mean(0), y - y.mean(0)
    k, other = x @ x.T, y @ y.T
    return (k * other).sum() / ((k * k).sum() * (other * other).sum()).sqrt()


def procrustes_by_netrep(x: np.ndarray, y: np.ndarray) -> float:
    """The angular metric of netrep for rotations: both sides centred and scaled, nuclear norm of the cross product."""
    x, y = (each.astype(np.float64) - each.mean(axis=0, dtype=np.float64) for each in (x, y))
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    return float(np.arccos(min(np.linalg.svd(x.T @ y)[1].sum(), 1.0)))


WAYS: dict[str, dict[str, Callable[..., np.ndarray]]] = {
    "cca": {
        "isorep, exact": isorep_null("cca"),
        "isorep, computed again": isorep_again("cca"),
        "QR and SVD, computed again": again(cca_by_qr),
        "the algorithm of google/svcca, computed again": again(cca_by_covariance),
    },
    "cka": {
        "isorep, sketch": isorep_null("cka"),
        "isorep, exact": isorep_null("cka", exact=True),
        "isorep, computed again": isorep_again("cka"),
        "three products, computed again": again(cka_by_features),
        "calibrated-similarity": calibrated(cka_by_grams),
    },
    "cka_debiased": {
        "isorep, sketch": isorep_null("cka", debiased=True),
        "isorep, exact": isorep_null("cka", debiased=True, exact=True),
        "isorep, computed again": isorep_again("cka", debiased=True),
    },
    "procrustes_distance": {
        "isorep, exact": isorep_null("procrustes_distance"),
        "isorep, computed again": isorep_again("procrustes_distance"),
        "the algorithm of netrep, computed again": again(procrustes_by_netrep),
    },
    "pwcca": {"isorep, exact": isorep_null("pwcca"), "isorep, computed again": isorep_again("pwcca")},
    "linear_r2": {"isorep, exact": isorep_null("linear_r2"), "isorep, computed again": isorep_again("linear_r2")},
    "mcc": {"isorep, exact": isorep_null("mcc"), "isorep, computed again": isorep_again("mcc")},
    "mutual_knn": {"isorep, exact": isorep_null("mutual_knn"), "isorep, computed again": isorep_again("mutual_knn")},
    "cka_rbf": {"isorep, exact": isorep_null("cka", kernel="rbf")},
}


# Neighbours -------------------------------------------------------------------------------------------------------


def neighbours_part(n: int, d: int) -> dict[str, Any]:
    print(f"\nNEIGHBOURS: mutual kNN, k = 10, at {n:,} x {d} float32, both sides")
    table = Table({"way": 44, "seconds": 9, "times isorep": 12, "own GB": 8, "value": 9})
    result: dict[str, Any] = {}
    for way in ("isorep", "scikit-learn NearestNeighbors, brute"):
        run = apart_watched(run_neighbours, way, n, d)
        result[way] = run
        table.add(
            way,
            f"{run['seconds']:.1f}",
            f"{run['seconds'] / result['isorep']['seconds']:.2f}",
            f"{run['own_gb']:.2f}",
            f"{run['value']:.5f}",
        )
    return result


def run_neighbours(stage: Stage, way: str, n: int, d: int) -> dict[str, float]:
    from isorep import similarity

    x, y = pair(n, d)
    similarity.mutual_knn(x[:500], y[:500])
    with stage:
        value = similarity.mutual_knn(x, y).value if way == "isorep" else by_scikit_learn(x, y)
    return {"value": value}


def by_scikit_learn(x: np.ndarray, y: np.ndarray) -> float:
    from sklearn.neighbors import NearestNeighbors

    near = []
    for values in (x, y):
        unit = values / np.linalg.norm(values, axis=1, keepdims=True)  # then nearest by distance is nearest by angle
        near.append(
            NearestNeighbors(n_neighbors=11, algorithm="brute").fit(unit).kneighbors(return_distance=False)[:, :10]
        )
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*near, strict=True)]))


if __name__ == "__main__":
    main()
