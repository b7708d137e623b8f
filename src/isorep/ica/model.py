"""ICA model in a file, and its map applied lazily to stored rows.

The file is safetensors: arrays and JSON, nothing to unpickle. Files are not trusted: shapes, types and values are
checked before an estimator is made from them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from ..errors import InputError
from ..representation import Array, Representation, feature_difference
from ..results import plain
from ..storage.model_files import ModelFile, Shapes, is_count, require_model_path, save_arrays
from .contrasts import CONTRASTS
from .estimator import ICA
from .whitening import AffineRows

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
_CHOICES: dict[str, tuple[Any, ...]] = {"contrast": tuple(CONTRASTS), "whiten": ("pca", "zca", None)}
_LATER = {"standardise": False}  # settings that older files lack, with the value that they used


def save_model(ica: ICA, path: str | Path, *, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted ICA to a file, completely or not at all.

    Parameters
    ----------
    ica : ICA
        The fitted estimator.
    path : str or Path
        File name, which ends in ``.safetensors``.
    extra : dict, optional
        Facts about the training data, such as ``name``, ``rows`` and ``fingerprint``: plain JSON.
    """
    check_is_fitted(ica)
    path = require_model_path(path)
    arrays = {
        name: np.array(getattr(ica, f"{name}_"), bool if name in _FLAGS else np.float64, order="C")
        for name in _ALWAYS | _WHITENED
        if hasattr(ica, f"{name}_")
    }
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise InputError(f"{name}_ holds values that are not finite, so this fit is not worth keeping")
    settings = {name: plain(value) for name, value in ica.get_params().items()}
    if not isinstance(settings["random_state"], int):
        settings["random_state"] = None  # a generator is not kept
    left_out = None
    if hasattr(ica, "left_out_columns_"):
        left_out = [ica.left_out_columns_.tolist(), ica.left_out_spreads_.tolist()]
    facts = {
        "format": _FORMAT,
        "isorep": __version__,
        "settings": settings,
        "columns": int(ica.n_features_in_),
        "components": len(ica.components_),
        "rank": int(ica.rank_) if hasattr(ica, "rank_") else None,
        "left_out": left_out,
        "sweeps": int(ica.n_iter_),
        "converged": bool(ica.converged_),
        "names": [str(name) for name in ica.feature_names_in_] if hasattr(ica, "feature_names_in_") else None,
        "matrix": getattr(ica, "matrix_in_", None),
        "training": extra or {},
    }
    save_arrays(path, arrays, facts)


def load_model(path: str | Path) -> ICA:
    """Load a fitted ICA from a file.

    Damaged or foreign files raise an error.
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
        constant = np.flatnonzero(~ica.components_.any(axis=0))
        columns, spreads = facts["left_out"] or (constant, np.zeros(len(constant)))
        ica.left_out_columns_, ica.left_out_spreads_ = np.array(columns, np.intp), np.array(spreads, np.float64)
    if facts["names"] is not None:
        ica.feature_names_in_ = np.array(facts["names"], dtype=object)
    if facts["matrix"] is not None:
        ica.matrix_in_ = facts["matrix"]
    ica._n_features_out = facts["components"]
    return ica


def model_facts(path: str | Path) -> dict[str, Any]:
    """Metadata of a model's file: version, settings, sizes, and ``training``."""
    return _read(path)[0]


def applied(
    ica: ICA, data: Representation, *, inverse: bool = False, progress: Callable[[int, int], None] | None = None
) -> Representation:
    """Sources of stored rows, or rows of stored sources: computed block by block when they are read.

    Row ids and precision are kept; float16 becomes float32.
    """
    width, wanted = data.shape[1], len(ica.components_) if inverse else ica.n_features_in_
    if width != wanted:
        what = f"maps {wanted} components back" if inverse else f"was fitted to {wanted} columns"
        raise InputError(f"{data.name} has {width} columns, and the model {what}")
    names = None if inverse else getattr(ica, "feature_names_in_", None)
    difference = feature_difference(names, data.columns, data.name or "the data")
    if difference is not None:
        raise InputError(difference)
    matrix, before, after = ica.components_.T, ica.mean_, np.zeros(len(ica.components_))
    if inverse:
        matrix, before, after = ica.mixing_.T, np.zeros(width), ica.mean_
    rows = AffineRows(data.values, data.name or "the data", matrix, before, after, progress=progress)
    return Representation(rows, data.ids, data.name)


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    file = ModelFile(path, _FORMAT)
    facts, arrays = file.read(lambda facts: _check_facts(file, facts), _shapes)
    if not arrays["components"].any(axis=1).all() or not arrays["mixing"].any(axis=0).all():
        file.refuse("one of its components is zero")
    return facts, arrays


def _check_facts(file: ModelFile, facts: dict[str, Any]) -> None:
    given = facts.get("settings")
    settings = facts["settings"] = {**_LATER, **given} if isinstance(given, dict) else {}
    if set(settings) != set(_SETTINGS):
        file.refuse("its settings are not those of ICA")
    for name, kinds in _SETTINGS.items():
        if not isinstance(settings[name], kinds) or settings[name] not in _CHOICES.get(name, (settings[name],)):
            file.refuse(f"its setting {name} is {str(settings[name])[:60]!r}")
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
    matrix = facts.get("matrix")
    if not isinstance(matrix, str | None):
        file.refuse("its name of a matrix is no text")
    left_out = facts.get("left_out")
    if left_out is not None and not (rank is not None and _is_left_out(left_out, columns)):
        file.refuse("its list of columns that were left out does not fit its columns")
    facts["names"], facts["rank"], facts["left_out"], facts["matrix"] = names, rank, left_out, matrix


def _is_left_out(left_out: Any, columns: int) -> bool:
    """Whether a fact is a list of column numbers and one of as many spreads."""
    if not (isinstance(left_out, list) and len(left_out) == 2 and all(isinstance(part, list) for part in left_out)):
        return False
    numbers, spreads = left_out
    return (
        len(numbers) == len(spreads)
        and all(type(number) is int and 0 <= number < columns for number in numbers)
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
