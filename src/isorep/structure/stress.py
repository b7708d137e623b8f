"""Stress test of the scores: latents changed in known ways, and the scores that detect each change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dct
from scipy.stats import rankdata

from .._version import __version__
from ..representation import Array
from ..results import Record, aligned
from ..settings import check_choice, check_names, check_seed
from .columns import Pair, as_columns, paired, standardised
from .families import FAMILIES, Task
from .mcc import measure_mcc
from .mutual_information import NEIGHBORS
from .splits import FOLDS, folds_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Change = Callable[[Pair, np.random.Generator], Pair]


@dataclass(frozen=True)
class Perturbation:
    """A change of latents or rows; ``harmless`` ones leave every latent about the same single factor as before."""

    words: str
    harmless: bool
    change: Change


@dataclass(frozen=True, eq=False)
class Stress(Record):
    """The result of :func:`stress`.

    Attributes
    ----------
    baseline : dict of str to float
        Every score of the latents as they are.
    values : dict of str to dict of str to float
        Every score under each perturbation.
    harmless : dict of str to bool
        Which perturbations keep every latent about the same single factor.
    tolerance : float
        A score detects a perturbation that changes it by more.
    """

    baseline: dict[str, float]
    values: dict[str, dict[str, float]]
    harmless: dict[str, bool]
    tolerance: float

    @property
    def notices(self) -> dict[str, dict[str, bool]]:
        """For each perturbation, which scores change by more than the tolerance."""
        return {
            name: {score: abs(value - self.baseline[score]) > self.tolerance for score, value in row.items()}
            for name, row in self.values.items()
        }

    def changes(self) -> tuple[list[str], list[str], Array]:
        """Perturbations, scores, and how far each moves each."""
        rows, columns = list(self.values), list(self.baseline)
        moved = [[self.values[row][column] - self.baseline[column] for column in columns] for row in rows]
        return rows, columns, np.array(moved)

    def table(self) -> str:
        """One line per score: its value, then its change under each perturbation; a dot where it is not detected."""
        rows, columns, moved = self.changes()
        head = ["score", "value", *(f"{name}*" if self.harmless[name] else name for name in rows)]
        lines = [head]
        for score, moves in zip(columns, moved.T, strict=True):
            cells = [f"{move:+.2f}" if abs(move) > self.tolerance else "." for move in moves]
            lines.append([score, f"{self.baseline[score]:.3f}", *cells])
        return aligned(lines) + "\n* changes nothing that matters"

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per score and perturbation: the score before and after, how far it moved, and if that matters."""
        return [
            {
                "score": score,
                "perturbation": name,
                "baseline": self.baseline[score],
                "value": value,
                "change": value - self.baseline[score],
                "harmless": self.harmless[name],
            }
            for name, row in self.values.items()
            for score, value in row.items()
        ]

    def plot_matrix(self, ax: Axes | None = None, *, width: str = "double") -> Axes:
        """How far each perturbation moves each score; those with a star change nothing that matters.

        ``ax`` is where to draw, by default a new pyplot figure of two columns (6.9 inches) or one ("single").
        """
        from ..report.plots import matrix

        rows, columns, moved = self.changes()
        names = [f"{name}*" if self.harmless[name] else name for name in rows]
        return matrix(ax, moved, names, columns, "change of the score", width=width, limits=(-1.0, 1.0))

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a versioned schema."""
        return {"schema": "isorep.stress/1", "isorep": __version__, **super().to_dict()}

    def __str__(self) -> str:
        return self.table()


def stress(
    factors: Any,
    latents: Any,
    *,
    perturbations: Sequence[str] | None = None,
    scores: Sequence[str] | None = None,
    tolerance: float = 0.05,
    discrete_factors: Any = None,
    random_state: int = 0,
) -> Stress:
    """Change the latents in known ways and report which scores detect each change.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows.
    perturbations : sequence of str, optional
        Perturbations, from ``permuted``, ``scaled``, ``warped``, ``rotated``, ``duplicated``, ``noise_latents``,
        ``pruned``, ``noisy``, ``few_rows``, ``correlated`` and ``shuffled``; default: all.
    scores : sequence of str, optional
        Families of scores, as for :func:`isorep.score_factors`; default: all but slots.
    tolerance : float
        A score detects a perturbation that changes it by more.
    discrete_factors
        As for :func:`infomec`.
    random_state : int
        Seed of the perturbations and of the scores.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> s = np.random.default_rng(0).laplace(size=(300, 3))
    >>> found = isorep.structure.stress(s, s, perturbations=["rotated"], scores=["mcc", "linear_r2"])
    >>> found.notices["rotated"]["mcc"], found.notices["rotated"]["linear_r2"]
    (True, False)
    """
    known = [name for name in FAMILIES if name != "slots"]
    names = check_names("perturbations", list(PERTURBATIONS) if perturbations is None else perturbations, PERTURBATIONS)
    families = check_names("scores", known if scores is None else scores, known)
    check_seed(random_state)
    pair = paired(factors, latents, discrete_factors=discrete_factors)
    baseline = _scores(pair, families, random_state)
    values = {}
    for name in names:
        changed = perturb(pair.factors, pair.latents, name, random_state=random_state)
        values[name] = _scores(changed, families, random_state)
    return Stress(baseline, values, {name: PERTURBATIONS[name].harmless for name in names}, float(tolerance))


def perturb(factors: Any, latents: Any, name: str, *, random_state: int = 0) -> Pair:
    """Factors and latents after a named perturbation; see ``PERTURBATIONS`` for what each does."""
    check_choice("perturbation", name, tuple(PERTURBATIONS))
    return PERTURBATIONS[name].change(paired(factors, latents), np.random.default_rng(random_state))


def _scores(pair: Pair, families: Sequence[str], seed: int) -> dict[str, float]:
    task = Task(pair, None, seed, "range/20", NEIGHBORS, "binned", None)
    by_name: dict[str, float] = {}
    for name in families:
        by_name |= FAMILIES[name].measure(task, True).values
    return by_name


def _of_latents(change: Callable[[Array, np.random.Generator], Array]) -> Change:
    """A change of the matrix of latents alone."""

    def changed(pair: Pair, rng: np.random.Generator) -> Pair:
        return Pair(pair.factors, as_columns(change(pair.latents.matrix, rng), "latents"))

    return changed


def _signs(values: Array, rng: np.random.Generator) -> Array:
    return np.asarray(rng.choice([-1.0, 1.0], values.shape[1]))


def _noise(values: Array, rng: np.random.Generator) -> Array:
    return np.asarray(values.std(axis=0) * rng.normal(size=values.shape))


def _permuted(values: Array, rng: np.random.Generator) -> Array:
    return np.asarray(np.roll(values, 1, axis=1) * _signs(values, rng))


def _scaled(values: Array, rng: np.random.Generator) -> Array:
    return np.asarray(values * rng.permutation(np.geomspace(0.25, 4.0, values.shape[1])))


def _warped(values: Array, rng: np.random.Generator) -> Array:
    return np.exp(1.5 * np.clip(standardised(values), -20, 20))


def _rotated(values: Array, rng: np.random.Generator) -> Array:
    """Rotated by a cosine transform, whose entries all have about one size: a random rotation may be mild."""
    return np.asarray(standardised(values) @ (dct(np.eye(values.shape[1]), norm="ortho") * _signs(values, rng)))


def _duplicated(values: Array, rng: np.random.Generator) -> Array:
    return np.hstack([values, values + 0.01 * _noise(values, rng)])


def _with_noise_latents(values: Array, rng: np.random.Generator) -> Array:
    return np.hstack([values, _noise(values, rng)])


def _noisy(values: Array, rng: np.random.Generator) -> Array:
    return np.asarray(values + 0.5 * _noise(values, rng))


def _pruned(pair: Pair, rng: np.random.Generator) -> Pair:
    """Without the latent that goes with the first factor; a lone latent becomes noise."""
    values, names = pair.latents.matrix, pair.latents.names
    if len(names) == 1:
        return Pair(pair.factors, as_columns(rng.normal(size=values.shape), "latents"))
    fold_of = folds_of(pair.n, FOLDS, None, np.random.default_rng(0))
    matched = next(filter(None, measure_mcc(pair, fold_of).matches.values()), names[0])
    return Pair(pair.factors, as_columns(np.delete(values, names.index(matched), axis=1), "latents"))


def _few_rows(pair: Pair, rng: np.random.Generator) -> Pair:
    return pair.take(np.sort(rng.choice(pair.n, min(pair.n, max(20, pair.n // 10)), replace=False)))


def _correlated(pair: Pair, rng: np.random.Generator) -> Pair:
    """Keep rows whose first two factors have about the same rank."""
    if len(pair.factors) < 2:
        return pair
    first, second = (rankdata(pair.factors[index].values) / pair.n for index in (0, 1))
    kept = rng.random(pair.n) < np.exp(-12 * (first - second) ** 2)
    return pair.take(np.flatnonzero(kept)) if kept.sum() >= 20 else pair


def _shuffled(pair: Pair, rng: np.random.Generator) -> Pair:
    return Pair(pair.factors.take(rng.permutation(pair.n)), pair.latents)


PERTURBATIONS: dict[str, Perturbation] = {
    "permuted": Perturbation("latents in another order, some with the other sign", True, _of_latents(_permuted)),
    "scaled": Perturbation("latents multiplied by numbers from 1/4 to 4", True, _of_latents(_scaled)),
    "warped": Perturbation("every latent bent by a steep monotone curve", True, _of_latents(_warped)),
    "few_rows": Perturbation("a tenth of the rows", True, _few_rows),
    "correlated": Perturbation("rows chosen so that the first two factors are correlated", True, _correlated),
    "rotated": Perturbation("latents rotated so that each mixes all", False, _of_latents(_rotated)),
    "duplicated": Perturbation("every latent twice", False, _of_latents(_duplicated)),
    "noise_latents": Perturbation("as many noise latents added", False, _of_latents(_with_noise_latents)),
    "pruned": Perturbation("without the latent of the first factor", False, _pruned),
    "noisy": Perturbation("noise of half a standard deviation on every latent", False, _of_latents(_noisy)),
    "shuffled": Perturbation("rows shuffled: latents are uninformative", False, _shuffled),
}
"""The perturbations of :func:`stress`."""
