"""Layer by layer: values as for single pairs, and a maximum that is judged as one."""

import json

import numpy as np
import pytest

from isorep import InputError, Representation, similarity

from ..data import rotation


def test_cells_are_the_index_of_each_pair():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 4))
    a = {"early": rng.normal(size=(200, 6)), "late": z @ rng.normal(size=(4, 5))}
    b = [z + 0.3 * rng.normal(size=(200, 4)), rng.normal(size=(200, 3))]
    for index in ("cka_debiased", "cca", "procrustes_distance", "mutual_knn"):
        found = similarity.layers(a, b, index=index, permutations=40)
        for i, x in enumerate(a.values()):
            for j, y in enumerate(b):
                one = similarity.indices(x, y, names=[index], permutations=0)[index]
                assert found.values[i, j] == pytest.approx(one.value, abs=1e-10)
        assert (found.overall.source, found.overall.target) == ("late", "Y 0")
        assert found.overall.p_value == pytest.approx(1 / 41)
        assert found.adjusted_p_values[1, 0] == pytest.approx(1 / 41)
        assert (found.adjusted_p_values >= found.p_values - 1e-12).all()
        assert [each.source for each in found.best] == ["early", "late"]


def test_taking_the_maximum_of_many_unrelated_layers_gains_nothing():
    rng = np.random.default_rng(0)
    naive = corrected = 0
    for _ in range(12):
        a, b = ([rng.normal(size=(60, 5)) for _ in range(5)] for _ in range(2))
        found = similarity.layers(a, b, index="cka_debiased", permutations=49)
        naive += found.p_values.min() <= 0.05
        corrected += found.overall.p_value <= 0.05
        assert abs(found.overall.corrected) < 0.15
    assert naive >= 6
    assert corrected <= 3


@pytest.mark.parametrize("index", ["cca", "cka", "cka_debiased", "procrustes_distance", "linear_r2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layers_that_are_equal_up_to_rounding_are_ties_that_the_first_wins(index, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    turned = [(scale * x @ rotation(5, seed) + 1).astype(dtype) for seed, scale in enumerate((1.0, 7.0, 0.1))]
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        found = similarity.layers(turned, [rng.normal(size=(200, 5)), *(turned[k] for k in order)], index=index)
        assert [each.target for each in found.best] == ["Y 1"] * 3
        assert found.overall.source == "X 0"
        assert {each.p_value for each in found.best} == {1 / 201}


def test_cells_that_every_pairing_forces_are_passed_over():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5))
    found = similarity.layers([x], [rng.normal(size=(40, 60)), x[:, :4]], index="cca", permutations=39)
    assert found.values[0, 0] == pytest.approx(1.0)
    assert np.isnan(found.p_values[0, 0])
    assert np.isnan(found.adjusted_p_values[0, 0])
    assert found.best[0].target == "Y 1"
    assert found.overall.p_value == pytest.approx(1 / 40)
    assert "1 of 1 cells" in found.reading
    alone = similarity.layers([x], [rng.normal(size=(40, 60))], index="cca", permutations=39)
    assert "no cell has a p-value" in alone.reading
    assert alone.table().splitlines()[-1].split()[-3:] == ["-", "-", "-"]


def test_groups_of_unequal_size_and_classes():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(25), rng.integers(3, 12, 25))
    x = rng.normal(size=(len(groups), 4))
    found = similarity.layers([x, x[:, :2]], [x], permutations=39, groups=groups, within=groups % 2)
    assert found.settings["within"] == 2
    assert "closer than chance within classes" in found.reading
    assert found.exact
    assert found.values[0, 0] == pytest.approx(1.0)
    assert found.overall.p_value == found.smallest_p == pytest.approx(1 / 40)
    assert "<= 0.025" in found.table()


def test_results_serialise_and_read():
    rng = np.random.default_rng(0)
    layers = [Representation(rng.normal(size=(50, 3)), name=f"layer {place}") for place in range(3)]
    found = similarity.layers(layers, layers, permutations=20)
    told = json.loads(found.to_json())
    assert told["schema"] == "isorep.layers/1"
    assert told["source_layers"] == ["layer 0", "layer 1", "layer 2"]
    assert np.allclose(np.diag(told["corrected"]), 1)
    assert str(found).startswith("verdict: The closest layers are layer 0 and layer 0")
    without = similarity.layers(layers, layers, permutations=0)
    assert json.loads(without.to_json())["chance"][0][0] is None
    assert "no null was drawn" in " ".join(str(without).split())


def test_wrong_layers_are_refused():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    for layers, words in [
        (([], [x]), "X holds no layers"),
        (({}, [x]), "X holds no layers"),
        ((x[0, 0], [x]), "X holds no layers"),
        (([x], [x, x[:-1]]), "has 49"),
        (([x], [x[:-1]]), "49"),
    ]:
        with pytest.raises(InputError, match=words):
            similarity.layers(*layers, permutations=5)
    with pytest.raises(InputError, match="index is 'tsne'"):
        similarity.layers([x], [x], index="tsne")
