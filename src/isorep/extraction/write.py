r"""From rows that lie in a working folder to files: names, ids and groups, written completely or not at all.

What a layer's rows are like, from one pass over them in blocks.

The effective rank is the participation ratio :math:`(\operatorname{tr} C)^2 / \operatorname{tr} C^2` of the covariance
:math:`C`: the number of dimensions over which variance would be spread evenly to look the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..errors import InputError
from ..files import replacing
from ..moments import Moments
from ..representation import Array
from ..settings import check_choice
from ..storage.lazy import release
from ..storage.npy import write_array
from ..storage.registry import RowStream
from ..storage.write import require_plain_ids, require_target, write_rows

FORMATS = ("parquet", "zarr", "npy")
GROUP = "group"
_SUFFIXES = (".parquet", ".pq", ".zarr", ".npy")
_STEP = 2**16


class RowLabels:
    """Ids or groups of rows, made slice by slice from those of documents."""

    def __init__(self, labels: Array, places: Array, positions: Array | None = None) -> None:
        self._labels, self._places, self._positions = labels, places, positions
        self.dtype = labels.dtype if positions is None else np.dtype(f"<U{self._width()}")

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, rows: slice) -> Array:
        found: Array = self._labels[np.asarray(self._places[rows])]
        if self._positions is None:
            return found
        named = zip(found.tolist(), np.asarray(self._positions[rows]).tolist(), strict=True)
        return np.array([f"{label}:{position}" for label, position in named], dtype=self.dtype)

    def _width(self) -> int:
        longest = self._labels.dtype.itemsize // 4 if self._labels.dtype.kind == "U" else 20
        return longest + 21


def row_labels(journal_labels: tuple[Array, Array, list[Any]], *, tokens: bool) -> tuple[RowLabels, RowLabels | None]:
    """Ids of rows, and their groups: the document of a token, or the groups that the data name."""
    places, positions, documents = journal_labels
    names = _column([label for label, _ in documents])
    given = [group for _, group in documents]
    grouped = any(group is not None for group in given)
    groups = RowLabels(_column(given) if grouped else names, places) if grouped or tokens else None
    return RowLabels(names, places, positions if tokens else None), groups


def targets(output: str | Path, format: str | None, layers: Sequence[str]) -> dict[str, Path]:
    """Where each layer goes: a pattern with ``{layer}``, a folder, or for one layer a file."""
    text = str(output)
    if format is not None:
        check_choice("format", format, FORMATS)
    path = Path(output)
    names = {layer: layer.replace("/", "_") for layer in layers}
    if "{layer}" in text:
        found = {layer: Path(text.replace("{layer}", name)) for layer, name in names.items()}
    elif not path.name.lower().endswith(_SUFFIXES) and (text.endswith("/") or path.is_dir() or path.suffix == ""):
        found = {layer: path / f"{name}.{format or FORMATS[0]}" for layer, name in names.items()}
    elif len(layers) == 1:
        found = {layers[0]: path}
    else:
        raise InputError(f"{len(layers)} layers do not fit into {path}: name a folder, or a pattern with {{layer}}")
    for target in found.values():
        if not target.name.lower().endswith(_SUFFIXES):
            raise InputError(f"{target} cannot be written: features go to {', '.join(_SUFFIXES)}")
        if format is not None and not target.name.lower().endswith((f".{format}", ".pq")):
            raise InputError(f"{target} is not named as {format}")
        target.parent.mkdir(parents=True, exist_ok=True)
        require_target(target)
    return found


def working_folder(output: str | Path, files: Sequence[Path]) -> Path:
    """Where rows lie until they are complete: a hidden folder beside what is written."""
    name = Path(str(output).replace("{layer}", "layer")).name
    is_folder = not name.lower().endswith(_SUFFIXES)
    return files[0].parent / f".{'features' if is_folder else name}.extracting"


def require_apart(files: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Refuse to write over what is read."""
    places = {path.resolve() for path in inputs}
    for file in files:
        if file.resolve() in places:
            raise InputError(f"{file} is an input: name another file to write")


def save(target: Path, values: Array, ids: RowLabels, groups: RowLabels | None) -> None:
    """Write one layer; npy holds values alone, so its ids and groups lie beside it."""
    if not target.name.lower().endswith(".npy"):
        extra = {} if groups is None else {GROUP: groups}
        write_rows(RowStream(values, cast(Array, ids), values.dtype, extra), target)
        return
    if ids.dtype.kind == "U" and ids.dtype.itemsize > 4 * 1024:
        raise InputError("ids of more than 1000 characters do not go beside an npy file: write parquet")
    for path, labels in ((beside(target, "ids"), ids), (beside(target, GROUP), groups)):
        if labels is not None:
            with replacing(path) as temporary, temporary.open("wb") as file:
                blocks = (labels[slice(start, start + _STEP)] for start in range(0, len(labels), _STEP))
                write_array(file, (len(labels),), labels.dtype, blocks)
    write_rows(RowStream(values, None, values.dtype), target)


def beside(target: Path, what: str) -> Path:
    """The file of ids or groups beside an npy file."""
    return target.with_name(f"{target.name[: -len('.npy')]}.{what}.npy")


def _column(labels: Sequence[int | str]) -> Array:
    """Whole numbers where all are, otherwise text."""
    if all(isinstance(label, int) and abs(label) < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    found = np.array([str(label) for label in labels], dtype=str)
    require_plain_ids(found)
    return found


_SAMPLE = 20_000
_WIDEST = 4096
_CELLS = 2**20


def describe(values: Array) -> dict[str, Any]:
    """Basic figures of a layer: one pass over all rows, and moments of at most 20,000 of them, evenly spaced.

    ``constant`` units never change, and of these ``dead`` ones are always 0.
    """
    rows, columns = values.shape
    step = max(1, _CELLS // columns)
    least, most = np.full(columns, np.inf), np.full(columns, -np.inf)
    norms = 0.0
    for start in range(0, rows, step):
        block = np.asarray(values[start : start + step], dtype=np.float64)
        release(values)
        norms += float(np.sqrt(np.einsum("ij,ij->i", block, block)).sum())
        np.minimum(least, block.min(axis=0), out=least)
        np.maximum(most, block.max(axis=0), out=most)
    still = least == most
    return {
        "mean_norm": norms / rows,
        "largest": float(max(most.max(), -least.min())),
        "constant": int(still.sum()),
        "dead": int((still & (most == 0)).sum()),
        "effective_rank": _effective_rank(values, step),
    }


def _effective_rank(values: Array, step: int) -> float | None:
    rows, columns = values.shape
    if rows < 2 or columns > _WIDEST:
        return None
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLE)).astype(np.int64))
    moments = Moments.empty(columns, 0)
    for start in range(0, len(chosen), step):
        block = np.asarray(values[chosen[start : start + step]], dtype=np.float64)
        moments.absorb_rows(block, block[:, :0])
    release(values)
    total, squares = float(np.trace(moments.xx)), float(np.einsum("ij,ij->", moments.xx, moments.xx))
    return total**2 / squares if squares > 0 else 0.0
