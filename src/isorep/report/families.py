"""Independent components that recur from run to run."""

from __future__ import annotations

from .figures import heatmap
from .parts import Cell, Column, Figure, Prose, Section, Table
from .rungs import on_both
from .values import MISSING, Node, count, fixed, present

MOST_FAMILIES, MOST_COLUMNS, MOST_ROWS = 2000, 96, 100


def everywhere(node: Node, runs: int) -> int | None:
    """How many components are found in all runs; None without components."""
    if not node["by_run"].nodes():
        return None
    return found_in(node, runs)


def found_in(node: Node, least: int) -> int:
    """How many families are found in at least so many runs."""
    return sum(1 for family in node["families"].nodes(MOST_FAMILIES) if (family["runs"].whole() or 0) >= least)


def components_section(node: Node, names: list[str]) -> Section | None:
    """Which components recur in how many runs."""
    by_run = [_run(entry) for entry in node["by_run"].nodes(len(names))]
    if len(by_run) != len(names) or not any(scores for scores, _ in by_run):
        return None
    threshold = fixed(node["threshold"].number(), 1)
    families = [_family(entry, len(names)) for entry in node["families"].nodes(MOST_FAMILIES)]
    known = [family for family in families if family is not None]
    words = (
        "Components of each run alone, matched one to one between every two runs. A component recurs where its "
        f"absolute correlation with the one matched to it is at least {threshold}; a family has at most one a run."
    )
    parts: list[object] = [Prose((words,)), _counts_table(by_run, names)]
    if known:
        parts += [_families_figure(known, by_run, names), _families_table(known, names)]
    return Section("components", "Recurring components", tuple(parts))


Scored = tuple[list[float | None], list[float | None]]
Known = tuple[int, float | None, dict[int, int]]


def _run(entry: Node) -> Scored:
    scores, runs = entry["score"].numbers(), entry["runs"].numbers()
    return (scores, runs) if len(scores) == len(runs) else ([], [])


def _family(entry: Node, size: int) -> Known | None:
    members = {int(run): int(component) for run, component in entry["members"].points(size) if 0 <= run < size}
    return (len(members), entry["score"].number(), members) if len(members) > 1 else None


def _counts_table(by_run: list[Scored], names: list[str]) -> Table:
    rows = []
    for name, (scores, runs) in zip(names, by_run, strict=True):
        found = present(*runs)
        ordered = sorted(present(*scores))
        numbers = [
            float(len(scores)),
            float(sum(1 for number in found if number >= len(names))),
            float(sum(1 for number in found if 2 <= number < len(names))),
            float(sum(1 for number in found if number < 2)),
        ]
        median = ordered[len(ordered) // 2] if ordered else None
        rows.append((Cell(name), *(Cell(count(number), number) for number in numbers), Cell(fixed(median, 3), median)))
    titles = ("run", "components", "in all runs", "in some", "in no other", "score, median")
    columns = tuple(Column(title, numeric=place > 0) for place, title in enumerate(titles))
    return Table("component-counts", "Components of each run, and where else they are found", columns, tuple(rows))


def _families_figure(families: list[Known], by_run: list[Scored], names: list[str]) -> Figure:
    shown = families[:MOST_COLUMNS]
    values: list[list[float | None]] = []
    for run in range(len(names)):
        scores = by_run[run][0]
        places = [members.get(run) for _, _, members in shown]
        values.append([scores[k] if k is not None and 0 <= k < len(scores) else None for k in places])
    everywhere_ = sum(1 for size, _, _ in families if size == len(names))
    rest = f" The first {len(shown)} of {count(len(families))} are drawn." if len(families) > len(shown) else ""
    labels = [str(place + 1) for place in range(len(shown))]
    return Figure(
        "families-figure",
        "Families of components",
        "One column a family, the widest spread first; the shade is the mean correlation of a run's member with its "
        f"matches in all other runs, and blank where a run has none.{rest}",
        f"Heat map of {len(names)} runs by {len(shown)} families; {everywhere_} families are found in all runs.",
        on_both(
            lambda width: heatmap(values, names, labels, ("family", "run"), width, left=80.0 if width < 500 else 150.0)
        ),
    )


def _families_table(families: list[Known], names: list[str]) -> Table:
    rows = []
    for place, (size, score, members) in enumerate(families[:MOST_ROWS]):
        who = [str(members[run]) if run in members else MISSING for run in range(len(names))]
        rows.append(
            (
                Cell(str(place + 1)),
                Cell(str(size), float(size)),
                Cell(fixed(score, 3), score),
                *(Cell(text) for text in who),
            )
        )
    columns = (Column("family"), Column("runs"), Column("score"), *(Column(name) for name in names))
    which = (
        "Every family" if len(families) <= MOST_ROWS else f"The first {MOST_ROWS} of {count(len(families))} families"
    )
    title = f"{which}: in how many runs, the mean correlation of its members, and their numbers in each run"
    return Table("families", title, columns, tuple(rows), folded=len(rows) > 12)
