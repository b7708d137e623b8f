"""``isorep.compare``: from two representations to a verdict."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..alignment.linear import resolve_source
from ..errors import InputError
from ..ica import ICA
from ..moments import fold_moments, leave_one_out, merged, require_memory
from ..representation import Array, Matrix, Representation, RowMatch, as_representation, match_rows
from ..rows import Progress, no_progress, select
from ..storage import read
from .caveats import collect_caveats
from .diameters import SEARCHES, Diameter, diameter
from .folds import assign_folds, group_codes
from .null import NullDraws, draw_null
from .residuals import Centre, FittedRung, residual_pass
from .result import Comparison, Direction, Null, Rung, Side
from .rungs import RUNGS, TrainingSet, UnmixedSide, fit_all, unmix
from .statistics import bootstrap, ica_efficiency, summarise
from .verdict import judge


def compare(
    source: Any,
    target: Any,
    *,
    rungs: Sequence[str] = RUNGS,
    folds: int = 5,
    groups: Any = None,
    join: bool = False,
    n_null: int = 20,
    n_boot: int = 1000,
    tolerance: float = 0.01,
    diameter: str = "auto",
    random_state: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    r"""Are two representations of the same examples the same, and up to what?

    For every group :math:`H` of the ladder the best :math:`h\in H` is fitted from source to target, and the error

    .. math:: \hat\epsilon=\frac1n\sum_i\|y_i-h(x_i)\|\,/\,\Delta(Y)

    is reported held out (each row by maps fitted without its fold) and in sample, with a bootstrap interval and the
    error that shuffled pairings give. All fits come from one pass over the rows; one more gives every residual.

    Parameters
    ----------
    source, target : (n, d) arrays, Representations or paths
        Paired rows: the same examples in the same order (ids are compared where both have them).
    rungs : sequence of str
        Which of ``identity``, ``signed_permutation``, ``rigid``, ``linear``, ``ica``.
    folds : int
        Number of folds.
    groups : (n,) array, optional
        Rows that belong together (tokens of a document, wells of a plate): they are kept in one fold, resampled
        together, and shuffled across each other. With ``join`` one label a row of the source as given.
    join : bool
        Align by row id instead of refusing another order or other rows.
    n_null : int
        Number of shuffled pairings; 0 switches the null and the verdict off.
    n_boot : int
        Number of bootstrap draws; 0 switches intervals off.
    tolerance : float
        In diameters: how close to the linear rung a smaller one must come.
    diameter : {"auto", "exact", "bound"}
        Whether to search for the exact diameter; see :func:`isorep.diameter`.
    random_state : int
        Seed of the folds, the null, the bootstrap and the rows that ICA samples.
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
    names = _checked_rungs(rungs)
    _check_settings(folds, n_null, n_boot, tolerance, diameter, random_state)
    report = progress or no_progress
    a, b = _loaded(source, "source"), _loaded(target, "target")
    if a.name == b.name:
        a, b = replace(a, name=f"{a.name} (source)"), replace(b, name=f"{b.name} (target)")
    match = match_rows(a, b, join=join)
    labels = group_codes(groups, len(a))
    if labels is not None and match.source_rows is not None:
        labels = group_codes(labels[match.source_rows], len(match.source_rows))
    pair = Pair(a, b, match)
    if pair.n < 3:
        raise InputError(f"{a.name} and {b.name} have {pair.n} rows in common: at least 3 are needed")

    require_memory(pair.x.shape[1], pair.y.shape[1], folds)

    seeds = np.random.SeedSequence(random_state).spawn(4)
    for_folds, for_ica, for_null, for_boot = (np.random.default_rng(seed) for seed in seeds)
    fold_of = assign_folds(pair.n, folds, labels, for_folds)
    work = _Work(pair, fold_of, folds, labels, names, report)
    work.measure()
    if "ica" in names:
        work.unmix(ICA(random_state=random_state), for_ica)
    work.fit()
    work.evaluate()
    diameters = work.diameters(diameter)
    null = work.null(n_null, for_null)
    directions = work.directions(diameters, null, n_boot, for_boot, tolerance)
    result = Comparison(
        forward=directions[0],
        reverse=directions[1],
        source=work.side(0),
        target=work.side(1),
        settings={
            "rungs": list(names),
            "folds": int(folds),
            "groups": None if labels is None else int(labels.max()) + 1,
            "join": bool(join),
            "n_null": int(n_null),
            "n_boot": int(n_boot),
            "tolerance": float(tolerance),
            "diameter": diameter,
            "random_state": int(random_state),
            "rows_used": pair.n,
            "rows_dropped": [match.dropped_from_source, match.dropped_from_target],
        },
    )
    caveats = collect_caveats(result, match, labels, work.unmixed, work.took_second_pass)
    if pair.n < 5 * max(pair.x.shape[1], pair.y.shape[1]):
        warnings.warn(caveats[0], stacklevel=2)
    return replace(result, caveats=tuple(caveats))


class Pair:
    """Two representations reduced to their common rows."""

    def __init__(self, source: Representation, target: Representation, match: RowMatch) -> None:
        self.x: Matrix = select(source.values, match.source_rows)
        self.y: Matrix = select(target.values, match.target_rows)
        self.names = (source.name or "source", target.name or "target")
        self.n = int(self.x.shape[0])


class _Work:
    """The stages of one comparison, in order: each leaves what the next ones need."""

    def __init__(
        self,
        pair: Pair,
        fold_of: Array,
        n_folds: int,
        labels: Array | None,
        names: Sequence[str],
        report: Progress,
    ) -> None:
        self.pair, self.fold_of, self.n_folds, self.labels = pair, fold_of, n_folds, labels
        self.names, self.report = names, report
        self.unmixed: tuple[UnmixedSide, UnmixedSide] | None = None

    def measure(self) -> None:
        """One pass: the moments of every fold; a second only for an ill-conditioned side."""
        x, y = self.pair.x, self.pair.y
        self.folds = fold_moments(
            x, y, self.fold_of, self.n_folds, names=self.pair.names, progress=self._stage("moments")
        )
        self.total = merged(self.folds)
        for mean, sums, name in (
            (self.total.source_mean, self.total.xx, self.pair.names[0]),
            (self.total.target_mean, self.total.yy, self.pair.names[1]),
        ):
            if not np.trace(sums) > (np.finfo(float).eps * np.linalg.norm(mean)) ** 2 * self.total.n:
                raise InputError(f"all rows of {name} are identical: there is nothing to align and no diameter")
        forward = resolve_source(self.total, x, y, self.fold_of, self.n_folds)
        reverse = resolve_source(self.total.swapped(), y, x, self.fold_of, self.n_folds)
        self.factors, self.second = (forward[0], reverse[0]), (forward[1], reverse[1])
        work = np.float32 if max(x.dtype.itemsize, y.dtype.itemsize) <= 4 else np.float64
        self.centre = Centre(self.total.source_mean, self.total.target_mean, work)

    @property
    def took_second_pass(self) -> tuple[bool, bool]:
        """Which sides were too ill-conditioned for plain normal equations."""
        return self.second[0] is not None, self.second[1] is not None

    def unmix(self, template: ICA, rng: np.random.Generator) -> None:
        """ICA of each side, on all rows and without each fold."""
        done, of = 0, 2 * (self.n_folds + 1)

        def step() -> None:
            nonlocal done
            done += 1
            self.report("independent components", done, of)

        sides = [unmix(each, self.fold_of, self.n_folds, template, rng, step) for each in (self.pair.x, self.pair.y)]
        self.unmixed = (sides[0], sides[1])

    def fit(self) -> None:
        """Every rung on all rows and without each fold, from moments."""
        without = leave_one_out(self.folds)
        seconds = [None if each is None else [merged(each.folds), *leave_one_out(each.folds)] for each in self.second]
        self.training = []
        for place, moments in enumerate([self.total, *without]):
            parts = [
                None if each is None or ready is None else (each, ready[place])
                for each, ready in zip(self.second, seconds, strict=True)
            ]
            icas = None
            if self.unmixed is not None:
                source, target = ([side.whole, *side.without][place] for side in self.unmixed)
                icas = (source, target)
            self.training.append(
                TrainingSet(moments, (self.pair.x.dtype, self.pair.y.dtype), (parts[0], parts[1]), icas)
            )
        fitted = fit_all(self.names, self.training, self._stage("fits"))
        self.fitted = {name: FittedRung(fitted[0][name], [each[name] for each in fitted[1:]]) for name in self.names}

    def evaluate(self) -> None:
        """One more pass: the residuals of every rung, in both directions."""
        self.residuals = residual_pass(
            self.pair.x, self.pair.y, self.fold_of, self.centre, self.fitted, self._stage("residuals")
        )

    def diameters(self, search: str) -> tuple[Diameter, Diameter]:
        """The diameters of source and target."""
        found = [diameter(each, search=search, progress=self._stage("diameter")) for each in (self.pair.x, self.pair.y)]
        return found[0], found[1]

    def null(self, n_null: int, rng: np.random.Generator) -> NullDraws | None:
        """Held-out errors under shuffled pairings."""
        if n_null == 0:
            return None
        return draw_null(
            self.pair.x,
            self.pair.y,
            self.fold_of,
            self.labels,
            self.folds,
            self.training[1:],
            self.centre,
            self.residuals.radii,
            self.names,
            n_null,
            rng,
            self._stage("null"),
        )

    def directions(
        self,
        diameters: tuple[Diameter, Diameter],
        null: NullDraws | None,
        n_boot: int,
        rng: np.random.Generator,
        tolerance: float,
    ) -> list[Direction]:
        """Residuals into records, source onto target and the reverse."""
        result = []
        for place, draws in enumerate((null.forward, null.reverse) if null else (None, None)):
            source, target = self.pair.names if place == 0 else self.pair.names[::-1]
            size = diameters[1 - place]
            rungs = self._rungs(place, size.value, draws, n_boot, rng)
            widths = (self.pair.x.shape[1], self.pair.y.shape[1])
            narrower_target = widths[place] > widths[1 - place]
            result.append(
                Direction(
                    source=source,
                    target=target,
                    rungs=rungs,
                    diameter=size,
                    baseline=float(self.residuals.radii[1 - place].mean() / size.value),
                    ica_efficiency=_efficiency(rungs, "held_out", narrower_target),
                    ica_efficiency_in_sample=_efficiency(rungs, "in_sample", narrower_target),
                    verdict=judge(rungs, tolerance, source, target),
                )
            )
        return result

    def _rungs(
        self,
        place: int,
        unit: float,
        draws: dict[str, Array] | None,
        n_boot: int,
        rng: np.random.Generator,
    ) -> dict[str, Rung]:
        residuals = {name: each[place] for name, each in self.residuals.rungs.items()}
        scaled = {name: each[1] / unit for name, each in residuals.items()}
        intervals, excess = bootstrap(scaled, "linear", self.labels, n_boot, rng) if n_boot else ({}, {})
        return {
            name: Rung(
                name=name,
                held_out=(held_out := summarise(each[1], unit)),
                in_sample=summarise(each[0], unit),
                interval=intervals.get(name),
                excess=excess.get(name),
                null=None if draws is None else _null(draws[name] / unit, held_out.mean),
                unit=unit,
            )
            for name, each in residuals.items()
        }

    def side(self, place: int) -> Side:
        """The facts about one representation."""
        values = (self.pair.x, self.pair.y)[place]
        moments = self.total if place == 0 else self.total.swapped()
        factor = self.factors[place]
        return Side(
            name=self.pair.names[place],
            rows=self.pair.n,
            columns=int(values.shape[1]),
            dtype=str(values.dtype),
            rank=factor.rank,
            condition=factor.condition,
            constant_columns=int(factor.constant.sum()),
            rms_radius=float(np.sqrt(np.trace(moments.xx) / moments.n)),
        )

    def _stage(self, name: str) -> Any:
        return lambda done, total: self.report(name, done, total)


def _efficiency(rungs: dict[str, Rung], which: str, narrower_target: bool) -> float | None:
    """None where a rung is missing, and where ICA drops sources that the padded rigid map carries."""
    if narrower_target or not {"signed_permutation", "rigid", "ica"} <= set(rungs):
        return None
    errors = [getattr(rungs[name], which).mean for name in ("signed_permutation", "rigid", "ica")]
    return ica_efficiency(*errors)


def _null(draws: Array, observed: float) -> Null:
    low, high = np.quantile(draws, 0.05, method="lower"), np.quantile(draws, 0.95, method="higher")
    p_value = (1 + int((draws <= observed).sum())) / (1 + len(draws))
    return Null(float(draws.mean()), float(low), float(high), p_value, len(draws))


def _loaded(data: Any, name: str) -> Representation:
    return read(data) if isinstance(data, str | Path) else as_representation(data, name)


def _checked_rungs(rungs: Sequence[str]) -> list[str]:
    wanted = [rungs] if isinstance(rungs, str) else list(rungs)
    unknown = [name for name in wanted if name not in RUNGS]
    if unknown or not wanted:
        raise InputError(f"rungs {', '.join(map(str, unknown)) or 'is empty'}: choose from {', '.join(RUNGS)}")
    return [name for name in RUNGS if name in wanted]


def _check_settings(folds: int, n_null: int, n_boot: int, tolerance: float, diameter: str, random_state: int) -> None:
    for name, value, least in (("folds", folds, 2), ("n_null", n_null, 0), ("n_boot", n_boot, 0)):
        if not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} is {value!r} and must be a whole number of at least {least}")
    if diameter not in SEARCHES:
        raise InputError(f"diameter is {diameter!r}; known are {', '.join(SEARCHES)}")
    if not tolerance >= 0:
        raise InputError(f"tolerance is {tolerance!r} and must not be negative")
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise InputError(f"random_state is {random_state!r} and must be a whole number from 0 on")
