"""``isorep similarity``: every index of two files with its chance level, or one index layer by layer."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import (
    NAMES,
    Dask,
    Groups,
    Html,
    Ids,
    Json,
    N,
    Quiet,
    Within,
    cluster,
    fail,
    named_limit,
    parts,
    progress_bar,
    require_outputs,
    row_labels,
    show,
    tell_outputs,
    write_outputs,
)

if TYPE_CHECKING:
    from ..representation import Array, Representation
    from ..similarity import LayerMatrix, Similarities


def command(
    source: Annotated[str, Argument(metavar="A", help="File of any format, or folder of shards.")],
    target: Annotated[str, Argument(metavar="B", help="The same examples. FILE::NAME picks an array.")],
    indices: Annotated[
        str | None,
        Option(
            metavar=NAMES,
            help="Indices to compute, comma-separated: cca, svcca, pwcca, linear_r2, cka, cka_debiased, cka_rbf, "
            "procrustes_distance, bures_distance, mcc, one_to_one, soft_matching, rsa, mutual_knn; default: all that "
            "the numbers of rows and columns allow.",
        ),
    ] = None,
    layers: Annotated[
        str | None,
        Option(
            metavar=NAMES,
            help="Compare layer by layer: names of arrays in both files, or of layers in both folders, by commas; "
            "default: all layers of folders that isorep extract wrote.",
        ),
    ] = None,
    target_layers: Annotated[
        str | None, Option(metavar=NAMES, help="Layers of B, if their names differ; default: those of --layers.")
    ] = None,
    permutations: Annotated[
        int, Option(metavar=N, help="Number of shuffled pairings for the chance level, 0 for none.")
    ] = 200,
    groups: Groups = None,
    within: Within = None,
    ids: Ids = None,
    join: Annotated[bool, Option("--join", help="Align the files by row id and keep the common rows.")] = False,
    ceiling: Annotated[
        str | None,
        Option(
            metavar="C[,D...]",
            help="Further runs of B, comma-separated: how near A comes to the noise ceiling of RSA; default: none.",
        ),
    ] = None,
    fail_below: Annotated[
        str | None, Option(metavar="INDEX=VALUE", help="Exit 1 if the corrected index is below VALUE.")
    ] = None,
    dask: Dask = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of the shuffled pairings.")] = 0,
) -> None:
    """How similar are A and B by each index, compared with shuffled rows?

    Prints every index with its chance level, the corrected value (0 chance, 1 a perfect match) and a p-value.
    """
    from .. import similarity
    from ..storage import read
    from ..storage.layers import holds_layers

    runs = [] if ceiling is None else parts(ceiling, "--ceiling", "files separated by commas")
    require_outputs([json, html], source, target, *runs, groups, within)
    if target_layers is not None and layers is None:
        raise InputError("--target-layers names the layers of B for --layers: name those of A too")
    names = None if indices is None else parts(indices, "--indices")
    limit = _parse_limit(fail_below, permutations, names)
    by_layer = layers is not None or any(map(holds_layers, (source, target)))
    if by_layer and (limit is not None or (names is not None and len(names) != 1)):
        raise InputError("layer by layer there is one index (--indices NAME) and no --fail-below")
    if by_layer and runs:
        raise InputError("--ceiling is for two files, and not layer by layer")
    settings: dict[str, Any] = {
        "permutations": permutations,
        "join": join,
        "random_state": seed,
    }
    result: Similarities | LayerMatrix
    with cluster(dask) as in_chunks, progress_bar(quiet) as progress:
        reading: dict[str, Any] = {"ids": ids, "besides": [groups, within], "in_chunks": in_chunks}
        if by_layer:
            (a, first, own), (b, _, other) = (
                _layers(file, named, reading) for file, named in ((source, layers), (target, target_layers or layers))
            )
            settings["groups"] = (own if own is not None else other) if groups is None else row_labels(groups, first)
            settings["within"] = row_labels(within, first)
            index = names[0] if names else "cka_debiased"
            result = similarity.layers(a, b, index=index, progress=progress, **settings)
        else:
            x, y = (read(file, **reading) for file in (source, target))
            settings |= {"groups": row_labels(groups, source), "within": row_labels(within, source)}
            settings["ceiling"] = [read(file, **reading) for file in runs]
            result = similarity.indices(x, y, names=names, progress=progress, **settings)
    write_outputs(result, json, html)
    if not quiet:
        show(str(result))
        tell_outputs(json, html)
    if limit is not None and not isinstance(result, similarity.LayerMatrix):
        _judge(result, *limit)


def _layers(
    path: str, names: str | None, reading: dict[str, Any]
) -> "tuple[dict[str, Representation], str, Array | None]":
    """The named arrays of a file, or layers of a folder; the path of their rows' labels, and their own groups."""
    from ..storage import read
    from ..storage.layers import open_layers

    what = "different names, separated by commas"
    wanted = None if names is None else parts(names, "--layers", what)
    if wanted is not None and len(set(wanted)) < len(wanted):
        raise InputError(f"--layers takes {what}, not {names!r}")
    if wanted is not None and (not Path(path).is_dir() or Path(path).suffix.lower() == ".zarr"):
        return {name: read(f"{path}::{name}", **reading) for name in wanted}, path, None
    folder = open_layers(path, wanted)
    found = {name: folder.read(name, **reading) for name in folder.files}
    first = next(iter(found))
    return {name: layer for name, (layer, _) in found.items()}, str(folder.files[first]), found[first][1]


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
