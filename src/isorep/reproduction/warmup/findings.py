"""What was found, in sentences made by rule from the numbers."""

from __future__ import annotations

import numpy as np

from .curves import Correlation, fit_curve, spearman, spearman_within
from .presets import Preset
from .published import LEFT_OPEN
from .reading import Part

CLOSE = 0.97
"""Ratio of neighbouring eigenvalues above which the linear autoencoder counts as hardly unique."""


def verdict(parts: list[Part]) -> tuple[str, bool | None]:
    """Whether the error falls as the leak goes to 1, and follows L: both, one, none; for the first part."""
    if not parts:
        return "No pair was trained.", None
    part = parts[0]
    falls, low, high = _falls(part)
    rank = spearman(*part.columns())
    follows = rank.low is not None and rank.low > 0
    said = [
        f"{part.title}: the error {'falls' if falls else 'does not fall'} as the leak goes to 1, from {low} % of the "
        f"diameter at leak {part.leaks[0]:g} to {high} % at leak {part.leaks[-1]:g}",
        f"It {'follows' if follows else 'is not shown to follow'} √(2L + L²): rank correlation {_spelt(rank)}",
    ]
    return ". ".join(said) + ".", True if falls and follows else None if falls or follows else False


def findings(parts: list[Part], preset: Preset) -> tuple[str, ...]:
    """One sentence or two on each question."""
    said = []
    for part in parts:
        said += [_trend(part), _within(part, preset), _constants(part), _bound(part), _outputs(part)]
    for part in parts:
        gaps = {outcome["spectrum_gap"] for outcome in part.outcomes}
        if max(gaps) > CLOSE:
            said.append(
                f"{part.title}: the eigenvalues of the images' second moments at the latent dimension are as close as "
                f"{max(gaps):.2f}, so that the linear autoencoder is hardly unique: errors at leak 1 need not be zero."
            )
    return (*said, LEFT_OPEN)


def _trend(part: Part) -> str:
    values = [part.mean(leak, lambda pair: 100 * pair.error)[0] for leak in part.leaks]
    unseen = [part.mean(leak, lambda pair: 100 * pair.held_out)[0] for leak in part.leaks]
    chance = float(np.mean([100 * pair.found["chance"] for pair in part.pairs]))
    return (
        f"{part.title}: mean rigid error by leak ({', '.join(f'{leak:g}' for leak in part.leaks)}): "
        f"{_listed(values)} % of the diameter; on images that nothing was fitted to {_listed(unseen)} %; with shuffled "
        f"images {chance:.1f} %. Dropped by the filter: {part.dropped} of {len(part.pairs)} pairs."
    )


def _within(part: Part, preset: Preset) -> str:
    rank, within = spearman(*part.columns()), spearman_within(part.groups())
    curve = fit_curve(*part.columns(), preset.intercept)
    if within.low is not None and within.low > 0:
        words = "so L also tells pairs of one leak apart"
    elif within.high is not None and within.high < 0:
        words = "with the other sign: the leak drives both the error and L, and L says nothing beyond it"
    else:
        words = "so L is not shown to tell pairs of one leak apart: the leak drives both the error and L"
    fit = "" if curve.r2 is None else f", R² of the curve {curve.r2:.2f}"
    return (
        f"{part.title}: over all leaks the rank correlation of the error with √(2L + L²) is {_spelt(rank)}{fit}; "
        f"within a leak it is {_spelt(within)}, {words}."
    )


def _constants(part: Part) -> str:
    over = sum(
        side["exact"]["max"] > outcome["bound_activations"] * (1 + 1e-4)
        for outcome in part.outcomes
        for pair in outcome["pairs"]
        for side in pair["sides"]
    )
    sides = [side for pair in part.pairs for side in pair.found["sides"]]
    under = float(np.mean([side["paper"]["mean"] - 1 for side in sides])) / max(
        float(np.mean([side["exact"]["mean"] - 1 for side in sides])), 1e-12
    )
    drift = max(side["defect"] for side in sides)
    typical = [part.mean(leak, lambda pair: pair.excess("exact", "mean"))[0] for leak in part.leaks]
    largest = [part.mean(leak, lambda pair: 1 + pair.excess("exact", "max"))[0] for leak in part.leaks]
    return (
        f"{part.title}: by leak the mean of L is {_listed(typical)}, the largest constant 1 + L of a pair "
        f"{_listed(largest)} on average. {over} of {len(sides)} decoders have a local constant above α^-(K-1), which "
        f"is tighter than the published α^-K. Ten random directions see {under:.0%} of the exact mean L. Weights "
        f"stayed orthogonal within {drift:.0e}."
    )


def _bound(part: Part) -> str:
    bounds = [pair.found["bound"] for pair in part.kept]
    violated, vacuous = sum(each["violated"] for each in bounds), sum(each["vacuous"] for each in bounds)
    equal = sum(each["equal_outputs_violated"] for each in bounds)
    said = (
        f"{part.title}: the bound on the RMS error, with a term for outputs that differ, is violated by {violated} of "
        f"{len(bounds)} pairs and vacuous for {vacuous}: it says no more than the size of the clouds. "
    )
    if equal:
        said += (
            f"Without that term {equal} pairs violate it, as the theorem assumes two models with equal outputs and "
            "these differ."
        )
    else:
        said += "Without that term, which the theorem leaves out by assuming equal outputs, it is not violated either."
    return said


def _outputs(part: Part) -> str:
    ends = [part.leaks[0], part.leaks[-1]]
    apart = [part.mean(leak, lambda pair: pair.found["mismatch"]["rms"])[0] for leak in ends]
    lost = [part.mean(leak, lambda pair: 1000 * pair.reconstruction)[0] for leak in ends]
    return (
        f"{part.title}: reconstruction is not perfect at any leak (1000 x mean squared error of a pixel: "
        f"{_listed(lost)} at leaks {ends[0]:g} and {ends[1]:g}); the outputs of two models differ by {_listed(apart)} "
        "there, in the root mean square of the norm."
    )


def _falls(part: Part) -> tuple[bool, str, str]:
    """At most half the error at the largest leak, by two standard errors."""
    first, first_error = part.mean(part.leaks[0], lambda pair: 100 * pair.error)
    last, last_error = part.mean(part.leaks[-1], lambda pair: 100 * pair.error)
    if first is None or last is None:
        return False, "unknown", "unknown"
    margin = 2 * float(np.hypot(first_error or 0.0, last_error or 0.0))
    return last <= first / 2 and first - last > margin, f"{first:.3g}", f"{last:.3g}"


def _spelt(found: Correlation) -> str:
    if found.value is None:
        return "unknown"
    interval = "" if found.low is None else f" (95 % interval {_signed(found.low)} to {_signed(found.high)})"
    return f"{_signed(found.value)}{interval}"


def _signed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}".replace("-", "−")


def _listed(values: list[float | None]) -> str:
    return ", ".join("none" if value is None else f"{value:.3g}" for value in values)
