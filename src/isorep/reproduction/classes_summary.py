"""Canonical correlations of classifiers over training, by start, classes and dimensions: tables, figures and claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..resampling import Value
from .classes import TASKS, Preset
from .experiment import Chart, Claim, Mark, Outcome, Summary, Table
from .outcomes import RUNGS, Setting, claim, cloud, conjunction, lines, mark, mean_of, r2_gain, summary, table, ticks

APART = 0.05
"""The smallest difference of mean correlations between settings that counts."""
SLACK = 0.02
"""Nats: losses within twice the least excess, and this, count as the same optimum."""
SAME = "1: the same up to a linear map"
AXES = ("first dimension of f", "second dimension")
_HUES = 6  # distinguishable colours of a page, besides the first
_CURVES = {"f": "f on examples", "g": "g on classes", "shuffled": "f, shuffled examples", "head": "head map, R²"}
_COLUMNS = _CURVES | {"shuffled": "f, shuffled", "head": "head map", "regression": "regression"}
_SWEPT = {
    "CCA": "cca",
    "least": "least",
    "R²": "f.linear",
    "CCA, span": "cca_within",
    "R², span": "within",
    "R², outside": "outside",
    "logits": "logits",
    "head map": "head",
}
_DRAWN = {
    "all of f": "cca",
    "its least correlation": "least",
    "in the span of the head": "cca_within",
    "R² outside of it": "outside",
}

Sweeps = dict[tuple[str, str], list[Setting]]
"""Task and what is swept, ``classes`` or ``dimension`` -> settings in order."""


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Claims, tables and figures; the published simulation from the first start is the headline."""
    every = [Setting(outcome) for outcome in outcomes.values()]
    simulated = [each for each in every if each.published]
    if not simulated:
        return summary((), (), ())
    sweeps = {
        (task, by): _sweep(every, preset, task, by)
        for task in preset.tasks
        if any(each.task == task for each in every)
        for by in ("classes", "dimension")
    }
    parts = (simulated, sweeps, preset)
    return summary(claims(*parts), tables(*parts), charts(*parts))


def claims(simulated: list[Setting], sweeps: Sweeps, preset: Preset) -> list[Claim]:
    """Whether two trainings agree after training, and whether that takes more classes than dimensions."""
    head, curve = simulated[0], simulated[0].outcome.get("curve") or [{"pairs": ()}]
    start = {(pair["first"], pair["second"]): pair["f"] for pair in curve[0]["pairs"]}

    def rise(pair: Mapping[str, Any]) -> float | None:
        before = start[pair["first"], pair["second"]]
        return None if len(curve) < 2 or before is None or pair["f"] is None else pair["f"] - before

    last = Setting(curve[-1])
    made = [
        conjunction(
            "the mean canonical correlation of two trainings rises to its maximum",
            (
                claim("", "rise over training", last.mean(rise), form=".3f±", above=0.0),
                claim("", "mean canonical correlation of f at the end", last.mean("f"), least=preset.high, form=".3f±"),
            ),
            "a curve without numbers, Figure 2b",
        ),
        claim(
            "a linear map explains more than no map and than shuffled examples",
            "held-out R² of the linear map above the better of the two",
            head.mean(r2_gain),
            published="a picture without numbers, Figure 2c",
            above=0.0,
        ),
        claim(
            "class vectors g agree, too",
            "mean canonical correlation of g",
            head.mean("cca_g"),
            least=preset.high,
            form=".3f±",
        ),
    ]
    for task in dict.fromkeys(task for task, _ in sweeps):
        settings = list(dict.fromkeys([*sweeps[task, "classes"], *sweeps[task, "dimension"]]))
        few, enough = (
            mean_of(each.mean("least").mean for each in settings if _enough(each) is wanted) for wanted in (False, True)
        )
        if few.mean is not None and enough.mean is not None:
            made.append(
                claim(
                    f"{TASKS[task]}: agreement takes more classes than dimensions",
                    f"least canonical correlation {enough:.2f} with more classes, {few:.2f} with too few, difference",
                    enough - few,
                    above=APART,
                    published="the condition on diversity, section 3",
                )
            )
    parted = [_by_optimum(each, simulated) for each in simulated]
    made += [
        claim(
            "trainings that both reach the least loss agree more than others",
            f"mean canonical correlation {both:.3f} of these and {other:.3f} of other pairs, difference",
            both - other,
            above=APART,
            published="agreement up to optimisation error, Figure 2",
        )
        for both, other in parted
        if both.mean is not None and other.mean is not None
    ][:1]
    return made


def tables(simulated: list[Setting], sweeps: Sweeps, preset: Preset) -> list[Table]:
    """Over training, by rung, by start, and a table for each sweep."""
    by_rung, starts = {}, {}
    for each in simulated:
        name = f"start {each.start:g}"
        for side in ("f", "g"):
            shuffled = each.mean("f_shuffled") if side == "f" else Value(None)
            by_rung[f"{name}: {_COLUMNS[side]}"] = [*(each.mean(f"{side}.{rung}") for rung in RUNGS), shuffled]
        reached = _reached(each, simulated)
        starts[name] = [
            *(Value(float(count)) for count in (sum(reached), len(reached))),
            each.mean("cca"),
            *_by_optimum(each, simulated),
            *(each.mean(key) for key in ("cca_g", "cca_shuffled", "cca_g_shuffled")),
        ]
    made = [
        table(
            "training",
            "Over training, mean over pairs ± s.e.: mean canonical correlations, and R² of the map from the heads and "
            "of a regression",
            f"{SAME}; R² below −1 counts as −1",
            {
                f"step {point['step']}": [Setting(point).mean(key) for key in _COLUMNS]
                for point in simulated[0].outcome.get("curve") or ()
            },
            tuple(_COLUMNS.values()),
        ),
        table(
            "rungs",
            f"Held-out R² by rung at the end, {preset.classes} classes and {preset.dimension} dimensions",
            "1: all variance is explained; below 0: worse than the mean",
            by_rung,
            (*RUNGS, "linear, shuffled"),
        ),
        table(
            "starts",
            "Mean canonical correlation by the start of the class vectors, and by whether both reached the least loss",
            SAME,
            starts,
            ("reached it", "models", "all pairs", "both", "not both", "g", "f, shuffled", "g, shuffled"),
        ),
    ]
    for (task, by), settings in sweeps.items():
        across, fixed = _axis(by, preset)
        rows = {}
        for each in settings:
            few = "" if _enough(each) else " (too few)"
            rows[f"{each.outcome[by]} {across}{few}"] = [each.mean(key) for key in _SWEPT.values()]
        made.append(
            table(
                f"{across}-{task}",
                f"{TASKS[task].capitalize()}, {fixed}: agreement of f, of its part in the span of the head, and "
                "outside of it",
                f"{SAME}; too few: no more classes than dimensions; logits are compared as they are",
                rows,
                tuple(_SWEPT),
            )
        )
    return made


def charts(simulated: list[Setting], sweeps: Sweeps, preset: Preset) -> list[Chart]:
    """Figures 2b and 2c, agreement by start, and a figure for each sweep."""
    drawn = [_training(simulated[0]), *_clouds(simulated[0]), _starts(simulated)]
    for (task, by), settings in sweeps.items():
        across, fixed = _axis(by, preset)
        where = [f"{each.outcome[by]} {across}" for each in settings]
        values = {words: [each.mean(key) for each in settings] for words, key in _DRAWN.items()}
        drawn.append(
            Chart(
                f"{across}-{task}",
                f"{TASKS[task].capitalize()}: {fixed}, by the number of {across}",
                "Canonical correlations of two trainings, mean over pairs ± standard error. The diversity condition "
                "requires more classes than dimensions; outside the span of the head's differences f is undetermined.",
                (f"{across} (* where classes are too few)", "agreement"),
                lines=lines(values, where, start=1),
                ticks=ticks(f"{each.outcome[by]}{'' if _enough(each) else '*'}" for each in settings),
            )
        )
    return drawn


def _training(head: Setting) -> Chart:
    curve = head.outcome.get("curve") or []
    steps = [point["step"] for point in curve]
    values = {words: [Setting(point).mean(key) for point in curve] for key, words in _CURVES.items()}
    heads = values[_CURVES["head"]]  # far below zero at the start, when the heads say nothing
    values[_CURVES["head"]] = [value if (value.mean or 0.0) > 0 else Value(None) for value in heads]
    drawn = [
        replace(each, points=tuple((math.log10(steps[int(at)] + 1), value) for at, value in each.points))
        for each in lines(values, [f"step {step}" for step in steps], start=1)
    ]
    return Chart(
        "training",
        f"{head.classes} classes by angle, {head.dimension} dimensions: similarity over training (Figure 2b)",
        "Mean canonical correlation of two trainings, averaged over all pairs ± standard error. Shuffled examples are "
        "chance. The map from the two heads alone, to which no representations were fitted, is drawn where its R² is "
        "above 0.",
        ("training step", "mean canonical correlation"),
        lines=tuple(drawn),
        ticks=tuple(
            (math.log10(step + 1), str(step)) for step in (0, 10, 100, 1000, 10_000) if step <= max(steps or [1])
        ),
    )


def _clouds(head: Setting) -> list[Chart]:
    shown = head.outcome.get("cloud")
    if not shown:
        return []
    labels = shown["labels"]
    caption = "A dot is a test example. Colours repeat every six classes, so that neighbours differ."
    panels = {}
    for name, words in (("first", "one training"), ("second", "another training")):
        dots = []
        for hue in range(min(_HUES, head.classes)):
            rows = [row for row, label in enumerate(labels) if label % _HUES == hue]
            classes = ", ".join(str(label + 1) for label in range(hue, head.classes, _HUES))
            named = [f"class {labels[row] + 1}" for row in rows]
            dots.append(cloud([shown[name][row] for row in rows], f"classes {classes}", hue + 1, named))
        panels[name] = (f"f(x) of {words}", caption, dots)
    overlaid = {"another training": "second", "one training, mapped": "mapped"}
    panels["mapped"] = (
        "Both after the best linear map (Figure 2c)",
        "f(x) of the other training, and of the first mapped onto it by a linear map fitted to other examples.",
        [
            cloud(shown[name], words, series, [f"{words}: class {label + 1}" for label in labels])
            for series, (words, name) in enumerate(overlaid.items(), start=1)
        ],
    )
    return [
        Chart(f"cloud-{name}", title, caption, AXES, lines=tuple(dots), square=True)
        for name, (title, caption, dots) in panels.items()
    ]


def _starts(simulated: list[Setting]) -> Chart:
    marks: list[Mark] = []
    for series, each in enumerate(simulated, start=1):
        for value, words in zip(_by_optimum(each, simulated), ("both at the least loss", "not both"), strict=True):
            marks += mark(f"start {each.start:g}: {words}", value, series, each.mean("cca_shuffled").mean)
    return Chart(
        "starts",
        "Agreement by start, and by whether both models reached the least loss",
        "Mean canonical correlation of f over pairs. A model that ended in a poor optimum has another distribution of "
        "labels, to which the theorem does not apply.",
        ("mean canonical correlation of f", ""),
        marks=tuple(marks),
        bound="shuffled",
    )


def _sweep(every: list[Setting], preset: Preset, task: str, by: str) -> list[Setting]:
    """The settings of a task in which only the number of classes, or of dimensions, varies."""
    fixed, size = ("dimension", preset.fixed_dimension) if by == "classes" else ("classes", preset.fixed_classes)
    wanted = preset.sweep_classes if by == "classes" else preset.sweep_dimensions
    swept = [each for each in every if not each.published and each.task == task and each.outcome[fixed] == size]
    return sorted((each for each in swept if each.outcome[by] in wanted), key=lambda each: int(each.outcome[by]))


def _axis(by: str, preset: Preset) -> tuple[str, str]:
    """What is swept, and what is held, in words."""
    held = f"{preset.fixed_dimension} dimensions" if by == "classes" else f"{preset.fixed_classes} classes"
    return "classes" if by == "classes" else "dimensions", held


def _enough(setting: Setting) -> bool:
    """Whether there is a class more than dimensions."""
    return int(setting.classes) > int(setting.dimension)


def _reached(setting: Setting, simulated: list[Setting]) -> list[bool]:
    """Which models came to the least loss of any start."""
    least = min(loss for each in simulated for loss in _losses(each))
    return [loss <= 2 * max(least, 0.0) + SLACK for loss in _losses(setting)]


def _losses(setting: Setting) -> list[float]:
    """Test loss of every model above the entropy of the labels."""
    losses = [model["loss"] for model in setting.models]
    return [math.inf if loss is None else float(loss) - float(setting.floor) for loss in losses]


def _by_optimum(setting: Setting, simulated: list[Setting]) -> tuple[Value, Value]:
    """Mean canonical correlation of f over pairs of models that both reached the least loss, and over all others."""
    reached = _reached(setting, simulated)

    def mean(wanted: bool) -> Value:
        chosen = [each for each in setting.pairs if (reached[each["first"]] and reached[each["second"]]) is wanted]
        return Setting({"pairs": chosen}).mean("cca")

    return mean(True), mean(False)
