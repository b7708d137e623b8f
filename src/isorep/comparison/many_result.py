"""Result of a comparison of many runs: printing, tables and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..pairs import Side
from ..representation import Array
from ..results import ResultRecord, aligned, decimals, told, wrapped
from .consensus import Consensus
from .diameter import Diameter
from .many_errors import RungMatrix
from .many_verdict import Clustering, Outlier
from .recurrence import Components, Dimensions
from .residuals import told_efficiency
from .result import MARKED, Verdict

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
        The smallest rung of every ordered pair; None where no rung explains it, and on the diagonal.
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
            pairs = f"{matrix.min:.4f} to {matrix.max:.4f}"
            mean, se = f"{matrix.mean:.4f}", f"{matrix.mean_se:.4f}"
            rows.append((name, mean, se, pairs, decimals(matrix.explained, 3), null, f"{inside:.4f}"))
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
            (f"{place + 1} {self.names[i]}", *("-" if i == j else f"{values[i, j]:.3f}" for j in order))
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

    def plot(self) -> Any:
        """The main figures as one matplotlib ``Figure``, for papers; needs the extra ``plot``."""
        from .plots import plot_many

        return plot_many(self)

    def _repr_html_(self) -> str:
        from .many_page import snippet

        return snippet(self)

    def __repr__(self) -> str:
        return f"Ensemble({len(self.runs)} runs: {self.verdict})"

    def __str__(self) -> str:
        return told(self.verdict, self.summary(), notes=self.caveats)
