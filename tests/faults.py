"""Faults: commands are killed (SIGKILL) at random moments, run again, and compared with an uninterrupted run.

``python tests/faults.py --kills 50`` runs every command; ``make faults`` does, and records the counts. A run is a
process forked from one that has loaded all modules: kills meet work, not imports. It writes a state whenever it could,
not every few seconds, so that a run of a second passes through all states of a long one. Half of the kills come after
a random share of the run's processor time, half of them when the files in its folder change.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).with_name("reliability.json")
ENVIRONMENT = {"SOURCE_DATE_EPOCH": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ROWS, EXAMPLES, TRIED = 600, 320, 64
_POLL = 0.002  # seconds between two looks at a running command
TINY = """
import numpy as np
from torch import nn

class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 6), nn.Linear(6, 4)

    def forward(self, x):
        with open("passed", "ab") as file:  # the first column is the number of the example
            x[:, 0].detach().numpy().astype(np.int32).tofile(file)
        return self.last(self.first(x).relu())
"""
CLASSES = {
    "seeds": 2, "steps": 20, "sweep_seeds": 2, "sweep_steps": 20, "rows": 300, "test_rows": 100, "curve_rows": 40,
    "hidden": 8, "classes": 4, "sweep_classes": 3, "sweep_dimensions": 2, "batch": 32,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A command, with what it writes.

    ``resumes`` looks at what a killed run has left, and returns a function that says what the next one did again.
    """

    name: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    resumes: Callable[[Path], Callable[[], list[str]]] = lambda folder: list


def units_kept(folder: Path) -> Callable[[], list[str]]:
    """Units that were finished are not computed again: their files stay the ones that they were."""

    def finished() -> dict[str, tuple[int, int]]:
        found = (folder / "run" / "units").glob("[!.]*.json")
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}

    before = finished()
    return lambda: [f"{name} was computed again" for name, file in before.items() if finished().get(name) != file]


def rows_kept(folder: Path) -> Callable[[], list[str]]:
    """Examples in the journal do not pass the model again, all others pass once; the first ones are tried out."""
    journal, passed = folder / "features" / ".features.extracting" / "journal.json", folder / "passed"
    done = json.loads(journal.read_text())["done"]["examples"] if journal.exists() else 0
    passed.unlink(missing_ok=True)

    def wrong() -> list[str]:
        import numpy as np

        numbers = np.fromfile(passed, np.int32)
        wanted = list(range(max(done, TRIED), EXAMPLES))
        given = sorted(numbers[numbers >= TRIED].tolist())
        return [] if given == wanted else [f"{len(given)} examples passed the model, {len(wanted)} were left"]

    return wrong


DECONFOUND = ("deconfound", "d.csv", "--label", "label", "--batch", "batch", "--classifiers", "logistic")
SETTINGS = tuple(part for name, value in CLASSES.items() for part in ("--set", f"{name}={value}"))
CASES = (
    Case("ica fit", ("ica", "fit", "a.npy", "-o", "m.safetensors", "--max-iter", "60"), ("m.safetensors",)),
    Case("ica apply", ("ica", "apply", "model.safetensors", "a.npy", "out.csv"), ("out.csv",)),
    Case("translate fit", ("translate", "fit", "a.npy", "b.npy", "-o", "t.safetensors"), ("t.safetensors",)),
    Case("translate apply", ("translate", "apply", "map.safetensors", "a.npy", "out.zarr"), ("out.zarr",)),
    Case(
        "compare", ("compare", "a.npy", "b.npy", "--fast", "--json", "r.json", "--html", "r.html"), ("r.json", "r.html")
    ),
    Case(
        "deconfound",
        (*DECONFOUND, "--components", "4", "--restarts", "2", "--json", "d.json", "--html", "d.html"),
        ("d.json", "d.html"),
    ),
    Case(
        "extract",
        ("extract", "tiny:Tiny", "x.npy", "-l", "first,last", "-o", "features", "--batch", "16"),
        ("features",),
        rows_kept,
    ),
    Case("reproduce", ("reproduce", "classes", "--scale", "smoke", "--out", "run", *SETTINGS), ("run",), units_kept),
)


def prepare(folder: Path) -> None:
    """The inputs of all cases."""
    import numpy as np

    import isorep

    rng = np.random.default_rng(0)
    a = rng.laplace(size=(ROWS, 8))
    b = a @ rng.normal(size=(8, 8)) + 0.1 * rng.normal(size=(ROWS, 8))
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", b)
    np.save(folder / "x.npy", np.column_stack([np.arange(EXAMPLES), a[:EXAMPLES, 1:]]).astype(np.float32))
    (folder / "tiny.py").write_text(TINY)
    (folder / "passed").touch()
    isorep.ICA(random_state=0).fit(a).save(folder / "model.safetensors")
    isorep.translate(a[:500], b[:500], maps=["linear"], n_boot=0).translator.save(folder / "map.safetensors")
    names = [f"feature_{column}" for column in range(8)]
    lines = [",".join([*names, "label", "batch"])]
    for row in range(120):
        cells = a[row] + (row % 2) * np.eye(8)[0]
        lines.append(",".join([*map(repr, cells.tolist()), "drug" if row % 2 else "control", f"p{row // 30}"]))
    (folder / "d.csv").write_text("\n".join(lines) + "\n")


def load(case: Case, folder: Path) -> None:
    """Load what the command loads, as a first run of it tells."""
    told = folder / "loaded"
    pid = begin(case, folder, told)
    os.waitpid(pid, 0)
    for name in told.read_text().split():
        if name not in sys.modules:
            try:
                import_module(name)
            except ImportError:  # a name that a package gives to parts of itself
                continue
    told.unlink()
    remove(case, folder)


def begin(case: Case, folder: Path, told: Path | None = None) -> int:
    """The command in a process of its own, which may write the names of its modules at the end."""
    pid = os.fork()
    if pid:
        return pid
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    for stream, place in ((1, os.devnull), (2, folder.with_suffix(".err"))):
        os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    code = 99
    try:
        from isorep import checkpoint, files
        from isorep.cli.main import run
        from isorep.extraction import run as extraction

        files._FRESH = 0.0
        extraction._COMMIT_SECONDS = 0.0
        checkpoint.Checkpoint.due = lambda self: True  # type: ignore[method-assign]
        sys.argv = ["isorep", *case.arguments, "--quiet"]
        run()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        if told is not None:
            told.write_text("\n".join(sys.modules))
        sys.stderr.flush()
        os._exit(code)


def finish(case: Case, folder: Path, seen: Callable[[], object] | None = None) -> tuple[dict[str, bytes], float]:
    """Run a command to its end: what it wrote, by file, and its seconds of processor time."""
    pid = begin(case, folder)
    ended, status, used = os.wait4(pid, os.WNOHANG if seen else 0)
    while seen and not ended:
        seen()
        time.sleep(_POLL)
        ended, status, used = os.wait4(pid, os.WNOHANG)
    if status:
        code = os.waitstatus_to_exitcode(status)
        said = folder.with_suffix(".err").read_text()
        raise RuntimeError(f"exit {code}: {said[-300:].strip()}")
    return written(case, folder), used.ru_utime + used.ru_stime


def written(case: Case, folder: Path) -> dict[str, bytes]:
    """The bytes of all outputs, without run times."""
    found = {}
    for name in case.outputs:
        path = folder / name
        parts = sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
        found |= {str(part.relative_to(folder)): part.read_bytes() for part in parts}
    return {name: without_times(name, data) for name, data in found.items()}


def without_times(name: str, data: bytes) -> bytes:
    """An output without run times, which no two runs share: ``seconds`` in JSON, and a line in an experiment's text.

    The page in an experiment's JSON shows them too, and is made from the other fields.
    """
    if name.endswith("table.txt"):
        return re.sub(r"(units?) in [\d.]+ (s|min|h)\b", r"\1", data.decode()).encode()
    if not name.endswith(".json"):
        return data
    found = json.loads(data)
    found.pop("seconds", None)
    if name.endswith("metrics.json"):
        found.pop("page")
    return json.dumps(found).encode()


class Changes:
    """How often the files of a folder were seen to change."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.count = folder, 0
        self._last = self._listed()

    def __call__(self) -> int:
        now = self._listed()
        self.count += now != self._last
        self._last = now
        return self.count

    def _listed(self) -> list[tuple[str, int]]:
        found = []
        for place, folders, names in os.walk(self._folder):
            found += [(os.path.join(place, each), 0) for each in folders]  # noqa: PTH118
            for each in names:
                path = os.path.join(place, each)  # noqa: PTH118
                try:
                    found.append((path, os.stat(path).st_size))  # noqa: PTH116
                except FileNotFoundError:  # renamed since it was listed
                    found.append((path, -1))
        return found


def spent(pid: int) -> float:
    """Seconds of processor time of a process: Linux has a clock for each."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:  # it has ended
        return 0.0


def strike(case: Case, folder: Path, now: Callable[[int], bool]) -> bool:
    """Kill a command at a moment; whether it was still at work."""
    pid = begin(case, folder)
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if now(pid):
            os.kill(pid, signal.SIGKILL)
            return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        time.sleep(_POLL)
    return False


def remove(case: Case, folder: Path) -> None:
    """Remove what a command wrote."""
    for name in case.outputs:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def check(case: Case, folder: Path, kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """Kill at work and run again so many times: how often that was done, and what went wrong."""
    load(case, folder)
    before = {path.name for path in folder.iterdir()}
    changes = Changes(folder)
    wanted, lasts = finish(case, folder, changes)
    struck, wrong = 0, []
    for place in range(3 * kills):  # a few find the command at its end
        if struck == kills:
            break
        remove(case, folder)
        if place % 2:
            count, seen = rng.randint(1, max(changes.count, 1)), Changes(folder)
            words, killed = f"change {count} of files", strike(case, folder, lambda pid: seen() >= count)  # noqa: B023
        else:
            after = rng.uniform(0, lasts)
            words, killed = f"{after:.3f} s", strike(case, folder, lambda pid: spent(pid) >= after)  # noqa: B023
        struck += killed
        if not killed:
            continue
        again = case.resumes(folder)
        try:
            found = finish(case, folder)[0]
            differ = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
            faults = [*(f"{name} is another one" for name in differ), *again()]
        except RuntimeError as error:
            faults = [str(error)]
            remove(case, folder)
        left = {path.name for path in folder.iterdir()} - before - set(case.outputs)
        faults += [f"left {name}" for name in sorted(left)]
        wrong += [f"{case.name}, killed at {words}: {fault}" for fault in faults]
    remove(case, folder)
    return struck, wrong


def record(section: str, found: dict[str, Any]) -> None:
    """Put figures into the file that the page of promises is made of."""
    from isorep import __version__

    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    figures[section] = figures.get(section, {}) | found | {"version": __version__}
    FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Run all cases, or those that are named; exit 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="kills per command; default: 50")
    parser.add_argument("--only", nargs="*", help="commands; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help=f"write the counts to {FIGURES.name}")
    given = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    rng, wrong = random.Random(given.seed), []
    with tempfile.TemporaryDirectory(prefix="isorep-faults-") as name:
        folder = Path(name) / "work"
        folder.mkdir()
        prepare(folder)
        for case in CASES:
            if given.only and case.name not in given.only:
                continue
            struck, found = check(case, folder, given.kills, rng)
            print(f"{case.name}: killed {struck} times at work, {len(found)} failures", *found, sep="\n  ", flush=True)
            wrong += found
            if given.record:
                record("kills", {case.name: {"kills": struck, "failures": len(found)}})
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
