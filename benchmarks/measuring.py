"""How the benchmarks measure and print: fresh processes, peak memory, aligned tables, results in a file."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result


# Processes ------------------------------------------------------------------------------------------------------


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a fresh process."""
    process, pipe = _begin(_plainly, function, arguments)
    outcome, value = _receive(process, pipe)
    _end(process)
    if outcome == "failed":
        raise RuntimeError(f"{function.__name__} failed in its process:\n{value}")
    return value


def apart_watched(
    function: Callable[..., dict[str, Any]], *arguments: Any, limit: float | None = None
) -> dict[str, Any]:
    """Run in a fresh process, which marks the part that counts with ``with stage``; that part is watched from here.

    Memory is sampled from this process, as some of what is measured never lets another thread of its own run. What
    takes longer than the limit is ended. The function's results come back with ``seconds``, ``own_gb`` and
    ``resident_gb``; with ``stopped`` or ``failed`` instead of results where there are none.
    """
    process, pipe = _begin(_staged, function, arguments)
    facts: dict[str, Any] = {}
    outcome, value = _receive(process, pipe)
    if outcome == "begin":
        with MemoryWatch(process.pid) as watch:
            pipe.send("go")
            in_time = pipe.poll(limit)
            if in_time:
                outcome, value = _receive(process, pipe)
        facts |= {"own_gb": watch.anonymous, "resident_gb": watch.resident}
        if not in_time:
            process.kill()
            _end(process)
            return facts | {"seconds": limit, "stopped": True}
    if outcome == "end":
        facts["seconds"] = value
        outcome, value = _receive(process, pipe)
    _end(process)
    return facts | (value if outcome == "result" else {"failed": value})


class Stage:
    """The part of a function that counts, seen from inside its process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.seconds = 0.0

    def __enter__(self) -> Stage:
        self._pipe.send(("begin", None))
        self._pipe.recv()
        self._started = time.perf_counter()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started
        if error is None:
            self._pipe.send(("end", self.seconds))


def _begin(
    entry: Callable[..., None], function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=entry, args=(theirs, function, arguments))
    process.start()
    theirs.close()
    return process, mine


def _receive(process: Any, pipe: Connection) -> tuple[str, Any]:
    try:
        outcome, value = pipe.recv()
        return outcome, value
    except EOFError:
        process.join()
        return "failed", f"the process ended with code {process.exitcode} (-9: the system may be short of memory)"


def _end(process: Any) -> None:
    process.join()
    process.close()


def _plainly(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _answer(pipe, lambda: function(*arguments))


def _staged(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    _answer(pipe, lambda: function(Stage(pipe), *arguments))


def _answer(pipe: Connection, action: Callable[[], Any]) -> None:
    try:
        pipe.send(("result", action()))
    except Exception:
        pipe.send(("failed", traceback.format_exc()))


# Memory ---------------------------------------------------------------------------------------------------------


class MemoryWatch:
    """Peak anonymous and resident memory of a process above the level at the start, sampled every 5 ms."""

    def __init__(self, process: int | None = None) -> None:
        self._pages = Path(f"/proc/{process or 'self'}/statm")

    def __enter__(self) -> MemoryWatch:
        self._start = self._read()
        self.anonymous = self.resident = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            try:
                anonymous, resident = self._read()
            except (OSError, ValueError):  # it has ended
                return
            self.anonymous = max(self.anonymous, anonymous - self._start[0])
            self.resident = max(self.resident, resident - self._start[1])

    def _read(self) -> tuple[float, float]:
        """Anonymous and resident memory in GB; what is not shared with files is anonymous."""
        _, resident, shared, *_ = map(int, self._pages.read_text().split())
        size = os.sysconf("SC_PAGE_SIZE") / 1e9
        return (resident - shared) * size, resident * size


# Output ---------------------------------------------------------------------------------------------------------


def show(label: str, seconds: float, remark: str = "") -> None:
    print(f"  {label:<64} {seconds:8.2f} s  {remark}", flush=True)


class Table:
    """Columns under their headings, the first and the last to the left, printed row by row as they come."""

    def __init__(self, headings: dict[str, int]) -> None:
        self._widths = list(headings.values())
        self.add(*headings)

    def add(self, *cells: str) -> None:
        first, *middle, last = zip(cells, self._widths, strict=True)
        line = [f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in middle), last[0]]
        print("  " + "  ".join(line).rstrip(), flush=True)


def machine() -> dict[str, Any]:
    return {"machine": platform.platform(), "cores": os.cpu_count(), "numpy": np.__version__}


def keep(path: Path, results: dict[str, Any]) -> None:
    """Write results to a file; the parts in it that were not run again stay."""
    path.parent.mkdir(exist_ok=True)
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | results, indent=2))


PROMISES = Path(__file__).parents[1] / "tests" / "reliability.json"


def promise(section: str, found: dict[str, Any]) -> None:
    """Put figures into the file that the page of promises is made of."""
    from isorep import __version__

    figures = json.loads(PROMISES.read_text())
    figures[section] = found | {"version": __version__}
    PROMISES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
