"""What the paper says about this experiment, and what its text leaves open."""

from __future__ import annotations

PAPER = (
    "Roeder, Metz and Kingma, On linear identifiability of learned representations, ICML 2021, section 5.2 and Figure 3"
)

LEFT_OPEN = (
    "The text at hand gives no numbers for Figure 3 and leaves out the size of a patch, the batch, the optimiser, the "
    "number of steps, the sizes of the data and whether two or three of the layers are hidden: all are settings of the "
    "preset. Published are the task (two patches at random, one of the upper and one of the lower half; distractors "
    "from the batch), f and g of three layers with 256 units and 64 outputs, widths from 64 to 8192, five pairs of "
    "models, and that mean CCA grows with training, data and width."
)
