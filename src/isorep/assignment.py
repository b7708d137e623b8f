"""Optimal assignment: which row belongs to which column, so that the chosen entries have the largest sum."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from .representation import Array

_AUCTIONED = 400  # rows from which on prices save more time than they take
_SPREAD = 0.1, 0.9  # shares of the columns that are some row's favourite between which they do, and of the rows
_FIRST_STEP, _LAST_STEP = 1 / 8, 1 / 2000  # of the range of gains, by which bids exceed each other
_FINER = 4.0  # each round of bids than the one before
_MOST_BIDS = 30  # per row: heavy tails and many equal gains may end no auction
_LEFT = 0.02  # share of the rows that may go without a column


def best_assignment(gains: Array) -> tuple[Array, Array]:
    """Rows and columns of the entries of largest sum, no two in one row or column.

    Of hundreds of rows and as many columns, the columns have prices from an auction first: with these subtracted, which
    leaves the optimum what it is, hardly a search for a free column takes more than a step, and 4,096 columns take a
    sixth of the time. Where nearly all want different ones, or the same few, searches are as fast without.
    """
    gains = np.ascontiguousarray(gains, np.float64)  # both go along rows, five times as fast where these lie together
    prices = _prices(gains) if gains.shape[0] == gains.shape[1] >= _AUCTIONED and _spread(gains) else None
    if prices is None:
        return _solver()(-gains)
    costs = prices - gains
    costs -= costs.min(axis=1, keepdims=True)
    return _solver()(costs)


def _spread(gains: Array) -> bool:
    """Whether the favourites of rows and of columns are neither nearly all different nor only a few."""
    shares = (len(np.unique(gains.argmax(axis=axis))) / len(gains) for axis in (0, 1))
    return all(_SPREAD[0] < share < _SPREAD[1] for share in shares)


def _prices(gains: Array) -> Array | None:
    """Prices of columns at which nearly all rows can have what they want most; None where an auction does not end.

    Bertsekas' auction, all rows without a column bidding at once; bids exceed each other by less from round to round.
    """
    count = len(gains)
    least = float(gains.min())
    size = float(gains.max()) - least
    if not (np.isfinite(size) and size > 0):
        return None
    gains = ((gains - least) / size).astype(np.float32)
    prices, step, bids = np.zeros(count, np.float32), _FIRST_STEP, 0
    while True:
        owner, waiting = np.full(count, -1), np.arange(count)
        while len(waiting) > _LEFT * count:
            bids += len(waiting)
            if bids > _MOST_BIDS * count:
                return None
            worth = gains[waiting] - prices
            at = np.arange(len(waiting))
            wanted = worth.argmax(axis=1)
            most = worth[at, wanted]
            worth[at, wanted] = -np.inf
            bid = prices[wanted] + (most - worth.max(axis=1)) + np.float32(step)
            order = np.argsort(bid, kind="stable")
            winner = np.full(count, -1)
            winner[wanted[order]] = order  # the last one is the highest
            sold = np.flatnonzero(winner >= 0)
            won = winner[sold]
            outbid = owner[sold]
            prices[sold], owner[sold] = bid[won], waiting[won]
            waiting = np.concatenate([np.delete(waiting, won), outbid[outbid >= 0]])
        if step <= _LAST_STEP:
            return size * prices.astype(np.float64)
        step /= _FINER


@cache
def _solver() -> Callable[[Array], tuple[Any, Any]]:
    """The ``linear_sum_assignment`` of :mod:`scipy.optimize`, without loading the package: a third of a second.

    Its compiled module stands alone. Where scipy keeps it elsewhere, the package is loaded.
    """
    spec = PathFinder.find_spec("_lsap", [str(Path(scipy.__file__).parent / "optimize")])
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        if hasattr(module, "linear_sum_assignment"):
            return module.linear_sum_assignment  # type: ignore[no-any-return]
    from scipy.optimize import linear_sum_assignment as public

    return public
