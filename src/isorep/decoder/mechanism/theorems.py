"""The hierarchy of the criteria, and whether an identifiability theorem applies to what was found."""

from __future__ import annotations

from collections.abc import Sequence

from .result import FAILS, HOLDS, Check, Criterion, Implication, SparsityCondition, Theorem, withdrawn

NAMES = {"D": "Type D", "M": "Type M", "S": "Type S", "H2": "Type H_2", "H3": "Type H_3"}
STEPS = (("D", "M"), ("D", "S"), ("D", "H2"), ("H2", "H3"))


def checked_hierarchy(
    criteria: dict[str, Criterion], full_rank: bool
) -> tuple[dict[str, Criterion], tuple[Implication, ...]]:
    """D implies M, S and H_2, and H_2 implies H_3. What contradicts that is undecided, and said to be."""
    found = dict(criteria)
    steps = []
    for premise, conclusion in STEPS:
        if premise in found and conclusion in found:
            found, step = _checked(found, premise, conclusion, full_rank)
            steps.append(step)
    return found, tuple(steps)


def theorem(
    criterion: Criterion, full_rank: bool, sparsity: Sequence[SparsityCondition], lifting: Sequence[Check], blocks: int
) -> Theorem:
    """Whether every assumption that a sample can show was found, at which tolerances, and the sentence that says so."""
    tolerances = list(dict.fromkeys(level.tolerance for way in criterion.evidence for level in way.levels))
    found = []
    for place, tolerance in enumerate(tolerances):
        lacking = _lacking(criterion, place, tolerance, sparsity)
        if not full_rank:
            lacking[0].insert(0, "a Jacobian of full rank at every sample")
        if blocks < 2:
            lacking[0].insert(0, "two blocks: with one there is nothing to tell apart")
        found.append((tolerance, *lacking))
    applies_at = tuple(tolerance for tolerance, missing, ends in found if not missing and not ends)
    name = NAMES[criterion.name]
    if applies_at:
        return Theorem(criterion.name, True, applies_at, (), _found_sentence(name, applies_at, len(found), lifting))
    if not found:
        return Theorem(criterion.name, None, (), ("any sample",), f"Nothing could be said about the {name} theorem.")
    tolerance, missing, ends = min(found, key=lambda each: (len(each[1]), len(each[2])))
    if missing:
        said = f"The {name} theorem does not apply; missing at {tolerance:g}: {'; '.join([*missing, *ends])}."
    else:
        said = f"Whether the {name} theorem applies is open; not settled at {tolerance:g}: {'; '.join(ends)}."
    return Theorem(criterion.name, False if missing else None, (), (*missing, *ends), said)


def _lacking(
    criterion: Criterion, place: int, tolerance: float, sparsity: Sequence[SparsityCondition]
) -> tuple[list[str], list[str]]:
    """What is missing, and what is open, at one tolerance."""
    missing, ends = [], []
    states = [way.levels[place].state for way in criterion.evidence if way.levels]
    if FAILS in states:
        missing.append(f"{NAMES[criterion.name]} independence itself")
    elif HOLDS not in states:
        ends.append(f"{NAMES[criterion.name]} independence (undecided)")
    for good, parts in (("irreducible", criterion.irreducible), ("separable", criterion.separable)):
        for state in dict.fromkeys(part.states[place] for part in parts if part.states[place] != good):
            named = [str(part.block) for part in parts if part.states[place] == state]
            blocks = f"block {named[0]}" if len(named) == 1 else f"blocks {', '.join(named)}"
            (ends if state in ("undecided", "not tested") else missing).append(f"{good} {blocks} ({state})")
    if criterion.name == "M":
        here = next((each for each in sparsity if each.tolerance == tolerance), None)
        if here is None:
            ends.append("the sparsity condition, which needs a reference decoder")
        elif here.share < 1:
            missing.append("the sparsity condition: this Jacobian has more nonzeros than the reference's")
    return missing, ends


def _found_sentence(name: str, applies_at: Sequence[float], levels: int, lifting: Sequence[Check]) -> str:
    against = [check.name for check in lifting if check.state == "falsified"]
    untested = [check.name for check in lifting if check.state == "not tested"]
    where = "" if len(applies_at) == levels else f" (at tolerances {', '.join(f'{each:g}' for each in applies_at)})"
    said = (
        f"Every assumption of the {name} theorem that a sample can show was found{where}: locally, another decoder of "
        "the same kind with the same outputs has the same blocks, each up to a map of its own"
    )
    if against:
        return f"{said}; that this holds globally is spoken against by: {', '.join(against)}."
    rest = f" ({', '.join(untested)}: not tested)" if untested else ""
    return f"{said}; globally, if the lifting theorem's assumptions hold, none of which was falsified{rest}."


def _checked(
    criteria: dict[str, Criterion], premise: str, conclusion: str, full_rank: bool
) -> tuple[dict[str, Criterion], Implication]:
    first, second = criteria[premise], criteria[conclusion]
    words = NAMES[premise], NAMES[conclusion]
    if premise == "D" and conclusion in "MS" and not full_rank:
        said = "Some Jacobian has not full rank, and a direction that moves nothing has an empty support."
        return criteria, Implication(premise, conclusion, "not applicable", said)
    local = None
    for way in first.evidence:
        for level in way.levels:
            if level.state != HOLDS:
                continue
            for other in second.evidence:
                if way.method != other.method and premise == "H2":
                    continue  # derivatives imply derivatives, swaps swaps
                against = next((each for each in other.levels if each.tolerance == level.tolerance), None)
                if against is None or against.state != FAILS:
                    continue
                if premise == "D" and other.method == "swaps":
                    local = (
                        f"Type D holds at every sample at {level.tolerance:g}, and yet blocks interact over finite "
                        "steps: outputs change hands between samples, as under occlusion."
                    )
                    continue
                said = (
                    f"{words[0]} holds and {words[1]} fails at {level.tolerance:g}, which cannot be: numerical "
                    "indecision, both are set to undecided there."
                )
                criteria = {
                    **criteria,
                    premise: withdrawn(criteria[premise], level.tolerance, way.method, said),
                    conclusion: withdrawn(criteria[conclusion], level.tolerance, other.method, said),
                }
                return criteria, Implication(premise, conclusion, "numerical indecision", said)
    if local is not None:
        return criteria, Implication(premise, conclusion, "local only", local)
    return criteria, Implication(
        premise, conclusion, "agrees", f"{words[0]} implies {words[1]}: nothing contradicts it."
    )
