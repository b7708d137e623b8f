"""Stability (after Icasso): fits to resampled rows from other starts, matched with the fit to all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.cluster import hierarchy
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import squareform
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..annotated import is_annotated
from ..chunked import ChunkedRows, is_dask
from ..errors import InputError
from ..representation import Array, Matrix, Representation, as_representation, reading_notes
from ..resampling import group_codes
from ..results import ResultRecord, aligned, plain, told
from ..rows import Progress, SelectedRows, no_progress
from ..settings import check_counts
from ..threads import Crew
from .cards import Cards, about_rows, cards_of_rows
from .contrasts import contrast_named
from .curvature import Constants, Plane, constants, curvature, weak_planes
from .estimator import ICA
from .search import orthonormal
from .solver import rotate
from .summary import MOST_PLANES, component_rows, fit_facts, kinds, plot_planes, remarks, settings
from .unmixing import as_source, described, whiten
from .white import on_device
from .whitening import columns_left_out, open_rows, quietly

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COMES_BACK = 0.9  # correlation above which a component is the same, and share of refits in which it must be


def stability(
    X: Any,
    n_restarts: int = 10,
    *,
    resample: bool = True,
    ica: ICA | None = None,
    groups: Any = None,
    obs: Any = None,
    cards: bool = True,
    random_state: Any = 0,
    progress: Progress | None = None,
) -> Stability:
    r"""Reproducibility of independent components across resamples and restarts (after Icasso).

    The reference is the fit to all rows. Every refit searches from a random rotation, never from the reference, and its
    components are matched one to one with the reference's by the absolute correlation of their sources,
    :math:`|W\Sigma W'^\top|` with unit variances. The components of all fits are also clustered by average linkage, as
    Icasso does [1]_.

    A bootstrap sample shares most rows with the data, and with them much chance structure: Gaussian components score
    well below one, but far from zero. A component with a low score is not determined; a high score does not prove that
    a component is a true source.

    Parameters
    ----------
    X : array, memory map, Representation or AnnData
        Rows, of shape (n, d).
    n_restarts : int
        Number of refits.
    resample : bool
        Draw a bootstrap sample of the rows for every refit (smaller for data beyond :math:`2^{26}` cells); default:
        yes. If false, all refits use all rows and only their starts differ, which tests the search but not sampling.
    ica : ICA, optional
        Estimator whose settings are used; it is not changed. Default: ``ICA()``.
    groups : (n,) labels, optional
        Group per row; rows of a group are drawn together.
    obs : mapping of str to (n,) values, data frame or AnnData, optional
        Columns that describe the rows; the cards of components are read against them, as in
        :func:`~isorep.ica.component_cards`. Default: the obs of AnnData.
    cards : bool
        Make the cards of components; default: yes.
    random_state : int, RandomState or None
        Seed of the resamples and starts.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    References
    ----------
    .. [1] Himberg, J., Hyvärinen, A., Esposito, F. (2004). Validating the independent components of neuroimaging time
           series via clustering and visualization. NeuroImage 22.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(2000, 3)) @ rng.normal(size=(3, 3))
    >>> isorep.stability(X, n_restarts=5)
    Stability(All 3 components are reproducible in all 5 refits.)
    """
    check_counts(n_restarts=(n_restarts, 1))
    reference = clone(ICA() if ica is None else ica)
    if reference.whiten is None:
        raise InputError("stability compares whitened components, and ICA(whiten=None) has none")
    if is_annotated(X):
        obs = X.obs if obs is None else obs
        X = as_representation(X, "AnnData", repeated_ids=True)
    data = open_rows(reference, X, reset=True)
    columns = getattr(reference, "feature_names_in_", None)
    if is_dask(data) or isinstance(data, ChunkedRows):
        raise InputError("stability draws rows one by one, which is slow from a Dask array: pass X[rows].compute()")
    n = int(data.shape[0])
    codes = group_codes(groups, n)
    units = np.arange(n) if codes is None else codes
    if codes is not None and codes.max() == 0:
        raise InputError("groups has one label for all rows: there is nothing to draw anew")
    report = progress or no_progress
    report("reference fit", 0, 1)
    quietly(reference, data)  # the result reports what warnings would
    report("reference fit", 1, 1)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    fits = []
    for fit in refits(data, reference, n_restarts, units if resample else None, seed):
        fits.append(fit)
        report("refits", len(fits), n_restarts)
    asked = {
        "n_restarts": int(n_restarts),
        "resample": bool(resample),
        "groups": None if groups is None else int(units.max()) + 1,
        "random_state": random_state if isinstance(random_state, int) else None,
        "ica": settings(reference),
    }
    result = _described(data, reference, fits, asked)
    if columns is not None:
        reference.feature_names_in_ = columns
    if cards:
        about = about_rows(reference, X) | {"stability": (result.scores, result.comes_back)}
        result = replace(result, cards=cards_of_rows(reference, data, obs, **about))
    if not isinstance(X, Representation):
        return result
    return replace(result, name=X.name or "X", notes=tuple(reading_notes(X)))


def _described(data: Matrix, reference: ICA, fits: list[Refit], asked: dict[str, Any]) -> Stability:
    """The result, from the fits and two more passes over the rows."""
    n, k = int(data.shape[0]), len(reference.components_)
    basis = reference.mixing_
    if k < reference.rank_:  # refits may reach beyond the directions that the reference kept
        basis = whiten(as_source(data), rounding=reference.rounding, standardise=reference.standardise).mixing_
    here, there = directions(reference.components_, basis), [directions(fit, basis) for fit, _ in fits]
    matched, turned = match(here, there)
    clustered = max(min(len(there), MOST_CLUSTERED // k - 1), 0)
    bent = curvature(data, reference)
    pairs = weak_planes(bent.planes, bent.error, reference.gaussian_)
    rows_used = int(np.median([facts.rows for _, facts in fits]))
    return Stability(
        name="X",
        rows=n,
        rows_used=rows_used,
        ica=reference,
        correlations=matched,
        quality=quality(here, there[:clustered]) if clustered else np.full(k, np.nan),
        expected=reference.uncertainty_ * np.sqrt(n / rows_used),
        planes=tuple(
            Plane(int(i), int(j), *(float(part[i, j]) for part in (bent.planes, bent.error, bent.angle, turned)))
            for i, j in pairs[:MOST_PLANES]
        ),
        n_weak_planes=len(pairs),
        constants=constants(bent, reference.contrast),
        refits=tuple(facts for _, facts in fits),
        settings=asked | {"clustered_refits": clustered},
    )


@dataclass(frozen=True)
class RefitFacts:
    """One refit: its rows, components, whether it converged, and how many are indistinguishable from Gaussian.

    It has no components where its rows did not vary.
    """

    rows: int
    components: int
    converged: bool
    gaussian: int


Refit = tuple[Array, RefitFacts]
"""The components of a refit, and the facts about it."""


@dataclass(frozen=True, eq=False)
class Stability(ResultRecord):
    """The result of :func:`isorep.stability`, by component of the reference.

    Attributes
    ----------
    ica : ICA
        The reference, fitted to all rows.
    correlations : (n_restarts, k) array
        Absolute correlation of each component with the matched one; 0 where a refit has too few components.
    quality : (k,) array
        Icasso's index: mean similarity within a component's cluster minus that with all others; 0 if it is alone in
        its cluster, NaN where there are too many components to cluster.
    expected : (k,) array
        Expected sampling error of each direction in a refit, in radians, if components are independent.
    planes : tuple of Plane
        Planes without curvature beyond sampling error, the least certain first; at most 200 of ``n_weak_planes``.
    rows, rows_used : int
        Number of rows of the data, and of a refit (median).
    constants : Constants
        Worst-case constants of the perturbation lemma: very loose, for diagnosis only.
    refits : tuple of RefitFacts
    notes : tuple of str
        Notes on columns left out or converted when the data were read.
    cards : Cards or None
        What each component is: loadings, extreme rows, associations, histogram.
    """

    schema: ClassVar[str] = "isorep.stability/1"
    page_by: ClassVar[str] = "ica.page:stability_page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"ica", "quality", "expected", "planes", "n_weak_planes", "notes"})
    name: str
    rows: int
    rows_used: int
    ica: ICA
    correlations: Array
    quality: Array
    expected: Array
    planes: tuple[Plane, ...]
    n_weak_planes: int
    constants: Constants
    refits: tuple[RefitFacts, ...]
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()
    cards: Cards | None = None

    @property
    def scores(self) -> Array:
        """Median absolute correlation with the matched component across refits (1 = perfectly reproduced)."""
        return np.asarray(np.median(self.correlations, axis=0))

    @property
    def recurrence(self) -> Array:
        """Share of refits in which the correlation exceeds 0.9."""
        return np.asarray((self.correlations > COMES_BACK).mean(axis=0))

    @property
    def observed(self) -> Array:
        """Median angle to the reference over refits, in radians."""
        return np.asarray(np.arccos(np.clip(self.scores, 0, 1)))

    @property
    def gaussian(self) -> Array:
        """Components of the reference that are indistinguishable from Gaussian."""
        return np.asarray(self.ica.gaussian_)

    @property
    def uncertainty(self) -> Array:
        """The reference's own estimate of the sampling error of each direction, in radians."""
        return np.asarray(self.ica.uncertainty_)

    @property
    def comes_back(self) -> Array:
        """Reproducible components: found in at least nine of ten refits."""
        return np.asarray((self.correlations > COMES_BACK).sum(axis=0) >= self._often)

    @property
    def columns(self) -> dict[str, tuple[Array, int]]:
        """The numbers of every component by name, with their decimals; angles in radians."""
        return {
            "score": (self.scores, 3),
            "recurrence": (self.recurrence, 2),
            "quality": (self.quality, 3),
            "kurtosis": (self.ica.kurtosis_, 2),
            "expected angle": (self.expected, 3),
            "observed angle": (self.observed, 3),
        }

    @property
    def _often(self) -> int:
        return int(np.ceil(COMES_BACK * len(self.correlations)))

    @property
    def reading(self) -> str:
        """The result in one sentence."""
        back, k = int(self.comes_back.sum()), len(self.quality)
        often, refits = self._often, len(self.correlations)
        lost = int((self.gaussian & ~self.comes_back).sum())
        others = k - back - lost
        whole = f"all {often}" if often == refits > 1 else f"at least {often} of {refits}" if refits > 1 else "the only"
        who = f"All {k}" if back == k > 1 else f"{back or 'None'} of {k}"
        are = "is" if back == 1 else "are"
        said = [f"{who} components {are} reproducible in {whole} refit{'s' if refits > 1 else ''}"]
        if lost:
            said.append(f"{lost} {'is' if lost == 1 else 'are'} indistinguishable from Gaussian and not reproducible")
        if others:
            said.append(f"{others} {'is' if others == 1 else 'are'} not reproducible although non-Gaussian")
        return "; ".join(said) + "."

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of these numbers, as sentences."""
        k, refits = len(self.quality), len(self.refits)
        short = sum(fit.components < k for fit in self.refits)
        unfinished = sum(not fit.converged for fit in self.refits)
        seen = [fit.gaussian for fit in self.refits]
        span = f"{min(seen)}-{max(seen)}" if min(seen) < max(seen) else f"{max(seen)}"
        gaussian, chance = int(self.gaussian.sum()), int((self.gaussian & self.comes_back).sum())
        clustered, resampled = self.settings["clustered_refits"], self.settings["resample"]
        drew_less = resampled and self.rows_used < 0.9 * self.rows
        left_out = columns_left_out(self.ica, self.name)
        said = [
            (left_out, left_out or ""),
            (not resampled, "only the starts differed: this tests the search, not sampling of rows"),
            (
                self.rows < ROWS_PER_COMPONENT * k,
                f"{self.rows} rows are {self.rows / k:.1f} per component: with fewer than {ROWS_PER_COMPONENT} even "
                "noise looks non-Gaussian in some direction, and refits differ; keep fewer components",
            ),
            (drew_less, f"each refit used {self.rows_used} of {self.rows} rows: with all rows directions vary less"),
            (not self.ica.converged_, "the fit to all rows stopped before the contrast had converged: raise max_iter"),
            (unfinished, f"{unfinished} of {refits} refits stopped before the contrast had converged"),
            (short, f"{short} of {refits} refits found fewer than {k} components: what they lack counts as not found"),
            (
                max(seen),
                f"{span} components per refit are indistinguishable from Gaussian ({gaussian} in the full fit)",
            ),
            (chance, f"{chance} near-Gaussian components are reproducible only because refits share rows"),
            (self.constants.saddle, "the contrast bends the wrong way in some plane: the fit is at a saddle"),
            (clustered < refits, f"the quality of clusters is from {clustered} of {refits} refits"),
        ]
        return (*self.notes, *(sentence for applies, sentence in said if applies))

    def table(self, most: int | None = None) -> str:
        """One line per component, of the first ``most`` ones; default: all."""
        rows = [("component", *(title.replace(" ", "\n") for title in self.columns), "")]
        for name, remark in list(zip(self.ica.get_feature_names_out(), remarks(self.ica), strict=True))[:most]:
            index = len(rows) - 1
            numbers = (f"{values[index]:.{digits}f}".replace("nan", "-") for values, digits in self.columns.values())
            rows.append((str(name), *numbers, remark))
        left = len(self.quality) - len(rows) + 1
        return aligned(rows, left=(0, len(rows[0]) - 1)) + (f"\nand {left} more components" if left else "")

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per component: the numbers of :meth:`table`, and whether it is near-Gaussian and comes back."""
        columns = {name.replace(" ", "_"): values for name, (values, _) in self.columns.items()}
        return component_rows(columns | {"gaussian": self.gaussian, "comes_back": self.comes_back})

    def plot_components(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The median correlation of each component with its match in the refits, and the single ones as small dots.

        Correlations above the line count as found again. ``ax`` is where to draw, by default a new pyplot figure of one
        column (3.35 inches) or two ("double").

        Examples
        --------
        >>> import numpy as np, isorep
        >>> from matplotlib.figure import Figure
        >>> found = isorep.stability(np.random.default_rng(0).laplace(size=(500, 3)), n_restarts=3)
        >>> found.plot_components(ax=Figure().subplots()).get_ylabel()
        'correlation with its match'
        """
        from ..report.plots import columns

        return columns(
            ax,
            self.scores,
            "correlation with its match",
            "component, strongest first",
            groups=kinds(self.gaussian),
            reference=(COMES_BACK, "found again above"),
            spread=self.correlations.T,
            width=width,
        )

    def plot_matrix(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The curvature of the contrast in the plane of every two components: where it is 0 they are free to turn."""
        return plot_planes(self.ica, ax, width)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        facts = fit_facts(self.ica)
        mine = ("scores", "recurrence", "quality", "expected", "observed", "comes_back")
        more = {
            "reading": self.reading,
            "components": facts["components"] | {part: getattr(self, part) for part in mine},
            "planes": {"weak": self.n_weak_planes, "shown": self.planes},
            "constants": asdict(self.constants) | {"note": "worst-case constants: very loose, for diagnosis only"},
            "caveats": self.caveats,
        }
        return super().to_dict() | dict(plain(facts | more))

    def __str__(self) -> str:
        cards = () if self.cards is None else (self.cards.text(),)
        return told(
            self.reading,
            self.table(MOST_SHOWN),
            *cards,
            notes=(*self.caveats, *(self.cards.notes if self.cards else ())),
        )


ROWS_PER_COMPONENT = 10  # below it directions of a sample follow its noise
MOST_SHOWN = 50  # components in print; frame, JSON and page hold all
MOST_CELLS = 2**26  # drawn for one refit
MOST_CLUSTERED = 4096  # components of all fits together: clustering takes the square of it in memory


def refits(data: Matrix, reference: ICA, n: int, units: Array | None, seed: int) -> Iterator[Refit]:
    """Fits with the reference's settings, each from a random start and on rows drawn anew, unit by unit.

    Without units all rows are used.
    """
    for child in np.random.SeedSequence(seed).spawn(n):
        rng = np.random.default_rng(child)
        rows = data if units is None else SelectedRows(data, drawn(units, int(data.shape[1]), rng))
        try:
            yield _refit(rows, reference, rng)
        except InputError:  # the reference was fitted, so the rows are valid: they only do not vary
            yield np.empty((0, int(data.shape[1]))), RefitFacts(int(rows.shape[0]), 0, False, 0)


def drawn(units: Array, width: int, rng: np.random.Generator) -> Array:
    """Rows of units drawn with replacement, in order: as many units as there are, or a share of them for large data."""
    n, n_units = len(units), int(units.max()) + 1
    share = min(1.0, MOST_CELLS / width / n)
    times = np.bincount(rng.integers(n_units, size=max(int(np.ceil(share * n_units)), 2)), minlength=n_units)
    return np.repeat(np.arange(n), times[units])


def _refit(rows: Matrix, reference: ICA, rng: np.random.Generator) -> Refit:
    """One fit, which starts from the fourth-order start rotated at random."""
    source = as_source(rows)
    whitening = whiten(source, rounding=reference.rounding, standardise=reference.standardise)
    k = min(len(reference.components_), whitening.rank_)
    whitening, contrast = whitening.leading(k), contrast_named(reference.contrast)
    with Crew() as crew:
        white = on_device(source.whitened(whitening.mean_, whitening.components_.T, crew), reference.device)
        rotation = rotate(
            white,
            contrast,
            start_rotation=orthonormal(rng.standard_normal((k, k))),
            tol=reference.tol,
            max_iter=reference.max_iter,
            seed=int(rng.integers(2**31 - 1)),
        )
        fit = described(white, rotation, contrast, whitening, reference.max_iter)
    facts = RefitFacts(int(rows.shape[0]), len(fit.components_), bool(fit.converged_), int(fit.gaussian_.sum()))
    return fit.components_, facts


def directions(components: Array, basis: Array) -> Array:
    """Components as unit vectors whose inner products are the correlations of their sources.

    ``basis`` is a root of the rows' covariance: basis times its transpose.
    """
    inside = components @ basis
    return np.asarray(inside / np.maximum(np.linalg.norm(inside, axis=1, keepdims=True), 1e-300))


def match(here: Array, others: list[Array]) -> tuple[Array, Array]:
    """Absolute correlations with the components matched one to one, fit by fit, and the rotation of planes.

    The rotation of a plane is the root mean square over fits of the overlap of its two components.
    """
    k = len(here)
    correlations, turned = np.zeros((len(others), k)), np.zeros((k, k))
    for index, there in enumerate(others):
        both = here @ there.T
        mine, theirs = linear_sum_assignment(-np.abs(both))
        correlations[index, mine] = np.abs(both[mine, theirs])
        turned[mine] += both[:, theirs].T ** 2
    return np.minimum(correlations, 1), np.sqrt((turned + turned.T) / (2 * len(others)))


def quality(here: Array, others: list[Array]) -> Array:
    """Icasso's index of the cluster that each component is in: similarity within, minus that with all others.

    As many clusters as components are made, by average linkage. A component alone in its cluster has 0.
    """
    k = len(here)
    every = np.concatenate([here, *others])
    if len(every) < 2:
        return np.zeros(k)
    similar = np.minimum(np.abs(every @ every.T), 1)
    np.fill_diagonal(similar, 1)
    tree = hierarchy.linkage(squareform(1 - similar, checks=False), "average")
    labels = hierarchy.fcluster(tree, k, "maxclust")
    index = np.zeros(k)
    for label in np.unique(labels[:k]):
        inside = labels == label
        size = int(inside.sum())
        if size > 1:
            whole = float(similar[np.ix_(inside, inside)].sum())
            rest = float(similar[inside].sum()) - whole
            within, between = (whole - size) / (size * (size - 1)), rest / max(size * (len(every) - size), 1)
            index[inside[:k]] = within - between
    return index
