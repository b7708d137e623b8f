"""The page of promises: each promise, the tests that keep it, how many cases they have, and its latest figure.

``python tests/reliability.py`` collects the tests, reads the figures of longer runs from ``tests/reliability.json``,
and writes ``docs/guide/reliability.md``. The runs that measure a figure put it there by ``faults.record``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "reliability.md"
FIGURES = Path(__file__).with_name("reliability.json")
NOT_MEASURED = "–"


def killed(found: dict[str, Any]) -> str:
    """Kills of all commands together, and what went wrong."""
    runs = [each for each in found.values() if isinstance(each, dict)]
    kills, failures = (sum(each[name] for each in runs) for name in ("kills", "failures"))
    return f"{kills} kills of {len(runs)} commands, {failures} failures"


def looked_up(found: dict[str, Any]) -> str:
    """Pins that were looked up among known vulnerabilities."""
    if not found["looked_up"]:
        return f"{found['pins']} pins with hashes; not audited: the service was out of reach"
    return f"{found['looked_up']} of {found['pins']} pins audited, {found['vulnerabilities']} known vulnerabilities"


def streamed(found: dict[str, Any]) -> str:
    """Processor time and memory of the last streamed call."""
    size = f"{found['rows']:,} x {found['columns']} rows, {found['call']}"
    return f"{size}: {found['cpu_s']:.0f} s of one processor, {found['resident_gb']:.2f} GB"


def together(found: dict[str, Any]) -> str:
    """The time of commands at once, as a share of that one by one."""
    ratios = ", ".join(f"{ratio:.2f} at {size}" for size, ratio in found["ratios"].items())
    return f"{found['processes']} `compare` at once on two cores, time over that one by one: {ratios}"


@dataclass(frozen=True)
class Promise:
    """A sentence, the files of tests that keep it, and the words of its figure.

    ``section`` is that of the figures; ``words`` takes what is in it, as a text with its names or a function.
    """

    sentence: str
    tests: tuple[str, ...]
    section: str = ""
    words: str | Callable[[dict[str, Any]], str] = ""

    def figure(self, figures: dict[str, Any]) -> str:
        """The latest figure, or a dash."""
        found = figures.get(self.section)
        if found is None:
            return NOT_MEASURED
        return self.words(found) if callable(self.words) else self.words.format(**found)


PROMISES = (
    Promise(
        "Damaged, cut off and crafted files give one clear sentence and exit 2",
        ("tests/storage/test_corpus.py",),
        "fuzz",
        "{files} files, {defects} defects left",
    ),
    Promise("Lying headers and bombs are refused, below 1 GB of memory", ("tests/storage/test_hostile.py",)),
    Promise(
        "The same input gives the same numbers, release after release",
        ("tests/cli/test_golden.py",),
        "golden",
        "{commands} commands, {files} files",
    ),
    Promise("Files are whole or not there, also with two writers at once", ("tests/test_files.py",)),
    Promise(
        "A killed command gives the same bytes when it runs again, and resumes",
        ("tests/test_kills.py",),
        "kills",
        killed,
    ),
    Promise("Signals, full disks and changing inputs end cleanly", ("tests/cli/test_faults.py",)),
    Promise("One run at a time in a folder of an experiment", ("tests/reproduction/test_frame.py",)),
    Promise("Dask workers may die; a lost cluster ends in one sentence", ("tests/cli/test_dask_option.py",)),
    Promise("Rows are streamed in bounded memory", ("tests/test_chunked.py",), "stream", streamed),
    Promise("Commands side by side do not slow each other down", (), "together", together),
    Promise(
        "Pins have hashes, packages licences; nothing connects unless asked",
        ("tests/test_supply.py",),
        "audit",
        looked_up,
    ),
)
HEAD = """\
# Reliability: promises and the tests that keep them

What isorep promises about files, faults, load and its supply chain. Each promise names its tests, the
number of cases in them, and the latest figure of a longer run. `python tests/reliability.py` makes this
page from `tests/reliability.json`. The [calibration](promises.md) of intervals, p-values and verdicts
has a page of its own.

| promise | tests | cases | latest figure |
|---|---|---|---|
"""
KILLS = """
## Commands killed at random moments

`make faults` kills commands (SIGKILL), runs them again, and compares all bytes of their outputs with
those of an uninterrupted run on the same machine. Run times in the outputs are left out. Half of the
moments are random shares of the processor time, half are changes of files. `extract` must not pass
finished examples again, `reproduce` must not compute finished units again.

| command | kills | failures |
|---|---|---|
"""
TAIL = """
## Longer runs

* `make faults`: as above. It records its counts here.
* `make fuzz` truncates every kind of file at each 1% of its length, flips bits and rewrites shapes,
  each file with at most 30 s and 1 GB. Where atheris can be installed, it then follows the coverage
  of the readers.
* `make audit` looks up all pins among known vulnerabilities with pip-audit, over the network.
* `python benchmarks/stream.py --millions 100` streams rows that are made on the way, and
  `python benchmarks/together.py` runs four commands at once.

A dash means that the figure has not been recorded for this version. Read-only folders are tested by
what the system says about rights, not as another user. Locks do not exist on Windows and on some
network file systems: there, do not run two commands in one folder.
"""


def cases() -> dict[str, int]:
    """The number of cases in each file of tests; a file that is not there has none."""
    files = sorted({file for promise in PROMISES for file in promise.tests if (ROOT / file).exists()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return {file: len(re.findall(rf"^{re.escape(file)}::", done.stdout, re.MULTILINE)) for file in files}


def page(counted: dict[str, int], figures: dict[str, Any]) -> str:
    """The page, as Markdown."""
    lines = []
    for promise in PROMISES:
        there = [file for file in promise.tests if file in counted]
        if promise.tests and not there:
            continue
        named = ", ".join(f"`{file}`" for file in there) or NOT_MEASURED
        count = sum(counted[file] for file in there) or NOT_MEASURED
        lines.append(f"| {promise.sentence} | {named} | {count} | {promise.figure(figures)} |")
    kills = [
        f"| `{name}` | {each['kills']} | {each['failures']} |"
        for name, each in sorted(figures.get("kills", {}).items())
        if isinstance(each, dict)
    ]
    return HEAD + "\n".join(lines) + "\n" + KILLS + "\n".join(kills) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(cases(), json.loads(FIGURES.read_text())))
