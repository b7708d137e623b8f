"""``isorep extract``: activations of a model's layers, in files to compare."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import (
    COLUMN,
    FILE,
    NAME,
    NAMES,
    PATH,
    Html,
    Interrupted,
    Json,
    N,
    Quiet,
    numbers,
    progress_bar,
    require_outputs,
    say,
    show,
    tell_outputs,
    write_outputs,
)

if TYPE_CHECKING:
    from ..extraction import Extraction


def command(
    model: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help="Code as package.module:factory (with --weights), an ONNX or GGUF file, or a local folder of a "
            "transformers model.",
        ),
    ],
    data: Annotated[
        str | None,
        Argument(
            metavar="DATA",
            help="Array file (npy, npz, ...), folder of images or .txt files, text file with one document per line, "
            "jsonl or parquet. FILE::NAME picks a part.",
        ),
    ] = None,
    layers: Annotated[
        list[str] | None,
        Option(
            "--layers",
            "-l",
            metavar=NAMES,
            help="Layers by dotted name or number, comma-separated or repeated: 0 and -1 are the first and last hidden "
            "state, or leaf module; default: the last hidden state, or the model's output.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        Option("--output", "-o", metavar=PATH, help="Where to write: a folder, a pattern with {layer}, or one file."),
    ] = None,
    format: Annotated[
        str | None, Option(metavar=NAME, help="File format in a folder: parquet, zarr or npy; default: parquet.")
    ] = None,
    pool: Annotated[
        str,
        Option(
            metavar=NAME, help="Pool positions by mean, max, first, last or flatten; token keeps one row per position."
        ),
    ] = "mean",
    channels: Annotated[
        str, Option(metavar="AXIS", help="Axis of outputs that holds channels: auto, first or last.")
    ] = "auto",
    key: Annotated[
        str | None, Option(metavar=NAME, help="Entry to take from layers that return a dict or tuple.")
    ] = None,
    weights: Annotated[
        Path | None, Option(metavar=FILE, help="Weights of a model from code: safetensors, or written by torch.save.")
    ] = None,
    allow_torch_weights: Annotated[bool, Option("--allow-torch-weights", help="Also read pytorch_model.bin.")] = False,
    compute: Annotated[
        str, Option(metavar=NAME, help="Precision for models stored in half precision: float32 or stored.")
    ] = "float32",
    input: Annotated[
        str, Option("--input", metavar="KIND", help="Contents of DATA: auto, values, tokens, images or text.")
    ] = "auto",
    text_field: Annotated[str, Option(metavar=COLUMN, help="Text field of jsonl and parquet.")] = "text",
    id_field: Annotated[str | None, Option(metavar=COLUMN, help="Id field of jsonl and parquet; default: id.")] = None,
    group_field: Annotated[
        str | None, Option(metavar=COLUMN, help="Group field of jsonl and parquet; default: no groups.")
    ] = None,
    size: Annotated[
        int | None, Option(metavar="PIXELS", help="Resize images to squares with this side; default: as they are.")
    ] = None,
    mean: Annotated[
        str | None, Option(metavar="X,X,X", help="Mean of each image channel, comma-separated; default: none.")
    ] = None,
    spread: Annotated[
        str | None, Option(metavar="X,X,X", help="Standard deviation of each image channel; default: none.")
    ] = None,
    grey: Annotated[bool, Option("--grey", help="Convert images to grey.")] = False,
    pad: Annotated[int | None, Option(metavar="ID", help="Id of padding in arrays of tokens; default: none.")] = None,
    context: Annotated[
        int | None, Option(metavar=N, help="Tokens per window; default: the model's context length.")
    ] = None,
    truncate: Annotated[bool, Option("--truncate", help="Use only the first window of each document.")] = False,
    no_special: Annotated[bool, Option("--no-special", help="Omit the tokens that the tokenizer adds.")] = False,
    limit: Annotated[int | None, Option(metavar=N, help="Use only the first N examples; default: all.")] = None,
    dtype: Annotated[
        str, Option(metavar=NAME, help="Precision of written features: float32, float16 or float64.")
    ] = "float32",
    batch: Annotated[int | None, Option(metavar=N, help="Examples per batch; default: by their size.")] = None,
    device: Annotated[str, Option(metavar=NAME, help="Torch device: cpu, cuda, mps or auto.")] = "cpu",
    restart: Annotated[bool, Option("--restart", help="Discard the progress of an interrupted run.")] = False,
    show_layers: Annotated[bool, Option("--list-layers", help="List layers with their shapes and exit.")] = False,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[
        int, Option(metavar=N, help="Random seed for weight initialisation when --weights is not given.")
    ] = 0,
) -> None:
    """Save activations of a model's layers for your data, with row ids and groups.

    After an interruption the same command resumes.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the library is imported
    from .. import extract
    from ..models.load import code_files

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
    require_outputs([json, html], data, weights, model, *code_files(model), folder=output)
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
        raise Interrupted("the finished part is kept: the same command resumes there") from None
    write_outputs(result, json, html)
    if not quiet:
        _print(result)
        tell_outputs(json, html)


def _print(result: "Extraction") -> None:
    from ..storage.layers import holds_layers

    source = result.data
    noun = {"text": "documents", "tokens": "rows of tokens", "images": "images"}.get(source.kind, "rows")
    tokens = f", {source.tokens} tokens" if source.tokens else ""
    say(
        f"model  {result.model}",
        f"data   {source.name}: {source.examples} {noun}{tokens}",
        f"time   {result.seconds:.1f} s{', resumed' if result.resumed else ''}",
    )
    show(f"\n{result}")
    folder = Path(next(iter(result.layers.values())).file).parent
    if holds_layers(folder):
        show("\nCompare with another run, layer by layer; ids and groups are used:")
        show(f"  isorep compare {folder} OTHER")
    if result.grouped:
        show("\nCompare single layers, with groups:")
        show(f"  isorep compare A B --groups {_groups(next(iter(result.layers.values())).file)}")


def _print_layers(model: str, data: str | None, opening: dict[str, Any]) -> None:
    from ..models import list_layers
    from ..results import aligned

    rows = [["layer", "number", "type", "output\nper example"]]
    for layer in list_layers(model, data, **opening):
        shape = "no tensor" if layer.shape is None else " x ".join(map(str, layer.shape)) or "one number"
        rows.append([layer.name, "" if layer.number is None else str(layer.number), layer.type, shape])
    show(aligned(rows, left=(0, 2, 3)))


def _groups(file: str) -> str:
    from ..storage.layers import GROUP, beside

    return str(beside(Path(file), GROUP)) if file.endswith(".npy") else GROUP
