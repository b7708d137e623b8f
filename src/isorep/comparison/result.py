"""Result of a comparison: frozen records with printing, tables and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..alignment.base import Error
from ..pairs import Side
from ..resampling import Interval, Null
from ..results import Record, ResultRecord, aligned, decimals, plain, r2_text, told
from .diameter import Diameter
from .figures import Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNIT = (
    "mean distances of the target's rows to their mean: 1 is no better than predicting the mean, lower is closer; "
    "under 'diameters' and 'raw' in diameters of the target and in its own units"
)


@dataclass(frozen=True)
class Rung(Record):
    """One rung of the ladder in one direction.

    Attributes
    ----------
    held_out, in_sample : Error
        In mean distances of the target's rows to their mean: 1 is no better than predicting the mean.
    interval : Interval or None
        The 95% interval of the held-out mean, in the same unit.
    excess, over_linear : Interval or None
        Intervals of the excess over the best rung's held-out mean, and over the linear one's, rows paired.
    null : Null or None
        The held-out mean under shuffled pairings, in the same unit.
    median : float
        The median held-out error in median distances to the mean, which is robust to few outlying rows.
    unit, diameter : float
        The mean distance to the mean and the diameter of the target, in its own units.
    explained : float or None
        The held-out R²: the share of the target's variance that the rung explains; negative where it is worse than
        the mean.
    """

    name: str
    held_out: Error
    in_sample: Error
    interval: Interval | None
    excess: Interval | None
    null: Null | None
    unit: float
    explained: float | None = None
    median: float = float("nan")
    over_linear: Interval | None = None
    diameter: float = float("nan")

    @property
    def upper(self) -> float:
        """The upper end of the interval; the mean itself without one."""
        return self.interval.high if self.interval else self.held_out.mean

    @property
    def below_null(self) -> bool | None:
        """Whether the held-out interval lies below chance (the 5th percentile of the null); None without a null."""
        return None if self.null is None else bool(self.upper < self.null.low)

    @property
    def below_mean(self) -> bool:
        """Whether the held-out interval lies below the error of predicting the mean."""
        return bool(self.upper < 1)

    @property
    def in_diameters(self) -> Rung:
        """The same with all errors in diameters of the target, as published tables have them."""
        return self._in(self.diameter)

    def _in(self, unit: float) -> Rung:
        """The same in another unit, given in the target's own."""
        per = self.unit / unit
        names = ("held_out", "in_sample", "interval", "excess", "over_linear", "null")
        known = {name: each for name in names if (each := getattr(self, name)) is not None}
        return replace(self, unit=unit, **{name: each.times(per) for name, each in known.items()})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, in three units: mean distances to the mean, diameters, and the target's own."""
        own = {key: value for key, value in vars(self).items() if key not in ("excess", "over_linear")}
        derived = {
            "excess_over_best": self.excess,
            "excess_over_linear": self.over_linear,
            "below_null": self.below_null,
            "below_mean": self.below_mean,
        }
        units = {
            name: {key: getattr(rung, key) for key in ("held_out", "in_sample", "interval", "null")}
            for name, rung in (("diameters", self.in_diameters), ("raw", self._in(1.0)))
        }
        told: dict[str, Any] = plain(own | derived | units)
        return told


@dataclass(frozen=True)
class Verdict:
    """Verdict: the smallest rung that explains the pair, or None, and a sentence with the reason.

    ``qualified`` is a caution, where few rows or dimensions decide the numbers and the verdict without them differs.
    """

    rung: str | None
    sentence: str
    qualified: str | None = None

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class View:
    """Sensitivity check: the same ladder without outlying rows, or with standardised columns or directions.

    ``errors`` are held-out means of every rung, ``explained`` their R², of the source mapped onto the target.
    """

    name: str
    sentence: str
    rung: str | None
    reverse_rung: str | None
    errors: dict[str, float]
    explained: dict[str, float]


@dataclass(frozen=True)
class Direction(Record):
    """The ladder from one side onto the other.

    ``baseline`` is the mean distance of the target's rows to their mean, the unit of all errors, in diameters.
    ``identity_offset`` is the share of identity's mean squared error that the distance of the two means makes up; None
    without that rung.
    """

    source: str
    target: str
    rungs: dict[str, Rung]
    diameter: Diameter
    baseline: float
    ica_efficiency: float | None
    ica_efficiency_in_sample: float | None
    verdict: Verdict
    identity_offset: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields, and the unit in words."""
        return {**vars(self), "unit": UNIT}

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per rung: held-out error with interval, chance level, p-value and R², then other units."""
        return [
            {
                "rung": name,
                "error": rung.held_out.mean,
                "low": rung.interval.low if rung.interval else None,
                "high": rung.interval.high if rung.interval else None,
                "chance": rung.null.mean if rung.null else None,
                "p_value": rung.null.p_value if rung.null else None,
                "r2": rung.explained,
                "in_sample": rung.in_sample.mean,
                "diameters": rung.in_diameters.held_out.mean,
            }
            for name, rung in self.rungs.items()
        ]

    def plot_ladder(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The ladder of this direction; see :meth:`Comparison.plot_ladder`."""
        from .plots import ladder

        return ladder(ax, self, width)


@dataclass(frozen=True)
class Comparison(ResultRecord):
    """The result of :func:`isorep.compare`: source mapped onto target, and the reverse.

    Attributes
    ----------
    rungs : dict of str to Rung
        ``identity``, ``signed_permutation``, ``rigid``, ``linear``, ``ica``: the source mapped onto the target.
    reverse : Direction
        The same with the target mapped onto the source.
    diameter : Diameter
        Diameter of the target, the unit of published tables.
    views : tuple of View
        Sensitivity checks: the ladder without the few rows, or few dimensions, that decide the numbers.
    ica_efficiency : float or None
    verdict : Verdict
    caveats : tuple of str
        Limits of these numbers, most important first.
    worst_case : dict or None
        ``rigid`` and ``rigid_with_scale``: lower and upper bounds on the largest error, in diameters of the target;
        ``sample``: a bound for new examples from the largest held-out error. None if not computed.
    left_out : tuple of str
        Parts that were skipped because of a time limit or because the run was stopped.
    seconds : dict of str to float
        Run time of every stage.
    figures : Figures
        The data behind the figures of a report.
    """

    schema: ClassVar[str] = "isorep.compare/2"
    page_by: ClassVar[str] = "comparison.page:page"
    forward: Direction
    reverse: Direction
    source: Side
    target: Side
    settings: dict[str, Any]
    figures: Figures
    caveats: tuple[str, ...] = ()
    worst_case: dict[str, Any] | None = None
    views: tuple[View, ...] = ()
    left_out: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def rungs(self) -> dict[str, Rung]:
        """The rungs, source mapped onto target."""
        return self.forward.rungs

    @property
    def diameter(self) -> Diameter:
        """The target's diameter."""
        return self.forward.diameter

    @property
    def ica_efficiency(self) -> float | None:
        """ICA efficiency from held-out errors; see :func:`isorep.comparison.ica_efficiency`."""
        return self.forward.ica_efficiency

    @property
    def verdict(self) -> Verdict:
        """The verdict on the source mapped onto the target."""
        return self.forward.verdict

    def table(self, width: float | None = None) -> str:
        """The ladder as text: held-out error with interval, chance level, p-value and R², the verdict's rung marked.

        The in-sample error and the held-out one in diameters follow where the terminal, or ``width``, has room.
        """
        return ladder_table(self.forward, width)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return super().to_dict() | {"verdict": plain(self.verdict)}

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per rung of the source mapped onto the target; ``result.reverse.to_frame()`` has the reverse."""
        return self.forward.frame_rows()

    def plot_ladder(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The ladder: held-out error of every rung with its interval, its chance level and its error in sample.

        The rung of the verdict stands out. Errors beyond 2 stand at the end of the axis, with their number.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new pyplot figure.
        width : {"single", "double"}
            Of a new figure: one column of a page (3.35 inches) or two (6.9 inches).

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> import numpy as np, isorep
        >>> from matplotlib.figure import Figure
        >>> X = np.random.default_rng(0).laplace(size=(100, 2))
        >>> axes = isorep.compare(X, X @ [[0, 1], [1, 0]], n_null=20).plot_ladder(ax=Figure().subplots())
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['identity', 'signed permutation', 'rigid', 'linear', 'ICA']
        """
        return self.forward.plot_ladder(ax, width=width)

    def plot(self) -> Figure:
        """The main figures as one matplotlib ``Figure``, for papers; needs the extra ``plot``."""
        from .plots import plot

        return plot(self)

    def __str__(self) -> str:
        mark = "" if self.verdict.rung is None else f"\n{MARKED}"
        return told(self.verdict, f"{self.table()}{mark}", notes=self.caveats)


MARKED = "> marks the verdict: the smallest rung that suffices."


def ladder_table(direction: Direction, width: float | None = None) -> str:
    """The ladder as aligned text; the last column in diameters of the target."""
    rows = [("rung", "held-out\nerror", "95% interval", "chance", "p", "R²", "in-sample", "diameters")]
    for name, rung in direction.rungs.items():
        interval = f"[{decimals(rung.interval.low)}, {decimals(rung.interval.high)}]" if rung.interval else "-"
        chance, p = (decimals(rung.null.mean), rung.null.p_text) if rung.null else ("-", "-")
        errors = (decimals(rung.in_sample.mean), decimals(rung.in_diameters.held_out.mean))
        rows.append((name, decimals(rung.held_out.mean), interval, chance, p, r2_text(rung.explained), *errors))
    marked = filter(None, [direction.verdict.rung])
    return aligned(rows, marked=[*marked], optional=("diameters", "in-sample"), width=width)
