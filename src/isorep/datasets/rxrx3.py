"""RxRx3-core: OpenPhenom embeddings of HUVEC wells with knocked-out genes, as published (Kraus et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..representation import Array
from ..storage import read
from ..storage.registry import column as stored_column
from .folder import find_file, read_table

FOLDER = "rxrx3-core"
EMBEDDINGS = "OpenPhenom_rxrx3_core_embeddings.parquet"
METADATA = "metadata_rxrx3_core.csv"
ORIGIN = "huggingface.co/datasets/recursionpharma/rxrx3-core"
CONTROL = "EMPTY_control"
_COLUMNS = ("well_id", "experiment_name", "plate", "gene", "treatment")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One row a well: its embedding, its batch and what was done to it.

    ``plate`` is unique over experiments; ``treatment`` names the guide, ``gene`` what it knocks out; both are
    ``EMPTY_control`` for untreated wells. ``values`` may be mapped from a file.
    """

    values: Any
    well: Array
    experiment: Array
    plate: Array
    gene: Array
    treatment: Array

    def __len__(self) -> int:
        return len(self.well)

    @property
    def control(self) -> Array:
        """Which wells are untreated."""
        return np.asarray((self.gene == CONTROL) | (self.treatment == CONTROL))

    def guides(self, gene: str) -> list[str]:
        """The guides of a gene, in order."""
        return sorted({str(name) for name in self.treatment[(self.gene == gene) & ~self.control]})


def has_rxrx3(folder: Path) -> bool:
    """Whether the embeddings are there."""
    return find_file(folder, FOLDER, EMBEDDINGS) is not None


def load_rxrx3(folder: str | Path) -> Embeddings:
    """Read embeddings (``well_id`` and ``feature_*``) and their metadata from a data folder or ``rxrx3-core`` in it.

    Metadata come from ``metadata_rxrx3_core.csv`` joined on ``well_id``, or from columns of the same names in the
    parquet file itself. Wells without metadata are refused.
    """
    folder = Path(folder)
    path = find_file(folder, FOLDER, EMBEDDINGS)
    if path is None:
        raise MissingFileError(f"{folder / FOLDER / EMBEDDINGS} does not exist: it comes from {ORIGIN}")
    found = read(path, key="feature_", ids="well_id")
    wells = np.asarray(found.ids).astype(str)
    metadata = find_file(folder, FOLDER, METADATA)
    experiment, plate, gene, treatment = _inside(path) if metadata is None else _beside(metadata, wells)
    return Embeddings(
        values=found.values,
        well=wells,
        experiment=experiment,
        plate=np.array([f"{name}/{number}" for name, number in zip(experiment, plate, strict=True)]),
        gene=gene,
        treatment=treatment,
    )


def _beside(path: Path, wells: Array) -> list[Array]:
    """The metadata of every well, in the order of the embeddings."""
    _, rows = read_table(path, _COLUMNS)
    known = {well: rest for well, *rest in rows}
    missing = [str(well) for well in wells if well not in known]
    if missing:
        raise InputError(f"{path.name} does not know the well {missing[0]} ({len(missing)} wells are missing)")
    return list(np.array([known[well] for well in wells]).T)


def _inside(path: Path) -> list[Array]:
    """The metadata in the parquet file itself; a file with gene or treatment alone serves both."""
    import pyarrow.parquet

    names = set(pyarrow.parquet.read_schema(path).names)
    sources = {"experiment_name": ("experiment_name",), "plate": ("plate", "experiment_name")}
    sources |= {"gene": ("gene", "treatment"), "treatment": ("treatment", "gene")}
    columns = []
    for wanted, choices in sources.items():
        present = [name for name in choices if name in names]
        if not present:
            raise InputError(
                f"{path.name} has no column {wanted!r}, and {METADATA} is not beside it: it comes from {ORIGIN}"
            )
        columns.append(stored_column(path, present[0]).astype(str))
    return columns
