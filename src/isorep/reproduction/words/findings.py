"""What was found, in sentences made by rule from the numbers."""

from __future__ import annotations

import math

from .published import LEFT_OPEN
from .reading import Number, Reading
from .units import ESTIMATORS

DIFFERENT = 0.5
"""Held-out R² of no map up to which two trainings look different."""


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """Whether contexts differ before and nearly coincide after a linear map: both, partly, or not."""
    head = reading.head
    if head is None:
        return "No model was trained.", None
    before, after, chance = head.rung("f", "identity"), head.rung("f", "linear"), head.mean("f_shuffled")
    if before[0] is None or after[0] is None:
        return "The representations are constant.", None
    differ = before[0] <= DIFFERENT
    gained = after[0] - max(before[0], chance[0] or 0.0)
    helps = gained > 2 * math.hypot(before[1] or 0.0, after[1] or 0.0)
    coincide = after[0] >= reading.preset.high
    rigid, words = _share(head.rung("f", "rigid")), _share(head.rung("g", "linear"))
    said = (
        f"In {head.dimension} dimensions contexts of two trainings {'differ' if differ else 'hardly differ'} before "
        f"and {'nearly coincide' if coincide else 'do not quite coincide'} after a linear map. Held out, no map "
        f"explains {_share(before)} of the variance, a rigid one {rigid}, a linear one {_share(after)}, and with "
        f"shuffled contexts {_share(chance)}. Of words a linear map explains {words}."
    )
    return said, True if differ and coincide and helps else None if helps else False


def findings(reading: Reading) -> tuple[str, ...]:
    """One sentence or two on each question."""
    said = [_text(reading)]
    said += [_dimensions(reading), _frequency(reading), _estimators(reading), _learnt(reading), _heads(reading)]
    return (*(each for each in said if each), LEFT_OPEN)


def _text(reading: Reading) -> str:
    if reading.head is None:
        return ""
    found = reading.head.found["corpus"]
    return (
        f"Text: {found['source']}, {found['words']:,} words of which {found['different_words']:,} are different; the "
        f"vocabulary of {reading.preset.vocabulary:,} covers {found['covered']:.0%}, its rarest word is seen "
        f"{found['rarest']} times. Digest {found['digest']}."
    )


def _dimensions(reading: Reading) -> str:
    settings = reading.by_dimension
    if len(settings) < 2:
        return ""
    return (
        f"By dimension ({', '.join(str(each.dimension) for each in settings)}), a linear map explains "
        f"{_listed([each.rung('f', 'linear') for each in settings])} of contexts and "
        f"{_listed([each.rung('g', 'linear') for each in settings])} of words held out; a rigid one "
        f"{_listed([each.rung('f', 'rigid') for each in settings])} and "
        f"{_listed([each.rung('g', 'rigid') for each in settings])}."
    )


def _frequency(reading: Reading) -> str:
    said = []
    for each in reading.by_dimension:
        first, last = each.band(0), each.band(len(each.bands) - 1)
        if first[0] is None or last[0] is None:
            continue
        apart = first[0] - last[0]
        margin = 2 * math.hypot(first[1] or 0.0, last[1] or 0.0)
        worse = "less" if apart > margin else "more" if -apart > margin else "no difference beyond the errors"
        said.append(f"{_spelt(last)} against {_spelt(first)} in {each.dimension} dimensions ({worse})")
    if not said or reading.head is None:
        return ""
    bands = reading.head.bands
    return f"Of rare words ({bands[-1]}) a linear map explains, against frequent ones ({bands[0]}): {'; '.join(said)}."


def _estimators(reading: Reading) -> str:
    head = reading.head
    others = [each for each in reading.settings if head is not None and each.estimator != head.estimator]
    if head is None or not others:
        return ""
    parts = [
        f"{ESTIMATORS[each.estimator]} {_spelt(each.rung('f', 'linear'))} for contexts and "
        f"{_spelt(each.rung('g', 'linear'))} for words, at a held-out loss of {_nats(each.loss)} nats"
        for each in (head, *others)
    ]
    return f"By estimator, in {head.dimension} dimensions a linear map explains: {'; '.join(parts)}."


def _learnt(reading: Reading) -> str:
    settings = reading.by_dimension
    if not settings:
        return ""
    return (
        f"Held-out loss by dimension: {', '.join(_nats(each.loss) for each in settings)} nats, against "
        f"{float(settings[0].found['unigram']):.3f} of the shares of words alone."
    )


def _heads(reading: Reading) -> str:
    settings = [each for each in reading.by_dimension if each.mean("head")[0] is not None]
    if not settings:
        return ""
    models = [model for each in settings for model in each.found["models"]]
    diverse = sum(bool(model["diverse"]) for model in models)
    return (
        f"{diverse} of {len(models)} heads are diverse. The map from two heads alone explains "
        f"{_listed([each.mean('head') for each in settings])} of contexts, the regression "
        f"{_listed([each.rung('f', 'linear') for each in settings])}; the transpose of the contexts' reverse "
        f"regression explains {_listed([each.mean('transposed') for each in settings])} of words, their own regression "
        f"{_listed([each.rung('g', 'linear') for each in settings])}."
    )


def _share(found: tuple[Number, Number]) -> str:
    value, error = found
    if value is None:
        return "an unknown share"
    if value <= 0:
        return "nothing"
    return f"{100 * value:.1f}" + ("" if error is None else f" ± {100 * error:.1f}") + " %"


def _spelt(found: tuple[Number, Number]) -> str:
    value, error = found
    if value is None:
        return "unknown"
    return f"{value:.2f}".replace("-", "−") + ("" if error is None else f" ± {error:.2f}")


def _listed(cells: list[tuple[Number, Number]]) -> str:
    return ", ".join("unknown" if value is None else f"{value:.2f}".replace("-", "−") for value, _ in cells)


def _nats(value: Number) -> str:
    return "unknown" if value is None else f"{value:.3f}"
