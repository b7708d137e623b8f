"""Figures 2b and 2c of the paper, and the sweeps over classes and dimensions, as plain numbers.

What was found, in sentences made by rule from the numbers.

Outcomes of the units, as the tables, figures and findings ask for them.

Outcomes of the units as tables, figures, findings and a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .classes import LEFT_OPEN, TASKS, Preset
from .experiment import Chart, Line, Mark, Outcome, Row, Summary, Table
from .outcomes import RUNGS, over_pairs

_FOLLOWED = (("f", "f on examples"), ("g", "g on classes"), ("shuffled", "f, shuffled"), ("head", "head map, R²"))
_HUES = 6  # colours that a page tells apart, beside the first


def charts(reading: Reading) -> tuple[Chart, ...]:
    """All that there is something to draw for."""
    drawn = []
    head = reading.head
    if head is not None:
        drawn += [_training(head), *_clouds(head), _starts_chart(reading)]
    for task in reading.tasks:
        fixed = reading.preset.fixed_dimension, reading.preset.fixed_classes
        drawn.append(_sweep_chart(task, "classes", reading.over_classes(task), f"{fixed[0]} dimensions"))
        drawn.append(_sweep_chart(task, "dimension", reading.over_dimensions(task), f"{fixed[1]} classes"))
    return tuple(chart for chart in drawn if chart.lines or chart.marks)


def _training(head: Setting) -> Chart:
    lines = []
    named = (
        ("f", "f on examples"),
        ("g", "g on classes"),
        ("shuffled", "f, shuffled examples"),
        ("head", "head map, R²"),
    )
    for place, (name, words) in enumerate(named):
        points = [(step, value, error or 0.0) for step, value, error in head.curve(name) if value is not None]
        if name == "head":  # far below zero at the start, when the heads say nothing
            points = [each for each in points if each[1] > 0]
        lines.append(
            Line(
                words,
                tuple((math.log10(step + 1), value) for step, value, _ in points),
                tuple(f"{words}, step {step}: {value:.3f}" for step, value, _ in points),
                place + 1,
                spans=tuple((value - error, value + error) for _, value, error in points),
            )
        )
    last = head.curve("f")[-1][0] if head.curve("f") else 1
    ticks = tuple((math.log10(step + 1), str(step)) for step in (0, 10, 100, 1000, 10_000) if step <= last)
    return Chart(
        "training",
        f"{head.classes} classes by angle, {head.dimension} dimensions: similarity over training (Figure 2b)",
        "Mean canonical correlation of two trainings, averaged over all pairs ± standard error. Shuffled examples are "
        "chance. The map from the two heads alone, to which no representations were fitted, is drawn where its R² is "
        "above 0.",
        ("training step", "mean canonical correlation"),
        lines=tuple(line for line in lines if line.points),
        ticks=ticks,
    )


def _clouds(head: Setting) -> list[Chart]:
    found = head.found.get("cloud")
    if not found:
        return []
    rows = range(len(found["labels"]))
    shown = []
    for name, words in (("first", "one training"), ("second", "another training")):
        lines = []
        for hue in range(min(_HUES, head.classes)):
            mine = [row for row in rows if found["labels"][row] % _HUES == hue]
            points = tuple((float(found[name][row][0]), float(found[name][row][1])) for row in mine)
            labels = tuple(f"class {found['labels'][row] + 1}" for row in mine)
            classes = ", ".join(str(label + 1) for label in range(hue, head.classes, _HUES))
            lines.append(Line(f"classes {classes}", points, labels, hue + 1, dotted=True))
        shown.append(
            Chart(
                f"cloud-{name}",
                f"f(x) of {words}",
                "A dot is a test example. Colours repeat every six classes, so that neighbours differ.",
                ("first dimension of f", "second dimension"),
                lines=tuple(line for line in lines if line.points),
                square=True,
            )
        )
    lines = [
        Line(
            words,
            tuple((float(x), float(y)) for x, y in found[name]),
            tuple(f"{words}: class {label + 1}" for label in found["labels"]),
            series,
            dotted=True,
        )
        for name, words, series in (("second", "another training", 1), ("mapped", "one training, mapped", 2))
    ]
    shown.append(
        Chart(
            "cloud-mapped",
            "Both after the best linear map (Figure 2c)",
            "f(x) of the other training, and of the first mapped onto it by a linear map fitted to other examples.",
            ("first dimension of f", "second dimension"),
            lines=tuple(lines),
            square=True,
        )
    )
    return shown


def _starts_chart(reading: Reading) -> Chart:
    marks = []
    for place, setting in enumerate(reading.published):
        for optimum, words in ((True, "both at the least loss"), (False, "not both")):
            value, error = setting.mean("cca", optimum=optimum)
            if value is not None:
                marks.append(
                    Mark(
                        f"start {setting.start:g}: {words}",
                        value,
                        None if error is None else max(value - error, 0.0),
                        None if error is None else value + error,
                        setting.mean("cca_shuffled")[0],
                        place + 1,
                    )
                )
    return Chart(
        "starts",
        "Agreement by start, and by whether both models reached the least loss",
        "Mean canonical correlation of f over pairs. A model that ended in a poor optimum has another distribution of "
        "labels, of which the theorem says nothing.",
        ("mean canonical correlation of f", ""),
        marks=tuple(marks),
        bound="shuffled",
    )


def _sweep_chart(task: str, by: str, settings: list[Setting], fixed: str) -> Chart:
    across = "classes" if by == "classes" else "dimensions"
    named: tuple[tuple[str | Measure, str], ...] = (
        ("cca", "all of f"),
        ("least", "its least correlation"),
        ("cca_within", "in the span of the head"),
        ("outside", "R² outside of it"),
    )
    lines = []
    for place, (measure, words) in enumerate(named):
        points = []
        for rank, each in enumerate(settings):
            value, error = each.mean(measure)
            if value is not None:
                points.append((rank, value, error or 0.0, getattr(each, by)))
        lines.append(
            Line(
                words,
                tuple((float(rank), value) for rank, value, _, _ in points),
                tuple(f"{words}, {size} {across}: {value:.3f}" for _, value, _, size in points),
                place + 1,
                spans=tuple((value - error, value + error) for _, value, error, _ in points),
            )
        )
    return Chart(
        f"{across}-{task}",
        f"{TASKS[task].capitalize()}: {fixed}, by the number of {across}",
        "Canonical correlations of two trainings, mean over pairs ± standard error. The condition on diversity asks "
        "for more classes than dimensions; outside of the span of the head's differences nothing fixes f.",
        (f"{across} (* where classes are too few)", "agreement"),
        lines=tuple(line for line in lines if line.points),
        ticks=tuple(
            (float(rank), f"{getattr(each, by)}{'' if each.diverse else '*'}") for rank, each in enumerate(settings)
        ),
    )


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
        f"is {_spelt(chance)}. {_rungs_finding(head)}"
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


def _rungs_finding(head: Setting) -> str:
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


Number = float | None
Measure = Callable[[Mapping[str, Any]], Number]
"""A number of a pair, or none."""
SLACK = 0.02
"""Nats: losses within twice the least excess, and this, count as the same optimum."""


LOWEST = -1.0
"""R² below this counts as this: a map that inverts a nearly singular head can be wrong by any factor."""


class Setting:
    """One unit: models and pairs of the same task, classes, dimension and start."""

    def __init__(self, found: Outcome) -> None:
        self.found = found
        self.task, self.classes, self.dimension = found["task"], int(found["classes"]), int(found["dimension"])
        self.start, self.published = float(found["start"]), bool(found["published"])
        self.least = min(self.losses)

    @property
    def diverse(self) -> bool:
        """Whether there is a class more than dimensions."""
        return self.classes >= self.dimension + 1

    def mean(self, measure: str | Measure, *, optimum: bool | None = None) -> tuple[Number, Number]:
        """Mean over pairs and its error; with ``optimum``, over pairs that both (or not both) reached the best loss."""
        take = measure if callable(measure) else lambda pair: pair[measure]
        values = {}
        for pair in self.found["pairs"]:
            value = take(pair)
            if value is not None and (optimum is None or self._both(pair) is optimum):
                values[pair["first"], pair["second"]] = max(float(value), LOWEST)
        return over_pairs(values)

    def rung(self, side: str, rung: str) -> tuple[Number, Number]:
        """Held-out R² of a rung, for examples ``f`` or classes ``g``."""
        return self.mean(lambda pair: None if pair[side] is None else pair[side][rung])

    @property
    def losses(self) -> list[float]:
        """Test loss of every model above the entropy of the labels."""
        return [
            float(model["loss"]) - float(self.found["floor"]) if model["loss"] is not None else float("inf")
            for model in self.found["models"]
        ]

    @property
    def reached(self) -> list[bool]:
        """Which models came to the least loss that was found, from any start."""
        return [loss <= 2 * max(self.least, 0.0) + SLACK for loss in self.losses]

    def curve(self, name: str) -> list[tuple[int, Number, Number]]:
        """Step, mean over pairs and its error."""
        points = []
        for point in self.found.get("curve") or ():
            known = {
                (pair["first"], pair["second"]): max(float(pair[name]), LOWEST)
                for pair in point["pairs"]
                if pair[name] is not None
            }
            points.append((int(point["step"]), *over_pairs(known)))
        return points

    def _both(self, pair: Mapping[str, Any]) -> bool:
        return all(self.reached[int(pair[side])] for side in ("first", "second"))


class Reading:
    """All settings of a run."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self.settings = [Setting(found) for found in outcomes.values()]
        self.published = [setting for setting in self.settings if setting.published]
        for setting in self.published:
            setting.least = min(each.least for each in self.published)
        self.tasks = [task for task in preset.tasks if any(each.task == task for each in self.settings)]

    @property
    def head(self) -> Setting | None:
        """The published simulation from the first start."""
        return self.published[0] if self.published else None

    def over_classes(self, task: str) -> list[Setting]:
        """The sweep over classes at one dimension."""
        return self._sweep(task, lambda each: each.dimension == self.preset.fixed_dimension, self.preset.sweep_classes)

    def over_dimensions(self, task: str) -> list[Setting]:
        """The sweep over dimensions at one number of classes."""
        wanted = self.preset.sweep_dimensions
        return self._sweep(task, lambda each: each.classes == self.preset.fixed_classes, wanted, by="dimension")

    def both_sweeps(self, task: str) -> list[Setting]:
        """Every setting of the sweeps of a task once."""
        found = self.over_classes(task)
        return found + [each for each in self.over_dimensions(task) if each not in found]

    def _sweep(
        self, task: str, fits: Callable[[Setting], bool], wanted: tuple[int, ...], by: str = "classes"
    ) -> list[Setting]:
        found = {
            getattr(each, by): each
            for each in self.settings
            if not each.published and each.task == task and fits(each) and getattr(each, by) in wanted
        }
        return [found[key] for key in sorted(found)]


def apart(settings: list[Setting], measure: str | Measure) -> tuple[tuple[Number, Number], tuple[Number, Number]]:
    """Mean and standard error over settings where classes are too few, and over those where they are not."""
    halves = []
    for diverse in (False, True):
        values = [each.mean(measure)[0] for each in settings if each.diverse is diverse]
        known = [value for value in values if value is not None]
        error = float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
        halves.append((float(np.mean(known)) if known else None, error))
    return halves[0], halves[1]


SAME = "1: the same up to a linear map"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = [_over_training(reading), _rungs_table(reading), _starts_table(reading)]
    for task in reading.tasks:
        fixed = f"{preset.fixed_dimension} dimensions", f"{preset.fixed_classes} classes"
        tables.append(_sweep_table(f"classes-{task}", task, fixed[0], reading.over_classes(task)))
        tables.append(_sweep_table(f"dimensions-{task}", task, fixed[1], reading.over_dimensions(task)))
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _over_training(reading: Reading) -> Table:
    head = reading.head
    rows = []
    if head is not None:
        columns = [head.curve(name) for name in ("f", "g", "shuffled", "head", "regression")]
        for points in zip(*columns, strict=True):
            rows.append(Row(f"step {points[0][0]}", *_split([(mean, error) for _, mean, error in points])))
    return Table(
        "training",
        "Over training, mean over pairs ± s.e.: mean canonical correlations, and R² of the map from the heads and of a "
        "regression",
        ("f on examples", "g on classes", "f, shuffled", "head map", "regression"),
        tuple(rows),
        f"{SAME}; R² below −1 counts as −1",
    )


def _rungs_table(reading: Reading) -> Table:
    rows = []
    for setting in reading.published:
        for name, words in (("f", "f on examples"), ("g", "g on classes")):
            cells = [setting.rung(name, rung) for rung in RUNGS]
            cells.append(setting.mean("f_shuffled") if name == "f" else (None, None))
            rows.append(Row(f"start {setting.start:g}: {words}", *_split(cells)))
    return Table(
        "rungs",
        f"Held-out R² by rung at the end, {reading.preset.classes} classes and {reading.preset.dimension} dimensions",
        (*RUNGS, "linear, shuffled"),
        tuple(rows),
        "1: all variance is explained; below 0: worse than the mean",
    )


def _starts_table(reading: Reading) -> Table:
    rows = []
    for setting in reading.published:
        reached = setting.reached
        cells = [
            (float(sum(reached)), None),
            (float(len(reached)), None),
            setting.mean("cca"),
            setting.mean("cca", optimum=True),
            setting.mean("cca", optimum=False),
            setting.mean("cca_g"),
            setting.mean("cca_shuffled"),
            setting.mean("cca_g_shuffled"),
        ]
        rows.append(Row(f"start {setting.start:g}", *_split(cells)))
    return Table(
        "starts",
        "Mean canonical correlation by the start of the class vectors, and by whether both reached the least loss",
        ("reached it", "models", "all pairs", "both", "not both", "g", "f, shuffled", "g, shuffled"),
        tuple(rows),
        SAME,
    )


def _sweep_table(name: str, task: str, fixed: str, settings: list[Setting]) -> Table:
    by_class = name.startswith("classes")
    rows = []
    for each in settings:
        size = f"{each.classes} classes" if by_class else f"{each.dimension} dimensions"
        cells = [
            each.mean("cca"),
            each.mean("least"),
            each.rung("f", "linear"),
            each.mean("cca_within"),
            each.mean("within"),
            each.mean("outside"),
            each.mean("logits"),
            each.mean("head"),
        ]
        rows.append(Row(f"{size}{'' if each.diverse else ' (too few)'}", *_split(cells)))
    return Table(
        name,
        f"{TASKS[task].capitalize()}, {fixed}: agreement of f, of its part in the span of the head, and outside of it",
        ("CCA", "least", "R²", "CCA, span", "R², span", "R², outside", "logits", "head map"),
        tuple(rows),
        f"{SAME}; too few: no more classes than dimensions; logits are compared as they are",
    )


def _split(cells: list[tuple[float | None, float | None]]) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)
