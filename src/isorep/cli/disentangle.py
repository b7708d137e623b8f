"""``isorep disentangle``: independent components of an autoencoder that is trained on your own images."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import Html, Interrupted, Json, Quiet, progress_bar, require_outputs, write_outputs


def command(
    images: Annotated[
        str, Argument(metavar="IMAGES", help="A folder of images, .npy or .npz; FILE::KEY names a part.")
    ],
    latents: Annotated[int, Option(help="More than there may be factors.")] = 16,
    size: Annotated[int, Option(help="Side of the squares that images are made.")] = 32,
    network: Annotated[str, Option(help="auto, spatial, dense, light or published.")] = "auto",
    steps: Annotated[int, Option(help="Steps of each training.")] = 2000,
    batch: Annotated[int, Option(help="Images of a step.")] = 32,
    weight_decay: Annotated[
        float | None, Option(help="More makes the decoder better conditioned; 0.01 with the spatial network, else 0.1.")
    ] = None,
    seeds: Annotated[int, Option(help="Trainings, to see which components come back.")] = 3,
    most: Annotated[int, Option(help="Images at most, drawn at random.")] = 50_000,
    model: Annotated[Path | None, Option(help="Write autoencoder and unmixing to this .safetensors file.")] = None,
    sheet: Annotated[Path | None, Option(help="Write the traversals to this .png file.")] = None,
    checkpoints: Annotated[Path | None, Option(help="Keep trainings in this folder, and go on from there.")] = None,
    device: Annotated[str, Option(help="Where networks are trained.")] = "cpu",
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(help="The seed that all others are derived from.")] = 0,
) -> None:
    """Train autoencoders on images, unmix their latents by ICA, and see which components come back.

    Prints the components of the first training with their correlations in the others, and the verdict.
    """
    from .. import disentangle
    from ..storage.model_files import require_model_path

    require_outputs([model, sheet, json, html], images)
    if model is not None:
        require_model_path(model)
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
                checkpoints=checkpoints,
                device=device,
                random_state=seed,
                progress=progress,
            )
    except KeyboardInterrupt:
        if checkpoints is None:
            raise
        raise Interrupted(f"{checkpoints} keeps the trainings: the same command goes on from there") from None
    if model is not None:
        result.save(model)
    if sheet is not None:
        result.save_sheet(sheet)
    write_outputs(result, json, html)
    if not quiet:
        data = result.data
        print(
            f"data  {data['name']}: {data['images']} images of {data['height']} x {data['width']} x "
            f"{data['channels']}, {data['held_out']} of them held out\n"
        )
        print("components of the first training, those that move images most first")
        print(result)
