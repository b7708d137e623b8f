"""Maps from latents or factors to data: their Jacobians' singular values, exact or estimated from neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from ..errors import InputError
from ..representation import Array
from ..rows import blocks
from .jacobian import jacobian
from .prepare import Latents, prepared

_CELLS = 2**22  # numbers in a block of Jacobians
_THIN = 1e-6  # of the widest direction of a neighbourhood: thinner ones give no derivative
_LOST = 1e-10  # of the largest singular value


@dataclass(frozen=True, eq=False)
class Map:
    """A map from rows of latents or factors to data.

    ``jacobians`` gives those at some rows, ``outputs`` the data at these rows; ``observed`` replaces them if there is
    neither. ``continuous`` names the columns that have derivatives, with the names of all; ``shape`` is that of an
    output, with the channels of a scene's images first.
    """

    name: str
    how: str
    width: int
    jacobians: Callable[[Array], Array] | None = None
    outputs: Callable[[Array], Array] = lambda rows: rows
    decodes: bool = False
    observed: Array | None = None
    kinks: tuple[str, ...] | None = None
    names: tuple[str, ...] = ()
    continuous: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    eps: float = float(np.finfo(np.float64).eps)

    @property
    def estimated(self) -> str:
        """How the constants are estimated, if they are."""
        return "" if self.observed is None else self.how

    def columns(self, values: Array) -> tuple[list[int], tuple[str, ...]]:
        """The columns to keep, and the names of those that vary and have no derivative."""
        if not self.names:
            return list(range(values.shape[1])), ()
        kept = [place for place, name in enumerate(self.names) if name in self.continuous]
        choices = [place for place in range(len(self.names)) if place not in kept]
        kept = [place for place in kept if np.ptp(values[:, place]) > 0]
        return kept, tuple(self.names[place] for place in choices if np.ptp(values[:, place]) > 0)

    def scaled_jacobians(self, rows: Array, scale: Array | None) -> Array:
        """Jacobians at some rows, with columns in units of ``scale``."""
        assert self.jacobians is not None
        block = np.asarray(self.jacobians(rows), dtype=np.float64)
        if not np.isfinite(block).all():
            raise InputError(f"the {self.name}'s Jacobians hold values that are not finite")
        return block if scale is None else block * scale

    def extremes(self, rows: Array, values: Array, scale: Array | None) -> tuple[Array, Array]:
        """The least and the largest singular value at some rows, with columns in units of ``scale``."""
        if self.observed is not None:
            return neighbour_extremes(values, self.observed, rows)
        parts = [_ends(self.scaled_jacobians(rows[part], scale)) for part in self.parts(len(rows), values.shape[1])]
        return _joined(parts)

    def parts(self, n: int, inputs: int) -> list[slice]:
        """Blocks of rows whose Jacobians are held at once."""
        return list(blocks(n, max(1, _CELLS // (self.width * inputs))))


def joint_extremes(
    decoder: Map, process: Map, rows: Array, scale: Array, *, channels_last: bool = False
) -> tuple[tuple[Array, Array], tuple[Array, Array], tuple[Array, Array] | None]:
    r"""Extreme singular values of decoder, process and the stitching map :math:`g^{-1}\circ g_\theta` at some rows.

    Where the reconstruction is perfect the tangent spaces of both images agree, and the chain rule gives
    :math:`J_g(u_i)^+J_\theta(z_i)`. None for it where shapes do not fit, or the process loses directions.
    """
    first, second, between = [], [], []
    for part in decoder.parts(len(rows), 2 * len(scale)):
        decoded, made = decoder.scaled_jacobians(rows[part], None), process.scaled_jacobians(rows[part], scale)
        first.append(_ends(decoded))
        second.append(_ends(made))
        if channels_last:
            made = channels_moved(made, process.shape, 0, -1)
        if made.shape == decoded.shape and (second[-1][0] > 0).all():
            between.append(_ends(np.linalg.pinv(made) @ decoded))
    return _joined(first), _joined(second), _joined(between) if len(between) == len(first) else None


def _joined(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    low, high = zip(*parts, strict=True)
    return np.concatenate(low), np.concatenate(high)


def _ends(block: Array) -> tuple[Array, Array]:
    """The least and the largest singular value of every matrix; the least is 0 where it is below rounding."""
    singular = np.linalg.svd(block, compute_uv=False)
    full = block.shape[1] >= block.shape[2]
    return np.where(singular[:, -1] > _LOST * singular[:, 0], singular[:, -1], 0.0) * full, singular[:, 0]


def open_map(given: Any, rows: Latents, data: Array | None, name: str) -> Map:
    """A map from a scene, an object with ``jacobian``, a torch function, Jacobians, or neighbours in the data."""
    if given is None:
        if data is None:
            raise InputError(f"without a {name} its constants are estimated from neighbours: pass observations=")
        least = 2 * (neighbours_of(rows.d) + 1)
        if rows.n < least:
            raise InputError(f"there are {rows.n} rows, and {least} are needed to estimate the {name} from neighbours")
        how = f"estimated from {neighbours_of(rows.d)} neighbours of each row, in place of Jacobians"
        return Map(name, how, data.shape[1], observed=data)
    if hasattr(given, "factor_jacobian"):
        return _scene(given, rows, name)
    if isinstance(given, np.ndarray) or (hasattr(given, "shape") and len(given.shape) == 3):
        return _array(np.asarray(given), rows, name)
    values = np.asarray(rows.rows(slice(None)), dtype=np.float64)
    if callable(getattr(given, "jacobian", None)) and callable(given):
        width = int(np.asarray(given(values[:1])).reshape(1, -1).shape[1])
        return Map(
            name,
            "from its own Jacobians",
            width,
            lambda places: given.jacobian(values[places]),
            lambda places: np.asarray(given(values[places]), dtype=np.float64).reshape(len(places), -1),
            decodes=True,
        )
    if not callable(given):
        raise InputError(f"the {name} is a {type(given).__name__}: pass a scene, a function of a batch, or Jacobians")
    return _torch(given, rows, name)


def _scene(given: Any, rows: Latents, name: str) -> Map:
    scene, values = getattr(given, "scene", given), np.asarray(rows.rows(slice(None)), dtype=np.float64)
    names, continuous = tuple(scene.factor_names), tuple(scene.continuous)
    if rows.d != len(names):
        raise InputError(f"the scene has the factors {', '.join(names)}, and there are {rows.d} columns")
    channels, edges = int(scene.channels), (int(scene.size), int(scene.size))
    moving = [place for place, each in enumerate(continuous) if np.ptp(values[:, names.index(each)]) > 0]
    return Map(
        name,
        "from differences of rendered images",
        channels * edges[0] ** 2,
        lambda places: channels_moved(scene.factor_jacobian(values[places])[:, :, moving], (*edges, channels), -1, 0),
        lambda places: channels_moved(
            scene.render(values[places], dtype=np.float64).reshape(len(places), -1), (*edges, channels), -1, 0
        ),
        decodes=True,
        names=names,
        continuous=continuous,
        shape=(channels, *edges),
    )


def channels_moved(block: Array, shape: tuple[int, ...], before: int, after: int) -> Array:
    """Flat images (n, outputs), or their Jacobians (n, outputs, d), with the channels in another place."""
    n, _, *rest = block.shape
    axes = [1 + axis % len(shape) for axis in (before, after)]
    return np.moveaxis(block.reshape(n, *shape, *rest), *axes).reshape(block.shape)


def _array(given: Array, rows: Latents, name: str) -> Map:
    if given.ndim != 3 or len(given) != rows.n or given.shape[2] != rows.d or given.dtype.kind not in "fiu":
        raise InputError(
            f"Jacobians of the {name} have shape {given.shape}: ({rows.n}, outputs, {rows.d}) is needed, one per row"
        )
    return Map(name, "from the Jacobians that were given", given.shape[1], lambda places: given[places])


def _torch(given: Any, rows: Latents, name: str) -> Map:
    try:
        with prepared(given, rows.rows(slice(0, 2)), rows.row_shape, None, rows.double) as ready:
            width, kinks, shape = ready.outputs, ready.kinks, ready.output_shape
            eps = float(np.finfo(str(ready.dtype).removeprefix("torch.")).eps)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error

    def outputs(places: Array) -> Array:
        with prepared(given, rows.rows(slice(0, 2)), rows.row_shape, None, rows.double) as ready:
            made = ready.function(ready.tensor(rows.rows(places)))
            return np.asarray(made.cpu().numpy(), dtype=np.float64)

    return Map(
        name,
        "from its Jacobians",
        width,
        lambda places: jacobian(given, rows.chosen(places)),
        outputs,
        decodes=True,
        kinks=kinks,
        shape=shape,
        eps=eps,
    )


def neighbours_of(dimension: int) -> int:
    """Neighbours that a derivative is fitted to: three for each direction, and two more."""
    return 3 * dimension + 2


def neighbour_extremes(values: Array, outputs: Array, rows: Array) -> tuple[Array, Array]:
    r"""Extreme singular values of a map at some rows, from an affine fit to the row and its nearest neighbours.

    With :math:`U` and :math:`X` the centred inputs and outputs of a neighbourhood the fitted Jacobian is
    :math:`J=(U^+X)^\top`, so that :math:`J^\top J=U^+XX^\top U^{+\top}` needs inner products of outputs alone. For an
    affine map it is exact. Neighbourhoods that are flat in some direction are left out.
    """
    count = neighbours_of(values.shape[1])
    index = NearestNeighbors(n_neighbors=min(count + 1, len(values))).fit(values)
    near = index.kneighbors(values[rows], return_distance=False)
    low, high = [], []
    for place in near:
        inputs, made = values[place] - values[place].mean(axis=0), outputs[place] - outputs[place].mean(axis=0)
        spread = np.linalg.svd(inputs, compute_uv=False)
        if spread[-1] <= _THIN * spread[0]:
            continue
        inverse = np.linalg.pinv(inputs)
        squares = np.linalg.eigvalsh(inverse @ (made @ made.T) @ inverse.T)
        high.append(np.sqrt(max(squares[-1], 0.0)))
        low.append(np.sqrt(squares[0]) if squares[0] > _THIN**2 * squares[-1] else 0.0)
    if not low:
        raise InputError("no row has neighbours in all directions, so that no derivative can be estimated")
    return np.asarray(low), np.asarray(high)
