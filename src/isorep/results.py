"""Results: they write themselves as JSON and as a page, come to a verdict, and set cells in columns."""

from __future__ import annotations

import math
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ._version import __version__
from .files import finite_json, write_text

if TYPE_CHECKING:
    from .report.document import Page


class Record:
    """A dataclass that writes its fields as plain data: a part of a result, or one without a page.

    Fields in ``unwritten`` stay out of it, as maps do that have files of their own; ``derived`` names properties that
    are written beside the fields.
    """

    unwritten: ClassVar[frozenset[str]] = frozenset()
    derived: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data."""
        names = [each.name for each in fields(self) if each.name not in self.unwritten]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in (*names, *self.derived)}


class ResultRecord(Record):
    """A result that serialises itself: a dataclass whose fields are what it writes.

    ``schema`` names the kind of result and its version, ``page_by`` the ``room.module:function`` that makes its page.
    A subclass that tells more than its fields and ``derived`` properties adds it in :meth:`to_dict`.
    """

    schema: ClassVar[str]
    page_by: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return {"schema": self.schema, "isorep": __version__, "versions": versions(), **super().to_dict()}

    def page(self) -> Page:
        """The report as data: what :meth:`to_html` writes, and what the JSON carries along."""
        module, _, function = self.page_by.partition(":")
        page: Page = getattr(import_module(f".{module}", __package__), function)(self)
        return page

    def to_json(self, path: str | Path | None = None) -> str:
        """The complete result and its page as JSON; also written to ``path`` where given, completely or not at all."""
        from .report.document import to_plain

        page = self.page() if path is None else self._signed_page()
        text = finite_json(self.to_dict(), page=to_plain(page))
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: str | Path) -> None:
        """Write the report: one HTML file with figures and tables."""
        from .report.page import write_page

        write_text(path, write_page(self._signed_page()))

    @cached_property
    def _written(self) -> tuple[tuple[str, str], ...]:
        """When this result was first written to a file, and by which command.

        Files alone say so: the JSON of equal results in memory is equal.
        """
        seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
        now = datetime.fromtimestamp(int(seconds), UTC) if seconds.isdecimal() else datetime.now(UTC)
        return (("written", f"{now:%Y-%m-%d %H:%M} UTC"), ("command", _command()))

    def _signed_page(self) -> Page:
        page = self.page()
        return replace(page, provenance=(*self._written, *page.provenance))


def _command() -> str:
    """The command line, as it can be typed again; a program of the user's own is not repeated."""
    program = Path(sys.argv[0] if sys.argv else "")
    if program.stem == "isorep" or program.parts[-2:] == ("isorep", "__main__.py"):
        line = shlex.join(["isorep", *sys.argv[1:]])
        return line if len(line) <= MOST_COMMAND else f"{line[: MOST_COMMAND - 1]}…"
    return "from Python"


MOST_COMMAND = 600


@dataclass(frozen=True)
class Verdict:
    """The answer in a word or two, and a sentence that says why."""

    answer: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def plain(value: Any) -> Any:
    """Records, arrays and numbers as JSON has them, all digits kept; infinity and NaN, which it has not, are null."""
    if hasattr(value, "to_dict") and not isinstance(value, type):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def versions() -> dict[str, str]:
    """Of Python and of the packages that do the arithmetic."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"isorep": __version__, "python": platform.python_version(), **packages}


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Cells under each other: the columns in ``left`` set left, the others right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
