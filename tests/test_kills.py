"""A command that is killed leaves nothing half-written, and its next run gives the same bytes and resumes."""

import subprocess
import sys
from pathlib import Path

from . import faults

NAMES = ("ica fit", "translate apply", "extract")  # all commands: make faults


def test_a_killed_command_gives_the_same_bytes_when_it_runs_again():
    command = [sys.executable, str(Path(faults.__file__)), "--kills", "2", "--seed", "1", "--only", *NAMES]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-500:]
    assert done.stdout.splitlines() == [f"{name}: killed 2 times at work, 0 failures" for name in NAMES]
