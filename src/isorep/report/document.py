"""Page as data: its parts, each written by the template of its name, and the way to JSON and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from ..errors import InputError
from .figures import NARROW, WIDE, Alignment, Chart, Drawing, Key, Picture
from .read import MISSING


@dataclass(frozen=True)
class Page:
    """A whole report. ``provenance`` says what it was made of, when and how: terms with their values."""

    title: str
    eyebrow: str
    opening: tuple[Answer | Definitions | Figure, ...]
    sections: tuple[Section, ...]
    made_by: str
    provenance: tuple[tuple[str, str], ...] = ()
    anchor: str = ""


@dataclass(frozen=True)
class Section:
    """A titled stretch of the page; ``name`` is its anchor."""

    name: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Answer:
    """The answer: a headline in large letters, and the whole verdict under it.

    A headline has at most 12 words and no names of the user's, which stand above it and may be long. ``steps`` are the
    possible answers in order, the one reached marked.
    """

    template: ClassVar[str] = "verdict.html"
    sentence: str
    detail: str
    reached: bool | None
    steps: tuple[tuple[str, bool], ...] = ()

    @classmethod
    def of(
        cls, headline: str, verdict: str, reached: bool | None, steps: Mapping[str, str] | None = None, now: str = ""
    ) -> Answer:
        """With ``steps`` as the words of each answer, of which ``now`` is reached."""
        marked = tuple((words, name == now) for name, words in (steps or {}).items())
        return cls(headline, verdict, reached, marked if now in (steps or {}) else ())


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
    """A list of sentences; those that are a ``warning`` are marked as such."""

    template: ClassVar[str] = "notes.html"
    items: tuple[str, ...]
    warning: bool = False


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

    @classmethod
    def between(cls, interval: Any, form: Callable[[Any], str]) -> Cell:
        """An interval in words, sorted by its lower end; a dash where there is none."""
        if interval is None or not math.isfinite(interval.high - interval.low):
            return cls(MISSING)
        return cls(f"{form(interval.low)} to {form(interval.high)}", interval.low)

    @property
    def stored(self) -> str | None:
        """The value as the page keeps it."""
        return f"{self.value:.6g}" if isinstance(self.value, float | int) else self.value


Forms = Mapping[str, Callable[[Any], str]]
"""Titles of columns with how their values are written: ``str`` for words, a function of a number otherwise."""


@dataclass(frozen=True)
class Table:
    """A table that sorts and downloads; ``folded`` ones open on demand."""

    template: ClassVar[str] = "table.html"
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("a row of a table has as many cells as there are columns")

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Forms,
        rows: Iterable[Sequence[Any]],
        *,
        folded: bool = False,
        strong: str | None = None,
    ) -> Table:
        """From values, each column with how its numbers are written (``str`` for a column of words).

        A value that is a :class:`Cell` stays as it is. The row whose first value is ``strong`` stands out.
        """
        heads = tuple(Column(title, numeric=form is not str) for title, form in columns.items())
        forms = list(columns.values())
        cells = tuple(
            tuple(
                value
                if isinstance(value, Cell)
                else Cell(str(value), strong=at == 0 and value == strong)
                if form is str
                else Cell(form(value), _stored(value))
                for at, (value, form) in enumerate(zip(row, forms, strict=True))
            )
            for row in rows
        )
        return cls(name, title, heads, cells, folded)


def _stored(value: Any) -> float | str | None:
    """A number that sorts: finite, and a plain float."""
    return float(value) if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Figure:
    """A figure with its title, caption, text alternative, chart, legend and the numbers behind it.

    An empty alternative stands for the chart's own words, no legend for the chart's own. ``narrow`` figures stand
    beside others in a row.
    """

    template: ClassVar[str] = "figure.html"
    name: str
    title: str
    caption: str
    alternative: str
    chart: Chart
    legend: tuple[Key, ...] | None = None
    table: Table | None = None
    narrow: bool = False

    @property
    def told(self) -> str:
        """What the chart shows, in words."""
        return self.alternative or getattr(self.chart, "told", "") or self.caption or self.title

    @property
    def keys(self) -> tuple[Key, ...]:
        """The legend."""
        keys: tuple[Key, ...] = getattr(self.chart, "keys", ()) if self.legend is None else self.legend
        return keys

    @property
    def linked(self) -> bool:
        """Whether its series follow the reader's choice."""
        return bool(getattr(self.chart, "chosen", "")) and self.role != "alignment"

    @property
    def idle(self) -> bool:
        """Whether none of its series is the chosen one, so that all stand out."""
        lines = getattr(self.chart, "lines", ())
        return bool(lines) and self.linked and self.chart.chosen not in [line.key for line in lines]  # type: ignore[union-attr]

    @property
    def role(self) -> str:
        """What the page's script does with it beyond hover and keys."""
        role: str = getattr(self.chart, "role", "")
        return role

    @cached_property
    def drawings(self) -> tuple[Drawing, ...]:
        """The same marks for a wide page and a narrow one; a single drawing serves both."""
        wide = () if self.narrow or isinstance(self.chart, Picture | Alignment) else (self.chart.draw(WIDE),)
        return (*wide, self.chart.draw(NARROW))


@dataclass(frozen=True)
class Row:
    """Parts side by side where there is room."""

    template: ClassVar[str] = "row.html"
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Bar:
    """A signed bar of a card, from -1 to 1, and its number as text."""

    name: str
    value: float
    text: str

    @property
    def width(self) -> float:
        """Its length in per cent."""
        return round(100 * min(abs(self.value), 1.0), 1)


@dataclass(frozen=True)
class Card:
    """One of many things of a kind: findings in words, a small histogram, bars, terms and rows of details.

    ``keys`` are the numbers that the grid sorts by, ``strip`` is a picture of it.
    """

    title: str
    badges: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    span: str = ""
    bars: tuple[Bar, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    keys: tuple[float | None, ...] = ()
    strip: Picture | None = None

    @property
    def outline(self) -> str:
        """The histogram as an SVG path, one unit across per bin and ten units high."""
        most = max(self.counts, default=0) or 1
        return "M0 10" + "".join(f"V{10 - 10 * max(each, 0) / most:.3g}h1" for each in self.counts) + "V10z"

    @property
    def sorted_by(self) -> str:
        """The keys as the page keeps them."""
        return " ".join("-" if key is None else f"{key:.4g}" for key in self.keys)


@dataclass(frozen=True)
class CardGrid:
    """Cards that can be searched and sorted; ``orders`` name their keys, ``columns`` those of their rows.

    The first cards are open; without a script the others are folded.
    """

    template: ClassVar[str] = "cards.html"
    shown: ClassVar[int] = 12
    name: str
    title: str
    noun: str
    orders: tuple[str, ...]
    columns: tuple[str, ...]
    cards: tuple[Card, ...]
    bars_title: str = ""

    def __post_init__(self) -> None:
        if any(len(card.keys) != len(self.orders) for card in self.cards):
            raise ValueError("a card has as many keys as there are orders")
        if any(len(row) != len(self.columns) for card in self.cards for row in card.rows):
            raise ValueError("a row of a card has as many cells as there are columns")


Part = Answer | Prose | Heading | Notes | Definitions | Quotation | Table | Figure | Row | CardGrid


# A page as plain data for JSON, and back


def to_plain(part: Any) -> Any:
    """Records as objects that name their ``kind`` where it could be another; what is at its default is left out."""
    if isinstance(part, tuple | list):
        return [to_plain(each) for each in part]
    if not is_dataclass(part):
        return part
    plain = {"kind": type(part).__name__} if type(part) in KINDS else {}
    for each in fields(part):
        value = getattr(part, each.name)
        if value != each.default:
            plain[each.name] = to_plain(value)
    return plain


def page_from(plain: Any) -> Page:
    """The page that a JSON file carries; InputError where it is none, whoever wrote it."""
    try:
        page: Page = _record(plain, Page)
        for figure in _figures((*page.opening, *page.sections)):
            _ = figure.drawings  # charts that cannot be drawn are refused here, not while the page is written
    except (TypeError, ValueError, KeyError, IndexError, ArithmeticError, RecursionError) as error:
        raise InputError(f"the page in this file cannot be read ({type(error).__name__})") from None
    return page


def _figures(parts: Iterable[Any]) -> Iterator[Figure]:
    for part in parts:
        if isinstance(part, Figure):
            yield part
        elif isinstance(part, Section | Row):
            yield from _figures(part.parts)


def _record(plain: Any, kind: Any) -> Any:
    """Plain data as what a type says, checked all the way down."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of(plain, inner)
    if origin is tuple:
        if not isinstance(plain, list) or (inner[-1] is not ... and len(plain) != len(inner)):
            raise TypeError
        kinds = inner[:1] * len(plain) if inner[-1] is ... else inner
        return tuple(_record(each, one) for each, one in zip(plain, kinds, strict=True))
    if isinstance(kind, type) and is_dataclass(kind):
        known = _hints(kind)
        if not isinstance(plain, dict):
            raise TypeError
        return kind(**{name: _record(value, known[name]) for name, value in plain.items() if name != "kind"})
    if kind is float and isinstance(plain, int | float) and not isinstance(plain, bool):
        value = float(plain)
        if abs(value) > LARGEST:  # also what is not finite
            raise ValueError
        return value
    if kind is str and isinstance(plain, str) and len(plain) > MOST_TEXT:
        raise ValueError
    if not isinstance(plain, kind) or (kind is int and isinstance(plain, bool)):
        raise TypeError
    return plain


def _one_of(plain: Any, kinds: tuple[Any, ...]) -> Any:
    if plain is None and NoneType in kinds:
        return None
    if isinstance(plain, dict):
        named = [kind for kind in kinds if is_dataclass(kind) and kind.__name__ == plain.get("kind")]  # type: ignore[union-attr]
        others = [kind for kind in kinds if is_dataclass(kind) and kind not in KINDS]
        return _record(plain, (named or others)[0])
    for kind in kinds:
        if kind in (str, bool) and isinstance(plain, kind):
            return _record(plain, kind)
    plainer = [kind for kind in kinds if kind not in (str, bool, NoneType) and not is_dataclass(kind)]
    return _record(plain, plainer[0])  # an IndexError where only records would fit: page_from refuses it


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


KINDS = (*get_args(Part), *get_args(Chart))
LARGEST, MOST_TEXT = 1e300, 1_000_000
