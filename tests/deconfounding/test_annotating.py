"""AnnData: read from obsm and X, in memory and backed, and written back with components, loadings and JSON."""

import json

import numpy as np
import pandas as pd
import pytest

import isorep
from isorep import InputError

from .screens import screen

anndata = pytest.importorskip("anndata")

X, TREATED, PLATE = screen(wells=30)
QUICK = {
    "conditions": ("base", "pca_ica"), "classifiers": "logistic", "n_components": "all", "n_restarts": 0,
    "mixing": False, "folds": 2,
}  # fmt: skip


@pytest.fixture
def adata():
    obs = pd.DataFrame(
        {"perturbation": pd.Categorical(np.where(TREATED, "drug", "DMSO")), "plate": pd.Categorical(PLATE)},
        index=[f"well {place}" for place in range(len(X))],
    )
    return anndata.AnnData(np.ones((len(X), 5), np.float32), obs=obs, obsm={"X_emb": X})


@pytest.fixture
def path(adata, tmp_path):
    adata.write_h5ad(tmp_path / "data.h5ad")
    return tmp_path / "data.h5ad"


def test_an_object_a_file_and_arrays_give_the_same(adata, path):
    found = [
        isorep.deconfound(adata, "perturbation", "plate", key="X_emb", **QUICK),
        isorep.deconfound(path, "perturbation", "plate", key="X_emb", **QUICK),
        isorep.deconfound(f"{path}::X_emb", "perturbation", "plate", **QUICK),
        isorep.deconfound(X, TREATED, PLATE, **QUICK),
    ]
    for result in found[1:]:
        assert result.mean("auroc", "pca_ica") == found[0].mean("auroc", "pca_ica")
    assert found[0].components[0].highest[0].id.startswith("well ")
    assert found[1].components[0].highest[0] == found[0].components[0].highest[0]


def check(annotated, result, name="isorep_ica"):
    sources = annotated.obsm[f"X_{name}"]
    assert np.allclose(sources, result.transform(X), atol=1e-5)
    facts = annotated.uns[name]
    assert json.loads(facts["json"])["schema"] == "isorep.deconfound/2"
    assert np.allclose((X - facts["mean"]) @ facts["unmixing"].T, sources, atol=1e-4)
    assert np.allclose(sources @ facts["mixing"].T + facts["mean"], X, atol=1e-4)
    assert facts["batch_r2"].shape == (8, 1)
    assert list(facts["batch_columns"]) == ["plate"]
    assert facts["batch_driven"].tolist() == [component.batch_driven for component in result.components]


def test_components_go_into_an_object_and_survive_its_file(adata, tmp_path):
    result = isorep.deconfound(adata, "perturbation", "plate", key="X_emb", **QUICK)
    assert result.annotate(adata) is adata
    check(adata, result)
    adata.write_h5ad(tmp_path / "out.h5ad")
    check(anndata.read_h5ad(tmp_path / "out.h5ad"), result)
    subset = adata[adata.obs["plate"] == "plate 03"].copy()  # the way a pipeline goes on
    assert subset.obsm["X_isorep_ica"].shape == (30, 8)
    with pytest.raises(InputError, match="output is for files"):
        result.annotate(adata, output=tmp_path / "x.h5ad")


def test_backed_objects_are_read_and_written(path):
    backed = anndata.read_h5ad(path, backed="r+")
    result = isorep.deconfound(backed, "perturbation", "plate", use_rep="X_emb", **QUICK)
    result.annotate(backed, key="X_mine")
    backed.write()
    backed.file.close()
    check(anndata.read_h5ad(path), result, "mine")


def test_files_get_their_components_without_loading_the_rest(path, tmp_path):
    result = isorep.deconfound(path, "perturbation", "plate", key="X_emb", **QUICK)
    assert result.place == "X_emb"
    assert result.to_dict()["place"] == "X_emb"
    result.annotate(path, output=tmp_path / "out.h5ad")
    found = anndata.read_h5ad(tmp_path / "out.h5ad")
    check(found, result)
    assert found.X.shape == (300, 5)
    assert list(found.obs["plate"]) == list(PLATE)
    result.annotate(path)  # in its own place
    result.annotate(path)  # and again, over what is there
    check(anndata.read_h5ad(path), result)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data.h5ad", "out.h5ad"]


def test_x_as_embedding_has_loadings_for_its_variables(adata, tmp_path):
    data = anndata.AnnData(X, obs=adata.obs)
    data.write_h5ad(tmp_path / "x.h5ad")
    result = isorep.deconfound(data, "perturbation", "plate", **QUICK)
    result.annotate(data)
    assert np.allclose(data.varm["isorep_ica"], result.model.mixing_)
    stored = isorep.deconfound(tmp_path / "x.h5ad", "perturbation", "plate", **QUICK)
    stored.annotate(tmp_path / "x.h5ad")
    assert np.allclose(anndata.read_h5ad(tmp_path / "x.h5ad").varm["isorep_ica"], result.model.mixing_)


def test_what_is_wrong_with_annotations(adata, path, tmp_path):
    with pytest.raises(InputError, match="no column 'well' in obs; there are perturbation, plate"):
        isorep.deconfound(adata, "well", "plate", **QUICK)
    with pytest.raises(InputError, match="no 'X_pca' in obsm"):
        isorep.deconfound(adata, "perturbation", "plate", key="X_pca", **QUICK)
    result = isorep.deconfound(adata, "perturbation", "plate", key="X_emb", **QUICK)
    for key in ("", "X_", "a/b"):
        with pytest.raises(InputError, match="name for obsm"):
            result.annotate(adata, key=key)
    with pytest.raises(InputError, match=r"\.h5ad files"):
        result.annotate(path, output=tmp_path / "out.npy")
    with pytest.raises(InputError, match="key_added is another name for key"):
        result.annotate(adata, key="X_a", key_added="X_b")


def test_missing_entries_of_obs_are_left_out_of_objects_and_files_alike(adata, path):
    adata.obs.loc["well 3", "plate"] = np.nan
    adata.write_h5ad(path)
    found = [isorep.deconfound(each, "perturbation", "plate", key="X_emb", **QUICK) for each in (adata, path)]
    for result in found:
        assert result.caveats[0] == "left out 1 of 300 rows, the first at row 3: plate is missing in 1"
    assert found[0].mean("auroc", "pca_ica") == found[1].mean("auroc", "pca_ica")
    found[0].annotate(adata)  # components of all rows
    assert np.isfinite(adata.obsm["X_isorep_ica"]).all()


NAMES = [f"gene{place}" for place in range(X.shape[1])]


@pytest.fixture
def in_x(adata):
    return anndata.AnnData(X.copy(), obs=adata.obs, var=pd.DataFrame(index=NAMES))


@pytest.mark.parametrize("key", ["X_isorep_ica", "X_mine"])
def test_own_components_are_never_taken_by_default(in_x, tmp_path, key):
    first = isorep.deconfound(in_x, "perturbation", "plate", **QUICK)
    assert first.place == "X"
    assert not any("took" in caveat for caveat in first.caveats)
    first.annotate(in_x, key_added=key)
    in_x.write_h5ad(tmp_path / "x.h5ad")
    for source in (in_x, tmp_path / "x.h5ad"):
        again = isorep.deconfound(source, "perturbation", "plate", **QUICK)
        assert again.place == "X"
        assert again.mean("auroc", "pca_ica") == first.mean("auroc", "pca_ica")
        assert again.caveats[0].startswith("took X of ")
        assert f"'obsm/{key}' (components that isorep wrote)" in again.caveats[1]
        named = isorep.deconfound(source, "perturbation", "plate", key=key, **QUICK)
        assert named.place == key
    without = anndata.AnnData(obs=in_x.obs, obsm={"X_emb": X, key: in_x.obsm[key]}, uns=in_x.uns)
    without.write_h5ad(tmp_path / "no_x.h5ad")
    for source in (without, tmp_path / "no_x.h5ad"):
        assert isorep.deconfound(source, "perturbation", "plate", **QUICK).place == "X_emb"


def test_names_of_variables_are_in_result_model_and_json(in_x):
    result = isorep.deconfound(in_x, label_key="perturbation", batch_key="plate", **QUICK)
    assert result.data.features == tuple(NAMES)
    assert result.model.feature_names_in_.tolist() == NAMES
    assert result.to_dict()["data"]["features"] == NAMES
    assert np.allclose(result.transform(in_x[:20]), result.transform(in_x)[:20], atol=1e-6)
    with pytest.raises(InputError, match="another order: column 0 is 'gene7' and was 'gene0'"):
        result.transform(in_x[:, ::-1])


def test_views_layers_sparse_and_backed_objects_give_what_arrays_give(in_x, tmp_path):
    from scipy.sparse import csr_matrix

    in_x.layers["twice"] = 2 * X
    expected = isorep.deconfound(X, TREATED, PLATE, **QUICK).mean("auroc", "base")
    sparse = anndata.AnnData(csr_matrix(X), obs=in_x.obs)
    in_x.write_h5ad(tmp_path / "x.h5ad")
    backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    whole = np.ones(len(X), bool)
    for source in (in_x, in_x[whole], sparse, sparse[whole], backed, backed[whole]):
        result = isorep.deconfound(source, "perturbation", "plate", **QUICK)
        assert result.mean("auroc", "base") == expected
    layer = isorep.deconfound(in_x, "perturbation", "plate", key="layers/twice", **QUICK)
    assert layer.place == "layers/twice"
    assert layer.annotate(in_x).varm["isorep_ica"].shape == (8, 8)
    backed.file.close()


@pytest.mark.filterwarnings("ignore:Observation names are not unique")
def test_repeated_names_of_rows_are_numbered_and_noted(adata, tmp_path):
    plain = isorep.deconfound(adata, "perturbation", "plate", key="X_emb", **QUICK)
    assert not any("row ids" in caveat for caveat in plain.caveats)
    adata.obs_names = [f"well {place % 200}" for place in range(len(X))]
    path = tmp_path / "repeated.h5ad"
    adata.write_h5ad(path)
    for given in (adata, path):
        result = isorep.deconfound(given, "perturbation", "plate", key="X_emb", **QUICK)
        assert result.verdict.sentence == plain.verdict.sentence
        note = next(caveat for caveat in result.caveats if "row ids" in caveat)
        assert "100 rows repeat an earlier id and got a number: 'well 0-1', 'well 1-1', ..." in note
    result.annotate(adata)
    result.annotate(path, output=tmp_path / "out.h5ad")
    written = anndata.read_h5ad(tmp_path / "out.h5ad")
    assert np.allclose(written.obsm["X_isorep_ica"], adata.obsm["X_isorep_ica"])
    assert list(written.obs_names) == list(adata.obs_names)  # the file keeps its own
    with pytest.raises(InputError, match="duplicate row ids"):  # pairs of rows cannot be told by them
        isorep.read(path, key="X_emb")


def test_counts_are_refused_as_integers_and_noted_as_whole_numbers(adata, tmp_path):
    counts = np.random.default_rng(0).poisson(3.0, size=(len(X), 12))
    path = tmp_path / "counts.h5ad"
    held = anndata.AnnData(counts, obs=adata.obs, obsm={"X_umap": X[:, :2], "X_pca": X})
    held.write_h5ad(path)
    for given, named in ((held, "key='X_pca'"), (path, "counts.h5ad::X_pca")):
        with pytest.raises(InputError, match=f"as raw counts do: .* or take the embedding {named}"):
            isorep.deconfound(given, "perturbation", "plate", **QUICK)
    whole = anndata.AnnData(counts.astype(np.float32), obs=adata.obs)
    result = isorep.deconfound(whole, "perturbation", "plate", **QUICK)
    assert any("X holds whole numbers only" in caveat for caveat in result.caveats)
    whole.X = np.log1p(whole.X)
    again = isorep.deconfound(whole, "perturbation", "plate", **QUICK)
    assert not any("whole numbers" in caveat for caveat in again.caveats)


def test_a_sparse_matrix_that_is_too_large_names_an_embedding_to_take(adata, tmp_path):
    from scipy import sparse

    path = tmp_path / "wide.h5ad"
    wide = sparse.csr_matrix((len(X), 10**6), dtype=np.float32)
    for obsm, told in (({"X_a": X, "X_b": X}, "or the embedding wide.h5ad::X_a$"), ({}, "or add an embedding")):
        anndata.AnnData(wide, obs=adata.obs, obsm=obsm).write_h5ad(path)
        with pytest.raises(InputError, match=told):
            isorep.deconfound(path, "perturbation", "plate", **QUICK)
