"""Golden figures: every command on small inputs with a clear answer, and what it said, within stated tolerances.

``python tests/golden.py --write`` renews ``tests/golden/NAME.json``; look at the difference before you commit it.
``tests/test_golden.py`` compares, and ``tests/kernels.py`` does so under other kernels and numbers of threads.

A tolerance is relative to the larger of the figure and 1. Figures from moments and from counts agree on all kernels to
the last digits. Iterations (ICA) end within their own tolerance. Ranks and trees see ties differently.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from .data import mixing, rotation, sources
    from .deconfounding.screens import screen
else:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.data import mixing, rotation, sources
    from tests.deconfounding.screens import screen

FOLDER = Path(__file__).parent / "golden"
RUN_TIMES = ("seconds", "peak_memory", "page")  # keys of what differs from run to run; the page shows date and times

MOMENTS, ITERATED, FLOAT32, RANKED = 1e-8, 2e-4, 1e-5, 2e-3
EXACT = 0.0  # also for text


@dataclass(frozen=True)
class Case:
    """A command in the folder of the inputs, and the figures of its JSON that are kept, by pattern."""

    arguments: tuple[str, ...]
    figures: dict[str, float]
    code: int = 0


CASES = {
    "compare": Case(
        ("compare", "a.npy", "b.npy", "--null", "19"),
        {
            "forward.rungs.ica.held_out.mean": ITERATED,
            "forward.rungs.ica.in_sample.mean": ITERATED,
            "*.rungs.[!i]*.held_out.mean": MOMENTS,
            "*.rungs.identity.held_out.mean": MOMENTS,
            "forward.rungs.[rl]*.in_sample.*": MOMENTS,
            "forward.rungs.[rl]*.interval.*": MOMENTS,
            "forward.rungs.[rl]*.null.mean": MOMENTS,
            "forward.rungs.[rl]*.null.p_value": EXACT,
            "forward.diameter.value": MOMENTS,
            "*.verdict.rung": EXACT,
            "forward.verdict.sentence": EXACT,
        },
    ),
    "compare_many": Case(
        ("compare", "a.npy", "b.npy", "c.npy", "d.npy", "--null", "5"),
        {
            "rungs.[!i]*.mean": MOMENTS,
            "rungs.[!i]*.max": MOMENTS,
            "rungs.identity.mean": MOMENTS,
            "rungs.ica.mean": ITERATED,
            "rungs.linear.error.?.?": MOMENTS,
            "consensus.share": MOMENTS,
            "components.found": EXACT,
            "verdict.rung": EXACT,
            "verdict.sentence": EXACT,
        },
    ),
    "similarity": Case(
        ("similarity", "a.npy", "c.npy", "--permutations", "19"),
        {
            "indices.*.value": MOMENTS,
            "indices.*.null.mean": MOMENTS,
            "indices.*.null.p_value": EXACT,
        },
    ),
    "ica_fit": Case(
        ("ica", "fit", "a.npy", "-o", "model.safetensors", "--no-resume"),
        {
            "rank": EXACT,
            "components.count": EXACT,
            "components.kurtosis.*": ITERATED,
            "components.skewness.*": ITERATED,
            "components.gaussian.*": EXACT,
            "converged": EXACT,
            "reading": EXACT,
        },
    ),
    "ica_stability": Case(
        ("ica", "stability", "a.npy", "--restarts", "3"),
        {
            "components.scores.*": ITERATED,
            "components.comes_back.*": EXACT,
            "reading": EXACT,
        },
    ),
    "structure": Case(
        ("structure", "latents.npy", "factors.npy", "--null", "0", "--resamples", "0"),
        {
            "scores.linear_r2.value": MOMENTS,
            "scores.mcc*.value": MOMENTS,
            "scores.sap.value": MOMENTS,
            "scores.info[me].value": 1e-6,
            "scores.mig.value": 1e-6,
            "scores.dci_*.value": RANKED,
            "scores.explicitness.value": RANKED,
            "scores.kernel_r2.value": 1e-6,
            "records.mcc.matches.*": EXACT,
            "ladder.verdict.rung": EXACT,
        },
    ),
    "decoder": Case(
        ("decoder", "golden_model:decoder", "z.npy"),
        {
            "constants.*": FLOAT32,
            "isometry.delta": FLOAT32,
            "latents.*.activity": FLOAT32,
            "rank.*": EXACT,
            "convexity.answer": EXACT,
        },
    ),
    "heads": Case(
        ("heads", "head.npy", "other.npy", "--features", "a.npy", "--other-features", "c.npy"),
        {
            "heads.*.classes.rank": EXACT,
            "heads.*.classes.condition": MOMENTS,
            "heads.*.classes.pairs.condition": MOMENTS,
            "map.regression.head.error.mean": MOMENTS,
            "map.regression.head.r2": MOMENTS,
            "map.regression.regression.error.mean": MOMENTS,
            "map.agrees": EXACT,
            "closeness.kl.mean": MOMENTS,
            "closeness.log_odds.value": MOMENTS,
            "closeness.representations.cca": MOMENTS,
            "verdict": EXACT,
        },
    ),
    "translate_fit": Case(
        ("translate", "fit", "a.npy", "c.npy", "-o", "map.safetensors", "--maps", "rigid,linear,ridge,low_rank"),
        {
            "maps.*.held_out.mean": MOMENTS,
            "maps.*.held_out.cosine": MOMENTS,
            "maps.linear.recalls.*.recall.*": EXACT,
            "verdict.answer": EXACT,
        },
    ),
    "blocks": Case(
        ("blocks", "view0.npy", "view1.npy", "--null", "19"),
        {
            "dimension": EXACT,
            "dimension_interval.*": EXACT,
            "components.[0-3].held_out": MOMENTS,
            "components.[0-3].in_sample": MOMENTS,
            "chance_reaches": MOMENTS,
            "views.*.content_share": MOMENTS,
            "verdict": EXACT,
        },
    ),
    "dictionaries": Case(
        ("dictionaries", "atoms0.npy", "atoms1.npy"),
        {
            "pairs.0.decoder.one_to_one.mean": MOMENTS,
            "pairs.0.decoder.one_to_one.share": EXACT,
            "pairs.0.decoder.one_to_one.mean_null.mean": MOMENTS,
            "pairs.0.decoder.forward.mean": MOMENTS,
            "pairs.0.decoder.gap": MOMENTS,
            "verdict.sentence": EXACT,
        },
    ),
    "deconfound": Case(
        (
            *("deconfound", "screen.npz::z", "--label", "screen.npz::treated", "--batch", "screen.npz::plate"),
            *("--classifiers", "logistic", "--restarts", "0", "--components", "all", "--conditions", "base,control_z"),
        ),
        {
            "conditions.*.scores.logistic.auroc.value": RANKED,
            "conditions.*.mixing.batch_variance.value": FLOAT32,
            "data.rows": EXACT,
            "data.batches": EXACT,
        },
    ),
    "extract": Case(
        ("extract", "golden_model:decoder", "z.npy", "-l", "0,1", "-o", "layers"),
        {
            "layers.*.rows": EXACT,
            "layers.*.columns": EXACT,
            "layers.*.mean_norm": FLOAT32,
            "layers.*.largest": FLOAT32,
            "layers.*.effective_rank": FLOAT32,
        },
    ),
}

_MODEL = """
import torch


def decoder():
    linear = torch.nn.Linear(3, 8, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor({weights}))
    return torch.nn.Sequential(linear, torch.nn.Softsign())
"""


def write_inputs(folder: Path) -> None:
    """Runs a to d of the same sources, views, heads, dictionaries, a screen and a small model."""
    rng = np.random.default_rng(0)
    rows, width = 600, 4
    shared = sources(rows, width, seed=3)

    def noise(scale: float) -> Any:
        return scale * rng.normal(size=(rows, width))

    runs = {
        "a": shared @ rotation(width, 1) + noise(0.05),
        "b": 1.7 * shared @ rotation(width, 2) + noise(0.1),
        "c": shared @ mixing(width, 5, 3.0) + noise(0.05),
        "d": shared @ mixing(width, 7, 3.0) + noise(0.05),
        "factors": shared,
        "latents": shared[:, [2, 0, 3, 1]] * [1.0, -2.0, 0.5, 1.5] + noise(0.3),
    }
    # Two of four sources are shared by the views; the others are their own.
    own = [sources(rows, width, seed)[:, :2] for seed in (11, 12)]
    for view in range(2):
        runs[f"view{view}"] = np.hstack([shared[:, :2], own[view]]) @ mixing(width, 20 + view, 3.0) + noise(0.1)
    head = rng.normal(size=(12, width))
    onto = np.linalg.lstsq(runs["a"], runs["c"], rcond=None)[0]
    runs["head"], runs["other"] = head, head @ np.linalg.inv(onto).T + 0.02 * rng.normal(size=(12, width))
    atoms = rng.normal(size=(24, 8))
    runs["atoms0"], runs["atoms1"] = atoms, np.vstack([atoms[::-1][:16] + 0.1 * rng.normal(size=(16, 8)), -atoms[:8]])
    runs["z"] = rng.normal(size=(60, 3)).astype(np.float32)
    for name, values in runs.items():
        np.save(folder / f"{name}.npy", values)
    embedded, treated, plate = screen(wells=30)
    np.savez(folder / "screen.npz", z=embedded, treated=np.where(treated, "drug", "DMSO"), plate=plate)
    weights = np.round(np.linalg.qr(rng.normal(size=(8, 3)))[0] * [2.0, 1.0, 0.5], 6)
    (folder / "golden_model.py").write_text(_MODEL.format(weights=weights.tolist()))


def run_case(name: str, folder: Path) -> dict[str, Any]:
    """What a command wrote as JSON, in a folder with the inputs; it runs in this process."""
    from isorep.cli.main import run

    case, before = CASES[name], (Path.cwd(), sys.argv, list(sys.path))
    os.chdir(folder)
    sys.argv = ["isorep", *case.arguments, "--json", f"{name}.json", "--quiet"]
    if name == "extract":
        sys.argv.append("--restart")
    sys.path.insert(0, str(folder))
    try:
        run()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os.chdir(before[0])
        sys.argv, sys.path[:] = before[1], before[2]
        sys.modules.pop("golden_model", None)
    assert code == case.code, f"{name} ended with {code}"
    told: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return told


def figures(name: str, told: dict[str, Any]) -> dict[str, list[Any]]:
    """The figures to keep, each with its tolerance; every pattern has to find one."""
    found: dict[str, list[Any]] = {}
    held = dict(flattened(told))
    for pattern, within in CASES[name].figures.items():
        matched = fnmatch.filter(held, pattern)
        assert matched, f"{name} has no {pattern}"
        for path in matched:
            found.setdefault(path, [_rounded(held[path]), within])
    return dict(sorted(found.items()))


def differences(wanted: dict[str, list[Any]], found: dict[str, list[Any]]) -> list[str]:
    """Figures that are not what they were, within the tolerances that the golden file states."""
    said = [f"{path}: only in one of both" for path in sorted(wanted.keys() ^ found.keys())]
    for path in sorted(wanted.keys() & found.keys()):
        (old, within), new = wanted[path], found[path][0]
        if isinstance(old, float) and isinstance(new, int | float):
            same = math.isclose(old, new, rel_tol=0.0, abs_tol=within * max(1.0, abs(old)) + 1e-15)
        else:
            same = old == new
        if not same:
            said.append(f"{path}: {old!r} was {new!r} here (within {within:g})")
    return said


def without_run_times(told: Any) -> Any:
    """Plain data without the keys that hold run times and memory."""
    if isinstance(told, dict):
        return {key: without_run_times(each) for key, each in told.items() if key not in RUN_TIMES}
    return [without_run_times(each) for each in told] if isinstance(told, list) else told


def flattened(told: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All numbers and texts of plain data, by their dotted paths."""
    if isinstance(told, dict | list):
        for key, each in told.items() if isinstance(told, dict) else enumerate(told):
            yield from flattened(each, f"{path}.{key}" if path else str(key))
    else:
        yield path, told


def golden(name: str) -> dict[str, list[Any]]:
    """The figures of a golden file."""
    kept: dict[str, list[Any]] = json.loads((FOLDER / f"{name}.json").read_text())["figures"]
    return kept


def _rounded(value: Any) -> Any:
    return float(f"{value:.10g}") if isinstance(value, float) else value


def main() -> int:
    """Run all cases; print the differences, or renew the golden files."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the golden files")
    parser.add_argument("names", nargs="*", help="only these cases; default: all")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        for case in given.names or CASES:
            found = figures(case, run_case(case, folder))
            if given.write:
                FOLDER.mkdir(exist_ok=True)
                kept = [f'    "{path}": {json.dumps(each)}' for path, each in found.items()]
                command = json.dumps(" ".join(["isorep", *CASES[case].arguments]))
                text = '{\n  "command": ' + command + ',\n  "figures": {\n' + ",\n".join(kept) + "\n  }\n}\n"
                (FOLDER / f"{case}.json").write_text(text)
                continue
            said = differences(golden(case), found)
            failed += bool(said)
            print(f"{case}: {'equal' if not said else ''}", *said, sep="\n  ", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
