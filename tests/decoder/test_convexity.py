"""The probe of convexity: what it calls holes, what it does not, and where it says that it could not tell."""

import numpy as np
import pytest

from isorep.decoder import convexity


def notched(rng, n, d):
    """A box without one corner of two of its coordinates: an L, times a box."""
    box = rng.uniform(size=(2 * n, d))
    return box[~(box[:, :2] > 0.5).all(axis=1)][:n]


def sphere(rng, n, d):
    normal = rng.standard_normal((n, d))
    return normal / np.linalg.norm(normal, axis=1, keepdims=True)


def turned(rng, cloud):
    return cloud @ np.linalg.qr(rng.standard_normal((cloud.shape[1],) * 2))[0]


CONVEX = {
    "box": lambda rng, n, d: rng.uniform(size=(n, d)),
    "corners": lambda rng, n, d: rng.beta(0.2, 0.2, size=(n, d)),
    "turned corners": lambda rng, n, d: turned(rng, rng.beta(0.2, 0.2, size=(n, d))),
    "skewed box": lambda rng, n, d: rng.uniform(size=(n, d)) @ rng.standard_normal((d, d)),
    "Gaussian": lambda rng, n, d: rng.standard_normal((n, d)),
    "heavy tails": lambda rng, n, d: rng.standard_t(3, size=(n, d)),
    "simplex": lambda rng, n, d: rng.dirichlet(np.full(d + 1, 0.3), size=n)[:, :d],
    "ball": lambda rng, n, d: sphere(rng, n, d) * rng.uniform(size=(n, 1)) ** (1 / d),
}


@pytest.mark.parametrize("kind", CONVEX)
def test_convex_supports_are_seldom_called_hollow(kind):
    found = [
        convexity(CONVEX[kind](np.random.default_rng(seed), n, d), random_state=seed).answer
        for seed, (n, d) in enumerate(((60, 2), (150, 1), (200, 5), (300, 3)))
    ]
    assert found.count("holes") <= 1


@pytest.mark.parametrize("seed", range(2))
def test_a_notch_is_seen_where_the_answer_says_it_would_be(seed):
    rng = np.random.default_rng(seed)
    box = convexity(rng.uniform(size=(1000, 2)))
    assert box.remote <= box.limit < box.notch
    assert (box.answer == "none seen") == (box.notch > 2 * box.limit and 2 * box.remote <= box.limit)
    assert ("quarter of these samples would be detected" in box.sentence) == (box.answer == "none seen")
    cut = convexity(notched(rng, 1000, 2))
    assert cut.answer == "holes"
    assert cut.remote > cut.limit
    assert convexity(turned(rng, notched(rng, 1000, 2)) * [1, 50] + 3).answer == "holes"


@pytest.mark.parametrize("seed", range(2))
def test_what_cannot_be_seen_in_five_dimensions_is_not_denied(seed):
    rng = np.random.default_rng(seed)
    cut = convexity(notched(rng, 500, 5))
    assert cut.answer in ("blind", "holes")
    box = convexity(rng.uniform(size=(500, 5)))
    assert box.answer == "blind"
    assert "hollow cloud would be detected, but not a notch" in box.sentence
    assert convexity(sphere(rng, 500, 5)).answer == "holes"


def test_nothing_is_seen_in_sixty_dimensions_but_clusters(rng):
    cloud = rng.standard_normal((200, 60))
    found = convexity(cloud)
    assert found.answer == "blind"
    assert "neither a notch" in found.sentence
    clusters = convexity(0.1 * cloud + rng.choice([-3.0, 3.0], size=(200, 1)))
    assert clusters.answer == "holes"
    assert clusters.gap > 0.3
    assert "in a gap" in clusters.sentence


def test_hollow_clouds_gaps_and_bends_are_holes(rng):
    angle = rng.uniform(0, np.pi, 300)
    assert convexity(sphere(rng, 300, 2)).answer == "holes"
    assert convexity(sphere(rng, 300, 3)).answer == "holes"
    assert convexity(np.column_stack([np.cos(angle), np.sin(angle)])).answer == "holes"
    line = rng.uniform(size=(300, 1))
    assert convexity(line).answer == "none seen"
    assert convexity(np.where(line < 0.5, line, line + 0.4)).answer == "holes"
    assert convexity(rng.beta(0.2, 0.2, size=(300, 1))).answer == "none seen"


def test_units_do_not_matter(rng):
    box = rng.uniform(size=(300, 2))
    skew = np.array([[1.0, 300.0], [0.0, 1000.0]])
    assert convexity(box @ skew).answer in ("none seen", "blind")
    assert convexity(notched(rng, 1000, 2) @ skew).answer == "holes"
    dead = np.column_stack([box, np.full(300, 2.0), 1e-9 * rng.standard_normal(300)])
    assert convexity(dead).answer in ("none seen", "blind")


def test_grids_are_no_holes_and_classes_are(rng):
    grid = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 3)
    assert convexity(grid).answer != "holes"
    classes = np.column_stack([rng.standard_normal((300, 2)), 20.0 * rng.integers(2, size=300)])
    assert convexity(classes).answer == "holes"


@pytest.mark.parametrize("scale", [-1030, -600, 1000])  # as powers of two
def test_the_scale_does_not_matter_however_extreme(rng, scale):
    box = np.floor(2**20 * rng.uniform(size=(300, 2))) - 2**19  # so few digits that none is lost
    assert convexity(np.ldexp(box, scale)) == convexity(box)


def test_rows_that_are_equal_beside_an_outlier_have_no_support(rng):
    box = rng.uniform(size=(120, 4))
    box[7, 1] = 1e300
    assert convexity(box) is None


def test_few_rows_equal_rows_and_no_spread(rng):
    box = rng.uniform(size=(150, 2))
    assert convexity(np.concatenate([box, box])) == convexity(box)
    assert convexity(box[:10]) is None
    assert convexity(np.zeros((50, 3))) is None
    assert convexity(box) == convexity(box)
    assert convexity(box[:25]).answer == "blind"


def test_along_one_direction_gaps_are_spoken_of_and_nothing_else(rng):
    line = rng.uniform(size=(400, 1))
    parts = np.concatenate([line[:200], 3 + line[200:]])
    for cloud in (line, np.c_[line, 2 * line], parts, np.c_[parts, -parts], line[:25]):
        found = convexity(cloud)
        assert ("in a gap between samples" in found.sentence) == (found.answer == "holes") == (np.ptp(cloud[:, 0]) > 2)
        assert not any(word in found.sentence for word in ("boxes", "notch", "quarter", "hollow"))
    grid = rng.integers(0, 6, size=(300, 2)) + np.where(rng.integers(0, 2, size=(300, 1)), 0.0, 40.0)
    assert "boxes" not in convexity(grid).sentence
