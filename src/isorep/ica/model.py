"""A fitted ICA in a file, and its map applied to rows that stay in theirs.

The file is safetensors: arrays and JSON, nothing to unpickle. What is read may have been written by anyone, so shapes,
types and values are checked before an estimator is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from ..errors import InputError
from ..representation import Array, Matrix, Representation
from ..rows import block_rows, map_blocks, read_rows, refuse_non_finite
from ..storage.lazy import LazyMatrix
from ..storage.model_files import ModelFile, Shapes, is_count, require_model_path, save_arrays
from .contrasts import CONTRASTS
from .estimator import ICA
from .whitening import transformed

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
_SETTINGS: dict[str, tuple[type, ...]] = {
    "n_components": (int, type(None)),
    "contrast": (str,),
    "random_state": (int, type(None)),
    "whiten": (str, type(None)),
    "tol": (float, int),
    "max_iter": (int,),
    "rounding": (float, int, type(None)),
    "standardise": (bool,),
    "device": (str, type(None)),
}
_LATER = {"standardise": False}  # settings that older files lack, and what they did


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
        "left_out": _left_out_of(ica),
        "sweeps": int(ica.n_iter_),
        "converged": bool(ica.converged_),
        "names": [str(name) for name in ica.feature_names_in_] if hasattr(ica, "feature_names_in_") else None,
        "training": extra or {},
    }
    save_arrays(path, arrays, facts)


def load_model(path: str | Path) -> ICA:
    """The ICA that a file holds, as it was fitted.

    A file that is damaged, hostile or something else is refused with one sentence.
    """
    facts, arrays = _read(path)
    ica = ICA(**facts["settings"])
    for name, values in arrays.items():
        setattr(ica, f"{name}_", values)
    ica.n_features_in_ = facts["columns"]
    ica.n_iter_ = facts["sweeps"]
    ica.converged_ = facts["converged"]
    if facts["rank"] is not None:
        ica.rank_ = facts["rank"]
        # Older files do not list them: only constant columns were left out, and no component has them.
        columns = np.flatnonzero(~ica.components_.any(axis=0)) if facts["left_out"] is None else facts["left_out"][0]
        spreads = np.zeros(len(columns)) if facts["left_out"] is None else facts["left_out"][1]
        ica.left_out_columns_, ica.left_out_spreads_ = np.array(columns, np.intp), np.array(spreads, np.float64)
    if facts["names"] is not None:
        ica.feature_names_in_ = np.array(facts["names"], dtype=object)
    ica._n_features_out = facts["components"]
    return ica


def model_facts(path: str | Path) -> dict[str, Any]:
    """What a model's file says beside its arrays: version, settings, sizes, and ``training``."""
    return _read(path)[0]


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


def _left_out_of(ica: ICA) -> list[list[Any]] | None:
    """Columns that do not count, and their spreads."""
    if not hasattr(ica, "left_out_columns_"):
        return None
    return [ica.left_out_columns_.tolist(), ica.left_out_spreads_.tolist()]


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    file = ModelFile(path, _FORMAT)
    return file.read(lambda facts: _check_facts(file, facts), _shapes)


def _check_facts(file: ModelFile, facts: dict[str, Any]) -> None:
    settings = facts.get("settings")
    if not isinstance(settings, dict):
        file.refuse("its settings are not those of ICA")
    settings = facts["settings"] = {**_LATER, **settings}
    if set(settings) != set(_SETTINGS):
        file.refuse("its settings are not those of ICA")
    for name, kinds in _SETTINGS.items():
        if not isinstance(settings[name], kinds):
            file.refuse(f"its setting {name} is {str(settings[name])[:60]!r}")
    for name, known in (("contrast", tuple(CONTRASTS)), ("whiten", ("pca", "zca", None))):
        if settings[name] not in known:
            file.refuse(f"its setting {name} is {settings[name][:60]!r}")
    file.require_counts(facts, "columns", "components", "sweeps")
    columns, rank, names = facts["columns"], facts.get("rank"), facts.get("names")
    if rank is None if settings["whiten"] else rank is not None:
        file.refuse("its rank and its whitening contradict each other")
    if rank is not None and not (is_count(rank) and facts["components"] <= rank <= columns):
        file.refuse(f"its rank is {str(rank)[:60]!r}")
    if not isinstance(facts.get("converged"), bool) or not isinstance(facts.get("training"), dict):
        file.refuse("it does not say how the fit ended")
    if names is not None and not (
        isinstance(names, list) and len(names) == columns and all(isinstance(name, str) for name in names)
    ):
        file.refuse("its column names do not fit its columns")
    left_out = facts.get("left_out")
    if left_out is not None and not (rank is not None and _is_left_out(left_out, columns)):
        file.refuse("its list of columns that were left out does not fit its columns")
    facts["names"], facts["rank"], facts["left_out"] = names, rank, left_out


def _is_left_out(found: Any, columns: int) -> bool:
    """Whether a fact is a list of column numbers and one of as many spreads."""
    if not (isinstance(found, list) and len(found) == 2 and all(isinstance(part, list) for part in found)):
        return False
    places, spreads = found
    return (
        len(places) == len(spreads)
        and all(type(place) is int and 0 <= place < columns for place in places)
        and all(type(spread) is float and 0 <= spread < np.inf for spread in spreads)
    )


def _shapes(facts: dict[str, Any]) -> Shapes:
    """The arrays that a model with these facts holds."""
    wanted = _ALWAYS | (_WHITENED if facts["settings"]["whiten"] else {})
    sizes = {"k": facts["components"], "d": facts["columns"], "2": 2}
    return {
        name: ("BOOL" if name in _FLAGS else "F64", tuple(sizes.get(letter) for letter in letters))
        for name, letters in wanted.items()
    }
