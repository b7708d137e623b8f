"""What was found, in sentences made by rule from the numbers.

Figure 1 of the paper, and what holds in more dimensions and for rarer words, as plain numbers.

Outcomes of the units, as the tables, figures and findings ask for them.

Outcomes of the units as tables, figures, findings and a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import InputError
from .experiment import Chart, Line, Outcome, Row, Summary, Table
from .outcomes import RUNGS, over_pairs
from .words import ESTIMATORS, LEFT_OPEN, Preset

DIFFERENT = 0.5
"""Held-out R² of no map up to which two trainings look different."""


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """Whether contexts differ before and nearly coincide after a linear map: both, partly, or not."""
    head = reading.head
    if head is None:
        return "No model was trained.", None
    before, after, chance = head.rung("f", "identity"), head.rung("f", "linear"), head.mean("f_shuffled")
    if before[0] is None or after[0] is None:
        return "The representations are constant.", None
    differ = before[0] <= DIFFERENT
    gained = after[0] - max(before[0], chance[0] or 0.0)
    helps = gained > 2 * math.hypot(before[1] or 0.0, after[1] or 0.0)
    coincide = after[0] >= reading.preset.high
    rigid, words = _share(head.rung("f", "rigid")), _share(head.rung("g", "linear"))
    said = (
        f"In {head.dimension} dimensions contexts of two trainings {'differ' if differ else 'hardly differ'} before "
        f"and {'nearly coincide' if coincide else 'do not quite coincide'} after a linear map. Held out, no map "
        f"explains {_share(before)} of the variance, a rigid one {rigid}, a linear one {_share(after)}, and with "
        f"shuffled contexts {_share(chance)}. Of words a linear map explains {words}."
    )
    return said, True if differ and coincide and helps else None if helps else False


def findings(reading: Reading) -> tuple[str, ...]:
    """One sentence or two on each question."""
    said = [_text(reading)]
    said += [_dimensions_finding(reading), _frequency(reading), _estimators(reading), _learnt(reading), _heads(reading)]
    return (*(each for each in said if each), LEFT_OPEN)


def _text(reading: Reading) -> str:
    if reading.head is None:
        return ""
    found = reading.head.found["corpus"]
    return (
        f"Text: {found['source']}, {found['words']:,} words of which {found['different_words']:,} are different; the "
        f"vocabulary of {reading.preset.vocabulary:,} covers {found['covered']:.0%}, its rarest word is seen "
        f"{found['rarest']} times. Digest {found['digest']}."
    )


def _dimensions_finding(reading: Reading) -> str:
    settings = reading.by_dimension
    if len(settings) < 2:
        return ""
    return (
        f"By dimension ({', '.join(str(each.dimension) for each in settings)}), a linear map explains "
        f"{_listed([each.rung('f', 'linear') for each in settings])} of contexts and "
        f"{_listed([each.rung('g', 'linear') for each in settings])} of words held out; a rigid one "
        f"{_listed([each.rung('f', 'rigid') for each in settings])} and "
        f"{_listed([each.rung('g', 'rigid') for each in settings])}."
    )


def _frequency(reading: Reading) -> str:
    said = []
    for each in reading.by_dimension:
        first, last = each.band(0), each.band(len(each.bands) - 1)
        if first[0] is None or last[0] is None:
            continue
        apart = first[0] - last[0]
        margin = 2 * math.hypot(first[1] or 0.0, last[1] or 0.0)
        worse = "less" if apart > margin else "more" if -apart > margin else "no difference beyond the errors"
        said.append(f"{_spelt(last)} against {_spelt(first)} in {each.dimension} dimensions ({worse})")
    if not said or reading.head is None:
        return ""
    bands = reading.head.bands
    return f"Of rare words ({bands[-1]}) a linear map explains, against frequent ones ({bands[0]}): {'; '.join(said)}."


def _estimators(reading: Reading) -> str:
    head = reading.head
    others = [each for each in reading.settings if head is not None and each.estimator != head.estimator]
    if head is None or not others:
        return ""
    parts = [
        f"{ESTIMATORS[each.estimator]} {_spelt(each.rung('f', 'linear'))} for contexts and "
        f"{_spelt(each.rung('g', 'linear'))} for words, at a held-out loss of {_nats(each.loss)} nats"
        for each in (head, *others)
    ]
    return f"By estimator, in {head.dimension} dimensions a linear map explains: {'; '.join(parts)}."


def _learnt(reading: Reading) -> str:
    settings = reading.by_dimension
    if not settings:
        return ""
    return (
        f"Held-out loss by dimension: {', '.join(_nats(each.loss) for each in settings)} nats, against "
        f"{float(settings[0].found['unigram']):.3f} of the shares of words alone."
    )


def _heads(reading: Reading) -> str:
    settings = [each for each in reading.by_dimension if each.mean("head")[0] is not None]
    if not settings:
        return ""
    models = [model for each in settings for model in each.found["models"]]
    diverse = sum(bool(model["diverse"]) for model in models)
    return (
        f"{diverse} of {len(models)} heads are diverse. The map from two heads alone explains "
        f"{_listed([each.mean('head') for each in settings])} of contexts, the regression "
        f"{_listed([each.rung('f', 'linear') for each in settings])}; the transpose of the contexts' reverse "
        f"regression explains {_listed([each.mean('transposed') for each in settings])} of words, their own regression "
        f"{_listed([each.rung('g', 'linear') for each in settings])}."
    )


def _share(found: tuple[Number, Number]) -> str:
    value, error = found
    if value is None:
        return "an unknown share"
    if value <= 0:
        return "nothing"
    return f"{100 * value:.1f}" + ("" if error is None else f" ± {100 * error:.1f}") + " %"


def _spelt(found: tuple[Number, Number]) -> str:
    value, error = found
    if value is None:
        return "unknown"
    return f"{value:.2f}".replace("-", "−") + ("" if error is None else f" ± {error:.2f}")


def _listed(cells: list[tuple[Number, Number]]) -> str:
    return ", ".join("unknown" if value is None else f"{value:.2f}".replace("-", "−") for value, _ in cells)


def _nats(value: Number) -> str:
    return "unknown" if value is None else f"{value:.3f}"


AXES = ("first dimension", "second dimension")
_WORDS = {"identity": "no map", "permutation": "signed permutation", "rigid": "rigid, scaled", "linear": "linear"}


def charts(reading: Reading) -> tuple[Chart, ...]:
    """All that there is something to draw for."""
    drawn: list[Chart] = []
    head = reading.head
    if head is not None and head.found.get("picture"):
        drawn += [*_contexts(head.found["picture"]["contexts"]), *_words(head.found["picture"])]
    for side, words in (("f", "Contexts f"), ("g", "Words g")):
        drawn.append(_dimensions_chart(reading, side, words))
    if head is not None:
        drawn.append(_bands_chart(reading))
    return tuple(chart for chart in drawn if chart.lines)


def _contexts(found: Any) -> list[Chart]:
    before = [("first", "one training", 1), ("second", "another training", 2)]
    after = [("mapped", "one training, mapped", 1), ("second", "another training", 2)]
    said = "A dot is a held-out context of words."
    return [
        Chart(
            "contexts-before",
            "Contexts f before the map (Figure 1, left and middle)",
            f"{said} Both trainings as they are.",
            AXES,
            lines=tuple(_cloud(found[name], words, series) for name, words, series in before),
            square=True,
        ),
        Chart(
            "contexts-after",
            "Contexts f after the linear map (Figure 1, right)",
            f"{said} The map was fitted to other blocks of text.",
            AXES,
            lines=tuple(_cloud(found[name], words, series) for name, words, series in after),
            square=True,
        ),
    ]


def _words(found: Any) -> list[Chart]:
    panels = (
        ("first", "Words g of one training", "The most frequent words; some are named.", 1),
        ("second", "Words g of another training", "The same words; the same ones are named.", 2),
        ("mapped", "Words g of the first after the linear map", "Each word by a map that was fitted without it.", 1),
    )
    drawn = []
    for name, title, caption, series in panels:
        notes = tuple((*_point(found[name][row]), str(found["words"][row])) for row in found["labelled"])
        lines = [_cloud(found[name], title, series, found["words"])]
        if name == "mapped":
            lines.append(_cloud(found["second"], "the other training", 2, found["words"]))
        drawn.append(Chart(f"words-{name}", title, caption, AXES, lines=tuple(lines), square=True, notes=notes))
    return drawn


def _dimensions_chart(reading: Reading, side: str, words: str) -> Chart:
    settings = reading.by_dimension
    where = [f"{each.dimension} dimensions" for each in settings]
    lines = [
        _line(_WORDS[rung], [each.rung(side, rung) for each in settings], where, place)
        for place, rung in enumerate(RUNGS, start=1)
    ]
    shuffled = [each.mean(f"{side}_shuffled") for each in settings]
    lines.append(_line("linear, shuffled", shuffled, where, len(RUNGS) + 1))
    return Chart(
        f"dimensions-{side}",
        f"{words} of two trainings by rung and dimension",
        "Held-out R², mean over pairs ± standard error.",
        ("dimensions", "R²"),
        lines=tuple(line for line in lines if line.points),
        ticks=tuple((float(place), str(each.dimension)) for place, each in enumerate(settings)),
    )


def _bands_chart(reading: Reading) -> Chart:
    settings = reading.by_dimension
    names = settings[0].bands if settings else []
    lines = [
        _line(f"{each.dimension} dimensions", [each.band(place) for place in range(len(names))], names, series)
        for series, each in enumerate(settings, start=1)
    ]
    return Chart(
        "bands",
        "Words g by frequency: the linear map within bands of ranks",
        "Held-out R² within the band, mean over pairs ± standard error; the most frequent words at the left.",
        ("ranks of words by frequency", "R²"),
        lines=tuple(line for line in lines if line.points),
        ticks=tuple((float(place), name.removeprefix("ranks ")) for place, name in enumerate(names)),
    )


def _line(name: str, cells: Sequence[tuple[Number, Number]], where: Sequence[str], series: int) -> Line:
    points = [(place, value, error or 0.0) for place, (value, error) in enumerate(cells) if value is not None]
    return Line(
        name,
        tuple((float(place), value) for place, value, _ in points),
        tuple(f"{name}, {where[place]}: {value:.3f}" for place, value, _ in points),
        series,
        spans=tuple((value - error, value + error) for _, value, error in points),
    )


def _cloud(points: Any, name: str, series: int, labels: Sequence[str] | None = None) -> Line:
    return Line(
        name,
        tuple(_point(point) for point in points),
        tuple(labels) if labels is not None else ("",) * len(points),
        series,
        dotted=True,
    )


def _point(point: Any) -> tuple[float, float]:
    return float(point[0]), float(point[1])


Number = float | None
Measure = Callable[[Mapping[str, Any]], Number]
"""A number of a pair, or none."""
LOWEST = -1.0
"""R² below this counts as this."""


class Setting:
    """One unit: all models of a dimension and an estimator."""

    def __init__(self, found: Outcome) -> None:
        self.found = found
        self.estimator, self.dimension = found["estimator"], int(found["dimension"])

    def mean(self, measure: str | Measure) -> tuple[Number, Number]:
        """Mean over pairs, and its error."""
        take = measure if callable(measure) else lambda pair: pair[measure]
        values = {(pair["first"], pair["second"]): take(pair) for pair in self.found["pairs"]}
        return over_pairs({pair: max(float(value), LOWEST) for pair, value in values.items() if value is not None})

    def rung(self, side: str, rung: str) -> tuple[Number, Number]:
        """Held-out R² of a rung, for contexts ``f`` or words ``g``."""
        return self.mean(lambda pair: pair[side][rung])

    def band(self, place: int) -> tuple[Number, Number]:
        """Held-out R² of the linear map within a frequency band."""
        return self.mean(lambda pair: pair["bands"][place])

    @property
    def bands(self) -> list[str]:
        """Ranks of the frequency bands, as words."""
        return [f"ranks {start + 1} to {stop}" for start, stop in self.found["bands"]]

    @property
    def loss(self) -> Number:
        """Mean held-out loss over models, over the whole vocabulary whatever the estimator."""
        known = [float(model["loss"]) for model in self.found["models"] if model["loss"] is not None]
        return sum(known) / len(known) if known else None


class Reading:
    """All settings of a run, of one text."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.preset = preset
        self.settings = [Setting(found) for found in outcomes.values()]
        self.by_dimension = [each for each in self.settings if each.estimator == preset.estimators[0]]
        if len({each.found["corpus"]["digest"] for each in self.settings}) > 1:
            raise InputError("the text has changed since a part of this run was done: name another folder with --out")

    @property
    def head(self) -> Setting | None:
        """The setting that is drawn: the first estimator at the first dimension."""
        return self.settings[0] if self.settings else None


R2 = "1: all variance is explained; below 0: worse than the mean; below −1 counts as −1"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = (_rungs(reading, "f"), _rungs(reading, "g"), _bands_table(reading), _theory(reading))
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _rungs(reading: Reading, side: str) -> Table:
    rows = []
    for each in reading.settings:
        cells = [each.rung(side, rung) for rung in RUNGS]
        cells += [each.mean(f"{side}_shuffled"), each.mean("cca" if side == "f" else "cca_g")]
        rows.append(Row(_name(each), *_split(cells)))
    what = "Contexts f, held-out blocks of text" if side == "f" else "Words g, centred, five folds"
    return Table(
        f"rungs-{side}",
        f"{what}: held-out R² by rung, mean over pairs ± s.e., and the mean canonical correlation",
        (*RUNGS, "linear, shuffled", "CCA"),
        tuple(rows),
        R2,
    )


def _bands_table(reading: Reading) -> Table:
    if reading.head is None:
        return Table("bands", "", (), (), "")
    columns = tuple(reading.head.bands)
    rows = [Row(_name(each), *_split([each.band(place) for place in range(len(columns))])) for each in reading.settings]
    return Table(
        "bands",
        "Words g by frequency: held-out R² of the linear map within a band of ranks",
        columns,
        tuple(rows),
        R2,
    )


def _theory(reading: Reading) -> Table:
    rows = []
    for each in reading.settings:
        conditions = [float(model["condition"]) for model in each.found["models"] if model["condition"] is not None]
        cells: list[tuple[Number, Number]] = [
            (each.loss, None),
            (float(each.found["unigram"]), None),
            (float(sum(bool(model["diverse"]) for model in each.found["models"])), None),
            (max(conditions, default=None), None),
            each.mean("head"),
            each.rung("f", "linear"),
            each.mean("transposed"),
            each.rung("g", "linear"),
        ]
        rows.append(Row(_name(each), *_split(cells)))
    return Table(
        "theory",
        "Held-out loss in nats; how many heads are diverse, and their largest condition number; R² of maps that theory "
        "predicts beside regressions",
        (
            "loss",
            "unigram",
            "diverse",
            "condition",
            "f, head map",
            "f, regression",
            "g, by f",
            "g, regression",
        ),
        tuple(rows),
        "the head map uses no contexts, and g by f no pair of words: it is the transpose of a regression of contexts",
    )


def _name(each: Setting) -> str:
    return f"{ESTIMATORS[each.estimator]}, {each.dimension} dimensions"


def _split(cells: list[tuple[Number, Number]]) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)
