"""``isorep.heads.examine``: everything that one head, or two with their features, can be asked."""

from __future__ import annotations

from typing import Any

from ..comparison.settings import check_counts, check_seed, check_tolerance, loaded
from ..errors import InputError
from ..representation import reading_notes
from ..rows import Progress, no_progress
from .closeness import closeness
from .diversity import diversity_of
from .inputs import checked_weights, joined, open_head, open_heads
from .maps import map_of
from .regression import Asked
from .result import Heads


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
    progress: Progress | None = None,
) -> Heads:
    """The diversity of one head or two, the map that two heads predict, and closeness in distribution.

    Parameters
    ----------
    head, other : (K, M) arrays, Representations or paths
        One head; or two heads of the same classes, the source and the target of the map.
    bias, other_bias : (K,) arrays, optional
        Of the two heads.
    weights : (K,) array, optional
        Class frequencies.
    features, other_features : (n, M) arrays, Representations or paths, optional
        Features of the same inputs under the two models.
    groups, join, reference, folds, intervals, tolerance, random_state, progress
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
    report = progress or no_progress
    if reference is not None and (other is None or features is None):
        raise InputError("the reference class belongs to log-odds, which need two heads and paired features of both")
    if other is None:
        if other_bias is not None or other_features is not None:
            raise InputError("there is one head, so there is nothing for another bias or other features to belong to")
        if join:
            raise InputError("join belongs to the rows of paired features, and there is one head")
        if groups is not None:
            raise InputError("groups say which rows are held out together, and one head holds none out: name two heads")
        source = open_head(head, bias, "head")
        found = diversity_of(source, checked_weights(weights, source.classes), features)
        return Heads((found,), None, None, _settings(found.classes.used, weights, intervals, random_state))
    if (features is None) != (other_features is None):
        raise InputError("features of one model were given: two heads are compared on paired features of both")
    if groups is not None and features is None:
        raise InputError("groups belong to the rows of features, and there are none")
    if join and features is None:
        raise InputError("join belongs to the rows of paired features, and there are none")
    source, target = open_heads(head, other, bias, other_bias)
    shares = checked_weights(weights, source.classes)
    note = None
    if join:
        features, other_features, groups, note = joined(features, other_features, groups)
    here = None if features is None else loaded(features, "features")
    there = None if other_features is None else loaded(other_features, "other features")
    heads = diversity_of(source, shares, here), diversity_of(target, shares, there)
    asked = Asked(groups, folds, intervals, random_state, tolerance, report)
    mapped = map_of(source, target, shares, here, there, asked, note)
    near = None
    if here is not None:
        near = closeness(
            here,
            there,
            source.representation,
            target.representation,
            source_bias=source.bias,
            target_bias=target.bias,
            reference=reference,
            groups=groups,
            intervals=intervals,
            random_state=random_state,
            progress=report,
        )
    settings = _settings(mapped.classes, weights, intervals, random_state)
    files = [each for each in (here, there) if each is not None]
    settings |= {"reference": reference, "reading": reading_notes(*files)}
    return Heads(heads, mapped, near, {**mapped.settings, **settings})


def _settings(classes: int, weights: Any, intervals: bool, seed: int) -> dict[str, Any]:
    return {
        "classes": classes,
        "weighted": weights is not None,
        "intervals": bool(intervals),
        "random_state": int(seed),
    }
