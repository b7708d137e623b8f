"""What is derived about Jacobians, against exhaustive search on small cases."""

from itertools import combinations, product

import numpy as np
import pytest

from isorep.datasets import slot_generator
from isorep.decoder.mechanism.factors import basis_components, largest_angle, row_components
from isorep.decoder.mechanism.type_h import separation, splits
from isorep.decoder.mechanism.type_m import containment, shared
from isorep.decoder.mechanism.type_s import exact_gap, gap_bound, pool, sparsity_components
from isorep.decoder.mechanism.views import frame

TOLERANCE, NOISE = 1e-8, 1e-13


def candidates(jacobian, blocks, tolerance=TOLERANCE):
    here = frame(jacobian, [np.array(block) for block in blocks], NOISE)
    aligned = [pool(here.block(k), 10**6).at(tolerance) for k in range(len(blocks))]
    return here, pool(here.values, 10**6).at(tolerance), aligned


def gaps(jacobian, blocks):
    here, whole, aligned = candidates(jacobian, blocks)
    return exact_gap(here, whole, aligned), gap_bound(here, aligned, 10**6)


# Components -------------------------------------------------------------------------------------------------------


def set_partitions(items):
    if not items:
        yield []
        return
    first, *rest = items
    for partition in set_partitions(rest):
        yield [[first], *partition]
        for place, part in enumerate(partition):
            yield [*partition[:place], [first, *part], *partition[place + 1 :]]


def finest_split_of_rows(jacobian):
    """The most row groups whose ranks add up to d, over all partitions of the nonzero rows."""
    d = jacobian.shape[1]
    rows = [int(row) for row in np.flatnonzero(np.abs(jacobian).sum(1))]
    best = 0
    for partition in set_partitions(rows):
        if sum(np.linalg.matrix_rank(jacobian[part]) for part in partition) == d:
            best = max(best, len(partition))
    return best


@pytest.mark.parametrize("seed", range(25))
def test_components_are_the_finest_partition_of_rows_whose_ranks_add_up(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 4))
    jacobian = rng.integers(-1, 2, size=(int(rng.integers(d, 8)), d)) * (rng.random((1, d)) < 2)
    jacobian = (jacobian * (rng.random(jacobian.shape) < 0.6)).astype(float)
    if np.linalg.matrix_rank(jacobian) < d:
        assert row_components(jacobian, 1e-6, NOISE).state == "rank deficient"
        return
    mixing = np.array(rng.normal(size=(d, d)))
    found = row_components(jacobian @ mixing, 1e-9, NOISE)
    assert found.state == "found"
    assert len(found.subspaces) == finest_split_of_rows(jacobian)


def test_no_basis_over_small_integers_has_more_components():
    blocks = np.zeros((5, 3))
    blocks[:3, :2] = [[1, 0], [1, 1], [0, 1]]
    blocks[3:, 2] = [1, -1]
    unmix = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    jacobian = blocks @ np.linalg.inv(unmix)
    most = 0
    for entries in product((-1, 0, 1), repeat=9):
        basis = np.array(entries, dtype=float).reshape(3, 3)
        if abs(np.linalg.det(basis)) > 0.5:
            most = max(most, basis_components(jacobian @ basis, 1e-9))
    found = row_components(jacobian, 1e-9, NOISE)
    assert most == len(found.subspaces) == 2
    assert found.dimensions == (2, 1)


def test_factors_come_back_after_a_change_of_basis_and_one_shared_row_merges_two():
    rng = np.random.default_rng(0)
    jacobian = np.zeros((14, 5))
    jacobian[:6, :2], jacobian[6:10, 2], jacobian[10:, 3:] = (
        rng.normal(size=(6, 2)),
        rng.normal(size=4),
        rng.normal(size=(4, 2)),
    )
    mixing = rng.normal(size=(5, 5))
    found = row_components(jacobian @ mixing, 1e-6, NOISE)
    assert found.dimensions == (2, 2, 1)
    truth = np.linalg.inv(mixing)
    for label, columns in ((found.labels[0], [0, 1]), (found.labels[6], [2]), (found.labels[10], [3, 4])):
        expected = np.linalg.qr(truth[:, columns])[0]
        assert largest_angle(found.subspaces[label], expected) < 1e-5
    jacobian[5, 2] = 0.7
    assert row_components(jacobian @ mixing, 1e-6, NOISE).dimensions == (3, 2)


def test_a_dead_output_with_noise_joins_nothing_and_two_scales_of_rows_do_not_matter():
    rng = np.random.default_rng(1)
    jacobian = np.zeros((9, 3))
    jacobian[:4, :2], jacobian[4:8, 2] = rng.normal(size=(4, 2)), 1e3 * rng.normal(size=4)
    jacobian[8] = 1e-7 * rng.normal(size=3)
    found = row_components(jacobian, 1e-6, NOISE)
    assert found.dimensions == (2, 1)
    assert found.labels[8] == -1
    jacobian[4:8, 2] /= 1e3
    assert row_components(jacobian, 1e-6, NOISE).dimensions == (2, 1)
    assert row_components(jacobian, 1e-13, NOISE).dimensions == (3,)  # taken at its word it does join


@pytest.mark.parametrize(("tolerance", "state"), [(1e-6, "found"), (0.2, "undecided")])
def test_a_coarse_tolerance_is_undecided_and_does_not_split(tolerance, state):
    jacobian = np.random.default_rng(2).normal(size=(8, 3))
    found = row_components(jacobian, tolerance, NOISE)
    assert found.state == state
    assert len(found.subspaces) <= 1


# Gaps -------------------------------------------------------------------------------------------------------------


def null(matrix):
    if len(matrix) == 0:
        return np.eye(matrix.shape[1])
    _, values, right = np.linalg.svd(matrix, full_matrices=True)
    return right[(values > 1e-9).sum() :].T


def every_basis(jacobian, blocks):
    """rho+ and rho-: generic vectors of every flat of the rows, within blocks and across, in all bases of them."""
    n, d = jacobian.shape
    rng, seen, vectors = np.random.default_rng(0), set(), []
    spans = [(np.eye(d), "all"), *((np.eye(d)[:, block], k) for k, block in enumerate(blocks))]
    for size in range(n + 1):
        for rows in combinations(range(n), size):
            for span, name in spans:
                kernel = span @ null(jacobian[list(rows)] @ span)
                if kernel.shape[1]:
                    zero = (name, *np.flatnonzero(np.abs(jacobian @ kernel).max(1) < 1e-9))
                    if zero not in seen:
                        seen.add(zero)
                        vectors += list((kernel @ rng.normal(size=(kernel.shape[1], kernel.shape[1] + 1))).T)
    vectors = np.array(vectors)
    weights = (np.abs(vectors @ jacobian.T) > 1e-9).sum(1)
    labels = np.array([next(k for k, block in enumerate(blocks) if place in block) for place in range(d)])
    used = np.abs(vectors) > 1e-9
    mixed = np.array([len(set(labels[row])) > 1 for row in used])
    sets = np.array(list(combinations(range(len(vectors)), d)))
    independent = np.abs(np.linalg.det(vectors[sets])) > 1e-7
    totals, crossing = weights[sets].sum(1), mixed[sets].any(1)
    return totals[independent & ~crossing].min(), totals[independent & crossing].min()


@pytest.mark.parametrize("seed", range(24))
def test_the_gap_is_that_of_all_bases(seed):
    rng = np.random.default_rng(seed)
    d = 2 + seed % 2
    jacobian = rng.integers(-1, 2, size=(int(rng.integers(d + 1, 7)), d)).astype(float)
    if np.linalg.matrix_rank(jacobian) < d:
        jacobian[:d] = np.eye(d)
    blocks = [[0], [1]] if d == 2 else [[0, 1], [2]] if seed % 4 == 1 else [[0], [1], [2]]
    aligned, crossing = every_basis(jacobian, blocks)
    exact, bound = gaps(jacobian, blocks)
    assert exact.aligned == aligned
    assert exact.value == crossing - aligned
    if bound.value > 0:
        assert bound.value <= exact.value


@pytest.mark.parametrize("overlap", range(5))
def test_pairs_of_one_dimension_have_the_known_gaps(overlap):
    rng = np.random.default_rng(overlap)
    jacobian = np.zeros((13 - overlap, 2))
    jacobian[:6, 0], jacobian[6 - overlap :, 1] = rng.normal(size=6), rng.normal(size=7)
    assert gaps(jacobian, [[0], [1]])[0].value == (6 if overlap == 0 else 6 - overlap - 1)
    jacobian[6 - overlap : 6, 1] = 2 * jacobian[6 - overlap : 6, 0]  # shared outputs that cancel all at once
    exact, bound = gaps(jacobian, [[0], [1]])
    assert exact.value == 6 - 2 * overlap
    assert bound.value == 6 - 2 * overlap  # the bound allows for the worst, which this is


@pytest.mark.parametrize(
    ("slots", "dimensions", "window", "overlap", "shape"),
    [(2, 1, 5, 2, "line"), (2, 2, 5, 2, "line"), (2, 2, 4, 2, "line"), (3, 1, 5, 2, "ring"), (3, 1, 4, 2, "ring"),
     (2, 1, 6, 2, "ring"), (3, 1, 4, 0, "line"), (2, [1, 2], 5, 3, "line"), (3, 1, 6, 3, "ring")],
)  # fmt: skip
def test_generic_gaps_and_margins_are_what_the_generator_says(slots, dimensions, window, overlap, shape):
    generator = slot_generator(slots, dimensions, window, overlap, shape=shape, random_state=3)
    jacobian = generator.jacobian(generator.sample(1))[0]
    here, whole, aligned = candidates(jacobian, generator.blocks)
    assert exact_gap(here, whole, aligned).value == generator.truth.gap
    assert containment(aligned) == generator.truth.margin
    assert (shared(here) < 1e-9) == generator.truth.type_d


def test_the_bound_for_many_blocks_looks_at_pairs_only_and_stays_below():
    generator = slot_generator(14, 1, 6, 1)
    jacobian = generator.jacobian(generator.sample(1))[0]
    here = frame(jacobian, [np.array(block) for block in generator.blocks], NOISE)
    aligned = [pool(here.block(k), 10**4).at(1e-6) for k in range(14)]
    bound = gap_bound(here, aligned, 10**4)
    assert 0 < bound.value <= generator.truth.gap


@pytest.mark.parametrize("seed", range(8))
def test_the_finest_sparsity_split_is_the_finest_with_a_gap(seed):
    """Over all ways to group a sparsest basis: the finest grouping with a positive gap."""
    rng = np.random.default_rng(seed)
    jacobian = rng.integers(-2, 3, size=(7, 3)) * (rng.random((7, 3)) < 0.5)
    jacobian = (jacobian + np.vstack([np.eye(3), np.zeros((4, 3))])).astype(float)
    assert np.linalg.matrix_rank(jacobian) == 3
    whole = pool(np.linalg.qr(jacobian)[0], 10**4).at(TOLERANCE)
    groups = sparsity_components(whole)
    turned = np.linalg.qr(jacobian)[0] @ whole.vectors[whole.basis].T
    best = 0
    for partition in set_partitions([0, 1, 2]):
        if len(partition) == 1 or gaps(turned, partition)[0].value > 0:
            best = max(best, len(partition))
    assert len(groups) == best


# Forms ------------------------------------------------------------------------------------------------------------


def test_forms_split_in_a_hidden_basis_and_generic_ones_do_not():
    rng = np.random.default_rng(0)
    generic = rng.normal(size=(6, 3, 3))
    generic = generic + generic.swapaxes(1, 2)
    assert splits(generic, 1e-6, 1.0, rng) == "irreducible"
    apart = generic.copy()
    apart[:, :2, 2] = apart[:, 2, :2] = 0
    turn = rng.normal(size=(3, 3))
    assert splits(turn.T @ apart @ turn, 1e-6, 1.0, rng) == "reducible"
    blind = generic.copy()
    blind[:, 2] = blind[:, :, 2] = 0
    assert splits(turn.T @ blind @ turn, 1e-6, 1.0, rng) == "degenerate"


def test_one_form_is_always_a_sum_of_squares_and_a_single_number_cannot_split():
    rng = np.random.default_rng(1)
    form = rng.normal(size=(1, 2, 2))
    assert splits(form + form.swapaxes(1, 2), 1e-6, 1.0, rng) == "reducible"
    assert splits(np.ones((4, 1, 1)), 1e-6, 1.0, rng) == "irreducible"
    assert splits(np.zeros((4, 1, 1)), 1e-6, 1.0, rng) == "degenerate"


def test_forms_with_a_complex_structure_have_commuting_matrices_but_no_real_splitting():
    """Real and imaginary parts of z² in the plane: multiplication by i is self-adjoint for both."""
    forms = np.array([[[1.0, 0], [0, -1]], [[0, 1], [1, 0]]])
    assert splits(forms, 1e-6, 1.0, np.random.default_rng(0)) == "irreducible"


def test_separation_is_the_sine_of_the_least_angle():
    own, other = np.array([[1.0], [0], [0]]), np.array([[1.0], [1], [0]]) / np.sqrt(2)
    assert separation(own, [other], 1e-6) == pytest.approx(np.sqrt(0.5))
    assert separation(own, [own * 3], 1e-6) == pytest.approx(0, abs=1e-7)
    assert separation(0 * own, [other], 1e-6) is None
    assert separation(own, [np.eye(3)], 1e-6) == 0.0
