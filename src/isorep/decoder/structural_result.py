"""Structural errors and their bounds: records with printing, tables and JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..alignment.base import Error
from ..comparison import WorstCase
from ..resampling import Null
from ..results import Record, ResultRecord, aligned, told, wrapped
from .bound import VIOLATED, Assumption, Bound, Bounds, Finding, error_rows, plot_errors, shown
from .distances import Mismatch
from .theorems import Conditioning

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PERFECT = "the model reconstructs the data perfectly"
TITLES = {
    "perfect": "perfect reconstruction",
    "with_mismatch": "with the reconstruction error",
    "chords": "chords, with the reconstruction error",
    "stitched": "Jacobians of the stitching map",
    "printed": "Theorem 3 as printed",
    "scaled": "one scale free",
    "stitched_scaled": "stitching map, one scale free",
}
"""The bounds by their source."""


@dataclass(frozen=True)
class MapSide(Record):
    """The process or the decoder: how its singular values were found, over how many rows, and their extremes.

    ``estimated`` is true if they come from neighbours; chords are ratios of distances, where outputs are known.
    """

    derived: ClassVar[tuple[str, ...]] = ("constant", "similarity_constant", "infinite")
    name: str
    how: str
    estimated: bool
    rows: int
    inputs: int
    outputs: int
    smallest: float
    largest: float
    chord_smallest: float | None
    chord_largest: float | None
    diameter: float

    @property
    def constant(self) -> float:
        """The bi-Lipschitz constant over the rows."""
        return max(self.largest, 1 / self.smallest) if self.smallest > 0 else math.inf

    @property
    def similarity_constant(self) -> float:
        """The same after the best global scale."""
        return math.sqrt(self.largest / self.smallest) if self.smallest > 0 else math.inf

    @property
    def infinite(self) -> bool:
        """Whether the constant is infinite; JSON has no infinity."""
        return math.isinf(self.constant)


@dataclass(frozen=True)
class Statistical(Record):
    """A.5: the distance of two models that are both near the factors, up to a rigid motion without a scale.

    ``bound`` is on the largest error, of two models as near as this one. ``rms_bound`` is on the root mean square: of
    this model and ``other``, whose error from the factors is ``error``, or of two like this one. ``between`` is
    the measured error between this model and the other, in diameters of the factors.
    """

    derived: ClassVar[tuple[str, ...]] = ("kept",)
    bound: Bound
    rms_bound: float
    error: Error | None
    between: Error | None

    @property
    def kept(self) -> bool | None:
        """Whether the measured error keeps to the bound; None without a second model."""
        return None if self.between is None else bool(self.between.rms <= self.rms_bound * (1 + 1e-9) + 1e-9)


@dataclass(frozen=True)
class Unmixed(Record):
    """Latents after whitening and ICA: the absolute correlation of every factor with its matched component."""

    derived: ClassVar[tuple[str, ...]] = ("mean",)
    components: int
    correlations: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the factors; a factor without a component counts as 0."""
        return float(np.mean(self.correlations))


@dataclass(frozen=True)
class Structural(ResultRecord):
    """The result of :func:`isorep.decoder.structural`; errors and bounds in diameters of the factors.

    Attributes
    ----------
    process, decoder : MapSide
    stitching : pair of float or None
        The least and the largest singular value of the map from latents to factors, by the chain rule.
    held_out, in_sample : Error
        Error of the least-squares rigid motion from latents to factors, without a scale.
    scaled_held_out, scaled_in_sample, linear : Error
        Error with one scale, and held-out error of a linear map.
    certificate, scaled_certificate : WorstCase
        Bounds on the error of the best rigid motion, from the rows alone.
    mismatch : Mismatch or None
        Difference of reconstructions and data, in units of the data.
    bounds : dict of str to Bounds
        ``perfect`` and ``with_mismatch`` from singular values of both maps, ``chords``, ``stitched`` from those of the
        map between them, ``printed``, and with one scale free ``scaled`` and ``stitched_scaled``.
    statistical : Statistical
        The bound of A.5 from the measured error.
    ica : Conditioning or None
        Constants of Theorem 2, for the error after ICA.
    unmixed : Unmixed or None
    assumptions : tuple of Assumption
    findings : tuple of Finding
    """

    schema: ClassVar[str] = "isorep.decoder_structural/1"
    page_by: ClassVar[str] = "decoder.structural_page:page"
    derived: ClassVar[tuple[str, ...]] = ("violated", "sentence", "failing")
    process: MapSide
    decoder: MapSide
    stitching: tuple[float, float] | None
    unit: float
    rows: int
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
    unmixed: Unmixed | None
    statistical: Statistical
    assumptions: tuple[Assumption, ...]
    findings: tuple[Finding, ...]
    caveats: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def violated(self) -> bool:
        """Whether a measured error exceeds a bound."""
        return any(finding.answer == VIOLATED for finding in self.findings)

    @property
    def failing(self) -> tuple[str, ...]:
        """The assumptions that do not hold on these rows."""
        return tuple(each.text for each in self.assumptions if each.status == VIOLATED)

    @property
    def sentence(self) -> str:
        """The error, the bound, and the assumptions that fail."""
        return f"{self.answer} {self._constants} {self._failures}"

    @property
    def answer(self) -> str:
        """Is a bound violated, and if not, what does it allow."""
        if (broken := self.broken) is not None:
            return (
                f"A bound is violated: {TITLES[broken.source]}, {broken.error} error at most "
                f"{broken.bound:.4g} diameters, and {broken.measured:.4g} is measured. {broken.why}"
            )
        error = f"The best rigid motion from latents to factors leaves {self.in_sample.rms:.4f} diameters (RMS)"
        source, measured = self.allowed
        bound = self.bounds[source].rms
        if bound.vacuous:
            return f"{error}. Theory gives no bound below chance ({bound.chance:.4f})."
        allowed = f"{bound.value:.4f} is allowed ({TITLES[source]})."
        if measured is self.in_sample:
            return f"{error}, and {allowed}"
        return f"{error}, for which theory gives no bound; with one scale it leaves {measured.rms:.4f}, and {allowed}"

    @property
    def broken(self) -> Finding | None:
        """The first bound that is violated."""
        return next((finding for finding in self.findings if finding.answer == VIOLATED), None)

    @property
    def allowed(self) -> tuple[str, Error]:
        """The source of the bound that is quoted, and the error in sample that it is for.

        Of the bounds that allow for the reconstruction as it is, the smallest on the root mean square; where it says
        nothing, the smallest with one scale free, if that says something.
        """
        best = self._smallest(("perfect", "with_mismatch", "stitched"))
        if self.bounds[best].rms.vacuous:
            scaled = self._smallest(("scaled", "stitched_scaled"))
            if scaled.endswith("scaled") and not self.bounds[scaled].rms.vacuous:
                return scaled, self.scaled_in_sample
        return best, self.in_sample

    def _smallest(self, sources: tuple[str, ...]) -> str:
        """The source with the smallest bound on the root mean square that allows for the reconstruction as it is."""
        exact = self.mismatch is None or PERFECT not in self.failing
        usable = [source for source in sources if source in self.bounds and (exact or "mismatch" in source)]
        if not usable:
            usable = ["with_mismatch" if "with_mismatch" in self.bounds else "perfect"]
        return min(usable, key=lambda source: self.bounds[source].rms.value)

    @property
    def _constants(self) -> str:
        def told(side: MapSide) -> str:
            how = ", estimated" if side.estimated else ""
            return f"{shown(side.constant)} ({shown(side.similarity_constant)} up to scale{how})"

        return f"Constants: process {told(self.process)}, decoder {told(self.decoder)}."

    @property
    def _failures(self) -> str:
        if not self.failing:
            return "No assumption was found to fail."
        return f"Assumptions that fail: {'; '.join(self.failing)}."

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
            if key in self.bounds and key != "printed" and not key.endswith("scaled"):
                tie = self.bounds[key]
                rows.append((f"bound: {title}", tie.sup.cell, tie.rms.cell, ""))
        rows.append((f"bound: {TITLES['printed']}", self.bounds["printed"]["theorem_3_as_printed"].cell, "", ""))
        chance = self.bounds["perfect"]
        rows.append(("chance", shown(chance.sup.chance), shown(chance.rms.chance), ""))
        rows.append(("with one scale, in sample", *_cells(self.scaled_in_sample)))
        for key in ("scaled", "stitched_scaled"):
            if (scaled := self.bounds.get(key)) is not None:
                rows.append((f"bound: {TITLES[key]}", scaled.sup.cell, scaled.rms.cell, ""))
        if (between := self.statistical.between) is not None:
            rows.append(("between the two models", *_cells(between)))
            rows.append(("bound: A.5, these two models", "", shown(self.statistical.rms_bound), ""))
        else:
            bound = self.statistical.bound.value
            rows.append(("bound: A.5, two such models", shown(bound), shown(self.statistical.rms_bound), ""))
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
        return super().to_dict() | {"unit": "diameters of the factors, lower is closer", "diameter": self.unit}

    def __str__(self) -> str:
        lines = [self._constants, self._failures]
        if self.unmixed is not None:
            lines.append(f"After ICA the mean correlation with the matched factor is {self.unmixed.mean:.3f}.")
        lines += [f"assumption: {assumption}" for assumption in self.assumptions]
        return told(self.answer, self.table(), "\n".join(map(wrapped, filter(None, lines))), notes=self.caveats)


def _cells(error: Error) -> tuple[str, str, str]:
    return shown(error.sup), shown(error.rms), shown(error.mean)
