"""The verdict: a rule, not a mood."""

from __future__ import annotations

from .result import Rung, Verdict

WEAK = 0.5  # share of chance above which a relation is called weak; the rung is the same
PHRASES = {
    "identity": "agree as they are",
    "signed_permutation": "agree up to a signed permutation of dimensions (with one scale and a translation)",
    "rigid": "agree up to a rigid motion (rotation or reflection, with one scale and a translation)",
    "linear": "agree up to a linear map",
    "ica": "agree once their independent components are matched",
}


def judge(rungs: dict[str, Rung], tolerance: float, source: str, target: str) -> Verdict:
    """The smallest rung whose held-out interval lies below its null and within ``tolerance`` of the linear rung.

    "Within" is judged by the upper end of the interval of the *paired* difference from the linear rung: both errors are
    measured on the same rows, so their common noise does not count.
    """
    linear = rungs.get("linear")
    if linear is None:
        return Verdict(None, "No verdict: the rule measures every rung against the linear one, which was left out.")
    if linear.null is None:
        return Verdict(None, "No verdict: the null was switched off, so chance cannot be ruled out.")
    for name, rung in rungs.items():
        if rung.below_null and _excess(rung, linear) <= tolerance:
            return Verdict(name, _sentence(rung, source, target))
    return Verdict(
        None,
        f"{source} and {target} are not explained by any rung: the linear map leaves a mean error of "
        f"{linear.held_out.mean:.4f} diameters held out, and chance gives {linear.null.mean:.4f}.",
    )


def _sentence(rung: Rung, source: str, target: str) -> str:
    chance = rung.null.mean if rung.null else float("nan")
    share = rung.held_out.mean / chance
    left = f"a mean error of {rung.held_out.mean:.4f} diameters held out, {share:.0%} of chance ({chance:.4f})"
    if share <= WEAK:
        return f"{source} and {target} {PHRASES[rung.name]}. What is left is {left}."
    weakly = f"and a linear map finds no more than the {rung.name} rung"
    if rung.name == "linear":
        weakly = "even up to a linear map"
    explains = "" if rung.explained is None else f"explains {rung.explained:.0%} of the variance and "
    return f"{source} and {target} are only weakly related, {weakly}: it {explains}leaves {left}."


def _excess(rung: Rung, linear: Rung) -> float:
    return rung.excess.high if rung.excess else rung.held_out.mean - linear.held_out.mean
