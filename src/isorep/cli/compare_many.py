"""``isorep compare`` with three files or more: all pairs, the consensus, what recurs, and who stands apart."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ..comparison import Ensemble
    from .compare import Asked

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
    from ..comparison.many.inputs import told_apart
    from ..errors import InputError
    from ..storage import labels, read
    from .console import progress_bar
    from .outputs import write_outputs

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
    exceeded = None if limit is None else _exceeded(result, *limit)
    write_outputs(result, json, html)
    if not quiet:
        print_ensemble(result)
    if exceeded is not None:
        typer.echo(f"isorep: {exceeded}", err=True)
        raise typer.Exit(1)


def print_ensemble(result: Ensemble) -> None:
    """The ladder over all pairs, the matrix of one rung, what is common, and the verdict."""
    from ..comparison.many.judgement import LEAST_RUNS

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
    from ..comparison.statistics import efficiency_sentence

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


def _exceeded(result: Ensemble, rung: str | None, limit: float) -> str | None:
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
