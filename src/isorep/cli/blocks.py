"""``isorep blocks``: which subspace several views of the same examples share, and which changes."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import (
    FILE,
    Groups,
    Html,
    Ids,
    Json,
    N,
    Quiet,
    Within,
    X,
    fail,
    parts,
    progress_bar,
    require_outputs,
    row_labels,
    show,
    show_path,
    tell_outputs,
    write_outputs,
)


def command(
    files: Annotated[
        list[str],
        Argument(
            metavar="A B [C]...",
            help="Two or more views of the same examples: files of any format, or folders of shards. FILE::NAME picks "
            "an array.",
        ),
    ],
    rerun: Annotated[
        list[str] | None,
        Option(
            metavar="A,B[,C...]",
            help="Views of another training run, comma-separated, to compare content and style with. May be repeated.",
        ),
    ] = None,
    components: Annotated[
        int | None,
        Option(
            metavar=N,
            help="Leading principal directions per view to examine; default: all that 10 rows per direction allow, at "
            "most 400 of all views together.",
        ),
    ] = None,
    least: Annotated[
        float, Option(metavar=X, help="Smallest held-out correlation that counts as shared, where chance is smaller.")
    ] = 0.0,
    folds: Annotated[int, Option(metavar=N, help="Number of folds for held-out correlations.")] = 5,
    null: Annotated[int, Option(metavar=N, help="Number of shuffled pairings, at least 19.")] = 100,
    groups: Groups = None,
    within: Within = None,
    ids: Ids = None,
    join: Annotated[bool, Option("--join", help="Align the files by row id and keep the common rows.")] = False,
    content: Annotated[
        Path | None,
        Option(metavar=FILE, help="Write the content of every row, one column per shared dimension (npy, csv, ...)."),
    ] = None,
    fail_below: Annotated[
        int | None, Option(metavar=N, help="Exit 1 if fewer dimensions are shared; default: no limit.")
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of folds, blocks and shuffles.")] = 0,
) -> None:
    """Which subspace do views of the same examples share (content), and which changes (style)?

    Prints the dimension of the shared block with an interval, then the held-out correlation of every component, and
    the share of each view's variance that is content.
    """
    from ..blocks import content_style
    from ..representation import Representation
    from ..storage import read, write
    from ..storage.registry import family, split_key

    again = [parts(text, "--rerun", "files separated by commas") for text in rerun or []]
    every = [*files, *(file for run in again for file in run)]
    if len(files) < 2:
        raise InputError(f"{files[0]} alone has nothing to share: name at least two views of the same examples")
    require_outputs([json, html, content], *every, groups, within)
    if content is not None:
        family(split_key(content, None)[0], "write")  # refuses a suffix before hours of work, not after
    reading: dict[str, Any] = {"ids": ids, "besides": [groups, within]}
    views = [read(file, **reading) for file in files]
    with progress_bar(quiet) as progress:
        result = content_style(
            views,
            reruns=[[read(file, **reading) for file in run] for run in again],
            components=components,
            least=least,
            folds=folds,
            groups=row_labels(groups, files[0]),
            within=row_labels(within, files[0]),
            join=join,
            n_null=null,
            random_state=seed,
            progress=progress,
        )
    write_outputs(result, json, html)
    if content is not None and result.dimension:
        write(Representation(result.content, ids=result.ids, name="content"), content)
    if not quiet:
        show(str(result))
        tell_outputs(json, html)
        if content is not None and result.dimension:
            show_path("Content", content)
    if content is not None and not result.dimension:
        raise InputError(f"no shared block was found, so {content} was not written")
    if fail_below is not None and (result.dimension is None or result.dimension < fail_below):
        found = "an unknown number of" if result.dimension is None else f"{result.dimension}"
        fail(f"{found} dimensions are shared, and the limit is {fail_below}")
