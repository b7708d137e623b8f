"""A fitted ICA in a file, and its map applied to rows that stay in theirs.

The file is safetensors: arrays and JSON, nothing to unpickle. What is read may have been written by anyone, so shapes,
types and values are checked before an estimator is made of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from ..errors import InputError, MissingFileError
from ..files import replacing, require_writable
from ..representation import Array, Matrix, Representation
from ..rows import block_rows, map_blocks, read_rows, refuse_non_finite
from ..storage.lazy import LazyMatrix
from ..storage.scratch import memory_size
from .contrasts import CONTRASTS
from .estimator import ICA
from .linear import transformed

_FORMAT = "isorep ica model 1"

# The arrays of a fit, by the attribute that holds each: its shape in components k, columns d and steps m.
_ALWAYS = {"components": "kd", "mixing": "dk", "mean": "d", "contrast": "k", "path": "m2"}
_WHITENED = {
    "singular_values": "k",
    "kurtosis": "k",
    "skewness": "k",
    "uncertainty": "k",
    "conditioning": "kk",
    "gaussian": "k",
    "unsettled": "k",
}
_FLAGS = ("gaussian", "unsettled")
_MOST_BYTES = 2**32  # of arrays, where the system does not tell how much memory there is
_SETTINGS: dict[str, tuple[type, ...]] = {
    "n_components": (int, type(None)),
    "contrast": (str,),
    "random_state": (int, type(None)),
    "whiten": (str, type(None)),
    "tol": (float, int),
    "max_iter": (int,),
    "rounding": (float, int, type(None)),
    "device": (str, type(None)),
}


def save_model(ica: ICA, path: str | Path, *, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted ICA, completely or not at all.

    Parameters
    ----------
    ica : ICA
        A fitted one.
    path : str or Path
        Ends in ``.safetensors``.
    extra : dict, optional
        What is known about the training data, such as ``name``, ``rows`` and ``fingerprint``: plain JSON.
    """
    check_is_fitted(ica)
    path = require_model_path(path)
    shapes = _ALWAYS | _WHITENED
    arrays = {
        name: np.array(getattr(ica, f"{name}_"), bool if name in _FLAGS else np.float64, order="C")
        for name in shapes
        if hasattr(ica, f"{name}_")
    }
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise InputError(f"{name}_ holds values that are not finite, so this fit is not worth keeping")
    facts = {
        "format": _FORMAT,
        "isorep": __version__,
        "settings": _settings_of(ica),
        "columns": int(ica.n_features_in_),
        "components": len(ica.components_),
        "rank": int(ica.rank_) if hasattr(ica, "rank_") else None,
        "sweeps": int(ica.n_iter_),
        "converged": bool(ica.converged_),
        "names": [str(name) for name in ica.feature_names_in_] if hasattr(ica, "feature_names_in_") else None,
        "training": extra or {},
    }
    try:
        with replacing(path) as temporary:
            save_file(arrays, temporary, metadata={"isorep": json.dumps(facts)})
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} cannot be written: {error}") from error


def load_model(path: str | Path) -> ICA:
    """The ICA that a file holds, as it was fitted.

    A file that is damaged, hostile or something else is refused with one sentence.
    """
    path = Path(path)
    facts, arrays = _read(path)
    ica = ICA(**facts["settings"])
    for name, values in arrays.items():
        setattr(ica, f"{name}_", values)
    ica.n_features_in_ = facts["columns"]
    ica.n_iter_ = facts["sweeps"]
    ica.converged_ = facts["converged"]
    if facts["rank"] is not None:
        ica.rank_ = facts["rank"]
    if facts["names"] is not None:
        ica.feature_names_in_ = np.array(facts["names"], dtype=object)
    ica._n_features_out = facts["components"]
    return ica


def model_facts(path: str | Path) -> dict[str, Any]:
    """What a model's file says beside its arrays: version, settings, sizes, and ``training``."""
    return _read(Path(path))[0]


def require_model_path(path: str | Path, inputs: Sequence[str | Path] = ()) -> Path:
    """Where a model will be written, links followed; a place that cannot hold one is refused before any work."""
    path = Path(path)
    if path.suffix.lower() != ".safetensors":
        raise InputError(f"{path} will hold a model, so its name must end in .safetensors")
    path = path.resolve() if path.is_symlink() else path
    require_writable(path, inputs=inputs)
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file")
    return path


def applied(
    ica: ICA,
    data: Representation,
    *,
    inverse: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Representation:
    """Sources of stored rows, or rows of stored sources: computed block by block when they are read.

    Row ids and precision are kept; float16 becomes float32.
    """
    width, wanted = data.shape[1], len(ica.components_) if inverse else ica.n_features_in_
    if width != wanted:
        what = f"maps {wanted} components back" if inverse else f"was fitted to {wanted} columns"
        raise InputError(f"{data.name} has {width} columns, and the model {what}")
    zero = np.zeros(width)
    rows = (
        AppliedRows(data, zero, ica.mixing_.T, ica.mean_, progress)
        if inverse
        else AppliedRows(data, ica.mean_, ica.components_.T, np.zeros(len(ica.components_)), progress)
    )
    return Representation(rows, data.ids, data.name)


class AppliedRows(LazyMatrix):
    """Rows under an affine map, ``(rows - before) @ matrix + after``, computed when they are asked for."""

    def __init__(
        self,
        data: Representation,
        before: Array,
        matrix: Array,
        after: Array,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._values: Matrix = data.values
        self._name = data.name or "the data"
        self._before, self._matrix, self._after = before, matrix, after
        self._progress = progress
        double = np.dtype(data.values.dtype).itemsize >= 8
        super().__init__((data.shape[0], matrix.shape[1]), np.float64 if double else np.float32)

    def _slice(self, start: int, stop: int) -> Array:
        out = np.empty((stop - start, self.shape[1]), self.dtype)

        def fill(part: slice) -> None:
            out[part] = self._mapped(slice(start + part.start, start + part.stop))

        map_blocks(fill, len(out), block_rows(*self._matrix.shape, cells=2**21))
        if self._progress is not None:
            self._progress(stop, len(self))
        return out

    def _take(self, rows: Array) -> Array:
        return self._mapped(rows).astype(self.dtype)

    def _mapped(self, rows: slice | Array) -> Array:
        block = read_rows(self._values, rows)
        if not np.isfinite(block).all():
            refuse_non_finite(self._values, self._name)
        return transformed(block, self._matrix, self._before, self._after)


def _settings_of(ica: ICA) -> dict[str, Any]:
    """The parameters as plain JSON; a random state that is no number is not kept."""
    settings: dict[str, Any] = ica.get_params()
    for name, value in settings.items():
        settings[name] = value.item() if isinstance(value, np.generic) else value
    if not isinstance(settings["random_state"], int):
        settings["random_state"] = None
    return settings


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    if not path.is_file():
        raise InputError(f"{path} is not a regular file")
    try:
        with safe_open(path, "numpy") as file:
            facts = _checked_facts(path, file.metadata() or {})
            _check_arrays(path, file, facts)
            arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        _refuse(path, str(error))
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            _refuse(path, f"its {name} are not finite")
    return facts, arrays


def _checked_facts(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    try:
        facts = json.loads(metadata.get("isorep", "{}"))
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        told = f"it says that it is {str(found)[:60]!r}" if found else "it does not say that it is one"
        _refuse(path, told)
    settings = facts.get("settings")
    if not isinstance(settings, dict) or set(settings) != set(_SETTINGS):
        _refuse(path, "its settings are not those of ICA")
    for name, kinds in _SETTINGS.items():
        if not isinstance(settings[name], kinds):
            _refuse(path, f"its setting {name} is {str(settings[name])[:60]!r}")
    for name, known in (("contrast", tuple(CONTRASTS)), ("whiten", ("pca", "zca", None))):
        if settings[name] not in known:
            _refuse(path, f"its setting {name} is {settings[name][:60]!r}")
    for name in ("columns", "components", "sweeps"):
        if not _is_count(facts.get(name)):
            _refuse(path, f"its number of {name} is {str(facts.get(name))[:60]!r}")
    columns, rank, names = facts["columns"], facts.get("rank"), facts.get("names")
    if rank is None if settings["whiten"] else rank is not None:
        _refuse(path, "its rank and its whitening contradict each other")
    if rank is not None and not (_is_count(rank) and facts["components"] <= rank <= columns):
        _refuse(path, f"its rank is {str(rank)[:60]!r}")
    if not isinstance(facts.get("converged"), bool) or not isinstance(facts.get("training"), dict):
        _refuse(path, "it does not say how the fit ended")
    if names is not None and not (
        isinstance(names, list) and len(names) == columns and all(isinstance(name, str) for name in names)
    ):
        _refuse(path, "its column names do not fit its columns")
    facts["names"], facts["rank"] = names, rank
    return facts


def _check_arrays(path: Path, file: Any, facts: dict[str, Any]) -> None:
    """All arrays are there, of the right type and shape, and small enough; none has been read yet."""
    wanted = _ALWAYS | (_WHITENED if facts["settings"]["whiten"] else {})
    there = set(file.keys())
    if there != set(wanted):
        missing, odd = sorted(set(wanted) - there), sorted(there - set(wanted))
        _refuse(path, f"it lacks {', '.join(missing)}" if missing else f"it also holds {', '.join(odd)[:60]}")
    sizes = {"k": facts["components"], "d": facts["columns"], "2": 2}
    total = 0
    for name, letters in wanted.items():
        entry = file.get_slice(name)
        shape, kind = tuple(entry.get_shape()), str(entry.get_dtype())
        if kind != ("BOOL" if name in _FLAGS else "F64"):
            _refuse(path, f"its {name} have the type {kind}")
        expected = tuple(sizes.get(letter, shape[0] if shape else 0) for letter in letters)
        if shape != expected:
            _refuse(path, f"its {name} have the shape {shape} and not {expected}")
        total += int(np.prod(shape, dtype=object)) * 8
    most = memory_size() // 2 or _MOST_BYTES
    if total > most:
        raise InputError(f"{path} holds {total / 2**30:.1f} GiB of arrays, too much for this machine's memory")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _refuse(path: Path, reason: str) -> NoReturn:
    raise InputError(f"{path} is not a model that isorep saved, or it is damaged: {reason}")
