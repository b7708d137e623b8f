r"""``isorep.heads.diversity``: the diversity condition of linear identifiability for a head, and its margin.

The best-conditioned matrix of differences :math:`L=[g(y_A^{(i)})-g(y_B^{(i)})]` that a head allows.

The theorem requires :math:`M` pairs of classes whose differences are independent; how well the map is determined
depends on the condition number :math:`\kappa(L)` of the chosen pairs. Pivoted QR of the centred head picks classes;
pairs are then exchanged one by one: the two classes at the ends of :math:`Gu` extend the direction :math:`u` of the
smallest singular value most, and a swap of column :math:`i` for a difference :math:`c` changes

.. math:: \|L^{-1}\|_F^2\to\|L^{-1}\|_F^2-2\frac{(Wz)_i}{z_i}+W_{ii}\frac{1+\|z\|^2}{z_i^2},
          \qquad z=L^{-1}c,\quad W=L^{-1}L^{-\top},

so that every column can be tried against every candidate without another decomposition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import linalg

from ..errors import InputError
from ..moments import require_memory
from ..representation import Array, Matrix
from ..results import aligned
from ..rows import block_rows, equal_rows, map_blocks, read_rows
from ..storage import loaded
from ..threads import one_blas_thread
from .families import FAMILIES, Family, Support, family_named, support_of
from .inputs import Head, open_head
from .result import HeadResult, Parts, condition_text
from .spectrum import Spectrum, spectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEARLY = 1e4  # a condition number from which a head that passes is said to fail nearly
_SHOWN = 512  # singular values and pairs that a result keeps
_SHORTLIST = 4  # classes per dimension that pairs are made of
_ENDS = 8  # classes at each end of a direction that are tried with each other
_TRIALS = 4  # most trials of an exchange, per dimension
_MISSES = 24  # trials in a row that find nothing before the search ends
_WORK = 4e10  # floating-point operations that exchanges may take: some seconds on one core
_REFRESH = 64  # exchanges after which the inverse is recomputed, against rounding
_SPANNED = 0.25  # squared length, whitened, from which on a direction counts as spanned by the shortlist
_SINGLE = 1e30  # size of a whitener, or of its inverse, that float32 still holds
_SINGULAR = 1e15  # condition number above which float64 has no inverse
_GAIN = 2e-4  # share by which a swap must lower the condition to count


@one_blas_thread
def diversity(
    G: Any,
    weights: Any = None,
    *,
    bias: Any = None,
    features: Any = None,
    family: str = "softmax",
    sets: Any = None,
    name: str = "head",
) -> Diversity:
    r"""Check the diversity condition of Roeder et al. (2021) for a head, with its margin.

    In :math:`p(y|x)\propto\exp(f(x)^\top g(y)+b(y))` two models with the same distribution have features that are
    linear images of each other if :math:`M` differences :math:`g(y_A)-g(y_B)` are linearly independent. All differences
    span the row space of the class-centred head :math:`G_c`, so that

    .. math:: \operatorname{rank}G_c=M,\qquad\text{which needs}\qquad K\ge M+1 \text{ distinct classes},

    and :math:`\kappa(G_c)` and :math:`\kappa(L)` of the best :math:`M` differences measure its margin. The second
    condition is on the features: without biases :math:`f(x)` must span the space, with biases about its mean.

    For other families the same condition holds for their sufficient statistics, on outcomes of positive probability:
    minimality. The rows of K labels (``bernoulli``) or of K means (``gaussian``) must span the space, which needs
    :math:`K\ge M`; ``contrastive`` candidates count by differences within the sets that are drawn together.

    Parameters
    ----------
    G : (K, M) array, Representation or path
        The head: the embeddings of the classes, one row per class (or label, output, candidate). All rows are used.
    weights : (K,) array, optional
        Class frequencies, as counts or shares. Classes that never occur are left out, and the covariance
        :math:`\operatorname{Cov}_{y\sim p(y)}g(y)` is computed with these weights. For ``bernoulli`` the frequency of
        each label, from 0 to 1: labels count by p(1 - p). For ``gaussian`` the precision of each output.
    bias : (K,) array, optional
        Biases; only their presence matters here: it decides which condition the features have to meet.
    features : (n, M) array, Representation or path, optional
        Features of data, read in blocks: their rank about the mean and about zero, and the effective dimension.
    family : {"softmax", "contrastive", "bernoulli", "gaussian"}
        Distribution of outcomes; default softmax. ``bernoulli`` has K independent yes-or-no labels, ``gaussian`` K
        means with noise that does not depend on the input; see :mod:`isorep.heads.families`.
    sets : sequence of integer arrays, optional
        For ``softmax`` and ``contrastive``: the indices of classes that compete in one softmax, such as sampled
        candidate sets or the classes of one of several tasks. Default: all classes compete.
    name : str
        Name of the head.

    Returns
    -------
    Diversity

    References
    ----------
    .. [1] Roeder, G., Metz, L., Kingma, D. P. (2021). On linear identifiability of learned representations. ICML.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> G = np.random.default_rng(0).normal(size=(10, 4))
    >>> found = isorep.heads.diversity(G)
    >>> found.applies, found.classes.rank
    (True, 4)
    >>> isorep.heads.diversity(G[:4]).applies  # 4 classes span 3 dimensions
    False
    """
    head = open_head(G, bias, name)
    support = support_of(family_named(family), head.classes, weights, sets)
    require_memory(head.width, 0, 1)
    used = support.of(head)
    of_classes = support.spectrum(replace(support, shares=None).referred(used), weighted=False)
    if of_classes.rank == 0:
        used.refuse_tiny()
    weighted = None
    if support.shares is not None:
        weighted = support.spectrum(support.referred(used), weighted=True)
    return Diversity(
        name=head.name,
        classes=_classes(used, of_classes, head.classes, support),
        weighted_rank=None if weighted is None else weighted.rank,
        weighted_condition=None if weighted is None else weighted.condition,
        weighted_spectrum=None if weighted is None else _shown(weighted),
        features=None if features is None else _features(features, head, of_classes),
        biased=head.bias is not None,
        dtype=str(head.values.dtype),
        family=family,
    )


@dataclass(frozen=True)
class Pairs:
    """Pairs of classes whose differences span the head, with their condition number and that of pivoted QR."""

    classes: tuple[tuple[str, str], ...]
    condition: float
    pivoted_condition: float
    exchanged: int


@dataclass(frozen=True)
class ClassDiversity:
    """The classes that occur: how many, how many differ, and the rank and condition of their centred embeddings.

    "Classes" includes the labels, outputs or candidates of other families. ``needed`` is the smallest number of
    distinct ones for the theorem, ``sets`` the number of sets that are never compared with each other, and ``drawn``
    whether sets were given. ``spectrum`` holds standard deviations along principal axes, ``participation`` the number
    of axes that carry the variance.
    """

    stored: int
    used: int
    distinct: int
    width: int
    rank: int
    condition: float
    constant_columns: int
    spectrum: tuple[float, ...]
    participation: float
    pairs: Pairs | None
    needed: int
    sets: int
    drawn: bool

    @property
    def enough(self) -> bool:
        """Whether there are at least as many distinct classes as the theorem needs."""
        return self.distinct >= self.needed

    @property
    def diverse(self) -> bool:
        """Whether differences of classes span the space."""
        return self.rank == self.width


@dataclass(frozen=True)
class FeatureDiversity:
    """The features of data: rank and condition about their mean and about zero.

    ``effective_dimension`` is the rank of the features projected onto the span of the classes' differences,
    ``seen_share`` the share of the features' variance in that span.
    """

    name: str
    rows: int
    width: int
    rank: int
    condition: float
    rank_about_zero: int
    condition_about_zero: float
    spectrum: tuple[float, ...]
    effective_dimension: int
    seen_share: float

    def diverse(self, biased: bool) -> bool:
        """Whether features span the space: about zero, or with biases about their mean."""
        return (self.rank if biased else self.rank_about_zero) == self.width


@dataclass(frozen=True)
class Diversity(HeadResult):
    """Whether the theorem applies to a head, and by what margin.

    Attributes
    ----------
    name : str
    classes : ClassDiversity
    weighted_rank, weighted_condition, weighted_spectrum
        Rank, condition and standard deviations of the covariance with class frequencies; None without weights.
    features : FeatureDiversity or None
    biased : bool
        Whether the head has biases, so that features have to vary about their mean.
    dtype : str
        Dtype as stored; directions below its rounding do not count.
    family : str
    """

    derived: ClassVar[tuple[str, ...]] = ("enough_classes", "applies", "nearly_fails", "verdict")
    name: str
    classes: ClassDiversity
    weighted_rank: int | None
    weighted_condition: float | None
    weighted_spectrum: tuple[float, ...] | None
    features: FeatureDiversity | None
    biased: bool
    dtype: str
    family: str = "softmax"

    @property
    def words(self) -> Family:
        """The words of the family."""
        return FAMILIES[self.family]

    @property
    def applies(self) -> bool:
        """Whether the classes are diverse, and the features where they were given."""
        return self.classes.diverse and (self.features is None or self.features.diverse(self.biased))

    holds = applies

    @property
    def parts(self) -> Parts:
        """One head."""
        return Parts((self,))

    @property
    def enough_classes(self) -> bool:
        """Whether there are as many distinct classes as the theorem needs."""
        return self.classes.enough

    @property
    def nearly_fails(self) -> bool:
        """Whether it applies with a condition number that leaves hardly any margin."""
        margins = [self.classes.condition, self.weighted_condition or 0.0]
        return self.applies and max(margins) >= NEARLY

    @property
    def verdict(self) -> str:
        """One sentence: whether the theorem applies, and its margin."""
        classes, words = self.classes, self.words
        one = classes.distinct == 1
        count = f"one distinct {words.row}" if one else f"{classes.distinct} distinct {words.rows}"
        compared = f", compared within {classes.sets} sets," if classes.sets > 1 else ""
        dimensions = f"{classes.rank} of {classes.width} dimensions"
        head = f"the {count} of {self.name}{compared} {'spans' if one else 'span'} {dimensions}"
        if not classes.diverse:
            return f"The theorem does not apply: {head}{self._why()}."
        if not self.applies and self.features is not None:
            about = "about their mean, as biases demand" if self.biased else "about zero"
            rank = self.features.rank if self.biased else self.features.rank_about_zero
            return (
                f"The theorem applies to the features but not to the head itself: {head}, and the rows of "
                f"{self.features.name} span only {rank} {about}."
            )
        margin = f"condition number {classes.condition:.3g}"
        if classes.pairs is not None:
            margin += f", {classes.pairs.condition:.3g} for the best {classes.width} differences"
        if self.weighted_condition is not None:
            margin += f", {self.weighted_condition:.3g} weighted by {words.weighing}"
        said = "The theorem applies, but nearly fails" if self.nearly_fails else "The theorem applies"
        return f"{said}: {head} ({margin})."

    def _why(self) -> str:
        classes = self.classes
        if not classes.enough:
            return f", and at least {classes.needed} distinct {self.words.rows} are needed"
        if classes.constant_columns:
            columns = "columns are" if classes.constant_columns > 1 else "column is"
            alike = "the same" if self.words.centred else "zero"
            within = " of a set" if classes.sets > 1 else ""
            return f" ({classes.constant_columns} {columns} {alike} for every {self.words.row}{within})"
        return f", and {self.words.spanning} do not reach the rest"

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of these numbers, as sentences."""
        classes, words, said = self.classes, self.words, list[str]()
        if classes.used < classes.stored:
            why = "always or never occur" if self.family == "bernoulli" else "have no weight"
            why = f"have no weight or lie in no set of two {words.rows}" if classes.drawn else why
            said.append(f"{classes.stored - classes.used} of {classes.stored} {words.rows} {why} and were left out")
        if classes.distinct < classes.used:
            alike = "repeat the embedding of another" if words.centred else "are zero or repeat another"
            said.append(f"{classes.used - classes.distinct} of {classes.used} {words.rows} {alike}")
        if classes.diverse and classes.used == classes.distinct == classes.needed:
            said.append(
                f"{classes.distinct} {words.rows} are the fewest that {classes.width} dimensions allow: any two such "
                "heads are related by an invertible map, so heads alone cannot show disagreement"
            )
        if self.features is not None and self.features.rows <= self.features.width:
            said.append(f"{self.features.rows} rows of features cannot span {self.features.width} dimensions")
        return tuple(said)

    @property
    def quantities(self) -> list[tuple[str, str]]:
        """Name and text of every quantity."""
        classes, features, words = self.classes, self.features, self.words
        told = [
            (f"distinct {words.rows}", f"{classes.distinct} (at least {classes.needed} needed)"),
            (f"rank of the {words.head}", f"{classes.rank} of {classes.width}"),
            (f"condition of the {words.head}", condition_text(classes.condition)),
        ]
        if classes.pairs is not None:
            told.append(("condition of the best differences", condition_text(classes.pairs.condition)))
            told.append(("  as pivoted QR picks them", condition_text(classes.pairs.pivoted_condition)))
        if self.weighted_condition is not None:
            weighted = f"rank {self.weighted_rank}, {condition_text(self.weighted_condition)}"
            told.append((f"weighted by {words.weighing}", weighted))
        if features is not None:
            conditions = ", ".join(map(condition_text, (features.condition, features.condition_about_zero)))
            told += [
                ("rank of the features", f"{features.rank} about the mean, {features.rank_about_zero} about zero"),
                ("condition of the features", conditions),
                ("effective dimension", f"{features.effective_dimension} ({features.seen_share:.1%} of variance)"),
            ]
        return told

    def plot_components(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """Standard deviations of the classes' embeddings along their principal axes: those at 0 are not spanned.

        ``ax`` is where to draw, by default a new pyplot figure of one column (3.35 inches) or two ("double").
        """
        from ..report.plots import columns

        spectrum = self.classes.spectrum
        names = [str(place + 1) for place in range(len(spectrum))]
        label, across = "standard deviation", f"principal axis of {self.name}"
        return columns(ax, spectrum, label, across, names=names, limits=(0.0, None), width=width)

    def table(self) -> str:
        """One line per quantity."""
        return aligned([(self.name, ""), *self.quantities], left=(0, 1))


def _classes(head: Head, of_classes: Spectrum, stored: int, support: Support) -> ClassDiversity:
    pairs = None
    if support.plain:
        pairs = best_differences(head.values, of_classes, head.label)
    elif not support.family.centred:
        # An outcome with one label, or with one unit of an output, less one of another or less none at all.
        rows = np.concatenate([read_rows(head.values, slice(None)), np.zeros((1, head.width), head.values.dtype)])
        pairs = best_differences(rows, of_classes, lambda index: head.label(index) if index < head.classes else "none")
    return ClassDiversity(
        stored=stored,
        used=head.classes,
        distinct=support.distinct(head.values),
        width=head.width,
        rank=of_classes.rank,
        condition=of_classes.condition,
        constant_columns=int(of_classes.constant.sum()),
        spectrum=_shown(of_classes),
        participation=of_classes.participation,
        pairs=pairs,
        needed=head.width + support.spare,
        sets=max(support.spare, 1),
        drawn=support.sets is not None,
    )


def _features(given: Any, head: Head, of_classes: Spectrum) -> FeatureDiversity:
    """The condition on the features, and their dimension in the span of the classes' differences."""
    data = loaded(given, "features")
    name = data.name or "features"
    head.require_width(data.values, name)
    if len(data) < 2:
        raise InputError(f"{name} has {len(data)} row: at least 2 are needed")
    about_mean = spectrum(data.values, name)
    about_zero = spectrum(data.values, name, centred=False)
    return FeatureDiversity(
        name=name,
        rows=len(data),
        width=data.shape[1],
        rank=about_mean.rank,
        condition=about_mean.condition,
        rank_about_zero=about_zero.rank,
        condition_about_zero=about_zero.condition,
        spectrum=_shown(about_mean),
        effective_dimension=effective_dimension(about_mean, of_classes),
        seen_share=seen_share(about_mean, of_classes),
    )


def effective_dimension(features: Spectrum, head: Spectrum) -> int:
    r"""The rank of :math:`P_{\mathcal G}(f-\bar f)` with :math:`\mathcal G=\operatorname{span}\{g-g_0\}`."""
    overlap = np.linalg.svd(features.axes.T @ head.axes, compute_uv=False)
    return int((overlap > max(features.resolution, head.resolution)).sum())


def seen_share(features: Spectrum, head: Spectrum) -> float:
    """The share of the features' variance that lies in the span of the classes' differences."""
    total = float((features.singular_values**2).sum())
    kept = float(((features.singular_values[:, None] * (features.axes.T @ head.axes)) ** 2).sum())
    return min(kept / total, 1.0) if total > 0 else 0.0


def _shown(spectrum: Spectrum) -> tuple[float, ...]:
    return tuple(spectrum.singular_values[:_SHOWN].tolist())


def best_differences(values: Matrix, spectrum: Spectrum, label: Callable[[int], str] = str) -> Pairs | None:
    """Choose as many pairs as the head has rank; None for a head without any."""
    rank = spectrum.rank
    if rank == 0:
        return None
    shortlist = _shortlist(values, spectrum)
    rows = (np.asarray(values[shortlist], dtype=np.float64) - spectrum.mean) @ spectrum.axes
    rows *= np.exp2(-np.frexp(np.abs(rows).max())[1])  # conditions do not change, and inverses stay in range
    pairs = pivoted_pairs(rows, rank)
    start = condition(rows, pairs)
    # Differences that rounding makes singular have no inverse to exchange with.
    chosen, exchanged = _exchange(rows, pairs) if start < _SINGULAR else (pairs, 0)
    reached = condition(rows, chosen) if exchanged else start
    if not reached < start:
        chosen, reached, exchanged = pairs, start, 0
    named = tuple((label(a), label(b)) for a, b in shortlist[chosen[:_SHOWN]].tolist())
    return Pairs(named, reached, start, exchanged)


def pivoted_pairs(rows: Array, rank: int) -> Array:
    r"""The classes that pivoted QR picks, each paired with one of those left: the one nearest to the mean that may be.

    With the picked rows as columns of :math:`C` the differences from :math:`h` have determinant
    :math:`\det C\,(1-\mathbf 1^\top C^{-1}h)`; that factor is 1 on average, and 0 for a row that repeats a picked one.
    """
    _, order = linalg.qr(rows.T, mode="r", pivoting=True, check_finite=False)
    chosen, left = order[:rank], order[rank:]
    factor = np.abs(1 - np.linalg.solve(rows[chosen].T, rows[left].T).sum(axis=0))
    near = np.where(factor > min(0.5, factor.max() / 2), np.linalg.norm(rows[left], axis=1), np.inf)
    hub = left[np.argmin(near)]
    return np.stack([chosen, np.full(rank, hub)], axis=1)


def condition(rows: Array, pairs: Array) -> float:
    """Largest over smallest singular value of the differences."""
    singular = linalg.svdvals(rows[pairs[:, 0]] - rows[pairs[:, 1]])
    return float(singular[0] / singular[-1]) if singular[-1] > 0 else float("inf")


def _shortlist(values: Matrix, spectrum: Spectrum) -> Array:
    """The distinct classes that pairs are made of: all, or those of large leverage with one near the middle.

    Differences span the space if the rows :math:`(z,1)` do, with :math:`z` whitened. Where those of large leverage do
    not, because many of them are nearly equal, the farthest from their span follow. Some row is at least 1 away in any
    direction that is missing, since the mean square over all rows is 1 in each: every round adds a dimension.
    """
    distinct = np.sort(np.unique(equal_rows(values), return_index=True)[1])
    wanted = _SHORTLIST * spectrum.rank + 1
    if len(distinct) <= wanted:
        return np.asarray(distinct)
    size = float(np.abs(spectrum.whitener).max())
    single = values.dtype.itemsize <= 4 and 1 / _SINGLE < size < _SINGLE
    dtype: Any = np.float32 if single else np.float64
    whitener: Array = spectrum.whitener.astype(dtype)
    missing: Array = np.eye(spectrum.rank + 1)

    def beyond(rows: slice | Array) -> Array:
        scores: Array = (read_rows(values, rows) - spectrum.mean).astype(dtype) @ whitener
        return np.asarray(np.column_stack([scores, np.ones(len(scores), dtype)]) @ missing.astype(dtype))

    def distances(rows: slice) -> Array:
        scores = beyond(rows)
        return np.asarray(np.einsum("ij,ij->i", scores, scores, dtype=np.float64))

    chosen: Array = np.zeros(0, dtype=np.int64)
    while missing.shape[1]:
        far = np.concatenate(map_blocks(distances, values.shape[0], block_rows(values.shape[1], cells=2**21)))[distinct]
        if not len(chosen):
            chosen = distinct[[np.argmin(far)]]
        picked = distinct[np.argpartition(-far, wanted - 2)[: wanted - 1]]
        chosen = np.union1d(chosen, picked)
        scores = beyond(picked).astype(np.float64)
        strengths, axes = np.linalg.eigh(scores.T @ scores)
        if not strengths[-1] >= _SPANNED:
            break  # rows with a mean that is not zero may leave a direction all but empty
        missing = missing @ axes[:, strengths < _SPANNED]
    return chosen


def _exchange(rows: Array, pairs: Array) -> tuple[Array, int]:
    """Exchange pairs while that lowers the Frobenius condition number of their differences."""
    pairs = pairs.copy()
    rank = len(pairs)
    columns = (rows[pairs[:, 0]] - rows[pairs[:, 1]]).T
    inverse = np.linalg.inv(columns)
    gram = inverse @ inverse.T
    rng = np.random.default_rng(0)
    direction, missed, done = np.ones(rank), 0, 0
    a_trial = 4.0 * rank * (len(rows) + rank * (2 + _ENDS**2))
    for _ in range(int(min(_TRIALS * rank + 32, _WORK / a_trial))):
        # Once the weakest direction cannot be improved, others are tried at random, weaker ones more often.
        direction = _weakest(gram, direction) if missed == 0 else gram @ rng.normal(size=rank)
        swap = _best_swap(rows, columns, inverse, gram, direction @ inverse)
        if swap is None:
            missed += 1
            if missed > _MISSES:
                break
            continue
        missed = 0
        done += 1
        index, pair = swap
        new = rows[pair[0]] - rows[pair[1]]
        pairs[index], columns[:, index] = pair, new
        if done % _REFRESH == 0:
            inverse = np.linalg.inv(columns)
            gram = inverse @ inverse.T
            continue
        z = inverse @ new
        row = inverse[index] / z[index]
        z[index] -= 1.0
        overlap = inverse @ row
        inverse -= np.multiply.outer(z, row)
        gram -= np.multiply.outer(z, overlap)
        gram -= np.multiply.outer(overlap, z)
        gram += (row @ row) * np.multiply.outer(z, z)
    return pairs, done


def _weakest(gram: Array, start: Array) -> Array:
    """The right singular vector of the smallest singular value, by power iteration from the last one."""
    vector = start + 1e-3
    for _ in range(8):
        vector = gram @ vector
        vector /= np.linalg.norm(vector)
    return np.asarray(vector)


def _best_swap(
    rows: Array, columns: Array, inverse: Array, gram: Array, direction: Array
) -> tuple[int, tuple[int, int]] | None:
    """The column and the pair whose exchange lowers the Frobenius condition number most, or None."""
    along = rows @ direction
    ends = min(_ENDS, len(rows) // 2)
    order = np.argpartition(along, (ends, len(rows) - ends - 1))
    low, high = order[:ends], order[len(rows) - ends :]
    pairs = np.array([(b, a) for a in low for b in high])
    candidates = (rows[pairs[:, 0]] - rows[pairs[:, 1]]).T
    z = inverse @ candidates
    diagonal = np.diagonal(gram)[:, None]
    small = np.sum(inverse**2)
    lengths = np.einsum("ij,ij->j", columns, columns)
    large = lengths.sum()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        after = small - 2 * (gram @ z) / z + diagonal * (1 + np.sum(z**2, axis=0)) / z**2
        sizes = large - lengths[:, None] + np.sum(candidates**2, axis=0)
        ratio = after * sizes / (small * large)
    ratio[~np.isfinite(ratio)] = np.inf
    index, which = np.unravel_index(np.argmin(ratio), ratio.shape)
    if not ratio[index, which] < (1 - _GAIN) ** 2:
        return None
    return int(index), (int(pairs[which, 0]), int(pairs[which, 1]))
