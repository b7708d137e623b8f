"""How large each scale is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    text : str
        A text file or a folder of them; by default the prose of Python's standard library.
    characters : int or None
        At most so much of it.
    vocabulary : int
        The most frequent words, which are predicted; others are one word of contexts.
    context : int
        Words before the predicted one.
    dimensions : tuple of int
        The first is drawn.
    estimators : tuple of str
        ``softmax`` (the likelihood over the whole vocabulary) or ``nce`` (noise-contrastive, as published). The first
        is run at all dimensions, others at the first dimension.
    noise : int
        Noise words of an example.
    seeds : int
        Trainings of every setting; all pairs are compared.
    steps, batch, learning_rate, schedule
        Of Adam.
    contexts : int
        Held-out contexts to measure on, at most.
    bands : tuple of int
        Last ranks of the frequency bands.
    labelled : int
        Words that are written into the figures.
    high : float
        Held-out R² from which two representations count as nearly coinciding.
    threads : int
        Of torch while training; 0 leaves them as they are.
    """

    text: str = ""
    characters: int | None = None
    vocabulary: int = 1000
    context: int = 3
    dimensions: tuple[int, ...] = (2, 8, 32)
    estimators: tuple[str, ...] = ("softmax", "nce")
    noise: int = 25
    seeds: int = 4
    steps: int = 2000
    batch: int = 512
    learning_rate: float = 3e-2
    schedule: str = "cosine"
    contexts: int = 4000
    bands: tuple[int, ...] = (50, 150, 400, 1000)
    labelled: int = 16
    high: float = 0.9
    threads: int = 0


SCALES = {
    "smoke": Preset(
        characters=450_000,
        vocabulary=300,
        dimensions=(2, 8),
        estimators=("softmax",),
        seeds=3,
        steps=400,
        batch=256,
        learning_rate=2e-2,
        contexts=1500,
        bands=(50, 150, 300),
        high=0.8,
    ),
    "laptop": Preset(),
    "paper": Preset(
        vocabulary=5000,
        context=5,
        dimensions=(2, 8, 32, 128),
        estimators=("nce", "softmax"),
        seeds=6,
        steps=60_000,
        learning_rate=1e-2,
        contexts=10_000,
        bands=(100, 300, 1000, 2500, 5000),
    ),
}
