"""Residuals of many maps in one pass over the rows.

Numbers from residuals: summaries and ICA efficiency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..alignment.base import AffineMap
from ..chunked import pass_over
from ..moments import gap_of_means
from ..representation import Array, Matrix
from ..rows import block_rows, blocks, in_chunks, stream_rows

Maps = tuple[AffineMap, AffineMap]  # source onto target, and target onto source
_NO_MATRIX = np.zeros((0, 0))


@dataclass(frozen=True, eq=False)
class Centre:
    """The means that rows are shifted by before maps are applied, and the dtype the work is done in."""

    source: Array
    target: Array
    dtype: Any

    def shift(self, block: Array, side: int) -> Array:
        """Rows about the mean of their side (0 source, 1 target).

        The difference is taken in float64, so large means do not cost digits.
        """
        mean = self.target if side else self.source
        return np.subtract(block, mean, dtype=np.float64).astype(self.dtype, copy=False)

    @property
    def gap(self) -> Array:
        """The source's mean minus the target's, the narrower one padded with zeros."""
        return gap_of_means(self.source, self.target)


class PreparedMaps:
    """A map and its counterpart in the reverse direction, made ready for rows about a common centre.

    For orthogonal maps one product serves both directions: with P the rotated source, the source's residual
    ‖x − s′yQᵀ‖ equals ‖P − s′y‖.
    """

    def __init__(self, maps: Maps, centre: Centre) -> None:
        forward, reverse = maps
        dtype = centre.dtype
        self.orthogonal = forward.orthogonal
        x_gap, y_gap = forward.source_mean - centre.source, forward.target_mean - centre.target
        self._forward = _Linear(forward.linear if forward.orthogonal else forward.matrix, dtype)
        self._offset = _mapped_offset(x_gap, forward.linear if forward.orthogonal else forward.matrix, dtype)
        self._y_gap, self._x_gap = y_gap.astype(dtype), x_gap.astype(dtype)
        self._reverse = None if forward.orthogonal else _Linear(reverse.matrix, dtype)
        self._back_offset = None if forward.orthogonal else _mapped_offset(y_gap, reverse.matrix, dtype)
        self._scales = (np.dtype(dtype).type(forward.scale), np.dtype(dtype).type(reverse.scale))

    def errors(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Residual vectors, mapped minus true, forward and reverse; the reverse of an orthogonal map is rotated."""
        mapped = self._forward(x)
        mapped -= self._offset
        if self._reverse is not None:
            back = self._reverse(y)
            back -= self._back_offset
            _subtract(mapped, y - self._y_gap)
            _subtract(back, x - self._x_gap)
            return mapped, back
        y = y - self._y_gap
        scale, back_scale = self._scales
        error = mapped * scale
        _subtract(error, y)
        _subtract(mapped, y * back_scale)
        return error, mapped

    def norms(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Residual norms forward and reverse."""
        forward, reverse = self.errors(x, y)
        return norms_of(forward), norms_of(reverse)


def _mapped_offset(gap: Array, matrix: Array, dtype: Any) -> Array:
    return np.asarray(gap @ matrix).astype(dtype)


class _Linear:
    """A matrix in the working dtype; one that only moves and weights columns is applied without a product."""

    def __init__(self, matrix: Array, dtype: Any) -> None:
        self._columns = _only_entries(matrix)
        if self._columns is None:
            self._weights = matrix.astype(dtype)
        else:
            self._weights = matrix[self._columns, np.arange(matrix.shape[1])].astype(dtype)

    def __call__(self, x: Array) -> Array:
        if self._columns is None:
            return np.asarray(x @ self._weights)
        moved: Array = np.take(x, self._columns, axis=1)
        moved *= self._weights
        return moved


def _only_entries(matrix: Array) -> Array | None:
    """For a matrix with at most one entry per column the row of that entry; otherwise None."""
    if np.count_nonzero(matrix[:, 0]) > 1:  # the usual dense case, found at once
        return None
    nonzero = matrix != 0
    return np.argmax(nonzero, axis=0) if nonzero.sum(axis=0).max(initial=0) <= 1 else None


def _subtract(mapped: Array, rows: Array) -> None:
    mapped[:, : rows.shape[1]] -= rows


def norms_of(error: Array) -> Array:
    """The lengths of residual vectors."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", error, error)), dtype=np.float64)


def identity_norms(x: Array, y: Array, gap: Array) -> Array:
    """The distance of paired rows as they are, which no fit changes; ``gap`` is that of their centres."""
    apart = np.tile(gap.astype(x.dtype), (len(x), 1))
    apart[:, : x.shape[1]] += x
    _subtract(apart, y)
    return norms_of(apart)


@dataclass(frozen=True, eq=False)
class FittedRung:
    """One rung: the maps fitted on all rows, and for each part of the rows those that have not seen it.

    ``part_of`` holds the part of each row. There may be several maps per part, whose errors are averaged.
    """

    whole: Maps
    without: Sequence[Sequence[Maps]]
    part_of: Array

    def for_figures(self) -> FittedRung:
        """What figures need after the pass: forward maps of parts, in single precision; the reverse have no matrix."""
        return replace(
            self,
            without=[
                [
                    (replace(forward, linear=forward.linear.astype(np.float32)), replace(reverse, linear=_NO_MATRIX))
                    for forward, reverse in each
                ]
                for each in self.without
            ],
        )


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residual norms of every row: for each rung an array (direction, in-sample or held-out, row).

    ``radii`` are the rows' distances from the mean, of source and target. ``spread_by_fit`` is, for rungs with several
    maps per part, the variance of a part's mean error over those maps, per direction. ``pulls`` holds what the
    influence of single rows on fitted maps is computed from, for the requested rungs.
    """

    rungs: dict[str, Array]
    radii: Array
    spread_by_fit: dict[str, Array]
    pulls: dict[str, Pulls]


@dataclass(frozen=True, eq=False)
class Pulls:
    r"""How held-out errors of every fold move with the map: :math:`U_k=\sum_{i\in k}x_i^\top e_i/\|e_i\|`.

    ``products`` and ``sums`` hold, per direction, :math:`U_k` and :math:`\sum_{i\in k}e_i/\|e_i\|`.
    """

    products: tuple[Array, Array]
    sums: tuple[Array, Array]


def residual_pass(
    x: Matrix,
    y: Matrix,
    centre: Centre,
    rungs: dict[str, FittedRung],
    *,
    scored: Array | None = None,
    pulled: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Residuals:
    """In-sample and held-out residuals of every rung in both directions.

    ``pulled`` names the rungs whose :class:`Pulls` are summed on the way, over the rows that are ``scored``.
    """
    n, d_x, d_y = x.shape[0], x.shape[1], y.shape[1]
    look = _ResidualsOfRows(centre, rungs, pulled, (d_x, d_y))
    parts = [*(rungs[name].part_of for name in look.fitted), *([] if scored is None else [scored])]
    result = Residuals({name: np.empty((2, 2, n)) for name in rungs}, np.empty((2, n)), {}, look.no_pulls())
    by_map = look.no_sums_by_map()

    def place(start: int, norms: dict[str, Array], radii: Array) -> None:
        rows = slice(start, start + radii.shape[1])
        result.radii[:, rows] = radii
        for name, each in norms.items():
            result.rungs[name][:, :, rows] = each

    size = max(64, block_rows(d_x, d_y) // 4)  # smaller than for moments: the last ones should end together
    away = in_chunks(x, y)
    if away is None:
        for start, norms, radii, sums in stream_rows(look, [x, y], size, beside=parts, progress=progress):
            place(start, norms, radii)
            _add_sums(result.pulls, by_map, sums)
    else:
        if progress:
            progress(0, n)
        *found, (pulls, tables) = pass_over(_OverChunk(look, size), away, parts, merge=_merged_sums)
        for blocks_of_rows in found:
            for start, norms, radii in blocks_of_rows:
                place(start, norms, radii)
        result.pulls.update(pulls)
        by_map.update(tables)
        if progress:
            progress(n, n)
    for name, table in by_map.items():
        means = table[..., 0] / np.maximum(table[..., 1], 1)
        result.spread_by_fit[name] = means.var(axis=2, ddof=1).mean(axis=1)
    return result


Told = list[tuple[str, int, list[Array]]]  # of a rung and a part of the rows, what is summed over blocks


class _ResidualsOfRows:
    """The residual norms of a block of rows under every map, and what is summed of them."""

    def __init__(
        self, centre: Centre, rungs: dict[str, FittedRung], pulled: Sequence[str], widths: tuple[int, int]
    ) -> None:
        self._centre, self._pulled, self._widths, self._names = centre, tuple(pulled), widths, tuple(rungs)
        self.fitted = [name for name in rungs if name != "identity"]
        self._whole = {name: PreparedMaps(rungs[name].whole, centre) for name in self.fitted}
        self._without = {
            name: [[PreparedMaps(maps, centre) for maps in each] for each in rungs[name].without]
            for name in self.fitted
        }

    def no_pulls(self) -> dict[str, Pulls]:
        """The pulls of no rows."""
        (d_x, d_y), dtype = self._widths, self._centre.dtype
        counts = {name: len(self._without[name]) for name in self._pulled}
        return {
            name: Pulls(
                (np.zeros((count, d_x, d_y), dtype), np.zeros((count, d_y, d_x), dtype)),
                (np.zeros((count, d_y)), np.zeros((count, d_x))),
            )
            for name, count in counts.items()
        }

    def no_sums_by_map(self) -> dict[str, Array]:
        """For rungs with several maps per part, no summed errors and no rows: [direction, part, map]."""
        several = {name: parts for name, parts in self._without.items() if len(parts[0]) > 1}
        return {name: np.zeros((2, len(parts), len(parts[0]), 2)) for name, parts in several.items()}

    def __call__(self, start: int, x: Array, y: Array, *beside: Array) -> tuple[int, dict[str, Array], Array, Told]:
        centre, count = self._centre, len(self.fitted)
        part_of, scored = dict(zip(self.fitted, beside, strict=False)), beside[count] if len(beside) > count else None
        x, y = centre.shift(x, 0), centre.shift(y, 1)
        norms = {name: np.empty((2, 2, len(x))) for name in self._names}
        for name, maps in self._whole.items():
            norms[name][:, 0] = maps.norms(x, y)
        if "identity" in norms:
            norms["identity"][:] = identity_norms(x, y, centre.gap)
        sums: Told = []
        for name in self.fitted:
            here = part_of[name]
            for part in np.unique(here):
                mine = np.flatnonzero(here == part)
                x_part, y_part = x[mine], y[mine]
                told = []
                for maps in self._without[name][part]:
                    errors = maps.errors(x_part, y_part)
                    told.append(np.stack([norms_of(error) for error in errors]))
                norms[name][:, 1, mine] = np.mean(told, axis=0)
                if len(told) > 1:
                    sums.append((name, int(part), [np.sum(told, axis=2), np.full(1, float(len(mine)))]))
                if name in self._pulled:
                    kept = None if scored is None else scored[mine]
                    sums.append((name, int(part), _pulled(x_part, y_part, errors, told[0], kept)))
        return start, norms, np.stack([norms_of(x), norms_of(y)]), sums


class _OverChunk:
    """The residuals of a chunk, block by block: norms as they are, and the sums of all blocks."""

    def __init__(self, look: _ResidualsOfRows, size: int) -> None:
        self._look, self._size = look, size

    def __call__(
        self, start: int, *chunks: Array
    ) -> tuple[list[tuple[int, dict[str, Array], Array]], tuple[dict[str, Pulls], dict[str, Array]]]:
        pulls, by_map, kept = self._look.no_pulls(), self._look.no_sums_by_map(), []
        for rows in blocks(len(chunks[0]), self._size):
            begin, norms, radii, sums = self._look(start + rows.start, *(each[rows] for each in chunks))
            kept.append((begin, norms, radii))
            _add_sums(pulls, by_map, sums)
        return kept, (pulls, by_map)


def _add_sums(pulls: dict[str, Pulls], by_map: dict[str, Array], sums: Told) -> None:
    for name, part, summands in sums:
        if len(summands) == 2:
            by_map[name][:, part, :, 0] += summands[0].T
            by_map[name][:, part, :, 1] += summands[1]
        else:
            for side in range(2):
                pulls[name].products[side][part] += summands[side]
                pulls[name].sums[side][part] += summands[2 + side]


def _merged_sums(
    parts: list[tuple[dict[str, Pulls], dict[str, Array]]],
) -> tuple[dict[str, Pulls], dict[str, Array]]:
    """The sums of several chunks; inputs stay unchanged, because Dask may use them again."""
    all_pulls, tables = zip(*parts, strict=True)

    def summed(name: str, kind: str) -> tuple[Array, Array]:
        source, target = (sum(getattr(each[name], kind)[side] for each in all_pulls) for side in range(2))
        return np.asarray(source), np.asarray(target)

    pulls = {name: Pulls(summed(name, "products"), summed(name, "sums")) for name in all_pulls[0]}
    return pulls, {name: np.asarray(sum(each[name] for each in tables)) for name in tables[0]}


def _pulled(x: Array, y: Array, errors: tuple[Array, Array], norms: Array, kept: Array | None) -> list[Array]:
    """Products and sums of unit residuals, forward and reverse; the residual's sign is true minus mapped."""
    both = []
    for rows, error, norm in ((x, errors[0], norms[0]), (y, errors[1], norms[1])):
        width = y.shape[1] if rows is x else x.shape[1]
        weight = -1.0 / np.maximum(norm, np.finfo(error.dtype).tiny)
        if kept is not None:
            weight = weight * kept
        unit = error[:, :width] * weight[:, None].astype(error.dtype)
        both.append((rows.T @ unit, unit.sum(axis=0, dtype=np.float64)))
    return [both[0][0], both[1][0], both[0][1], both[1][1]]


LEAST_GAP = 0.1  # share of the permutation's error that rigid must remove for the efficiency to be meaningful
BEYOND = 1.005  # prints as more than 100%
_LEAST_TOLD = -10.0  # efficiency below which only that is told


def ica_efficiency(permutation: float, rigid: float, ica: float) -> float | None:
    """ICA efficiency: the share of the gap between signed permutation and rigid that ICA closes without pairs.

    (perm - ica)/(perm - rigid): it may be negative or exceed one, and is undefined where rigid alignment does not
    improve on the permutation.

    Examples
    --------
    >>> from isorep.comparison import ica_efficiency
    >>> round(ica_efficiency(0.197, 0.109, 0.145), 2)  # MAE, Table 1 of Nelson et al. (2026)
    0.59
    """
    gap = permutation - rigid
    return (permutation - ica) / gap if gap > 0 else None


def told_efficiency(permutation: float, rigid: float, ica: float) -> float | None:
    """The efficiency, or None where rigid hardly improves on the permutation, so that it would be a ratio of noise."""
    return ica_efficiency(permutation, rigid, ica) if permutation - rigid >= LEAST_GAP * permutation else None


def efficiency_sentence(efficiency: float) -> str:
    """An efficiency in words; ICA is not a rigid motion, so that it can do better than rigid."""
    if efficiency > BEYOND:
        said = (
            "ICA has a smaller error than rigid, so this is not a share; it scales every component to unit variance, "
            "which can undo stretches that a rigid motion cannot"
        )
    elif efficiency < 0:
        said = "ICA has a larger error than signed permutation and closes none of the gap to rigid"
    else:
        said = "the share of the gap between signed permutation and rigid that ICA closes; pairs only match components"
    return f"ICA efficiency {efficiency_text(efficiency)}: {said}"


def efficiency_text(efficiency: float) -> str:
    """An efficiency in percent; far below zero it says no more than that."""
    return f"{efficiency:.0%}" if efficiency >= _LEAST_TOLD else f"below {_LEAST_TOLD:.0%}"
