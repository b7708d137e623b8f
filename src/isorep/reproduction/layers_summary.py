"""What was found, in sentences made by rule from the numbers.

Outcomes of the units as tables, figures, findings and a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..comparison.fits import RUNGS
from .experiment import Outcome, Row, Summary, Table
from .layers_charts import EMBEDDING, Group, Number, Reading, charts, mean_of
from .layers_networks import LEFT_OPEN, Preset
from .outcomes import Correlation, spearman_within

ROUNDING = 5e-4
"""Differences in SVCCA up to this are none."""


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """Whether the last layer is the most similar, for every group of pairs and number of components."""
    said, cells = [], []
    for group in reading.groups:
        judgements = {components: found for components in group.components if (found := judged(group, components))}
        cells += [found[0] for found in judgements.values()]
        most = [f"{components}" for components, (cell, _) in judgements.items() if cell != "not"]
        said += [f"{group.name} ({', '.join(most)} components)"] if most else []
    if not cells:
        return "There are no layers to compare the last with.", None
    clear, first = cells.count("clear"), len(cells) - cells.count("not")
    if clear == len(cells):
        return f"The last layer is the most similar in all {len(cells)} cases, by two standard errors.", True
    if not first:
        return f"The last layer is not the most similar in any of {len(cells)} cases.", False
    return (
        f"The last layer is the most similar in {first} of {len(cells)} cases, by two standard errors in {clear}. "
        f"It is so for {'; '.join(said)}.",
        None,
    )


def judged(group: Group, components: int) -> tuple[str, str] | None:
    """``clear``, ``unclear`` or ``not``, and the numbers in words."""
    found = group.most_similar(components)
    if found is None or found[1] is None:
        return None
    place, gap, error = found[0], float(found[1]), found[2]
    value = group.svcca(0, components)[0]
    margin = "" if error is None else f" ± {error:.3f}"
    words = f"last {_number(value)}, {_signed(gap)}{margin} against the closest other"
    if place != 0 or gap <= ROUNDING:
        return "not", f"{words} ({group.label(place)} is the closest)" if place else words
    return ("clear" if error is not None and gap > 2 * error else "unclear"), words


def findings(reading: Reading) -> tuple[str, ...]:
    """One sentence or two on each question."""
    said = [_learnt(reading)]
    for group in reading.groups:
        said += [
            _similar(group),
            _control(group),
            _embedding(group),
            _last(group),
            _rungs(group),
            _follows_finding(group),
        ]
    said += [_constants(reading, size) for size in reading.sizes]
    if any(group.follows("rigid").value is not None for group in reading.groups):
        said.append(
            "Depth drives both what remains and the error, so a correlation over layers cannot tell the constant from "
            "the depth; pairs of one size share networks, so that their standard errors and intervals are too narrow."
        )
    return (*(sentence for sentence in said if sentence), LEFT_OPEN)


def _learnt(reading: Reading) -> str:
    parts = []
    for size in reading.sizes:
        models = [each for each in reading.of_size(size) if each.get("held_out_loss") is not None]
        if models:
            loss, error = mean_of([each["held_out_loss"] for each in models])
            parts.append(f"{size}: {_number(loss)}{'' if error is None else f' ± {error:.3f}'}")
    if not parts:
        return ""
    unigram = next(each["unigram"] for each in reading.models if "unigram" in each)
    return (
        f"Cross-entropy of held-out tokens in nats, {'; '.join(parts)}; by the frequency of tokens alone {unigram:.3f}."
    )


def _similar(group: Group) -> str:
    """The last layer against the closest other, for every number of components."""
    parts = [
        f"{components} components: {found[1]}"
        for components in group.components
        if (found := judged(group, components))
    ]
    return f"{group.name}: SVCCA with {'; '.join(parts)}." if parts else ""


def _control(group: Group) -> str:
    """What training adds to SVCCA, layer by layer."""
    parts = []
    for components in group.components:
        known = {place: gain for place in group.places if (gain := _gain(group, place, components)) is not None}
        first = {
            place: value
            for place in group.blocks
            if (value := group.svcca(place, components, "initial")[0]) is not None
        }
        if 0 not in known or not first:
            continue
        most = max(known, key=lambda place: known[place])
        closest = max(first, key=lambda place: first[place])
        parts.append(
            f"{components} components: {_signed(known[0])} at the last, most at {group.label(most)} "
            f"({_signed(known[most])}); untrained, {group.label(closest)} is the closest ({_number(first[closest])})"
        )
    return f"{group.name}: training adds to SVCCA {'; '.join(parts)}." if parts else ""


def _embedding(group: Group) -> str:
    place = next((place for place in group.places if group.label(place) == EMBEDDING), None)
    if place is None:
        return ""
    higher = []
    for components in group.components:
        embedded, last = (group.svcca(each, components)[0] for each in (place, 0))
        if embedded is not None and last is not None and embedded > last + ROUNDING:
            higher.append(f"{components} components ({_number(embedded)} against {_number(last)})")
    if not higher:
        return f"{group.name}: the embedding is nowhere more similar than the last layer."
    return (
        f"{group.name}: the embedding, which is not among the published layers, is more similar than the last with "
        f"{', '.join(higher)}."
    )


def _last(group: Group) -> str:
    """The state that the head multiplies is identified up to a linear map: how near that is."""
    linear, error = group.error(0, "linear")
    share = group.error(0, "linear", share=True)[0]
    if linear is None:
        return ""
    before = group.error(0, "linear", "initial", share=True)[0]
    known = {
        place: value for place in group.blocks if (value := group.error(place, "linear", share=True)[0]) is not None
    }
    best = min(known, key=lambda place: known[place]) if known else 0
    words = (
        f"{group.name}: at the last layer the best linear map has a held-out error of {_spelt(linear, error)} diameters"
    )
    if share is not None:
        words += f", {share:.0%} of chance"
        words += "" if before is None else f" (untrained {before:.0%})"
    words += f"; as a share of chance the least is at {group.label(best)} ({known[best]:.0%})" if known and best else ""
    return f"{words}. Equal conditional distributions would make it zero."


def _rungs(group: Group) -> str:
    parts = []
    for name in RUNGS:
        value = group.error(0, name, share=True)[0]
        if value is not None:
            parts.append(f"{name.replace('_', ' ')} {value:.0%}")
    return f"{group.name}: held-out errors at the last layer as shares of chance: {', '.join(parts)}." if parts else ""


def _follows_finding(group: Group) -> str:
    """Whether errors follow the constant of the remaining network over layers, and within a layer."""
    rigid, linear = group.follows("rigid"), group.follows("linear")
    if rigid.value is None:
        return ""
    shares = group.follows("rigid", share=True)
    without = group.follows("rigid", last=False)
    within = spearman_within(group.within("rigid"))
    words = (
        f"{group.name}: over layers the rigid error {_judged(rigid)} the local constant of the remaining network, rank "
        f"correlation {spelt(rigid)}; as a share of chance {spelt(shares)}; the linear error {spelt(linear)}"
    )
    words += "" if without.value is None else f"; without the last layer {spelt(without)}"
    return f"{words}. Within a layer, over pairs, {spelt(within)}."


def _constants(reading: Reading, size: str) -> str:
    after, before = reading.constants(size), reading.constants(size, "initial_constants")
    if not after:
        return ""
    listed = ", ".join(f"{name} {value:.3g}" for name, value, _ in after[:-1] if value is not None)
    start = ", ".join(f"{value:.3g}" for _, value, _ in before[:-1] if value is not None)
    return (
        f"{size}: the local constant of the network that remains, after the best scale: {listed}"
        + (f" (untrained {start})" if start else "")
        + "; the final norm loses two directions, which are left out."
    )


def _judged(found: Correlation) -> str:
    if found.low is None or found.high is None:
        return "is set against"
    return "follows" if found.low > 0 else "falls with" if found.high < 0 else "is not shown to follow"


def _gain(group: Group, place: int, components: int) -> Number:
    after, before = (group.svcca(place, components, key)[0] for key in ("layers", "initial"))
    return None if after is None or before is None else after - before


def spelt(found: Correlation) -> str:
    """A correlation with its interval."""
    if found.value is None:
        return "unknown"
    interval = "" if found.low is None else f" (95 % interval {_two(found.low)} to {_two(found.high)})"
    return f"{_two(found.value)}{interval}"


def _two(value: Number) -> str:
    return "unknown" if value is None else f"{value:.2f}".replace("-", "−")


def _signed(value: Number) -> str:
    return "unknown" if value is None else f"{value:+.3f}".replace("-", "−")


def _spelt(value: Number, error: Number = None) -> str:
    return _number(value) + ("" if error is None else f" ± {error:.3f}")


def _number(value: Number) -> str:
    return "unknown" if value is None else f"{value:.3f}"


Cell = tuple[Number, Number]


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = [
        _svcca_table(reading),
        *(_ladder_table(group, preset) for group in reading.groups),
        _follows_table(reading),
    ]
    tables += [_models(reading)]
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _svcca_table(reading: Reading) -> Table:
    places = sorted({place for group in reading.groups for place in group.places})
    rows = []
    for group in reading.groups:
        for key, words in (("layers", ""), ("initial", ", untrained")):
            for components in group.components:
                cells = [group.svcca(place, components, key) for place in places]
                if any(value is not None for value, _ in cells):
                    rows.append(Row(f"{group.name}, {components} components{words}", *_columns(cells)))
    return Table(
        "svcca",
        "SVCCA by layer, counted from the last, ± s.e. over pairs",
        tuple("last" if place == 0 else f"−{place}" for place in places),
        tuple(rows),
        "higher is closer; of networks of one size the first layer is the embedding",
    )


def _ladder_table(group: Group, preset: Preset) -> Table:
    rows = []
    for place in group.places:
        cells = [group.error(place, rung) for rung in preset.rungs]
        cells += [group.error(place, "linear", share=True), group.error(place, "linear", "initial", share=True)]
        cells += [group.constant(place)]
        rows.append(Row(group.label(place), *_columns(cells)))
    columns = tuple(rung.replace("_", " ") for rung in preset.rungs)
    return Table(
        f"ladder-{group.anchor}",
        f"{group.name}: errors in diameters by layer, held out by document, ± s.e. over {group.count}",
        (*columns, "linear / chance", "untrained", "constant of the rest"),
        tuple(rows),
        "lower is closer; the constant is 1 where nothing remains",
    )


def _follows_table(reading: Reading) -> Table:
    rows = []
    for group in reading.groups:
        for last, words in ((True, "all layers"), (False, "without the last")):
            found = [
                group.follows(rung, share=share, last=last) for rung in ("rigid", "linear") for share in (False, True)
            ]
            if any(each.value is not None for each in found):
                rows.append(Row(f"{group.name}, {words}", *_columns([_half(each) for each in found])))
    return Table(
        "follows",
        "Rank correlation over layers of the error with the constant of the remaining network, mean of pairs ± half of "
        "the 95 % interval",
        ("rigid", "rigid / chance", "linear", "linear / chance"),
        tuple(rows),
        "1: the error grows with the constant; depth drives both",
    )


def _models(reading: Reading) -> Table:
    rows = []
    for size in reading.sizes:
        models = reading.of_size(size)
        cells = [mean_of([each.get(key) for each in models]) for key in ("loss", "held_out_loss", "unigram")]
        parameters = mean_of([each["parameters"] / 1000 for each in models])[0]
        rows.append(
            Row(f"{size}, {len(models)} trained" if len(models) > 1 else size, *_columns([*cells, (parameters, None)]))
        )
    columns = ("training", "held out", "frequency alone", "1000 parameters")
    return Table(
        "models", "Networks: cross-entropy of a token in nats, ± s.e.", columns, tuple(rows), "lower is better"
    )


def _half(found: Correlation) -> Cell:
    return found.value, None if found.low is None or found.high is None else (found.high - found.low) / 2


def _columns(cells: list[Cell]) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)
