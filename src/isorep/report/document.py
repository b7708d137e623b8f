"""The parts a page is made of. Each is written by the template of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .figures.axes import Drawing


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    eyebrow: str
    opening: tuple[Verdict | Definitions, ...]
    sections: tuple[Section, ...]
    made_by: str


@dataclass(frozen=True)
class Section:
    """A titled stretch of the page; ``name`` is its anchor."""

    name: str
    title: str
    parts: tuple[object, ...]


@dataclass(frozen=True)
class Verdict:
    """The answer, in large letters. ``steps`` are the possible answers in order, the one reached marked."""

    template: ClassVar[str] = "verdict.html"
    sentence: str
    detail: str
    reached: bool | None
    steps: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class Prose:
    """Paragraphs of plain text."""

    template: ClassVar[str] = "prose.html"
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Heading:
    """A title inside a section."""

    template: ClassVar[str] = "heading.html"
    text: str


@dataclass(frozen=True)
class Notes:
    """A list of sentences to keep in mind."""

    template: ClassVar[str] = "notes.html"
    items: tuple[str, ...]


@dataclass(frozen=True)
class Definitions:
    """Terms with their values; as tiles, a few key numbers in large figures with a word on each."""

    template: ClassVar[str] = "definitions.html"
    items: tuple[tuple[str, str, str], ...]
    tiles: bool = False


@dataclass(frozen=True)
class Quotation:
    """Text to copy as it is."""

    template: ClassVar[str] = "quotation.html"
    label: str
    text: str


@dataclass(frozen=True)
class Column:
    """A column of a table; ``numeric`` ones are set right and sort by value."""

    title: str
    numeric: bool = True


@dataclass(frozen=True)
class Cell:
    """A cell; ``value`` sorts it and is what a download holds, where it differs from the text."""

    text: str
    value: float | str | None = None
    strong: bool = False

    @property
    def stored(self) -> str | None:
        """The value as the page keeps it."""
        return f"{self.value:.6g}" if isinstance(self.value, float | int) else self.value


@dataclass(frozen=True)
class Table:
    """A table that sorts and downloads; ``folded`` ones open on demand."""

    template: ClassVar[str] = "table.html"
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False


@dataclass(frozen=True)
class Key:
    """One entry of a legend: a mark (dot, ring, line, tick, band, square), its series' colour and a word."""

    mark: str
    series: str
    text: str


@dataclass(frozen=True)
class Figure:
    """A figure with its title, caption, legend, text alternative and the numbers behind it.

    ``drawings`` hold the same marks for a wide page and a narrow one; a single drawing serves both.
    """

    template: ClassVar[str] = "figure.html"
    name: str
    title: str
    caption: str
    alternative: str
    drawings: tuple[Drawing, ...]
    legend: tuple[Key, ...] = ()
    table: Table | None = None


@dataclass(frozen=True)
class Row:
    """Parts side by side where there is room."""

    template: ClassVar[str] = "row.html"
    parts: tuple[object, ...]
