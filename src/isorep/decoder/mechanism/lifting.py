r"""From local to global: the assumptions of the lifting theorem that a sample can speak against.

The source space is simply connected, every slice (all factors but one fixed) is path-connected, :math:`g` is continuous
and locally injective and :math:`\hat g` is a covering map. A sample never proves any of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform

from ...representation import Array
from ..convexity import convexity
from ..distances import chords
from .result import Check
from .views import View

NOT_FALSIFIED, FALSIFIED, NOT_TESTED = "not falsified", "falsified", "not tested"
_ROWS = 800  # points of a spanning tree
_LEAST = 40  # rows below which nothing is said about connectedness
_ANCHORS = 8  # slices of every factor
_PART = 0.05  # of the points must lie beyond a gap
_GAP = 3.0  # times the length that 95 % of the tree's edges stay below
_GAP_ON_A_LINE = 5.0  # the same in one dimension, where spacings of even points differ more
_SLICES = 3  # of one dimension, of a factor, that must show it
_CELLS = 20_000_000
_COLLISION = 0.01  # of the median least singular value


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

    First as the latents came, which is what is said, then in the units that ``latents`` are in.
    """
    rng = np.random.default_rng(random_state)
    rows = latents[rng.permutation(len(latents))[:_ROWS]].astype(np.float64)
    spread = rows.std(0)
    scaled = rows / np.where(spread > 0, spread, 1.0)
    least = f"The least singular value of the Jacobian is {smallest[0].min():.3g} on the samples."
    lost = f"The Jacobian loses rank at {100 * deficient:.3g} % of the samples, within its error."
    covering = "Whether another decoder is a covering map cannot be seen on a sample; an injective one is."
    checks = {
        "simply connected latents": _domain(latents, scaled, domain, random_state),
        "connected slices": _slices(scaled, blocks, domain, rng),
        "local injectivity": (FALSIFIED, lost) if deficient > 0 else (NOT_FALSIFIED, least),
        "no collisions": _injective(rows, smallest[1], view),
        "covering map": (NOT_TESTED, covering),
    }
    return tuple(Check(name, *found) for name, found in checks.items())


def gap_between(points: Array) -> float | None:
    """The longest edge of the spanning tree between two sizeable parts, in typical edges; None with too few points."""
    if len(points) < _LEAST:
        return None
    tree = minimum_spanning_tree(squareform(pdist(points) + 1e-12)).tocoo()
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
    if gap is not None and gap > _limit(scaled.shape[1]):
        return FALSIFIED, f"The latents fall into parts that lie {gap:.1f} typical distances apart."
    probe = convexity(np.asarray(latents), random_state=random_state)
    if probe is None:
        return NOT_TESTED, "There are too few latents to tell whether their support is in one piece."
    if probe.answer == "holes":
        return NOT_TESTED, "The support is not convex; whether its holes can be filled by a disc was not computed."
    seen = "cannot be told" if probe.answer == "blind" else probe.answer
    return NOT_FALSIFIED, f"The latents are in one piece; holes between them: {seen}."


def _slices(scaled: Array, blocks: Sequence[Array], domain: str | None, rng: np.random.Generator) -> tuple[str, str]:
    if domain == "convex":
        return NOT_FALSIFIED, "Slices of a convex set are convex."
    near = max(_LEAST, len(scaled) // 8)
    if len(blocks) < 2 or len(scaled) < 2 * near:
        return NOT_TESTED, "Slices need two blocks, and more latents than there are."
    worst = 0.0
    for block in blocks:
        gaps = []
        others = np.setdiff1d(np.arange(scaled.shape[1]), block)
        for anchor in rng.choice(len(scaled), _ANCHORS, replace=False):
            distances = np.linalg.norm(scaled[:, others] - scaled[anchor, others], axis=1)
            gaps.append(gap_between(scaled[np.argsort(distances)[:near]][:, block]) or 0.0)
        seen = sorted(gaps)[-_SLICES] if len(block) == 1 else max(gaps)
        if seen > _limit(len(block)):
            worst = max(worst, seen)
    if worst:
        return FALSIFIED, f"A slice falls into parts that lie {worst:.1f} typical distances apart."
    return NOT_FALSIFIED, f"{_ANCHORS * len(blocks)} slices of near latents each are in one piece."


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
