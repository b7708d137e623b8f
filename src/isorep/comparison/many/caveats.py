"""What a reader of the numbers should know about these runs: sentences, most important first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..caveats import (
    about_classes,
    about_components,
    about_copies,
    about_dimensions,
    about_left_out,
    about_offset,
    about_sides,
    about_size,
    about_units,
    too_few_rows,
)
from ..pairing import broken_pairing
from .inputs import Runs
from .judgement import LEAST_RUNS
from .result import Ensemble

if TYPE_CHECKING:
    from .entry import Work


def says_too_few_rows(result: Ensemble) -> bool:
    """Whether the first caveat is that there are too few rows."""
    return too_few_rows(result.runs[0].rows, max(side.columns for side in result.runs))


def collect_caveats(result: Ensemble, work: Work) -> list[str]:
    """All caveats that apply."""
    sides, runs = result.runs, work.runs
    seed = result.settings["random_state"]
    return [
        *about_size(sides[0].rows, max(side.columns for side in sides), result.settings["folds"]),
        *_about_pairing(result, runs),
        *_about_rows(runs, len(work.rows), work.repeats.scored is not None),
        *runs.reading,
        *work.repeats.notes(runs.names, runs.n),
        *about_copies(runs.names, runs.values, sides, seed, work.labels),
        *about_units(work.labels, work.shuffles, result.settings["n_null"], runs.labels is not None),
        *about_classes(result.settings["within"]),
        *_about_offset(result),
        *about_sides(sides, [side.name in work.again for side in sides]),
        *about_left_out(sides, work.factors),
        *about_dimensions(sides, _median_r2(result)),
        *_about_widths(result),
        *([] if work.unmixed is None else about_components(sides, work.unmixed)),
        *_about_ensemble(result),
    ]


def _about_pairing(result: Ensemble, runs: Runs) -> list[str]:
    """Of the first run that no other is related to: whether another order of its rows would help."""
    if not result.settings["n_null"]:
        return []
    related = np.any([rung.below_null | rung.below_null.T for rung in result.rungs.values()], axis=0)
    for run in np.flatnonzero(~related.any(axis=1)):
        other = 0 if run else 1
        said = broken_pairing(
            runs.values[other],
            runs.values[run],
            (runs.names[other], runs.names[run]),
            result.settings["random_state"],
        )
        if said is not None:
            return [said]
    return []


def _median_r2(result: Ensemble) -> float | None:
    known = [each.r2 for each in result.dimensions if each.r2 is not None]
    return float(np.median(np.concatenate(known))) if known else None


def _about_rows(runs: Runs, scored: int, repeated: bool) -> list[str]:
    said = []
    if runs.joined:
        lost = ", ".join(f"{count} from {name}" for name, count in zip(runs.names, runs.dropped, strict=True) if count)
        said.append(f"joined by id: {runs.n} rows are in all runs, dropped are {lost or 'none'}")
    if runs.half_identified:
        said.append("rows are paired by position: some runs have no row ids, so nothing confirms it")
    if scored < runs.n and not repeated:
        said.append(f"maps are fitted to all {runs.n} rows; mean errors are those of {scored} rows, drawn at random")
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
