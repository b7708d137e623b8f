"""What other tools read on pure noise, what they offer, and how long they take: the table in the README.

    python benchmarks/peers.py            # about three minutes of one core
    python benchmarks/peers.py --write    # also into README.md, between its markers

Two Gaussian matrices that have nothing in common, twice as many rows as columns: a tool that fits and judges on the
same rows sees agreement there. Times are processor seconds of one thread, on a pair that is a rotation and noise.
Peers that are not installed by ``make bench`` are written here in a few lines, and the table says so.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from compare import cebra_score
from measuring import keep, machine
from threadpoolctl import threadpool_limits

import isorep
from similarity import cka_by_features, cka_by_grams, procrustes_by_netrep

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "peers.json"
NOISE = (1_000, 500)  # rows, columns
TIMED = (2_000, 64)
INDEX_DRAWS = 200

Pair = tuple[np.ndarray, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    chosen = parser.parse_args()
    with threadpool_limits(1):
        rows = {name: measured(name, tool) for name, (tool, *_) in TOOLS.items()}
    keep(RESULTS, machine() | {"noise": NOISE, "timed": TIMED, "tools": rows})
    table = markdown(rows)
    print(table)
    if chosen.write:
        put(ROOT / "README.md", "table: peers", table)


def measured(name: str, tool: Callable[[Pair], str]) -> dict[str, Any]:
    """What a tool reads on noise, and its processor time on a related pair."""
    reading = tool(noise(*NOISE))
    started = time.process_time()
    tool(related(*TIMED))
    facts = {"reading": reading, "seconds": time.process_time() - started}
    print(f"{name:<40} {facts['seconds']:8.2f} s  {reading}", flush=True)
    return facts


def noise(n: int, d: int) -> Pair:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.normal(size=(n, d))


def related(n: int, d: int) -> Pair:
    """Heavy-tailed rows, and the same rotated with a tenth of noise."""
    rng = np.random.default_rng(1)
    x = rng.laplace(size=(n, d))
    return x, x @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 0.1 * rng.normal(size=(n, d))


# Tools: each reads a pair and says what it found ----------------------------------------------------------------


def isorep_ladder(pair: Pair) -> str:
    rung = isorep.compare(*pair).rungs["linear"]
    assert rung.null is not None
    return f"error {rung.held_out.mean:.2f}, chance {rung.null.mean:.2f}, p = {rung.null.p_value:.2f}"


def isorep_index(pair: Pair) -> str:
    found = isorep.similarity.cka(*pair, permutations=INDEX_DRAWS)
    assert found.corrected is not None
    return f"CKA {abs(round(found.corrected, 2)):.2f} above chance, p = {found.p_value:.2f}"


def cka(pair: Pair) -> str:
    return f"CKA {cka_by_features(*pair):.2f}"


def svcca(pair: Pair) -> str:
    """Raghu's steps: the directions that hold 99 % of each side's variance, then the mean canonical correlation."""
    bases = []
    for side in pair:
        left, values, _ = np.linalg.svd(side - side.mean(axis=0), full_matrices=False)
        kept = 1 + int(np.searchsorted(np.cumsum(values**2) / np.sum(values**2), 0.99))
        bases.append(left[:, :kept])
    return f"SVCCA {np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).mean():.2f}"


def netrep(pair: Pair) -> str:
    return f"similarity {np.cos(procrustes_by_netrep(*pair)):.2f} in-sample"


def cebra(pair: Pair) -> str:
    return f"R² {cebra_score(*pair)[0]:.2f}"


def calibrated(pair: Pair) -> str:
    import torch
    from calibrated_similarity import calibrate

    torch.manual_seed(0)
    torch.set_num_threads(1)
    score, p, _ = calibrate(*map(torch.from_numpy, pair), cka_by_grams, K=INDEX_DRAWS)
    return f"CKA {float(score):.2f} above chance, p = {float(p):.2f}"


def fastica(pair: Pair) -> str:
    from sklearn.decomposition import FastICA

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = FastICA(random_state=0).fit(pair[0])
    remark = "a convergence warning" if warned else "no remark"
    return f"{len(found.components_)} components, {remark}"


def picard_ica(pair: Pair) -> str:
    from picard import Picard

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = Picard(random_state=0).fit(pair[0])
    remark = "a convergence warning" if warned else "no remark"
    return f"{len(found.components_)} components, {remark}"


def isorep_ica(pair: Pair) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", isorep.GaussianityWarning)
        flagged = isorep.ICA().fit(pair[0]).gaussian_
    return f"{np.sum(flagged)} of {len(flagged)} flagged as Gaussian"


# The tool, and then what it offers: held out, chance level, interval, maps that it matches up to.
TOOLS: dict[str, tuple[Callable[[Pair], str], str, str, str, str]] = {
    "**`isorep.compare`**": (isorep_ladder, "yes", "yes", "yes", "five groups"),
    "**`isorep.similarity`**": (isorep_index, "no", "yes", "no", "per index"),
    "CKA, in numpy": (cka, "no", "no", "no", "rotation, scale"),
    "SVCCA, in numpy": (svcca, "no", "no", "no", "linear"),
    "netrep †": (netrep, "on request", "no", "no", "rotation to linear"),
    "CEBRA, consistency score": (cebra, "no", "no", "no", "linear"),
    "calibrated-similarity": (calibrated, "no", "yes", "no", "per index"),
    "**`isorep.ICA`**": (isorep_ica, "–", "yes", "–", "–"),
    "scikit-learn FastICA": (fastica, "–", "no", "–", "–"),
    "Picard": (picard_ica, "–", "no", "–", "–"),
}


def markdown(rows: dict[str, dict[str, Any]]) -> str:
    head = ["tool", "on pure noise it reads", "held out", "chance", "interval", "matches up to", "time"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, (_, *offers) in TOOLS.items():
        lines.append("| " + " | ".join([name, rows[name]["reading"], *offers, f"{rows[name]['seconds']:.2g} s"]) + " |")
    return "\n".join(lines)


def put(path: Path, marker: str, text: str) -> None:
    """Replace what stands between ``<!-- marker -->`` and ``<!-- end -->``."""
    before, found, rest = path.read_text(encoding="utf-8").partition(f"<!-- {marker} -->\n")
    _, closed, after = rest.partition("<!-- end -->")
    if not found or not closed:
        raise SystemExit(f"{path.name} has no block <!-- {marker} --> ... <!-- end -->")
    path.write_text(f"{before}{found}{text}\n{closed}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
