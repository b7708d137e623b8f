"""``isorep similarity``: every index of two files with its chance level, or one index layer by layer."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import (
    Groups,
    Html,
    Ids,
    Json,
    Quiet,
    Within,
    fail,
    named_limit,
    parts,
    progress_bar,
    require_outputs,
    row_labels,
    write_outputs,
)

if TYPE_CHECKING:
    from ..representation import Representation
    from ..similarity import LayerMatrix, Similarities


def command(
    source: Annotated[str, Argument(metavar="A", help="A file of any format, or a folder of shards.")],
    target: Annotated[str, Argument(metavar="B", help="The same examples. FILE::NAME picks an array.")],
    indices: Annotated[
        str | None,
        Option(
            help="Comma-separated, from cca, svcca, pwcca, linear_r2, cka, cka_debiased, cka_rbf, procrustes_distance, "
            "mcc, mutual_knn; by default all that the number of rows allows."
        ),
    ] = None,
    layers: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Compare layer by layer: comma-separated names of arrays in both files, or of files in both folders.",
        ),
    ] = None,
    target_layers: Annotated[str | None, Option(metavar="NAMES", help="The layers of B, if named otherwise.")] = None,
    permutations: Annotated[int, Option(help="Shuffled pairings for the null; 0 for none.")] = 200,
    groups: Groups = None,
    within: Within = None,
    ids: Ids = None,
    fail_below: Annotated[
        str | None, Option(metavar="INDEX=VALUE", help="Exit 1 if a corrected index is below this.")
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(help="Seed of the permutations.")] = 0,
) -> None:
    """How similar are A and B, index by index, and how similar would chance make them?"""
    from .. import similarity

    require_outputs([json, html], source, target)
    if target_layers is not None and layers is None:
        raise InputError("--target-layers names the layers of B for --layers: name those of A too")
    names = None if indices is None else parts(indices, "--indices")
    limit = _parse_limit(fail_below, permutations, names)
    if layers is not None and (limit is not None or (names is not None and len(names) != 1)):
        raise InputError("layer by layer there is one index (--indices NAME) and no --fail-below")
    settings: dict[str, Any] = {
        "permutations": permutations,
        "groups": row_labels(groups, source),
        "within": row_labels(within, source),
        "random_state": seed,
    }
    result: Similarities | LayerMatrix
    with progress_bar(quiet) as progress:
        if layers is None:
            a, b = (_read(file, ids, groups) for file in (source, target))
            result = similarity.indices(a, b, names=names, progress=progress, **settings)
        else:
            result = similarity.layers(
                _layers(source, layers, ids, groups),
                _layers(target, target_layers or layers, ids, groups),
                index=names[0] if names else "cka_debiased",
                progress=progress,
                **settings,
            )
    write_outputs(result, json, html)
    if not quiet:
        print(result)
    if limit is not None and not isinstance(result, similarity.LayerMatrix):
        _judge(result, *limit)


def _read(path: str, ids: str | None, groups: str | None) -> "Representation":
    from ..storage import read

    return read(path, ids=ids, besides=[groups])


def _layers(path: str, names: str, ids: str | None, groups: str | None) -> "dict[str, Representation]":
    """The named arrays of a file, or the named files of a folder."""
    what = "different names, separated by commas"
    wanted = parts(names, "--layers", what)
    if len(set(wanted)) < len(wanted):
        raise InputError(f"--layers takes {what}, not {names!r}")
    folder = Path(path)
    if not folder.is_dir() or folder.suffix.lower() == ".zarr":
        return {name: _read(f"{path}::{name}", ids, groups) for name in wanted}
    layers = {}
    for name in wanted:
        matches = sorted(each for each in folder.iterdir() if name in (each.name, each.stem))
        if len(matches) != 1:
            count = "no file" if not matches else f"{len(matches)} files"
            raise InputError(f"{folder} holds {count} called {name!r}")
        layers[name] = _read(str(matches[0]), ids, groups)
    return layers


def _parse_limit(text: str | None, permutations: int, names: list[str] | None) -> tuple[str, float] | None:
    from ..similarity import INDICES

    if text is None:
        return None
    name, limit = named_limit(text)
    if name not in INDICES or not limit <= 1:
        raise InputError(f"--fail-below takes INDEX=VALUE with a value of at most 1, not {text!r}")
    if names is not None and name not in names:
        raise InputError(f"--fail-below names {name}, which is not among --indices")
    if permutations < 1:
        raise InputError("--fail-below judges the null-corrected value, which needs --permutations")
    return name, limit


def _judge(result: "Similarities", name: str, limit: float) -> None:
    if name not in result.indices:
        raise InputError(f"--fail-below names {name}, which was left out for so many rows: name it in --indices")
    corrected = result[name].corrected
    if corrected is None or not math.isfinite(corrected):
        fail(f"{name} has no corrected value for these rows, so the limit {limit:g} is not met")
    elif corrected < limit:
        fail(f"the corrected {name}, {corrected:.4f}, is below the limit {limit:g}")
