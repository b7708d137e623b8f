"""``isorep.extract``: from a model and data to one file of rows a layer."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..models.evaluation import device_named, evaluating, import_torch
from ..rows import Progress, no_progress
from ..settings import check_choice, check_counts
from .data import data_fingerprint, open_data
from .documents import Cutter, Documents
from .journal import Journal
from .model import OUTPUT, TRANSFORMER, Source, fingerprint, open_model, unmasked
from .passes import Batch, LayerShape, Passes
from .pooling import ambiguous, channels_first, pooled, require_pool
from .result import ExtractedData, ExtractedLayer, Extraction
from .run import Loop
from .trials import as_taken, first_batch, padding_id, try_document, try_rows
from .write import describe, require_apart, row_labels, save, targets, working_folder

DTYPES = ("float16", "float32", "float64")


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
    """The representations that layers of a model give to data, streamed to files.

    Rows come in the order of the input, with ids; padding never is a row. Memory stays bounded by a batch and a
    stretch of documents. A run that was killed goes on where it stopped when it is called again.

    Parameters
    ----------
    model : torch.nn.Module, str or Path
        A module; ``package.module:name``, a module or what makes one without arguments; or a local folder of the
        transformers library. Nothing is downloaded, no code of a folder is run, nothing is unpickled.
    data : path, array or list of str
        An npy, npz or other array file (``FILE::NAME``), a folder of images, a text file with one document a line, a
        folder of ``.txt`` files, jsonl or parquet with a field of text; or an array, or texts.
    layers : str, int or sequence of them, optional
        Dotted names, or numbers: of hidden states (0 the embeddings, -1 the last), for other modules of those without
        children in the order in which they are first called. By default the last hidden state, or ``"output"``.
    output : str or Path, optional
        A pattern with ``{layer}``, a folder, or a file for one layer: parquet, zarr or npy. By default a temporary
        folder that lives as long as the result.
    format : str, optional
        In a folder: ``parquet`` (the default), ``zarr`` or ``npy``.
    pool : str
        ``mean``, ``max``, ``first`` or ``last`` over the positions of an example, ``token`` for one row a position,
        ``flatten`` for all positions side by side.
    channels : str
        Which axis of an output holds channels: ``first`` or ``last``; by default last of three axes, first of four.
    key : str, optional
        The entry of modules that return a dict or tuple; by default their first tensor.
    weights : str or Path, optional
        Safetensors, or a flat dict of tensors that ``torch.save`` wrote, for a model from code.
    tokenizer : optional
        For a transformers model that is given as a module.
    allow_torch_weights : bool
        Read a folder's ``pytorch_model.bin``, by ``weights_only``.
    compute : str
        Of a folder whose weights are stored in half precision: ``float32``, or ``stored`` to compute in that, with
        half of the memory and about three digits.
    input : str
        What an array or folder holds: ``values``, ``tokens``, ``images`` or ``text``; by default floating point is
        values, bytes with axes are images, other whole numbers are tokens.
    text_field, id_field, group_field : str
        Of jsonl and parquet. Ids are taken from ``id`` where there is one, else documents are numbered from 0.
    pixels : dict, optional
        Of images: ``size``, ``mean`` and ``spread`` of channels, ``grey``.
    pad : int, optional
        The id of padding in token arrays.
    context : int, optional
        Tokens of a window; by default what the model takes. Longer documents are cut into windows without overlap.
    truncate : bool
        Take the first window of each document only.
    special : bool
        Whether tokens that the tokenizer adds count as rows and in pooling.
    limit : int, optional
        The first so many examples only.
    dtype : str
        ``float32``, ``float16`` or ``float64``; values that do not fit are refused.
    batch : int, optional
        Examples of a batch; by default by their size.
    device : str
        ``cpu``, ``cuda``, ``mps`` or ``auto``.
    restart : bool
        Throw away what a stopped run has left, and begin anew.
    seed : int
        Of weights that code makes where none are given.
    progress : callable, optional
        ``progress(stage, done, total)``.

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
    require_pool(pool, channels)
    _require_numbers(dtype, batch, context)
    source = open_model(
        model,
        weights=weights,
        tokenizer=tokenizer,
        allow_torch_weights=allow_torch_weights,
        compute=compute,
        seed=seed,
    )
    examples = open_data(
        data,
        kind=input,
        text_field=text_field,
        id_field=id_field,
        group_field=group_field,
        limit=limit,
        pixels={**source.pixels, **(pixels or {})},
    )
    cutter = Cutter(source.tokenizer, _context(source, context), special=special, truncate=truncate)
    examples = as_taken(examples, source, pad)
    if isinstance(examples, Documents) and pool == "flatten":
        raise InputError("documents differ in length, so they cannot be flattened: choose another pool")
    where = device_named(device)
    with _running(source, where) as unmasking:
        passes = Passes(source, where, key)
        first = first_batch(examples, cutter, pad)
        passes.choose((-1 if source.kind == TRANSFORMER else OUTPUT) if layers is None else layers, first)
        shapes, widths = _widths(passes, first, pool, channels)
        trial = (
            try_document(passes, first, _context(source, context), padding_id(source, pad) or 0)
            if isinstance(examples, Documents)
            else try_rows(passes, examples, pad, batch)
        )
        unsure = [] if pool == "flatten" else _unsure(passes, source, shapes, channels)
        scratch = Scratch() if output is None else None
        home = f"{scratch.name}/{{layer}}.npy" if output is None and scratch is not None else output or ""
        files = targets(home, format if scratch is None else None, list(widths))
        require_apart(list(files.values()), [*examples.paths, *([] if weights is None else [Path(weights)])])
        asked = {
            "model": source.name,
            "layers": list(widths),
            "data": examples.name,
            "pool": pool,
            "channels": channels,
            "key": key,
            "pad": pad,
            "context": _context(source, context),
            "truncate": truncate,
            "special_tokens": special,
            "limit": limit,
            "dtype": dtype,
            "compute": compute,
        }
        belongs = {**asked, "weights": fingerprint(source), "contents": data_fingerprint(examples)}
        journal = Journal(working_folder(home, list(files.values())), belongs)
        try:
            journal.open(restart=restart)
            kind = np.dtype(dtype)
            journal.start(widths, {name: width * kind.itemsize for name, width in widths.items()})
            report = progress or no_progress
            filling = padding_id(source, pad)
            loop = Loop(passes, journal, pool, channels, kind, batch, report, filling, trial.equal_lengths)
            loop.run_documents(examples, cutter) if isinstance(examples, Documents) else loop.run_rows(examples)
            layers_found, grouped = _finish(journal, files, shapes, kind, pool == "token", report)
        finally:
            journal.close()
    journal.remove()
    done = journal.done
    return Extraction(
        layers_found,
        ExtractedData(examples.name, examples.kind, done["examples"], done["empty"], done["cut"], done["tokens"]),
        source.name,
        {**asked, "device": str(where), "batch": batch, "seed": seed},
        time.monotonic() - began,
        journal.resumed,
        (
            *(() if isinstance(examples, Documents) else examples.notes),
            *unmasking,
            *_caveats(source, done, layers_found, _context(source, context), truncate),
            *trial.notes,
            *unsure,
        ),
        grouped,
        scratch,
    )


def list_layers(model: Any, data: Any = None, **options: Any) -> list[LayerShape]:
    """All layers that one example passes through, in order of their calls, with the shapes of their outputs.

    Options are those of :func:`isorep.extract` that say what model and data are. Without data, a transformers model is
    shown a few tokens.
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


def _widths(
    passes: Passes, first: Batch, pool: str, channels: str
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """What each layer gives for one example, and how many columns its rows have."""
    import torch

    with passes.outputs() as outputs:
        found = outputs(first)
    shapes, widths = {}, {}
    for layer, output in zip(passes.layers, found, strict=True):
        mask = None if first.kept is None else torch.from_numpy(first.kept).to(output.device)
        along = channels_first(passes.module_of(layer), output.dim(), channels)
        shapes[layer.label] = tuple(output.shape[1:])
        widths[layer.label] = int(pooled(output, pool, along, mask, layer.label).rows.shape[1])
    return shapes, widths


def _unsure(passes: Passes, source: Source, shapes: dict[str, tuple[int, ...]], channels: str) -> list[str]:
    """Notes on layers of convolutional models that may have their channels first."""
    return [
        f"layer {layer.label} was taken as {shapes[layer.label][0]} positions of {shapes[layer.label][1]} channels; "
        "--channels first says otherwise"
        for layer in passes.layers
        if ambiguous(source.module, passes.module_of(layer), len(shapes[layer.label]) + 1, channels)
        and source.kind != TRANSFORMER
    ]


def _finish(
    journal: Journal,
    files: dict[str, Path],
    shapes: dict[str, tuple[int, ...]],
    dtype: np.dtype[Any],
    tokens: bool,
    progress: Progress,
) -> tuple[dict[str, ExtractedLayer], bool]:
    """Files from the rows that were gathered, with what they are like."""
    rows = journal.done["rows"]
    ids, groups = row_labels(journal.labels(), tokens=tokens)
    found = {}
    for place, (name, width) in enumerate(journal.layers.items()):
        values = np.memmap(journal.values(place), dtype, "r", shape=(rows, width))
        figures = describe(values)
        save(files[name], values, ids, groups)
        found[name] = ExtractedLayer(name, str(files[name]), rows, width, dtype.name, shapes[name], **vars(figures))
        progress("writing", place + 1, len(files))
    return found, groups is not None


def _caveats(
    source: Source, done: dict[str, int], layers: dict[str, ExtractedLayer], context: int | None, truncate: bool
) -> tuple[str, ...]:
    said = list(source.notes)
    if done["empty"]:
        said.append(f"{_counted(done['empty'], 'example')} empty, without a row")
    if done["cut"]:
        said.append(f"{_counted(done['cut'], 'document')} longer than {context} tokens, cut into windows of so many")
    if truncate:
        said.append("of each document the first window was taken only")
    for layer in layers.values():
        if layer.constant == layer.columns:
            said.append(f"layer {layer.name} is the same in all rows")
    return tuple(said)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun} is" if number == 1 else f"{number} {noun}s are"


@contextmanager
def _running(source: Source, device: Any) -> Iterator[tuple[str, ...]]:
    """The model ready for passes that change nothing about it; notes on what was left out of them."""
    torch, module = import_torch("extraction"), source.module
    with evaluating(module, device=device), _uncached(module), unmasked(source) as notes, torch.inference_mode():
        yield notes


@contextmanager
def _uncached(module: Any) -> Iterator[None]:
    """Without the keys and values that a language model keeps for generating text."""
    config = getattr(module, "config", None)
    before = getattr(config, "use_cache", None)
    if before is not True:
        yield
        return
    config.use_cache = False  # type: ignore[union-attr]
    try:
        yield
    finally:
        config.use_cache = before  # type: ignore[union-attr]


def _context(source: Source, wanted: int | None) -> int | None:
    if wanted is not None and source.context is not None and wanted > source.context:
        raise InputError(f"context is {wanted} and {source.name} takes {source.context} tokens at once")
    return source.context if wanted is None else wanted


def _require_numbers(dtype: str, batch: int | None, context: int | None) -> None:
    check_choice("dtype", dtype, DTYPES)
    counts = {"batch": batch, "context": context}
    check_counts(**{name: (value, 1) for name, value in counts.items() if value is not None})
