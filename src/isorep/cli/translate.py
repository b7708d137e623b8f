"""``isorep translate``: fit a map from an old model's vectors to a new one's, and apply it to an embedding store."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ..errors import InputError
from . import common
from .common import FILE, NAME, NAMES, Dask, DropIds, Groups, Html, Ids, Json, N, Quiet

if TYPE_CHECKING:
    from ..translation import Translation

app = typer.Typer(
    help="Map embeddings of an old model to a new one: fit a map, apply it to files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=common.Command, short_help="Fit a map from OLD to NEW and test it")
def fit(
    old: Annotated[str, Argument(metavar="OLD", help="Vectors of the old model: any format, or shards.")],
    new: Annotated[str, Argument(metavar="NEW", help="The same items by the new model. FILE::NAME picks an array.")],
    output: Annotated[Path, Option("--output", "-o", metavar=FILE, help="Write the map to this .safetensors file.")],
    maps: Annotated[
        str,
        Option(metavar=NAMES, help="Maps to try, comma-separated: rigid, linear, ridge, low_rank; the best is kept."),
    ] = "rigid,linear,ridge,low_rank",
    folds: Annotated[int, Option(metavar=N, help="Number of folds: one tests, the others choose the map.")] = 5,
    groups: Groups = None,
    ids: Ids = None,
    join: Annotated[bool, Option("--join", help="Align the files by row id and keep the common rows.")] = False,
    at: Annotated[str, Option(metavar="K,K,K", help="Values of k for recall@k, comma-separated.")] = "1,10,100",
    metric: Annotated[
        str, Option(metavar=NAME, help="Similarity that ranks neighbours: cosine, euclidean or dot.")
    ] = "cosine",
    queries: Annotated[int, Option(metavar=N, help="Largest number of queries.")] = 1000,
    corpus: Annotated[int, Option(metavar=N, help="Largest number of vectors to search.")] = 100_000,
    fail_above: Annotated[
        str | None,
        Option(
            metavar="[loss@K=|error=]LIMIT",
            help="Exit 1 if recall@K drops by more than LIMIT compared with native vectors (default K: 10), or if the "
            "held-out error, in mean distances to the mean, exceeds it. The map is written in any case.",
        ),
    ] = None,
    dask: Dask = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of folds, queries and blocks.")] = 0,
) -> None:
    """Fit a map from OLD to NEW, measure what it loses, and write it.

    Prints the verdict, then held-out errors and recall of every map, compared with native and untranslated vectors.
    """
    from .. import translate as run_translation
    from ..results import counted
    from ..storage import read
    from ..storage.model_files import require_model_path

    wanted = common.parts(maps, "--maps")
    counts = common.numbers(at, "--at", "whole numbers such as 1,10,100", int)
    limit = None if fail_above is None else _limit(fail_above, counts)
    require_model_path(output, noun="map")
    common.require_outputs([output, json, html], old, new)
    with common.cluster(dask) as in_chunks, common.progress_bar(quiet) as progress:
        a, b = (read(file, ids=ids, besides=[groups], in_chunks=in_chunks) for file in (old, new))
        result = run_translation(
            a,
            b,
            maps=wanted,
            folds=folds,
            groups=common.row_labels(groups, old),
            join=join,
            at=counts,
            metric=metric,
            n_queries=queries,
            n_corpus=corpus,
            random_state=seed,
            progress=progress,
        )
    result.save(output)
    common.write_outputs(result, json, html)
    if not quiet:
        _print(result)
        best, pairs = result.best.replace("_", "-"), counted(result.pairs["all"], "pair")
        common.show()
        common.say(f"Map: {output} (the {best} map, fitted to all {pairs})")
        common.tell_outputs(json, html)
    if limit is not None:
        _judge(result, *limit)


@app.command(cls=common.Command, short_help="Translate vectors of the old model")
def apply(
    map_file: Annotated[Path, Argument(metavar="MAP", help="Map that isorep translate fit wrote.")],
    data: Annotated[str, Argument(metavar="IN", help="Vectors of the old model: any format, or shards.")],
    output: Annotated[
        Path,
        Argument(
            metavar="OUT",
            help="File to write; the suffix chooses the format. Without a suffix: a folder with one file per shard of "
            "IN.",
        ),
    ],
    ids: Ids = None,
    drop_ids: DropIds = False,
    strict: Annotated[bool, Option("--strict", help="Exit 1 and write nothing if vectors look foreign.")] = False,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """Translate vectors of the old model, block by block.

    Prints a warning if a sample of the vectors looks unlike those that the map was fitted to.
    """
    from ..representation import reading_notes
    from ..translation.translator import Translator, has_ids, open_source, require_output, translate_files

    common.require_apart([common.plain_path(output)], data, map_file)
    require_output(data, output)
    translator = Translator.load(map_file)
    with common.cluster(dask) as in_chunks:
        source = open_source(data, ids, in_chunks)
        drift = translator.drift(source.rows)
        if drift:
            if strict:
                typer.echo(f"isorep: {source.rows.name}: {drift}; nothing was written", err=True)
                raise typer.Exit(1)
            typer.echo(f"warning: {source.rows.name}: {drift}", err=True)
        with common.progress_bar(quiet) as progress:
            result = translate_files(translator, source, output, drop_ids=drop_ids, progress=progress)
    if not quiet:
        with_ids = "with" if has_ids(result, output, drop_ids) else "without"
        size = f"{len(result)} rows x {result.shape[1]} columns"
        common.say(f"wrote {output}: {size}, {result.values.dtype}, {with_ids} ids")
        common.say(*(f"note: {sentence}" for sentence in reading_notes(source.rows)))


def _print(result: "Translation") -> None:
    old, new, pairs, retrieval = result.old, result.new, result.pairs, result.retrieval
    sides = [
        f"{label}    {side.name}: {side.columns} columns, rank {side.rank}, condition {side.condition:.3g}"
        for label, side in (("old", old), ("new", new))
    ]
    common.show_result(
        result,
        *sides,
        f"pairs  {pairs['all']}: {pairs['training']} to fit and choose, {pairs['test']} to test",
        f"errors in mean distances of {new.name} to its mean; lower is closer, 1 is no better than the mean",
        f"recall of {retrieval.queries} queries among {retrieval.corpus} vectors, by {retrieval.metric}",
    )


def _limit(text: str, counts: list[int]) -> tuple[int | None, float]:
    """The number of neighbours whose recall must not be lost, None for the error; and the limit."""
    from ..translation.result import headline_k

    name, limit = common.named_limit(text.strip())
    loss = re.fullmatch(r"loss@(\d+)", name)
    k = None if name == "error" else int(loss[1]) if loss else headline_k(tuple(counts))
    if not (loss or name in ("", "loss", "error")) or not 0 <= limit < math.inf or (k is not None and k not in counts):
        raise InputError(
            f"--fail-above takes a number from 0 on, error=NUMBER or loss@K=NUMBER with K one of --at, not {text!r}"
        )
    return k, limit


def _judge(result: "Translation", k: int | None, limit: float) -> None:
    """Exit 1 if the stated limit is exceeded."""
    error = result.maps[result.best].held_out.mean
    if k is None and not error <= limit:
        common.fail(f"the held-out error, {error:.4f} mean distances to the mean, exceeds the limit {limit:g}")
    if k is not None and k not in result.retrieval.at:
        common.fail(f"recall at {k} cannot be told from {result.retrieval.corpus} vectors")
    if k is not None and not result.loss(k) <= limit:
        common.fail(f"the loss of recall at {k}, {result.loss(k):.4f}, exceeds the limit {limit:g}")
