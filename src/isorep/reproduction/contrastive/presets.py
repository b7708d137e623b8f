"""How large each scale is: all that the text leaves open is a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    source : {"cifar10", "rooms"}
        Photographs, or rendered scenes, which also stand for photographs whose files are not there.
    pairs : int
        Pairs of models of every setting; no model is in two of them.
    steps : int
        Of every training, whatever the width and the number of images.
    checkpoints : tuple of int
        Steps at which the models of the base setting are compared, besides 0 and the last.
    width, widths : int, tuple of int
        Hidden units of the base setting, and of the sweep; the base is always in it.
    sizes : tuple of int
        Training images of the sweep, besides all of them.
    layers, outputs : int
        Linear layers of f and of g, and the numbers that they give.
    patch : int
        Columns of a patch, which has the height of its half and is placed anew at every step; 0 for whole halves.
    scene, scenes : int
        Height and width of rendered scenes, and how many there are to train on.
    test_images : int
        Images that no model was trained on, for all that is measured.
    batch, learning_rate, schedule, normalise, temperature
        Of Adam and of the loss. With a constant rate a checkpoint is what a shorter training would end with.
    null, draws : int
        Shuffled pairings, and draws of the bootstrap over images.
    device : str
        Where tensors lie.
    """

    source: str
    pairs: int
    steps: int
    checkpoints: tuple[int, ...]
    width: int
    widths: tuple[int, ...]
    sizes: tuple[int, ...]
    layers: int = 3
    outputs: int = 64
    patch: int = 16
    scene: int = 32
    scenes: int = 50_000
    test_images: int = 5000
    batch: int = 256
    learning_rate: float = 1e-3
    schedule: str = "constant"
    normalise: bool = False
    temperature: float = 1.0
    null: int = 10
    draws: int = 200
    device: str = "cpu"


SCALES = {
    "smoke": Preset(
        source="rooms",
        pairs=3,
        steps=80,
        checkpoints=(10, 30),
        width=64,
        widths=(8, 64),
        sizes=(100,),
        outputs=8,
        patch=8,
        scene=16,
        scenes=1500,
        test_images=600,
        batch=128,
        null=5,
        draws=100,
    ),
    "laptop": Preset(
        source="cifar10",
        pairs=5,
        steps=800,
        checkpoints=(25, 50, 100, 200, 400),
        width=256,
        widths=(64, 256, 1024),
        sizes=(500, 5000),
    ),
    "paper": Preset(
        source="cifar10",
        pairs=5,
        steps=50_000,
        checkpoints=(50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000),
        width=256,
        widths=(64, 128, 256, 512, 1024, 2048, 4096, 8192),
        sizes=(500, 1000, 2000, 5000, 10_000, 20_000),
        test_images=10_000,
        null=50,
        draws=1000,
    ),
}
