"""The ``isorep`` command. Commands load what they need when they run, so that help is instant."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .._version import __version__
from . import compare, demo, doctor

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
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


app.command("compare")(compare.command)
app.command("demo")(demo.command)
app.command("doctor")(doctor.command)


def run() -> None:
    """Run the command line: exit 2 and one sentence for wrong input, never a traceback for it."""
    from ..errors import InputError

    try:
        app()
    except InputError as error:
        _stop(str(error), 2)
    except KeyboardInterrupt:
        _stop("interrupted; nothing was written", 130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except MemoryError:
        _stop("not enough memory for this input", 2)
    except OSError as error:
        _stop(f"{error.filename or 'a file'}: {error.strerror or error}", 2)


def _stop(sentence: str, code: int) -> None:
    print(f"isorep: {sentence}", file=sys.stderr)
    sys.exit(code)
