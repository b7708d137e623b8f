"""Verdict on one direction: one rule, in one unit, for two runs and for many.

A rung suffices if, held out and in mean distances of the target's rows to their mean,

1. the upper end of its interval lies below what shuffled pairings give (their 5 % point),
2. and below 1, the error of predicting the mean,
3. and the upper end of the *paired* difference from the best rung is at most ``tolerance``.

The verdict is the smallest rung that suffices. Independent components are asked last: they are a linear map as well,
so that they can be the verdict only where least squares fails.
"""

from __future__ import annotations

from ..report.charts import PHRASES
from ..results import least, r2_text, significant
from .result import Rung, Verdict

TOLERANCE = 0.03  # mean distances to the mean
FOUND = 0.05  # p-value up to which a relation is found, though it may explain nothing for sure
AGREES, PARTLY = 0.8, 0.5  # least R² and largest error of two sides that agree; otherwise they are partly related
WITHOUT_LINEAR = "No verdict: the rule compares every rung with the best one, and the linear rung was left out."
WITHOUT_NULL = "No verdict: there is no chance level from shuffled pairings, so that chance cannot be ruled out."


def suffices(upper: float, chance: float, excess: float, tolerance: float) -> bool:
    """The rule, from the upper ends of error and excess and the lower end of chance."""
    return upper < chance and upper < 1 and excess <= tolerance


def judge(rungs: dict[str, Rung], tolerance: float, source: str, target: str, scored: int | None = None) -> Verdict:
    """The smallest rung that suffices; ``scored`` is the number of rows that could be held out, where not all could."""
    linear = rungs.get("linear")
    if linear is None:
        return Verdict(None, WITHOUT_LINEAR)
    if linear.null is None:
        return Verdict(None, WITHOUT_NULL)
    if scored is not None and scored < LEAST_SCORED:
        return Verdict(None, too_few_scored(scored))
    best = best_rung(rungs)
    for name, rung in rungs.items():
        if rung.null is not None and suffices(rung.upper, rung.null.low, _excess(rung, rungs[best]), tolerance):
            return Verdict(name, _sentence(rung, source, target))
    return Verdict(None, _unexplained(rungs[best], source, target))


LEAST_SCORED = 20


def too_few_scored(scored: int) -> str:
    """Why there is no verdict where most rows occur again in other folds."""
    return (
        f"No verdict: only {scored} row{'' if scored == 1 else 's'} could be scored, because the others occur again, "
        "as equal rows, among those that maps are fitted to."
    )


def best_rung(rungs: dict[str, Rung]) -> str:
    """The rung with the smallest held-out error."""
    return least({name: rung.held_out.mean for name, rung in rungs.items()})


def _sentence(rung: Rung, source: str, target: str) -> str:
    said = "agree" if agrees(rung.held_out.mean, rung.explained) else "are partly related,"
    error = error_text(rung.held_out.mean, rung.explained)
    return f"{source} and {target} {said} {PHRASES[rung.name]}. {error} ({_chance(rung)})."


def _unexplained(best: Rung, source: str, target: str) -> str:
    said = f"{source} and {target} are not explained by any rung"
    if not best.below_null:
        found = best.null is not None and best.null.p_value <= FOUND and best.held_out.mean < best.null.mean
        few = best.null is not None and best.null.smallest_p > FOUND
        if few and not found:
            said = f"It is undecided whether {source} and {target} are related"
        what = "is not shown to beat chance by so few shuffled pairings" if few else "is no better than chance"
        what = "differs from chance, but its interval reaches it" if found else what
    elif best.held_out.mean < 1:
        what = "may be no better than predicting the mean, by its interval"
    else:
        what = "is no better than predicting the mean"
    error = error_text(best.held_out.mean, best.explained)
    return f"{said}: the best one, {best.name}, {what}. {error} ({_chance(best)})."


def agrees(error: float, explained: float | None) -> bool:
    """Whether a rung leaves so little that two sides agree: less than a fifth of the variance, and a small error."""
    return error <= PARTLY and (explained is None or explained >= AGREES)


def error_text(error: float, explained: float | None) -> str:
    """A held-out error in words, with R² where it is known; where few rows set either, the two differ much."""
    r2 = "" if explained is None else f", R² {r2_text(explained)}"
    return f"Held-out error: {significant(error)} mean distances to the mean{r2}"


def _chance(rung: Rung) -> str:
    return "no chance level" if rung.null is None else f"chance {significant(rung.null.mean)}, p {rung.null.p_text}"


def _excess(rung: Rung, best: Rung) -> float:
    return rung.excess.high if rung.excess else rung.held_out.mean - best.held_out.mean
