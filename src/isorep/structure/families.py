r"""Families of scores for ``score_factors``: measurement, intervals and chance levels.

Intervals come from random halves of the rows, or of the groups. The bootstrap draws rows twice, and a row that is its
own nearest neighbour biases every neighbour estimate; halves contain no row twice. They are compared with their own
mean, so that a bias which depends on the number of rows drops out. Held-out rows stay held out in every half.
Scores from binned information leave out one block of rows at a time instead: their bias changes too much in a half.
So do cross-validated scores of fewer than 40 groups, because half of those are too few to learn from; folds stay.

Chance levels and p-values come from shuffled pairings (:class:`isorep.resampling.Shuffles`). The observed score that a
p-value compares is measured as the shuffled ones are: on the same rows, with the same splits and tolerances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..resampling import Interval, Null, Shuffles, assign_blocks, jackknife_se, null_of, t_interval
from ..rows import blocks
from ..threads import Crew
from .columns import Columns, Pair
from .dci import measure_dci
from .explicitness import measure_explicitness
from .infomec import InfoMEC, measure_infomec
from .mcc import CORRELATIONS, measure_mcc
from .mig import measure_mig, measure_modularity
from .mutual_information import entropies
from .r2 import kernel_fit, linear_fit, measure_r2
from .sap import measure_sap
from .slots import measure_slots
from .splits import (
    FOLDS,
    KERNEL_ROWS,
    ROWS,
    few_for_halves,
    folds_of,
    half,
    halves_interval,
    held_out,
    looked_at,
    parted,
    recoded,
)

NULL_ROWS = 10_000
"""Largest number of random rows for chance levels and p-values."""
FEW_SHUFFLES = 20
"""Number of shuffles for slow families, unless many more are requested."""
MANY_CELLS, MOST_CELLS = 2000, 5000
"""Pairs of a latent and a factor from which on all families are repeated as rarely as slow ones, and those up to which
slow families are measured unasked."""
ALPHA = 0.05
"""Significance level: the share of shuffles, or of random axes, that may reach the observed value."""
_ROUGH = 1e-4  # tolerance of regressions that are repeated: far below how much replicates differ


@dataclass(eq=False)
class Task:
    """What is measured: columns, groups, and the settings that families share.

    ``held`` marks the held-out rows and ``fold_of`` their folds, where decided before; ``starts`` are kept between
    calls. ``counted`` latents are those that InfoM uses, ``known`` the factors' entropies; where only axes are tested,
    ``explicit`` regressions from all latents are left out.
    """

    pair: Pair
    groups: Array | None
    seed: int
    threshold: str
    n_neighbors: int
    importance: str
    slots: tuple[list[int], list[int]] | None
    starts: dict[str, Array] | None = None
    held: Array | None = None
    fold_of: Array | None = None
    counted: tuple[str, ...] | None = None
    known: Array | None = None
    explicit: bool = True

    def folds(self, pair: Pair, groups: Array | None) -> Array:
        """The fold of each row: as decided before, or drawn."""
        if self.fold_of is not None:
            return self.fold_of
        return folds_of(pair.n, FOLDS, groups, np.random.default_rng(self.seed))


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a family: values by name, and the complete record."""

    values: dict[str, float]
    record: Any


@dataclass(frozen=True)
class Family:
    """A family of scores.

    ``rows`` is the largest number of rows it uses, ``null_rows`` the largest number that is shuffled. Families with
    ``splits`` hold out a fifth; ``slow`` ones are repeated less often. Those with ``blocks`` get intervals by leaving
    out blocks of rows, because plug-in estimates of information are too biased in half of the rows. Those with
    ``folds`` are cross-validated, and leave out groups, each row in its fold, where half of the groups are too few to
    learn from.
    """

    outputs: tuple[str, ...]
    measure: Callable[[Task, bool], Outcome]
    rows: int | None = None
    null_rows: int = NULL_ROWS
    splits: bool = False
    slow: bool = False
    blocks: bool = False
    folds: bool = False

    def leaves_out_blocks(self, groups: Array | None) -> bool:
        """Whether intervals leave out blocks of these rows, and not halves."""
        return self.blocks or (self.folds and few_for_halves(groups))

    def halves(self, n: int, pair: Pair) -> int:
        """The number of halves measured if n are requested."""
        return -(-n // 2) if self.slow or cells(pair) > MANY_CELLS else n

    def shuffles(self, n: int, pair: Pair) -> int:
        """The number of shuffles measured if n are requested."""
        return min(n, max(FEW_SHUFFLES, n // 5)) if self.slow or cells(pair) > MANY_CELLS else n


def cells(pair: Pair) -> int:
    """The number of pairs of a latent and a factor."""
    return len(pair.latents) * len(pair.factors)


def _outcome(record: Any, **attributes: str) -> Outcome:
    return Outcome({score: getattr(record, attribute) for score, attribute in attributes.items()}, record)


def _infomec(task: Task, again: bool) -> Outcome:
    if not again and task.starts is None:
        task.starts = {}
    record = measure_infomec(
        task.pair,
        threshold=task.threshold,
        n_neighbors=task.n_neighbors,
        random_state=task.seed,
        tolerance=_ROUGH if again else 1e-5,
        starts=task.starts,
        known=task.known,
        explicit=task.explicit,
    )
    if task.counted is not None:
        record = record.counting(task.counted)
    return _outcome(record, infom="infom", infoe="infoe", infoc="infoc")


def _dci(task: Task, again: bool) -> Outcome:
    record = measure_dci(*parted(*roles(task, ROWS)), importance=task.importance)
    return _outcome(record, **{score: score.removeprefix("dci_") for score in _DCI})


def _mcc(task: Task, again: bool) -> Outcome:
    fold_of = task.folds(task.pair, task.groups)
    pearson, spearman = (measure_mcc(task.pair, fold_of, correlation=kind) for kind in CORRELATIONS)
    values = {"mcc": pearson.value, "mcc_held_out": pearson.held_out, "mcc_spearman": spearman.value}
    return Outcome(values, pearson)


def _linear_r2(task: Task, again: bool) -> Outcome:
    return _outcome(measure_r2(task.pair, linear_fit, task.folds(task.pair, task.groups)), linear_r2="value")


def _kernel_r2(task: Task, again: bool) -> Outcome:
    pair, groups = looked_at(task.pair, task.groups, KERNEL_ROWS, np.random.default_rng(task.seed))
    return _outcome(measure_r2(pair, kernel_fit, task.folds(pair, groups)), kernel_r2="value")


def _slots(task: Task, again: bool) -> Outcome:
    pair, held = roles(task, KERNEL_ROWS)
    record = measure_slots(pair, task.slots or ([], []), np.flatnonzero(~held), np.flatnonzero(held))
    return _outcome(record, sis="value")


def _sap(task: Task, again: bool) -> Outcome:
    return _outcome(measure_sap(*parted(*roles(task, ROWS))), sap="value")


def _explicitness(task: Task, again: bool) -> Outcome:
    return _outcome(measure_explicitness(*parted(*roles(task, ROWS))), explicitness="value")


def _mig(task: Task, again: bool) -> Outcome:
    return _outcome(measure_mig(task.pair), mig="value")


def _modularity(task: Task, again: bool) -> Outcome:
    return _outcome(measure_modularity(task.pair), modularity="value")


def roles(task: Task, rows: int | None) -> tuple[Pair, Array]:
    """The rows used by a family that holds out rows, and which of them are held out."""
    if task.held is not None:
        return task.pair, task.held
    rng = np.random.default_rng(task.seed)
    pair, groups = looked_at(task.pair, task.groups, rows, rng)
    return pair, held_out(pair.n, groups, rng)


_SPLIT: dict[str, Any] = {"rows": ROWS, "null_rows": KERNEL_ROWS, "splits": True}
_KERNEL: dict[str, Any] = {"rows": KERNEL_ROWS, "null_rows": KERNEL_ROWS // 2}
_DCI = ("dci_disentanglement", "dci_completeness", "dci_informativeness")

FAMILIES: dict[str, Family] = {
    "infomec": Family(("infom", "infoe", "infoc"), _infomec, null_rows=ROWS),
    "dci": Family(_DCI, _dci, slow=True, **_SPLIT),
    "mig": Family(("mig",), _mig, blocks=True),
    "sap": Family(("sap",), _sap, **_SPLIT),
    "modularity": Family(("modularity",), _modularity, blocks=True),
    "explicitness": Family(("explicitness",), _explicitness, **_SPLIT),
    "mcc": Family(("mcc", "mcc_held_out", "mcc_spearman"), _mcc, folds=True),
    "linear_r2": Family(("linear_r2",), _linear_r2, folds=True),
    "kernel_r2": Family(("kernel_r2",), _kernel_r2, folds=True, **_KERNEL),
    "slots": Family(("sis",), _slots, splits=True, **_KERNEL),
}
"""Every family, in the order they are shown."""

OUTPUTS = {name: family for family, each in FAMILIES.items() for name in each.outputs}
"""The family of every score."""

SCORES = {
    "infom": ("InfoM", "each latent that informs about any factor above chance informs about one only"),
    "infoe": ("InfoE", "all latents together determine the factors linearly; insensitive to mixing"),
    "infoc": ("InfoC", "each factor is in one latent; lowered by duplicates"),
    "dci_disentanglement": ("DCI disentanglement", "boosted trees use each latent for one factor only"),
    "dci_completeness": ("DCI completeness", "boosted trees use one latent only for each factor"),
    "dci_informativeness": ("DCI informativeness", "accuracy or R² of boosted trees on held-out rows"),
    "mig": ("MIG", "gap between the two most informative latents of a factor, binned; 0 with duplicates"),
    "sap": ("SAP", "gap between the two best linear classifiers on single latents"),
    "modularity": ("modularity", "each latent informs about one factor only, binned; noise latents count"),
    "explicitness": ("explicitness", "AUROC of a logistic regression from all latents; chance is 0.5"),
    "mcc": ("MCC", "correlation of factors with latents matched one to one, in-sample"),
    "mcc_held_out": ("MCC, held out", "MCC with matching and signs chosen on other rows"),
    "mcc_spearman": ("MCC of ranks", "MCC of ranks; invariant to monotone transforms"),
    "linear_r2": ("linear R²", "share of the factors' variance that a linear map explains on held-out rows"),
    "kernel_r2": ("kernel R²", "the same for a smooth map (kernel ridge regression)"),
    "sis": ("SIS", "each inferred slot determines one true slot and no other"),
}
"""The name and a short description of every score."""

ALIGNED = ("infom", "infoc", *_DCI[:2], "mig", "sap", "modularity", "mcc", "mcc_held_out", "mcc_spearman")
"""Scores that claim aligned axes, and change under rotation of the latents."""

LEAST = {"mcc_held_out": -1.0, "sis": -1.0}
"""Scores that may be negative; the others run from 0 to 1."""

Tick = Callable[[], None]
Make = Callable[[], Task]


def intervals(
    task: Task, outcomes: dict[str, Outcome], n: int, rng: np.random.Generator, tick: Tick
) -> dict[str, Interval]:
    """The interval of every score that can have one, from halves or blocks of its family's rows."""
    spans: dict[str, Interval] = {}
    for name, whole in outcomes.items():
        family = FAMILIES[name]
        pair, groups = looked_at(task.pair, task.groups, family.rows, np.random.default_rng(task.seed))
        held = roles(task, family.rows)[1] if family.splits else None
        same = replace(task, pair=pair, groups=groups, held=held)
        if family.leaves_out_blocks(groups):
            spans |= _by_blocks(family, whole, same, rng, tick)
        else:
            spans |= _by_halves(family, whole, same, family.halves(n, task.pair), rng, tick)
    return spans


def _by_blocks(family: Family, whole: Outcome, task: Task, rng: np.random.Generator, tick: Tick) -> dict[str, Interval]:
    """Intervals from leaving out one block of rows at a time; none where too few rows would remain."""
    block_of = assign_blocks(task.pair.n, task.groups, rng)
    sizes = np.bincount(block_of)
    fold_of = task.folds(task.pair, task.groups) if family.folds else None
    tasks = [partial(_part, task, np.flatnonzero(block_of != block), fold_of) for block in range(len(sizes))]
    kept = [each for each in outcomes_of(family, task, tasks, tick) if each]
    spans = {}
    for score, value in whole.values.items() if len(kept) == len(sizes) else ():
        se = jackknife_se(np.array([each.values[score] for each in kept]), value, sizes)
        spans[score] = t_interval(value, float(se), len(sizes), least=LEAST.get(score, 0.0), most=1.0)
    return spans


def _by_halves(
    family: Family, whole: Outcome, task: Task, n: int, rng: np.random.Generator, tick: Tick
) -> dict[str, Interval]:
    """Intervals from random halves of the rows, those held out halved apart from the others."""
    units = (task.pair.n, task.groups, task.held)
    tasks = [partial(_part, task, half(*units, rng)) for _ in range(n)]
    draws = [each for each in outcomes_of(family, task, tasks, tick) if each]
    spans = {}
    for score, value in whole.values.items():
        values = [each.values[score] for each in draws]
        spans[score] = halves_interval(value, values, *units, least=LEAST.get(score, 0.0))
    return {score: span for score, span in spans.items() if span is not None}


def interval_steps(task: Task, families: Sequence[str], n: int) -> int:
    """The number of measurements of :func:`intervals`."""
    blocks = int(assign_blocks(task.pair.n, task.groups, np.random.default_rng(0)).max()) + 1
    each = [FAMILIES[name] for name in families]
    return sum(blocks if family.leaves_out_blocks(task.groups) else family.halves(n, task.pair) for family in each)


@dataclass(frozen=True, eq=False)
class Chances:
    """The null of every score, its rows, and notes.

    ``levels`` marks the information above chance, where InfoMEC was measured on enough shuffles.
    """

    nulls: dict[str, Null]
    rows: dict[str, Array]
    notes: list[str]
    levels: Levels | None = None


@dataclass(frozen=True, eq=False)
class Levels:
    """Which information is above chance.

    ``least`` is, for each factor, the level that the best latent exceeds in at most 5% of pairings, the real one among
    them; ``nmi`` the information of the rows that were shuffled; ``explicitness`` the p-value of each factor's.
    """

    least: Array
    nmi: Array
    explicitness: dict[str, float]

    @property
    def significant(self) -> Array:
        """Factors by latents."""
        return self.above(self.nmi)

    def above(self, nmi: Array) -> Array:
        """Which cells of a table from as many rows are above chance."""
        return np.asarray(nmi > self.least[:, None])

    def infom(self, record: InfoMEC) -> float:
        """InfoM of the latents that inform about any factor above chance."""
        return record.counting(self.informative(record)).infom

    def informative(self, record: InfoMEC) -> list[str]:
        """The latents that inform about any factor above chance."""
        return [record.latents[index] for index in np.flatnonzero(self.above(record.nmi).any(axis=0))]


def levels_of(records: Sequence[InfoMEC], distinct: float) -> Levels | None:
    """Levels from the real pairing, which is first, and shuffled ones; None with too few shuffles."""
    beyond = int(ALPHA * len(records) + 1e-9)
    if beyond < 1 or distinct * ALPHA < 1:
        return None
    best = np.sort([record.nmi.max(axis=1) for record in records], axis=0)[::-1]
    first, *others = records
    p_values = {}
    for name, value in first.explicitness.items():
        draws = [each.explicitness[name] for each in others]
        p_values[name] = null_of(draws, value, higher_is_closer=True, distinct=distinct).p_value
    return Levels(best[beyond], first.nmi, p_values)


def chances(task: Task, families: Sequence[str], n: int, rng: np.random.Generator, tick: Tick) -> Chances:
    """Every score on shuffled pairings of the rows that take part, and on the same rows in their real pairing."""
    nulls: dict[str, Null] = {}
    looked: dict[str, Array] = {}
    levels: Levels | None = None
    without: list[str] = []
    fewer: dict[int, list[str]] = {}
    shuffles = Shuffles(task.pair.n, task.groups)
    for name in families:
        family = FAMILIES[name]
        some = shuffles.thinned(family.null_rows, rng)
        latents = task.pair.latents.take(some.rows)
        groups = None if task.groups is None else recoded(task.groups[some.rows])
        partners = [some.rows, *(some.draw(rng) for _ in range(family.shuffles(n, task.pair)))]
        same = replace(task, known=known_entropies(task, some.rows)) if name == "infomec" else task
        tasks = [partial(_pairing, same, rows, latents, groups) for rows in partners]
        observed, *drawn = outcomes_of(family, task, tasks, tick)
        draws = [each for each in drawn if each is not None]
        if observed is None or len(draws) < len(drawn):
            without.append(name)
            continue
        if len(some.rows) < len(shuffles.rows):
            fewer.setdefault(len(some.rows), []).append(name)
        looked[name] = some.rows
        if name == "infomec":
            levels = levels_of([each.record for each in (observed, *draws)], some.distinct)
            if levels is not None:
                for each in (observed, *draws):
                    each.values["infom"] = levels.infom(each.record)
        for score, value in observed.values.items():
            values = np.array([each.values[score] for each in draws])
            nulls[score] = null_of(values, value, higher_is_closer=True, distinct=some.distinct)
    notes = shuffles.notes(n)
    notes += [f"chance and p of {', '.join(names)} use {rows} random rows" for rows, names in fewer.items()]
    if without:
        notes.append(f"{', '.join(without)} have no chance level: too few rows can change places")
    return Chances(nulls, looked, notes, levels)


def known_entropies(task: Task, rows: Array) -> Array:
    """The factors' entropies in these rows, which neither shuffles nor other axes change."""
    return entropies(task.pair.factors.take(rows), task.n_neighbors, np.random.RandomState(task.seed))


def _pairing(task: Task, rows: Array, latents: Columns, groups: Array | None) -> Task:
    """The latents with the factors of these rows."""
    return replace(task, pair=Pair(task.pair.factors.take(rows), latents), groups=groups, starts=None)


def _part(task: Task, rows: Array, fold_of: Array | None = None) -> Task:
    """The same of some of the rows; each keeps its role and its fold, and regressions begin where they ended."""
    groups = None if task.groups is None else recoded(task.groups[rows])
    held, fold_of = (None if each is None else each[rows] for each in (task.held, fold_of))
    starts = dict(task.starts or {})
    return replace(task, pair=task.pair.take(rows), groups=groups, starts=starts, held=held, fold_of=fold_of)


def outcomes_of(family: Family, task: Task, tasks: Sequence[Make], tick: Tick) -> Iterator[Outcome | None]:
    """Outcomes of a family in each task, one thread per core; None where rows are too few to hold any out.

    Tasks are made when their turn comes: all at once they would hold as many copies of the rows.
    """

    def measure(turn: slice) -> Outcome | None:
        with suppress(InputError):
            return family.measure(tasks[turn.start](), True)
        return None

    with Crew() as crew:
        stream = map if task.importance == "lasso" else crew.stream  # it silences warnings, which threads share
        for outcome in stream(measure, blocks(len(tasks), 1)):
            yield outcome
            tick()
