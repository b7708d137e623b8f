"""How large each scale is: all that the text leaves open is a setting."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...comparison.rungs import RUNGS
from ...errors import InputError
from .published import COMPONENTS, PLACES

_SIZE = re.compile(r"(\d{1,5})x(\d{1,3})")


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    models : tuple of str
        Folders of models of the transformers library with one tokenizer; nothing is trained if there are any.
    sizes : tuple of str
        Small GPTs to train, as ``WIDTHxLAYERS``.
    seeds : int
        Trainings of every size; all pairs of a size are compared, and seed by seed those of two sizes.
    heads, context : int
        Of attention; tokens that are seen at once.
    text : str
        A text file or a folder of them; by default the prose of Python's standard library.
    characters : int or None
        Of the text at most.
    vocabulary : int
        Tokens: bytes and learnt pairs.
    held_out : int
        Documents that are not trained on; on them everything is measured.
    windows : int
        Stretches of ``context`` tokens of each held-out document at most.
    steps, batch, learning_rate, warmup
        AdamW with weight decay 0.1, gradients clipped to norm 1, the rate rising for ``warmup`` steps and then falling
        as a cosine.
    rows : int
        Tokens that layers are compared on, at most.
    components : tuple of int
        Of SVCCA.
    places : tuple of int
        Layers to compare, as places before the last: 0 is the last. All of them if empty.
    rungs : tuple of str
        Of the ladder.
    n_null, n_boot : int
        Shuffled pairings, and draws for the interval of an error.
    jacobians : int
        Tokens at which the constants of the remaining network are measured; 0 for none.
    jacobian_context : int
        Tokens before each of them at most, for model folders.
    control : bool
        Whether networks as they were before training are compared, too.
    threads : int
        Of torch; 0 leaves them as they are.
    """

    models: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ("64x4", "96x6")
    seeds: int = 4
    heads: int = 4
    context: int = 64
    text: str = ""
    characters: int | None = None
    vocabulary: int = 512
    held_out: int = 60
    windows: int = 4
    steps: int = 1_200
    batch: int = 16
    learning_rate: float = 2e-3
    warmup: int = 50
    rows: int = 4_000
    components: tuple[int, ...] = (4, 16, 32, 64)
    places: tuple[int, ...] = ()
    rungs: tuple[str, ...] = RUNGS
    n_null: int = 5
    n_boot: int = 200
    jacobians: int = 32
    jacobian_context: int = 16
    control: bool = True
    threads: int = 0


SCALES = {
    "smoke": Preset(
        sizes=("24x2", "32x3"),
        seeds=2,
        context=32,
        characters=700_000,
        vocabulary=320,
        held_out=16,
        steps=60,
        batch=8,
        learning_rate=1e-2,
        warmup=10,
        rows=900,
        components=(4, 12, 24),
        jacobians=6,
        n_boot=50,
        n_null=3,
    ),
    "laptop": Preset(threads=2),
    "paper": Preset(
        sizes=("256x6", "384x12"),
        seeds=3,
        heads=8,
        context=256,
        vocabulary=4_096,
        steps=20_000,
        batch=32,
        learning_rate=1e-3,
        warmup=500,
        rows=20_000,
        components=COMPONENTS,
        places=PLACES,
        n_null=20,
        n_boot=1_000,
        jacobians=16,
        threads=2,
    ),
}


def parsed(size: str) -> tuple[int, int]:
    """Width and layers of ``WIDTHxLAYERS``."""
    found = _SIZE.fullmatch(size)
    if found is None or min(map(int, found.groups())) < 1:
        raise InputError(f"{size!r} is not a size such as 64x4: width and layers")
    return int(found[1]), int(found[2])
