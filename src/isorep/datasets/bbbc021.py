"""BBBC021: wells of MCF-7 cells treated with compounds, CellProfiler features averaged over the cells of a well.

Three files as published: the image table and the mechanisms of the Broad Bioimage Benchmark Collection (Caie et al.
2010, Ljosa et al. 2012), and the raw means of each well (Ljosa et al. 2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from .folder import find_file, read_table, require_file

FOLDER = "bbbc021"
FEATURES = "ljosa_jbiomolscreen_2013_per_well_mean.csv"
IMAGES = "BBBC021_v1_image.csv"
MECHANISMS = "BBBC021_v1_moa.csv"
CONTROL = "DMSO"
ORIGIN = {
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
    """One row a well: raw features, where it stood (plate, week) and what was in it.

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
        return np.asarray(self.compound == CONTROL)


def has_bbbc021(folder: Path) -> bool:
    """Whether all three files are there."""
    return all(find_file(folder, FOLDER, name) for name in ORIGIN)


def load_bbbc021(folder: str | Path) -> Wells:
    """Read the wells from a data folder, or from its subfolder ``bbbc021``; files may be gzipped.

    Every well is joined to the image table on plate and well, and to the mechanisms on compound and concentration.
    """
    features, images, mechanisms = (require_file(Path(folder), FOLDER, name, ORIGIN[name]) for name in ORIGIN)
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
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for plate, well, compound, concentration in rows:
        content = (compound, _number(concentration, path))
        if found.setdefault((plate, well), content) != content:
            raise InputError(f"{path.name} gives plate {plate}, well {well} two contents")
    return found


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
        row, column = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
        raise InputError(f"{path.name} holds a value that is not finite, at row {row}, feature {column}")
    return values


def _number(text: str, path: Path) -> Any:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{path.name} holds the concentration {text!r}, which is not a number") from None
