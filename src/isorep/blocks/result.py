"""Result of content and style: components with held-out correlations, the shared dimension, views and reruns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..comparison import Comparison
from ..files import visible
from ..representation import Array
from ..resampling import Interval, Null, p_text
from ..results import Record, ResultRecord, aligned, decimals, plain, told, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOUND = 0.05  # p-value up to which a component counts as shared
BEYOND = 5  # components after the shared ones that tables and figures show
MOST_SHOWN = 30


@dataclass(frozen=True)
class Component(Record):
    """One component that views may share.

    Attributes
    ----------
    number : int
        From 1, most shared first on the rows that directions are fitted to.
    shared : bool
        Whether it belongs to the shared block.
    held_out : float
        The held-out correlation of a view with the sum of the others, at the view where it is smallest.
    interval : Interval
        Its 95% interval, by the jackknife over blocks of held-out rows.
    in_sample : float
        The same correlation on the rows that directions are fitted to, which few rows inflate.
    p_value : float
        The share of pairings, the real one among them, whose largest held-out correlation is as high.
    by_view : tuple of float
        The held-out correlation of every view with the sum of the others.
    """

    number: int
    shared: bool
    held_out: float
    interval: Interval
    in_sample: float
    p_value: float
    by_view: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class View(Record):
    """Content and style of one view.

    Attributes
    ----------
    name : str
    columns, rank, examined : int
        Number of columns, of directions that vary, and of leading ones that were examined.
    content_share, style_share : float
        Shares of the view's variance in the content block and in the rest of what was examined.
    mean : (d,) array
    content_map : (d, k) array
        Centred rows times it are the content variates, of unit variance.
    style_map : (d, s) array
        Centred rows times it are the style: principal coordinates of what is uncorrelated with content, in the view's
        units.
    """

    unwritten: ClassVar[frozenset[str]] = frozenset({"mean", "content_map", "style_map"})
    name: str
    columns: int
    rank: int
    examined: int
    content_share: float
    style_share: float
    mean: Array
    content_map: Array
    style_map: Array

    def content(self, rows: Any) -> Array:
        """The content variates of rows of this view, also of new ones."""
        return self._projected(rows, self.content_map)

    def style(self, rows: Any) -> Array:
        """The style of rows of this view, also of new ones."""
        return self._projected(rows, self.style_map)

    def _projected(self, rows: Any, by: Array) -> Array:
        return np.asarray((np.asarray(rows, dtype=np.float64) - self.mean) @ by)


@dataclass(frozen=True, eq=False)
class Rerun(Record):
    """The blocks of another training run, and how they compare with the first one's.

    Attributes
    ----------
    names : tuple of str
        Names of its views.
    dimension, dimension_interval
        As in :class:`Blocks`.
    content, style : Comparison or None
        The first run's content, or style of all views side by side, mapped onto the other run's; None where one of the
        two has none.
    """

    names: tuple[str, ...]
    dimension: int | None
    dimension_interval: tuple[int, int] | None
    content: Comparison | None
    style: Comparison | None

    @property
    def sentence(self) -> str:
        """What the ladder says of the content of both runs, and of their style."""
        compared = filter(None, [self.content, self.style])
        said = [each.verdict.sentence[:1].upper() + each.verdict.sentence[1:] for each in compared]
        if self.content is None:
            said.insert(0, "At least one of the two runs has no known shared block: there is no content to compare.")
        return " ".join(said)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: of each comparison the verdict and the ladder."""
        ladders = {
            name: None if each is None else {"verdict": each.verdict, "ladder": each.frame_rows()}
            for name, each in (("content", self.content), ("style", self.style))
        }
        written: dict[str, Any] = plain(vars(self) | ladders | {"sentence": self.sentence})
        return written


@dataclass(frozen=True, eq=False)
class Blocks(ResultRecord):
    """The result of :func:`isorep.blocks.content_style`.

    Attributes
    ----------
    names : tuple of str
        Names of the views.
    rows : int
    dimension : int or None
        Number of shared dimensions; None where the rows can be shuffled in too few ways to decide.
    dimension_interval : tuple of int or None
        From the number of components whose 95% intervals lie above what chance reaches to the number of leading
        components whose intervals include it or lie above.
    chance_reaches : float
        The 95th percentile of the largest held-out correlation of shuffled pairings, or ``least`` where that is larger.
    chance : Null
        The largest held-out correlation of shuffled pairings, beside that of the real pairing of the same rows.
    components : tuple of Component
    views : tuple of View
    content : (n, k) array
        The mean of the views' content variates, row by row.
    styles : tuple of (n, s) arrays
        The style of every view.
    ids : (n,) array or None
        Ids of the rows, where a view has them.
    reruns : tuple of Rerun
    settings : dict
    caveats : tuple of str
    """

    schema: ClassVar[str] = "isorep.blocks/1"
    page_by: ClassVar[str] = "blocks.page:page"
    derived: ClassVar[tuple[str, ...]] = ("verdict",)
    unwritten: ClassVar[frozenset[str]] = frozenset({"content", "styles", "ids"})
    names: tuple[str, ...]
    rows: int
    dimension: int | None
    dimension_interval: tuple[int, int] | None
    chance_reaches: float
    chance: Null
    components: tuple[Component, ...]
    views: tuple[View, ...]
    content: Array
    styles: tuple[Array, ...]
    ids: Array | None = None
    reruns: tuple[Rerun, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The answer: how many dimensions are shared, and how strongly."""
        if self.dimension is None or self.dimension_interval is None:
            return (
                f"Undecided: these rows can be shuffled in too few ways for a p-value of {FOUND:g} (the smallest is "
                f"{self.chance.smallest_p:.2g}), so the shared dimension is unknown."
            )
        reach, beyond = f"chance reaches {self.chance_reaches:.2f}", "is correlated beyond chance on held-out rows"
        if 0 < self.settings.get("least", 0.0) >= self.chance_reaches:
            reach = f"the smallest that counts is {self.chance_reaches:.2f}"
            beyond = "exceeds both chance and the smallest correlation that counts, held out"
        low, high = self.dimension_interval
        if not self.dimension:
            largest = max(each.held_out for each in self.components)
            return (
                f"No shared block: no component of the {len(self.names)} views {beyond} (largest {largest:.2f}; "
                f"{reach}; 95% interval of the dimension {low} to {high})."
            )
        shared = [each.held_out for each in self.components if each.shared]
        between = f"{max(shared):.2f}" if len(shared) == 1 else f"{max(shared):.2f} to {min(shared):.2f}"
        shares = ", ".join(f"{view.content_share:.0%} of {view.name}" for view in self.views)
        one = self.dimension == 1
        return (
            f"{self.dimension} {'dimension is' if one else 'dimensions are'} shared by the {len(self.names)} views "
            f"(95% interval {low} to {high}): held-out correlation{'' if one else 's'} {between}, where {reach}. The "
            f"block holds {shares}, by variance."
        )

    @property
    def shown(self) -> tuple[Component, ...]:
        """The components that tables and figures show: the shared ones and a few more."""
        reached = max([each.number for each in self.components if each.shared], default=0)
        return self.components[: min(reached + BEYOND, MOST_SHOWN)]

    def table(self, width: float | None = None) -> str:
        """One line per component, shared ones marked, and one line per view."""
        rows = [("component", "held-out", "95% interval", "p", "in-sample")]
        for each in self.shown:
            span = f"[{each.interval.low:.4f}, {each.interval.high:.4f}]"
            p = p_text(each.p_value, self.chance.smallest_p)
            rows.append((str(each.number), decimals(each.held_out), span, p, decimals(each.in_sample)))
        marked = [str(each.number) for each in self.shown if each.shared]
        views: list[tuple[str, ...]] = [("view", "columns", "rank", "examined", "content", "style")]
        for view in self.views:
            sizes = map(str, (view.columns, view.rank, view.examined))
            shares = ("-", "-") if self.dimension is None else (view.content_share, view.style_share)
            views.append((view.name, *sizes, *(each if isinstance(each, str) else f"{each:.1%}" for each in shares)))
        return "\n\n".join([aligned(rows, marked=marked, width=width), aligned(views, width=width)])

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per component: held-out correlation with its interval, p-value, in-sample value, and by view."""
        return [
            {
                "component": each.number,
                "held_out": each.held_out,
                "low": each.interval.low,
                "high": each.interval.high,
                "p_value": each.p_value,
                "in_sample": each.in_sample,
                "shared": each.shared,
                **dict(zip(self.names, each.by_view, strict=True)),
            }
            for each in self.components
        ]

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The held-out correlation of every component with its interval, and how far chance reaches.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").

        Examples
        --------
        >>> import numpy as np, isorep
        >>> from matplotlib.figure import Figure
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> found = isorep.blocks.content_style([X, X + 1], n_null=20)
        >>> [label.get_text() for label in found.plot_scores(ax=Figure().subplots()).get_yticklabels()]
        ['component 1', 'component 2']
        """
        from ..report.plots import Mark, dots, span

        marks = [
            Mark(
                f"component {each.number}",
                each.held_out,
                span(each.interval),
                in_sample=each.in_sample,
                strong=each.shared,
            )
            for each in self.shown
        ]
        negative = any(x < 0 for mark in marks for x in mark.known)
        return dots(
            ax,
            marks,
            "correlation between views (bold: shared)",
            width=width,
            limits=(None if negative else 0.0, 1.02),
            reference=(self.chance_reaches, f"limit {self.chance_reaches:.2f}"),
            value_name="held out",
        )

    def __str__(self) -> str:
        said = [f"rerun {number}: {each.sentence}" for number, each in enumerate(self.reruns, 1)]
        mark = "> marks the components of the shared block" if self.dimension else ""
        further = "\n".join(wrapped(visible(each)) for each in said)
        return told(self.verdict, further, self.table(), mark, notes=self.caveats)
