"""The page of mechanistic independence (schema ``isorep.mechanisms/1``): criteria, theorems, factors and checks."""

from __future__ import annotations

from ...report.document import Answer, Cell, Column, Definitions, Figure, Page, Part, Prose, Section, Table
from ...report.figures import Heatmap
from ...report.page import closing, made_by
from ...report.read import MISSING, Node, compact, count, fixed, percent

MOST_CRITERIA, MOST_LEVELS, MOST_BLOCKS, MOST_LATENTS, MOST_FACTORS, MOST_CHECKS = 8, 12, 60, 60, 40, 40
NAMES = {"D": "Type D", "M": "Type M", "S": "Type S", "H2": "Type H₂", "H3": "Type H₃"}
MEANING = {
    "D": "blocks move disjoint outputs",
    "M": "no support contains one of another block, in the sparsest basis of each block",
    "S": "every basis of the tangent space that mixes blocks is less sparse",
    "H2": "second derivatives across blocks vanish: the decoder is a sum of one function for each block",
    "H3": "third derivatives across blocks vanish: blocks interact at most bilinearly",
}
APPLIES = {True: "applies on the samples", False: "does not apply"}


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    name = result["name"].text("the decoder")
    sections = [
        _criteria(result),
        _theorems(result),
        _factors(result),
        _hierarchy(result),
        _lifting(result),
        *closing(result.raw),
    ]
    return Page(
        title=f"{name} · mechanisms · isorep",
        eyebrow="Which latents act on the outputs independently, and in which sense",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    head, stop, rest = result["verdict"].text("This result holds no verdict.").partition(". ")
    known = [node["applies"].raw for node in result["theorems"].nodes(MOST_CRITERIA)]
    reached = True if True in known else None if None in known or not known else False
    verdict = Answer(f"{head}." if stop else head, rest, reached)
    tiles = []
    dimensions = [node.text() for node in result["factors"]["dimensions"].nodes(MOST_FACTORS)]
    if dimensions:
        tiles.append(("Type D factors", count(len(dimensions)), f"of dimensions {', '.join(dimensions)}"))
    blocks = result["blocks"].nodes(MOST_BLOCKS)
    if blocks:
        tiles.append(("blocks", count(len(blocks)), "as given" if result["given"].raw is True else "the factors found"))
    latents, outputs = result["dimension"].number(), result["outputs"].number()
    if latents is not None and outputs is not None:
        tiles.append(("latents", count(latents), f"{count(outputs)} outputs"))
    samples = result["samples"].number()
    if samples is not None:
        tiles.append(("samples", count(samples), result["source"].text()))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _criteria(result: Node) -> Section | None:
    entries = result["criteria"].items()[:MOST_CRITERIA]
    if not entries:
        return None
    said = (
        "Entries below the tolerance, relative to the largest, count as zero; every criterion is judged at each "
        "tolerance and at every sample. A criterion holds where it does so at all samples and at every tolerance that "
        "decides. Derivatives see the neighbourhood of a sample, swaps exchange whole blocks between samples."
    )
    parts: list[Part | None] = [
        Prose((said,)),
        Definitions(tuple((NAMES.get(name, name), MEANING.get(name, ""), "") for name, _ in entries)),
        _shares(entries),
        _levels(entries),
        _blocks(entries),
    ]
    return Section("criteria", "Criteria", tuple(part for part in parts if part is not None))


def _ways(entries: list[tuple[str, Node]]) -> list[tuple[str, Node]]:
    """Every way to look at every criterion that has levels, with a name."""
    found = []
    for name, node in entries:
        for way in node["evidence"].nodes(4):
            if way["levels"].nodes(1):
                method = way["method"].text()
                label = NAMES.get(name, name)
                found.append((f"{label}, {method}" if name.startswith("H") else label, way))
    return found


def _shares(entries: list[tuple[str, Node]]) -> Figure | None:
    ways = _ways(entries)
    if not ways:
        return None
    tolerances = [compact(level["tolerance"].number(), 3) for level in ways[0][1]["levels"].nodes(MOST_LEVELS)]
    grid = []
    for _, way in ways:
        row = [_unit(level["share"].number()) for level in way["levels"].nodes(MOST_LEVELS)]
        grid.append((row + [None] * len(tolerances))[: len(tolerances)])
    names = [name for name, _ in ways]
    told = "; ".join(
        f"{name}: {', '.join(percent(value) for value in row)}" for name, row in zip(names, grid, strict=True)
    )
    return Figure(
        "shares-figure",
        "Share of samples at which each criterion holds",
        "From none (0) to all (1), at each tolerance; where samples could not be decided they do not count as holding.",
        told,
        Heatmap(tuple(map(tuple, grid)), tuple(names), tuple(tolerances), ("tolerance", "criterion"), left=150.0),
    )


def _levels(entries: list[tuple[str, Node]]) -> Table:
    rows = []
    for name, node in entries:
        for way in node["evidence"].nodes(4):
            for level in way["levels"].nodes(MOST_LEVELS):
                tolerance, share, worst = (level[key].number() for key in ("tolerance", "share", "worst"))
                decided, sample = level["decided"].number(), level["sample"].number()
                state = level["state"].text(MISSING)
                rows.append(
                    (
                        Cell(NAMES.get(name, name)),
                        Cell(level["method"].text(MISSING)),
                        Cell(compact(tolerance, 3), tolerance),
                        Cell(state, strong=state == "holds"),
                        Cell(percent(share), share),
                        Cell(percent(decided), decided),
                        Cell(compact(worst, 3), worst),
                        Cell(count(sample), sample),
                        Cell(node["measure"].text() + (f"; {level['note'].text()}" if level["note"].text() else "")),
                    )
                )
    titles = ("type", "by", "tolerance", "state", "holds at", "decided", "worst", "at sample", "worst is")
    columns = tuple(Column(title, numeric=title not in ("type", "by", "state", "worst is")) for title in titles)
    return Table("criteria", "All criteria at every tolerance", columns, tuple(rows))


def _blocks(entries: list[tuple[str, Node]]) -> Table | None:
    rows = []
    for name, node in entries:
        separable = {part["block"].text(): part for part in node["separable"].nodes(MOST_BLOCKS)}
        for part in node["irreducible"].nodes(MOST_BLOCKS):
            block, share = part["block"], part["share"].number()
            other = separable.get(block.text(), Node(None))
            rows.append(
                (
                    Cell(NAMES.get(name, name)),
                    Cell(count(block.number()), block.number()),
                    Cell(part["state"].text(MISSING), strong=part["state"].text() == "irreducible"),
                    Cell(percent(share), share),
                    Cell(other["state"].text(MISSING) + (f" ({other['note'].text()})" if other["note"].text() else "")),
                )
            )
    if not rows:
        return None
    titles = ("type", "block", "irreducible", "at samples", "separable")
    columns = tuple(Column(title, numeric=title in ("block", "at samples")) for title in titles)
    return Table("irreducibility", "Can a block be split further?", columns, tuple(rows), folded=len(rows) > 30)


def _theorems(result: Node) -> Section | None:
    items = []
    for node in result["theorems"].nodes(MOST_CRITERIA):
        name, applies = node["name"].text(), node["applies"].raw
        word = APPLIES[applies] if isinstance(applies, bool) else "open"
        items.append((f"{NAMES.get(name, name)}: {word}", node["sentence"].text(), ""))
    if not items:
        return None
    said = (
        "Each criterion identifies blocks where they are also irreducible in its own sense: locally, and globally "
        "under the assumptions below. Nothing here rests on how latents are distributed."
    )
    parts: list[Part] = [Prose((said,)), Definitions(tuple(items))]
    condition = []
    for node in result["sparsity"].nodes(MOST_LEVELS):
        numbers = [node[key].number() for key in ("tolerance", "share", "here", "reference")]
        condition.append(
            (
                Cell(compact(numbers[0], 3), numbers[0]),
                Cell(percent(numbers[1]), numbers[1]),
                Cell(fixed(numbers[2], 1), numbers[2]),
                Cell(fixed(numbers[3], 1), numbers[3]),
            )
        )
    if condition:
        titles = ("tolerance", "no more nonzeros at", "nonzeros here", "in the reference")
        parts.append(
            Table("sparsity", "Type M's sparsity condition", tuple(Column(t) for t in titles), tuple(condition))
        )
    return Section("theorems", "Do the theorems apply?", tuple(parts))


def _factors(result: Node) -> Section | None:
    levels = result["factors"]["levels"].nodes(MOST_LEVELS)
    if not levels:
        return None
    rows = []
    for node in levels:
        dimensions = ", ".join(each.text() for each in node["dimensions"].nodes(MOST_FACTORS)) or MISSING
        finest = ", ".join(each.text() for each in node["sparsity_factors"].nodes(MOST_FACTORS)) or MISSING
        numbers = {key: node[key].number() for key in ("tolerance", "share", "angle", "gap", "outputs_agree")}
        gap = fixed(numbers["gap"], 0) + (f" ({node['gap_method'].text()})" if numbers["gap"] is not None else "")
        rows.append(
            (
                Cell(compact(numbers["tolerance"], 3), numbers["tolerance"]),
                Cell(node["state"].text(MISSING)),
                Cell(dimensions),
                Cell(percent(numbers["share"]), numbers["share"]),
                Cell(compact(numbers["angle"], 3), numbers["angle"]),
                Cell(percent(numbers["outputs_agree"]), numbers["outputs_agree"]),
                Cell(_of(node, "components")),
                Cell(_of(node, "nonzeros")),
                Cell(gap, numbers["gap"]),
                Cell(finest),
            )
        )
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
    said = (
        "The finest split into factors that move disjoint outputs, in whatever basis the latents come. Components "
        "count the graph whose edges join directions that move a common output; a basis that mixes factors has fewer. "
        "Factors identify latents only where they are the same at all samples: the angle is between matched factors."
    )
    parts = [Prose((said,)), _makeup(levels), Table("factors", "Factors at every tolerance", columns, tuple(rows))]
    return Section("factors", "Factors without knowing them", tuple(part for part in parts if part is not None))


def _makeup(levels: list[Node]) -> Figure | None:
    """How much of every latent lies in each factor."""
    chosen = next((node for node in levels if node["state"].text() == "found"), None)
    if chosen is None:
        return None
    columns = []
    for factor in chosen["subspaces"].nodes(MOST_FACTORS):
        rows = [row.numbers(MOST_LATENTS) for row in factor.nodes(MOST_LATENTS)]
        columns.append([_unit(sum(value * value for value in row if value is not None) ** 0.5) for row in rows])
    if len(columns) < 2 or not columns[0] or any(len(each) != len(columns[0]) for each in columns):
        return None
    grid = [list(row) for row in zip(*columns, strict=True)]
    latents, factors = [str(place) for place in range(len(grid))], [str(place) for place in range(len(columns))]
    return Figure(
        "factors-figure",
        "What the factors are made of",
        "Length of every latent's axis within each factor, at the reference sample: 1 lies inside, 0 is orthogonal.",
        f"Heat map of {len(latents)} latents by {len(factors)} factors.",
        Heatmap(tuple(map(tuple, grid)), tuple(latents), tuple(factors), ("factor", "latent")),
    )


def _hierarchy(result: Node) -> Section | None:
    items = []
    for node in result["hierarchy"].nodes(MOST_CHECKS):
        names = [NAMES.get(node[key].text(), node[key].text()) for key in ("premise", "conclusion")]
        items.append((f"{names[0]} ⇒ {names[1]}: {node['state'].text(MISSING)}", node["sentence"].text(), ""))
    return Section("hierarchy", "Stronger types imply weaker ones", (Definitions(tuple(items)),)) if items else None


def _lifting(result: Node) -> Section | None:
    items = tuple(
        (f"{node['name'].text()}: {node['state'].text(MISSING)}", node["sentence"].text(), "")
        for node in result["lifting"].nodes(MOST_CHECKS)
    )
    if not items:
        return None
    said = "What lifts a local statement to a global one. A sample can speak against these assumptions; it proves none."
    return Section("lifting", "From local to global", (Prose((said,)), Definitions(items)))


def _of(node: Node, key: str) -> str:
    here = node[f"{key}_here"].number()
    return MISSING if here is None else f"{count(node[key].number())} / {count(here)}"


def _unit(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)
