"""What commands share: progress on stderr where it is a terminal, and results on stdout.

Options that every command has.

The files that commands write: refused before any work if they cannot be written or would overwrite an input.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..comparison import Comparison, Direction
    from ..ica.estimator import ICA, FitProgress
    from ..results import Written
    from ..rows import Progress

STRONGEST = 5  # components that the summary of a fit shows
NAMED = 10  # components that it lists by name


class Interrupted(Exception):  # noqa: N818  (it is no error)
    """The user stopped a command that has something to say about what is left."""


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


@contextmanager
def fit_bar(quiet: bool) -> Iterator[FitProgress | None]:
    """A callback for ``ICA.fit`` that draws stage, sweeps, contrast, time and memory on stderr, only on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<10}"), BarColumn(bar_width=20), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[words]}"), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading", total=1.0, words="")
        pace = Pace()

        def report(stage: str, sweeps: float, contrast: float, left: float) -> None:
            reached = f"{sweeps:.1f} sweeps, contrast {contrast:.4f}" if sweeps else ""
            words = ", ".join(filter(None, (reached, pace.remaining(left), memory_text())))
            bars.update(task, description=stage, completed=1 - pace.left, words=words)

        yield report


class Pace:
    """How long a fit will still take, from how the share that is left has shrunk; it may have begun in the middle."""

    def __init__(self) -> None:
        self.left = 1.0
        self._began: tuple[float, float] | None = None  # when the share first shrank, and to what

    def remaining(self, left: float) -> str:
        """The time left in words, as soon as it can be told."""
        now = time.monotonic()
        self.left = min(self.left, left)
        if self.left == 1:
            return ""
        if self._began is None:
            self._began = (now, self.left)
        since, first = self._began
        if self.left == first:
            return ""
        seconds = int((now - since) * self.left / (first - self.left))
        return f"about {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"


def memory_text() -> str:
    """The memory this process holds, in words; nothing where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return ""
    return f"{pages * os.sysconf('SC_PAGE_SIZE') / 2**20:.0f} MiB of memory"


def peak_memory() -> int | None:
    """The most bytes of memory this process has held; None where the system does not tell."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def print_fit(ica: ICA, name: str, rows: int, notes: list[str]) -> None:
    """What a fit found: sizes, how it ended, the strongest components and those that may be Gaussian."""
    names = [str(each) for each in ica.get_feature_names_out()]
    rank = f", rank {ica.rank_}" if hasattr(ica, "rank_") else ""
    print(f"data        {name}: {rows} rows x {ica.n_features_in_} columns{rank}")
    print(f"components  {len(names)}")
    print(f"sweeps      {ica.n_iter_}")
    print(f"contrast    {ica.path_[-1, 1]:.4f} ({ica.contrast}, summed over components)")
    print(f"converged   {'yes' if ica.converged_ else 'no'}")
    print()
    shown = {"contrast": ica.contrast_}
    for column in ("kurtosis", "skewness", "uncertainty"):
        if hasattr(ica, f"{column}_"):
            shown[column] = getattr(ica, f"{column}_")
    print(f"{'strongest':<10}" + "".join(f"{column:>13}" for column in shown))
    for place, component in enumerate(names[:STRONGEST]):
        print(f"{component:<10}" + "".join(f"{values[place]:>13.4f}" for values in shown.values()))
    if hasattr(ica, "gaussian_"):
        gaussian = [names[place] for place in ica.gaussian_.nonzero()[0]]
        more = f" and {len(gaussian) - NAMED} more" if len(gaussian) > NAMED else ""
        listed = f": {', '.join(gaussian[:NAMED])}{more}" if gaussian else ""
        print(f"\nnear-Gaussian: {len(gaussian)} of {len(names)}{listed}")
    for note in notes:
        print(f"note: {note}")


def print_comparison(result: Comparison) -> None:
    """The ladder, the verdict and the caveats."""
    from ..comparison.residuals import efficiency_sentence

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
        print(efficiency_sentence(result.ica_efficiency))
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
        f"{direction.source} -> {direction.target}: errors in mean distances of {direction.target} to its mean; lower "
        "is closer, 1 is no better than the mean\n"
        f"(last column in diameters of {direction.target}: {direction.diameter.value:.6g}, {exactness})"
    )
    print(ladder_table(direction))


Json = Annotated[Path | None, typer.Option(help="Write the complete result here.")]
Html = Annotated[Path | None, typer.Option(help="Write a report with figures here.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


def require_outputs(outputs: Sequence[Path | None], *inputs: str | Path) -> None:
    """Refuse files to write that cannot be written, or are not apart from each other and from the inputs."""
    from ..files import require_writable

    named = [path for path in outputs if path is not None]
    require_apart(named, *inputs)
    for path in named:
        require_writable(path)


def write_outputs(result: Written, json: Path | None, html: Path | None) -> None:
    """Write the files that were asked for."""
    if json is not None:
        result.to_json(json)
    if html is not None:
        result.to_html(html)


def fail(*sentences: str) -> None:
    """Say on stderr what exceeds a stated limit, and exit 1; nothing to say is no failure."""
    for sentence in sentences:
        typer.echo(f"isorep: {sentence}", err=True)
    if sentences:
        raise typer.Exit(1)


def require_apart(outputs: Sequence[Path], *inputs: str | Path) -> None:
    """Refuse an output that is named twice, or that is, holds or lies in an input."""
    from ..errors import InputError

    for place, path in enumerate(outputs):
        here = path.resolve()
        for given in map(plain_path, inputs):
            there = given.resolve()
            if here == there:
                raise InputError(f"{path} is an input: name another file to write")
            if there in here.parents or here in there.parents:
                raise InputError(f"{path} and the input {given} lie in one another: name another file to write")
        if here in [other.resolve() for other in outputs[:place]]:
            raise InputError(f"{path} is named twice: name another file to write")


def plain_path(path: str | Path) -> Path:
    """A path without its ``::NAME``."""
    from ..storage.registry import split_key

    return split_key(path, None)[0]
