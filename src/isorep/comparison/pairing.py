"""Rows that are paired wrongly: the most common mistake, looked for where a pairing is at chance."""

from __future__ import annotations

import numpy as np
from scipy import stats

from ..representation import Array, Matrix
from ..rows import read_rows

SHIFTS = 20  # rows by which one side may be off, in either direction
_ROWS = 4000  # looked at
_LEAST_ROWS = 200  # fewer do not tell what chance is
_DRAWS = 100
_CLEAR = 1e-7  # the share of chance that may lie above what a shift gives
_SAME = 0.2  # of what independent samples of one distribution differ by, below which two sides hold the same rows


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
    # Rows far apart, in their order, so that chance holds what neighbouring rows share.
    far = np.arange(2 * most, len(b) - 2 * most)
    steps = rng.choice(far, min(_DRAWS, len(far)), replace=False)
    chance = np.array([_overlap(a, np.roll(b, step, axis=0)) for step in steps])
    mean, variance = float(chance.mean()), max(float(chance.var(ddof=1)), 1e-30)

    def height(left: Array, right: Array) -> float:
        """Minus the decimal logarithm of how often chance is as high: a gamma tail, as sums of squares have."""
        overlap = _overlap(left, right) * (len(a) / len(left))
        return -float(stats.gamma.logsf(overlap, mean**2 / variance, scale=variance / mean) / np.log(10))

    clear = -np.log10(_CLEAR)
    given = height(a, b)
    tried = {f"the rows of {names[1]} in reverse order": height(a, b[::-1])}
    for step in range(1, most + 1):
        rows_word = "row" if step == 1 else "rows"
        tried[f"{names[1]} moved up by {step} {rows_word}"] = height(a[:-step], b[step:])
        tried[f"{names[1]} moved down by {step} {rows_word}"] = height(a[step:], b[:-step])
    name, best = max(tried.items(), key=lambda entry: entry[1])
    if best > clear and best > 3 * given:
        return (
            f"the pairing looks broken: as given, the rows of {names[0]} and {names[1]} are related no more than by "
            f"chance, and with {name} they clearly are: check that both hold the same examples in the same order"
        )
    if n <= _ROWS and given < clear and _same_rows(x, y):
        return (
            f"the pairing looks broken: whitened, the rows of {names[0]} and {names[1]} lie at the same distances from "
            "their mean, as the same rows in another order would: check the order of the rows"
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


def _same_rows(x: Matrix, y: Matrix) -> bool:
    """Whether the leverages of two sides are as alike as those of the same rows in another order.

    Invertible linear maps leave leverages as they are, so that only another order can part those of equal rows.
    Independent samples of one distribution differ by about the root of two over the number of rows (Kolmogorov).
    """
    first, second = (_leverages(np.asarray(values[:], dtype=np.float64)) for values in (x, y))
    if first is None or second is None:
        return False
    apart = float(stats.ks_2samp(first, second, method="asymp").statistic)
    return bool(apart < _SAME * np.sqrt(2 / x.shape[0]))


def _leverages(rows: Array) -> Array | None:
    """Squared norms of whitened rows; None where they say nothing, as for few rows or few different ones."""
    left, singular, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    rank = int((singular > 1e-6 * max(float(singular[0]), 1e-300)).sum())
    found = np.einsum("ij,ij->i", left[:, :rank], left[:, :rank])
    if not 0 < rank <= len(rows) // 4 or len(np.unique(found.round(9))) < len(rows) // 2:
        return None
    return np.asarray(found.round(12))
