"""The page of an extraction: what was written, and what the rows of layers are like."""

from __future__ import annotations

from functools import partial

from ..report.document import Answer, Figure, Forms, Page, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key
from ..report.page import page_of, sizes
from ..report.read import compact, count, fixed
from .result import Extraction

MOST_DRAWN = 40
OUTPUT = "Output is what the layer gives for the first example, before pooling."
FIGURES = (
    "The effective rank is the participation ratio of the covariance, (tr C)² / tr C², of at most 20,000 rows: how "
    "many dimensions share the variance. Constant units have one value in all rows; dead ones are always 0."
)
GROUPED = (
    "Rows belong together, and say so: compare them with another run's by  isorep compare A B --groups group  "
    "(of npy files: --groups FILE.group.npy), so that documents stay in one fold."
)
WITH_IDS = "Rows have ids: compare them with another run's by  isorep compare {file} OTHER."


def page(result: Extraction) -> Page:
    """All of it, most important first."""
    layers, pool = list(result.layers.values()), result.settings["pool"]
    noun = "layer" if len(layers) == 1 else "layers"
    each = "Each position of an example is a row" if pool == "token" else f"Positions are pooled: {pool}"
    headline = f"{count(layers[0].rows)} rows of {len(layers)} {noun} were extracted."
    words = f"{count(layers[0].rows)} rows of {len(layers)} {noun} from {result.data.name}."
    after = GROUPED if result.grouped else WITH_IDS.format(file=layers[0].file)
    return page_of(
        result,
        f"{result.model} · extraction",
        f"Features of {result.model}",
        Answer(headline, f"{words} {each}. Padding is never a row.", True),
        _tiles(result),
        (
            Section("layers", "Layers", (Prose((OUTPUT,)), _files(result))),
            Section("figures", "What the rows are like", (Prose((FIGURES,)), *_ranks(result), _figures(result))),
            Section("next", "What to do with it", (Prose((after,)),)),
        ),
        data=f"{result.data.name} {sizes((each.rows, each.columns) for each in layers)}",
    )


def _tiles(result: Extraction) -> list[tuple[str, str, str]]:
    data = result.data
    some = (
        ("tokens", data.tokens, "that went through the model"),
        ("empty", data.empty, "without a row"),
        ("cut", data.cut, "documents longer than the context"),
    )
    return [
        ("examples", count(data.examples), data.kind),
        *((name, count(number), words) for name, number, words in some if number),
        ("seconds", fixed(result.seconds, 1), "gone on with after a stop" if result.resumed else "of wall-clock time"),
    ]


def _files(result: Extraction) -> Table:
    columns: Forms = {"layer": str, "output": str, "rows": count, "columns": count, "type": str, "file": str}
    rows = [
        (each.name, " × ".join(map(count, each.output)), each.rows, each.columns, each.dtype, each.file)
        for each in result.layers.values()
    ]
    return Table.of("layers", "What was written", columns, rows)


def _figures(result: Extraction) -> Table:
    columns: Forms = {
        "layer": str,
        "mean norm": compact,
        "largest entry": compact,
        "effective rank": _rank,
        "constant units": count,
        "dead units": count,
    }
    rows = [
        (each.name, each.mean_norm, each.largest, each.effective_rank, each.constant, each.dead)
        for each in result.layers.values()
    ]
    return Table.of("figures", "Basic figures", columns, rows)


def _ranks(result: Extraction) -> tuple[Figure, ...]:
    """The effective ranks, of layers that are narrow enough to have one."""
    rows = []
    for layer in list(result.layers.values())[:MOST_DRAWN]:
        if layer.effective_rank is not None:
            rank = _rank(layer.effective_rank)
            labels = (f"{rank} of {count(layer.columns)}", "", "")
            rows.append(IntervalRow(layer.name, "s2", layer.effective_rank, labels=labels, printed=rank))
    figure = Figure(
        "rank-figure",
        "Effective rank of each layer",
        "Dimensions that share the variance of its rows.",
        "; ".join(f"{row.name}: {row.printed}" for row in rows),
        Intervals(tuple(rows), "effective rank"),
        legend=(Key("dot", "s2", "participation ratio"),),
    )
    return (figure,) if rows else ()


_rank = partial(fixed, digits=1)
