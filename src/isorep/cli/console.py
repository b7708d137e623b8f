"""What commands share: progress on stderr where it is a terminal, and results on stdout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..comparison import Comparison, Direction
    from ..rows import Progress


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """A progress callback that draws bars on stderr, only on a terminal."""
    from ..rows import no_progress

    if quiet or not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield report


def print_comparison(result: Comparison) -> None:
    """The ladder, the verdict and the caveats."""
    source, target = result.source, result.target
    for label, side in (("source", source), ("target", target)):
        print(
            f"{label}  {side.name}: {side.rows} rows x {side.columns} columns, rank {side.rank}, "
            f"condition {side.condition:.3g}"
        )
    print()
    print_ladder(result.forward)
    print()
    print(f"verdict: {result.verdict}")
    if result.ica_efficiency is not None:
        print(
            f"ICA efficiency {result.ica_efficiency:.0%}: the share of the gap between signed permutation and rigid "
            "that ICA closes without seeing pairs"
        )
    if result.worst_case is not None:
        _print_worst_case(result)
    for caveat in result.caveats:
        print(f"note: {caveat}")


def _print_worst_case(result: Comparison) -> None:
    found = result.worst_case or {}
    for name, words in (("rigid", "a rigid motion"), ("rigid_with_scale", "a rigid motion with a scale")):
        bracket = found[name]
        print(
            f"worst case: the largest error up to {words} lies in [{bracket.lower:.4f}, {bracket.upper:.4f}] diameters"
        )
    worst = found["rigid_with_scale"].worst_rows[:3]
    print("worst rows: " + ", ".join(f"{row.id or row.row} ({row.error:.4f})" for row in worst))


def print_ladder(direction: Direction) -> None:
    """One direction's ladder, as a table."""
    from ..comparison.result import ladder_table

    exactness = "exact" if direction.diameter.exact else "lower bound"
    print(
        f"{direction.source} -> {direction.target}: mean error in diameters of {direction.target} "
        f"({direction.diameter.value:.6g}, {exactness}); lower is closer"
    )
    print(ladder_table(direction))
