"""Standard streams that are closed or full: a command gives the same exit code, whoever reads what it prints."""

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast


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


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print warnings of libraries and of models, each of them once, without control codes or places in code."""
    from ..files import visible

    said: set[str] = set()

    def line(message: Any, *_: object) -> str:
        text = f"warning: {visible(str(message))}\n"
        new = text not in said
        said.add(text)
        return text if new else ""

    before = warnings.formatwarning
    warnings.formatwarning = cast("Any", line)
    try:
        yield
    finally:
        warnings.formatwarning = before


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
