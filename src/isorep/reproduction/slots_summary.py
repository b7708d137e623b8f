"""Slot identifiability score (SIS) against the overlap of slots: tables, charts and claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..resampling import Value
from .experiment import Chart, Claim, Line, Outcome, Summary, Table
from .outcomes import cloud, line, mark, mean_of, over_cases, summary, table
from .slots import CONDITIONS, LAWS, Preset

HIGH = 0.9
"""Share of the true latents' SIS from which a training counts as having found the slots, in the table of traces."""
LEAST = 0.05
"""Smallest difference in SIS that counts, even if its error is smaller."""
CURVES = {
    "plain": "λ = 0",
    "contrast": "contrast",
    "unit": "at unit spread",
    "regrouped": "at unit spread, regrouped",
    "additive": "additive decoder",
}
SIS = "SIS, 1: every inferred slot is one true slot"
BY_OVERLAP = {
    "sis": ("SIS by overlap ± s.e. over seeds, normal latents", f"higher is better; {SIS}"),
    "own": (
        "Share of an inferred slot's derivatives by one true slot, by overlap",
        "1: a function of one true slot; 1/K: fully mixed",
    ),
}
CRITERIA = {"type_d": "D", "type_m": "M", "type_s": "S", "h2_swaps": "H₂"}
LEARNT = ("contrast", "unit", "regrouped")
AXIS = "slot identifiability score (SIS)"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    every = list(outcomes.values())
    tables = (*_by_overlap(every), _truth(every), _laws(preset, every), _beyond(preset, every), _traces(every))
    return summary(claims_of(preset, every), tables, charts(preset, every))


def over_seeds(setting: Outcome | None, measure: str = "sis") -> Value:
    """Mean over the seeds of a setting whose training stayed finite."""
    return Value(None) if setting is None else mean_of(run.get(measure) for run in setting["runs"])


def least_loss(setting: Outcome | None, restarts: int) -> Value:
    """SIS of the training with the lowest loss among each group of so many in turn: chosen without the truth."""
    runs = [run for run in setting["runs"] if run["sis"] is not None] if setting else []
    groups = [runs[start : start + restarts] for start in range(0, len(runs) - restarts + 1, restarts)]
    return mean_of(min(group, key=lambda run: run["loss"])["sis"] for group in groups)


def matching(every: list[Outcome], **wanted: Any) -> list[Outcome]:
    """Settings that are what is wanted, in their order."""
    return [each for each in every if all(each[key] == value for key, value in wanted.items())]


def curves_of(every: list[Outcome], slots: int) -> dict[str, list[Outcome]]:
    """Settings of a number of slots over the overlap: by condition, and by λ where there are several."""
    curves: dict[str, list[Outcome]] = {}
    for condition, words in CURVES.items():
        curve = matching(every, slots=slots, condition=condition, law="normal")
        for each in sorted(curve, key=lambda each: (each["strength"], each["overlap"])):
            curves.setdefault(_with_strength(words, each), []).append(each)
    return curves


def claims_of(preset: Preset, every: list[Outcome]) -> tuple[Claim, ...]:
    """Each over all settings that it is about; of parts that were run."""
    if not every:
        return ()
    curves = [curve for slots in _slots(every) for curve in curves_of(every, slots).values()]
    contrast = [curve for curve in curves if curve[0]["condition"] == "contrast"]
    first = [curve[0] for curve in contrast]
    apart = [each for each in first if each["truth"]["type_d"]]
    dependent = matching(every, law="dependent", condition="contrast")
    identified = [each for each in matching(every, law="normal") if each["truth"]["type_s"]]
    restarts, regrouped = (matching(identified, condition=name) for name in ("restarts", "regrouped"))
    asked = {
        "SIS is high where slots share no outputs": (
            "SIS with the contrast",
            {_where(each): over_seeds(each) for each in apart} or {"not run": Value(None)},
            preset.high,
        ),
        "SIS falls as slots share more outputs": (
            "SIS with the contrast at the least overlap minus that at the largest",
            {_where(curve[-1]): over_seeds(curve[0]) - over_seeds(curve[-1]) for curve in contrast if len(curve) > 1},
            LEAST,
        ),
        "the contrast finds slots better than reconstruction alone, at the least overlap": (
            "SIS with the contrast minus that without",
            {_where(each): over_seeds(each) - over_seeds(_plain(every, each)) for each in first},
            LEAST,
        ),
        "where latents are dependent the contrast finds slots better than ICA": (
            "SIS with the contrast minus that of AE + ICA grouped by the truth",
            {_where(each): over_seeds(each) - over_seeds(_plain(every, each), "ica") for each in dependent},
            LEAST,
        ),
        "the training with the lowest loss of several finds the slots, avoiding bad local minima": (
            f"SIS at unit spread, least loss of {preset.restarts}",
            {_where(each): least_loss(each, preset.restarts) for each in restarts},
            preset.high,
        ),
        "slots of Type S are found once they may exchange directions, past the paper": (
            "SIS at unit spread, regrouped",
            {_where(each): over_seeds(each) for each in regrouped},
            preset.high,
        ),
    }
    return tuple(
        over_cases(
            text,
            {f"{measure} ({where})": value for where, value in cases.items()},
            least=least,
            published="" if "past the paper" in text else "no number",
        )
        for text, (measure, cases, least) in asked.items()
        if cases
    )


def _by_overlap(every: list[Outcome]) -> list[Table]:
    curves = {
        f"{slots} slots, {name}": {each["share"]: each for each in curve}
        for slots in _slots(every)
        for name, curve in curves_of(every, slots).items()
    }
    shares = sorted({each["share"] for each in matching(every, condition="plain", law="normal")})
    return [
        table(
            measure,
            title,
            direction,
            {name: [over_seeds(curve.get(share), measure) for share in shares] for name, curve in curves.items()},
            [_percent(share) for share in shares],
        )
        for measure, (title, direction) in BY_OVERLAP.items()
    ]


def _truth(every: list[Outcome]) -> Table:
    rows = {}
    for each in sorted(matching(every, condition="plain", law="normal"), key=_place):
        numbers = [*(each["truth"][key] for key in (*CRITERIA, "margin", "gap")), each["ceiling"]]
        rows[_where(each)] = [Value(None if value is None else float(value)) for value in numbers]
    return table(
        "truth",
        "The generator: which criteria hold (1) or fail (0), with Type M's margin and Type S's gap in outputs",
        "a gap above 0 is Type S; SIS of the true latents is the attainable maximum",
        rows,
        (*CRITERIA.values(), "margin", "gap", "SIS of the truth"),
    )


def _laws(preset: Preset, every: list[Outcome]) -> Table:
    """Each law at every place where laws other than normal were run."""
    rows = {}
    for plain, learnt in _by_law(every):
        last = learnt["regrouped"]
        rows[f"{plain['slots']} slots, {_percent(plain['share'])}, {LAWS[plain['law']]}"] = [
            *(over_seeds(plain, key) for key in ("sis", "grouped", "rotated", "ica")),
            *map(over_seeds, learnt.values()),
            least_loss(last, preset.restarts),
            Value(float(plain["ceiling"])),
            over_seeds(plain, "own"),
            over_seeds(last, "own"),
        ]
    columns = ("AE", "AE, grouped", "rotated", "AE + ICA", "contrast", "at unit spread", "regrouped")
    return table(
        "laws",
        "SIS with independent and dependent latents, ± s.e.; grouping uses the true slots",
        f"higher is better; {SIS}; own is the share of derivatives",
        rows,
        (*columns, "regrouped, chosen", "truth", "own, AE", "own, regrouped"),
    )


def _beyond(preset: Preset, every: list[Outcome]) -> Table:
    rows = {}
    for (slots, _), settings in _compared(every).items():
        for each in settings:
            words = _with_strength(CONDITIONS[each["condition"]].words, each)
            own, error, size = (over_seeds(each, key) for key in ("own", "error", "size"))
            scores = (over_seeds(each), least_loss(each, preset.restarts))
            rows[f"{slots} slots, {_percent(each['share'])}: {words}"] = [*scores, own, error, size]
    return table(
        "beyond",
        f"Past the paper: losses, schedules and restarts, ± s.e.; chosen: least loss of {preset.restarts}",
        f"higher SIS is better; {SIS}",
        rows,
        ("SIS", "SIS, chosen", "own", "error / variance", "size of latents"),
    )


TRACED = {
    "sis": "SIS",
    "high": "found",
    "sis_half": "SIS half-way",
    "sis_moved": "largest change since",
    "error": "error / variance",
    "size": "size of latents",
}


def _traces(every: list[Outcome]) -> Table:
    """Does SIS still change late in training? By setting, what the second half of the steps adds."""
    rows = {}
    for each in every:
        runs = [run for run in each["runs"] if run["sis"] is not None and len(run.get("trace") or ()) > 1]
        if not runs:
            continue
        half = [run["trace"][(len(run["trace"]) - 1) // 2]["sis"] for run in runs]
        ends = [run["sis"] for run in runs]
        facts = {
            "sis": mean_of(ends),
            "high": mean_of(float(value >= HIGH * each["ceiling"]) for value in ends),
            "sis_half": mean_of(half),
            "sis_moved": Value(max(abs(end - before) for end, before in zip(ends, half, strict=True))),
            "error": over_seeds(each, "error"),
            "size": over_seeds(each, "size"),
        }
        words = _with_strength(CONDITIONS[each["condition"]].words, each)
        rows[f"{each['slots']} slots, {_percent(each['share'])}, {LAWS[each['law']]}: {words}"] = list(facts.values())
    return table(
        "traces",
        "SIS during training, ± s.e. over seeds: is it the steps?",
        f"found: share of trainings with at least {HIGH:.0%} of the SIS of the true latents; change of any training",
        rows,
        tuple(TRACED.values()),
    )


def charts(preset: Preset, every: list[Outcome]) -> list[Chart]:
    """All figures that there are settings for."""
    drawn = [_sweep(every, slots) for slots in _slots(every)]
    first = [each for each in matching(every, law="normal", condition="contrast") if each["truth"]["type_d"]]
    drawn += [_followed(each) for each in first if any(run.get("trace") for run in each["runs"])]
    laws: dict[tuple[int, int], list[Any]] = {}
    for plain, learnt in _by_law(every):
        law, best, marks = plain["law"], float(plain["ceiling"]), laws.setdefault(_place(plain), [])
        marks += mark(f"{law}: AE", over_seeds(plain), 0, best)
        marks += mark(f"{law}: AE + ICA", over_seeds(plain, "ica"), 1, best)
        for colour, (name, each) in enumerate(learnt.items(), start=2):
            marks += mark(f"{law}: {CONDITIONS[name].short}", over_seeds(each), colour, best)
    beyond: dict[tuple[int, int], list[Any]] = {}
    for place, settings in _compared(every).items():
        marks = beyond.setdefault(place, [])
        for each in settings:
            condition, best = each["condition"], float(each["ceiling"])
            label = f", λ = {each['strength']:g}" if condition == "contrast" else ""
            series = 2 if condition in CURVES else 3
            marks += mark(CONDITIONS[condition].short + label, over_seeds(each), series, best)
            if condition == "restarts":
                marks += mark(f"least loss of {preset.restarts}", least_loss(each, preset.restarts), series, best)
    captions = {
        "laws": (
            "Independent and dependent latents",
            "SIS, mean over seeds; the tick is SIS of the true latents, which is below 1 where they are dependent. "
            "Components of ICA are assigned to the true slots that explain them best.",
            laws,
        ),
        "beyond": (
            "Past the paper",
            "SIS, mean over seeds; the tick is SIS of the true latents. The least loss is at unit spread, too.",
            beyond,
        ),
    }
    return drawn + [
        Chart(
            f"{name}-{slots}-{overlap}",
            f"{title}: {slots} slots, overlap {_percent(overlap / preset.window)}",
            caption,
            (AXIS, ""),
            marks=tuple(marks),
            bound="true latents",
        )
        for name, (title, caption, places) in captions.items()
        for (slots, overlap), marks in places.items()
    ]


def _sweep(every: list[Outcome], slots: int) -> Chart:
    lines = []
    curves = curves_of(every, slots)
    for series, (name, curve) in enumerate(list(curves.items())[:7]):
        drawn = line(name, [over_seeds(each) for each in curve], [_percent(each["share"]) for each in curve], series)
        lines.append(replace(drawn, points=tuple((100 * curve[int(at)]["share"], sis) for at, sis in drawn.points)))
    truth = curves[CURVES["plain"]]
    best = [(100 * each["share"], float(each["ceiling"])) for each in truth]
    lines.append(cloud(best, "true latents", 6, [f"true latents: {y:.3f}" for _, y in best]))
    said = []
    for key, name in CRITERIA.items():
        holds = [f"{100 * each['share']:g}" for each in truth if each["truth"][key]]
        where = "everywhere" if len(holds) == len(truth) else f"at {', '.join(holds)}%" if holds else "nowhere"
        said.append(f"{name} {where}")
    return Chart(
        f"sis-{slots}",
        f"{slots} slots: SIS against the overlap",
        f"Mean over seeds with its standard error; normal latents. The generator is of Type {'; '.join(said)}. SIS of "
        "the true latents is the attainable maximum.",
        ("outputs shared with the next slot, % of a slot's", AXIS),
        lines=tuple(lines),
    )


def _followed(setting: Outcome) -> Chart:
    """SIS of each training against the steps."""
    lines = []
    for place, run in enumerate(setting["runs"]):
        points = [(each["step"] / 1000, each["sis"]) for each in run.get("trace") or ()]
        labels = [f"training {place + 1}, step {1000 * x:,.0f}: {y:.3f}" for x, y in points]
        lines.append(Line(f"training {place + 1}", tuple(points), tuple(labels), place))
    words = _with_strength(CONDITIONS[setting["condition"]].words, setting)
    return Chart(
        f"trace-{setting['slots']}-{setting['strength']:g}",
        f"SIS during training: {setting['slots']} slots, overlap {_percent(setting['share'])}, {words}",
        f"One line per training, {LAWS[setting['law']]}. SIS of the true latents is {setting['ceiling']:.2f}.",
        ("thousand steps", AXIS),
        lines=tuple(lines),
    )


def _by_law(every: list[Outcome]) -> list[tuple[Outcome, dict[str, Outcome | None]]]:
    """Reconstruction alone under each law, and the largest λ of each penalty, where laws were compared."""
    places = {_place(each) for each in every if each["law"] != "normal"}
    plains = sorted(matching(every, condition="plain"), key=lambda each: (_place(each), list(LAWS).index(each["law"])))
    by_law = []
    for plain in (each for each in plains if _place(each) in places):
        here = sorted(_here(every, plain), key=lambda each: -each["strength"])
        by_law.append((plain, {name: _first(matching(here, condition=name)) for name in LEARNT}))
    return by_law


def _compared(every: list[Outcome]) -> dict[tuple[int, int], list[Outcome]]:
    """By place where more was tried than in the sweep: what was, after the conditions of the sweep."""
    beyond = sorted((each for each in every if each["condition"] not in CURVES), key=_place)
    tried: dict[tuple[int, int], list[Outcome]] = {}
    for each in beyond:
        if _place(each) not in tried:
            here = sorted(_here(every, each), key=lambda each: each["strength"])
            tried[_place(each)] = [known for name in CURVES for known in matching(here, condition=name)]
        tried[_place(each)].append(each)
    return tried


def _here(every: list[Outcome], one: Outcome) -> list[Outcome]:
    return matching(every, **{key: one[key] for key in ("slots", "overlap", "law")})


def _plain(every: list[Outcome], one: Outcome) -> Outcome | None:
    return _first(matching(_here(every, one), condition="plain"))


def _first(settings: list[Outcome]) -> Outcome | None:
    return settings[0] if settings else None


def _slots(every: list[Outcome]) -> list[int]:
    return sorted({each["slots"] for each in matching(every, condition="plain", law="normal")})


def _place(setting: Outcome) -> tuple[int, int]:
    return setting["slots"], setting["overlap"]


def _where(setting: Outcome) -> str:
    return _with_strength(f"{setting['slots']} slots, {_percent(setting['share'])}", setting)


def _with_strength(words: str, setting: Outcome) -> str:
    return f"{words}, λ = {setting['strength']:g}" if setting["strength"] else words


def _percent(share: float) -> str:
    return f"{100 * share:g}%"
