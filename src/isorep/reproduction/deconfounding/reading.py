"""The outcomes of the units, by part: what tables, figures and findings read from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..experiment import Outcome
from .presets import Preset
from .published import CONDITIONS, GENES

KINDS = {"independent": "independent factors", "gaussian": "Gaussian factors"}
PRIMARY = ("week", "standardised", "tenth")
"""How BBBC021 is split and reduced in the headline."""

Values = tuple[float | None, ...]


class Reading:
    """Outcomes of one run, some of which may be missing."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self._outcomes = outcomes
        self.headline_share = 0.25 if 0.25 in preset.top else preset.top[0]
        self.wells = {
            f"new {batch}s, {features}, {_dimensions(outcome, dimensions)}": outcome
            for batch, features, dimensions, task in preset.wells
            if task == "all" and (outcome := outcomes.get(f"bbbc021-{batch}-{features}-{dimensions}-{task}"))
        }
        each = outcomes.get(f"bbbc021-{'-'.join(PRIMARY)}-each", {})
        self.mechanisms: dict[str, Any] = each.get("tasks", {})

    def screens(self, kind: str) -> list[Outcome]:
        """The simulated screens of a kind."""
        return [outcome for key, outcome in self._outcomes.items() if key.startswith(f"simulated-{kind}-")]

    def screens_mean(self, kind: str, measure: str) -> tuple[Values, Values]:
        """Means over screens with their standard errors, by condition."""
        return _means([self.conditions(screen["conditions"], measure)[0] for screen in self.screens(kind)])

    def ceiling(self, kind: str) -> float:
        """The best AUROC that is possible, on average over screens."""
        return float(np.mean([screen["ceiling"] for screen in self.screens(kind)]))

    def alignment(self, kind: str, condition: str) -> float:
        """How far single features follow the affected factors, on average over screens."""
        return float(np.mean([screen["alignment"][condition] for screen in self.screens(kind)]))

    def differences(self, kind: str, against: str) -> list[float]:
        """AUROC of PCA + ICA less that of another condition, for each screen."""
        pairs = [
            (screen["conditions"]["pca_ica"]["auroc"]["value"], screen["conditions"][against]["auroc"]["value"])
            for screen in self.screens(kind)
        ]
        return [first - second for first, second in pairs if first is not None and second is not None]

    def well(self, batch: str, features: str, dimensions: str) -> Outcome | None:
        """BBBC021, all treated wells, split and reduced in one way."""
        return self._outcomes.get(f"bbbc021-{batch}-{features}-{dimensions}-all")

    def genes(self) -> list[Outcome]:
        """The genes of RxRx3-core that were run and found."""
        found = [self._outcomes.get(f"rxrx3-{gene}") for gene in GENES]
        return [outcome for outcome in found if outcome is not None and not outcome.get("absent")]

    def gene(self, gene: str, measure: str) -> tuple[Values, Values]:
        """A gene's values and errors; nothing where it was not run."""
        outcome = self._outcomes.get(f"rxrx3-{gene}")
        if outcome is None or outcome.get("absent"):
            return (), ()
        return self.conditions(outcome["conditions"], measure)

    def genes_mean(self, measure: str) -> tuple[Values, Values]:
        """Means over genes with their standard errors."""
        return _means([self.conditions(outcome["conditions"], measure)[0] for outcome in self.genes()])

    @staticmethod
    def conditions(found: Mapping[str, Any], measure: str) -> tuple[Values, Values]:
        """Values and standard errors in the order of the conditions."""
        values = tuple(found[name][measure]["value"] for name in CONDITIONS)
        return values, tuple(found[name][measure]["error"] for name in CONDITIONS)


def _means(rows: list[Values]) -> tuple[Values, Values]:
    """Means of columns and standard errors of these; what is missing in a row is left out."""
    if not rows:
        return (), ()
    means, errors = [], []
    for column in zip(*rows, strict=True):
        known = [value for value in column if value is not None]
        means.append(float(np.mean(known)) if known else None)
        errors.append(float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None)
    return tuple(means), tuple(errors)


def _dimensions(outcome: Outcome, wanted: str) -> str:
    return f"{'all ' if wanted == 'all' else ''}{outcome['dimensions']['pca_ica']} dimensions"
