"""Speed of translating stored vectors beside plain copying, and of fitting beside scikit-learn and brute force.

    python benchmarks/translate.py                # everything, about ten minutes on two cores and 31 GB of disk
    python benchmarks/translate.py apply          # one part: apply, mlp, fit
    python benchmarks/translate.py maps sizes --old OLD --new NEW   # maps, and recall by size, of a pair of files
    python benchmarks/translate.py unpaired --old OLD --new NEW     # without pairs, beside two recipes
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
from vec2vec import STEPS, by_adversaries

WIDTH = 384
RESULTS = Path(__file__).parent / "results" / "translate.json"
STRENGTHS = np.logspace(-8, 3, 45)
SPARE = 4e9  # bytes of disk to leave free


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], help="apply, mlp, fit; maps, sizes, unpaired")
    parser.add_argument("--old", help="vectors of the old model, for maps and sizes")
    parser.add_argument("--new", help="vectors of the new model, for maps and sizes")
    parser.add_argument("--seed", type=int, default=0, help="of the first draw, for sizes")
    parser.add_argument("--draws", type=int, default=5, help="number of draws, for sizes")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the adversarial training, for unpaired")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of rows")
    parser.add_argument("--rounds", type=int, default=2, help="how often copying and translating take turns")
    chosen = parser.parse_args()
    parts = chosen.parts or ["apply", "mlp", "fit"]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}\n")
    results: dict[str, Any] = machine() | {"scale": chosen.scale}
    if "apply" in parts:
        results["apply"] = apply_part(int(10_000_000 * chosen.scale), chosen.rounds)
    if "mlp" in parts:
        results["mlp"] = mlp_part(int(1_000_000 * chosen.scale))
    if "maps" in parts:
        results["maps"] = maps_part(chosen.old, chosen.new)
    if "sizes" in parts:
        results["sizes"] = sizes_part(chosen.old, chosen.new, chosen.seed, chosen.draws)
    if "unpaired" in parts:
        results["unpaired"] = unpaired_part(chosen.old, chosen.new, chosen.seed, chosen.steps)
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
        print(
            f"APPLY a linear map of {WIDTH} x {WIDTH} and lengths to {n:,} float32 rows ({n * WIDTH * 4 / 1e9:.1f} GB)"
        )
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
    isorep.translate(sample, new, maps=["linear"], normalise=True, n_queries=10, n_boot=0).save(
        folder / "map.safetensors"
    )


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
    expected = translator.map.apply(old[some])
    np.testing.assert_allclose(new[some], expected, rtol=1e-3, atol=1e-4)


def mlp_part(n: int) -> dict[str, Any]:
    """Rows per second of an MLP with 1,024 hidden units that sets lengths, from disk to disk."""
    with tempfile.TemporaryDirectory() as name:
        print(f"APPLY an MLP of {WIDTH} x 1,024 x {WIDTH} and lengths to {n:,} float32 rows from disk")
        apart(make_input, name, n)
        apart(make_mlp, name)
        found = apart(run_apply, name)
    rate = n / found["seconds"]
    show("isorep: translated", found["seconds"], f"{rate / 1e3:.0f} thousand rows/s, {found['cpu_s']:.0f} s of CPU")
    print(
        f"    10 million rows take {1e7 / rate / 60:.1f} minutes at that speed, load {found['load']:.1f} at its start\n"
    )
    return {"n": n, "d": WIDTH, "rows_per_s": rate, **found}


def make_mlp(name: str) -> None:
    """The map of the input with a random hidden layer: speed does not depend on what it holds."""
    from dataclasses import replace

    import isorep

    folder, rng = Path(name), np.random.default_rng(1)
    found = isorep.Translator.load(folder / "map.safetensors")
    hidden = (rng.normal(size=(WIDTH, 1024)) / 20, rng.normal(size=1024), rng.normal(size=(1024, WIDTH)) / 30)
    changed = replace(found.map, kind="mlp", hidden=hidden, norm=1.0)
    replace(found, map=changed, moments=None, confidence_model=None).save(folder / "map.safetensors")


# Maps and sizes of a pair of files ------------------------------------------------------------------------------


def maps_part(old: str, new: str) -> dict[str, Any]:
    """Recall of every map in both scenarios, and the time of each fit."""
    import isorep

    print(f"MAPS from {old} to {new}")
    kinds: dict[str, Any] = {}
    began = time.process_time()
    result = isorep.translate(old, new, maps="all")
    whole = time.process_time() - began
    for kind, record in result.maps.items():
        recalls = {name: each.recall[10] for name, each in record.recalls.items()}
        kinds[kind] = recalls | {"cosine": record.held_out.cosine}
        print(f"    {kind:<9} cosine {record.held_out.cosine:.3f}, recall@10 queries {recalls['queries']:.3f}, "
              f"store {recalls['store']:.3f}")  # fmt: skip
    best = {name: each.best for name, each in result.retrieval.scenarios.items()}
    print(f"    chosen: {best}; all {len(kinds)} maps with everything: {whole:.0f} s of CPU")
    found = result.calibration
    if found is not None:
        print(f"    confidence: rank correlation {found.correlation:.2f}, {found.measured}")
    dot = unnormalised(old, new)
    print(f"    a store on a dot-product index, ridge: recall@10 {dot['raw']:.3f} before lengths are set, "
          f"{dot['set']:.3f} after\n")  # fmt: skip
    return {"kinds": kinds, "best": best, "cpu_s": whole, "corpus": result.retrieval.corpus, "dot": dot}


def unnormalised(old: str, new: str) -> dict[str, float]:
    """Recall@10 by dot product in a store translated by ridge, with and without the length of new vectors."""
    import isorep

    found = {}
    for name, lengths in (("raw", False), ("set", True)):
        result = isorep.translate(old, new, maps="ridge", metric="dot", normalise=lengths)
        found[name] = result.chosen.maps["ridge"].recall[10]
    return found


def sizes_part(old: str, new: str, first: int, draws: int) -> dict[str, Any]:
    """Recall in a large store, estimated from samples of 500 and 2,000 items, against brute force, over draws."""
    x, y = (np.load(path).astype(np.float64) for path in (old, new))
    found = [row for seed in range(first, first + draws) for row in one_draw(x, y, seed)]
    print(f"SIZES: recall among {found[0]['size']:,} items from samples, linear map, {draws} draws from seed {first}")
    for scenario in ("store", "queries"):
        for k, size in ((1, 500), (1, 2000), (10, 500), (10, 2000)):
            rows = [row for row in found if (row["scenario"], row["k"], row["sample"]) == (scenario, k, size)]
            mean = {name: np.mean([row[name] for row in rows]) for name in ("in_sample", "estimate", "truth")}
            off = np.mean([abs(row["estimate"] - row["truth"]) for row in rows])
            covered = sum(row["low"] <= row["truth"] <= row["high"] for row in rows)
            print(f"    {scenario:<8} recall@{k:<2} from {size:>5,}: in the sample {mean['in_sample']:.3f}, estimated "
                  f"{mean['estimate']:.3f}, truth {mean['truth']:.3f}; off by {off:.3f}; "
                  f"{covered} of {len(rows)} intervals hold the truth")  # fmt: skip
    inside = sum(row["low"] <= row["truth"] <= row["high"] for row in found)
    print(f"    together: {inside} of {len(found)} intervals hold the truth\n")
    return {"rows": found, "inside": inside}


def one_draw(x: np.ndarray, y: np.ndarray, seed: int) -> list[dict[str, Any]]:
    from isorep.translation.extrapolation import Extrapolation

    rng = np.random.default_rng(seed)
    fitted, asked = min(4000, len(x) // 3), min(800, len(x) // 10)
    train, queries, pool = np.split(rng.permutation(len(x)), [fitted, fitted + asked])
    matrix = np.linalg.lstsq(x[train] - x[train].mean(axis=0), y[train] - y[train].mean(axis=0), rcond=None)[0]
    mapped = (x - x[train].mean(axis=0)) @ matrix + y[train].mean(axis=0)
    mapped, y = ((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32) for rows in (mapped, y))
    found = []
    for scenario, asking, items in (("store", y, mapped), ("queries", mapped, y)):
        own = np.einsum("ij,ij->i", asking[queries], items[queries])
        scores = asking[queries] @ items[pool].T
        closer = (scores > own[:, None]).sum(axis=1)
        for size in (500, 2000):
            here = (scores[:, :size] > own[:, None]).sum(axis=1)
            guess = Extrapolation(here, size + 1, rng).at(len(pool) + 1, (1, 10))
            for k in (1, 10):
                row = {"seed": seed, "scenario": scenario, "sample": size, "k": k, "size": len(pool) + 1}
                row |= {"in_sample": float((here < k).mean()), "truth": float((closer < k).mean())}
                row |= {"estimate": guess.recall[k], "low": guess.low[k], "high": guess.high[k]}
                found.append(row)
    return found


# Without pairs --------------------------------------------------------------------------------------------------

CLUSTERS, ANCHOR_RUNS, NEIGHBOURS, ROUNDS, SAMPLE, STEP = 20, 10, 50, 10, 2000, 0.5
FINE_CLUSTERS = 500


def unpaired_part(old: str | None, new: str | None, seed: int, steps: int) -> dict[str, Any]:
    """Disjoint halves of the rows as unpaired sides, and 400 pairs that nobody fits to."""
    sets = {
        "factors of different shapes": mixed(different(seed), seed),
        "of similar shapes": mixed(similar(seed), seed),
    }
    if old and new:
        sets["files"] = (np.load(old).astype(np.float64), np.load(new).astype(np.float64))
    found = {}
    for name, (x, y) in sets.items():
        order = np.random.default_rng(seed).permutation(len(x))
        held, rest = order[:400], order[400:]
        half = len(rest) // 2
        a, b = x[rest[:half]], y[rest[half:]]
        print(f"UNPAIRED: {name}, {len(a):,} x {x.shape[1]} and {len(b):,} x {y.shape[1]}; {len(held)} held-out pairs")
        found[name] = {
            "isorep": by_components(a, b, x[held], y[held], seed),
            "mini-vec2vec": by_anchors(a, b, x[held], y[held], seed),
            "vec2vec": adversarial(a, b, x[held], y[held], seed, steps),
            "ridge, with as many pairs": by_pairs(x[rest[:half]], y[rest[:half]], x[held], y[held]),
        }
        for method, row in found[name].items():
            show(method, row["seconds"], f"top-1 {row['top1']:.3f}, cosine {row['cosine']:.3f}{row.get('said', '')}")
    print("    top-1 of guessing 0.003; cosines are around the means. The published vec2vec has a million rows.\n")
    return found


def different(seed: int) -> np.ndarray:
    """Independent skewed factors."""
    rng, n = np.random.default_rng(seed), 10_000
    columns = [rng.exponential(size=n), rng.gamma(4, size=n), rng.random(n) ** 2]
    return np.stack([*columns, np.where(rng.random(n) < 0.3, 2, 0) + 0.4 * rng.normal(size=n)], axis=1)


def similar(seed: int) -> np.ndarray:
    """Eight gamma factors, each with the shape of the one before times 1.5."""
    return np.random.default_rng(seed).gamma(0.3 * 1.5 ** np.arange(8), size=(10_000, 8))


def mixed(factors: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two models of the same items: standardised factors, mixed by two matrices."""
    rng = np.random.default_rng(seed + 1)
    factors = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    k = factors.shape[1]
    return factors @ rng.normal(size=(k, k)) + 3, 20 * factors @ rng.normal(size=(k, k + 4))


def by_components(a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    import isorep

    seconds, result = timed(lambda: isorep.translate_unpaired(a, b, random_state=seed))
    said = f"; {result.verdict.answer}, {len(result.counted)} of {result.components} components"
    near = f", near-Gaussian {result.near_gaussian[0]} and {result.near_gaussian[1]}"
    mapped = result.translator.transform(x, check=False)
    return {"seconds": seconds, "said": said + near, **scored(mapped, y, b.mean(axis=0))}


def by_pairs(a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    import isorep

    seconds, result = timed(lambda: isorep.translate(a, b, maps="ridge", n_boot=0))
    return {"seconds": seconds, **scored(result.translator.transform(x, check=False), y, b.mean(axis=0))}


def by_anchors(a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """The published recipe of mini-vec2vec (Dar 2025), small.

    Anchors are centroids of k-means on both sides, matched by the quadratic assignment of their cosines, several times.
    Cosines to all anchors give pseudo-pairs: a row and the mean of its neighbours. Procrustes on these is refined by
    neighbours in the new space, then by clusters.
    """
    seconds, mapped = timed(lambda: anchored(a, b, x, seed))
    return {"seconds": seconds, **scored(mapped, y, b.mean(axis=0))}


def adversarial(a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray, seed: int, steps: int) -> dict[str, Any]:
    """The published recipe of vec2vec, small: see ``vec2vec.py``."""
    seconds, (mapped, levels) = timed(lambda: by_adversaries(a, b, x, seed, steps))
    said = f"; loss of the last two tenths of {steps} steps {levels[-2]:.3f} and {levels[-1]:.3f}"
    return {"seconds": seconds, "levels": levels, "said": said, **scored(mapped, y, b.mean(axis=0))}


def anchored(a: np.ndarray, b: np.ndarray, x: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    mean = a.mean(axis=0)
    mine, yours = on_sphere(a - mean), on_sphere(b - b.mean(axis=0))
    rng = np.random.default_rng(seed)
    relative: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for run in range(ANCHOR_RUNS):
        centres = [on_sphere(KMeans(CLUSTERS, n_init=1, random_state=run).fit(rows).cluster_centers_)
                   for rows in (mine, yours)]  # fmt: skip
        order = matched_anchors(*centres, rng)
        relative[0].append(mine @ centres[0].T)
        relative[1].append(yours @ centres[1][order].T)
    first, second = (on_sphere(np.concatenate(parts, axis=1)) for parts in relative)
    turned = procrustes(mine, neighbour_means(first, second, yours))
    for _ in range(ROUNDS):
        rows = rng.choice(len(mine), min(SAMPLE, len(mine)), replace=False)
        targets = neighbour_means(on_sphere(mine[rows] @ turned), yours, yours)
        turned = (1 - STEP) * turned + STEP * procrustes(mine[rows], targets)
    fine = KMeans(min(FINE_CLUSTERS, len(mine) // 10), n_init=1, random_state=seed).fit(mine).cluster_centers_
    there = KMeans(len(fine), init=fine @ turned, n_init=1).fit(yours).cluster_centers_
    turned = (1 - STEP) * turned + STEP * procrustes(fine, there)
    return on_sphere(x - mean) @ turned + b.mean(axis=0)


def matched_anchors(mine: np.ndarray, yours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    from scipy.optimize import quadratic_assignment

    inner = mine @ mine.T, yours @ yours.T
    tries = [
        quadratic_assignment(*inner, options={"maximize": True, "P0": "randomized", "rng": rng}) for _ in range(10)
    ]
    return max(tries, key=lambda found: found.fun).col_ind


def neighbour_means(asking: np.ndarray, searched: np.ndarray, values: np.ndarray) -> np.ndarray:
    similar = asking @ searched.T
    nearest = np.argpartition(-similar, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    return values[nearest].mean(axis=1)


def procrustes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    u, _, vt = np.linalg.svd(a.T @ b, full_matrices=False)
    return u @ vt


def on_sphere(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def scored(mapped: np.ndarray, y: np.ndarray, mean: np.ndarray) -> dict[str, float]:
    """How often a translated vector is nearest to its own new one, and the mean cosine, around the mean."""
    similar = on_sphere(mapped - mean) @ on_sphere(y - mean).T
    return {
        "top1": float((similar.argmax(axis=1) == np.arange(len(y))).mean()),
        "cosine": float(similar.trace() / len(y)),
    }


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
    return {"ridge_s": seconds, "ridge_rms": record.held_out.rms, "ridge_recall": record.recalls["queries"].recall[10]}


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
