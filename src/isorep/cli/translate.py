"""``isorep translate``: fit a map from an old model's vectors to a new one's, and apply it to a store of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import Html, Json, plain_path, require_apart, require_outputs

if TYPE_CHECKING:
    from ..translation import Translation

app = typer.Typer(
    help="Translate vectors of an old model to a new one's: fit a map, apply it to files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Ids = Annotated[str | None, typer.Option(help="The column or array with row ids.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors and warnings.")]


@app.command()
def fit(
    old: Annotated[
        str,
        typer.Argument(metavar="OLD", help="Vectors of the old model: a file of any format, or a folder of shards."),
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The same items by the new model. FILE::NAME picks an array.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the map here: a .safetensors file.")],
    maps: Annotated[
        str, typer.Option(help="Comma-separated, from rigid, linear, ridge, low_rank; the best is kept.")
    ] = "rigid,linear,ridge,low_rank",
    folds: Annotated[int, typer.Option(help="Number of folds: one tests, the others choose.")] = 5,
    groups: Annotated[
        str | None,
        typer.Option(help="Rows that belong together: a column (or array) of OLD, or FILE::COLUMN, or an npy file."),
    ] = None,
    ids: Ids = None,
    join: Annotated[bool, typer.Option("--join", help="Align the two files by row id.")] = False,
    at: Annotated[str, typer.Option(help="Numbers of neighbours for recall, comma-separated.")] = "1,10,100",
    metric: Annotated[str, typer.Option(help="How neighbours are ranked: cosine, euclidean or dot.")] = "cosine",
    queries: Annotated[int, typer.Option(help="At most so many queries.")] = 1000,
    corpus: Annotated[int, typer.Option(help="At most so many vectors to search.")] = 100_000,
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="[loss@K=|error=]LIMIT",
            help="Exit 1 if this share of recall at K (10 by default) is lost against native vectors, or if the "
            "held-out error, in mean distances to the mean, is larger. The map is written all the same.",
        ),
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="Seed of folds, queries and blocks.")] = 0,
) -> None:
    """Fit a map from OLD to NEW, say what it loses, and write it.

    Prints held-out errors and recall of every map beside native and untranslated vectors, then the verdict.
    """
    from .. import translate as run_translation
    from ..storage import labels, read
    from ..storage.model_files import require_model_path
    from .common import fail, progress_bar, write_outputs

    wanted = [name.strip() for name in maps.split(",") if name.strip()]
    counts = _whole_numbers(at)
    limit = _parse_limit(fail_above, counts)
    require_model_path(output, noun="map")
    require_outputs([output, json, html], old, new)
    a, b = (read(file, ids=ids, besides=[groups]) for file in (old, new))
    with progress_bar(quiet) as progress:
        result = run_translation(
            a,
            b,
            maps=wanted,
            folds=folds,
            groups=None if groups is None else labels(groups, old),
            join=join,
            at=counts,
            metric=metric,
            n_queries=queries,
            n_corpus=corpus,
            random_state=seed,
            progress=progress,
        )
    exceeded = None if limit is None else _exceeded(result, *limit)
    result.save(output)
    write_outputs(result, json, html)
    if not quiet:
        _print(result)
        print(f"wrote {output}: the {result.best.replace('_', '-')} map, fitted to all {result.pairs['all']} pairs")
    fail(*filter(None, [exceeded]))


@app.command()
def apply(
    map_file: Annotated[Path, typer.Argument(metavar="MAP", help="A map that isorep translate fit wrote.")],
    data: Annotated[
        str, typer.Argument(metavar="IN", help="Vectors of the old model: a file of any format, or a folder of shards.")
    ],
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Write the translated vectors here; the suffix chooses the format. Without one, a folder with a file "
            "for each shard of IN.",
        ),
    ],
    ids: Ids = None,
    drop_ids: Annotated[bool, typer.Option("--drop-ids", help="Leave the row ids out.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 and write nothing if the vectors do not look like the old model's.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Translate vectors of the old model, block by block.

    A sample is first compared with the vectors that the map was fitted to; a warning says if it looks foreign.
    """
    from ..translation.translator import Translator, has_ids, open_source, require_output, translate_files
    from .common import progress_bar

    require_apart([plain_path(output)], data, map_file)
    require_output(data, output)
    translator = Translator.load(map_file)
    source = open_source(data, ids)
    drift = translator.drift(source.rows)
    if drift:
        if strict:
            typer.echo(f"isorep: {source.rows.name}: {drift}; nothing was written", err=True)
            raise typer.Exit(1)
        typer.echo(f"warning: {source.rows.name}: {drift}", err=True)
    with progress_bar(quiet) as progress:
        result = translate_files(translator, source, output, drop_ids=drop_ids, progress=progress)
    if not quiet:
        with_ids = "with" if has_ids(result, output, drop_ids) else "without"
        print(f"wrote {output}: {len(result)} rows x {result.shape[1]} columns, {result.values.dtype}, {with_ids} ids")


def _print(result: Translation) -> None:
    old, new, pairs, retrieval = result.old, result.new, result.pairs, result.retrieval
    for label, side in (("old", old), ("new", new)):
        print(f"{label}  {side.name}: {side.columns} columns, rank {side.rank}, condition {side.condition:.3g}")
    print(f"pairs {pairs['all']}: {pairs['training']} fit and choose, {pairs['test']} test\n")
    print(
        f"error: mean distance from the native vector, in mean distances of {new.name} to its mean (1 is no better "
        "than the mean), lower is closer; recall of "
        f"{retrieval.queries} queries among {retrieval.corpus} vectors, by {retrieval.metric}"
    )
    print(result)


def _whole_numbers(text: str) -> list[int]:
    from ..errors import InputError

    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"--at takes whole numbers such as 1,10,100, not {text!r}") from None


def _parse_limit(text: str | None, counts: list[int]) -> tuple[int | None, float] | None:
    """The number of neighbours whose recall must not be lost, None for the error; and the limit."""
    from ..errors import InputError
    from ..translation.result import headline_k

    if text is None:
        return None
    found = re.fullmatch(r"(?:(error)=|loss@(\d+)=|(?:loss=)?)([0-9.eE+-]+)", text.strip())
    try:
        limit = float(found[3]) if found else -1.0
    except ValueError:
        limit = -1.0
    k = None if not found or found[1] else int(found[2]) if found[2] else headline_k(tuple(counts) or (10,))
    if not found or not 0 <= limit < float("inf") or (k is not None and k not in counts):
        raise InputError(
            f"--fail-above takes a number from 0 on, error=NUMBER or loss@K=NUMBER with K one of --at, not {text!r}"
        )
    return k, limit


def _exceeded(result: Translation, k: int | None, limit: float) -> str | None:
    """A sentence if the stated limit is exceeded."""
    if k is None:
        error = result.maps[result.best].held_out.mean
        return (
            None
            if error <= limit
            else f"the held-out error, {error:.4f} mean distances to the mean, exceeds the limit {limit:g}"
        )
    if k not in result.retrieval.at:
        return f"recall at {k} cannot be told from {result.retrieval.corpus} vectors"
    loss = result.loss(k)
    return None if loss <= limit else f"the loss of recall at {k}, {loss:.4f}, exceeds the limit {limit:g}"
