"""Progress goes to stderr, and only where that is a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path


def test_bars_are_drawn_on_a_terminal_and_results_stay_on_stdout(files):
    main, terminal = pty.openpty()
    command = [Path(sys.executable).with_name("isorep"), "compare", files / "a.npy", files / "b.npy", "--null", "3"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=True)
    os.close(terminal)
    drawn = b""
    try:
        while chunk := os.read(main, 65536):
            drawn += chunk
    except OSError:  # Linux reports the closed other end of a pseudo-terminal as an error
        os.close(main)
    assert b"null" in drawn
    assert b"independent components" in drawn
    assert b"verdict:" in done.stdout
    assert b"\x1b" not in done.stdout
