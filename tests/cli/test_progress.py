"""Progress goes to stderr, and only where that is a terminal."""

import os
import pty
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

from isorep.cli import common


def test_bars_are_drawn_on_a_terminal_and_results_stay_on_stdout(files):
    main, terminal = pty.openpty()
    command = [Path(sys.executable).with_name("isorep"), "compare", files / "a.npy", files / "b.npy", "--null", "3"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=environment)
    os.close(terminal)
    drawn = b""
    try:
        while chunk := os.read(main, 65536):  # while it runs: a terminal that nobody reads fills up
            drawn += chunk
    except OSError:  # Linux reports the closed other end of a pseudo-terminal as an error
        os.close(main)
    printed = running.communicate()[0]
    assert running.returncode == 0
    assert b"null" in drawn
    assert b"independent components" in drawn
    assert b"verdict:" in printed
    assert b"\x1b" not in printed


def test_a_bar_begins_again_for_the_next_layer_only(monkeypatch):
    bars = Mock()
    monkeypatch.setattr(common, "bars_on_terminal", lambda quiet: nullcontext(bars))
    with common.progress_bar(quiet=False) as progress:
        for done in (0, 0, 0, 50, 100):
            progress("worst case", done, 100)
        bars.reset.assert_not_called()
        progress("worst case", 0, 100)
    bars.reset.assert_called_once()
