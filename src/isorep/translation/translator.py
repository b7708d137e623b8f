"""Translator: a fitted map that translates rows, warns about drift, and can be saved to a file.

Translating files: the input is checked before anything is written, then streamed; output is complete or absent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..alignment import AffineMap
from ..chunked import ChunkedRows, computed, shared
from ..errors import InputError
from ..files import replacing
from ..ica.whitening import AffineRows
from ..representation import Array, Representation
from ..rows import Progress, no_progress, refuse_non_finite
from ..storage import loaded, read, shards, write
from ..storage.model_files import ModelFile, Shapes, require_model_path, save_arrays
from ..storage.registry import reader, split_key, suffixes
from ..storage.remote import address
from ..storage.write import require_target
from ..threads import Crew
from .drift import Drift, DriftWarning, Reference
from .maps import MAPS

FORMAT = "isorep translation 1"
_SCALES = ("radius", "limit", "distance", "spread")  # of the reference, in the order of the file


@dataclass(frozen=True, eq=False, repr=False)
class Translator:
    r"""The map :math:`x\mapsto(x-\mu_x)A+\mu_y` from old vectors to new ones.

    Parameters
    ----------
    kind : str
        ``rigid``, ``linear``, ``ridge`` or ``low_rank``.
    matrix : (d_old, d_new) array
        :math:`A`.
    old_mean, new_mean : (d_old,) and (d_new,) arrays
    reference : Reference
        Statistics of the old model's rows, for the drift check.
    facts : dict
        Facts about the fit, as plain JSON: names, numbers of pairs, held-out error and recall, fingerprints.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> old = np.random.default_rng(0).normal(size=(400, 3))
    >>> translator = isorep.translate(old, 2 * old + 1).translator
    >>> translator.transform(np.zeros((1, 3))).round(6)
    array([[1., 1., 1.]])
    """

    kind: str
    matrix: Array
    old_mean: Array
    new_mean: Array
    reference: Reference
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_map(cls, kind: str, fitted: AffineMap, reference: Reference, facts: dict[str, Any]) -> Translator:
        """A translator from a fitted map and facts about it."""
        matrix = fitted.matrix[:, : fitted.target_width]
        return cls(kind, matrix, fitted.source_mean, fitted.target_mean, reference, facts)

    def transform(self, X: Any, *, check: bool = True) -> Any:
        """Translate rows: products in float32 for float32 and coarser rows, in float64 for float64.

        Returns a lazy Dask array for a Dask array; only a sample is computed, for the check.
        Rows that do not look like the old model's cause a :class:`~isorep.DriftWarning`, unless ``check`` is False.
        """
        data = self._rows(X)
        if check:
            drift = self.drift(data)
            if drift:
                warnings.warn(f"{data.name}: {drift}", DriftWarning, stacklevel=2)
        values = self.translated(data).values
        return values.array() if isinstance(values, ChunkedRows) else values[:]

    def drift(self, X: Any) -> Drift:
        """Drift of rows relative to those the map was fitted to, from at most 10,000 of them."""
        data = self._rows(X)
        return self.reference.drift(data.values, data.name or "X")

    def translated(
        self, data: Representation, *, crew: Crew | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Representation:
        """Rows of a file or an array, translated lazily, block by block when they are read; ids are kept."""
        rows = self._rows(data)
        if isinstance(rows.values, ChunkedRows):
            double = rows.values.dtype.itemsize >= 8
            chunks = rows.values.mapped(
                _TranslatedChunk(self, rows.name or "the data"),
                len(self.new_mean),
                np.float64 if double else np.float32,
                placed=True,
            )
            return Representation(chunks, data.ids, data.name)
        return Representation(TranslatedRows(rows, self, crew, progress), data.ids, data.name)

    def save(self, path: str | Path) -> None:
        """Write the map to a safetensors file, completely or not at all."""
        path = require_model_path(path, noun="map")
        known = self.reference
        given = {
            "matrix": self.matrix,
            "old_mean": self.old_mean,
            "new_mean": self.new_mean,
            "reference_mean": known.mean,
            "whitener": known.whitener,
            "scales": np.array([getattr(known, name) for name in _SCALES]),
        }
        arrays = {name: np.array(values, np.float64, order="C") for name, values in given.items()}
        for name, values in arrays.items():
            if not np.isfinite(values).all():
                raise InputError(f"{name} holds values that are not finite, so this map is not worth keeping")
        facts = {
            "format": FORMAT,
            "isorep": __version__,
            "kind": self.kind,
            "old columns": len(self.old_mean),
            "new columns": len(self.new_mean),
            "reference rows": known.rows,
            "held-out rows": known.held,
            "fit": self.facts,
        }
        save_arrays(path, arrays, facts)

    @classmethod
    def load(cls, path: str | Path) -> Translator:
        """Load a map from a file; damaged or foreign files raise an error."""
        file = ModelFile(path, FORMAT, "map")
        facts, arrays = file.read(lambda facts: _check_facts(file, facts), _shapes)
        scales = dict(zip(_SCALES, arrays["scales"].tolist(), strict=True))
        if not (min(scales["radius"], scales["limit"], scales["distance"]) > 0 and scales["spread"] >= 0):
            file.refuse("its scales are not positive")
        reference = Reference(
            mean=arrays["reference_mean"],
            whitener=arrays["whitener"],
            rows=facts["reference rows"],
            held=facts["held-out rows"],
            **scales,
        )
        matrix, old_mean, new_mean = (arrays[name] for name in ("matrix", "old_mean", "new_mean"))
        return cls(facts["kind"], matrix, old_mean, new_mean, reference, dict(facts["fit"]))

    def __repr__(self) -> str:
        rows, columns = self.matrix.shape
        pairs = self.facts.get("pairs")
        return f"Translator({self.kind}, {rows} -> {columns} columns{f', {pairs} pairs' if pairs else ''})"

    def _rows(self, X: Any) -> Representation:
        data, wanted = loaded(X, "X"), len(self.old_mean)
        if data.shape[1] != wanted:
            raise InputError(f"{data.name} has {data.shape[1]} columns, and the map translates vectors of {wanted}")
        return data


class TranslatedRows(AffineRows):
    """Rows under a map, with products in the precision that the rows have."""

    def __init__(
        self,
        data: Representation,
        by: Translator,
        crew: Crew | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        name = data.name or "the data"
        super().__init__(data.values, name, by.matrix, by.old_mean, by.new_mean, crew=crew, progress=progress)
        with np.errstate(over="ignore"):
            self._before, self._matrix = (np.ascontiguousarray(part, self.dtype) for part in (by.old_mean, by.matrix))
            rounded = self._before - by.old_mean  # the rounding error of the mean in float32 is added after the map
            self._after = np.asarray(by.new_mean + rounded @ by.matrix, self.dtype)

    def _map_block(self, block: Array, out: Array) -> None:
        """Centre first: in float32 the product of large means would cost digits."""
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(np.subtract(block, self._before, dtype=self.dtype), self._matrix, out=out)
            out += self._after
            finite = bool(np.isfinite(out.sum()))
        if not finite and not np.isfinite(out).all():
            refuse_non_finite(self._values, self._name)
            raise InputError(f"{self._name} holds values so large that their translation overflows")


class _TranslatedChunk:
    """Translation of a chunk in a worker, the same as :class:`TranslatedRows` of its rows."""

    def __init__(self, by: Translator, name: str) -> None:
        self._by, self._name = by, name

    def __call__(self, chunk: Array, start: int) -> Array:
        if not len(chunk):
            return np.empty((0, len(self._by.new_mean)), np.float64 if chunk.dtype.itemsize >= 8 else np.float32)
        try:
            return TranslatedRows(Representation(chunk, name=self._name), self._by)[:]
        except InputError:
            refuse_non_finite(chunk, f"{self._name}, in rows {start} to {start + len(chunk) - 1},", start)
            raise


def _check_facts(file: ModelFile, facts: dict[str, Any]) -> None:
    if facts.get("kind") not in MAPS:
        file.refuse(f"its kind is {str(facts.get('kind'))[:60]!r}")
    file.require_counts(facts, "old columns", "new columns", "reference rows", "held-out rows")
    if not isinstance(facts.get("fit"), dict):
        file.refuse("it does not say how it was fitted")


def _shapes(facts: dict[str, Any]) -> Shapes:
    old, new = facts["old columns"], facts["new columns"]
    shapes = {"matrix": (old, new), "old_mean": (old,), "new_mean": (new,), "reference_mean": (old,)}
    shapes |= {"whitener": (old, old), "scales": (len(_SCALES),)}
    return {name: ("F64", shape) for name, shape in shapes.items()}


@dataclass(frozen=True)
class Source:
    """Input of a translation: one file, or the files of a folder, as one matrix of rows."""

    path: str
    rows: Representation
    ids: str | None


def open_source(path: str | Path, ids: str | None = None, in_chunks: bool = False) -> Source:
    """Open a file of any format, or a folder of shards; its rows here, or in the workers of a Dask cluster."""
    return Source(str(path), read(path, ids=ids, in_chunks=in_chunks), ids)


def writes_folder(output: str | Path) -> bool:
    """Whether an output will be a folder with a file for each file of the input: its name has no known suffix."""
    path, key = split_key(output, None)
    return key is None and not path.name.lower().endswith(tuple(suffixes()))


def require_output(source: str | Path, output: str | Path) -> None:
    """Refuse an output that cannot be written, before any work is done for it."""
    if not writes_folder(output):
        require_target(output)
        return
    folder, path = split_key(source, None)[0], Path(output)
    if reader(folder) is not shards:
        require_target(output)  # refuses it by its suffix
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} exists and is not an empty folder: name another one for the translated files")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{path.parent} is not a folder, so {path.name} cannot be written there")


def translate_files(
    translator: Translator,
    source: Source,
    output: str | Path,
    *,
    drop_ids: bool = False,
    progress: Progress = no_progress,
) -> Representation:
    """Write the translated rows to one file, or file by file to a folder; returns the output, opened lazily.

    Reading, products and writing overlap; memory stays at a few blocks. With rows in the workers of a Dask cluster, the
    workers translate them; one file is written here, and the files of a folder by the workers.
    """
    if isinstance(source.rows.values, ChunkedRows):
        return _translate_in_workers(translator, source, output, drop_ids, progress)
    with Crew() as crew:
        if not writes_folder(output):
            result = translator.translated(
                source.rows, crew=crew, progress=lambda done, total: progress("translating", done, total)
            )
            write(result, output, drop_ids=drop_ids)
            return result
        folder, key = split_key(source.path, None)
        files = shards.shard_files(folder)
        with replacing(Path(output), folder=True) as temporary:
            for index, file in enumerate(files):
                rows = translator.translated(read(file, key=key, ids=source.ids), crew=crew)
                write(rows, temporary / file.name, drop_ids=drop_ids)
                progress("translating files", index + 1, len(files))
        return translator.translated(source.rows)


def _translate_in_workers(
    translator: Translator, source: Source, output: str | Path, drop_ids: bool, progress: Progress
) -> Representation:
    result = translator.translated(source.rows)
    if not writes_folder(output):
        progress("translating", 0, len(result))
        try:
            write(result, output, drop_ids=drop_ids)
        except InputError:
            refuse_non_finite(source.rows.values, source.rows.name or "the data")  # a worker has only its own chunk
            raise
        progress("translating", len(result), len(result))
        return result
    from dask import delayed

    folder, key = split_key(source.path, None)
    files, by = shards.shard_files(folder), shared(translator)
    with replacing(Path(output), folder=True) as temporary:
        task = delayed(_translate_shard, pure=False)
        done = computed(
            [task(by, address(file), key, source.ids, str(temporary.resolve() / file.name), drop_ids) for file in files]
        )
        progress("translating files", len(done), len(files))
    return result


def _translate_shard(
    translator: Translator, file: str, key: str | None, ids: str | None, target: str, drop_ids: bool
) -> None:
    """One file of a folder, read and written by a worker; restarted if the worker is lost."""
    write(translator.translated(read(file, key=key, ids=ids)), target, drop_ids=drop_ids)


def has_ids(result: Representation, output: str | Path, drop_ids: bool) -> bool:
    """Whether the output has row ids: an npy file cannot hold them."""
    if result.ids is None or drop_ids:
        return False
    path = split_key(output, None)[0]
    names = [file.name for file in path.iterdir()] if writes_folder(output) else [path.name]
    return not names[0].lower().endswith(".npy")
