"""Regions: held-out cosine and recall by label, and the labels on which a map is significantly worse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..representation import Array

_LEAST = 5  # rows, or groups of rows, of a label that is tested
_LEVEL = 0.05


@dataclass(frozen=True)
class Region:
    """One label on the test fold.

    ``cosine`` is the mean cosine between translated and native vectors of its rows, ``others`` that of all other rows.
    ``recall`` is recall at the k of the verdict, of the ``queries`` that have the label, None without any. ``p_value``
    is that of Welch's test for a lower cosine, corrected for the number of labels (Holm); None where fewer than five
    rows or groups have the label. ``worse`` is true below 0.05.
    """

    label: str
    rows: int
    cosine: float
    others: float
    queries: int
    recall: float | None
    p_value: float | None
    worse: bool


def regions(
    names: Array, codes: Array, cosines: Array, groups: Array | None, asked: Array, found: Array
) -> tuple[Region, ...]:
    """Every label, those of least cosine first.

    ``codes`` and ``cosines`` are of the test rows, ``asked`` and ``found`` the labels of queries and whether each found
    its own item. Rows of one group count as one.
    """
    tested: dict[int, float] = {}
    rows = {}
    for code in np.unique(codes):
        mine = codes == code
        rows[int(code)] = mine
        here, there = (_by_group(cosines[part], None if groups is None else groups[part]) for part in (mine, ~mine))
        if min(len(here), len(there)) >= _LEAST:
            tested[int(code)] = _welch(here, there)
    corrected = _holm(tested)
    found_by = []
    for code, mine in rows.items():
        here = asked == code
        p = corrected.get(code)
        found_by.append(
            Region(
                label=str(names[code]),
                rows=int(mine.sum()),
                cosine=float(cosines[mine].mean()),
                others=float(cosines[~mine].mean()) if not mine.all() else float("nan"),
                queries=int(here.sum()),
                recall=float(found[here].mean()) if here.any() else None,
                p_value=p,
                worse=p is not None and p < _LEVEL,
            )
        )
    return tuple(sorted(found_by, key=lambda region: (region.cosine, region.label)))


def _by_group(values: Array, groups: Array | None) -> Array:
    """One value per group: its mean."""
    if groups is None:
        return values
    codes = np.unique(groups, return_inverse=True)[1]
    return np.asarray(np.bincount(codes, values) / np.bincount(codes))


def _welch(here: Array, there: Array) -> float:
    """The p-value of Welch's test that the first mean is lower."""
    from scipy.special import stdtr

    parts = here.var(ddof=1) / len(here), there.var(ddof=1) / len(there)
    total, apart = sum(parts), float(here.mean() - there.mean())
    if not total > 0:
        return 0.0 if apart < 0 else 1.0
    freedom = total**2 / (parts[0] ** 2 / (len(here) - 1) + parts[1] ** 2 / (len(there) - 1))
    return float(stdtr(freedom, apart / np.sqrt(total)))


def _holm(p_values: dict[int, float]) -> dict[int, float]:
    """P-values corrected for their number, from the smallest on."""
    corrected, least = {}, 0.0
    for place, (code, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        least = max(least, min((len(p_values) - place) * p, 1.0))
        corrected[code] = least
    return corrected
