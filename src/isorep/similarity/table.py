"""Similarity indices of one pair, with one null: the result of ``isorep similarity``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import InputError
from ..pairs import distinct
from ..results import ARROWS, ResultRecord, aligned, decimals, told, wrapped
from ..rows import Progress, no_progress
from ..settings import check_names
from ..storage import loaded
from ..threads import one_blas_thread
from .cca import prepare_cca, prepare_linear_r2, prepare_pwcca, prepare_svcca
from .cka import prepare_cka
from .frames import joined, paired
from .matching import REPEATED, prepare_one_to_one, prepare_soft_matching, repeats
from .neighbours import prepare_mutual_knn
from .null import Prepare, Similarity, plan, similarities
from .procrustes import prepare_bures, prepare_mcc, prepare_procrustes
from .rsa import NoiseCeiling, noise_ceiling, prepare_rsa

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOUND = 0.05  # p-value up to which an index finds two sides closer than chance

INDICES: dict[str, Prepare] = {
    "cca": prepare_cca,
    "svcca": prepare_svcca,
    "pwcca": prepare_pwcca,
    "linear_r2": prepare_linear_r2,
    "cka": lambda pair: prepare_cka(pair, exact=True),
    "cka_debiased": lambda pair: prepare_cka(pair, debiased=True, exact=True),
    "cka_rbf": lambda pair: prepare_cka(pair, kernel="rbf"),
    "procrustes_distance": prepare_procrustes,
    "bures_distance": prepare_bures,
    "mcc": prepare_mcc,
    "one_to_one": prepare_one_to_one,
    "soft_matching": prepare_soft_matching,
    "rsa": prepare_rsa,
    "mutual_knn": lambda pair: prepare_mutual_knn(pair, k=min(10, pair.n - 1)),
}
"""The indices with their defaults. Linear kernels are exact here: the cross product is at hand."""

SHOWN = {
    "cca": ("mean CCA", "mean canonical correlation; invariant to any invertible linear map"),
    "svcca": ("SVCCA", "mean CCA of the leading principal components"),
    "pwcca": ("PWCCA", "canonical correlations weighted by their share of the source"),
    "linear_r2": ("linear R²", "share of the target's variance that a linear map explains, in-sample"),
    "cka": ("CKA", "alignment of Gram matrices; invariant to rotations, dominated by large variances"),
    "cka_debiased": ("debiased CKA", "CKA with an unbiased estimate of each term"),
    "cka_rbf": ("Gaussian CKA", "alignment of Gaussian kernels; emphasises near rows"),
    "procrustes_distance": ("Procrustes distance", "angle after the best rotation, in radians"),
    "bures_distance": ("Bures distance", "distance of Gram matrices; the chord of the Procrustes angle"),
    "mcc": ("MCC", "mean absolute correlation of dimensions matched one to one"),
    "one_to_one": ("one-to-one matching", "mean signed correlation of units matched one to one"),
    "soft_matching": ("soft matching distance", "optimal transport between units at unit norm"),
    "rsa": ("RSA", "rank correlation of all distances between rows"),
    "mutual_knn": ("mutual kNN", "share of nearest neighbours that both sides share"),
}
"""The name and a short description of every index."""

COSTLY = {"cka_rbf": 20_000, "rsa": 1000, "mutual_knn": 100_000}
"""Indices over all pairs of rows, and the number of rows up to which they are computed by default."""
MATCHED, MOST_MATCHING = ("mcc", "one_to_one", "soft_matching"), 2.5e11
"""Indices that assign units to each other, per permutation, and the work up to which they do so by default.

The work is the cube of the width times the number of permutations: 1,000 columns with 200 take about a minute.
"""
LEAST_ROWS = {"cka_debiased": 4}
"""Indices that fewer rows do not determine."""


@dataclass(frozen=True, eq=False)
class Similarities(ResultRecord):
    """The indices of one pair: ``result["cka"]`` is a :class:`Similarity`.

    ``ceiling`` is the noise ceiling of RSA, where further runs of the target were given.
    """

    schema: ClassVar[str] = "isorep.similarity/1"
    page_by: ClassVar[str] = "similarity.page:page"
    derived: ClassVar[tuple[str, ...]] = ("reading",)
    unwritten: ClassVar[frozenset[str]] = frozenset({"names", "rows", "columns"})  # written in another form
    indices: dict[str, Similarity]
    names: tuple[str, str]
    rows: int
    columns: tuple[int, int]
    settings: dict[str, Any]
    caveats: tuple[str, ...] = ()
    ceiling: NoiseCeiling | None = None

    def __getitem__(self, name: str) -> Similarity:
        return self.indices[name]

    def table(self, width: float | None = None) -> str:
        """One line per index: its value, what chance gives, the corrected value and the p-value.

        An arrow says whether higher or lower is closer. "chance, 95% range" reaches from the 2.5th to the 97.5th
        percentile of shuffled pairings. Where a part of the rows is shuffled, "of rows used" is the value of these
        rows, which is set against chance. What is wider than the terminal, or than ``width``, goes on below.
        """
        used = ("of rows\nused",) if self.cut else ()
        head = ("index", "value", *used, "chance", "chance,\n95% range", "corrected", "p")
        return aligned([head, *(_cells(each, self.cut) for each in self.indices.values())], width=width)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        sides = zip(self.names, self.columns, strict=True)
        source, target = ({"name": name, "rows": self.rows, "columns": columns} for name, columns in sides)
        return super().to_dict() | {"source": source, "target": target}

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per index: the value, chance with its 95% range, the corrected value and the p-value."""
        return [row for each in self.indices.values() for row in each.frame_rows()]

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """Every index beside its chance level; where a part of the rows was shuffled, the index of these rows.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").

        Examples
        --------
        >>> import numpy as np, isorep
        >>> from matplotlib.figure import Figure
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> found = isorep.similarity.indices(X, X + 1, names=["cca", "cka"], permutations=20)
        >>> [label.get_text() for label in found.plot_scores(ax=Figure().subplots()).get_yticklabels()]
        ['mean CCA', 'CKA']
        """
        from ..report.plots import Mark, dots, middle

        marks = []
        for name, each in self.indices.items():
            words = SHOWN[name][0] + ("" if each.higher_is_closer else " ↓")
            null = each.null
            value = each.value if null is None else null.observed
            marks.append(Mark(words, value, None, None if null is None else null.mean, middle(null)))
        distances = any(not each.higher_is_closer for each in self.indices.values())
        label = "index (↓: lower is closer)" if distances else "index"
        negative = any(x < 0 for mark in marks for x in mark.known)  # debiased CKA may be
        return dots(ax, marks, label, width=width, limits=(None if negative else 0.0, None), value_name="index")

    @property
    def cut(self) -> bool:
        """Whether nulls are computed from some of the rows only."""
        return any(each.null is not None and each.null.observed != each.value for each in self.indices.values())

    @property
    def reading(self) -> str:
        """One sentence that summarises the indices."""
        p_values = [each.null.p_value for each in self.indices.values() if each.null is not None]
        if not p_values:
            return "No null was drawn, so chance cannot be ruled out: set permutations."
        chance = "chance" if self.settings.get("within") is None else "chance within classes"
        judged = [p for p in p_values if np.isfinite(p)]
        if not judged:
            return f"No index has a p-value for these rows (see the notes), so {chance} cannot be ruled out."
        closer = sum(p <= FOUND for p in judged)
        values = [each.corrected for each in self.indices.values() if each.corrected is not None]
        values = [value for value in values if np.isfinite(value)]
        spread = f"between {min(values):.2f} and {max(values):.2f}" if values else "nowhere defined"
        without = len(p_values) - len(judged)
        return (
            f"{closer} of {len(judged)} indices find {self.names[0]} and {self.names[1]} closer than {chance} (p "
            f"at most {FOUND} each); on a scale from {chance} (0) to a perfect match (1) they lie {spread}."
            + (f" {without} more give shuffled rows the same value (see the notes)." if without else "")
        )

    def __str__(self) -> str:
        ceiling = "" if self.ceiling is None else wrapped(self.ceiling.sentence)
        return told(self.reading, f"{self.table()}\n{ARROWS}", ceiling, notes=self.caveats)


@one_blas_thread
def indices(
    X: Any,
    Y: Any,
    *,
    names: Sequence[str] | None = None,
    permutations: int = 200,
    groups: Any = None,
    within: Any = None,
    join: bool = False,
    ceiling: Sequence[Any] = (),
    random_state: int = 0,
    progress: Progress | None = None,
) -> Similarities:
    """Compute all similarity indices of two representations, with a common null of shuffled pairings.

    Shared quantities are computed once: the moments, the factored sides, and one cross product per permutation.

    Parameters
    ----------
    X, Y : (n, d) arrays, Representations, paths or Dask arrays
        Paired rows; widths may differ.
    names : sequence of str, optional
        Indices to compute, from ``cca``, ``svcca``, ``pwcca``, ``linear_r2``, ``cka``, ``cka_debiased``, ``cka_rbf``,
        ``procrustes_distance``, ``bures_distance``, ``mcc``, ``one_to_one``, ``soft_matching``, ``rsa``,
        ``mutual_knn``. Default: all, but ``rsa`` only up to 1,000 rows, ``cka_rbf`` up to 20,000 and ``mutual_knn`` up
        to 100,000, ``soft_matching`` only for equal widths or small ones, and ``mcc``, ``one_to_one`` and
        ``soft_matching`` only up to about 1,000 columns with 200 permutations.
    permutations : int
        Number of shuffled pairings; 0 for no null.
    groups : (n,) array, optional
        Group per row: groups are shuffled as blocks, each with another group of about its size.
    within : (n,) array, optional
        Class per row: rows (or groups) are shuffled within classes only, so that chance includes what the classes
        explain.
    join : bool
        Align by row id instead of refusing another order or other rows; groups and classes are those of ``X``.
    ceiling : sequence of (n, d) arrays, Representations or paths
        Further runs of ``Y``: how near ``X`` comes to the noise ceiling of ``Y`` and these, by RSA; see
        :func:`noise_ceiling`. Default: none.
    random_state : int
        Seed of the permutations; default 0.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = isorep.similarity.indices(X, X @ [[1.0, 2, 0], [0, 1, 0], [1, 0, 3]], permutations=100)
    >>> round(found["cca"].corrected, 6)
    1.0
    """
    a, b = distinct(loaded(X, "X"), loaded(Y, "Y"), ("source", "target"))
    note = ""
    if join and len(ceiling):
        raise InputError("join aligns X and Y alone: align the further runs of the noise ceiling first")
    if join:
        (a,), (b,), (groups, within), note = joined([a], [b], groups, within)
    pair = paired(a, b)
    pairings = plan(pair.n, permutations, groups, within, random_state)
    left_out = [name for name, most in COSTLY.items() if names is None and pair.n > most]
    widths = a.shape[1], b.shape[1]
    too_wide = [each for each in ("soft_matching",) if names is None and repeats(*widths) > max(REPEATED, *widths)]
    if names is None and min(widths) ** 2 * max(widths) * (permutations + 1) > MOST_MATCHING:
        too_wide = list(MATCHED)
    left_out += too_wide
    few_rows = [each for each, least in LEAST_ROWS.items() if names is None and pair.n < least]
    left_out += few_rows
    given = INDICES if names is None else check_names("indices", names, INDICES)
    wanted = [name for name in INDICES if name in given and name not in left_out]
    undefined: dict[int, str] | None = {} if names is None else None
    prepares = [INDICES[name] for name in wanted]
    results, pairings = similarities(pair, prepares, pairings, progress or no_progress, undefined)
    lost = {wanted[place]: why for place, why in (undefined or {}).items()}
    wanted = [name for name in wanted if name not in lost]
    caveats = [
        *filter(None, [note]),
        *pair.caveats,
        *pairings.notes,
        *(caveat for each in results for caveat in each.caveats),
    ]
    caveats += [f"{name} was left out: {why}" for name, why in lost.items()]
    limit = None
    if len(ceiling):
        shuffled = {"permutations": permutations, "groups": groups, "within": within, "random_state": random_state}
        limit = noise_ceiling([b, *ceiling], a, **shuffled)
        caveats += limit.caveats
    for name in left_out:
        if name in few_rows:
            caveats.append(f"{name} was left out: it needs at least {LEAST_ROWS[name]} rows")
            continue
        why = (
            f"widths {widths[0]} and {widths[1]} make it slow" if name in too_wide else f"{pair.n} rows have many pairs"
        )
        caveats.append(f"{name} was left out: {why}; name it to compute it")
    return Similarities(
        dict(zip(wanted, results, strict=True)),
        (pair.x.name, pair.y.name),
        pair.n,
        widths,
        pairings.settings,
        tuple(dict.fromkeys(caveats)),
        limit,
    )


def _cells(each: Similarity, cut: bool) -> tuple[str, ...]:
    name, null = f"{each.name} {'↑' if each.higher_is_closer else '↓'}", each.null
    if null is None:
        return (name, decimals(each.value), *(["-"] if cut else []), "-", "-", "-", "-")
    return (
        name,
        decimals(each.value),
        *([decimals(null.observed)] if cut else []),
        decimals(null.mean),
        " to ".join(map(decimals, null.range_95)),
        decimals(each.corrected),
        null.p_text,
    )
