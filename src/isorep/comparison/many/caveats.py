"""What a reader of the numbers should know about these runs: sentences, most important first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..caveats import about_components, about_offset, about_sides, about_size, too_few_rows
from ..rungs import UnmixedSide
from .inputs import Runs
from .judgement import LEAST_RUNS
from .result import Ensemble


def says_too_few_rows(result: Ensemble) -> bool:
    """Whether the first caveat is that there are too few rows."""
    return too_few_rows(result.runs[0].rows, max(side.columns for side in result.runs))


def collect_caveats(
    result: Ensemble, runs: Runs, unmixed: Sequence[UnmixedSide] | None, again: Sequence[str]
) -> list[str]:
    """All caveats that apply."""
    sides = result.runs
    return [
        *about_size(sides[0].rows, max(side.columns for side in sides), result.settings["folds"]),
        *_about_rows(runs),
        *_about_offset(result),
        *about_sides(sides, [side.name in again for side in sides]),
        *_about_widths(result),
        *([] if unmixed is None else about_components(sides, unmixed)),
        *_about_ensemble(result),
    ]


def _about_rows(runs: Runs) -> list[str]:
    said = []
    if runs.joined:
        lost = ", ".join(f"{count} from {name}" for name, count in zip(runs.names, runs.dropped, strict=True) if count)
        said.append(f"joined by id: {runs.n} rows are in all runs, dropped are {lost or 'none'}")
    if runs.half_identified:
        said.append("rows are paired by position: some runs have no row ids, so nothing confirms it")
    if runs.labels is not None and int(runs.labels.max()) < 9:
        said.append(f"only {int(runs.labels.max()) + 1} groups: standard errors over their folds are rough")
    return said


def _about_offset(result: Ensemble) -> list[str]:
    if result.identity_offset is None:
        return []
    apart = ~np.eye(len(result.runs), dtype=bool)
    return about_offset(result.identity_offset[apart].tolist(), result.rungs["identity"].rms[apart].tolist())


def _about_widths(result: Ensemble) -> list[str]:
    widths = sorted({side.columns for side in result.runs})
    if len(widths) == 1:
        return []
    return [
        f"widths differ ({', '.join(map(str, widths))}): narrower runs are padded with zeros for identity, signed "
        "permutation, rigid and the consensus"
    ]


def _about_ensemble(result: Ensemble) -> list[str]:
    said = []
    bounded = [side.name for side, size in zip(result.runs, result.diameters or (), strict=False) if not size.exact]
    if bounded:
        said.append(
            f"the diameters of {', '.join(bounded)} are the largest distances that were found, not proven to be the "
            "largest: errors in diameters may be overstated"
        )
    if not result.consensus.converged:
        said.append(f"the consensus was still improving after {result.consensus.sweeps} sweeps")
    if len(result.runs) < LEAST_RUNS:
        said.append(f"with {len(result.runs)} runs no one can be called an outlier: that takes at least {LEAST_RUNS}")
    return said
