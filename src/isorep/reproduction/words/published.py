"""What the paper says about this experiment, and what its text leaves open."""

from __future__ import annotations

PAPER = "Roeder, Metz and Kingma, On linear identifiability of learned representations, ICML 2021, Figure 1"

LEFT_OPEN = (
    "Published is a picture without numbers: log-bilinear embeddings of the Billion Word text in two dimensions, with "
    "noise-contrastive estimation, differ between two trainings and overlap after a linear map. The text, its size, "
    "the vocabulary, the context and all numbers of the training are ours, and settings of the preset."
)
