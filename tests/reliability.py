"""The page of promises: each promise, the tests that keep it, and how many cases they have.

``python tests/reliability.py`` collects the tests and writes ``docs/guide/reliability.md``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "reliability.md"
PROMISES = {
    "Damaged, cut off and crafted files give one clear sentence and exit 2": ("tests/storage/test_corpus.py",),
    "Lying headers and bombs are refused, below 1 GB of memory": ("tests/storage/test_hostile.py",),
    "Files are whole or not there; killed processes leave nothing for long": ("tests/test_files.py",),
    "A killed command gives the same bytes when it runs again": ("tests/test_kills.py",),
    "Signals, full disks and changing inputs end cleanly; names show no codes": ("tests/cli/test_faults.py",),
    "Pins have hashes, packages licences; nothing connects unless asked": ("tests/test_supply.py",),
}
HEAD = """\
# Reliability: promises and the tests that keep them

What isorep promises about files, faults and its supply chain. Each promise names its tests and the
number of cases in them. `python tests/reliability.py` makes this page. The
[calibration](promises.md) of intervals, p-values and verdicts has a page of its own.

| promise | tests | cases |
|---|---|---|
"""
TAIL = """
Two longer runs go beyond the suite:

* `make fuzz` truncates every kind of file at each 1% of its length, flips bits and rewrites shapes,
  each file with at most 30 s and 1 GB. Where atheris can be installed, it then follows the coverage
  of the readers.
* `make faults` kills commands at 50 random moments each (SIGKILL), runs them again, and compares the
  outputs with those of an uninterrupted run.

Not covered: kills inside `extract` and `reproduce`, and Dask workers that die.
"""


def cases() -> dict[str, int]:
    """The number of cases in each file of tests."""
    files = sorted({file for tests in PROMISES.values() for file in tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return {file: len(re.findall(rf"^{re.escape(file)}::", done.stdout, re.MULTILINE)) for file in files}


def page(counted: dict[str, int]) -> str:
    """The page, as Markdown."""
    lines = [
        f"| {promise} | {', '.join(f'`{file}`' for file in tests)} | {sum(counted[file] for file in tests)} |"
        for promise, tests in PROMISES.items()
    ]
    return HEAD + "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    PAGE.write_text(page(cases()))
