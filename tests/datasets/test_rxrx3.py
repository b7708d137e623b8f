"""RxRx3-core from files in the published format."""

import numpy as np
import pytest

import isorep
from isorep.datasets import load_rxrx3
from isorep.datasets.screens import has_rxrx3

from .making import write_rxrx3

EMBEDDINGS = "rxrx3-core/OpenPhenom_rxrx3_core_embeddings.parquet"
METADATA = "rxrx3-core/metadata_rxrx3_core.csv"


def test_metadata_are_joined_by_well_whatever_their_order(tmp_path):
    wells = load_rxrx3(write_rxrx3(tmp_path))
    assert has_rxrx3(tmp_path)
    assert np.shape(wells.values) == (240, 8)
    assert len(wells) == 240
    assert wells.control.sum() == 180
    assert wells.guides("SRC") == ["SRC_guide_1", "SRC_guide_2"]
    assert wells.guides("PLK1") == []
    assert len(set(wells.plate)) == 6
    assert set(wells.experiment) == {"gene-001", "gene-002"}
    for well, plate in zip(wells.well, wells.plate, strict=True):
        assert plate == "/".join(well.split("_")[:2])
    treated = np.asarray(wells.values)[~wells.control, 0].mean()
    assert treated > np.asarray(wells.values)[wells.control, 0].mean() + 1.0


def test_metadata_may_lie_in_the_parquet_file(tmp_path):
    import pyarrow
    import pyarrow.parquet

    write_rxrx3(tmp_path)
    beside = load_rxrx3(tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / EMBEDDINGS)
    for name, values in (("experiment_name", beside.experiment), ("treatment", beside.treatment)):
        table = table.append_column(name, pyarrow.array(values.tolist()))
    pyarrow.parquet.write_table(table, tmp_path / EMBEDDINGS)
    (tmp_path / METADATA).unlink()
    inside = load_rxrx3(tmp_path)
    np.testing.assert_array_equal(inside.control, beside.control)
    np.testing.assert_array_equal(inside.values[:], beside.values[:])
    assert len(set(inside.plate)) == 2  # without a plate column the experiment is the batch


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="it comes from huggingface"):
        load_rxrx3(tmp_path)
    write_rxrx3(tmp_path)
    path = tmp_path / METADATA
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(isorep.InputError, match=r"does not know the well gene-001_0_A00 \(1 wells"):
        load_rxrx3(tmp_path)
    path.unlink()
    with pytest.raises(isorep.InputError, match=r"no column 'experiment_name', and metadata_rxrx3_core\.csv is not"):
        load_rxrx3(tmp_path)
