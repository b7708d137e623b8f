"""Waiting for what other processes do, without a clock: on a busy machine all of it takes long."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def until(happened: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Wait until something is true, while the process that makes it so runs; what never is ends at pytest's limit."""
    while not happened():
        assert process is None or process.poll() is None, "the process ended before"
        time.sleep(0.02)
