"""Caveats of a comparison: sentences about the limits of its numbers, most important first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..covariance import Factor, left_out_sentence
from ..pairs import Repeats, Side, broken_pairing, near_copies
from ..representation import Array, Matrix, RowMatch
from ..resampling import FEW_GROUPS, Shuffles
from ..results import decimals
from .figures import principal_r2
from .fits import UnmixedSide
from .ladder import Ladder
from .result import Comparison
from .verdict import FOUND
from .views import dominated

FEW_ROWS = 0.1  # share of rows with half of the variance, below which a caveat is due; 0.12 for one normal column
MOSTLY = 0.5  # share of identity's squared error above which it counts as a difference of means
_LEAST_OFFSET = 0.05  # RMS radii by which means must differ for a caveat
APART = 1.5  # factor between mean and median error above which both are reported
NEGLIGIBLE = 0.05  # difference below which the factor means nothing
_ROUNDING = 1e-10  # of a squared error
_LOST = 0.25  # share of components determined by all rows but not by a third of them that is worth a caveat
_NAMED = 6  # runs that a remark names


def collect_caveats(
    result: Comparison, ladder: Ladder, match: RowMatch, repeats: Repeats, missing_ica: bool
) -> list[str]:
    """All caveats that apply."""
    sides, design, moments = (result.source, result.target), ladder.design, ladder.moments
    return [
        *about_time(result.left_out, result.settings["stopped"]),
        *about_size(
            result.source.rows,
            max(side.columns for side in sides),
            result.settings["folds"],
            min(side.rank for side in sides),
        ),
        *about_pairing(result, ladder),
        *_about_rows(result, match),
        *design.pair.reading,
        *repeats.notes(design.pair.names, design.pair.n),
        *about_copies(
            design.pair.names, (design.pair.x, design.pair.y), sides, result.settings["random_state"], design.labels
        ),
        *about_units(design.labels, design.shuffles, result.settings["n_null"], result.settings["groups"] is not None),
        *about_classes(result.settings["within"]),
        *about_offset([result.forward.identity_offset], [_identity_in_radii(result)]),
        *_about_sides(result, (moments.second[0] is not None, moments.second[1] is not None)),
        *about_left_out(sides, moments.factors),
        *about_dimensions(sides, _median_r2(result, ladder)),
        *about_p_values(result),
        *_about_medians(result),
        *([] if ladder.unmixed is None else about_components(sides, ladder.unmixed)),
        *_about_missing_ica(missing_ica),
        *_about_diameters(result),
        *_about_directions(result),
    ]


def about_pairing(result: Comparison, ladder: Ladder) -> list[str]:
    """Where neither direction finds a relation: whether another order of the rows would."""
    if result.settings["n_null"] == 0 or any(
        rung.below_null for each in (result.forward, result.reverse) for rung in each.rungs.values()
    ):
        return []
    pair = ladder.design.pair
    said = broken_pairing(pair.x, pair.y, pair.names, result.settings["random_state"])
    return [] if said is None else [said]


def about_time(left_out: Sequence[str], stopped: bool) -> list[str]:
    """What was left out, and why."""
    if not left_out:
        return []
    why = "the run was stopped; left out" if stopped else "left out by the time limit"
    return [f"{why}: {', '.join(left_out)}"]


def about_copies(
    names: Sequence[str], values: Sequence[Matrix], sides: Sequence[Side], seed: int, labels: Array | None
) -> list[str]:
    """Rows that are nearly equal: only groups keep them in one fold."""
    said = []
    for name, each, side in zip(names, values, sides, strict=True):
        share = near_copies(each, float(side.directions_for_most or 1), np.random.default_rng([seed, 79]), labels)
        if share is not None:
            said.append(
                f"about {share:.0%} of the rows of {name} have a near-copy (a neighbour within a tenth of the median "
                "distance): name rows that belong together as groups, or held-out errors may be too small"
            )
    return said


def about_units(labels: Array | None, shuffles: Shuffles, n_null: int, given: bool) -> list[str]:
    """Few groups, and the p-values that shuffles of them can reach."""
    said = list(shuffles.notes(n_null)) if n_null else []
    if labels is not None and int(labels.max()) + 1 < FEW_GROUPS:
        what = "groups" if given else "sets of equal rows"
        said.append(f"only {int(labels.max()) + 1} {what}: intervals over so few are approximate")
    return said


def about_classes(count: int | None) -> list[str]:
    """A null inside classes."""
    if count is None:
        return []
    return [f"chance is within {count} classes: rows are shuffled inside each, so chance includes what they explain"]


def _median_r2(result: Comparison, ladder: Ladder) -> str:
    """The median held-out R² along the target's principal directions, under the verdict's rung or the linear one."""
    rung = result.verdict.rung if result.verdict.rung not in (None, "identity", "ica") else "linear"
    if not dominated((result.source, result.target)) or rung not in ladder.fitted:
        return ""
    maps = [each[0][0] for each in ladder.fitted[rung].without]
    found = float(np.median(principal_r2(ladder.moments.folds, maps, ladder.moments.total.yy)))
    return f"the median R² per principal direction of the target, {rung} map, is {decimals(found, 2)}"


def about_dimensions(sides: Sequence[Side], median_r2: str = "") -> list[str]:
    """Few dimensions that dominate, and the median R² of single ones, in words."""
    few = dominated(sides)
    if not few:
        return []
    told = f"; {median_r2}" if median_r2 else ""
    return [
        f"few dimensions dominate {named(few, sides)}: {span(side.directions_for_most or 0 for side in few)} of "
        f"{span(side.rank for side in few)} principal directions hold 90% of the variance and set the errors{told}"
    ]


def about_p_values(result: Comparison) -> list[str]:
    """Where p and the printed error seem to contradict each other: p compares errors by fewer steps."""
    said = []
    for direction in (result.forward, result.reverse):
        for rung in direction.rungs.values():
            if rung.null is None:
                continue
            found, error = rung.null.p_value <= FOUND, rung.held_out.mean
            if (found and error >= rung.null.mean) or (not found and rung.below_null and rung.null.smallest_p <= FOUND):
                said.append(
                    f"{rung.name} onto {direction.target}: p compares the real pairing by the steps of shuffled ones, "
                    f"where its error is {decimals(rung.null.observed)}; the error of all rows is {decimals(error)}"
                )
    return said


def _about_medians(result: Comparison) -> list[str]:
    """Where the median error differs from the mean one: both."""
    said = []
    for direction in (result.forward, result.reverse):
        apart = [
            rung
            for rung in direction.rungs.values()
            if (np.isfinite(rung.median) and max(rung.median, 1e-12) / max(rung.held_out.mean, 1e-12) > APART)
            or max(rung.held_out.mean, 1e-12) / max(rung.median, 1e-12) > APART
        ]
        told = [rung for rung in apart if abs(rung.median - rung.held_out.mean) > NEGLIGIBLE]
        if told:
            listed = ", ".join(
                f"{rung.name} {decimals(rung.median, 3)} (mean {decimals(rung.held_out.mean, 3)})" for rung in told
            )
            said.append(
                f"mean and median errors onto {direction.target} differ, as errors or distances to the mean are "
                f"skewed; median errors, in median distances: {listed}"
            )
    return said


def about_left_out(sides: Sequence[Side], factors: Sequence[Factor]) -> list[str]:
    """Columns that hardly vary."""
    said = (left_out_sentence(factor, side.name) for side, factor in zip(sides, factors, strict=True))
    return [sentence for sentence in said if sentence is not None]


def _about_missing_ica(missing: bool) -> list[str]:
    if not missing:
        return []
    return ["the ICA rung was left out: it needs at least 3 groups, because each side is unmixed on its own groups"]


def too_few_rows(rows: int, width: int) -> bool:
    """Whether there are too few rows per dimension for the in-sample linear error to mean anything."""
    return rows < 5 * width


def about_size(rows: int, width: int, folds: int, rank: int | None = None) -> list[str]:
    """Effects of few rows on the linear and the rigid rung.

    ``rank`` is that of both sides: a rotation has an open part where both vary outside of the training rows' span.
    """
    if not too_few_rows(rows, width):
        return []
    said = [
        f"only {rows} rows for {width} dimensions (fewer than 5 per dimension): the in-sample linear error is "
        "overfitted and no evidence of agreement; use the held-out error"
    ]
    if rows * (1 - 1 / folds) <= (width if rank is None else rank):
        said.append(
            "training sets have no more rows than dimensions: part of the rotation is undetermined, and an arbitrary "
            "choice of it enters held-out rigid errors"
        )
    return said


def _about_rows(result: Comparison, match: RowMatch) -> list[str]:
    said = []
    if match.source_rows is not None:
        said.append(
            f"joined by id: {result.source.rows} common rows, {match.dropped_from_source} dropped from "
            f"{result.source.name} and {match.dropped_from_target} from {result.target.name}"
        )
    if match.half_identified:
        said.append("rows are paired by position: only one side has row ids, so the pairing is unconfirmed")
    return said


def about_offset(shares: Sequence[float | None], errors: Sequence[float]) -> list[str]:
    """Where identity is mostly a difference of means; shares and RMS errors, in radii of the target, of every pair."""
    found = [share for share in shares if share is not None]
    if not found or sum(found) / len(found) <= MOSTLY:
        return []
    pairs = list(zip(found, errors, strict=True))
    apart = sum(error * share**0.5 for share, error in pairs) / len(pairs)
    if apart < _LEAST_OFFSET:
        return []
    centred = sum(error * (1 - share) ** 0.5 for share, error in pairs) / len(pairs)
    over = " on average over pairs" if len(pairs) > 1 else ""
    known = max(share for share, _ in pairs) < 1 - _ROUNDING  # otherwise the rest is rounding
    rest = f"; with both sides centred, identity has an RMS error of {centred:.3g} RMS radii" if known else ""
    return [
        f"identity is mostly a difference of means: they are {apart:.3g} RMS radii apart and make up "
        f"{sum(found) / len(found):.0%} of its squared error{over}{rest}"
    ]


def _identity_in_radii(result: Comparison) -> float:
    rung = result.rungs.get("identity")
    return 0.0 if rung is None else rung.held_out.rms * rung.unit / result.target.rms_radius


def _about_sides(result: Comparison, second_pass: tuple[bool, bool]) -> list[str]:
    said = about_sides((result.source, result.target), second_pass)
    if result.source.columns != result.target.columns:
        said.append(
            f"widths differ ({result.source.columns} and {result.target.columns}): the narrower side is padded with "
            "zeros for identity, signed permutation and rigid"
        )
    return said


def about_sides(sides: Sequence[Side], again: Sequence[bool]) -> list[str]:
    """Few rows that dominate, dimensions that do not vary, columns that are nearly dependent: one sentence each."""
    said = []
    dominated = [side for side in sides if side.half_variance_share is not None and side.half_variance_share < FEW_ROWS]
    if dominated:
        shares = [side.half_variance_share or 0.0 for side in dominated]
        counts = span(round(share * side.rows) for share, side in zip(shares, dominated, strict=True))
        said.append(
            f"few rows dominate {named(dominated, sides)}: {counts} of {dominated[0].rows} rows "
            f"({span((100 * share for share in shares), '.1f')}%) hold half of the variance and set the RMS radius "
            "and the fits; without them errors and verdict may differ"
        )
    deficient = [side for side in sides if side.rank < min(side.columns, side.rows - 1)]
    if deficient:
        constant = [side.constant_columns for side in deficient]
        missing = span(side.columns - side.rank for side in deficient)
        said.append(
            f"{named(deficient, sides)} {'is' if len(deficient) == 1 else 'are'} rank-deficient: "
            f"{span(side.rank for side in deficient)} of {span(side.columns for side in deficient)} dimensions vary "
            f"({missing} {'does' if missing == '1' else 'do'} not"
            f"{f', {span(constant)} of them constant columns' if any(constant) else ''})"
        )
    dependent = [side for side, twice in zip(sides, again, strict=True) if twice]
    if dependent:
        maps = "its linear map" if len(dependent) == 1 else "their linear maps"
        said.append(
            f"the columns of {named(dependent, sides)} are nearly dependent: {maps} took a second, preconditioned pass "
            "over the rows"
        )
    return said


def about_components(sides: Sequence[Side], unmixed: Sequence[UnmixedSide]) -> list[str]:
    """How far the independent components of every side are determined: one sentence per problem."""
    said = []
    fits = list(zip(sides, unmixed, strict=True))
    unsettled = [side for side, fitted in fits if not fitted.converged]
    if unsettled:
        said.append(f"ICA of {named(unsettled, sides)} did not converge within its sweeps")
    gaussian = [(side, fitted) for side, fitted in fits if fitted.gaussian]
    if gaussian:
        found = [([fitted.gaussian], [len(fitted.whole.gaussian)]) for _, fitted in gaussian]
        said.append(
            f"{_counted_components([side for side, _ in gaussian], sides, found, 'independent components')} are "
            "indistinguishable from Gaussian: their directions are not determined, which raises the error of the ICA "
            "rung, and rounding decides what they are"
        )
    fewer = [(side, fitted) for side, fitted in fits if fitted.lost_in_parts > _LOST * len(fitted.whole.gaussian)]
    if fewer:
        found = [(fitted.gaussian_in_parts, list[int]()) for _, fitted in fewer]
        whole = [str(fitted.gaussian) for _, fitted in fewer]
        in_all = " and ".join(whole) if len(set(whole)) == len(whole) == 2 else span(int(each) for each in whole)
        said.append(
            f"{_counted_components([side for side, _ in fewer], sides, found, 'components')} are indistinguishable "
            f"from Gaussian in a third of the rows ({in_all} in all rows): the held-out ICA rung is fitted to thirds"
        )
    sampled = [(side, fitted) for side, fitted in fits if fitted.rows_used < side.rows]
    if sampled:
        said.append(
            f"ICA of {named([side for side, _ in sampled], sides)} was estimated from "
            f"{span(fitted.rows_used for _, fitted in sampled)} of {sampled[0][0].rows} rows"
        )
    return said


def _counted_components(
    some: Sequence[Side], sides: Sequence[Side], counts: Sequence[tuple[list[int], list[int]]], what: str
) -> str:
    """Numbers of components, of so many where these are given: of two sides by name, of more as a range over them."""
    told = [f"{span(few)} of {span(every)}" if every else span(few) for few, every in counts]
    if len(some) == 2 and len(set(told)) == 2:
        return f"{told[0]} {what} of {some[0].name} and {told[1]} of {some[1].name}"
    few, every = ([number for each in counts for number in each[which]] for which in (0, 1))
    each = "each of " if len(some) > 1 else ""
    of = f"{span(few)} of {span(every)}" if every else span(few)
    return f"{of} {what} of {each}{named(some, sides, 'the')}"


def named(some: Sequence[Side], sides: Sequence[Side], every: str = "all") -> str:
    """The runs a caveat applies to: all of them, or some by name."""
    if len(some) == len(sides) > 2:
        return f"{every} {len(sides)} runs"
    names = [side.name for side in some]
    if len(names) > _NAMED + 1:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} other runs"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def span(values: Iterable[float], form: str = "") -> str:
    """One number where all are equal, otherwise the range from the smallest to the largest."""
    found = sorted(values)
    low, high = format(found[0], form), format(found[-1], form)
    return low if low == high else f"{low} to {high}"


def _about_diameters(result: Comparison) -> list[str]:
    said = []
    for side, size in ((result.target, result.forward.diameter), (result.source, result.reverse.diameter)):
        if not size.exact:
            said.append(
                f"the diameter of {side.name} lies between {size.lower:.6g} and {size.upper:.6g}; errors in diameters "
                "use the lower bound, the largest distance found"
            )
        if size.value > 8 * side.rms_radius:
            said.append(
                f"outliers set the diameter of {side.name}: it is {size.value / side.rms_radius:.0f} times the RMS "
                "radius, which makes errors in diameters look small"
            )
    return said


def _about_directions(result: Comparison) -> list[str]:
    """Where the two directions have different verdicts: their rungs, and which side predicts the other better."""
    forward, reverse = result.forward, result.reverse
    if forward.verdict.rung == reverse.verdict.rung:
        return []
    said = (
        f"from {reverse.source} to {reverse.target} the verdict is {reverse.verdict.rung or 'no rung'} instead of "
        f"{forward.verdict.rung or 'no rung'}"
    )
    rungs = [each.rungs.get("linear") for each in (forward, reverse)]
    if rungs[0] is not None and rungs[1] is not None and rungs[0].interval and rungs[1].interval:
        apart = rungs[0].interval.high < rungs[1].interval.low or rungs[1].interval.high < rungs[0].interval.low
        if apart:
            said += (
                f"; held-out error of the linear map: {decimals(rungs[0].held_out.mean, 3)} onto {forward.target} and "
                f"{decimals(rungs[1].held_out.mean, 3)} onto {reverse.target}, in mean distances to the mean"
            )
    return [said]
