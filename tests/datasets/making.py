"""Small files in the published formats, and the place of the real ones."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np

REAL = Path(os.environ.get("ISOREP_DATA") or Path(__file__).parents[3] / "shared" / "data")
MECHANISMS = {"taxol": "Microtubule stabilizers", "emetine": "Protein synthesis"}


def write_bbbc021(folder: Path, weeks: int = 4, rows: int = 12, columns: int = 6) -> Path:
    """Wells in the published columns: half DMSO; taxol in even weeks and emetine in odd ones shift a feature."""
    place = folder / "bbbc021"
    place.mkdir(parents=True)
    rng = np.random.default_rng(0)
    wells = [(f"Week{week + 1}_{number}", week) for week in range(weeks) for number in (100, 200)]
    features = [["Image_Metadata_Plate", "Image_Metadata_Well", *(f"Cells_Feature_{j}" for j in range(columns))]]
    header = "TableNumber,ImageNumber,Image_Metadata_Plate_DAPI,Image_Metadata_Well_DAPI,Replicate"
    images = [[*header.split(","), "Image_Metadata_Compound", "Image_Metadata_Concentration"]]
    for plate, week in wells:
        for well in range(rows):
            treated = well % 2
            compound = ("taxol", "emetine")[week % 2] if treated else "DMSO"
            values = rng.laplace(size=columns) + 0.5 * week
            values[0] += 2.0 * treated
            name = f"B{well + 1:02}"
            features.append([plate, name, *map(repr, values.tolist())])
            images += [["1", str(site), plate, name, "1", compound, "0.3" if treated else "0.0"] for site in (1, 2)]
    _write(place / "ljosa_jbiomolscreen_2013_per_well_mean.csv.gz", features)
    _write(place / "BBBC021_v1_image.csv.gz", images)
    acting = [[name, "0.300000", mechanism] for name, mechanism in MECHANISMS.items()]
    _write(place / "BBBC021_v1_moa.csv", [["compound", "concentration", "moa"], *acting, ["DMSO", "0.0", "DMSO"]])
    return folder


def write_rxrx3(folder: Path, plates: int = 6, rows: int = 40, columns: int = 8, gene: str = "SRC") -> Path:
    """Embeddings with ``well_id`` and ``feature_*``, and the metadata as published; the gene shifts a feature."""
    import pyarrow
    import pyarrow.parquet

    place = folder / "rxrx3-core"
    place.mkdir(parents=True)
    rng = np.random.default_rng(0)
    ids, metadata, values = [], [], []
    for number in range(plates):
        experiment = f"gene-{number % 2 + 1:03}"
        for row in range(rows):
            treated = row % 4 == 0
            guide = f"{gene}_guide_{row // 4 % 2 + 1}" if treated else "EMPTY_control"
            ids.append(f"{experiment}_{number}_A{row:02}")
            named = gene if treated else "EMPTY_control"
            metadata.append([ids[-1], experiment, str(number), f"A{row:02}", named, guide, "", "", "CRISPR", "HUVEC"])
            values.append(rng.laplace(size=columns) + 0.5 * number + 2.0 * treated * np.eye(columns)[0])
    table = {"well_id": ids}
    table |= {f"feature_{j}": np.asarray(values, np.float32)[:, j] for j in range(columns)}
    pyarrow.parquet.write_table(pyarrow.table(table), place / "OpenPhenom_rxrx3_core_embeddings.parquet")
    header = "well_id,experiment_name,plate,address,gene,treatment,SMILES,concentration,perturbation_type,cell_type"
    _write(place / "metadata_rxrx3_core.csv", [header.split(","), *metadata[::-1]])
    return folder


def _write(path: Path, rows: list[list[str]]) -> None:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
