"""Components in AnnData: an entry of obsm for the rows, loadings for the columns, and results in uns.

``uns`` takes no tuples and no lists of dicts, so it holds one JSON text and plain arrays.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ..annotated import entries_of, is_annotated
from ..errors import InputError, missing_extra
from ..files import finite_json, replacing, require_writable
from ..representation import Representation, as_representation
from ..storage import read
from ..storage.hdf5 import writing
from .result import Deconfounding


def annotate(result: Deconfounding, target: Any, *, key: str, output: str | Path | None) -> Any:
    """Write the components of a result into an AnnData object or an ``.h5ad`` file.

    ``obsm[key]`` holds the components of all rows; ``uns``, under the key without ``X_``, the JSON of the result, the
    unmixing and mixing matrices and each component's association with label and batch. Where the embedding was X
    or a layer, ``varm`` holds the mixing matrix too, one row per variable. An object is changed in memory, also a
    backed one, whose ``write()`` then stores it. In a file only these entries are written, into ``output`` or in place,
    completely or not at all.
    """
    if not key.removeprefix("X_") or "/" in key:
        raise InputError(f"key is {key!r} and must be a name for obsm without /")
    if is_annotated(target):
        if output is not None:
            raise InputError("output is for files: write the AnnData object yourself")
        rows = as_representation(target, "AnnData", result.place, repeated_ids=True)
        place = entries_of(target).choose(result.place)
        for path, content in _contents(result, rows, key, place).items():
            group, _, name = path.partition("/")
            getattr(target, group)[name] = content
        return target
    _write(result, Path(target), Path(target if output is None else output), key)
    return None


def _contents(result: Deconfounding, rows: Representation, key: str, place: str) -> dict[str, Any]:
    """The entries to write, by path."""
    name = key.removeprefix("X_")
    components = result.components
    sources, model = result.transform(rows), result.model
    assert model is not None, "transform refuses a result without a model"
    contents: dict[str, Any] = {
        f"obsm/{key}": sources,
        f"uns/{name}": {
            "json": finite_json(result.to_dict()),
            "unmixing": model.components_,
            "mixing": model.mixing_,
            "mean": model.mean_,
            "matrix": place,
            "label_r2": np.array([component.label_r2 for component in components]),
            "batch_r2": np.array([list(component.batch_r2.values()) for component in components]),
            "batch_columns": np.array(list(result.data.batch), dtype=object),
            "batch_driven": np.array([component.batch_driven for component in components]),
        },
    }
    if place == "X" or place.startswith("layers/"):
        contents[f"varm/{name}"] = np.asarray(model.mixing_)
    return contents


def _write(result: Deconfounding, path: Path, output: Path, key: str) -> None:
    """Copy the file, add the entries to the copy, and put it in place: X is never loaded."""
    if path.suffix.lower() != ".h5ad" or output.suffix.lower() != ".h5ad":
        raise InputError(f"components are written into .h5ad files, not from {path.name} to {output.name}")
    require_writable(output)
    try:
        from anndata.io import write_elem  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise missing_extra("anndata", "bio", "writing into an h5ad file") from None
    rows = read(path, key=result.place, repeated_ids=True)
    contents = _contents(result, rows, key, rows.origin.rpartition("::")[2])
    with replacing(output.resolve()) as temporary:
        shutil.copyfile(path, temporary)
        with writing(temporary, "r+") as (file, _):
            for name, content in contents.items():
                if name in file:
                    del file[name]
                write_elem(file, name, content)
