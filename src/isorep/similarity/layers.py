"""Layer by layer: a matrix of one index, corrected for having looked at all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._version import __version__
from ..errors import InputError
from ..representation import Array, Representation, as_representation, match_rows
from ..results import Written, aligned
from ..rows import Progress, no_progress
from .kernels import prepare_cka
from .nulls import Prepared, checked_permutations, p_value, shuffled
from .result import corrected
from .sides import Pair, Side
from .table import INDICES

SCHEMA = "isorep.layers/1"


@dataclass(frozen=True, eq=False)
class BestLayer:
    """The closest target layer of one source layer, judged against the closest one of shuffled pairings."""

    source: str
    target: str
    value: float
    chance: float
    corrected: float
    p_value: float


@dataclass(frozen=True, eq=False)
class LayerMatrix(Written):
    """One index between all layers of two models.

    Attributes
    ----------
    values, chance, corrected, p_values : (a, b) arrays
        Source layers by target layers. ``corrected`` runs from chance (0) to a perfect match (1).
    adjusted_p_values : (a, b) array
        Corrected for having looked at all cells: the share of pairings whose closest cell, in standard deviations of
        its own null, is as close as this one.
    best : list of BestLayer
        For each source layer its closest target layer. Chance, corrected value and p-value are those of the *closest*
        of all target layers, so that taking the maximum gains nothing.
    overall : BestLayer
        The closest cell of all.
    """

    index: str
    higher_is_closer: bool
    source_layers: tuple[str, ...]
    target_layers: tuple[str, ...]
    values: Array
    chance: Array
    corrected: Array
    p_values: Array
    adjusted_p_values: Array
    best: tuple[BestLayer, ...]
    overall: BestLayer
    settings: dict[str, Any]
    exact: bool
    caveats: tuple[str, ...] = ()

    def table(self) -> str:
        """The best match of every source layer."""
        head = ("layer", "closest", self.index, "chance of the closest", "corrected", "p")
        lines = [
            head,
            *(
                (b.source, b.target, f"{b.value:.4f}", f"{b.chance:.4f}", f"{b.corrected:.4f}", f"{b.p_value:.3g}")
                for b in self.best
            ),
        ]
        return aligned(lines, left=(0, 1))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return {
            "schema": SCHEMA,
            "isorep": __version__,
            "index": self.index,
            "higher_is_closer": self.higher_is_closer,
            "source_layers": list(self.source_layers),
            "target_layers": list(self.target_layers),
            "values": self.values.tolist(),
            "chance": self.chance.tolist(),
            "corrected": self.corrected.tolist(),
            "p_values": self.p_values.tolist(),
            "adjusted_p_values": self.adjusted_p_values.tolist(),
            "best": [vars(each) for each in self.best],
            "overall": vars(self.overall),
            "exact": self.exact,
            "settings": self.settings,
            "reading": self.reading,
            "caveats": list(self.caveats),
        }

    @property
    def reading(self) -> str:
        """One sentence on the closest cell and on how many cells stand out."""
        best, cells = self.overall, self.values.size
        if not np.isfinite(best.p_value):
            return (
                f"The closest layers are {best.source} and {best.target} ({self.index} {best.value:.4f}); no null was "
                "drawn, so chance cannot be ruled out."
            )
        found = int((self.adjusted_p_values <= 0.05).sum())
        return (
            f"The closest layers are {best.source} and {best.target}: {self.index} {best.value:.4f}, "
            f"{best.corrected:.2f} on a scale from the closest of shuffled pairings (0) to a perfect match (1). "
            f"{found} of {cells} cells are closer than chance after correction for looking at all of them."
        )

    def __str__(self) -> str:
        return "\n".join([self.table(), "", self.reading, *(f"note: {caveat}" for caveat in self.caveats)])


def layers(
    X: Any,
    Y: Any,
    *,
    index: str = "cka_debiased",
    permutations: int = 200,
    groups: Any = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> LayerMatrix:
    """One index between every layer of one model and every layer of another.

    The same shuffled pairings serve all cells, so the largest of them under chance is known, and what was picked as the
    closest is judged against the closest that chance picks.

    Parameters
    ----------
    X, Y : sequences or mappings of (n, d) arrays or Representations
        The layers; all with the same paired rows. Names come from the mapping or the representations.
    index : str
        As for :func:`indices`.
    permutations, groups, random_state, progress
        As for :func:`indices`.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> A = {"early": rng.normal(size=(200, 5)), "late": rng.normal(size=(200, 5))}
    >>> found = isorep.similarity.layers(A, {"one": 2 * A["late"]}, permutations=50)
    >>> found.overall.source, round(found.overall.corrected, 6)
    ('late', 1.0)
    """
    report = progress or no_progress
    given = [_named(each, name) for each, name in ((X, "X"), (Y, "Y"))]
    first, *others = [each for named in given for each in named.values()]
    for other in others:
        match_rows(first, other)
    n = len(first)
    if n < 3:
        raise InputError(f"the layers have {n} rows: at least 3 are needed")
    sides = [[Side(each.values, name, n) for name, each in named.items()] for named in given]
    labels = checked_permutations(permutations, groups, n, random_state)
    if index not in INDICES:
        raise InputError(f"index is {index!r}: choose from {', '.join(INDICES)}")
    prepared: list[Prepared] = []
    of = len(sides[0]) * len(sides[1])
    for a in sides[0]:
        for b in sides[1]:
            prepared.append(_prepare(index, Pair(a, b)))
            report("layers", len(prepared), of)
    shape = (len(sides[0]), len(sides[1]))
    draws = np.empty((of, 0))
    if permutations:
        draws = shuffled(
            prepared, n, permutations, labels, random_state, lambda done, of: report("permutations", done, of)
        )
    return _matrix(
        index,
        prepared,
        draws.reshape(*shape, -1),
        tuple(tuple(side.name for side in each) for each in sides),
        {
            "permutations": int(permutations),
            "groups": None if labels is None else int(labels.max()) + 1,
            "random_state": int(random_state),
            "rows": n,
        },
        uniform=labels is None,
    )


def _prepare(index: str, pair: Pair) -> Prepared:
    """With many cells a permutation, linear kernels are sketched: what is shared there is the sketch of a side."""
    if index in ("cka", "cka_debiased"):
        return prepare_cka(pair, debiased=index == "cka_debiased")
    return INDICES[index](pair)


def _named(given: Any, which: str) -> dict[str, Representation]:
    """Layers by name."""
    if isinstance(given, Mapping) and given:
        return {str(name): as_representation(values, str(name)) for name, values in given.items()}
    if not (isinstance(given, Sequence) and not isinstance(given, str) and len(given)):
        raise InputError(f"{which} holds no layers: pass a list or a mapping of arrays with the same rows")
    layers = [as_representation(values, f"{which} {place}") for place, values in enumerate(given)]
    names = [each.name or "" for each in layers]
    unique = len(set(names)) == len(names)
    return {
        name if unique else f"{place}: {name}": each
        for place, (name, each) in enumerate(zip(names, layers, strict=True))
    }


def _matrix(
    index: str,
    prepared: list[Prepared],
    draws: Array,
    names: tuple[tuple[str, ...], ...],
    settings: dict[str, Any],
    *,
    uniform: bool,
) -> LayerMatrix:
    first = prepared[0]
    values = np.array([each.value for each in prepared]).reshape(draws.shape[:2])
    sign = 1.0 if first.higher_is_closer else -1.0
    with_null = draws.shape[2] > 0
    missing = np.full(values.shape, np.nan)
    chance = draws.mean(axis=2) if with_null else missing
    gain = np.vectorize(corrected)(values, chance, first.best) if with_null else missing
    single, adjusted = missing, missing
    if with_null:
        single = np.array(
            [
                [p_value(v, d, first.higher_is_closer) for v, d in zip(*row, strict=True)]
                for row in zip(values, draws, strict=True)
            ]
        )
        spread = np.maximum(draws.std(axis=2), 1e-300)
        height = sign * (draws - chance[:, :, None]) / spread[:, :, None]
        tops = height.reshape(-1, draws.shape[2]).max(axis=0)
        seen = sign * (values - chance) / spread
        adjusted = (1 + (tops >= seen[:, :, None] - 1e-9).sum(axis=2)) / (1 + draws.shape[2])
    best = tuple(
        _best(values[row : row + 1], draws[row : row + 1], (names[0][row : row + 1], names[1]), first)
        for row in range(len(values))
    )
    caveats = tuple(dict.fromkeys(caveat for each in prepared for caveat in each.caveats))
    return LayerMatrix(
        index,
        first.higher_is_closer,
        names[0],
        names[1],
        values,
        chance,
        gain,
        single,
        adjusted,
        best,
        _best(values, draws, (names[0], names[1]), first),
        settings,
        all(each.source(uniform).exact for each in prepared) if with_null else True,
        caveats,
    )


def _best(values: Array, draws: Array, names: tuple[tuple[str, ...], tuple[str, ...]], like: Prepared) -> BestLayer:
    """The closest cell, beside the closest cells of every shuffled pairing."""
    sign = 1.0 if like.higher_is_closer else -1.0
    row, column = np.unravel_index(int(np.argmax(sign * values)), values.shape)
    value = float(values[row, column])
    if not draws.shape[2]:
        return BestLayer(names[0][row], names[1][column], value, float("nan"), float("nan"), float("nan"))
    closest = sign * (sign * draws).reshape(-1, draws.shape[2]).max(axis=0)
    chance = float(closest.mean())
    return BestLayer(
        names[0][row],
        names[1][column],
        value,
        chance,
        corrected(value, chance, like.best),
        p_value(value, closest, like.higher_is_closer),
    )
