"""torch files (``.pt``, ``.pth``): a tensor, or dicts of tensors inside of each other; large ones are mapped.

Nothing else is unpickled: what a checkpoint holds besides tensors is left alone.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..representation import Array, BFloat16Matrix
from .lazy import HELD_BYTES
from .naming import choose_named, require_vector
from .npz import DAMAGED_ZIP
from .registry import Contents, RowStream
from .scratch import mapped_to_fill

_MOST_PICKLE = 2**22  # names and shapes only; the numbers lie in members of their own
_ONLY = "the values"
_DEEPEST = 16  # dicts inside of each other
_MOST_ENTRIES = 10**6


def load(path: Path, key: str | None, ids: str | None, besides: Collection[str] = ()) -> Contents:
    """Open one tensor, and the integer tensor of row ids where there is one."""
    tensors = flattened(_load(path))
    wanted = None if key is None else key.replace("::", ".")
    if wanted is not None and wanted not in tensors:  # a dict inside, such as state_dict
        inside = {name: tensor for name, tensor in tensors.items() if name.startswith(f"{wanted}.")}
        tensors, wanted = (inside, None) if inside else (tensors, wanted)
    name, ids_name, left_out = choose_named(_shapes(tensors), wanted, ids, "tensor")
    row_ids = None if ids_name is None else _vector(tensors, ids_name)
    part = "" if name == _ONLY else name
    taken = f"tensor {name!r}" if part and wanted is None else ""
    return Contents(_as_matrix(tensors[name], name, path), row_ids, left_out, part=part, taken=taken)


def column(path: Path, name: str) -> Array:
    """A one-dimensional tensor."""
    return _vector(flattened(_load(path)), name.replace("::", "."))


def save(path: Path, rows: RowStream, key: str | None) -> None:
    """Write one tensor; with ids or a key, a dict of the tensors ``values`` and ``ids``."""
    torch = _torch()
    with tempfile.TemporaryFile(dir=path.parent, prefix=".isorep-") as scratch:  # torch.save wants the tensor whole
        mapped = mapped_to_fill(scratch, rows.shape, rows.dtype)
        rows.fill(mapped)
        values = torch.from_numpy(np.asarray(mapped))
        held = values
        if rows.ids is not None or key is not None:
            held = {key or "values": values}
            held |= {} if rows.ids is None else {"ids": torch.from_numpy(np.array(rows.ids))}
        with path.open("wb") as file:  # by its path, torch would store the name of the temporary file
            torch.save(held, file)


def read_tensors(path: Path) -> dict[str, Any]:
    """A tensor, or the flat dict of tensors, that torch.save wrote; anything else is refused."""
    torch, held = _torch(), _load(path)
    _refuse_list(held)
    tensors = held if isinstance(held, dict) else {_ONLY: held}
    inner = next((name for name, value in tensors.items() if _all_tensors(value)), None)
    advice = (
        "" if inner is None else f"; save what it holds as {inner!r} alone: torch.save(checkpoint[{inner!r}], FILE)"
    )
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise InputError(
                f"it holds {type(tensor).__name__} {name!r} where a tensor or a flat dict of tensors is read" + advice
            )
    return tensors


def flattened(held: Any) -> dict[str, Any]:
    """The tensors of dicts inside of each other, by their keys with dots between; others are left out."""
    torch = _torch()
    if isinstance(held, torch.Tensor):
        return {_ONLY: held}
    found: dict[str, Any] = {}
    for entries, (name, value) in enumerate(_entries(held)):
        if entries > _MOST_ENTRIES:  # a dict may occur in others any number of times
            raise InputError(f"it holds more than {_MOST_ENTRIES} entries in dicts inside of each other")
        if isinstance(value, torch.Tensor):
            if name in found:
                raise InputError(f"two tensors are called {name!r}, with dots between the keys of dicts")
            found[name] = value
    if not found:
        _refuse_list(held)
        raise InputError(f"it holds {type(held).__name__} without a tensor, where a tensor or a dict of them is read")
    return found


def _entries(held: Any, before: str = "", deep: int = 0) -> Iterator[tuple[str, Any]]:
    """Whatever dicts inside of each other hold, the dicts among it, by their keys with dots between."""
    for key, value in held.items() if isinstance(held, dict) and deep < _DEEPEST else ():
        if isinstance(key, str | int):
            name = f"{before}.{key}" if before else str(key)
            yield name, value
            yield from _entries(value, name, deep + 1)


def _refuse_list(held: Any) -> None:
    """Refuse a list of tensors, which is how batches are often saved, with the way to join them."""
    torch = _torch()
    if isinstance(held, list | tuple) and held and all(isinstance(each, torch.Tensor) for each in held):
        shapes = {tuple(each.shape[1:]) for each in held if each.ndim}
        several = len(held) > 1 and len(shapes) == 1 and all(each.ndim > 1 for each in held)
        advice = "if these are batches, save torch.cat(tensors)" if several else "save the one that is meant"
        many = "1 tensor" if len(held) == 1 else f"{len(held)} tensors"
        raise InputError(f"it holds a {type(held).__name__} of {many} where a tensor is read: {advice}")


def _load(path: Path) -> Any:
    """What torch.save wrote, if it is tensors and plain data; nothing else is unpickled."""
    check_archive(path)
    torch = _torch()
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=path.stat().st_size > HELD_BYTES)
    except Exception as error:  # what torch raises and says differs between its versions
        raise InputError(
            "it holds more than tensors, or is damaged, and is not unpickled: save a tensor, or a dict of tensors "
            "(model.state_dict()), with torch.save, and arrays with numpy.save"
        ) from error


def _all_tensors(value: Any) -> bool:
    """Whether something is a dict of tensors, as a state_dict() inside of a checkpoint is."""
    torch = _torch()
    return isinstance(value, dict) and bool(value) and all(isinstance(each, torch.Tensor) for each in value.values())


def check_archive(path: Path) -> None:
    """Refuse archives that torch would unpack or unpickle before checking sizes."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            pickles = [member for member in members if member.filename.endswith(".pkl")]
            plain = all(member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1 for member in members)
            small = all(member.file_size <= _MOST_PICKLE for member in pickles)
            sized = plain and small and any(b"bytearray" in archive.read(member) for member in pickles)
    except (*DAMAGED_ZIP, ValueError) as error:
        raise InputError(
            "this is not an archive that torch.save writes since version 1.6; a bare pickle is refused"
        ) from error
    if not plain:
        raise InputError("it is compressed or encrypted, which torch.save does not do")
    if not small:
        raise InputError(f"its pickle takes more than {_MOST_PICKLE} bytes: it holds more than tensors")
    if sized:  # torch makes them as large as the pickle says
        raise InputError("it holds a bytearray, which is not unpickled: save tensors alone")


def _shapes(tensors: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _vector(tensors: dict[str, Any], name: str) -> Array:
    require_vector(_shapes(tensors), name, "tensor")
    return np.asarray(_as_matrix(tensors[name], name))


def _as_matrix(tensor: Any, name: str, path: Path | None = None) -> Any:
    """A tensor's memory as numpy sees it, without a copy; with the file's path where it may be mapped."""
    torch = _torch()
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        raise InputError(f"tensor {name!r} is sparse, quantized or without data: save it dense")
    tensor = tensor.detach()
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise InputError(f"tensor {name!r} declares the shape {tuple(tensor.shape)} and stores fewer numbers than that")
    if tensor.dtype == torch.bfloat16:
        return BFloat16Matrix(tensor.view(torch.int16).numpy().view(np.uint16))
    try:
        return MappedTensor(tensor.numpy(), path)
    except TypeError as error:
        raise InputError(f"tensors of type {tensor.dtype} are not read: convert them to float32") from error


class MappedTensor:
    """The numbers of a tensor, in a file that torch has mapped."""

    def __init__(self, mapped: Array, path: Path | None) -> None:
        self._mapped, self._path = mapped, path
        self._size = 0 if path is None else path.stat().st_size
        self.shape = mapped.shape
        self.dtype = mapped.dtype

    def __getitem__(self, rows: Any) -> Array:
        if self._path is not None and self._size > HELD_BYTES:
            self._require_whole()
        return np.asarray(self._mapped[rows])

    def _require_whole(self) -> None:
        """Refuse a mapped file that has become shorter: reading behind its end would end the process."""
        if not self._path or not self._path.exists():
            return  # removed, and still mapped
        if self._path.stat().st_size < self._size:
            raise InputError(f"{self._path.name} became shorter while it was read: run again when nothing writes to it")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)


def _torch() -> Any:
    return import_extra("torch", "torch", "a torch file")
