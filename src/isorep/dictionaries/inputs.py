"""Dictionaries as given: decoder rows, activations and frequencies, checked; dead atoms and duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Matrix, Representation, match_rows, reading_notes, told_apart
from ..rows import Progress, block_rows, blocks, map_rows, no_progress, read_rows, refuse_non_finite
from ..storage import loaded
from ..threads import Crew
from .matching import block_atoms

DEAD_NORM = 1e-6
"""Share of the median norm up to which a decoder row counts as zero."""
DUPLICATE = 0.99
"""Similarity from which on two atoms of one dictionary are duplicates."""
_SMALL = 1e-15  # largest entry below which, or above whose inverse, a dictionary is scaled before it is rounded
_CELLS = 2**26  # of the activations that are kept: rows x atoms


@dataclass(frozen=True, eq=False)
class Dictionary:
    """One dictionary, its living atoms alone.

    ``alive`` are the places of living atoms among all. ``decoder`` holds their unit vectors, ``activations`` their
    standardised activations as unit vectors over the sampled rows, ``fires`` whether they are active there.
    ``frequency`` is the share of rows in which each is active. None for what was not given.
    """

    name: str
    atoms: int
    width: int | None
    alive: Array
    zero: int
    never_active: int
    decoder: Array | None
    activations: Array | None
    fires: Array | None
    frequency: Array | None
    duplicates: int


@dataclass(frozen=True, eq=False)
class Given:
    """All dictionaries, the number of rows of activations and of those that were sampled, and notes."""

    dictionaries: tuple[Dictionary, ...]
    rows: int | None
    sampled: int | None
    notes: tuple[str, ...]


def open_dictionaries(
    decoders: Sequence[Any],
    activations: Sequence[Any] | None,
    frequencies: Sequence[Any] | None,
    *,
    transpose: bool,
    signed: bool,
    rows: int | None,
    rng: np.random.Generator,
    progress: Progress = no_progress,
) -> Given:
    """Read and check what was given; atoms that are dead in a dictionary are left out of it."""
    count = len(decoders) or len(activations or ())
    if count < 2:
        said = "none was" if count == 0 else "only one was"
        raise InputError(f"recurrence is between dictionaries, at least two, and {said} given")
    for what, given in (("activations", activations), ("frequencies", frequencies)):
        if given is not None and len(given) != count:
            raise InputError(f"there are {count} dictionaries and {what} of {len(given)}: one per dictionary is needed")
    vectors = [_decoder(data, place, transpose) for place, data in enumerate(decoders)]
    codes = [_loaded(data, f"activations {place + 1}") for place, data in enumerate(activations or ())]
    origins = [each.origin or (data if isinstance(data, str | Path) else "") for each, data in
               zip(vectors or codes, decoders or activations or (), strict=True)]  # fmt: skip
    names = told_apart([each.name or "" for each in (vectors or codes)], origins)
    _check_widths(vectors, names, transpose)
    _check_codes(codes, vectors, names)
    sample = _sampled(codes, rows, rng)
    made = []
    for place, name in enumerate(names):
        progress("reading", place, count)
        vector, code = vectors[place] if vectors else None, codes[place] if codes else None
        shares = _given_frequencies(frequencies, place, name)
        made.append(_dictionary(name, vector, code, shares, sample, signed))
    progress("reading", count, count)
    total = None if not codes else len(codes[0])
    notes = reading_notes(*vectors, *codes)
    return Given(tuple(made), total, None if sample is None else len(sample), tuple(notes))


def _decoder(data: Any, place: int, transpose: bool) -> Representation:
    called = f"dictionary {place + 1}"
    data = getattr(data, "dictionary", data)  # of a sparse autoencoder
    if hasattr(data, "parameters") and hasattr(data, "state_dict"):
        raise InputError(f"{called} is a {type(data).__name__}: give its decoder's weight, one row per atom")
    read = _loaded(data, called)
    if not transpose:
        return read
    return Representation(np.asarray(read.values[:]).T, name=read.name, origin=read.origin, taken=read.taken)


def _loaded(data: Any, called: str) -> Representation:
    """Values as given; a dictionary without atoms, or without columns, is refused by its name."""
    shape = getattr(data, "shape", None)
    if shape is not None and len(shape) == 2 and 0 in shape:
        what = "no atoms" if shape[0] == 0 else "atoms without dimensions"
        raise InputError(f"{getattr(data, 'name', None) or called} has {what}: its shape is {tuple(shape)}")
    read = loaded(data, called)
    refuse_non_finite(read.values, read.name or called)
    return read


def _check_widths(vectors: Sequence[Representation], names: Sequence[str], transpose: bool) -> None:
    for each, name in zip(vectors, names, strict=False):
        here, there = vectors[0].shape, each.shape
        if here[1] == there[1]:
            continue
        said = f"{names[0]} has atoms of {here[1]} dimensions and {name} of {there[1]}: atoms must lie in one space"
        if here[0] == there[0] and not transpose:
            said += "; where atoms are columns, transpose them (--transpose, or transpose=True)"
        raise InputError(said)


def _check_codes(codes: Sequence[Representation], vectors: Sequence[Representation], names: Sequence[str]) -> None:
    for place, (code, name) in enumerate(zip(codes, names, strict=False)):
        if place:
            match_rows(codes[0], code)  # refuses other rows, or another order
        if vectors and code.shape[1] != vectors[place].shape[0]:
            raise InputError(
                f"{name} has {vectors[place].shape[0]} atoms and its activations have {code.shape[1]} columns: one "
                "column per atom is needed"
            )
    if codes and len(codes[0]) < 3:
        raise InputError(f"activations have {len(codes[0])} rows: at least 3 are needed")


def _sampled(codes: Sequence[Representation], rows: int | None, rng: np.random.Generator) -> Array | None:
    """The rows whose activations are kept: all, or as many as fit, in their order."""
    if not codes:
        return None
    n = len(codes[0])
    most = max(_CELLS // max(code.shape[1] for code in codes), 64) if rows is None else rows
    return np.arange(n) if most >= n else np.sort(rng.choice(n, most, replace=False))


def _given_frequencies(frequencies: Sequence[Any] | None, place: int, name: str) -> Array | None:
    if frequencies is None:
        return None
    try:
        shares = np.asarray(frequencies[place], dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InputError(f"the frequencies of {name} are not numbers: one per atom is needed") from None
    if not np.isfinite(shares).all() or (shares < 0).any():
        raise InputError(f"the frequencies of {name} must be finite and not negative")
    if (shares > 1).any():
        raise InputError(f"the frequencies of {name} are above 1: divide counts by the number of examples")
    return shares


def _dictionary(
    name: str,
    vector: Representation | None,
    code: Representation | None,
    shares: Array | None,
    sample: Array | None,
    signed: bool,
) -> Dictionary:
    atoms = vector.shape[0] if vector is not None else code.shape[1]  # type: ignore[union-attr]
    alive = np.ones(atoms, dtype=bool)
    decoder, zero = None, 0
    if vector is not None:
        decoder = _near_one(np.asarray(vector.values[:]))
        norms = np.linalg.norm(decoder.astype(np.float64), axis=1)
        middle = float(np.median(norms[norms > 0])) if (norms > 0).any() else 0.0
        alive &= norms > DEAD_NORM * middle
        zero = int((~alive).sum())
        decoder /= np.where(norms > 0, norms, 1.0)[:, None].astype(np.float32)
    active, peaks = (None, None) if code is None else _activity(code.values)
    frequency = active if shares is None else shares
    if frequency is not None and len(frequency) != atoms:
        raise InputError(f"{name} has {atoms} atoms and {len(frequency)} frequencies: one per atom is needed")
    silent = np.zeros(atoms, dtype=bool) if frequency is None else frequency <= 0
    never = int((silent & alive).sum())
    alive &= ~silent
    if not alive.any():
        raise InputError(f"all {atoms} atoms of {name} are dead: they are zero, or never active")
    places = np.flatnonzero(alive)
    decoder = None if decoder is None else np.ascontiguousarray(decoder[places])
    standard, fires = None, None
    if code is not None and sample is not None and peaks is not None:
        standard, fires = _standardised(code.values, sample, places, peaks[places])
    basis = decoder if decoder is not None else standard
    return Dictionary(
        name=name,
        atoms=atoms,
        width=None if vector is None else vector.shape[1],
        alive=places,
        zero=zero,
        never_active=never,
        decoder=decoder,
        activations=standard,
        fires=fires,
        frequency=None if frequency is None else frequency[places],
        duplicates=0 if basis is None else count_duplicates(basis, signed=signed),
    )


def _near_one(values: Array) -> Array:
    """Values in float32, times a power of two where they would leave its range: directions do not change."""
    peak = float(np.abs(values).max())
    if peak == 0 or _SMALL < peak < 1 / _SMALL:
        return np.array(values, dtype=np.float32)
    return np.asarray(values.astype(np.float64) * _power(np.asarray(peak)), dtype=np.float32)


def _power(peaks: Array) -> Array:
    """The power of two that brings each peak near 1."""
    return np.asarray(np.exp2(np.clip(-np.frexp(peaks)[1], -1000, 1000).astype(np.float64)))


def _activity(values: Matrix) -> tuple[Array, Array]:
    """The share of rows in which each atom is active, which is: not zero; and its largest activation."""

    def measured(start: int, block: Array) -> tuple[Array, Array]:
        return np.count_nonzero(block, axis=0), np.maximum(block.max(axis=0), -block.min(axis=0))

    counts, peaks = zip(*map_rows(measured, [values], block_rows(values.shape[1])), strict=True)
    return np.asarray(sum(counts) / values.shape[0]), np.max(peaks, axis=0).astype(np.float64)


def _standardised(values: Matrix, sample: Array, places: Array, peaks: Array) -> tuple[Array, Array]:
    """Activations of the sampled rows, one atom per row: centred and of unit length, and whether each is active.

    An atom that does not vary over the sample is a zero vector: its correlation with everything is 0. Atoms are scaled
    by their ``peaks`` and centred at their first row before they are rounded to float32, which neither a large constant
    nor an extreme scale survives.
    """
    kept = np.empty((len(places), len(sample)), dtype=np.float32)
    fires = np.empty(kept.shape, dtype=bool)
    step, power = block_rows(values.shape[1]), _power(np.where(peaks > 0, peaks, 1.0))
    first = np.asarray(read_rows(values, sample[:1]), np.float64)[0, places] * power
    for part in blocks(len(sample), step):
        block = np.asarray(read_rows(values, sample[part]))[:, places]
        fires[:, part] = (block != 0).T
        kept[:, part] = (block * power - first).T
    means = kept.mean(axis=1, dtype=np.float64)
    kept -= means[:, None].astype(np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", kept, kept, dtype=np.float64))
    rounding = min(1e-6, 4 * float(np.finfo(values.dtype).eps))
    flat = ~(fires.any(axis=1)) | (norms <= rounding * np.sqrt(len(sample)) * np.abs(first + means))
    kept /= np.where(flat, 1.0, norms)[:, None].astype(np.float32)
    kept[flat] = 0
    return kept, fires


def count_duplicates(unit: Array, *, signed: bool) -> int:
    """The number of atoms that nearly equal an earlier one of the same dictionary."""
    n = len(unit)

    def measured(rows: slice) -> int:
        block = unit[rows] @ unit[: rows.stop].T
        if not signed:
            np.abs(block, out=block)
        earlier = np.arange(rows.stop)[None, :] < np.arange(rows.start, rows.stop)[:, None]
        return int(((block >= DUPLICATE) & earlier).any(axis=1).sum())

    with Crew() as crew:
        return sum(crew.stream(measured, blocks(n, block_atoms(n))))
