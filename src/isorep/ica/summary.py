"""A fit as plain data with a versioned schema: what a report or another program needs to know about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from ..representation import Array
from ..results import plain, versions
from .contrasts import contrast_named
from .curvature import weak_planes
from .estimator import ICA
from .whitening import columns_left_out

SCHEMA = "isorep.ica/1"
MOST_PLANES = 200  # that are named one by one
_WHOLE = 200  # components up to which the matrix of planes is kept as it is
_BLOCKS = 64  # blocks a side beyond
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
        Fitted. Without whitening there is less to say: no rank, moments, uncertainty or planes.
    name : str
        What to call the data.
    rows : int
        How many rows it was fitted to.
    seconds, peak_memory : float and int, optional
        What the fit took; memory in bytes.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> from isorep.ica.summary import summarise
    >>> X = np.random.default_rng(0).laplace(size=(3000, 3))
    >>> summarise(isorep.ICA().fit(X), name="sources", rows=3000)["reading"]
    'All 3 components differ from Gaussian ones.'
    """
    check_is_fitted(ica)
    k, d = ica.components_.shape
    found = {part: getattr(ica, f"{part}_") for part in PARTS if hasattr(ica, f"{part}_")}
    planes = _planes(ica, rows) if hasattr(ica, "conditioning_") else None
    summary: dict[str, Any] = plain(
        {
            "schema": SCHEMA,
            "isorep": __version__,
            "versions": versions(),
            "name": name,
            "rows": rows,
            "columns": d,
            "rank": getattr(ica, "rank_", None),
            "left_out": left_out_facts(ica),
            "reading": _reading(ica),
            "settings": settings(ica),
            "components": {"count": k, **found},
            "conditioning": None if planes is None else conditioning(ica.conditioning_),
            "planes": planes,
            "path": _thinned(ica.path_),
            "converged": bool(ica.converged_),
            "sweeps": int(ica.n_iter_),
            "seconds": seconds,
            "peak_memory": peak_memory,
            "caveats": _caveats(ica, name, rows, planes),
        }
    )
    return summary


def conditioning(planes: Array) -> dict[str, Any]:
    """The matrix of planes: as it is, or for many components the least curvature in each of 64 x 64 blocks.

    ``edges`` says which components a block holds: from one edge up to the next. The diagonal of the whole matrix, a
    component's own curvature, is no plane; in blocks it is left out.
    """
    k = len(planes)
    if k <= _WHOLE:
        return {"edges": np.arange(k + 1), "least": planes}
    edges = np.linspace(0, k, _BLOCKS + 1).astype(int)
    apart = np.array(planes)
    np.fill_diagonal(apart, np.inf)
    least = np.minimum.reduceat(np.minimum.reduceat(apart, edges[:-1], axis=0), edges[:-1], axis=1)
    return {"edges": edges, "least": least}


def left_out_facts(ica: ICA) -> dict[str, Any] | None:
    """The columns that do not count and their spreads; None without whitening."""
    if not hasattr(ica, "left_out_columns_"):
        return None
    return {"columns": ica.left_out_columns_, "spreads": ica.left_out_spreads_}


def settings(ica: ICA) -> dict[str, Any]:
    """The parameters of an estimator; a random generator by the name of its class."""
    return {
        name: value if value is None or isinstance(value, bool | int | float | str) else type(value).__name__
        for name, value in ica.get_params(deep=False).items()
    }


def _planes(ica: ICA, rows: int) -> dict[str, Any]:
    """Weak planes, judged by the spread of two Gaussian components with these fourth moments."""
    same, opposite = _NORMAL_SPREAD[contrast_named(ica.contrast).name]
    signs, fourth = np.sign(ica.contrast_), np.maximum(ica.kurtosis_ + 3, 1.0)
    spread = np.where(np.multiply.outer(signs, signs) > 0, same, opposite)
    error = spread * np.multiply.outer(fourth, fourth) ** 0.25 / np.sqrt(3 * rows)
    pairs = weak_planes(ica.conditioning_, error, ica.gaussian_)
    shown = [
        {"first": i, "second": j, "curvature": ica.conditioning_[i, j], "error": error[i, j]}
        for i, j in pairs[:MOST_PLANES]
    ]
    return {"weak": len(pairs), "shown": shown}


def _reading(ica: ICA) -> str:
    """One sentence for the head of a page."""
    k = len(ica.components_)
    if not hasattr(ica, "gaussian_"):
        return f"{k} components, found without whitening: their contrasts depend on the scale of the data."
    gaussian = int(ica.gaussian_.sum())
    if gaussian == k:
        return f"None of the {k} components can be told from Gaussian ones."
    if gaussian:
        return f"{k - gaussian} of {k} components differ from Gaussian ones; {gaussian} span a near-Gaussian space."
    return f"All {k} components differ from Gaussian ones." if k > 1 else "There is one component."


def _caveats(ica: ICA, name: str, rows: int, planes: dict[str, Any] | None) -> list[str]:
    k, d = ica.components_.shape
    said = []
    if not ica.converged_:
        said.append(f"the fit stopped after {ica.n_iter_} sweeps before the contrast had settled: raise max_iter")
    if planes is None:
        return [*said, "rows were neither centred nor whitened, so the components depend on the scale of the data"]
    gaussian, unsettled = int(ica.gaussian_.sum()), np.flatnonzero(ica.unsettled_)
    if gaussian:
        said.append(
            f"{gaussian} of {k} components cannot be told from Gaussian ones: only the space they span is determined"
        )
    if len(unsettled):
        said.append(f"{len(unsettled)} components had not settled: {_listed(unsettled)}")
    loose = planes["weak"] - gaussian * (gaussian - 1) // 2
    if loose:
        said.append(
            f"{loose} more planes of two components have no curvature beyond sampling error: their components may turn "
            "into each other"
        )
    left_out = columns_left_out(ica, name)
    if left_out is not None:
        said.append(left_out)
    if ica.rank_ < d - int((getattr(ica, "left_out_spreads_", np.zeros(0)) > 0).sum()):
        said.append(f"only {ica.rank_} of {d} directions vary")
    if k < ica.rank_:
        said.append(f"components are of the {k} directions of largest variance, among {ica.rank_} that vary")
    if rows < 10 * k:
        said.append(f"there are {rows} rows for {k} components: with so few, chance shows structure of its own")
    return said


def _thinned(path: Array) -> Array:
    """At most so many steps, the first and the last among them."""
    if len(path) <= _STEPS:
        return path
    return np.asarray(path[np.linspace(0, len(path) - 1, _STEPS).astype(int)])


def _listed(places: Array, most: int = 10) -> str:
    named = ", ".join(str(place) for place in places[:most])
    return f"{named} and {len(places) - most} more" if len(places) > most else named
