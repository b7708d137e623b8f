"""Feature splitting and absorption: atoms that are spread over several of another dictionary, or silenced by one.

*Splitting* (Bricken et al. 2023): one atom of a dictionary becomes several, more specific ones in another. *Absorption*
(Chanin et al. 2024): a general atom stays silent where a specific one fires, which has taken over its direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..representation import Array
from ..results import Record
from .matching import BestMatches

CHILD = 0.4
"""Least similarity of a part with the whole: six equal parts that are orthogonal have 0.41."""
GAIN = 0.1
"""How much closer the parts together must come to the whole than the best of them alone."""
_MOST_PARTS = 16
LEAST_ROWS = 20
"""Rows in which an atom must be active before absorption is looked for."""
COVERED = 0.5
"""Share of the rows with a silent partner that an absorbing atom must be active in."""
LEVEL = 0.01
"""Probability of a single false absorption among all pairs that are tested (Bonferroni)."""
LISTED = 20


@dataclass(frozen=True)
class Split:
    """An atom and its parts in the other dictionary.

    ``best`` is the similarity of the closest part, ``together`` that of their best nonnegative combination.
    """

    atom: int
    parts: tuple[int, ...]
    best: float
    together: float


@dataclass(frozen=True, eq=False)
class Splitting(Record):
    """Atoms of ``source`` that are split in ``target``: how many, how many by chance, and the clearest of them."""

    source: str
    target: str
    count: int
    share: float
    chance: float
    limit: float
    splits: tuple[Split, ...]


@dataclass(frozen=True)
class Absorbed:
    """An atom, its partner, and the atom of the partner's dictionary that is active where the partner is silent.

    ``missed`` is the share of the atom's rows in which the partner is silent, ``covered`` the share of these in which
    ``by`` is active, ``elsewhere`` the share of the atom's other rows in which it is.
    """

    atom: int
    partner: int
    by: int
    missed: float
    covered: float
    elsewhere: float


@dataclass(frozen=True, eq=False)
class Absorption(Record):
    """Recurring atoms of ``source`` that are absorbed in ``target``: of so many that were looked at."""

    source: str
    target: str
    tested: int
    count: int
    share: float
    absorbed: tuple[Absorbed, ...]


def find_splits(source: Array, target: Array, parents: Array, similarity: Array, limit: float, least: float, *,
                signed: bool) -> list[Split]:  # fmt: skip
    """Source atoms that at least two target atoms have as their best match and that these, together, come close to.

    ``parents`` is the best match of every target atom, with its ``similarity``. Parts have at least ``limit``. Their
    best nonnegative combination must reach ``least``, and ``GAIN`` more than the best part.
    """
    from scipy.optimize import nnls

    near = np.flatnonzero(similarity >= limit)
    if len(near) == 0:
        return []
    order = near[np.argsort(parents[near], kind="stable")]
    atoms, starts = np.unique(parents[order], return_index=True)
    found = []
    for atom, parts in zip(atoms, np.split(order, starts[1:]), strict=True):
        if len(parts) < 2:
            continue
        parts = parts[np.argsort(-similarity[parts], kind="stable")][:_MOST_PARTS]
        whole, pieces = source[atom].astype(np.float64), target[parts].astype(np.float64)
        if not signed:
            pieces *= np.where(pieces @ whole < 0, -1.0, 1.0)[:, None]
        weights, residual = nnls(pieces.T, whole)
        size = float(whole @ whole)
        together = float(np.sqrt(max(size - residual**2, 0.0) / size)) if size > 0 else 0.0
        used = parts[weights > 0]
        best = float(similarity[parts[0]])
        if len(used) > 1 and together >= least and together >= best + GAIN:
            found.append(Split(int(atom), tuple(map(int, used)), best, together))
    return sorted(found, key=lambda split: (-(split.together - split.best), split.atom))


def find_absorbed(
    fires: Array, other_fires: Array, partner: Array, recurs: Array, near: BestMatches, limit: float
) -> tuple[int, list[Absorbed]]:
    """Of recurring source atoms, how many were tested, and those that another target atom absorbs.

    An atom is absorbed by one of its candidates, similar by at least ``limit``, if that is active in ``COVERED`` of the
    rows with a silent partner, and there more often than in the atom's other rows (hypergeometric tail, corrected for
    all tests).
    """
    from scipy.stats import hypergeom

    tested, tests = 0, []
    for atom in np.flatnonzero(recurs):
        rows = np.flatnonzero(fires[atom])
        mate = int(partner[atom])
        silent = ~other_fires[mate, rows]
        missed = int(silent.sum())
        if len(rows) < LEAST_ROWS:
            continue
        tested += 1
        others = near.candidates[atom][(near.values[atom] >= limit) & (near.candidates[atom] != mate)]
        if missed == 0 or len(others) == 0:
            continue
        active = other_fires[others][:, rows]
        inside, total = active[:, silent].sum(axis=1), active.sum(axis=1)
        tests += [(int(atom), mate, int(by), len(rows), missed, int(a), int(b)) for by, a, b in
                  zip(others, inside, total, strict=True)]  # fmt: skip
    if not tests:
        return tested, []
    _, _, _, rows_of, missed_of, inside_of, total_of = (np.array(column) for column in zip(*tests, strict=True))
    p = hypergeom.sf(inside_of - 1, rows_of, total_of, missed_of)
    kept = (p * len(tests) <= LEVEL) & (inside_of >= COVERED * missed_of)
    best: dict[int, Absorbed] = {}
    for place in np.flatnonzero(kept):
        lost, mate, by, active_in, missed, inside, total = tests[place]
        rest = active_in - missed
        one = Absorbed(lost, mate, by, missed / active_in, inside / missed, (total - inside) / rest if rest else 0.0)
        if lost not in best or one.covered > best[lost].covered:
            best[lost] = one
    return tested, sorted(best.values(), key=lambda each: (-each.missed * each.covered, each.atom))
