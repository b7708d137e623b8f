"""Scores against known factors, beside the public ways to the same numbers.

    python benchmarks/structure.py                # everything, some minutes on two cores
    python benchmarks/structure.py information    # one part: information, models, everything
    python benchmarks/structure.py --scale 0.2    # rows scaled down

Public code estimates mutual information with scikit-learn, one pair of factor and latent at a time. Here columns are
sorted once. Boosted trees (DCI) and single-latent classifiers (SAP) stand beside scikit-learn's. Everything runs in one
thread, and times are its CPU seconds, so that other work on the machine counts little. Largest differences are printed
beside the times; nothing is asserted. Results go to benchmarks/results/structure.json too.
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
from measuring import Table, keep, machine

RESULTS = Path(__file__).parent / "results" / "structure.json"
SIZES = (10, 10, 10, 8, 4, 15)  # labels of the factors of Shapes3D
LATENTS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="information, models, everything; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    chosen = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}, one thread\n")
    parts = {"information": information_part, "models": models_part, "everything": everything_part}
    results: dict[str, Any] = {}
    for name, part in parts.items():
        if not chosen.parts or name in chosen.parts:
            results[name] = part(chosen.scale)
            print()
    keep(RESULTS, machine() | {"scale": chosen.scale, "load": os.getloadavg()[0]} | results)
    print(f"written to {RESULTS}; load {os.getloadavg()[0]:.1f} at the end: above 1 is other work")


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process, and the result."""
    began = time.process_time()
    result = action()
    return time.process_time() - began, result


def world(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Six factors, each in one of twelve latents; three latents mix two factors, the rest is noise."""
    rng = np.random.default_rng(0)
    s = np.column_stack([rng.integers(size, size=n) for size in SIZES])
    v = (s - s.mean(axis=0)) / s.std(axis=0)
    z = np.hstack([v, v[:, :3] + v[:, 3:], np.zeros((n, LATENTS - 9))])
    return s, z + 0.3 * rng.normal(size=z.shape)


# Mutual information -----------------------------------------------------------------------------------------------


def information_part(scale: float) -> dict[str, Any]:
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    from isorep.structure.columns import as_columns
    from isorep.structure.mutual_information import information

    result = {}
    table = Table({"mutual information": 34, "isorep s": 9, "public s": 9, "ratio": 7, "largest difference": 19})
    discrete, continuous = int(10_000 * scale), int(5_000 * scale)
    for name, n, estimate in (
        (f"labels, {discrete:,} x {LATENTS}, 6 factors", discrete, mutual_info_classif),
        (f"numbers, {continuous:,} x {LATENTS}, 6 factors", continuous, mutual_info_regression),
    ):
        s, z = world(n)
        if estimate is mutual_info_regression:
            s = s + np.random.default_rng(1).uniform(size=s.shape)
        z = (z - z.mean(axis=0)) / z.std(axis=0)
        factors, latents = as_columns(s, "factors"), as_columns(z, "latents")

        def ours(factors: Any = factors, latents: Any = latents) -> np.ndarray:
            return information(factors, latents).mutual

        def pair_by_pair(s: np.ndarray = s, z: np.ndarray = z, estimate: Callable[..., Any] = estimate) -> np.ndarray:
            y = s if estimate is mutual_info_classif else (s - s.mean(axis=0)) / s.std(axis=0)
            options = {"n_neighbors": 10, "random_state": 0}
            return np.array([[estimate(z[:, [j]], y[:, i], **options)[0] for j in range(LATENTS)] for i in range(6)])

        seconds, found = min((timed(ours) for _ in range(3)), key=lambda run: run[0])
        public, expected = timed(pair_by_pair)
        difference = float(np.abs(found - expected).max())
        result[name] = {"seconds": seconds, "public": public, "difference": difference}
        table.add(name, f"{seconds:.3f}", f"{public:.2f}", f"{public / seconds:.1f}", f"{difference:.1e}")
    return result


# Models -----------------------------------------------------------------------------------------------------------


def models_part(scale: float) -> dict[str, Any]:
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.svm import LinearSVC

    from isorep import structure

    n = int(2_000 * scale)
    s, z = world(n)
    s_test, z_test = world(n // 2)
    result = {}
    table = Table({"models": 34, "isorep s": 9, "public s": 9, "ratio": 7, "largest difference": 19})

    seconds, found = timed(lambda: structure.dci(s, z, test=(s_test, z_test)).importances)
    public, expected = timed(
        lambda: np.column_stack([GradientBoostingClassifier().fit(z, y).feature_importances_ for y in s.T])
    )
    result["dci"] = {"seconds": seconds, "public": public, "difference": float(np.abs(found - expected).max())}

    def one_at_a_time() -> np.ndarray:
        scores = np.empty((LATENTS, len(SIZES)))
        for j in range(LATENTS):
            for i, y in enumerate(s.T):
                model = LinearSVC(C=0.01, class_weight="balanced", random_state=0).fit(z[:, [j]], y)
                scores[j, i] = model.score(z_test[:, [j]], s_test[:, i])
        return scores

    seconds, found = timed(lambda: structure.sap(s, z, test=(s_test, z_test)).scores)
    public, expected = timed(one_at_a_time)
    result["sap"] = {"seconds": seconds, "public": public, "difference": float(np.abs(found - expected).max())}
    for name, words in (("dci", "boosted trees, importances"), ("sap", "single-latent accuracy")):
        row = result[name]
        table.add(
            f"{words}, {n:,} rows",
            f"{row['seconds']:.2f}",
            f"{row['public']:.2f}",
            f"{row['public'] / row['seconds']:.1f}",
            f"{row['difference']:.1e}",
        )
    return result


# All scores -------------------------------------------------------------------------------------------------------


def everything_part(scale: float) -> dict[str, Any]:
    import isorep

    n = int(10_000 * scale)
    s, z = world(n)
    seconds, found = timed(lambda: isorep.score_factors(z, s))
    print(f"  score_factors, {n:,} x {LATENTS}, 6 factors, 10 halves, 100 shuffles, ladder: {seconds:.1f} s")
    total = sum(found.seconds.values())
    shares = {name: part / total for name, part in found.seconds.items()}
    for name, share in shares.items():
        print(f"    {name:<16} {100 * share:6.1f} %")
    return {"seconds": seconds, "shares": shares}


if __name__ == "__main__":
    main()
