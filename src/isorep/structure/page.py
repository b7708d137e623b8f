"""The page of scores against known factors (schema ``isorep.structure/1``): answer, scores, information, readings.

Which latent knows which factor, as pictures: mutual information, and the importances of DCI.

What became of each factor, latent, slot and column, as tables, and the ladder from latents onto factors.
"""

from __future__ import annotations

from ..report.charts import rung_name
from ..report.document import Answer, Cell, Column, Definitions, Figure, Notes, Page, Prose, Section, Table
from ..report.figures import Heatmap, IntervalRow, Intervals, Key
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, count, fixed, p_value

ANSWERS = {"recovered": True, "partly": None, "not recovered": False}
STEPS = (("not recovered", "not recovered"), ("partly", "partly"), ("recovered", "recovered"))
MOST_SCORES = 60
NAMES = {
    "infom": "InfoM",
    "infoe": "InfoE",
    "infoc": "InfoC",
    "dci_disentanglement": "DCI disentanglement",
    "dci_completeness": "DCI completeness",
    "dci_informativeness": "DCI informativeness",
    "mig": "MIG",
    "sap": "SAP",
    "modularity": "modularity",
    "explicitness": "explicitness",
    "mcc": "MCC",
    "mcc_held_out": "MCC, held out",
    "mcc_spearman": "MCC of ranks",
    "linear_r2": "linear R²",
    "kernel_r2": "kernel R²",
    "sis": "SIS",
}
MEANING = {
    "infom": "each active latent informs about one factor; says nothing about how much, and chance is far from 0",
    "infoe": "all latents together determine the factors linearly; blind to how they are mixed",
    "infoc": "each factor is in one latent; lowered by duplicates",
    "dci_disentanglement": "boosted trees use each latent for one factor",
    "dci_completeness": "boosted trees use one latent for each factor",
    "dci_informativeness": "how well boosted trees predict unseen rows",
    "mig": "the best latent of a factor is ahead of the second, in bins; a duplicate brings it to 0",
    "sap": "the same gap for a linear classifier on one latent at a time",
    "modularity": "each latent informs about one factor, in bins; latents of noise count",
    "explicitness": "AUROC of a logistic regression from all latents; chance is 0.5",
    "mcc": "correlation of factors with latents matched one to one, in sample",
    "mcc_held_out": "the same with matching and signs chosen on other rows",
    "mcc_spearman": "the same of ranks: blind to monotone curves",
    "linear_r2": "share of the factors that a linear map of all latents explains on unseen rows",
    "kernel_r2": "the same for a smooth map",
    "sis": "each inferred slot determines one true slot and no other",
}


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    latents = result["names"]["latents"].text("the latents")
    factors = result["names"]["factors"].text("the factors")
    sections = [
        _scores(result),
        information(result),
        factors_section(result),
        latents_section(result),
        importances(result),
        slots_section(result),
        ladder_section(result),
        columns_section(result),
        *closing(result.raw),
    ]
    return Page(
        title=f"{latents} and {factors} · structure · isorep",
        eyebrow=f"{latents} against {factors}: are the features the true factors?",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    head, _, rest = result["verdict"]["sentence"].text("This result holds no verdict.").partition("; ")
    answer = result["verdict"]["answer"].text()
    steps = tuple((words, key == answer) for key, words in STEPS) if answer in ANSWERS else ()
    detail = rest[:1].upper() + rest[1:]
    verdict = Answer(head if head.endswith(".") else f"{head}.", detail, ANSWERS.get(answer), steps)
    tiles = []
    for name in ("infom", "infoe", "infoc"):
        score = result["scores"][name]
        if score["value"].number() is not None:
            chance = score["chance"]["mean"].number()
            tiles.append(
                (
                    NAMES[name],
                    fixed(score["value"].number(), 3),
                    f"chance {fixed(chance, 3)}" if chance is not None else "",
                )
            )
    rows = result["rows"].number()
    if rows is not None:
        sizes = (len(result["columns"][side].nodes()) for side in ("factors", "latents"))
        tiles.append(("rows", count(rows), "{} factors, {} latents".format(*map(count, sizes))))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _scores(result: Node) -> Section | None:
    entries = result["scores"].items()[:MOST_SCORES]
    if not entries:
        return None
    rows = []
    for name, node in entries:
        value, corrected, p = (node["value"].number(), node["corrected"].number(), node["chance"]["p_value"].number())
        mean, high = node["chance"]["mean"].number(), node["chance"]["high"].number()
        rows.append(
            (
                Cell(NAMES.get(name, name)),
                Cell(fixed(value), value),
                span(node["interval"]),
                Cell(fixed(mean, 3), mean),
                Cell(fixed(high, 3), high),
                Cell(fixed(corrected, 3), corrected),
                Cell(p_value(p, node["chance"]["smallest_p"].number()), p),
            )
        )
    titles = ("score", "value", "95 % interval", "chance", "95 % point", "corrected", "p")
    table = Table("scores", "All scores, higher is better", titled(titles, ("score",)), tuple(rows))
    said = (
        "Chance is what the same latents score against the factors of other rows; a score near it shows nothing, "
        "however high it is. A p-value is the share of pairings, the real one among them, that score as high on the "
        "rows that were shuffled; ≤ marks the smallest that the number of shuffles allows. Corrected values run from "
        "chance (0) to the best (1), on those rows. Intervals come from random halves of the rows, or of "
        "the groups; those of MIG and modularity leave out one block of them at a time."
    )
    meanings = tuple((NAMES[name], MEANING[name], "") for name, _ in entries if name in MEANING)
    parts = (_figure(entries), table, Prose((said,)), Definitions(meanings) if meanings else None)
    return Section("scores", "Scores", tuple(part for part in parts if part is not None))


def _figure(entries: list[tuple[str, Node]]) -> Figure | None:
    drawn = []
    for name, node in entries:
        value = node["value"].number()
        if value is None or not -1 <= value <= 1:
            continue
        low, high = (_within(node["interval"][edge].number()) for edge in ("low", "high"))
        band = [_within(node["chance"][edge].number()) for edge in ("low", "mean", "high")]
        low_chance, mean, high_chance = band
        labels = (fixed(value), "", "" if mean is None else f"chance {fixed(mean, 3)}")
        drawn.append(
            IntervalRow(
                NAMES.get(name, name),
                "s2",
                max(value, 0.0),
                None if low is None or high is None else (low, high),
                band=None
                if low_chance is None or mean is None or high_chance is None
                else (low_chance, mean, high_chance),
                labels=labels,
                printed=fixed(value, 3),
            )
        )
    if not drawn:
        return None
    legend = (Key("dot", "s2", "score"), Key("whisker", "", "95 % interval"), Key("tick", "", "chance, 5 to 95 %"))
    return Figure(
        "scores-figure",
        "Scores beside chance",
        "Every score with its interval; the band is where 90 % of shuffles lie, the tick their mean.",
        "; ".join(f"{row.name} {row.printed}" for row in drawn),
        Intervals(tuple(drawn), "score, higher is better"),
        legend=legend,
    )


def _within(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)


MOST_FACTORS, MOST_LATENTS = 40, 64


def information(result: Node) -> Section | None:
    """Mutual information of factors and latents."""
    node = result["information"]
    found = _matrix(node["nmi"], node["factors"], node["latents"])
    if found is None:
        return None
    values, factors, latents = found
    order = _ordered(values)
    shown = [[row[j] for j in order] for row in values]
    names = [latents[j] for j in order]
    active = [each.raw is not False for each in node["active"].nodes(MOST_LATENTS)]
    idle = [latents[j] for j in range(len(latents)) if j < len(active) and not active[j]]
    said = (
        "Mutual information of each factor with each latent, over the entropy of the factor: 1 if the latent "
        "determines it. A row with one dark cell is a factor in one latent, a column with one is a latent "
        "about one factor."
    )
    if idle:
        said += f" Inactive latents: {', '.join(idle[:12])}."
    figure = _heat("nmi-figure", "Which latent knows which factor", shown, factors, names, "latent")
    return Section("information", "Information", (Prose((said,)), figure))


def importances(result: Node) -> Section | None:
    """What boosted trees use for which factor."""
    node = result["records"]["dci"]
    found = _matrix(node["importances"], node["latents"], node["factors"], turned=True)
    if found is None:
        return None
    values, factors, latents = found
    order = _ordered(values)
    shown, names = [[row[j] for j in order] for row in values], [latents[j] for j in order]
    said = "How much boosted trees use each latent to predict each factor; every row sums to 1."
    figure = _heat("dci-figure", "Which latent is used for which factor", shown, factors, names, "latent")
    return Section("importances", "Importances (DCI)", (Prose((said,)), figure))


def _matrix(
    node: Node, rows: Node, columns: Node, turned: bool = False
) -> tuple[list[list[float | None]], list[str], list[str]] | None:
    """Values with their names, factors down and latents across; None where they do not fit each other."""
    most = (MOST_LATENTS, MOST_FACTORS) if turned else (MOST_FACTORS, MOST_LATENTS)
    titles = [
        [each.text("?") for each in names.nodes(limit)] for names, limit in zip((rows, columns), most, strict=True)
    ]
    values = [line.numbers(len(titles[1])) for line in node.nodes(len(titles[0]))]
    if (
        not values
        or not titles[1]
        or len(values) != len(titles[0])
        or any(len(row) != len(titles[1]) for row in values)
    ):
        return None
    if turned:
        return [list(row) for row in zip(*values, strict=True)], titles[1], titles[0]
    return values, titles[0], titles[1]


def _ordered(values: list[list[float | None]]) -> list[int]:
    """Latents in the order that puts each factor's best, among those that are left, on the diagonal."""
    left = list(range(len(values[0])))
    order = []
    for row in values:
        if left:
            best = max(left, key=lambda j: row[j] or 0.0)
            order.append(best)
            left.remove(best)
    return order + sorted(left, key=lambda j: -max((row[j] or 0.0) for row in values))


def _heat(
    name: str, title: str, values: list[list[float | None]], rows: list[str], columns: list[str], noun: str
) -> Figure:
    table = Table(
        f"{name}-table",
        "The numbers behind it",
        (Column("factor", numeric=False), *(Column(column) for column in columns)),
        tuple(
            (Cell(row), *(Cell(fixed(value, 3), value) for value in line))
            for row, line in zip(rows, values, strict=True)
        ),
        folded=True,
    )
    best = []
    for row, line in zip(rows, values, strict=True):
        top = max(range(len(line)), key=lambda j: line[j] or 0.0)
        best.append(f"{row}: most in {columns[top]} ({fixed(line[top], 2)})")
    return Figure(
        name,
        title,
        f"Factors down, {noun}s across in the order of the factors they know best.",
        "; ".join(best),
        Heatmap(tuple(map(tuple, values)), tuple(rows), tuple(columns), (noun, "factor"), left=140, signed=False),
        table=table,
    )


def factors_section(result: Node) -> Section | None:
    """One row a factor."""
    rows = []
    for node in result["factors"].nodes(MOST_FACTORS):
        state = node["state"].text(MISSING)
        rows.append(
            (
                Cell(node["name"].text()),
                Cell(state, strong=state == "captured"),
                Cell(node["latent"].text(MISSING)),
                _number(node["nmi"]),
                _number(node["share"], 2),
                _number(node["purity"], 2),
                _number(node["explicitness"]),
            )
        )
    if not rows:
        return None
    sentences = tuple(f"{each}." for each in (node["sentence"].text() for node in result["factors"].nodes(12)) if each)
    titles = ("factor", "state", "best latent", "NMI", "share", "purity", "explicitness")
    table = Table("factors", "What became of each factor", titled(titles, titles[:3]), tuple(rows))
    said = (
        "Information counts above what the best latent reaches in 95 % of shuffles, and above 0.05. Share is how much "
        "of what all latents know about the factor is in its best latent; purity, how much of what that latent knows "
        "is about this factor. A factor is captured if both reach two thirds, split if share does not, mixed if purity "
        "does not, and lost if no latent knows it. Explicitness is its part of InfoE."
    )
    parts = (Notes(sentences) if sentences else None, table, Prose((said,)))
    return Section("factors", "Factors", tuple(part for part in parts if part is not None))


def latents_section(result: Node) -> Section | None:
    """One row a latent."""
    rows = []
    for node in result["latents"].nodes(4 * MOST_LATENTS):
        about = ", ".join(each.text() for each in node["factors"].nodes(6))
        rows.append(
            (
                Cell(node["name"].text()),
                Cell(node["state"].text(MISSING), strong=node["state"].text() == "pure"),
                Cell(node["factor"].text(MISSING)),
                _number(node["nmi"]),
                _number(node["purity"], 2),
                Cell(about or MISSING),
            )
        )
    if not rows:
        return None
    titles = ("latent", "state", "main factor", "NMI", "purity", "informs about")
    columns = titled(titles, (*titles[:3], titles[-1]))
    return Section("latents", "Latents", (Table("latents", "What each latent is about", columns, tuple(rows)),))


def slots_section(result: Node) -> Section | None:
    """Which inferred slot holds which true one."""
    node = result["records"]["slots"]
    rows = []
    on, off = node["on"].numbers(MOST_FACTORS), node["off"].numbers(MOST_FACTORS)
    for place, match in enumerate(node["matches"].nodes(MOST_FACTORS)):
        cells = [values[place] if place < len(values) else None for values in (on, off)]
        rows.append((Cell(str(place)), Cell(match.text(MISSING)), *(Cell(fixed(cell, 3), cell) for cell in cells)))
    if not rows:
        return None
    titles = ("true slot", "inferred slot", "R² from it", "best R² from another")
    return Section("slots", "Slots", (Table("slots", "Matched slots", titled(titles, titles[:2]), tuple(rows)),))


def ladder_section(result: Node) -> Section | None:
    """What the best map of each group leaves."""
    rows = []
    for name, node in result["ladder"]["rungs"].items()[:10]:
        mean = node["held_out"]["mean"].number()
        null = node["null"]["mean"].number()
        rows.append(
            (Cell(rung_name(name)), Cell(fixed(mean), mean), span(node["interval"], 4), Cell(fixed(null), null))
        )
    if not rows:
        return None
    titles = ("group", "mean error, unseen rows", "95 % interval", "chance")
    said = (
        "The best map of each group from latents onto factors, and what it leaves on unseen rows, in diameters of the "
        f"standardised factors; lower is closer. {result['ladder']['verdict']['sentence'].text()}"
    )
    table = Table("ladder", "Up to which group latents are the factors", titled(titles, titles[:1]), tuple(rows))
    return Section("ladder", "Ladder", (Prose((said,)), table))


def columns_section(result: Node) -> Section | None:
    """Which columns are discrete, and by which rule."""
    rows = []
    for side in ("factors", "latents"):
        for node in result["columns"][side].nodes(4 * MOST_LATENTS):
            kind = "discrete" if node["discrete"].raw is True else "continuous"
            distinct = node["distinct"].number()
            cells = (Cell(side[:-1]), Cell(node["name"].text()), Cell(kind), Cell(node["why"].text(MISSING)))
            rows.append((*cells, Cell(count(distinct), distinct)))
    if not rows:
        return None
    titles = ("side", "column", "taken as", "because", "distinct values")
    table = Table("columns", "How columns were taken", titled(titles, titles[:4]), tuple(rows), folded=True)
    return Section("columns", "Columns", (table,))


def span(node: Node, digits: int = 3) -> Cell:
    """An interval in words, sorted by its lower end."""
    low, high = node["low"].number(), node["high"].number()
    return Cell(MISSING if low is None or high is None else f"{fixed(low, digits)} to {fixed(high, digits)}", low)


def _number(node: Node, digits: int = 3) -> Cell:
    value = node.number()
    return Cell(fixed(value, digits), value)


def titled(titles: tuple[str, ...], words: tuple[str, ...]) -> tuple[Column, ...]:
    """Columns with these titles; all but ``words`` are numbers."""
    return tuple(Column(title, numeric=title not in words) for title in titles)
