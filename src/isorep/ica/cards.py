"""Component cards: loadings on named features, extreme rows, associations, histogram and stability of each component.

The loading of a component on a feature is their correlation over rows. A card also reads the highest and the lowest
rows of the component against every column that describes the rows; see :mod:`.associations`.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import stats

from ..annotated import is_annotated
from ..chunked import ChunkedRows, is_dask
from ..errors import InputError
from ..files import write_text
from ..representation import Array, Matrix, Representation
from ..results import Record, cut_inside, data_frame, wrapped
from ..rows import block_rows, blocks, read_rows
from ..settings import check_counts
from .associations import Association, Extreme, associations_of, ends_of, extremes, row_columns
from .estimator import ICA
from .whitening import open_rows

if TYPE_CHECKING:
    import pandas

STRONGEST = 10
"""Loadings that a card lists."""
ENDS = 40
"""Rows at each end that are read against columns; a tenth of all rows where these are fewer."""
EXAMPLES = 5
MOST_TOLD, MOST_LOADINGS = 5, 2
"""Components in the text, and their loadings."""
MOST_CELLS = 2**25  # sources that are held; of more rows some are drawn
_BINS = 30
_TAIL = 0.002  # share of rows beyond each limit of a histogram
_DIRECTIONS = 200
_LEVEL = 0.95


@dataclass(frozen=True)
class Loading:
    """The correlation of a component with a feature."""

    feature: str
    r: float


@dataclass(frozen=True)
class Group:
    """A group of features: its share of the squared loadings, and of the features."""

    name: str
    share: float
    of_features: float


@dataclass(frozen=True)
class Example:
    """A row at one end of a component."""

    row: int
    id: str | None
    value: float


@dataclass(frozen=True)
class Bins:
    """Histogram of a component: counts between two limits, and the rows beyond them."""

    low: float
    high: float
    counts: tuple[int, ...]
    below: int
    above: int


@dataclass(frozen=True)
class Card(Record):
    """What is known of one component.

    Attributes
    ----------
    number : int
    loadings : tuple of Loading
        The strongest correlations with features.
    groups : dict of str to tuple of Group
        For CellProfiler's names: squared loadings by compartment, measurement and channel.
    associations : tuple of Association
        With every column that describes the rows.
    extremes : tuple of Extreme
        The highest and the lowest rows read against every column.
    highest, lowest : tuple of Example
        The outermost rows.
    bins : Bins
    skewness, kurtosis : float
        Kurtosis is in excess of a Gaussian's.
    gaussian : bool or None
        Whether it is indistinguishable from Gaussian, so that it need not be reproducible; None where not tested.
    score : float or None
        Median absolute correlation with its match over refits.
    comes_back : bool or None
        Whether it is reproducible: that correlation exceeds 0.9 in at least nine of ten refits.
    """

    derived: ClassVar[tuple[str, ...]] = ("findings",)
    number: int
    loadings: tuple[Loading, ...]
    groups: dict[str, tuple[Group, ...]]
    associations: tuple[Association, ...]
    extremes: tuple[Extreme, ...]
    highest: tuple[Example, ...]
    lowest: tuple[Example, ...]
    bins: Bins
    skewness: float
    kurtosis: float
    gaussian: bool | None
    score: float | None
    comes_back: bool | None

    @property
    def name(self) -> str:
        """The name of the component."""
        return f"ica{self.number}"

    @property
    def findings(self) -> tuple[str, ...]:
        """What survives correction about its extreme rows, in words, the smallest p-value first."""
        said = sorted((each for each in self.extremes if each.said), key=lambda each: each.p)
        return tuple(each.sentence for each in said)

    def association(self, column: str) -> Association:
        """The association with one column."""
        for each in self.associations:
            if each.column == column:
                return each
        known = ", ".join(each.column for each in self.associations) or "none"
        raise InputError(f"{self.name} was not read against a column {column!r}; there are {known}")


@dataclass(frozen=True, eq=False)
class Cards(Record):
    """The cards of all components.

    Attributes
    ----------
    items : tuple of Card
    rows, of_rows : int
        Rows that were read, of all.
    ends : int
        Rows at each end that were read against columns.
    features : int
        Number of features.
    named : bool
        Whether features have names; otherwise they are called by their number.
    chance : float or None
        Largest absolute correlation with a feature that a variable unrelated to them has with probability 95%.
    random : float or None
        The same of a random direction in the span of the components.
    columns : tuple of str
        Columns that rows were read against.
    skipped : dict of str to str
        Columns that were not, and why.
    tests : int
        Number of tests of extreme rows that p-values are corrected for.
    """

    unwritten: ClassVar[frozenset[str]] = frozenset({"loadings", "feature_names"})
    items: tuple[Card, ...]
    rows: int
    of_rows: int
    ends: int
    features: int
    named: bool
    chance: float | None
    random: float | None
    columns: tuple[str, ...]
    skipped: dict[str, str]
    tests: int
    loadings: Array | None = field(default=None, repr=False)
    feature_names: tuple[str, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Card]:
        return iter(self.items)

    def __getitem__(self, number: int) -> Card:
        return self.items[number]

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per component: strongest loading, stability, shape, R² of every column, and findings."""
        rows = []
        for card in self:
            strongest = card.loadings[0] if card.loadings else None
            row: dict[str, Any] = {
                "component": card.number,
                "feature": getattr(strongest, "feature", None),
                "loading": getattr(strongest, "r", None),
                "score": card.score,
                "gaussian": card.gaussian,
                "skewness": card.skewness,
                "kurtosis": card.kurtosis,
            }
            for each in card.associations:
                row |= {f"r2_{each.column}": each.r2, f"spread_r2_{each.column}": each.spread_r2}
            rows.append(row | {"findings": "; ".join(card.findings)})
        return rows

    def loadings_frame(self) -> pandas.DataFrame:
        """The correlation of every feature (rows) with every component (columns)."""
        return data_frame(self._loading_rows()).set_index("feature")

    def save_loadings(self, path: str | Path) -> None:
        """Write the correlation of every feature with every component to a csv file."""
        text = io.StringIO()
        rows = self._loading_rows()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(path, text.getvalue())

    def _loading_rows(self) -> list[dict[str, Any]]:
        if self.loadings is None:
            raise InputError("there are no loadings: these components were not made from features")
        names = [card.name for card in self]
        return [
            {"feature": feature} | dict(zip(names, row, strict=True))
            for feature, row in zip(self.feature_names, self.loadings.tolist(), strict=True)
        ]

    def text(self, most: int = MOST_TOLD) -> str:
        """The most telling components in words: those with findings first, the smallest p-value first.

        Empty where features have no names and nothing is found.
        """
        telling = [card for card in self if card.findings]
        telling.sort(key=lambda card: min(each.p for each in card.extremes))
        others = [card for card in self if not card.findings] if self.named else []
        lines = []
        for card in (*telling, *others)[:most]:
            loads = ", ".join(f"{cut_inside(each.feature, 40)} {each.r:+.2f}" for each in card.loadings[:MOST_LOADINGS])
            more = f" (and {len(card.findings) - 1} more)" if len(card.findings) > 1 else ""
            found = [f"{card.findings[0]}{more}"] if card.findings else []
            said = [*([loads] if self.named else []), *found]
            lines += [wrapped(f"{card.name}  {'; '.join(said)}", len(card.name) + 2)]
        left = len(telling) - most
        lines += [f"and {left} more components with findings about extreme rows"] if left > 0 else []
        return "\n".join(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """What limits these cards, as sentences."""
        skipped = ", ".join(f"{cut_inside(name, 40)} ({reason})" for name, reason in list(self.skipped.items())[:8])
        more = f" and {len(self.skipped) - 8} more" if len(self.skipped) > 8 else ""
        said = [
            (self.rows < self.of_rows, f"cards are from {self.rows} of {self.of_rows} rows, drawn at random"),
            (self.skipped, f"components were not read against {skipped}{more}"),
        ]
        return tuple(sentence for applies, sentence in said if applies)


def component_cards(
    ica: ICA,
    X: Any,
    obs: Any = None,
    *,
    features: Sequence[str] | None = None,
    ids: Any = None,
    stability: tuple[Array, Array] | None = None,
    n_examples: int = EXAMPLES,
    random_state: int = 0,
) -> Cards:
    r"""What each component is: its loadings, its extreme rows, its associations and its histogram.

    A loading is the correlation of a component with a feature over the rows. At each end of a component 40 rows (a
    tenth of the rows, if these are fewer) are read against every column of ``obs``: for labels the most
    over-represented value, by the hypergeometric tail

    .. math:: P(X\ge x)=\sum_{i\ge x}\binom{m}{i}\binom{n-m}{k-i}\Big/\binom{n}{k}

    of x among k rows with a value that m of n rows have; for numbers Wilcoxon's rank sum. p-values are corrected for
    all values, columns, ends and components (Bonferroni). If the columns have nothing to do with the rows, the
    probability that any ``findings`` are said is at most 5%.

    Parameters
    ----------
    ica : ICA
        The fitted estimator.
    X : array, memory map, data frame, Representation or AnnData
        Rows, usually those of the fit. If sources would fill more than :math:`2^{25}` cells, rows are drawn.
    obs : mapping of str to (n,) values, data frame or AnnData, optional
        Columns that describe the rows: labels, flags, numbers or dates, with missing values. Numbers with at most 32
        different values, of five rows each on average, count as labels. Columns with one value, or with another one in
        every row, are skipped. Default: the obs of AnnData.
    features : sequence of str, optional
        Names of the features; default: those of the estimator or of ``X``.
    ids : (n,) array, optional
        Names of the rows; default: those of ``X``.
    stability : tuple of two (k,) arrays, optional
        ``scores`` and ``comes_back`` of the components, as in :class:`Stability`.
    n_examples : int
        Number of rows listed at each end.
    random_state : int
        Seed of rows drawn, of ties and of random directions.

    Returns
    -------
    Cards

    Examples
    --------
    >>> import numpy as np, isorep
    >>> from isorep.ica import component_cards
    >>> rng = np.random.default_rng(0)
    >>> clone = np.where(rng.random(2000) < 0.03, "B7", "other")
    >>> S = rng.laplace(size=(2000, 3))
    >>> S[clone == "B7", 0] += 12
    >>> X = S @ rng.normal(size=(3, 3))
    >>> cards = component_cards(isorep.ICA().fit(X), X, {"clone": clone})
    >>> [finding for card in cards for finding in card.findings]
    ['40 of 40 highest rows: clone = B7 (3.6% of all rows)']
    """
    key = getattr(ica, "matrix_in_", None) if is_annotated(X) else None
    data = open_rows(ica, X, reset=False, key=key)
    obs = X.obs if obs is None and is_annotated(X) else obs
    about = about_rows(ica, X, features) | ({} if ids is None else {"ids": ids})
    more: dict[str, Any] = {"stability": stability, "n_examples": n_examples, "random_state": random_state}
    return cards_of_rows(ica, data, obs, **about, **more)


def about_rows(ica: ICA, X: Any, given: Sequence[str] | None = None) -> dict[str, Any]:
    """The names of features and rows: features that are given, the estimator's, or those of the rows."""
    names: Any = given
    for each in (getattr(ica, "feature_names_in_", None), getattr(X, "columns", None)):
        names = each if names is None else names
    if names is not None and len(names) != ica.components_.shape[1]:
        raise InputError(f"there are {len(names)} names for {ica.components_.shape[1]} features")
    ids = X.ids if isinstance(X, Representation) else None
    if is_annotated(X) or hasattr(X, "iloc"):
        ids = np.asarray(X.obs_names if is_annotated(X) else X.index)
    return {"features": None if names is None else tuple(map(str, names)), "ids": ids}


def cards_of_rows(ica: ICA, data: Matrix, obs: Any, *, random_state: int = 0, **more: Any) -> Cards:
    """Cards from rows that were checked; the other arguments are those of :func:`make_cards`."""
    if is_dask(data) or isinstance(data, ChunkedRows):
        raise InputError("cards read extreme rows one by one, which is slow from a Dask array: pass X[rows].compute()")
    n = int(data.shape[0])
    rows = drawn_rows(n, len(ica.components_), random_state)
    sources, loadings = _sources_and_loadings(ica, data, rows)
    gaussian = getattr(ica, "gaussian_", None)
    known: dict[str, Any] = {
        "rows": rows,
        "of_rows": n,
        "loadings": loadings,
        "gaussian": gaussian,
        "random_state": random_state,
    }
    return make_cards(sources, obs, **known, **more)


def drawn_rows(n: int, k: int, random_state: int) -> Array | None:
    """Rows whose sources fit in memory; None for all."""
    most = max(MOST_CELLS // k, 1000)
    return None if n <= most else np.sort(np.random.default_rng(random_state).choice(n, most, replace=False))


def _sources_and_loadings(ica: ICA, data: Matrix, rows: Array | None) -> tuple[Array, Array]:
    """Sources of the rows, and the correlation of every feature (rows) with every component (columns)."""
    n, (k, d) = int(data.shape[0]) if rows is None else len(rows), ica.components_.shape
    sources = np.empty((n, k), np.float32, order="F")  # read component by component
    sums, squares, products = np.zeros(d), np.zeros(d), np.zeros((d, k))
    source_sums, source_squares = np.zeros(k), np.zeros(k)
    for part in blocks(n, block_rows(d, k)):
        block = read_rows(data, part if rows is None else rows[part]).astype(np.float64) - ica.mean_
        mine = block @ ica.components_.T
        if not np.isfinite(mine.sum()) and not np.isfinite(block).all():
            raise InputError("X holds values that are not finite")
        sources[part] = mine
        sums += block.sum(axis=0)
        squares += np.einsum("ij,ij->j", block, block)
        products += block.T @ mine
        source_sums += mine.sum(axis=0)
        source_squares += np.einsum("ij,ij->j", mine, mine)
    spread, source_spread = (squares - sums**2 / n, source_squares - source_sums**2 / n)
    covariance = products - np.outer(sums, source_sums / n)
    scale = np.sqrt(np.outer(np.maximum(spread, 0), np.maximum(source_spread, 0)))
    constant = (spread <= 1e-12 * squares)[:, None] | ~(scale > 0)
    return sources, np.clip(np.divide(covariance, scale, out=np.full((d, k), np.nan), where=~constant), -1, 1)


def make_cards(
    sources: Array,
    obs: Any = None,
    *,
    rows: Array | None = None,
    of_rows: int | None = None,
    loadings: Array | None = None,
    features: tuple[str, ...] | None = None,
    ids: Any = None,
    numbers: Array | None = None,
    gaussian: Array | None = None,
    stability: tuple[Array, Array] | None = None,
    n_examples: int = EXAMPLES,
    random_state: int = 0,
) -> Cards:
    """Cards of sources that are at hand, one column per component; the arguments are those of component_cards.

    ``sources`` are those of ``rows``; ``obs``, ``ids`` and the ``numbers`` that examples are given are of all rows.
    """
    check_counts(n_examples=(n_examples, 0))
    n, k = sources.shape
    total = n if of_rows is None else of_rows
    columns, skipped = row_columns(obs, total, rows)
    rng = np.random.default_rng(random_state)
    count = ends_count(n)
    shuffled = rng.permutation(n)
    ends = tuple(ends_of(sources[:, index], max(count, n_examples), shuffled) for index in range(k))
    read, tests = extremes(tuple((high[:count], low[:count]) for high, low in ends), columns)
    associated = associations_of(sources, columns)
    names = _told_apart(features, 0 if loadings is None else len(loadings))
    grouping = feature_groups(features) if features is not None else {}
    items = []
    for index in range(k):
        values = np.asarray(sources[:, index], np.float64)
        mine = np.zeros(0) if loadings is None else loadings[:, index]
        examples = (_examples(part[:n_examples], values, rows, ids, numbers) for part in ends[index])
        skewness, kurtosis = _shape(values)
        items.append(
            Card(
                number=index,
                loadings=_strongest(mine, names),
                groups={kind: _shares(mine, weights) for kind, weights in grouping.items()},
                associations=associated[index],
                extremes=read[index],
                highest=next(examples),
                lowest=next(examples),
                bins=_histogram(values),
                skewness=skewness,
                kurtosis=kurtosis,
                gaussian=None if gaussian is None else bool(gaussian[index]),
                score=None if stability is None else float(stability[0][index]),
                comes_back=None if stability is None else bool(stability[1][index]),
            )
        )
    return Cards(
        items=tuple(items),
        rows=n,
        of_rows=total,
        ends=count,
        features=len(names),
        named=features is not None,
        chance=chance_loading(n, len(names)),
        random=_random_loading(loadings, rng),
        columns=tuple(column.title for column in columns),
        skipped=skipped,
        tests=tests,
        loadings=loadings,
        feature_names=names,
    )


def ends_count(n: int) -> int:
    """The number of rows at each end."""
    return max(1, min(ENDS, n // 10))


def chance_loading(n: int, features: int) -> float | None:
    r"""The largest absolute correlation with one of the features that an unrelated variable has in 95% of cases.

    By Šidák's level for each feature, :math:`1-0.95^{1/d}`, and Student's t with n - 2 degrees of freedom.

    Examples
    --------
    >>> round(chance_loading(1000, 1), 3), round(chance_loading(1000, 500), 3)
    (0.062, 0.123)
    """
    if n < 3 or not features:
        return None
    t = float(stats.t.isf(-np.expm1(np.log(_LEVEL) / features) / 2, n - 2))
    return t / float(np.sqrt(n - 2 + t**2))


def _random_loading(loadings: Array | None, rng: np.random.Generator) -> float | None:
    """The same of a random direction in the span of the components, which are uncorrelated."""
    if loadings is None or not len(loadings):
        return None
    directions = rng.standard_normal((loadings.shape[1], _DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    reached = np.abs(np.nan_to_num(loadings) @ directions).max(axis=0)
    return min(float(np.quantile(reached, _LEVEL)), 1.0)


def _told_apart(features: tuple[str, ...] | None, width: int) -> tuple[str, ...]:
    """Names of features that differ: by column where there are none, or where they repeat."""
    if features is None:
        return tuple(f"column {index}" for index in range(width))
    often = Counter(features)
    return tuple(
        name if often[name] == 1 else f"{name} (column {index})" for index, name in enumerate(features[:width])
    )


def _strongest(loadings: Array, names: tuple[str, ...]) -> tuple[Loading, ...]:
    known = np.flatnonzero(np.isfinite(loadings))
    order = known[np.argsort(-np.abs(loadings[known]), kind="stable")][:STRONGEST]
    return tuple(Loading(names[place], float(loadings[place])) for place in order.tolist())


def _examples(places: Array, values: Array, rows: Array | None, ids: Any, numbers: Array | None) -> tuple[Example, ...]:
    every = places if rows is None else rows[places]
    called = every if numbers is None else numbers[every]
    return tuple(
        Example(int(number), None if ids is None else str(ids[row]), float(values[place]))
        for number, row, place in zip(called, every, places, strict=True)
    )


def _shape(values: Array) -> tuple[float, float]:
    """Skewness and excess kurtosis; zero for a component that does not vary."""
    centred = values - values.mean()
    variance = float((centred**2).mean())
    if variance <= 0:
        return 0.0, 0.0
    standard = centred / np.sqrt(variance)
    return float((standard**3).mean()), float((standard**4).mean() - 3)


def _histogram(values: Array) -> Bins:
    low, high = (float(each) for each in np.quantile(values, (_TAIL, 1 - _TAIL)))
    room = 0.05 * (high - low)
    low, high = max(low - room, float(values.min())), min(high + room, float(values.max()))
    if not high - low > _BINS * np.spacing(max(abs(low), abs(high))):
        half = max(0.5, _BINS * float(np.spacing(max(abs(low), abs(high)))))
        low, high = low - half, high + half
    below, above = int((values < low).sum()), int((values > high).sum())
    counts = np.histogram(values, _BINS, (low, high))[0]
    return Bins(low, high, tuple(counts.tolist()), below, above)


# Groups of CellProfiler's features: COMPARTMENT_MEASUREMENT_..., with channels among the parts

_COMPARTMENTS = ("cells", "cell", "nuclei", "nucleus", "cytoplasm", "image", "experiment")
_MEASUREMENTS = (
    *("areashape", "children", "colocalization", "correlation", "count", "distance", "granularity", "imagequality"),
    *("intensity", "location", "math", "neighbors", "neighbours", "number", "objectskeleton", "overlap", "parent"),
    *("radialdistribution", "texture", "threshold"),
)
_CHANNELS = (
    *("DNA", "RNA", "ER", "AGP", "Mito", "Brightfield", "BrightField", "BF", "DAPI", "Hoechst", "Actin", "Tubulin"),
    *("Golgi", "Phalloidin", "WGA", "ConA", "SYTO", "GFP", "RFP"),
)
_PREFIXES = ("Orig", "Corr", "Illum", "Crop")
NO_CHANNEL, OTHER = "no channel", "other"


def feature_groups(features: Sequence[str]) -> dict[str, dict[str, Array]]:
    """Weights of features in groups by compartment, measurement and channel, where names are CellProfiler's.

    A feature of two channels, such as a correlation, counts half for each. Names are CellProfiler's if at least half
    begin with a compartment and a kind of measurement.

    Examples
    --------
    >>> groups = feature_groups(["Cells_Texture_Contrast_DNA_3_00", "Nuclei_AreaShape_Area"])
    >>> {kind: list(names) for kind, names in groups.items()}["channel"]
    ['DNA', 'no channel']
    """
    parts = [name.split("_") for name in features]
    known = [len(part) > 2 and part[0].lower() in _COMPARTMENTS and part[1].lower() in _MEASUREMENTS for part in parts]
    if 2 * sum(known) < max(len(known), 1):
        return {}
    # A channel's name ends the name of a feature of intensity: Cells_Intensity_MeanIntensity_DNA.
    channels = dict.fromkeys(_CHANNELS)
    for part, mine in zip(parts, known, strict=True):
        if mine and part[1].lower() == "intensity" and len(part) > 3:
            channels["_".join(part[3:])] = None
    groups: dict[str, dict[str, Array]] = {"compartment": {}, "measurement": {}, "channel": {}}
    for index, (part, mine) in enumerate(zip(parts, known, strict=True)):
        found = _channels(part[2:], channels) if mine else [OTHER]
        named = {"compartment": [part[0] if mine else OTHER], "measurement": [part[1] if mine else OTHER]}
        for kind, names in (*named.items(), ("channel", found or [NO_CHANNEL])):
            for name in names:
                weights = groups[kind].setdefault(name, np.zeros(len(features)))
                weights[index] += 1 / len(names)
    return groups


def _channels(parts: Sequence[str], channels: dict[str, None]) -> list[str]:
    """The channels that are named among the parts; the longest names first, so that none is found within another."""
    text, found = f"_{'_'.join(parts)}_", []
    for name in sorted(channels, key=len, reverse=True):
        for spelled in (name, *(f"{prefix}{name}" for prefix in _PREFIXES)):
            while f"_{spelled}_" in text:
                text = text.replace(f"_{spelled}_", "__", 1)
                found.append(_plain_channel(name))
    return list(dict.fromkeys(found))


def _plain_channel(name: str) -> str:
    """A channel without the word for how its image was made: OrigDNA and CorrDNA are DNA."""
    for prefix in _PREFIXES:
        if name.startswith(prefix) and name[len(prefix) :][:1].isupper():
            return name[len(prefix) :].lstrip("_")
        if name.startswith(f"{prefix}_"):
            return name[len(prefix) + 1 :]
    return name


def _shares(loadings: Array, weights: dict[str, Array]) -> tuple[Group, ...]:
    """Shares of squared loadings by group, the largest first."""
    squares = np.nan_to_num(loadings) ** 2
    total = float(squares.sum()) or 1.0
    shares = [Group(name, float(squares @ each) / total, float(each.mean())) for name, each in weights.items()]
    return tuple(sorted(shares, key=lambda group: -group.share))
