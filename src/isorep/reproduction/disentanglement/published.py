"""What was published: Table 2 of the paper, models x data sets x (InfoM, InfoE, InfoC)."""

from __future__ import annotations

PAPER = (
    "Nelson, Fumero, Karaletsos and Locatello, Statistical and structural identifiability in representation learning, "
    "ICLR 2026, section 4.3, Table 2; protocol of Hsu, Dorrell, Whittington, Wu and Finn, Disentanglement via latent "
    "quantization, NeurIPS 2023"
)
SOURCE = "Table 2"
MEASURES = ("InfoM", "InfoE", "InfoC")

DATA = {
    "shapes3d": "Shapes3D",
    "mpi3d_real_complex": "MPI3D",
    "falcor3d": "Falcor3D",
    "isaac3d": "Isaac3D",
}
"""The data sets of the table, by the names that loaders know them by."""

Scores = tuple[float, float, float]

AGGREGATED: dict[tuple[str, str], Scores] = {
    ("ae", "raw"): (0.39, 0.76, 0.25),
    ("beta_vae", "raw"): (0.59, 0.81, 0.55),
    ("beta_tcvae", "raw"): (0.58, 0.72, 0.59),
    ("bioae", "raw"): (0.54, 0.75, 0.36),
    ("ae", "published"): (0.65, 0.83, 0.40),
}

TABLE: dict[tuple[str, str], dict[str, Scores]] = {
    ("ae", "raw"): {
        "shapes3d": (0.34, 0.99, 0.16),
        "mpi3d_real_complex": (0.42, 0.40, 0.31),
        "falcor3d": (0.37, 0.83, 0.20),
        "isaac3d": (0.41, 0.80, 0.34),
    },
    ("beta_vae", "raw"): {
        "shapes3d": (0.59, 0.99, 0.49),
        "mpi3d_real_complex": (0.45, 0.71, 0.51),
        "falcor3d": (0.71, 0.73, 0.70),
        "isaac3d": (0.60, 0.80, 0.51),
    },
    ("beta_tcvae", "raw"): {
        "shapes3d": (0.61, 0.82, 0.62),
        "mpi3d_real_complex": (0.51, 0.60, 0.57),
        "falcor3d": (0.66, 0.74, 0.71),
        "isaac3d": (0.54, 0.70, 0.46),
    },
    ("bioae", "raw"): {
        "shapes3d": (0.56, 0.98, 0.44),
        "mpi3d_real_complex": (0.45, 0.66, 0.36),
        "falcor3d": (0.54, 0.73, 0.31),
        "isaac3d": (0.63, 0.65, 0.33),
    },
    ("ae", "published"): {
        "shapes3d": (0.79, 0.99, 0.52),
        "mpi3d_real_complex": (0.44, 0.66, 0.31),
        "falcor3d": (0.71, 0.83, 0.33),
        "isaac3d": (0.64, 0.82, 0.43),
    },
}
"""Scores by (model, what was done to its latents) and data set."""
