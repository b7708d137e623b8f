"""``isorep deconfound``: from a file to verdict, JSON, page and annotated copy; and what can be wrong with the call."""

import json

import numpy as np
import pandas as pd
import pytest

from ..deconfounding.screens import screen

anndata = pytest.importorskip("anndata")


@pytest.fixture
def data(tmp_path):
    x, treated, plate = screen(wells=30)
    obs = pd.DataFrame(
        {"perturbed": treated, "plate": pd.Categorical(plate), "week": [int(name[-2:]) // 2 for name in plate]},
        index=[f"w{place}" for place in range(len(x))],
    )
    anndata.AnnData(obs=obs, obsm={"X_emb": x}).write_h5ad(tmp_path / "data.h5ad")
    return tmp_path / "data.h5ad"


def test_from_a_file_to_verdict_json_page_and_annotated_copy(isorep_command, data, tmp_path):
    done = isorep_command(
        "deconfound", data, "--label", "perturbed", "--batch", "plate,week", "--restarts", 2, "--components", "all",
        "--json", tmp_path / "r.json", "--html", tmp_path / "r.html", "-o", tmp_path / "out.h5ad",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    for words in (
        "data   data.h5ad: 300 rows x 8 columns of X_emb",
        "rows against False",
        "batch  plate, week: 10 batches",
        "PCA+Rand",
        "verdict: ICA",
        "reproducible in refits",
        "obsm['X_isorep_ica'], 8 components",
    ):
        assert words in done.out
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["schema"] == "isorep.deconfound/2"
    assert found["data"]["batch"] == ["plate", "week"]
    assert "Biology against batch" in (tmp_path / "r.html").read_text()
    assert found["place"] == "X_emb"
    assert "of X_emb, 10 batches" in (tmp_path / "r.html").read_text()
    assert anndata.read_h5ad(tmp_path / "out.h5ad").obsm["X_isorep_ica"].shape == (300, 8)
    again = isorep_command("report", tmp_path / "r.json", "-o", tmp_path / "again.html")
    assert again.code == 0, again.err


def test_a_quiet_run_on_a_table_with_options(isorep_command, tmp_path):
    x, treated, plate = screen(wells=30)
    frame = pd.DataFrame(x, columns=[f"feature_{place}" for place in range(8)])
    frame["Metadata_Plate"], frame["Metadata_drug"] = plate, np.where(treated, "a", "DMSO")
    frame.to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "patches.npy", x)
    done = isorep_command(
        "deconfound", tmp_path / "t.csv", "--label", "Metadata_drug", "--batch", "Metadata_Plate", "--control", "DMSO",
        "--each", "--fit-on", tmp_path / "patches.npy", "--components", "all", "--split", "leave_one_out",
        "--classifiers", "logistic,lightgbm", "--conditions", "base,pca_ica", "--top", "0.25,0.5", "--restarts", 0,
        "--seed", 3, "--quiet", "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert (done.code, done.out, done.err) == (0, "", "")
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["settings"]["fit_on"] == "other rows"
    assert found["tasks"] == ["a"]
    assert set(found["conditions"]["pca_ica"]["scores"]) == {"logistic", "lightgbm"}
    assert set(found["conditions"]["base"]["scores"]["logistic"]["concentration"]) == {"0.25", "0.5"}
    assert len(found["folds"]) == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "perturbed"], "Missing option '--batch'"),
        (["--label", "drug", "--batch", "plate"], "there is no column 'drug' in obs"),
        (["--label", "plate", "--batch", "plate", "--control", "plate 00"], "nothing can separate batch from label"),
        (["--label", "perturbed", "--batch", "plate", "--folds", 11], "10 values and there are 11 folds"),
        (["--label", "perturbed", "--batch", "plate", "--components", "few"], "--components takes"),
        (["--label", "perturbed", "--batch", "plate", "--top", "many"], "--top takes"),
        (["--label", "perturbed", "--batch", ","], "--batch takes names"),
        (["--label", "perturbed", "--batch", "plate", "--conditions", "umap"], "conditions umap"),
        (["--label", "perturbed", "--batch", "plate", "-o", "x.npy"], "--output copies an .h5ad file"),
    ],
)
def test_wrong_calls_are_one_sentence_and_write_nothing(isorep_command, data, monkeypatch, options, words):
    monkeypatch.chdir(data.parent)
    done = isorep_command("deconfound", data, *options, "--json", "r.json")
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert [each.name for each in data.parent.iterdir()] == ["data.h5ad"]


def test_the_input_is_not_overwritten(isorep_command, data):
    done = isorep_command("deconfound", data, "--label", "perturbed", "--batch", "plate", "-o", data)
    assert done.code == 2
    assert "is an input" in done.err


def test_a_second_column_is_held_out_and_shared_columns_are_named(isorep_command, data, tmp_path):
    """The file knows the week of every plate, and rows of one clone lie in many plates."""
    annotated = anndata.read_h5ad(data)
    kinds = np.where(annotated.obs["perturbed"], "t", "c")
    annotated.obs["clone"] = [f"{kind}{row % 4}" for row, kind in enumerate(kinds)]
    annotated.write_h5ad(data)
    quick = ["--label", "perturbed", "--batch", "plate", "--classifiers", "logistic", "--restarts", 0, "--rotations", 2]
    done = isorep_command("deconfound", data, *quick)
    assert (done.code, done.err) == (0, "")
    flat = " ".join(done.out.split())
    assert "every plate lies within one week: a held-out plate shares it" in flat
    assert "each value of clone has one perturbed and recurs in several batches" in flat
    again = isorep_command("deconfound", data, *quick, "--also-hold-out", "clone", "--json", tmp_path / "r.json")
    assert "each value of clone" not in " ".join(again.out.split())
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["settings"]["also_hold_out"] == "clone"
    assert all(fold["beside"] for fold in found["folds"])
