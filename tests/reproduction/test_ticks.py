"""Ticks of logarithmic axes lie among the places."""

import math

import pytest

from isorep.reproduction.outcomes import log_ticks


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1.9, 10.2], ["2", "5", "10"]),
        ([0.8, 1.0, 3.1], ["1", "2", "3"]),
        ([1e-6, 1e6], [f"{10.0**power:g}" for power in range(-6, 7)]),
        ([2.05, 10.4], ["3", "4", "5", "7", "10"]),
        ([8.0, 9.0], ["8"]),
        ([], []),
    ],
)
def test_ticks_lie_within_the_places(values, said):
    found = log_ticks([math.log10(value) for value in values])
    assert [text for _, text in found] == said
    for place, text in found:
        assert 10**place == pytest.approx(float(text), rel=0.01)
