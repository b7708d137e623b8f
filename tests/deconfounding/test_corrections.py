"""Batch corrections: reference values of public programs, and that they do not show which rows are controls."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import isorep
from isorep.deconfounding.corrections import apart, combat, control_z, regressed_out, sphere, sphered, tvn, z_scores
from isorep.deconfounding.inputs import Column

ROWS = np.array(
    [
        [-0.8, -1.32, -0.25, 0.42], [1.14, 0.11, -0.55, -0.78], [0.75, 1.63, 0.27, -1.23], [-0.96, 1.6, 0.2, -1.73],
        [0.92, -1.66, -0.33, 1.51], [0.29, 0.05, 0.24, 1.41], [1.41, 0.33, -1.34, 1.74], [0.02, -0.67, -0.99, 2.02],
        [0.96, -0.8, -0.75, 1.6], [-1.85, -2.31, 0.37, -1.89], [1.99, 1.22, -3.4, 0.46], [-1.87, 0.05, 0.07, -3.38],
    ]
)  # fmt: skip
CODES = np.repeat([0, 1, 2], [4, 5, 3])


def test_combat_gives_the_values_of_inmoose():
    """pycombat_norm of inmoose 0.9.1, parametric and without covariates: ddof 0, and it stops at a change of 1e-4."""
    expected = [
        [-0.886676, -1.842591, -0.604828, 1.126753], [1.435795, -0.309388, -1.021443, -0.267977],
        [0.968907, 1.320311, 0.117304, -0.791001], [-1.07822, 1.288146, 0.020094, -1.372139],
        [0.588597, -2.305199, -0.037572, -0.187847], [-0.718381, 0.81204, 1.042272, -0.423944],
        [1.605134, 1.322465, -1.95098, 0.355174], [-1.278514, -0.500482, -1.287918, 1.016245],
        [0.671579, -0.737465, -0.833247, 0.024639], [-0.567548, -1.071384, 0.408726, -0.557637],
        [1.783652, 1.110297, -1.883864, 0.869785], [-0.579794, 0.38719, 0.226292, -1.462684],
    ]  # fmt: skip
    assert combat(ROWS, CODES, ddof=0) == pytest.approx(np.array(expected), abs=2e-3)


def test_combat_leaves_constant_columns_and_takes_single_rows():
    rows = np.column_stack([ROWS, np.full(12, 3.0)])
    assert np.array_equal(combat(rows, CODES)[:, 4], rows[:, 4])
    codes = np.repeat([0, 1, 2], [6, 5, 1])
    assert np.isfinite(combat(rows, codes)).all()


def test_sphering_and_z_scores_have_the_formulas_of_pycytominer():
    """Spherize (ZCA, epsilon 0) fitted to the first nine rows, and normalize (standardize), of pycytominer 1.7.1."""
    white = [
        [-1.392348, -1.361496, -0.076426, -0.43555], [-0.115195, 0.527995, 1.753538, 1.195221],
        [-2.244532, -1.346929, -1.168819, -3.410394],
    ]  # fmt: skip
    assert sphere(ROWS, ROWS[:9])[[0, 5, 11]] == pytest.approx(np.array(white), abs=1e-4)
    z = [
        [-0.795219, -1.165783, 1.15061, -1.127152], [-3.630999, 0.932627, 2.526514, -2.183857],
        [1.410388, 1.276226, -1.287395, 1.303269], [-4.846333, 0.049086, -0.442542, 4.262043],
        [-0.615169, -0.110443, 0.136786, -0.176117],
    ]  # fmt: skip
    plate = ROWS[CODES == 1]
    assert z_scores(plate, plate[::2], ROWS.std(axis=0)) == pytest.approx(np.array(z), abs=1e-5)


def null_screen(seed=0):
    """Rows without any effect: eight batches of twelve controls and twelve others, in 60 dimensions."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(8), 24)
    controls = np.tile(np.arange(24) % 2 == 0, 8)
    return rng.normal(size=(192, 60)) + rng.normal(size=(8, 60))[codes], codes, controls


def auroc_of_size(rows, codes, controls):
    """How far the distance from the origin tells controls from others, learnt on half of the batches."""
    size = np.log((rows**2).sum(axis=1))[:, None]
    train = codes < 4
    model = LogisticRegression().fit(size[train], controls[train])
    return roc_auc_score(controls[~train], model.decision_function(size[~train]))


def test_controls_are_not_given_away_by_their_own_correction():
    rows, codes, controls = null_screen()
    every = [rows[(codes == code) & controls] for code in range(8)]
    plain = np.vstack([z_scores(rows[codes == code], every[code], rows.std(axis=0)) for code in range(8)])
    assert auroc_of_size(plain, codes, controls) > 0.75  # rows near their own mean
    honest = [auroc_of_size(control_z(*null_screen(seed)), *null_screen(seed)[1:]) for seed in range(8)]
    assert np.mean(honest) == pytest.approx(0.5, abs=0.06)
    for corrected in (tvn, lambda rows, codes, controls: sphered(rows, controls & (codes < 4))):
        found = [auroc_of_size(corrected(*null_screen(seed)), *null_screen(seed)[1:]) for seed in range(8)]
        assert np.mean(found) == pytest.approx(0.5, abs=0.06)
    for mine, own in apart(codes, controls):
        assert not set(mine) & set(own)
        assert controls[own].all()
    assert sorted(np.concatenate([mine for mine, _ in apart(codes, controls)])) == list(range(192))


def test_several_batch_columns_are_regressed_out_together():
    rows, codes, _ = null_screen()
    row = np.arange(192) % 6
    plate, edge = Column("plate", codes, tuple("abcdefgh")), Column("edge", row, tuple("uvwxyz"))
    left = regressed_out(rows, (plate, edge))
    for labels in (codes, row):
        assert max(np.abs(left[labels == each].mean(axis=0)).max() for each in np.unique(labels)) < 1e-8


def test_corrections_help_where_a_batch_moves_everything():
    rows, codes, controls = null_screen()
    moved = rows + 3 * np.random.default_rng(1).normal(size=(8, 60))[codes]
    moved[~controls, :3] += 1.0
    asked = {"conditions": ("base", "control_z", "combat"), "classifiers": "logistic"}
    result = isorep.deconfound(moved, ~controls, codes, **asked)
    base = result.mean("auroc", "base").value
    assert result.mean("auroc", "combat").value > base
    assert result.conditions["combat"].uses == "rows"
    assert result.conditions["control_z"].uses == "controls"
    assert result.to_dict()["conditions"]["control_z"]["uses"] == "controls"


def test_tvn_spheres_standardised_controls_of_a_batch():
    rows, codes, controls = null_screen()
    mine, own = next(iter(apart(codes, controls)))
    spread = rows.std(axis=0)
    known, scores = (z_scores(rows[some], rows[own], spread) for some in (own, mine))
    root = np.linalg.inv(np.cov(known, rowvar=False) + np.eye(60) / 2)
    found = tvn(rows, codes, controls)[mine]
    assert (found**2).sum(axis=1) == pytest.approx(np.einsum("ij,jk,ik->i", scores, root, scores))
