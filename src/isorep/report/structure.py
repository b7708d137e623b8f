"""The page of scores against known factors (schema ``isorep.structure/1``): answer, scores, information, readings."""

from __future__ import annotations

from .closing import closing, made_by
from .figures import IntervalRow, intervals
from .parts import Cell, Definitions, Figure, Key, Page, Prose, Section, Table, Verdict
from .rungs import on_both
from .structure_information import importances, information
from .structure_readings import (
    columns_section,
    factors_section,
    ladder_section,
    latents_section,
    slots_section,
    span,
    titled,
)
from .values import Node, count, fixed, p_value

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
        *closing(result),
    ]
    return Page(
        title=f"{latents} and {factors} · structure · isorep",
        eyebrow=f"{latents} against {factors}: are the features the true factors?",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result),
    )


def _opening(result: Node) -> tuple[Verdict | Definitions, ...]:
    head, _, rest = result["verdict"]["sentence"].text("This result holds no verdict.").partition("; ")
    answer = result["verdict"]["answer"].text()
    steps = tuple((words, key == answer) for key, words in STEPS) if answer in ANSWERS else ()
    detail = rest[:1].upper() + rest[1:]
    verdict = Verdict(head if head.endswith(".") else f"{head}.", detail, ANSWERS.get(answer), steps)
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
        "chance (0) to the best (1), on those rows. Intervals come from random halves of the rows, or of the groups."
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
        on_both(lambda width: intervals(drawn, "score, higher is better", width)),
        legend=legend,
    )


def _within(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)
