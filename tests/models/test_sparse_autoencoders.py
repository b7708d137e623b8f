"""Sparse autoencoders: codes as sparse as asked for, unit atoms, and planted atoms that two seeds find again."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.dictionaries import recurrence  # noqa: E402
from isorep.models import Group, Recipe, SparseAutoencoder, train_sparse_autoencoders  # noqa: E402


def test_top_k_codes_keep_the_largest_and_relu_codes_all_positive_ones():
    torch.manual_seed(0)
    rows = torch.randn(50, 10)
    model = SparseAutoencoder(10, 30, k=3)
    codes, all_codes = model.encode(rows), torch.relu(rows @ model.encoder.T)
    assert ((codes > 0).sum(1) == 3).all()
    torch.testing.assert_close(codes.sum(1), all_codes.topk(3, dim=1).values.sum(1))
    plain = SparseAutoencoder(10, 30, codes="relu")
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(plain.encode(rows), all_codes)
    with torch.no_grad():
        model.decoder.mul_(torch.rand(30, 1) + 0.5)
    torch.testing.assert_close(model.dictionary.norm(dim=1), torch.ones(30))
    np.testing.assert_allclose(model.activations(rows.numpy()), codes.detach().numpy(), atol=1e-6)


def sparse_rows(n=1500, atoms=24, width=16):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(atoms, width))
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    active = np.argsort(rng.random((n, atoms)), axis=1) < 2
    return truth, (active * rng.uniform(0.5, 1.5, (n, atoms))) @ truth


@pytest.mark.parametrize("codes", ["topk", "relu"])
def test_two_seeds_find_planted_atoms(codes):
    truth, rows = sparse_rows()
    recipe = Recipe(epochs=40, batch=128, groups=Group("adam", 1e-2))
    models = train_sparse_autoencoders(rows, 32, k=2, codes=codes, penalty=0.1, recipe=recipe)
    first, second = (each.module for each in models)
    assert models[0].history.training[-1] < 0.5 * models[0].history.training[0]
    assert recurrence(truth, first).pairs[0].decoder.one_to_one.share > 0.6
    found = recurrence(first, second, activations=[each.activations(rows) for each in (first, second)])
    assert found.pairs[0].decoder.one_to_one.above_chance > 0.4
    assert found.pairs[0].curves


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="k is 9"):
        SparseAutoencoder(4, 8, k=9)
    with pytest.raises(InputError, match="codes is 'hard'"):
        SparseAutoencoder(4, 8, codes="hard")
    with pytest.raises(InputError, match="not finite"):
        train_sparse_autoencoders(np.full((5, 3), np.nan), 4, k=1)
