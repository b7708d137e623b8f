"""The loop of an extraction: batches in, rows of every layer out, in the order of the input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..models.evaluation import import_torch
from ..representation import Array
from ..rows import Progress
from .data import Rows
from .documents import Cutter, Document, Documents, Window, batches, padded
from .journal import Journal
from .passes import Batch, Passes, not_examples
from .pooling import Pooled, channels_first, pooled

if TYPE_CHECKING:
    import torch

_SHARD_BYTES, _LEAST_TOKENS, _SHARD_TOKENS = 2**25, 2**12, 2**16
_BATCH_CELLS, _MOST_ROWS = 2**22, 256
_COMMIT_SECONDS = 2.0

STAGE = "extracting"


@dataclass
class Loop:
    """What a loop needs to know."""

    passes: Passes
    journal: Journal
    pool: str
    channels: str
    dtype: np.dtype[Any]
    batch: int | None
    progress: Progress
    pad: int | None = None
    equal_lengths: bool = False
    total: int = 0
    _last: float = field(default_factory=time.monotonic)

    def run_rows(self, rows: Rows) -> None:
        """Rows of an array, or images: each batch is its own stretch of work."""
        self.total = rows.count
        size = self.batch or batch_size(rows)
        with self.passes.outputs() as outputs:
            for start in range(self.journal.done["examples"], rows.count, size):
                stop = min(start + size, rows.count)
                self._rows_batch(rows, start, stop, outputs)
                self._advance(stop - start)
        self.journal.commit()

    def run_documents(self, documents: Documents, cutter: Cutter) -> None:
        """Documents in stretches: the windows of each are ordered by length, its rows are not."""
        self.total = documents.count or 0
        widths = sum(self.journal.layers.values()) * self.dtype.itemsize
        budget = int(np.clip(_SHARD_BYTES // max(widths, 1), _LEAST_TOKENS, _SHARD_TOKENS))
        coming = islice(iter(documents), self.journal.done["examples"], None)
        with self.passes.outputs() as outputs:
            for stretch, windows in _stretches(coming, cutter, budget):
                self._documents(stretch, windows, outputs)
                self.journal.done["tokens"] += sum(len(window.tokens) for window in windows)
                self._advance(len(stretch))
        self.journal.commit()

    def _rows_batch(self, rows: Rows, start: int, stop: int, outputs: Any) -> None:
        batch = rows_batch(rows, start, stop, self.pad)
        ids = rows.ids(start, stop)
        if batch.kept is not None:
            full = np.asarray(batch.kept.any(axis=1))
            if not full.all():
                self.journal.done["empty"] += int((~full).sum())
                ids = [label for label, there in zip(ids, full, strict=True) if there]
                batch = Batch(batch.inputs[full], batch.kind, batch.attended, batch.kept[full])
                if not ids:
                    return
        found = [self._pooled(output, place, batch) for place, output in enumerate(outputs(batch))]
        counts = self._agreed([each.counts for each in found], len(ids))
        places = np.repeat(np.arange(len(ids)), counts)
        positions = _positions(counts)
        blocks = [
            self._checked(each.rows, place, lambda row: _row_name(ids[places[row]], positions[row], self.pool))
            for place, each in enumerate(found)
        ]
        self._store(blocks, places, positions, [(label, None) for label in ids])

    def _documents(self, stretch: Sequence[Document], windows: Sequence[Window], outputs: Any) -> None:
        parts: list[list[Array]] = [[np.empty(0)] * len(windows) for _ in self.passes.layers]
        counts = np.zeros(len(windows), dtype=np.int64)
        offsets = _offsets(windows)
        for chosen in batches(windows, self.batch, self.passes.tokens, equal=self.equal_lengths):
            members = [windows[place] for place in chosen]
            batch = padded(members, self.pad or 0)
            found = [self._pooled(output, place, batch) for place, output in enumerate(outputs(batch))]
            agreed = self._agreed([each.counts for each in found], len(members))
            owner = np.repeat([member.document for member in members], agreed)
            positions = _positions(agreed) + np.repeat([offsets[place] for place in chosen], agreed)
            ends = np.cumsum(agreed)[:-1]
            for layer, each in enumerate(found):
                rows = self._checked(each.rows, layer, partial(_row_of, stretch, owner, positions, self.pool))
                for place, block in zip(chosen, np.split(rows, ends), strict=True):
                    parts[layer][place] = block
            counts[chosen] = agreed
        weights = np.array([window.kept.sum() for window in windows], dtype=np.int64)
        self._join(stretch, windows, parts, counts, weights)

    def _join(
        self,
        stretch: Sequence[Document],
        windows: Sequence[Window],
        parts: list[list[Array]],
        counts: Array,
        weights: Array,
    ) -> None:
        """Windows back to their documents: one after the other, or pooled over all windows of a document."""
        owners = np.array([window.document for window in windows], dtype=np.int64)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))  # windows of a document follow each other
        full = owners[starts]
        self.journal.done["empty"] += len(stretch) - len(full)
        self.journal.done["cut"] += int((np.diff(starts, append=len(owners)) > 1).sum())
        if not len(full):
            return
        labels = [(stretch[place].id, stretch[place].group) for place in full]
        if self.pool == "token":
            lengths = np.add.reduceat(counts, starts)
            blocks = [np.concatenate(each) for each in parts]
            self._store(blocks, np.repeat(np.arange(len(full)), lengths), _positions(lengths), labels)
            return
        ends = [*starts[1:].tolist(), len(owners)]
        blocks = [
            np.stack(
                [
                    _over_windows(each[start:end], weights[start:end], self.pool)
                    for start, end in zip(starts, ends, strict=True)
                ]
            ).astype(self.dtype)
            for each in parts
        ]
        self._store(blocks, np.arange(len(full)), np.zeros(len(full)), labels)

    def _store(self, blocks: list[Array], places: Array, positions: Array, labels: Any) -> None:
        self.journal.append(blocks, places + self.journal.done["documents"], positions)
        self.journal.append_documents(labels)

    def _advance(self, examples: int) -> None:
        self.journal.done["examples"] += examples
        self.progress(STAGE, self.journal.done["examples"], max(self.total, self.journal.done["examples"]))
        if time.monotonic() - self._last >= _COMMIT_SECONDS:
            self.journal.commit()
            self._last = time.monotonic()

    def _pooled(self, output: torch.Tensor, place: int, batch: Batch) -> Pooled:
        torch = import_torch("extraction")
        layer = self.passes.layers[place]
        first = channels_first(self.passes.module_of(layer), output.dim(), self.channels)
        if len(output) != len(batch.inputs):
            raise InputError(not_examples(layer, output, len(batch.inputs)))
        mask = None if batch.kept is None else torch.from_numpy(batch.kept).to(output.device)
        return pooled(output, self.pool, first, mask, layer.label)

    def _agreed(self, counts: list[tuple[int, ...]], examples: int) -> Array:
        """How many rows each example has, the same in all layers."""
        for layer, each in zip(self.passes.layers, counts, strict=True):
            if each != counts[0]:
                other = self.passes.layers[0].label
                raise InputError(
                    f"layers {other!r} and {layer.label!r} give {sum(counts[0])} and {sum(each)} rows for {examples} "
                    "examples: extract them apart, or pool them"
                )
        return np.array(counts[0], dtype=np.int64)

    def _checked(self, rows: torch.Tensor, place: int, name: Callable[[int], str]) -> Array:
        """Rows in the type that is written; what is not finite, there or here, is refused with its place."""
        torch = import_torch("extraction")
        layer = self.passes.layers[place].label
        wide = rows.double() if rows.dtype == torch.float64 else rows.float()
        values: Array = wide.cpu().numpy()
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            raise InputError(f"layer {layer!r} is not finite at row {name(row)}")
        with np.errstate(over="ignore"):
            narrow = values.astype(self.dtype)
        if self.dtype.itemsize < values.itemsize and not np.isfinite(narrow).all():
            row = int(np.flatnonzero(~np.isfinite(narrow).all(axis=1))[0])
            raise InputError(
                f"layer {layer!r} reaches {np.abs(values[row]).max():.4g} at row {name(row)}, more than "
                f"{self.dtype.name} holds ({float(np.finfo(self.dtype).max):.4g}): write a wider type"
            )
        return narrow


def rows_batch(rows: Rows, start: int, stop: int, pad: int | None) -> Batch:
    """Some examples as a model takes them; of token ids with a padding id, the mask of the others."""
    inputs = rows.read(start, stop)
    kept = inputs != pad if rows.kind == "tokens" and pad is not None else None
    return Batch(inputs, rows.kind, None, kept)


def batch_size(rows: Rows) -> int:
    """Examples of a batch, by their size."""
    cells = max(1, rows.read(0, 1).size)
    return int(np.clip(_BATCH_CELLS // cells, 1, _MOST_ROWS))


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
    if pool == "max":
        return np.asarray(rows.max(axis=0))
    return np.asarray(rows[0 if pool == "first" else -1])


def _positions(counts: Array) -> Array:
    """0, 1, 2, ... for each example."""
    total = int(counts.sum())
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.arange(total) - starts)


def _offsets(windows: Sequence[Window]) -> list[int]:
    """For each window how many kept tokens of its document come before it."""
    found: list[int] = []
    for place, window in enumerate(windows):
        follows = place > 0 and windows[place - 1].document == window.document
        found.append(found[-1] + int(windows[place - 1].kept.sum()) if follows else 0)
    return found


def _row_of(stretch: Sequence[Document], owner: Array, positions: Array, pool: str, row: int) -> str:
    return _row_name(stretch[owner[row]].id, positions[row], pool)


def _row_name(label: int | str, position: int, pool: str) -> str:
    return repr(f"{label}:{position}") if pool == "token" else repr(label)
