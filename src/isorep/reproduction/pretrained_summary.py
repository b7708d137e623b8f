r"""Table 1 in-sample and held out, the ladder and the efficiency of ICA, and the published findings as rules.

A rule is a margin :math:`m=c+\sum_rw_re_r\ge0` over the errors of the rungs r of a pair. With
:math:`E_r=e_r-e_{\rm linear}`, whose intervals are of differences row by row, it is
:math:`m=c+\sum_{r\ne{\rm linear}}w_rE_r+(\sum_rw_r)e_{\rm linear}`. The interval of m adds up the ends of the parts, so
that it is too wide rather than too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ..resampling import Interval, Value
from .experiment import Chart, Claim, Mark, Outcome, Summary, Table
from .ica_controls import CONTROLS, LEADING
from .outcomes import Setting, lines, over_cases, spanned, summary, table, ticks
from .pretrained import KINDS, PUBLISHED, RUNGS, Preset

WHEN = ("trained", "untrained")
WORDS = {"signed_permutation": "permutation", "rigid": "rigid", "linear": "linear", "ica": "ICA"}
ORDER = ("signed_permutation", "ica", "rigid", "linear")  # as the paper expects errors to fall
TITLES = {
    "gpt": "GPT (penultimate)",
    "gpt-last": "GPT (last)",
    "mae": "Masked autoencoder",
    "cnn": "Supervised CNN",
    "ae": "Autoencoder",
}
BESIDE = {"gpt": "Pythia-160M", "mae": "MAE", "cnn": "ResNet-18"}
"""The published row for comparison."""

COLUMNS = (*WORDS.values(), "ICA efficiency")
SHARE = "linear / mean alone"
EFFICIENCY = "lower is closer; efficiency is 1 for the rigid map, and left out where that removes less than a tenth"
EFFICIENCIES = {
    "held out": "trained.efficiency",
    "in sample": "trained.efficiency_in_sample",
    "held out, untrained": "untrained.efficiency",
}
SIMILAR = 0.02  # diameters by which a level of error is still a similar one
_MOST, _LONGEST = 8, 12  # subjects of one figure, and letters of a name there


@dataclass(frozen=True)
class Rule:
    """A finding of the paper as an inequality between the errors of a pair; ``weights`` are in the order of the rungs.

    It is about all networks, or those of some ``kinds``. One that is not ``stated`` in the paper is no claim.
    """

    short: str
    text: str
    formula: str
    weights: tuple[float, float, float, float]
    kinds: tuple[str, ...] = (*KINDS, "")
    constant: float = 0.0
    stated: bool = True

    def at(self, errors: Sequence[float]) -> float:
        """The margin for errors without intervals."""
        return self.constant + sum(weight * each for weight, each in zip(self.weights, errors, strict=True))

    @property
    def published(self) -> list[float]:
        """The margins of Table 1."""
        if self is LEVEL:
            return [PUBLISHED["Pythia-160M"][1][2] - PUBLISHED["MAE"][1][1] + SIMILAR]
        return [self.at(row[: len(RUNGS)]) for kind, row in PUBLISHED.values() if kind in self.kinds]

    def margin(self, rungs: Mapping[str, Any]) -> Value:
        """The margin for held-out errors of a pair."""
        parts = [(sum(self.weights), _error(rungs["linear"], "interval"))]
        for rung, weight in zip(RUNGS, self.weights, strict=True):
            if rung != "linear":
                parts.append((weight, _error(rungs[rung], "excess", rungs["linear"]["held_out"])))
        return summed(parts, self.constant)


OTHERS = ("mae", "cnn", "ae")
RULES = (
    Rule(
        "GPT linear",
        "a linear map explains GPT-class models: its error is at most two thirds of the permutation's",
        "2/3 permutation − linear",
        (2 / 3, 0, -1, 0),
        ("gpt",),
    ),
    Rule(
        "rigid at least half of linear",
        "a rigid map explains autoencoders and supervised models: it gains at least half of what a linear map gains "
        "over the permutation",
        "(permutation + linear) / 2 − rigid",
        (0.5, -1, 0.5, 0),
        OTHERS,
    ),
    Rule(
        "MAE rigid like GPT linear",
        "rigid maps of masked autoencoders leave a similar error as linear maps of GPTs",
        f"linear of the GPT + {SIMILAR} − rigid",
        (0, 0, 0, 0),
        constant=SIMILAR,
    ),
    Rule("rigid within 0.01 of linear", "", "", (0, -1, 1, 0), OTHERS, constant=0.01, stated=False),
    Rule("ICA below permutation", "ICA removes part of the permutation's error", "permutation − ICA", (1, 0, 0, -1)),
    Rule("ICA above rigid", "ICA stays above the rigid map", "ICA − rigid", (0, -1, 0, 1)),
    Rule(
        "ICA at least a fifth of rigid",
        "ICA removes a substantial portion: at least a fifth of what the rigid map gains over the permutation",
        "4/5 permutation + 1/5 rigid − ICA",
        (0.8, 0.2, 0, -1),
    ),
)
LEVEL = RULES[2]
"""The one finding that is about two kinds: its weights are for different networks."""


@dataclass(frozen=True)
class Case:
    """A rule for a subject: margins of its pairs, of untrained ones, in sample, and that of the published row."""

    rule: Rule
    title: str
    margins: list[Value]
    before: list[Value]
    in_sample: float | None
    published: float | None

    @property
    def cells(self) -> list[Value]:
        """Columns of the table: means over pairs, of ends as of margins."""
        numbers = (self.published, self.in_sample, *spanned(mean_value(self.margins)), mean_value(self.before).mean)
        return [Value(each) for each in numbers]


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    subjects = _subjects(outcomes)
    every = cases(subjects)
    tables = tables_of(subjects, every, [each for each in outcomes.values() if "loss_before" in each])
    return summary(claims_of(every), tables, charts_of(subjects[:_MOST]))


def _subjects(outcomes: Mapping[str, Outcome]) -> list[Setting]:
    """What is one row of Table 1 each: a representation of a kind with all its pairs, or a layer of a named pair."""
    subjects: dict[str, dict[str, Any]] = {}
    for outcome in outcomes.values():
        for key, pair in (outcome.get("subjects") or {}).items():
            about = {"title": TITLES[key], "short": key.upper().replace("-LAST", " last"), "kind": outcome["kind"]}
            subject = subjects.setdefault(key, {**about, "key": key, "published": BESIDE.get(key, ""), "pairs": []})
            subject["pairs"].append(paired(outcome["pair"], pair, 2))
    for outcome in outcomes.values():
        for place, layer in enumerate(outcome.get("layers") or ()):
            title = f"{outcome['name']}, {layer['layer']}" if layer["layer"] else outcome["name"]
            short = title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"
            kind = PUBLISHED[outcome["published"]][0] if outcome["published"] else ""
            about = {"title": title, "short": short, "kind": kind, "key": "", "published": outcome["published"]}
            # The source is mapped onto the target, as in Table 1.
            subjects[f"named-{outcome['name']}-{place}"] = about | {"pairs": [paired((0, 1), layer, 1)]}
    return [Setting(each, lowest=-math.inf) for each in subjects.values()]


def paired(places: Sequence[int], compared: Mapping[str, Any], directions: int) -> dict[str, Any]:
    """A pair of models with the mean of so many directions, trained and untrained."""
    pair: dict[str, Any] = {"first": places[0], "second": places[1]}
    for when in WHEN:
        ways = compared[when]["ways"][:directions] if when in compared else []
        pair[when] = _averaged([_with_shares(way) for way in ways]) if ways else None
        controls = compared[when].get("controls") if ways else None
        if controls:
            facts = {key: controls[key] for key in ("correlation", "leading_correlation")}
            facts["gaussian"] = sum(controls["gaussian"]) / max(sum(controls["components"]), 1)
            facts["leading_share"] = sum(controls["leading"]) / max(sum(controls["components"]), 1)
            pair[when]["controls"] = _averaged(controls["ways"]) | facts
    return pair


def _with_shares(way: Mapping[str, Any]) -> dict[str, Any]:
    """Held-out errors, also relative to that of the target's mean alone."""
    alone = way["baseline"]
    return {**way, "shares": {name: each["held_out"] / alone if alone else None for name, each in way["rungs"].items()}}


def _averaged(values: list[Any]) -> Any:
    """The mean of both directions number by number, None where one is unknown.

    Ends of intervals are averaged as well: too wide rather than too narrow, as directions share their rows.
    """
    first = values[0]
    if any(each is None for each in values) or isinstance(first, str):
        return None
    if isinstance(first, dict):
        return {key: _averaged([each[key] for each in values]) for key in first}
    if isinstance(first, list):
        return [_averaged(list(each)) for each in zip(*values, strict=True)]
    return sum(values) / len(values)


def tables_of(subjects: list[Setting], every: list[Case], trainings: list[Outcome]) -> tuple[Table, ...]:
    """Table 1, the same held out, the findings, untrained networks, and losses of the trainings."""
    paths = [*(f"rungs.{rung}.held_out" for rung in RUNGS), "efficiency", "shares.linear"]
    held_out: dict[str, dict[str, list[Value]]] = {when: {} for when in WHEN}
    for when, each in product(WHEN, subjects):
        if any(pair[when] for pair in each.pairs):
            held_out[when][each.title] = [each.mean(f"{when}.{path}") for path in paths]
    keys = ("loss_before", "loss", "held_out_loss", "accuracy")
    return (
        _table_1(subjects),
        table(
            "held-out",
            "The same held out, rows that belong together kept whole, ± s.e. over pairs",
            EFFICIENCY,
            held_out["trained"],
            (*COLUMNS, SHARE),
        ),
        table(
            "findings",
            "The published findings as rules: margins in diameters, held out with the mean 95% interval of a pair",
            "0 and above keeps the rule",
            {f"{each.rule.short}: {each.title}": each.cells for each in every},
            ("published", "in sample", "held out", "low", "high", "untrained"),
        ),
        *_controls(subjects),
        table(
            "untrained",
            "The same networks before training, held out, ± s.e. over pairs",
            "lower is closer: the effect of architecture and data alone",
            held_out["untrained"],
            (*COLUMNS, SHARE),
        ),
        table(
            "models",
            "Networks: losses, mean over trainings",
            "lower is better",
            {
                f"{KINDS[each['kind']]}, {len(each['loss'])} trained": [
                    *(mean_value([Value(number) for number in each.get(key) or ()]) for key in keys),
                    Value(float(each["parameters"])),
                ]
                for each in trainings
            },
            ("held out, before", "training", "held out", "accuracy", "parameters"),
        ),
    )


def _table_1(subjects: list[Setting]) -> Table:
    paths = [*(f"trained.rungs.{rung}.in_sample" for rung in RUNGS), "trained.efficiency_in_sample"]
    title = "Table 1: errors in diameters, in-sample as published, ± s.e. over pairs"
    rows = {each.title: [each.mean(path) for path in paths] for each in subjects}
    beside = {each.title: PUBLISHED[each.published][1] for each in subjects if each.published}
    whose = "; ".join(f"{each.published} beside {each.title}" for each in subjects if each.published)
    return table("table-1", title, EFFICIENCY, rows, COLUMNS, beside, f"Table 1, in-sample ({whose})")


FACTS = {
    "gaussian": "Gaussian components / all",
    "correlation": "correlation of matched components",
    "leading_share": "leading directions / all",
    "leading_correlation": "correlation, leading directions",
}
"""What explains the errors of ICA: shares of components, and medians over matched ones."""


def _controls(subjects: list[Setting]) -> tuple[Table, Table]:
    """ICA with scales like those of the other maps and without directions of little variance, and what explains it."""
    rows: dict[str, list[Value]] = {}
    facts: dict[str, list[Value]] = {}
    for when, each in product(WHEN, subjects):
        if all(pair[when] and "controls" in pair[when] for pair in each.pairs):
            paths = [f"rungs.{rung}.held_out" for rung in ("signed_permutation", "rigid")]
            title = each.title if when == "trained" else f"{each.title}, untrained"
            rows[title] = [each.mean(f"{when}.{path}") for path in (*paths, *(f"controls.{key}" for key in CONTROLS))]
            facts[title] = [each.mean(f"{when}.controls.{key}") for key in FACTS]
    return (
        table(
            "ica-scales",
            "ICA with fitted scales and without directions of little variance: held out, ± s.e. over pairs",
            f"lower is closer, in diameters; leading directions hold {LEADING:.0%} of the variance",
            rows,
            ("permutation", "rigid", *CONTROLS.values()),
        ),
        table("ica-facts", "What ICA found, ± s.e. over pairs", "correlations are medians", facts, [*FACTS.values()]),
    )


def charts_of(subjects: list[Setting]) -> list[Chart]:
    """Errors with the published ones, the ladder before and after training, and the efficiency of ICA."""
    marks = []
    for subject in subjects:
        for place, rung in enumerate(RUNGS):
            error, low, high = spanned(_span(subject, rung, "trained"))
            if error is not None:
                bound = PUBLISHED[subject.published][1][place] if subject.published else None
                marks.append(Mark(f"{subject.short}: {WORDS[rung]}", error, low, high, bound, place))
    maps, names = [WORDS[rung] for rung in ORDER], [each.short for each in subjects]
    drawn = [
        Chart(
            "errors",
            "Held-out errors compared with Table 1",
            "Mean over pairs in diameters of the target; intervals are over rows or groups of rows, the mean of "
            "those of the pairs. The tick is the published number, which is in-sample and of another model.",
            ("error in diameters", ""),
            marks=tuple(marks),
            bound="published, in-sample",
            whisker="95% interval",
        )
    ]
    for when in WHEN:
        shares = {each.title: [each.mean(f"{when}.shares.{rung}") for rung in ORDER] for each in subjects}
        drawn.append(
            Chart(
                f"ladder-{when}",
                f"Residual error after each map, {when} networks",
                "Held-out error relative to that of the target's mean alone, mean over pairs with its standard "
                "error; lower is closer. From left to right as the paper expects errors to fall.",
                ("map", "held-out error / mean alone"),
                lines=lines(shares, maps),
                ticks=ticks(maps),
            )
        )
    series = {name: [each.mean(path) for each in subjects] for name, path in EFFICIENCIES.items()}
    published = [PUBLISHED[each.published][1][-1] if each.published else None for each in subjects]
    series["published, in-sample"] = [Value(efficiency) for efficiency in published]
    drawn.append(
        Chart(
            "efficiency",
            "Efficiency of ICA",
            "The share of what the rigid map gains over the permutation that ICA gains without any pairs; mean over "
            "pairs with its standard error. Below 0 ICA is worse than the permutation.",
            ("", "efficiency"),
            lines=tuple(replace(each, dotted=True) for each in lines(series, names)),
            ticks=ticks(names),
        )
    )
    return drawn


def cases(subjects: list[Setting]) -> list[Case]:
    """Every rule for every subject that it is about, rule by rule."""
    every = []
    for rule in RULES:
        if rule is LEVEL:
            every += _level({each.key: each for each in subjects})
            continue
        for each in subjects:
            if each.kind in rule.kinds:
                after, before = (
                    [rule.margin(pair[when]["rungs"]) for pair in each.pairs if pair[when]] for when in WHEN
                )
                errors = [each.mean(f"trained.rungs.{rung}.in_sample").mean for rung in RUNGS]
                known = [error for error in errors if error is not None]
                inside = rule.at(known) if len(known) == len(RUNGS) else None
                row = rule.at(PUBLISHED[each.published][1][: len(RUNGS)]) if each.published else None
                every.append(Case(rule, each.title, after, before, inside, row))
    return every


def _level(subjects: Mapping[str, Setting]) -> list[Case]:
    """The masked autoencoders against the GPT: two independent sets of pairs, so intervals are those of the means."""
    if "gpt" not in subjects or "mae" not in subjects:
        return []
    gpt, mae = subjects["gpt"], subjects["mae"]
    trained, untrained = (
        summed([(1.0, _span(gpt, "linear", when)), (-1.0, _span(mae, "rigid", when))], SIMILAR) for when in WHEN
    )
    before = [untrained] if untrained.mean is not None else []
    inside = gpt.mean("trained.rungs.linear.in_sample") - mae.mean("trained.rungs.rigid.in_sample")
    in_sample = None if inside.mean is None else inside.mean + SIMILAR
    return [Case(LEVEL, f"{mae.title} and GPT", [trained], before, in_sample, LEVEL.published[0])]


def claims_of(every: list[Case]) -> list[Claim]:
    """A stated rule holds where all pairs of all networks keep it, and not where all pairs of one network break it."""
    made = []
    for rule in RULES:
        about = [each for each in every if each.rule is rule and rule.stated]
        margins = {f"{rule.formula}, in diameters, {each.title}": _range(each.margins) for each in about}
        if margins:
            rows = sorted({min(rule.published), max(rule.published)})
            published = f"{' to '.join(f'{each:.3f}' for each in rows)} in Table 1, in-sample"
            made.append(over_cases(rule.text, margins, least=0.0, published=published, form=".3f"))
    return made


def summed(parts: Iterable[tuple[float, Value]], constant: float = 0.0) -> Value:
    """A weighted sum whose ends are the sums of the ends; parts of no weight do not count."""
    value, low, high = constant, constant, constant
    bare = False
    for weight, part in parts:
        if abs(weight) < 1e-9:
            continue
        if part.mean is None:
            return Value(None)
        value += weight * part.mean
        bare = bare or part.interval is None
        ends = sorted((weight * part.interval.low, weight * part.interval.high)) if part.interval else (0.0, 0.0)
        low, high = low + ends[0], high + ends[1]
    return Value(value, interval=None if bare else Interval(low, high))


def _error(rung: Mapping[str, Any], ends: str, less: float | None = 0.0) -> Value:
    """A held-out error with an interval, or what it is more than another."""
    if rung["held_out"] is None or less is None:
        return Value(None)
    return Value(rung["held_out"] - less, interval=Interval(*rung[ends]) if rung[ends] else None)


def _span(subject: Setting, rung: str, when: str) -> Value:
    """The held-out error of a rung, and the mean interval of a pair."""
    return mean_value([_error(pair[when]["rungs"][rung], "interval") for pair in subject.pairs if pair[when]])


def mean_value(values: Sequence[Value]) -> Value:
    """Mean of numbers and of ends; no interval where one has none."""
    known = [each.mean for each in values if each.mean is not None]
    if not known:
        return Value(None)
    spans = [each.interval for each in values if each.interval]
    ends = [sum(getattr(each, end) for each in spans) / len(values) for end in ("low", "high")]
    return Value(sum(known) / len(known), interval=Interval(*ends) if len(spans) == len(values) else None)


def _range(values: Sequence[Value]) -> Value:
    """The mean, from the lowest end to the highest; undecided without intervals."""
    spans = [each.interval or Interval(-math.inf, math.inf) for each in values]
    return replace(
        mean_value(values), interval=Interval(min(each.low for each in spans), max(each.high for each in spans))
    )
