"""``isorep extract``: the rows that layers of a model give to data, in files to compare."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import Html, Interrupted, Json, Quiet, numbers, progress_bar, require_outputs, write_outputs

if TYPE_CHECKING:
    from ..extraction import Extraction


def command(
    model: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help="Code as package.module:factory (with --weights), or a local folder of the transformers library.",
        ),
    ],
    data: Annotated[
        str | None,
        Argument(
            metavar="DATA",
            help="npy, npz or another array file, a folder of images or .txt files, a text file with a document a "
            "line, jsonl or parquet; FILE::NAME names a part.",
        ),
    ] = None,
    layers: Annotated[
        list[str] | None,
        Option(
            "--layers",
            "-l",
            help="Dotted names or numbers, with commas or repeated: 0 and -1 are the first and last hidden state, or "
            "module without children. By default the last hidden state, or the model's output.",
        ),
    ] = None,
    output: Annotated[
        str | None, Option("--output", "-o", help="A folder, a pattern with {layer}, or one file.")
    ] = None,
    format: Annotated[str | None, Option(help="In a folder: parquet (the default), zarr or npy.")] = None,
    pool: Annotated[str, Option(help="mean, max, first, last or flatten over positions; token: all.")] = "mean",
    channels: Annotated[str, Option(help="Which axis of outputs holds channels: auto, first or last.")] = "auto",
    key: Annotated[str | None, Option(help="The entry of layers that return a dict or tuple.")] = None,
    weights: Annotated[Path | None, Option(help="Of a model from code: safetensors, or by torch.save.")] = None,
    allow_torch_weights: Annotated[bool, Option("--allow-torch-weights", help="Read pytorch_model.bin too.")] = False,
    compute: Annotated[str, Option(help="Of folders in half precision: float32 or stored.")] = "float32",
    input: Annotated[str, Option("--input", help="What DATA holds: auto, values, tokens, images or text.")] = "auto",
    text_field: Annotated[str, Option(help="The text of jsonl and parquet.")] = "text",
    id_field: Annotated[str | None, Option(help="The ids of jsonl and parquet; by default id.")] = None,
    group_field: Annotated[str | None, Option(help="The groups of jsonl and parquet.")] = None,
    size: Annotated[int | None, Option(help="Side that images are made.")] = None,
    mean: Annotated[str | None, Option(help="Of each channel of images, comma-separated.")] = None,
    spread: Annotated[str | None, Option(help="Standard deviation of each channel, comma-separated.")] = None,
    grey: Annotated[bool, Option("--grey", help="Make images grey.")] = False,
    pad: Annotated[int | None, Option(help="The id of padding in arrays of tokens.")] = None,
    context: Annotated[int | None, Option(help="Tokens of a window; by default what the model takes.")] = None,
    truncate: Annotated[bool, Option("--truncate", help="Only the first window of each document.")] = False,
    no_special: Annotated[bool, Option("--no-special", help="Leave out the tokens that the tokenizer adds.")] = False,
    limit: Annotated[int | None, Option(help="The first so many examples only.")] = None,
    dtype: Annotated[str, Option(help="float32, float16 or float64.")] = "float32",
    batch: Annotated[int | None, Option(help="Examples of a batch; by default by their size.")] = None,
    device: Annotated[str, Option(help="cpu, cuda, mps or auto.")] = "cpu",
    restart: Annotated[bool, Option("--restart", help="Throw away what a stopped run has left.")] = False,
    show_layers: Annotated[bool, Option("--list-layers", help="Print layers with their shapes.")] = False,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(help="Of weights that code makes where none are given.")] = 0,
) -> None:
    """The representations that layers of a model give to data, streamed to files with row ids and groups.

    A run that was killed goes on where it stopped when the same command is given again.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the library is imported
    from .. import extract

    pixels: dict[str, Any] = {
        name: value for name, value in (("size", size), ("grey", grey or None)) if value is not None
    }
    for name, text in (("mean", mean), ("spread", spread)):
        if text is not None:
            pixels[name] = numbers(text, f"--{name}")
    opening: dict[str, Any] = {
        "weights": weights,
        "allow_torch_weights": allow_torch_weights,
        "compute": compute,
        "input": input,
        "text_field": text_field,
        "id_field": id_field,
        "group_field": group_field,
        "pixels": pixels,
        "pad": pad,
        "context": context,
        "device": device,
        "seed": seed,
    }
    if show_layers:
        _print_layers(model, data, opening)
        return
    if data is None:
        raise InputError("name the DATA that goes into the model")
    if output is None:
        raise InputError("name where features go: --output FOLDER, or a pattern with {layer}")
    inputs = [data] if weights is None else [data, weights]
    require_outputs([json, html], *inputs)
    try:
        with progress_bar(quiet) as progress:
            result = extract(
                model,
                data,
                layers=layers or None,
                output=output,
                format=format,
                pool=pool,
                channels=channels,
                key=key,
                truncate=truncate,
                special=not no_special,
                limit=limit,
                dtype=dtype,
                batch=batch,
                restart=restart,
                progress=progress,
                **opening,
            )
    except KeyboardInterrupt:
        raise Interrupted("what was extracted is kept, and the same command goes on from there") from None
    write_outputs(result, json, html)
    if not quiet:
        _print(result)


def _print(result: "Extraction") -> None:
    from ..storage.layers import holds_layers

    source = result.data
    noun = {"text": "documents", "tokens": "rows of tokens", "images": "images"}.get(source.kind, "rows")
    print(f"model  {result.model}")
    tokens = f", {source.tokens} tokens" if source.tokens else ""
    print(f"data   {source.name}: {source.examples} {noun}{tokens}")
    print(f"       {'gone on with and ' if result.resumed else ''}done in {result.seconds:.1f} s\n")
    print(result)
    folder = Path(next(iter(result.layers.values())).file).parent
    if holds_layers(folder):
        print(f"\nlayer by layer with another run, ids and groups taken along: isorep compare {folder} OTHER")
    if result.grouped:
        print("\nrows have groups: isorep compare A B --groups " + _groups(next(iter(result.layers.values())).file))


def _print_layers(model: str, data: str | None, opening: dict[str, Any]) -> None:
    from ..models import list_layers
    from ..results import aligned

    rows = [["layer", "number", "type", "output of one example"]]
    for layer in list_layers(model, data, **opening):
        shape = "no tensor" if layer.shape is None else " x ".join(map(str, layer.shape)) or "one number"
        rows.append([layer.name, "" if layer.number is None else str(layer.number), layer.type, shape])
    print(aligned(rows, left=(0, 2, 3)))


def _groups(file: str) -> str:
    from ..storage.layers import GROUP, beside

    return str(beside(Path(file), GROUP)) if file.endswith(".npy") else GROUP
