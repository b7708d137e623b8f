"""``isorep compare``: the ladder of two files; three or more go to :mod:`isorep.cli.compare`.

``isorep compare`` with three files or more: all pairs, the consensus, what recurs, and who stands apart.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import Html, Json, Quiet

if TYPE_CHECKING:
    from ..comparison import Comparison, Ensemble


@dataclass(frozen=True)
class Asked:
    """What a comparison of many files was asked for."""

    files: list[str]
    rungs: list[str]
    folds: int
    groups: str | None
    within: str | None
    ids: str | None
    join: bool
    null: int | None
    tolerance: float | None
    residuals: bool
    seed: int


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C]...",
            help="Two runs of the same examples, source and target, or more: files of any format, or folders of "
            "shards. FILE::NAME picks an array.",
        ),
    ],
    rungs: Annotated[
        str, typer.Option(help="Comma-separated, from identity, signed_permutation, rigid, linear, ica.")
    ] = "identity,signed_permutation,rigid,linear,ica",
    folds: Annotated[int, typer.Option(help="Number of folds for held-out errors.")] = 5,
    groups: Annotated[
        str | None,
        typer.Option(help="Rows that belong together: a column (or array) of A, or FILE::COLUMN, or an npy file."),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            help="Classes of rows, given as --groups are: pairings are shuffled inside each, so that chance holds what "
            "the classes alone explain."
        ),
    ] = None,
    ids: Annotated[str | None, typer.Option(help="The column or array with row ids, in all files.")] = None,
    join: Annotated[bool, typer.Option("--join", help="Align the files by row id.")] = False,
    null: Annotated[
        int | None,
        typer.Option(help="Shuffled pairings for the null; 0 for none. By default 100, of many files 20 per pair."),
    ] = None,
    boot: Annotated[
        int | None, typer.Option(help="Of two files: 0 leaves the intervals out; by default they are computed.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="How near to the best rung counts as equal, in mean distances to the mean: 0.03 by default."),
    ] = None,
    diameter: Annotated[str | None, typer.Option(help="Of two files: auto (the default), exact or bound.")] = None,
    worst_case: Annotated[
        bool | None,
        typer.Option(help="Of two files: bracket the largest error from both sides; by default if it is short."),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Of two files: print the ladder of B onto A too.")] = False,
    residuals: Annotated[
        bool,
        typer.Option(
            "--residuals", help="Of many files: also mean, largest error and quantiles, a pass for each pair."
        ),
    ] = False,
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="[RUNG=]ERROR",
            help="Exit 1 if the held-out error exceeds this: of the rung named, or of the best rung. For many files "
            "the error of the worst pair. In mean distances to the mean: 1 is no better than the mean.",
        ),
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="Seed of folds, null and blocks.")] = 0,
) -> None:
    """Are A and B the same, and up to what? Or many runs: all pairs, a consensus, what recurs, and who stands apart.

    Prints held-out errors for a ladder of groups, then the verdict.
    """
    from .. import compare as run_comparison
    from ..errors import InputError
    from ..files import require_writable
    from ..storage import labels, read
    from .common import fail, print_comparison, print_ladder, progress_bar, write_outputs

    wanted = [name.strip() for name in rungs.split(",") if name.strip()]
    limit = _parse_limit(fail_above, wanted)
    if len(files) < 2:
        raise InputError(f"{files[0]} alone cannot be compared: name at least two files")
    for path in (json, html):
        if path is not None:
            require_writable(path, inputs=files)
    if len(files) > 2:
        only_two = {"--boot": boot, "--diameter": diameter, "--worst-case": worst_case, "--reverse": reverse or None}
        asked = Asked(files, wanted, folds, groups, within, ids, join, null, tolerance, residuals, seed)
        compare_files(asked, only_two, limit, json, html, quiet)
        return
    source, target = files
    a, b = (read(file, ids=ids, besides=[groups]) for file in (source, target))
    with progress_bar(quiet) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the same sentences are printed as notes
        result = run_comparison(
            a,
            b,
            rungs=wanted,
            folds=folds,
            groups=None if groups is None else labels(groups, source),
            within=None if within is None else labels(within, source),
            join=join,
            n_null=100 if null is None else null,
            n_boot=1000 if boot is None else boot,
            tolerance=0.03 if tolerance is None else tolerance,
            diameter=diameter or "auto",
            worst_case=worst_case,
            random_state=seed,
            progress=progress,
        )
    exceeded = None if limit is None else _exceeded(result, *limit)
    write_outputs(result, json, html)
    if not quiet:
        print_comparison(result)
        if reverse:
            print()
            print_ladder(result.reverse)
            print(f"verdict: {result.reverse.verdict}")
    fail(*filter(None, [exceeded]))


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
    return f"the held-out error of {rung}, {error:.4f} mean distances to the mean, exceeds the limit {limit:g}"


DEFAULT_NULL, DEFAULT_TOLERANCE = 20, 0.03


def compare_files(
    asked: Asked,
    only_two: dict[str, Any],
    limit: tuple[str | None, float] | None,
    json: Path | None,
    html: Path | None,
    quiet: bool,
) -> None:
    """Compare many files, print what was found and write what was asked for; exit 1 above the stated limit."""
    from .. import compare_many
    from ..comparison.many import told_apart
    from ..errors import InputError
    from ..storage import labels, read
    from .common import fail, progress_bar, write_outputs

    for option, value in only_two.items():
        if value is not None:
            raise InputError(f"{option} is for two files, and {len(asked.files)} were named")
    runs = [read(file, ids=asked.ids, besides=[asked.groups]) for file in asked.files]
    with progress_bar(quiet) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the same sentences are printed as notes
        result = compare_many(
            runs,
            rungs=asked.rungs,
            folds=asked.folds,
            groups=None if asked.groups is None else labels(asked.groups, asked.files[0]),
            within=None if asked.within is None else labels(asked.within, asked.files[0]),
            join=asked.join,
            names=told_apart([str(run.name) for run in runs], asked.files),
            n_null=DEFAULT_NULL if asked.null is None else asked.null,
            tolerance=DEFAULT_TOLERANCE if asked.tolerance is None else asked.tolerance,
            residuals=asked.residuals,
            random_state=asked.seed,
            progress=progress,
        )
    exceeded = None if limit is None else _exceeded_by_many(result, *limit)
    write_outputs(result, json, html)
    if not quiet:
        print_ensemble(result)
    fail(*filter(None, [exceeded]))


def print_ensemble(result: Ensemble) -> None:
    """The ladder over all pairs, the matrix of one rung, what is common, and the verdict."""
    from ..comparison.many_verdict import LEAST_RUNS

    for side in result.runs:
        print(
            f"{side.name}: {side.rows} rows x {side.columns} columns, rank {side.rank}, condition {side.condition:.3g}"
        )
    print(f"\n{result.summary()}\n")
    for line in (*_common(result), *_recurring(result)):
        print(line)
    if not result.outliers and len(result.runs) >= LEAST_RUNS:
        print("outliers: none")
    print(f"verdict: {result.verdict}")
    for caveat in result.caveats:
        print(f"note: {caveat}")


def _common(result: Ensemble) -> list[str]:
    consensus = result.consensus
    agreed = int((consensus.agreement >= 0.9).sum())
    return [
        f"consensus: the mean of the other runs explains {consensus.share:.0%} of a run's variance "
        f"({consensus.shares.min():.0%} to {consensus.shares.max():.0%}); runs agree to 0.9 along {agreed} of "
        f"{len(consensus.agreement)} axes (in sample)"
    ]


def _recurring(result: Ensemble) -> list[str]:
    from ..comparison.residuals import efficiency_sentence

    found = result.components
    if found is None:
        return []
    runs = len(result.runs)
    counted = recurring_words(found.recurring(runs), len(found.families), runs)
    said = [f"components: {counted} (correlation at least {found.threshold:g}, in sample)"]
    if result.ica_efficiency is not None:
        said.append(efficiency_sentence(result.ica_efficiency))
    return said


def recurring_words(everywhere: int, families: int, runs: int) -> str:
    """How many components recur in all runs, and how many more in some."""
    if families == 0:
        return "none recurs in another run"
    more = families - everywhere
    if everywhere == 0:
        return f"none recurs in all {runs} runs, {more} {'does' if more == 1 else 'do'} in some"
    others = f"{more} more in some" if more else "and no other in some"
    return f"{everywhere} {'recurs' if everywhere == 1 else 'recur'} in all {runs} runs, {others}"


def _exceeded_by_many(result: Ensemble, rung: str | None, limit: float) -> str | None:
    """A sentence if the worst pair exceeds the stated limit."""
    if rung is None:
        rung = min(result.rungs, key=lambda name: result.rungs[name].max)
    error = result.rungs[rung].max
    if error <= limit:
        return None
    i, j = result.rungs[rung].worst
    return (
        f"the held-out error of {rung}, {error:.4f} mean distances to the mean for {result.names[i]} -> "
        f"{result.names[j]}, exceeds the limit {limit:g}"
    )
