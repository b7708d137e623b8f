"""Pages of an ICA fit and of its stability: components, planes of two of them, refits and the way to the optimum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from ..report.document import Answer, Cell, Definitions, Figure, Forms, Heading, Page, Part, Prose, Section, Table
from ..report.figures import Heatmap, Key, Line, Lines
from ..report.page import page_of, size
from ..report.read import MISSING, compact, count, fixed, percent
from ..representation import Array
from .cards_page import card_parts, with_cards
from .curvature import Constants
from .estimator import ICA
from .refits import COMES_BACK, Stability
from .summary import Fit, block_edges, least_of_blocks, remarks, thinned

LEAST = 1e-30  # what is smaller has no place on a logarithmic axis
OPEN, FEW = 40, 12  # rows of a table that are shown without being asked for
MOST_REFITS, MOST_CELLS, MOST_PLANE_CELLS = 40, 96, 48
LARGEST_FIGURE = 560
SADDLE = 0.05  # share of the largest curvature, in shades that can be seen, below which a plane is drawn as a saddle
KINDS = {"": ("s2", "differs from Gaussian"), "unsettled": ("s4", "unsettled"), "Gaussian": ("s1", "near-Gaussian")}
CONSTANTS = {
    "gamma": ("γ", ""),
    "C1": ("C₁", "bound of the contrast's first derivative"),
    "C2": ("C₂", "bound of its second derivative"),
    "B": ("B", "largest norm of a whitened row"),
    "kappa": ("κ", "rows that move by ε move the rotation by at most κ ε"),
}
TWO, THREE = partial(fixed, digits=2), partial(fixed, digits=3)
FAR_FROM_GAUSSIAN = (
    "Components are in this order. The directions of those that are near-Gaussian are not determined by the data."
)
KURTOSIS = "Above zero, heavy tails and a sharp peak; below, flat or two-peaked. A Gaussian has zero."
SCORE = "Median correlation with the matched component across refits (1 = perfectly reproduced)."
ANGLES = (
    "Observed angles well above what sampling allows point to a poor optimum, to dependent rows or to components that "
    "turn into each other."
)
PATH = (
    "The sum over components of the distance from Gaussian; a sweep is one pass over all rows and components. The "
    "search looks at some rows only, where chance shows more contrast, so the curve need not rise from the start."
)


def fit_page(result: Fit) -> Page:
    """The page of a fit."""
    ica, memory = result.ica, result.peak_memory
    gaussian = getattr(ica, "gaussian_", np.ones(0, bool))
    reached = None if not len(gaussian) else False if gaussian.all() else None if gaussian.any() else ica.converged_
    settled = "the contrast settled" if ica.converged_ else "the contrast had not settled"
    tiles = [*_data_tiles(result), ("sweeps", count(ica.n_iter_), settled)]
    if result.seconds is not None:
        used = "" if memory is None else f"at most {compact(memory / 1e9, 3)} GB of memory"
        tiles.append(("seconds", compact(result.seconds, 3), used))
    digits = {"contrast": 4, "kurtosis": 2, "skewness": 2, "uncertainty": 3}
    columns = {key: (getattr(ica, f"{key}_"), digits[key]) for key in digits if hasattr(ica, f"{key}_")}
    table = _component_table(ica, columns, "Every component", np.zeros(len(ica.components_), bool))
    shown = (*_cards(result), _contrast_figure(ica), *_kurtosis_figure(ica), with_cards(table, result.cards))
    path = Section("path", "Convergence", _path(ica))
    return page_of(
        result,
        f"{result.name} · ICA",
        f"Independent components of {result.name}",
        Answer(_headline(ica, gaussian), result.reading, reached),
        tiles,
        (Section("components", "Components", shown), _planes(result), path),
        data=_size(result),
    )


def _headline(ica: ICA, gaussian: Array) -> str:
    k = len(ica.components_)
    if not len(gaussian):
        return f"{count(k)} components, found without whitening."
    return f"{count(k - int(gaussian.sum()))} of {count(k)} components differ from Gaussian."


def _size(result: Fit | Stability) -> str:
    return f"{result.name} {size(result.rows, result.ica.components_.shape[1])}"


def stability_page(result: Stability) -> Page:
    """The page that says which components are reproducible."""
    ica, back, scores = result.ica, result.comes_back, np.sort(result.scores)
    headline = f"{count(int(back.sum()))} of {count(len(back))} components are reproducible."
    answer = Answer(headline, result.reading, bool(back.all()) or (None if back.any() else False))
    share = f"{percent(result.rows_used / result.rows)} of all, drawn anew"
    tiles = [
        ("median score", fixed(scores[len(scores) // 2], 3), f"least {fixed(scores[0], 3)}"),
        *_data_tiles(result),
        ("rows per refit", count(result.rows_used), share if result.settings["resample"] else "all rows"),
    ]
    table = _component_table(ica, result.columns, "Every component; angles in radians", back & ~back.all())
    strayed, tails = _angle_figure(result), _kurtosis_figure(ica)
    figures = (_score_figure(result), *strayed, *tails, _contrast_figure(ica))
    components: tuple[Part, ...] = (*_cards(result), *figures, with_cards(table, result.cards))
    return page_of(
        result,
        f"{result.name} · stability",
        f"Which independent components of {result.name} are reproducible",
        answer,
        tiles,
        (
            Section("components", "Components", components),
            Section("refits", "Refits", (_match_figure(result), _refit_table(result))),
            _planes(result, result.constants),
        ),
        data=_size(result),
    )


def _data_tiles(result: Fit | Stability) -> list[tuple[str, str, str]]:
    k, d = result.ica.components_.shape
    rank = f"rank of the data {count(result.ica.rank_)}" if hasattr(result.ica, "rank_") else ""
    return [("components", count(k), rank), ("rows", count(result.rows), f"{count(d)} columns")]


# Components one by one


def _cards(result: Fit | Stability) -> tuple[Part, ...]:
    """What each component is, where rows were given."""
    return () if result.cards is None else card_parts(result.cards, contrast=result.ica.contrast_.tolist())


def _component_table(ica: ICA, columns: Mapping[str, tuple[Array, int]], title: str, strong: Array) -> Table:
    numbers = {name: partial(fixed, digits=digits) for name, (_, digits) in columns.items()}
    rows = [
        (
            Cell(f"ica{index}", strong=bool(strong[index])),
            *(each[index] for each, _ in columns.values()),
            kind or MISSING,
        )
        for index, kind in enumerate(remarks(ica))
    ]
    return Table.of("components", title, {"component": str, **numbers, "remark": str}, rows, folded=len(rows) > OPEN)


def _contrast_figure(ica: ICA) -> Figure:
    """How far components are from Gaussian, in their order."""
    sizes = np.maximum(np.abs(ica.contrast_), LEAST)
    high = float(sizes.max())
    lines = _by_kind(ica, sizes, partial(compact, digits=3))
    title, axis = "How far from Gaussian", "distance of the contrast from a Gaussian's"
    reach = _decades(max(float(sizes.min()), 1e-6 * high), high)
    return _dotted("contrast-figure", title, FAR_FROM_GAUSSIAN, lines, axis, reach, log=True)


def _kurtosis_figure(ica: ICA) -> tuple[Figure, ...]:
    """Excess kurtosis of every component; a few very large ones are drawn at the edge."""
    if not hasattr(ica, "kurtosis_"):
        return ()
    known = np.sort(ica.kurtosis_)
    usual = max(float(known[int(0.9 * (len(known) - 1))]), 1.0)
    high = float(known[-1]) if known[-1] <= 6 * usual else 3 * usual
    beyond = int((known > high).sum())
    cut = f" Those above {compact(high, 3)} ({beyond}) are drawn at the edge." if beyond else ""
    low, high = min(float(known[0]), 0.0), max(high, 0.5)
    room = 0.05 * (high - low)
    lines, reach = _by_kind(ica, ica.kurtosis_, TWO), (low - room, high + room)
    return (_dotted("kurtosis-figure", "Excess kurtosis", KURTOSIS + cut, lines, "excess kurtosis", reach),)


def _score_figure(result: Stability) -> Figure:
    shares = [f", found in {percent(share)} of refits" for share in result.recurrence]
    lines = _by_kind(result.ica, result.scores, THREE, shares)
    reach = (max(0.0, min(0.8, float(result.scores.min())) - 0.05), 1.0)
    return _dotted("score-figure", "Score of each component", SCORE, lines, "score", reach)


def _angle_figure(result: Stability) -> tuple[Figure, ...]:
    """How far directions strayed, compared with what sampling allows; a single component cannot stray."""
    given = {"observed in refits": ("s2", result.observed), "expected from sampling": ("s1", result.expected)}
    lines = [_dots(name, series, np.flatnonzero(each > LEAST), each, THREE) for name, (series, each) in given.items()]
    if not all(line.points for line in lines):
        return ()
    angles = [y for line in lines for _, y in line.points]
    reach = _decades(max(min(angles), 1e-4 * max(angles)), max(angles))
    return (_dotted("angle-figure", "How far directions stray", ANGLES, lines, "angle, radians", reach, log=True),)


def _dotted(
    name: str, title: str, caption: str, lines: Sequence[Line], axis: str, reach: tuple[float, float], log: bool = False
) -> Figure:
    """A value of every component."""
    return Figure(name, title, caption, "", Lines(tuple(lines), ("component", axis), 260, y_range=reach, log=log))


def _by_kind(ica: ICA, values: Array, spell: Callable[[float], str], more: Sequence[str] | None = None) -> list[Line]:
    """One series of dots for each kind of component."""
    kinds = np.array(remarks(ica))
    return [
        _dots(words, series, np.flatnonzero(kinds == kind), values, spell, more)
        for kind, (series, words) in KINDS.items()
        if (kinds == kind).any()
    ]


def _dots(
    name: str,
    series: str,
    components: Array,
    values: Array,
    spell: Callable[[float], str],
    more: Sequence[str] | None = None,
) -> Line:
    points = tuple((float(index), float(values[index])) for index in components)
    labels = tuple(f"component {index}: {spell(values[index])}{more[index] if more else ''}" for index in components)
    return Line(name, series, points, labels, dotted=True)


def _decades(low: float, high: float) -> tuple[float, float]:
    """The powers of ten around a range."""
    return 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))


# The way to the optimum


def _path(ica: ICA) -> tuple[Figure, ...]:
    points = tuple((float(x), float(y)) for x, y in thinned(ica.path_))
    if len(points) < 2:
        return ()
    labels = tuple(f"after {fixed(x, 1)} sweeps: {compact(y, 5)}" for x, y in points)
    columns: Forms = {"sweeps": TWO, "contrast": partial(compact, digits=6)}
    chart = Lines((Line("contrast", "s2", points, labels),), ("sweeps", "contrast"), 260)
    table = Table.of("path", "The path in numbers", columns, points, folded=True)
    return (Figure("path-figure", "Contrast reached", PATH, "", chart, table=table),)


# Planes of two components: how firmly the data hold each, and which may turn


def _planes(result: Fit | Stability, constants: Constants | None = None) -> Section | None:
    """The heat map of curvatures, the weak planes and the constants of the perturbation lemma."""
    if not hasattr(result.ica, "conditioning_"):
        return None
    parts: list[Part] = [_curvature_figure(result)] if len(result.ica.components_) > 1 else []
    parts += [_weak_table(result)] if result.planes else []
    parts += [] if constants is None else _constants(constants)
    return Section("planes", "Planes of two components", tuple(parts))


def _curvature_figure(result: Fit | Stability) -> Figure:
    """Second variation of the contrast in every plane, relative to the largest; weak planes are marked."""
    k, total, weak = len(result.ica.components_), result.n_weak_planes or 0, len(result.planes)
    edges = block_edges(k, MOST_PLANE_CELLS)
    least = least_of_blocks(result.ica.conditioning_, edges)
    known = least[np.isfinite(least)]  # a component by itself is no plane
    largest = float(np.abs(known).max()) or 1.0
    names = _stretches(edges)
    at = [tuple((np.searchsorted(edges, (p.first, p.second), side="right") - 1).tolist()) for p in result.planes]
    marked = {pair for i, j in at for pair in ((i, j), (j, i))}

    def label(i: int, j: int) -> str:
        told = f"{compact(least[i, j], 3)}{', weak' * ((i, j) in marked)}" if least[i, j] < np.inf else "no plane"
        return f"and {names[j]}: {told}"

    signed = bool((known < -SADDLE * largest).any())
    saddle = "; cells in the colour of negative values are saddles" if signed else ""
    part = " Each cell holds the least of a block of components, named by the first." if len(least) < k else ""
    named = f" The {count(weak)} least certain of {count(total)} weak planes are marked." if total > weak else ""
    chart = Heatmap(
        tuple(tuple(None if value == np.inf else value / largest for value in row) for row in least.tolist()),
        tuple(names),
        tuple(map(str, edges[:-1].tolist())),
        ("component", "component"),
        widest=LARGEST_FIGURE,
        signed=signed,
        marked=tuple(sorted(marked)),
        labels=tuple(tuple(label(i, j) for j in range(len(least))) for i in range(len(least))),
    )
    return Figure(
        "planes-figure",
        "Curvature of each plane",
        "The second variation of the contrast when two components turn into each other, as a share of the largest, "
        f"{compact(largest, 3)}. Where it is faint they may turn{saddle}.{part}{named}",
        f"Heat map of curvatures; the least is {compact(float(known.min()), 3)}, and {count(total)} planes are weak.",
        chart,
        legend=(Key("dot", "ink", "weak: not beyond sampling error"),) if weak else (),
    )


def _weak_table(result: Fit | Stability) -> Table:
    refitted = isinstance(result, Stability)
    titles = ["curvature", "standard error", *(["expected angle", "observed angle"] if refitted else [])]
    columns: Forms = {"components": str, **dict.fromkeys(titles, fixed)}
    rows = [
        (
            f"ica{each.first} and ica{each.second}",
            *(each.curvature, each.error, each.expected, each.observed)[: len(titles)],
        )
        for each in result.planes
    ]
    total = result.n_weak_planes or 0
    some = f"the {count(len(rows))} least certain of {count(total)}" if total > len(rows) else "all"
    title = f"Weak planes, {some}{': angles in radians' if refitted else ''}"
    return Table.of("weak-planes", title, columns, rows, folded=len(rows) > FEW)


def _constants(constants: Constants) -> list[Part]:
    exact = "least eigenvalue of the Hessian" if constants.exact else "least curvature of a plane"
    items = tuple(
        (symbol, compact(getattr(constants, name)), words or exact) for name, (symbol, words) in CONSTANTS.items()
    )
    saddle = " The contrast bends the wrong way in some plane: the fit is at a saddle." if constants.saddle else ""
    said = f"These worst-case constants are very loose: use them for diagnosis only.{saddle}"
    return [Heading("Constants of the perturbation lemma"), Prose((said,)), Definitions(items)]


# Refits


def _match_figure(result: Stability) -> Figure:
    """Refits by components: the correlation of each with what was matched to it."""
    refits, k = result.correlations.shape
    shown = result.correlations[:MOST_REFITS]
    edges = block_edges(k, MOST_CELLS)
    values = np.minimum.reduceat(shown, edges[:-1], axis=1).tolist()
    part = " A cell holds the least of its components." if len(edges) - 1 < k else ""
    rest = f" The first {len(shown)} of {refits} refits are shown." if refits > len(shown) else ""
    return Figure(
        "match-figure",
        "Every component in every refit",
        "Absolute correlation with the component matched to it. A faint column is a component that is not "
        f"reproducible, a faint row a refit that found another solution.{part}{rest}",
        f"Heat map of {len(shown)} refits by {count(k)} components; {count(int((shown > COMES_BACK).sum()))} of "
        f"{count(shown.size)} correlations exceed {COMES_BACK}.",
        Heatmap(
            tuple(map(tuple, values)),
            tuple(str(index + 1) for index in range(len(shown))),
            tuple(_stretches(edges)),
            ("component", "refit"),
            signed=False,
        ),
    )


def _refit_table(result: Stability) -> Table:
    columns: Forms = {"refit": str, "rows": count, "components": count, "near-Gaussian": count, "converged": str}
    rows = [
        (index, fit.rows, fit.components, fit.gaussian, "yes" if fit.converged else "no")
        for index, fit in enumerate(result.refits, 1)
    ]
    return Table.of("refits", "Every refit", columns, rows, folded=len(rows) > FEW)


def _stretches(edges: Array) -> list[str]:
    """Blocks of components by the first and the last."""
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return [str(first) if end - first == 1 else f"{first}–{end - 1}" for first, end in pairs]
