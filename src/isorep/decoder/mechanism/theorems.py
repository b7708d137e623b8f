r"""Identifiability theorems: the hierarchy of the criteria, which theorem applies, and from local to global.

Lifting from local to global: the assumptions that a sample can falsify.
The source space is simply connected, every slice (all factors but one fixed) is path-connected, :math:`g` is continuous
and locally injective and :math:`\hat g` is a covering map. A sample cannot prove any of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform

from ...representation import Array
from ..convexity import convexity
from ..distances import chords
from .result import FAILS, HOLDS, UNDECIDED, Check, Criterion, Evidence, Implication, SparsityCondition, Theorem, symbol
from .views import View

NOT_FALSIFIED, FALSIFIED, NOT_TESTED = "not falsified", "falsified", "not tested"
_ROWS = 800  # points of a spanning tree
_LEAST = 40  # rows below which connectedness is not tested
_ANCHORS = 8  # slices of every factor
_PART = 0.05  # of the points must lie beyond a gap
_GAP = 3.0  # times the 95% quantile of the lengths of the tree's edges
_GAP_ON_A_LINE = 5.0  # the same in one dimension, where spacings of even points differ more
_SLICES = 3  # of one dimension, of a factor, that must show it
_CELLS = 20_000_000
_COLLISION = 0.01  # of the median least singular value
NAMES = {name: f"Type {symbol(name)}" for name in ("D", "M", "S", "H2", "H3", "H4", "H5", "H6")}
STEPS = (("D", "M"), ("D", "S"), ("D", "H2"), *((f"H{order}", f"H{order + 1}") for order in range(2, 6)))
IMPLIED = "implied by Type D"


def checked_hierarchy(
    criteria: dict[str, Criterion], full_rank: bool
) -> tuple[dict[str, Criterion], tuple[Implication, ...]]:
    """D implies M, S and H₂, and Hₙ implies Hₙ₊₁. Contradictions are set to undecided, and reported.

    Where D holds at all samples at a tolerance, M and S that were undecided there hold.
    """
    steps = []
    for premise, conclusion in STEPS:
        if premise in criteria and conclusion in criteria:
            criteria, step = _checked(criteria, premise, conclusion, full_rank)
            steps.append(step)
    if full_rank and "D" in criteria:
        holding = {level.tolerance for level in criteria["D"].levels if level.state == HOLDS}
        for name in {"M", "S"} & set(criteria):
            criteria = {**criteria, name: _implied(criteria[name], holding)}
    return criteria, tuple(steps)


def _implied(criterion: Criterion, tolerances: set[float]) -> Criterion:
    """The criterion with levels that were undecided set to hold at these tolerances."""
    ways = []
    for way in criterion.evidence:
        levels = tuple(
            replace(each, state=HOLDS, share=1.0, decided=1.0, method=IMPLIED, note="")
            if each.tolerance in tolerances and each.state == UNDECIDED
            else each
            for each in way.levels
        )
        open_ends = any(each.state == UNDECIDED for each in levels)
        ways.append(replace(way, levels=levels, note=way.note if open_ends else ""))
    return replace(criterion, evidence=tuple(ways))


def theorem(
    criterion: Criterion, full_rank: bool, sparsity: Sequence[SparsityCondition], lifting: Sequence[Check], blocks: int
) -> Theorem:
    """Whether every assumption that a sample can show was found, at which tolerances, and a sentence about it.

    The criterion must hold at every tolerance that decides, and the rest at more than half of the tolerances.
    """
    always = [] if blocks > 1 else ["two blocks: with one there is nothing to separate"]
    always += [] if full_rank else ["a Jacobian of full rank at every sample"]
    lacking = []
    for index, tolerance in enumerate(dict.fromkeys(level.tolerance for level in criterion.levels)):
        missing, ends = _lacking(criterion, index, tolerance, sparsity)
        lacking.append((tolerance, always + missing, ends))
    applies_at = tuple(tolerance for tolerance, missing, ends in lacking if not missing and not ends)
    name = NAMES[criterion.name]
    if criterion.state == HOLDS and 2 * len(applies_at) > len(lacking):
        return Theorem(criterion.name, True, applies_at, (), _found_sentence(name, applies_at, len(lacking), lifting))
    if not lacking:
        return Theorem(criterion.name, None, (), ("any sample",), f"The {name} theorem could not be tested.")
    short = [each for each in lacking if each[1] or each[2]]
    tolerance, missing, ends = min(short, key=lambda each: (len(each[1]), len(each[2])))
    if applies_at:
        found = ", ".join(f"{each:g}" for each in applies_at)
        said = (
            f"Whether the {name} theorem applies depends on the tolerance: its assumptions were found at {found}, and "
            f"not at {tolerance:g}: {_told(missing, ends)}."
        )
        return Theorem(criterion.name, None, applies_at, (*missing, *ends), said)
    if missing or criterion.state == FAILS:
        if not missing:  # it fails where it is decided
            tolerance, missing, ends = next(each for each in lacking if each[1])
        said = f"The {name} theorem does not apply; missing at {tolerance:g}: {_told(missing, ends)}."
    else:
        said = f"Whether the {name} theorem applies is open; undecided at {tolerance:g}: {'; '.join(ends)}."
    return Theorem(criterion.name, False if missing else None, (), (*missing, *ends), said)


def _told(missing: Sequence[str], ends: Sequence[str]) -> str:
    """Missing assumptions, and separately the open ones."""
    return "; ".join([*missing, *([f"open: {'; '.join(ends)}"] if ends else [])])


def _lacking(
    criterion: Criterion, index: int, tolerance: float, sparsity: Sequence[SparsityCondition]
) -> tuple[list[str], list[str]]:
    """Missing and open assumptions at one tolerance."""
    missing, ends = [], []
    states = [way.levels[index].state for way in criterion.evidence if way.levels]
    if FAILS in states:
        missing.append(f"{NAMES[criterion.name]} independence itself")
    elif not states or UNDECIDED in states:
        ends.append(f"{NAMES[criterion.name]} independence (undecided)")
    for good, parts in (("irreducible", criterion.irreducible), ("separable", criterion.separable)):
        for state in dict.fromkeys(part.states[index] for part in parts if part.states[index] != good):
            named = [str(part.block) for part in parts if part.states[index] == state]
            blocks = f"block {named[0]}" if len(named) == 1 else f"blocks {', '.join(named)}"
            is_open = state in ("undecided", "not tested")
            if criterion.name == "M" and state == "reducible":  # only blocks of several dimensions are
                is_open, state = True, "reducible under our reading of Type M for several dimensions"
            (ends if is_open else missing).append(f"{good} {blocks} ({state})")
    if criterion.name == "M":
        here = next((each for each in sparsity if each.tolerance == tolerance), None)
        if here is None:
            ends.append("the sparsity condition, which needs a reference decoder")
        elif here.share < 1:
            missing.append("the sparsity condition: this Jacobian has more nonzeros than the reference's")
    return missing, ends


def _found_sentence(name: str, applies_at: Sequence[float], levels: int, lifting: Sequence[Check]) -> str:
    where = "" if len(applies_at) == levels else f" (at tolerances {', '.join(f'{each:g}' for each in applies_at)})"
    checks = [
        f"{state}: {', '.join(check.name for check in lifting if check.state == state) or 'none'}"
        for state in ("falsified", "not tested")
    ]
    return (
        f"Every assumption of the {name} theorem that a sample can show was found{where}: locally, another decoder of "
        "the same kind with the same outputs has the same blocks, each up to a map of its own; globally under the "
        f"assumptions of the lifting theorem ({'; '.join(checks) if lifting else 'not tested'})."
    )


def _checked(
    criteria: dict[str, Criterion], premise: str, conclusion: str, full_rank: bool
) -> tuple[dict[str, Criterion], Implication]:
    words = NAMES[premise], NAMES[conclusion]
    if premise == "D" and conclusion in "MS" and not full_rank:
        said = "Some Jacobian does not have full rank, and a direction that moves nothing has an empty support."
        return criteria, Implication(premise, conclusion, "not applicable", said)
    step = Implication(premise, conclusion, "agrees", f"{words[0]} implies {words[1]}: nothing contradicts it.")
    for way, other, tolerance in _contradictions(criteria[premise], criteria[conclusion]):
        if premise == "H2" and way.method != other.method:
            continue  # derivatives imply derivatives, swaps swaps
        if premise == "D" and other.method == "swaps":
            said = (
                f"Type D holds at every sample at {tolerance:g}, but blocks interact over finite steps: outputs belong "
                "to different blocks at different samples, as under occlusion."
            )
            step = Implication(premise, conclusion, "local only", said)
            continue
        said = (
            f"{words[0]} holds and {words[1]} fails at {tolerance:g}: numerical indecision. This is impossible with "
            "exact zeros, but possible with small numbers. Both are set to undecided there."
        )
        first = _withdrawn(criteria[premise], tolerance, way.method, said)
        second = _withdrawn(criteria[conclusion], tolerance, other.method, said)
        step = Implication(premise, conclusion, "numerical indecision", said)
        return {**criteria, premise: first, conclusion: second}, step
    return criteria, step


def _contradictions(premise: Criterion, conclusion: Criterion) -> Iterator[tuple[Evidence, Evidence, float]]:
    """The ways by which one criterion holds and the other fails, and at which tolerance."""
    for way, other in product(premise.evidence, conclusion.evidence):
        holding = {level.tolerance for level in way.levels if level.state == HOLDS}
        for level in other.levels:
            if level.state == FAILS and level.tolerance in holding:
                yield way, other, level.tolerance


def _withdrawn(criterion: Criterion, tolerance: float, method: str, reason: str) -> Criterion:
    """The criterion with one level set to undecided, and why."""
    ways = []
    for evidence in criterion.evidence:
        undecided = {tolerance} if evidence.method == method else set()
        levels = [
            replace(each, state=UNDECIDED, note=reason) if each.tolerance in undecided else each
            for each in evidence.levels
        ]
        ways.append(replace(evidence, levels=tuple(levels)))
    return replace(criterion, evidence=tuple(ways))


def lifting_checks(
    latents: Array,
    blocks: Sequence[Array],
    smallest: tuple[Array, Array],
    deficient: float,
    view: View | None,
    domain: str | None,
    random_state: int,
) -> tuple[Check, ...]:
    """All checks; ``smallest`` holds the least singular value of the Jacobian at each sample.

    First for the latents as given, which are reported, then in the units of ``latents``.
    """
    rng = np.random.default_rng(random_state)
    rows = latents[rng.permutation(len(latents))[:_ROWS]].astype(np.float64)
    spread = rows.std(0)
    scaled = rows / np.where(spread > 0, spread, 1.0)
    least = f"The least singular value of the Jacobian is {smallest[0].min():.3g} on the samples."
    lost = f"The Jacobian loses rank at {100 * deficient:.3g}% of the samples, within its error."
    covering = "A sample cannot show whether another decoder is a covering map; an injective one is."
    checks = {
        "simply connected latents": _domain(latents, scaled, domain, random_state),
        "connected slices": _slices(scaled, blocks, domain, rng),
        "local injectivity": (FALSIFIED, lost) if deficient > 0 else (NOT_FALSIFIED, least),
        "no collisions": _injective(rows, smallest[1], view),
        "covering map": (NOT_TESTED, covering),
    }
    return tuple(Check(name, *found) for name, found in checks.items())


def gap_between(points: Array) -> float | None:
    """The longest edge of the spanning tree between two sizeable parts, in typical edges.

    None with too few different points, unless there is a single one, which is connected.
    """
    if len(points) < _LEAST:
        return None
    distances = pdist(points)
    if not (longest := distances.max()) > 0:
        return 0.0
    if len(np.unique(points, axis=0)) < _LEAST:
        return None
    tree = minimum_spanning_tree(squareform(distances / longest)).tocoo()  # edges of equal points are none to it
    typical = float(np.quantile(tree.data, 0.95))
    largest = 0.0
    for place in np.argsort(tree.data)[::-1][:10]:
        lengths = np.where(np.arange(len(tree.data)) == place, 0.0, tree.data)
        cut = coo_array((lengths, (tree.row, tree.col)), shape=tree.shape)
        cut.eliminate_zeros()
        sizes = np.bincount(connected_components(cut, directed=False)[1])
        if sizes.min() >= _PART * len(points):
            largest = max(largest, float(tree.data[place]) / typical)
    return largest


def _domain(latents: Array, scaled: Array, domain: str | None, random_state: int) -> tuple[str, str]:
    if domain == "convex":
        return NOT_FALSIFIED, "The latents' support was given as convex, and convex sets are simply connected."
    gap = gap_between(scaled)
    few = NOT_TESTED, "There are too few different latents to test whether their support is connected."
    if gap is None:
        return few
    if gap > _limit(scaled.shape[1]):
        return FALSIFIED, f"The latents fall into parts that lie {gap:.1f} typical distances apart."
    probe = convexity(np.asarray(latents), random_state=random_state)
    if probe is None:
        return few
    if probe.answer == "holes":
        return NOT_TESTED, "The support is not convex; whether its holes can be filled by a disc was not computed."
    seen = "not determined" if probe.answer == "blind" else probe.answer
    return NOT_FALSIFIED, f"The latents are connected; holes between them: {seen}."


def _slices(scaled: Array, blocks: Sequence[Array], domain: str | None, rng: np.random.Generator) -> tuple[str, str]:
    if domain == "convex":
        return NOT_FALSIFIED, "Slices of a convex set are convex."
    near = max(_LEAST, len(scaled) // 8)
    if len(blocks) < 2 or len(scaled) < 2 * near or (scaled == scaled[0]).all():
        return NOT_TESTED, "Slices need two blocks, and more different latents than there are."
    worst, unseen = 0.0, 0
    for block in blocks:
        gaps = []
        others = np.setdiff1d(np.arange(scaled.shape[1]), block)
        for anchor in rng.choice(len(scaled), _ANCHORS, replace=False):
            distances = np.linalg.norm(scaled[:, others] - scaled[anchor, others], axis=1)
            gap = gap_between(scaled[np.argsort(distances)[:near]][:, block])
            unseen += gap is None
            gaps.append(gap or 0.0)
        seen = sorted(gaps)[-_SLICES] if len(block) == 1 else max(gaps)
        if seen > _limit(len(block)):
            worst = max(worst, seen)
    if worst:
        return FALSIFIED, f"A slice falls into parts that lie {worst:.1f} typical distances apart."
    slices = _ANCHORS * len(blocks)
    if unseen:
        return NOT_TESTED, f"{unseen} of {slices} slices have too few different latents to be tested."
    return NOT_FALSIFIED, f"{slices} slices of near latents are connected."


def _limit(dimension: int) -> float:
    return _GAP_ON_A_LINE if dimension == 1 else _GAP


def _injective(rows: Array, smallest: Array, view: View | None) -> tuple[str, str]:
    if view is None:
        return NOT_TESTED, "Collisions need the decoder itself."
    rows = rows[: max(2, _CELLS // view.width)]
    if len(rows) < 2:
        return NOT_TESTED, "Collisions need two latents."
    seen = chords(rows, view.outputs(rows))
    if seen.pairs and seen.smallest <= _COLLISION * float(np.median(smallest)):
        return FALSIFIED, f"Distant latents have nearly the same output: their distances shrink to {seen.smallest:.3g}."
    return NOT_FALSIFIED, f"No two of {len(rows)} latents share an output."
