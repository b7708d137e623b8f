"""What was found, in sentences made by rule from the numbers.

Outcomes of the units as tables, figures, findings and a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

from .experiment import Outcome, Row, Summary, Table
from .pretrained import RUNGS
from .pretrained_charts import Number, Reading, Subject, charts
from .pretrained_claims import FAILS, HOLDS, UNDECIDED, Claim, Judgement, judgements
from .pretrained_settings import KINDS, LEFT_OPEN, PUBLISHED, SOURCE, Preset

WORDS = {"signed_permutation": "permutation", "rigid": "rigid", "linear": "linear", "ica": "ICA"}


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """Which of the published findings are seen wherever they apply, in part, or nowhere."""
    every = [(claim, found) for claim, found in by_claim(reading) if claim.stated]
    if not every:
        return "No pair was compared.", None
    full = [claim for claim, found in every if all(each.status == HOLDS for each in found)]
    none = [claim for claim, found in every if all(each.status == FAILS for each in found)]
    rest = [claim for claim, _ in every if claim not in full and claim not in none]
    parts = [
        f"{len(claims)} {'is' if len(claims) == 1 else 'are'} {words} ({'; '.join(claim.short for claim in claims)})"
        for claims, words in ((full, "seen throughout"), (none, "seen nowhere"), (rest, "seen in part or undecided"))
        if claims
    ]
    cases = [each for _, found in every for each in found]
    kept = sum(each.status == HOLDS for each in cases)
    reached = True if len(full) == len(every) else False if len(none) == len(every) else None
    return (
        f"Of {len(every)} published findings, held out, {_and(parts)}: {kept} of {len(cases)} cases keep their rule.",
        reached,
    )


def findings(reading: Reading) -> tuple[str, ...]:
    """One sentence for each published finding, then what else should be known."""
    said = [_claim(claim, found) for claim, found in by_claim(reading)]
    said += [_order(reading), _control_finding(reading), _untrained_claims(reading), _folds(reading)]
    said += [_shrinking(reading), _learnt(reading), _caveats(reading), _pairs(reading)]
    return (*(sentence for sentence in said if sentence), LEFT_OPEN)


def by_claim(reading: Reading) -> list[tuple[Claim, list[Judgement]]]:
    """Judgements of each claim, in the order of claims."""
    found: dict[str, list[Judgement]] = {}
    for each in judgements(reading):
        found.setdefault(each.claim.key, []).append(each)
    return [(group[0].claim, group) for group in found.values()]


def judged_words(each: Judgement) -> str:
    """What a pair says on a claim, and the numbers that decide it."""
    span, count = each.span, len(each.margins)
    numbers = _signed(span.value)
    if span.low is not None and span.high is not None:
        numbers += f", 95 % interval {_signed(span.low)} to {_signed(span.high)}"
    if each.error is not None:
        numbers += f", s.e. over pairs {each.error:.3f}"
    if count > 1 and each.status == UNDECIDED:
        numbers += f", kept in {each.hold} and broken in {each.fail} of {count} pairs"
    parts = [numbers]
    if each.in_sample is not None:
        parts.append(f"in sample {_signed(each.in_sample)}")
    if each.published is not None:
        parts.append(f"published {_signed(each.published)}")
    if each.status_before is not None:
        parts.append(f"{each.status_before} by untrained ones")
    return f"{each.title} {each.status} ({'; '.join(parts)})"


def _claim(claim: Claim, found: list[Judgement]) -> str:
    strict = "" if claim.stated else ", a stricter reading than any published one"
    words = f"Whether {claim.words}{strict} (rule: {claim.rule}), margins in diameters: "
    words += ", ".join(judged_words(each) for each in found)
    broken = [each.title for each in found if each.published is not None and each.published < 0]
    return f"{words}. {'The published numbers themselves break the rule.' if broken else ''}".strip()


def _order(reading: Reading) -> str:
    """Whether rigid is nearer to linear where theory says rigid than where it says linear."""
    known = {}
    for subject in reading.subjects:
        errors = [subject.error(rung)[0] for rung in ("signed_permutation", "rigid", "linear")]
        if (share := _gained(*errors)) is not None:
            known[subject.title] = share
    if not known:
        return ""
    rows = {row.name: _gained(row.permutation, row.rigid, row.linear) for row in PUBLISHED.values()}
    return (
        f"Of what a linear map gains over a permutation, a rigid map gains: {_shares(known)}. Published are "
        f"{_shares(rows)}: theory expects less of the GPT than of the others, and Table 1 does not show that."
    )


def _control_finding(reading: Reading) -> str:
    """What training does to the error of each rung, as shares of what the mean alone leaves."""
    parts: list[str] = []
    closer: list[str] = []
    not_closer: list[str] = []
    for subject in reading.subjects:
        shares = [
            f"{WORDS[rung]} {after:.0%} ({before:.0%})"
            for rung in RUNGS
            if (after := subject.share(rung)[0]) is not None
            and (before := subject.share(rung, "untrained")[0]) is not None
        ]
        if not shares:
            continue
        parts.append(f"{subject.title} {', '.join(shares)}")
        (closer if _is_closer(subject) else not_closer).append(subject.title)
    if not parts:
        return ""
    said = (
        "Held-out errors as shares of what the mean alone leaves, those of untrained networks in brackets: "
        f"{'; '.join(parts)}."
    )
    if closer:
        said += f" By the share of the linear map, training makes closer: {', '.join(closer)}."
    if not_closer:
        said += f" Training makes no closer: {', '.join(not_closer)}."
    return said


def _is_closer(subject: Subject) -> bool:
    after, before = subject.share("linear")[0], subject.share("linear", "untrained")[0]
    return after is not None and before is not None and after < before


def _shrinking(reading: Reading) -> str:
    """Why ICA can be worse than a permutation."""
    worse = [
        subject.title
        for subject in reading.subjects
        if (ica := subject.error("ica")[0]) is not None
        and (permutation := subject.error("signed_permutation")[0]) is not None
        and ica > permutation
    ]
    if not worse:
        return ""
    return (
        f"ICA is worse than a permutation for {', '.join(worse)}: the permutation has a scale, which shrinks towards "
        "the mean where two networks disagree, and ICA maps unit variance onto unit variance, right or wrong."
    )


def _untrained_claims(reading: Reading) -> str:
    seen = [each for each in judgements(reading) if each.claim.stated and each.status == HOLDS and each.before]
    alike = [each for each in seen if each.status_before == HOLDS]
    if not seen:
        return ""
    return (
        f"Cases that keep a rule and have a control: {len(seen)}, of which untrained networks keep {len(alike)}, too; "
        "there the rule says something about architecture and data, and nothing about training."
    )


def _folds(reading: Reading) -> str:
    """How much an in-sample figure flatters."""
    parts = []
    for subject in reading.subjects:
        gaps = []
        for rung in RUNGS:
            inside, outside = subject.error(rung, "in_sample")[0], subject.error(rung)[0]
            if inside is not None and outside is not None:
                gaps.append(f"{WORDS[rung]} {_signed(outside - inside)}")
        first = next(iter(subject.trained.values()), None)
        if first is None or not gaps:
            continue
        below = sum(each.below_null("linear") for each in subject.trained.values())
        grouped = "" if first.found["groups"] is None else f" in {first.found['groups']} groups"
        parts.append(
            f"{subject.title} {', '.join(gaps)} ({first.found['rows']} rows{grouped}, the linear map below chance in "
            f"{below} of {len(subject.trained)} pairs)"
        )
    return f"What held-out errors add to those in sample: {'; '.join(parts)}." if parts else ""


def _learnt(reading: Reading) -> str:
    parts = []
    for each in reading.trainings:
        words = f"{KINDS[each['kind']]} {_mean(each['loss_before']):.3f} to {_mean(each['held_out_loss']):.3f}"
        if each.get("accuracy"):
            words += f" (accuracy {_mean(each['accuracy']):.0%} of ten classes)"
        parts.append(words)
    return f"Held-out losses, before and after training: {', '.join(parts)}." if parts else ""


def _caveats(reading: Reading) -> str:
    """What a comparison of a named pair warns of; for the trained ones it is known beforehand."""
    parts = [
        f"{subject.title}: {caveat}"
        for subject in reading.subjects
        if subject.named
        for each in subject.trained.values()
        for caveat in each.found["caveats"]
    ]
    return f"Caveats: {'; '.join(parts)}." if parts else ""


def _pairs(reading: Reading) -> str:
    preset = reading.preset
    if not reading.trainings:
        return ""
    data = "that were not trained on" if preset.unseen else "that were trained on, as published"
    return (
        f"Rows are of texts and images {data}; {preset.seeds} trainings of a kind make all pairs, so that pairs share "
        "trainings, and standard errors are jackknives over trainings. Intervals are over rows, or over documents, and "
        "those of margins add up the ends of their parts, so that they are too wide rather than too narrow."
    )


def _gained(permutation: float | None, rigid: float | None, linear: float | None) -> float | None:
    if permutation is None or rigid is None or linear is None or permutation <= linear:
        return None
    return (permutation - rigid) / (permutation - linear)


def _shares(known: dict[str, float] | dict[str, float | None]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in known.items() if share is not None)


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


Cell = tuple[Number, Number]
COLUMNS = ("permutation", "rigid", "linear", "ICA", "ICA efficiency")
EFFICIENCY = "lower is closer; efficiency is 1 for the rigid map, and left out where that removes less than a tenth"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables = (_in_sample(reading), _held_out(reading), _claims(reading), _control_table(reading), _models(reading))
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table.rows),
        charts=charts(reading),
        findings=findings(reading),
    )


def _in_sample(reading: Reading) -> Table:
    rows = []
    for subject in reading.subjects:
        cells = [subject.error(rung, "in_sample") for rung in RUNGS] + [subject.efficiency("efficiency_in_sample")]
        rows.append(Row(subject.title, *_columns(cells), published=_beside(subject)))
    return Table(
        "table-1",
        "Table 1: errors in diameters, in sample as published, ± s.e. over pairs",
        COLUMNS,
        tuple(rows),
        EFFICIENCY,
        SOURCE,
    )


def _held_out(reading: Reading) -> Table:
    rows = []
    for subject in reading.subjects:
        cells = [subject.error(rung) for rung in RUNGS] + [subject.efficiency()]
        rows.append(Row(subject.title, *_columns([*cells, subject.share("linear")])))
    return Table(
        "held-out",
        "The same held out, documents kept whole, ± s.e. over pairs",
        (*COLUMNS, "linear / mean alone"),
        tuple(rows),
        EFFICIENCY,
    )


def _claims(reading: Reading) -> Table:
    rows = []
    for each in judgements(reading):
        span = each.span
        before = [one.value for one in each.before]
        values = (
            each.published,
            each.in_sample,
            span.value,
            span.low,
            span.high,
            sum(before) / len(before) if before else None,
        )
        rows.append(Row(f"{each.claim.short}: {each.title}", values))
    return Table(
        "findings",
        "The published findings as rules: margins in diameters, held out with the mean 95 % interval of a pair",
        ("published", "in sample", "held out", "low", "high", "untrained"),
        tuple(rows),
        "0 and above keeps the rule",
    )


def _control_table(reading: Reading) -> Table:
    rows = []
    for subject in reading.subjects:
        if subject.untrained:
            cells = [subject.error(rung, when="untrained") for rung in RUNGS]
            cells += [subject.efficiency(when="untrained"), subject.share("linear", "untrained")]
            rows.append(Row(subject.title, *_columns(cells)))
    return Table(
        "untrained",
        "The same networks before training, held out, ± s.e. over pairs",
        (*COLUMNS, "linear / mean alone"),
        tuple(rows),
        "lower is closer: what architecture and data alone give",
    )


def _models(reading: Reading) -> Table:
    rows = []
    for each in reading.trainings:
        keys = ("loss_before", "loss", "held_out_loss", "accuracy")
        values = tuple(sum(each[key]) / len(each[key]) if each.get(key) else None for key in keys)
        rows.append(Row(f"{KINDS[each['kind']]}, {len(each['loss'])} trained", (*values, float(each["parameters"]))))
    columns = ("held out, before", "training", "held out", "accuracy", "parameters")
    return Table("models", "Networks: losses, mean over trainings", columns, tuple(rows), "lower is better")


def _beside(subject: Subject) -> tuple[Number, ...]:
    row = subject.published
    return () if row is None else (row.permutation, row.rigid, row.linear, row.ica, row.efficiency)


def _columns(cells: list[Cell]) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    return tuple(value for value, _ in cells), tuple(error for _, error in cells)
