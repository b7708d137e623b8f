"""``isorep reproduce``: run a published experiment at a chosen scale, or go on with it."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import Folder, Html, Interrupted, Json, Quiet, progress_bar, require_outputs, write_outputs


def command(
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="The experiment: classes, contrastive, deconfounding, disentanglement, layers, pretrained, slots, "
            "warmup or words.",
        ),
    ],
    scale: Annotated[str, Option(help="smoke (seconds), laptop (half an hour) or paper.")] = "laptop",
    data: Folder = None,
    out: Annotated[
        Path | None, Option(help="Keep units, tables and figures here; by default isorep-NAME-SCALE.")
    ] = None,
    models: Annotated[str | None, Option(metavar="NAMES", help="Short for --set models=NAMES.")] = None,
    changes: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Change a setting; repeatable.")
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(help="The seed that all others are derived from.")] = 0,
) -> None:
    """Run a published experiment and print its table beside the published one.

    Finished units of work are kept: the same command goes on where it was stopped.
    """
    from ..reproduction import reproduce

    require_outputs([json, html])
    folder: Path | None = None

    def started(place: Path, finished: int, units: int) -> None:
        nonlocal folder
        folder = place
        if finished and not quiet:
            print(f"{place} holds {finished} of {units} units: going on from there\n", flush=True)

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
        kept = len(list((folder / "units").glob("*.json")))
        raise Interrupted(f"{folder} keeps {kept} finished units: the same command goes on from there") from None
    write_outputs(result, json, html)
    if not quiet:
        print(result)
        print(f"wrote {result.folder}: config.json, metrics.json, table.txt, units, figures")


def _pairs(changes: list[str]) -> dict[str, str]:
    settings = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--set takes KEY=VALUE, not {change!r}")
        settings[name.strip()] = value.strip()
    return settings
