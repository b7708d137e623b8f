"""Hostile files: a corpus of damaged and crafted ones for every reader and for the files that isorep writes itself.

``python tests/hostile.py`` runs all of it, each file in a child process with limits on processor time and memory: only
clear errors are allowed, or a file that reads. ``--write`` keeps the figures in ``tests/hostile_results.json``. The
suite runs a small part (``tests/storage/test_corpus.py``).
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import math
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import isorep

if __package__:
    from .crafted import crafted
else:
    from crafted import crafted

SECONDS, BYTES = 10, 10**9  # of processor time and memory that one file may take
GUARD = 120  # seconds by the clock, for a reader that waits instead of working; the file is tried again, twice at most
RESULTS = Path(__file__).with_name("hostile_results.json")
ROWS, COLUMNS = 40, 3
_SHAPES = (b'"shape": [40, 3]', b'"shape":[40,3]', b"(40, 3)", b"[40, 3]", b"[\n    40,\n    3\n  ]")


def values() -> Any:
    """The rows that all files hold."""
    return np.random.default_rng(0).laplace(size=(ROWS, COLUMNS))


def fitted_rows() -> Any:
    """The rows that the model, the map and the checkpoint belong to."""
    return np.random.default_rng(1).laplace(size=(400, COLUMNS))


def originals(folder: Path) -> dict[str, Path]:
    """One sound file for every reader, and every kind that isorep writes itself."""
    rows = values()
    text = isorep.Representation(rows, [f"r{row}" for row in range(ROWS)])
    numbers = isorep.Representation(rows, np.arange(ROWS))
    found = {}
    for suffix in ("npy", "npz", "csv", "csv.gz", "tsv", "jsonl", "jsonl.gz", "parquet", "h5", "h5ad", "zarr"):
        found[suffix] = folder / f"a.{suffix}"
        isorep.write(rows if suffix == "npy" else text, found[suffix])
    for suffix in ("safetensors", "pt"):
        found[suffix] = folder / f"a.{suffix}"
        isorep.write(numbers, found[suffix])
    np.savez_compressed(folder / "packed.npz", z=rows, ids=np.arange(ROWS))
    found["packed.npz"] = folder / "packed.npz"
    found["gct"] = folder / "a.gct"
    head = ["#1.3", f"{COLUMNS}\t{ROWS}\t0\t0", "\t".join(["id", *(f"s{row}" for row in range(ROWS))])]
    lines = ["\t".join([f"g{column}", *map(str, rows[:, column])]) for column in range(COLUMNS)]
    found["gct"].write_text("\n".join([*head, *lines]) + "\n")
    _zarr_format_2(folder / "two.zarr", rows)
    found["zarr format 2"] = folder / "two.zarr"
    shards = folder / "shards"
    shards.mkdir()
    for part in range(2):
        np.save(shards / f"part-{part}.npy", rows[part::2])
    found["shards"] = shards
    return found | _own(folder)


def _zarr_format_2(path: Path, rows: Any) -> None:
    import zarr

    group = zarr.open_group(path, mode="w", zarr_format=2)
    group.create_array("z", data=rows)
    group.create_array("ids", data=np.arange(len(rows)))


def _own(folder: Path) -> dict[str, Path]:
    """A model, a map, a checkpoint and a result."""
    import warnings

    from isorep.ica.checkpoint import Checkpoint

    rng = np.random.default_rng(1)
    rows = fitted_rows()
    found = {name: folder / f"{name}.safetensors" for name in ("model", "map", "checkpoint")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        isorep.ICA(random_state=0).fit(rows).save(found["model"])
        kept = Checkpoint.due, Checkpoint.remove
        Checkpoint.due, Checkpoint.remove = lambda self: True, lambda self: None  # type: ignore[method-assign]
        isorep.ICA(random_state=0).fit(rows, checkpoint=found["checkpoint"])
        Checkpoint.due, Checkpoint.remove = kept  # type: ignore[method-assign]
        isorep.translate(rows, rows @ rng.normal(size=(3, 3)), maps=["linear"], n_boot=0).translator.save(found["map"])
        result = isorep.compare(rows, rows + 0.1, rungs=["identity"], n_null=3, n_boot=0)
    found["result"] = folder / "result.json"
    result.to_json(found["result"])
    return found


def read(kind: str, path: Path) -> None:
    """Read a file the way its command does, every row of it."""
    if kind == "model":
        isorep.ICA.load(path).transform(values())
    elif kind == "map":
        from isorep.translation import Translator

        Translator.load(path).transform(values())
    elif kind == "checkpoint":
        isorep.ICA(random_state=0).fit(fitted_rows(), checkpoint=path)
    elif kind == "result":
        from isorep.report import read_result, render

        render([read_result(path)])
    else:
        np.asarray(isorep.read(path).values[:])


def damages(data: bytes, seed: int, truncations: int, flips: int) -> Iterator[tuple[str, bytes]]:
    """Versions of a file: cut off, with flipped bits and foreign bytes, with other shapes, doubled, and as a pickle."""
    rng = random.Random(seed)
    for step in range(truncations):
        yield f"cut at {step / truncations:.0%}", data[: len(data) * step // truncations]
    ends = [min(len(data), 512), len(data)]
    for flip in range(flips):
        changed = bytearray(data)
        for _ in range(1 + flip % 3):
            place = rng.randrange(ends[flip % 2]) if flip % 4 else len(data) - 1 - rng.randrange(ends[0])
            changed[place] ^= 1 << rng.randrange(8)
        yield f"flip {flip}", bytes(changed)
    for run in range(flips // 4):
        changed = bytearray(data)
        place, size = rng.randrange(len(data)), rng.choice([1, 4, 8, 64])
        changed[place : place + size] = rng.choice([b"\xff", b"\x00", b"\x7f", rng.randbytes(1)]) * size
        yield f"run {run}", bytes(changed)
    for old in _SHAPES:
        if old in data:
            for shape in ((10**12, 3), (-1, 3), (40, 10**12), (0, 0), (2**63, 2**63)):
                new = old.replace(b"40", str(shape[0]).encode()).replace(b"3", str(shape[1]).encode())
                yield f"shape {shape}", data.replace(old, new)
    yield "twice", data + data
    yield "something behind", data + rng.randbytes(64)
    yield "pickle", b"\x80\x04cposix\nsystem\n(S'touch executed'\ntR."
    yield "deep JSON", b"[" * 10**5
    yield "deep objects", b'{"a":' * 10**5
    yield "noise", rng.randbytes(1000)
    yield "one byte", data[:1]
    yield "nothing", b""


def hostile(
    sound: dict[str, Path], folder: Path, seed: int = 0, truncations: int = 100, flips: int = 200
) -> Iterator[tuple[str, str, Path]]:
    """Every damaged file, one after the other at the same path: its kind, its damage and its path."""
    for kind, original in sound.items():
        path = folder / original.name
        parts = [part for part in original.rglob("*") if part.is_file()] if original.is_dir() else [original]
        share = len(parts)
        for number, part in enumerate(sorted(parts)):
            inner = part.relative_to(original) if original.is_dir() else None
            if inner is not None:
                shutil.copytree(original, path, dirs_exist_ok=True)
            counts = (max(2, truncations // share), max(4, flips // share))
            for told, data in damages(part.read_bytes(), seed + number, *counts):
                (path if inner is None else path / inner).write_bytes(data)
                yield kind, f"{told}{'' if inner is None else f' of {inner}'}", path
            if inner is not None:
                shutil.rmtree(path)


def outcome(kind: str, path: Path, reader: Callable[[str, Path], None] = read) -> str:
    """What reading a file came to: ``read``, ``refused``, or the defect in words."""
    try:
        reader(kind, path)
    except isorep.InputError as error:
        said = str(error)
        if "\n" in said or not said or len(said) > 2000:
            return f"a refusal that is not one sentence: {said[:200]!r}"
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "read"


def _child(folder: str, seed: int, skip: int, kinds: list[str]) -> None:
    """Read damaged files until there are no more, and tell each before it is read: the last one told may kill us."""
    import warnings

    warnings.simplefilter("ignore")
    import h5py  # noqa: F401
    import torch  # noqa: F401
    import zarr  # noqa: F401

    home = Path(folder)
    for name in ("sound", "read", "temporary"):
        (home / name).mkdir()
    tempfile.tempdir = str(home / "temporary")
    sound = originals(home / "sound")  # before memory is limited: torch starts threads
    for kind, path in sound.items():
        copy = home / "read" / path.name
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, copy)
        assert outcome(kind, copy) == "read", kind
        if copy.exists():
            (shutil.rmtree if copy.is_dir() else Path.unlink)(copy)
    faulthandler.register(signal.SIGXCPU, chain=True)  # where it hung, before it is killed
    faulthandler.register(signal.SIGALRM, chain=True)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + BYTES, taken + BYTES))
    chosen = {kind: path for kind, path in sound.items() if not kinds or kind in kinds}
    corpus = hostile(chosen, home / "read", seed)
    if not kinds or "crafted" in kinds:
        corpus = itertools.chain(corpus, crafted(home / "read", seed))
    for number, (kind, told, path) in enumerate(corpus):
        if number < skip:
            continue
        print(json.dumps([number, kind, told]), flush=True)
        before = _listed(home)
        begin, resident = time.process_time(), _resident()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(begin) + SECONDS, resource.RLIM_INFINITY))
        signal.alarm(GUARD)
        said = outcome(kind, path)
        signal.alarm(0)
        seconds, peak = time.process_time() - begin, _resident("VmHWM") - resident
        left = _listed(home) - before
        if left and said in ("read", "refused"):
            said = f"left behind: {sorted(left)}"
        print(json.dumps([said, seconds, peak]), flush=True)


def _listed(home: Path) -> set[str]:
    """All files that lie in the folders of the child, but for the one it reads."""
    return {str(path.relative_to(home)) for path in home.rglob("*")}


def _resident(field: str = "VmRSS") -> int:
    """The bytes of memory that this process holds; with ``VmHWM`` the most since the last call for ``VmRSS``."""
    if field == "VmRSS":
        Path("/proc/self/clear_refs").write_text("5")  # begins a new maximum
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@dataclass
class Tally:
    """What came of the files."""

    counts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[int, str] = (0, "")
    whole: int = 0  # seeds of which all files were read

    def add(self, name: str, kind: str, said: str, seconds: float, peak: int) -> None:
        """Count one file."""
        self.counts[said if said in ("read", "refused") else "defect"] += 1
        self.kinds[kind] += 1
        self.slowest = max(self.slowest, (seconds, name))
        self.largest = max(self.largest, (peak, name))
        if said not in ("read", "refused"):
            self.defects.append(f"{name}: {said}")
            print(self.defects[-1], flush=True)


def _run(seed: int, kinds: list[str], end: float, tally: Tally) -> None:
    """All files of a seed, in children that are started again after a file has killed one."""
    skip, again = 0, Counter[int]()
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="isorep-hostile-") as folder:
            command = [sys.executable, __file__, "--child", folder, "--seed", str(seed), "--skip", str(skip)]
            command += ["--kinds", *kinds]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
            assert child.stdout is not None
            last: list[Any] | None = None
            for line in child.stdout:
                said = json.loads(line)
                if last is None:
                    last = said
                    continue
                tally.add(f"{last[1]}, {last[2]} (seed {seed}, file {last[0]})", last[1], *said)
                skip, last = last[0] + 1, None
                if time.monotonic() > end:
                    child.kill()
                    break
            code = child.wait()
            child.stdout.close()
            if Path(folder, "executed").exists() or Path(folder, "read", "executed").exists():
                tally.defects.append(f"seed {seed}: code of a file was executed")
        if code == 0:
            tally.whole += 1
            return
        if time.monotonic() > end:
            return
        if last is None:
            raise SystemExit(f"the child ended with {code} before it read a file")
        if code == -signal.SIGALRM and again[last[0]] < 2:
            skip = last[0]  # the machine may have stood still
            again[skip] += 1
            continue
        skip = last[0] + 1
        name = f"{last[1]}, {last[2]} (seed {seed}, file {last[0]})"
        tally.add(name, last[1], f"the process ended with {code}", SECONDS if code == -signal.SIGXCPU else 0.0, 0)


def main() -> None:
    """Run all files of the first seed, then further seeds until the time is over; exit 1 if there was a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="begin no seed after this time; default: 600")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; default: 0")
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {RESULTS.name}")
    parser.add_argument("--kinds", nargs="*", default=[], help="only these kinds, such as h5; default: all")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _child(given.child, given.seed, given.skip, given.kinds)
        return
    end, seed, tally = time.monotonic() + given.seconds, given.seed, Tally()
    while seed == given.seed or time.monotonic() < end:
        _run(seed, given.kinds, math.inf if seed == given.seed else end, tally)
        seed += 1
    counts = tally.counts
    print(*tally.defects, sep="\n")
    print(f"{counts.total()} files: {counts['refused']} refused, {counts['read']} read, {counts['defect']} defects;")
    print(f"{tally.whole} seeds complete; most processor time {tally.slowest[0]:.1f} s ({tally.slowest[1]});")
    print(f"most memory beyond the start {tally.largest[0] / 1e6:.0f} MB ({tally.largest[1]})")
    if given.write:
        kept = {
            "files": counts.total(),
            "refused": counts["refused"],
            "read": counts["read"],
            "defects": tally.defects,
            "complete_seeds": tally.whole,
            "limits": {"processor_seconds": SECONDS, "bytes": BYTES},
            "most_processor_seconds": {"value": round(tally.slowest[0], 2), "file": tally.slowest[1]},
            "most_megabytes": {"value": round(tally.largest[0] / 1e6), "file": tally.largest[1]},
            "kinds": dict(sorted(tally.kinds.items())),
        }
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n")
    sys.exit(bool(tally.defects))


if __name__ == "__main__":
    main()
