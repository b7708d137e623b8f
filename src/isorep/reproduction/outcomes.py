"""Summaries of outcomes: functions shared by the experiments.

Curves err = a sqrt(2L + L^2), and rank correlations with their intervals.

Whether a measure grows along a sweep: differences of ends and rank correlations, over pairs of models.

For pairs of trained models: held-out rungs of the ladder, and errors over pairs.

Claims, tables, lines and ticks of summaries; how many threads torch computes with while an experiment lasts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from operator import ge, gt, le
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..alignment import Aligner, Identity, Linear, Rigid, SignedPermutation
from ..comparison import Comparison, compare
from ..representation import Array
from ..resampling import Interval, Value, jackknife_se, t_interval
from .experiment import Chart, Claim, Line, Mark, Row, Summary, Table

FORMS = ("2L+L2", "L+L2")
_DRAWS = 2000


@dataclass(frozen=True)
class Curve:
    """A fitted curve err = ``slope`` x + ``intercept``; ``r2`` is the share of the variance it explains."""

    slope: float
    intercept: float
    r2: float | None


def roots(excess: Array, form: str = "2L+L2") -> Array:
    r"""The theorem's :math:`\sqrt{2L+L^2}`, or :math:`\sqrt{L+L^2}`."""
    linear = 2.0 if form == "2L+L2" else 1.0
    return np.asarray(np.sqrt(linear * excess + np.square(excess)))


def fit_curve(x: Array, errors: Array, intercept: bool = False) -> Curve:
    r"""Least squares in closed form: :math:`a=\sum x_ie_i/\sum x_i^2`, or a line with intercept."""
    centre, level = (float(x.mean()), float(errors.mean())) if intercept else (0.0, 0.0)
    size = float(((x - centre) ** 2).sum())
    slope = float(((x - centre) * (errors - level)).sum()) / size if size > 0 else 0.0
    start = level - slope * centre
    total = float(((errors - errors.mean()) ** 2).sum())
    left = float(((errors - slope * x - start) ** 2).sum())
    return Curve(slope, start, 1 - left / total if total > 0 else None)


def spearman(groups: Sequence[tuple[Array, Array]], least: int = 3) -> Value:
    """Spearman's rank correlation with its 95% bootstrap interval: ranks within each group, put together.

    Groups of fewer than ``least`` pairs are left out. Unknown where nothing varies, and without an interval for fewer
    than four pairs.
    """
    varied = [(x, y) for x, y in groups if len(x) >= least and np.ptp(x) > 0 and np.ptp(y) > 0]
    if not varied:
        return Value(None)
    value = float(_rank_correlations([(x[None], y[None]) for x, y in varied])[0])
    if sum(len(x) for x, _ in varied) < 4:
        return Value(value)
    rng = np.random.default_rng([0, 17])
    chosen = [rng.integers(0, len(x), (_DRAWS, len(x))) for x, _ in varied]
    draws = _rank_correlations([(x[rows], y[rows]) for (x, y), rows in zip(varied, chosen, strict=True)])
    low, high = np.nanquantile(draws, (0.025, 0.975))
    return Value(value, interval=Interval(float(low), float(high)))


def _rank_correlations(groups: list[tuple[Array, Array]]) -> Array:
    """One for each line of the groups' columns; NaN where nothing varies."""
    first, second = (np.concatenate([_centred_ranks(group[side]) for group in groups], axis=1) for side in (0, 1))
    size = np.sqrt((first**2).sum(1) * (second**2).sum(1))
    return np.asarray(np.divide((first * second).sum(1), size, out=np.full(len(size), np.nan), where=size > 0))


def _centred_ranks(values: Array) -> Array:
    ranks = rankdata(values, axis=1) / values.shape[1]
    return np.asarray(ranks - ranks.mean(1, keepdims=True))


@dataclass(frozen=True)
class Trend:
    """A measure along a sweep.

    Attributes
    ----------
    first, last : float
        Means at both ends.
    difference : Value
        Last minus first, pair by pair.
    correlation : Value or None
        Spearman's rank correlation with the place in the sweep, pair by pair; None for fewer than three places.
    """

    first: float
    last: float
    difference: Value
    correlation: Value | None

    @property
    def grows(self) -> bool | None:
        """True or False where the interval of the difference lies above or below zero, otherwise None."""
        interval = self.difference.interval
        return None if interval is None or interval.low <= 0 <= interval.high else interval.low > 0


def estimate(values: Iterable[float | None]) -> Value:
    """Mean of independent values with its standard error and its 95% interval (Student's t); none for one value."""
    known = [value for value in values if value is not None]
    mean = mean_of(known)
    if mean.mean is None or mean.error is None:
        return mean
    return replace(mean, interval=t_interval(mean.mean, mean.error, len(known)))


def trend(values: Array) -> Trend | None:
    """From a table of pairs x places; None where there is nothing to compare."""
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 2:
        return None
    first, *_, last = map(float, values.mean(0))
    places = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    ranks = estimate(np.nan_to_num(_rank_correlations([(values, places)])))  # 0 where nothing varies
    return Trend(first, last, estimate(values[:, -1] - values[:, 0]), ranks if values.shape[1] > 2 else None)


RUNGS: dict[str, Callable[[], Aligner]] = {
    "identity": Identity, "permutation": SignedPermutation, "rigid": Rigid, "linear": Linear
}  # fmt: skip
"""From nothing fitted to every linear map; permutation and rigid have a scale."""


def held_out(source: Array, target: Array, folds: Array, rung: str = "linear") -> Array:
    """The source's rows mapped onto the target, each by a map that was fitted to the other folds."""
    mapped = np.empty_like(target, dtype=np.float64)
    for fold in np.unique(folds):
        out = folds == fold
        fitted = RUNGS[rung]().fit(source[~out], target[~out])
        mapped[out] = fitted.transform(source[out])[:, : target.shape[1]]
    return mapped


def explained(mapped: Array, target: Array) -> float:
    r"""The share of the target's variance that is explained, :math:`1-\sum\|y-\hat y\|^2/\sum\|y-\bar y\|^2`."""
    around = float(((target - target.mean(0)) ** 2).sum())
    return 1.0 - float(((target - mapped) ** 2).sum()) / around if around > 0 else float("nan")


def ladder(source: Array, target: Array, folds: Array) -> dict[str, float]:
    """Held-out R² of every rung, both sides centred first, because offsets do not matter here."""
    x, y = source - source.mean(0), target - target.mean(0)
    return {rung: explained(held_out(x, y, folds, rung), y) for rung in RUNGS}


def compared(
    source: Any, target: Any, rungs: Sequence[str], groups: Array | None, preset: Any, seed: int
) -> Comparison:
    """The ladder of two runs, with the preset's ``n_null`` shuffled pairings and ``n_boot`` draws."""
    counts = {"n_null": preset.n_null, "n_boot": preset.n_boot}
    with warnings.catch_warnings():  # on few rows and on ICA: both are among the caveats
        warnings.simplefilter("ignore")
        return compare(source, target, rungs=rungs, groups=groups, worst_case=False, random_state=seed, **counts)


def folds_of(rows: int, count: int, seed: int) -> Array:
    """Rows in folds of the same size, at random."""
    return np.random.default_rng([seed, 41]).permutation(np.arange(rows) % min(count, rows))


def all_pairs(count: int) -> list[tuple[int, int]]:
    """Every pair of models once, the earlier as the source."""
    return list(combinations(range(count), 2))


def every_pair(sides: Sequence[Any], compare: Callable[[Any, Any], dict[str, Any]]) -> list[dict[str, Any]]:
    """What ``compare`` gives for every pair of models, with the places of both."""
    return [{"first": i, "second": j} | compare(sides[i], sides[j]) for i, j in all_pairs(len(sides))]


def over_pairs(values: Mapping[tuple[int, int], float]) -> tuple[float | None, float | None]:
    r"""Mean over pairs of models, and its standard error.

    Pairs share models, so that they are not independent: the error is the jackknife over models,
    :math:`\sqrt{\frac{m-1}{m}\sum_i(\theta_{(i)}-\bar\theta)^2}` with :math:`\theta_{(i)}` the mean over pairs without
    model i. Two models give no error.
    """
    known = {pair: value for pair, value in values.items() if np.isfinite(value)}
    if not known:
        return None, None
    models = sorted({model for pair in known for model in pair})
    without = [[value for pair, value in known.items() if model not in pair] for model in models]
    mean = float(np.mean(list(known.values())))
    if len(models) < 3 or not all(without):
        return mean, None
    return mean, float(jackknife_se(np.array([np.mean(each) for each in without]), mean))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Context with this number of torch threads; 0 leaves the setting unchanged."""
    import torch

    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_DIGITS = ((1,), (1, 2, 5), (1, 2, 3, 4, 5, 7))
_ENOUGH = 3


def log_ticks(places: Iterable[float]) -> tuple[tuple[float, str], ...]:
    """Positions and labels of ticks on an axis of base-ten logarithms that holds these places.

    They are powers of ten, and other round values where these are fewer than three.

    >>> [text for _, text in log_ticks([0.2, 1.1])]
    ['2', '5', '10']
    """
    held = sorted(places)
    if not held:
        return ()
    powers = range(math.floor(held[0]), math.ceil(held[-1]) + 1)
    inside: list[tuple[float, float]] = []
    for digits in _DIGITS:
        every = [(power + math.log10(digit), digit * 10.0**power) for power in powers for digit in digits]
        inside = [(place, value) for place, value in every if held[0] <= place <= held[-1]]
        if len(inside) >= _ENOUGH:
            break
    if not inside:
        inside = [(held[0], round(10 ** held[0], 2))]
    return tuple((place, f"{value:g}") for place, value in inside)


LOWEST = -1.0
"""R² below this counts as this: how much worse than the mean a map is does not matter."""


class Setting:
    """The outcome of one unit: its facts as attributes, and means of measures over its models and their pairs."""

    def __init__(self, outcome: Mapping[str, Any], lowest: float = LOWEST) -> None:
        self.outcome, self._lowest = outcome, lowest

    def __getattr__(self, name: str) -> Any:
        try:
            return self.outcome[name]
        except KeyError:
            raise AttributeError(name) from None

    def mean(self, measure: str | Callable[[Any], float | None]) -> Value:
        """Over pairs of models, jackknifed over models; ``f.linear`` is a path into a pair."""
        values = {(pair["first"], pair["second"]): taken(pair, measure) for pair in self.outcome["pairs"]}
        return Value(*over_pairs({key: max(float(x), self._lowest) for key, x in values.items() if x is not None}))

    def over_models(self, key: str, merge: Callable[[list[float]], float] | None = None) -> Value:
        """Over models: the mean, or what ``merge`` makes of the values, such as ``max`` or ``sum``."""
        known = [float(model[key]) for model in self.outcome["models"] if model[key] is not None]
        return Value((merge(known) if merge else sum(known) / len(known)) if known else None)


def taken(values: Any, measure: str | Callable[[Any], float | None]) -> Any:
    """A number by its path, or by a function; None where the path ends early."""
    if callable(measure):
        return measure(values)
    for part in measure.split("."):
        values = None if values is None else values[int(part) if part.isdigit() else part]
    return values


def claim(
    text: str,
    measure: str,
    value: Value,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    published: str = "",
    form: str = ".2f±",
) -> Claim:
    """A claim of the paper that holds where the whole interval of ``value`` is at least, at most or above so much.

    It does not hold where the whole interval is on the other side, and is undecided otherwise. A value whose error is
    not known is judged by itself.
    """
    tests = (("above", gt, above), ("at least", ge, least), ("at most", le, most))
    asked = [(word, test, bound) for word, test, bound in tests if bound is not None]
    ends = [end for end in value.ends if end is not None]
    within = [[test(end, bound) for end in ends] for _, test, bound in asked]
    holds = None
    if ends:
        holds = True if all(map(all, within)) else None if all(map(any, within)) else False
    number = form.rstrip("±")
    rule = " and ".join(f"{word} {Value(bound):{number}}" for word, _, bound in asked)
    told = f"{measure} {format(value, form)}"
    span = value.interval
    if span is not None and -math.inf < span.low < span.high < math.inf:
        told += f" (95% interval {Value(span.low):{number}} to {Value(span.high):{number}})"
    return Claim(text, told, rule, published, holds)


def over_cases(text: str, cases: Mapping[str, Value], **asked: Any) -> Claim:
    """A claim about several values by name: the value least in favour of it decides.

    It holds where all do, and does not where one does not. ``asked`` is what :func:`claim` takes.
    """
    ordered = sorted(cases.items(), key=lambda case: math.inf if case[1].mean is None else case[1].mean)
    shown = weakest([claim(text, f"{measure}:", value, **asked) for measure, value in ordered])
    return replace(shown, rule=f"{shown.rule} in each of {len(cases)} cases") if len(cases) > 1 else shown


def conjunction(text: str, parts: Sequence[Claim], published: str = "") -> Claim:
    """A claim whose parts have their own rules: all are reported, and it holds where the weakest does."""
    rules = dict.fromkeys(part.rule for part in parts)
    measures = ", ".join(part.measure for part in parts)
    return Claim(text, measures, ", ".join(rules), published, weakest(parts).holds)


def weakest(claims: Sequence[Claim]) -> Claim:
    """The first that does not hold, else the first that is undecided, else the first."""
    return min(claims, key=lambda each: (False, None, True).index(each.holds))


def concluded(claims: Sequence[Claim]) -> tuple[str, bool | None]:
    """The verdict: the first claim is the published effect, the others go with it."""
    if not claims:
        return "Nothing was measured.", None
    main = claims[0]
    words = {True: "is seen", False: "is not seen", None: "is neither shown nor excluded"}[main.holds]
    kept = sum(each.holds is True for each in claims)
    rest = f" {kept} of {len(claims)} claims hold." if len(claims) > 1 else ""
    published = f"Published: {main.text} ({main.measure}; required: {main.rule})."
    return f"The published effect {words}. {published}{rest}", main.holds


def table(
    name: str,
    title: str,
    direction: str,
    rows: Mapping[str, Iterable[Value]],
    columns: Sequence[str],
    published: Mapping[str, tuple[float | None, ...]] | None = None,
    source: str = "",
) -> Table:
    """Rows of values with errors, by name, with the published values."""
    beside = published or {}
    made = []
    for row, values in rows.items():
        cells = tuple(values)
        made.append(Row(row, tuple(x.mean for x in cells), tuple(x.error for x in cells), beside.get(row, ())))
    return Table(name, title, tuple(columns), tuple(made), direction, source)


def summary(claims: Sequence[Claim], tables: Iterable[Table], charts: Iterable[Chart]) -> Summary:
    """The verdict that claims give, tables that have rows, and figures that have something to show."""
    shown = [replace(chart, lines=tuple(each for each in chart.lines if each.points)) for chart in charts]
    drawn = [chart for chart in shown if chart.marks or chart.lines or chart.cells or chart.picture]
    kept = [each for each in tables if each.rows]
    return Summary(*concluded(claims), tuple(kept), tuple(drawn), tuple(claims))


def line(name: str, values: Sequence[Value], where: Sequence[str], series: int) -> Line:
    """Values over places with their errors, unknown ones left out."""
    known = [(at, value.mean, value.error or 0.0) for at, value in enumerate(values) if value.mean is not None]
    return Line(
        name,
        tuple((float(at), mean) for at, mean, _ in known),
        tuple(f"{name}, {where[at]}: {values[at]:.3f±}" for at, _, _ in known),
        series,
        spans=tuple((mean - error, mean + error) for _, mean, error in known),
    )


def lines(values: Mapping[str, Sequence[Value]], where: Sequence[str], start: int = 0) -> tuple[Line, ...]:
    """A line for each name, in colours of their own."""
    return tuple(line(name, each, where, series) for series, (name, each) in enumerate(values.items(), start))


def ticks(names: Iterable[str]) -> tuple[tuple[float, str], ...]:
    """Names of places 0, 1, 2 and so on."""
    return tuple((float(at), name) for at, name in enumerate(names))


def cloud(points: Iterable[Sequence[float]], name: str, series: int, labels: Sequence[str] | None = None) -> Line:
    """Dots without a line."""
    at = tuple((float(x), float(y)) for x, y in points)
    return Line(name, at, ("",) * len(at) if labels is None else tuple(labels), series, dotted=True)


def mean_of(values: Iterable[float | None]) -> Value:
    """The mean of independent values with its standard error, unknown ones left out; one value gives no error."""
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not known:
        return Value(None)
    return Value(float(np.mean(known)), float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None)


def spanned(value: Value) -> tuple[float | None, float | None, float | None]:
    """The number and the ends of its interval, which are None where it has none."""
    interval = value.interval
    return (value.mean, None, None) if interval is None else (value.mean, interval.low, interval.high)


def mark(name: str, value: Value, series: int = 0, bound: float | None = None) -> tuple[Mark, ...]:
    """A value that cannot be below 0 with its standard error, in a chart of rows; nothing where it is unknown."""
    if value.mean is None:
        return ()
    ends = (None, None) if value.error is None else (value.mean - value.error, value.mean + value.error)
    low, high = (None if end is None else max(end, 0.0) for end in ends)
    return (Mark(name, max(value.mean, 0.0), low, high, bound, series),)


def seeds_from(*entropy: int, count: int) -> list[int]:
    """Seeds of several trainings, the same for the same arguments."""
    return [int(seed) for seed in np.random.SeedSequence(entropy).generate_state(count)]


def adam_recipe(preset: Any, steps: int) -> Any:
    """The recipe of a preset with ``batch``, ``learning_rate`` and ``schedule``: Adam, its loss recorded 20 times."""
    from ..models import Group, Recipe, Schedule

    return Recipe(
        steps=steps,
        batch=preset.batch,
        groups=Group("adam", preset.learning_rate),
        schedule=Schedule(preset.schedule),
        record_every=max(steps // 20, 1),
    )


def r2_gain(pair: Mapping[str, Any]) -> float | None:
    """Held-out R² of f that a linear map explains above the better of no map and shuffled rows; below −1 is −1."""
    linear, *others = (taken(pair, key) for key in ("f.linear", "f.identity", "f_shuffled"))
    return None if linear is None or None in others else max(linear, LOWEST) - max(*others, LOWEST)
