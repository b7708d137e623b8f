"""What each component has to do with label and batch, whether it recurs, and which ones a filter would drop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..errors import InputError
from ..ica import ICA, stability
from ..representation import Array
from .inputs import Column, Inputs
from .transforms import quietly

_BINS = 10
_COLUMNS = 32
_BATCHES_TO_DRAW = 10  # from so many on, refits draw whole batches anew, and rows otherwise


@dataclass(frozen=True)
class Example:
    """A row at one end of a component."""

    row: int
    id: str | None
    value: float


@dataclass(frozen=True)
class Component:
    """One independent component: its ties with label and batches, and the rows at its ends.

    Attributes
    ----------
    label_r2, label_information : float
        Share of its variance that the label explains, less what chance would; mutual information with it in nats.
    batch_r2, batch_information : dict of str to float
        The same for each batch column.
    recurrence : float or None
        Median absolute correlation with its match over refits.
    recurs : bool or None
        Whether that exceeds 0.9 in at least nine of ten refits.
    gaussian : bool
        Whether it cannot be told from a Gaussian direction, so that it need not recur.
    batch_driven : bool
        Whether the filter drops it.
    highest, lowest : tuple of Example
    """

    number: int
    label_r2: float
    label_information: float
    batch_r2: dict[str, float]
    batch_information: dict[str, float]
    recurrence: float | None
    recurs: bool | None
    gaussian: bool
    batch_driven: bool
    highest: tuple[Example, ...]
    lowest: tuple[Example, ...]


@dataclass(frozen=True, eq=False)
class FinalModel:
    """PCA+ICA on all rows that transforms may see, with the recurrence of its components where refits were made."""

    ica: ICA
    recurrence: Array | None
    recurs: Array | None


def fit_final(fitted: Array, batch: Array | None, dimensions: int, n_restarts: int, seed: int) -> FinalModel:
    """The model that is kept; ``batch`` holds the batches of its rows, where known."""
    ica = ICA(n_components=dimensions, random_state=0)
    if n_restarts == 0:
        return FinalModel(quietly(ica, fitted), None, None)
    groups = batch if batch is not None and int(batch.max()) + 1 >= _BATCHES_TO_DRAW else None
    found = stability(fitted, n_restarts, ica=ica, groups=groups, random_state=seed)
    return FinalModel(found.ica, found.scores, found.comes_back)


def read_components(model: FinalModel, inputs: Inputs, batch_limit: float, n_examples: int) -> tuple[Component, ...]:
    """All components of the final model on all rows."""
    sources = np.asarray(model.ica.transform(inputs.values))
    label_r2, batch_r2, driven = associations(sources, inputs.label, inputs.batches, batch_limit)
    found = []
    for place in range(sources.shape[1]):
        column = sources[:, place]
        binned = _binned(column)
        highest, lowest = (_examples(rows, column, inputs.ids) for rows in _ends(column, n_examples))
        found.append(
            Component(
                number=place,
                label_r2=float(label_r2[place]),
                label_information=information(binned, inputs.label),
                batch_r2={each.title: float(batch_r2[row, place]) for row, each in enumerate(inputs.batches)},
                batch_information={each.title: information(binned, each) for each in inputs.batches},
                recurrence=None if model.recurrence is None else float(model.recurrence[place]),
                recurs=None if model.recurs is None else bool(model.recurs[place]),
                gaussian=bool(model.ica.gaussian_[place]),
                batch_driven=bool(driven[place]),
                highest=highest,
                lowest=lowest,
            )
        )
    return tuple(found)


def associations(
    sources: Array, label: Column, batches: tuple[Column, ...], batch_limit: float, rows: Array | None = None
) -> tuple[Array, Array, Array]:
    """R² with the label, R² with each batch column (a row each), and which components are batch-driven.

    A component is batch-driven if its largest batch R² is above the limit and above its label R².
    """
    label_r2 = explained(sources, label.codes, rows)
    batch_r2 = np.stack([explained(sources, column.codes, rows) for column in batches])
    largest = batch_r2.max(axis=0)
    return label_r2, batch_r2, (largest > batch_limit) & (largest > label_r2)


def explained(values: Array, codes: Array, rows: Array | None = None) -> Array:
    r"""The share of each column's variance between classes, adjusted: :math:`1-(1-R^2)\frac{n-1}{n-c}`, at least 0.

    Columns are taken a few at a time, so that float64 sums need no copy of the whole.
    """
    codes = codes if rows is None else codes[rows]
    present, codes = np.unique(codes, return_inverse=True)
    n, count, k = len(codes), len(present), values.shape[1]
    if count < 2 or n <= count:
        return np.zeros(k)
    members = sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(count, n))
    sizes = np.bincount(codes)[:, None]
    found = np.zeros(k)
    for start in range(0, k, _COLUMNS):
        some = values[:, start : start + _COLUMNS]
        block = np.asarray(some if rows is None else some[rows], np.float64)
        block = block - block.mean(axis=0)
        between = (np.asarray(members @ block) ** 2 / sizes).sum(axis=0)
        variance = np.einsum("ij,ij->j", block, block)
        found[start : start + _COLUMNS] = np.divide(between, variance, out=np.zeros_like(between), where=variance > 0)
    return np.asarray(np.clip(1 - (1 - found) * (n - 1) / (n - count), 0, 1))


def information(binned: Array, column: Column) -> float:
    r"""Mutual information of a binned component with a column, in nats, less the bias of counting.

    The plug-in estimate is too large by about :math:`(b-1)(c-1)/2n` for b bins and c classes (Miller & Madow 1955).
    """
    n, count = len(binned), column.count
    table = np.bincount(binned * count + column.codes, minlength=_BINS * count).reshape(-1, count) / n
    apart = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    seen = table > 0
    bias = (int((table.sum(axis=1) > 0).sum()) - 1) * (count - 1) / (2 * n)
    return float(max((table[seen] * np.log(table[seen] / apart[seen])).sum() - bias, 0.0))


def check_limit(batch_limit: float) -> None:
    """Refuse a limit that is no share."""
    if isinstance(batch_limit, bool) or not isinstance(batch_limit, float | int) or not 0 <= batch_limit <= 1:
        raise InputError(f"batch_limit is {batch_limit!r} and must be a share from 0 to 1")


def _binned(column: Array) -> Array:
    """A column in ten bins of equal counts."""
    return np.searchsorted(np.quantile(column, np.arange(1, _BINS) / _BINS), column, "right")


def _ends(column: Array, count: int) -> tuple[Array, Array]:
    """The rows of the largest and of the smallest values, the most extreme first."""
    count = min(count, len(column))
    if count == 0:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    low, high = np.argpartition(column, count - 1)[:count], np.argpartition(-column, count - 1)[:count]
    return high[np.argsort(-column[high], kind="stable")], low[np.argsort(column[low], kind="stable")]


def _examples(rows: Array, values: Array, ids: Array | None) -> tuple[Example, ...]:
    return tuple(Example(int(row), None if ids is None else str(ids[row]), float(values[row])) for row in rows)
