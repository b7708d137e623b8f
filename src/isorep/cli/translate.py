"""``isorep translate``: fit a map from an old model's vectors to a new one's, and apply it to an embedding store."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ..errors import InputError
from . import common
from .common import COLUMN, FILE, NAME, NAMES, Dask, DropIds, Groups, Html, Ids, Json, N, Quiet

if TYPE_CHECKING:
    from ..representation import Array, Representation
    from ..translation import Drift, Translation

app = typer.Typer(
    help="Map embeddings of an old model to a new one: fit a map, apply it to files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(cls=common.Command, short_help="Fit a map from OLD to NEW and test it")
def fit(
    context: typer.Context,
    old: Annotated[str, Argument(metavar="OLD", help="Vectors of the old model: any format, or shards.")],
    new: Annotated[str, Argument(metavar="NEW", help="The same items by the new model. FILE::NAME picks an array.")],
    output: Annotated[Path, Option("--output", "-o", metavar=FILE, help="Write the map to this .safetensors file.")],
    maps: Annotated[
        str,
        Option(
            metavar=NAMES,
            help="Maps to try, comma-separated: rigid, linear, ridge, low_rank, cosine, mlp; or all. The best is kept. "
            "Default auto: the first four, and the others where these lose something.",
        ),
    ] = "auto",
    scenario: Annotated[
        str,
        Option(metavar=NAME, help="What will be translated: store (default) or queries. Both are reported."),
    ] = "store",
    store_size: Annotated[
        int | None,
        Option(metavar=N, help="Number of vectors of your store: recall is estimated for it. Default: the sample's."),
    ] = None,
    normalise: Annotated[
        str,
        Option(metavar=NAME, help="Give translated vectors the length of new ones: yes, no or auto, if it is one."),
    ] = "auto",
    add: Annotated[
        Path | None,
        Option(metavar=FILE, help="Add the pairs to this map instead of fitting anew; no earlier pair is read."),
    ] = None,
    unpaired: Annotated[
        bool,
        Option(
            "--unpaired",
            help="Rows of OLD and NEW are not paired, only of the same kind: match independent components. Exit 1 "
            "without a map if they do not match.",
        ),
    ] = False,
    check_old: Annotated[
        str | None, Option(metavar=FILE, help="A few old vectors whose new ones are known, to check --unpaired.")
    ] = None,
    check_new: Annotated[str | None, Option(metavar=FILE, help="The new vectors of --check-old.")] = None,
    force: Annotated[bool, Option("--force", help="Write the map of --unpaired even if it is refused.")] = False,
    folds: Annotated[int, Option(metavar=N, help="Number of folds: one tests, the others choose the map.")] = 5,
    groups: Groups = None,
    labels: Annotated[
        str | None,
        Option(metavar=COLUMN, help="Report cosine and recall for each label of these, given as --groups."),
    ] = None,
    scale: Annotated[
        str | None,
        Option(
            metavar=NAME,
            help="Scale of int8 vectors in npz, parquet or jsonl files: an array, a column, a name or a number. "
            "Default: scale.",
        ),
    ] = None,
    ids: Ids = None,
    join: Annotated[bool, Option("--join", help="Align the files by row id and keep the common rows.")] = False,
    at: Annotated[str, Option(metavar="K,K,K", help="Values of k for recall@k, comma-separated.")] = "1,10,100",
    metric: Annotated[
        str, Option(metavar=NAME, help="Similarity that ranks neighbours: cosine, euclidean or dot.")
    ] = "cosine",
    queries: Annotated[
        str | None, Option(metavar=FILE, help="Your queries, embedded by the new model, with ids; needs --relevance.")
    ] = None,
    old_queries: Annotated[
        str | None, Option(metavar=FILE, help="The same queries by the old model, to judge translated queries.")
    ] = None,
    relevance: Annotated[
        Path | None,
        Option(metavar=FILE, help="Relevance judgements: TREC qrels, or lines of query, document and grade."),
    ] = None,
    n_queries: Annotated[int, Option(metavar=N, help="Largest number of held-out rows as queries.")] = 1000,
    corpus: Annotated[int, Option(metavar=N, help="Largest number of vectors to search.")] = 100_000,
    fail_above: Annotated[
        str | None,
        Option(
            metavar="[loss@K=|error=]LIMIT",
            help="Exit 1 if recall@K in the scenario drops by more than LIMIT compared with native vectors (default K: "
            "10), at --store-size where it is given; or if the held-out error, in mean distances to the mean, exceeds "
            "it. The map is written in any case.",
        ),
    ] = None,
    dask: Dask = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of folds, queries and blocks.")] = 0,
) -> None:
    """Fit a map from OLD to NEW, measure what it loses, and write it.

    Prints the verdict, then cosines, errors and recall of every map on held-out rows, compared with native and
    untranslated vectors, and recall by the size of the store.
    """
    from .. import translate as run_translation
    from ..results import counted
    from ..storage.model_files import require_model_path
    from ..translation.stores import read_vectors

    if add is not None or unpaired:
        _refuse_others(context, "--unpaired" if unpaired else "--add", _UNPAIRED if unpaired else _ADD)
    if normalise not in _NORMALISE:
        raise InputError(f"--normalise is {normalise!r}: choose from {', '.join(_NORMALISE)}")
    if (check_old is None) != (check_new is None) or (not unpaired and (check_old or force)):
        raise InputError("--check-old and --check-new belong together, and with --force to --unpaired")
    if unpaired:
        checks = None if check_old is None or check_new is None else (check_old, check_new)
        _unpaired(old, new, output, ids, scale, checks, force, _NORMALISE[normalise], seed, json, html, quiet)
        return
    if add is not None:
        _add(add, old, new, output, ids, scale, join, dask, quiet)
        return
    if queries is not None and queries.isdecimal():
        raise InputError(
            f"--queries takes a file of your queries; the number of held-out queries is --n-queries {queries}"
        )
    wanted = maps if maps in ("auto", "all") else common.parts(maps, "--maps")
    counts = common.numbers(at, "--at", "whole numbers such as 1,10,100", int)
    limit = None if fail_above is None else _limit(fail_above, counts)
    require_model_path(output, noun="map")
    common.require_outputs([output, json, html], old, new, groups, labels, queries, old_queries, relevance)
    with common.cluster(dask) as in_chunks, common.progress_bar(quiet) as progress:
        a, b = (
            read_vectors(file, ids=ids, scale=scale, besides=[groups, labels], in_chunks=in_chunks)
            for file in (old, new)
        )
        result = run_translation(
            a,
            b,
            maps=wanted,
            scenario=scenario,
            store_size=store_size,
            normalise=_NORMALISE[normalise],
            folds=folds,
            groups=common.row_labels(groups, old),
            labels=common.row_labels(labels, old),
            queries=queries,
            old_queries=old_queries,
            relevance=relevance,
            join=join,
            at=counts,
            metric=metric,
            n_queries=n_queries,
            n_corpus=corpus,
            random_state=seed,
            progress=progress,
        )
    result.save(output)
    common.write_outputs(result, json, html)
    if not quiet:
        _print(result)
        best, used = result.best.replace("_", "-"), result.translator.facts["pairs"]
        pairs = f"all {counted(used, 'pair')}" if used == result.pairs["all"] else f"the {used} training pairs"
        common.show()
        common.say(f"Map: {output} (the {best} map, fitted to {pairs})")
        common.tell_outputs(json, html)
    if limit is not None:
        _judge(result, *limit)


@app.command(cls=common.Command, short_help="Translate vectors of the old model")
def apply(
    map_file: Annotated[Path, Argument(metavar="MAP", help="Map that isorep translate fit wrote.")],
    data: Annotated[str, Argument(metavar="IN", help="Vectors of the old model: any format, or shards.")],
    output: Annotated[
        str,
        Argument(
            metavar="OUT",
            help="File to write; the suffix chooses the format. Without a suffix: a folder with one file per shard of "
            "IN. Parquet and jsonl (files or shards), FAISS files, lancedb:FOLDER::TABLE, qdrant:FOLDER::COLLECTION "
            "and pgvector:URL::TABLE keep all that rows of the same kind of IN carry.",
        ),
    ],
    scale: Annotated[
        str | None,
        Option(metavar=NAME, help="Scale of int8 vectors: a column, name or array of IN, or a number. Default: scale."),
    ] = None,
    confidence: Annotated[
        Path | None,
        Option(metavar=FILE, help="Write each vector's predicted cosine with the new model's vector to this file."),
    ] = None,
    ids: Ids = None,
    drop_ids: DropIds = False,
    strict: Annotated[bool, Option("--strict", help="Exit 1 and write nothing if vectors look foreign.")] = False,
    dask: Dask = None,
    quiet: Quiet = False,
) -> None:
    """Translate vectors of the old model, block by block.

    Prints a warning if a sample of the vectors looks unlike those that the map was fitted to.
    """
    from ..files import without_secrets
    from ..representation import Representation, reading_notes
    from ..storage.write import require_target
    from ..translation.stores import ADDRESSES, open_store, require_plain, survey, translate_store
    from ..translation.translator import Translator, has_ids, open_source, require_output, translate_files

    addressed = output.partition(":")[0] in ADDRESSES
    files = [each for each in (None if addressed else common.plain_path(output), confidence) if each is not None]
    common.require_apart(files, *([] if addressed else [data]), map_file)
    if confidence is not None:
        require_target(confidence)
    plain = [name for name, given in (("--drop-ids", drop_ids), ("--dask", dask)) if given]
    if plain:
        require_plain(plain[0], data, output, scale)
    translator = Translator.load(map_file)
    store = None if plain else open_store(data, output, scale, ids)
    if store is not None:
        with common.progress_bar(quiet) as progress:
            found = survey(translator, store, confidence=confidence is not None, ids=ids, progress=progress)
        _check_drift(translator.drift(Representation(found.sample, name=store.name)), store.name, strict)
        cosines = None if confidence is None else _confidence_rows(confidence, found.cosines, found.ids)
        with common.progress_bar(quiet) as progress:
            said = translate_store(translator, store, output, progress, surveyed=found)
        if not quiet:
            common.say(f"wrote {without_secrets(output)}: {said}")
        if confidence is not None:
            _write_confidence(confidence, cosines, quiet)
        if found.note and not quiet:
            common.say(f"note: {found.note}")
        return
    require_output(data, output)
    with common.cluster(dask) as in_chunks:
        source = open_source(data, ids, in_chunks)
        _check_drift(translator.drift(source.rows), str(source.rows.name), strict)
        cosines = None
        if confidence is not None:  # what fails here leaves nothing
            names = None if drop_ids else source.rows.ids
            cosines = _confidence_rows(confidence, translator.confidence(source.rows), names)
        with common.progress_bar(quiet) as progress:
            result = translate_files(translator, source, output, drop_ids=drop_ids, progress=progress)
    if not quiet:
        with_ids = "with" if has_ids(result, output, drop_ids) else "without"
        size = f"{len(result)} rows x {result.shape[1]} columns"
        common.say(f"wrote {output}: {size}, {result.values.dtype}, {with_ids} ids")
    if confidence is not None:
        _write_confidence(confidence, cosines, quiet)
    if not quiet:
        common.say(*(f"note: {sentence}" for sentence in reading_notes(source.rows)))


def _confidence_rows(path: Path, cosines: "Array | None", ids: "Array | None") -> "Representation":
    """Predicted cosines as they will be written: with row ids where the file holds such ids."""
    import numpy as np

    from ..representation import Representation
    from ..storage.write import holds_ids, require_plain_ids

    kept = ids if holds_ids(path, ids) else None
    if kept is not None and kept.dtype.kind == "U":
        require_plain_ids(kept)
    return Representation(np.asarray(cosines)[:, None], kept, "confidence")


def _write_confidence(path: Path, rows: "Representation | None", quiet: bool) -> None:
    import numpy as np

    from ..storage import write

    if rows is None:
        return
    write(rows, path)
    if not quiet:
        low, middle, high = np.quantile(rows.values[:], [0.05, 0.5, 0.95])
        spread = f"5% below {low:.3f}, median {middle:.3f}, 5% above {high:.3f}"
        common.say(f"wrote {path}: predicted cosines in the order of the rows, {spread}")


def _check_drift(drift: "Drift", name: str, strict: bool) -> None:
    """Warn of rows that look foreign, or write nothing."""
    if drift and strict:
        common.warn(f"isorep: {name}: {drift}; nothing was written")
        raise typer.Exit(1)
    if drift:
        common.warn(f"warning: {name}: {drift}")


_NORMALISE = {"auto": None, "yes": True, "no": False}
_ADD = {"old", "new", "output", "add", "ids", "scale", "join", "dask", "quiet"}
_UNPAIRED = {"old", "new", "output", "unpaired", "check_old", "check_new", "force", "ids", "scale", "normalise", "seed"}
_UNPAIRED |= {"json", "html", "quiet"}


def _refuse_others(context: typer.Context, mode: str, allowed: set[str]) -> None:
    """Refuse all options that were given and are not among those that have an effect in a mode."""
    sources = {each.name or "": context.get_parameter_source(each.name or "") for each in context.command.params}
    given = [
        max(each.opts, key=len)
        for each in context.command.params
        if each.name not in allowed and getattr(sources[each.name or ""], "name", "") == "COMMANDLINE"
    ]
    if given:
        verb, them = ("has", "it") if len(given) == 1 else ("have", "them")
        raise InputError(f"{', '.join(given)} {verb} no effect with {mode}: leave {them} out")


def _unpaired(
    old: str,
    new: str,
    output: Path,
    ids: str | None,
    scale: str | None,
    checks: tuple[str, str] | None,
    force: bool,
    normalise: bool | None,
    seed: int,
    json: Path | None,
    html: Path | None,
    quiet: bool,
) -> None:
    """Match components of both sides, and write the map unless it is refused."""
    from .. import translate_unpaired
    from ..storage.model_files import require_model_path
    from ..translation.stores import read_vectors

    require_model_path(output, noun="map")
    common.require_outputs([output, json, html], old, new, *(checks or ()))
    with common.progress_bar(quiet) as progress:
        a, b, *few = (read_vectors(file, ids=ids, scale=scale) for file in (old, new, *(checks or ())))
        pairs = None if checks is None else (few[0], few[1])
        result = translate_unpaired(a, b, pairs=pairs, normalise=normalise, random_state=seed, progress=progress)
    refused = result.verdict.answer == "refused"
    if not refused or force:
        result.save(output, force=True)
    common.write_outputs(result, json, html)
    if not quiet:
        common.show_result(result)
        common.show()
        if not refused or force:
            forced = "; it was refused, and is written because of --force" if refused else ""
            common.say(f"Map: {output} ({len(result.counted)} of {result.components} components){forced}")
        common.tell_outputs(json, html)
    if refused and not force:
        common.fail("no map was written: components of both sides do not match well enough, as the verdict says")


def _add(
    earlier: Path,
    old: str,
    new: str,
    output: Path,
    ids: str | None,
    scale: str | None,
    join: bool,
    dask: str | None,
    quiet: bool,
) -> None:
    """Add pairs to a map: their moments to its own."""
    from ..storage.model_files import require_model_path
    from ..translation import Translator
    from ..translation.stores import read_vectors

    require_model_path(output, noun="map")
    common.require_outputs([output], old, new)
    before = Translator.load(earlier)
    with common.cluster(dask) as in_chunks:
        a, b = (read_vectors(file, ids=ids, scale=scale, in_chunks=in_chunks) for file in (old, new))
        after = before.update(a, b, join=join, check=False)
        for said in before.doubts(a, b, join=join):
            common.warn(f"warning: {said}")
    after.save(output)
    if not quiet:
        added, pairs = after.facts["added"][-1], after.facts["pairs"]
        kind = after.kind.replace("_", "-")
        common.say(
            f"Map: {output} (the {kind} map of {pairs} pairs, {added} of them added); strength, rank, drift check, "
            "confidence and what was measured on held-out pairs are those of the first fit"
        )


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
        f"errors in mean distances of {new.name} to its mean, before lengths are set; lower is closer, 1 is no better "
        "than the mean",
        f"recall of {retrieval.queries} queries among {retrieval.corpus} held-out vectors, by {retrieval.metric}",
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
    from ..results import decimals

    error = result.maps[result.best].held_out.mean
    if k is None and not error <= limit:
        common.fail(f"the held-out error, {decimals(error)} mean distances to the mean, exceeds the limit {limit:g}")
    if k is not None:
        size = result.settings["store_size"] or result.retrieval.corpus
        judged = next(point for point in result.chosen.sizes if point.size == size)
        if k not in judged.recall:
            common.fail(f"recall at {k} cannot be told from {min(size, result.retrieval.corpus):,} vectors")
        loss = (judged.native or result.retrieval.ceiling.recall)[k] - judged.recall[k]
        if not loss <= limit:
            where = "" if judged.measured else f", estimated for {size:,} vectors,"
            common.fail(f"the loss of recall at {k}, {loss:.4f},{where.rstrip(',')} exceeds the limit {limit:g}")
