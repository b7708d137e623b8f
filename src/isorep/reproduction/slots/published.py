"""What the paper says about this experiment, and what its text leaves open."""

from __future__ import annotations

PAPER = (
    "Mechanistic Independence: A Principle for Identifiable Disentangled Representations, ICLR 2026, experiments, in "
    "the set-up of Brady et al., Provably learning object-centric representations, ICML 2023"
)

LEFT_OPEN = (
    "The text at hand gives no numbers. Published are the sizes (2, 3 and 5 slots, λ of 0.01 and 1, five seeds), that "
    "SIS is high where slots share few outputs, that it falls as they share more, through bad local minima, and that "
    "only 0 % is of Type D. How slots overlap is not told: here windows of neighbours on a line share outputs, in "
    "which contributions add."
)
