"""What the paper says about this experiment, and what its text leaves open."""

from __future__ import annotations

PAPER = (
    "Roeder, Metz and Kingma, On linear identifiability of learned representations, ICML 2021, section 5.1 and Figure 2"
)

LEFT_OPEN = (
    "The text at hand prints no numbers for Figure 2 and leaves out widths, learning rate, batch and steps; they are "
    "settings of the preset. Published are the data (two normal inputs of standard deviation 3, 18 classes by angle), "
    "two dimensions, and that the mean canonical correlation rises to its maximum over training."
)
