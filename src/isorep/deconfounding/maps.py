"""Maps of rows in two dimensions, with and without batch-driven components, and what ICA needs of the data."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..ica import ICA
from ..representation import Array
from ..results import Record, counted
from .components import Component
from .inputs import Inputs

MOST_ROWS = 600
BEFORE, AFTER = "embedding", "without batch-driven components"
_LEAST_FOR_UMAP = 50


@dataclass(frozen=True)
class Plane:
    """One map: how it was made, of which rows, their places, and the share of their variance that it shows.

    UMAP has no such share (None).
    """

    method: str
    space: str
    points: tuple[tuple[float, float], ...]
    shown: float | None


@dataclass(frozen=True)
class Maps(Record):
    """Sampled rows with batch and label, and their places on every map."""

    rows: tuple[int, ...]
    batch: tuple[str, ...]
    label: tuple[str, ...]
    planes: tuple[Plane, ...]


def make_maps(inputs: Inputs, ica: ICA | None, components: tuple[Component, ...], seed: int) -> Maps:
    """PCA of the embedding, and of what it is without batch-driven components; UMAP too where it is installed.

    Without them the rows are put together again from the other components.
    """
    n = len(inputs.values)
    rows = np.sort(np.random.default_rng([seed, 2**23]).permutation(n)[:MOST_ROWS])
    spaces = {BEFORE: np.asarray(inputs.values[rows], np.float64)}
    if ica is not None:
        stay = [component.number for component in components if not component.batch_driven]
        used = inputs.kept  # the model takes all columns of the data
        sources = (spaces[BEFORE] - ica.mean_[used]) @ ica.components_[stay][:, used].T
        spaces[AFTER] = sources @ ica.mixing_[used][:, stay].T
    planes = [_pca(name, values) for name, values in spaces.items()]
    if find_spec("umap") is not None and len(rows) >= _LEAST_FOR_UMAP:
        planes += [_umap(name, values, seed) for name, values in spaces.items()]
    columns = [tuple(np.array(each.names)[each.codes[rows]].tolist()) for each in (inputs.batch, inputs.label)]
    return Maps(tuple(inputs.rows[rows].tolist()), columns[0], columns[1], tuple(planes))


def _pca(name: str, values: Array) -> Plane:
    """The two leading principal components; signs make the largest loading positive."""
    centred = values - values.mean(axis=0)
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[np.arange(len(axes[:2])), np.abs(axes[:2]).argmax(axis=1)])[:, None]
    points = np.zeros((len(values), 2))
    points[:, : len(axes)] = centred @ axes.T
    total = float((singular**2).sum())
    return Plane("PCA", name, _rounded(points), float((singular[:2] ** 2).sum() / total) if total > 0 else 0.0)


def _umap(name: str, values: Array, seed: int) -> Plane:
    import umap

    model: Any = umap.UMAP(n_components=2, random_state=seed, n_jobs=1)
    return Plane("UMAP", name, _rounded(np.asarray(model.fit_transform(values), np.float64)), None)


def _rounded(points: Array) -> tuple[tuple[float, float], ...]:
    """Places to four digits of the largest: more cannot be seen."""
    reach = float(np.abs(points).max(initial=0.0)) or 1.0
    step = 10.0 ** (np.floor(np.log10(reach)) - 3)
    return tuple((float(x), float(y)) for x, y in np.round(points / step) * step)


@dataclass(frozen=True)
class Needs:
    """What ICA needs of the data, found without labels.

    Attributes
    ----------
    components : int
        Number of components fitted to all rows.
    non_gaussian : int
        How many of them differ from Gaussian: the others have no axes of their own.
    reproducible : int or None
        How many of them refits find again; None if there were no refits.
    rows : float
        Rows per component.
    """

    components: int
    non_gaussian: int
    reproducible: int | None
    rows: float

    @classmethod
    def of(cls, components: tuple[Component, ...], n: int) -> Needs:
        """From the components of all rows."""
        again = [component.recurs for component in components if component.recurs is not None]
        shaped = sum(not component.gaussian for component in components)
        return cls(len(components), shaped, sum(again) if again else None, n / max(len(components), 1))

    @property
    def met(self) -> bool:
        """Whether at least half of the components differ from Gaussian, and recur where that was tested."""
        known = self.non_gaussian if self.reproducible is None else min(self.non_gaussian, self.reproducible)
        return 2 * known >= self.components

    def __str__(self) -> str:
        verb = "differs" if self.non_gaussian == 1 else "differ"
        told = f"{self.non_gaussian} of {counted(self.components, 'component')} {verb} from Gaussian"
        if self.reproducible is not None:
            told += f", {counted(self.reproducible, 'is', 'are')} reproducible in refits"
        told = f"what ICA needs: {told}; {self.rows:.0f} rows per component."
        if self.met and self.reproducible is None:
            return f"{told} Without refits it is not known how many axes these rows determine."
        return f"{told} These rows determine {'at least' if self.met else 'fewer than'} half of the axes."
