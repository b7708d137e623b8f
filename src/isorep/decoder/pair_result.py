"""What :func:`isorep.decoder.pair` found, as records that print, tabulate and serialise themselves."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .._version import __version__
from ..comparison import Error, Null, WorstCase
from ..results import Written, aligned
from .bound import Assumption, Bounds, shown
from .chords import Mismatch
from .conditioning import Conditioning

SCHEMA = "isorep.decoder_pair/1"
TITLES = {
    "equal_outputs": "decoders, equal outputs",
    "with_mismatch": "decoders, with the mismatch",
    "chords": "chords, with the mismatch",
    "defect": "measured defect",
    "mean": "mean singular values (no bound)",
    "scaled": "decoders, one scale free",
}
"""The bounds by what they come from: ``mean`` is what means of singular values would give, which bound nothing."""


@dataclass(frozen=True)
class DecoderSide:
    """One decoder: its sizes, its local constants, and the ratios of its chords to latent distances."""

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

    def to_dict(self) -> dict[str, Any]:
        """Plain data; JSON has no infinity, so a flag says where the constant is infinite."""
        return {**asdict(self), "infinite": math.isinf(self.constant)}


@dataclass(frozen=True)
class Finding:
    """A bound held against what was measured. ``answer``: ``kept``, ``violated`` or ``vacuous``."""

    source: str
    name: str
    error: str
    bound: float
    measured: float
    answer: str
    why: str


@dataclass(frozen=True)
class DecoderPair(Written):
    """The result of :func:`isorep.decoder.pair`; errors and bounds in diameters of the second model's latents.

    Attributes
    ----------
    held_out, in_sample : Error
        Of the least-squares rigid motion without a scale.
    scaled_held_out, scaled_in_sample, linear : Error
        With one scale, and of a linear map held out.
    certificate, scaled_certificate : WorstCase
        What the rows alone certify about the best rigid motion.
    bounds : dict of str to Bounds
        ``equal_outputs``, ``with_mismatch``, ``chords``, ``defect``, ``scaled``; ``mean`` bounds nothing.
    mismatch : Mismatch or None
        In units of the outputs.
    findings : tuple of Finding
    assumptions : tuple of Assumption
    """

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
        """Whether what was measured exceeds a bound."""
        return any(finding.answer == "violated" for finding in self.findings)

    def table(self) -> str:
        """Measured errors, certificates and bounds under each other."""
        return aligned([("rigid, no scale", "sup", "rms", "mean"), *self._rows()])

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            ("measured, held out", *_numbers(self.held_out.sup, self.held_out.rms, self.held_out.mean)),
            ("measured, in sample", *_numbers(self.in_sample.sup, self.in_sample.rms, self.in_sample.mean)),
        ]
        if self.certificate is not None:
            rows.append(("best possible, at least", *_numbers(self.certificate.lower, self.certificate.rms), ""))
            rows.append(("best possible, at most", *_numbers(self.certificate.upper, self.certificate.rms_upper), ""))
        for key, title in TITLES.items():
            if key in self.bounds and key != "scaled":
                rows.append((title if key == "mean" else f"bound: {title}", *_bound_cells(self.bounds[key]), ""))
        chance = self.bounds["equal_outputs"]
        rows.append(("chance", *_numbers(chance.sup.chance, chance.rms.chance), ""))
        scaled = self.bounds.get("scaled")
        if scaled is not None:
            found = self.scaled_in_sample
            rows.append(("with one scale, in sample", *_numbers(found.sup, found.rms, found.mean)))
            rows.append(("bound: with one scale", *_bound_cells(scaled), ""))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return {
            "schema": SCHEMA,
            "isorep": __version__,
            "unit": f"diameters of {self.second.name}'s latents, lower is closer",
            "diameter": self.unit,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            "sentence": self.sentence,
            "violated": self.violated,
            "held_out": asdict(self.held_out),
            "in_sample": asdict(self.in_sample),
            "scaled_held_out": asdict(self.scaled_held_out),
            "scaled_in_sample": asdict(self.scaled_in_sample),
            "linear": asdict(self.linear),
            "null": None if self.null is None else self.null.to_dict(),
            "certificate": None if self.certificate is None else asdict(self.certificate),
            "scaled_certificate": None if self.scaled_certificate is None else asdict(self.scaled_certificate),
            "mismatch": None if self.mismatch is None else {**asdict(self.mismatch), "share": self.mismatch.share},
            "bounds": {name: found.to_dict() for name, found in self.bounds.items()},
            "ica": None if self.ica is None else self.ica.to_dict(),
            "assumptions": [asdict(entry) for entry in self.assumptions],
            "findings": [asdict(finding) for finding in self.findings],
            "settings": self.settings,
            "caveats": list(self.caveats),
        }

    def __str__(self) -> str:
        parts = [self.table(), "", self.sentence]
        if self.ica is not None:
            parts.append(self.ica.sentence)
        parts += [f"assumption: {entry}" for entry in self.assumptions]
        return "\n".join([*parts, *(f"note: {caveat}" for caveat in self.caveats)])


def _numbers(*values: float) -> tuple[str, ...]:
    return tuple(shown(value) for value in values)


def _bound_cells(found: Bounds) -> tuple[str, str]:
    sup, rms = (f"{shown(bound.value)}{' (vacuous)' if bound.vacuous else ''}" for bound in (found.sup, found.rms))
    return sup, rms
