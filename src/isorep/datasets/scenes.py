"""Rendered scenes: factors with ranges, grids, correlated draws, rendering in blocks, Jacobians."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..rows import map_blocks
from ..settings import check_counts
from .images import FactorImages, grid_classes, grid_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Correlation = Mapping[tuple[str, str], float] | Sequence[Sequence[float]] | Array
_SLACK = 0.1  # how far beyond its range, in ranges, a factor may be rendered: differences need room at the ends
_CHANNEL_CELLS = 2**17  # subpixels of a block: its arrays stay in the cache
_JACOBIAN_CELLS = 2**24
_MOST_IMAGES = 2**22


@dataclass(frozen=True)
class Factor:
    """A factor of a scene: its range, the values of its grid, and whether it is periodic or a choice."""

    name: str
    low: float
    high: float
    size: int
    periodic: bool = False
    choice: bool = False

    def grid(self, size: int) -> Array:
        """The values of a grid with ``size`` values; a periodic factor does not repeat its first."""
        if self.choice or size == 1:
            return self.low + np.arange(size, dtype=np.float64)
        return np.linspace(self.low, self.high, size, endpoint=not self.periodic)

    def place(self, share: Array) -> Array:
        """The values that lie at these shares of the range."""
        if self.choice:
            return np.asarray(np.minimum(np.floor(share * self.size), self.size - 1))
        return np.asarray(self.low + share * (self.high - self.low))


class Scene(ABC):
    """A renderer with known factors; subclasses define them, and draw blocks of images."""

    name: str
    size: int
    factors: tuple[Factor, ...]
    channels: int

    @abstractmethod
    def _draw(self, values: Array, dtype: Any) -> Array:
        """Images (rows, size, size, channels) in [0, 1] from checked values, in any order of the rows."""

    def _order(self, values: Array) -> Array:
        """An order in which rows of one kind are consecutive."""
        return np.arange(len(values))

    def _cells(self) -> int:
        """The number of subpixels of an image."""
        return self.size**2

    @property
    def factor_names(self) -> tuple[str, ...]:
        """The names of the factors."""
        return tuple(factor.name for factor in self.factors)

    @property
    def continuous(self) -> tuple[str, ...]:
        """The factors that have derivatives."""
        return tuple(factor.name for factor in self.factors if not factor.choice)

    def render(self, values: Any, *, dtype: Any = np.float32) -> Array:
        """Render images of shape (rows, size, size, channels) in [0, 1] for any factor values, one row per image."""
        kind = np.dtype(dtype)
        if kind not in (np.float32, np.float64):
            raise InputError(f"images are rendered as float32 or float64, not as {kind}")
        return self._blocks(self._checked(values), kind, lambda block: block)

    def plot_factors(self, values: Any, ax: Axes | None = None, *, columns: int = 10, width: str = "double") -> Axes:
        """Draw a sheet of images: each row varies one factor over its grid and keeps the others at ``values``.

        A choice with fewer than ``columns`` values repeats them. ``ax`` is where to draw, by default a new pyplot
        figure of two columns (6.9 inches) or one ("single").
        """
        from ..report.plots import WIDTHS, canvas

        check_counts(columns=(columns, 2, 100))
        base = self._checked(values)
        if len(base) != 1:
            raise InputError(f"values must be one row, the image that the sheet starts from, not {len(base)}")
        moved = np.repeat(base, len(self.factors) * columns, axis=0).reshape(len(self.factors), columns, -1)
        for place, factor in enumerate(self.factors):
            grid = factor.grid(factor.size if factor.choice else columns)
            moved[place, :, place] = np.resize(grid, columns)
        images = self.render(moved.reshape(-1, len(self.factors))).reshape(*moved.shape[:2], self.size, self.size, -1)
        sheet = images.transpose(0, 2, 1, 3, 4).reshape(len(self.factors) * self.size, columns * self.size, -1)
        height = WIDTHS.get(width, 1.0) * len(self.factors) / columns
        ax = canvas(ax, width, height, "plot_factors()")
        ax.imshow(sheet if self.channels == 3 else sheet[..., 0], cmap="gray", vmin=0, vmax=1)
        ax.set_yticks((np.arange(len(self.factors)) + 0.5) * self.size, self.factor_names)
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        return ax

    def _blocks(self, values: Array, dtype: np.dtype[Any], finish: Callable[[Array], Array]) -> Array:
        """Draw blocks of images on all cores, and finish each before it is put in its place."""
        order = self._order(values)
        drawn = np.dtype(np.float32) if dtype == np.uint8 else dtype
        images = np.empty((len(values), self.size, self.size, self.channels), dtype)

        def draw(rows: slice) -> None:
            chosen = order[rows]
            images[chosen] = finish(self._draw(values[chosen], drawn.type))

        map_blocks(draw, len(values), max(1, _CHANNEL_CELLS // self._cells()))
        return images

    def factor_jacobian(self, values: Any, step: float = 0.01) -> Array:
        r"""Derivatives of the pixels by the continuous factors, by central differences, in float64.

        .. math:: J_{pk} \approx \frac{x_p(v + h_k e_k) - x_p(v - h_k e_k)}{2 h_k}

        Parameters
        ----------
        values : array of shape (rows, factors)
            Where to differentiate.
        step : float
            :math:`h_k` as a share of each factor's range. Edges that are not smoothed by antialiasing move in jumps:
            with a small step most of their pixels show none, and a few a large one.

        Returns
        -------
        array of shape (rows, pixels, continuous factors)
            Pixels are those of ``render``, flattened; columns are named by ``continuous``.
        """
        values = self._checked(values)
        if not 0 < step <= _SLACK / 2:
            raise InputError(f"step is {step} and must lie between 0 and {_SLACK / 2} of a factor's range")
        continuous = [index for index, factor in enumerate(self.factors) if not factor.choice]
        pixels = self.size**2 * self.channels
        jacobian = np.empty((len(values), pixels, len(continuous)))
        block = max(1, _JACOBIAN_CELLS // pixels)
        for start in range(0, len(values), block):
            rows = slice(start, start + block)
            for column, index in enumerate(continuous):
                factor = self.factors[index]
                moved = step * (factor.high - factor.low)
                above, below = values[rows].copy(), values[rows].copy()
                above[:, index] += moved
                below[:, index] -= moved
                rise = self.render(above, dtype=np.float64) - self.render(below, dtype=np.float64)
                jacobian[rows, :, column] = rise.reshape(len(above), pixels) / (2 * moved)
        return jacobian

    def grid(self, sizes: Sequence[int] | None = None) -> RenderedImages:
        """All combinations of the grid's values, the last factor varying fastest; rendered on demand."""
        chosen = self._sizes(sizes)
        if math.prod(chosen) > _MOST_IMAGES:
            raise InputError(f"the grid has {math.prod(chosen)} images, too many to list: draw some of them")
        classes = grid_classes(chosen)
        return self._made(chosen, classes, self._values(classes, chosen))

    def draw(
        self,
        n: int,
        seed: int = 0,
        *,
        continuous: bool = True,
        sizes: Sequence[int] | None = None,
        correlation: Correlation | None = None,
    ) -> RenderedImages:
        r"""``n`` images with random factors, uniform over their ranges or, with ``continuous=False``, over the grid.

        ``correlation`` makes factors dependent: a matrix, or a dict of pairs such as ``{("x", "y"): 0.8}``. It is the
        correlation of the values themselves, produced by a Gaussian copula: values are
        :math:`\Phi(z)` of normal variables with correlation :math:`2 \sin(\pi r / 6)`, which gives uniform values
        the correlation r. On a grid, and for choices, it is a little smaller.
        """
        check_counts(n=(n, 1), seed=(seed, 0))
        shares = self._shares(n, seed, correlation)
        if not continuous:
            chosen = self._sizes(sizes)
            classes = np.minimum((shares * chosen).astype(np.int32), np.array(chosen, np.int32) - 1)
            return self._made(chosen, classes, self._values(classes, chosen))
        if sizes is not None:
            raise InputError("sizes are those of a grid: draw with continuous=False")
        values = np.stack([factor.place(shares[:, index]) for index, factor in enumerate(self.factors)], axis=1)
        known = tuple(factor.size if factor.choice else 0 for factor in self.factors)
        return self._made(known, values, values)

    def _shares(self, n: int, seed: int, correlation: Correlation | None) -> Array:
        rng = np.random.default_rng(seed)
        if correlation is None:
            return rng.random((n, len(self.factors)))
        from scipy.special import ndtr

        independent, root = rng.standard_normal((n, len(self.factors))), self._root(correlation)
        mixed = np.zeros_like(independent)
        for index in range(len(self.factors)):  # not a matrix product, whose last digits depend on the machine
            mixed += independent[:, index, None] * root[:, index]
        return np.asarray(ndtr(mixed))

    def _root(self, correlation: Correlation) -> Array:
        """A root of the normal variables' correlation matrix."""
        wanted = np.eye(len(self.factors))
        if isinstance(correlation, Mapping):
            for pair, value in correlation.items():
                if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(value, int | float | np.number):
                    raise InputError(f"a correlation is given as {{('x', 'y'): 0.8}}, not as {{{pair!r}: {value!r}}}")
                first, second = pair
                if first == second or first not in self.factor_names or second not in self.factor_names:
                    raise InputError(f"({first!r}, {second!r}) are not two factors of {', '.join(self.factor_names)}")
                one, other = self.factor_names.index(first), self.factor_names.index(second)
                wanted[one, other] = wanted[other, one] = value
        else:
            wanted = _numbers(correlation, "the correlation")
        if (
            wanted.shape != 2 * (len(self.factors),)
            or not np.isfinite(wanted).all()
            or np.abs(wanted).max() > 1
            or not np.array_equal(wanted, wanted.T)
            or (np.diag(wanted) != 1).any()
        ):
            raise InputError(
                f"the correlation must be a symmetric matrix of {len(self.factors)} rows with ones on its diagonal"
            )
        return _cholesky([[2 * math.sin(math.pi * value / 6) for value in row] for row in wanted.tolist()])

    def _sizes(self, sizes: Sequence[int] | None) -> tuple[int, ...]:
        chosen = grid_sizes(sizes, tuple(factor.size for factor in self.factors))
        for size, factor in zip(chosen, self.factors, strict=True):
            if factor.choice and size > factor.size:
                raise InputError(f"{factor.name} has {factor.size} values, not {size}")
        return chosen

    def _values(self, classes: Array, sizes: tuple[int, ...]) -> Array:
        columns = [
            factor.grid(size)[classes[:, index]]
            for index, (factor, size) in enumerate(zip(self.factors, sizes, strict=True))
        ]
        return np.stack(columns, axis=1)

    def _made(self, sizes: tuple[int, ...], factors: Array, values: Array) -> RenderedImages:
        def read(rows: Array) -> Array:
            return self._blocks(values[rows], np.dtype(np.uint8), quantised)

        shape = (self.size, self.size, self.channels)
        return RenderedImages(self.name, self.factor_names, sizes, factors, values, shape, read, "", self)

    def _checked(self, values: Any) -> Array:
        rows = np.atleast_2d(_numbers(values, "values"))
        if rows.ndim != 2 or rows.shape[1] != len(self.factors) or not np.isfinite(rows).all():
            raise InputError(
                f"values must be finite, one row per image and one column for each of {', '.join(self.factor_names)}"
            )
        for index, factor in enumerate(self.factors):
            column = rows[:, index]
            slack = 0 if factor.choice else _SLACK * (factor.high - factor.low)
            beyond = (column < factor.low - slack) | (column > factor.high + slack)
            if factor.choice and (column != np.rint(column)).any():
                raise InputError(f"{factor.name} is a choice: its values are integers")
            if not factor.periodic and beyond.any():
                raise InputError(
                    f"{factor.name} lies between {factor.low:g} and {factor.high:g}, not at {column[beyond][0]:g}"
                )
        return rows


@dataclass(frozen=True, eq=False, repr=False)
class RenderedImages(FactorImages):
    """Images of a scene, rendered on demand; the same factors give the same pixels.

    ``factor_values`` are the values that were rendered, ``factors`` their classes on the grid, or the values again
    where they were drawn continuously. ``scene`` renders other values.
    """

    scene: Scene = None  # type: ignore[assignment]

    def render(self, values: Any) -> Array:
        """Images in [0, 1], not rounded, for any values of the factors."""
        return self.scene.render(values)

    def factor_jacobian(self, values: Any, step: float = 0.01) -> Array:
        """Derivatives of the pixels by the continuous factors; see the scene's."""
        return self.scene.factor_jacobian(values, step)


def _numbers(given: Any, what: str) -> Array:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be rows of numbers") from None


def _cholesky(matrix: list[list[float]]) -> Array:
    """The lower root of a positive semidefinite matrix, in plain arithmetic: the same digits on every machine."""
    size = len(matrix)
    root = [[0.0] * size for _ in range(size)]
    for row in range(size):
        for column in range(row + 1):
            left = matrix[row][column] - sum(root[row][_] * root[column][_] for _ in range(column))
            if column < row:
                root[row][column] = left / root[column][column] if root[column][column] > 1e-7 else 0.0
                wrong = root[column][column] <= 1e-7 and abs(left) > 1e-6
            else:
                root[row][row] = math.sqrt(max(left, 0.0))
                wrong = left < -1e-9
            if wrong:
                raise InputError("no factors can have this correlation: its matrix is not positive semidefinite")
    return np.array(root)


def quantised(images: Array) -> Array:
    """Images in [0, 1] as uint8, in the place of the images."""
    images *= images.dtype.type(255)
    images += images.dtype.type(0.5)
    return np.asarray(np.clip(images, 0, 255, out=images), np.uint8)


def per_row(function: Any, column: Array) -> Array:
    """A function of ``math`` applied number by number: numpy's own may depend on the position in an array."""
    return np.fromiter(map(function, column.tolist()), np.float64, len(column))


def turn(degrees: Array) -> tuple[Array, Array]:
    """Cosine and sine of angles in degrees, reduced first: a full turn changes no bit."""
    radians = np.remainder(degrees, 360.0) * (math.pi / 180)
    return per_row(math.cos, radians), per_row(math.sin, radians)


def hue_arc(hue: Array) -> Array:
    """Colours on a circle around grey, one turn for hues from 0 to 1: every hue takes two dimensions to describe."""
    angle = 2 * math.pi * np.remainder(hue, 1.0)
    return np.stack([0.5 + 0.42 * per_row(math.cos, angle - 2 * math.pi * channel / 3) for channel in range(3)], axis=1)


def ramp(hue: Array, start: Sequence[float], end: Sequence[float]) -> Array:
    """Colours on a straight line between two: one dimension describes them."""
    return np.asarray(np.asarray(start) + hue[:, None] * (np.asarray(end) - np.asarray(start)))
