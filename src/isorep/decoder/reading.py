"""What a decoder's constants say, in sentences, and what to keep in mind about them."""

from __future__ import annotations

import math

import numpy as np

from .geometry import Constants, Geometry, shown

THEOREM_LIMIT = math.sqrt(2)  # of the constant: 2L + L^2 <= 1


def verdict_of(found: Geometry) -> tuple[str, ...]:
    """Sentences with the numbers, the most important first."""
    said = [_constant(found)]
    if found.active is not None:
        said.append(_active(found, found.active))
    elif found.latents and len(found.inactive) == len(found.latents):
        said.append("Its output does not move with any latent: at these rows it is constant.")
    elif found.rank is not None and int(found.rank.min()) < found.data["latents"]:
        said.append(_lost(found))
    best = found.active or found.constants
    if best.scale is not None and best.similarity_constant < 0.99 * best.constant:
        where = " of the active latents" if found.active is not None else ""
        said.append(
            f"With its output scaled by {best.scale:.4g} the decoder{where} would be "
            f"{shown(best.similarity_constant)}-bi-Lipschitz: this much is left when the scale is free."
        )
    said.append(_theorem(best, found.certain))
    if found.directions is not None:
        said.append(_directions(found))
    if found.convexity is not None:
        said.append(found.convexity.sentence)
    return tuple(said)


def _constant(found: Geometry) -> str:
    n, high, low = len(found.local), float(found.largest.max()), float(found.smallest.min())
    at = "one latent" if n == 1 else f"{n:,} latents"
    if math.isinf(found.constant):
        count = int(np.isinf(found.local).sum())
        where = "all of them" if count == n else f"{count:,} of them"
        loses = "it loses directions there" if n == 1 else f"it loses directions at {where}"
        return f"Measured at {at}, the decoder is not bi-Lipschitz: {loses}, so the constant is infinite."
    least = "" if found.certain else "at least "
    return (
        f"Measured at {at}, the decoder stretches directions by {low:.4g} to {high:.4g}, so it is locally {least}"
        f"{shown(found.constant)}-bi-Lipschitz there (1 is an isometry; the excess L is {least}{found.excess:.4g})."
    )


def _active(found: Geometry, active: Constants) -> str:
    names = found.inactive
    listed = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    share = found.settings["inactive_below"]
    return (
        f"{len(names)} of {found.data['latents']} latents {verb} inactive ({listed}): the decoder moves less than "
        f"{share:g} times as much with {them} as with the most active one. On the other latents the constant is "
        f"{shown(active.constant)}."
    )


def _lost(found: Geometry) -> str:
    assert found.rank is not None
    d, outputs = found.data["latents"], found.data["outputs"]
    if outputs < d:
        there = "There is 1 output" if outputs == 1 else f"There are {outputs} outputs"
        lost = "1 direction is" if d - outputs == 1 else f"{d - outputs} directions are"
        return f"{there} for {d} latents, so at least {lost} always lost."
    least, usual = int(found.rank.min()), float(np.median(found.rank))
    return (
        f"Each latent matters, but combinations do not: the Jacobian has rank {usual:g} of {d} at the median row and "
        f"{least} at the lowest."
    )


def _theorem(best: Constants, certain: bool) -> str:
    end = "√2 = 1.414, where the near-identifiability theorem ends (2L + L² <= 1)"
    if best.constant <= THEOREM_LIMIT:
        doubt = "" if certain else ", but as an estimate from below it does not show that the true one is"
        return f"The constant is within {end}{doubt}."
    if best.similarity_constant <= THEOREM_LIMIT:
        return f"The constant exceeds {end}; with a free scale it does not."
    return f"The constant exceeds {end}, also with a free scale."


def _directions(found: Geometry) -> str:
    directions = found.directions
    assert directions is not None
    noun = "direction gives" if directions.count == 1 else "directions give"
    text = f"{directions.count} random {noun} {shown(directions.constant)}"
    if directions.exact is None:
        return f"{text}, an estimate from below: the extreme directions are seldom near a random one."
    rows = f" at the same {directions.rows:,} rows" if found.mode == "paper" and directions.rows > 1 else ""
    missed = directions.exact > 1.001 * directions.constant
    end = "random directions miss the extreme ones" if missed else "here they find the extreme ones"
    return f"{text} where the exact constant{rows} is {shown(directions.exact)}: {end}."


def caveats_of(found: Geometry, notes: tuple[str, ...]) -> tuple[str, ...]:
    """What to keep in mind, most important first."""
    said = list(notes)
    n = len(found.local)
    if found.mode == "paper":
        said.append(
            "random directions never see more than the true stretch: every constant here is an estimate from below, "
            "the lower the more latents there are"
        )
    elif not found.certain:
        said.append(
            "some smallest singular values did not converge and may be lower: the constant is an estimate from below"
        )
    if n > 1:
        share = min(1.0, 1 - 0.05 ** (1 / n))
        said.append(
            f"the constant is the largest of {n:,} rows: of latents drawn like these, up to {share:.2g} may exceed it "
            "(95 % confidence)"
        )
    else:
        said.append("the constant is that of a single row")
    if found.data["kinks"]:
        said.append(
            "the theorem asks for a continuously differentiable decoder, which this one is not "
            f"({', '.join(found.data['kinks'])}): what is measured is its derivative almost everywhere"
        )
    if found.mode != "paper" and found.rank is None:
        said.append("inactive latents were not looked for: with so many latents their columns are not computed")
    return tuple(said)
