"""What batches do to an embedding, for the page of a deconfounding: components, the filter, and how batches mix."""

from __future__ import annotations

import math

from .figures import Line, lines
from .parts import Cell, Column, Definitions, Figure, Key, Prose, Section, Table
from .rungs import on_both
from .values import MISSING, Node, compact, count, fixed

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
        on_both(lambda width: lines(clouds, ("R² with label", "R² with batch"), width, 340, y_range=(0.0, 1.05 * top))),
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
