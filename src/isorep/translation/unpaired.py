r"""``isorep.translate_unpaired``: a map between two embedding spaces from rows that are not paired.

Both sides are unmixed by ICA. Where both hold the same independent, non-Gaussian factors, their components agree up to
order and sign (Comon 1994), and so do their distributions. A component is described by its characteristic function,
:math:`\mathbb E\cos\omega s` and :math:`\mathbb E\sin\omega s` at a few frequencies, and by its relations to others,
the correlations of :math:`\cos s_i` with :math:`\cos s_j` and :math:`\sin s_j`. Distances are in units of sampling
noise. Components are assigned on one part of the rows and judged on another: a match counts if no other component,
no other sign and no Gaussian comes near it. The rotation is then refined by mutual nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment, quadratic_assignment

from ..chunked import ChunkedRows
from ..errors import InputError
from ..ica.contrasts import contrast_named
from ..ica.unmixing import ArraySource, WhiteUnmixing, as_source, unmix, whiten
from ..pairs import distinct
from ..representation import Array, Matrix, Representation, rounding_of
from ..results import Record, ResultRecord, Verdict, aligned, counted, decimals, told, wrapped
from ..rows import Progress, equal_rows, no_progress, read_rows, refuse_non_finite
from ..settings import check_counts, check_seed
from ..storage import loaded
from .drift import Reference, calibrated, damped_whitener
from .extrapolation import guessed
from .maps import UNPAIRED, FittedMap
from .translate import common_norm
from .translator import Translator

_ROWS, _CELLS = 40_000, 2**25  # of a side, that components are found with
_CHECKED = 1 / 3  # of these rows judge the matches
_ROWS_PER_COMPONENT = 20
_FREQUENCIES = np.array([0.5, 1.0, 1.5, 2.0, 3.0])
_DAMPING = 0.05  # of a feature's variance, so that no combination of features counts for more than it is measured
_LEAST = 1e-9  # of a variance
_NEARER = 0.5  # of the distance to the nearest alternative
_SHAPED = 0.05  # of the distance to a Gaussian that is independent of the others
_ESTIMATED = 2.0  # times the sampling noise: components are estimated from as many rows as they are judged with
_DEVIATIONS = 5.0  # by which the nearest alternative must be farther
_FOUND, _PART = 0.9, 0.5  # shares of the new vectors' variance
_NEIGHBOURS, _PLACED = 10, 1500  # of the refinement: neighbours for hubness, and rows of each side
_ROUNDS = 10
_GAIN = 0.01  # of the mean distance to the nearest neighbour, that a refinement must save
_SAME = 0.95  # cosine of a component with itself, before and after the refinement
_DRAWS = 999  # random matches of the null
_AT = 10
_LEAST_PAIRS, _MOST_PAIRS = 5, 2000  # fewer have too few orders for a test
_MOST_ROWS = 20  # of the table of components


@dataclass(frozen=True)
class Match(Record):
    """A component of the old side and the one of the new side that it was matched with.

    ``distance`` is measured on rows that the match was not made with, in units of sampling noise (1 is no more than
    noise), ``alternative`` is that of the nearest other component or sign and ``gaussian`` that of a Gaussian that is
    independent of all others. ``share`` is the share of the new side's variance that the component carries.
    ``problem`` says why the match does not count; None if it does.
    """

    old: int
    new: int
    sign: int
    distance: float
    alternative: float
    gaussian: float
    share: float
    problem: str | None


@dataclass(frozen=True)
class PairCheck(Record):
    """A few known pairs under the map: recall among them, and the mean cosine beside that of shuffled pairs."""

    pairs: int
    recall: dict[int, float]
    chance: dict[int, float]
    cosine: float
    shuffled_cosine: float
    p_value: float


@dataclass(frozen=True, eq=False)
class UnpairedTranslation(ResultRecord):
    """Whether two sides without pairs have one map, and the map.

    Attributes
    ----------
    verdict : Verdict
        ``found``, ``in part`` or ``refused``, and why.
    matches : tuple of Match
        The components, in the order of the old side's.
    carried : float
        Share of the new side's variance in components whose match counts; the map has only these.
    p_value, relation : float
        How often a random match of components is as close, on rows that the match was not made with, and the
        correlation of the matched relations.
    refined : bool
        Whether cycles of neighbours improved the rotation.
    check : PairCheck or None
        What known pairs say, where there are any.
    translator : Translator
        The map; also of a refused translation, for ``save(force=True)``.
    """

    verdict: Verdict
    names: tuple[str, str]
    rows: tuple[int, int]
    components: int
    ranks: tuple[int, int]
    near_gaussian: tuple[int, int]
    matches: tuple[Match, ...]
    carried: float
    relation: float | None
    p_value: float
    refined: bool
    norm: float | None
    check: PairCheck | None
    translator: Translator
    settings: dict[str, Any]
    caveats: tuple[str, ...]

    schema: ClassVar[str] = "isorep.translate_unpaired/1"
    page_by: ClassVar[str] = "translation.page:unpaired_page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"translator"})

    @property
    def counted(self) -> list[Match]:
        """The matches that count."""
        return [each for each in self.matches if each.problem is None]

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the map; a refused one only if ``force`` is true."""
        if self.verdict.answer == "refused" and not force:
            raise InputError(f"no map is written: {self.verdict}")
        self.translator.save(path)

    def transform(self, X: Any) -> Any:
        """Translate rows; a refused translation raises an error."""
        if self.verdict.answer == "refused":
            raise InputError(f"nothing is translated: {self.verdict}")
        return self.translator.transform(X)

    def frame_rows(self) -> list[dict[str, Any]]:
        """A row for each component."""
        return [each.to_dict() for each in self.matches]

    def table(self) -> str:
        """The components that carry most, as text."""
        rows: list[tuple[str, ...]] = [("component", "matched", "share", "distance", "nearest\nother", "Gaussian", "")]
        order = sorted(self.matches, key=lambda each: -each.share)[:_MOST_ROWS]
        for each in order:
            sign = "-" if each.sign < 0 else "+"
            numbers = (each.distance, each.alternative, each.gaussian)
            cells = [f"{value:.3g}" for value in numbers]
            rows.append(
                (f"ica{each.old}", f"{sign}ica{each.new}", f"{each.share:.1%}", *cells, each.problem or "counts")
            )
        return aligned(rows, left=(0, 1, 6))

    def __str__(self) -> str:
        shown = min(len(self.matches), _MOST_ROWS)
        about = (
            f"{shown} of {counted(len(self.matches), 'component')}, by the share of the variance of {self.names[1]} "
            "that they carry. Distances are on rows that the match was not made with, in units of sampling noise."
        )
        related = (
            "" if self.relation is None else f"; the relations of matched components correlate by {self.relation:.2f}"
        )
        null = (
            f"null: a random match of the components is as close with p = {decimals(self.p_value, 3)}{related}. "
            "Unrelated data can pass this test: the distances decide."
        )
        blocks = [f"{self.table()}\n{wrapped(about)}", wrapped(null)]
        if self.check is not None:
            blocks.append(wrapped(f"pairs: {check_sentence(self.check)}"))
        return told(self.verdict, *blocks, notes=self.caveats)


def translate_unpaired(
    old: Any,
    new: Any,
    *,
    pairs: tuple[Any, Any] | None = None,
    n_components: int | None = None,
    normalise: bool | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> UnpairedTranslation:
    r"""Translate vectors of an old model into the space of a new one without pairs, or say why that is impossible.

    If both sides mix the same independent factors, :math:`x=\mu+sA` and :math:`y=\nu+sB`, at most one of them Gaussian,
    ICA finds the factors of each side up to order, sign and scale. Components are matched by their distributions and
    their relations. A match counts if, on rows that it was not made with, it is closer than half of the distance of
    every other component and sign, closer than a twentieth of that of an independent Gaussian, and if these differences
    exceed sampling noise. The map is that of the matches that count. It is refused if they carry less than half of the
    new side's variance, if random matches are as close, or if known pairs do not confirm it.

    Parameters
    ----------
    old, new : (n, d) and (m, e) arrays, Representations or paths
        Samples of the same kind of items, embedded by both models: other items, another order and another number.
    pairs : tuple of two such, optional
        At least five pairs, old and new, that check the map; it is not fitted to them. The first 2,000 are used.
    n_components : int, optional
        Number of leading principal axes of both sides that are unmixed. Default: the smaller rank, at most one per 20
        rows.
    normalise : bool, optional
        Whether translated vectors get the length of new ones; default: if new vectors have one length.
    random_state : int
        Seed of the split of rows and of the null.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

    Returns
    -------
    UnpairedTranslation

    References
    ----------
    .. [1] Comon, P. (1994). Independent component analysis, a new concept? Signal Processing 36.
    .. [2] Conneau, A. et al. (2018). Word translation without parallel data. ICLR.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> def factors(n):
    ...     return np.stack([rng.exponential(size=n), rng.gamma(4, size=n), rng.random(n) ** 2], axis=1)
    >>> old, new = factors(4000) @ rng.normal(size=(3, 3)), 5 + factors(3000) @ rng.normal(size=(3, 3))
    >>> isorep.translate_unpaired(old, new).verdict.answer
    'found'
    """
    check_seed(random_state)
    report = progress or no_progress
    a, b = distinct(loaded(old, "old"), loaded(new, "new"), ("old", "new"))
    names = (str(a.name), str(b.name))
    few = None if pairs is None else _opened_pairs(pairs, a, b)
    rng = np.random.default_rng(random_state)
    report("components", 0, 2)
    sides = [_Rows(each, rng) for each in (a, b)]
    most = min(min(each.rank for each in sides), min(len(each.fit) for each in sides) // _ROWS_PER_COMPONENT)
    if n_components is not None:
        check_counts(n_components=(n_components, 1))
        if n_components > min(each.rank for each in sides):
            raise InputError(
                f"n_components={n_components} exceeds the rank of a side, {sides[0].rank} and {sides[1].rank}"
            )
        most = int(n_components)
    if most < 1:
        raise InputError(f"{_ROWS_PER_COMPONENT * 3 // 2} rows per side are too few for a component")
    unmixed = []
    for place, each in enumerate(sides):
        unmixed.append(each.unmixed(most, random_state))
        report("components", place + 1, 2)
    source, target = (
        [_Portrait(side.sources(found, rows)) for rows in (side.fit, side.held)]
        for side, found in zip(sides, unmixed, strict=True)
    )
    known = ~(unmixed[0].gaussian_), ~(unmixed[1].gaussian_)
    report("matching", 0, 1)
    match = _assigned(source[0], target[0], *known)
    report("matching", 1, 1)
    costs = match.costs(source[1], target[1], *known)
    shares = (unmixed[1].mixing_ ** 2).sum(axis=0) / sides[1].variance
    matches = _judged(match, costs, known, shares)
    p_value, relation = _against_chance(match, source[1], target[1], costs, known, rng)
    counts = np.array([each.problem is None for each in matches])
    report("neighbours", 0, 1)
    turned = _refined(sides, unmixed, match, counts)
    report("neighbours", 1, 1)
    norm = common_norm(b.values, normalise)
    kept = counts if counts.any() else np.ones(most, bool)  # of a refused map, for those who force it
    fitted = _fitted(unmixed, match, kept, turned, norm)
    check = None if few is None else _checked(fitted, few, rng)
    carried = float(shares[match.new[counts]].sum()) if counts.any() else 0.0
    near = int((~known[0]).sum()), int((~known[1]).sum())
    verdict = _verdict(names, matches, carried, p_value, check)
    facts = {
        "old": names[0],
        "new": names[1],
        "pairs": 0,
        "unpaired": {"verdict": verdict.answer, "components": most, "matched": int(counts.sum()), "carried": carried},
        "fingerprints": {"old": as_source(a.values).fingerprint(), "new": as_source(b.values).fingerprint()},
    }
    return UnpairedTranslation(
        verdict=verdict,
        names=names,
        rows=(len(a), len(b)),
        components=most,
        ranks=(sides[0].rank, sides[1].rank),
        near_gaussian=near,
        matches=matches,
        carried=carried,
        relation=relation,
        p_value=p_value,
        refined=turned is not None,
        norm=norm,
        check=check,
        translator=Translator(fitted, sides[0].reference(), facts),
        settings={"n_components": n_components, "normalise": normalise, "random_state": int(random_state)},
        caveats=tuple(_caveats(names, sides, unmixed, most, norm, few is not None)),
    )


def _opened_pairs(pairs: tuple[Any, Any], a: Representation, b: Representation) -> tuple[Array, Array]:
    if not isinstance(pairs, Sequence) or len(pairs) != 2:
        raise InputError("pairs are two sides: old vectors and the new ones of the same items")
    x, y = (loaded(each, f"{role} pairs") for each, role in zip(pairs, ("old", "new"), strict=True))
    if len(x) != len(y):
        raise InputError(f"pairs have {len(x)} old and {len(y)} new rows: they must be the same items")
    for each, side in ((x, a), (y, b)):
        if each.shape[1] != side.shape[1]:
            raise InputError(f"{each.name} has {each.shape[1]} columns, and {side.name} has {side.shape[1]}")
    if len(x) < _LEAST_PAIRS:
        raise InputError(f"too few pairs to check a map: {len(x)}, and at least {_LEAST_PAIRS} are needed")
    held = tuple(np.asarray(read_rows(each.values, slice(0, _MOST_PAIRS)), np.float64) for each in (x, y))
    for rows, each in zip(held, (x, y), strict=True):
        if not np.isfinite(rows).all():
            refuse_non_finite(each.values, str(each.name))
    return held[0], held[1]


class _Rows:
    """A sample of one side in memory: rows that components are found with, and rows that judge them."""

    def __init__(self, data: Representation, rng: np.random.Generator) -> None:
        n, self.width = data.shape
        self.name = str(data.name)
        if isinstance(data.values, ChunkedRows):
            raise InputError(f"{self.name} is a Dask array: a map without pairs takes rows of files or of this machine")
        if n < 3 * _ROWS_PER_COMPONENT // 2:
            raise InputError(f"{self.name} has {counted(n, 'row')}: a component needs {_ROWS_PER_COMPONENT * 3 // 2}")
        most = min(n, _ROWS, max(_CELLS // self.width, 3 * _ROWS_PER_COMPONENT))
        chosen = rng.permutation(n)[:most]
        held = round(_CHECKED * most)
        self.fit, self.held = (self._read(data.values, np.sort(part)) for part in (chosen[held:], chosen[:held]))
        with np.errstate(over="ignore"):  # the whitening refuses such rows
            self.variance = float(((self.fit - self.fit.mean(axis=0)) ** 2).mean(axis=0).sum())
        self._source = ArraySource(self.fit)
        rounding = rounding_of(data.values)  # not that of the copy in float64
        self.whitening = whiten(self._source, rounding=rounding, name=f"the training part of {self.name}")
        self.rank = self.whitening.rank_
        self.left_out = self.whitening.left_out_columns_

    def _read(self, values: Matrix, rows: Array) -> Array:
        held = np.asarray(read_rows(values, rows))
        if not np.isfinite(held).all():
            refuse_non_finite(values, self.name)
        return held.astype(np.float64)

    def unmixed(self, k: int, seed: int) -> WhiteUnmixing:
        return unmix(
            self._source, self.whitening.leading(k), contrast_named("logcosh"), np.random.RandomState(seed), tol=1e-5
        )

    def sources(self, found: WhiteUnmixing, rows: Array) -> Array:
        return np.asarray((rows - found.mean_) @ found.components_.T)

    def reference(self) -> Reference:
        """What old rows look like, for warnings of drift."""
        centred = self.fit - self.fit.mean(axis=0)
        values, vectors = np.linalg.eigh(centred.T @ centred)
        mean, n = self.fit.mean(axis=0), len(self.fit)
        whitener = damped_whitener(np.maximum(values, 0), vectors, n)
        known = Reference(mean, whitener, float(np.sqrt(self.variance)), np.inf, 1.0, 0.0, n, len(self.held))
        return calibrated(known, known.norms(self.held), known.distances(self.held))


class _Portrait:
    """What one side's components look like in a sample: features of each, their noise, and relations between them."""

    def __init__(self, sources: Array) -> None:
        self.n = len(sources)
        features, noise = [], []
        for component in sources.T:
            waves = component[:, None] * _FREQUENCIES
            both = np.concatenate([np.cos(waves), np.sin(waves)], axis=1)
            features.append(both.mean(axis=0))
            apart = both - features[-1]
            spread = apart.T @ apart / self.n
            noise.append((spread + np.diag(_DAMPING * np.diagonal(spread) + _LEAST)) / self.n)
        self.features, self.noise = np.array(features), np.array(noise)
        even, odd = (_standardised(wave(sources)) for wave in (np.cos, np.sin))
        self.even, self.mixed = even.T @ even / self.n, even.T @ odd / self.n
        for relation in (self.even, self.mixed):
            np.fill_diagonal(relation, 0.0)


def _standardised(values: Array) -> Array:
    apart = values - values.mean(axis=0)
    spread = np.sqrt((apart**2).mean(axis=0))
    return np.asarray(apart / np.where(spread > 0, spread, 1.0))


_FLIP = np.repeat([1.0, -1.0], len(_FREQUENCIES))  # of features, where a component changes its sign
_GAUSSIAN = np.concatenate([np.exp(-(_FREQUENCIES**2) / 2), np.zeros(len(_FREQUENCIES))])


@dataclass(frozen=True, eq=False)
class _Costs:
    """Squared distances in units of sampling noise: ``[sign, old, new]``, and of each side to a Gaussian.

    ``terms`` is the number of terms that each sum has: what it is expected to be for the same component.
    """

    between: Array
    gaussian: Array
    terms: int


@dataclass(frozen=True, eq=False)
class _Assignment:
    """The new component and the sign of every old one."""

    new: Array
    signs: Array

    def costs(self, a: _Portrait, b: _Portrait, known_a: Array, known_b: Array) -> _Costs:
        """The distance of every pair of components under both signs, if all others are matched as they are."""
        between = _marginal_costs(a, b)
        old = np.flatnonzero(known_a & known_b[self.new])  # relations to components that have a direction
        new, signs = self.new[old], self.signs[old]
        scale = 1 / (1 / a.n + 1 / b.n)
        place = np.full(len(self.new), -1)
        place[self.new] = np.arange(len(self.new))
        in_old = np.isin(np.arange(len(self.new)), old)
        for mine, yours, flips in (
            (a.even[:, old], b.even[:, new], False),
            (a.mixed[:, old], b.mixed[:, new] * signs, False),
            (a.mixed.T[:, old], b.mixed.T[:, new], True),
        ):
            squares = (mine**2).sum(axis=1)[:, None] + (yours**2).sum(axis=1)
            cross = mine @ yours.T
            # a component has no relation to itself: the terms of both candidates are left out
            own = np.zeros((len(self.new), len(self.new)))
            own[old] += (yours**2).T
            ours = np.where(in_old[place], 1.0, 0.0)
            full = np.zeros((len(self.new), len(self.new)))
            full[:, old] = mine
            own += (full**2)[:, place] * ours
            matched = self.new[:, None] == np.arange(len(self.new))
            own[matched] = 0.0
            for index, sign in enumerate((1, -1)):
                between[index] += scale * np.maximum(squares - own - 2 * (sign if flips else 1) * cross, 0.0)
        gaussian = _gaussian_costs(a) + a.n * (
            (a.even[:, old] ** 2) + (a.mixed[:, old] ** 2) + (a.mixed.T[:, old] ** 2)
        ).sum(axis=1)
        # in the units of the comparison of both sides
        return _Costs(between, gaussian * scale / a.n, len(_GAUSSIAN) + 3 * max(len(old) - 1, 0))


def _marginal_costs(a: _Portrait, b: _Portrait) -> Array:
    """``[sign, old, new]``: squared distances of the features, by the noise of both."""
    found = []
    for flip in (np.ones_like(_FLIP), _FLIP):
        yours, noise = b.features * flip, b.noise * flip[:, None] * flip
        rows = []
        for mine, error in zip(a.features, a.noise, strict=True):
            apart = mine - yours
            rows.append((apart * np.linalg.solve(error + noise, apart[:, :, None])[:, :, 0]).sum(axis=1))
        found.append(rows)
    return np.array(found)


def _gaussian_costs(a: _Portrait) -> Array:
    apart = a.features - _GAUSSIAN
    return np.asarray((apart * np.linalg.solve(a.noise, apart[:, :, None])[:, :, 0]).sum(axis=1))


def _assigned(a: _Portrait, b: _Portrait, known_a: Array, known_b: Array) -> _Assignment:
    """Least distance: by marginals, or from the quadratic assignment of relations, then by both until nothing moves."""
    marginal = _marginal_costs(a, b)
    starts = [_least(marginal)]
    if len(a.features) > 2:
        first = np.zeros_like(marginal[0])
        first[np.arange(len(first)), starts[0].new] = 1.0
        start = 0.5 * first + 0.5 / len(first)
        own = np.random.default_rng(0)  # numpy's global one stays untouched
        found = quadratic_assignment(a.even, b.even, options={"maximize": True, "P0": start, "rng": own})
        order = np.asarray(found.col_ind)
        lines = np.arange(len(order))
        starts.append(_Assignment(order, np.where(marginal[0][lines, order] <= marginal[1][lines, order], 1, -1)))
    best, least = starts[0], np.inf
    for match in starts:
        for _ in range(30):
            after = _least(match.costs(a, b, known_a, known_b).between)
            same = bool((after.new == match.new).all() and (after.signs == match.signs).all())
            match = after
            if same:
                break
        total = float(_own(match, match.costs(a, b, known_a, known_b).between).sum())
        if total < least:
            best, least = match, total
    return best


def _least(costs: Array) -> _Assignment:
    order = linear_sum_assignment(costs.min(axis=0))[1]
    lines = np.arange(len(order))
    return _Assignment(order, np.where(costs[0][lines, order] <= costs[1][lines, order], 1, -1))


def _own(match: _Assignment, between: Array) -> Array:
    return np.asarray(between[(match.signs < 0).astype(int), np.arange(len(match.new)), match.new])


def _judged(match: _Assignment, costs: _Costs, known: tuple[Array, Array], shares: Array) -> tuple[Match, ...]:
    """Every match beside its alternatives, on rows that it was not made with."""
    own, between, terms = _own(match, costs.between), costs.between, costs.terms
    found = []
    for old, (new, sign) in enumerate(zip(match.new, match.signs, strict=True)):
        least = between.min(axis=0)
        rest = np.concatenate([np.delete(least[old], new), np.delete(least[:, new], old)])
        flipped = float(between[int(sign > 0), old, new])
        nearest = float(rest.min()) if len(rest) else np.inf
        excess = max(own[old] - _ESTIMATED * terms, 0.0)
        noise = _DEVIATIONS * np.sqrt(2 * terms) * max(own[old] / terms, 1.0)

        def apart(
            other: float, share: float, excess: float = excess, noise: float = noise, mine: float = own[old]
        ) -> bool:
            return other - mine > noise and excess <= share * max(other - terms, 0.0)

        problem = None
        if not known[0][old] or not known[1][new] or not costs.gaussian[old] - own[old] > noise:
            problem = "near-Gaussian"
        elif not apart(float(costs.gaussian[old]), _SHAPED):
            problem = "differs"
        elif not apart(nearest, _NEARER):
            problem = "ambiguous"
        elif not apart(flipped, _NEARER):
            problem = "sign open"
        found.append(
            Match(
                old,
                int(new),
                int(sign),
                float(own[old] / terms),
                float(min(nearest, flipped) / terms),
                float(costs.gaussian[old] / terms),
                float(shares[new]),
                problem,
            )
        )
    return tuple(found)


def _against_chance(
    match: _Assignment,
    a: _Portrait,
    b: _Portrait,
    costs: _Costs,
    known: tuple[Array, Array],
    rng: np.random.Generator,
) -> tuple[float, float | None]:
    """How often a random match is as close, by marginals and the sign that suits; the correlation of relations."""
    least, k = _marginal_costs(a, b).min(axis=0), len(match.new)
    own = float(least[np.arange(k), match.new].sum())
    draws = [float(least[np.arange(k), rng.permutation(k)].sum()) for _ in range(_DRAWS)]
    old = np.flatnonzero(known[0] & known[1][match.new])
    new = match.new[old]
    upper = np.triu_indices(len(old), 1)
    mine, yours = a.even[np.ix_(old, old)][upper], b.even[np.ix_(new, new)][upper]
    related = float(np.corrcoef(mine, yours)[0, 1]) if len(mine) > 2 and mine.std() > 0 < yours.std() else None
    return (1 + sum(value <= own for value in draws)) / (1 + _DRAWS), related


def _refined(
    sides: Sequence[_Rows], unmixed: Sequence[WhiteUnmixing], match: _Assignment, counts: Array
) -> Array | None:
    """A rotation of the matched components that brings mutual neighbours together; None if it does not help.

    It is kept if held-out rows come nearer to their neighbours and every component stays what it was.
    """
    places = np.flatnonzero(counts)
    if len(places) < 2:
        return None
    old, new = places, match.new[places]

    def looked(rows: str) -> tuple[Array, Array]:
        mine = sides[0].sources(unmixed[0], getattr(sides[0], rows)[:_PLACED])[:, old] * match.signs[old]
        return mine, sides[1].sources(unmixed[1], getattr(sides[1], rows)[:_PLACED])[:, new]

    mine, yours = looked("fit")
    turned = np.eye(len(places))
    for _ in range(_ROUNDS):
        pairs = _mutual(mine @ turned, yours)
        if len(pairs[0]) < 5 * len(places):
            return None
        u, _, vt = np.linalg.svd(mine[pairs[0]].T @ yours[pairs[1]])
        step = float(np.abs(u @ vt - turned).max())
        turned = u @ vt
        if step < 1e-3:
            break
    mine, yours = looked("held")
    before, after = (float(_distances(rows, yours).min(axis=1).mean()) for rows in (mine, mine @ turned))
    stays = float(np.diagonal(turned).min()) >= _SAME
    return turned if stays and after < (1 - _GAIN) * before else None


def _distances(a: Array, b: Array) -> Array:
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def _mutual(a: Array, b: Array) -> tuple[Array, Array]:
    """Mutual nearest neighbours, by distances less the mean distance to ten neighbours on either side."""
    apart = _distances(a, b)
    k = min(_NEIGHBOURS, *apart.shape)
    around = [np.partition(apart, k - 1, axis=axis) for axis in (1, 0)]
    apart = 2 * apart - around[0][:, :k].mean(axis=1)[:, None] - around[1][:k].mean(axis=0)
    there, back = apart.argmin(axis=1), apart.argmin(axis=0)
    rows = np.flatnonzero(back[there] == np.arange(len(a)))
    return rows, there[rows]


def _fitted(
    unmixed: Sequence[WhiteUnmixing], match: _Assignment, kept: Array, turned: Array | None, norm: float | None
) -> FittedMap:
    """From old vectors to components, turned, and on to new vectors; components without a match stay at their mean."""
    old = np.flatnonzero(kept)
    into = unmixed[0].components_[old].T * match.signs[old]
    if turned is not None and len(turned) == len(old):
        into = into @ turned
    matrix = into @ unmixed[1].mixing_[:, match.new[old]].T
    return FittedMap(UNPAIRED, matrix, unmixed[0].mean_, unmixed[1].mean_, norm=norm)


def _checked(fitted: FittedMap, pairs: tuple[Array, Array], rng: np.random.Generator) -> PairCheck:
    """Recall of translated vectors among the new ones of the pairs, and centred cosines beside shuffled ones."""
    x, y = pairs
    mapped = fitted.apply(x)
    n = len(x)
    mine, yours = (_unit(rows - fitted.new_mean) for rows in (mapped, y))
    similar = mine @ yours.T
    own = np.diagonal(similar)
    closer = (similar > own[:, None]).sum(axis=1)
    shuffled = np.array([similar[np.arange(n), rng.permutation(n)].mean() for _ in range(_DRAWS)])
    at = [k for k in (1, _AT) if k < n]
    same = equal_rows(y)
    return PairCheck(
        n,
        {k: float((closer < k).mean()) for k in at},
        {k: guessed(np.bincount(same)[same], n, n, k) for k in at},
        float(own.mean()),
        float(shuffled.mean()),
        float((1 + (shuffled >= own.mean()).sum()) / (1 + _DRAWS)),
    )


def _unit(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))


def check_sentence(check: PairCheck) -> str:
    """What known pairs say about the map."""
    recall = "".join(f", recall@{k} {share:.1%} (guessing {check.chance[k]:.1%})" for k, share in check.recall.items())
    return (
        f"{counted(check.pairs, 'known pair')} have the mean cosine {check.cosine:.3f} around the mean of new vectors, "
        f"shuffled {check.shuffled_cosine:.3f} (p = {decimals(check.p_value, 3)}){recall}."
    )


def _verdict(
    names: tuple[str, str],
    matches: Sequence[Match],
    carried: float,
    p_value: float,
    check: PairCheck | None,
) -> Verdict:
    old, new = names
    counts, k = sum(each.problem is None for each in matches), len(matches)
    of = f"{counts} of {counted(k, 'component')} match, and they carry {carried:.0%} of the variance of {new}"
    if check is not None and check.p_value > 0.05:
        return Verdict(
            "refused",
            f"No map from {old} to {new} is given: known pairs do not confirm it. Translated vectors are not shown "
            f"to be closer to their own new vectors than to those of other pairs (cosine {check.cosine:.3f}, shuffled "
            f"{check.shuffled_cosine:.3f}). {of}.",
        )
    if carried < _PART:
        return Verdict("refused", f"No map from {old} to {new} can be given without pairs: {_why(matches, of)}.")
    if p_value > 0.05 and k > 3:  # fewer components have too few orders
        return Verdict(
            "refused",
            f"No map from {old} to {new} can be given without pairs: random matches of components are as close "
            f"(p = {p_value:.2f}); {of}.",
        )
    scope = (
        f"{old} can be translated to {new} without pairs, if both hold the same kind of items: {of}."
        if carried >= _FOUND
        else f"{old} can be translated to {new} in part, if both hold the same kind of items: {of}. The rest is set to "
        "its mean."
    )
    pairs = "" if check is None else f" {check_sentence(check)[0].upper()}{check_sentence(check)[1:]}"
    return Verdict("found" if carried >= _FOUND else "in part", f"{scope}{pairs}")


_WHY = {
    "near-Gaussian": "near-Gaussian, so that direction or sign is not determined",
    "differs": "differing in distribution from the component of the other side that suits best",
    "ambiguous": "with another component that suits about as well",
    "sign open": "with the other sign suiting about as well",
}


def _why(matches: Sequence[Match], of: str) -> str:
    tally = {problem: sum(each.problem == problem for each in matches) for problem in _WHY}
    reasons = [f"{number} {_WHY[problem]}" for problem, number in tally.items() if number]
    return f"{of} (of the others {'; '.join(reasons)})" if reasons else of


def _caveats(
    names: tuple[str, str],
    sides: Sequence[_Rows],
    unmixed: Sequence[WhiteUnmixing],
    k: int,
    norm: float | None,
    checked: bool,
) -> list[str]:
    said = []
    for name, side, found in zip(names, sides, unmixed, strict=True):
        if k < side.rank:
            share = float((found.mixing_**2).sum()) / side.variance
            said.append(f"{k} of {side.rank} principal axes of {name} are used, with {share:.0%} of its variance")
        if len(side.left_out):
            said.append(f"{counted(len(side.left_out), 'column')} of {name} hardly vary and are left out")
        if not found.converged_:
            said.append(f"ICA of {name} did not converge")
    if norm is not None:
        said.append(f"translated vectors are scaled to the length of new ones, {norm:.4g}")
    if not checked:
        said.append("no pair has checked the map: give a few (pairs=, --check-old and --check-new)")
    return said
