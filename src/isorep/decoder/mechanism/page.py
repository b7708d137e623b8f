"""The page of mechanistic independence: criteria, theorems, factors and checks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...report.document import Answer, Cell, Column, Definitions, Figure, Forms, Page, Part, Prose, Section, Table
from ...report.figures import Heatmap
from ...report.page import page_of
from ...report.read import MISSING, compact, count, fixed, percent
from .factors import FOUND
from .result import HOLDS, Evidence, FactorLevel, Mechanisms

MOST_LATENTS, MOST_FACTORS = 60, 40  # in the figure of the factors
NAMES = {"D": "Type D", "M": "Type M", "S": "Type S", "H2": "Type H₂", "H3": "Type H₃"}
MEANING = {
    "D": "blocks move disjoint outputs",
    "M": "no support contains one of another block, in the sparsest basis of each block",
    "S": "every basis of the tangent space that mixes blocks is less sparse",
    "H2": "second derivatives across blocks vanish: the decoder is a sum of one function for each block",
    "H3": "third derivatives across blocks vanish: blocks interact at most bilinearly",
}
APPLIES = {True: "applies on the samples", False: "does not apply", None: "open"}
CRITERIA = (
    "Entries below the tolerance, relative to the largest, count as zero; every criterion is judged at each tolerance "
    "and at every sample. A criterion holds where it does so at all samples and at every tolerance that decides. "
    "Derivatives see the neighbourhood of a sample, swaps exchange whole blocks between samples."
)
THEOREMS = (
    "Each criterion identifies blocks where they are also irreducible in its own sense: locally, and globally under "
    "the assumptions below. Nothing here rests on how latents are distributed."
)
FACTORS = (
    "The finest split into factors that move disjoint outputs, in whatever basis the latents come. Components count "
    "the graph whose edges join directions that move a common output; a basis that mixes factors has fewer. Factors "
    "identify latents only where they are the same at all samples: the angle is between matched factors."
)
LIFTING = "What lifts a local statement to a global one. A sample can speak against these assumptions; it proves none."


def page(result: Mechanisms) -> Page:
    """All of it, most important first."""
    known = [theorem.applies for theorem in result.theorems]
    reached = True if True in known else None if None in known or not known else False
    return page_of(
        result,
        f"{result.name} · mechanisms",
        "Which latents act on the outputs independently, and in which sense",
        Answer.of(result.verdict, reached),
        _tiles(result),
        (
            Section("criteria", "Criteria", _criteria(result)),
            Section("theorems", "Do the theorems apply?", _theorems(result)),
            Section("factors", "Factors without knowing them", _factors(result)),
            Section("hierarchy", "Stronger types imply weaker ones", _hierarchy(result)),
            Section("lifting", "From local to global", _lifting(result)),
        ),
    )


def _tiles(result: Mechanisms) -> list[tuple[str, str, str]]:
    tiles, dimensions = [], result.factors.dimensions
    if dimensions:
        tiles.append(("Type D factors", count(len(dimensions)), f"of dimensions {_listed(dimensions)}"))
    if result.blocks:
        tiles.append(("blocks", count(len(result.blocks)), "as given" if result.given else "the factors found"))
    tiles.append(("latents", count(result.dimension), f"{count(result.outputs)} outputs"))
    return [*tiles, ("samples", count(result.samples), result.source)]


def _criteria(result: Mechanisms) -> tuple[Part, ...]:
    if not result.criteria:
        return ()
    meaning = Definitions(tuple((NAMES[name], MEANING[name], "") for name in result.criteria))
    return Prose((CRITERIA,)), meaning, _share_figure(result), _level_table(result), _block_table(result)


def _ways(result: Mechanisms) -> Iterator[tuple[str, Evidence]]:
    """Every way to look at every criterion that has levels, with a name."""
    for name, criterion in result.criteria.items():
        for way in criterion.evidence:
            if way.levels:
                yield f"{NAMES[name]}, {way.method}" if name.startswith("H") else NAMES[name], way


def _share_figure(result: Mechanisms) -> Figure:
    grid = {name: tuple(level.share for level in way.levels) for name, way in _ways(result)}
    tolerances = tuple(compact(tolerance, 3) for tolerance in result.tolerances)
    return Figure(
        "shares-figure",
        "Share of samples at which each criterion holds",
        "From none (0) to all (1), at each tolerance; where samples could not be decided they do not count as holding.",
        "; ".join(f"{name}: {', '.join(map(percent, shares))}" for name, shares in grid.items()),
        Heatmap(tuple(grid.values()), tuple(grid), tolerances, ("tolerance", "criterion"), left=150.0),
    )


def _level_table(result: Mechanisms) -> Table:
    rows = tuple(
        (
            Cell(NAMES[name]),
            Cell(level.method),
            Cell(compact(level.tolerance, 3), level.tolerance),
            Cell(level.state, strong=level.state == HOLDS),
            Cell(percent(level.share), level.share),
            Cell(percent(level.decided), level.decided),
            Cell("infinite" if level.worst == np.inf else compact(level.worst, 3), _finite(level.worst)),
            Cell(count(level.sample), level.sample),
            Cell(criterion.measure + (f"; {level.note}" if level.note else "")),
        )
        for name, criterion in result.criteria.items()
        for way in criterion.evidence
        for level in way.levels
    )
    titles = ("type", "by", "tolerance", "state", "holds at", "decided", "worst", "at sample", "worst is")
    columns = tuple(Column(title, numeric=title not in ("type", "by", "state", "worst is")) for title in titles)
    return Table("criteria", "All criteria at every tolerance", columns, rows)


def _block_table(result: Mechanisms) -> Table:
    rows = []
    for name, criterion in result.criteria.items():
        separable = {part.block: part.state + (f" ({part.note})" if part.note else "") for part in criterion.separable}
        for part in criterion.irreducible:
            rows.append(
                (
                    Cell(NAMES[name]),
                    Cell(count(part.block), part.block),
                    Cell(part.state, strong=part.state == "irreducible"),
                    Cell(percent(part.share), part.share),
                    Cell(separable.get(part.block, MISSING)),
                )
            )
    titles = ("type", "block", "irreducible", "at samples", "separable")
    columns = tuple(Column(title, numeric=title in ("block", "at samples")) for title in titles)
    return Table("irreducibility", "Can a block be split further?", columns, tuple(rows), folded=len(rows) > 30)


def _theorems(result: Mechanisms) -> tuple[Part, ...]:
    if not result.theorems:
        return ()
    items = tuple((f"{NAMES[each.name]}: {APPLIES[each.applies]}", each.sentence, "") for each in result.theorems)
    parts: list[Part] = [Prose((THEOREMS,)), Definitions(items)]
    if result.sparsity:
        columns: Forms = {
            "tolerance": _short,
            "no more nonzeros at": percent,
            "nonzeros here": _tenths,
            "in the reference": _tenths,
        }
        rows = [(each.tolerance, each.share, each.here, each.reference) for each in result.sparsity]
        parts.append(Table.of("sparsity", "Type M's sparsity condition", columns, rows))
    return tuple(parts)


def _factors(result: Mechanisms) -> tuple[Part, ...]:
    titles = (
        "tolerance",
        "state",
        "dimensions",
        "samples with these",
        "largest angle, °",
        "outputs that stay",
        "components, best / here",
        "nonzeros, best / here",
        "sparsity gap",
        "finest Type S split",
    )
    words = ("state", "dimensions", "components, best / here", "nonzeros, best / here", "finest Type S split")
    columns = tuple(Column(title, numeric=title not in words) for title in titles)
    table = Table("factors", "Factors at every tolerance", columns, tuple(map(_factor_row, result.factors.levels)))
    figure = _makeup(result.factors.best)
    return (Prose((FACTORS,)), *(() if figure is None else (figure,)), table)


def _factor_row(level: FactorLevel) -> tuple[Cell, ...]:
    gap = _finite(level.gap)
    return (
        Cell(compact(level.tolerance, 3), level.tolerance),
        Cell(level.state),
        Cell(_listed(level.dimensions)),
        Cell(percent(level.share), level.share),
        Cell(compact(level.angle, 3), level.angle),
        Cell(percent(level.outputs_agree), level.outputs_agree),
        Cell(_best_and_here(level.components, level.components_here)),
        Cell(_best_and_here(level.nonzeros, level.nonzeros_here)),
        Cell(MISSING if gap is None else f"{fixed(gap, 0)} ({level.gap_method})", gap),
        Cell(_listed(level.sparsity_factors or ())),
    )


def _makeup(level: FactorLevel) -> Figure | None:
    """How much of every latent lies in each factor."""
    subspaces = level.subspaces[:MOST_FACTORS]
    if level.state != FOUND or len(subspaces) < 2:
        return None
    grid = np.clip([np.linalg.norm(basis[:MOST_LATENTS], axis=1) for basis in subspaces], 0.0, 1.0).T
    latents, factors = (tuple(map(str, range(size))) for size in grid.shape)
    return Figure(
        "factors-figure",
        "What the factors are made of",
        "Length of every latent's axis within each factor, at the reference sample: 1 lies inside, 0 is orthogonal.",
        f"Heat map of {len(latents)} latents by {len(factors)} factors.",
        Heatmap(tuple(map(tuple, grid.tolist())), latents, factors, ("factor", "latent")),
    )


def _hierarchy(result: Mechanisms) -> tuple[Part, ...]:
    items = tuple(
        (f"{NAMES[each.premise]} ⇒ {NAMES[each.conclusion]}: {each.state}", each.sentence, "")
        for each in result.hierarchy
    )
    return (Definitions(items),) if items else ()


def _lifting(result: Mechanisms) -> tuple[Part, ...]:
    items = tuple((f"{check.name}: {check.state}", check.sentence, "") for check in result.lifting)
    return (Prose((LIFTING,)), Definitions(items)) if items else ()


def _listed(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values)) or MISSING


def _best_and_here(best: int | None, here: int | None) -> str:
    return MISSING if here is None else f"{count(best)} / {count(here)}"


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else value


def _short(value: float) -> str:
    return compact(value, 3)


def _tenths(value: float) -> str:
    return fixed(value, 1)
