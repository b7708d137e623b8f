"""The stress test: perturbations do what they say, and scores notice what they must."""

import numpy as np
import pytest

import isorep
from isorep import structure

from .worlds import aligned

SCORES = ["infomec", "mig", "mcc", "linear_r2"]


@pytest.fixture(scope="module")
def stressed():
    s, z = aligned(800)
    return structure.stress(s, z[:, :3], scores=SCORES)


def test_which_score_notices_what(stressed):
    notices = stressed.notices
    assert not any(notices["permuted"].values())
    assert not any(notices["scaled"].values())
    for score in ("infom", "infoc", "mig", "mcc"):
        assert notices["rotated"][score], score
    assert not notices["rotated"]["linear_r2"]
    assert not notices["rotated"]["infoe"]
    assert notices["duplicated"]["infoc"]
    assert notices["duplicated"]["mig"]
    assert not notices["duplicated"]["infom"]
    assert notices["warped"]["linear_r2"]
    assert not notices["warped"]["mcc_spearman"]
    assert not notices["warped"]["infom"]
    assert notices["pruned"]["mcc"]
    assert notices["pruned"]["infoe"]
    assert not notices["pruned"]["infom"]
    assert notices["shuffled"]["infoe"]
    assert notices["shuffled"]["mcc_held_out"]


def test_it_is_the_same_again_and_prints_a_table(stressed):
    s, z = aligned(800)
    again = structure.stress(s, z[:, :3], scores=SCORES)
    assert again.to_dict() == stressed.to_dict()
    text = str(stressed)
    assert "permuted*" in text
    assert "mcc_held_out" in text
    rows, columns, moved = stressed.changes()
    assert moved.shape == (len(rows), len(columns)) == (len(structure.PERTURBATIONS), 8)


def test_perturbations_do_what_they_say(rng):
    s, z = rng.integers(4, size=(500, 2)), rng.normal(size=(500, 2))
    turned = structure.perturb(s, z, "rotated").latents.matrix
    standard = (z - z.mean(axis=0)) / z.std(axis=0)
    assert np.allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(standard, axis=1))
    assert structure.perturb(s, z, "duplicated").latents.matrix.shape == (500, 4)
    assert structure.perturb(s, z, "pruned").latents.matrix.shape == (500, 1)
    assert structure.perturb(s, z, "few_rows").n == 50
    together = structure.perturb(s, z, "correlated").factors.matrix
    assert np.corrcoef(together.T)[0, 1] > 0.5
    bent = structure.perturb(s, z, "warped").latents.matrix
    assert np.array_equal(np.argsort(bent[:, 0]), np.argsort(z[:, 0]))
    one = structure.perturb(s[:, :1], z[:, :1], "pruned")
    assert one.latents.matrix.shape == (500, 1)
    assert structure.perturb(s[:, :1], z, "correlated").n == 500


def test_what_is_not_known_is_refused(rng):
    s, z = rng.integers(4, size=(50, 2)), rng.normal(size=(50, 2))
    with pytest.raises(isorep.InputError, match="choose from permuted"):
        structure.perturb(s, z, "frozen")
    with pytest.raises(isorep.InputError, match="perturbations frozen"):
        structure.stress(s, z, perturbations=["frozen"])
    with pytest.raises(isorep.InputError, match="scores slots"):
        structure.stress(s, z, scores=["slots"])
