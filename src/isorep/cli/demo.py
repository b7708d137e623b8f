"""``isorep demo``: two seeds of a small autoencoder, trained, compared and explained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import Html, Json, Quiet

if TYPE_CHECKING:
    from ..comparison import Comparison
    from ..representation import Array, Representation
    from ..rows import Progress

LATENTS = 5
EPOCHS = 100


def command(
    save: Annotated[Path | None, typer.Option(help="Write the two representations into this folder.")] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="The first training's seed; the second takes the next.")] = 0,
) -> None:
    """Train two seeds of a small autoencoder on handwritten digits and compare them, in under a minute."""
    from .. import Representation, compare
    from ..errors import InputError
    from ..files import require_writable
    from ..models import load_digit_images
    from .common import print_comparison, progress_bar, write_outputs

    for path in (json, html):
        if path is not None:
            require_writable(path)
    if save is not None and not save.is_dir():
        raise InputError(f"{save} is not a folder")
    if not 0 <= seed < 2**32 - 1:
        raise InputError(f"seed is {seed} and must lie between 0 and {2**32 - 2}")
    say = (lambda *words: None) if quiet else print
    images = load_digit_images()
    say(f"Two trainings of one autoencoder (64-64-{LATENTS}-64-64, tanh) on scikit-learn's {len(images)} digits:")
    runs = []
    with progress_bar(quiet) as progress:
        for each in (seed, seed + 1):
            latents, loss = _train(images, each, progress)
            say(f"  seed {each}: {EPOCHS} epochs, reconstruction loss {loss:.4f}")
            runs.append(Representation(latents, name=f"seed {each}"))
        result = compare(runs[0], runs[1], random_state=seed, progress=progress)
    if save is not None:
        _save(runs, save)
    write_outputs(result, json, html)
    if not quiet:
        print()
        print_comparison(result)
        print()
        print(_explain(result))
        if save is not None:
            print(f"\nAgain from the files: isorep compare {save / 'seed0.npy'} {save / 'seed1.npy'}")


def _train(images: Array, seed: int, progress: Progress) -> tuple[Array, float]:
    from ..models import train_autoencoder

    trained = train_autoencoder(
        images,
        latents=LATENTS,
        epochs=EPOCHS,
        seed=seed,
        progress=lambda epoch, loss: progress(f"training seed {seed}", epoch, EPOCHS),
    )
    return trained.encode(images), trained.losses[-1]


def _save(runs: list[Representation], folder: Path) -> None:
    import numpy as np

    for place, run in enumerate(runs):
        np.save(folder / f"seed{place}.npy", np.asarray(run.values[:]), allow_pickle=False)


def _explain(result: Comparison) -> str:
    rungs = result.rungs
    null = rungs["linear"].null
    chance = f"{null.mean:.2f}" if null else "not measured"
    permutation, rigid, linear, ica = (
        rungs[name].held_out.mean for name in ("signed_permutation", "rigid", "linear", "ica")
    )
    return "\n".join(
        [
            "How to read this",
            f"  An error of 1 is no better than the mean of the target. Shuffled rows give {chance} (chance).",
            f"  Matching single dimensions leaves {permutation:.2f}: it would be near the rungs below if the runs "
            "shared their axes.",
            f"  A rotation leaves {rigid:.2f}, the best linear map {linear:.2f}: the closer the two, the more geometry "
            "the runs share.",
            f"  ICA leaves {ica:.2f}. It uses pairs only to match components: near the rotation, it has found "
            "shared axes.",
            "  Held-out errors come from maps that did not see the row; in-sample ones are shown to match papers.",
        ]
    )
