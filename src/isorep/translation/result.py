"""What a translation found, as small frozen records that print, tabulate and serialise themselves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._version import __version__
from ..comparison.result import Side
from ..ica.summary import plain, versions
from ..representation import Array
from ..resampling import Interval
from ..results import Verdict, Written
from .curve import Curve
from .retrieval import Recall, Retrieval
from .solving import Setting
from .translator import Translator

SCHEMA = "isorep.translate/2"


@dataclass(frozen=True)
class HeldOut:
    """Errors on the test fold; lower is closer, and 1 is no better than predicting the mean.

    ``mean`` is in mean distances of the new vectors to their mean, as in :func:`isorep.compare`, ``rms`` in their RMS
    radii. ``interval`` is for ``mean``, over the test rows; ``r2`` the share of variance explained; ``cosine`` the mean
    cosine between a translated vector and its native one.
    """

    mean: float
    rms: float
    r2: float
    cosine: float
    interval: Interval | None


@dataclass(frozen=True)
class MapRecord:
    """One kind of map: what was chosen, the RMS error that chose it, and its errors on rows that chose nothing."""

    kind: str
    setting: Setting
    selection_error: float
    held_out: HeldOut
    recall: Recall


@dataclass(frozen=True)
class Translation(Written):
    """The result of :func:`isorep.translate`.

    Attributes
    ----------
    maps : dict of str to MapRecord
        ``rigid``, ``linear``, ``ridge``, ``low_rank``: errors and recall on the test fold.
    best : str
        The map of least error on the selection folds; the test fold has no say.
    retrieval : Retrieval
        Recall and overlap at k beside native vectors, untranslated ones and chance.
    curve : Curve
        The error of the best map against the number of pairs, and how many are enough.
    translator : Translator
        The best map, fitted to all pairs: what :meth:`save` keeps.
    verdict : Verdict
        Its answer is ``translate``, ``with losses``, ``re-embed`` or ``unrelated``.
    caveats : tuple of str
        What to keep in mind about these numbers.
    """

    maps: dict[str, MapRecord]
    best: str
    retrieval: Retrieval
    curve: Curve
    translator: Translator
    old: Side
    new: Side
    pairs: dict[str, int]
    settings: dict[str, Any]
    verdict: Verdict
    caveats: tuple[str, ...] = ()

    def transform(self, X: Any) -> Array:
        """Translate rows by the best map."""
        return self.translator.transform(X)

    def save(self, path: str | Path) -> None:
        """Write the best map to a safetensors file: ``isorep.Translator.load`` reads it."""
        self.translator.save(path)

    def loss(self, k: int) -> float:
        """How much recall at k translated queries lose against native ones, from 0 to 1."""
        return self.retrieval.ceiling.recall[k] - self.maps[self.best].recall.recall[k]

    def table(self) -> str:
        """The maps as text: held-out error, R², cosine and recall of translated queries; then floor and ceiling."""
        return maps_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the map itself, as plain data with a versioned schema."""
        reference = self.translator.reference
        found: dict[str, Any] = plain(
            {
                "schema": SCHEMA,
                "isorep": __version__,
                "versions": versions(),
                "old": asdict(self.old),
                "new": asdict(self.new),
                "pairs": self.pairs,
                "unit": "mean distances of the new vectors to their mean, lower is closer (rms: RMS radii); recall and "
                "overlap: shares, higher is better",
                "verdict": asdict(self.verdict),
                "best": self.best,
                "maps": {name: asdict(record) for name, record in self.maps.items()},
                "retrieval": asdict(self.retrieval),
                "curve": asdict(self.curve),
                "reference": {
                    "radius": reference.radius,
                    "limit": reference.limit,
                    "distance": reference.distance,
                    "spread": reference.spread,
                    "rows": reference.rows,
                    "held": reference.held,
                },
                "fingerprints": self.translator.facts.get("fingerprints"),
                "settings": self.settings,
                "caveats": list(self.caveats),
            }
        )
        return found

    def __str__(self) -> str:
        parts = [self.table(), "", f"verdict: {self.verdict}", f"pairs: {self.curve}"]
        parts += [f"note: {caveat}" for caveat in self.caveats]
        return "\n".join(parts)


def maps_table(result: Translation) -> str:
    """Aligned text; the best map has a star."""
    at = result.retrieval.at
    rows = [("map", "error", "95 % interval", "R²", "cosine", *(f"recall@{k}" for k in at))]
    for name, record in result.maps.items():
        held = record.held_out
        interval = f"[{held.interval.low:.4f}, {held.interval.high:.4f}]" if held.interval else "-"
        errors = (f"{held.mean:.4f}", interval, f"{held.r2:.4f}", f"{held.cosine:.4f}")
        rows.append((f"{name}{' *' if name == result.best else ''}", *errors, *_shares(record.recall, at)))
    for words, found in (
        ("untranslated", result.retrieval.floor),
        ("native", result.retrieval.ceiling),
        ("store translated", result.retrieval.store),
    ):
        rows.append((words, "", "", "", "", *_shares(found, at)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def _shares(found: Recall, at: tuple[int, ...]) -> list[str]:
    return [f"{found.recall[k]:.4f}" for k in at]
