r"""Theorem 3 and A.5 on data: the error between latents and true factors, compared with the bounds.

The process :math:`x=g(u)` is the decoder of the factors: it replaces the second model of Theorem 1. So the stitching
map is :math:`g^{-1}\circ g_\theta`, from latents to factors, and its constant is at most the product of both constants.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm, normaltest, rankdata

from ..alignment import Rigid
from ..alignment.base import summarise
from ..errors import InputError
from ..ica import ICA
from ..representation import Array
from ..rows import Progress, blocks, no_progress
from ..settings import MOST_DRAWS, check_counts, check_seed
from .bound import MEASURED, NOT_CONTRADICTED, NOT_TESTED, VIOLATED, Assumption, Bounds
from .convexity import convexity
from .distances import Chords, Mismatch, chords, ladder, relative_sizes, rescaled, rigid_errors, rms_radius
from .evidence import Evidence, assumptions_of
from .maps import Map, channels_moved, joint_extremes, open_map
from .near_isometry import EQUAL, bounds
from .pair import findings_of
from .prepare import as_latents
from .stitching import balanced
from .structural_result import PERFECT, TITLES, MapSide, Statistical, Structural, Unmixed
from .theorems import conditioning, structural_to_statistical, theorem3

DIMENSIONS = "latents and factors have as many dimensions"
ALONE = "the data are a function of these factors alone"
INDEPENDENT = "the factors are independent"
NON_GAUSSIAN = "at most one factor is Gaussian"
_BLOCK = 256
_IDENTITY = SimpleNamespace(smallest=1.0, largest=1.0)
_PAIRED = 500  # rows whose distances are compared pair by pair
_FEWEST = 10  # rows below which nothing is said about the independence of factors
_RANKED = 5000  # rows that it is asked of, at most
_SHUFFLES = 999
_NOTABLE = 0.1  # rank correlation from which on factors count as dependent
_LEVEL = 0.001  # below it a factor counts as not Gaussian


def structural(
    latents: Any,
    factors: Any,
    *,
    process: Any = None,
    decoder: Any = None,
    observations: Any = None,
    other: Any = None,
    standardise: bool = True,
    samples: int = 200,
    folds: int = 5,
    n_null: int = 20,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Structural:
    r"""Compare the measured error between latents and true factors with the error that Theorem 3 allows.

    A process :math:`x=g(u)` and a decoder that reconstructs the data are tied by :math:`g^{-1}\circ g_\theta`. With
    singular values of the decoder's Jacobians in :math:`[\sigma_1^{\min},\sigma_1^{\max}]` and of the process's in
    :math:`[\sigma_2^{\min},\sigma_2^{\max}]`, distances change by factors from
    :math:`\sigma_1^{\min}/\sigma_2^{\max}` to :math:`\sigma_1^{\max}/\sigma_2^{\min}`, and the bounds of Theorem 1
    follow. Where both Jacobians are known, those of the map itself, :math:`J_g^+J_\theta`, are sharper: a process
    that is not an isometry does no harm if the decoder stretches alike. By A.5 two models within :math:`\epsilon` of
    the factors are within :math:`2\epsilon` of each other.

    Parameters
    ----------
    latents : (n, d) array, tensor, Representation or path
        Latents of the model.
    factors : (n, k) array, tensor, Representation or path
        The true factors of the same rows, one column per factor; for a rendered scene all of its factors, in its units.
    process : optional
        The map from factors to data: a scene of :mod:`isorep.datasets`, an object with ``jacobian``, a torch function
        of a batch, or Jacobians of shape (n, outputs, k). Without one its constants are estimated from neighbours.
    decoder : optional
        The model's decoder, as for :func:`jacobian`, or its Jacobians. Without one, as for the process.
    observations : (n, ...) array, optional
        The data. Needed where a map is estimated from neighbours; reconstructions are compared with them where the
        process has no output of its own.
    other : (n, m) array, optional
        Latents of a second model, for A.5.
    standardise : bool
        Scale the factors to unit variance (default), as the theorem assumes white factors.
    samples : int
        Jacobians are taken at so many rows.
    folds, n_null, random_state, progress
        As for :func:`pair`.

    Returns
    -------
    Structural

    Examples
    --------
    >>> import numpy as np, torch, isorep
    >>> u = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    >>> z = np.arcsinh(0.2 * u) / 0.2  # latents: the factors, a little bent and turned
    >>> found = isorep.decoder.structural(
    ...     z @ turn.numpy(), u, process=lambda v: 1 * v, decoder=lambda z: torch.sinh(0.2 * (z @ turn.T)) / 0.2,
    ...     standardise=False,
    ... )
    >>> found.violated, found.in_sample.rms <= found.bounds["perfect"].rms.value
    (False, True)
    """
    check_counts(folds=(folds, 2), n_null=(n_null, 0, MOST_DRAWS), samples=(samples, 2))
    check_seed(random_state)
    report = progress or no_progress
    model, truth = as_latents(latents, "latents"), as_latents(factors, "factors")
    x, raw = (np.asarray(side.rows(slice(None)), dtype=np.float64) for side in (model, truth))
    data = None if observations is None else _observed(observations, len(raw))
    if not len(x) == len(raw) or len(x) < 3:
        raise InputError(f"there are {len(x)} rows of latents and {len(raw)} of factors: at least 3 pairs are needed")
    made_by = open_map(process, truth, data, "process")
    kept, left_out = made_by.columns(raw)
    y = raw[:, kept]
    spread = y.std(axis=0)
    if not (spread > 0).all():
        raise InputError(f"factor {int(np.flatnonzero(spread == 0)[0])} does not vary: leave it out")
    scale = spread if standardise else np.ones(len(kept))
    y = (y - y.mean(axis=0)) / scale
    decoded_by = open_map(decoder, model, data, "decoder")
    rng = np.random.default_rng(random_state)
    picked = np.sort(rng.choice(len(x), min(len(x), samples), replace=False))
    report("structural", 0, 4)
    last = len(made_by.shape) == 3 and decoded_by.shape == (*made_by.shape[1:], made_by.shape[0]) != made_by.shape
    local = None
    if decoded_by.estimated or made_by.estimated:
        ends = (decoded_by.extremes(picked, x, None), made_by.extremes(picked, y, scale))
    else:
        *both, local = joint_extremes(decoded_by, made_by, picked, scale, channels_last=last)
        ends = (both[0], both[1])
    report("structural", 1, 4)
    outputs = _paired(decoded_by, made_by, data, len(x), last, rng)
    report("structural", 2, 4)
    settings: dict[str, Any] = {"folds": int(folds), "n_null": int(n_null), "random_state": int(random_state)}
    compared = ladder(x, y, ("latents", "factors"), worst_case=True, diameter="auto", **settings)
    unit, certificates = compared.diameter.value, compared.worst_case or {}
    errors = rigid_errors(x, y, unit, folds, random_state)
    report("structural", 3, 4)
    known = [
        Evidence(
            float(np.min(low)),
            float(np.max(high)),
            len(low),
            None if seen is None else chords(values[outputs.rows], seen, eps),
            each.kinks,
            _holes(values),
            each.estimated,
        )
        for each, (low, high), values, seen, eps in zip(
            (decoded_by, made_by), ends, (x, y), outputs.values, outputs.precision, strict=True
        )
    ]
    sizes = relative_sizes(x, y, compared)
    ties = _ties(known, local, outputs.apart, unit, sizes)
    assumptions = (
        *(_perfect(each, decoded_by, made_by, outputs.apart) for each in assumptions_of(known, outputs.apart)),
        *_of_factors(x, y, left_out, random_state),
    )
    rounding = 2 * float(np.finfo(np.float64).eps) * sum(np.abs(side).max() * 8 for side in (x, y)) / unit
    findings = findings_of(ties, compared, errors, assumptions, rounding + _stored(model, x) / unit)
    rigid, linear = (compared.rungs[rung].in_diameters for rung in ("rigid", "linear"))
    largest = certificates["rigid"].upper * unit if certificates else None
    report("structural", 4, 4)
    return Structural(
        process=_side(made_by, known[1], y, compared.diameter.value),
        stitching=None if local is None else (float(local[0].min()), float(local[1].max())),
        decoder=_side(decoded_by, known[0], x, compared.reverse.diameter.value),
        unit=unit,
        rows=len(x),
        held_out=errors.held_out,
        in_sample=errors.in_sample,
        scaled_held_out=rigid.held_out,
        scaled_in_sample=rigid.in_sample,
        linear=linear.held_out,
        null=rigid.null,
        certificate=certificates.get("rigid"),
        scaled_certificate=certificates.get("rigid_with_scale"),
        mismatch=outputs.apart,
        bounds=ties,
        ica=conditioning(x, y, largest, random_state),
        unmixed=_unmixed(x, y, random_state),
        statistical=_statistical(x, y, other, errors, certificates, unit),
        assumptions=assumptions,
        findings=findings,
        caveats=_caveats(decoded_by, made_by, left_out, compared.caveats, len(picked), len(x), x.shape[1], y.shape[1]),
        settings={
            "standardise": bool(standardise),
            "samples": int(samples),
            "scale": scale.tolist(),
            **settings,
        },
    )


def _observed(observations: Any, n: int) -> Array:
    data = np.asarray(as_latents(observations, "observations").rows(slice(None)), dtype=np.float64)
    if len(data) != n:
        raise InputError(f"there are {len(data)} observations and {n} rows of factors")
    return data


def _stored(model: Any, x: Array) -> float:
    """The largest shift of a row due to the precision of the latents."""
    kind = np.dtype(model.values.dtype)
    return 2 * float(np.finfo(kind).eps) * float(np.linalg.norm(x, axis=1).max()) if kind.kind == "f" else 0.0


def _holes(values: Array) -> str:
    probe = convexity(values)
    return "blind" if probe is None else probe.answer


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of decoder and process at some rows, where known, and the mismatch of all of them."""

    rows: Array
    values: tuple[Array | None, Array | None]
    precision: tuple[float, float]
    apart: Mismatch | None


def _paired(decoder: Map, process: Map, data: Array | None, n: int, last: bool, rng: np.random.Generator) -> Outputs:
    """Reconstructions and data, all rows in blocks; the data are the output of the process, if it has one."""
    rows = np.sort(rng.choice(n, min(n, _PAIRED), replace=False))
    kept: tuple[list[Array], list[Array]] = ([], [])
    norms, sizes = [], []
    known = [decoder.decodes, process.decodes or data is not None]
    for part in blocks(n, _BLOCK):
        here = np.arange(part.start, part.stop)
        made = process.outputs(here) if process.decodes else None if data is None else data[here]
        if made is not None and last:
            made = channels_moved(made, process.shape, 0, -1)
        pair = [decoder.outputs(here) if decoder.decodes else None, made]
        for block, chosen in zip(pair, kept, strict=True):
            if block is not None:
                chosen.append(block[np.isin(here, rows)])
        if pair[0] is not None and pair[1] is not None:
            if pair[0].shape != pair[1].shape:
                raise InputError(
                    f"the decoder puts out {pair[0].shape[1]} numbers per row, and the data have {pair[1].shape[1]}"
                )
            norms.append(np.linalg.norm(pair[0] - pair[1], axis=1))
            sizes.append(pair[1])
    values = tuple(np.concatenate(each) if each else None for each in kept)
    if data is not None and not decoder.decodes and decoder.estimated:
        values = (data[rows], values[1])  # neighbours of latents were compared by the data
    apart = None
    if all(known) and norms:
        every = np.concatenate(norms)
        apart = Mismatch(float(every.max()), float(np.sqrt((every**2).mean())), rms_radius(np.concatenate(sizes)))
    return Outputs(rows, (values[0], values[1]), (decoder.eps, process.eps), apart)


def _ties(
    known: list[Evidence],
    local: tuple[Array, Array] | None,
    apart: Mismatch | None,
    unit: float,
    sizes: dict[str, Any],
) -> dict[str, Bounds]:
    """The bounds by their source; the assumption of equal outputs is that of perfect reconstruction."""
    first, second = known
    differ: dict[str, Any] = {}
    if apart is not None:
        differ = {"mismatch": apart.largest / unit, "mismatch_rms": apart.rms / unit}
    ties = {"perfect": bounds(first, second, **sizes)}
    if apart is not None:
        ties["with_mismatch"] = bounds(first, second, **differ, **sizes)
        pair = [side.chords for side in known]
        if all(each is not None and each.pairs for each in pair):
            ties["chords"] = bounds(pair[0], pair[1], **differ, **sizes)
    if (found := balanced(first, second)) is not None:
        ties["scaled"] = bounds(found[0], second, **differ, **rescaled(sizes, found[1]))
    if local is not None:
        map_itself = SimpleNamespace(smallest=local[0], largest=local[1])
        ties["stitched"] = bounds(map_itself, _IDENTITY, **sizes)
        if (found := balanced(map_itself, _IDENTITY)) is not None:
            ties["stitched_scaled"] = bounds(found[0], _IDENTITY, **rescaled(sizes, found[1]))
    constants = [max(side.largest, 1 / side.smallest if side.smallest > 0 else math.inf) for side in known]
    ties["printed"] = theorem3(process=max(constants[1], 1.0), model=max(constants[0], 1.0), **sizes)
    return {source: _renamed(ties[source]) for source in TITLES if source in ties}


def _renamed(tie: Bounds) -> Bounds:
    entries = tuple(
        replace(
            bound,
            name="theorem_3" if bound.name == "theorem_1" else bound.name,
            assumptions=tuple(
                replace(each, text=PERFECT) if each.text == EQUAL else each for each in bound.assumptions
            ),
        )
        for bound in tie.entries
    )
    return replace(tie, entries=entries)


def _perfect(each: Assumption, decoder: Map, process: Map, apart: Mismatch | None) -> Assumption:
    """Equal outputs are perfect reconstruction; without a decoder nothing was reconstructed."""
    if each.text != EQUAL:
        return each
    if apart is None:
        missing = "data" if decoder.decodes else "reconstructions"
        return Assumption(PERFECT, NOT_TESTED, f"there are no {missing} to compare")
    said = f"reconstructions differ by {apart.rms:.3g} (RMS), {apart.share:.2g} of the data's spread"
    return Assumption(PERFECT, each.status, said)


def _of_factors(x: Array, y: Array, left_out: tuple[str, ...], seed: int) -> Iterator[Assumption]:
    """The assumptions of Theorem 3 on the factors."""
    same = x.shape[1] == y.shape[1]
    yield Assumption(DIMENSIONS, MEASURED if same else VIOLATED, f"{x.shape[1]} and {y.shape[1]}")
    said = f"they also depend on {', '.join(left_out)}" if left_out else ""
    yield Assumption(ALONE, VIOLATED if left_out else NOT_TESTED, said)
    rng = np.random.default_rng(seed)
    yield _independent(y if len(y) <= _RANKED else y[rng.choice(len(y), _RANKED, replace=False)], rng)
    alike = sum(bool(normaltest(column).pvalue > _LEVEL) for column in y.T) if len(y) >= 20 else y.shape[1]
    said = f"{alike} of {y.shape[1]} factors indistinguishable from Gaussian"
    yield Assumption(NON_GAUSSIAN, MEASURED if alike < 2 else NOT_TESTED, said)


def _independent(y: Array, rng: np.random.Generator) -> Assumption:
    """Independence, from rank correlations of the factors and of their distances from the median.

    A test alone would call true independence violated in its level's share of all samples, and the slightest dependence
    violated in large ones. So a violation has to be significant and large: more than in all of 999 shuffles, whose
    largest correlation accounts for the number of pairs. The interval is for the largest of all, from Fisher's
    transformation.
    """
    n, width = y.shape
    if width == 1:
        return Assumption(INDEPENDENT, MEASURED, "there is one factor")
    if n < _FEWEST:
        return Assumption(INDEPENDENT, NOT_TESTED, f"{n} rows are too few")
    ranks = np.stack([rankdata(side, axis=0) for side in (y, np.abs(y - np.median(y, axis=0)))])
    found = _dependence(ranks)
    reach = 1.03 / math.sqrt(n - 3) * float(norm.isf(0.025 / (width * (width - 1))))  # for ranks, Fieller et al. 1957
    middle = math.atanh(min(found, 1 - 1e-12))
    low, high = (math.tanh(max(middle + side * reach, 0.0)) for side in (-1, 1))
    violated = found >= _NOTABLE and all(
        _dependence(np.take_along_axis(ranks, rng.random((1, n, width)).argsort(axis=1), axis=1)) < found
        for _ in range(_SHUFFLES)
    )
    said = (
        "largest rank correlation of two factors, or of their distances from the median, "
        f"{found:.2g} (95% interval {low:.2g} to {high:.2g})"
    )
    return Assumption(INDEPENDENT, VIOLATED if violated else NOT_CONTRADICTED, said)


def _dependence(ranks: Array) -> float:
    """The largest correlation of two columns in either of two tables; constant columns have none."""
    off = ~np.eye(ranks.shape[2], dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(max(np.abs(np.nan_to_num(np.corrcoef(side, rowvar=False)))[off].max() for side in ranks))


def _side(each: Map, known: Evidence, values: Array, diameter: float) -> MapSide:
    seen: Chords | None = known.chords
    return MapSide(
        name=each.name,
        how=each.how,
        estimated=bool(each.estimated),
        rows=known.rows,
        inputs=values.shape[1],
        outputs=each.width,
        smallest=known.smallest,
        largest=known.largest,
        chord_smallest=None if seen is None else seen.smallest,
        chord_largest=None if seen is None else seen.largest,
        diameter=float(diameter),
    )


def _unmixed(x: Array, y: Array, seed: int) -> Unmixed | None:
    """Latents after whitening and ICA: the correlation of each factor with its matched component."""
    if min(x.shape[1], y.shape[1]) < 2 or len(x) < 10 * x.shape[1]:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        sources = ICA(random_state=seed).fit(x).transform(x)
    cross = np.abs(
        np.corrcoef(np.concatenate([sources, y], axis=1), rowvar=False)[: sources.shape[1], sources.shape[1] :]
    )
    cross = np.nan_to_num(cross)
    rows, columns = linear_sum_assignment(-cross)
    matched = np.zeros(y.shape[1])
    matched[columns] = cross[rows, columns]
    return Unmixed(sources.shape[1], tuple(matched.tolist()))


def _statistical(x: Array, y: Array, other: Any, errors: Any, certificates: dict[str, Any], unit: float) -> Statistical:
    """A.5: two models as near to the factors as this one, or this one and another."""
    largest = certificates["rigid"].upper if certificates else errors.in_sample.sup
    bound = structural_to_statistical(largest)
    rms = 2 * errors.in_sample.rms
    if other is None:
        return Statistical(bound, rms, None, None)
    second = np.asarray(as_latents(other, "other").rows(slice(None)), dtype=np.float64)
    if len(second) != len(x):
        raise InputError(f"there are {len(second)} rows of the other latents and {len(x)} of these")
    theirs = summarise(Rigid(scale=False).fit(second, y).residuals(second, y), unit)
    between = summarise(Rigid(scale=False).fit(second, x).residuals(second, x), unit)
    return Statistical(bound, errors.in_sample.rms + theirs.rms, theirs, between)


def _caveats(
    decoder: Map,
    process: Map,
    left_out: tuple[str, ...],
    compared: tuple[str, ...],
    picked: int,
    rows: int,
    latents: int,
    factors: int,
) -> tuple[str, ...]:
    said = [
        f"the {each.name}'s constants are {each.estimated}: they are neither upper nor lower bounds, and nor are the "
        "bounds derived from them"
        for each in (decoder, process)
        if each.estimated
    ]
    if left_out:
        said.append(f"left out, as they have no derivative: {', '.join(left_out)}")
    if latents != factors:
        said.append(
            f"there are {latents} latents and {factors} factors, so Theorem 3 cannot apply: errors and bounds are "
            "those of the padded clouds"
        )
    if picked < rows:
        said.append(f"singular values were computed at {picked} of {rows} rows: elsewhere they may be more extreme")
    return tuple(dict.fromkeys((*said, *compared)))
