"""``isorep similarity``: every index of two files with its chance level, or one index layer by layer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import Html, Json, Quiet

if TYPE_CHECKING:
    from ..representation import Representation
    from ..similarity import LayerMatrix, Similarities


def command(
    source: Annotated[str, typer.Argument(metavar="A", help="A file of any format, or a folder of shards.")],
    target: Annotated[str, typer.Argument(metavar="B", help="The same examples. FILE::NAME picks an array.")],
    indices: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated, from cca, svcca, pwcca, linear_r2, cka, cka_debiased, cka_rbf, procrustes_distance, "
            "mcc, mutual_knn; by default all that the number of rows allows."
        ),
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Compare layer by layer: comma-separated names of arrays in both files, or of files in both folders.",
        ),
    ] = None,
    target_layers: Annotated[
        str | None, typer.Option(metavar="NAMES", help="The layers of B, if named otherwise.")
    ] = None,
    permutations: Annotated[int, typer.Option(help="Shuffled pairings for the null; 0 for none.")] = 200,
    groups: Annotated[
        str | None,
        typer.Option(help="Rows that belong together: a column (or array) of A, or FILE::COLUMN, or an npy file."),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            help="Classes inside which rows are shuffled, so that chance includes what the classes alone explain: a "
            "column (or array) of A, or FILE::COLUMN, or an npy file."
        ),
    ] = None,
    ids: Annotated[str | None, typer.Option(help="The column or array with row ids, in both files.")] = None,
    fail_below: Annotated[
        str | None,
        typer.Option(metavar="INDEX=VALUE", help="Exit 1 if the null-corrected value of an index is below this."),
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="Seed of the permutations.")] = 0,
) -> None:
    """How similar are A and B, index by index, and how similar would chance make them?"""
    from .. import similarity
    from ..errors import InputError
    from ..storage import labels
    from .common import progress_bar, require_outputs, write_outputs

    require_outputs([json, html], source, target)
    if target_layers is not None and layers is None:
        raise InputError("--target-layers names the layers of B for --layers: name those of A too")
    names = None if indices is None else [name.strip() for name in indices.split(",") if name.strip()]
    limit = _parse_limit(fail_below, permutations, names)
    together = None if groups is None else labels(groups, source)
    classes = None if within is None else labels(within, source)
    result: Similarities | LayerMatrix
    with progress_bar(quiet) as progress:
        if layers is None:
            result = similarity.indices(
                _read(source, ids, groups),
                _read(target, ids, groups),
                names=names,
                permutations=permutations,
                groups=together,
                within=classes,
                random_state=seed,
                progress=progress,
            )
        else:
            if limit is not None or (names is not None and len(names) != 1):
                raise InputError("layer by layer there is one index (--indices NAME) and no --fail-below")
            result = similarity.layers(
                _layers(source, layers, ids, groups),
                _layers(target, target_layers or layers, ids, groups),
                index=names[0] if names else "cka_debiased",
                permutations=permutations,
                groups=together,
                within=classes,
                random_state=seed,
                progress=progress,
            )
    write_outputs(result, json, html)
    if not quiet:
        print(result)
    if limit is not None and not isinstance(result, similarity.LayerMatrix):
        _judge(result, *limit)


def _read(path: str, ids: str | None, groups: str | None) -> Representation:
    from ..storage import read

    return read(path, ids=ids, besides=[groups])


def _layers(path: str, names: str, ids: str | None, groups: str | None) -> dict[str, Representation]:
    """The named arrays of a file, or the named files of a folder."""
    from ..errors import InputError

    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError(f"--layers takes different names, separated by commas, not {names!r}")
    folder = Path(path)
    if not folder.is_dir() or folder.suffix.lower() == ".zarr":
        return {name: _read(f"{path}::{name}", ids, groups) for name in wanted}
    found = {}
    for name in wanted:
        matches = sorted(each for each in folder.iterdir() if name in (each.name, each.stem))
        if len(matches) != 1:
            count = "no file" if not matches else f"{len(matches)} files"
            raise InputError(f"{folder} holds {count} called {name!r}")
        found[name] = _read(str(matches[0]), ids, groups)
    return found


def _parse_limit(text: str | None, permutations: int, names: list[str] | None) -> tuple[str, float] | None:
    from ..errors import InputError
    from ..similarity import INDICES

    if text is None:
        return None
    name, _, number = text.rpartition("=")
    try:
        limit = float(number)
    except ValueError:
        limit = float("nan")
    if name not in INDICES or not limit <= 1:
        raise InputError(f"--fail-below takes INDEX=VALUE with a value of at most 1, not {text!r}")
    if names is not None and name not in names:
        raise InputError(f"--fail-below names {name}, which is not among --indices")
    if permutations < 1:
        raise InputError("--fail-below judges the null-corrected value, which needs --permutations")
    return name, limit


def _judge(result: Similarities, name: str, limit: float) -> None:
    from ..errors import InputError
    from .common import fail

    if name not in result.indices:
        raise InputError(f"--fail-below names {name}, which was left out for so many rows: name it in --indices")
    corrected = result[name].corrected
    if corrected is None or not math.isfinite(corrected):
        fail(f"{name} has no corrected value for these rows, so the limit {limit:g} is not met")
    elif corrected < limit:
        fail(f"the corrected {name}, {corrected:.4f}, is below the limit {limit:g}")
