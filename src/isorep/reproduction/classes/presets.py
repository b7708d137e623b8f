"""How large each scale is: all that the text leaves open is a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    classes, dimension : int
        Of the published simulation.
    seeds, steps : int
        Trainings of it, in one program, and how long they are.
    starts : tuple of float
        Standard deviations of the class vectors before training; the first is the headline.
    tasks : tuple of str
        What the sweeps are run on: ``taught`` (probabilities of a network of the same family, so that two students can
        have the same conditional distribution) and ``angle`` (labels by angle, as published).
    fixed_dimension, sweep_classes
        The sweep over classes at one dimension.
    fixed_classes, sweep_dimensions
        The sweep over dimensions at one number of classes.
    sweep_seeds, sweep_steps : int
        Trainings of each setting of the sweeps.
    rows, test_rows : int
        Examples to train on, and others to measure on.
    curve_rows : int
        Of these, so many are followed over training.
    hidden : tuple of int
        Widths of the layers of f.
    batch, learning_rate, schedule
        Of Adam.
    high : float
        Mean canonical correlation from which two representations count as the same up to a linear map.
    threads : int
        Of torch while training; 0 leaves them as they are.
    """

    classes: int = 18
    dimension: int = 2
    seeds: int = 6
    steps: int = 4000
    starts: tuple[float, ...] = (0.01, 1.0)
    tasks: tuple[str, ...] = ("taught", "angle")
    fixed_dimension: int = 4
    sweep_classes: tuple[int, ...] = (2, 3, 4, 5, 6, 8, 18)
    fixed_classes: int = 6
    sweep_dimensions: tuple[int, ...] = (2, 4, 5, 6, 8)
    sweep_seeds: int = 5
    sweep_steps: int = 2000
    rows: int = 20_000
    test_rows: int = 2000
    curve_rows: int = 300
    hidden: tuple[int, ...] = (64, 64)
    batch: int = 256
    learning_rate: float = 3e-3
    schedule: str = "cosine"
    high: float = 0.95
    threads: int = 0


SCALES = {
    "smoke": Preset(
        seeds=3,
        steps=500,
        starts=(0.01,),
        tasks=("taught",),
        sweep_classes=(3, 12),
        fixed_classes=6,
        sweep_dimensions=(2, 8),
        sweep_seeds=3,
        sweep_steps=500,
        rows=5000,
        test_rows=600,
        curve_rows=150,
        batch=128,
        learning_rate=3e-3,
        high=0.9,
    ),
    "laptop": Preset(),
    "paper": Preset(
        seeds=10,
        steps=20_000,
        sweep_seeds=10,
        sweep_steps=20_000,
        rows=100_000,
        test_rows=5000,
        hidden=(256, 256),
        sweep_classes=(2, 3, 4, 5, 6, 8, 12, 18),
        sweep_dimensions=(1, 2, 3, 4, 5, 6, 8),
    ),
}
