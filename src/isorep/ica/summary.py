"""Summary of a fit: plain data with a versioned schema, for reports and other programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from ..representation import Array
from ..results import ResultRecord, plain
from .contrasts import contrast_named
from .curvature import Plane, weak_planes
from .estimator import ICA
from .whitening import columns_left_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PLANES = 200  # that are named one by one
_WHOLE = 200  # components up to which the matrix of planes is kept as it is
_BLOCKS = 64  # blocks per side beyond that
_STEPS = 500  # of the path that are kept
PARTS = ("contrast", "kurtosis", "skewness", "uncertainty", "gaussian", "unsettled")

# Standard deviation over whitened rows of the curvature in the plane of two standard normal components: where the
# contrast of both lies on the same side of a Gaussian's, and where it does not.
_NORMAL_SPREAD = {"logcosh": (0.4755, 0.3064), "exp": (0.7511, 0.5319), "cube": (6.928, 3.464)}


def summarise(
    ica: ICA, *, name: str, rows: int, seconds: float | None = None, peak_memory: int | None = None
) -> dict[str, Any]:
    """A fitted ICA as plain data (schema ``isorep.ica/1``).

    Parameters
    ----------
    ica : ICA
        The fitted estimator. Without whitening there is no rank, moments, uncertainty or planes.
    name : str
        Name of the data.
    rows : int
        Number of rows it was fitted to.
    seconds, peak_memory : float and int, optional
        Run time, and peak memory in bytes, of the fit.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> from isorep.ica.summary import summarise
    >>> X = np.random.default_rng(0).laplace(size=(3000, 3))
    >>> summarise(isorep.ICA().fit(X), name="sources", rows=3000)["reading"]
    'All 3 components differ from Gaussian.'
    """
    return Fit.of(ica, name=name, rows=rows, seconds=seconds, peak_memory=peak_memory).to_dict()


@dataclass(frozen=True, eq=False)
class Fit(ResultRecord):
    """A fitted ICA as a result; without whitening there are no planes, and ``n_weak_planes`` is None.

    ``planes`` are those without curvature beyond sampling error, the least certain first; ``notes`` say what was left
    out or converted when the data were read.
    """

    schema: ClassVar[str] = "isorep.ica/1"
    page_by: ClassVar[str] = "ica.page:fit_page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"ica", "planes", "n_weak_planes", "notes"})
    name: str
    rows: int
    ica: ICA
    planes: tuple[Plane, ...] = ()
    n_weak_planes: int | None = None
    seconds: float | None = None
    peak_memory: int | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, ica: ICA, *, name: str, rows: int, **more: Any) -> Fit:
        """With weak planes judged by the spread of two Gaussian components with these fourth moments."""
        check_is_fitted(ica)
        if not hasattr(ica, "conditioning_"):
            return cls(name, rows, ica, **more)
        same, opposite = _NORMAL_SPREAD[contrast_named(ica.contrast).name]
        signs, fourth = np.sign(ica.contrast_), np.maximum(ica.kurtosis_ + 3, 1.0)
        spread = np.where(np.multiply.outer(signs, signs) > 0, same, opposite)
        error = spread * np.multiply.outer(fourth, fourth) ** 0.25 / np.sqrt(3 * rows)
        pairs = weak_planes(ica.conditioning_, error, ica.gaussian_)
        planes = tuple(
            Plane(i, j, float(ica.conditioning_[i, j]), float(error[i, j])) for i, j in pairs[:MOST_PLANES].tolist()
        )
        return cls(name, rows, ica, planes, len(pairs), **more)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        weak = None if self.n_weak_planes is None else {"weak": self.n_weak_planes, "shown": self.planes}
        more = {
            "reading": self.reading,
            "settings": settings(self.ica),
            "planes": weak,
            "path": thinned(self.ica.path_),
            "converged": bool(self.ica.converged_),
            "sweeps": int(self.ica.n_iter_),
            "caveats": self.caveats,
        }
        return super().to_dict() | dict(plain(fit_facts(self.ica) | more))

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per component: contrast, kurtosis, skewness, uncertainty, and whether it is Gaussian or unsettled."""
        return component_rows({part: getattr(self.ica, f"{part}_") for part in PARTS if hasattr(self.ica, f"{part}_")})

    def panels(self) -> list[str]:
        """Without whitening there is nothing to draw."""
        return [] if self.n_weak_planes is None else super().panels()

    def plot_matrix(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The curvature of the contrast in the plane of every two components: where it is 0 they are free to turn."""
        return plot_planes(self.ica, ax, width)

    def plot_components(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """How far sampling lets each component stray, in degrees; those without a non-Gaussian shape are marked."""
        from ..report.plots import columns

        if self.n_weak_planes is None:
            raise InputError("without whitening the uncertainty of components is not known")
        values = np.degrees(np.minimum(self.ica.uncertainty_, np.pi / 2))
        label, across = "uncertainty (degrees)", "component, strongest first"
        return columns(ax, values, label, across, groups=kinds(self.ica.gaussian_), limits=(0.0, None), width=width)

    @property
    def reading(self) -> str:
        """The result in one sentence."""
        k = len(self.ica.components_)
        if not hasattr(self.ica, "gaussian_"):
            return f"{k} components, found without whitening: their contrasts depend on the scale of the data."
        gaussian = int(self.ica.gaussian_.sum())
        if gaussian == k:
            return f"All {k} components are indistinguishable from Gaussian."
        if gaussian:
            return f"{k - gaussian} of {k} components differ from Gaussian; {gaussian} span a near-Gaussian space."
        return f"All {k} components differ from Gaussian." if k > 1 else "There is one component."

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of these numbers, as sentences."""
        ica, rows = self.ica, self.rows
        said = list(self.notes)
        if not ica.converged_:
            said.append(f"the fit stopped after {ica.n_iter_} sweeps before the contrast had converged: raise max_iter")
        if self.n_weak_planes is None:
            return (*said, "rows were neither centred nor whitened: components depend on the scale of the data")
        k, d = ica.components_.shape
        gaussian, unsettled = int(ica.gaussian_.sum()), np.flatnonzero(ica.unsettled_)
        named = ", ".join(f"ica{index}" for index in unsettled[:10]) + (
            f" and {len(unsettled) - 10} more" if len(unsettled) > 10 else ""
        )
        loose = self.n_weak_planes - gaussian * (gaussian - 1) // 2
        left_out = columns_left_out(ica, self.name)
        varying = d - int((getattr(ica, "left_out_spreads_", np.zeros(0)) > 0).sum())
        about = [
            (gaussian, f"{gaussian} of {k} components are indistinguishable from Gaussian: only their span is known"),
            (len(unsettled), f"{len(unsettled)} components had not settled: {named}"),
            (loose, f"{loose} more planes of two components have no curvature beyond sampling error: they may turn"),
            (left_out, left_out or ""),
            (ica.rank_ < varying, f"only {ica.rank_} of {d} directions vary"),
            (k < ica.rank_, f"components use the {k} directions of largest variance, of {ica.rank_} that vary"),
            (rows < 10 * k, f"only {rows} rows for {k} components: chance structure may look like components"),
        ]
        return (*said, *(sentence for applies, sentence in about if applies))


def component_rows(columns: dict[str, Array]) -> list[dict[str, Any]]:
    """One row per component, counted from 0."""
    count = len(next(iter(columns.values())))
    return [{"component": at, **{name: column[at].item() for name, column in columns.items()}} for at in range(count)]


def kinds(gaussian: Array) -> list[str]:
    """What a figure calls each component."""
    return ["near-Gaussian" if each else "non-Gaussian" for each in gaussian]


def plot_planes(ica: ICA, ax: Axes | None, width: str) -> Axes:
    """The matrix of planes; a component's own curvature, on the diagonal, is no plane."""
    from ..report.plots import matrix

    if not hasattr(ica, "conditioning_"):
        raise InputError("without whitening the curvature of planes is not known")
    planes = np.array(ica.conditioning_)
    np.fill_diagonal(planes, np.nan)
    known = planes[np.isfinite(planes)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    reach = max(abs(low), abs(high)) or 1.0
    limits = (-reach, reach) if low < -0.05 * reach else (0.0, reach)
    names = [str(place) for place in range(len(planes))]
    return matrix(
        ax, planes, names, names, "curvature of the plane", width=width, limits=limits, names=("component",) * 2
    )


def fit_facts(ica: ICA) -> dict[str, Any]:
    """The part of the JSON that a fit and its stability share."""
    k, d = ica.components_.shape
    parts = {part: getattr(ica, f"{part}_") for part in PARTS if hasattr(ica, f"{part}_")}
    left_out = None
    if hasattr(ica, "left_out_columns_"):
        left_out = {"columns": ica.left_out_columns_, "spreads": ica.left_out_spreads_}
    names = getattr(ica, "feature_names_in_", None)
    return {
        "columns": d,
        "features": None if names is None else [str(name) for name in names],
        "matrix": getattr(ica, "matrix_in_", None),
        "rank": getattr(ica, "rank_", None),
        "left_out": left_out,
        "components": {"count": k, **parts},
        "conditioning": conditioning(ica.conditioning_) if hasattr(ica, "conditioning_") else None,
    }


def conditioning(planes: Array) -> dict[str, Array]:
    """The matrix of planes: as it is, or for many components the least curvature in each of 64 x 64 blocks.

    ``edges`` gives the components of a block: from one edge up to the next. The diagonal of the whole matrix, a
    component's own curvature, is not a plane; in blocks it is left out.
    """
    whole = len(planes) <= _WHOLE
    edges = block_edges(len(planes), _WHOLE if whole else _BLOCKS)
    return {"edges": edges, "least": planes if whole else least_of_blocks(planes, edges)}


def block_edges(k: int, most: int) -> Array:
    """The starts of at most ``most`` blocks of ``k`` components, and the end of the last."""
    return np.linspace(0, k, min(k, most) + 1).astype(int)


def least_of_blocks(planes: Array, edges: Array) -> Array:
    """The least curvature of a plane in each block; infinite where there is none."""
    apart = np.array(planes)
    np.fill_diagonal(apart, np.inf)
    return np.asarray(np.minimum.reduceat(np.minimum.reduceat(apart, edges[:-1], axis=0), edges[:-1], axis=1))


def settings(ica: ICA) -> dict[str, Any]:
    """The parameters of an estimator; a random generator by the name of its class."""
    return {
        name: value if value is None or isinstance(value, bool | int | float | str) else type(value).__name__
        for name, value in ica.get_params(deep=False).items()
    }


def remarks(ica: ICA) -> list[str]:
    """The remark on each component: none, unsettled, or Gaussian."""
    none = np.zeros(len(ica.components_), bool)
    gaussian, unsettled = (getattr(ica, name, none) for name in ("gaussian_", "unsettled_"))
    said: list[str] = np.where(gaussian, "Gaussian", np.where(unsettled, "unsettled", "")).tolist()
    return said


def thinned(path: Array) -> Array:
    """A limited number of steps, including the first and the last."""
    if len(path) <= _STEPS:
        return path
    return np.asarray(path[np.linspace(0, len(path) - 1, _STEPS).astype(int)])
