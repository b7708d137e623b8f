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
CORPUS = Path(__file__).with_name("hostile_results.json")
GOLDEN = Path(__file__).with_name("golden")
NOT_MEASURED = "–"


def killed(found: dict[str, Any]) -> str:
    """Kills of all commands together, and what went wrong."""
    runs = [each for each in found.values() if isinstance(each, dict)]
    kills, failures = (sum(each[name] for each in runs) for name in ("kills", "failures"))
    return f"{kills} kills, {failures} failures"


def looked_up(found: dict[str, Any]) -> str:
    """Pins that were looked up among known vulnerabilities."""
    count = f"{found['looked_up']} of {found['pins']} pins audited"
    return f"{count}, {found['vulnerabilities']} vulnerable" if found["looked_up"] else count


def streamed(found: dict[str, Any]) -> str:
    """Memory of the last streamed call."""
    return f"{found['rows']:,} rows: {found['resident_gb']:.2f} GB"


def together(found: dict[str, Any]) -> str:
    """The time of commands at once, as a share of that one by one."""
    return f"at most {max(found['ratios'].values()):.2f} of the time"


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
        "Damaged files give one clear sentence and exit 2",
        ("tests/storage/test_corpus.py",),
        "fuzz",
        "{files:,} files, {defects} defects",
    ),
    Promise("Lying headers and bombs are refused, below 1 GB of memory", ("tests/storage/test_hostile.py",)),
    Promise(
        "The same input gives the same numbers, release after release",
        ("tests/test_golden.py",),
        "golden",
        "{commands} commands",
    ),
    Promise("Files are whole or not there, also with two writers at once", ("tests/test_files.py",)),
    Promise(
        "A killed command resumes, and gives the same bytes",
        ("tests/test_kills.py",),
        "kills",
        killed,
    ),
    Promise("Signals, full disks and changing inputs end cleanly", ("tests/cli/test_faults.py",)),
    Promise("One run at a time in a folder of an experiment", ("tests/reproduction/test_frame.py",)),
    Promise("Dask workers may die; a lost cluster ends in one sentence", ("tests/cli/test_dask_option.py",)),
    Promise("Rows are streamed in bounded memory", ("tests/test_chunked.py",), "stream", streamed),
    Promise("Four commands at once are no slower than one by one", (), "together", together),
    Promise(
        "Pins have hashes and licences; nothing connects unasked",
        ("tests/test_supply.py",),
        "audit",
        looked_up,
    ),
)
HEAD = """\
# Reliability: promises and the tests that keep them

What isorep promises about files, faults, load and its supply chain. Each promise names its tests (in
`tests/`), the number of cases in them, and the latest figure of a longer run. `python tests/reliability.py` makes this
page from `tests/reliability.json`, `tests/hostile_results.json` and `tests/golden`. The
[calibration](promises.md) of intervals, p-values and verdicts has a page of its own.

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
LOAD = """
## Load

"""
TAIL = """
## Longer runs

* `make faults`: as above. It records its counts here.
* `make fuzz` truncates every kind of file at each 1% of its length, flips bits and rewrites shapes,
  each file with at most 10 s of processor time and 1 GB. Where atheris can be installed, it then follows the coverage
  of the readers.
* `make audit` looks up all pins among known vulnerabilities with pip-audit. It needs the network: if
  the service cannot be reached, it says so, and no pin counts as audited.
* `python benchmarks/stream.py --millions 100 --record` and `python benchmarks/together.py --record`
  measure the load.

A dash means that a promise has no figure, or that none has been recorded yet. Read-only folders are
tested by what the system says about rights, not as another user. Windows and some network file systems
have no locks: do not run two commands in one folder there.
"""


def load(figures: dict[str, Any]) -> str:
    """What was measured of streams and of commands at once, as a list."""
    lines = []
    if "stream" in figures:
        found = figures["stream"]
        lines += [
            f"* {found['rows']:,} rows of {found['columns']} columns, made on the way, two sides, {found['call']}:",
            f"  {found['cpu_s']:.0f} s of processor time, {found['resident_gb']:.2f} GB above the start.",
        ]
    for size, ratio in figures.get("together", {}).get("ratios", {}).items():
        count = figures["together"]["processes"]
        lines.append(f"* {count} `compare --fast` of {size} at once on two cores: {ratio:.2f} of the time one by one.")
    return "\n".join(lines) + "\n"


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
        named = ", ".join(f"`{file.removeprefix('tests/')}`" for file in there) or NOT_MEASURED
        count = sum(counted[file] for file in there) or NOT_MEASURED
        lines.append(f"| {promise.sentence} | {named} | {count} | {promise.figure(figures)} |")
    kills = [
        f"| `{name}` | {each['kills']} | {each['failures']} |"
        for name, each in sorted(figures.get("kills", {}).items())
        if isinstance(each, dict)
    ]
    return HEAD + "\n".join(lines) + "\n" + KILLS + "\n".join(kills) + "\n" + LOAD + load(figures) + TAIL


def recorded() -> dict[str, Any]:
    """The figures of the longer runs, of the corpus of hostile files, and of the golden files."""
    corpus = json.loads(CORPUS.read_text())
    return json.loads(FIGURES.read_text()) | {
        "fuzz": {"files": corpus["files"], "defects": len(corpus["defects"])},
        "golden": {"commands": len(list(GOLDEN.glob("*.json")))},
    }


if __name__ == "__main__":
    PAGE.write_text(page(cases(), recorded()))
