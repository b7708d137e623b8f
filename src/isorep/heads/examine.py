"""``isorep.heads.examine``: all analyses of one head, or of two heads with their features.

Diversity of each head, the map between two, closeness in distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..representation import Representation, reading_notes
from ..rows import Progress
from ..settings import check_counts, check_seed, check_tolerance
from ..storage import loaded
from ..threads import one_blas_thread
from .closeness import Closeness, closeness
from .diversity import Diversity, diversity
from .head_map import HeadMap, head_map
from .inputs import open_heads, open_rows
from .result import HeadResult, Parts


@one_blas_thread
def examine(
    head: Any,
    other: Any = None,
    *,
    bias: Any = None,
    other_bias: Any = None,
    weights: Any = None,
    features: Any = None,
    other_features: Any = None,
    groups: Any = None,
    join: bool = False,
    reference: int | None = None,
    folds: int = 5,
    intervals: bool = True,
    tolerance: float = 0.01,
    random_state: int = 0,
    family: str = "softmax",
    sets: Any = None,
    progress: Progress | None = None,
) -> Heads:
    """Examine one head or two: diversity, the map that two heads predict, and closeness in distribution.

    Parameters
    ----------
    head, other : (K, M) arrays, Representations or paths
        One head; or two heads of the same classes, the source and the target of the map.
    bias, other_bias : (K,) arrays, optional
        Biases of the two heads.
    weights : (K,) array, optional
        Class frequencies; for other families as in :func:`diversity`.
    features, other_features : (n, M) arrays, Representations or paths, optional
        Features of the same inputs under the two models.
    groups, join, reference, folds, intervals, tolerance, random_state, family, sets, progress
        As for :func:`head_map` and :func:`closeness`.

    Returns
    -------
    Heads

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> f, G, A = rng.normal(size=(100, 3)), rng.normal(size=(8, 3)), rng.normal(size=(3, 3))
    >>> found = isorep.heads.examine(G, G @ np.linalg.inv(A).T, features=f, other_features=f @ A)
    >>> found.holds, found.head_map.agrees, found.closeness.close
    (True, True, True)
    """
    check_counts(folds=(folds, 2))
    check_seed(random_state)
    check_tolerance(tolerance)
    if reference is not None and (other is None or features is None):
        raise InputError("the reference class belongs to log-odds, which need two heads and paired features of both")
    settings: dict[str, Any] = {"weighted": weights is not None, "intervals": bool(intervals)}
    settings |= {"random_state": int(random_state), "family": family}
    kind: dict[str, Any] = {"family": family, "sets": sets}
    if other is None:
        if other_bias is not None or other_features is not None:
            raise InputError("there is one head, so there is nothing for another bias or other features to belong to")
        if join:
            raise InputError("join belongs to the rows of paired features, and there is one head")
        if groups is not None:
            raise InputError("groups say which rows are held out together, and one head holds none out: name two heads")
        alone = diversity(head, weights, bias=bias, features=features, **kind)
        return Heads((alone,), None, None, {"classes": alone.classes.used, **settings})
    if (features is None) != (other_features is None):
        raise InputError("features of one model were given: two heads are compared on paired features of both")
    if groups is not None and features is None:
        raise InputError("groups belong to the rows of features, and there are none")
    if join and features is None:
        raise InputError("join belongs to the rows of paired features, and there are none")
    source, target = open_heads(head, other, bias, other_bias)
    rows: list[Representation | None] = [None, None]
    if features is not None:
        features, other_features = loaded(features, "features"), loaded(other_features, "other features")
        pair = open_rows(features, other_features, ("features", "other features"), groups, join)[0]
        rows = [Representation(values, name=name) for values, name in zip((pair.x, pair.y), pair.names, strict=True)]
    heads = tuple(
        diversity(each.representation, weights, bias=each.bias, features=seen, name=each.name, **kind)
        for each, seen in zip((source, target), rows, strict=True)
    )
    both = (source.representation, target.representation)
    shared: dict[str, Any] = {"groups": groups, "join": join, "intervals": intervals, "random_state": random_state}
    mapped = head_map(
        *both,
        source.bias,
        target.bias,
        weights=weights,
        features=features,
        other_features=other_features,
        folds=folds,
        tolerance=tolerance,
        progress=progress,
        family=family,
        sets=sets,
        **shared,
    )
    near = None
    notes = [] if features is None else reading_notes(features, other_features)
    if features is not None and heads[0].classes.sets > 1:
        notes.append("closeness in distribution is not measured over sets of candidates that are never compared")
    elif features is not None:
        near = closeness(
            features,
            other_features,
            *both,
            source_bias=source.bias,
            target_bias=target.bias,
            reference=reference,
            family=family,
            precisions=weights if family == "gaussian" else None,
            progress=progress,
            **shared,
        )
    settings = {**mapped.settings, "classes": mapped.classes, **settings, "reference": reference, "reading": notes}
    return Heads(heads, mapped, near, settings)


LIMITS = {
    "condition": "the condition number of the worse centred head",
    "differences": "the condition number of the worse head's best differences",
    "kl": "the larger mean Kullback-Leibler divergence, in nats",
    "log_odds": "the log-odds distance, in nats",
    "standardised": "the standardised log-odds distance",
    "error": "the mean error of the head map, in diameters",
    "excess": "the mean error of the head map above the regression's, in diameters",
}


@dataclass(frozen=True, eq=False)
class Heads(HeadResult):
    """Results for one head, or for two heads of the same classes.

    Attributes
    ----------
    heads : tuple of Diversity
        Diversity of each head.
    head_map : HeadMap or None
        The map between two heads.
    closeness : Closeness or None
        Closeness of two heads with paired features.
    settings : dict
    """

    heads: tuple[Diversity, ...]
    head_map: HeadMap | None
    closeness: Closeness | None
    settings: dict[str, Any]

    @property
    def holds(self) -> bool:
        """Whether the theorem applies to every head, and features, where given, confirm the heads' map."""
        borne_out = self.head_map is None or self.head_map.agrees is not False
        return borne_out and all(each.applies for each in self.heads)

    @property
    def parts(self) -> Parts:
        """All there are."""
        return Parts(self.heads, self.head_map, self.closeness)

    @property
    def verdict(self) -> str:
        """One sentence: on the map with paired features, otherwise on diversity."""
        failing = next((each for each in self.heads if not each.applies), self.heads[0])
        if self.head_map is None or (self.head_map.regression is None and not failing.applies):
            return failing.verdict
        return self.head_map.verdict

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of these numbers, as sentences."""
        said: list[str] = list(self.settings.get("reading", ()))
        for part in self.parts.listed:
            named = f"{part.name}: " if isinstance(part, Diversity) and len(self.heads) > 1 else ""
            said.extend(named + each for each in part.caveats)
        return tuple(dict.fromkeys(said))

    def figure(self, name: str) -> float | None:
        """A quantity that a limit may be set on; None where nothing was measured.

        The condition number of a head to which the theorem does not apply is infinite.
        """
        conditions = [each.classes.condition if each.classes.diverse else float("inf") for each in self.heads]
        pairs = [each.classes.pairs for each in self.heads]
        quantities: dict[str, float | None] = {"condition": max(conditions), "differences": max(conditions)}
        if max(conditions) < float("inf"):
            quantities["differences"] = max((each.condition for each in pairs if each is not None), default=None)
        if self.closeness is not None:
            odds = self.closeness.log_odds
            quantities |= {"log_odds": odds.value, "standardised": odds.standardised}
            quantities["kl"] = max(self.closeness.kl.mean, self.closeness.kl_reverse.mean)
        if self.head_map is not None and self.head_map.regression is not None:
            both = self.head_map.regression
            error = both.head.error.mean
            quantities |= {"error": error, "excess": error - both.regression.error.mean}
        return quantities.get(name)
