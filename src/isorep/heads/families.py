r"""Exponential families of heads: softmax, Bernoulli, Gaussian and contrastive, with their diversity conditions.

All heads here are :math:`p(y|x)\propto h(y)\exp(f(x)^\top t(y))`, with features as natural parameters and sufficient
statistics :math:`t(y)` (Roeder et al. 2021; Eq. 1 of Nelson et al. 2026). Equal distributions give equal
:math:`f(x)^\top(t(y)-t(y'))` for all outcomes of positive probability, so that features are determined up to a linear
map if these differences span the space: if the family is minimal on its support.

=============  ========================  ==========================================  =========================
family         natural parameters        statistics                                  differences span
=============  ========================  ==========================================  =========================
softmax        :math:`Gf+b`, K classes   :math:`t(y)=g(y)`                           rows of :math:`G`, centred
contrastive    :math:`Gf`, sampled sets  :math:`t(y)=g(y)`, y among its set          rows, centred set by set
bernoulli      :math:`Gf+b`, K labels    :math:`t(y)=\sum_k y_kg_k`, all of 0 and 1  rows of :math:`G`
gaussian       means :math:`Gf+b`        :math:`t(y)=\sum_k y_kg_k/\sigma_k^2`       rows of :math:`G`
=============  ========================  ==========================================  =========================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ..errors import InputError
from ..representation import Array, Matrix, rounding_of
from ..rows import equal_rows, read_rows
from ..settings import check_choice
from .inputs import Head, checked_vector, checked_weights
from .spectrum import Spectrum, spectrum


@dataclass(frozen=True)
class Family:
    """A family: its terms, and whether only differences of rows count.

    ``spanning`` are the statistics that have to span the space, ``weighing`` the meaning of weights, ``figure`` and
    ``unit`` what replaces log-odds.
    """

    name: str
    centred: bool
    row: str
    rows: str
    head: str
    spanning: str
    weighing: str
    figure: str = "log-odds"
    unit: str = "nats"


FAMILIES = {
    each.name: each
    for each in (
        Family("softmax", True, "class", "classes", "centred head", "differences of classes", "class frequency"),
        Family(
            "contrastive",
            True,
            "candidate",
            "candidates",
            "centred head",
            "differences of candidates",
            "candidate frequency",
        ),
        Family("bernoulli", False, "label", "labels", "head", "embeddings of labels", "label variance"),
        Family(
            "gaussian",
            False,
            "output",
            "outputs",
            "head",
            "weights of outputs",
            "precision",
            "means",
            "noise standard deviations",
        ),
    )
}


def family_named(name: str) -> Family:
    """The family of that name."""
    check_choice("family", name, tuple(FAMILIES))
    return FAMILIES[name]


@dataclass(frozen=True, eq=False)
class Support:
    """The rows of a head that occur, their weights, and the set of each: rows of different sets are never compared.

    ``shares`` sum to one, or are None. ``sets`` is None where all rows are compared, or none are.
    """

    family: Family
    rows: Array
    shares: Array | None
    sets: Array | None

    @property
    def spare(self) -> int:
        """The number of rows that add no dimension: one per set of compared rows."""
        if not self.family.centred:
            return 0
        return 1 if self.sets is None else int(self.sets.max(initial=-1)) + 1

    @property
    def several(self) -> bool:
        """Whether rows fall into sets that have nothing in common."""
        return self.sets is not None and self.spare > 1

    @property
    def plain(self) -> bool:
        """Whether all rows are compared with each other."""
        return self.family.centred and not self.several

    def of(self, head: Head) -> Head:
        """The rows that occur alone."""
        return head.chosen(self.rows) if len(self.rows) < head.classes else head

    def distinct(self, values: Matrix) -> int:
        """How many rows differ: within their sets, or from zero and each other."""
        labels = equal_rows(values)
        if self.several and self.sets is not None:
            return len(np.unique(np.stack([labels, self.sets]), axis=1).T)
        if self.family.centred:
            return int(labels.max()) + 1
        return len(np.unique(labels[read_rows(values, slice(None)).any(axis=1)]))

    def referred(self, head: Head) -> Head:
        """Rows and biases less the weighted mean of their set, where rows are compared within sets."""
        sets = self.sets
        if not self.several or sets is None:
            return head
        weights = np.ones(head.classes) if self.shares is None else self.shares
        totals = np.bincount(sets, weights)

        def centred(column: Array) -> Array:
            return np.asarray(column - (np.bincount(sets, weights * column) / totals)[sets])

        rows = head.rows()
        made = np.stack([centred(column) for column in rows.T], axis=1)
        # Rounding of stored numbers with a large offset is not a direction.
        rounding = rounding_of(head.values)
        made[:, np.abs(made).max(axis=0) <= rounding * np.abs(rows).max(axis=0)] = 0.0
        bias = None if head.bias is None else centred(head.bias)
        return replace(head, values=_Rows(made, rounding), bias=bias)

    def spectrum(self, head: Head, weighted: bool) -> Spectrum:
        """Of the rows that occur: about their mean where all are compared, otherwise about zero."""
        shares = self.shares if weighted else None
        if self.plain:
            return spectrum(head.values, head.name, weights=shares)
        # Rows and their negatives have the mean zero, and the same second moments.
        rows = read_rows(head.values, slice(None))
        mirrored = _Rows(np.concatenate([rows, -rows]), rounding_of(head.values))
        doubled = None if shares is None else np.concatenate([shares, shares]) / 2
        found = spectrum(mirrored, head.name, weights=doubled)
        return replace(found, mean=np.zeros(found.width))


class _Rows:
    """Rows in memory that are as coarse as others were stored."""

    def __init__(self, values: Array, rounding: float) -> None:
        self._values = values
        self.rounding = rounding
        self.dtype = values.dtype
        self.shape = values.shape

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray(self._values[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._values, dtype=dtype)


def support_of(family: Family, n: int, weights: Any, sets: Any) -> Support:
    """Which of ``n`` rows occur, with what weight, and with which others they are compared."""
    if sets is not None and not family.centred:
        raise InputError(f"sets say which {family.rows} are compared, and a {family.name} head compares none")
    shares = _label_variances(weights, n) if family.name == "bernoulli" else checked_weights(weights, n, family.row)
    occurs = np.ones(n, dtype=bool) if shares is None else shares > 0
    drawn = None if sets is None else _components(sets, occurs)
    if drawn is not None:
        occurs = drawn >= 0
    rows = np.flatnonzero(occurs)
    if not len(rows):
        raise InputError(f"no {family.row} is left: each has the weight 0 or lies in no set")
    if shares is not None:
        shares = shares[rows] / shares[rows].sum()
    return Support(family, rows, shares, None if drawn is None else drawn[rows])


def _label_variances(weights: Any, n: int) -> Array | None:
    """The variance p(1 - p) of each label, as shares; a label that always or never occurs has none."""
    frequencies = checked_vector(weights, n, "weights")
    if frequencies is None:
        return None
    if ((frequencies < 0) | (frequencies > 1)).any():
        wrong = int(np.argmax((frequencies < 0) | (frequencies > 1)))
        raise InputError(f"the weight of label {wrong} is {frequencies[wrong]:g}: give how often it is 1, from 0 to 1")
    variances = frequencies * (1 - frequencies)
    if not variances.any():
        raise InputError("every label always or never occurs: no weight lies between 0 and 1")
    return np.asarray(variances / variances.sum())


def _components(sets: Any, occurs: Array) -> Array:
    """Candidates that sets link, directly or through others, share a number; -1 lies in no set of two."""
    n = len(occurs)
    try:
        listed = [np.asarray(each) for each in sets]
    except TypeError:
        raise InputError(f"sets are lists of places of candidates, not {type(sets).__name__}") from None
    for index, each in enumerate(listed):
        if each.ndim != 1 or each.dtype.kind not in "iu":
            raise InputError(
                f"set {index} is not a list of whole numbers: give the places of its candidates, from 0 on"
            )
        if len(each) and (each.min() < 0 or each.max() >= n):
            raise InputError(f"set {index} names candidate {each.min() if each.min() < 0 else each.max()} of {n}")
    kept = [each[occurs[each]] for each in listed]
    first = np.concatenate([np.repeat(each[:1], len(each)) for each in kept] or [np.zeros(0, int)]).astype(np.int64)
    other = np.concatenate([*kept, np.zeros(0, int)]).astype(np.int64)
    _, labels = connected_components(coo_matrix((np.ones(len(first)), (first, other)), shape=(n, n)), directed=False)
    linked = np.bincount(labels)[labels] > 1
    if not linked.any():
        raise InputError("no set holds two candidates that occur, so that none are compared")
    found: Array = np.full(n, -1)
    found[linked] = np.unique(labels[linked], return_inverse=True)[1]
    return found
