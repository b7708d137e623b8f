"""Many runs of the same examples: read, named, and reduced to their common rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Matrix, Representation, match_rows, reading_notes, told_apart
from ..resampling import common_codes
from ..rows import kept_by_workers, select
from ..storage import loaded


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs whose rows belong together, row by row."""

    names: tuple[str, ...]
    values: tuple[Matrix, ...]
    dropped: tuple[int, ...]
    labels: Array | None
    joined: bool
    within: Array | None
    reading: tuple[str, ...]  # what was left out of the files, or converted
    half_identified: bool  # some runs have ids and others have none to confirm them
    ids: Array | None = None  # of the common rows, where a run has them

    @property
    def n(self) -> int:
        """Number of common rows."""
        return int(self.values[0].shape[0])

    @property
    def widths(self) -> list[int]:
        """Columns of each run."""
        return [int(values.shape[1]) for values in self.values]


def gather(runs: Any, names: Sequence[str] | None, groups: Any, join: bool, within: Any = None) -> Runs:
    """Check and pair the rows of all runs; any difference in ids, order or length is refused, or joined by id."""
    given, labels = _listed(runs, names)
    described = [loaded(run, f"run {run_index}") for run_index, run in enumerate(given)]
    named = _named(described, labels)
    rows, dropped, half = _common_rows(named, join)
    codes = common_codes(groups, len(named[0]), rows[0], "groups")
    classes = common_codes(within, len(named[0]), rows[0], "within")
    kept = kept_by_workers(*named)
    values = tuple(select(run.values, mine) for run, mine in zip(kept, rows, strict=True))
    notes = tuple(reading_notes(*named))
    identified = next((place for place, run in enumerate(named) if run.ids is not None), None)
    ids = None if identified is None else np.asarray(named[identified].ids)
    if ids is not None and identified is not None and rows[identified] is not None:
        ids = ids[rows[identified]]
    common = Runs(
        tuple(str(run.name) for run in named), values, dropped, codes, rows[0] is not None, classes, notes, half, ids
    )
    if common.n < 3:
        raise InputError(f"the runs have {common.n} rows in common: at least 3 are needed")
    return common


def _listed(runs: Any, names: Sequence[str] | None) -> tuple[list[Any], list[str] | None]:
    if isinstance(runs, Mapping):
        if names is not None:
            raise InputError("names were given twice: as the keys of runs and as names")
        names, runs = [str(key) for key in runs], list(runs.values())
    if isinstance(runs, str | Path | Representation) or getattr(runs, "ndim", 3) < 3:
        raise InputError("one run was given where several are compared: pass a list of runs")
    given = list(runs)
    if len(given) < 2:
        raise InputError(f"{len(given) or 'no'} run was given: at least 2 are compared")
    if names is None:
        return given, None
    labels = [str(name) for name in names]
    if len(labels) != len(given):
        raise InputError(f"there are {len(given)} runs and {len(labels)} names")
    if len(set(labels)) < len(labels):
        raise InputError(f"names must differ, and {Counter(labels).most_common(1)[0][0]!r} occurs more than once")
    return given, labels


def _named(runs: list[Representation], labels: list[str] | None) -> list[Representation]:
    names = labels or told_apart([str(run.name) for run in runs], [run.origin for run in runs])
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _common_rows(runs: list[Representation], join: bool) -> tuple[list[Array | None], tuple[int, ...], bool]:
    """Per run its rows (None for all) and the number of dropped rows; and whether some ids stay unconfirmed."""
    with_ids = [run_index for run_index, run in enumerate(runs) if run.ids is not None]
    first = 0 if join or not with_ids else with_ids[0]
    matches = {
        run_index: match_rows(runs[first], run, join=join) for run_index, run in enumerate(runs) if run_index != first
    }
    half = any(match.half_identified for match in matches.values())
    if all(match.source_rows is None for match in matches.values()):
        return [None] * len(runs), (0,) * len(runs), half
    kept = np.ones(len(runs[first]), dtype=bool)
    where = {first: np.arange(len(kept))}
    for run_index, match in matches.items():
        if match.source_rows is None or match.target_rows is None:
            where[run_index] = np.arange(len(kept))
            continue
        there = np.full(len(kept), -1)
        there[match.source_rows] = match.target_rows
        kept &= there >= 0
        where[run_index] = there
    if not kept.any():
        raise InputError("the runs share no row id that all of them have, so there is nothing to join")
    rows: list[Array | None] = [where[run_index][kept] for run_index in range(len(runs))]
    return rows, tuple(len(run) - int(kept.sum()) for run in runs), half
