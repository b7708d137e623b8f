"""``isorep report``: the HTML page of a result that was written with ``--json``."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import FILE, Quiet


def command(
    result: Annotated[Path, Argument(metavar="RESULT", help="A result that isorep wrote with --json.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar=FILE, help="Page to write; default: RESULT with the suffix .html."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Turn a result into one HTML file: figures and tables inside, no network needed."""
    from ..files import require_writable
    from ..report import read_result, write

    output = result.with_suffix(".html") if output is None else output
    if output.resolve() == result.resolve():
        raise InputError(f"the page would replace {result}: name another file with -o")
    require_writable(output)
    write(read_result(result), output)
    if not quiet:
        print(f"wrote {output}")
