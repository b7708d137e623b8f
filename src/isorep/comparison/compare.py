"""``isorep.compare``: from two representations to a verdict."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..moments import require_memory
from ..pairs import hold_out, open_pair
from ..resampling import common_codes, least_training_rows
from ..row_span import spans_of_few
from ..rows import Deadline, Progress, equal_rows, no_progress
from ..settings import MOST_DRAWS, check_choice, check_counts, check_seed, check_tolerance
from ..threads import alone_if_small, many_if_wide, one_blas_thread
from .by_column import require_memory_of_matching
from .caveats import about_size, collect_caveats
from .diameter import SEARCHES, Diameter
from .examples import check_examples, shown_examples
from .fits import PARTS, RUNGS, checked_rungs
from .intervals import interval_ends
from .ladder import (
    Design,
    Ladder,
    bracket,
    chance,
    climb,
    diameters,
    directions,
    figures_of,
    measure,
    side_of,
    wants_worst_case,
    with_components,
)
from .null import DRAWS, FEW_DRAWS, FEWEST_DRAWS, default_draws
from .result import Comparison
from .stages import ICA_SHARE, NULL_SHARE, Beside, Preview, Stopwatch, as_deadline
from .verdict import TOLERANCE
from .views import qualified, views_of


@one_blas_thread  # crews of threads share the work; those of BLAS would fight with them
def compare(
    source: Any,
    target: Any,
    *,
    rungs: Sequence[str] = RUNGS,
    folds: int = 5,
    groups: Any = None,
    within: Any = None,
    join: bool = False,
    examples: Sequence[str | Path] | None = None,
    n_null: int | None = None,
    n_boot: int = 1000,
    tolerance: float = TOLERANCE,
    diameter: str = "auto",
    worst_case: bool | None = None,
    fast: bool = False,
    time_limit: float | Deadline | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
    preview: Preview | None = None,
) -> Comparison:
    r"""Compare two representations of the same examples: are they the same, and up to which transformation?

    For every group :math:`H` of the ladder the best :math:`h\in H` is fitted from source to target, and the error

    .. math:: \hat\epsilon=\frac{\sum_i\|y_i-h(x_i)\|}{\sum_i\|y_i-\bar y\|}

    is reported held out (each row is scored by maps fitted without its fold) and in-sample: 1 is no better than
    predicting the mean. The 95% interval accounts for sampling of the scored rows and of the rows that maps are fitted
    to. The chance level is the error under shuffled pairings. All fits come from one pass over the rows; a second pass
    gives every residual. For independent components, the ICAs of the two sides are fitted to disjoint rows.

    Parameters
    ----------
    source, target : (n, d) arrays, Representations, paths or Dask arrays
        Paired rows: the same examples in the same order (ids are compared where both have them).
    rungs : sequence of str
        Rungs to fit; default: all, ``identity``, ``signed_permutation``, ``rigid``, ``linear``, ``ica``.
    folds : int
        Number of cross-validation folds.
    groups : (n,) array, optional
        Label per row: rows with one label (tokens of a document, wells of a plate) stay in one fold, are left out
        together for intervals, and are shuffled as a block. With ``join``, one label per row of the source as given.
        Default: rows that are equal on either side form a group.
    within : (n,) array, optional
        Class per row: rows are shuffled within classes only, so that chance includes what the classes explain.
    join : bool
        Align by row id instead of refusing another order or other rows.
    examples : sequence of str or Path, optional
        One text, or one path of an image, per row of the source as given: the report shows those of the rows it draws.
    n_null : int, optional
        Number of shuffled pairings; 0 switches the null and the verdict off. Default: 100, or 20 where columns are so
        many that 100 would take long; p-values then come from a fitted tail (Pearson III).
    n_boot : int
        0 switches intervals off. They come from a jackknife over blocks of rows; other values have no effect.
    tolerance : float
        Largest excess over the best rung's error at which a smaller rung still suffices, in mean distances to the mean.
    diameter : {"auto", "exact", "bound"}
        Search for the diameter, the unit of published tables; see :func:`isorep.diameter`.
    worst_case : bool, optional
        Compute lower and upper bounds on the largest error; see :func:`isorep.worst_case`. Default: only when fast.
    fast : bool
        Skip ICA and the worst case, and draw at most 20 shuffled pairings, with p-values from a fitted tail.
    time_limit : float, optional
        Seconds to spend. Moments, fits and residuals are always computed; ICA, the null and the worst case only as far
        as time allows. ``left_out`` lists what was skipped. Results then depend on the machine. A
        :class:`isorep.rows.Deadline` can also be stopped from outside.
    random_state : int
        Seed of the folds, the null, the blocks and the rows that ICA samples.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.
    preview : callable, optional
        Called with the held-out error of every rung but ICA, source onto target, as soon as they are known.

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
    check_counts(folds=(folds, 2), n_null=(DRAWS if n_null is None else n_null, 0, MOST_DRAWS), n_boot=(n_boot, 0))
    check_choice("worst_case", worst_case, (None, True, False))
    check_choice("diameter", diameter, SEARCHES)
    check_tolerance(tolerance)
    check_seed(random_state)
    deadline = as_deadline(time_limit)
    wanted_ica = "ica" in names and not fast
    if fast:
        names = [name for name in names if name != "ica"] or names
        worst_case, diameter = False, "bound" if diameter == "auto" else diameter
    watch = Stopwatch()
    with watch("reading"):
        pair, match, labels = open_pair(source, target, ("source", "target"), groups, join)
        classes = common_codes(within, pair.given, match.source_rows, "within")
        shown = check_examples(examples, pair.given)
        if pair.n < 3:
            raise InputError(f"{' and '.join(pair.names)} have {pair.n} rows in common: at least 3 are needed")
        require_memory(min(pair.n, pair.x.shape[1]), min(pair.n, pair.y.shape[1]), folds)
        if "signed_permutation" in names:
            require_memory_of_matching(pair.x.shape[1], pair.y.shape[1])
        seeds = np.random.SeedSequence(random_state).spawn(4)
        for_folds, for_ica, _, for_blocks = (np.random.default_rng(seed) for seed in seeds)
        codes = equal_rows(pair.x), equal_rows(pair.y)
        units, fold_of, repeats = hold_out(codes, labels, folds, classes, for_folds)
        if "ica" in names and units is not None and int(units.max()) + 1 < PARTS:
            names = [name for name in names if name != "ica"]
        spans = spans_of_few(pair.x, pair.y, pair.names, least_training_rows(fold_of))
        design = Design(pair, fold_of, folds, units, names, progress or no_progress, classes, repeats.scored, spans)
        widths = pair.x.shape[1], pair.y.shape[1]
        matched = "signed_permutation" in names  # of all columns, however few the rows
        draws = default_draws(pair.n, *(widths if matched else design.widths)) if n_null is None else int(n_null)
        draws, tail = min(draws, FEW_DRAWS) if fast else draws, fast or (n_null is None and draws < DRAWS)
    with alone_if_small(pair.n * math.prod(widths)), many_if_wide(max(design.widths)):
        with watch("ladder"):
            ladder = climb(design, measure(design), intervals=n_boot > 0)
            if preview is not None:
                preview(
                    {
                        name: float(design.kept(each[0, 1]).mean() / ladder.unit(0))
                        for name, each in ladder.residuals.rungs.items()
                    }
                )
        with watch("diameter"):
            sizes = diameters(ladder, "bound" if deadline.passed and diameter == "auto" else diameter)
        # The worst case is one thread's work, and fills the gaps that the others leave.
        with Beside(deadline) as beside:
            wanted = wants_worst_case(design, worst_case)
            worst = beside.start(_worst_case, ladder, sizes, random_state, watch) if wanted else None
            with watch("independent components", deadline):
                if "ica" in names:
                    until = deadline.share(ICA_SHARE) if len(names) > 1 else Deadline()
                    ladder = with_components(ladder, random_state, for_ica, until)
            with watch("intervals"):
                ends = interval_ends(ladder, for_blocks) if n_boot else None
            with watch("null"):
                null = chance(ladder, draws, seeds[2], deadline.share(NULL_SHARE))
                missing = draws - (0 if null is None else null.count)
                if missing:
                    few = "" if null is not None else f" (fewer than {min(draws, FEWEST_DRAWS)} could be drawn)"
                    watch.left_out["null"] = f"{missing} of {draws} shuffled pairings{few}"
            forward, reverse = directions(ladder, sizes, null, ends, tolerance, tail=tail)
            certificates = None if worst is None else worst.result()
        with watch("figures"):
            used = match.source_rows
            given = within if within is not None else groups
            named = None if given is None else np.asarray(given)
            figures = figures_of(
                ladder,
                forward,
                random_state,
                named if named is None or used is None else named[used],
                lambda rows: shown_examples(shown, rows if used is None else used[rows]),
            )
        result = Comparison(
            forward=forward,
            reverse=reverse,
            source=side_of(ladder, 0),
            target=side_of(ladder, 1),
            settings={
                "rungs": [name for name in names if name in ladder.fitted],
                "folds": int(folds),
                "groups": None if labels is None else int(labels.max()) + 1,
                "within": None if classes is None else int(classes.max()) + 1,
                "join": bool(join),
                "n_null": 0 if null is None else null.count,
                "n_boot": int(n_boot),
                "tolerance": float(tolerance),
                "diameter": diameter,
                "fast": bool(fast),
                "time_limit": deadline.seconds,
                "stopped": deadline.stopped,
                "random_state": int(random_state),
                "rows_used": pair.n,
                "rows_scored": pair.n if repeats.scored is None else int(repeats.scored.sum()),
                "rows_dropped": [match.dropped_from_source, match.dropped_from_target],
            },
            figures=figures,
            worst_case=certificates,
        )
        if null is not None and "linear" in names:
            with watch("views", deadline):
                deadline.leave()
                views = views_of(ladder, result, tolerance, random_state, deadline)
                result = replace(
                    result,
                    views=views,
                    forward=replace(forward, verdict=qualified(forward.verdict, views)),
                    reverse=replace(reverse, verdict=qualified(reverse.verdict, views, reverse=True)),
                )
    result = replace(result, left_out=watch.told(), seconds=watch.seconds)
    missing_ica = wanted_ica and "ica" not in names
    caveats = collect_caveats(result, ladder, match, repeats, missing_ica)
    few_rows = about_size(pair.n, max(pair.x.shape[1], pair.y.shape[1]), folds)
    if few_rows:
        warnings.warn(few_rows[0], stacklevel=2)
    return replace(result, caveats=tuple(caveats))


def _worst_case(
    until: Deadline, ladder: Ladder, sizes: tuple[Diameter, Diameter], seed: int, watch: Stopwatch
) -> dict[str, Any] | None:
    certificates: list[dict[str, Any]] = []
    with watch("worst case", until):
        until.leave()
        certificates.append(bracket(ladder, sizes, seed, until))
        if not all(certificates[0][name].complete for name in ("rigid", "rigid_with_scale")):
            watch.left_out["worst case"] = "the last steps of the worst case"
    return certificates[0] if certificates else None
