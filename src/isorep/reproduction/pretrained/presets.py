"""How large each scale is: all that the text leaves open is a setting."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError

KINDS = {"gpt": "GPT", "mae": "masked autoencoder", "cnn": "supervised CNN", "ae": "autoencoder"}
"""What is trained here."""

SOURCES = ("cifar10", "rooms")


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    pairs : str
        A TOML file that names pairs of models or representations; nothing is trained if there is one.
    both : bool
        Train here nevertheless.
    kinds : tuple of str
        What is trained: ``gpt``, ``mae``, ``cnn``, ``ae``.
    seeds : int
        Trainings of each; all pairs are compared.
    images : {"cifar10", "rooms"}
        Photographs, or rendered scenes, which are also taken where the files of CIFAR-10 are missing.
    scene : int
        Height and width of rendered scenes.
    train_images : int
        To train on, at most.
    rows : int
        Rows that are compared, at most: tokens or images.
    unseen : bool
        Whether they are of texts and images that were not trained on; the published ones were trained on.
    text, characters, vocabulary, context, documents, windows
        A text file or folder (by default the prose of Python's library), how much of it, tokens, tokens seen at once,
        documents that are held out, and as many that are measured, with so many windows of each.
    gpt, heads, mae_width, mae_depth, mae_patch, cnn_width, latents
        Of the networks; ``gpt`` is ``WIDTHxLAYERS``.
    gpt_steps, mae_steps, cnn_steps, ae_steps : int
    gpt_batch, batch : int
        Windows, and images.
    gpt_rate, mae_rate, cnn_rate, ae_rate : float
        Learning rates of AdamW, with a warm-up and then a cosine.
    weight_decay : float
        Of all; it is multiplied by the learning rate, so a short training decays little.
    n_null, n_boot : int
        Shuffled pairings, and draws for intervals.
    control : bool
        Whether networks as they were before training are compared, too.
    threads : int
        Of torch; 0 leaves them as they are.
    """

    pairs: str = ""
    both: bool = False
    kinds: tuple[str, ...] = ("gpt", "mae", "cnn", "ae")
    seeds: int = 3
    images: str = "cifar10"
    scene: int = 32
    train_images: int = 20_000
    rows: int = 6_000
    unseen: bool = False
    text: str = ""
    characters: int | None = 2_000_000
    vocabulary: int = 512
    context: int = 64
    documents: int = 60
    windows: int = 4
    gpt: str = "64x4"
    heads: int = 4
    mae_width: int = 64
    mae_depth: int = 4
    mae_patch: int = 4
    cnn_width: int = 16
    latents: int = 32
    gpt_steps: int = 1_200
    mae_steps: int = 1_500
    cnn_steps: int = 900
    ae_steps: int = 2_500
    gpt_batch: int = 16
    batch: int = 64
    gpt_rate: float = 3e-3
    mae_rate: float = 2e-3
    cnn_rate: float = 3e-3
    ae_rate: float = 1e-3
    weight_decay: float = 0.1
    n_null: int = 10
    n_boot: int = 500
    control: bool = True
    threads: int = 0

    def __post_init__(self) -> None:
        if unknown := [kind for kind in self.kinds if kind not in KINDS]:
            raise InputError(f"kinds has {unknown[0]!r}; known are {', '.join(KINDS)}")
        if len(set(self.kinds)) < len(self.kinds) or self.seeds < 2:
            raise InputError("kinds are named once each, and there are at least 2 seeds")
        if self.images not in SOURCES:
            raise InputError(f"images is {self.images!r}; known are {', '.join(SOURCES)}")
        counts = (self.gpt_steps, self.mae_steps, self.cnn_steps, self.ae_steps, self.gpt_batch, self.batch)
        if min(*counts, self.train_images, self.rows, self.scene, self.documents, self.windows) < 1:
            raise InputError("steps, batches, images, rows, documents and windows are from 1 on")


SCALES = {
    "smoke": Preset(
        seeds=2,
        images="rooms",
        scene=16,
        train_images=600,
        rows=600,
        characters=700_000,
        vocabulary=300,
        context=32,
        documents=16,
        gpt="16x2",
        mae_width=16,
        mae_depth=2,
        cnn_width=4,
        latents=8,
        gpt_steps=30,
        mae_steps=30,
        cnn_steps=20,
        ae_steps=60,
        gpt_batch=8,
        batch=32,
        n_null=3,
        n_boot=100,
    ),
    "laptop": Preset(threads=2),
    "paper": Preset(
        seeds=4,
        train_images=50_000,
        rows=20_000,
        characters=None,
        vocabulary=4_096,
        context=256,
        documents=120,
        gpt="384x12",
        heads=8,
        mae_width=192,
        mae_depth=12,
        cnn_width=64,
        latents=128,
        gpt_steps=20_000,
        mae_steps=100_000,
        cnn_steps=40_000,
        ae_steps=100_000,
        gpt_batch=32,
        batch=128,
        gpt_rate=1e-3,
        mae_rate=1e-3,
        cnn_rate=1e-3,
        n_null=20,
        n_boot=1_000,
        threads=2,
    ),
}
