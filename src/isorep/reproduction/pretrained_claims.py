r"""The published findings as rules: each a linear inequality between the errors of a pair.

A rule is :math:`m=c+\sum_rw_re_r\ge0` over the rungs r. With :math:`E_r=e_r-e_{\rm linear}`, whose intervals are of
differences row by row, it is :math:`m=c+\sum_{r\ne{\rm linear}}w_rE_r+(\sum_rw_r)e_{\rm linear}`. The interval of m
adds up the ends of the parts, so that it is too wide rather than too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..representation import Array
from .outcomes import over_pairs
from .pretrained_charts import Measured, Number, Reading, Span, Subject
from .pretrained_settings import PUBLISHED, Published

HOLDS, FAILS, UNDECIDED = "kept", "broken", "undecided"
SIMILAR = 0.02
"""Diameters by which a level of error is still a similar one."""

_SHORT = {"permutation": "signed_permutation", "rigid": "rigid", "linear": "linear", "ica": "ica"}


@dataclass(frozen=True)
class Claim:
    """A published finding.

    Attributes
    ----------
    key, short, words, rule : str
        What to call it, what was said in a few words and in a sentence, and how it is judged here.
    kinds : tuple of str
        The families that it is about; all if empty.
    weights, constant
        Of the rule, by rung.
    stated : bool
        Whether the paper says it; the others are stricter readings, and do not count in the verdict.
    """

    key: str
    short: str
    words: str
    rule: str
    kinds: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    constant: float = 0.0
    stated: bool = True

    def concerns(self, kind: str) -> bool:
        """Whether it is about a family."""
        return not self.kinds or kind in self.kinds

    def at(self, errors: Mapping[str, float]) -> float:
        """The rule for numbers without intervals."""
        return self.constant + sum(weight * errors[rung] for rung, weight in self.weights.items())

    def margin(self, measured: Measured) -> Span:
        """The rule for held-out errors of a pair."""
        parts = [(weight, measured.excess(_SHORT[rung])) for rung, weight in self.weights.items() if rung != "linear"]
        rest = sum(self.weights.values())
        if abs(rest) > 1e-9:
            parts.append((rest, measured.span("linear")))
        return combined(parts, self.constant)

    def in_sample(self, measured: Measured) -> float:
        """The rule for errors in sample, as published."""
        return self.at({rung: measured.error(_SHORT[rung], "in_sample") for rung in self.weights})

    def published(self, row: Published) -> float:
        """The rule for a row of Table 1."""
        return self.at({rung: getattr(row, rung) for rung in self.weights})


CLAIMS = (
    Claim(
        "linear",
        "GPT linear",
        "a linear map explains GPT-class models",
        "the linear error is at most two thirds of the permutation's",
        ("gpt",),
        {"permutation": 2 / 3, "linear": -1.0},
    ),
    Claim(
        "rigid",
        "rigid at least half of linear",
        "a rigid map explains autoencoders and supervised models",
        "the rigid map gains at least half of what the linear map gains over the permutation",
        ("mae", "cnn", "ae"),
        {"permutation": 0.5, "linear": 0.5, "rigid": -1.0},
    ),
    Claim(
        "within",
        "rigid within 0.01 of linear",
        "a rigid map is as good as a linear one",
        "the rigid error is within 0.01 diameters of the linear one",
        ("mae", "cnn", "ae"),
        {"linear": 1.0, "rigid": -1.0},
        constant=0.01,
        stated=False,
    ),
    Claim(
        "ica-below",
        "ICA below permutation",
        "ICA removes part of the permutation's error",
        "the error of ICA is below the permutation's",
        (),
        {"permutation": 1.0, "ica": -1.0},
    ),
    Claim(
        "ica-above",
        "ICA above rigid",
        "ICA stays above the rigid map",
        "the error of ICA is not below the rigid map's",
        (),
        {"ica": 1.0, "rigid": -1.0},
    ),
    Claim(
        "ica-share",
        "ICA at least a fifth of rigid",
        "ICA removes a substantial portion of it",
        "ICA gains at least a fifth of what the rigid map gains over the permutation",
        (),
        {"permutation": 0.8, "rigid": 0.2, "ica": -1.0},
    ),
)

LEVEL = Claim(
    "level",
    "MAE rigid like GPT linear",
    "rigid maps of masked autoencoders leave a similar error as linear maps of GPTs",
    f"the masked autoencoder's rigid error is at most the GPT's linear one plus {SIMILAR} diameters",
)
"""The one finding that is about two families."""


@dataclass(frozen=True)
class Judgement:
    """A claim about a subject: margins in diameters, which are above zero where the rule is kept.

    ``margins`` are held out, pair by pair with intervals; ``published`` and ``in_sample`` are numbers.
    """

    claim: Claim
    title: str
    margins: tuple[Span, ...]
    mean: Number
    error: Number
    in_sample: Number
    published: Number
    before: tuple[Span, ...] = ()
    key: str = ""

    @property
    def hold(self) -> int:
        """Pairs whose interval lies above zero."""
        return sum(each.low is not None and each.low >= 0 for each in self.margins)

    @property
    def fail(self) -> int:
        """Pairs whose interval lies below zero."""
        return sum(each.high is not None and each.high < 0 for each in self.margins)

    @property
    def status(self) -> str:
        """What all pairs say, or that they do not say one thing."""
        return _status(self.margins)

    @property
    def status_before(self) -> str | None:
        """The same for untrained networks."""
        return _status(self.before) if self.before else None

    @property
    def span(self) -> Span:
        """The mean with the mean ends of the intervals."""
        return mean_span(self.margins)


def judgements(reading: Reading) -> list[Judgement]:
    """Every claim about every subject that it concerns, claim by claim."""
    found: list[Judgement] = []
    for claim in CLAIMS:
        found += [_judged(claim, subject) for subject in reading.subjects if claim.concerns(subject.kind)]
        if claim.key == "rigid":
            found += _level(reading)
    return found


def combined(parts: list[tuple[float, Span]], constant: float = 0.0) -> Span:
    """A weighted sum of spans, whose ends are the sums of the ends."""
    value = constant + sum(weight * span.value for weight, span in parts)
    low, high = constant, constant
    for weight, span in parts:
        if span.low is None or span.high is None:
            return Span(value)
        ends = sorted((weight * span.low, weight * span.high))
        low, high = low + ends[0], high + ends[1]
    return Span(value, low, high)


def mean_span(spans: tuple[Span, ...]) -> Span:
    """Mean of values and of ends."""
    ends: list[Number] = [None, None]
    if all(each.low is not None and each.high is not None for each in spans):
        table: Array = np.array([[each.low, each.high] for each in spans], dtype=float)
        ends = [float(end) for end in table.mean(0)]
    return Span(float(np.mean([each.value for each in spans])), ends[0], ends[1])


def _judged(claim: Claim, subject: Subject) -> Judgement:
    margins = {pair: claim.margin(each) for pair, each in subject.trained.items()}
    mean, error = over_pairs({pair: span.value for pair, span in margins.items()})
    return Judgement(
        claim,
        subject.title,
        tuple(margins.values()),
        mean,
        error,
        over_pairs({pair: claim.in_sample(each) for pair, each in subject.trained.items()})[0],
        None if subject.published is None else claim.published(subject.published),
        tuple(claim.margin(each) for each in subject.untrained.values()),
        subject.key,
    )


def _level(reading: Reading) -> list[Judgement]:
    """The masked autoencoders against the GPT: two independent sets of pairs, so spans are those of the means."""
    gpt, mae = reading.subject("gpt"), reading.subject("mae")
    if gpt is None or mae is None:
        return []
    margins: dict[str, Span] = {}
    for when in ("trained", "untrained"):
        linear, rigid = gpt.span("linear", when), mae.span("rigid", when)
        if linear is not None and rigid is not None:
            margins[when] = combined([(1.0, linear), (-1.0, rigid)], SIMILAR)
    inside = [gpt.error("linear", "in_sample")[0], mae.error("rigid", "in_sample")[0]]
    row = PUBLISHED["Pythia-160M"].linear - PUBLISHED["MAE"].rigid + SIMILAR
    return [
        Judgement(
            LEVEL,
            f"{mae.title} and GPT",
            (margins["trained"],),
            margins["trained"].value,
            None,
            None if inside[0] is None or inside[1] is None else inside[0] - inside[1] + SIMILAR,
            row,
            (margins["untrained"],) if "untrained" in margins else (),
            "mae-gpt",
        )
    ]


def _status(margins: tuple[Span, ...]) -> str:
    if margins and all(each.low is not None and each.low >= 0 for each in margins):
        return HOLDS
    if margins and all(each.high is not None and each.high < 0 for each in margins):
        return FAILS
    return UNDECIDED
