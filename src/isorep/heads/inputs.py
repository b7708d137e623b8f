"""Head of a model: the embeddings of classes, with their biases and names, and the features it reads, checked."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..covariance import LEAST_SPREAD
from ..errors import InputError
from ..pairs import Pair, open_pair
from ..representation import Array, Matrix, Representation, told_apart
from ..rows import block_rows, map_rows, read_rows, refuse_non_finite, select
from ..storage import loaded

_MOST_INDEX = 2**26  # bytes
_OUTPUT_HEADS = re.compile(r"(lm_head|embed_out|output_projection|decoder)\.weight$")
_TIED = (
    "a head that is tied to the token embeddings is stored under their name alone, such as transformer.wte.weight or "
    "model.embed_tokens.weight"
)


@dataclass(frozen=True, eq=False)
class Head:
    r"""A head :math:`G`: one row :math:`g(y)` per class, and the biases :math:`b(y)` where there are any."""

    values: Matrix
    bias: Array | None
    name: str
    ids: Array | None = None

    @property
    def classes(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.values.shape[1])

    def label(self, index: int) -> str:
        """The name of a class: its id, or its index."""
        return str(index if self.ids is None else self.ids[index])

    @property
    def representation(self) -> Representation:
        """The embeddings with the names of the classes."""
        return Representation(self.values, self.ids, self.name)

    def rows(self) -> Array:
        """All rows in float64."""
        return np.asarray(read_rows(self.values, slice(None)), dtype=np.float64)

    def refuse_tiny(self) -> None:
        """Refuse embeddings that are not zero, and whose squares are."""
        peak = max(map_rows(lambda start, block: float(np.abs(block).max()), [self.values], block_rows(self.width)))
        if 0 < peak < LEAST_SPREAD:
            raise InputError(
                f"{self.name} holds nothing beyond {peak:.3g}, and squares of such values vanish: rescale it"
            )

    def chosen(self, classes: Array) -> Head:
        """Some classes alone."""
        bias = None if self.bias is None else self.bias[classes]
        ids = np.asarray(classes if self.ids is None else self.ids[classes])
        return Head(select(self.values, classes), bias, self.name, ids)

    def require_width(self, features: Matrix, name: str) -> None:
        """Refuse features that the head does not read."""
        if features.shape[1] != self.width:
            raise InputError(f"{name} has {features.shape[1]} columns where {self.name} reads {self.width}")


def open_head(data: Any, bias: Any, name: str) -> Head:
    """A head from an array, a Representation or a path, with one bias per class."""
    given = read_head(data, name)
    called = given.name or name
    refuse_non_finite(given.values, called)
    return Head(given.values, checked_vector(bias, len(given), f"the bias of {called}"), called, given.ids)


def read_head(data: Any, name: str) -> Representation:
    """Embeddings as given, not yet checked; the error for a tied head names the tensor that holds it."""
    if hasattr(data, "weight") and hasattr(data, "state_dict"):
        raise InputError(f"{name} is a {type(data).__name__}: give its weight")
    if isinstance(data, str | Path):
        _refuse_folder(str(data))
    try:
        return loaded(data, name)
    except InputError as error:
        if "::" in str(data) and _OUTPUT_HEADS.search(str(data)) and "no tensor" in str(error):
            raise InputError(f"{error}; {_TIED}") from error
        raise


def open_heads(source: Any, target: Any, source_bias: Any, target_bias: Any) -> tuple[Head, Head]:
    """Two heads of the same classes."""
    here, there = open_head(source, source_bias, "source head"), open_head(target, target_bias, "target head")
    if here.name == there.name:
        origins = [each if isinstance(each, str | Path) else getattr(each, "origin", "") for each in (source, target)]
        names = [f"{here.name} (source)", f"{here.name} (target)"]
        if origins[0] != origins[1]:
            names = told_apart([here.name, there.name], origins)
        here, there = (replace(head, name=name) for head, name in zip((here, there), names, strict=True))
    if here.classes != there.classes:
        least = min(here.classes, there.classes)
        raise InputError(
            f"{here.name} has {here.classes} classes and {there.name} has {there.classes}: heads share their classes; "
            f"of a vocabulary that was padded take the first {least} rows alone"
        )
    if here.ids is not None and there.ids is not None and not np.array_equal(here.ids, there.ids):
        raise InputError(f"the classes of {here.name} and {there.name} have other names, or another order")
    return here, there


def open_rows(
    source: Any, target: Any, roles: tuple[str, str], groups: Any, join: bool
) -> tuple[Pair, Array | None, str | None]:
    """Paired features on their common rows, the groups of these, and a note where rows were joined by id."""
    pair, match, labels = open_pair(source, target, roles, groups, join)
    if match.source_rows is None:
        return pair, labels, None
    dropped = f"{match.dropped_from_source} dropped from {pair.names[0]} and {match.dropped_from_target}"
    return pair, labels, f"joined by id: {pair.n} common rows, {dropped} from {pair.names[1]}"


def checked_vector(data: Any, n: int, name: str) -> Array | None:
    """One finite number for each of ``n`` classes, in float64."""
    if data is None:
        return None
    vector = _plain(data, name)
    if vector.ndim == 2 and 1 in vector.shape:
        vector = vector.ravel()
    if vector.dtype.kind not in "fiu" or vector.ndim != 1 or len(vector) != n:
        held = f"{name} has shape {vector.shape} and holds {vector.dtype}"
        raise InputError(f"{held} where one number per class is needed: ({n},)")
    vector = vector.astype(np.float64)
    if not np.isfinite(vector).all():
        raise InputError(f"{name} is not finite at class {int(np.argmin(np.isfinite(vector)))}")
    return vector


def _refuse_folder(text: str) -> None:
    """Say which file of a model folder, or of the files that an index lists, holds a tensor."""
    where, _, tensor = text.partition("::")
    path, tensor = Path(where), tensor or "lm_head.weight"
    listed = where.endswith(".safetensors.index.json")
    index = path if listed else path / "model.safetensors.index.json"
    there = False
    with suppress(OSError, ValueError):  # no path at all, which the reader says better
        there = (path if listed else path / "config.json").is_file()
    if not there:
        return
    listing: Any = None
    with suppress(OSError, ValueError, RecursionError):
        if index.stat().st_size <= _MOST_INDEX:
            listing = json.loads(index.read_text("utf-8"))
    shards = listing.get("weight_map") if isinstance(listing, dict) else None
    file = shards.get(tensor) if isinstance(shards, dict) else "model.safetensors"
    what = "a list of files" if listed else "a model folder"
    if not isinstance(file, str):
        raise InputError(f"{where} is {what}, and names no tensor {tensor!r}; {_TIED}")
    raise InputError(f"{where} is {what}: name a file and a tensor, {index.parent / file}::{tensor}")


def _plain(data: Any, name: str) -> Array:
    """The input as an array: tensors without their gradients, and numbers stored as text in a table."""
    if isinstance(data, Representation):
        data = data.values[:]
    if hasattr(data, "detach"):  # a torch tensor; numpy has no bfloat16
        data = data.detach().cpu()
        data = data.float() if str(data.dtype) == "torch.bfloat16" else data
    try:
        array: Array = np.asarray(data)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error
    if array.dtype.kind == "U" and array.ndim == 1:
        with suppress(ValueError):
            return np.asarray(array.astype(np.float64))
    return array


def checked_weights(weights: Any, n: int, row: str = "class") -> Array | None:
    """Weights of classes, or of the rows of another family, that sum to one."""
    shares = checked_vector(weights, n, "weights")
    if shares is None:
        return None
    if (shares < 0).any():
        raise InputError(f"the weight of {row} {int(np.argmax(shares < 0))} is negative")
    total = float(shares.sum())
    if not 0 < total < np.inf:
        raise InputError(f"the weights sum to {total:g}: at least one {row} must have a weight")
    return np.asarray(shares / total)
