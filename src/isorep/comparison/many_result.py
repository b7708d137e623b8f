"""Result of a comparison of many runs: printing, tables and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..pairs import Side
from ..representation import Array
from ..results import ResultRecord, aligned, data_frame, decimals, r2_text, told, wrapped
from .consensus import Consensus
from .diameter import Diameter
from .many_errors import RungMatrix
from .many_verdict import Clustering, Outlier
from .recurrence import Components, Dimensions
from .residuals import told_efficiency
from .result import MARKED, Verdict

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNIT = "held-out errors in mean distances of the target to its mean; lower is closer, 1 is no better than the mean"
_MOST_FAMILIES = 2000
_PRINTED = 12  # runs up to which a matrix is printed


@dataclass(frozen=True, eq=False)
class Ensemble(ResultRecord):
    """The result of :func:`isorep.compare_many`.

    Attributes
    ----------
    rungs : dict of str to RungMatrix
        ``identity``, ``signed_permutation``, ``rigid``, ``linear``, ``ica``: runs by runs, row mapped onto column.
    verdict : Verdict
        The smallest rung that explains every pair of runs, excluding outliers.
    verdicts : tuple of tuples of str or None
        The smallest rung of every ordered pair; None where no rung explains it, without a null, and on the diagonal.
    outliers : tuple of Outlier
        Runs far from the others.
    clustering : Clustering
        The runs in an order that puts near ones side by side, and the tree.
    consensus : Consensus
        One space for all runs.
    dimensions : tuple of Dimensions
        Per run, how reproducible its dimensions are in the others.
    components : Components or None
        Which independent components recur; None without the ICA rung.
    diameters : tuple of Diameter, or None
        Diameter of every run: the unit of mean, largest error and quantiles; only with ``residuals=True``.
    runs : tuple of Side
        Size, rank, condition and spectrum of every run.
    identity_offset : (R, R) array or None
        The share of identity's mean squared error that the distance of the two means makes up; its diagonal is NaN.
    caveats : tuple of str
        Limits of these numbers, most important first.
    left_out : tuple of str
        Parts that were skipped because of a time limit or because the run was stopped.
    seconds : dict of str to float
        Run time of every stage.
    """

    schema: ClassVar[str] = "isorep.compare_many/2"
    page_by: ClassVar[str] = "comparison.many_page:page"
    runs: tuple[Side, ...]
    rungs: dict[str, RungMatrix]
    verdict: Verdict
    verdicts: tuple[tuple[str | None, ...], ...]
    outliers: tuple[Outlier, ...]
    clustering: Clustering
    consensus: Consensus
    dimensions: tuple[Dimensions, ...]
    components: Components | None
    diameters: tuple[Diameter, ...] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    identity_offset: Array | None = None
    left_out: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the runs."""
        return tuple(side.name for side in self.runs)

    @property
    def ica_efficiency(self) -> float | None:
        """ICA efficiency from the mean errors of all pairs; None if a rung is missing or widths differ."""
        if not {"signed_permutation", "rigid", "ica"} <= set(self.rungs) or len({s.columns for s in self.runs}) > 1:
            return None
        return told_efficiency(*(self.rungs[name].mean for name in ("signed_permutation", "rigid", "ica")))

    def agreed_rung(self, i: int, j: int) -> str | None:
        """The rung of an unordered pair: the larger one of its two directions; None where either has none."""
        forward, reverse = self.verdicts[i][j], self.verdicts[j][i]
        if forward is None or reverse is None:
            return None
        return max(forward, reverse, key=list(self.rungs).index)

    def table(self, rung: str | None = None, width: float | None = None) -> str:
        """The matrix of one rung as text, near runs side by side; without a rung the ladder's means over all pairs.

        Beside a mean stand its standard error over folds, the range over ordered pairs, and the held-out R². A table
        wider than the terminal, or than ``width``, goes on below.
        """
        if rung is not None:
            return aligned(self._matrix_cells(self.rungs[rung].error), width=width)
        rows = [("rung", "held-out\nerror", "standard\nerror", "range\nover pairs", "R²", "chance", "in-sample")]
        for name, matrix in self.rungs.items():
            null = decimals(None if matrix.null is None else float(np.nanmean(matrix.null)))
            inside = matrix.in_sample[~np.eye(len(self.runs), dtype=bool)].mean()
            pairs = f"{decimals(matrix.min)} to {decimals(matrix.max)}"
            mean, se = decimals(matrix.mean), decimals(matrix.mean_se)
            rows.append((name, mean, se, pairs, r2_text(matrix.explained), null, decimals(inside)))
        marked = filter(None, [self.verdict.rung])
        return aligned(rows, marked=[*marked], optional=("in-sample",), width=width)

    def summary(self) -> str:
        """The ladder's means over all pairs, and the matrix of the rung that orders the runs if they are few."""
        outliers = "; over all pairs, outliers included" if self.outliers else ""
        parts = [wrapped(f"{UNIT}{outliers}"), self.table()]
        if self.verdict.rung is not None:
            parts.append(MARKED)
        if len(self.runs) <= _PRINTED:
            rung = self.clustering.rung
            parts += ["", f"{rung}, row mapped onto column", self.table(rung)]
        return "\n".join(parts)

    def _matrix_cells(self, values: Array) -> list[tuple[str, ...]]:
        order = self.clustering.order
        head = ("", *(str(place + 1) for place in range(len(order))))
        body = [
            (f"{place + 1} {self.names[i]}", *("-" if i == j else decimals(values[i, j], 3) for j in order))
            for place, i in enumerate(order)
        ]
        return [head, *body]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rotations of the consensus, as plain data with a versioned schema."""
        told = super().to_dict() | {"unit": UNIT, "names": list(self.names), "ica_efficiency": self.ica_efficiency}
        if self.components is not None:
            told["components"] |= {"found": len(self.components.families)}
            told["components"]["families"] = told["components"]["families"][:_MOST_FAMILIES]
        return told

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per rung, over all ordered pairs of runs: mean, its standard error, range, R², chance, in-sample."""
        apart = ~np.eye(len(self.runs), dtype=bool)
        return [
            {
                "rung": name,
                "error": rung.mean,
                "se": rung.mean_se,
                "least": rung.min,
                "largest": rung.max,
                "r2": rung.explained,
                "chance": None if rung.null is None else float(np.nanmean(rung.null)),
                "in_sample": float(rung.in_sample[apart].mean()),
            }
            for name, rung in self.rungs.items()
        ]

    def to_frame(self, rung: str | None = None) -> pandas.DataFrame:
        """The ladder's means as a pandas ``DataFrame``; of one rung, a row per ordered pair of runs."""
        if rung is None:
            return super().to_frame()
        matrix = self.rungs[rung]
        return data_frame(
            [
                {
                    "source": source,
                    "target": target,
                    "error": float(matrix.error[i, j]),
                    "se": float(matrix.se[i, j]),
                    "chance": None if matrix.null is None else float(matrix.null[i, j]),
                    "p_value": None if matrix.p_value is None else float(matrix.p_value[i, j]),
                    "in_sample": float(matrix.in_sample[i, j]),
                    "verdict": self.verdicts[i][j],
                }
                for i, source in enumerate(self.names)
                for j, target in enumerate(self.names)
                if i != j
            ]
        )

    def plot_ladder(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The ladder over all ordered pairs: mean held-out error, the range over pairs, chance and in-sample error.

        ``ax`` and ``width`` are those of :meth:`Comparison.plot_ladder`.
        """
        from .plots import ladder_of_many

        return ladder_of_many(ax, self, width)

    def plot_matrix(self, ax: Axes | None = None, *, rung: str | None = None, width: str = "single") -> Axes:
        """The held-out errors of one rung, row mapped onto column, near runs side by side.

        Without ``rung`` that of the verdict, or the one that orders the runs.

        Examples
        --------
        >>> import numpy as np, isorep
        >>> from matplotlib.figure import Figure
        >>> rng = np.random.default_rng(0)
        >>> X = rng.laplace(size=(200, 3))
        >>> runs = [X @ np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(3)]
        >>> axes = isorep.compare_many(runs, n_null=0).plot_matrix(ax=Figure().subplots(), rung="rigid")
        >>> axes.get_title(loc="left")
        'rigid'
        """
        from .plots import matrix_of_many

        return matrix_of_many(ax, self, rung or self.verdict.rung or self.clustering.rung, width)

    def plot_components(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The agreement of all runs along each axis of the consensus, in-sample: 1 where all runs agree."""
        from .plots import agreement

        return agreement(ax, self, width)

    def plot(self) -> Figure:
        """The ladder, the matrix of every rung and the consensus as one matplotlib ``Figure``; needs ``plot``."""
        from .plots import plot_many

        return plot_many(self)

    def __str__(self) -> str:
        return told(self.verdict, self.summary(), notes=self.caveats)
