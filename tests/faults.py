"""Faults: commands are killed (SIGKILL) at random moments, run again, and compared with an uninterrupted run.

``python tests/faults.py --kills 50`` runs every command; ``make faults`` does. Nothing but the outputs may be left.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ENVIRONMENT = {"SOURCE_DATE_EPOCH": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Case:
    """A command, with the files it writes."""

    name: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]


CASES = (
    Case("ica fit", ("ica", "fit", "a.npy", "-o", "m.safetensors", "--max-iter", "60"), ("m.safetensors",)),
    Case("ica apply", ("ica", "apply", "model.safetensors", "a.npy", "out.csv"), ("out.csv",)),
    Case("translate fit", ("translate", "fit", "a.npy", "b.npy", "-o", "t.safetensors"), ("t.safetensors",)),
    Case("translate apply", ("translate", "apply", "map.safetensors", "a.npy", "out.zarr"), ("out.zarr",)),
    Case(
        "compare", ("compare", "a.npy", "b.npy", "--fast", "--json", "r.json", "--html", "r.html"), ("r.json", "r.html")
    ),
    Case(
        "deconfound", ("deconfound", "d.csv", "--label", "label", "--batch", "batch", "--json", "d.json"), ("d.json",)
    ),
)


def prepare(folder: Path, rows: int = 3000) -> None:
    """The inputs of all cases."""
    import isorep

    rng = np.random.default_rng(0)
    a = rng.laplace(size=(rows, 8))
    b = a @ rng.normal(size=(8, 8)) + 0.1 * rng.normal(size=(rows, 8))
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", b)
    isorep.ICA(random_state=0).fit(a).save(folder / "model.safetensors")
    isorep.translate(a[:500], b[:500], maps=["linear"], n_boot=0).translator.save(folder / "map.safetensors")
    names = [f"feature_{column}" for column in range(8)]
    lines = [",".join([*names, "label", "batch"])]
    for row in range(240):
        cells = a[row] + (row % 2) * np.eye(8)[0]
        lines.append(",".join([*map(repr, cells.tolist()), "drug" if row % 2 else "control", f"p{row // 30}"]))
    (folder / "d.csv").write_text("\n".join(lines) + "\n")


def start(case: Case, folder: Path) -> subprocess.Popen[bytes]:
    """The command as a process."""
    command = [sys.executable, "-m", "isorep", *case.arguments, "--quiet"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=os.environ | ENVIRONMENT, **quiet)  # type: ignore[call-overload,no-any-return]


def finish(case: Case, folder: Path) -> dict[str, bytes]:
    """Run a command to its end: the bytes that it wrote, by file."""
    process = start(case, folder)
    _, said = process.communicate()
    if process.returncode:
        raise SystemExit(f"{case.name} ended with {process.returncode}: {said.decode()[-300:]}")
    written = {}
    for name in case.outputs:
        path = folder / name
        parts = sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
        written |= {str(part.relative_to(folder)): part.read_bytes() for part in parts}
    return written


def strike(case: Case, folder: Path, after: float) -> bool:
    """Kill a command after some seconds; whether it was still at work."""
    process = start(case, folder)
    time.sleep(after)
    running = process.poll() is None
    process.kill()
    process.communicate()
    return running


def remove(case: Case, folder: Path) -> None:
    """Remove what a command wrote."""
    import shutil

    for name in case.outputs:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def check(case: Case, folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Kill and run again so many times: how often it was killed at work, and what went wrong."""
    before = {path.name for path in folder.iterdir()}
    begin = time.monotonic()
    wanted = finish(case, folder)
    lasts = time.monotonic() - begin
    struck, wrong = 0, []
    for _ in range(kills):
        remove(case, folder)
        after = rng.uniform(0, lasts)
        struck += strike(case, folder, after)
        time.sleep(2.1)  # what was left is removed once it is not fresh
        if finish(case, folder) != wanted:
            wrong.append(f"{case.name}, killed after {after:.2f} s: another result")
        left = {path.name for path in folder.iterdir()} - before - set(case.outputs)
        if left:
            wrong.append(f"{case.name}, killed after {after:.2f} s: left {', '.join(sorted(left))}")
    remove(case, folder)
    return struck, wrong


def main() -> None:
    """Run all cases, or those that are named; exit 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="kills per command; default: 50")
    parser.add_argument("--only", nargs="*", help="commands; default: all")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, wrong = random.Random(given.seed), []
    with tempfile.TemporaryDirectory(prefix="isorep-faults-") as name:
        folder = Path(name)
        prepare(folder)
        for case in CASES:
            if given.only and case.name not in given.only:
                continue
            struck, found = check(case, folder, given.kills, rng)
            print(f"{case.name}: {given.kills} kills, {struck} of them at work, {len(found)} failures", flush=True)
            wrong += found
    print(*wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
