"""Results: they write themselves as JSON, as a page, as a data frame and in a notebook, and set cells in columns."""

from __future__ import annotations

import math
import os
import platform
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ._version import __version__
from .errors import InputError
from .files import finite_json, visible, without_secrets, write_text

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from .report.document import Page

Key = TypeVar("Key")

_ROUNDED = 1e-9  # of the largest value: smaller differences may be rounding


class Record:
    """A dataclass that writes its fields as plain data: a part of a result, or one without a page.

    Fields in ``unwritten`` stay out of it, as maps do that have files of their own; ``derived`` names properties that
    are written beside the fields. A subclass with a table of its own gives it in :meth:`frame_rows`.
    """

    unwritten: ClassVar[frozenset[str]] = frozenset()
    derived: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        # A dataclass makes no __repr__ where the class has one; its own would print every array.
        cls.__repr__ = Record.__repr__  # type: ignore[method-assign]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data."""
        names = [each.name for each in fields(self) if each.name not in self.unwritten]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in (*names, *self.derived)}

    def to_frame(self) -> pandas.DataFrame:
        """The main table as a pandas ``DataFrame``: the numbers of :meth:`to_dict`, all digits kept."""
        return data_frame(self.frame_rows())

    def frame_rows(self) -> list[dict[str, Any]]:
        """The rows of the main table, by the names of its columns; by default one row with every single value."""
        names = [*(each.name for each in fields(self)), *self.derived]  # type: ignore[arg-type]
        values = {name: getattr(self, name) for name in names if name not in self.unwritten}
        return [{name: value for name, value in values.items() if isinstance(value, SINGLE)}]

    def _in_short(self) -> str:
        """What the record is, in a few words: its fields, each in short."""
        return ", ".join(f"{each.name}={in_short(getattr(self, each.name))}" for each in fields(self) if each.repr)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({cut(self._in_short(), MOST_LETTERS)})"

    def _repr_html_(self) -> str:
        from .report.notebook import rows_in_notebook

        return rows_in_notebook(type(self).__name__, self.frame_rows())


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

    def _in_short(self) -> str:
        """The first sentence of the answer; the fields in short where there is none."""
        said = next((told for name in ANSWERS if (told := getattr(self, name, None))), None)
        if said is None:
            return super()._in_short()
        head, stop, _ = str(said[0] if isinstance(said, tuple) else said).partition(". ")
        return head + stop.rstrip()

    def panels(self) -> list[str]:
        """The methods that :meth:`plot` draws with, one per panel."""
        return [name for name in PANELS if hasattr(self, name)]

    def plot(self) -> Figure:
        """The main figures as one matplotlib ``Figure`` for two columns; needs the extra ``plot``.

        Each panel is also a method with ``ax=``, for a figure of its own: ``plot_ladder``, ``plot_scores``,
        ``plot_matrix`` and ``plot_components``, as far as the result has them.
        """
        from .report.plots import arranged

        return arranged([getattr(self, name) for name in self.panels()])

    def _repr_html_(self) -> str:
        from .report.notebook import page_in_notebook

        return page_in_notebook(self.page())


ANSWERS = ("verdict", "reading", "sentence")
"""Where results keep their answer."""
PANELS = ("plot_ladder", "plot_scores", "plot_matrix", "plot_components")
SINGLE = str | bool | int | float | np.generic | None
MOST_LETTERS = 240  # of what a record says of itself
MOST_COMMAND = 600  # letters of a command line


def _command() -> str:
    """The command line, as it can be typed again but for secrets in URLs; a user's own program is not repeated."""
    program = Path(sys.argv[0] if sys.argv else "")
    if program.stem == "isorep" or program.parts[-2:] == ("isorep", "__main__.py"):
        line = shlex.join(["isorep", *map(without_secrets, sys.argv[1:])])
        return line if len(line) <= MOST_COMMAND else f"{line[: MOST_COMMAND - 1]}…"
    return "from Python"


@dataclass(frozen=True)
class Verdict:
    """The answer in a word or two, and a sentence that says why."""

    answer: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def data_frame(rows: Sequence[dict[str, Any]]) -> pandas.DataFrame:
    """Rows as a pandas ``DataFrame``."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame() needs pandas: install it with  pip install pandas") from None
    return pandas.DataFrame(list(rows))


def in_short(value: Any) -> str:
    """A value in a few letters: numbers in four digits, arrays by their shape, anything longer by its length."""
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    if isinstance(value, np.ndarray):
        return f"<array {' x '.join(map(str, value.shape))}>"
    if isinstance(value, str):
        return repr(cut(value, 40))
    if isinstance(value, SINGLE):
        return str(value)
    if isinstance(value, tuple | list | dict) and len(value):
        return f"<{len(value)}>"
    return f"<{type(value).__name__}>"


def cut(text: str, most: int) -> str:
    """A text of so many letters at most."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def cut_inside(name: str, most: int) -> str:
    """The same with both ends kept: names of features may differ in their last letters."""
    return name if len(name) <= most else f"{name[: (most - 1) // 2]}…{name[len(name) - most // 2 :]}"


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


ARROWS = "↑ higher is closer, ↓ lower is closer"
MARK = "> "  # before the row of a table that the verdict is about


def text_width() -> int:
    """Columns of the terminal; 80 where there is none, and never fewer than 40."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


def told(verdict: object, *blocks: str, notes: Sequence[str] = (), width: int | None = None) -> str:
    """A result as text: the verdict, then blocks with empty lines between them, then notes, wrapped."""
    return "\n\n".join(
        filter(None, [wrapped(f"verdict: {visible(str(verdict))}", width=width), *blocks, noted(notes, width)])
    )


def noted(notes: Sequence[str], width: int | None = None) -> str:
    """One line for each note, wrapped."""
    return "\n".join(wrapped(f"note: {visible(note)}", 6, width) for note in notes)


def wrapped(text: str, indent: int = 0, width: int | None = None) -> str:
    """Text in lines that fit the terminal, or ``width``, the later ones indented; words are never broken."""
    filler = textwrap.TextWrapper(
        width or text_width(), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(filler.fill(line) for line in text.splitlines())


def decimals(value: float | None, digits: int = 4) -> str:
    """A number with so many decimals, never minus zero, an exponent from a million on; a dash for one not there."""
    if value is None or not math.isfinite(value):
        return "-"
    if abs(value) >= 1e6:
        return f"{value:.2e}"
    return f"{round(value, digits) + 0.0:.{digits}f}"


def r2_text(value: float | None, digits: int = 3) -> str:
    """A share of variance with so many decimals; below -1000 it says no more than that the mean is far better."""
    return "< -1000" if value is not None and value < -1000 else decimals(value, digits)


def significant(value: float) -> str:
    """A number in three significant digits; an exponent only for what is below 0.00001 or above a million."""
    if value == 0 or not math.isfinite(value):
        return f"{value + 0.0:g}"
    size = math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return f"{value:.{max(0, 2 - size)}f}" if -5 <= size < 6 else f"{value:.2e}"


def largest(values: Mapping[Key, float]) -> Key:
    """The first key of the largest value; values that rounding may tell apart are equal, on every processor.

    Rounding is relative to the largest value, or to 1 where that is smaller, and some value is not.
    """
    found = np.array(list(values.values()), dtype=float)
    size = np.abs(found[np.isfinite(found)]).max(initial=0.0)
    most = np.fmax.reduce(found)
    limit = most - _ROUNDED * min(size, max(abs(most), 1.0)) if np.isfinite(most) else most
    return next((key for key, value in values.items() if value >= limit), next(iter(values)))


def least(values: Mapping[Key, float]) -> Key:
    """The first key of the smallest value; values that rounding may tell apart are equal, on every processor."""
    return largest({key: -value for key, value in values.items()})


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: 1 pair, 2 pairs."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def aligned(
    rows: Sequence[Sequence[str]],
    left: Sequence[int] = (0,),
    *,
    marked: Collection[str] = (),
    optional: Sequence[str] = (),
    width: float | None = None,
) -> str:
    """Cells under each other: the columns in ``left`` set left, the others right.

    The first row holds the titles, which may take several lines. Rows whose first cell is ``marked`` have a mark before
    it. A table that is wider than the terminal, or than ``width``, loses its ``optional`` columns, the first one named
    first; what is still too wide goes on below, under the same first column, without rows that are empty there.
    """
    width = text_width() if width is None else width
    titles = list(rows[0])
    rows = [titles, *([visible(cell) for cell in row] for row in rows[1:])]
    if marked:
        rows = [[f"{MARK if row[0] in marked else ' ' * len(MARK)}{row[0]}", *row[1:]] for row in rows]
    sizes = [max(len(line) for row in rows for line in row[place].split("\n")) for place in range(len(titles))]
    kept = list(range(len(titles)))
    for title in optional:
        if _breadth(kept, sizes) > width and title in titles:
            kept.remove(titles.index(title))
    blocks = [[kept[0]]]
    for place in kept[1:]:
        if len(blocks[-1]) > 1 and _breadth([*blocks[-1], place], sizes) > width:
            blocks.append([kept[0]])
        blocks[-1].append(place)
    texts = [_block(rows, blocks[0], sizes, left)]
    for block in blocks[1:]:
        filled = [row for row in rows[1:] if any(row[place] for place in block[1:])]
        texts.append(_block([rows[0], *filled], block, sizes, left))
    return "\n\n".join(texts)


def _breadth(places: Sequence[int], sizes: Sequence[int]) -> int:
    return sum(sizes[place] for place in places) + 2 * (len(places) - 1)


def _block(rows: Sequence[Sequence[str]], places: Sequence[int], sizes: Sequence[int], left: Sequence[int]) -> str:
    heads = [rows[0][place].split("\n") for place in places]
    height = max(map(len, heads))
    lines = [*zip(*([""] * (height - len(head)) + head for head in heads), strict=True)]
    lines += [tuple(row[place] for place in places) for row in rows[1:]]
    return "\n".join(
        "  ".join(
            cell.ljust(sizes[place]) if place in left else cell.rjust(sizes[place])
            for place, cell in zip(places, line, strict=True)
        ).rstrip()
        for line in lines
    )
