"""Layer matrix of one index, corrected for multiple comparisons over all layer pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import InputError
from ..representation import Array, Representation, as_representation, match_rows
from ..resampling import Null, null_of, p_text
from ..results import Record, ResultRecord, aligned, data_frame, decimals, told
from ..rows import Progress, kept_by_workers, no_progress
from ..settings import check_choice
from ..threads import one_blas_thread
from .cka import prepare_cka
from .frames import Pair, Side, joined
from .null import Pairings, PreparedIndex, corrected, plan, shown
from .table import FOUND, INDICES, SHOWN

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_NOTHING = (float("nan"),) * 3
_TIE = 1e-6  # smaller differences between values of an index are rounding


@dataclass(frozen=True, eq=False)
class BestLayer(Record):
    """The closest target layer of one source layer, judged against the closest one of shuffled pairings."""

    source: str
    target: str
    value: float
    chance: float
    corrected: float
    p_value: float


@dataclass(frozen=True, eq=False)
class LayerMatrix(ResultRecord):
    """One index between all layers of two models.

    Attributes
    ----------
    values, chance, corrected, p_values : (a, b) arrays
        Source layers by target layers. ``corrected`` runs from chance (0) to a perfect match (1). It and the p-values
        are nan in cells where every pairing gives the same value.
    adjusted_p_values : (a, b) array
        P-values corrected for multiple comparisons over all cells: the share of pairings whose closest cell, in
        standard deviations of its own null, is as close as this one.
    best : tuple of BestLayer
        For each source layer its closest target layer. Chance, corrected value and p-value are those of the *closest*
        of all target layers, which corrects for selecting the maximum. Values that differ by less than 1e-6 are ties,
        and the first in order wins. Cells whose value is the same for every pairing are skipped unless there are no
        others.
    overall : BestLayer
        The closest cell of all, by the same rule.
    smallest_p : float
        The smallest possible p-value; nan without a null.
    """

    schema: ClassVar[str] = "isorep.layers/1"
    page_by: ClassVar[str] = "similarity.page:layers_page"
    derived: ClassVar[tuple[str, ...]] = ("reading",)
    index: str
    higher_is_closer: bool
    source_layers: tuple[str, ...]
    target_layers: tuple[str, ...]
    values: Array
    chance: Array
    corrected: Array
    p_values: Array
    adjusted_p_values: Array
    best: tuple[BestLayer, ...]
    overall: BestLayer
    settings: dict[str, Any]
    exact: bool
    caveats: tuple[str, ...] = ()
    smallest_p: float = float("nan")

    def table(self) -> str:
        """The best match of every source layer."""
        lines = [("layer", "closest", self.index, "chance of\nthe closest", "corrected", "p")]
        for best in self.best:
            numbers = (decimals(best.value), shown(best.chance), shown(best.corrected))
            lines.append((best.source, best.target, *numbers, p_text(best.p_value, self.smallest_p)))
        return aligned(lines, left=(0, 1))

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per source layer: its closest target layer, judged against the closest one of shuffled pairings."""
        return [row for each in self.best for row in each.frame_rows()]

    def to_frame(self, *, cells: bool = False) -> pandas.DataFrame:
        """The best matches as a pandas ``DataFrame``; with ``cells`` one row per pair of layers."""
        if not cells:
            return super().to_frame()
        names = ("values", "chance", "corrected", "p_values", "adjusted_p_values")
        columns = {"values": "value", "p_values": "p_value", "adjusted_p_values": "adjusted_p_value"}
        return data_frame(
            [
                {"source": source, "target": target}
                | {columns.get(name, name): float(getattr(self, name)[i, j]) for name in names}
                for i, source in enumerate(self.source_layers)
                for j, target in enumerate(self.target_layers)
            ]
        )

    def plot_matrix(self, ax: Axes | None = None, *, corrected: bool = False, width: str = "single") -> Axes:
        """The index between all layers, source layers in rows; dark is close.

        With ``corrected`` on a scale from chance (0) to a perfect match (1). ``ax`` is where to draw, by default a new
        pyplot figure of one column (3.35 inches) or two ("double").

        Examples
        --------
        >>> import numpy as np, isorep
        >>> from matplotlib.figure import Figure
        >>> rng = np.random.default_rng(0)
        >>> layers = [rng.normal(size=(50, 3)) for _ in range(2)]
        >>> found = isorep.similarity.layers(layers, layers, permutations=0)
        >>> found.plot_matrix(ax=Figure().subplots()).get_xlabel()
        'target layer'
        """
        from ..report.plots import matrix

        name = SHOWN[self.index][0]
        values, label = (self.corrected, f"{name}, corrected") if corrected else (self.values, name)
        known = values[np.isfinite(values)]
        scaled = corrected or self.higher_is_closer
        return matrix(
            ax,
            values,
            self.source_layers,
            self.target_layers,
            label,
            width=width,
            limits=(0.0, 1.0 if scaled or not len(known) else float(known.max()) or 1.0),
            dark_is_low=not scaled,
            names=("source layer", "target layer"),
        )

    @property
    def reading(self) -> str:
        """One sentence on the closest cell and the number of significant cells."""
        best = self.overall
        cells = int(np.isfinite(self.p_values).sum())
        chance = "chance" if self.settings.get("within") is None else "chance within classes"
        if not cells:
            drawn = self.settings.get("permutations")
            why = "no cell has a p-value for these rows (see the notes)" if drawn else "no null was drawn"
            return (
                f"The closest layers are {best.source} and {best.target} ({self.index} {best.value:.4f}); {why}, so "
                f"{chance} cannot be ruled out."
            )
        closer = int((self.adjusted_p_values <= FOUND).sum())
        return (
            f"The closest layers are {best.source} and {best.target}: {self.index} {best.value:.4f}, "
            f"{shown(best.corrected)} on a scale from the closest of shuffled pairings (0) to a perfect match (1). "
            f"{closer} of {cells} cells are closer than {chance} after correction for multiple comparisons."
        )

    def __str__(self) -> str:
        return told(self.reading, self.table(), notes=self.caveats)


@one_blas_thread
def layers(
    X: Any,
    Y: Any,
    *,
    index: str = "cka_debiased",
    permutations: int = 200,
    groups: Any = None,
    within: Any = None,
    join: bool = False,
    random_state: int = 0,
    progress: Progress | None = None,
) -> LayerMatrix:
    """One index between every layer of one model and every layer of another.

    The same shuffled pairings serve all cells. The closest cell is therefore compared with the closest cell of each
    shuffled pairing, which corrects for selecting it. Values that differ by less than 1e-6 are ties: the first layer in
    order wins.

    Parameters
    ----------
    X, Y : sequences or mappings of (n, d) arrays or Representations
        The layers, all with the same paired rows. Names come from the mapping or the representations.
    index : str
        As for :func:`indices`.
    permutations, groups, within, join, random_state, progress
        As for :func:`indices`.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> A = {"early": rng.normal(size=(200, 5)), "late": rng.normal(size=(200, 5))}
    >>> found = isorep.similarity.layers(A, {"one": 2 * A["late"]}, permutations=100)
    >>> found.overall.source, round(found.overall.corrected, 6)
    ('late', 1.0)
    """
    report = progress or no_progress
    given = [_named(each, name) for each, name in ((X, "X"), (Y, "Y"))]
    note = ""
    if join:
        here, there, (groups, within), note = joined(*(list(named.values()) for named in given), groups, within)
        given = [dict(zip(named, rows, strict=True)) for named, rows in zip(given, (here, there), strict=True)]
    first, *others = [each for named in given for each in named.values()]
    for other in others:
        match_rows(first, other)
    n = len(first)
    if n < 3:
        raise InputError(f"the layers have {n} rows: at least 3 are needed")
    kept = iter(kept_by_workers(first, *others))
    sides = [[Side(next(kept).values, name, n) for name in named] for named in given]
    pairings = plan(n, permutations, groups, within, random_state)
    check_choice("index", index, list(INDICES))
    prepare = partial(_prepare, index)
    pairs = [Pair(a, b) for a in sides[0] for b in sides[1]]
    prepared: list[PreparedIndex] = []
    for pair in pairs:
        prepared.append(prepare(pair))
        report("layers", len(prepared), len(pairs))
    cells = None
    if permutations:
        pairings = pairings.keeping_copies(*sides)
        cells = _Cells(pairings, prepared[0], *pairings.nulls(prepared, pairs, [prepare] * len(pairs), report))
    names = tuple(tuple(side.name for side in each) for each in sides)
    found = _matrix(index, prepared, cells, names, pairings.settings | {"rows": n})
    return replace(found, caveats=(note, *found.caveats)) if note else found


def _prepare(index: str, pair: Pair) -> PreparedIndex:
    """With many cells per permutation, linear kernels are sketched, because cells share the sketch of a side."""
    if index in ("cka", "cka_debiased"):
        return prepare_cka(pair, debiased=index == "cka_debiased")
    return INDICES[index](pair)


def _named(given: Any, which: str) -> dict[str, Representation]:
    """Layers by name."""
    if isinstance(given, Mapping) and given:
        return {str(name): as_representation(values, str(name)) for name, values in given.items()}
    if not (isinstance(given, Sequence) and not isinstance(given, str) and len(given)):
        raise InputError(f"{which} holds no layers: pass a list or a mapping of arrays with the same rows")
    layers = [as_representation(values, f"{which} {number}") for number, values in enumerate(given)]
    names = [each.name or "" for each in layers]
    unique = len(set(names)) == len(names)
    return {
        name if unique else f"{number}: {name}": each
        for number, (name, each) in enumerate(zip(names, layers, strict=True))
    }


class _Cells:
    """The cells of a matrix under the real pairing and the shuffled ones, of the rows that take part."""

    def __init__(
        self, pairings: Pairings, like: PreparedIndex, nulls: Sequence[tuple[Null, str]], values: Array
    ) -> None:
        self.pairings = pairings
        self.nulls = [null for null, _ in nulls]
        self.reasons = [why for _, why in nulls]
        self.exact = all(null.exact for null in self.nulls)
        self.judged = np.array([np.isfinite(null.p_value) for null in self.nulls])
        self.sign, self.best = (1.0 if like.higher_is_closer else -1.0), like.best
        self.heights = self.sign * values  # the real pairing first; higher is closer

    def corrected(self) -> Array:
        """Each cell from chance (0) to a perfect match (1)."""
        cells = [corrected(null.observed, null.mean, self.best, self.sign > 0) for null in self.nulls]
        return np.where(self.judged, cells, np.nan)

    def adjusted(self) -> Array:
        """P-values corrected for multiple comparisons (maxT): cells are standardised, the real pairing included."""
        p_values = np.full(len(self.nulls), np.nan)
        if not self.judged.any():
            return p_values
        heights = self.heights[self.judged]
        spread = np.maximum(heights.std(axis=1, keepdims=True), 1e-300)
        heights = (heights - heights.mean(axis=1, keepdims=True)) / spread
        tops = heights[:, 1:].max(axis=0)
        at_least = 1 + (tops >= heights[:, :1] - 1e-9).sum(axis=1)
        p_values[self.judged] = np.maximum(at_least / (1 + len(tops)), 1 / self.pairings.shuffles.distinct)
        return p_values

    def closest(self, some: Array) -> tuple[float, float, float]:
        """Chance, corrected value and p-value of the closest of some cells."""
        some = some[self.judged[some]]
        if not len(some):
            return _NOTHING
        tops = self.heights[some].max(axis=0)
        null = null_of(tops[1:], tops[0], higher_is_closer=True, distinct=self.pairings.shuffles.distinct)
        chance = self.sign * null.mean
        return chance, corrected(self.sign * null.observed, chance, self.best, self.sign > 0), null.p_value


def _first_closest(values: Array, some: Array, informative: Array, sign: float) -> int:
    """The first of some cells that no other exceeds by more than a tie, among the informative ones if there are any."""
    some = some[informative[some]] if informative[some].any() else some
    heights = sign * values[some]
    return int(some[np.flatnonzero(heights >= heights.max() - _TIE)[0]])


def _matrix(
    index: str,
    prepared: list[PreparedIndex],
    cells: _Cells | None,
    names: tuple[tuple[str, ...], ...],
    settings: dict[str, Any],
) -> LayerMatrix:
    """All cells and the closest ones, with chance where there is a null."""
    values = np.array([each.value for each in prepared])
    grid = np.arange(len(values)).reshape(len(names[0]), len(names[1]))
    higher = prepared[0].higher_is_closer
    informative = np.array([not each.forced for each in prepared]) if cells is None else cells.judged
    tables = np.full((4, len(values)), np.nan)
    said = [caveat for each in prepared for caveat in (*each.caveats, each.forced if cells is None else "")]
    if cells is not None:
        chance, p_values = ([getattr(null, name) for null in cells.nulls] for name in ("mean", "p_value"))
        tables = np.array([chance, cells.corrected(), p_values, cells.adjusted()])
        said = [*cells.pairings.notes, *said, *cells.reasons]

    def best(some: Array) -> BestLayer:
        at = _first_closest(values, some, informative, 1.0 if higher else -1.0)
        row, column = divmod(at, len(names[1]))
        beside = _NOTHING if cells is None else cells.closest(some)
        return BestLayer(names[0][row], names[1][column], float(values[at]), *beside)

    return LayerMatrix(
        index,
        higher,
        names[0],
        names[1],
        values.reshape(grid.shape),
        chance=tables[0].reshape(grid.shape),
        corrected=tables[1].reshape(grid.shape),
        p_values=tables[2].reshape(grid.shape),
        adjusted_p_values=tables[3].reshape(grid.shape),
        best=tuple(best(row) for row in grid),
        overall=best(grid.ravel()),
        settings=settings,
        exact=cells is None or cells.exact,
        caveats=tuple(dict.fromkeys(filter(None, said))),
        smallest_p=float("nan") if cells is None else cells.pairings.smallest_p,
    )
