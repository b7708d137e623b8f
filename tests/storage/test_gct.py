"""GCT files: samples are rows, and everything that can be wrong with them."""

import gzip

import numpy as np
import pytest

import isorep
from isorep import InputError
from isorep.storage import column

LINES = [
    "#1.3",
    "3\t2\t1\t2",
    "id\tgene\ts1\ts2",
    "pert\tna\tDMSO\tdrug",
    "dose\tna\t-666\t10",
    "r1\tTP53\t0.5\t-1e-3",
    "r2\tMYC\t2\t3",
    "r3\tKRAS\t4.25\t5",
]
VALUES = np.array([[0.5, 2, 4.25], [-1e-3, 3, 5]])


def written(tmp_path, lines, name="a.gct", end="\n"):
    path = tmp_path / name
    data = (end.join(lines) + end).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["a.gct", "a.gct.gz", "A.GCT"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_samples_are_rows_with_features_and_descriptions(tmp_path, name, end):
    path = written(tmp_path, LINES, name, end)
    found = isorep.read(path)
    np.testing.assert_array_equal(found.values, VALUES)
    assert found.ids.tolist() == ["s1", "s2"]
    assert found.columns == ("r1", "r2", "r3")
    assert found.left_out == {}
    assert column(path, "pert").tolist() == ["DMSO", "drug"]
    assert column(path, "dose", missing=True).tolist() == ["", "10"]
    assert isorep.read(path, ids="pert").ids.tolist() == ["DMSO", "drug"]
    with pytest.raises(InputError, match="'dose' has 1 missing entries, the first for 's1'"):
        column(path, "dose")
    with pytest.raises(InputError, match="no description 'cell' of samples; there are pert, dose"):
        column(path, "cell")


def test_version_1_2_has_no_descriptions(tmp_path):
    lines = ["#1.2", "2\t2", "Name\tDescription\ts1\ts2", "r1\tTP53\t1\t2", "r2\tMYC\t3\tNA"]
    path = written(tmp_path, lines)
    found = isorep.read(path)
    np.testing.assert_array_equal(found.values, [[1, 3], [2, np.nan]])
    assert found.columns == ("r1", "r2")
    with pytest.raises(InputError, match=r"there are none \(GCT 1\.2 has none\)"):
        column(path, "pert")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({0: "#1.4"}, "line 1 is '#1.4' where a GCT file has #1.2 or #1.3"),
        ({0: "id,a,b"}, "line 1 is 'id,a,b'"),
        ({1: "3\t2"}, "line 2 is '3 2' where GCT 1.3 has 4 numbers"),
        ({1: "3\tx\t1\t2"}, "where GCT 1.3 has 4 numbers"),
        ({1: "0\t2\t1\t2"}, "there are no values"),
        ({1: "3\t999999999\t1\t2"}, r"more than its \d+ bytes can hold"),
        ({1: "999999999999\t2\t1\t2"}, "more than its"),
        ({1: "4\t2\t1\t2"}, "it ends after line 8, before feature 4 of 4: it may be cut off"),
        ({1: "2\t2\t1\t2"}, "line 8 goes on after the 2 features that line 2 declares"),
        ({1: "3\t3\t1\t2"}, r"line 3 \(the header\) has 4 fields instead of 5"),
        ({1: "3\t2\t0\t2"}, r"line 3 \(the header\) has 4 fields instead of 3"),
        ({1: "3\t2\t1\t1"}, "line 5, column 's1'|'-666'|goes on"),
        ({6: "r2\tMYC\t2"}, r"line 7 \(feature 2 of 3\) has 3 fields instead of 4"),
        ({6: "r2\tMYC\t2\tx3"}, r"column 's2': 'x3' is not a number.*feature 'r2'"),
        ({6: "r2\tMYC\t2\t1_0"}, "'1_0' is not a number"),
        ({6: "r2\tMYC\t2\t1,5"}, "with a decimal comma"),
        ({4: "pert\tna\tq\tr"}, "two descriptions of samples are called 'pert'"),
        ({2: "id\tgene\ts1\ts1"}, "duplicate row ids: 's1'"),
    ],
)
@pytest.mark.parametrize("name", ["a.gct", "a.gct.gz"])
def test_damage_is_one_sentence(tmp_path, change, words, name):
    lines = [change.get(index, line) for index, line in enumerate(LINES)]
    path = written(tmp_path, lines, name)
    if name.endswith(".gz") and "bytes can hold" in words:
        words = "can hold|bomb|may be"
    with pytest.raises(InputError, match=words) as caught:
        isorep.read(path)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", ["a.gct", "a.gct.gz"])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, name):
    whole = written(tmp_path, LINES, name).read_bytes()
    cut = tmp_path / f"cut-{name}"
    least = len("\n5\n") if name == "a.gct" else 9  # the last digit may be all that is missing; gzip ends in a checksum
    for size in range(1, len(whole) - least):
        cut.write_bytes(whole[:size])
        with pytest.raises(InputError):
            isorep.read(cut)


def test_what_a_matrix_file_has_not(tmp_path):
    path = written(tmp_path, LINES)
    with pytest.raises(InputError, match="one matrix, so there is no 'X'"):
        isorep.read(path, key="X")
    with pytest.raises(InputError, match="can be read, and not written"):
        isorep.write(np.eye(3), tmp_path / "b.gct")


def test_deconfounding_reads_labels_from_descriptions(tmp_path):
    rng = np.random.default_rng(0)
    treated, plate = np.arange(200) % 2 == 0, np.arange(200) // 20
    values = rng.normal(size=(200, 3)) + treated[:, None]
    lines = [
        "#1.3",
        "3\t200\t0\t2",
        "\t".join(["id", *(f"s{row}" for row in range(200))]),
        "\t".join(["pert_iname", *np.where(treated, "drug", "DMSO")]),
        "\t".join(["plate", *map(str, plate)]),
        *("\t".join([f"gene{place}", *map(repr, values[:, place].tolist())]) for place in range(3)),
    ]
    path = written(tmp_path, lines)
    quick = {"conditions": ("base", "pca"), "classifiers": "logistic", "mixing": False, "n_restarts": 0}
    found = isorep.deconfound(path, "pert_iname", "plate", **quick)
    assert found.mean("auroc", "base") == isorep.deconfound(values, treated, plate, **quick).mean("auroc", "base")
    assert found.data.features == ("gene0", "gene1", "gene2")
