"""Values of public implementations, computed with them on the inputs below (commits: google/svcca 1f3fbf1,
google-research/representation_similarity 10bf941, ahwillia/netrep 0186b8a, minyoungg/platonic-rep dcd76ba,
shrutij01/identifiability-guard 0667c0f) and with scipy 1.17; PWCCA by the paper's formula, independently."""

import numpy as np
import pytest

from isorep import Moments, similarity

NOISE = {
    "cca": 0.18014325365565753,
    "mean squared": 0.043137483054750514,
    "svcca": 0.18014325362788408,
    "kept": [10, 8],
    "pwcca x": 0.17441766416817608,
    "pwcca y": 0.18237726617154648,
    "cka": 0.03543548364022037,
    "cka debiased": -0.00919461669090594,
    "cka rbf": 0.23295834579399208,
    "angular": 1.4123031421243684,
    "euclidean": 54.911954628558256,
    "disparity": 0.9750895468092234,
    "permutation": 1.4877558423233739,
    "knn": 0.058,
    "knn unit": 0.057,
}
REFLECTED = {
    "cca": 0.9940739130078281,
    "mean squared": 0.9881941546985604,
    "svcca": 0.9940739127640954,
    "kept": [10, 10],
    "pwcca x": 0.994680677111745,
    "pwcca y": 0.9947851276838987,
    "cka": 0.9924630683044995,
    "cka debiased": 0.9921438380940163,
    "cka rbf": 0.9901741190722003,
    "angular": 0.09616723415147184,
    "euclidean": 69.37857448492535,
    "disparity": 0.009219662710051462,
    "permutation": 0.641975801399136,
    "knn": 0.7445,
    "knn unit": 0.788,
    "mcc": 0.8123156144631437,
}


def noise():
    rng = np.random.default_rng(0)
    return rng.standard_normal((200, 10)), rng.standard_normal((200, 8))


def reflected():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 10)) * np.linspace(1.0, 2.0, 10)
    v, more = rng.standard_normal(10), rng.standard_normal((200, 10))
    return x, 2.0 * (x @ (np.eye(10) - 2 * np.outer(v, v) / (v @ v))) + 1.0 + 0.3 * more


@pytest.mark.parametrize(("make", "known"), [(noise, NOISE), (reflected, REFLECTED)])
def test_indices_agree_with_public_implementations(make, known):
    x, y = make()
    cca, svcca, pwcca = similarity.cca(x, y), similarity.svcca(x, y), similarity.pwcca(x, y)
    procrustes = similarity.procrustes_distance(x, y)
    found = {
        "cca": cca.value,
        "mean squared": cca.details["mean_squared"],
        "svcca": svcca.value,
        "pwcca x": pwcca.value,
        "pwcca y": pwcca.details["other_side"],
        "cka": similarity.cka(x, y).value,
        "cka debiased": similarity.cka(x, y, debiased=True).value,
        "cka rbf": similarity.cka(x, y, kernel="rbf").value,
        "angular": procrustes.value,
        "euclidean": procrustes.details["euclidean"],
        "disparity": procrustes.details["disparity"],
        "permutation": similarity.procrustes_distance(x, y, up_to="permutation").value,
        "knn": similarity.mutual_knn(x, y, metric="inner_product").value,
        "knn unit": similarity.mutual_knn(x, y).value,
        "mcc": similarity.mcc(x, y).value,
    }
    assert svcca.details["kept"] == known["kept"]
    for name in known.keys() - {"kept"}:
        assert found[name] == pytest.approx(known[name], abs=1e-9), name
    assert similarity.pwcca(x, y, side="y").value == pytest.approx(known["pwcca y"], abs=1e-9)


@pytest.mark.parametrize("make", [noise, reflected])
def test_moments_are_enough_where_second_moments_decide(make):
    x, y = make()
    moments = Moments.from_rows(x, y)
    for name in ("cca", "svcca", "pwcca", "linear_r2", "cka", "procrustes_distance", "mcc"):
        index = getattr(similarity, name)
        assert index(moments).value == pytest.approx(index(x, y).value, abs=1e-12), name


def test_the_standardised_svcca_is_the_one_of_the_published_notebook():
    x, y = noise()
    bases = []
    for values in (x * np.geomspace(1, 100, 10), y):
        standard = (values - values.mean(axis=0)) / values.std(axis=0)
        bases.append(np.linalg.svd(standard, full_matrices=False)[0][:, :4])
    by_hand = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).mean()
    found = similarity.svcca(x * np.geomspace(1, 100, 10), y, components=4, standardise=True)
    assert found.value == pytest.approx(by_hand, abs=1e-12)
    assert found.details["kept"] == [4, 4]


def test_linear_r2_is_that_of_least_squares():
    x, y = reflected()
    fit = np.linalg.lstsq(np.c_[x, np.ones(200)], y, rcond=None)[0]
    left = y - np.c_[x, np.ones(200)] @ fit
    share = 1 - (left**2).sum() / ((y - y.mean(axis=0)) ** 2).sum()
    assert similarity.linear_r2(x, y).value == pytest.approx(share, abs=1e-12)
    assert similarity.linear_r2(y, x).value == pytest.approx(similarity.linear_r2(x, y).details["reverse"], abs=1e-12)


# POT 0.9.7 (emd2 and partial_wasserstein2 between centred columns at unit norm, each of mass 1 / width) and rsatoolbox
# 0.3.2 (calc_rdm, compare). The Bures distance by its definition, from the Gram matrices' eigenvalues.
MATCHED = {
    "noise": {
        "soft": 1.3559449848082044,
        "half": 1.326617339865358,
        "third": 1.3158415028314387,
        "bures": 1.2978209,
        "euclidean pearson": 0.08018381324684756,
        "euclidean spearman": 0.07302471300585041,
        "correlation pearson": -0.007045010945856907,
        "correlation spearman": -0.006246235844293065,
    },
    "reflected": {
        "soft": 0.6550982120646985,
        "half": 0.28524490101316985,
        "third": 0.1899612911508811,
        "bures": 0.0961302,
        "euclidean pearson": 0.9922244861901324,
        "euclidean spearman": 0.9907255313677853,
        "correlation pearson": 0.8976335664088292,
        "correlation spearman": 0.8945806336038865,
    },
}


@pytest.mark.parametrize("make", [noise, reflected])
def test_matching_and_rsa_agree_with_pot_and_rsatoolbox(make):
    x, y = make()
    known = MATCHED[make.__name__]
    for name, overlap in (("soft", 1.0), ("half", 0.5), ("third", 0.33)):
        assert similarity.soft_matching(x, y, overlap=overlap).value == pytest.approx(known[name], abs=1e-9)
    assert similarity.bures_distance(x, y).value == pytest.approx(known["bures"], abs=2e-6)
    for distance in ("euclidean", "correlation"):
        for correlation in ("pearson", "spearman"):
            found = similarity.rsa(x, y, distance=distance, correlation=correlation).value
            assert found == pytest.approx(known[f"{distance} {correlation}"], abs=1e-9)


@pytest.mark.parametrize(
    ("correlation", "lower", "upper"),
    [("pearson", 0.46896301253899747, 0.7148223339900517), ("spearman", 0.3751297256362784, 0.6679889681073397)],
)
def test_the_noise_ceiling_is_that_of_rsatoolbox(correlation, lower, upper):
    """boot_noise_ceiling of rsatoolbox 0.3.2 for squared Euclidean distances of these runs."""
    base = np.random.default_rng(0).standard_normal((40, 6))
    noise = [np.random.default_rng(seed).standard_normal((40, 6)) for seed in (1, 2, 3, 4)]
    runs = [base + size * each for size, each in zip((0.5, 0.7, 1.0, 1.5), noise, strict=True)]
    found = similarity.noise_ceiling(runs, correlation=correlation)
    assert (found.lower, found.upper) == pytest.approx((lower, upper), abs=1e-9)
