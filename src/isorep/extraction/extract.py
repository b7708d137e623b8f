"""``isorep.extract``: from a model and data to one file of rows per layer."""

from __future__ import annotations

import inspect
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..models.evaluation import device_named, evaluating, hooked, import_torch
from ..rows import Progress, no_progress
from ..settings import check_counts
from ..storage.layers import write_list
from .data import Rows, data_fingerprint, open_data
from .documents import Cutter, Documents
from .model import TRANSFORMER, Source, fingerprint, open_model
from .passes import OUTPUT, Batch, LayerShape, Passes
from .result import ExtractedData, ExtractedLayer, Extraction
from .run import Loop, Settings, Trial, ambiguous, as_taken, first_batch, layer_rows, padding_id, try_document, try_rows
from .write import (
    Journal,
    describe,
    is_folder_of_layers,
    require_apart,
    row_labels,
    save,
    targets,
    working_folder,
)

_COUNTED = ("examples", "empty", "cut", "tokens")


def extract(
    model: Any,
    data: Any,
    *,
    layers: str | int | Sequence[str | int] | None = None,
    output: str | Path | None = None,
    format: str | None = None,
    pool: str = "mean",
    channels: str = "auto",
    key: str | None = None,
    weights: str | Path | None = None,
    tokenizer: Any = None,
    allow_torch_weights: bool = False,
    compute: str = "float32",
    input: str = "auto",
    text_field: str = "text",
    id_field: str | None = None,
    group_field: str | None = None,
    pixels: dict[str, Any] | None = None,
    pad: int | None = None,
    context: int | None = None,
    truncate: bool = False,
    special: bool = True,
    limit: int | None = None,
    dtype: str = "float32",
    batch: int | None = None,
    device: str = "cpu",
    restart: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Extraction:
    """Extract the representations of data in layers of a model, streamed to files.

    Rows are in the order of the input, with ids; padding is never a row. Memory is bounded by one batch and a few
    documents. An interrupted run resumes where it stopped when it is called again.

    Parameters
    ----------
    model : torch.nn.Module, str or Path
        A module; ``package.module:name``, which is a module or a factory without arguments; an ONNX file; or a local
        folder of the transformers library. Nothing is downloaded or unpickled, and no code from a folder is run.
    data : path, array or list of str
        An npy, npz or other array file (``FILE::NAME``), a folder of images, a text file with one document per line, a
        folder of ``.txt`` files, jsonl or parquet with a text field; or an array, or texts.
    layers : str, int or sequence of them, optional
        Dotted names, or numbers: of hidden states (0 the embeddings, -1 the last); for other modules, of modules
        without children in the order of their first call. Layers of an ONNX file are the outputs of its nodes, by their
        names in the file. Default: the last hidden state, or ``"output"``.
    output : str or Path, optional
        A pattern with ``{layer}``, a folder, or a file for one layer: parquet, zarr or npy. Default: a temporary folder
        that exists as long as the result.
    format : str, optional
        Format of files in a folder: ``parquet`` (default), ``zarr`` or ``npy``.
    pool : str
        ``mean``, ``max``, ``first`` or ``last`` over the positions of an example, ``token`` for one row per position,
        ``flatten`` for all positions concatenated.
    channels : str
        Axis of channels in an output: ``first`` or ``last``; default: last of three axes, first of four.
    key : str, optional
        Entry of modules that return a dict or tuple; default: their first tensor.
    weights : str or Path, optional
        Weights for a model from code: safetensors, or a flat dict of tensors written by ``torch.save``.
    tokenizer : optional
        Tokenizer for a transformers model that is given as a module.
    allow_torch_weights : bool
        Read a folder's ``pytorch_model.bin``, with ``weights_only``. Default: no.
    compute : str
        Precision for a folder whose weights are stored in half precision: ``float32``, or ``stored``, which takes half
        the memory and gives about three digits.
    input : str
        Contents of an array or folder: ``values``, ``tokens``, ``images`` or ``text``; default: floating point is
        values, bytes with axes are images, other whole numbers are tokens.
    text_field, id_field, group_field : str
        Fields of jsonl and parquet. Ids are read from ``id`` if it exists, otherwise documents are numbered from 0.
    pixels : dict, optional
        Preprocessing of images: ``size``, ``mean`` and ``spread`` of channels, ``grey``.
    pad : int, optional
        Padding id in token arrays.
    context : int, optional
        Tokens per window; default: the model's context. Longer documents are cut into windows without overlap.
    truncate : bool
        Use only the first window of each document. Default: no.
    special : bool
        Whether tokens that the tokenizer adds count as rows and in pooling.
    limit : int, optional
        Largest number of examples, from the first on.
    dtype : str
        Dtype of the output: ``float32``, ``float16`` or ``float64``; values that do not fit raise an error.
    batch : int, optional
        Examples per batch; default: chosen by their size.
    device : str
        ``cpu``, ``cuda``, ``mps`` or ``auto``.
    restart : bool
        Discard an interrupted run and start again. Default: resume.
    seed : int
        Random seed for weight initialisation when ``weights`` is not given.
    progress : callable, optional
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Extraction
        ``result["name"]`` is a layer as a Representation, ``result.groups`` the groups of rows.

    Examples
    --------
    >>> import numpy as np, torch, isorep
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    >>> found = isorep.extract(model, np.ones((5, 4), np.float32), layers=["1", "output"])
    >>> found["1"]
    Representation('1', 5 rows x 3 columns, float32, with ids)
    """
    began = time.monotonic()
    settings = Settings(pool, channels, key, pad, context, truncate, special, limit, dtype, compute)
    if batch is not None:
        check_counts(batch=(batch, 1))
    opening = {"weights": weights, "tokenizer": tokenizer, "allow_torch_weights": allow_torch_weights}
    source = open_model(model, compute=compute, seed=seed, **opening)
    fields: dict[str, Any] = {"text_field": text_field, "id_field": id_field, "group_field": group_field}
    examples = open_data(data, kind=input, limit=limit, pixels={**source.pixels, **(pixels or {})}, **fields)
    settings = replace(settings, context=_context(source, context))
    cutter = Cutter(source.tokenizer, settings.context, special=special, truncate=truncate)
    examples = as_taken(examples, source, pad)
    if isinstance(examples, Documents) and pool == "flatten":
        raise InputError("documents differ in length, so they cannot be flattened: choose another pool")
    where, scratch = device_named(device), Scratch() if output is None else None
    home, kind = (output, format) if scratch is None else (f"{scratch.name}/{{layer}}.npy", None)
    tell = progress or no_progress
    with _running(source, where) as unmasking:
        passes = Passes(source, where, key)
        first = first_batch(examples, cutter, pad)
        passes.choose((-1 if source.kind == TRANSFORMER else OUTPUT) if layers is None else layers, first)
        shapes, widths = _widths(passes, first, settings)
        trial = _tried(passes, examples, first, settings, batch)
        files = targets(home or "", kind, list(widths))
        require_apart(list(files.values()), [*examples.paths, *([] if weights is None else [Path(weights)])])
        asked = {"model": source.name, "layers": list(widths), "data": examples.name, **vars(settings)}
        belongs = {**asked, "weights": fingerprint(source), "contents": data_fingerprint(examples)}
        with closing(Journal(working_folder(home or "", list(files.values())), belongs)) as journal:
            journal.open(widths, np.dtype(dtype).itemsize, restart=restart)
            loop = Loop(passes, journal, settings, batch, tell, padding_id(source, pad), trial.equal_lengths)
            loop.run(examples, cutter)
            written, grouped = _finish(journal, files, shapes, settings, tell)
            if is_folder_of_layers(home or "", list(files.values())):
                write_list(files, passes.places(first))
            journal.remove()
    notes = [*examples.notes, *unmasking, *_caveats(source, journal.done, written, settings), *trial.notes]
    return Extraction(
        layers=written,
        data=ExtractedData(examples.name, examples.kind, *(journal.done[name] for name in _COUNTED)),
        model=source.name,
        settings={**asked, "device": str(where), "batch": batch, "seed": seed},
        seconds=time.monotonic() - began,
        resumed=journal.resumed,
        caveats=(*notes, *_unsure(passes, source, shapes, settings)),
        grouped=grouped,
        scratch=scratch,
    )


def list_layers(model: Any, data: Any = None, **options: Any) -> list[LayerShape]:
    """List all layers that one example passes through, in order of their calls, with the shapes of their outputs.

    Options are those of :func:`isorep.extract` for model and data. Without data, a transformers model is run on a few
    tokens.
    """
    opening = ("weights", "tokenizer", "allow_torch_weights", "compute", "seed")
    source = open_model(model, **{name: options.pop(name) for name in opening if name in options})
    pad, context, where = options.pop("pad", None), options.pop("context", None), options.pop("device", "cpu")
    if data is None and source.kind != TRANSFORMER:
        raise InputError("name the data too: shapes are those of an example's way through the model")
    if data is None and source.takes != "input_ids":
        raise InputError(f"name the data too: {source.name} takes {source.takes}, and no tokens")
    if data is None:
        first = Batch(np.zeros((1, 4), dtype=np.int64), "tokens", np.ones((1, 4), dtype=bool))
    else:
        pixels = {**source.pixels, **(options.pop("pixels", None) or {})}
        kind = options.pop("input", "auto")
        examples = as_taken(open_data(data, kind=kind, pixels=pixels, **options), source, pad)
        first = first_batch(examples, Cutter(source.tokenizer, _context(source, context)), pad)
    device = device_named(where)
    with _running(source, device):
        return Passes(source, device, None).shapes(first)


class Scratch:
    """A temporary folder that is removed with the last result that reads from it."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="isorep-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def _widths(passes: Passes, first: Batch, settings: Settings) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Output shape of each layer for one example, and the number of columns of its rows."""
    shapes, widths = {}, {}
    with passes.outputs() as outputs:
        for layer, output in zip(passes.layers, outputs(first), strict=True):
            shapes[layer.label] = tuple(output.shape[1:])
            widths[layer.label] = int(layer_rows(passes, layer, output, first, settings)[0].shape[1])
    return shapes, widths


def _tried(passes: Passes, examples: Rows | Documents, first: Batch, settings: Settings, batch: int | None) -> Trial:
    if isinstance(examples, Documents):
        return try_document(passes, first, settings.context, padding_id(passes.source, settings.pad) or 0)
    return try_rows(passes, examples, settings.pad, batch)


def _unsure(passes: Passes, source: Source, shapes: dict[str, tuple[int, ...]], settings: Settings) -> list[str]:
    """Notes on layers of convolutional models that may have their channels first."""
    if settings.pool == "flatten" or source.kind == TRANSFORMER:
        return []
    return [
        f"layer {layer.label} was read as {shapes[layer.label][0]} positions of {shapes[layer.label][1]} channels; "
        "use --channels first if channels come first"
        for layer in passes.layers
        if ambiguous(source.module, passes.module_of(layer), len(shapes[layer.label]) + 1, settings.channels)
    ]


def _finish(
    journal: Journal, files: dict[str, Path], shapes: dict[str, tuple[int, ...]], settings: Settings, tell: Progress
) -> tuple[dict[str, ExtractedLayer], bool]:
    """Files from the gathered rows, with their statistics."""
    rows, dtype = journal.done["rows"], settings.dtype
    ids, groups = row_labels(journal.labels(), tokens=settings.pool == "token")
    written = {}
    for index, (name, width) in enumerate(journal.layers.items()):
        values = np.memmap(journal.values(index), dtype, "r", shape=(rows, width))
        figures = describe(values)
        save(files[name], values, ids, groups)
        written[name] = ExtractedLayer(name, str(files[name]), rows, width, dtype, shapes[name], **figures)
        tell("writing", index + 1, len(files))
    return written, groups is not None


def _caveats(source: Source, done: dict[str, int], layers: dict[str, ExtractedLayer], settings: Settings) -> list[str]:
    said = list(source.notes)
    longer = f"longer than {settings.context} tokens and cut into windows of that length"
    for name, noun, words in (("empty", "example", "empty, without a row"), ("cut", "document", longer)):
        if done[name]:
            said.append(f"{done[name]} {noun}{' is' if done[name] == 1 else 's are'} {words}")
    if settings.truncate:
        said.append("only the first window of each document was used")
    constant = [layer.name for layer in layers.values() if layer.constant == layer.columns]
    return said + [f"layer {name} is the same in all rows" for name in constant]


@contextmanager
def _running(source: Source, device: Any) -> Iterator[list[str]]:
    """The model ready for passes that change nothing about it; notes on what was left out of them.

    Language models keep no keys and values, which are only needed to generate text. ViTMAE of the transformers library
    masks three quarters of the patches at random in every pass. Its features are those of the whole image, so nothing
    is masked, and increasing numbers replace the random ones.
    """
    torch, module = import_torch("extraction"), source.module
    config: Any = getattr(module, "config", None)
    changed: dict[str, Any] = {"use_cache": False} if getattr(config, "use_cache", None) is True else {}
    hooks, notes = [], []
    masked = getattr(config, "mask_ratio", None)
    if source.kind == TRANSFORMER and masked is not None and "noise" in inspect.signature(module.forward).parameters:
        changed["mask_ratio"] = 0.0
        hooks.append(module.register_forward_pre_hook(_in_order, with_kwargs=True))
        notes = [f"{source.name} masks patches at random ({masked:.0%}): masking was switched off"]
    before = {name: getattr(config, name) for name in changed}
    try:
        for name, value in changed.items():
            setattr(config, name, value)
        with hooked(hooks), evaluating(module, device=device), torch.inference_mode():
            yield notes
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def _in_order(module: Any, inputs: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    torch = import_torch("extraction")
    images = given["pixel_values"]
    size = module.config.patch_size
    patches = (images.shape[-2] // size) * (images.shape[-1] // size)
    order = torch.arange(patches, device=images.device, dtype=torch.float32)
    return inputs, {**given, "noise": order.expand(len(images), patches)}


def _context(source: Source, wanted: int | None) -> int | None:
    if wanted is not None and source.context is not None and wanted > source.context:
        raise InputError(f"context is {wanted} and {source.name} takes {source.context} tokens at once")
    return source.context if wanted is None else wanted
