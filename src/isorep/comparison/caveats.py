"""What a reader of the numbers should know about this pair: sentences, most important first."""

from __future__ import annotations

from ..representation import Array, RowMatch
from .result import Comparison, Side
from .rungs import UnmixedSide


def collect_caveats(
    result: Comparison,
    match: RowMatch,
    labels: Array | None,
    unmixed: tuple[UnmixedSide, UnmixedSide] | None,
    second_pass: tuple[bool, bool],
) -> list[str]:
    """All caveats that apply."""
    return [
        *about_size(result.source.rows, max(result.source.columns, result.target.columns), result.settings["folds"]),
        *_about_rows(result, match, labels),
        *_about_sides(result, second_pass),
        *_about_ica(result, unmixed),
        *_about_diameters(result),
        *_about_directions(result),
    ]


def too_few_rows(rows: int, width: int) -> bool:
    """Whether a linear map fits chance as well as what is there."""
    return rows < 5 * width


def about_size(rows: int, width: int, folds: int) -> list[str]:
    """What few rows do to the linear and the rigid rung."""
    if not too_few_rows(rows, width):
        return []
    said = [
        f"only {rows} rows for {width} dimensions (fewer than 5 a dimension): the in-sample linear error is "
        "overfitted and no sign of agreement; read the held-out one"
    ]
    if rows * (1 - 1 / folds) <= width:
        said.append(
            "training sets have fewer rows than dimensions: they leave part of the rotation undetermined, so held-out "
            "rigid errors depend on the basis the rows come in"
        )
    return said


def _about_rows(result: Comparison, match: RowMatch, labels: Array | None) -> list[str]:
    said = []
    if match.source_rows is not None:
        said.append(
            f"joined by id: {result.source.rows} common rows, {match.dropped_from_source} dropped from "
            f"{result.source.name} and {match.dropped_from_target} from {result.target.name}"
        )
    if match.half_identified:
        said.append("rows are paired by position: only one side has row ids, so nothing confirms it")
    if labels is not None and int(labels.max()) < 9:
        said.append(f"only {int(labels.max()) + 1} groups: intervals that resample so few are too narrow")
    return said


def _about_sides(result: Comparison, second_pass: tuple[bool, bool]) -> list[str]:
    said = []
    for side, again in zip((result.source, result.target), second_pass, strict=True):
        said += about_side(side, again)
    if result.source.columns != result.target.columns:
        said.append(
            f"widths differ ({result.source.columns} and {result.target.columns}): the narrower side is padded with "
            "zeros for identity, signed permutation and rigid"
        )
    return said


def about_side(side: Side, again: bool) -> list[str]:
    """Dimensions that do not vary, and columns that are nearly dependent."""
    said = []
    if side.rank < min(side.columns, side.rows - 1):
        constant = f", {side.constant_columns} of them constant columns" if side.constant_columns else ""
        said.append(
            f"{side.name} is rank-deficient: {side.rank} of {side.columns} dimensions vary "
            f"({side.columns - side.rank} do not{constant})"
        )
    if again:
        said.append(
            f"the columns of {side.name} are nearly dependent: its linear map took a second, preconditioned pass "
            "over the rows"
        )
    return said


def _about_ica(result: Comparison, unmixed: tuple[UnmixedSide, UnmixedSide] | None) -> list[str]:
    if unmixed is None:
        return []
    sides = zip((result.source, result.target), unmixed, strict=True)
    return [sentence for side, fitted in sides for sentence in about_components(side, fitted)]


def about_components(side: Side, fitted: UnmixedSide) -> list[str]:
    """How far the independent components of a side are determined."""
    said = []
    if not fitted.converged:
        said.append(f"ICA of {side.name} did not settle within its sweeps")
    if fitted.gaussian:
        said.append(
            f"{fitted.gaussian} of {len(fitted.whole.components_)} independent components of {side.name} cannot be "
            "told from Gaussian ones: their directions are not determined, and the ICA rung pays for it"
        )
    if fitted.rows_used < side.rows:
        said.append(f"ICA of {side.name} was estimated from {fitted.rows_used} of {side.rows} rows")
    return said


def _about_diameters(result: Comparison) -> list[str]:
    said = []
    for side, size in ((result.target, result.forward.diameter), (result.source, result.reverse.diameter)):
        if not size.exact:
            said.append(
                f"the diameter of {side.name} lies between {size.lower:.6g} and {size.upper:.6g}; the lower bound, a "
                "distance that occurs, is the unit"
            )
        if size.value > 8 * side.rms_radius:
            said.append(
                f"outliers set the diameter of {side.name}: it is {size.value / side.rms_radius:.0f} times the RMS "
                "radius, which makes errors in diameters look small"
            )
    return said


def _about_directions(result: Comparison) -> list[str]:
    forward, reverse = result.forward.verdict.rung, result.reverse.verdict.rung
    if forward == reverse:
        return []
    return [
        f"the reverse direction ends at {reverse or 'no rung'} instead of {forward or 'no rung'}: the two sides do "
        "not hold the same information"
    ]
