"""``isorep datasets``: which data sets are known and where they are, and a download of those that allow it."""

from typing import Annotated, Any

import typer
from typer import Argument

from .common import Folder, Interrupted, Json, Quiet, progress_bar, require_outputs

app = typer.Typer(
    help="Public data sets with known factors: list them, download them.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_command(folder: Folder = None, json: Json = None, quiet: Quiet = False) -> None:
    """Print the data sets, whether their files are there, and where they come from."""
    from ..datasets.catalogue import names, present, published_set
    from ..datasets.folder import data_folder
    from ..files import finite_json, write_text

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
    for fact in facts:
        state = "there" if fact["present"] else "download" if fact["urls"] else "by hand"
        print(f"{fact['name']:<20} {state:<9} {fact['title']}")
        print(f"{'':<20} {'':<9} {fact['file']}")
        if not fact["present"]:
            print(f"{'':<20} {'':<9} {fact['urls'][0] if fact['urls'] else fact['by_hand']}")
    print(f"\nfolder: {data}" if data is not None else "\nno folder: give --folder, or set ISOREP_DATA")


@app.command("download")
def download_command(
    name: Annotated[str, Argument(metavar="NAME", help="A data set; isorep datasets list names them.")],
    folder: Folder = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Download a data set from its owner's host into the folder of data sets.

    The same command goes on where it was stopped. Files that are there are checked and kept.
    """
    from ..datasets.download import download
    from ..files import finite_json, write_text

    require_outputs([json])
    try:
        with progress_bar(quiet) as progress:
            done = download(name, folder, progress=progress)
    except KeyboardInterrupt:
        raise Interrupted("what has come is kept: the same command goes on from there") from None
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
        print(f"{each.path}  {each.size} bytes, {against}")
        print(f"  sha256 {each.sha256}")
