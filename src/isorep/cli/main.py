"""The ``isorep`` command. Commands load what they need when they run, so that help is instant.

Annotations are not postponed in this room: typer would evaluate the text of each of them twice.
"""

import io
import os
import sys
from typing import Annotated, NoReturn

import typer
from typer import Option

from .._version import __version__
from ..errors import InputError
from . import (
    compare,
    datasets,
    decoder,
    deconfound,
    disentangle,
    extract,
    heads,
    ica,
    report,
    reproduce,
    similarity,
    structure,
    translate,
)
from .common import Interrupted

app = typer.Typer(
    name="isorep",
    help="Are two neural representations the same, and up to what?",
    no_args_is_help=True,
    add_completion=False,
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


app.command("compare")(compare.command)
app.command("similarity")(similarity.command)
app.add_typer(ica.app, name="ica")
app.add_typer(translate.app, name="translate")
app.command("structure")(structure.command)
app.command("decoder")(decoder.command)
app.command("heads")(heads.command)
app.command("deconfound")(deconfound.command)
app.command("disentangle")(disentangle.command)
app.command("extract")(extract.command)
app.command("reproduce")(reproduce.command)
app.add_typer(datasets.app, name="datasets")
app.command("demo")(compare.demo)
app.command("report")(report.command)
app.command("doctor")(report.doctor)


def run() -> None:
    """Run the command line: exit 2 and one sentence for wrong input, never a traceback for it."""
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show is no reason to stop
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        if code == 130:  # how newer versions of typer report what older ones raise
            raise KeyboardInterrupt
        sys.stdout.flush()
    except InputError as error:
        _stop(str(error), 2)
    except Interrupted as stopped:
        _stop(f"interrupted; {stopped}", 130)
    except (KeyboardInterrupt, typer.Abort):
        _stop("interrupted; nothing was written", 130)
    except SystemExit:  # typer's answer to a closed pipe: whoever read our output has seen enough
        sys.exit(0)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter's last flush must not fail
        sys.exit(0)
    except MemoryError:
        _stop("not enough memory for this input", 2)
    except OSError as error:
        _stop(f"{error.filename or 'a file'}: {error.strerror or error}", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            if "ISOREP_DEBUG" in os.environ:
                raise
            _stop(f"internal error, please report it: {type(error).__name__}: {error} (ISOREP_DEBUG=1 tells more)", 70)
        said = error.format_message()
        if "\n" in said:  # the help of a command that was named without what it needs
            print(said, file=sys.stderr)
            sys.exit(2)
        _stop(f"{said} Try isorep --help.", 2)  # a wrong option or argument
    sys.exit(code if isinstance(code, int) else 0)


def _stop(sentence: str, code: int) -> NoReturn:
    print(f"isorep: {sentence}", file=sys.stderr)
    sys.exit(code)
