"""The page of content and style: the shared dimension, components, views, and other training runs."""

from __future__ import annotations

from ..comparison import Comparison
from ..report.document import Answer, Cell, Figure, Forms, Page, Part, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key
from ..report.page import page_of, size
from ..report.read import count, fixed, p_value, percent
from .result import Blocks, Rerun

COMPONENTS = (
    "A component has one direction per view. Its correlation is that of a view with the sum of the others, at the view "
    "where it is smallest, on rows that its directions were not fitted to. For two views this is the canonical "
    "correlation."
)
CHANCE = (
    "Chance is the largest held-out correlation of all components when {} of the other views change places. A "
    "component counts as shared where at most 5% of pairings, the real one among them, reach its correlation."
)
DIMENSION = (
    "The interval of the dimension runs from the number of components whose 95% intervals lie above what chance "
    "reaches to the number of leading components whose intervals include it or lie above. Blocks that are shared "
    "too weakly to tell from chance are not counted."
)
VIEWS = (
    "Content is the block that all views share. Style is the rest of what was examined: it changes from view to view, "
    "and is uncorrelated with the content of the same view."
)
RERUNS = (
    "Content and style of the first training run are mapped onto those of another by every group of the ladder. Errors "
    "are held out, in mean distances to the mean: 1 is no better than predicting the mean, lower is closer."
)


def page(result: Blocks) -> Page:
    """All parts that the result has, most important first."""
    title = " and ".join(result.names) if len(result.names) == 2 else f"{len(result.names)} views"
    return page_of(
        result,
        f"{title} · content and style",
        f"What {title} share",
        Answer(_headline(result), result.verdict, None if result.dimension is None else result.dimension > 0),
        _tiles(result),
        (_components(result), _views(result), _reruns(result)),
        data=", ".join(f"{view.name} {size(result.rows, view.columns)}" for view in result.views),
    )


def _headline(result: Blocks) -> str:
    if result.dimension is None:
        return "The shared dimension is undecided."
    if not result.dimension:
        return "The views share no block."
    return f"{result.dimension} shared dimension{'' if result.dimension == 1 else 's'}."


def _tiles(result: Blocks) -> list[tuple[str, str, str]]:
    tiles = []
    if result.dimension is not None and result.dimension_interval is not None:
        low, high = result.dimension_interval
        tiles.append(("shared dimensions", count(result.dimension), f"95% interval {low} to {high}"))
    largest = max(each.held_out for each in result.components)
    tiles.append(
        ("largest correlation", fixed(largest, 2), f"held out; the limit is {fixed(result.chance_reaches, 2)}")
    )
    if result.dimension:
        shares = [view.content_share for view in result.views]
        said = "content, by variance of each view"
        between = f"{percent(min(shares))} to {percent(max(shares))}"
        tiles.append(("share of content", percent(shares[0]) if min(shares) == max(shares) else between, said))
    return [*tiles, ("shuffled pairings", count(result.chance.n), f"of {count(result.rows)} rows")]


def _components(result: Blocks) -> Section:
    rows = []
    for each in result.shown:
        interval = (each.interval.low, each.interval.high)
        words = f"held out {fixed(each.held_out)}, {fixed(interval[0])} to {fixed(interval[1])}"
        rows.append(
            IntervalRow(
                f"component {each.number}",
                "s2" if each.shared else "s1",
                value=each.held_out,
                interval=interval,
                second=each.in_sample,
                strong=each.shared,
                labels=(words, f"in-sample {fixed(each.in_sample)}", ""),
                printed=fixed(round(each.held_out, 2) + 0.0, 2),
            )
        )
    drawn = Figure(
        "components-figure",
        "Held-out correlations of the components",
        f"With 95% intervals; the shaded stretch, up to {fixed(result.chance_reaches, 2)}, does not count as shared.",
        "; ".join(f"{row.name}: {row.labels[0]}" for row in rows) + ".",
        Intervals(
            tuple(rows),
            "correlation between views",
            end=1.04,
            tolerance=(0.0, max(result.chance_reaches, 0.0)),
        ),
        legend=(
            Key("dot", "s2", "shared"),
            Key("dot", "s1", "not shared"),
            Key("ring", "s1", "in-sample"),
        ),
    )
    columns: Forms = {
        "component": count,
        "held-out": fixed,
        "95% interval": fixed,
        "p": fixed,
        "in-sample": fixed,
        "shared": str,
        **dict.fromkeys(result.names if len(result.names) > 2 else (), fixed),
    }
    cells = [
        (
            each.number,
            each.held_out,
            Cell.between(each.interval, fixed),
            Cell(p_value(each.p_value, result.chance.smallest_p), each.p_value),
            each.in_sample,
            "yes" if each.shared else "no",
            *(each.by_view if len(result.names) > 2 else ()),
        )
        for each in result.components
    ]
    moved = "rows" if result.settings.get("groups") is None else "whole groups of rows"
    if result.settings.get("within") is not None:
        moved += ", inside their class,"
    parts: tuple[Part, ...] = (
        drawn,
        Prose((COMPONENTS, CHANCE.format(moved), DIMENSION)),
        Table.of("components", "Every component", columns, cells, folded=len(cells) > 12),
    )
    return Section("components", "Components", parts)


def _views(result: Blocks) -> Section | None:
    if result.dimension is None:
        return None
    share = lambda value: percent(value, 1)  # noqa: E731
    columns: Forms = {
        "view": str,
        "columns": count,
        "rank": count,
        "examined": count,
        "content": share,
        "style": share,
        "not examined": share,
    }
    rows = [
        (
            view.name,
            view.columns,
            view.rank,
            view.examined,
            view.content_share,
            view.style_share,
            max(1 - view.content_share - view.style_share, 0.0),
        )
        for view in result.views
    ]
    table = Table.of("views", "Shares of each view's variance", columns, rows)
    return Section("views", "Content and style of each view", (table, Prose((VIEWS,))))


def _reruns(result: Blocks) -> Section | None:
    if not result.reruns:
        return None
    parts: list[Part] = [Prose((RERUNS,))]
    for number, rerun in enumerate(result.reruns, 1):
        parts.append(Prose((f"Rerun {number} ({', '.join(rerun.names)}): {rerun.sentence}",)))
        parts.extend(_ladders(rerun, number))
    return Section("reruns", "The same block in other training runs", tuple(parts))


def _ladders(rerun: Rerun, number: int) -> list[Table]:
    forms: Forms = {"rung": str, "error": fixed, "95% interval": fixed, "chance": fixed, "R²": fixed}

    def table(name: str, compared: Comparison) -> Table:
        rows = [
            (
                rung,
                each.held_out.mean,
                Cell.between(each.interval, fixed),
                None if each.null is None else each.null.mean,
                each.explained,
            )
            for rung, each in compared.rungs.items()
        ]
        title = f"{name.capitalize()} of the first run mapped onto rerun {number}"
        return Table.of(f"rerun-{number}-{name}", title, forms, rows, strong=compared.verdict.rung)

    both = {"content": rerun.content, "style": rerun.style}
    return [table(name, each) for name, each in both.items() if each is not None]
