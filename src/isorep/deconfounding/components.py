"""Components: association with label and batch, recurrence in refits, and which ones a filter would drop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.metrics import mutual_info_score

from ..ica import ICA, Stability, stability
from ..ica.whitening import quietly
from ..representation import Array
from .inputs import Column, Inputs, Request

_BINS = 10
_COLUMNS = 32
_BATCHES_TO_DRAW = 10  # from this number on, refits resample whole batches, otherwise rows


@dataclass(frozen=True)
class Example:
    """A row at one end of a component."""

    row: int
    id: str | None
    value: float


@dataclass(frozen=True)
class Component:
    """One independent component: its association with label and batches, and the rows at its ends.

    Attributes
    ----------
    label_r2, label_information : float
        Share of its variance that the label explains, corrected for chance; mutual information with it in nats.
    batch_r2, batch_information : dict of str to float
        The same for each batch column.
    recurrence : float or None
        Median absolute correlation with its match over refits.
    recurs : bool or None
        Whether that exceeds 0.9 in at least nine of ten refits.
    gaussian : bool
        Whether it is indistinguishable from Gaussian, so that it need not recur.
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


def final_components(inputs: Inputs, asked: Request, dimensions: int) -> tuple[ICA, tuple[Component, ...]]:
    """PCA+ICA fitted on all rows that transforms may use, and its components on all rows."""
    fitted = inputs.values if asked.elsewhere is None else asked.elsewhere
    ica = ICA(n_components=dimensions, random_state=0)
    again: Stability | None = None
    if asked.n_restarts == 0:
        quietly(ica, fitted)
    else:
        by_batch = asked.elsewhere is None and inputs.batch.count >= _BATCHES_TO_DRAW
        groups = inputs.batch.codes if by_batch else None
        again = stability(fitted, asked.n_restarts, ica=ica, groups=groups, random_state=asked.random_state)
        ica = again.ica
    sources = np.asarray(ica.transform(inputs.values))
    ica = widened(ica, inputs)
    label_r2, batch_r2, driven = associations(sources, inputs.label, inputs.batches, asked.batch_limit)
    components = []
    for index, column in enumerate(sources.T):
        binned = np.searchsorted(np.quantile(column, np.arange(1, _BINS) / _BINS), column, "right")
        order = np.argsort(column, kind="stable")
        highest, lowest = (_examples(rows[: asked.n_examples], column, inputs) for rows in (order[::-1], order))
        components.append(
            Component(
                number=index,
                label_r2=float(label_r2[index]),
                label_information=information(binned, inputs.label),
                batch_r2={each.title: float(batch_r2[row, index]) for row, each in enumerate(inputs.batches)},
                batch_information={each.title: information(binned, each) for each in inputs.batches},
                recurrence=None if again is None else float(again.scores[index]),
                recurs=None if again is None else bool(again.comes_back[index]),
                gaussian=bool(ica.gaussian_[index]),
                batch_driven=bool(driven[index]),
                highest=highest,
                lowest=lowest,
            )
        )
    return ica, tuple(components)


def associations(
    sources: Array, label: Column, batches: tuple[Column, ...], batch_limit: float, rows: Array | None = None
) -> tuple[Array, Array, Array]:
    """R² with the label, R² with each batch column (one row each), and which components are batch-driven.

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
    shares = np.zeros(k)
    for start in range(0, k, _COLUMNS):
        some = values[:, start : start + _COLUMNS]
        block = np.asarray(some if rows is None else some[rows], np.float64)
        block = block - block.mean(axis=0)
        between = (np.asarray(members @ block) ** 2 / sizes).sum(axis=0)
        variance = np.einsum("ij,ij->j", block, block)
        shares[start : start + _COLUMNS] = np.divide(between, variance, out=np.zeros_like(between), where=variance > 0)
    return np.asarray(np.clip(1 - (1 - shares) * (n - 1) / (n - count), 0, 1))


def information(binned: Array, column: Column) -> float:
    r"""Mutual information of a binned component with a column, in nats, less the bias of counting.

    The plug-in estimate is too large by about :math:`(b-1)(c-1)/2n` for b bins and c classes (Miller & Madow 1955).
    """
    bias = (len(np.unique(binned)) - 1) * (column.count - 1) / (2 * len(binned))
    return max(float(mutual_info_score(binned, column.codes)) - bias, 0.0)


def _examples(rows: Array, values: Array, inputs: Inputs) -> tuple[Example, ...]:
    ids = inputs.ids
    return tuple(
        Example(int(inputs.rows[row]), None if ids is None else str(ids[row]), float(values[row])) for row in rows
    )


def widened(ica: ICA, inputs: Inputs) -> ICA:
    """A fit to the columns that are used as one of all columns of the data: those left out have no weight.

    It takes rows as the data hold them, and knows the names of all features.
    """
    kept, k = np.flatnonzero(inputs.kept), len(ica.components_)
    width = len(inputs.kept)
    components, mixing, mean = np.zeros((k, width)), np.zeros((width, k)), inputs.means.copy()
    components[:, kept], mixing[kept], mean[kept] = ica.components_, ica.mixing_, ica.mean_
    ica.components_, ica.mixing_, ica.mean_, ica.n_features_in_ = components, mixing, mean, width
    ica.left_out_columns_ = kept[ica.left_out_columns_]
    if inputs.features is not None:
        ica.feature_names_in_ = np.array(inputs.features, dtype=object)
    if inputs.place is not None:
        whole = inputs.place == "X" or "/" in inputs.place
        ica.matrix_in_ = inputs.place if whole else f"obsm/{inputs.place}"
    return ica
