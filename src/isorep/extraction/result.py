"""Result of an extraction: frozen records with printing, tables and JSON."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from ..errors import InputError
from ..representation import Array, Representation
from ..results import ResultRecord, aligned, noted
from ..storage.layers import read_layer, row_groups

SCHEMA = "isorep.extract/1"


@dataclass(frozen=True)
class ExtractedLayer:
    """One layer: its file, and statistics of its rows."""

    name: str
    file: str
    rows: int
    columns: int
    dtype: str
    output: tuple[int, ...]
    mean_norm: float
    largest: float
    constant: int
    dead: int
    effective_rank: float | None


@dataclass(frozen=True)
class ExtractedData:
    """Input of an extraction: number of examples, of those without a row, of documents that were cut, and of tokens."""

    name: str
    kind: str
    examples: int
    empty: int
    cut: int
    tokens: int


@dataclass(frozen=True)
class Extraction(ResultRecord):
    """The result of :func:`isorep.extract`; ``result["name"]`` is a layer as a Representation.

    Attributes
    ----------
    layers : dict of str to ExtractedLayer
    data : ExtractedData
    model : str
    groups : array or None
        For each row the document, image or group that it belongs to, where rows have one.
    resumed : bool
        Whether an interrupted extraction was resumed.
    caveats : tuple of str
    settings : dict
    seconds : float
    """

    schema: ClassVar[str] = SCHEMA
    page_by: ClassVar[str] = "extraction.page:page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"scratch"})
    layers: dict[str, ExtractedLayer]
    data: ExtractedData
    model: str
    settings: dict[str, Any]
    seconds: float
    resumed: bool = False
    caveats: tuple[str, ...] = ()
    grouped: bool = False
    scratch: Any = field(default=None, repr=False)  # a temporary folder, where no output was named

    def __getitem__(self, layer: str) -> Representation:
        if layer not in self.layers:
            raise InputError(f"{layer!r} was not extracted; there are {', '.join(self.layers)}")
        return read_layer(Path(self.layers[layer].file), layer)[0]

    @property
    def groups(self) -> Array | None:
        """The group of each row."""
        return row_groups(Path(next(iter(self.layers.values())).file)) if self.grouped else None

    def table(self, width: float | None = None) -> str:
        """The layers as text: shape, basic figures and file."""
        rows = [["layer", "rows", "columns", "mean\nnorm", "effective\nrank", "constant", "dead", "file"]]
        for name, layer in self.layers.items():
            rank = "-" if layer.effective_rank is None else f"{layer.effective_rank:.1f}"
            counts = [str(layer.rows), str(layer.columns), f"{layer.mean_norm:.4g}", rank]
            shown = "-" if self.scratch is not None else layer.file
            rows.append([name, *counts, str(layer.constant), str(layer.dead), shown])
        return aligned(rows, left=(0, 7), width=width)

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per layer."""
        left_out = ("output", *(("file",) if self.scratch is not None else ()))
        return [
            {key: value for key, value in vars(layer).items() if key not in left_out} for layer in self.layers.values()
        ]

    @property
    def sentence(self) -> str:
        """What was extracted."""
        rows = next(iter(self.layers.values())).rows if self.layers else 0
        layers = f"{len(self.layers)} layer{'' if len(self.layers) == 1 else 's'}"
        return f"{rows:,} rows of {layers} of {self.model}, from {self.data.name}"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, as plain data with a versioned schema; layers are a list, in their order."""
        told = super().to_dict()
        loaded = {name: version(name) for name in ("torch", "transformers") if name in sys.modules}
        return told | {"layers": list(told["layers"].values()), "versions": told["versions"] | loaded}

    def __str__(self) -> str:
        return "\n\n".join(filter(None, [self.table(), noted(self.caveats)]))
