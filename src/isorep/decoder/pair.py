"""Theorem 1 on two decoders and their latents: measured errors compared with the bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.spatial.distance import pdist

from ..alignment.base import Error
from ..comparison import Comparison, WorstCase
from ..errors import InputError
from ..representation import Array, Representation, match_rows
from ..resampling import Null
from ..results import Record, ResultRecord, aligned, told, wrapped
from ..rows import Progress
from ..settings import MOST_DRAWS, check_counts, check_seed
from .bilipschitz import bilipschitz
from .bound import VIOLATED, Assumption, Bounds, Finding, error_rows, held_against, plot_errors, shown
from .distances import (
    Chords,
    Mismatch,
    RigidErrors,
    chords,
    ladder,
    paired_outputs,
    relative_sizes,
    rescaled,
    rigid_errors,
)
from .evidence import Evidence, assumptions_of
from .geometry import Geometry
from .near_isometry import bounds
from .prepare import Latents, as_latents
from .stitching import balanced
from .theorems import Conditioning, conditioning

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIRED_ROWS = 1000
"""Rows whose distances are compared pair by pair."""
TITLES = {
    "equal_outputs": "decoders, equal outputs",
    "with_mismatch": "decoders, with the mismatch",
    "chords": "chords, with the mismatch",
    "defect": "measured defect",
    "mean": "mean singular values (no bound)",
    "scaled": "decoders, one scale free",
}
"""The bounds by their source; ``mean`` uses means of singular values and is not a bound."""


def pair(
    first: Any,
    first_latents: Any,
    second: Any,
    second_latents: Any,
    *,
    names: tuple[str, str] = ("first", "second"),
    join: bool = False,
    mode: str = "exact",
    samples: int | None = None,
    folds: int = 5,
    n_null: int = 20,
    c_d: float | None = None,
    device: Any = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> DecoderPair:
    r"""Compare the measured rigid error between two models with the error that Theorem 1 allows.

    For latents :math:`x_i` of the first model and :math:`y_i` of the second, of the same examples, the best rigid
    motion *without a scale* leaves :math:`\|y_i-Tx_i\|`. It is reported with certificates from the rows alone, and with
    bounds from the decoders' largest local constants, with and without a term for outputs that differ.

    Parameters
    ----------
    first, second : torch modules or functions
        The decoders, as for :func:`jacobian`. No encoder is needed.
    first_latents, second_latents : arrays, tensors, Representations or paths
        Their latents: paired rows. If widths differ, the narrower side is padded with zeros.
    names : pair of str
        Names of the two models.
    join : bool
        Align latents by row id; default: raise an error if order or rows differ.
    mode, samples, device
        As for :func:`bilipschitz`.
    folds, n_null : int
        As for :func:`isorep.compare`.
    c_d : float, optional
        As for :func:`bounds`.
    random_state : int
        Seed of folds, null, samples and of the rows whose distances are compared.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

    Returns
    -------
    DecoderPair

    Examples
    --------
    >>> import torch, isorep
    >>> z = torch.rand(200, 2, generator=torch.manual_seed(0)) - 0.5
    >>> turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    >>> found = isorep.decoder.pair(lambda x: x + 0.01 * x**2, z, lambda y: y @ turn.T, (z + 0.01 * z**2) @ turn)
    >>> found.violated, found.in_sample.rms <= found.bounds["equal_outputs"].rms.value
    (False, True)
    """
    check_counts(folds=(folds, 2), n_null=(n_null, 0, MOST_DRAWS))
    check_seed(random_state)
    sides = _paired(
        as_latents(first_latents, f"{names[0]} latents"), as_latents(second_latents, f"{names[1]} latents"), join
    )
    search: dict[str, Any] = {"mode": mode, "samples": samples, "device": device, "random_state": random_state}
    geometries = []
    for decoder, latents, name in zip((first, second), sides, names, strict=True):
        try:
            geometries.append(bilipschitz(decoder, latents, name=name, progress=progress, **search))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
    x, y = (np.asarray(side.rows(slice(None)), dtype=np.float64) for side in sides)
    size = "exact" if len(x) <= 20_000 else "auto"
    settings: dict[str, Any] = {"folds": int(folds), "n_null": int(n_null), "random_state": int(random_state)}
    compared = ladder(x, y, names, diameter=size, worst_case=True, progress=progress, **settings)
    unit, certificates = compared.diameter.value, compared.worst_case or {}
    errors = rigid_errors(x, y, unit, folds, random_state)
    rows = np.arange(len(x))
    if len(rows) > PAIRED_ROWS:
        rows = np.sort(np.random.default_rng(random_state).choice(len(x), PAIRED_ROWS, replace=False))
    u, v, apart = paired_outputs((first, second), sides, rows, device)
    precision = [float(np.finfo(side.data["dtype"]).eps) for side in geometries]
    seen = (chords(x[rows], u, precision[0]), chords(y[rows], v, precision[1]))
    sizes = relative_sizes(x, y, compared) | {"c_d": c_d}
    ties = pair_bounds(geometries, seen, apart, unit, sizes)
    changed = float(np.abs(pdist(y[rows]) - pdist(x[rows])).max()) / unit
    if certificates:  # some rows against all
        changed = max(changed, certificates["rigid"].distortion)
    ties["defect"] = bounds(defect=changed / sizes["diameter"], **sizes)
    ties = {source: ties[source] for source in TITLES if source in ties}
    largest = certificates["rigid"].upper * unit if certificates else None
    assumptions = assumptions_of(list(map(Evidence.of, geometries, seen)), apart)
    rounding = sum(map(_rounding, sides, geometries, (x, y))) / unit
    findings = findings_of(ties, compared, errors, assumptions, rounding)
    described = list(map(_side, names, geometries, seen, (compared.reverse.diameter.value, unit)))
    rigid, linear = (compared.rungs[rung].in_diameters for rung in ("rigid", "linear"))
    return DecoderPair(
        first=described[0],
        second=described[1],
        unit=unit,
        held_out=errors.held_out,
        in_sample=errors.in_sample,
        scaled_held_out=rigid.held_out,
        scaled_in_sample=rigid.in_sample,
        linear=linear.held_out,
        null=rigid.null,
        certificate=certificates.get("rigid"),
        scaled_certificate=certificates.get("rigid_with_scale"),
        mismatch=apart,
        bounds=ties,
        ica=conditioning(x, y, largest, random_state),
        assumptions=assumptions,
        findings=findings,
        sentence=sentence_of(ties, errors, findings, names),
        caveats=caveats_of(geometries, compared, apart, len(rows)),
        settings={
            "join": bool(join),
            "mode": mode,
            "samples": samples,
            "c_d": c_d,
            "paired_rows": len(rows),
            **settings,
        },
    )


def _paired(first: Latents, second: Latents, join: bool) -> tuple[Latents, Latents]:
    """Both sides reduced to their common rows."""
    a, b = (Representation(side.values, side.ids, side.name) for side in (first, second))
    match = match_rows(a, b, join=join)
    if match.source_rows is not None:
        first = first.chosen(match.source_rows)
    if match.target_rows is not None:
        second = second.chosen(match.target_rows)
    if first.n < 3:
        raise InputError(f"there are {first.n} rows: at least 3 are needed")
    return first, second


def _rounding(latents: Latents, geometry: Geometry, values: Array) -> float:
    """The largest shift of a row due to the precision of the latents, or of the model that made them."""
    stored = np.dtype(latents.values.dtype)
    kinds = [stored] if stored.kind == "f" else []
    eps = max(float(np.finfo(kind).eps) for kind in (*kinds, np.dtype(geometry.data["dtype"])))
    return 2 * eps * float(np.linalg.norm(values, axis=1).max())


def pair_bounds(
    geometries: list[Geometry], seen: tuple[Chords, Chords], apart: Mismatch | None, unit: float, sizes: dict[str, Any]
) -> dict[str, Bounds]:
    """Bounds from the decoders and from chords, and the value from mean constants."""
    first, second = geometries
    ties = {"equal_outputs": bounds(first, second, **sizes)}
    if apart is not None:
        differ: dict[str, Any] = {"mismatch": apart.largest / unit, "mismatch_rms": apart.rms / unit}
        ties["with_mismatch"] = bounds(first, second, **differ, **sizes)
        ties["chords"] = bounds(seen[0], seen[1], **differ, **sizes)
    scaled = _scaled(first, second, sizes)
    if scaled is not None:
        ties["scaled"] = scaled
    ties["mean"] = bounds(*map(_averaged, geometries), **sizes)
    return ties


def _averaged(side: Geometry) -> SimpleNamespace:
    """The means of the extreme singular values instead of the extremes: not a bound."""
    return SimpleNamespace(smallest=float(np.mean(side.smallest)), largest=float(np.mean(side.largest)))


def _scaled(first: Geometry, second: Geometry, sizes: dict[str, Any]) -> Bounds | None:
    """Bounds with one free scale: the stitching map is rescaled to stretch as much as it shrinks."""
    if (found := balanced(first, second)) is None:
        return None
    source, scale = found
    return bounds(source, second, **rescaled(sizes, scale))


def _side(name: str, geometry: Geometry, seen: Chords, diameter: float) -> DecoderSide:
    return DecoderSide(
        name=name,
        rows=geometry.data["rows"],
        latents=geometry.data["latents"],
        outputs=geometry.data["outputs"],
        constant=geometry.constant,
        mean_constant=geometry.mean_constant,
        similarity_constant=geometry.similarity_constant,
        largest=float(np.max(geometry.largest)),
        smallest=float(np.min(geometry.smallest)),
        chord_largest=seen.largest,
        chord_smallest=seen.smallest,
        diameter=float(diameter),
    )


@dataclass(frozen=True)
class DecoderSide(Record):
    """One decoder: its sizes, its local constants, and the ratios of its chords to latent distances."""

    derived: ClassVar[tuple[str, ...]] = ("infinite",)
    name: str
    rows: int
    latents: int
    outputs: int
    constant: float
    mean_constant: float
    similarity_constant: float
    largest: float
    smallest: float
    chord_largest: float
    chord_smallest: float
    diameter: float

    @property
    def infinite(self) -> bool:
        """Whether the constant is infinite; JSON has no infinity."""
        return math.isinf(self.constant)


@dataclass(frozen=True)
class DecoderPair(ResultRecord):
    """The result of :func:`isorep.decoder.pair`; errors and bounds in diameters of the second model's latents.

    Attributes
    ----------
    held_out, in_sample : Error
        Error of the least-squares rigid motion without a scale.
    scaled_held_out, scaled_in_sample, linear : Error
        Error with one scale, and held-out error of a linear map.
    certificate, scaled_certificate : WorstCase
        Bounds on the error of the best rigid motion, from the rows alone.
    bounds : dict of str to Bounds
        ``equal_outputs``, ``with_mismatch``, ``chords``, ``defect``, ``scaled``; ``mean`` is not a bound.
    mismatch : Mismatch or None
        Difference of the outputs, in their units.
    findings : tuple of Finding
    assumptions : tuple of Assumption
    """

    schema: ClassVar[str] = "isorep.decoder_pair/1"
    page_by: ClassVar[str] = "decoder.pair_page:page"
    derived: ClassVar[tuple[str, ...]] = ("violated",)
    first: DecoderSide
    second: DecoderSide
    unit: float
    held_out: Error
    in_sample: Error
    scaled_held_out: Error
    scaled_in_sample: Error
    linear: Error
    null: Null | None
    certificate: WorstCase | None
    scaled_certificate: WorstCase | None
    mismatch: Mismatch | None
    bounds: dict[str, Bounds]
    ica: Conditioning | None
    assumptions: tuple[Assumption, ...]
    findings: tuple[Finding, ...]
    sentence: str
    caveats: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def violated(self) -> bool:
        """Whether a measured error exceeds a bound."""
        return any(finding.answer == "violated" for finding in self.findings)

    def table(self) -> str:
        """Measured errors, certificates and bounds under each other."""
        rows = [
            ("rigid, no scale", "sup", "rms", "mean"),
            ("measured, held out", *_cells(self.held_out)),
            ("measured, in sample", *_cells(self.in_sample)),
        ]
        if (certified := self.certificate) is not None:
            rows.append(("best possible, at least", shown(certified.lower), shown(certified.rms), ""))
            rows.append(("best possible, at most", shown(certified.upper), shown(certified.rms_upper), ""))
        for key, title in TITLES.items():
            if key in self.bounds and key != "scaled":
                tie = self.bounds[key]
                rows.append((title if key == "mean" else f"bound: {title}", tie.sup.cell, tie.rms.cell, ""))
        chance = self.bounds["equal_outputs"]
        rows.append(("chance", shown(chance.sup.chance), shown(chance.rms.chance), ""))
        if (scaled := self.bounds.get("scaled")) is not None:
            rows.append(("with one scale, in sample", *_cells(self.scaled_in_sample)))
            rows.append(("bound: with one scale", scaled.sup.cell, scaled.rms.cell, ""))
        return aligned(rows)

    def frame_rows(self) -> list[dict[str, Any]]:
        """Errors that were measured, what the rows certify, and every bound: supremum, RMS and mean, in diameters."""
        return error_rows(self, TITLES)

    def plot_scores(self, ax: Axes | None = None, *, width: str = "double") -> Axes:
        """Rigid errors in sample (RMS, diameters) beside what is possible, the bounds on them, and chance.

        ``ax`` is where to draw, by default a new pyplot figure of two columns (6.9 inches) or one ("single").
        """
        return plot_errors(ax, self, width)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        unit = {"unit": f"diameters of {self.second.name}'s latents, lower is closer", "diameter": self.unit}
        return super().to_dict() | unit

    def __str__(self) -> str:
        lines = [] if self.ica is None else [self.ica.sentence]
        lines += [f"assumption: {assumption}" for assumption in self.assumptions]
        return told(self.sentence, self.table(), "\n".join(map(wrapped, lines)), notes=self.caveats)


def _cells(error: Error) -> tuple[str, str, str]:
    return shown(error.sup), shown(error.rms), shown(error.mean)


def findings_of(
    ties: dict[str, Bounds],
    compared: Comparison,
    errors: RigidErrors,
    assumptions: tuple[Assumption, ...],
    rounding: float,
) -> tuple[Finding, ...]:
    """Each bound compared with the measured error: kept, violated or vacuous; the smallest bound on each error first.

    The bound on the supremum is compared with its certified lower end, that on the root mean square with the exact
    in-sample value. ``rounding`` is the error, in diameters, that the precision of the latents alone can cause.
    """
    if compared.worst_case is None:
        return ()
    findings = []
    for source, tie in ties.items():
        certificate = compared.worst_case["rigid_with_scale" if source.endswith("scaled") else "rigid"]
        fitted = compared.rungs["rigid"].in_diameters.in_sample if source.endswith("scaled") else errors.in_sample
        for error, value in (("sup", float(certificate.lower)), ("rms", fitted.rms)):
            best = tie.smallest(error)
            others = [bound for bound in tie.entries if bound.error == error and bound is not best]
            for bound in (best, *others) if source != "mean" else ():
                findings.append(held_against(source, bound, value, assumptions, rounding))
    return tuple(findings)


def sentence_of(
    ties: dict[str, Bounds], errors: RigidErrors, findings: tuple[Finding, ...], names: tuple[str, str]
) -> str:
    """The verdict: whether a bound is violated, and if not, whether any is non-vacuous."""
    for finding in findings:
        if finding.answer == VIOLATED:
            return (
                f"A bound is violated: {TITLES[finding.source]}, {finding.error} error at most {finding.bound:.4g} "
                f"diameters, but {finding.measured:.4g} is measured. {finding.why}"
            )
    tie = ties["equal_outputs"]
    equal, allowed = tie.rms, ties.get("with_mismatch", tie).rms
    said = f"No bound is violated: between {names[0]} and {names[1]} a rigid motion leaves {errors.in_sample.rms:.4f} "
    constant = "infinite" if tie.constant is None or math.isinf(tie.constant) else f"{tie.constant:.3g}"
    known = f"diameters (RMS). The stitching constant of the decoders is {constant}"
    if equal.vacuous:
        return (
            f"{said}{known}, too large for a non-vacuous bound in {tie.dimension} dimensions "
            f"(needed: below {tie.needed:.3g})."
        )
    if allowed.vacuous:
        return f"{said}{known}, which allows {equal.value:.4f} for equal outputs; these differ, so it is vacuous."
    if allowed.value > equal.value * (1 + 1e-6) + 1e-9:
        differ = f"{allowed.value:.4f} for outputs that differ as these do"
        return f"{said}{known}, which allows {equal.value:.4f} for equal outputs and {differ}."
    return f"{said}{known}, which allows {allowed.value:.4f}."


def caveats_of(
    geometries: list[Geometry], compared: Comparison, apart: Mismatch | None, paired: int
) -> tuple[str, ...]:
    """Limits of these numbers, as sentences."""
    said = [f"{side.data['decoder']}: {caveat}" for side in geometries for caveat in side.caveats]
    widths, rows = [side.data["latents"] for side in geometries], geometries[0].data["rows"]
    if widths[0] != widths[1]:
        said.append(
            f"the latents have {widths[0]} and {widths[1]} dimensions, so Theorem 1 cannot apply: errors and bounds "
            "are those of the padded clouds"
        )
    if apart is None:
        said.append("the outputs have different widths: there is no mismatch to measure, and Theorem 1 cannot apply")
    if paired < rows:
        said.append(f"chords and all distances were compared on {paired} of {rows} rows: their extremes are estimates")
    said += compared.caveats
    return tuple(dict.fromkeys(said))
