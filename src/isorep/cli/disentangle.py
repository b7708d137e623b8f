"""``isorep disentangle``: independent components of an autoencoder trained on your own images."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import (
    FILE,
    FOLDER,
    NAME,
    Html,
    Interrupted,
    Json,
    N,
    Quiet,
    X,
    progress_bar,
    require_outputs,
    show_path,
    show_result,
    tell_outputs,
    write_outputs,
)


def command(
    images: Annotated[
        str, Argument(metavar="IMAGES", help="Folder of images, .npy or .npz. FILE::KEY picks an array.")
    ],
    latents: Annotated[
        int, Option(metavar=N, help="Latent dimensions; choose more than the expected number of factors.")
    ] = 16,
    size: Annotated[int, Option(metavar="PIXELS", help="Resize images to squares with this side.")] = 32,
    network: Annotated[
        str, Option(metavar=NAME, help="Architecture: auto, spatial, dense, light or published.")
    ] = "auto",
    steps: Annotated[int, Option(metavar=N, help="Training steps per seed.")] = 2000,
    batch: Annotated[int, Option(metavar=N, help="Images per training step.")] = 32,
    weight_decay: Annotated[
        float | None,
        Option(
            metavar=X,
            help="Weight decay; larger values condition the decoder better; default: 0.01 for the spatial network, "
            "else 0.1.",
        ),
    ] = None,
    seeds: Annotated[int, Option(metavar=N, help="Number of trainings to test reproducibility with.")] = 3,
    most: Annotated[int, Option(metavar=N, help="Largest number of images to use, drawn at random.")] = 50_000,
    obs: Annotated[
        str | None,
        Option(
            metavar=FILE,
            help="Table that describes the images, to read extreme images against, joined by file name where it has a "
            "column of ids; FILE::A,B names columns; default: the subfolders.",
        ),
    ] = None,
    model: Annotated[
        Path | None, Option(metavar=FILE, help="Write autoencoder and unmixing to this .safetensors file.")
    ] = None,
    sheet: Annotated[Path | None, Option(metavar=FILE, help="Write the traversals to this .png file.")] = None,
    checkpoints: Annotated[
        Path | None, Option(metavar=FOLDER, help="Save trainings in this folder and resume from there.")
    ] = None,
    device: Annotated[str, Option(metavar=NAME, help="Torch device to train on.")] = "cpu",
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed that all others are derived from.")] = 0,
) -> None:
    """Train autoencoders on images, unmix their latents by ICA, and test which components are reproducible.

    Prints the verdict and the components of the first training with their correlations in the others.
    """
    from .. import disentangle
    from ..disentangling.disentangle import is_checkpoint
    from ..storage.model_files import require_model_path

    require_outputs([model, sheet, json, html], images, obs, folder=checkpoints)
    if model is not None:
        require_model_path(model)
    for output in (model, sheet, json, html):
        if output is not None and checkpoints is not None and is_checkpoint(output, checkpoints):
            raise InputError(f"{output} is a checkpoint of this command: name another file to write")
    if sheet is not None and sheet.suffix.lower() != ".png":
        raise InputError(f"{sheet} will hold the traversals, so its name must end in .png")
    try:
        with progress_bar(quiet) as progress:
            result = disentangle(
                images,
                latents=latents,
                size=size,
                network=network,
                steps=steps,
                batch=batch,
                weight_decay=weight_decay,
                n_seeds=seeds,
                most=most,
                obs=obs,
                checkpoints=checkpoints,
                device=device,
                random_state=seed,
                progress=progress,
            )
    except KeyboardInterrupt:
        if checkpoints is None:
            raise
        raise Interrupted(f"{checkpoints} keeps the trainings: the same command resumes there") from None
    if model is not None:
        result.save(model)
    if sheet is not None:
        result.save_sheet(sheet)
    write_outputs(result, json, html)
    if not quiet:
        data = result.data
        shape = f"{data['height']} x {data['width']} x {data['channels']}"
        show_result(
            result,
            f"data  {data['name']}: {data['images']} images of {shape}, {data['held_out']} of them held out",
            "components of the first training, largest effect on images first",
        )
        for what, path in (("Model", model), ("Traversals", sheet)):
            if path is not None:
                show_path(what, path)
        tell_outputs(json, html)
