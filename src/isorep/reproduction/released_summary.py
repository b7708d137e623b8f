"""Table 1 with released pairs, findings by rule, controls, Whisper by depth, and what a classifier reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..datasets.catalogue import CLASSES
from ..resampling import Interval, Value
from .experiment import Chart, Claim, Outcome, Summary, Table
from .outcomes import Setting, lines, mean_of, over_cases, summary, table, ticks
from .pretrained_summary import WHEN, cases, charts_of, claims_of, paired, tables_of
from .released import FAMILIES, Preset
from .released_speech import DEPTHS

INNER = tuple(DEPTHS)[:-1]
"""Depths that the last layer is compared with."""


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    subjects = subjects_of(outcomes)
    every = cases(subjects)
    depths = {each.layer: each for each in subjects if each.family == "speech"}
    claims = claims_of(every)
    if set(depths) >= {*INNER, "output"}:
        claims.append(last_layer(depths))
    first = {each.family: each for each in reversed(subjects) if each.layer not in DEPTHS}
    shown = [each for each in subjects if first.get(each.family) is each]  # figures have one row of each family
    images = outcomes.get("images")
    asked = [translated(outcomes.get("sentences")), read_parts(images), recognised(images)]
    tables = [*tables_of(subjects, every, []), controls(subjects), *asked, widths(subjects)]
    return summary(claims, tables, [*charts_of(shown), by_depth(depths)])


def subjects_of(outcomes: Mapping[str, Outcome]) -> list[Setting]:
    """What is one row of Table 1 each: a representation with all its pairs, the source mapped onto the target."""
    subjects: dict[str, dict[str, Any]] = {}
    for family, outcome in outcomes.items():
        single = len({layer["layer"] for layer in outcome["layers"]}) == 1
        for layer in outcome["layers"]:
            title = outcome["name"] if single else f"{outcome['name']}, {layer['layer']}"
            about = {
                "title": title,
                "short": outcome["name"],
                "kind": outcome["kind"],
                "key": "",
                "family": family,
                "layer": layer["layer"],
                "published": outcome["published"],
                "columns": layer["trained"]["whole"],
                "kept": layer["trained"]["kept"],
                "rows": layer["trained"]["rows"],
                "pairs": [],
            }
            subject = subjects.setdefault(f"{family}-{layer['layer']}", about)
            subject["pairs"].append(paired(layer["pair"], layer, 1))
    return [Setting(each, lowest=-math.inf) for each in subjects.values()]


def _share(pair: Mapping[str, Any], when: str, what: str) -> float | None:
    """A linear error relative to that of the target's mean alone."""
    found = pair[when]
    if found is None or found["rungs"]["linear"][what] is None or not found["baseline"]:
        return None
    return float(found["rungs"]["linear"][what] / found["baseline"])


def controls(subjects: list[Setting]) -> Table:
    """The linear map of trained pairs beside that of shuffled rows and of untrained networks."""
    asked = (("trained", "held_out"), ("trained", "chance"), ("untrained", "held_out"))
    return table(
        "controls",
        "Held-out error of the linear map relative to the mean alone, and its controls, ± s.e. over pairs",
        "lower is closer; 1 is no better than the mean",
        {
            each.title: [
                each.mean(lambda pair, when=when, what=what: _share(pair, when, what))  # type: ignore[misc]
                for when, what in asked
            ]
            for each in subjects
        },
        ("trained", "rows shuffled", "untrained"),
    )


def widths(subjects: list[Setting]) -> Table:
    """Rows, columns before the reduction, and the share of variance that was compared."""
    return table(
        "widths",
        "Rows, columns of source and target of the first pair, and the share of their variance that was compared",
        "1 is all of it",
        {each.title: [Value(float(number)) for number in (each.rows, *each.columns, *each.kept)] for each in subjects},
        ("rows", "source", "target", "kept", "kept of target"),
    )


def read_parts(images: Outcome | None) -> Table:
    """R² inside and outside of the directions that a classifier reads."""
    rows = {}
    for when in WHEN:
        found = [layer["head"][when] for layer in (images or {"layers": []})["layers"] if when in layer["head"]]
        for part, words in (("read", "read by the classifier"), ("unread", "not read")):
            if found:
                values = [[each[part][key] for each in found] for key in ("linear", "shuffled", "variance")]
                rows[f"{words}, {when}"] = [mean_of(each) for each in values]
    return table(
        "classifier",
        "Images: held-out R² of a linear map onto the directions that the target's classifier reads, and the others, "
        "± s.e. over pairs",
        "higher is closer",
        rows,
        ("R²", "rows shuffled", "share of variance"),
    )


def translated(sentences: Outcome | None) -> Table:
    """Recall of a translated store, and of translated queries, on held-out sentences."""
    layers = (sentences or {"layers": []})["layers"]
    found: dict[str, Any] = next((layer["translation"] for layer in layers if "translation" in layer), {})
    rows = {}
    for scenario in ("store", "queries") if found else ():
        each = found[scenario]
        values = (*each["recall"], each["untranslated"][-1], found["chance"][-1], found["vectors"])
        rows[f"{scenario} translated by {each['map']}"] = [Value(float(value)) for value in values]
    return table(
        "translation",
        "Sentences: recall of the sentence itself among the held-out ones, after a switch of the model",
        "higher is better",
        rows,
        ("recall@1", "recall@10", "untranslated @10", "chance @10", "vectors"),
    )


def recognised(images: Outcome | None) -> Table:
    """Images whose class each network sees, among ten sets of ImageNet's classes."""
    shares: dict[int, list[Value]] = {}
    for layer in (images or {"layers": []})["layers"]:
        for side, place in enumerate(layer["pair"]):
            values = [layer["recognised"].get(when, [None, None])[side] for when in WHEN]
            if values[0] is not None:
                shares[place] = [*map(Value, values), Value(1 / CLASSES)]
    names = FAMILIES["images"].models
    return table(
        "recognised",
        "Images of CIFAR-10 whose class has the best score among ten sets of ImageNet's classes",
        "higher is better: weights, classes and images are read rightly",
        {names[place]: values for place, values in sorted(shares.items())},
        ("trained", "untrained", "guessing"),
    )


def last_layer(depths: Mapping[str, Setting]) -> Claim:
    """Is the last layer closer than those before it, by the linear map, for every pair of sizes?"""
    margins = {}
    for name in INNER:
        for place, (inner, last) in enumerate(zip(depths[name].pairs, depths["output"].pairs, strict=True)):
            one, other = _spanned(inner), _spanned(last)
            if one.mean is not None and other.mean is not None:
                ends = None
                if one.interval and other.interval:
                    ends = Interval(one.interval.low - other.interval.high, one.interval.high - other.interval.low)
                label = f"linear error / mean at {name} − output, pair {place + 1}"
                margins[label] = Value(one.mean - other.mean, interval=ends or Interval(-math.inf, math.inf))
    text = "the last layer of speech encoders is the most similar, as that of language models (Roeder et al. 2021, 5.3)"
    return over_cases(text, margins, least=0.0, published="figure only", form=".3f")


def _spanned(pair: Mapping[str, Any]) -> Value:
    found = pair["trained"]
    rung, alone = found["rungs"]["linear"], found["baseline"]
    if rung["held_out"] is None or not alone:
        return Value(None)
    ends = rung["interval"] and Interval(*(end / alone for end in rung["interval"]))
    return Value(rung["held_out"] / alone, interval=ends or None)


def by_depth(depths: Mapping[str, Setting]) -> Chart:
    """The linear error of Whisper by depth, trained and untrained."""
    names = [name for name in (*DEPTHS, "output") if name in depths]
    series = {}
    for when in WHEN:
        values = [
            depths[name].mean(lambda pair, when=when: _share(pair, when, "held_out"))  # type: ignore[misc]
            for name in names
        ]
        if any(each.mean is not None for each in values):
            series[f"{FAMILIES['speech'].title}, {when}"] = values
    return Chart(
        "depth",
        "Whisper by depth",
        "Held-out error of the linear map relative to the mean alone, between encoders of two sizes at the same "
        "relative depth; lower is closer.",
        ("depth of the encoder", "held-out error / mean alone"),
        lines=lines(series, names),
        ticks=ticks(names),
    )
