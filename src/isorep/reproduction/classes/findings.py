"""What was found, in sentences made by rule from the numbers."""

from __future__ import annotations

import math

from .material import TASKS
from .published import LEFT_OPEN
from .reading import Number, Reading, Setting, apart

APART = 0.05
"""A difference of means from which settings are told apart."""


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """Whether the canonical correlation rises over training, and to the top: both, one, none."""
    head = reading.head
    curve = [] if head is None else head.curve("f")
    if head is None or len(curve) < 2:
        return "No training was followed.", None
    (_, first, first_error), (step, last, last_error) = curve[0], curve[-1]
    if first is None or last is None:
        return "The representations are constant.", None
    rises = last - first > 2 * math.hypot(first_error or 0.0, last_error or 0.0)
    high = last >= reading.preset.high
    chance = head.mean("cca_shuffled")[0]
    said = (
        f"{head.classes} classes in {head.dimension} dimensions: the mean canonical correlation of two trainings "
        f"{'rises' if rises else 'does not rise'} from {first:.3f} before training to {_pm(last, last_error)} after "
        f"{step} steps. That is {'at least' if high else 'below'} {reading.preset.high:g}; with shuffled examples it "
        f"is {_spelt(chance)}. {_rungs(head)}"
    )
    for task in reading.tasks:
        said += f" {_diversity(task, reading.both_sweeps(task))}"
    return said, True if rises and high else None if rises or high else False


def findings(reading: Reading) -> tuple[str, ...]:
    """One sentence or two on each question."""
    said = [_g(setting) for setting in reading.published[:1]]
    said += [_optima(setting) for setting in reading.published]
    for task in reading.tasks:
        said.append(_assumption(task, reading.both_sweeps(task)))
    said += [_heads(setting) for setting in reading.published[:1]]
    said += [_head_sweep(task, reading.both_sweeps(task)) for task in reading.tasks]
    return (*(each for each in said if each), LEFT_OPEN)


def _rungs(head: Setting) -> str:
    linear, rigid, none = (_share(head.rung("f", rung)) for rung in ("linear", "rigid", "identity"))
    return f"Held out, a linear map explains {linear} of the other's variance, a rigid one {rigid}, no map {none}."


def _diversity(task: str, settings: list[Setting]) -> str:
    (few, few_error), (enough, enough_error) = apart(settings, "least")
    within = apart(settings, "within")[0][0]
    outside = apart(settings, "outside")[0][0]
    if few is None or enough is None:
        return f"{TASKS[task].capitalize()}: classes were not both too few and enough, so diversity was not tested."
    broken = enough - few > max(APART, 2 * math.hypot(few_error or 0.0, enough_error or 0.0))
    return (
        f"{TASKS[task].capitalize()}: with no more classes than dimensions agreement "
        f"{'breaks' if broken else 'is not seen to break'}: the least canonical correlation is {few:.2f} on average, "
        f"against {enough:.2f} with more; there a linear map explains {_spelt(within, 2)} of f in the span of the head "
        f"and {_spelt(outside, 2)} outside of it."
    )


def _g(setting: Setting) -> str:
    return (
        f"Class vectors g agree as f does: mean canonical correlation {_pm(*setting.mean('cca_g'))} over "
        f"{setting.classes} classes, with shuffled classes {_spelt(setting.mean('cca_g_shuffled')[0])}."
    )


def _optima(setting: Setting) -> str:
    reached = setting.reached
    both, other = setting.mean("cca", optimum=True), setting.mean("cca", optimum=False)
    head = (
        f"From class vectors of spread {setting.start:g}, {sum(reached)} of {len(reached)} trainings came to the least "
        f"loss of any ({', '.join(f'{loss:.3f}' for loss in sorted(setting.losses))} nats above the labels' entropy)"
    )
    if other[0] is None or both[0] is None:
        return f"{head}; all pairs agree to {_spelt(setting.mean('cca')[0])}."
    told = both[0] - other[0] > APART
    words = "so it is poor optima, not the family of models, that keep trainings apart" if told else ""
    return f"{head}; pairs of these agree to {_spelt(both[0])}, others to {_spelt(other[0])}" + (
        f": {words}." if words else "."
    )


def _assumption(task: str, settings: list[Setting]) -> str:
    """How far two models have the same distribution of labels, which the theorem assumes."""
    known = [(each.mean("logits")[0], each) for each in settings]
    values = [(value, each) for value, each in known if value is not None]
    if not values:
        return ""
    worst, where = min(values, key=lambda pair: pair[0])
    best = max(value for value, _ in values)
    said = (
        f"{TASKS[task].capitalize()}: the theorem assumes two models with the same log-odds. Those of one explain "
        f"{_signed(worst)} ({where.classes} classes, {where.dimension} dimensions) to {_signed(best)} of the variance "
        "of the other's"
    )
    if task == "angle":
        said += "; where the label is certain, true log-odds are infinite, and training never arrives"
    return said + "."


def _heads(setting: Setting) -> str:
    curve = [(step, value) for step, value, _ in setting.curve("head") if value is not None]
    end, fitted = setting.mean("head"), setting.mean("within")
    if not curve or end[0] is None:
        return ""
    first = next((step for step, value in curve if value > 0.9), None)
    when = "never above 0.9 over training" if first is None else f"above 0.9 from step {first} on or earlier"
    return (
        f"The map that the two heads predict, without any pair of representations, explains {_pm(*end)} at the end "
        f"({when}); the held-out regression explains {_pm(*fitted)}."
    )


def _head_sweep(task: str, settings: list[Setting]) -> str:
    known = [(each, each.mean("head")[0], each.mean("within")[0]) for each in settings]
    apart_most = [(fit - head, each, head, fit) for each, head, fit in known if head is not None and fit is not None]
    if not apart_most:
        return ""
    gap, each, head, fit = max(apart_most, key=lambda found: found[0])
    conditions = [float(model["condition"]) for model in each.found["models"] if model["condition"] is not None]
    condition = max(conditions, default=None)
    words = "" if condition is None else f", where a head has condition number {condition:.3g}"
    return (
        f"{TASKS[task].capitalize()}: head map and regression in the span of the head differ by at most {gap:.2g} in "
        f"R² ({_signed(head)} and {_signed(fit)} at {each.classes} classes, {each.dimension} dimensions{words})."
    )


def _pm(value: Number, error: Number) -> str:
    return _spelt(value) + ("" if error is None else f" ± {error:.3f}")


def _spelt(value: Number, places: int = 3) -> str:
    return "unknown" if value is None else f"{value:.{places}f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _share(found: tuple[Number, Number]) -> str:
    value, error = found
    if value is None:
        return "an unknown share"
    if value < 0:
        return "nothing"
    return f"{100 * value:.1f}" + ("" if error is None else f" ± {100 * error:.1f}") + " %"
