"""What is given as a head or as features: files of other orders, folders, modules and padded vocabularies."""

import json

import numpy as np
import pytest

import isorep
from isorep.heads import closeness, diversity, examine, head_map

from .worlds import equal_models

M = equal_models(n=80, biases=False)


@pytest.fixture
def paired():
    """Features in two orders, of which 70 rows are common, with the rows and groups that belong to them."""
    order = np.random.default_rng(1).permutation(75)
    here = isorep.Representation(M.f[5:], np.arange(5, 80), "here")
    there = isorep.Representation(M.other_f[order], order, "there")
    return here, there


def test_paired_features_are_joined_by_id_where_that_is_asked_for(paired):
    groups = np.arange(5, 80) // 8
    given = {"features": paired[0], "other_features": paired[1], "groups": groups}
    with pytest.raises(isorep.InputError, match="join them by id"):
        examine(M.g, M.other_g, **given)
    found = examine(M.g, M.other_g, join=True, **given)
    wanted = {"features": M.f[5:75], "other_features": M.other_f[5:75], "groups": groups[:70]}
    plain = examine(M.g, M.other_g, **wanted)
    assert found.head_map.regression.head.r2 == plain.head_map.regression.head.r2 > 0.999
    assert found.closeness.kl == plain.closeness.kl
    assert found.head_map.settings["groups"] == plain.head_map.settings["groups"] == 10
    note = "joined by id: 70 common rows, 5 dropped from here and 5 from there"
    assert note in found.caveats
    assert (
        note
        in head_map(M.g, M.other_g, features=paired[0], other_features=paired[1], join=True, intervals=False).caveats
    )
    assert note in closeness(*paired, M.g, M.other_g, join=True, intervals=False).caveats
    for given in ((M.g,), (M.g, M.other_g)):
        with pytest.raises(isorep.InputError, match="join belongs to the rows of paired features"):
            examine(*given, join=True)


def test_a_padded_vocabulary_is_told_what_to_leave_out():
    padded = np.concatenate([M.other_g, np.zeros((4, 4))])
    with pytest.raises(isorep.InputError, match=r"12 classes and .* has 16: .* take the first 12 rows alone"):
        examine(M.g, padded)
    assert examine(M.g, padded[:12]).head_map.unexpressed < 1e-9


def test_a_model_folder_is_told_which_file_holds_a_tensor(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(isorep.InputError, match=r"is a model folder: .*/model\.safetensors::lm_head\.weight$"):
        diversity(f"{tmp_path}::lm_head.weight")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"wte.weight": "model-00002.safetensors"}}))
    for place, what in ((tmp_path, "a model folder"), (index, "a list of files")):
        with pytest.raises(isorep.InputError, match=rf"is {what}: .*/model-00002\.safetensors::wte\.weight$"):
            diversity(f"{place}::wte.weight")
        with pytest.raises(isorep.InputError, match=r"names no tensor 'lm_head\.weight'; a head that is tied"):
            diversity(f"{place}::lm_head.weight")


def test_a_linear_layer_is_asked_for_its_weight():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(4, 12)
    with pytest.raises(isorep.InputError, match="head is a Linear: give its weight"):
        diversity(layer)
    assert diversity(layer.weight).applies
