"""``isorep.write``: from a Representation to a file, by suffix, completely or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import behind_link, replacing, require_writable
from ..representation import Array, Representation, as_representation
from . import parquet
from .hdf5 import copy_with
from .naming import FEATURE_PREFIX, IDS_NAMES, INDEX_NAMES
from .registry import Labels, RowStream, family, guarded, is_zarr, reader, split_key
from .remote import is_url
from .scratch import sized

_NUMBERS_ONLY = {"npy": "npy", "safetensors": "safetensors", "torch_files": "torch"}  # modules of files without text
_HALVES = re.compile("[\\ud800-\\udfff]")  # of characters: text that holds one alone has no UTF-8
_UNCOMPRESSED = ("npy", "npz", "safetensors", "hdf5", "torch_files")


def write(
    representation: Any,
    path: str | Path,
    *,
    key: str | None = None,
    drop_ids: bool = False,
    labels: Mapping[str, Labels] | None = None,
) -> None:
    """Write a representation to a file, block by block, with its row ids.

    The file appears when it is complete: a failed or interrupted write leaves no new file, and does not change an
    existing one.

    Parameters
    ----------
    representation : Representation or array
        The values to write; float16, float32 and float64 are kept, bfloat16 becomes float32.
    path : str or Path
        The suffix chooses the format: ``.npy``, ``.npz``, ``.safetensors``, ``.csv`` or ``.tsv`` (also ``.gz``),
        ``.parquet``, ``.h5``, ``.h5ad``, ``.zarr`` or ``.pt``. ``file::key`` names the key as well.
    key : str, optional
        Name of the values: an array or tensor (default: ``values``), an obsm entry (``X_isorep``), or the prefix of
        a table's columns (``feature_``).
    drop_ids : bool
        Leave the ids out. Otherwise text ids are refused for npy, safetensors and torch files, which cannot hold
        them; an npy file holds no ids at all, and integer ones are left out.
    labels : mapping of str to (n,) labels, optional
        Further columns, for tables, zarr and h5ad (obs): numbers, flags or text.

    Examples
    --------
    >>> import numpy as np, isorep, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.npz"
    >>> isorep.write(isorep.Representation(np.eye(3), ids=["a", "b", "c"]), path)
    >>> isorep.read(path)
    Representation('run.npz', 3 rows x 3 columns, float64, with ids)
    """
    path, key, module = _target(path, key)
    source = as_representation(representation, "the representation")
    held = dict(labels or {})
    if held:
        _require_labels(held, source, path, key)
    ids = None if drop_ids else _ids(source, module, path)
    write_rows(RowStream(source.values, ids, _dtype(source), held), path, key)


def write_beside(
    representation: Representation, source: Path, path: str | Path, beside: Mapping[str, Mapping[str, Array]], key: str
) -> None:
    """Write a copy of an ``.h5ad`` file with a representation of its rows as one more entry of obsm."""
    target, named, _ = _target(path, None)
    rows = RowStream(representation.values, None, _dtype(representation))
    try:
        with replacing(target) as temporary:
            copy_with(source, temporary, rows, named or key, beside)
    except (OSError, RuntimeError) as error:
        raise InputError(f"{target} cannot be written: {_reason(error)}") from error


def holds_labels(path: str | Path) -> bool:
    """Whether a file of this suffix holds further columns."""
    name = split_key(path, None)[0].name.lower()
    return _family_name(family(Path(name), "write")) in ("text", "parquet", "zarr") or name.endswith(".h5ad")


def holds_ids(path: str | Path, ids: Array | None) -> bool:
    """Whether a file of this suffix holds such ids: some formats hold no text, and npy no ids at all."""
    kind = _NUMBERS_ONLY.get(_family_name(family(split_key(path, None)[0], "write")))
    return ids is not None and (kind is None or (kind != "npy" and ids.dtype.kind != "U"))


def others(path: str | Path, rows: Representation, ids: str | None = None) -> dict[str, Any]:
    """The columns of a table, of obs or of samples that are neither features nor row ids; nothing for other files."""
    file, key = split_key(path, None)
    module = reader(file)
    if not hasattr(module, "others"):
        return {}
    taken = {*(rows.columns or ()), *IDS_NAMES, *INDEX_NAMES, *([] if key is None else [key])}
    if _family_name(module) == "parquet":
        part = rows.origin.rpartition("::")[2] if "::" in rows.origin else ""
        index = parquet.saved_index(parquet._open(file).schema_arrow) if ids is None else []
        taken |= {part, *index}
    held: dict[str, Any] = guarded(file, module.others, file, taken)
    return held


def _require_labels(labels: Mapping[str, Labels], source: Representation, path: Path, key: str | None) -> None:
    """Refuse further columns that a file cannot hold beside the values."""
    if not holds_labels(path):
        raise InputError(f"{path.name} holds values only: write a table, zarr or h5ad to keep other columns")
    made = {f"{FEATURE_PREFIX if key is None else key}{index}" for index in range(source.shape[1])} | {"id"}
    twice = [name for name in labels if name in made]
    if twice and path.suffix.lower() != ".h5ad":
        raise InputError(f"column {twice[0]!r} is kept and written anew: name the new ones as {path.name}::PREFIX")
    wrong = [name for name, held in labels.items() if len(held) != len(source)]
    if wrong:
        raise InputError(f"{wrong[0]!r} has {len(labels[wrong[0]])} labels for {len(source)} rows")
    for name, held in labels.items():
        texts = held.tolist() if isinstance(held, np.ndarray) and held.dtype.kind in "UO" else []
        spoilt = next((text for text in [name, *texts] if isinstance(text, str) and _HALVES.search(text)), None)
        if spoilt is not None:
            raise InputError(f"the column {name!r} cannot be written: {spoilt!r} holds a lone surrogate")


def write_rows(rows: RowStream, path: Path, key: str | None = None) -> None:
    """Write rows whose ids and labels the format can hold, completely or not at all."""
    path, key, module = _target(path, key)
    _require_room(path, rows, module)
    try:
        with replacing(path, folder=_is_folder(path)) as temporary:
            module.save(temporary, rows, key)
    except (OSError, RuntimeError) as error:  # h5py and torch raise the latter when a disk is full
        raise InputError(f"{path} cannot be written: {_reason(error)}") from error


def _reason(error: BaseException) -> object:
    """What the system said, also where a library has put words of its own over it."""
    said: BaseException | None = error
    while said is not None and not isinstance(said, OSError):
        said = said.__context__
    return getattr(said, "strerror", None) or error


def require_target(path: str | Path) -> None:
    """Refuse a path that :func:`write` would refuse, before any work is done for it."""
    _target(path, None)


def _target(path: str | Path, key: str | None) -> tuple[Path, str | None, Any]:
    """Path, key and module of what will be written, if it can be."""
    path, key = split_key(path, key)
    if is_url(path):
        raise InputError(f"{path} cannot be written: URLs are read, and files are written on this machine")
    path = behind_link(path)
    module = family(path, "write")
    if not hasattr(module, "save"):
        raise InputError(f"{path.name}: {path.suffix} files can be read, and not written; choose another format")
    if key is not None:
        _require_plain_key(key, path)
    _require_place(path)
    return path, key, module


def _require_plain_key(key: str, path: Path) -> None:
    """Refuse a name that a format would take for something else."""
    parts = key.split("/")
    annotated = path.suffix.lower() == ".h5ad" and (len(parts) > 1 or key == "X")
    if key == "__metadata__" or annotated or any(part.strip() in ("", ".", "..") for part in parts):
        raise InputError(f"the values cannot be called {key!r}: choose a plain name")
    if _HALVES.search(key):
        raise InputError(f"the values cannot be called {key!r}: a lone surrogate cannot be written")
    if key in IDS_NAMES:
        raise InputError(f"the values cannot be called {key!r}, which is where row ids are looked for")


def require_plain_ids(ids: Array) -> None:
    """Refuse text ids that some format cannot bring back."""
    for row, label in enumerate(ids.tolist()):
        if not label or "\0" in label or "\r" in label or _HALVES.search(label):
            raise InputError(
                f"row {row} has the id {label!r}: empty ids, NUL, carriage returns and lone surrogates cannot be kept"
            )


def _ids(source: Representation, module: Any, path: Path) -> Array | None:
    if source.ids is not None and source.ids.dtype.kind == "U":
        require_plain_ids(source.ids)
    kind = _NUMBERS_ONLY.get(_family_name(module))
    if source.ids is None or kind is None:
        return source.ids
    if source.ids.dtype.kind == "U":
        raise InputError(
            f"{path.name}: {kind} files cannot hold text ids such as {str(source.ids[0])!r}: choose another format, or "
            "leave the ids out (--drop-ids, or drop_ids=True)"
        )
    return None if kind == "npy" else source.ids


def _dtype(source: Representation) -> np.dtype[Any]:
    size = source.values.dtype.itemsize
    if size > 8:
        raise InputError(f"{source.name} holds {source.values.dtype}: convert it to float64 before writing")
    return np.dtype(f"<f{size}")


def _require_room(path: Path, rows: RowStream, module: Any) -> None:
    """Refuse what a disk has no room for, where the size is known: HDF5 may even crash when a disk fills up."""
    if _family_name(module) not in _UNCOMPRESSED:
        return
    needed, free = rows.shape[0] * rows.shape[1] * rows.dtype.itemsize, shutil.disk_usage(path.parent).free
    if needed > free:
        raise InputError(f"{path} cannot be written: it takes {sized(needed)} and {path.parent} has {sized(free)} free")


def _family_name(module: Any) -> str:
    return str(module.__name__.rpartition(".")[2])


def _is_folder(path: Path) -> bool:
    return path.name.lower().endswith(".zarr")


def _require_place(path: Path) -> None:
    """Refuse a target that cannot be written or is something else: a zarr store replaces only a zarr store."""
    if _is_folder(path) and path.is_dir():
        if not is_zarr(path) and any(path.iterdir()):
            raise InputError(f"{path} is a folder and not a zarr store, so it is not replaced")
        require_writable(path.with_name(f"{path.name}-"))
    else:
        require_writable(path)
