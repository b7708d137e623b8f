"""What all results share: they write themselves as JSON and as a page, come to a verdict, and set cells in columns."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .files import finite_json, write_text

if TYPE_CHECKING:
    from .report.document import Page


class Written(ABC):
    """A result that serialises itself; a subclass says what it holds, as plain data with a versioned schema."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""

    def page(self) -> Page:
        """The report as data: what :meth:`to_html` writes, and what the JSON carries along."""
        from .report.page import assembled

        return assembled(json.loads(finite_json(self.to_dict())))

    def to_json(self, path: str | Path | None = None) -> str:
        """The complete result and its page as JSON; also written to ``path`` where given, completely or not at all."""
        from .report.document import to_plain

        text = finite_json({**self.to_dict(), "page": to_plain(self.page())})
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: str | Path) -> None:
        """Write the report: one HTML file with figures and tables."""
        from .report.page import write_page

        write_text(path, write_page(self.page()))


@dataclass(frozen=True)
class Verdict:
    """The answer in a word or two, and a sentence that says why."""

    answer: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


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
