"""BBBC021 from its published files: the join, the groups, and files that are not as published."""

import gzip

import numpy as np
import pytest

import isorep
from isorep.datasets import load_bbbc021
from isorep.datasets.screens import has_bbbc021

from .making import MECHANISMS, REAL, write_bbbc021

IMAGES = "bbbc021/BBBC021_v1_image.csv.gz"
FEATURES = "bbbc021/ljosa_jbiomolscreen_2013_per_well_mean.csv.gz"


def test_every_well_knows_its_plate_week_compound_and_mechanism(tmp_path):
    wells = load_bbbc021(write_bbbc021(tmp_path))
    assert wells.values.shape == (4 * 2 * 12, 6)
    assert len(wells) == 96
    assert wells.features[0] == "Cells_Feature_0"
    assert set(wells.week) == {"Week1", "Week2", "Week3", "Week4"}
    assert wells.control.sum() == 48
    assert set(wells.mechanism[wells.control]) == {"DMSO"}
    for compound, mechanism in MECHANISMS.items():
        assert set(wells.mechanism[wells.compound == compound]) == {mechanism}
    assert set(wells.concentration[~wells.control]) == {0.3}
    assert has_bbbc021(tmp_path)
    same = load_bbbc021(tmp_path / "bbbc021")
    np.testing.assert_array_equal(same.values, wells.values)


def test_a_missing_file_is_named_with_its_origin(tmp_path):
    write_bbbc021(tmp_path)
    (tmp_path / "bbbc021" / "BBBC021_v1_moa.csv").unlink()
    assert not has_bbbc021(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"BBBC021_v1_moa\.csv does not exist: it comes from bbbc\.broad"):
        load_bbbc021(tmp_path)


def _edit(path, change):
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(change(text).encode()))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (FEATURES, lambda text: text.replace("Image_Metadata_Plate", "Plate"), "must begin with the columns"),
        (FEATURES, lambda text: text.replace("Week1_100", "Week9_900"), "does not know plate Week9_900, well B01"),
        (FEATURES, lambda text: text.splitlines()[0] + "\n", "has no rows of data"),
        (FEATURES, lambda text: text.rstrip()[:-4] + "nan\n", "not numbers|not finite"),
        (FEATURES, lambda text: text.rstrip().rpartition(",")[0] + "\n", "is ragged: line 1 has 8 fields"),
        (IMAGES, lambda text: text.replace("Image_Metadata_Compound", "Compound"), "has no column"),
        (IMAGES, lambda text: text.replace("taxol,0.3", "taxol,much"), "the concentration 'much'"),
        (IMAGES, lambda text: text.replace("taxol", "emetine", 1), "gives plate Week1_100, well B02 two contents"),
    ],
)
def test_files_that_are_not_as_published_are_refused_in_one_sentence(tmp_path, name, change, words):
    _edit(write_bbbc021(tmp_path) / name, change)
    with pytest.raises(isorep.InputError, match=words):
        load_bbbc021(tmp_path)


def test_a_truncated_archive_is_refused(tmp_path):
    path = write_bbbc021(tmp_path) / FEATURES
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(isorep.InputError, match="cannot be read as csv"):
        load_bbbc021(tmp_path)


@pytest.mark.skipif(not has_bbbc021(REAL), reason=f"the files of BBBC021 are not in {REAL}")
def test_the_real_files_hold_632_wells_of_12_mechanisms():
    wells = load_bbbc021(REAL)
    assert wells.values.shape == (632, 516)
    assert (len(set(wells.plate)), len(set(wells.week))) == (55, 10)
    assert wells.control.sum() == 330
    assert len(set(wells.mechanism)) == 13
    assert len(set(wells.compound)) == 39
    for compound in set(wells.compound) - {"DMSO"}:  # a new week always means new compounds
        assert len(set(wells.week[wells.compound == compound])) == 1
