"""Loop of an extraction: batches in, rows of every layer out, in the order of the input.

Pooling, from a layer's output to rows: each position a row, or pooled over positions, or flattened. Outputs of three
axes are sequences (examples, positions, channels), those of four and more are maps (examples, channels, positions...),
as convolutions make them; ``channels`` overrides this.

Trials run a model on one or two examples before the main run, to test whether padding, other examples or randomness
change its rows. A row must be the output of its example alone. Some models do not exclude padding (their mask is not
used, or convolutions reach into it): their batches hold documents of one length. A model that mixes examples, because
its first axis is that of positions, or because it uses statistics of the batch, is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..models.evaluation import import_torch, known_to_torch
from ..representation import Array
from ..rows import Progress
from ..settings import check_choice, check_counts
from .data import Rows, TokenRows
from .documents import Cutter, Document, Documents, Window, batches, padded
from .model import TRANSFORMER, TWO_SIDES, Source, has_two_sides
from .passes import OUTPUT, Batch, Layer, Passes, not_examples
from .write import Journal

if TYPE_CHECKING:
    import torch

_SHARD_BYTES, _LEAST_TOKENS, _SHARD_TOKENS = 2**25, 2**12, 2**16
_BATCH_CELLS, _MOST_ROWS = 2**22, 256
_COMMIT_SECONDS = 2.0

POOLS = ("mean", "max", "first", "last", "token", "flatten")
_CHANNELS_FIRST = [
    "Conv1d",
    "ConvTranspose1d",
    "LazyConv1d",
    "BatchNorm1d",
    "InstanceNorm1d",
    "MaxPool1d",
    "AvgPool1d",
    "LPPool1d",
    "AdaptiveAvgPool1d",
    "AdaptiveMaxPool1d",
    # kinds of nodes in ONNX files
    "Conv",
    "ConvTranspose",
    "ConvInteger",
    "BatchNormalization",
    "InstanceNormalization",
    "MaxPool",
    "AveragePool",
]
_CHANNELS_LAST = [
    *("Linear", "LayerNorm", "Embedding", "RNN", "LSTM", "GRU", "MultiheadAttention"),
    *("MatMul", "Gemm", "LayerNormalization", "Gather"),  # kinds of nodes in ONNX files
]


@dataclass(frozen=True)
class Settings:
    """Settings of the rows; a resumed extraction must have those of the interrupted one."""

    pool: str
    channels: str
    key: str | None
    pad: int | None
    context: int | None
    truncate: bool
    special_tokens: bool
    limit: int | None
    dtype: str
    compute: str

    def __post_init__(self) -> None:
        check_choice("pool", self.pool, POOLS)
        check_choice("channels", self.channels, ("auto", "first", "last"))
        check_choice("dtype", self.dtype, ("float16", "float32", "float64"))
        if self.context is not None:
            check_counts(context=(self.context, 1))


@dataclass
class Loop:
    """Passes over all examples, and the journal that keeps their rows."""

    passes: Passes
    journal: Journal
    settings: Settings
    batch: int | None
    progress: Progress
    pad: int | None
    equal_lengths: bool
    _last: float = field(default_factory=time.monotonic)

    def run(self, examples: Rows | Documents, cutter: Cutter) -> None:
        """All examples that the journal does not have yet."""
        with self.passes.outputs() as outputs:
            if isinstance(examples, Documents):
                self._run_documents(examples, cutter, outputs)
            else:
                self._run_rows(examples, outputs)
        self.journal.commit()

    def _run_rows(self, rows: Rows, outputs: Any) -> None:
        """Rows of an array, or images: each batch is its own stretch of work."""
        size = self.batch or int(np.clip(_BATCH_CELLS // max(1, rows.read(0, 1).size), 1, _MOST_ROWS))
        for start in range(self.journal.done["examples"], rows.count, size):
            stop = min(start + size, rows.count)
            self._rows_batch(rows, start, stop, outputs)
            self._advance(stop - start, rows.count)

    def _run_documents(self, documents: Documents, cutter: Cutter, outputs: Any) -> None:
        """Documents in stretches: the windows of each are ordered by length, its rows are not."""
        widths = sum(self.journal.layers.values()) * np.dtype(self.settings.dtype).itemsize
        budget = int(np.clip(_SHARD_BYTES // max(widths, 1), _LEAST_TOKENS, _SHARD_TOKENS))
        coming = islice(iter(documents), self.journal.done["examples"], None)
        for stretch, windows in _stretches(coming, cutter, budget):
            self._documents(stretch, windows, outputs)
            self.journal.done["tokens"] += sum(len(window.tokens) for window in windows)
            self._advance(len(stretch), documents.count or 0)

    def _rows_batch(self, rows: Rows, start: int, stop: int, outputs: Any) -> None:
        batch = rows_batch(rows, start, stop, self.pad)
        ids = rows.ids(start, stop)
        if batch.kept is not None:
            full = np.asarray(batch.kept.any(axis=1))
            self.journal.done["empty"] += int((~full).sum())
            ids = [label for label, there in zip(ids, full, strict=True) if there]
            batch = Batch(batch.inputs[full], batch.kind, batch.attended, batch.kept[full])
        if ids:
            layers, counts = self._layers(batch, outputs, ids, np.zeros(len(ids), dtype=np.int64))
            self._store(layers, counts, [(label, None) for label in ids])

    def _documents(self, stretch: Sequence[Document], windows: Sequence[Window], outputs: Any) -> None:
        parts: list[list[Array]] = [[np.empty(0)] * len(windows) for _ in self.passes.layers]
        counts = np.zeros(len(windows), dtype=np.int64)
        offsets = _offsets(windows)
        for chosen in batches(windows, self.batch, self.passes.tokens, equal=self.equal_lengths):
            members = [windows[index] for index in chosen]
            ids = [stretch[member.document].id for member in members]
            layers, counts[chosen] = self._layers(padded(members, self.pad or 0), outputs, ids, offsets[chosen])
            for layer, rows in enumerate(layers):
                for index, block in zip(chosen, np.split(rows, np.cumsum(counts[chosen])[:-1]), strict=True):
                    parts[layer][index] = block
        self._join(stretch, windows, parts, counts)

    def _join(
        self, stretch: Sequence[Document], windows: Sequence[Window], parts: list[list[Array]], counts: Array
    ) -> None:
        """Rows of windows joined to documents: concatenated, or pooled over all windows of a document."""
        owners = np.array([window.document for window in windows], dtype=np.int64)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))  # windows of a document follow each other
        full = owners[starts]
        self.journal.done["empty"] += len(stretch) - len(full)
        self.journal.done["cut"] += int((np.diff(starts, append=len(owners)) > 1).sum())
        if not len(full):
            return
        labels = [(stretch[index].id, stretch[index].group) for index in full]
        if self.settings.pool == "token":
            self._store([np.concatenate(each) for each in parts], np.add.reduceat(counts, starts), labels)
            return
        weights = np.array([window.kept.sum() for window in windows], dtype=np.int64)
        spans = [slice(start, end) for start, end in zip(starts, [*starts[1:], len(owners)], strict=True)]
        layers = [
            np.stack([_over_windows(each[at], weights[at], self.settings.pool) for at in spans]) for each in parts
        ]
        self._store([layer.astype(self.settings.dtype) for layer in layers], np.ones(len(full), np.int64), labels)

    def _store(self, layers: list[Array], counts: Array, labels: Any) -> None:
        """Store rows of all layers, ``counts`` for each label."""
        owners = np.repeat(np.arange(len(counts)), counts) + self.journal.done["documents"]
        self.journal.append(layers, owners, _positions(counts))
        self.journal.append_documents(labels)

    def _advance(self, examples: int, total: int) -> None:
        self.journal.done["examples"] += examples
        self.progress("extracting", self.journal.done["examples"], max(total, self.journal.done["examples"]))
        if time.monotonic() - self._last >= _COMMIT_SECONDS:
            self.journal.commit()
            self._last = time.monotonic()

    def _layers(
        self, batch: Batch, outputs: Any, ids: Sequence[int | str], offsets: Array
    ) -> tuple[list[Array], Array]:
        """Rows of every layer in the type that is written, and how many each example has, the same in all layers."""
        pooled = [
            layer_rows(self.passes, layer, output, batch, self.settings)
            for layer, output in zip(self.passes.layers, outputs(batch), strict=True)
        ]
        counts = pooled[0][1]
        for layer, (_, other) in zip(self.passes.layers, pooled, strict=True):
            if other != counts:
                labels = f"{self.passes.layers[0].label!r} and {layer.label!r}"
                given = f"{sum(counts)} and {sum(other)} rows for {len(ids)} examples"
                raise InputError(f"layers {labels} give {given}: extract them apart, or pool them")
        each = np.array(counts, dtype=np.int64)
        owners, positions = np.repeat(np.arange(len(ids)), each), _positions(each) + np.repeat(offsets, each)

        def name(row: int) -> str:
            label = ids[owners[row]]
            return repr(f"{label}:{positions[row]}" if self.settings.pool == "token" else label)

        named = zip(self.passes.layers, pooled, strict=True)
        return [_finite(rows, layer.label, name, np.dtype(self.settings.dtype)) for layer, (rows, _) in named], each


def rows_batch(rows: Rows, start: int, stop: int, pad: int | None) -> Batch:
    """Some examples as a model takes them; of token ids with a padding id, the mask of the others."""
    inputs = known_to_torch(rows.read(start, stop))
    kept = inputs != pad if rows.kind == "tokens" and pad is not None else None
    return Batch(inputs, rows.kind, None, kept)


def layer_rows(
    passes: Passes, layer: Layer, output: torch.Tensor, batch: Batch, settings: Settings
) -> tuple[torch.Tensor, tuple[int, ...]]:
    """Rows of a layer for one batch, and how many of them each example has; pooled ones are one each."""
    torch = import_torch("extraction")
    shape, n, label, pool = tuple(output.shape), len(batch.inputs), repr(layer.label), settings.pool
    if shape and len(output) != n:
        raise InputError(not_examples(layer, output, n))
    if len(shape) < 2:
        raise InputError(f"layer {label} gives {shape}: one row per example is needed")
    if output.layout != torch.strided:
        raise InputError(f"layer {label} gives a sparse tensor: name another layer")
    if not output.is_floating_point():
        raise InputError(f"layer {label} gives {output.dtype}, not floating-point values")
    if len(shape) == 2:
        return output, (1,) * n
    mask = None if batch.kept is None else torch.from_numpy(batch.kept).to(output.device)
    if pool == "flatten" and mask is not None and bool(mask.all()):
        mask = None
    first = channels_first(passes.module_of(layer), len(shape), settings.channels)
    if mask is not None and (first or len(shape) != 3 or shape[1] != mask.shape[1]):
        raise InputError(f"layer {label} gives {shape}, which are not the {mask.shape[1]} positions of the input")
    if pool == "flatten":
        if mask is not None:
            raise InputError(f"layer {label} cannot be flattened: sequences differ in length")
        return output.reshape(n, -1), (1,) * n
    sequences = output.flatten(2).transpose(1, 2) if first else output.flatten(1, -2)
    real = torch.ones(sequences.shape[:2], dtype=torch.bool, device=output.device) if mask is None else mask
    if pool == "token":
        return sequences[real], tuple(real.sum(dim=1).tolist())
    return _reduced(sequences, real, pool), (1,) * n


def channels_first(module: Any, axes: int, channels: str) -> bool:
    """Whether the second axis of a layer's output holds channels."""
    if channels != "auto":
        return channels == "first"
    return axes >= 4 or type(module).__name__ in _CHANNELS_FIRST


def ambiguous(model: Any, module: Any, axes: int, channels: str) -> bool:
    """Whether a layer of three axes may have its channels first, as the convolutions of its model have."""
    if channels != "auto" or axes != 3 or type(module).__name__ in (*_CHANNELS_FIRST, *_CHANNELS_LAST):
        return False
    return any(type(each).__name__ in _CHANNELS_FIRST for each in model.modules())


def _reduced(sequences: torch.Tensor, real: torch.Tensor, pool: str) -> torch.Tensor:
    torch = import_torch("extraction")
    if pool == "max":
        return sequences.masked_fill(~real[..., None], -torch.inf).amax(dim=1)
    if pool == "mean":
        # Half precision sums of long sequences lose digits, so sums are taken in float32 at least.
        wide = torch.promote_types(sequences.dtype, torch.float32)
        total = (sequences.to(wide) * real[..., None]).sum(dim=1)
        return total / real.sum(dim=1)[:, None]
    each = torch.arange(len(sequences), device=sequences.device)
    places = real.int().argmax(dim=1) if pool == "first" else real.shape[1] - 1 - real.flip(1).int().argmax(dim=1)
    return sequences[each, places]


def _finite(rows: torch.Tensor, layer: str, name: Callable[[int], str], dtype: np.dtype[Any]) -> Array:
    """Rows in the output dtype; values that are not finite, before or after, are refused with their place."""
    torch = import_torch("extraction")
    wide = rows.double() if rows.dtype == torch.float64 else rows.float()
    values: Array = wide.cpu().numpy()
    with np.errstate(over="ignore"):
        narrow = values.astype(dtype)
    if np.isfinite(narrow).all():
        return narrow
    lost = ~np.isfinite(values).all(axis=1)
    if lost.any():
        raise InputError(f"layer {layer!r} is not finite at row {name(int(np.flatnonzero(lost)[0]))}")
    row = int(np.flatnonzero(~np.isfinite(narrow).all(axis=1))[0])
    held = f"{dtype.name} holds ({float(np.finfo(dtype).max):.4g})"
    most = np.abs(values[row]).max()
    raise InputError(f"layer {layer!r} reaches {most:.4g} at row {name(row)}, more than {held}: write a wider type")


def _stretches(
    coming: Iterator[Document], cutter: Cutter, budget: int
) -> Iterator[tuple[list[Document], list[Window]]]:
    """Documents with their windows, as many as make up the budget of tokens."""
    stretch: list[Document] = []
    windows: list[Window] = []
    tokens = 0
    for document in coming:
        made = cutter.windows(len(stretch), document.content)
        stretch.append(document)
        windows += made
        tokens += 1 + sum(len(window.tokens) for window in made)
        if tokens >= budget:
            yield stretch, windows
            stretch, windows, tokens = [], [], 0
    if stretch:
        yield stretch, windows


def _over_windows(blocks: list[Array], weights: Array, pool: str) -> Array:
    """One row of a document from one row of each of its windows."""
    if len(blocks) == 1:
        return np.asarray(blocks[0][0])
    rows = np.stack([block[0] for block in blocks])
    if pool == "mean":
        return np.asarray(np.average(rows.astype(np.float64), axis=0, weights=weights))
    return np.asarray(rows.max(axis=0) if pool == "max" else rows[0 if pool == "first" else -1])


def _positions(counts: Array) -> Array:
    """0, 1, 2, ... for each example."""
    return np.asarray(np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))


def _offsets(windows: Sequence[Window]) -> Array:
    """For each window how many kept tokens of its document come before it."""
    kept = np.array([window.kept.sum() for window in windows], dtype=np.int64)
    owners = np.array([window.document for window in windows], dtype=np.int64)  # in their order
    before = np.cumsum(kept) - kept
    return np.asarray(before - before[np.searchsorted(owners, owners)])


_TOKENS = 32  # of a document that is tried
_PADDING = 3
_TRIED_FOR_PADDING = 256  # examples among which one with padding is sought
_SINGLE, _HALF = 1e-3, 0.1  # largest differences that rounding makes, in units of the largest value


@dataclass(frozen=True)
class Trial:
    """Whether documents in a batch must have one length, and notes."""

    equal_lengths: bool = False
    notes: tuple[str, ...] = ()


def try_document(passes: Passes, first: Batch, context: int | None, pad: int) -> Trial:
    """Run a few tokens twice, and once with padding after them."""
    if passes.changes_attention:
        return Trial(True)
    room = max(1, (context or _TOKENS + _PADDING) - _PADDING)
    count = min(first.inputs.shape[1], room, _TOKENS)
    types = None if first.types is None else first.types[:, :count]
    short = Batch(first.inputs[:, :count], "tokens", np.ones((1, count), dtype=bool), None, types)
    ends = ((0, 0), (0, _PADDING))
    longer = replace(
        short,
        inputs=np.pad(short.inputs, ends, constant_values=pad),
        attended=np.pad(np.ones((1, count), dtype=bool), ends),
        types=None if short.types is None else np.pad(short.types, ends),
    )
    with passes.outputs() as outputs:
        alone, again = outputs(short), outputs(short)
        notes = _random(passes, alone, again)
        if notes or (context is not None and count + _PADDING > context):
            return Trial(notes=notes)
        beside = [each[:, :count] if each.dim() == 3 else each for each in outputs(longer)]
    for layer, a, b in zip(passes.layers, alone, beside, strict=True):
        if a.shape == b.shape and _far(a, b):
            together = "so batches held only documents of one length"
            return Trial(True, (f"padding changes layer {layer.label}, {together}",))
    return Trial()


def try_rows(passes: Passes, examples: Rows, pad: int | None, batch: int | None) -> Trial:
    """Run an example twice alone, and once together with another one; one with padding also without it."""
    padding = _padding_notes(passes, examples, pad)
    if examples.count < 2:
        return Trial(notes=padding)
    pair, one = rows_batch(examples, 0, 2, pad), rows_batch(examples, 1, 2, pad)
    with passes.outputs() as outputs:
        alone, again = outputs(one), outputs(one)
        notes = _random(passes, alone, again)
        if notes or batch == 1 or not all(each.dim() for each in alone):  # a number is refused with its shape
            return Trial(notes=notes or padding)
        both = outputs(pair)
    for layer, single, double in zip(passes.layers, alone, both, strict=True):
        if (len(single), len(double)) != (1, 2):
            raise InputError(not_examples(layer, double, 2))
        if single.shape[1:] == double.shape[1:] and _far(single[0], double[1]):
            raise InputError(_mixed(passes, layer))
    return Trial(notes=padding)


def _mixed(passes: Passes, layer: Layer) -> str:
    """The problem of a layer whose rows depend on the rest of their batch."""
    returned = getattr(passes.source.module, "returned", None)  # what an ONNX file calls its output
    named, axis, statistics = layer.label, " (batch_first=True?)", "statistics of the batch"
    if returned is not None:
        named, axis = returned if named == OUTPUT else named, ""
        statistics += ", such as the range of its values in 8-bit quantisation"
    mixed = f"layer {named!r} gives an example other values when another one is in the batch"
    why = f"its first axis is not that of examples{axis}, or it takes {statistics}"
    return f"{mixed}: {why}; --batch 1 runs each example alone"


def _padding_notes(passes: Passes, examples: Rows, pad: int | None) -> tuple[str, ...]:
    """Layers in which an example of token ids has other values without the padding after it."""
    if pad is None or examples.kind != "tokens":
        return ()
    some = rows_batch(examples, 0, min(examples.count, _TRIED_FOR_PADDING), pad)
    if some.kept is None or some.inputs.ndim != 2:
        return ()
    lengths = some.kept.sum(axis=1)
    ended = (some.kept == (np.arange(some.kept.shape[1]) < lengths[:, None])).all(axis=1)  # padding comes last
    found = np.flatnonzero(ended & (lengths > 0) & (lengths < some.kept.shape[1]))
    if not len(found):
        return ()
    row, count = int(found[0]), int(lengths[found[0]])
    whole = Batch(some.inputs[row : row + 1], some.kind, None, some.kept[row : row + 1])
    short = Batch(whole.inputs[:, :count], some.kind, None, np.ones((1, count), dtype=bool))
    with passes.outputs() as outputs:
        padded_ones = outputs(whole)
        try:
            alone = outputs(short)
        except InputError:  # a model of one length takes no other, so an example is what it is with its padding
            return ()
    changed = []
    for layer, a, b in zip(passes.layers, alone, padded_ones, strict=True):
        b = b[:, :count] if b.dim() == 3 else b
        if a.shape == b.shape and _far(a, b):
            changed.append(layer.label)
    if not changed:
        return ()
    named = ", ".join(changed[:3]) + (", ..." if len(changed) > 3 else "")
    return (f"padding changes layer {named}: rows of padded examples are not what these give alone",)


def _random(passes: Passes, one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> tuple[str, ...]:
    return tuple(
        f"layer {layer.label} gave other values for the same example again: the model uses random numbers"
        for layer, a, b in zip(passes.layers, one, other, strict=True)
        if a.shape != b.shape or _far(a, b)
    )


def _far(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two outputs differ by more than rounding; what is not finite is refused later, with its row."""
    if not a.is_floating_point() or not a.numel():
        return False
    one, other = a.cpu().double(), b.cpu().double()  # not every device has float64
    allowed = (_SINGLE if a.dtype.itemsize >= 4 else _HALF) * one.abs().max()
    return bool((one - other).abs().max() > allowed)


_HOLDS = {"text": "texts", "tokens": "whole numbers, which are taken as token ids", "values": "floating-point numbers"}


def as_taken(examples: Rows | Documents, source: Source, pad: int | None) -> Rows | Documents:
    """The examples, as documents where the model takes tokens."""
    if source.kind == TRANSFORMER:
        _require_kind(examples, source)
    if isinstance(examples, Documents) and source.tokenizer is None:
        raise InputError(f"{examples.name} holds texts and {source.name} has no tokenizer: give token ids")
    if isinstance(examples, Rows) and examples.kind == "tokens" and source.kind == TRANSFORMER:
        if len(examples.read(0, 1).shape) != 2:
            raise InputError(f"{examples.name} holds whole numbers of more than two axes, which are no token ids")
        return TokenRows(examples, pad)
    return examples


def first_batch(examples: Rows | Documents, cutter: Cutter, pad: int | None) -> Batch:
    """One example that is not empty."""
    if isinstance(examples, Rows):
        for row in range(examples.count):
            batch = rows_batch(examples, row, row + 1, pad)
            if batch.kept is None or batch.kept.any():
                return batch
    else:
        for document in examples:
            windows = cutter.windows(0, document.content)
            if windows:
                return padded(windows[:1], 0)
    raise InputError(f"all examples of {examples.name} are empty: there is no token in them")


def padding_id(source: Source, pad: int | None) -> int | None:
    """The padding id: it is masked, so any id of the model's vocabulary works."""
    if source.kind != TRANSFORMER:
        return pad
    known = source.vocabulary
    for token in (pad, getattr(source.tokenizer, "pad_token_id", None)):
        if isinstance(token, int) and token >= 0 and (known is None or token < known):
            return token
    return 0


def _require_kind(examples: Rows | Documents, source: Source) -> None:
    """Refuse images for a model of language, and texts for one of images or sounds."""
    words = examples.kind in ("text", "tokens")
    if words == (source.takes == "input_ids"):
        return
    if has_two_sides(source):
        raise InputError(f"{source.name} {TWO_SIDES}")
    images = "images, or " if source.takes == "pixel_values" else ""
    wanted = f"{source.takes}: {images}an array of floating-point numbers" if words else "texts or token ids"
    holds = _HOLDS.get(examples.kind, examples.kind)
    raise InputError(f"{examples.name} holds {holds}, and {source.name} takes {wanted}")
