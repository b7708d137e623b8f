"""Run the command line in this process, as the shell would see it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pytest

from isorep.cli.main import run

from ..data import noisy_pair


@dataclass
class Finished:
    code: int
    out: str
    err: str


@pytest.fixture
def columns() -> int:
    """Columns of the terminal: so many that no sentence is wrapped."""
    return 1000


@pytest.fixture
def isorep_command(monkeypatch, capsys, columns):
    """Call ``isorep`` with arguments; returns exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", str(columns))

    def call(*arguments) -> Finished:
        monkeypatch.setattr(sys, "argv", ["isorep", *map(str, arguments)])
        try:
            run()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return Finished(code, captured.out, captured.err)

    return call


@pytest.fixture
def files(tmp_path):
    """Two runs of the same 200 examples: a.npy and b.npy."""
    x, y = noisy_pair(200, 4, 0.1)
    np.save(tmp_path / "a.npy", x.astype(np.float32))
    np.save(tmp_path / "b.npy", y.astype(np.float32))
    return tmp_path
