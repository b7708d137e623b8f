"""The page of an extraction (schema ``isorep.extract/1``): what was written, and what the rows of layers are like."""

from __future__ import annotations

from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed

MOST_LAYERS, MOST_DRAWN = 500, 40


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    model = result["model"].text("a model")
    sections = [_layers(result), _units(result), _next(result), *closing(result.raw)]
    return Page(
        title=f"{model} · extraction · isorep",
        eyebrow=f"Features of {model}",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    layers = result["layers"].nodes(MOST_LAYERS)
    data = result["data"]
    rows = layers[0]["rows"].number() if layers else None
    noun = "layer" if len(layers) == 1 else "layers"
    sentence = (
        f"{count(rows)} rows of {len(layers)} {noun} from {data['name'].text('the data')}."
        if layers
        else "This result holds no layers."
    )
    pool = result["settings"]["pool"].text()
    each = (
        "Each position of an example is a row" if pool == "token" else f"Positions are pooled: {pool}" if pool else ""
    )
    detail = f"{each}. Padding is never a row." if each else "Padding is never a row."
    tiles = []
    for name, title, said in (
        ("examples", "examples", data["kind"].text()),
        ("tokens", "tokens", "that went through the model"),
        ("empty", "empty", "without a row"),
        ("cut", "cut", "documents longer than the context"),
    ):
        value = data[name].number()
        if value or (value is not None and name == "examples"):
            tiles.append((title, count(value), said))
    if result["seconds"].number() is not None:
        again = "gone on with after a stop" if result["resumed"].raw is True else "of wall-clock time"
        tiles.append(("seconds", fixed(result["seconds"].number(), 1), again))
    verdict = Answer(sentence, detail, True if layers else None)
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _layers(result: Node) -> Section | None:
    nodes = result["layers"].nodes(MOST_LAYERS)
    if not nodes:
        return None
    rows = []
    for node in nodes:
        shape = [value for value in node["output"].numbers(8) if value is not None]
        rows.append(
            (
                Cell(node["name"].text(MISSING)),
                Cell(" × ".join(count(value) for value in shape) or MISSING),
                *(Cell(count(node[name].number()), node[name].number()) for name in ("rows", "columns")),
                Cell(node["dtype"].text(MISSING)),
                Cell(node["file"].text(MISSING)),
            )
        )
    titles = (("layer", False), ("output", False), ("rows", True), ("columns", True), ("type", False), ("file", False))
    columns = tuple(Column(title, numeric=numeric) for title, numeric in titles)
    said = "Output is what the layer gives for the first example, before pooling."
    return Section("layers", "Layers", (Prose((said,)), Table("layers", "What was written", columns, tuple(rows))))


def _units(result: Node) -> Section | None:
    nodes = result["layers"].nodes(MOST_LAYERS)
    names = ("mean_norm", "largest", "effective_rank", "constant", "dead")
    if not any(node[name].number() is not None for node in nodes for name in names):
        return None
    rows = []
    for node in nodes:
        found = [node[name].number() for name in names]
        texts = (compact(found[0]), compact(found[1]), fixed(found[2], 1), count(found[3]), count(found[4]))
        rows.append(
            (Cell(node["name"].text(MISSING)), *(Cell(text, value) for text, value in zip(texts, found, strict=True)))
        )
    titles = ("layer", "mean norm", "largest entry", "effective rank", "constant units", "dead units")
    table = Table(
        "figures", "Basic figures", tuple(Column(title, numeric=title != "layer") for title in titles), tuple(rows)
    )
    said = (
        "The effective rank is the participation ratio of the covariance, (tr C)² / tr C², of at most 20,000 rows: how "
        "many dimensions share the variance. Constant units have one value in all rows; dead ones are always 0."
    )
    figure = _figure(nodes)
    return Section("figures", "What the rows are like", tuple(part for part in (Prose((said,)), figure, table) if part))


def _figure(nodes: list[Node]) -> Figure | None:
    drawn = []
    for node in nodes[:MOST_DRAWN]:
        value, width = node["effective_rank"].number(), node["columns"].number()
        if value is None or width is None or not 0 <= value <= width <= 1e9:
            continue
        said = f"{fixed(value, 1)} of {count(width)}"
        name = node["name"].text(MISSING)
        drawn.append(IntervalRow(name, "s2", value, labels=(said, "", ""), printed=fixed(value, 1)))
    if not drawn:
        return None
    return Figure(
        "rank-figure",
        "Effective rank of each layer",
        "Dimensions that share the variance of its rows.",
        "; ".join(f"{row.name}: {row.printed}" for row in drawn),
        Intervals(tuple(drawn), "effective rank"),
        legend=(Key("dot", "s2", "participation ratio"),),
    )


def _next(result: Node) -> Section | None:
    if not result["layers"].nodes(1):
        return None
    file = result["layers"].nodes(1)[0]["file"].text("A")
    if result["grouped"].raw is True:
        said = (
            "Rows belong together, and say so: compare them with another run's by  isorep compare A B --groups group  "
            "(of npy files: --groups FILE.group.npy), so that documents stay in one fold."
        )
    else:
        said = f"Rows have ids: compare them with another run's by  isorep compare {file} OTHER."
    return Section("next", "What to do with it", (Prose((said,)),))
