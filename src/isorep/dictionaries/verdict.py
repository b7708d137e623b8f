"""Verdict on recurrence: atoms recur if more of them reach the threshold than in rotated dictionaries; findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..results import Verdict, counted, significant

if TYPE_CHECKING:
    from .inputs import Given
    from .result import PairRecurrence, Side

MOST, SOME = 0.5, 0.1
"""Shares above chance from which on most atoms recur, and some do."""
LEVEL = 0.05
_CROWDED = 0.05  # share that reaches the threshold by chance, from which on a note says so
_FEW_ROWS = 200

_HEADS = {
    "most": "At least half of the atoms recur",
    "some": "Some atoms recur",
    "few": "Few atoms recur",
    "none": "Atoms do not recur beyond chance",
}


def answer_of(pairs: Sequence[PairRecurrence]) -> str:
    """``most``, ``some`` or ``few`` atoms recur beyond chance, or ``none``: by the mean over pairs.

    Where a single pair is at chance, ``few`` is the most that is said of many.
    """
    levels = [pair.main.one_to_one for pair in pairs]
    beyond = [level.share_null.p_value <= LEVEL and level.share > level.share_null.mean for level in levels]
    if not any(beyond):
        return "none"
    above = float(np.mean([level.above_chance for level in levels]))
    if not all(beyond) or above < SOME:
        return "few"
    return "most" if above >= MOST else "some"


def verdict_of(sides: Sequence[Side], pairs: Sequence[PairRecurrence], threshold: float) -> Verdict:
    """The answer, with shares, similarities and chance."""
    answer = answer_of(pairs)
    if len(pairs) > 1:
        return Verdict(answer, _of_many(answer, sides, pairs, threshold))
    pair = pairs[0]
    main = pair.main
    level = main.one_to_one
    least = min(sides, key=lambda side: side.alive)
    hits = round(level.share * least.alive)
    most = "at most " if main.sampled else ""
    reach = f"{main.measure} >= {threshold:g}, one to one"
    head = _HEADS[answer]
    closer = ""
    if answer == "none" and level.mean_null.p_value <= LEVEL:
        closer = ", though partners are closer than by chance"
    sentence = (
        f"{head}{closer}: {hits} of {least.alive} living atoms of {least.name} ({level.share:.1%}) have a partner in "
        f"{pair.target if least.name == pair.source else pair.source} ({reach}; chance {most}"
        f"{level.share_null.mean:.1%}, p {_p(level.share_null.p_text)}). Mean {main.measure} of partners: "
        f"{level.mean:.3f} (chance {most}{level.mean_null.mean:.3f})."
    )
    return Verdict(answer, sentence)


def _p(text: str) -> str:
    return text if text.startswith("<=") else f"= {text}"


def _of_many(answer: str, sides: Sequence[Side], pairs: Sequence[PairRecurrence], threshold: float) -> str:
    levels = [pair.main.one_to_one for pair in pairs]
    measure = pairs[0].main.measure
    shares, chances = [level.share for level in levels], [level.share_null.mean for level in levels]
    beyond = sum(level.share_null.p_value <= LEVEL for level in levels)
    everywhere = sum(side.recurs_in[-1] for side in sides)
    living = sum(side.alive for side in sides)
    head = "Few atoms recur, or not in all pairs" if answer == "few" else _HEADS[answer]
    most = "at most " if any(pair.main.sampled for pair in pairs) else ""
    return (
        f"{head}: over {len(pairs)} pairs of {len(sides)} dictionaries, {min(shares):.1%} to {max(shares):.1%} of the "
        f"smaller dictionary's atoms have a partner ({measure} >= {threshold:g}, one to one; chance {most}"
        f"{max(chances):.1%}; above chance in {beyond} of {len(pairs)}). {everywhere} of {living} living atoms "
        f"({everywhere / living:.1%}) recur in all other dictionaries."
    )


def findings_of(pair: PairRecurrence, threshold: float) -> list[str]:
    """What else was found, in sentences that are true of any result."""
    said = []
    main = pair.main
    if main.gap <= 1e-6:
        said.append("The one-to-one matching is optimal, up to rounding.")
    else:
        said.append(f"The one-to-one matching is within {significant(main.gap)} of the largest mean {main.measure}.")
    both = pair.together
    if both is not None:
        said.append(
            f"Decoders and activations: of atoms matched by decoder, {both.both:.1%} reach {threshold:g} in cosine and "
            f"in correlation, {both.cosine_only:.1%} in cosine alone, {both.correlation_only:.1%} in correlation alone."
        )
    for each in pair.splitting:
        said.append(
            f"Splitting: {counted(each.count, 'atom')} of {each.source} ({each.share:.1%}) "
            f"{'is' if each.count == 1 else 'are'} split in {each.target} (chance at most {each.chance:.1%})."
        )
    for lost in pair.absorption:
        said.append(
            f"Absorption: of {counted(lost.tested, 'recurring atom')} of {lost.source} with enough active rows, "
            f"{lost.count} ({lost.share:.1%}) {'is' if lost.count == 1 else 'are'} absorbed in {lost.target}."
        )
    return said


def _raised(crowded: Sequence[PairRecurrence]) -> bool:
    """Whether partners are closer than by chance, so that a higher threshold could tell them apart."""
    levels = [pair.main.one_to_one for pair in crowded]
    # Equal atoms differ by rounding, which is no distance from chance.
    return any(each.mean_null.p_value <= LEVEL and each.mean > max(each.mean_null.draws) + 1e-6 for each in levels)


def caveats_of(
    given: Given, sides: Sequence[Side], pairs: Sequence[PairRecurrence], threshold: float
) -> tuple[str, ...]:
    """Limits of these numbers, as sentences."""
    said = list(given.notes)
    for side in sides:
        if side.width is not None and side.atoms < side.width:
            said.append(
                f"{side.name} has fewer atoms ({side.atoms}) than dimensions ({side.width}): if atoms are columns, "
                "transpose it (--transpose, or transpose=True)"
            )
        if side.duplicates:
            said.append(
                f"{counted(side.duplicates, 'atom')} of {side.name} nearly "
                f"{'equals' if side.duplicates == 1 else 'equal'} an earlier one: each needs a partner of its own"
            )
    if any(each.frequency is None for each in given.dictionaries):
        said.append(
            "how often atoms are active is unknown: there is no curve against frequency, and dead atoms are seen only "
            "if they are zero; give activations or frequencies"
        )
    crowded = [pair for pair in pairs if pair.main.one_to_one.share_null.mean >= _CROWDED]
    if crowded:
        worst = max(pair.main.one_to_one.share_null.mean for pair in crowded)
        said.append(
            f"up to {worst:.1%} of atoms reach {threshold:g} by chance: atoms crowd in the directions that they span"
            + (", and a higher threshold may tell more" if _raised(crowded) else "")
        )
    if given.sampled is not None and given.rows is not None:
        if given.sampled < given.rows:
            said.append(f"correlations are over {given.sampled} of {given.rows} rows, drawn at random")
        if given.sampled < _FEW_ROWS:
            said.append(f"correlations over {given.sampled} rows are coarse: below {_FEW_ROWS} chance is high")
    if any(pair.main.sampled for pair in pairs):
        said.append(
            "chance levels look at some atoms of each side, and that of one-to-one matching is the chance level of "
            "best matches, which is never lower"
        )
    return tuple(said)
