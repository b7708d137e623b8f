"""The ``isorep`` command. Commands load what they need when they run, so that help is instant.

Annotations are not postponed in this room: typer would evaluate the text of each of them twice.
"""

import errno
import io
import os
import signal
import sys
import threading
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from typing import Annotated, Any, NoReturn

import typer
from typer import Option
from typer.core import TyperGroup

from .._version import ISSUES, __version__
from ..errors import InputError
from ..files import visible, without_secrets
from . import (
    blocks,
    compare,
    datasets,
    decoder,
    deconfound,
    dictionaries,
    disentangle,
    doctor,
    extract,
    heads,
    ica,
    report,
    reproduce,
    similarity,
    structure,
    translate,
)
from .common import Command, Interrupted

GROUPS = {
    "Compare": {
        "compare": "Are two or more runs the same, up to what?",
        "similarity": "Similarity indices with chance levels",
        "dictionaries": "Do atoms of sparse autoencoders recur?",
        "blocks": "Find what views of the same examples share",
        "translate": "Map old embeddings to a new model's",
    },
    "Factors": {
        "ica": "Fit, apply and test independent components",
        "structure": "Score latents against known factors",
        "disentangle": "Find factors of variation in your images",
        "deconfound": "Separate biology from batch effects",
    },
    "Theory": {
        "decoder": "Test how close a decoder is to an isometry",
        "heads": "Test linear identifiability from heads",
        "reproduce": "Rerun a published experiment",
    },
    "Data": {
        "extract": "Save activations of a model's layers",
        "datasets": "List and download public data sets",
    },
    "Utilities": {
        "demo": "Train and compare two small models",
        "report": "Turn a JSON result into an HTML report",
        "doctor": "Show versions, extras, BLAS and threads",
    },
}
"""The commands in the groups and with the summaries that ``isorep --help`` shows."""

_MOST_ARENAS = -8  # M_ARENA_MAX of malloc.h


class _Grouped(TyperGroup):
    """Commands by group, in the order of ``GROUPS``."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for group in GROUPS.values() for name in group]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        longest = max(map(len, self.list_commands(ctx)))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), summary) for name, summary in group.items()])


app = typer.Typer(
    name="isorep",
    cls=_Grouped,
    help="Are two neural representations the same, and up to what?",
    epilog="isorep COMMAND --help shows the options of a command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"isorep {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


app.command("compare", cls=Command)(compare.command)
app.command("similarity", cls=Command)(similarity.command)
app.command("dictionaries", cls=Command)(dictionaries.command)
app.command("blocks", cls=Command)(blocks.command)
app.add_typer(ica.app, name="ica")
app.add_typer(translate.app, name="translate")
app.command("structure", cls=Command)(structure.command)
app.command("decoder", cls=Command)(decoder.command)
app.command("heads", cls=Command)(heads.command)
app.command("deconfound", cls=Command)(deconfound.command)
app.command("disentangle", cls=Command)(disentangle.command)
app.command("extract", cls=Command)(extract.command)
app.command("reproduce", cls=Command)(reproduce.command)
app.add_typer(datasets.app, name="datasets")
app.command("demo", cls=Command)(compare.demo)
app.command("report", cls=Command)(report.command)
app.command("doctor", cls=Command)(doctor.command)


def run() -> None:
    """Run the command line: exit 2 and one sentence for wrong input, never a traceback for it."""
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show is no reason to stop
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not any(isinstance(finder, _Postponed) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Postponed())
    _share_freed_memory()
    with _Asked() as asked:
        _run(asked)


def _share_freed_memory() -> None:
    """Let all threads allocate from one arena, where the C library is glibc.

    By default each thread keeps what it frees for itself: of 50,000 x 768 that is a fifth of the peak.
    """
    import ctypes

    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_MOST_ARENAS, 1)


class _Postponed:
    """Finder of parts of numpy that no command needs: they are loaded when something of them is used.

    scipy imports every public name of numpy, f2py and its parsers among them: a tenth of the time of a small command.
    """

    names = frozenset({"numpy.f2py", "numpy.testing"})

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in self.names else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def _run(asked: "_Asked") -> NoReturn:
    try:
        code = app(standalone_mode=False)
        if code == 130:  # how newer versions of typer report what older ones raise
            raise KeyboardInterrupt
        sys.stdout.flush()
    except InputError as error:
        _stop(str(error), 2)
    except Interrupted as stopped:
        _stop(f"{asked.word}; {stopped}", asked.code)
    except (KeyboardInterrupt, typer.Abort):
        _stop(f"{asked.word}; nothing was written", asked.code)
    except SystemExit:  # typer's answer to a closed pipe: whoever read our output has seen enough
        sys.exit(0)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter's last flush must not fail
        sys.exit(0)
    except MemoryError:
        _stop("not enough memory for this input", 2)
    except OSError as error:
        _stop(_told(error), 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            if "ISOREP_DEBUG" in os.environ:
                raise
            _stop(
                f"internal error: {type(error).__name__}: {error}. Please report it at {ISSUES}; ISOREP_DEBUG=1 shows "
                "where it happened",
                70,
            )
        said = error.format_message()
        if "\n" in said:  # the help of a command that was named without what it needs
            print(said, file=sys.stderr)
            sys.exit(2)
        context = getattr(error, "ctx", None)  # a wrong option or argument
        stop = "" if said.endswith("?") else "."
        _stop(f"{said.rstrip('.')}{stop} See {'isorep' if context is None else context.command_path} --help", 2)
    sys.exit(code if isinstance(code, int) else 0)


class _Asked:
    """Requests to end: SIGTERM and SIGHUP interrupt as Ctrl-C does, so that temporary files are removed."""

    def __init__(self) -> None:
        self.word, self.code = "interrupted", 130
        self._signals: list[int] = []

    def __enter__(self) -> "_Asked":
        here = threading.current_thread() is threading.main_thread()
        for name in ("SIGTERM", "SIGHUP") if here else ():
            number = getattr(signal, name, None)  # Windows has one of them
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored
                signal.signal(number, self._end)
                self._signals.append(number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._signals:
            signal.signal(number, signal.SIG_DFL)

    def _end(self, number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough: the rest is tidying up
        self.word, self.code = "terminated", 128 + number
        raise KeyboardInterrupt


def _told(error: OSError) -> str:
    """What the system says, and of which file."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"what was printed, or a scratch file (TMPDIR), cannot be written: {reason}"
    return reason


def _stop(sentence: str, code: int) -> NoReturn:
    print(f"isorep: {visible(without_secrets(sentence))}", file=sys.stderr)
    sys.exit(code)
