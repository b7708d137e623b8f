"""A stress test of the scores themselves: the same latents, changed in known ways, and which score notices what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.fft import dct
from scipy.stats import rankdata

from .._version import __version__
from ..errors import InputError
from ..representation import Array
from ..results import Record, aligned
from ..settings import check_seed
from .columns import Columns, Pair, as_columns, paired
from .families import FAMILIES, Task
from .mcc import measure_mcc
from .mutual_information import NEIGHBORS

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
        Which perturbations change nothing that matters.
    tolerance : float
        A score notices a perturbation that moves it by more.
    """

    baseline: dict[str, float]
    values: dict[str, dict[str, float]]
    harmless: dict[str, bool]
    tolerance: float

    @property
    def notices(self) -> dict[str, dict[str, bool]]:
        """For each perturbation, which scores move by more than the tolerance."""
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
        """One line a score: its value, then how far each perturbation moves it; a dot where it does not notice."""
        rows, columns, moved = self.changes()
        head = ["score", "value", *(f"{name}*" if self.harmless[name] else name for name in rows)]
        lines = [
            [score, f"{self.baseline[score]:.3f}", *(_cell(moved[i, j], self.tolerance) for i in range(len(rows)))]
            for j, score in enumerate(columns)
        ]
        return aligned([head, *lines]) + "\n* changes nothing that matters"

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
    """Change the latents in known ways and see which score notices what.

    Parameters
    ----------
    factors, latents : arrays, data frames, mappings of columns, Representations or paths
        The same rows.
    perturbations : sequence of str, optional
        Which of ``permuted``, ``scaled``, ``warped``, ``rotated``, ``duplicated``, ``noise_latents``, ``pruned``,
        ``noisy``, ``few_rows``, ``correlated`` and ``shuffled``; by default all.
    scores : sequence of str, optional
        Families of scores, as for :func:`isorep.score_factors`; by default all but slots.
    tolerance : float
        A score notices what moves it by more.
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
    names = _known(perturbations, PERTURBATIONS, "perturbations")
    families = _known(scores, {name: each for name, each in FAMILIES.items() if name != "slots"}, "scores")
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
    if name not in PERTURBATIONS:
        raise InputError(f"perturbation {name!r} is not known; choose from {', '.join(PERTURBATIONS)}")
    return PERTURBATIONS[name].change(paired(factors, latents), np.random.default_rng(random_state))


def _known(given: Sequence[str] | None, known: dict[str, Any], what: str) -> list[str]:
    if given is None:
        return list(known)
    wanted = [given] if isinstance(given, str) else list(given)
    unknown = [str(name) for name in wanted if name not in known]
    if unknown or not wanted:
        raise InputError(f"{what} {', '.join(unknown) or 'is empty'}: choose from {', '.join(known)}")
    return wanted


def _scores(pair: Pair, families: Sequence[str], seed: int) -> dict[str, float]:
    task = Task(pair, None, seed, "range/20", NEIGHBORS, "binned", None)
    found: dict[str, float] = {}
    for name in families:
        found |= FAMILIES[name].measure(task, True).values
    return found


def _cell(moved: float, tolerance: float) -> str:
    return f"{moved:+.2f}" if abs(moved) > tolerance else "."


def _with(pair: Pair, latents: Array) -> Pair:
    return Pair(pair.factors, as_columns(latents, "latents"))


def _standard(latents: Columns) -> Array:
    values = latents.matrix
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _permuted(pair: Pair, rng: np.random.Generator) -> Pair:
    values = pair.latents.matrix
    order = np.roll(np.arange(values.shape[1]), 1)
    return _with(pair, values[:, order] * rng.choice([-1.0, 1.0], values.shape[1]))


def _scaled(pair: Pair, rng: np.random.Generator) -> Pair:
    values = pair.latents.matrix
    return _with(pair, values * rng.permutation(np.geomspace(0.25, 4.0, values.shape[1])))


def _warped(pair: Pair, rng: np.random.Generator) -> Pair:
    return _with(pair, np.exp(1.5 * np.clip(_standard(pair.latents), -20, 20)))


def _rotated(pair: Pair, rng: np.random.Generator) -> Pair:
    """By a cosine transform, whose entries are all of about one size: a random rotation may be a mild one."""
    values = _standard(pair.latents)
    width = values.shape[1]
    return _with(pair, values @ (dct(np.eye(width), norm="ortho") * rng.choice([-1.0, 1.0], width)))


def _duplicated(pair: Pair, rng: np.random.Generator) -> Pair:
    values = pair.latents.matrix
    return _with(pair, np.hstack([values, values + 0.01 * values.std(axis=0) * rng.normal(size=values.shape)]))


def _noise_latents(pair: Pair, rng: np.random.Generator) -> Pair:
    values = pair.latents.matrix
    return _with(pair, np.hstack([values, values.std(axis=0) * rng.normal(size=values.shape)]))


def _pruned(pair: Pair, rng: np.random.Generator) -> Pair:
    """Without the latent that goes with the first factor; a lone latent becomes noise."""
    values = pair.latents.matrix
    if values.shape[1] == 1:
        return _with(pair, rng.normal(size=values.shape))
    matched = next(filter(None, measure_mcc(pair).matches.values()), pair.latents.names[0])
    return _with(pair, np.delete(values, pair.latents.names.index(matched), axis=1))


def _noisy(pair: Pair, rng: np.random.Generator) -> Pair:
    values = pair.latents.matrix
    return _with(pair, values + 0.5 * values.std(axis=0) * rng.normal(size=values.shape))


def _few_rows(pair: Pair, rng: np.random.Generator) -> Pair:
    return pair.take(np.sort(rng.choice(pair.n, min(pair.n, max(20, pair.n // 10)), replace=False)))


def _correlated(pair: Pair, rng: np.random.Generator) -> Pair:
    """Keep rows whose first two factors stand at about the same place in their order."""
    if len(pair.factors) < 2:
        return pair
    first, second = (rankdata(pair.factors[place].values) / pair.n for place in (0, 1))
    kept = rng.random(pair.n) < np.exp(-12 * (first - second) ** 2)
    return pair.take(np.flatnonzero(kept)) if kept.sum() >= 20 else pair


def _shuffled(pair: Pair, rng: np.random.Generator) -> Pair:
    return pair.shuffled(rng.permutation(pair.n))


PERTURBATIONS: dict[str, Perturbation] = {
    "permuted": Perturbation("latents in another order, some with the other sign", True, _permuted),
    "scaled": Perturbation("latents multiplied by numbers from 1/4 to 4", True, _scaled),
    "warped": Perturbation("every latent bent by a steep monotone curve", True, _warped),
    "few_rows": Perturbation("a tenth of the rows", True, _few_rows),
    "correlated": Perturbation("rows chosen so that the first two factors go together", True, _correlated),
    "rotated": Perturbation("latents turned so that each mixes all", False, _rotated),
    "duplicated": Perturbation("every latent twice", False, _duplicated),
    "noise_latents": Perturbation("as many latents of noise besides", False, _noise_latents),
    "pruned": Perturbation("without the latent of the first factor", False, _pruned),
    "noisy": Perturbation("noise of half a standard deviation on every latent", False, _noisy),
    "shuffled": Perturbation("rows shuffled: latents know nothing", False, _shuffled),
}
"""What :func:`stress` can do to latents and rows."""
