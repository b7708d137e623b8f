"""One-to-one matching against brute force, its bound, and best matches against the whole matrix."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from isorep.dictionaries import best_matches, matching, one_to_one

from .worlds import unit


def pair(n, m, d, seed=0):
    rng = np.random.default_rng(seed)
    source, target = unit(rng.normal(size=(n, d))), unit(rng.normal(size=(m, d)))
    shared = min(n, m) // 3
    target[:shared] = unit(source[:shared] + 0.1 * rng.normal(size=(shared, d)))
    return source.astype(np.float32), target.astype(np.float32)


@pytest.mark.parametrize(("n", "m", "d"), [(70, 200, 6), (200, 70, 6), (130, 130, 24), (5, 300, 3)])
@pytest.mark.parametrize("signed", [True, False])
def test_the_sparse_matching_reaches_the_optimum_within_its_own_bound(monkeypatch, n, m, d, signed):
    source, target = pair(n, m, d)
    whole = source.astype(float) @ target.T.astype(float)
    weights = np.maximum(whole if signed else np.abs(whole), 0)
    best = weights[linear_sum_assignment(-weights)].sum()
    assert np.isclose(one_to_one(source, target, signed=signed).similarity.sum(), best, atol=1e-6)  # dense
    monkeypatch.setattr(matching, "DENSE", 0)
    monkeypatch.setattr(matching, "CANDIDATES", 3)  # too few: the optimum needs further pairs
    found = one_to_one(source, target, signed=signed)
    lacking = best - found.similarity.sum()
    assert -1e-5 <= lacking <= found.gap + 1e-5
    assert found.gap <= max(1e-4 * min(n, m), 1e-4) or lacking < 0.01 * best
    used = found.partner[found.partner >= 0]
    assert len(used) == len(set(used.tolist())) <= min(n, m)


def test_without_a_proof_the_gap_is_unknown(monkeypatch):
    monkeypatch.setattr(matching, "DENSE", 0)
    assert np.isnan(one_to_one(*pair(40, 50, 8), proven=False).gap)


@pytest.mark.parametrize("signed", [True, False])
def test_best_matches_and_candidates_are_those_of_the_whole_matrix(monkeypatch, signed):
    monkeypatch.setattr(matching, "_BLOCK_BYTES", 4 * 333 * 64)  # several blocks
    source, target = pair(210, 333, 12)
    found = best_matches(source, target, signed=signed, keep=2)
    whole = source.astype(float) @ target.T.astype(float)
    whole = whole if signed else np.abs(whole)
    assert np.allclose(found.similarity, whole.max(axis=1), atol=1e-6)
    assert np.allclose(found.reverse_similarity, whole.max(axis=0), atol=1e-6)
    assert np.allclose(whole[np.arange(210), found.target], whole.max(axis=1), atol=1e-6)
    assert np.allclose(whole[found.source, np.arange(333)], whole.max(axis=0), atol=1e-6)
    assert np.allclose(np.sort(found.values, axis=1), np.sort(whole, axis=1)[:, -2:], atol=1e-6)


def test_atoms_without_a_positive_partner_stay_alone():
    source = np.eye(3, dtype=np.float32)
    found = one_to_one(source, -source[:1])
    assert found.partner.tolist() == [-1, -1, -1]
    assert one_to_one(source, -source[:1], signed=False).partner.tolist() == [0, -1, -1]
