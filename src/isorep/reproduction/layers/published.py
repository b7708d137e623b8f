"""What the paper says about this experiment, and what its text leaves open."""

from __future__ import annotations

PAPER = (
    "Roeder, Metz and Kingma, On linear identifiability of learned representations, ICML 2021, section 5.3 and Figure 4"
)

COMPONENTS = (16, 64, 256, 768)
"""Principal components of SVCCA; the last is the width of the smallest model."""

PLACES = (0, 2, 5, 8, 11)
"""Layers of the figure, as places before the last: the states numbered −1, −3, −6, −9 and −12."""

LEFT_OPEN = (
    "The text at hand gives no numbers for Figure 4. Published are the models (gpt2, medium, large and xl), about 2000 "
    "sentences with one row a token, SVCCA with 16, 64, 256 and 768 components averaged over pairs, and that the last "
    "layer is more similar than the earlier ones. Published models have one training each, so pairs differ in size; "
    "here pairs of one size are apart from those of two."
)
