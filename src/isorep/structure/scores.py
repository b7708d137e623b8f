"""``isorep.score_factors``: all scores of latents against known factors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from ..comparison import Comparison
from ..errors import InputError
from ..pairs import LEAST_UNITS
from ..representation import Array
from ..resampling import FEW_GROUPS
from ..results import Verdict, counted
from ..rows import Progress, equal_rows, no_progress
from ..settings import MOST_DRAWS, check_choice, check_counts, check_names, check_seed
from .axes import Axes, random_axes, steps
from .columns import Pair, paired
from .dci import IMPORTANCES
from .families import FAMILIES, MOST_CELLS, Chances, Outcome, Task, Tick, cells, chances, interval_steps, intervals
from .infomec import THRESHOLDS, constant_caveats
from .mutual_information import NEIGHBORS
from .r2 import R2, measure_ladder
from .result import Evidence, FactorScores, Information, Score, judge, read_factors, read_latents
from .slots import checked_sizes
from .splits import FEWEST, HALVES, KERNEL_ROWS, ROWS, recoded


def score_factors(
    latents: Any,
    factors: Any,
    *,
    scores: str | Sequence[str] = "all",
    ladder: bool = True,
    slots: int | Sequence[int] | None = None,
    factor_slots: int | Sequence[int] | None = None,
    threshold: str = "range/20",
    n_neighbors: int = NEIGHBORS,
    importance: str = "binned",
    discrete_factors: Any = None,
    discrete_latents: Any = None,
    groups: Any = None,
    n_resamples: int = HALVES,
    n_null: int = 100,
    random_state: int = 0,
    progress: Progress | None = None,
) -> FactorScores:
    r"""Score latents against known factors: all scores, with intervals and the chance levels of shuffled rows and axes.

    Parameters
    ----------
    latents, factors : arrays, data frames, mappings of columns, Representations or paths
        The same rows: joined by id if both have ids, otherwise by order. Factors may be numbers, whole numbers,
        booleans or text.
    scores : "all" or sequence of str
        Families to compute, from ``infomec``, ``dci``, ``mig``, ``sap``, ``modularity``, ``explicitness``, ``mcc``,
        ``linear_r2``, ``kernel_r2`` and ``slots``; the last only with ``slots=``. Default: all, without ``dci`` where
        latents times factors are more than 5,000.
    ladder : bool
        Also fit the ladder of groups from latents to factors; see :func:`isorep.structure.ladder`.
    slots, factor_slots : int or sequence of int, optional
        Number of columns per slot of the latents, and of the factors where they differ.
    threshold : {"range/20", "range/8", "iqr/10"}
        Rule for active latents; see :func:`isorep.structure.infomec`.
    n_neighbors : int
        Number of neighbours in the estimate of mutual information.
    importance : {"binned", "trees", "lasso"}
        Source of DCI's importances; see :func:`isorep.structure.dci`.
    discrete_factors, discrete_latents : bool, sequence of bool or of names, optional
        Which columns are discrete; overrides the automatic rule.
    groups : (n,) array, optional
        Group per row; rows of a group are held out, halved and shuffled together. By default rows that equal each
        other in all latents and factors are one group, if a latent and a factor are continuous.
    n_resamples : int
        Number of random halves of the rows for intervals; 0 for none. DCI uses half as many, and so do all scores
        where latents times factors are more than 2,000. MIG and modularity leave out 25 blocks of rows, or up to 50 of
        groups, one at a time instead.
    n_null : int
        Number of shuffled pairings, and of random axes, for chance levels and p-values; 0 for none. DCI, which is slow,
        uses a fifth as many, at least 20, and so do all scores where latents times factors are more than 2,000. With
        fewer than 19 nothing can be above chance, and single factors are not judged.
    random_state : int
        Seed of splits, halves, shuffles and random axes.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

    Returns
    -------
    FactorScores

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> factors = {"shape": rng.integers(4, size=600), "size": rng.normal(size=600)}
    >>> latents = np.column_stack([factors["size"], factors["shape"]]) + 0.1 * rng.normal(size=(600, 2))
    >>> found = isorep.score_factors(latents, factors, scores=["infomec", "mcc"], ladder=False)
    >>> found["infom"].value > 0.9
    True
    >>> print(found.verdict)
    All 2 factors have a latent of their own (shape z1, size z0).
    """
    families, unasked = _families(scores, slots)
    check_choice("threshold", threshold, THRESHOLDS)
    check_choice("importance", importance, IMPORTANCES)
    check_counts(n_neighbors=(n_neighbors, 1), n_resamples=(n_resamples, 0, MOST_DRAWS), n_null=(n_null, 0, MOST_DRAWS))
    check_seed(random_state)
    report = progress or no_progress
    pair = paired(factors, latents, discrete_factors=discrete_factors, discrete_latents=discrete_latents)
    labels = _enough(pair, groups)
    costly = [name for name in families if unasked and FAMILIES[name].slow and cells(pair) > MOST_CELLS]
    families = [name for name in families if name not in costly]
    copies: list[str] = []
    if labels is None:
        labels, copies = _copies(pair)
    task = Task(pair, labels, random_state, threshold, n_neighbors, importance, _sizes(pair, slots, factor_slots))
    for_halves, for_null = (np.random.default_rng(seed) for seed in np.random.SeedSequence(random_state).spawn(2))
    seconds: dict[str, float] = {}
    outcomes = _outcomes(task, families, seconds, report)
    with _timed(seconds, "chance"):
        tick = _ticks(report, "chance", sum(1 + FAMILIES[name].shuffles(n_null, pair) for name in families))
        null = chances(task, families, n_null, for_null, tick) if n_null else Chances({}, {}, [])
    with _timed(seconds, "axes"):
        tick = _ticks(report, "random axes", steps(families, n_null, pair))
        axes = random_axes(task, families, n_null, null.rows, null.levels, tick) if n_null else Axes({}, {}, [])
    task, outcomes = _counting(task, outcomes, null)
    resamples = n_resamples if pair.n >= FEWEST else 0
    with _timed(seconds, "intervals"):
        tick = _ticks(report, "intervals", interval_steps(task, families, resamples))
        spans = intervals(task, outcomes, resamples, for_halves, tick) if resamples else {}
    values = {name: value for each in outcomes.values() for name, value in each.values.items()}
    by_name = {
        name: Score(name, float(value), spans.get(name), null.nulls.get(name), axes.nulls.get(name))
        for name, value in values.items()
    }
    states = _states(pair, outcomes, null, axes, by_name)
    undecided = [each.name for each in states["factors"] if each.state == "undecided"]
    planes = dict.fromkeys(axes.planes[name] for name in undecided if name in axes.planes)
    climbed, said = _climb(pair, labels, random_state, report) if ladder else (None, [])
    return FactorScores(
        scores=by_name,
        **states,
        names=(pair.latents.name, pair.factors.name),
        rows=pair.n,
        columns={
            "factors": [column.to_dict() for column in pair.factors],
            "latents": [column.to_dict() for column in pair.latents],
        },
        settings={
            "scores": families,
            "threshold": threshold,
            "n_neighbors": int(n_neighbors),
            "importance": importance,
            "groups": None if labels is None else int(labels.max()) + 1,
            "n_resamples": int(n_resamples),
            "n_null": int(n_null),
            "random_state": int(random_state),
        },
        ladder=climbed,
        records={
            name: replace(each.record, interval=spans.get(name)) if isinstance(each.record, R2) else each.record
            for name, each in outcomes.items()
        },
        seconds=seconds,
        caveats=(
            *pair.caveats,
            *(f"{name} was left out: {_told_widths(pair)} make it slow; name it to compute it" for name in costly),
            *copies,
            *constant_caveats(pair),
            *_caveats(pair, labels, outcomes, resamples, by_name),
            *null.notes,
            *axes.notes,
            *planes,
            *said,
        ),
    )


def _enough(pair: Pair, groups: Any) -> Array | None:
    """The group of each row; an error where rows or groups are too few to halve and hold out."""
    labels = pair.group_codes(groups)
    if labels is not None and labels.max() < 3:
        raise InputError(f"there are {int(labels.max()) + 1} groups: at least 4 are needed to halve and hold out")
    if pair.n < 4:
        raise InputError(f"there are {pair.n} rows: at least 4 are needed")
    return labels


def _copies(pair: Pair) -> tuple[Array | None, list[str]]:
    """Rows that equal each other in all latents and factors, as groups, and what is to be said about them.

    Shuffled one by one, rows that were stored several times would inform about each other. Equal labels are no copies:
    a latent and a factor have to be continuous, and another value than the latents' commonest, such as a rectifier's 0.
    """
    continuous = [column for column in pair.latents if not column.discrete]
    if not continuous:
        return None, []
    codes = equal_rows(np.column_stack([pair.latents.matrix, pair.factors.matrix]))
    idle = np.all([column.codes == np.bincount(column.codes).argmax() for column in continuous], axis=0)
    codes[idle] = codes.max() + 1 + np.arange(int(idle.sum()))
    codes = recoded(codes)
    distinct = int(codes.max()) + 1
    if distinct == pair.n:
        return None, []
    told = f"{pair.n - distinct} of {pair.n} rows equal an earlier row in all latents and factors"
    if distinct < LEAST_UNITS or all(column.discrete for column in pair.factors):
        return None, [f"{told}, and are shuffled one by one: if they were not drawn independently, pass groups"]
    return codes, [f"{told}: equal rows are held out and shuffled together, as {distinct} sets"]


def _outcomes(task: Task, families: Sequence[str], seconds: dict[str, float], report: Progress) -> dict[str, Outcome]:
    """Every family once, on all the rows that it uses."""
    outcomes = {}
    for done, name in enumerate(families):
        report("scores", done, len(families))
        with _timed(seconds, name):
            outcomes[name] = FAMILIES[name].measure(task, False)
    report("scores", len(families), len(families))
    return outcomes


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - began


def _ticks(report: Progress, stage: str, total: int) -> Tick:
    """Reports one more step of a stage at every call."""
    steps = count(1)
    return lambda: report(stage, next(steps), total)


def _told_widths(pair: Pair) -> str:
    return f"{counted(len(pair.latents), 'latent')} and {counted(len(pair.factors), 'factor')}"


def _families(scores: str | Sequence[str], slots: Any) -> tuple[list[str], bool]:
    """The families to measure, and whether none was named."""
    if isinstance(scores, str) and scores == "all":
        return [name for name in FAMILIES if name != "slots" or slots is not None], True
    given = check_names("scores", scores, FAMILIES)
    if "slots" in given and slots is None:
        raise InputError("slots are scored if it is said how many columns each has (slots=)")
    return [name for name in FAMILIES if name in given], False


def _sizes(pair: Pair, slots: Any, factor_slots: Any) -> tuple[list[int], list[int]] | None:
    if slots is None:
        return None
    true = slots if factor_slots is None else factor_slots
    return checked_sizes(true, len(pair.factors), "factors"), checked_sizes(slots, len(pair.latents), "latents")


def _counting(task: Task, outcomes: dict[str, Outcome], null: Chances) -> tuple[Task, dict[str, Outcome]]:
    """InfoM of the latents that inform about any factor above chance, here and in what is measured again."""
    if null.levels is None:
        return task, outcomes
    informs = np.flatnonzero(null.levels.significant.any(axis=0))
    names = tuple(task.pair.latents.names[index] for index in informs)
    record = outcomes["infomec"].record.counting(names)
    values = outcomes["infomec"].values | {"infom": record.infom}
    return replace(task, counted=names), outcomes | {"infomec": Outcome(values, record)}


def _states(
    pair: Pair, outcomes: dict[str, Outcome], null: Chances, axes: Axes, by_name: dict[str, Score]
) -> dict[str, Any]:
    """States of every factor and latent from InfoMEC, and the verdict."""
    if "infomec" not in outcomes:
        verdict = Verdict("not asked", "Single factors are not judged without infomec.")
        return {"information": None, "factors": (), "latents": (), "verdict": verdict}
    record, levels = outcomes["infomec"].record, null.levels
    evidence = Evidence(
        record.nmi,
        record.active,
        record.explicitness,
        None if levels is None else levels.significant,
        None if levels is None else levels.least,
        {} if levels is None else levels.explicitness,
        axes.p_values,
    )
    by_factor = read_factors(pair, evidence)
    names = (record.factors, record.latents)
    return {
        "information": Information(record.nmi, record.active, evidence.chance, evidence.significant, *names),
        "factors": by_factor,
        "latents": read_latents(pair, evidence),
        "verdict": judge(by_factor, by_name),
    }


def _climb(pair: Pair, groups: Any, seed: int, report: Progress) -> tuple[Comparison | None, list[str]]:
    sides = (pair.factors, pair.latents)
    varies, moves = ([index for index, column in enumerate(side) if not column.constant] for side in sides)
    if not varies or not moves or pair.n < FEWEST or (groups is not None and groups.max() < 4):
        return None, ["the ladder was left out: it needs a factor and a latent that vary, and rows to hold out"]
    kept = Pair(pair.factors.only(varies), pair.latents.only(moves))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the comparison's caveats say the same
        ladder = measure_ladder(kept, groups=groups, random_state=seed, n_null=10, worst_case=False, progress=report)
    return ladder, []


def _caveats(
    pair: Pair, groups: Array | None, outcomes: dict[str, Outcome], resamples: int, by_name: dict[str, Score]
) -> list[str]:
    said = []
    for most in (ROWS, KERNEL_ROWS):
        named = [name for name in outcomes if FAMILIES[name].rows == most]
        if named and pair.n > most:
            said.append(f"{', '.join(named)} used {most} random rows of {pair.n}")
    if not resamples:
        said.append("no intervals were computed")
    without = [name for name, score in by_name.items() if score.interval is None]
    if without and resamples > 1:
        said.append(f"{', '.join(without)} have no interval: halves have too few rows or groups")
    if resamples and groups is not None and groups.max() + 1 < FEW_GROUPS:
        said.append(f"intervals are from {int(groups.max()) + 1} groups: below {FEW_GROUPS} they are only approximate")
    numbered = [each.name for each in pair.factors if each.why.startswith("whole") and len(set(each.values)) == pair.n]
    if numbered:
        said.append(f"{', '.join(numbered[:8])} differs in every row: row numbers and ids are not factors")
    if "infomec" in outcomes:
        record = outcomes["infomec"].record
        idle = [name for name, active in zip(record.latents, record.active, strict=True) if not active]
        if idle:
            said.append(f"{len(idle)} of {len(record.latents)} latents are inactive: {', '.join(idle[:8])}")
    ordered = [factor.name for factor in pair.factors if factor.text and len(factor.labels or ()) > 2]
    if ordered and "mcc" in outcomes:
        are = "is" if len(ordered) == 1 else "are"
        said.append(
            f"{', '.join(ordered[:8])} {are} categorical: MCC uses alphabetical codes there and is not meaningful"
        )
    rare = [factor.name for factor in pair.factors if factor.discrete and int(np.bincount(factor.codes).min()) < 10]
    if rare:
        said.append(f"some labels of {', '.join(rare[:8])} have fewer than 10 rows")
    return said
