"""Options and outputs that commands share: progress on stderr where it is a terminal, options, and what options hold.

Text on stdout: wrapped, and with bold verdicts on a terminal. The files that commands write: refused before any work if
they cannot be written or would overwrite an input, and named when they are written.
"""

import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand

from ..errors import InputError, import_extra
from ..files import remove_unfinished, visible
from .streams import print_error

if TYPE_CHECKING:
    from ..results import ResultRecord
    from ..rows import Deadline, Progress


_PATIENCE = 30  # seconds until a scheduler must answer, and have a worker


class Interrupted(Exception):  # noqa: N818  (it is no error)
    """The user stopped a command that has something to say about what is left."""


@contextmanager
def progress_bar(quiet: bool) -> "Iterator[Progress]":
    """A progress callback that draws bars on stderr, only on a terminal."""
    from ..rows import no_progress

    with bars_on_terminal(quiet) as bars:
        tasks: dict[str, Any] = {}
        before: dict[str, int] = {}

        def report(stage: str, done: int, total: int) -> None:
            stage = visible(stage)
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, words="")
            elif done == 0 and before[stage]:  # the same stage again, of the next layer
                bars.reset(tasks[stage])
            before[stage] = done
            bars.update(tasks[stage], completed=done, total=total)

        yield no_progress if bars is None else report


@contextmanager
def stopping(deadline: "Deadline", quiet: bool, *, at_once: bool = True) -> Iterator[None]:
    """The first Ctrl-C stops the deadline, so that there is a result of what was done; the second one ends the process.

    It does so at once, without waiting for threads; or by an interrupt, where a cluster has to be closed.
    """
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: Any) -> None:
        deadline.stopped = True
        signal.signal(signal.SIGINT, _quit if at_once else before)
        if not quiet:  # past the streams, which may be at work
            again = b"Press Ctrl-C again to quit" + (b" at once" if at_once else b"")
            os.write(2, b"\nisorep: stopping; the result so far follows. " + again + b"\n")

    if before in (signal.SIG_IGN, signal.SIG_DFL, None):  # ignored, or not Python's
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _quit(number: int, frame: Any) -> None:
    """End the process: what is at work in threads would be waited for otherwise."""
    from .main import left_behind

    remove_unfinished()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        os.write(2, b"\x1b[?25h\n")  # the cursor, which the bars have hidden
    os.write(2, f"isorep: interrupted; {visible(left_behind())}\n".encode())
    os._exit(130)


@contextmanager
def bars_on_terminal(quiet: bool) -> Iterator[Any]:
    """Progress bars on stderr, each with words behind it; None where nobody would see them."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<24}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    words = TextColumn("left  {task.fields[words]}", markup=False)
    with Progress(*columns, words, console=Console(stderr=True), transient=True) as bars:
        yield bars


class Command(TyperCommand):
    """A command whose usage names arguments without braces."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The pieces of the usage line."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an empty name of a file or folder: as a path it would be the current folder."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for option in self.get_params(ctx):
            value = given.get(option.name or "")
            names = value if isinstance(value, list | tuple) else [value]
            if "" in names and (option.type.name == "path" or getattr(option, "metavar", None) in (FILE, FOLDER, PATH)):
                called = max(option.opts, key=len) if option.param_type_name == "option" else option.metavar
                raise InputError(f"{called} is empty: name a file or folder")
        return super().parse_args(ctx, args)


FILE, FOLDER, PATH, NAME, NAMES, COLUMN, N, X = "FILE", "FOLDER", "PATH", "NAME", "NAMES", "COLUMN", "N", "X"
"""What options take, as help shows it."""

Json = Annotated[Path | None, Option(metavar=FILE, help="Write the complete result as JSON.")]
Html = Annotated[Path | None, Option(metavar=FILE, help="Write an HTML report with figures.")]
Quiet = Annotated[bool, Option("--quiet", help="Print nothing but errors.")]
Folder = Annotated[
    Path | None, Option(metavar=FOLDER, help="Folder of data sets; default: the environment variable ISOREP_DATA.")
]
Ids = Annotated[str | None, Option(metavar=COLUMN, help="Column or array with row ids; default: ids or id.")]
Groups = Annotated[
    str | None,
    Option(
        metavar=COLUMN,
        help="Keep rows of one group together in folds and shuffles: a column of the first file, FILE::COLUMN or an "
        "npy file.",
    ),
]
Within = Annotated[
    str | None,
    Option(
        metavar=COLUMN,
        help="Shuffle rows inside these classes only, so that chance includes what classes explain; given as --groups.",
    ),
]
Dask = Annotated[
    str | None,
    Option(
        metavar="SCHEDULER",
        help="Read and compute in the workers of a Dask cluster: the scheduler's address, such as tcp://host:8786, or "
        "local, or local:N for N worker processes on this machine; default: no cluster.",
    ),
]
Obs = Annotated[
    str | None,
    Option(
        metavar=FILE,
        help="Table that describes the rows, to read extreme rows against, joined by row id; FILE::A,B names columns; "
        "default: the columns of DATA that are not features.",
    ),
]
DropIds = Annotated[bool, Option("--drop-ids", help="Do not write row ids.")]


def show(text: str = "") -> None:
    """Print text that has its lines already; on a terminal verdicts and marked rows are bold.

    NO_COLOR and a dumb terminal leave all text plain.
    """
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    bold = False
    for line in visible(text, keep="\n\t").split("\n"):
        bold = bool(line) and (bold or line.startswith("verdict: "))
        strong = not plain and (bold or line.startswith("> "))
        print(typer.style(line, bold=True) if strong else line, flush=True)  # typer would write UTF-8 in place of ASCII


def show_path(what: str, path: Path) -> None:
    """Print where something was written, on one line."""
    show(visible(f"{what}: {path}"))


def show_result(result: object, *facts: str) -> None:
    """Print a result as text, with facts about the data after its verdict."""
    from ..results import wrapped

    verdict, _, rest = str(result).partition("\n\n")
    show("\n\n".join(filter(None, [verdict, "\n".join(wrapped(visible(fact)) for fact in facts), rest])))


def say(*sentences: str) -> None:
    """Print sentences, each wrapped to the terminal."""
    from ..results import wrapped

    for sentence in sentences:
        show(wrapped(visible(sentence)))


@contextmanager
def cluster(scheduler: str | None) -> Iterator[bool]:
    """The cluster that an option names, for as long as it is needed; whether there is one."""
    if scheduler is None:
        yield False
        return
    distributed = import_extra("distributed", "dask", "--dask")
    where, _, count = scheduler.partition(":")
    if where != "local":
        _require_workers(distributed, scheduler)
        with _one_sentence(), distributed.Client(scheduler, timeout=_PATIENCE):
            yield True
        return
    if not (count.isdecimal() and int(count) > 0 if ":" in scheduler else True):
        raise InputError(f"--dask takes an address, local, or local:N with a number of workers, not {scheduler!r}")
    workers = int(count) if count else os.cpu_count() or 1
    with (
        _one_sentence(),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs="ERROR"
        ) as made,
        distributed.Client(made),
    ):
        yield True


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Dask's own words of a lost connection are tracebacks in a log: the error that follows is said once."""
    import logging

    logs = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _require_workers(distributed: Any, scheduler: str) -> None:
    """Refuse an address without a scheduler, or one without workers, by a client that is nobody's default."""
    try:
        client = distributed.Client(scheduler, timeout=_PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"there is no Dask scheduler at {scheduler}: {error or type(error).__name__}") from error
    except TypeError as error:  # what Dask says of an encrypted connection without certificates
        raise InputError(f"{scheduler} cannot be used: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError as error:
            raise InputError(f"the Dask scheduler at {scheduler} has no workers") from error


def parts(text: str, option: str, what: str = "names separated by commas") -> list[str]:
    """What an option holds between commas; nothing at all is refused."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    if not given:
        raise InputError(f"{option} takes {what}, not {text!r}")
    return given


def numbers(
    text: str, option: str, what: str = "numbers separated by commas", kind: Callable[[str], Any] = float
) -> list[Any]:
    """The numbers that an option holds between commas."""
    try:
        return [kind(part) for part in parts(text, option, what)]
    except ValueError:
        raise InputError(f"{option} takes {what}, not {text!r}") from None


def named_limit(text: str) -> tuple[str, float]:
    """NAME=VALUE as a name, which may be empty, and a number, which is NaN where none is given."""
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError:
        return name, math.nan


def row_labels(where: str | None, source: str) -> Any:
    """Groups or classes of rows, where they are named; see :func:`isorep.storage.labels`."""
    from ..storage import labels

    return None if where is None else labels(where, source)


def require_outputs(
    outputs: Sequence[Path | None], *inputs: str | Path | None, folder: str | Path | None = None
) -> None:
    """Refuse files to write that cannot be written, or are not apart from each other and from the inputs.

    Inputs are all that options name: a column of another file is no path, and does no harm. ``folder`` is what the
    command makes besides.
    """
    from ..files import require_writable, resolved

    named = [path for path in outputs if path is not None]
    for path in named:
        require_writable(path)
    require_apart(named, *(each for each in inputs if each is not None))
    if folder is not None and resolved(Path(folder)) in map(resolved, named):
        raise InputError(f"{folder} is named twice: name another file to write")


def write_outputs(result: "ResultRecord", json: Path | None, html: Path | None) -> None:
    """Write the files that were asked for; :func:`tell_outputs` says so after the result.

    What the command has just written in a folder is not replaced by them.
    """
    from ..files import written

    made = {path.resolve() for path in written()}
    for path in (json, html):
        if path is not None and path.resolve() in made:
            raise InputError(f"{path} is a file that this command has just written: name another file to write")
    if json is not None:
        result.to_json(json)
    if html is not None:
        result.to_html(html)


def tell_outputs(json: Path | None, html: Path | None) -> None:
    """Name the files that were written."""
    if json is not None or html is not None:
        show()
    if html is not None:
        show_path("Report", html)
    if json is not None:
        show_path("Result", json)


def warn(sentence: str) -> None:
    """Print one line on stderr."""
    print_error(visible(sentence))


def fail(*sentences: str) -> None:
    """Say on stderr what exceeds a stated limit, and exit 1; nothing to say is no failure."""
    for sentence in sentences:
        warn(f"isorep: {sentence}")
    if sentences:
        raise typer.Exit(1)


def require_apart(outputs: Sequence[Path], *inputs: str | Path) -> None:
    """Refuse an output that is named twice, or that is, holds or lies in an input."""
    from ..files import resolved

    for index, path in enumerate(outputs):
        here = resolved(path)
        for given in map(plain_path, inputs):
            there = resolved(given)
            if here == there and here.exists():
                raise InputError(f"{path} is an input: name another file to write")
            if there in here.parents or here in there.parents:
                raise InputError(f"{path} and the input {given} lie in one another: name another file to write")
        if here in map(resolved, outputs[:index]):
            raise InputError(f"{path} is named twice: name another file to write")


def split_key(path: str | Path) -> tuple[Path, str | None]:
    """A path and its ``::NAME``, where it has one."""
    from ..storage.registry import split_key as split

    return split(path, None)


def plain_path(path: str | Path) -> Path:
    """A path without its ``::NAME``."""
    return split_key(path)[0]
