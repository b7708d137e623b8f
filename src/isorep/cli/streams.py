"""Standard streams that are closed or full: a command gives the same exit code, whoever reads what it prints."""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any


def open_streams() -> None:
    """Put the null device in place of closed streams, whose numbers the next files to open would get.

    A character that the terminal cannot show is written as an escape.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the smallest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w" if number else "r", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_error(text: str) -> None:
    """Print on stderr; where it cannot be written to, the exit code must do."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: Any) -> None:
    """Send what a stream still holds to the null device, so that the interpreter's last flush does not fail."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
