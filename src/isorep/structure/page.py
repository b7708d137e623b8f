"""The page of scores against known factors: the answer, scores and chance, who knows what, and the ladder."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..report.charts import rung_name
from ..report.document import Answer, Cell, Column, Definitions, Figure, Forms, Notes, Page, Prose, Section, Table
from ..report.figures import Heatmap, IntervalRow, Intervals, Key
from ..report.page import page_of, size
from ..report.read import MISSING, count, fixed, p_value
from ..representation import Array
from ..resampling import Null
from .dci import DCI
from .families import SCORES
from .result import FactorScores, Information, Score

REACHED = {"not recovered": False, "partly": None, "recovered": True}
MOST_FACTORS, MOST_LATENTS = 40, 64
OPEN_COLUMNS = 12  # columns up to which their table is open
CHANCE = (
    "Chance (shuffled rows) is what the same latents score against the factors of other rows; a score near it shows "
    "no information, however high it is. A p-value is the share of pairings, the real one among them, that score as "
    "high on the rows that were shuffled; ≤ marks the smallest that the number of shuffles allows. Corrected values "
    "run from chance (0) to the best (1), on those rows. Intervals come from random halves of the rows, or of "
    "the groups; those of MIG and modularity leave out one block of them at a time."
)
AXES = (
    "Chance (random axes) is what the same latents score in other axes: the continuous ones are whitened, which moves "
    "axes as little as possible, scored, and turned by random rotations. All information stays; a score near this "
    "chance shows that any axes would do as well. Corrected values run from random axes (0) to the best (1), and "
    "p-values are those of the whitened latents."
)
INFORMATION = (
    "Mutual information of each factor with each latent, over the entropy of the factor: 1 if the latent "
    "determines it. A row with one dark cell is a factor in one latent, a column with one is a latent "
    "about one factor."
)
IMPORTANCES = "How much boosted trees use each latent to predict each factor; every row sums to 1."
STATES = (
    "Information counts if the best latent of a factor reaches as much in at most 5% of shuffles. Share is how much "
    "of what all latents know about the factor is in its best latent; purity, how much of what that latent knows "
    "is about this factor. A factor is split if share is below two thirds, and mixed if purity is. Otherwise it is "
    "captured if random axes give as much in at most 5% of draws, and undecided if not. It is lost if no latent knows "
    "it and all together do not explain it, spread if they do. Explicitness is its part of InfoE."
)
LADDER = (
    "The best map of each group from latents onto factors, and what it leaves on held-out rows, in mean distances of "
    "the standardised factors to their mean; lower is closer, and 1 is no better than the mean."
)
HEATMAPS = {"nmi": "Which latent knows which factor", "dci": "Which latent is used for which factor"}
HUNDREDTHS, THOUSANDTHS = partial(fixed, digits=2), partial(fixed, digits=3)


def page(result: FactorScores) -> Page:
    """All of it, most important first."""
    latents, factors = result.names
    return page_of(
        result,
        f"{latents} and {factors} · structure",
        f"{latents} against {factors}: are the features the true factors?",
        _answer(result),
        _tiles(result),
        (
            _scores(result),
            _information(result),
            _factors(result),
            _latents(result),
            _importances(result),
            _slots(result),
            _ladder(result),
            _columns(result),
        ),
        data=f"{latents} {size(result.rows, len(result.columns['latents']))} and "
        f"{factors} {size(result.rows, len(result.columns['factors']))}",
    )


def _answer(result: FactorScores) -> Answer:
    answer, asked = result.verdict.answer, [each for each in result.factors if each.state != "constant"]
    steps = tuple((words, words == answer) for words in REACHED) if answer in REACHED else ()
    captured = sum(each.state == "captured" for each in asked)
    headline = f"{captured} of {len(asked)} factors have a latent of their own."
    if not asked:
        headline = "No single factor was judged."
    elif answer not in REACHED:
        headline = "No verdict: there were too few shuffles to know chance."
    return Answer(headline, result.verdict.sentence, REACHED.get(answer), steps)


def _tiles(result: FactorScores) -> list[tuple[str, str, str]]:
    tiles = []
    for name in ("infom", "infoe", "infoc"):
        if name in result.scores:
            score = result[name]
            nulls = (("shuffled rows", score.chance), ("random axes", score.axes))
            chance = [f"{words} {fixed(null.mean, 3)}" for words, null in nulls if null is not None]
            tiles.append((SCORES[name][0], fixed(score.value, 3), ", ".join(chance)))
    sizes = [f"{count(len(result.columns[side]))} {side}" for side in ("factors", "latents")]
    return [*tiles, ("rows", count(result.rows), ", ".join(sizes))]


def _scores(result: FactorScores) -> Section:
    columns: Forms = {"score": str, "value": fixed, "95% interval": fixed}
    null: Forms = dict.fromkeys(("chance, 95% range", "corrected", "p"), THOUSANDTHS)
    columns = {**columns, "chance (shuffled rows)": THOUSANDTHS, **null}
    rows = [
        (
            SCORES[name][0],
            score.value,
            Cell.between(score.interval, THOUSANDTHS),
            *_null_cells(score.chance, score.corrected),
        )
        for name, score in result.scores.items()
    ]
    parts: list[Any] = [_score_figure(result), Table.of("scores", "All scores, higher is better", columns, rows)]
    parts.append(Prose((CHANCE,)))
    turned = [score for score in result.scores.values() if score.axes is not None]
    if turned:
        columns = {"score": str, "whitened latents": fixed, "chance (random axes)": THOUSANDTHS, **null}
        rows = [
            (SCORES[each.name][0], each.axes.observed, *_null_cells(each.axes, each.axes_corrected))
            for each in turned
            if each.axes is not None
        ]
        parts += [Table.of("axes", "Would other axes do as well?", columns, rows), Prose((AXES,))]
    parts.append(Definitions(tuple((*SCORES[name], "") for name in result.scores)))
    return Section("scores", "Scores", tuple(parts))


def _null_cells(null: Null | None, corrected: float | None) -> tuple[Any, ...]:
    """Mean, 95% range, corrected value and p-value."""
    if null is None:
        return (None, Cell(MISSING), None, Cell(MISSING))
    low, high = null.quantile(0.025), null.quantile(0.975)
    span = Cell(f"{THOUSANDTHS(low)} to {THOUSANDTHS(high)}", low)
    return (null.mean, span, corrected, Cell(p_value(null.p_value, null.smallest_p), null.p_value))


def _score_figure(result: FactorScores) -> Figure:
    rows = tuple(_interval_row(score) for score in result.scores.values())
    return Figure(
        "scores-figure",
        "Scores and chance",
        "Every score with its interval; the band is where 95% of shuffles lie, the tick their mean. The hollow dot is "
        "the mean of random axes.",
        "; ".join(f"{row.name} {row.printed}" for row in rows),
        Intervals(rows, "score, higher is better", end=1.04),
        legend=(
            Key("dot", "s2", "score"),
            Key("whisker", "", "95% interval"),
            Key("tick", "", "chance (shuffled rows), 95% range"),
            Key("ring", "s2", "random axes"),
        ),
    )


def _interval_row(score: Score) -> IntervalRow:
    """A score on the axis from 0 to 1: what is negative stands at 0."""

    def within(value: float) -> float:
        return min(max(value, 0.0), 1.0)

    span, null = score.interval, score.chance
    return IntervalRow(
        SCORES[score.name][0],
        "s2",
        within(score.value),
        None if span is None else (within(span.low), within(span.high)),
        second=None if score.axes is None else within(score.axes.mean),
        band=None if null is None else (within(null.range_95[0]), within(null.mean), within(null.range_95[1])),
        labels=(fixed(score.value), "", "" if null is None else f"chance {fixed(null.mean, 3)}"),
        printed=fixed(score.value, 3),
    )


def _information(result: FactorScores) -> Section | None:
    known = result.information
    if known is None:
        return None
    idle = [name for name, active in zip(known.latents[:MOST_LATENTS], known.active, strict=False) if not active]
    said = INFORMATION + (f" Inactive latents: {', '.join(idle[:12])}." if idle else "")
    return Section("information", "Information", (Prose((said,)), _heat("nmi", known.nmi, known)))


def _importances(result: FactorScores) -> Section | None:
    record = result.records.get("dci")
    if record is None:
        return None
    parts = (Prose((IMPORTANCES,)), _heat("dci", record.importances.T, record))
    return Section("importances", "Importances (DCI)", parts)


def _heat(name: str, table: Array, of: Information | DCI) -> Figure:
    """Factors down; latents across, so that each factor's best, among those that are left, is on the diagonal."""
    cut, rows = table[:MOST_FACTORS, :MOST_LATENTS], of.factors[:MOST_FACTORS]
    order: list[int] = []
    for line in cut[: cut.shape[1]]:
        order.append(max((j for j in range(cut.shape[1]) if j not in order), key=lambda j: line[j]))
    order += sorted((j for j in range(cut.shape[1]) if j not in order), key=lambda j: -cut[:, j].max())
    values, columns = cut[:, order], tuple(of.latents[j] for j in order)
    best = [
        f"{row}: most in {columns[j]} ({fixed(values[i, j], 2)})"
        for i, (row, j) in enumerate(zip(rows, np.argmax(values, axis=1), strict=True))
    ]
    numbers = tuple(
        (Cell(row), *(Cell(fixed(value, 3), value) for value in line))
        for row, line in zip(rows, values.tolist(), strict=True)
    )
    heads = (Column("factor", numeric=False), *map(Column, columns))
    return Figure(
        f"{name}-figure",
        HEATMAPS[name],
        "Factors down, latents across in the order of the factors they know best.",
        "; ".join(best),
        Heatmap(tuple(map(tuple, values.tolist())), rows, columns, ("latent", "factor"), left=140, signed=False),
        table=Table(f"{name}-figure-table", "The numbers behind it", heads, numbers, folded=True),
    )


def _factors(result: FactorScores) -> Section | None:
    shown = result.factors[:MOST_FACTORS]
    if not shown:
        return None
    words: Forms = dict.fromkeys(("factor", "state", "best latent"), str)
    shares: Forms = dict.fromkeys(("share", "purity"), HUNDREDTHS)
    shares = {**shares, **dict.fromkeys(("p (random axes)", "explicitness"), THOUSANDTHS)}
    columns: Forms = {**words, **dict.fromkeys(("NMI", "chance (shuffled rows)"), THOUSANDTHS), **shares}
    rows = [
        (
            each.name,
            each.state,
            each.latent or MISSING,
            each.nmi,
            each.chance,
            each.share,
            each.purity,
            each.axes_p,
            each.explicitness,
        )
        for each in shown
    ]
    notes = Notes(tuple(f"{each.sentence}." for each in shown[:12]))
    table = Table.of("factors", "What became of each factor", columns, rows)
    return Section("factors", "Factors", (notes, table, Prose((STATES,))))


def _latents(result: FactorScores) -> Section | None:
    columns: Forms = dict.fromkeys(("latent", "state", "main factor"), str)
    columns = {**columns, "NMI": THOUSANDTHS, "purity": HUNDREDTHS, "informs about": str}
    rows = [
        (each.name, each.state, each.factor or MISSING, each.nmi, each.purity, ", ".join(each.factors[:6]) or MISSING)
        for each in result.latents[: 4 * MOST_LATENTS]
    ]
    table = Table.of("latents", "What each latent is about", columns, rows)
    return Section("latents", "Latents", (table,)) if rows else None


def _slots(result: FactorScores) -> Section | None:
    record = result.records.get("slots")
    if record is None:
        return None
    numbers: Forms = dict.fromkeys(("R² from it", "best R² from another"), THOUSANDTHS)
    columns: Forms = {"true slot": str, "inferred slot": str, **numbers}
    rows = [
        (slot, match if match >= 0 else MISSING, on, off)
        for slot, (match, on, off) in enumerate(zip(record.matches, record.on, record.off, strict=True))
    ]
    return Section("slots", "Slots", (Table.of("slots", "Matched slots", columns, rows[:MOST_FACTORS]),))


def _ladder(result: FactorScores) -> Section | None:
    if result.ladder is None:
        return None
    columns: Forms = {"group": str, "held-out error": fixed, "95% interval": fixed, "chance": fixed}
    rows = [
        (rung_name(name), rung.held_out.mean, Cell.between(rung.interval, fixed), rung.null.mean if rung.null else None)
        for name, rung in result.ladder.rungs.items()
    ]
    table = Table.of("ladder", "Up to which group latents are the factors", columns, rows)
    return Section("ladder", "Ladder", (Prose((f"{LADDER} {result.ladder.verdict.sentence}",)), table))


def _columns(result: FactorScores) -> Section:
    columns: Forms = dict.fromkeys(("side", "column", "taken as", "because"), str)
    rows = [
        (side[:-1], each["name"], "discrete" if each["discrete"] else "continuous", each["why"], each["distinct"])
        for side in ("factors", "latents")
        for each in result.columns[side][: 4 * MOST_LATENTS]
    ]
    forms = {**columns, "distinct values": count}
    return Section(
        "columns",
        "Columns",
        (Table.of("columns", "How columns were taken", forms, rows, folded=len(rows) > OPEN_COLUMNS),),
    )
