r"""Slot identifiability score (SIS, Brady et al. 2023): each inferred slot determines one true slot and no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..errors import InputError
from ..representation import Array
from ..results import Record
from ..settings import check_choice, check_counts, check_seed
from .columns import Pair, as_columns, paired, standardised
from .r2 import linear_fit, plain_kernel_fit
from .splits import KERNEL_ROWS, SHARE, held_out, some

MODELS = {"kernel": plain_kernel_fit, "linear": linear_fit}
_FEWEST = 10  # rows of which a fifth is two: with one alone there is no R²


@dataclass(frozen=True, eq=False)
class SlotIdentifiability(Record):
    """The result of :func:`slot_identifiability`.

    Attributes
    ----------
    value : float
        SIS: the mean of ``on`` minus ``off``, over true slots that vary.
    r2 : (true, inferred) array
        Held-out R² of each true slot from each inferred one; columns that do not vary in the held-out rows are
        ignored.
    matches : tuple of int
        The inferred slot of each true one; -1 where there are too few, or where it does not vary.
    on, off : (true,) arrays
        R² from the matched slot, and the best from another, both at least 0.
    """

    value: float
    r2: Array
    matches: tuple[int, ...]
    on: Array
    off: Array


def slot_identifiability(
    factors: Any,
    latents: Any,
    *,
    slots: int | Sequence[int] | None = None,
    factor_slots: int | Sequence[int] | None = None,
    model: str = "kernel",
    split: str = "last",
    rows: int | None = KERNEL_ROWS,
    groups: Any = None,
    random_state: int = 0,
) -> SlotIdentifiability:
    r"""Slot identifiability score (SIS).

    With :math:`R_{ij}` the held-out R² of true slot i from inferred slot j, at least 0, and slots matched one to one,

    .. math:: \mathrm{SIS}=\frac1K\sum_i\Bigl(R_{ii}-\max_{j\ne i}R_{ij}\Bigr).

    1 if every inferred slot determines its true slot and is uninformative about the others.

    Parameters
    ----------
    factors, latents : (n, K, d) or (n, K d) arrays, data frames, Representations or paths
        True and inferred slots of the same rows.
    slots, factor_slots : int or sequence of int, optional
        Columns of each slot of the latents and of the factors (by default as for the latents), where they are not
        arrays of three axes.
    model : {"kernel", "linear"}
        Kernel ridge regression (Gaussian kernel, penalty 1), or least squares. Columns are standardised first, over the
        rows to learn from and to be judged on, as published.
    split : {"last", "random"}
        Test on the last fifth of the rows, as published, or on a random fifth (of rows or groups).
    rows : int or None
        Largest number of rows to use, at least 10; None for all.
    groups : (n,) array, optional
        Group per row; rows of a group are held out together. Only with a random split.
    random_state : int
        Seed of the split.

    References
    ----------
    .. [1] Brady, J., Zimmermann, R. S., Sharma, Y., Schölkopf, B., von Kügelgen, J., Brendel, W. (2023). Provably
           learning object-centric representations. ICML.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> z = np.random.default_rng(0).normal(size=(500, 2, 2))
    >>> isorep.structure.slot_identifiability(z, np.tanh(z)[:, ::-1]).matches
    (1, 0)
    """
    check_choice("model", model, tuple(MODELS))
    check_choice("split", split, ("last", "random"))
    check_seed(random_state)
    if rows is not None:
        check_counts(rows=(rows, _FEWEST))
    inferred, sizes = _slots(latents, "latents", slots)
    true, true_sizes = _slots(factors, "factors", factor_slots if factor_slots is not None else slots)
    pair = paired(true, inferred)
    labels = pair.group_codes(groups)
    if labels is not None and split == "last":
        raise InputError("rows that belong together can be held out together by split='random' only")
    if pair.n < _FEWEST:
        raise InputError(f"there are {pair.n} rows: at least {_FEWEST} are needed, for R² of a fifth of them")
    held = np.arange(pair.n) >= int((1 - SHARE) * pair.n)
    if split == "random":
        held = held_out(pair.n, labels, np.random.default_rng(random_state))
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    if rows is not None:
        rng = np.random.default_rng(random_state)
        train, test = some(train, round((1 - SHARE) * rows), rng), some(test, max(round(SHARE * rows), 1), rng)
    return measure_slots(pair, (true_sizes, sizes), train, test, model)


def measure_slots(
    pair: Pair, slots: tuple[Sequence[int], Sequence[int]], train: Array, test: Array, model: str = "kernel"
) -> SlotIdentifiability:
    """SIS of concatenated slots; the regression from a slot to all others is solved once."""
    used = np.concatenate([train, test])
    factors, latents = (standardised(each.matrix, each.matrix[used]) for each in (pair.factors, pair.latents))
    true, inferred = (_parts(each) for each in slots)
    r2 = np.zeros((len(true), len(inferred)))
    varies = np.ptp(factors[test], axis=0) > 0
    for j, part in enumerate(inferred):
        predicted = MODELS[model](latents[train][:, part], factors[train])(latents[test][:, part])
        lost = ((factors[test] - predicted) ** 2).sum(axis=0)
        spread = ((factors[test] - factors[test].mean(axis=0)) ** 2).sum(axis=0)
        each = 1 - lost / np.where(varies, spread, 1.0)
        r2[:, j] = [each[own[varies[own]]].mean() if varies[own].any() else 0.0 for own in true]
    positive = np.maximum(r2, 0.0)
    known = np.array([index for index, own in enumerate(true) if varies[own].any()], dtype=int)
    matched, columns = linear_sum_assignment(-positive[known])
    matches = np.full(len(true), -1)
    matches[known[matched]] = columns
    on = np.array([positive[i, j] if j >= 0 else 0.0 for i, j in enumerate(matches)])
    off = np.array([np.delete(positive[i], j).max(initial=0.0) if j >= 0 else 0.0 for i, j in enumerate(matches)])
    value = float((on - off)[known].mean()) if len(known) else 0.0
    return SlotIdentifiability(value, r2, tuple(matches.tolist()), on, off)


def checked_sizes(sizes: Any, width: int, what: str) -> list[int]:
    """How many columns each slot has."""
    whole = int | np.integer
    if isinstance(sizes, whole) and not isinstance(sizes, bool) and sizes > 0:
        if width % int(sizes):
            raise InputError(f"{what} have {width} columns, which slots of {sizes} do not divide")
        return [int(sizes)] * (width // int(sizes))
    listed = list(sizes) if isinstance(sizes, Sequence | np.ndarray) and not isinstance(sizes, str) else []
    if not listed or not all(isinstance(each, whole) and not isinstance(each, bool) and each > 0 for each in listed):
        raise InputError(f"the slots of the {what} are a number of columns, or one per slot, not {sizes!r}")
    if sum(listed) != width:
        raise InputError(f"the slots of the {what} have {sum(listed)} columns, and there are {width}")
    return [int(each) for each in listed]


def _slots(data: Any, what: str, sizes: Any) -> tuple[Any, list[int]]:
    shape: Any = getattr(data, "shape", ())
    if len(shape) == 3:
        array = np.asarray(data.detach().cpu() if hasattr(data, "detach") else data)
        if 0 in shape:
            raise InputError(f"{what} is empty: its shape is {tuple(shape)}")
        return array.reshape(shape[0], -1), [int(shape[2])] * int(shape[1])
    if sizes is None:
        raise InputError(f"{what} has no axis of slots: say how many columns each has (slots=)")
    columns = as_columns(data, what)
    return columns, checked_sizes(sizes, len(columns), what)


def _parts(sizes: Sequence[int]) -> list[Array]:
    ends = np.cumsum(sizes)
    return [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
