"""Rows that are paired wrongly: the most common mistake, looked for where a pairing is at chance."""

from __future__ import annotations

import numpy as np

from ..representation import Array, Matrix
from ..rows import read_rows

SHIFTS = 20  # rows by which one side may be off, in either direction
_ROWS = 4000  # looked at
_LEAST_ROWS = 50
_DRAWS = 40
_CLEAR = 8.0  # standard deviations of chance that a shift must exceed
_SAME = 0.2  # of what two halves of one side differ by, below which two spectra are of the same rows


def broken_pairing(x: Matrix, y: Matrix, names: tuple[str, str], seed: int) -> str | None:
    """A sentence if another pairing of the rows would agree where the given one does not; None otherwise."""
    n = min(x.shape[0], y.shape[0])
    if n < _LEAST_ROWS:
        return None
    rng = np.random.default_rng(seed)
    most = min(SHIFTS, n // 5)
    # Consecutive rows, so that shifted ones are at hand.
    start = int(rng.integers(0, n - min(n, _ROWS) + 1))
    rows = slice(start, start + min(n, _ROWS))
    a, b = (_whitened(np.asarray(read_rows(values, rows), dtype=np.float64)) for values in (x, y))
    chance = np.array([_overlap(a, b[rng.permutation(len(b))]) for _ in range(_DRAWS)])
    spread = max(float(chance.std(ddof=1)), 1e-12)

    def height(left: Array, right: Array) -> float:
        overlap = _overlap(left, right) * (len(a) / len(left))
        return (overlap - float(chance.mean())) / spread

    given = height(a, b)
    tried = {f"the rows of {names[1]} in reverse order": height(a, b[::-1])}
    for step in range(1, most + 1):
        rows_word = "row" if step == 1 else "rows"
        tried[f"{names[1]} moved up by {step} {rows_word}"] = height(a[:-step], b[step:])
        tried[f"{names[1]} moved down by {step} {rows_word}"] = height(a[step:], b[:-step])
    name, best = max(tried.items(), key=lambda entry: entry[1])
    if best > _CLEAR and best > 3 * max(given, 1.0):
        return (
            f"the pairing looks broken: as given, the rows of {names[0]} and {names[1]} are related no more than by "
            f"chance, and with {name} they clearly are: check that both hold the same examples in the same order"
        )
    if n <= _ROWS and given < _CLEAR and _same_spectra(x, y, rng):
        return (
            f"the pairing looks broken: {names[0]} and {names[1]} have the same spectrum, more alike than two halves "
            "of one of them, as the same rows in another order would have: check the order of the rows"
        )
    return None


def _whitened(rows: Array) -> Array:
    """Rows about their mean in leading principal directions, each at unit norm: few, so that chance is small."""
    centred = rows - rows.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    kept = min(int((singular > 1e-6 * max(singular[0], 1e-300)).sum()), 20, len(rows) // 10)
    return np.asarray(left[:, : max(kept, 1)])


def _overlap(a: Array, b: Array) -> float:
    """The summed squared canonical correlations of two sets of orthonormal columns."""
    return float(np.linalg.norm(a.T @ b) ** 2)


def _same_spectra(x: Matrix, y: Matrix, rng: np.random.Generator) -> bool:
    """Whether two sides of equal width differ less in their spectra than two halves of one side do."""
    if x.shape[1] != y.shape[1]:
        return False
    sides = [np.asarray(values[:], dtype=np.float64) for values in (x, y)]
    order = rng.permutation(len(sides[0]))
    halves = [sides[0][order[: len(order) // 2]], sides[0][order[len(order) // 2 :]]]
    expected = _spectral_distance(*halves)
    # Two samples of all rows would differ by that over the root of two, if they had no rows in common.
    return _spectral_distance(*sides) < _SAME * expected / np.sqrt(2) and expected > 0


def _spectral_distance(a: Array, b: Array) -> float:
    spectra = []
    for rows in (a, b):
        singular = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
        spectra.append(singular**2 / max(float((singular**2).sum()), 1e-300))
    count = min(map(len, spectra))
    return float(np.linalg.norm(spectra[0][:count] - spectra[1][:count]))
