"""Whitening, ICA under perturbation, Theorems 2 and 3, and what structure and dynamical isometry imply."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.optimize import minimize_scalar

import isorep
from isorep.decoder import (
    bounds,
    dynamical_isometry,
    ica_constant,
    structural_to_statistical,
    theorem2,
    theorem3,
    whitening_constant,
)
from isorep.ica import curvature as planes

from .clouds import rotation


def inverse_root(x):
    return np.linalg.inv(np.real(sqrtm(x.T @ x / len(x))))


def centred(x):
    return x - x.mean(axis=0)


def cloud_and_near(rng, d, size, n=300):
    x = centred(rng.normal(size=(n, d)) @ rng.normal(size=(d, d)))
    moved = rng.normal(size=(n, d))
    return x, centred(x + size * moved / np.linalg.norm(moved, axis=1, keepdims=True))


def sizes(*clouds):
    radius = max(np.linalg.norm(each, axis=1).max() for each in clouds)
    return radius, min(np.linalg.eigvalsh(each.T @ each / len(each))[0] for each in clouds)


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.integers(2, 5), st.floats(-4, -0.5).map(lambda p: 10.0**p))
def test_lemma_a5_whitening_magnifies_no_more_than_its_constant(seed, d, size):
    x, y = cloud_and_near(np.random.default_rng(seed), d, size)
    error = np.linalg.norm(x - y, axis=1).max()
    after = np.linalg.norm(x @ inverse_root(x) - y @ inverse_root(y), axis=1).max()
    assert after <= whitening_constant(*sizes(x, y)) * error


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.integers(2, 5), st.floats(-4, -0.5).map(lambda p: 10.0**p))
def test_lemma_a6_whitening_turns_a_linear_relation_into_a_rotation(seed, d, size):
    rng = np.random.default_rng(seed)
    other, _ = cloud_and_near(rng, d, size)
    a = rng.normal(size=(d, d))
    moved = rng.normal(size=other.shape)
    f = centred(other @ a.T + size * moved / np.linalg.norm(moved, axis=1, keepdims=True))
    error = np.linalg.norm(f - other @ a.T, axis=1).max()
    w, w_other, w_mapped = inverse_root(f), inverse_root(other), inverse_root(other @ a.T)
    r = w_mapped @ a @ np.linalg.inv(w_other)
    assert np.allclose(r @ r.T, np.eye(d), atol=1e-6)
    singular = np.linalg.svd(a, compute_uv=False)
    constant = whitening_constant(*sizes(f, other), singular_values=(singular[-1], singular[0]))
    assert np.linalg.norm(f @ w - other @ w_other @ r.T, axis=1).max() <= constant * error * (1 + 1e-6)


def turn(angle):
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def contrast(rows, angle):
    return float(np.log(np.cosh(rows @ turn(angle).T)).mean(axis=0).sum())


def bend(rows, angle):
    y = rows @ turn(angle).T
    g, slope = np.tanh(y), 1 / np.cosh(y) ** 2
    # The second variation in a plane of unit norm: half of that by the angle.
    one, two = (slope[:, i] * y[:, j] ** 2 - g[:, i] * y[:, i] for i, j in ((0, 1), (1, 0)))
    return float(0.5 * (one + two).mean())


@pytest.mark.parametrize("size", [1e-3, 1e-2, 3e-2])
@pytest.mark.parametrize("seed", range(3))
def test_lemma_a8_the_optimum_turns_no_more_than_kappa(seed, size):
    rng = np.random.default_rng(seed)
    x = centred(rng.laplace(size=(500, 2)))
    x = x @ inverse_root(x)
    y = centred(x + size * rng.uniform(-1, 1, x.shape))
    y = y @ inverse_root(y)
    moved = np.linalg.norm(x - y, axis=1).max()
    optima = [minimize_scalar(lambda a, z=z: contrast(z, a), bounds=(-0.4, 0.4), method="bounded").x for z in (x, y)]
    path = [bend((1 - t) * x + t * y, (1 - t) * optima[0] + t * optima[1]) for t in np.linspace(0, 1, 5)]
    radius = max(np.linalg.norm(each, axis=1).max() for each in (x, y))
    kappa = ica_constant(min(path), radius, 2)
    turned = np.linalg.norm(turn(optima[0]) - turn(optima[1]))
    assert turned <= kappa * moved
    final = np.linalg.norm(x @ turn(optima[0]).T - y @ turn(optima[1]).T, axis=1).max()
    assert final <= (1 + kappa * radius) * moved + kappa * moved**2


def test_theorem_2_holds_from_end_to_end_for_a_nearly_rigid_pair():
    rng = np.random.default_rng(1)
    x = centred(rng.laplace(size=(2000, 2)))
    y = centred(x @ rotation(rng, 2) + 1e-5 * rng.uniform(-1, 1, x.shape))
    error = isorep.worst_case(x, y).upper
    ica = isorep.ICA().fit(x)
    gamma = planes.curvature(x, ica).smallest
    found = theorem2(error, dimension=2, radius=sizes(x, y)[0], eigenvalue=sizes(x, y)[1], gamma=gamma)
    first, second = ica.transform(x), isorep.ICA().fit(y).transform(y)
    matched = second[:, np.argmax(np.abs(first.T @ second), axis=1)]
    matched = matched * np.sign((first * matched).sum(axis=0))
    assert np.linalg.norm(first - matched, axis=1).max() <= found.bound.value
    assert found.radius == pytest.approx(sizes(x, y)[0] / math.sqrt(sizes(x, y)[1]))
    assert found.linear == pytest.approx(found.whitening * (1 + found.kappa * found.radius))
    assert found.quadratic == pytest.approx(found.kappa * found.whitening**2)
    assert found.to_dict()["bound"]["name"] == "theorem_2"
    assert theorem2(0.0, dimension=2, radius=1.0, eigenvalue=0.1, gamma=-1.0).bound.value == 0
    assert theorem2(0.1, dimension=2, radius=1.0, eigenvalue=0.1, gamma=0.0).bound.vacuous


def test_theorem_3_by_the_product_is_never_worse_than_as_printed():
    for process, model in ((1.0, 1.01), (1.02, 1.02), (1.1, 1.001)):
        found = theorem3(process=process, model=model, dimension=3)
        assert found["theorem_3"].value <= found["theorem_3_as_printed"].value * (1 + 1e-12)
        assert found.defect == pytest.approx(process * model - 1)
        assert found["theorem_3_as_printed"].value == pytest.approx(
            bounds(constant=max(process, model), dimension=3)["theorem_1"].value
        )
        assert any("reconstructs" in entry.text for entry in found.sup.assumptions)
    assert theorem3(process_excess=0.1, model=1.0, dimension=2) == theorem3(process=1.1, model=1.0, dimension=2)


def test_theorem_3_holds_for_a_process_and_a_model_of_it():
    rng = np.random.default_rng(5)
    u = rng.uniform(-1, 1, (400, 2))
    stretch = 1.05
    latents = (u * [stretch, 1 / stretch]) @ rotation(rng, 2)  # the model's decoder is an isometry
    found = theorem3(process=stretch, model=1.0, dimension=2, diameter=2 * math.sqrt(2))
    assert isorep.worst_case(u, latents).upper <= found.sup.value
    assert np.sqrt((isorep.Rigid(scale=False).fit(u, latents).residuals(u, latents) ** 2).mean()) <= found.rms.value


def test_structure_found_by_two_models_is_the_same_structure():
    rng = np.random.default_rng(6)
    u = rng.normal(size=(200, 3))
    epsilon = 0.1
    runs = []
    for _ in range(2):
        off = rng.normal(size=u.shape)
        runs.append((u + epsilon * off / np.linalg.norm(off, axis=1, keepdims=True)) @ rotation(rng, 3))
    assert isorep.worst_case(*runs).upper <= structural_to_statistical(epsilon).value == 2 * epsilon
    assert structural_to_statistical(epsilon, group="signed_permutation").value == 2 * epsilon
    assert structural_to_statistical(epsilon, group="linear").vacuous
    assert structural_to_statistical(epsilon, group="linear", norm=3.0).value == pytest.approx(0.6)
    with pytest.raises(isorep.InputError, match="group"):
        structural_to_statistical(epsilon, group="affine")


@given(st.floats(0, 0.99))
def test_dynamical_isometry_gives_a_constant_that_is_sharp(delta):
    found = dynamical_isometry(delta)
    assert found.constant == pytest.approx(1 / (1 - delta))
    assert found.similarity <= found.constant <= found.printed * (1 + 1e-12)
    measured = dynamical_isometry(smallest=1 - delta, largest=1 + delta)
    assert measured == found


def test_lemmas_refuse_what_makes_no_sense():
    assert dynamical_isometry(smallest=0.0, largest=2.0).constant == math.inf
    for call in (
        lambda: dynamical_isometry(1.0),
        lambda: dynamical_isometry(0.1, smallest=0.5),
        lambda: dynamical_isometry(smallest=2.0, largest=1.0),
        lambda: dynamical_isometry(),
        lambda: whitening_constant(0.0, 1.0),
        lambda: whitening_constant(1.0, -1.0),
        lambda: whitening_constant(1.0, 1.0, singular_values=(2.0, 1.0)),
        lambda: ica_constant(1.0, 1.0, 0),
        lambda: ica_constant(math.nan, 1.0, 2),
        lambda: ica_constant(1.0, 1.0, 2, contrast="skew"),
        lambda: theorem3(process=1.1, dimension=2),
        lambda: theorem3(process=0.1, model=1.1, dimension=2),
        lambda: theorem3(process=1.1, process_excess=0.1, model=1.1, dimension=2),
        lambda: structural_to_statistical(-1.0),
    ):
        with pytest.raises(isorep.InputError):
            call()
    assert ica_constant(0.5, 2.0, 4, contrast="cube") == pytest.approx((3 * 4 * 2 + 2 * 8) / 0.5)
    assert ica_constant(-0.1, 2.0, 4) == math.inf


def test_an_error_of_any_size_has_a_bound():
    found = isorep.decoder.theorem2(1e200, dimension=np.int64(4), radius=2.0, eigenvalue=0.5, gamma=1.0)
    assert found.bound.value == math.inf
