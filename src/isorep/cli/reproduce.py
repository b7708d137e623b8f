"""``isorep reproduce``: run a published experiment at a chosen scale, or resume it."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import (
    FOLDER,
    NAMES,
    Folder,
    Html,
    Interrupted,
    Json,
    N,
    Quiet,
    progress_bar,
    require_outputs,
    say,
    show,
    tell_outputs,
    write_outputs,
)


def command(
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="The experiment: classes, contrastive, deconfounding, disentanglement, inversion, layers, "
            "pretrained, released, slots, warmup or words.",
        ),
    ],
    scale: Annotated[
        str, Option(metavar="SCALE", help="Size of the run: smoke (seconds), laptop (half an hour) or paper.")
    ] = "laptop",
    data: Folder = None,
    out: Annotated[
        Path | None,
        Option(metavar=FOLDER, help="Folder for units, tables and figures; default: isorep-NAME-SCALE."),
    ] = None,
    models: Annotated[str | None, Option(metavar=NAMES, help="Short for --set models=NAMES.")] = None,
    changes: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated.")
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed that all others are derived from.")] = 0,
) -> None:
    """Run a published experiment, test its claims and compare its numbers with the published ones.

    Finished units of work are kept: after an interruption the same command resumes.
    """
    from ..reproduction import reproduce

    require_outputs([json, html], folder=out)
    folder: Path | None = None

    def started(place: Path, finished: int, units: int) -> None:
        nonlocal folder
        folder = place
        if finished and not quiet:
            say(f"{place} holds {finished} of {units} units: resuming")
            show()
            sys.stdout.flush()

    try:
        with progress_bar(quiet) as progress:
            result = reproduce(
                name,
                scale=scale,
                data=data,
                out=out,
                random_state=seed,
                settings=_pairs([*(changes or []), *([] if models is None else [f"models={models}"])]),
                progress=progress,
                started=started,
            )
    except KeyboardInterrupt:
        if folder is None:
            raise
        kept = len(list((folder / "units").glob("[!.]*.json")))
        units = "1 finished unit" if kept == 1 else f"{kept} finished units"
        raise Interrupted(f"{folder} keeps {units}: the same command resumes there") from None
    write_outputs(result, json, html)
    if not quiet:
        show(str(result))
        show(f"\nRun: {result.folder} (config.json, metrics.json, table.txt, units, figures)")
        tell_outputs(json, html)


def _pairs(changes: list[str]) -> dict[str, str]:
    settings = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set takes KEY=VALUE, not {change!r}")
        settings[name.strip()] = value.strip()
    return settings
