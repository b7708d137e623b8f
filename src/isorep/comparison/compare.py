"""``isorep.compare``: from two representations to a verdict."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..ica import ICA
from ..moments import require_memory
from ..pairs import hold_out, open_pair
from ..resampling import common_codes, equal_rows
from ..rows import Progress, no_progress
from ..settings import check_choice, check_counts, check_seed, check_tolerance
from .caveats import collect_caveats, too_few_rows
from .diameter import SEARCHES
from .fits import PARTS, RUNGS, checked_rungs
from .result import Comparison
from .verdict import TOLERANCE
from .views import qualified, views_of
from .work import Work


def compare(
    source: Any,
    target: Any,
    *,
    rungs: Sequence[str] = RUNGS,
    folds: int = 5,
    groups: Any = None,
    within: Any = None,
    join: bool = False,
    n_null: int = 100,
    n_boot: int = 1000,
    tolerance: float = TOLERANCE,
    diameter: str = "auto",
    worst_case: bool | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    r"""Are two representations of the same examples the same, and up to what?

    For every group :math:`H` of the ladder the best :math:`h\in H` is fitted from source to target, and the error

    .. math:: \hat\epsilon=\frac{\sum_i\|y_i-h(x_i)\|}{\sum_i\|y_i-\bar y\|}

    is reported held out (each row by maps fitted without its fold) and in sample: 1 is no better than predicting the
    mean. Its interval accounts for the rows that are scored and for the maps that other rows would give; beside it
    stands the error that shuffled pairings give. All fits come from one pass over the rows; one more gives every
    residual. For independent components each side is unmixed on rows that the other side's ICA has not seen.

    Parameters
    ----------
    source, target : (n, d) arrays, Representations or paths
        Paired rows: the same examples in the same order (ids are compared where both have them).
    rungs : sequence of str
        Which of ``identity``, ``signed_permutation``, ``rigid``, ``linear``, ``ica``.
    folds : int
        Number of folds.
    groups : (n,) array, optional
        Rows that belong together (tokens of a document, wells of a plate): they are kept in one fold, left out
        together for intervals, and shuffled as wholes. With ``join`` one label per row of the source as given. By
        default rows that are equal on either side belong together.
    within : (n,) array, optional
        Classes of rows: pairings are shuffled inside classes only, so that what the classes alone explain is chance.
    join : bool
        Align by row id instead of refusing another order or other rows.
    n_null : int
        Number of shuffled pairings; 0 switches the null and the verdict off.
    n_boot : int
        0 switches intervals off. They come from a jackknife over blocks of rows, which draws nothing.
    tolerance : float
        In mean distances to the mean: how close to the best rung a smaller one must come.
    diameter : {"auto", "exact", "bound"}
        Whether to search for the exact diameter, the unit of published tables; see :func:`isorep.diameter`.
    worst_case : bool, optional
        Whether to bracket the largest error from both sides; see :func:`isorep.worst_case`. By default if it is short.
    random_state : int
        Seed of the folds, the null, the blocks and the rows that ICA samples.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(400, 4))
    >>> Q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    >>> isorep.compare(X, 2 * X @ Q + 1).verdict.rung
    'rigid'
    """
    names = checked_rungs(rungs)
    check_counts(folds=(folds, 2), n_null=(n_null, 0), n_boot=(n_boot, 0))
    check_choice("worst_case", worst_case, (None, True, False))
    check_choice("diameter", diameter, SEARCHES)
    check_tolerance(tolerance)
    check_seed(random_state)
    report = progress or no_progress
    pair, match, labels = open_pair(source, target, ("source", "target"), groups, join)
    classes = common_codes(within, pair.given, match.source_rows, "within")
    if pair.n < 3:
        raise InputError(f"{' and '.join(pair.names)} have {pair.n} rows in common: at least 3 are needed")
    require_memory(pair.x.shape[1], pair.y.shape[1], folds)

    seeds = np.random.SeedSequence(random_state).spawn(4)
    for_folds, for_ica, _, for_blocks = (np.random.default_rng(seed) for seed in seeds)
    codes = equal_rows(pair.x), equal_rows(pair.y)
    units, fold_of, repeats = hold_out(codes, labels, folds, classes, for_folds)
    if "ica" in names and units is not None and int(units.max()) + 1 < PARTS:
        names = [name for name in names if name != "ica"]
    work = Work(pair, fold_of, folds, units, names, report, within=classes, scored=repeats.scored)
    work.measure()
    if "ica" in names:
        work.unmix(ICA(random_state=random_state), for_ica)
    work.fit()
    work.evaluate(intervals=n_boot > 0)
    diameters = work.diameters(diameter)
    null = work.null(n_null, seeds[2])
    forward, reverse = work.directions(diameters, null, n_boot > 0, for_blocks, tolerance)
    bracket = work.worst_case(diameters, random_state) if work.wants_worst_case(worst_case) else None
    result = Comparison(
        forward=forward,
        reverse=reverse,
        source=work.side(0),
        target=work.side(1),
        settings={
            "rungs": list(names),
            "folds": int(folds),
            "groups": None if labels is None else int(labels.max()) + 1,
            "within": None if classes is None else int(classes.max()) + 1,
            "join": bool(join),
            "n_null": int(n_null),
            "n_boot": int(n_boot),
            "tolerance": float(tolerance),
            "diameter": diameter,
            "random_state": int(random_state),
            "rows_used": pair.n,
            "rows_scored": pair.n if repeats.scored is None else int(repeats.scored.sum()),
            "rows_dropped": [match.dropped_from_source, match.dropped_from_target],
        },
        figures=work.figures(forward, random_state),
        worst_case=bracket,
    )
    if n_null and "linear" in names:
        views = views_of(work, result, tolerance, random_state)
        result = replace(
            result,
            views=views,
            forward=replace(forward, verdict=qualified(forward.verdict, views)),
            reverse=replace(reverse, verdict=qualified(reverse.verdict, views, reverse=True)),
        )
    caveats = collect_caveats(result, work, match, repeats, "ica" in checked_rungs(rungs))
    if too_few_rows(pair.n, max(pair.x.shape[1], pair.y.shape[1])):
        warnings.warn(caveats[0], stacklevel=2)
    return replace(result, caveats=tuple(caveats))
