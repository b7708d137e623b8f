"""``isorep.compare_many``: from several representations to one picture of how far they agree."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...groups import shuffled_partners
from ...ica import ICA
from ...moments import merged
from ...representation import Array, rounding_of
from ...resampling import assign_folds
from ...rows import Progress, no_progress, select
from ..diameters import Diameter, find_diameter
from ..residuals import Centre, residual_pass
from ..rungs import RUNGS, UnmixedSide, unmix
from ..settings import check_counts, check_seed, check_tolerance, checked_rungs
from ..sides import describe_side, rms_radius, working_dtype
from ..statistics import QUANTILES, summarise
from .caveats import collect_caveats, says_too_few_rows
from .consensus import Consensus, find_consensus
from .distances import Distances
from .inputs import Runs, gather
from .joint import joint_moments, require_joint_memory
from .judgement import cluster, find_outliers, judge_ensemble, pair_rungs
from .ladder import AllPairs, factor_runs
from .records import RungMatrix, identity_offsets, rung_matrix
from .recurrence import components_of, dimensions_of
from .result import Ensemble


def compare_many(
    runs: Any,
    *,
    rungs: Sequence[str] = RUNGS,
    folds: int = 5,
    groups: Any = None,
    join: bool = False,
    names: Sequence[str] | None = None,
    n_null: int = 1,
    tolerance: float = 0.03,
    residuals: bool = False,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Ensemble:
    r"""Do many runs give the same representation, up to what, and which of them stand apart?

    For every group :math:`H` of the ladder and all ordered pairs of runs the best :math:`h\in H` is fitted without each
    fold, and its held-out error

    .. math:: \hat\epsilon_{ij}=\sqrt{\tfrac1n\sum_t\|x_{jt}-h(x_{it})\|^2}\,/\,\rho(X_j),\qquad
              \rho(X)=\sqrt{\operatorname{tr}\operatorname{Cov}X}

    is taken from the second moments of all runs side by side: one pass over the rows serves all pairs. Lower is closer,
    and 1 is as bad as predicting the mean.

    Parameters
    ----------
    runs : list of (n, d) arrays, Representations or paths, or a dict of them by name
        The same examples in the same order; widths may differ.
    rungs : sequence of str
        Which of ``identity``, ``signed_permutation``, ``rigid``, ``linear``, ``ica``.
    folds : int
        Number of folds.
    groups : (n,) array, optional
        Rows that belong together: kept in one fold, and shuffled across each other. With ``join`` one label a row of
        the first run as given.
    join : bool
        Align by row id, keeping the rows that all runs have, instead of refusing another order or other rows.
    names : sequence of str, optional
        What to call the runs; by default their own names.
    n_null : int
        Number of times that all runs are shuffled against each other; 0 switches the null and the verdicts off.
    tolerance : float
        In RMS radii of the target: how close to the linear rung a smaller one must come to explain a pair. The default
        is about the 0.01 diameters of :func:`isorep.compare`: clouds measure some three RMS radii across.
    residuals : bool
        Also take mean, largest error and quantiles, in diameters of the target: one pass over the rows of every pair.
    random_state : int
        Seed of the folds, the null and the rows that ICA samples; folds are those of :func:`isorep.compare`.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

    Returns
    -------
    Ensemble

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(500, 4))
    >>> turned = [X @ np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(4)]
    >>> noisy = [run + 0.1 * rng.normal(size=run.shape) for run in turned]
    >>> isorep.compare_many(noisy).verdict.rung
    'rigid'
    """
    wanted = checked_rungs(rungs)
    check_counts(folds=(folds, 2), n_null=(n_null, 0))
    check_tolerance(tolerance)
    check_seed(random_state)
    gathered = gather(runs, names, groups, join)
    require_joint_memory(gathered.widths, folds)
    work = _Work(gathered, wanted, folds, random_state, progress or no_progress)
    result = work.ensemble(tolerance, residuals, n_null)
    result = replace(result, settings=_settings(result, gathered, wanted, folds, join, n_null, tolerance, random_state))
    caveats = collect_caveats(result, gathered, work.unmixed, work.again)
    if says_too_few_rows(result):
        warnings.warn(caveats[0], stacklevel=2)
    return replace(result, caveats=tuple(caveats))


class _Work:
    """The stages: moments, fits, what recurs, residuals where asked for, and the null."""

    def __init__(self, runs: Runs, rungs: list[str], n_folds: int, seed: int, report: Progress) -> None:
        self.runs, self.rungs, self.n_folds, self.seed, self.report = runs, rungs, n_folds, seed, report
        seeds = np.random.SeedSequence(seed).spawn(4)  # as in compare, so that the folds are the same
        for_folds, self._for_ica, self._for_null, _ = (np.random.default_rng(each) for each in seeds)
        self.fold_of = assign_folds(runs.n, n_folds, runs.labels, for_folds)
        self.roundings = [rounding_of(values) for values in runs.values]
        self.unmixed: list[UnmixedSide] | None = None
        self.again: list[str] = []

    def ensemble(self, tolerance: float, residuals: bool, n_null: int) -> Ensemble:
        """Everything but settings and caveats."""
        names, values = self.runs.names, self.runs.values
        folds = joint_moments(values, self.fold_of, self.n_folds, names=names, progress=self._stage("moments"))
        total = merged(folds)
        radii = [
            rms_radius(name, total.n, total.mean[total.columns(run)], total.block(run, run))
            for run, name in enumerate(names)
        ]
        factors, again = factor_runs(total, values, self.fold_of, self.n_folds, names)
        self.again = [names[run] for run in (again.place if again else ())]
        if "ica" in self.rungs:
            self.unmixed = self._unmix()
        pairs = AllPairs(folds, self.rungs, self.roundings, self.unmixed, again)
        consensus: list[Consensus] = []
        squares = pairs.squares(
            self._stage("fits"), beside=lambda: consensus.append(find_consensus(total, names, radii))
        )
        distances, diameters = self._residuals(pairs, radii) if residuals else ({}, None)
        dimensions = dimensions_of(total, squares["linear"].columns if "linear" in squares else None)
        components = None if self.unmixed is None else components_of(total, self.unmixed)
        del folds, pairs, again  # the null takes moments of its own
        distant = Distances([total.mean[total.columns(run)] for run in range(len(names))], radii, total.n)
        nulls = self._null(n_null, distant)
        if not nulls:
            distant.read(values)
        sizes = np.bincount(self.fold_of, minlength=self.n_folds)
        matrices: dict[str, RungMatrix] = {}
        for name in self.rungs:
            matrix = rung_matrix(name, squares[name], sizes, np.array(radii), [draw[name] for draw in nulls])
            matrices[name] = replace(matrix, **distances.get(name, {}))
        outliers = find_outliers(matrices, names)
        verdicts = pair_rungs(matrices, tolerance)
        return Ensemble(
            runs=tuple(map(describe_side, names, values, factors, radii, distant.half_shares())),
            rungs=matrices,
            verdict=judge_ensemble(matrices, verdicts, names, outliers),
            verdicts=verdicts,
            outliers=outliers,
            clustering=cluster(matrices),
            consensus=consensus[0],
            dimensions=dimensions,
            components=components,
            diameters=diameters,
            identity_offset=identity_offsets(total, squares["identity"], radii) if "identity" in squares else None,
        )

    def _unmix(self) -> list[UnmixedSide]:
        """ICA of every run, on all rows and without each fold."""
        done, of = 0, len(self.runs.values) * (self.n_folds + 1)

        def step() -> None:
            nonlocal done
            done += 1
            self.report("independent components", done, of)

        template = ICA(random_state=self.seed)
        return [unmix(values, self.fold_of, self.n_folds, template, self._for_ica, step) for values in self.runs.values]

    def _null(self, n_null: int, distant: Distances) -> list[dict[str, Array]]:
        """Squared errors of every fold after the rows of all runs were shuffled against each other.

        No two runs take the same partners, so that one pass serves all pairs. Nearly dependent columns take no second
        pass here, which if anything lowers the null. The first shuffle also takes the rows' distances from the mean,
        which the moments do not hold: their order is another, and does not matter.
        """
        draws: list[dict[str, Array]] = []
        for draw in range(n_null):
            state = int(self._for_null.integers(2**63))
            shuffled = [
                select(values, self._partners(state, run) if run else None)
                for run, values in enumerate(self.runs.values)
            ]
            watch = None if draws else distant.watch
            folds = joint_moments(shuffled, self.fold_of, self.n_folds, names=self.runs.names, watch=watch)
            squares = AllPairs(folds, self.rungs, self.roundings, self.unmixed).squares()
            draws.append({name: found.folds for name, found in squares.items()})
            self.report("null", draw + 1, n_null)
        return draws

    def _partners(self, state: int, run: int) -> Array:
        return shuffled_partners(self.runs.n, self.runs.labels, np.random.default_rng(state), turn=run - 1)

    def _residuals(
        self, pairs: AllPairs, radii: Sequence[float]
    ) -> tuple[dict[str, dict[str, Any]], tuple[Diameter, ...]]:
        """Mean, largest error and quantiles of every rung, by one pass over the rows of every pair; and the units."""
        total, values, count = pairs.total, self.runs.values, len(radii)
        means = [total.mean[total.columns(run)] for run in range(count)]
        units = tuple(find_diameter(each, means[run], radii[run], "auto") for run, each in enumerate(values))
        levels = [f"{q:g}" for q in QUANTILES]
        found = {
            name: {
                "mean_error": np.zeros((count, count)),
                "sup": np.zeros((count, count)),
                "quantiles": {level: np.zeros((count, count)) for level in levels},
            }
            for name in self.rungs
        }
        for done, (i, j) in enumerate(pairs.pairs):
            dtype = working_dtype((values[i], values[j]), (radii[i], radii[j]))
            centre = Centre(means[i], means[j], dtype)
            passed = residual_pass(values[i], values[j], self.fold_of, centre, pairs.fitted((i, j)))
            for name, norms in passed.rungs.items():
                for place, (source, target) in enumerate(((i, j), (j, i))):
                    error = summarise(norms[place, 1], units[target].value)
                    mine: dict[str, Any] = found[name]
                    mine["mean_error"][source, target], mine["sup"][source, target] = error.mean, error.sup
                    for level in levels:
                        mine["quantiles"][level][source, target] = error.quantiles[level]
            self.report("residuals", done + 1, len(pairs.pairs))
        return found, units

    def _stage(self, name: str) -> Any:
        return lambda done, total: self.report(name, done, total)


def _settings(
    result: Ensemble,
    runs: Runs,
    rungs: list[str],
    folds: int,
    join: bool,
    n_null: int,
    tolerance: float,
    random_state: int,
) -> dict[str, Any]:
    return {
        "rungs": rungs,
        "folds": int(folds),
        "groups": None if runs.labels is None else int(runs.labels.max()) + 1,
        "join": bool(join),
        "n_null": int(n_null),
        "tolerance": float(tolerance),
        "residuals": any(rung.sup is not None for rung in result.rungs.values()),
        "random_state": int(random_state),
        "rows_used": runs.n,
        "rows_dropped": list(runs.dropped),
    }
