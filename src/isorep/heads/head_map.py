r"""``isorep.heads.head_map``: the map between two models' features that their heads alone predict.

Products of two class-centred heads, in one pass over their rows, for any number of classes.

Each head is expressed in its principal axes at unit variance, :math:`W=\sqrt{p}\,G_cV/s`, whose columns are orthonormal
up to rounding. :math:`T=W^\top W` corrects for that rounding, so that the pseudo-inverse
:math:`G_c^+=V s^{-1}T^{-1}W^\top` does not square the condition number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import linalg

from ..alignment import AffineMap
from ..covariance import rank_tolerance
from ..errors import InputError
from ..moments import require_memory
from ..representation import Array, as_representation
from ..resampling import Interval
from ..results import aligned
from ..rows import Progress, block_rows, blocks, no_progress, read_rows
from ..settings import check_counts, check_seed, check_tolerance
from ..threads import Crew, one_blas_thread
from .families import FAMILIES, Family, family_named, support_of
from .inputs import Head, open_heads, open_rows
from .regression import HeadPrediction, Plane, Regression, compare_with_regression
from .result import HeadResult, Parts, condition_text, few_units, interval_text
from .spectrum import Spectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEANINGFUL = 0.5  # share of variance that the regression must explain for a comparison of maps to mean anything
ANGLES_SHOWN = 512


@one_blas_thread
def head_map(
    G_source: Any,
    G_target: Any,
    source_bias: Any = None,
    target_bias: Any = None,
    *,
    weights: Any = None,
    features: Any = None,
    other_features: Any = None,
    groups: Any = None,
    join: bool = False,
    folds: int = 5,
    intervals: bool = True,
    tolerance: float = 0.01,
    random_state: int = 0,
    family: str = "softmax",
    sets: Any = None,
    progress: Progress | None = None,
) -> HeadMap:
    r"""Compute the map from source to target features that two heads predict, and compare it with a regression.

    Models with the same distribution have equal log-odds, :math:`G'_cf'(x)+b'_c=G^*_cf^*(x)+b^*_c` with class-centred
    heads and biases. So the target's features are

    .. math:: f'=A_{\mathrm{head}}f^*+a,\qquad A_{\mathrm{head}}=G_c'^{+}G^*_c,\quad a=G_c'^{+}(b^*_c-b'_c),

    in the span of the target's class differences; no paired features are used. With at most as many classes as
    dimensions plus one, any two heads give such a map, and heads alone cannot show disagreement.

    With paired features the map is compared with held-out least squares, both restricted to the span of each head's
    class differences (Marconato et al. 2025), so that widths may differ and heads may be rank-deficient. The regression
    then predicts the target's head, :math:`g'(y)-g'(y_0)=A^{-\top}(g^*(y)-g^*(y_0))`.

    Parameters
    ----------
    G_source, G_target : (K, M) arrays, Representations or paths
        The embeddings of the same K classes in the same order; widths may differ.
    source_bias, target_bias : (K,) arrays, optional
        Biases; they make the map affine.
    weights : (K,) array, optional
        Class frequencies: the pseudo-inverse weights log-odds by them, and classes without weight are left out. For
        other families as in :func:`diversity`.
    features, other_features : (n, M) arrays, Representations or paths, optional
        Features of the same inputs under the source and the target model.
    groups : (n,) array, optional
        Group per row; rows of a group are held out together, and left out together for intervals.
    join : bool
        Keep the rows of paired features that both have, by row id. Default: no.
    folds, random_state
        Number of folds of the regression, and seed of folds and intervals.
    intervals : bool
        Compute intervals of mean errors, by a jackknife over blocks of rows (or of groups). They account for sampling
        of the rows that the regression is fitted to, as those of :func:`isorep.compare` do. Default: yes.
    tolerance : float
        Largest excess of the head map's error over the regression's, in diameters, at which the two agree.
    family, sets
        As in :func:`diversity`. Labels and means are equal without centring, :math:`G'f'+b'=G^*f^*+b^*`, so nothing is
        centred; candidates are centred within the sets that are drawn together.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

    Returns
    -------
    HeadMap

    References
    ----------
    .. [1] Roeder, G., Metz, L., Kingma, D. P. (2021). On linear identifiability of learned representations. ICML.
    .. [2] Marconato, E. et al. (2025). All or none: identifiable linear properties of next-token predictors in language
           modeling. AISTATS.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> f, G, A = rng.normal(size=(100, 3)), rng.normal(size=(8, 3)), rng.normal(size=(3, 3))
    >>> found = isorep.heads.head_map(G, G @ np.linalg.inv(A).T)  # the same distribution, with features f @ A
    >>> bool(np.allclose(found.transform(f), f @ A))
    True
    """
    check_counts(folds=(folds, 2))
    check_seed(random_state)
    check_tolerance(tolerance)
    if (features is None) != (other_features is None):
        raise InputError("features of one model were given: a map is compared on paired features of both")
    if join and features is None:
        raise InputError("join belongs to the rows of paired features, and there are none")
    source, target = open_heads(G_source, G_target, source_bias, target_bias)
    words = family_named(family)
    support = support_of(words, source.classes, weights, sets)
    require_memory(source.width, target.width, 1)
    source, target = (support.referred(support.of(head)) for head in (source, target))
    here, there = (support.spectrum(head, weighted=True) for head in (source, target))
    shares = support.shares
    used = np.full(source.classes, 1 / source.classes) if shares is None else shares
    products = head_products(source, target, (here, there), used, _bias_gap(source, target, used, support.plain))
    matrix, intercept, unexpressed = solve_map(products, there)
    settings: dict[str, Any] = {
        "weighted": shares is not None,
        "biases": source.bias is not None or target.bias is not None,
        "folds": folds,
        "intervals": bool(intervals),
        "random_state": random_state,
        "joined": None,
        "family": family,
    }
    on_data: tuple[Any, ...] = ()
    if features is not None:
        for head, rank in ((source, here.rank), (target, there.rank)):
            if rank == 0:
                alike = "have one embedding" if words.centred else "are zero"
                alike = f"that share a set {alike}" if support.several else alike
                raise InputError(f"all {words.rows} of {head.name} {alike}: it cannot tell features apart")
        pair, labels, note = open_rows(features, other_features, ("features", "other features"), groups, join)
        settings |= {"joined": note, "groups": None if labels is None else int(labels.max()) + 1, "rows": pair.n}
        on_data = compare_with_regression(
            AffineMap(matrix.T, np.zeros(source.width), intercept),
            (source, target),
            (here, there),
            used,
            pair,
            labels,
            folds=folds,
            intervals=intervals,
            random_state=random_state,
            report=progress or no_progress,
        )
    return HeadMap(
        (source.name, target.name),
        source.classes,
        (source.width, target.width),
        (here.rank, there.rank),
        matrix.T,
        intercept,
        tuple(principal_angles(products).tolist()),
        unexpressed,
        (float(rank_tolerance(here.rounding)), float(rank_tolerance(there.rounding))),
        tolerance,
        settings,
        support.spare,
        *on_data,
    )


@dataclass(frozen=True, eq=False)
class HeadMap(HeadResult):
    """The map between features that two heads predict.

    Attributes
    ----------
    coef : (M_s, M_t) array
        The transpose of the map: rows of source features are mapped as ``X @ coef + intercept``.
    intercept : (M_t,) array
    ranks : tuple of int
        Ranks of the two centred heads.
    angles : tuple of float
        Principal angles between the columns of the two centred heads, in radians; all 0 for equal distributions.
    unexpressed : float
        The share of the source's centred head that lies outside the columns of the target's.
    spare : int
        The number of classes that add no dimension of log-odds: the number of sets, or 0 for labels and means.
    rank_tolerances : tuple of float
        Singular values below this share of the largest count as zero in the pseudo-inverse, by the stored dtype.
    regression : Regression or None
    head_prediction : HeadPrediction or None
    """

    unwritten: ClassVar[frozenset[str]] = frozenset({"coef", "intercept", "settings"})
    derived: ClassVar[tuple[str, ...]] = ("vacuous", "forced_angles", "agrees", "verdict")
    names: tuple[str, str]
    classes: int
    widths: tuple[int, int]
    ranks: tuple[int, int]
    coef: Array
    intercept: Array
    angles: tuple[float, ...]
    unexpressed: float
    rank_tolerances: tuple[float, float]
    tolerance: float
    settings: dict[str, Any]
    spare: int = 1
    regression: Regression | None = None
    head_prediction: HeadPrediction | None = None
    figure: Plane | None = field(default=None, repr=False)

    def transform(self, X: Any) -> Array:
        """Map rows of source features into the target's space."""
        x = as_representation(X, "X").values[:]
        if x.shape[1] != self.widths[0]:
            raise InputError(f"X has {x.shape[1]} columns where {self.names[0]} reads {self.widths[0]}")
        return np.asarray(np.asarray(x, dtype=np.float64) @ self.coef + self.intercept)

    @property
    def forced_angles(self) -> int:
        """The number of principal angles that are zero for any heads, because two large subspaces intersect."""
        return min(max(sum(self.ranks) - self.dimensions, 0), *self.ranks)

    @property
    def dimensions(self) -> int:
        """Dimension of the space of log-odds, logits or means that contains the heads' columns."""
        return self.classes - self.spare

    @property
    def words(self) -> Family:
        """The words of the family."""
        return FAMILIES[self.settings["family"]]

    @property
    def vacuous(self) -> bool:
        """Whether heads alone cannot show disagreement."""
        return self.forced_angles == min(self.ranks)

    @property
    def agrees(self) -> bool | None:
        """Whether the head map's error exceeds the regression's by at most the tolerance; None without features."""
        both = self.regression
        if both is None:
            return None
        if both.regression.r2 < MEANINGFUL:
            return False
        excess = both.head.error.mean - both.regression.error.mean
        return (excess if both.excess is None else both.excess.high) <= self.tolerance

    holds = agrees

    @property
    def parts(self) -> Parts:
        """One map."""
        return Parts(head_map=self)

    @property
    def verdict(self) -> str:
        """One sentence: what the heads predict, and whether features confirm it."""
        if self.regression is None:
            return self._verdict_of_weights()
        both = self.regression
        whole = all(rank == width for rank, width in zip(self.ranks, self.widths, strict=True))
        features = "the features" if whole else "what the heads see of the features"
        target, share = "the target", ""
        if self.ranks[1] < self.widths[1]:
            target, share = "what its head sees of the target", f" ({both.seen_shares[1]:.1%} of its variance)"
        numbers = (
            f"held out, the map that the heads predict explains {_part(both.head.r2)} of {target}{share} and least "
            f"squares {_part(both.regression.r2)} (mean errors {both.head.error.mean:.4f} and "
            f"{both.regression.error.mean:.4f} diameters)"
        )
        if both.regression.r2 < MEANINGFUL:
            return f"No linear map explains half of {target}, so there is little for heads to predict: {numbers}."
        if self.agrees:
            return f"The heads predict the map between {features}: {numbers}."
        return f"The heads predict {_part(both.share or 0.0)} of what a linear map can explain: {numbers}."

    def _verdict_of_weights(self) -> str:
        if self.vacuous:
            return (
                f"Vacuous: {self.classes} {self.words.rows} give {self.dimensions} dimensions for heads of rank "
                f"{self.ranks[0]} and {self.ranks[1]}, so any two heads are related by such a map. Only paired "
                "features can confirm it."
            )
        widest = math.degrees(max(self.angles, default=0.0))
        return (
            f"The heads span columns at most {widest:.1f} degrees apart, and {self.unexpressed:.1%} of the source's "
            "head lies outside the target's: equal distributions would make both zero."
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of these numbers, as sentences."""
        said = [self.settings["joined"]] if self.settings.get("joined") else []
        if self.vacuous and self.regression is not None:
            said.append(
                f"{self.classes} {self.words.rows} do not allow heads of rank {self.ranks[0]} and {self.ranks[1]} to "
                "differ: the weights alone test nothing; use the comparison with the regression"
            )
        for name, rank, width in zip(self.names, self.ranks, self.widths, strict=True):
            if rank < width:
                said.append(
                    f"{name} has rank {rank} of {width}: the map and the regression are restricted to its row space"
                )
        if self.regression is not None and self.settings["intervals"]:
            said += few_units(self.regression.rows, self.settings["groups"])
        return tuple(said)

    @property
    def quantities(self) -> list[tuple[str, str, Interval | None]]:
        """Name, text and interval of every quantity."""
        told: list[tuple[str, str, Interval | None]] = [
            (self.words.rows, str(self.classes), None),
            ("ranks of the heads", "{} and {} of {} and {}".format(*self.ranks, *self.widths), None),
            ("widest principal angle", f"{math.degrees(max(self.angles, default=0.0)):.2f} degrees", None),
            ("angles forced to zero", str(self.forced_angles), None),
            ("source head unexpressed", f"{self.unexpressed:.2%}", None),
        ]
        both, prediction = self.regression, self.head_prediction
        if both is not None:
            for name, each in (("head map", both.head), ("regression, held out", both.regression)):
                told.append((f"error of the {name} (diameters)", f"{each.error.mean:.4f}", each.interval))
                told.append(("  largest of any row", f"{each.error.sup:.4f}", None))
                told.append((f"R² of the {name}", f"{each.r2:.4f}", None))
            excess = both.head.error.mean - both.regression.error.mean
            told += [
                ("R² of the head map, own intercept", f"{both.head_r2_own_intercept:.4f}", None),
                ("share that the heads predict", "-" if both.share is None else f"{both.share:.4f}", None),
                ("excess of the head map (diameters)", f"{excess:.4f}", both.excess),
                ("maps apart (RMS radii)", f"{both.difference:.4f}", None),
                ("head map off at the mean (RMS radii)", f"{both.intercept_gap:.4f}", None),
                ("effective dimensions", "{} and {}".format(*both.effective_dimensions), None),
            ]
        if prediction is not None:
            for name, part in (("inverse", prediction.inverse), ("reverse", prediction.reverse)):
                told.append((f"R² of the target's head ({name})", f"{part.r2:.4f}", None))
                told.append((f"  of its {self.words.figure}", f"{part.log_odds_r2:.4f}", None))
            told.append(("condition of the regression", condition_text(prediction.condition), None))
        return told

    @property
    def drawn(self) -> bool:
        """Whether errors were measured."""
        return self.regression is not None

    def plot_scores(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The error of the map that the heads predict beside that of a regression on paired features, held out.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").
        """
        from ..report.plots import Mark, dots, span

        both = self.regression
        if both is None:
            raise InputError("there are no errors to draw: they need paired features")
        named = {"predicted by the heads": both.head, "regression": both.regression}
        marks = [Mark(name, each.error.mean, span(each.interval)) for name, each in named.items()]
        return dots(ax, marks, "mean error (diameters)", width=width, value_name="error")

    def table(self) -> str:
        """One line a quantity."""
        rows = [("map between the heads", "value (95% interval)")]
        for name, value, interval in self.quantities:
            rows.append((name, value if interval is None else f"{value} ({interval_text(interval)})"))
        return aligned(rows, left=(0, 1))

    def part(self) -> dict[str, Any]:
        """Plain data, as one part of a result; the matrix itself stays out, and so do angles beyond some hundreds."""
        return super().part() | {"angles": list(self.angles[:ANGLES_SHOWN])}


def _part(share: float) -> str:
    """A share of variance in words; a negative R² counts as nothing explained."""
    return f"{share:.1%}" if share > 0 else "nothing"


def _bias_gap(source: Head, target: Head, shares: Array, centred: bool) -> Array:
    """Source minus target biases, about their weighted mean where all classes are compared."""
    gap: Array = np.zeros(source.classes)
    for sign, head in ((1.0, source), (-1.0, target)):
        if head.bias is not None:
            gap += sign * (head.bias - shares @ head.bias if centred else head.bias)
    return gap


@dataclass(frozen=True, eq=False)
class Products:
    """Sums over classes: ``own`` and ``other`` are the two Gram matrices, ``cross`` target by source.

    ``onto_source`` and ``onto_bias`` are the target's orthonormal columns times the source's centred head and the
    centred difference of the biases.
    """

    own: Array
    other: Array
    cross: Array
    onto_source: Array
    onto_bias: Array
    source_square: float


def head_products(
    source: Head, target: Head, spectra: tuple[Spectrum, Spectrum], shares: Array, bias_gap: Array
) -> Products:
    """One pass over the classes of both heads. ``bias_gap`` is source minus target, centred."""
    here, there = spectra
    whiteners = (here.axes / here.singular_values, there.axes / there.singular_values)

    def part(rows: slice) -> tuple[Any, ...]:
        roots = np.sqrt(shares[rows])[:, None]
        a, b = (
            roots * (read_rows(head.values, rows).astype(np.float64) - each.mean)
            for head, each in ((source, here), (target, there))
        )
        x, y = a @ whiteners[0], b @ whiteners[1]
        onto_bias = y.T @ (roots[:, 0] * bias_gap[rows])
        return y.T @ y, x.T @ x, y.T @ x, y.T @ a, onto_bias, float(np.einsum("ij,ij->", a, a))

    with Crew() as crew:
        parts = crew.stream(part, blocks(source.classes, block_rows(source.width, target.width)))
        total = next(parts)
        for each in parts:
            total = tuple(first + second for first, second in zip(total, each, strict=True))
    return Products(*total)


def solve_map(products: Products, target: Spectrum) -> tuple[Array, Array, float]:
    """The (M_t, M_s) map, its intercept, and the share of the source's head that the target's cannot express."""
    if target.rank == 0:
        return np.zeros((target.width, products.onto_source.shape[1])), np.zeros(target.width), 1.0
    factor = linalg.cho_factor(products.own)
    solved = linalg.cho_solve(factor, np.column_stack([products.onto_source, products.onto_bias]))
    lifted = target.axes @ (solved / target.singular_values[:, None])
    expressed = float(np.einsum("ij,ij->", products.onto_source, solved[:, :-1]))
    left = 1 - expressed / products.source_square if products.source_square > 0 else 0.0
    return lifted[:, :-1], lifted[:, -1], float(np.clip(left, 0.0, 1.0))


def principal_angles(products: Products) -> Array:
    """Angles between the column spaces of the two centred heads, in radians, smallest first; resolved to 1e-7."""
    if min(products.cross.shape) == 0:
        return np.zeros(0)
    left, right = (np.linalg.cholesky(each) for each in (products.own, products.other))
    turned = linalg.solve_triangular(left, products.cross, lower=True)
    turned = linalg.solve_triangular(right, turned.T, lower=True)
    return np.asarray(np.arccos(np.clip(np.linalg.svd(turned, compute_uv=False), 0.0, 1.0)))
