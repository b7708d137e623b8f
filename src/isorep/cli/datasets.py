"""``isorep datasets``: which data sets are known and where they are, and a download of those that allow it."""

from typing import Annotated, Any

import typer
from typer import Argument

from .common import Command, Folder, Interrupted, Json, Quiet, progress_bar, require_outputs, show, tell_outputs

app = typer.Typer(
    help="List and download public data sets with known factors.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list", cls=Command, short_help="List data sets and where they are")
def list_command(folder: Folder = None, json: Json = None, quiet: Quiet = False) -> None:
    """List the data sets, whether their files are present, and their sources."""
    from ..datasets.catalogue import names, present, published_set
    from ..datasets.folder import data_folder
    from ..files import finite_json, write_text
    from ..results import wrapped

    require_outputs([json])
    data = data_folder(folder)
    entries = [published_set(name) for name in names()]
    facts: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "title": entry.title,
            "file": f"{entry.name}/{entry.file}",
            "present": data is not None and present(entry, data),
            "urls": [remote.url for remote in entry.remotes],
            "by_hand": entry.by_hand or None,
        }
        for entry in entries
    ]
    if json is not None:
        write_text(json, finite_json({"schema": "isorep.datasets/1", "datasets": facts}))
    if quiet:
        return
    indent = 31
    for fact in facts:
        state = "present" if fact["present"] else "download" if fact["urls"] else "by hand"
        show(wrapped(f"{fact['name']:<20} {state:<9} {fact['title']}", indent))
        show(" " * indent + fact["file"])
        if not fact["present"]:
            show(wrapped(" " * indent + (fact["urls"][0] if fact["urls"] else fact["by_hand"]), indent))
    show(f"\nfolder: {data}" if data is not None else "\nno folder: use --folder, or set ISOREP_DATA")
    tell_outputs(json, None)


@app.command("download", cls=Command, short_help="Download a data set into the folder")
def download_command(
    name: Annotated[str, Argument(metavar="NAME", help="Name of a data set; see isorep datasets list.")],
    folder: Folder = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Download a data set from its owner's host into the folder of data sets.

    After an interruption the same command resumes. Files that are present are checked and kept.
    """
    from ..datasets.download import download
    from ..files import finite_json, write_text

    require_outputs([json])
    try:
        with progress_bar(quiet) as progress:
            done = download(name, folder, progress=progress)
    except KeyboardInterrupt:
        raise Interrupted("the part that was downloaded is kept: the same command resumes there") from None
    facts = [
        {"path": str(each.path), "size": each.size, "sha256": each.sha256, "checked": each.checked or None}
        for each in done
    ]
    if json is not None:
        write_text(json, finite_json({"schema": "isorep.download/1", "name": name, "files": facts}))
    if quiet:
        return
    for each in done:
        against = f"checked by {each.checked}" if each.checked else "no checksum is published for it"
        show(f"{each.path}  {each.size} bytes, {against}")
        show(f"  sha256 {each.sha256}")
    tell_outputs(json, None)
