"""Closeness in distribution beside closeness of representations (part of ``isorep.heads/1``)."""

from __future__ import annotations

from .figures import Line, lines
from .parts import Cell, Column, Figure, Key, Prose, Section, Table
from .rungs import on_both
from .values import Node, compact

MOST_CLASSES = 200
LARGEST = 1e9
_HOW = (
    "Intervals leave out a block of rows, or of whole groups, at a time and take everything again without it "
    "(delete-block jackknife); no row is repeated."
)


def closeness_section(node: Node, verdict: str) -> Section | None:
    """Divergences, log-odds and the distances of the features."""
    if not node:
        return None
    own = node["verdict"].text()
    said = (
        own if own != verdict else "",
        "A small divergence bounds no distance of representations: what happens in classes of tiny probability hardly "
        "counts in it. The log-odds of every class count alike in the log-odds distance, and that one carries over.",
    )
    parts: list[object] = [Prose(tuple(text for text in said if text)), _table(node)]
    if node["kl"]["interval"]["low"].number() is not None:
        parts.append(Prose((_HOW,)))
    figure = _by_class(node["log_odds"])
    if figure is not None:
        parts.append(figure)
    return Section("closeness", "Closeness in distribution", tuple(parts))


def _table(node: Node) -> Table:
    odds, features = node["log_odds"], node["representations"]
    asked = [
        (words, node[name]["mean"], node[name]["interval"], node[name]["largest"], closer)
        for words, name, closer in (
            ("KL(source ‖ target), nats", "kl", "lower"),
            ("KL(target ‖ source), nats", "kl_reverse", "lower"),
            ("total variation", "total_variation", "lower"),
            ("agreement of predictions", "agreement", "higher"),
        )
    ]
    nothing = Node(None)
    asked += [
        ("log-odds distance, nats", odds["value"], odds["interval"], nothing, "lower"),
        ("log-odds distance, standardised", odds["standardised"], odds["standardised_interval"], nothing, "lower"),
        ("largest mean of log-odds, nats", odds["mean_difference"], nothing, nothing, "lower"),
        ("largest spread over classes, nats", odds["over_classes"], nothing, nothing, "lower"),
        ("linear R², target from source", features["linear_r2"], features["linear_r2_interval"], nothing, "higher"),
        (
            "linear R², source from target",
            features["linear_r2_reverse"],
            features["linear_r2_reverse_interval"],
            nothing,
            "higher",
        ),
        ("mean CCA", features["cca"], features["cca_interval"], nothing, "higher"),
        ("SVD distance", features["svd_distance"], features["svd_distance_interval"], nothing, "lower"),
    ]
    rows = []
    for name, value, interval, largest, closer in asked:
        found = value.number()
        if found is None:
            continue
        low, high = interval["low"].number(), interval["high"].number()
        span = f"{compact(low)} to {compact(high)}" if low is not None and high is not None else "–"
        at_most = largest.number()
        rows.append(
            (Cell(name), Cell(compact(found), found), Cell(span, low), Cell(compact(at_most), at_most), Cell(closer))
        )
    titles = ("quantity", "value", "95 % interval", "largest", "closer is")
    columns = tuple(Column(title, numeric=title not in ("quantity", "closer is")) for title in titles)
    return Table("closeness-numbers", "Both kinds of closeness", columns, tuple(rows))


def _by_class(odds: Node) -> Figure | None:
    found = []
    for node in odds["by_class"].nodes(MOST_CLASSES):
        cells = node.nodes(3)
        value = cells[1].number() if len(cells) == 3 else None
        if value is not None and 0 <= value < LARGEST:
            found.append((cells[0].text("–"), value))
    if not found:
        return None
    points = tuple((float(place + 1), value) for place, (_, value) in enumerate(found))
    labels = tuple(f"class {name}: {compact(value)} nats" for name, value in found)
    line = Line("log-odds distance", "s1", points, labels, dotted=True)
    top = max(value for _, value in found)
    return Figure(
        "classes-figure",
        "Log-odds class by class",
        "Standard deviation over rows of the difference between the two models' log-odds, farthest classes first.",
        f"{len(found)} classes from {labels[0]} down to {labels[-1]}.",
        on_both(
            lambda width: lines([line], ("class, by distance", "nats"), width, 240, y_range=(0.0, max(top, 1e-12)))
        ),
        legend=(Key("dot", "s1", "one class"),),
    )
