"""``isorep.heads.diversity``: does the theorem on linear identifiability apply to a head, and by what margin?"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..moments import require_memory
from ..representation import Array, Representation
from .diversity_result import ClassDiversity, Diversity, FeatureDiversity, Pairs
from .inputs import Head, checked_weights, count_distinct, open_features, open_head
from .selection import best_differences
from .spectra import Spectrum, spectrum

_SHOWN = 512  # singular values and pairs that a result keeps


def diversity(
    G: Any,
    weights: Any = None,
    *,
    bias: Any = None,
    features: Any = None,
    name: str = "head",
) -> Diversity:
    r"""Does the diversity condition of Roeder et al. (2021) hold for a head, and by what margin?

    In :math:`p(y|x)\propto\exp(f(x)^\top g(y)+b(y))` two models with the same distribution have features that are
    linear images of each other if :math:`M` differences :math:`g(y_A)-g(y_B)` are linearly independent. All differences
    span the row space of the class-centred head :math:`G_c`, so that

    .. math:: \operatorname{rank}G_c=M,\qquad\text{which needs}\qquad K\ge M+1 \text{ distinct classes},

    and :math:`\kappa(G_c)` and :math:`\kappa(L)` of the best :math:`M` differences say how nearly it fails. The second
    condition is on the features: without biases :math:`f(x)` must span the space as it is, with biases about its mean.

    Parameters
    ----------
    G : (K, M) array, Representation or path
        The embeddings of the classes, one row a class. Rows are taken as they are, never sampled.
    weights : (K,) array, optional
        Class frequencies, as counts or shares. Classes that never occur are left out, and the covariance
        :math:`\operatorname{Cov}_{y\sim p(y)}g(y)` is taken with these weights.
    bias : (K,) array, optional
        Only whether there is one matters here: it decides which condition the features have to meet.
    features : (n, M) array, Representation or path, optional
        Features of data, read in blocks: their rank about the mean and about zero, and the effective dimension.
    name : str
        What to call the head.

    Returns
    -------
    Diversity

    References
    ----------
    .. [1] Roeder, G., Metz, L., Kingma, D. P. (2021). On linear identifiability of learned representations. ICML.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> G = np.random.default_rng(0).normal(size=(10, 4))
    >>> found = isorep.heads.diversity(G)
    >>> found.applies, found.classes.rank
    (True, 4)
    >>> isorep.heads.diversity(G[:4]).applies  # 4 classes span 3 dimensions
    False
    """
    head = open_head(G, bias, name)
    return diversity_of(head, checked_weights(weights, head.classes), features)


def diversity_of(head: Head, shares: Array | None, features: Any) -> Diversity:
    """The diversity of a head that is open."""
    require_memory(head.width, 0, 1)
    seen = None if shares is None else np.flatnonzero(shares > 0)
    used = head.chosen(seen) if seen is not None and len(seen) < head.classes else head
    found = spectrum(used.values, used.name)
    classes = _classes(used, found, head.classes)
    weighted = None
    if shares is not None and seen is not None:
        weighted = spectrum(used.values, used.name, weights=shares[seen])
    inputs = None if features is None else _features(open_features(features, head.width, "features", head.name), found)
    return Diversity(
        name=head.name,
        classes=classes,
        weighted_rank=None if weighted is None else weighted.rank,
        weighted_condition=None if weighted is None else weighted.condition,
        weighted_spectrum=None if weighted is None else _shown(weighted),
        features=inputs,
        biased=head.bias is not None,
        dtype=str(head.values.dtype),
    )


def _classes(head: Head, found: Spectrum, stored: int) -> ClassDiversity:
    distinct = count_distinct(head.values)
    chosen = best_differences(head.values, found)
    pairs = None
    if chosen is not None:
        named = tuple((head.label(int(a)), head.label(int(b))) for a, b in chosen.pairs[:_SHOWN])
        pairs = Pairs(named, chosen.condition, chosen.pivoted_condition, chosen.exchanged)
    return ClassDiversity(
        stored=stored,
        used=head.classes,
        distinct=distinct,
        width=head.width,
        rank=found.rank,
        condition=found.condition,
        constant_columns=int(found.constant.sum()),
        spectrum=_shown(found),
        participation=found.participation,
        pairs=pairs,
    )


def _features(data: Representation, head: Spectrum) -> FeatureDiversity:
    """The second condition, and the dimension that classes can see of the features."""
    name = data.name or "features"
    if len(data) < 2:
        raise InputError(f"{name} has {len(data)} row: at least 2 are needed")
    about_mean = spectrum(data.values, name)
    about_zero = spectrum(data.values, name, centred=False)
    return FeatureDiversity(
        name=name,
        rows=len(data),
        width=data.shape[1],
        rank=about_mean.rank,
        condition=about_mean.condition,
        rank_about_zero=about_zero.rank,
        condition_about_zero=about_zero.condition,
        spectrum=_shown(about_mean),
        effective_dimension=effective_dimension(about_mean, head),
        seen_share=seen_share(about_mean, head),
    )


def effective_dimension(features: Spectrum, head: Spectrum) -> int:
    r"""The rank of :math:`P_{\mathcal G}(f-\bar f)` with :math:`\mathcal G=\operatorname{span}\{g-g_0\}`."""
    overlap = np.linalg.svd(features.axes.T @ head.axes, compute_uv=False)
    return int((overlap > max(features.resolution, head.resolution)).sum())


def seen_share(features: Spectrum, head: Spectrum) -> float:
    """The share of the features' variance that lies in the span of the classes' differences."""
    total = float((features.singular_values**2).sum())
    kept = float(((features.singular_values[:, None] * (features.axes.T @ head.axes)) ** 2).sum())
    return min(kept / total, 1.0) if total > 0 else 0.0


def _shown(found: Spectrum) -> tuple[float, ...]:
    return tuple(found.singular_values[:_SHOWN].tolist())
