"""The page of mechanistic independence: criteria, theorems, factors and checks."""

from __future__ import annotations

import numpy as np

from ...report.document import Answer, Cell, Definitions, Figure, Forms, Page, Part, Prose, Section, Table
from ...report.figures import Heatmap
from ...report.page import page_of, size
from ...report.read import MISSING, compact, count, percent
from ..page import short
from .near import Leakage, as_share
from .result import HOLDS, Mechanisms, symbol

MOST_LATENTS, MOST_FACTORS = 60, 40  # in the figure of the factors
MOST_SPLITS = 12  # of the cuts into near-factors


def share(value: float | None) -> str:
    """A share in per cent, a dash where there is none."""
    return MISSING if value is None else as_share(value)


NAMES = {name: f"Type {symbol(name)}" for name in ("D", "M", "S", "H2", "H3", "H4", "H5", "H6")}
NAMES |= {"IMA": "orthogonal blocks (IMA)", "conformal": "conformal", "isometric": "isometric up to scale"}
MEANING = {
    "D": "blocks move disjoint outputs",
    "M": "no support contains one of another block, in the sparsest basis of each block",
    "S": "every basis of the tangent space that mixes blocks is less sparse",
    "H2": "second derivatives across blocks vanish: the decoder is a sum of one function for each block",
    "H3": "third derivatives across blocks vanish: blocks interact at most bilinearly",
}
MEANING |= {f"H{order}": f"derivatives of order {order} across blocks vanish" for order in (4, 5, 6)}

APPLIES = {True: "applies on the samples", False: "does not apply", None: "open"}
CRITERIA = (
    "A criterion holds where it does so at all samples and at every tolerance that decides; entries below the "
    "tolerance, relative to the largest, count as zero. Swaps exchange whole blocks between samples."
)
THEOREMS = "Each criterion identifies blocks that are also irreducible in its own sense, whatever their distribution."
FACTORS = (
    "The finest split into factors that move disjoint outputs, in whatever basis the latents come. They identify "
    "latents only where they are the same at all samples: the angle is between matched factors."
)
LEAKAGE = (
    "Leakage is 0 where Type D or Hₙ or orthogonality holds exactly. Type M allows overlap short of containment, and "
    "Type S is measured by the 1-norm. Neither the scale of a latent nor the basis inside a block matters. "
    "Random bases have blocks of the same sizes and show what no alignment gives; no rotation changes singular values, "
    "which are those in the latents' own units."
)
NEARLY = (
    "Near-factors: latents are turned until rows of the Jacobians lie along few axes, and axes are clustered by the "
    "outputs that they move. A split's own leakage is a share of the factor that it divides."
)
LEAKS: Forms = {
    "type": str,
    **dict.fromkeys(("mean", "random bases", "95% of samples", "largest", "best random basis"), share),
    **dict.fromkeys(("exactly", "by"), str),
    "samples": count,
    "leakage is": str,
}
SPLITS: Forms = {
    "factors": count,
    "dimensions": str,
    **dict.fromkeys(("leakage", "random axes", "of this split", "random axes inside"), share),
}
LEVELS: Forms = {
    **dict.fromkeys(("type", "by"), str),
    "tolerance": short,
    "state": str,
    **dict.fromkeys(("holds at", "decided"), percent),
    "worst": short,
    "at sample": count,
    "worst is": str,
}
BLOCKS: Forms = {"type": str, "block": count, "irreducible": str, "at samples": percent, "separable": str}
FACTOR_LEVELS: Forms = {
    "tolerance": short,
    **dict.fromkeys(("state", "dimensions"), str),
    "samples with these": percent,
    "largest angle, °": short,
    "outputs that stay": percent,
    **dict.fromkeys(("components, best / here", "nonzeros, best / here"), str),
    "sparsity gap": short,
    **dict.fromkeys(("gap by", "finest Type S split"), str),
}
SPARSITY: Forms = {"tolerance": short, "no more nonzeros at": percent, "nonzeros here": compact, "reference": compact}
LIFTING = "What lifts a local statement to a global one. A sample can speak against these assumptions; it proves none."


def page(result: Mechanisms) -> Page:
    """All of it, most important first."""
    known = [theorem.applies for theorem in result.theorems]
    reached = True if True in known else None if None in known or not known else False
    return page_of(
        result,
        f"{result.name} · mechanisms",
        "Which latents act on the outputs independently, and in which sense",
        Answer(_headline(result, reached), result.verdict, True if reached is False and _is_near(result) else reached),
        _tiles(result),
        (
            Section("criteria", "Criteria", _criteria(result)),
            Section("theorems", "Do the theorems apply?", _theorems(result)),
            Section(
                "factors",
                "Factors without knowing them",
                (*_near(result), Prose((FACTORS,)), *_makeup(result), factor_table(result)),
            ),
            Section("hierarchy", "Stronger types imply weaker ones", _hierarchy(result)),
            Section("lifting", "From local to global", _lifting(result)),
        ),
        data=f"{size(result.samples, result.dimension)} latents, {count(result.outputs)} outputs",
    )


def _headline(result: Mechanisms, reached: bool | None) -> str:
    if not result.criteria:
        count_of = len(result.factors.dimensions)
        if result.factors.state in ("rank deficient", "undecided") or not count_of:
            return "No factors could be distinguished."
        return "One irreducible factor." if count_of == 1 else f"{count_of} factors at the reference sample only."
    if reached:
        return "An identifiability theorem applies locally on these samples."
    if _is_near(result):
        return "The blocks are nearly independent; no theorem is shown to apply."
    return (
        "It is open whether an identifiability theorem applies."
        if reached is None
        else "No identifiability theorem applies on these samples."
    )


def _tiles(result: Mechanisms) -> list[tuple[str, str, str]]:
    tiles, dimensions = [], result.factors.dimensions
    if dimensions:
        tiles.append(("Type D factors", count(len(dimensions)), f"of dimensions {_listed(dimensions)}"))
    if result.blocks:
        tiles.append(
            ("blocks", count(len(result.blocks)), "as given" if result.given else f"the {result.blocks_from} found")
        )
    tiles.append(("latents", count(result.dimension), f"{count(result.outputs)} outputs"))
    return [*tiles, ("samples", count(result.samples), result.source)]


def _criteria(result: Mechanisms) -> tuple[Part, ...]:
    if not result.criteria:
        return ()
    meaning = Definitions(tuple((NAMES[name], MEANING[name], "") for name in result.criteria))
    leaks = (Prose((LEAKAGE,)), leakage_table(result)) if result.leakage else ()
    return *leaks, Prose((CRITERIA,)), meaning, _share_figure(result), level_table(result), _block_table(result)


def _is_near(result: Mechanisms) -> bool:
    return any(leak.near for leak in result.leakage if leak.name == "D")


def leakage_table(result: Mechanisms) -> Table:
    """How far from independent, compared with random bases."""

    def row(leak: Leakage) -> tuple[object, ...]:
        mean = Cell(share(leak.mean), leak.mean, strong=leak.near)
        beside = (leak.random, leak.quantile, leak.largest, leak.random_least)
        return (
            NAMES[leak.name],
            mean,
            *beside,
            result.states.get(leak.name, MISSING),
            leak.by,
            leak.samples,
            leak.measure,
        )

    return Table.of("leakage", "Leakage, compared with random bases", LEAKS, [row(leak) for leak in result.leakage])


def split_table(result: Mechanisms) -> Table:
    """Every cut into near-factors, the coarsest first, as far as they leak little and a few more."""
    near = result.near_factors
    assert near is not None
    shown = near.splits[: max(MOST_SPLITS, len(near.dimensions) + 3)]
    rows = [
        (
            len(each.dimensions),
            Cell(_listed(each.dimensions), strong=near.state == "found" and each.dimensions == near.dimensions),
            each.leak,
            each.random,
            each.own if place else None,
            each.own_random if place else None,
        )
        for place, each in enumerate(shown)
    ]
    return Table.of("splits", "Cuts into near-factors", SPLITS, rows, folded=len(rows) > 30)


def _near(result: Mechanisms) -> tuple[Part, ...]:
    near = result.near_factors
    beside = (leakage_table(result),) if result.leakage and not result.criteria else ()  # else among the criteria
    if near is None or not near.splits:
        return beside
    said = [NEARLY]
    if near.state in ("found", "few outputs") and near.angle is not None:
        said.append(
            f"The factors of single samples lie {short(near.angle)}° away in the median, at most "
            f"{short(near.largest_angle)}°. Where the rows of every output are turned at random, the same search leaks "
            f"{share(near.chance)}."
        )
    if near.state == "few outputs":
        said.append("That is hardly more: with so few outputs such factors are no sign of structure.")
    return Prose(tuple(said)), split_table(result), *beside


def _share_figure(result: Mechanisms) -> Figure:
    grid = {
        f"{NAMES[name]}, {way.method}": tuple(level.share for level in way.levels)
        for name, criterion in result.criteria.items()
        for way in criterion.evidence
        if way.levels
    }
    tolerances = tuple(short(tolerance) for tolerance in result.tolerances)
    return Figure(
        "shares-figure",
        "Share of samples at which each criterion holds",
        "From none (0) to all (1), at each tolerance; samples that could not be decided do not count as holding.",
        "",
        Heatmap(tuple(grid.values()), tuple(grid), tolerances, ("tolerance", "criterion"), left=150.0, signed=False),
    )


def level_table(result: Mechanisms) -> Table:
    """Every criterion by every way at every tolerance."""
    rows = [
        (
            NAMES[name],
            level.method,
            level.tolerance,
            Cell(level.state, strong=level.state == HOLDS),
            level.share,
            level.decided,
            level.worst,
            level.sample,
            criterion.measure + (f"; {level.note}" if level.note else ""),
        )
        for name, criterion in result.criteria.items()
        for level in criterion.levels
    ]
    return Table.of("criteria", "All criteria at every tolerance", LEVELS, rows)


def _block_table(result: Mechanisms) -> Table:
    rows = []
    for name, criterion in result.criteria.items():
        separable = {part.block: part.state + (f" ({part.note})" if part.note else "") for part in criterion.separable}
        for part in criterion.irreducible:
            state = Cell(part.state, strong=part.state == "irreducible")
            rows.append((NAMES[name], part.block, state, part.share, separable.get(part.block, MISSING)))
    return Table.of("irreducibility", "Can a block be split further?", BLOCKS, rows, folded=len(rows) > 30)


def _theorems(result: Mechanisms) -> tuple[Part, ...]:
    if not result.theorems:
        return ()
    items = tuple((f"{NAMES[each.name]}: {APPLIES[each.applies]}", each.sentence, "") for each in result.theorems)
    parts: list[Part] = [Prose((THEOREMS,)), Definitions(items)]
    if result.sparsity:
        rows = [(each.tolerance, each.share, each.here, each.reference) for each in result.sparsity]
        parts.append(Table.of("sparsity", "Type M's sparsity condition", SPARSITY, rows))
    return tuple(parts)


def factor_table(result: Mechanisms) -> Table:
    """The factors at every tolerance; components and nonzeros in the best basis and in that of the latents."""
    rows = [
        (
            level.tolerance,
            level.state,
            _listed(level.dimensions),
            level.share,
            level.angle,
            level.outputs_agree,
            _best_and_here(level.components, level.components_here),
            _best_and_here(level.nonzeros, level.nonzeros_here),
            level.gap,
            level.gap_method,
            _listed(level.sparsity_factors or ()),
        )
        for level in result.factors.levels
    ]
    return Table.of("factors", "Factors at every tolerance", FACTOR_LEVELS, rows)


def _makeup(result: Mechanisms) -> tuple[Figure, ...]:
    """How much of every latent lies in each factor, where there are several."""
    subspaces, where = result.factors.subspaces, "at the reference sample"
    near = result.near_factors
    if len(subspaces) < 2 and near is not None and near.state == "found":
        subspaces, where = near.subspaces, "for near-factors"
    subspaces = subspaces[:MOST_FACTORS]
    if len(subspaces) < 2:
        return ()
    grid = np.clip([np.linalg.norm(basis[:MOST_LATENTS], axis=1) for basis in subspaces], 0.0, 1.0).T
    latents, factors = (tuple(map(str, range(size))) for size in grid.shape)
    figure = Figure(
        "factors-figure",
        "What the factors are made of",
        f"Length of every latent's axis within each factor, {where}: 1 lies inside, 0 is orthogonal.",
        f"Heat map of {len(latents)} latents by {len(factors)} factors.",
        Heatmap(tuple(map(tuple, grid.tolist())), latents, factors, ("factor", "latent"), signed=False),
    )
    return (figure,)


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
