"""BBBC021 and RxRx3-core: wells of cells, as features or embeddings.

BBBC021: wells of MCF-7 cells treated with compounds, CellProfiler features averaged over the cells of a well.

Three files as published: the image table and the mechanisms of the Broad Bioimage Benchmark Collection (Caie et al.
2010, Ljosa et al. 2012), and the raw means of each well (Ljosa et al. 2013).

RxRx3-core: OpenPhenom embeddings of HUVEC wells with knocked-out genes, as published (Kraus et al. 2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..storage import read
from ..storage.registry import column as stored_column
from .folder import find_file, read_table, require_file

BBBC021_FOLDER = "bbbc021"
FEATURES = "ljosa_jbiomolscreen_2013_per_well_mean.csv"
IMAGES = "BBBC021_v1_image.csv"
MECHANISMS = "BBBC021_v1_moa.csv"
BBBC021_CONTROL = "DMSO"
BBBC021_ORIGIN = {
    FEATURES: "the repository cytomining/cytominergallery",
    IMAGES: "bbbc.broadinstitute.org/BBBC021",
    MECHANISMS: "bbbc.broadinstitute.org/BBBC021",
}
_WELL = ("Image_Metadata_Plate", "Image_Metadata_Well")
_IMAGE = (
    "Image_Metadata_Plate_DAPI",
    "Image_Metadata_Well_DAPI",
    "Image_Metadata_Compound",
    "Image_Metadata_Concentration",
)


@dataclass(frozen=True, eq=False)
class Wells:
    """One row per well: raw features, its location (plate, week) and its contents.

    ``mechanism`` is the published mechanism of action, ``DMSO`` for controls and empty where none is known.
    """

    values: Array
    features: tuple[str, ...]
    plate: Array
    well: Array
    week: Array
    compound: Array
    concentration: Array
    mechanism: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def control(self) -> Array:
        """Which wells hold the solvent alone."""
        return np.asarray(self.compound == BBBC021_CONTROL)


def has_bbbc021(folder: Path) -> bool:
    """Whether all three files are there."""
    return all(find_file(folder, BBBC021_FOLDER, name) for name in BBBC021_ORIGIN)


def load_bbbc021(folder: str | Path) -> Wells:
    """Read the wells from a data folder, or from its subfolder ``bbbc021``; files may be gzipped.

    Every well is joined to the image table on plate and well, and to the mechanisms on compound and concentration.
    """
    features, images, mechanisms = (
        require_file(Path(folder), BBBC021_FOLDER, name, BBBC021_ORIGIN[name]) for name in BBBC021_ORIGIN
    )
    header, rows = read_table(features)
    if tuple(header[:2]) != _WELL:
        raise InputError(f"{features.name} must begin with the columns {' and '.join(_WELL)}")
    wells, values = [], []
    for row in rows:
        wells.append((row[0], row[1]))
        values.append(row[2:])
    contents = _contents(images)
    foreign = [where for where in wells if where not in contents]
    if foreign:
        raise InputError(f"{images.name} does not know plate {foreign[0][0]}, well {foreign[0][1]}")
    acting = _mechanisms(mechanisms)
    plates = [plate for plate, _ in wells]
    return Wells(
        values=_numbers(values, features),
        features=tuple(header[2:]),
        plate=np.array(plates),
        well=np.array([well for _, well in wells]),
        week=np.array([plate.partition("_")[0] for plate in plates]),
        compound=np.array([contents[where][0] for where in wells]),
        concentration=np.array([contents[where][1] for where in wells]),
        mechanism=np.array([acting.get(contents[where], "") for where in wells]),
    )


def _contents(path: Path) -> dict[tuple[str, str], tuple[str, float]]:
    """Compound and concentration of every plate and well; the table has a row for each of its images."""
    _, rows = read_table(path, _IMAGE)
    contents: dict[tuple[str, str], tuple[str, float]] = {}
    for plate, well, compound, concentration in rows:
        content = (compound, _number(concentration, path))
        if contents.setdefault((plate, well), content) != content:
            raise InputError(f"{path.name} gives plate {plate}, well {well} two contents")
    return contents


def _mechanisms(path: Path) -> dict[tuple[str, float], str]:
    _, rows = read_table(path, ("compound", "concentration", "moa"))
    return {(compound, _number(concentration, path)): moa for compound, concentration, moa in rows}


def _numbers(rows: list[list[str]], path: Path) -> Array:
    if not rows:
        raise InputError(f"{path.name} has no rows of data")
    try:
        values: Array = np.array(rows, dtype=np.float64)
    except ValueError:
        raise InputError(f"{path.name} holds features that are not numbers") from None
    if not np.isfinite(values).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(values))[0])
        raise InputError(f"{path.name} holds a value that is not finite, at row {row}, feature {column}")
    return values


def _number(text: str, path: Path) -> Any:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{path.name} holds the concentration {text!r}, which is not a number") from None


RXRX3_FOLDER = "rxrx3-core"
EMBEDDINGS = "OpenPhenom_rxrx3_core_embeddings.parquet"
METADATA = "metadata_rxrx3_core.csv"
RXRX3_ORIGIN = "huggingface.co/datasets/recursionpharma/rxrx3-core"
RXRX3_CONTROL = "EMPTY_control"
_COLUMNS = ("well_id", "experiment_name", "plate", "gene", "treatment")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One row per well: its embedding, its batch and its treatment.

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
        return np.asarray((self.gene == RXRX3_CONTROL) | (self.treatment == RXRX3_CONTROL))

    def guides(self, gene: str) -> list[str]:
        """The guides of a gene, in order."""
        return sorted({str(name) for name in self.treatment[(self.gene == gene) & ~self.control]})


def has_rxrx3(folder: Path) -> bool:
    """Whether the embeddings are there."""
    return find_file(folder, RXRX3_FOLDER, EMBEDDINGS) is not None


def load_rxrx3(folder: str | Path) -> Embeddings:
    """Read embeddings (``well_id`` and ``feature_*``) and their metadata from a data folder or ``rxrx3-core`` in it.

    Metadata come from ``metadata_rxrx3_core.csv`` joined on ``well_id``, or from columns of the same names in the
    parquet file itself. Wells without metadata are refused.
    """
    folder = Path(folder)
    path = require_file(folder, RXRX3_FOLDER, EMBEDDINGS, RXRX3_ORIGIN)
    embeddings = read(path, key="feature_", ids="well_id")
    wells = np.asarray(embeddings.ids).astype(str)
    metadata = find_file(folder, RXRX3_FOLDER, METADATA)
    experiment, plate, gene, treatment = _inside(path) if metadata is None else _beside(metadata, wells)
    return Embeddings(
        values=embeddings.values,
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
                f"{path.name} has no column {wanted!r}, and {METADATA} is not beside it: it comes from {RXRX3_ORIGIN}"
            )
        columns.append(stored_column(path, present[0]).astype(str))
    return columns
