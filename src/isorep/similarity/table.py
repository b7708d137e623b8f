"""Similarity indices of one pair, with one null: what ``isorep similarity`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..results import ResultRecord, aligned
from ..rows import Progress, no_progress, one_blas_thread
from ..settings import check_names
from ..storage import loaded
from .cca import prepare_cca, prepare_linear_r2, prepare_pwcca, prepare_svcca
from .cka import prepare_cka
from .frames import paired
from .neighbours import prepare_mutual_knn
from .null import Prepare, Similarity, plan, shown, similarities
from .procrustes import prepare_mcc, prepare_procrustes

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
    "mcc": prepare_mcc,
    "mutual_knn": lambda pair: prepare_mutual_knn(pair, k=min(10, pair.n - 1)),
}
"""The indices with their defaults. Linear kernels are exact here: the cross product is at hand."""

SHOWN = {
    "cca": ("mean CCA", "mean canonical correlation; blind to any invertible linear map"),
    "svcca": ("SVCCA", "the same after keeping the leading principal components"),
    "pwcca": ("PWCCA", "canonical correlations weighted by how much of the source they carry"),
    "linear_r2": ("linear R²", "share of the target that a linear map of the source explains, in sample"),
    "cka": ("CKA", "alignment of the two Gram matrices; blind to rotations, led by large variances"),
    "cka_debiased": ("debiased CKA", "the same with an unbiased estimate of each term"),
    "cka_rbf": ("Gaussian CKA", "alignment of Gaussian kernels: near rows count more"),
    "procrustes_distance": ("Procrustes distance", "angle that is left after the best rotation, in radians"),
    "mcc": ("MCC", "mean absolute correlation of dimensions matched one to one"),
    "mutual_knn": ("mutual kNN", "share of nearest neighbours that both sides have in common"),
}
"""The name of every index, and what it is."""

COSTLY = {"cka_rbf": 20_000, "mutual_knn": 100_000}
"""Indices that look at all pairs of rows, and up to how many rows they are computed unasked."""


@dataclass(frozen=True, eq=False)
class Similarities(ResultRecord):
    """The indices of one pair: ``result["cka"]`` is a :class:`Similarity`."""

    schema: ClassVar[str] = "isorep.similarity/1"
    page_by: ClassVar[str] = "similarity.page:page"
    derived: ClassVar[tuple[str, ...]] = ("reading",)
    unwritten: ClassVar[frozenset[str]] = frozenset({"names", "rows", "columns"})  # written side by side
    indices: dict[str, Similarity]
    names: tuple[str, str]
    rows: int
    columns: tuple[int, int]
    settings: dict[str, Any]
    caveats: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Similarity:
        return self.indices[name]

    def table(self) -> str:
        """One line per index: its value, what chance gives, the corrected value and the p-value.

        Where a part of the rows is shuffled, "of rows used" is the value of these rows, which is set against chance.
        """
        head = ("index", "value", *(["of rows used"] if self.cut else []), "chance", "95 % of chance", "corrected", "p")
        lines = [(*head, "closer is"), *(_cells(each, self.cut) for each in self.indices.values())]
        return aligned(lines, left=(0, len(head)))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        sides = zip(("source", "target"), self.names, self.columns, strict=True)
        told = {role: {"name": name, "rows": self.rows, "columns": columns} for role, name, columns in sides}
        return super().to_dict() | told

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
        """Whether nulls are those of a part of the rows."""
        return any(each.null is not None and each.null.observed != each.value for each in self.indices.values())

    @property
    def reading(self) -> str:
        """One sentence on what the indices say together."""
        p_values = [each.null.p_value for each in self.indices.values() if each.null is not None]
        if not p_values:
            return "No null was drawn, so chance cannot be ruled out: ask for permutations."
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
            + (f" {without} more cannot tell these rows from shuffled ones (see the notes)." if without else "")
        )

    def __str__(self) -> str:
        return "\n".join([self.table(), "", self.reading, *(f"note: {caveat}" for caveat in self.caveats)])


@one_blas_thread
def indices(
    X: Any,
    Y: Any,
    *,
    names: Sequence[str] | None = None,
    permutations: int = 200,
    groups: Any = None,
    within: Any = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Similarities:
    """Every similarity index of two representations, with the same shuffled pairings as null for all.

    What indices share is found once: the moments, the factored sides, and one cross product per permutation.

    Parameters
    ----------
    X, Y : (n, d) arrays, Representations, paths or Dask arrays
        Paired rows; widths may differ.
    names : sequence of str, optional
        Which of ``cca``, ``svcca``, ``pwcca``, ``linear_r2``, ``cka``, ``cka_debiased``, ``cka_rbf``,
        ``procrustes_distance``, ``mcc``, ``mutual_knn``. By default all; those that look at all pairs of rows only up
        to 20,000 (``cka_rbf``) and 100,000 (``mutual_knn``) rows.
    permutations : int
        Shuffled pairings; 0 for no null.
    groups : (n,) array, optional
        Rows that belong together are shuffled together: each group takes the rows of another one of about its size.
    within : (n,) array, optional
        Classes: rows (or groups) are shuffled inside their class only, so that chance includes what the classes alone
        explain.
    random_state : int
        Seed of the permutations.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = isorep.similarity.indices(X, X @ [[1.0, 2, 0], [0, 1, 0], [1, 0, 3]], permutations=100)
    >>> round(found["cca"].corrected, 6)
    1.0
    """
    a, b = loaded(X, "X"), loaded(Y, "Y")
    pair = paired(a, b)
    pairings = plan(pair.n, permutations, groups, within, random_state)
    left_out = [name for name, most in COSTLY.items() if names is None and pair.n > most]
    given = INDICES if names is None else check_names("indices", names, INDICES)
    wanted = [name for name in INDICES if name in given and name not in left_out]
    results, pairings = similarities(pair, [INDICES[name] for name in wanted], pairings, progress or no_progress)
    caveats = [*pair.caveats, *pairings.notes, *(caveat for each in results for caveat in each.caveats)]
    caveats += [f"{name} was left out: {pair.n} rows have many pairs; name it to compute it" for name in left_out]
    return Similarities(
        dict(zip(wanted, results, strict=True)),
        (pair.x.name, pair.y.name),
        pair.n,
        (a.shape[1], b.shape[1]),
        pairings.settings,
        tuple(dict.fromkeys(caveats)),
    )


def _cells(each: Similarity, cut: bool) -> tuple[str, ...]:
    closer = "higher" if each.higher_is_closer else "lower"
    if each.null is None:
        return (each.name, f"{each.value:.4f}", "-", "-", "-", "-", closer)
    null = each.null
    return (
        each.name,
        f"{each.value:.4f}",
        *([f"{null.observed:.4f}"] if cut else []),
        f"{null.mean:.4f}",
        f"{null.quantile(0.025):.4f} to {null.quantile(0.975):.4f}",
        shown(each.corrected),
        null.p_text,
        closer,
    )
