"""The page of a deconfounding (schema ``isorep.deconfound/1``): the answer, conditions, components and the filter."""

from __future__ import annotations

from .batches import (
    MOST_COMPONENTS,
    MOST_CONDITIONS,
    NAMES,
    components_section,
    condition_name,
    filter_section,
    mixing_section,
    number_cell,
)
from .closing import closing, made_by
from .figures import IntervalRow, intervals
from .parts import Cell, Column, Definitions, Figure, Key, Page, Prose, Section, Table, Verdict
from .rungs import on_both
from .values import MISSING, Node, compact, count, fixed, p_value

ANSWERS = {"helps": True, "hurts": False, "not shown": None}
STEPS = (("helps", "ICA helps"), ("not shown", "not shown"), ("hurts", "ICA hurts"))
CHANCE = 0.5
COLOURS = {"base": "s0", "pca": "s1", "pca_ica": "s2", "pca_rand": "s3"}
MOST_TESTS, MOST_TASKS, MOST_SCORES, MOST_SHARES = 100, 200, 100_000, 6


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    name = result["data"]["name"].text("the embedding")
    sections = [
        _conditions(result),
        _tests(result),
        _tasks(result),
        components_section(result),
        filter_section(result),
        mixing_section(result),
        *closing(result),
    ]
    return Page(
        title=f"{name} · deconfounding · isorep",
        eyebrow=f"Biology and batch in {name}",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result),
    )


def _opening(result: Node) -> tuple[Verdict | Definitions, ...]:
    head, stop, rest = result["verdict"]["sentence"].text("This result holds no verdict.").partition(". ")
    answer = result["verdict"]["answer"].text()
    steps = tuple((words, key == answer) for key, words in STEPS) if answer in ANSWERS else ()
    verdict = Verdict(f"{head}." if stop else head, rest, ANSWERS.get(answer), steps)
    data, classifier = result["data"], _headline(result)
    tiles = []
    for name in ("base", "pca_ica"):
        mean = result["conditions"][name]["scores"][classifier]["auroc"]
        if mean["value"].number() is not None:
            tiles.append(
                (f"AUROC, {NAMES[name]}", fixed(mean["value"].number(), 3), f"± {fixed(mean['error'].number(), 3)}")
            )
    batches, rows = data["batches"].number(), data["rows"].number()
    if batches is not None:
        only = data["control_only"].number()
        tiles.append(
            ("batches", count(batches), f"{count(only)} with controls only" if only else f"{count(rows)} rows")
        )
    found = result["components"].nodes(MOST_COMPONENTS)
    if found:
        driven = sum(node["batch_driven"].raw is True for node in found)
        tiles.append(("batch-driven components", count(driven), f"of {count(len(found))}"))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _conditions(result: Node) -> Section | None:
    entries = result["conditions"].items()[:MOST_CONDITIONS]
    if not entries:
        return None
    several = len(result["settings"]["classifiers"].nodes()) > 1
    rows = []
    for name, node in entries:
        for classifier, summary in node["scores"].items()[:4]:
            cells = [Cell(condition_name(name), strong=name == "pca_ica")]
            cells += [Cell(classifier)] if several else []
            cells.append(Cell(count(node["dimensions"].number()), node["dimensions"].number()))
            cells += [_mean(summary[metric]) for metric in ("auroc", "average_precision", "hoyer")]
            rows.append(tuple(cells))
    titles = ("condition", *(["classifier"] if several else []), "dimensions", "AUROC", "average precision", "Hoyer")
    table = Table("conditions", "On held-out batches, ± standard error", _columns(titles), tuple(rows))
    said = (
        "A classifier learns on some batches to tell perturbed rows from controls and is judged on the others. "
        "Base is the embedding as it is, PCA whitens it, PCA+ICA turns the whitened space to independent "
        "components, and PCA+Rand turns it at random. Hoyer sparsity is 0 where trees use all features alike and "
        "1 where they use one. Top and rest are the AUROC of the most important share of features and of the "
        "others; share, ratio and Gini set the two against each other."
    )
    parts = (Prose((said,)), _auroc_figure(entries, _headline(result)), table, _concentration(result, entries))
    return Section("conditions", "Conditions", tuple(part for part in parts if part is not None))


def _concentration(result: Node, entries: list[tuple[str, Node]]) -> Table | None:
    """AUROC of the most important features and of the others, by the first classifier."""
    classifier = _headline(result)
    rows = []
    for share in (node.text() for node in result["settings"]["top"].nodes(MOST_SHARES)):
        for name, node in entries:
            found = node["scores"][classifier]["concentration"][share]
            if found:
                means = [_mean(found[kind]) for kind in ("top", "rest", "share")]
                means += [number_cell(found[kind]["value"], 3) for kind in ("ratio", "gini")]
                rows.append((Cell(condition_name(name), strong=name == "pca_ica"), Cell(share), *means))
    titles = ("condition", "top", "AUROC top", "AUROC rest", "share", "ratio", "Gini")
    return Table("concentration", "Concentration, ± standard error", _columns(titles), tuple(rows)) if rows else None


def _auroc_figure(entries: list[tuple[str, Node]], classifier: str) -> Figure | None:
    drawn = []
    for name, node in entries:
        mean = node["scores"][classifier]["auroc"]
        value, error = mean["value"].number(), mean["error"].number()
        if value is None or not 0 <= value <= 1:
            continue
        span = None if error is None or not 0 <= error <= 1 else _above_chance(value, error)
        said = fixed(value) + (f" ± {fixed(error)}" if span else "")
        drawn.append(
            IntervalRow(
                condition_name(name),
                COLOURS.get(name, "s4"),
                max(value - CHANCE, 0.0),
                span,
                strong=name == "pca_ica",
                labels=(said, "", ""),
                printed=fixed(value, 3),
            )
        )
    if not drawn:
        return None
    return Figure(
        "auroc-figure",
        "AUROC by condition",
        f"On held-out batches, by {classifier}, with one standard error; the axis starts at chance, 0.5.",
        "; ".join(f"{row.name}: {row.printed}" for row in drawn),
        on_both(lambda width: intervals(drawn, "AUROC above chance, on held-out batches", width)),
        legend=(Key("dot", "", "mean"), Key("whisker", "", "± standard error")),
    )


def _tests(result: Node) -> Section | None:
    rows = []
    for node in result["tests"].nodes(MOST_TESTS):
        low, high = node["interval"]["low"].number(), node["interval"]["high"].number()
        span = MISSING if low is None or high is None else f"{fixed(low)} to {fixed(high)}"
        p, corrected = node["p_value"].number(), node["corrected"].number()
        rows.append(
            (
                Cell(condition_name(node["condition"].text())),
                Cell(condition_name(node["against"].text())),
                number_cell(node["difference"]),
                Cell(span, low),
                Cell(p_value(p, node["least_p"].number()), p),
                Cell(compact(corrected, 3), corrected, strong=corrected is not None and corrected <= 0.05),
                Cell(count(node["pairs"].number()), node["pairs"].number()),
            )
        )
    if not rows:
        return None
    titles = ("condition", "against", "difference", "95 % interval", "p", "corrected p", "pairs")
    table = Table(
        "tests",
        "Paired differences in AUROC",
        _columns(titles),
        tuple(rows),
    )
    how = {"sign_flip": "a sign-flip permutation test", "wilcoxon": "Wilcoxon's signed-rank test"}
    said = (
        "Each pair is one fold of one task and seed, seen under both conditions. p-values come from "
        f"{how.get(result['settings']['test'].text(), 'a paired test')} and are corrected after Holm; intervals "
        "allow for training rows that folds share (Nadeau & Bengio 2003)."
    )
    return Section("tests", "Paired tests", (Prose((said,)), table))


def _tasks(result: Node) -> Section | None:
    """Mean AUROC of every task, where there are several."""
    tasks = [node.text() for node in result["tasks"].nodes(MOST_TASKS)]
    if len(tasks) < 2:
        return None
    names, classifier = [name for name, _ in result["conditions"].items()[:MOST_CONDITIONS]], _headline(result)
    totals: dict[tuple[str, str], list[float]] = {}
    for node in result["scores"].nodes(MOST_SCORES):
        value = node["auroc"].number()
        if node["classifier"].text() == classifier and value is not None:
            totals.setdefault((node["task"].text(), node["condition"].text()), []).append(value)
    rows = []
    for task in tasks:
        found = [totals.get((task, name)) for name in names]
        means = [None if not values else sum(values) / len(values) for values in found]
        rows.append((Cell(task), *(Cell(fixed(mean, 3), mean) for mean in means)))
    columns = (Column("task", numeric=False), *(Column(condition_name(name)) for name in names))
    return Section("tasks", "Tasks", (Table("tasks", "Mean AUROC of every task", columns, tuple(rows)),))


def _headline(result: Node) -> str:
    return next((node.text() for node in result["settings"]["classifiers"].nodes(1)), "lightgbm")


def _above_chance(value: float, error: float) -> tuple[float, float]:
    return max(value - error - CHANCE, 0.0), max(value + error - CHANCE, 0.0)


def _mean(node: Node) -> Cell:
    value, error = node["value"].number(), node["error"].number()
    return Cell(fixed(value, 3) + ("" if error is None else f" ± {fixed(error, 3)}"), value)


def _columns(titles: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(title, numeric=title not in ("condition", "classifier", "against")) for title in titles)
