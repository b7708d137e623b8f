"""The page of a deconfounding (schema ``isorep.deconfound/1``): the answer, conditions, components and the filter.

What batches do to an embedding, for the page of a deconfounding: components, the filter, and how batches mix.
"""

from __future__ import annotations

import math

from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key, Line, Lines
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed, p_value

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
        *closing(result.raw),
    ]
    return Page(
        title=f"{name} · deconfounding · isorep",
        eyebrow=f"Biology and batch in {name}",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    head, stop, rest = result["verdict"]["sentence"].text("This result holds no verdict.").partition(". ")
    answer = result["verdict"]["answer"].text()
    steps = tuple((words, key == answer) for key, words in STEPS) if answer in ANSWERS else ()
    verdict = Answer(f"{head}." if stop else head, rest, ANSWERS.get(answer), steps)
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
        Intervals(tuple(drawn), "AUROC above chance, on held-out batches"),
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


NAMES = {
    "base": "Base",
    "pca": "PCA",
    "pca_ica": "PCA+ICA",
    "pca_rand": "PCA+Rand",
    "ica_base": "ICA on Base",
    "centred": "batch-centred",
    "harmony": "Harmony",
}
MOST_CONDITIONS, MOST_COMPONENTS, SHOWN_EXAMPLES = 30, 2000, 3


def components_section(result: Node) -> Section | None:
    """Every component: what label and batch have to do with it."""
    found = result["components"].nodes(MOST_COMPONENTS)
    points = []
    for node in found:
        label, batch = _share(node["label_r2"].number()), _share(_largest(node["batch_r2"]))
        if label is not None and batch is not None:
            points.append((label, batch, node))
    if not points:
        return None
    clouds = []
    for driven, name, series in ((False, "kept", "s2"), (True, "batch-driven", "s1")):
        mine = [(label, batch, node) for label, batch, node in points if (node["batch_driven"].raw is True) == driven]
        if mine:
            labels = tuple(
                f"component {node['number'].text('?')}: label {fixed(label, 3)}, batch {fixed(batch, 3)}"
                for label, batch, node in mine
            )
            clouds.append(Line(name, series, tuple((label, batch) for label, batch, _ in mine), labels, dotted=True))
    driven_count = sum(node["batch_driven"].raw is True for _, _, node in points)
    top = max(1e-3, *(batch for _, batch, _ in points))
    figure = Figure(
        "components-figure",
        "Biology against batch",
        "Each dot is a component of PCA+ICA: the share of its variance that the label explains, and the largest share "
        "that a batch column explains, both less what chance would.",
        f"{len(points)} components, of which {driven_count} are batch-driven.",
        Lines(tuple(clouds), ("R² with label", "R² with batch"), 340, y_range=(0.0, 1.05 * top)),
        legend=tuple(Key("dot", cloud.series, cloud.name) for cloud in clouds),
    )
    said = (
        "Components are found without labels and read afterwards. Information is mutual information in nats of "
        "ten bins of equal counts. A component recurs if refits to rows drawn anew find it again, correlated "
        "above 0.9, in nine of ten cases; near-Gaussian ones need not."
    )
    return Section("components", "Components", (Prose((said,)), figure, _component_table(found)))


def _component_table(found: list[Node]) -> Table:
    columns = [key for key, _ in found[0]["batch_r2"].items()[:8]]
    titles = ["component", "label R²", "label information"]
    titles += [f"{column} {kind}" for column in columns for kind in ("R²", "information")]
    titles += ["recurrence", "recurs", "reading", "highest rows", "lowest rows"]
    rows = []
    for node in found:
        number = node["number"].number()
        cells = [Cell(count(number), number), number_cell(node["label_r2"]), number_cell(node["label_information"])]
        for column in columns:
            cells += [number_cell(node["batch_r2"][column]), number_cell(node["batch_information"][column])]
        recurs = node["recurs"].raw
        reading = ["batch-driven"] if node["batch_driven"].raw is True else []
        reading += ["near-Gaussian"] if node["gaussian"].raw is True else []
        cells += [
            number_cell(node["recurrence"], 3),
            Cell({True: "yes", False: "no"}.get(recurs, MISSING) if isinstance(recurs, bool) else MISSING),
            Cell(", ".join(reading)),
            Cell(_examples(node["highest"])),
            Cell(_examples(node["lowest"])),
        ]
        rows.append(tuple(cells))
    words = ("recurs", "reading", "highest rows", "lowest rows")
    return Table(
        "components",
        "All components",
        tuple(Column(t, numeric=t not in words) for t in titles),
        tuple(rows),
        folded=True,
    )


def filter_section(result: Node) -> Section | None:
    """What dropping batch-driven components does."""
    node = result["filtered"]
    value = node["auroc"]["value"].number()
    if value is None:
        return None
    low, high = node["interval"]["low"].number(), node["interval"]["high"].number()
    limit = result["settings"]["batch_limit"].number()
    span = MISSING if low is None or high is None else f"{fixed(low)} to {fixed(high)}"
    items = (
        ("AUROC without them", fixed(value), f"± {fixed(node['auroc']['error'].number())}"),
        ("difference", fixed(node["difference"].number()), f"95 % interval {span}"),
        ("p", compact(node["p_value"].number(), 3), f"from {count(node['pairs'].number())} pairs"),
        ("components dropped a fold", fixed(node["dropped"]["value"].number(), 1), ""),
    )
    said = (
        f"Components of which batches explain more than {compact(limit)} of the variance, and more than the label "
        "does, are dropped. They are chosen on the training batches of each fold, and what is left is judged on "
        "the held-out ones, against all components."
    )
    return Section("filter", "Without batch-driven components", (Prose((said,)), Definitions(items)))


def mixing_section(result: Node) -> Section | None:
    """How far batches can be told apart in each space."""
    entries = [(condition_name(name), node["mixing"]) for name, node in result["conditions"].items()[:MOST_CONDITIONS]]
    entries.append(("PCA+ICA, filtered", result["filtered"]["mixing"]))
    keys = ("batch_auroc", "batch_accuracy", "batch_chance", "batch_silhouette", "label_silhouette", "accepted")
    rows = [(Cell(name), *(number_cell(node[key], 3) for key in keys)) for name, node in entries if node]
    if not rows:
        return None
    titles = ("condition", "batch AUROC", "accuracy", "chance", "batch silhouette", "label silhouette", "mixed")
    table = Table(
        "mixing", "Batches in each space", tuple(Column(t, numeric=t != "condition") for t in titles), tuple(rows)
    )
    first = next(node for _, node in entries if node)
    said = (
        f"On a sample of {count(first['rows'].number())} rows of {count(first['batches'].number())} batches: how "
        "well a linear classifier tells the batch of every second row, how far batches and classes lie apart "
        "(silhouettes), and the share of neighbourhoods whose batches a chi-square test accepts as mixed, 0.95 if "
        "they are."
    )
    return Section("mixing", "How batches mix", (Prose((said,)), table))


def condition_name(name: str) -> str:
    """A condition as the paper spells it."""
    return NAMES.get(name, name)


def number_cell(node: Node, digits: int = 4) -> Cell:
    """A number that sorts."""
    value = node.number()
    return Cell(fixed(value, digits), value)


def _examples(node: Node) -> str:
    return ", ".join(each["id"].text() or each["row"].text(MISSING) for each in node.nodes(SHOWN_EXAMPLES))


def _largest(node: Node) -> float | None:
    found = [value.number() for _, value in node.items()]
    there = [value for value in found if value is not None]
    return max(there) if there else None


def _share(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else min(max(value, 0.0), 1.0)
