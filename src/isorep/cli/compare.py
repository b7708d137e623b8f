"""``isorep compare``: the ladder of two files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..comparison import Comparison


def command(
    source: Annotated[
        str,
        typer.Argument(metavar="A", help="Source: a file of any format, or a folder of shards."),
    ],
    target: Annotated[str, typer.Argument(metavar="B", help="Target: the same examples. FILE::NAME picks an array.")],
    rungs: Annotated[
        str, typer.Option(help="Comma-separated, from identity, signed_permutation, rigid, linear, ica.")
    ] = "identity,signed_permutation,rigid,linear,ica",
    folds: Annotated[int, typer.Option(help="Number of folds for held-out errors.")] = 5,
    groups: Annotated[
        str | None,
        typer.Option(help="Rows that belong together: a column (or array) of A, or FILE::COLUMN, or an npy file."),
    ] = None,
    ids: Annotated[str | None, typer.Option(help="The column or array with row ids, in both files.")] = None,
    join: Annotated[bool, typer.Option("--join", help="Align the two files by row id.")] = False,
    null: Annotated[int, typer.Option(help="Shuffled pairings for the null; 0 for none.")] = 20,
    boot: Annotated[int, typer.Option(help="Bootstrap draws for the intervals; 0 for none.")] = 1000,
    tolerance: Annotated[float, typer.Option(help="In diameters: how near to the linear rung counts as equal.")] = 0.01,
    diameter: Annotated[str, typer.Option(help="auto, exact or bound.")] = "auto",
    worst_case: Annotated[
        bool | None, typer.Option(help="Bracket the largest error from both sides; by default if it is short.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Print the ladder of B onto A too.")] = False,
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="[RUNG=]ERROR",
            help="Exit 1 if the held-out mean error exceeds this: of the rung named, or of the best rung.",
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the complete result here.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report with figures here.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of folds, null and bootstrap.")] = 0,
) -> None:
    """Are A and B the same, and up to what?

    Prints held-out errors with interval and null for a ladder of groups, then the verdict.
    """
    from .. import compare as run_comparison
    from ..files import require_writable
    from ..storage import labels, read
    from .console import print_comparison, print_ladder, progress_bar

    wanted = [name.strip() for name in rungs.split(",") if name.strip()]
    limit = _parse_limit(fail_above, wanted)
    for path in (json, html):
        if path is not None:
            require_writable(path, inputs=(source, target))
    a, b = read(source, ids=ids), read(target, ids=ids)
    with progress_bar(quiet) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the same sentences are printed as notes
        result = run_comparison(
            a,
            b,
            rungs=wanted,
            folds=folds,
            groups=None if groups is None else labels(groups, source),
            join=join,
            n_null=null,
            n_boot=boot,
            tolerance=tolerance,
            diameter=diameter,
            worst_case=worst_case,
            random_state=seed,
            progress=progress,
        )
    exceeded = None if limit is None else _exceeded(result, *limit)
    if json is not None:
        result.to_json(json)
    if html is not None:
        result.to_html(html)
    if not quiet:
        print_comparison(result)
        if reverse:
            print()
            print_ladder(result.reverse)
            print(f"verdict: {result.reverse.verdict}")
    if exceeded is not None:
        typer.echo(f"isorep: {exceeded}", err=True)
        raise typer.Exit(1)


def _parse_limit(text: str | None, rungs: list[str]) -> tuple[str | None, float] | None:
    from ..errors import InputError

    if text is None:
        return None
    rung, _, number = text.rpartition("=")
    try:
        limit = float(number)
    except ValueError:
        raise InputError(f"--fail-above takes a number or RUNG=NUMBER, not {text!r}") from None
    if not limit >= 0 or (rung and rung not in rungs):
        raise InputError(f"--fail-above takes a number from 0 on, of one of {', '.join(rungs)}, not {text!r}")
    return rung or None, limit


def _exceeded(result: Comparison, rung: str | None, limit: float) -> str | None:
    """A sentence if the stated limit is exceeded."""
    if rung is None:
        rung = min(result.rungs, key=lambda name: result.rungs[name].held_out.mean)
    error = result.rungs[rung].held_out.mean
    if error <= limit:
        return None
    return f"the held-out error of {rung}, {error:.4f} diameters, exceeds the limit {limit:g}"
