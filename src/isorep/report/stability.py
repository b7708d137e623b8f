"""The page that says which components come back (schema ``isorep.stability/1``)."""

from __future__ import annotations

from .closing import closing, made_by
from .components import angle_figure, component_table, contrast_figure, kurtosis_figure, number_of, score_figure
from .figures import heatmap
from .ica import data_tiles
from .parts import Cell, Column, Definitions, Figure, Page, Section, Table, Verdict
from .planes import planes_section, spans
from .rungs import on_both
from .values import Node, count, fixed, percent, present

MOST_REFITS, MOST_CELLS = 40, 96


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    name = result["name"].text("the data")
    sections = [
        _components(result),
        _refits(result),
        planes_section(result),
        *closing(result),
    ]
    return Page(
        title=f"{name} · stability · isorep",
        eyebrow=f"Which independent components of {name} come back",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result),
    )


def _opening(result: Node) -> tuple[Verdict | Definitions, ...]:
    back = [node.raw is True for node in result["components"]["comes_back"].nodes()]
    head, _, rest = result["reading"].text("This result holds no reading.").partition("; ")
    verdict = Verdict(
        head if not rest else f"{head}.",
        rest[:1].upper() + rest[1:],
        (all(back) or (None if any(back) else False)) if back else None,
    )
    tiles = []
    scores = sorted(present(*result["components"]["scores"].numbers()))
    if scores:
        tiles.append(("median score", fixed(scores[len(scores) // 2], 3), f"least {fixed(scores[0], 3)}"))
    tiles += data_tiles(result)
    used, rows = result["rows_used"].number(), result["rows"].number()
    if used is not None and rows is not None and rows >= 1:
        share = (
            "all rows" if result["settings"]["resample"].raw is False else f"{percent(used / rows)} of all, drawn anew"
        )
        tiles.append(("rows a refit", count(used), share))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _components(result: Node) -> Section | None:
    node = result["components"]
    parts = (
        score_figure(node),
        angle_figure(node),
        kurtosis_figure(node),
        contrast_figure(node),
        component_table(node),
    )
    kept = tuple(part for part in parts if part is not None)
    return Section("components", "Components", kept) if kept else None


def _refits(result: Node) -> Section | None:
    parts = (_match_figure(result), _refit_table(result))
    kept = tuple(part for part in parts if part is not None)
    return Section("refits", "Refits", kept) if kept else None


def _match_figure(result: Node) -> Figure | None:
    """Refits by components: the correlation of each with what was matched to it."""
    k = number_of(result["components"])
    given = [row.numbers(k) for row in result["correlations"].nodes(MOST_REFITS)]
    if not k or not given or any(len(row) != k for row in given):
        return None
    blocks = spans(k, MOST_CELLS)
    names = [str(a) if b - a == 1 else f"{a}–{b - 1}" for a, b in blocks]
    values = [[min(present(*row[a:b]), default=None) for a, b in blocks] for row in given]
    total = len(result["correlations"].nodes())
    part = " A cell holds the least of its components." if len(blocks) < k else ""
    rest = f" The first {len(given)} of {total} refits are shown." if total > len(given) else ""
    found = sum(1 for row in given for value in present(*row) if value > 0.9)
    return Figure(
        "match-figure",
        "Every component in every refit",
        "Absolute correlation with the component matched to it. A faint column is a component that does not come back, "
        f"a faint row a refit that went elsewhere.{part}{rest}",
        f"Heat map of {len(given)} refits by {count(k)} components; {count(found)} of {count(len(given) * k)} "
        "correlations exceed 0.9.",
        on_both(
            lambda width: heatmap(
                values, [str(place + 1) for place in range(len(values))], names, ("component", "refit"), width
            )
        ),
    )


def _refit_table(result: Node) -> Table | None:
    rows = []
    for place, entry in enumerate(result["refits"].nodes(1000)):
        numbers = [entry[key].number() for key in ("rows", "components", "gaussian")]
        if all(number is None for number in numbers):
            continue
        settled = "yes" if entry["converged"].raw is True else "no"
        rows.append((Cell(str(place + 1)), *(Cell(count(number), number) for number in numbers), Cell(settled)))
    titles = ("refit", "rows", "components", "near-Gaussian", "converged")
    columns = tuple(Column(title, numeric=title not in ("refit", "converged")) for title in titles)
    return Table("refits", "Every refit", columns, tuple(rows), folded=len(rows) > 12) if rows else None
