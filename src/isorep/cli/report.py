"""``isorep report``: the HTML page of results that were written with ``--json``, of one or of several."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import FILE, Quiet, show_path


def command(
    results: Annotated[
        list[Path], Argument(metavar="RESULT...", help="Results that isorep wrote with --json; several make one page.")
    ],
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar=FILE,
            help="Page to write; default: RESULT with the suffix .html, report.html for several results.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Turn results into one HTML file: figures and tables inside, no network needed."""
    from ..files import require_writable, resolved
    from ..report import read_result, write

    if output is None:
        output = results[0].with_suffix(".html") if len(results) == 1 and results[0].name else Path("report.html")
    for result in results:
        if resolved(output) == resolved(result):
            raise InputError(f"the page would replace {result}: name another file with -o")
    require_writable(output)
    write([read_result(result) for result in results], output)
    if not quiet:
        show_path("Report", output)
