"""Factors and latents of the same rows, paired by id or in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..resampling import group_codes
from .columns import Columns, as_columns


def paired(factors: Any, latents: Any, *, discrete_factors: Any = None, discrete_latents: Any = None) -> Pair:
    """Factors and latents of the same rows: joined on ids where both have them, in order otherwise."""
    if _is_slotted(factors) or _is_slotted(latents):
        raise InputError("factors and latents have rows and columns; slots of three axes are for slot_identifiability")
    sources, codes = as_columns(factors, "factors", discrete_factors), as_columns(latents, "latents", discrete_latents)
    said = [*sources.reading, *codes.reading]
    if any(column.text for column in codes) and not any(column.text for column in sources):
        text = next(column.name for column in codes if column.text)
        raise InputError(
            f"latent {text!r} holds text and no factor does: are factors and latents swapped? "
            "score_factors takes (latents, factors), the scores of isorep.structure take (factors, latents)"
        )
    said += _swapped(sources, codes)
    kept: Array | None = None
    if _share_ids(sources.ids, codes.ids):
        sources, codes, kept, dropped = _joined(sources, codes)
        if dropped:
            said.append(f"{dropped} rows were left out, because their ids are not on both sides")
    elif sources.n != codes.n:
        raise InputError(f"{codes.name} has {codes.n} rows and {sources.name} has {sources.n}, with no ids to join by")
    return Pair(sources, codes, tuple(said), kept)


@dataclass(frozen=True, eq=False)
class Pair:
    """Factors and latents of the same rows; ``rows`` are those of the latents as given, where they were joined."""

    factors: Columns
    latents: Columns
    caveats: tuple[str, ...] = ()
    rows: Array | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.factors.n

    def group_codes(self, groups: Any) -> Array | None:
        """Labels of the latents' rows as whole numbers from 0; joined as they were."""
        if groups is not None and self.rows is not None:
            labels = np.asarray(groups)
            groups = labels[self.rows] if labels.ndim == 1 and len(labels) > int(self.rows.max()) else labels
        return group_codes(groups, self.n)

    def take(self, rows: Array) -> Pair:
        """Some rows of both."""
        return Pair(self.factors.take(rows), self.latents.take(rows))

    def shuffled(self, partners: Array) -> Pair:
        """Each row's latents with the factors of another row."""
        return Pair(self.factors.take(partners), self.latents)


def _swapped(factors: Columns, latents: Columns) -> list[str]:
    """A hint where factors look like latents, continuous, and latents like factors: few, or mostly discrete."""
    discrete = sum(column.discrete for column in latents)
    if not discrete or any(column.discrete for column in factors):
        return []
    if 2 * discrete <= len(latents) and len(factors) <= len(latents):
        return []
    return [
        f"all {len(factors)} factors ({factors.name}) are continuous and {discrete} of {len(latents)} latents "
        f"({latents.name}) discrete: make sure that factors and latents are not swapped"
    ]


def _joined(a: Columns, b: Columns) -> tuple[Columns, Columns, Array | None, int]:
    left, right = np.asarray(a.ids), np.asarray(b.ids)
    if left.dtype.kind != right.dtype.kind:
        left, right = left.astype(str), right.astype(str)
    for ids, each in ((left, a), (right, b)):
        if len(np.unique(ids)) < len(ids):
            raise InputError(f"{each.name} has duplicate row ids")
    if len(left) == len(right) and bool(np.all(left == right)):
        return a, b, None, 0
    _, rows, others = np.intersect1d(left, right, assume_unique=True, return_indices=True)
    if len(rows) < 2:
        raise InputError(f"{a.name} and {b.name} share {len(rows)} row ids: at least 2 are needed")
    order = np.argsort(others, kind="stable")  # the latents' order
    dropped = max(len(left), len(right)) - len(rows)
    return a.take(rows[order]), b.take(others[order]), others[order], dropped


def _share_ids(left: Array | None, right: Array | None) -> bool:
    """Whether rows can be joined; an index that only counts names nothing, unless the other one shuffles it."""
    if left is None or right is None:
        return False
    counting = [_counts(left), _counts(right)]
    if not any(counting):
        return True
    return (
        not all(counting) and left.dtype.kind == right.dtype.kind and _counts(np.sort(left)) and _counts(np.sort(right))
    )


def _counts(index: Array) -> bool:
    """Whether an index only counts the rows."""
    return index.dtype.kind in "iu" and bool(np.array_equal(index, np.arange(len(index))))


def _is_slotted(data: Any) -> bool:
    return len(getattr(data, "shape", ())) > 2
