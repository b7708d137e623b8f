"""Table 1 as published, and what its text leaves open."""

from __future__ import annotations

from dataclasses import dataclass

PAPER = "Nelson et al. 2026, section 4.2, Table 1 and appendix A.7.2"
SOURCE = "Table 1, in sample"


@dataclass(frozen=True)
class Published:
    """A row of Table 1: errors in diameters, in sample, and the family that its theory is for."""

    name: str
    kind: str
    permutation: float
    rigid: float
    linear: float
    ica: float
    efficiency: float


PUBLISHED = {
    row.name: row
    for row in (
        Published("Pythia-160M", "gpt", 0.219, 0.150, 0.131, 0.202, 0.25),
        Published("MAE", "mae", 0.197, 0.109, 0.036, 0.145, 0.59),
        Published("CheXpert", "mae", 0.218, 0.104, 0.048, 0.175, 0.38),
        Published("ResNet-18", "cnn", 0.382, 0.206, 0.175, 0.312, 0.40),
    )
}

LEFT_OPEN = (
    "The text does not say how many examples Table 1 has, nor which. All of its numbers are in sample; whether they "
    "are of one direction or of both is not said either. Efficiency is (permutation − ICA) / (permutation − rigid), "
    "which gives the four printed values; the text calls it the reduction relative to the rigid map."
)
