"""The page of matched dictionaries: shares that recur, similarities, frequency, splitting and absorption."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..report.document import Answer, Cell, Figure, Forms, Page, Part, Prose, Row, Section, Table
from ..report.figures import Heatmap, IntervalRow, Intervals, Key, Line, Lines
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, fixed, p_value, percent
from .result import WAYS, Agreement, Level, PairRecurrence, Recurrence
from .verdict import findings_of

HEADLINES = {
    "most": "At least half of the atoms recur.",
    "some": "Some atoms recur.",
    "few": "Few atoms recur.",
    "none": "Atoms do not recur beyond chance.",
}
STEPS = {"none": "at chance", "few": "below a tenth", "some": "a tenth to a half", "most": "at least half"}
MATCHING = (
    "One-to-one matching gives every atom at most one partner and makes the sum of similarities largest. Best matches "
    "may share a partner, so that one atom can stand for several. An atom recurs if its similarity reaches {:g}."
)
CHANCE = {
    "rotated dictionaries": "Chance is what rotated dictionaries give: the larger one turned at random in the space "
    "in which its atoms spread equally. They keep its number of atoms, its duplicates and its preferred directions. "
    "Random directions keep none of these; they are listed beside it and do not decide.",
    "shuffled rows": "Chance of correlations is what remains when the target's rows change places.",
}
_POINTS = 400
_BOTH = "Every dot is a pair that decoders match one to one; at the upper right both similarities agree."


def page(result: Recurrence) -> Page:
    """All pairs, the first in detail."""
    names = [side.name for side in result.sides]
    title = " and ".join(names) if len(names) == 2 else f"{len(names)} dictionaries"
    first = result.pairs[0]
    several = len(result.pairs) > 1
    detail = f", {first.source} and {first.target}" if several else ""
    answer = result.verdict.answer
    return page_of(
        result,
        f"{title} · dictionaries",
        f"Do the atoms of {title} recur?",
        Answer.of(HEADLINES[answer], result.verdict.sentence, answer != "none", STEPS, answer),
        _tiles(result),
        (
            Section("matching", "Recurrence", _matching(result)),
            _section("similarity", f"Similarity of partners{detail}", _similarity(first, result.threshold)),
            _section("frequency", f"Recurrence and frequency{detail}", _frequency(first)),
            _section("splitting", f"Splitting and absorption{detail}", _splitting(first)),
            Section("dictionaries", "Dictionaries", (_sides(result),)),
        ),
        data=", ".join(f"{side.name} {size(side.atoms, side.width or result.rows or 0)}" for side in result.sides),
    )


def _section(name: str, title: str, parts: tuple[Part, ...]) -> Section | None:
    return Section(name, title, parts) if parts else None


def _tiles(result: Recurrence) -> list[tuple[str, str, str]]:
    first = result.pairs[0].main
    level = first.one_to_one
    shares = result.shares()
    if len(result.pairs) == 1:
        tiles = [
            ("atoms that recur", percent(level.share, 1), f"chance {percent(level.share_null.mean, 1)}, one to one"),
            (f"mean {first.measure}", fixed(level.mean, 3), f"chance {fixed(level.mean_null.mean, 3)}, one to one"),
        ]
    else:
        low, high = float(np.nanmin(shares)), float(np.nanmax(shares))
        said = f"{count(len(result.pairs))} pairs, one to one"
        tiles = [("atoms that recur", f"{percent(low, 1)} to {percent(high, 1)}", said)]
    dead = sum(side.atoms - side.alive for side in result.sides)
    total = sum(side.atoms for side in result.sides)
    return [*tiles, ("dead atoms", count(dead), f"of {count(total)} in {len(result.sides)} dictionaries")]


# Recurrence


def _matching(result: Recurrence) -> tuple[Part, ...]:
    used = list(dict.fromkeys(each.chance for pair in result.pairs for each in pair.agreements))
    said = (MATCHING.format(result.threshold), *(CHANCE[each] for each in used))
    parts: list[Part] = [_shares(result)]
    if len(result.sides) > 2:
        parts.append(_matrix(result))
    if len(result.pairs) == 1:
        pair = replace(result.pairs[0], splitting=(), absorption=())  # these have a section of their own
        said = (*said, " ".join(findings_of(pair, result.threshold)))
    return (*parts, Prose(said), _table(result))


def _shares(result: Recurrence) -> Figure:
    rows = []
    for pair in result.pairs[:40]:
        for agreement in pair.agreements:
            for way, words in WAYS.items():
                if len(result.pairs) > 1 and (way != "one_to_one" or agreement is not pair.main):
                    continue
                level: Level = getattr(agreement, way)
                name = f"{pair.source} > {pair.target}" if len(result.pairs) > 1 else f"{agreement.measure}, {words}"
                low, high = level.share_null.range_95
                null = level.share_null.mean
                rows.append(
                    IntervalRow(
                        name,
                        "s2" if agreement.measure == "cosine" else "s3",
                        value=level.share,
                        band=(min(low, null), null, max(high, null)),
                        strong=way == "one_to_one" and agreement is pair.main,
                        labels=(f"recur {percent(level.share, 1)}", "", f"chance {percent(null, 1)}"),
                        printed=percent(level.share, 1),
                    )
                )
    return Figure(
        "shares-figure",
        "Share of atoms that recur",
        f"Atoms whose partner has a similarity of at least {result.threshold:g}; the band holds 95% of chance draws.",
        "",
        Intervals(tuple(rows), "share of atoms", end=1.04),
        legend=(Key("dot", "s2", "found"), Key("tick", "", "chance, 95% range")),
    )


def _matrix(result: Recurrence) -> Figure:
    names = tuple(side.name for side in result.sides)
    values = tuple(tuple(None if np.isnan(x) else float(x) for x in row) for row in result.shares())
    return Figure(
        "matrix-figure",
        "Recurrence of every two dictionaries",
        "Share of the smaller dictionary's atoms that recur, one to one.",
        "",
        Heatmap(values, names, names, ("dictionary", "dictionary"), left=120.0, signed=False),
    )


def _table(result: Recurrence) -> Table:
    columns: Forms = {
        "source": str,
        "target": str,
        "similarity": str,
        "matching": str,
        "mean": lambda x: fixed(x, 3),
        "chance": lambda x: fixed(x, 3),
        "random": lambda x: fixed(x, 3),
        "recur": lambda x: percent(x, 1),
        "by chance": lambda x: percent(x, 1),
        "p": lambda x: fixed(x, 3),
    }
    rows = []
    for pair in result.pairs:
        for agreement in pair.agreements:
            for way, words in WAYS.items():
                level: Level = getattr(agreement, way)
                null = level.share_null
                p = Cell(p_value(null.p_value, null.smallest_p), null.p_value)
                loose = Cell(MISSING) if level.random_mean is None else level.random_mean
                found = (level.mean, level.mean_null.mean, loose, level.share, null.mean, p)
                rows.append((pair.source, pair.target, agreement.measure, words, *found))
    return Table.of("matchings", "All matchings", columns, rows, folded=len(rows) > 12)


# Similarity of partners


def _similarity(pair: PairRecurrence, threshold: float) -> tuple[Part, ...]:
    matched = [each for each in pair.agreements if (each.partner >= 0).any()]
    drawn = [_sorted(agreement, pair, threshold) for agreement in matched]
    both = pair.together
    if both is None:
        return tuple(drawn)
    step = max(1, len(both.atoms) // _POINTS)
    points = tuple((float(x), float(y)) for x, y in zip(both.cosine[::step], both.correlation[::step], strict=True))
    labels = tuple(
        f"atom {atom}: cosine {fixed(x, 2)}, correlation {fixed(y, 2)}"
        for atom, (x, y) in zip(both.atoms[::step], points, strict=True)
    )
    dots = Lines((Line("pairs", "s2", points, labels, dotted=True),), ("cosine of decoders", "correlation"))
    told = f"{len(points)} pairs; {percent(both.both)} reach {threshold:g} in both."
    shown = "" if step == 1 else f" {count(len(points))} of {count(len(both.atoms))} pairs are drawn."
    return (*drawn, Figure("both-figure", "Decoders and activations", _BOTH + shown, told, dots))


def _sorted(agreement: Agreement, pair: PairRecurrence, threshold: float) -> Figure:
    """Similarities of partners in descending order, with chance and the threshold."""
    values = -np.sort(-agreement.similarity[agreement.partner >= 0])
    places = np.unique(np.linspace(0, len(values) - 1, min(len(values), 200)).astype(int))
    across = (places + 1) / max(len(values), 1)
    points = tuple((float(x), float(values[at])) for x, at in zip(across, places, strict=True))
    labels = tuple(f"{percent(x)} of pairs reach {fixed(y, 3)}" for x, y in points)
    level = agreement.one_to_one
    chance = level.mean_null.mean
    flat = [("chance, mean", "s0", chance), ("threshold", "s1", threshold)]
    lines = [Line("partners", "s2" if agreement.measure == "cosine" else "s3", points, labels)]
    lines += [Line(name, series, ((0.0, at), (1.0, at)), (f"{name} {fixed(at, 3)}",) * 2) for name, series, at in flat]
    return Figure(
        f"{agreement.measure}-figure",
        f"{agreement.measure.capitalize()} of partners, from the closest",
        f"One-to-one partners of {pair.source} in {pair.target}; chance is the mean of {agreement.chance}.",
        f"Mean {fixed(level.mean, 3)}, chance {fixed(chance, 3)}.",
        Lines(tuple(lines), ("share of pairs", agreement.measure), y_range=(min(0.0, float(values[-1])), 1.0)),
    )


# Frequency


def _frequency(pair: PairRecurrence) -> tuple[Part, ...]:
    if not pair.curves:
        return ()
    lines = []
    for curve, series in zip(pair.curves, ("s2", "s1"), strict=False):
        points = tuple((float(np.log10(each.frequency)), each.share) for each in curve.bins)
        labels = tuple(
            f"frequency {compact(each.frequency, 2)}: {percent(each.share, 1)} of {count(each.atoms)} atoms"
            for each in curve.bins
        )
        spans = tuple((each.interval.low, each.interval.high) for each in curve.bins)
        lines.append(Line(curve.name, series, points, labels, spans=spans))
    known = [(float(np.log10(each.frequency)), each.chance) for each in pair.curves[0].bins if each.chance is not None]
    if known:
        points = tuple((x, float(y)) for x, y in known)
        lines.append(Line("chance", "s0", points, tuple(f"chance {percent(y, 1)}" for _, y in points)))
    ends = [x for line in lines for x, _ in line.points]
    ticks = tuple(
        (float(power), f"{10.0**power:g}") for power in range(int(np.floor(min(ends))), int(np.ceil(max(ends))) + 1)
    )
    columns: Forms = {
        "dictionary": str,
        "frequency from": lambda x: compact(x, 3),
        "to": lambda x: compact(x, 3),
        "atoms": count,
        "recur": lambda x: percent(x, 1),
        "95% interval": str,
        "by chance": str,
    }
    rows = [
        (curve.name, each.low, each.high, each.atoms, each.share,
         Cell.between(each.interval, lambda x: percent(x, 1)), percent(each.chance, 1))
        for curve in pair.curves
        for each in curve.bins
    ]  # fmt: skip
    figure = Figure(
        "frequency-figure",
        "Recurrence against frequency",
        "Bins of about as many atoms each, by the share of rows in which an atom is active; 95% intervals (Wilson). "
        "Chance is that of best matches.",
        "",
        Lines(tuple(lines), ("frequency, log scale", "share that recurs"), y_range=(0.0, 1.0), ticks=ticks),
        table=Table.of("bins", "Bins of frequency", columns, rows, folded=True),
    )
    return (figure,)


# Splitting, absorption and the dictionaries


def _splitting(pair: PairRecurrence) -> tuple[Part, ...]:
    parts: list[Part] = []
    for place, each in enumerate(pair.splitting, 1):
        if each.splits:
            columns: Forms = {"atom": count, "parts": str, "best part": lambda x: fixed(x, 3),
                              "together": lambda x: fixed(x, 3)}  # fmt: skip
            rows = [(one.atom, ", ".join(map(str, one.parts)), one.best, one.together) for one in each.splits]
            title = f"Atoms of {each.source} that are split in {each.target}: {len(rows)} of {count(each.count)}"
            parts.append(Table.of(f"splits-{place}", title, columns, rows, folded=True))
    for place, lost in enumerate(pair.absorption, 1):
        if lost.absorbed:
            columns = {"atom": count, "partner": count, "absorbed by": count, "partner silent": lambda x: percent(x, 1),
                       "there active": lambda x: percent(x, 1), "elsewhere": lambda x: percent(x, 1)}  # fmt: skip
            rows2 = [(one.atom, one.partner, one.by, one.missed, one.covered, one.elsewhere) for one in lost.absorbed]
            title = f"Atoms of {lost.source} absorbed in {lost.target}: {len(rows2)} of {count(lost.count)}"
            parts.append(Table.of(f"absorbed-{place}", title, columns, rows2, folded=True))
    if not pair.splitting and not pair.absorption:
        return ()
    said = [
        f"{each.source} in {each.target}: {count(each.count)} split ({percent(each.share, 1)}; chance at most "
        f"{percent(each.chance, 1)})."
        for each in pair.splitting
    ]
    said += [
        f"{lost.source} in {lost.target}: {count(lost.count)} of {count(lost.tested)} recurring atoms absorbed."
        for lost in pair.absorption
    ]
    if not pair.absorption:
        said.append("Absorption needs activations of both dictionaries.")
    return (Prose((" ".join(said),)), *parts)


def _sides(result: Recurrence) -> Part:
    columns: Forms = {"dictionary": str, "atoms": count, "alive": count, "zero": count, "never active": count,
                      "duplicates": count, "dimensions": count}  # fmt: skip
    recur: Forms = {f"recur in {number}": count for number in range(len(result.sides))}
    rows = [
        (side.name, side.atoms, side.alive, side.zero, side.never_active, side.duplicates, side.width, *side.recurs_in)
        for side in result.sides
    ]
    return Row((Table.of("sides", "Atoms of every dictionary", {**columns, **recur}, rows),))
