"""``isorep.read``: from a path to a Representation, by suffix."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError
from ..representation import Array, Representation

# Suffix -> module of this package. A module offers load(path, key, ids) and, where files carry more than
# values, column(path, name).
_READERS = {
    ".npy": "npy",
    ".npz": "npz",
    ".safetensors": "tensors",
    ".csv": "text",
    ".csv.gz": "text",
    ".tsv": "text",
    ".tsv.gz": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True)
class Contents:
    """What a reader found in a file: values, and row ids where there are any."""

    values: Any
    ids: Array | None = None


def read(
    path: str | Path, *, key: str | None = None, ids: str | None = None, name: str | None = None
) -> Representation:
    """Read a representation from a file, without loading what can be mapped.

    Parameters
    ----------
    path : str or Path
        A ``.npy``, ``.npz``, ``.safetensors``, ``.csv``, ``.tsv`` (also ``.gz``) or ``.parquet`` file. ``file::key``
        names the key as well.
    key : str, optional
        Which part of the file: the array of an npz, the tensor of a safetensors file, the list column of a parquet
        file, or a prefix of the columns of a table. By default the only one there is; in a table the
        ``feature_*`` columns, else the one list column, else every numeric column that is not ``Metadata_*``.
    ids : str, optional
        The array (npz, safetensors) or column (tables) with the row ids. By default ``ids`` or ``id`` where
        the file has one, or the index a data frame was saved with.
    name : str, optional
        By default the file's name.

    Returns
    -------
    Representation
        npy, uncompressed npz and safetensors files are memory-mapped; the other formats are parsed once, in
        blocks, into memory or (above 256 MiB) into a scratch file.

    Examples
    --------
    >>> import numpy as np, isorep, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.savez(folder / "run.npz", latents=np.eye(3), ids=["a", "b", "c"])
    >>> isorep.read(folder / "run.npz")
    Representation('run.npz', 3 rows x 3 columns, float64, with ids)
    """
    path, key = _split_key(path, key)
    module = _reader(path)
    contents = _guarded(path, lambda: module.load(path, key, ids))
    representation: Representation = _guarded(
        path, lambda: Representation(contents.values, contents.ids, name or path.name)
    )
    return representation


def column(path: str | Path, name: str) -> Array:
    """One named column (table) or one-dimensional array (npz, safetensors) of a file: groups, labels, ids."""
    path, _ = _split_key(path, None)
    module = _reader(path)
    if not hasattr(module, "column"):
        raise InputError(f"{path.name} holds values only, so it has no column {name!r}")
    found: Array = _guarded(path, lambda: module.column(path, name))
    return found


def suffixes() -> list[str]:
    """The suffixes that can be read."""
    return list(_READERS)


def _split_key(path: str | Path, key: str | None) -> tuple[Path, str | None]:
    text = str(path)
    if "::" in text and not Path(text).exists():
        text, _, inner = text.rpartition("::")
        key = key or inner
    return Path(text), key


def _reader(path: Path) -> Any:
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file")
    lowered = path.name.lower()
    matching = [suffix for suffix in _READERS if lowered.endswith(suffix)]
    if not matching:
        suffix = "".join(path.suffixes[-1:]) or "no suffix"
        raise InputError(f"{path.name}: cannot read {suffix}; known are {', '.join(_READERS)}")
    if path.stat().st_size == 0:
        raise InputError(f"{path.name} is empty (0 bytes)")
    return import_module(f".{_READERS[max(matching, key=len)]}", __package__)


def _guarded(path: Path, action: Any) -> Any:
    """Run a reader on a file that may be hostile: whatever it raises becomes one sentence about the file."""
    try:
        return action()
    except InputError as error:
        text = str(error)
        if path.name in text:
            raise
        raise InputError(f"{path.name}: {text}") from error
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{path.name} cannot be read, it may be damaged: {reason}") from error
