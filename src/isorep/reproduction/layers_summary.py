"""SVCCA and the ladder by layer, errors against the constant of the network that remains, and the published claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from ..comparison.fits import RUNGS
from ..representation import Array
from ..resampling import Interval, Value
from .experiment import Chart, Claim, Line, Outcome, Summary, Table
from .layers import Preset
from .outcomes import line, log_ticks, mean_of, over_cases, spearman, summary, table, taken

EMBEDDING = "embedding"
WHEN = ("layers", "initial")
LAYER = "layer, the last on the right"
FOLLOWS = {
    "rigid": "error.rigid",
    "rigid / chance": "share.rigid",
    "linear": "error.linear",
    "linear / chance": "share.linear",
}
ROUNDING = 5e-4  # differences in SVCCA up to this are none
_DRAWS = 2000
_LEAST_LAYERS, _LEAST_PAIRS = 4, 3  # with fewer, a rank correlation over layers is meaningless, or has no interval
_MOST_GROUPS = 6  # of one figure


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    models = [each for each in outcomes.values() if "pair" not in each]
    names = dict.fromkeys(each["group"] for each in outcomes.values() if "pair" in each)
    groups = [Group(name, outcomes, models) for name in names]
    return summary(claims_of(groups, preset), _tables(groups, models, preset), _charts(groups, preset))


class Group:
    """Pairs that are averaged, all of one size or of two.

    ``pairs[0]["layers"][1]`` is the layer one before the last: ``svcca`` by components, the held-out ``error`` by rung
    in diameters, its ``share`` of what shuffled pairings give, and the ``constant`` of the network that remains.
    """

    def __init__(self, name: str, outcomes: Mapping[str, Outcome], models: Sequence[Outcome]) -> None:
        own = [each for each in outcomes.values() if each.get("group") == name]
        self.name, self.anchor = name, name.replace(" with ", "-").replace(" ", "-")
        self.count = f"{len(own)} pairs" if len(own) != 1 else "1 pair"
        self.pairs = [{when: _by_place(each, when, models) for when in WHEN} for each in own]
        self.places = sorted(set.intersection(*(set(pair["layers"]) for pair in self.pairs)))
        self.blocks = [place for place in self.places if self.label(place) != EMBEDDING]

    def label(self, place: int) -> str:
        """The name of a layer: its block where all networks agree, otherwise its place from the end."""
        names = {name for pair in self.pairs for name in pair["layers"][place]["labels"]}
        return str(names.pop()) if len(names) == 1 else f"{place} before the last"

    def values(self, place: int, path: str, when: str = "layers") -> list[float | None]:
        """A measure of a layer, pair by pair; None where it is unknown."""
        return [taken(pair[when].get(place), path) for pair in self.pairs]

    def mean(self, place: int, path: str, when: str = "layers") -> Value:
        """Its mean over pairs, and the standard error."""
        return mean_of(self.values(place, path, when))

    def columns(self, path: str, place: int | None = None, *, last: bool = True) -> list[tuple[Array, Array]]:
        """Constants and errors where both are known: over layers for each pair, or over pairs at one place."""
        places = [each for each in self.places if last or each] if place is None else [place]
        dots = [
            [(taken(pair["layers"][at], "constant"), taken(pair["layers"][at], path)) for at in places]
            for pair in self.pairs
        ]
        series = dots if place is None else [[dot for pair in dots for dot in pair]]
        known = [np.array([dot for dot in each if None not in dot], dtype=float).reshape(-1, 2) for each in series]
        return [(each[:, 0], each[:, 1]) for each in known]

    def gap(self, components: int) -> Value:
        """By how much the last layer is closer than the closest other block; unknown where there is no other."""
        path = f"svcca.{components}"
        means = {at: mean for at in self.blocks if (mean := self.mean(at, path).mean) is not None}
        if 0 not in means or len(means) < 2:
            return Value(None)
        best = max((at for at in means if at), key=lambda at: means[at])
        return _difference(self.values(0, path), self.values(best, path))

    def gain(self, components: int) -> Value:
        """What training adds to SVCCA of the last layer, pair by pair."""
        trained, initial = (self.values(0, f"svcca.{components}", when) for when in WHEN)
        return _difference(trained, initial)


def _difference(first: list[float | None], second: list[float | None]) -> Value:
    """Mean of differences pair by pair, where both are known; undecided for one pair."""
    both = zip(first, second, strict=True)
    return _judged(mean_of(a - b for a, b in both if a is not None and b is not None))


def _by_place(outcome: Outcome, when: str, models: Sequence[Outcome]) -> dict[int, dict[str, Any]]:
    """Layers of a pair as a group takes them."""
    sides = [
        next((each for each in models if all(each.get(key) == side[key] for key in side)), {})
        for side in outcome["pair"]
    ]
    layers = {}
    for layer in outcome.get(when) or ():
        place, ladder = layer["place"], layer["ladder"]
        rest = [side["constants"][-1 - place]["local"] for side in sides if place < len(side.get("constants") or ())]
        shares = {rung: each["error"] / each["chance"] for rung, each in ladder.items() if each["chance"]}
        layers[place] = {
            "labels": layer["labels"],
            "svcca": {int(count): each["value"] for count, each in layer["svcca"].items()},
            "error": dict.fromkeys(RUNGS) | {rung: each["error"] for rung, each in ladder.items()},
            "share": dict.fromkeys(RUNGS) | shares,
            "constant": float(np.exp(np.mean(np.log(rest)))) if len(rest) == len(sides) else None,
        }
    return layers


def mean_correlation(columns: Sequence[tuple[Array, Array]], seed: int = 0) -> Value:
    """The mean over pairs of Spearman's correlation over layers, with a bootstrap interval over pairs.

    The error is half of the interval.
    """
    fit = [(x, y) for x, y in columns if len(x) >= _LEAST_LAYERS and np.ptp(x) > 0 and np.ptp(y) > 0]
    values = np.array([spearmanr(x, y).statistic for x, y in fit])
    if len(values) < _LEAST_PAIRS:
        return Value(float(values.mean()) if len(values) else None)
    draws = np.random.default_rng([seed, 19]).choice(values, (_DRAWS, len(values))).mean(1)
    low, high = (float(each) for each in np.quantile(draws, (0.025, 0.975)))
    return Value(float(values.mean()), (high - low) / 2, Interval(low, high))


def _tables(groups: list[Group], models: Sequence[Outcome], preset: Preset) -> list[Table]:
    places = sorted({place for group in groups for place in group.places})
    similar = {
        f"{group.name}, {count} components{words}": [group.mean(place, f"svcca.{count}", when) for place in places]
        for group in groups
        for when, words in zip(WHEN, ("", ", untrained"), strict=True)
        for count in preset.components
    }
    follows = {
        f"{group.name}, {words}": [mean_correlation(group.columns(path, last=last)) for path in FOLLOWS.values()]
        for group in groups
        for last, words in ((True, "all layers"), (False, "without the last"))
    }
    made = [
        table(
            "svcca",
            "SVCCA by layer, counted from the last, ± s.e. over pairs",
            "higher is closer; of networks of one size the first layer is the embedding",
            _known(similar),
            ["last" if place == 0 else f"−{place}" for place in places],
        )
    ]
    for group in groups:
        paths = [*(f"error.{rung}" for rung in preset.rungs), "share.linear"]
        rows = {
            group.label(place): [
                *(group.mean(place, path) for path in paths),
                group.mean(place, "share.linear", "initial"),
                group.mean(place, "constant"),
            ]
            for place in group.places
        }
        made.append(
            table(
                f"ladder-{group.anchor}",
                f"{group.name}: errors in diameters by layer, held out by document, ± s.e. over {group.count}",
                "lower is closer; the constant is 1 where nothing remains",
                rows,
                [*(_spaced(rung) for rung in preset.rungs), "linear / chance", "untrained", "constant of the rest"],
            )
        )
    made.append(
        table(
            "follows",
            "Rank correlation over layers of the error with the constant of the remaining network, mean of pairs ± "
            "half of the 95% interval",
            "1: the error grows with the constant; both depend on depth",
            _known(follows),
            tuple(FOLLOWS),
        )
    )
    rows = {}
    for size in dict.fromkeys(each["size"] for each in models):
        own = [each for each in models if each["size"] == size]
        losses = [mean_of(each.get(key) for each in own) for key in ("loss", "held_out_loss", "unigram")]
        count = Value(mean_of(each.get("parameters", math.nan) / 1000 for each in own).mean)
        rows[f"{size}, {len(own)} trained" if len(own) > 1 else str(size)] = [*losses, count]
    columns = ("training", "held out", "frequency alone", "1000 parameters")
    made.append(table("models", "Networks: cross-entropy of a token in nats, ± s.e.", "lower is better", rows, columns))
    return made


def _known(rows: Mapping[str, list[Value]]) -> dict[str, list[Value]]:
    return {name: each for name, each in rows.items() if any(value.mean is not None for value in each)}


def _spaced(rung: str) -> str:
    return rung.replace("_", " ")


def _charts(groups: list[Group], preset: Preset) -> list[Chart]:
    """Two figures for each group of pairs, and one of all."""
    drawn = []
    for group in groups:
        ticks = tuple((-float(at), group.label(at).removesuffix(" before the last")) for at in reversed(group.places))
        similar = [
            replace(_layer_line(group, f"k = {count}{words}", f"svcca.{count}", colour, when), dotted=bool(words))
            for when, words in zip(WHEN, ("", ", before"), strict=True)
            for colour, count in enumerate(preset.components)
        ]
        ladder = [_layer_line(group, _spaced(rung), f"share.{rung}", colour) for colour, rung in enumerate(RUNGS)]
        drawn += [
            Chart(
                f"svcca-{group.anchor}",
                f"{group.name}: SVCCA by layer (Figure 4)",
                f"SVCCA with k components, mean over {group.count} with its standard error, on held-out documents. "
                "Dots without a line are the same networks before training: similarity due to the input alone.",
                (LAYER, "mean canonical correlation"),
                lines=tuple(similar),
                ticks=ticks,
            ),
            Chart(
                f"ladder-{group.anchor}",
                f"{group.name}: residual error after each group of maps",
                f"Held-out error relative to chance (shuffled documents), mean over {group.count} with its "
                "standard error; lower is closer.",
                (LAYER, "held-out error / chance"),
                lines=tuple(ladder),
                ticks=ticks,
            ),
        ]
    dots = [_dots(group, colour) for colour, group in enumerate(groups[:_MOST_GROUPS])]
    drawn.append(
        Chart(
            "constants",
            "Rigid error against the constant of the remaining network",
            "A dot is a layer of a pair; across, the local constant after the best scale, on a logarithmic axis. 1 is "
            "an isometry, as at the last layer, where nothing remains. Both axes depend on depth.",
            ("local bi-Lipschitz constant of the rest", "held-out rigid error / chance"),
            lines=tuple(dots),
            ticks=log_ticks(x for each in dots for x, _ in each.points),
        )
    )
    return drawn


def _layer_line(group: Group, name: str, path: str, colour: int, when: str = "layers") -> Line:
    """A measure over layers, the embedding at the left."""
    order = group.places[::-1]
    drawn = line(name, [group.mean(at, path, when) for at in order], [group.label(at) for at in order], colour)
    return replace(drawn, points=tuple((-float(order[int(x)]), y) for x, y in drawn.points))


def _dots(group: Group, colour: int) -> Line:
    points, labels = [], []
    for pair in group.pairs:
        for at in group.places:
            constant, error = pair["layers"][at]["constant"], pair["layers"][at]["share"]["rigid"]
            if constant is not None and error is not None:
                points.append((math.log10(constant), error))
                labels.append(f"{group.name}, {group.label(at)}: {constant:.3g}, {error:.2f}")
    return Line(group.name, tuple(points), tuple(labels), colour, dotted=True)


def claims_of(groups: list[Group], preset: Preset) -> list[Claim]:
    """The last layer against the others, before and after training, and errors against the constant of what remains."""
    cases = [(f"{group.name}, {count} components", group, count) for group in groups for count in preset.components]
    gaps = _measured({name: group.gap(count) for name, group, count in cases})
    last, figure = "SVCCA of the last layer minus that", "Figure 4, of which the text gives no numbers"
    over = {group.name: _judged(mean_correlation(group.columns("error.rigid"))) for group in groups}
    asked = {
        "the last layer is the most similar one": (
            f"{last} of the closest other block",
            gaps or {group.name: Value(None) for group in groups},  # unknown without another layer
            ROUNDING,
            figure,
        ),
        "the last layer is the most similar one between networks of two sizes, as published": (
            f"{last} of the closest other block",
            {name: gap for name, gap in gaps.items() if " with " in name},
            ROUNDING,
            figure,
        ),
        "training makes last layers more similar (a control)": (
            f"{last} before training",
            _measured({name: group.gain(count) for name, group, count in cases}),
            ROUNDING,
            "",
        ),
        "the rigid error of a layer grows with the constant of the remaining network": (
            "rank correlation over layers, which also depends on depth",
            _measured(over),
            0.0,
            "none; the theory bounds the error by the constant",
        ),
        "the same within a layer, over pairs": (
            "rank correlation within layers",
            _measured({group.name: _within(group) for group in groups}),
            0.0,
            "",
        ),
    }
    return [
        over_cases(
            text,
            {f"{measure}, {name}": value for name, value in values.items()},
            above=above,
            published=published,
            form=".4f±" if above else ".2f±",
        )
        for text, (measure, values, above, published) in asked.items()
        if values
    ]


def _measured(values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if value.mean is not None}


def _within(group: Group) -> Value:
    """Rank correlation of constant and rigid error within layers before the last, without the effect of depth."""
    columns = [each for place in group.places if place for each in group.columns("error.rigid", place)]
    return _judged(spearman(columns))


def _judged(value: Value) -> Value:
    """The number with its interval; undecided where there is neither an interval nor an error, as for one pair."""
    if value.interval is not None or value.error is not None:
        return value
    return replace(value, interval=Interval(-math.inf, math.inf))
