"""Whitening and ICA of AnnData, and the names of features in estimators and model files."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import isorep
from isorep import ICA, InputError, Representation, Whitening
from isorep.ica.model import applied, load_model
from isorep.ica.summary import summarise
from isorep.structure.columns import as_columns

anndata = pytest.importorskip("anndata")

RNG = np.random.default_rng(0)
X = RNG.laplace(size=(400, 4)) @ RNG.normal(size=(4, 4))
NAMES = ["area", "mass", "hue", "edge"]


@pytest.fixture
def adata():
    obs = pd.DataFrame({"plate": list("ab") * 200}, index=[f"w{row}" for row in range(400)])
    data = anndata.AnnData(X.copy(), obs=obs, var=pd.DataFrame(index=NAMES), obsm={"X_pca": X[:, :2]})
    data.layers["twice"] = 2 * X
    return data


@pytest.mark.parametrize("kind", [ICA, Whitening])
def test_objects_views_sparse_and_backed_give_what_arrays_give(adata, kind, tmp_path):
    expected = kind().fit(X[:300])
    held = anndata.AnnData(sparse.csr_matrix(X), var=adata.var)
    adata.write_h5ad(tmp_path / "a.h5ad")
    held.write_h5ad(tmp_path / "sparse.h5ad")
    backed = [anndata.read_h5ad(tmp_path / name, backed="r") for name in ("a.h5ad", "sparse.h5ad")]
    for source in (adata[:300], held[:300], *(each[:300] for each in backed), sparse.csr_array(X[:300])):
        fitted = kind().fit(source)
        np.testing.assert_allclose(fitted.components_, expected.components_, atol=1e-8)
    for source in (adata, held, *backed):
        np.testing.assert_allclose(expected.transform(source), expected.transform(X))
        assert kind().fit(source).feature_names_in_.tolist() == NAMES
    for each in backed:
        each.file.close()


@pytest.mark.parametrize("kind", [ICA, Whitening])
def test_the_matrix_that_was_fitted_is_the_one_that_is_transformed(adata, kind):
    assert kind().fit(adata).matrix_in_ == "X"
    for names in ({"key": "X_pca"}, {"use_rep": "X_pca"}, {"key": "obsm/X_pca"}):
        fitted = kind().fit(adata, **names)
        assert fitted.matrix_in_ == "obsm/X_pca"
        assert not hasattr(fitted, "feature_names_in_")
        np.testing.assert_array_equal(fitted.transform(adata), fitted.transform(X[:, :2]))
        np.testing.assert_array_equal(kind().fit_transform(adata, **names), fitted.transform(X[:, :2]))
    layer = kind().fit(adata, key="layers/twice")
    np.testing.assert_allclose(layer.transform(adata), layer.transform(Representation(2 * X)))
    assert not hasattr(layer.fit(X), "matrix_in_")
    with pytest.raises(InputError, match="use_rep is another name for key"):
        kind().fit(adata, key="X", use_rep="X")
    with pytest.raises(InputError, match="no 'X_umap' in obsm; obsm has X_pca, layers has twice"):
        kind().fit(adata, key="X_umap")
    with pytest.raises(InputError, match="key names a matrix of an AnnData object"):
        kind().fit(X, key="X")


def test_components_are_added_and_not_taken_for_data_afterwards(adata):
    ica = ICA().fit(adata)
    sources = ica.transform(adata, key_added="X_ica")
    np.testing.assert_array_equal(adata.obsm["X_ica"], sources)
    np.testing.assert_array_equal(adata.varm["ica"], ica.mixing_)
    assert adata.uns["ica"]["matrix"] == "X"
    bare = anndata.AnnData(obs=adata.obs, obsm=dict(adata.obsm), uns=adata.uns)
    assert isorep.read(bare).shape == (400, 2)  # X_pca, as the other one is isorep's own
    with pytest.raises(InputError, match="X is no AnnData object"):
        ica.transform(Representation(X), key_added="X_ica")
    for name in ("", "X_", "a/b"):
        with pytest.raises(InputError, match="must be a name for obsm"):
            ica.transform(adata, key_added=name)


@pytest.mark.parametrize("kind", [ICA, Whitening])
def test_other_names_or_another_order_are_refused_with_the_first_difference(adata, kind):
    fitted = kind().fit(adata)
    frame = pd.DataFrame(X, columns=NAMES)
    np.testing.assert_allclose(fitted.transform(frame), fitted.transform(adata))
    moved = [0, 2, 1, 3]
    renamed = adata.copy()
    renamed.var_names = ["area", "mass", "tint", "edge"]
    for rows, words in (
        (adata[:, moved], "have another order: column 1 is 'hue' and was 'mass'"),
        (frame.iloc[:, moved], "have another order: column 1 is 'hue' and was 'mass'"),
        (Representation(frame.iloc[:, moved], name="new"), "features of new have another order: column 1 is 'hue'"),
        (renamed, "are others: column 2 is 'tint' and was 'hue'"),
    ):
        with pytest.raises(InputError, match=words):
            fitted.transform(rows)
    counted = Representation(X, columns=[f"feature_{place}" for place in range(4)])  # a file of columns without names
    np.testing.assert_allclose(fitted.transform(counted), fitted.transform(adata))
    np.testing.assert_allclose(kind().fit(counted).transform(adata), fitted.transform(adata))
    swapped = Representation(X, columns=["feature_1", "feature_0", "feature_2", "feature_3"])
    with pytest.raises(InputError, match="have another order: column 0 is 'feature_1' and was 'feature_0'"):
        kind().fit(counted).transform(swapped)


def test_names_and_matrix_come_back_from_a_model_file(adata, tmp_path):
    for key, names in (("X", NAMES), ("X_pca", None)):
        ica = ICA().fit(adata, key=key)
        ica.save(tmp_path / "m.safetensors")
        back = load_model(tmp_path / "m.safetensors")
        assert getattr(back, "feature_names_in_", None) is None if names is None else True
        assert back.matrix_in_ == ica.matrix_in_
        np.testing.assert_array_equal(back.transform(adata), ica.transform(adata))
        said = json.loads(json.dumps(summarise(back, name="a", rows=400)))
        assert (said["features"], said["matrix"]) == (names, back.matrix_in_)
    ICA().fit(adata).save(tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="features of b have another order: column 0 is 'edge' and was 'area'"):
        applied(back, Representation(X, name="b", columns=NAMES[::-1]))
    assert applied(back, Representation(X, name="b")).shape == (400, 4)


def test_stability_keeps_names(adata):
    assert isorep.stability(adata, 2).ica.feature_names_in_.tolist() == NAMES


def test_every_function_of_rows_takes_annotated_ones(adata):
    other = adata.copy()
    other.X = X @ RNG.normal(size=(4, 4))
    array = isorep.compare(X, other.X, n_null=3, n_boot=3)
    found = isorep.compare(adata, other[:], n_null=3, n_boot=3)
    assert found.rungs["linear"].held_out.mean == array.rungs["linear"].held_out.mean
    assert "took X of source" in found.caveats
    assert isorep.compare_many([adata, other, adata], n_null=2).to_dict()
    assert isorep.translate(adata, other).to_dict()
    assert isorep.diameter(adata).lower == isorep.diameter(X).lower
    mapped = isorep.Rigid().fit(adata, other).transform(adata)
    np.testing.assert_array_equal(mapped, isorep.Rigid().fit(X, other.X).transform(X))
    assert isorep.similarity.cka(adata, other).value == isorep.similarity.cka(X, other.X).value
    assert as_columns(adata, "latents").reading == (
        "took X of latents",
        "left out of latents: 'obsm/X_pca' (another embedding)",
    )
    with pytest.raises(InputError, match="is an AnnData object"):
        isorep.disentangle(adata)
    with pytest.raises(InputError, match="different ids"):
        isorep.compare(adata[:300], other[100:], n_null=2)
