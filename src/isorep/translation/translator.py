"""Translator: a fitted map that translates rows, warns about drift, and can be saved to a file.

Translating files: the input is checked before anything is written, then streamed; output is complete or absent.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..chunked import ChunkedRows, computed, shared
from ..errors import InputError
from ..files import replacing
from ..ica.unmixing import as_source
from ..ica.whitening import AffineRows
from ..moments import Moments, fold_moments
from ..pairs import Pair, open_pair
from ..representation import Array, Representation, rounding_of
from ..results import counted, decimals
from ..rows import Progress, block_rows, map_rows, no_progress, read_rows, refuse_non_finite
from ..storage import loaded, read, shards, write
from ..storage.lazy import LazyMatrix
from ..storage.model_files import ModelFile, Shapes, require_model_path, save_arrays
from ..storage.registry import reader, split_key, suffixes
from ..storage.remote import address
from ..storage.write import require_target
from ..threads import Crew
from .confidence import Confidence, features_of
from .drift import Drift, DriftWarning, Reference, spread_rows
from .maps import MAPS, MOMENT_MAPS, UNPAIRED, FittedMap, Setting, Training, drop_columns, without_columns

FORMAT = "isorep translation 2"
FORMATS = (FORMAT, "isorep translation 1")  # maps of the first version have no lengths, hidden layers or moments
_LARGEST = 1e75  # of moments and means: squares and their sums stay within float64
_SCALES = ("radius", "limit", "distance", "spread")  # of the reference, in the order of the file
_SHORT, _LONG = 1e-15, 1e18  # lengths whose squares float32 holds
_CONFIDENCE = ("centre", "scale", "weights")
_MEASURED = ("held-out error", "held-out cosine", "recall", "corpus")  # by the first fit, not of the map of all pairs
_COMPARED, _LEAST_COMPARED = 1000, 20  # pairs that are compared with shuffled ones, at most and at least
_SHUFFLES, _LEVEL = 199, 0.05
_WORSE = 0.25  # mean distances by which added pairs may err more than held-out ones


@dataclass(frozen=True, eq=False, repr=False)
class Translator:
    r"""A fitted map from old vectors to new ones, with what is needed to check and extend it.

    Parameters
    ----------
    map : FittedMap
        The map itself: ``kind``, ``matrix``, ``old_mean``, ``new_mean``, ``hidden`` and ``norm``, which are attributes
        of the translator, too.
    reference : Reference
        Statistics of the old model's rows, for the drift check.
    facts : dict
        Facts about the fit, as plain JSON: names, numbers of pairs, held-out error and recall, fingerprints. With added
        pairs, what was measured belongs to the first fit.
    confidence_model : Confidence, optional
        Predicts the cosine of a translated vector with its native one.
    moments : Moments, optional
        Second moments of the pairs, for :meth:`update`; maps that were trained on rows have none.
    setting : Setting
        Strength and rank, for :meth:`update`.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> old = np.random.default_rng(0).normal(size=(400, 3))
    >>> translator = isorep.translate(old, 2 * old + 1).translator
    >>> translator.transform(np.zeros((1, 3))).round(6)
    array([[1., 1., 1.]])
    """

    map: FittedMap
    reference: Reference
    facts: dict[str, Any] = field(default_factory=dict)
    confidence_model: Confidence | None = None
    moments: Moments | None = None
    setting: Setting = field(default_factory=Setting)

    @property
    def kind(self) -> str:
        """``rigid``, ``linear``, ``ridge``, ``low_rank``, ``cosine``, ``mlp`` or ``unpaired``."""
        return self.map.kind

    @property
    def matrix(self) -> Array:
        """The linear part, of shape (d_old, d_new)."""
        return self.map.matrix

    @property
    def old_mean(self) -> Array:
        """The mean that is subtracted from old vectors."""
        return self.map.old_mean

    @property
    def new_mean(self) -> Array:
        """The mean that is added to mapped vectors."""
        return self.map.new_mean

    @property
    def norm(self) -> float | None:
        """The length that translated vectors have; None where lengths vary."""
        return self.map.norm

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

    def confidence(self, X: Any) -> Array:
        """For each row the predicted cosine between its translation and the vector of the new model.

        It follows from the old vector alone, by a regression on held-out pairs; see the result's ``calibration``.
        """
        model = self.confidence_model
        if model is None:
            raise InputError("this map has no confidence: it was fitted to too few pairs, or by an earlier version")
        data = self._rows(X)

        def predicted(start: int, block: Array) -> Array:
            rows = block.astype(np.float64)
            if not np.isfinite(rows).all():
                refuse_non_finite(block, data.name or "X", start)
            return model.predict(features_of(self.map, self.reference, rows))

        size = block_rows(data.shape[1], len(self.new_mean), cells=2**20)
        return np.concatenate(map_rows(predicted, [data.values], size))

    def update(self, old: Any, new: Any, *, join: bool = False, check: bool = True) -> Translator:
        """The map of the earlier pairs and these: moments are added, and no earlier row is read again.

        Strength, rank, length, drift reference and confidence stay those of the first fit, and what that measured on
        held-out pairs is kept as ``facts["first fit"]``. Maps that were trained on rows (``cosine``, ``mlp``) are
        refused, and so are pairs that the map already has. Pairs that :meth:`doubts` speaks against cause a
        :class:`~isorep.DriftWarning`, unless ``check`` is False.

        Examples
        --------
        >>> import numpy as np, isorep
        >>> old = np.random.default_rng(0).normal(size=(600, 3))
        >>> some = isorep.translate(old[:400], 2 * old[:400] + 1, maps="linear").translator
        >>> some.update(old[400:], 2 * old[400:] + 1).facts["pairs"]
        600
        """
        pair, moments = self._pairs(old, new, join)
        prints = {"old": as_source(pair.x).fingerprint(), "new": as_source(pair.y).fingerprint()}
        before = self.facts.get("added fingerprints", [])
        if prints in (self.facts.get("fingerprints"), *before):
            raise InputError(f"the pairs of {pair.names[0]} and {pair.names[1]} are already in the map")
        if check:
            for said in self._doubts(pair):
                warnings.warn(said, DriftWarning, stacklevel=2)
        added = fold_moments(pair.x, pair.y, np.zeros(pair.n, np.intp), 1, names=pair.names)[0]
        for some, whose in ((moments, "the map"), (added, "the added pairs")):
            parts = (some.xx, some.xy, some.yy, some.source_mean, some.target_mean)
            if not all(np.abs(part).max(initial=0.0) < _LARGEST for part in parts):
                raise InputError(
                    f"the moments of {whose} are so large that sums would overflow: rescale, or fit it again"
                )
        rounding = rounding_of(pair.x)
        if _number(self.facts, "rounding") is None:
            drop_columns(added, np.diagonal(moments.xx) == 0, moments.source_mean)
            total = used = moments + added
        else:
            rounding = max(rounding, self.facts["rounding"])
            total = moments + added
            used = without_columns(total, rounding)
        fitted = Training(used, rounding).fit(self.kind, self.setting)
        first = {name: self.facts[name] for name in ("pairs", *_MEASURED) if name in self.facts}
        facts = {name: value for name, value in self.facts.items() if name not in _MEASURED} | {
            "first fit": self.facts.get("first fit", first),
            "pairs": total.n,
            "added": [*self.facts.get("added", []), pair.n],
            "added fingerprints": [*before, prints],
        }
        if "rounding" in facts:
            facts["rounding"] = rounding
        return replace(self, map=FittedMap.from_affine(self.kind, fitted, self.norm), facts=facts, moments=total)

    def doubts(self, old: Any, new: Any, *, join: bool = False) -> tuple[str, ...]:
        """What speaks against adding these pairs, in sentences, from a sample of them; none is no proof.

        Either side drifts from the rows that the map was fitted to, or the pairs do not fit the map: not shown to be
        better than shuffled ones, or far worse than held-out ones.
        """
        return tuple(self._doubts(self._pairs(old, new, join)[0]))

    def _pairs(self, old: Any, new: Any, join: bool) -> tuple[Pair, Moments]:
        """Pairs that can be added, and the moments to add them to."""
        if self.kind not in MOMENT_MAPS:
            how = "has no pairs" if self.kind == UNPAIRED else "was trained on rows"
            raise InputError(
                f"the {self.kind} map {how}, so pairs cannot be added to it: fit again on all of them, "
                f"or fit one of {', '.join(MOMENT_MAPS)}"
            )
        if self.moments is None:
            raise InputError("this map was saved without the moments of its pairs, by an earlier version: fit it again")
        pair, _, _ = open_pair(old, new, ("old", "new"), None, join)
        for side, width, name in ((pair.x, len(self.old_mean), 0), (pair.y, len(self.new_mean), 1)):
            if side.shape[1] != width:
                raise InputError(f"{pair.names[name]} has {side.shape[1]} columns, and the map has {width}")
        return pair, self.moments

    def _doubts(self, pair: Pair) -> Iterator[str]:
        drift = self.reference.drift(pair.x, pair.names[0])
        if drift:
            yield f"{pair.names[0]}: {drift}"
        scales = self.facts.get("new vectors")
        known = {name: _number(scales, name) for name in (*_SCALES, "mean distance")}
        radius, distance, spread, unit = (known[name] for name in ("radius", "distance", "spread", "mean distance"))
        if radius and distance and spread is not None:
            blank = np.zeros((len(self.new_mean), 1))  # there is no covariance of new vectors to whiten them by
            rows, held = self.reference.rows, self.reference.held
            drift = Reference(self.new_mean, blank, radius, 1.0, distance, spread, rows, held).drift(
                pair.y, pair.names[1]
            )
            if drift:
                yield f"{pair.names[1]}: {drift}"
        chosen = spread_rows(pair.n)
        chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, _COMPARED).astype(int))]
        x, y = (np.asarray(read_rows(side, chosen), np.float64) for side in (pair.x, pair.y))
        names = f"the pairs of {pair.names[0]} and {pair.names[1]}"
        with np.errstate(over="ignore", invalid="ignore"):
            mapped = self.map.raw(x)
            errors = np.linalg.norm(mapped - y, axis=1)
            if len(x) >= _LEAST_COMPARED:
                p = _shuffled_p(mapped, y)
                if not p <= _LEVEL:
                    yield f"{names} are not shown to fit the map better than shuffled ones (p = {decimals(p, 3)})"
            before = _number(self.facts.get("first fit", self.facts), "held-out error")
            if before is not None and unit:
                error, spread = float(errors.mean()) / unit, float(errors.std()) / unit
                room = 3 * max(spread, error / 2) / np.sqrt(len(x))  # a few pairs do not show how errors vary
                if not error <= before + _WORSE + room:
                    yield (
                        f"{names} err {decimals(error, 2)} under the map, and held-out pairs of the first fit "
                        f"{decimals(before, 2)}, in mean distances of new vectors to their mean"
                    )
        if _number(self.facts, "rounding") is None and self.moments is not None:
            still = np.flatnonzero((np.diagonal(self.moments.xx) == 0) & (x.std(axis=0) > 0))
            if len(still):
                yield (
                    f"{counted(len(still), 'column')} of {pair.names[0]} did not count in the first fit and will not "
                    "now, since the map is of an earlier version: fit again on all pairs"
                )

    def save(self, path: str | Path) -> None:
        """Write the map to a safetensors file, completely or not at all."""
        path = require_model_path(path, noun="map")
        known, model, moments = self.reference, self.confidence_model, self.moments
        given = {
            "matrix": self.matrix,
            "old_mean": self.old_mean,
            "new_mean": self.new_mean,
            "reference_mean": known.mean,
            "whitener": known.whitener,
            "scales": np.array([getattr(known, name) for name in _SCALES]),
        }
        if self.map.hidden is not None:
            given |= dict(zip(("hidden_matrix", "hidden_bias", "hidden_out"), self.map.hidden, strict=True))
        if model is not None:
            given |= {f"confidence_{name}": getattr(model, name) for name in _CONFIDENCE}
            given["confidence_range"] = np.array([model.low, model.high])
        if moments is not None:
            given |= {"moments_old_mean": moments.source_mean, "moments_new_mean": moments.target_mean}
            given |= {"moments_old": moments.xx, "moments_cross": moments.xy}
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
            "norm": self.norm,
            "hidden units": None if self.map.hidden is None else len(self.map.hidden[1]),
            "features": None if model is None else len(model.centre),
            "moments of": None if moments is None else moments.n,
            "strength": self.setting.strength,
            "rank": self.setting.rank,
            "fit": self.facts,
        }
        save_arrays(path, arrays, facts)

    @classmethod
    def load(cls, path: str | Path) -> Translator:
        """Load a map from a file, also of the first version; damaged or foreign files raise an error."""
        file = ModelFile(path, FORMATS, "map")
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
        hidden = None
        if facts.get("hidden units"):
            hidden = (arrays["hidden_matrix"], arrays["hidden_bias"], arrays["hidden_out"])
        model = moments = None
        if facts.get("features"):
            if not (arrays["confidence_scale"] > 0).all():
                file.refuse("its confidence_scale are not positive")
            low, high = arrays["confidence_range"].tolist()
            given = {name: arrays[f"confidence_{name}"] for name in _CONFIDENCE}
            model = Confidence(**given, low=low, high=high)
        if facts.get("moments of"):
            means = arrays["moments_old_mean"], arrays["moments_new_mean"]
            unused = np.zeros((len(new_mean), len(new_mean)))  # no fit uses the new side's own moments
            moments = Moments(facts["moments of"], *means, arrays["moments_old"], arrays["moments_cross"], unused)
        fitted = FittedMap(facts["kind"], matrix, old_mean, new_mean, hidden, facts.get("norm"))
        setting = Setting(facts.get("strength"), facts.get("rank"))
        return cls(fitted, reference, dict(facts["fit"]), model, moments, setting)

    def __repr__(self) -> str:
        rows, columns = self.matrix.shape
        pairs = self.facts.get("pairs")
        length = "" if self.norm is None else f", length {self.norm:.4g}"
        return f"Translator({self.kind}, {rows} -> {columns} columns{length}{f', {pairs} pairs' if pairs else ''})"

    def _rows(self, X: Any) -> Representation:
        data, wanted = loaded(X, "X"), len(self.old_mean)
        if data.shape[1] != wanted:
            raise InputError(f"{data.name} has {data.shape[1]} columns, and the map translates vectors of {wanted}")
        return data


def _shuffled_p(mapped: Array, native: Array) -> float:
    """How often shuffled pairs are as close as these: the sum of squares differs by inner products alone."""
    similar = (mapped - mapped.mean(axis=0)) @ (native - native.mean(axis=0)).T
    rng, lines = np.random.default_rng(0), np.arange(len(similar))
    own = float(np.trace(similar))
    draws = [float(similar[lines, rng.permutation(len(similar))].sum()) for _ in range(_SHUFFLES)]
    return (1 + sum(not value < own for value in draws)) / (1 + _SHUFFLES)


def _number(facts: Any, name: str) -> float | None:
    """A fact of a map file that is a finite number from 0 on; None if it is anything else."""
    found = facts.get(name) if isinstance(facts, dict) else None
    is_number = isinstance(found, float | int) and not isinstance(found, bool) and 0 <= found < np.inf
    return float(found) if is_number and found is not None else None


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
            self._norm = by.norm
            self._hidden: tuple[Array, ...] | None = None
            if by.map.hidden is not None:
                into, bias, out = by.map.hidden
                given = (into, bias + rounded @ into, out)
                self._hidden = tuple(np.ascontiguousarray(part, self.dtype) for part in given)

    def _map_block(self, block: Array, out: Array) -> None:
        """Centre first: in float32 the product of large means would cost digits."""
        with np.errstate(over="ignore", invalid="ignore"):
            centred = np.subtract(block, self._before, dtype=self.dtype)
            np.matmul(centred, self._matrix, out=out)
            out += self._after
            if self._hidden is not None:
                into, bias, outward = self._hidden
                active = centred @ into
                active += bias
                out += np.maximum(active, 0, out=active) @ outward
            if self._norm is not None:
                self._set_lengths(out)
            finite = bool(np.isfinite(out.sum()))
        if not finite and not np.isfinite(out).all():
            refuse_non_finite(self._values, self._name)
            raise InputError(f"{self._name} holds values so large that their translation overflows")

    def _set_lengths(self, out: Array) -> None:
        """Scale every row to the length of new vectors; rows of zeros stay zero."""
        lengths = np.sqrt(np.einsum("ij,ij->i", out, out))
        odd = ~((lengths > _SHORT) & (lengths < _LONG))
        if odd.any():  # squares that leave the range of float32
            lengths[odd] = np.linalg.norm(out[odd].astype(np.float64), axis=1)
        out *= np.divide(self._norm or 1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)[:, None]


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
    if facts.get("kind") not in (*MAPS, UNPAIRED):
        file.refuse(f"its kind is {str(facts.get('kind'))[:60]!r}")
    file.require_counts(facts, "old columns", "new columns", "reference rows", "held-out rows")
    optional = ("hidden units", "features", "moments of", "rank")
    file.require_counts(facts, *(name for name in optional if facts.get(name) is not None))
    if (facts.get("hidden units") is not None) != (facts["kind"] == "mlp"):
        file.refuse("a hidden layer belongs to mlp, and only to it")
    for name in ("norm", "strength"):
        value = facts.get(name)
        if value is not None and not (type(value) in (int, float) and 0 <= value <= sys.float_info.max):
            file.refuse(f"its {name} is {str(value)[:60]!r}")
    if facts.get("norm") == 0:
        file.refuse("its norm is 0")
    if not isinstance(facts.get("fit"), dict):
        file.refuse("it does not say how it was fitted")


def _shapes(facts: dict[str, Any]) -> Shapes:
    old, new = facts["old columns"], facts["new columns"]
    shapes = {"matrix": (old, new), "old_mean": (old,), "new_mean": (new,), "reference_mean": (old,)}
    shapes |= {"whitener": (old, old), "scales": (len(_SCALES),)}
    if hidden := facts.get("hidden units"):
        shapes |= {"hidden_matrix": (old, hidden), "hidden_bias": (hidden,), "hidden_out": (hidden, new)}
    if features := facts.get("features"):
        shapes |= {f"confidence_{name}": (features,) for name in ("centre", "scale")}
        shapes |= {"confidence_weights": (1 + 2 * features,), "confidence_range": (2,)}
    if facts.get("moments of"):
        shapes |= {"moments_old_mean": (old,), "moments_new_mean": (new,)}
        shapes |= {"moments_old": (old, old), "moments_cross": (old, new)}
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
            result = _as_stored(
                translator.translated(
                    source.rows, crew=crew, progress=lambda done, total: progress("translating", done, total)
                ),
                source.rows,
            )
            write(result, output, drop_ids=drop_ids or _ids_apart(source.ids, output))
            return result
        folder, key = split_key(source.path, None)
        files = shards.filled_files(folder)
        with replacing(Path(output), folder=True) as temporary:
            for index, file in enumerate(files):
                given = read(file, key=key, ids=source.ids)
                rows = _as_stored(translator.translated(given, crew=crew), given)
                write(rows, temporary / file.name, drop_ids=drop_ids)
                progress("translating files", index + 1, len(files))
        return _as_stored(translator.translated(source.rows), source.rows)


class _HalfRows(LazyMatrix):
    """Translated rows in float16, as the store holds them."""

    def __init__(self, rows: TranslatedRows, name: str) -> None:
        self._wide, self._name = rows, name
        super().__init__((int(rows.shape[0]), int(rows.shape[1])), np.float16)

    def _slice(self, start: int, stop: int) -> Array:
        return self._narrow(self._wide[start:stop])

    def _take(self, rows: Array) -> Array:
        return self._narrow(self._wide[rows])

    def _narrow(self, block: Array) -> Array:
        with np.errstate(over="ignore"):
            narrow = block.astype(np.float16)
        if not np.isfinite(narrow).all():
            raise InputError(f"{self._name} holds float16, which is too narrow for translated vectors")
        return narrow


def _as_stored(translated: Representation, given: Representation) -> Representation:
    """Translated rows in the type of the given ones, where that is float16: a store does not double in size."""
    if given.values.dtype != np.float16 or not isinstance(translated.values, TranslatedRows):
        return translated
    return replace(translated, values=_HalfRows(translated.values, given.name or "the data"))


def _ids_apart(ids: str | None, output: str | Path) -> bool:
    """Whether ids have a file of their own, and rows go to a file without ids, in the same order."""
    return ids is not None and ids.endswith(".npy") and str(output).lower().endswith(".npy")


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
    files, by = shards.filled_files(folder), shared(translator)
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
