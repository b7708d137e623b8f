"""Leakage, near-factors and inactive latents: known answers, brute force, invariances, and what must not be said."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import expm, hadamard, subspace_angles

import isorep
from isorep.datasets import slot_generator
from isorep.decoder import mechanisms, mechanisms_of
from isorep.decoder.mechanism.near import Search, leakage, near_factors, scrambled, split_leak
from isorep.decoder.mechanism.result import Criterion, Evidence, FactorLevel, Factors, Irreducibility, Level
from isorep.decoder.mechanism.theorems import checked_hierarchy, theorem
from isorep.resampling import haar

from .test_mechanisms_theory import set_partitions

torch = pytest.importorskip("torch")
BLOCKS = [np.arange(3), np.arange(3, 6)]
SMALL = {"samples": 12, "higher_samples": 4}


def near_disjoint(leak, samples=4, seed=0):
    """Two blocks of three latents in 32 outputs, each with a share of its energy in the other's half, at all samples.

    Rows of a Hadamard matrix have the same length, so that every output leaks alike.
    """
    rng = np.random.default_rng(seed)
    columns = hadamard(16) / 4
    found = []
    for _ in range(samples):
        parts = [columns[:, rng.choice(16, 3, replace=False)] for _ in range(4)]
        near, far = np.sqrt(1 - leak), np.sqrt(leak)
        first = np.concatenate([near * parts[0], far * parts[1]])
        found.append(np.concatenate([first, np.concatenate([far * parts[2], near * parts[3]])], axis=1))
    return np.array(found)


def by_name(leaks):
    return {leak.name: leak for leak in leaks}


def measured(jacobians, blocks, seed=0):
    return by_name(leakage(np.asarray(jacobians, dtype=float), blocks, 1e-13, np.random.default_rng(seed))[0])


# Leakage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leak", [0.0, 1e-6, 0.0015, 0.04, 0.2])
def test_the_measured_leakage_is_the_constructed_one(leak):
    found = measured(near_disjoint(leak), BLOCKS)["D"]
    assert found.mean == pytest.approx(leak, rel=1e-9, abs=1e-14)
    assert found.mean == pytest.approx(found.largest, rel=1e-9, abs=1e-14)
    assert found.random > 0.2
    assert found.near == (leak <= 0.05)


def test_units_bases_inside_blocks_and_orders_do_not_change_leakage():
    rng = np.random.default_rng(1)
    jacobians = near_disjoint(0.03) + 0.05 * rng.normal(size=(4, 32, 6))
    inside = np.zeros((6, 6))
    for block, scale in zip(BLOCKS, (1e-5, 1e4), strict=True):
        inside[np.ix_(block, block)] = scale * rng.normal(size=(3, 3))
    plain = measured(jacobians, BLOCKS)
    moved = measured(1e3 * (jacobians @ inside)[:, rng.permutation(32)][:, :, [3, 4, 5, 0, 1, 2]], BLOCKS[::-1])
    for name in ("D", "M", "IMA"):
        for figure in ("mean", "quantile", "largest"):
            assert getattr(moved[name], figure) == pytest.approx(getattr(plain[name], figure), rel=1e-6), name
        assert moved[name].random == pytest.approx(plain[name].random, rel=0.5)  # the same law, other draws


def test_random_bases_of_two_latents_have_the_known_mean():
    jacobian = np.kron(np.eye(2), np.ones((4, 1)))[None]
    found = [measured(jacobian, [np.array([0]), np.array([1])], seed)["D"].random for seed in range(10)]
    assert np.mean(found) == pytest.approx(0.5 - 1 / np.pi, abs=0.03)  # mean of min(cos², sin²)


def test_overlap_is_0_for_disjoint_and_1_for_contained_supports():
    apart, inside = np.zeros((2, 10, 2))
    apart[:5, 0] = apart[5:, 1] = 1
    inside[:5, 0] = inside[:, 1] = 1
    blocks = [np.array([0]), np.array([1])]
    assert measured(apart[None], blocks)["M"].mean == pytest.approx(0, abs=1e-12)
    assert measured(inside[None], blocks)["M"].mean == pytest.approx(1)
    inside[5:, 0] = 1e-3
    assert measured(inside[None], blocks)["M"].mean > 0.99


def test_no_basis_is_sparser_than_that_of_disjoint_blocks_and_one_is_where_they_are_mixed():
    jacobian = near_disjoint(0.0)
    blocks = [np.array([place]) for place in range(6)]
    rows = np.kron(np.eye(6), np.ones((4, 1)))[None]
    assert measured(rows, blocks)["S"].mean == pytest.approx(0, abs=1e-9)
    turned = measured(rows @ haar(6, np.random.default_rng(0)), blocks)["S"]
    assert turned.mean > 0.3
    assert measured(jacobian, BLOCKS)["S"].mean < 0.05


def test_interactions_leak_nothing_in_additive_decoders_and_more_with_their_strength(rng):
    z = rng.normal(size=(30, 2))

    def decoder(z, strength=0.0):
        a, b = z[:, 0], z[:, 1]
        return torch.stack([torch.sinh(a), a + b**2, torch.exp(b / 2), b + strength * a * b], 1)

    found = [
        [each for each in mechanisms(lambda z, s=s: decoder(z, s), z, [1, 1], **SMALL).leakage if each.name == "H2"]
        for s in (0.0, 0.02, 0.5)
    ]
    for way in range(2):
        means = [leaks[way].mean for leaks in found]
        assert means[0] == pytest.approx(0, abs=1e-12)
        assert 0 < means[1] < means[2]
        assert found[0][way].random > 0.01


def test_products_are_seen_where_each_step_alone_does_nothing():
    z = np.array([[0.0, 0.0], [1.0, 1.0]])
    found = mechanisms(lambda z: np.stack([z[:, 0] * z[:, 1], 0 * z[:, 0]], 1), z, [1, 1])
    assert found.type_h2.way("swaps").levels[0].worst > 0.3
    assert found.type_h2.state == "fails"


def test_no_swap_leaves_the_range_of_the_latents(rng):
    z = rng.uniform(0.1, 1, size=(40, 3)) * [1, 1, 100]

    def decoder(z):
        if (z < 0.1 - 1e-9).any() or (z > np.array([1, 1, 100]) + 1e-9).any():
            raise ValueError("outside")
        return np.stack([np.log(z[:, 0]), z[:, 0], np.sqrt(z[:, 1]), z[:, 1], np.log(z[:, 2]), z[:, 2] / 100], 1)

    def jacobian(z):
        found = np.zeros((len(z), 6, 3))
        found[:, 0, 0], found[:, 1, 0], found[:, 2, 1] = 1 / z[:, 0], 1, 0.5 / np.sqrt(z[:, 1])
        found[:, 3, 1], found[:, 4, 2], found[:, 5, 2] = 1, 1 / z[:, 2], 0.01
        return found

    decoder.jacobian = jacobian
    for blocks in ([1, 1, 1], None):
        found = mechanisms(decoder, z, blocks, **SMALL)
        assert found.type_d.state == found.type_h2.state == "holds"
        assert next(each for each in found.leakage if each.name == "H2").random > 1e-4


def test_types_beyond_three_are_judged_by_swaps(rng):
    z = rng.normal(size=(20, 2))
    powers = {"a b": (1, 1), "a² b": (2, 1), "a² b²": (2, 2)}
    expected = {"a b": "fails holds holds holds", "a² b": "fails fails holds holds", "a² b²": "fails fails fails holds"}
    for name, (p, q) in powers.items():
        decoder = lambda z, p=p, q=q: np.stack([z[:, 0] + z[:, 0] ** p * z[:, 1] ** q, z[:, 1]], 1)  # noqa: E731
        found = mechanisms(decoder, z, [1, 1], highest_order=5, **SMALL)
        assert [found.criteria[f"H{order}"].state for order in (2, 3, 4, 5)] == expected[name].split(), name
        assert "H4" in found.to_dict()["criteria"]
    assert "H4" not in mechanisms(decoder, z, [1, 1], **SMALL).criteria
    with pytest.raises(isorep.InputError, match="highest_order is 7"):
        mechanisms(decoder, z, [1, 1], highest_order=7)
    with pytest.raises(isorep.InputError, match="highest_order is 1"):
        mechanisms(decoder, z, [1, 1], highest_order=1)


# Orthogonal, conformal, isometric --------------------------------------------------------------------------------


def test_orthogonal_conformal_and_isometric_decoders_are_told_apart(rng):
    z = rng.normal(size=(20, 2)) / 2
    turn = haar(4, rng)[:, :2]

    def spiral(z):  # the complex exponential: conformal, and no isometry
        return np.exp(z[:, :1]) * np.concatenate([np.cos(z[:, 1:]), np.sin(z[:, 1:])], 1)

    cases = {
        "isometry": (lambda z: 3 * z @ turn.T, "holds holds holds"),
        "conformal": (spiral, "holds holds fails"),
        "orthogonal": (lambda z: z @ (turn * [1, 5]).T, "holds fails fails"),
        "none": (lambda z: z @ (turn @ [[1, 0.5], [0, 1]]).T, "fails fails fails"),
    }
    for name, (decoder, expected) in cases.items():
        found = mechanisms(decoder, z, [1, 1], **SMALL)
        assert [found.states[each] for each in ("IMA", "conformal", "isometric")] == expected.split(), name
        leaks = by_name(found.leakage)
        for each, state in zip(("IMA", "conformal", "isometric"), expected.split(), strict=True):
            assert (leaks[each].mean < 1e-10) == (state == "holds"), (name, each)
        assert leaks["conformal"].random is None


# Near-factors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leak", [0.0, 0.0015, 0.03])
def test_near_factors_come_back_from_a_hidden_basis_with_their_leakage(leak):
    mixing = np.random.default_rng(5).normal(size=(6, 6))
    found = near_factors(near_disjoint(leak, 8) @ mixing, 1e-13, np.random.default_rng(0))
    assert (found.state, found.dimensions) == ("found", (3, 3))
    assert found.leakage.mean == pytest.approx(leak, rel=0.3, abs=1e-9)
    assert found.next_split.own > 0.1
    assert found.chance > 2 * leak
    truth = [np.linalg.inv(mixing)[:, block] for block in BLOCKS]
    for basis in found.subspaces:
        assert min(np.degrees(subspace_angles(basis, each).max()) for each in truth) < 1 + 90 * leak**0.5
    assert found.largest_angle < 1 + 90 * leak**0.5


@pytest.mark.parametrize("seed", range(3))
def test_rows_without_structure_are_one_factor(seed):
    rng = np.random.default_rng(seed)
    found = near_factors(rng.normal(size=(5, 40, 5)), 1e-13, rng)
    assert (found.state, found.dimensions) == ("one", (5,))
    assert found.turning == 0
    assert [len(each.dimensions) for each in found.splits] == [1, 2, 3, 4, 5]


def test_many_factors_and_factors_of_one_dimension_are_found():
    rng = np.random.default_rng(0)
    for sizes in ([2] * 5, [1] * 4, [3, 2, 1, 1]):
        jacobians = np.zeros((6, 8 * len(sizes), sum(sizes)))
        for place, (start, stop) in enumerate(pairwise(np.cumsum([0, *sizes]))):
            jacobians[:, 8 * place : 8 * place + 8, start:stop] = rng.normal(size=(6, 8, stop - start))
        leaking = jacobians + 0.02 * rng.normal(size=jacobians.shape)
        found = near_factors(leaking @ rng.normal(size=(sum(sizes),) * 2), 1e-13, rng)
        assert (found.state, found.dimensions) == ("found", tuple(sizes))


@pytest.mark.parametrize("seed", range(6))
def test_the_cut_is_the_best_of_all_partitions_of_the_axes(seed):
    rng = np.random.default_rng(seed)
    sizes = [[2, 2], [3, 1], [2, 1, 1], [2, 2, 1], [3, 2], [1, 1, 1, 1]][seed]
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.concatenate([rng.normal(size=(15, len(labels))) * (labels == place) for place in range(len(sizes))])
    rows = (rows + 0.1 * rng.normal(size=rows.shape)) @ rng.normal(size=(len(labels),) * 2)
    rows = np.linalg.qr(rows)[0]
    search = Search.of(rows, rng)
    count = search.answer()
    assert search.splits[count - 1].dimensions == tuple(sorted(sizes, reverse=True))
    energies = np.square(rows @ search.rotation)
    for partition in set_partitions(list(range(len(labels)))):
        if len(partition) == count:
            names = np.empty(len(labels), dtype=int)
            for name, part in enumerate(partition):
                names[part] = name
            assert split_leak(energies, names) >= search.splits[count - 1].leak - 1e-12


def test_with_few_outputs_near_factors_are_no_sign_of_structure():
    rng = np.random.default_rng(0)
    for outputs in (6, 7):  # of six latents: almost any such map is diagonal in some basis
        found = near_factors(np.repeat(rng.normal(size=(1, outputs, 6)), 4, axis=0), 1e-13, rng)
        assert found.state in ("few outputs", "one")
    assert near_factors(np.repeat(rng.normal(size=(1, 6, 6)), 4, axis=0), 1e-13, rng).state == "few outputs"
    rows = rng.normal(size=(50, 3))
    assert scrambled(rows, np.arange(50), rng).shape == (50, 3)


def test_factors_that_turn_are_seen_at_single_samples_only():
    rng = np.random.default_rng(0)
    turned = np.array([each @ haar(6, rng) for each in near_disjoint(0.001, 8)])
    found = near_factors(turned, 1e-13, rng)
    assert found.state == "one"
    assert found.turning == 1
    said = mechanisms_of(turned + 1e-2 * rng.normal(size=turned.shape))
    assert said.criteria == {}
    assert "of the single samples tested have near-factors, but different ones" in said.verdict


def test_factors_that_turn_by_some_degrees_are_near_factors_and_those_that_turn_at_random_are_not():
    rng = np.random.default_rng(0)
    exact = near_disjoint(0.0, 12)
    swung = []
    for each in exact:
        spin = rng.normal(size=(6, 6))
        swung.append(each @ expm(np.radians(2) * (spin - spin.T) / np.sqrt(6)))
    found = mechanisms_of(np.array(swung))
    assert not found.factors.constant
    assert found.blocks_from == "near-factors"
    assert found.verdict.startswith("2 near-factors of dimensions 3 and 3; the next split leaks ")
    assert "Nearly Type D (leakage " in found.verdict
    assert "theorem applies locally" not in found.verdict
    random = mechanisms_of(np.array([each @ haar(6, rng) for each in exact]))
    assert random.verdict.startswith("2 Type D factors of dimensions 3 and 3 at the reference sample, but not the same")
    assert "Nearly" not in random.verdict


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 4), (2, 5, 1), (1, 3, 3)])
@pytest.mark.parametrize("kind", ["zero", "ones", "normal", "float32"])
def test_small_and_degenerate_jacobians_have_an_answer(shape, kind):
    jacobians = {"zero": np.zeros(shape), "ones": np.ones(shape)}.get(kind)
    if jacobians is None:
        jacobians = np.random.default_rng(0).normal(size=shape).astype(np.float32 if kind == "float32" else float)
    for blocks in (None, [[place] for place in range(shape[2])]):
        found = mechanisms_of(jacobians, blocks)
        assert found.near_factors.state in ("one", "found", "few outputs", "rank deficient")
        assert "nan" not in str(found)
        found.to_json()


# Verdicts --------------------------------------------------------------------------------------------------------


def test_nearly_type_d_is_said_with_its_leakage_and_not_of_mixed_blocks():
    jacobians = near_disjoint(0.0015, 8)
    near = mechanisms_of(jacobians, [3, 3])
    assert near.type_d.state == "fails"
    assert near.verdict.startswith("Nearly Type D (leakage 0.15%, random bases ")
    mixed = mechanisms_of(jacobians, [[0, 1, 3], [2, 4, 5]])
    assert "Nearly Type D" not in mixed.verdict
    assert "Type D leakage" in mixed.verdict
    assert "A search finds 2 near-factors of dimensions 3 and 3 (leakage 0.15%)" in mixed.verdict
    assert "A search finds" not in near.verdict
    exact = mechanisms_of(near_disjoint(0.0, 8), [3, 3])
    assert exact.type_d.state == "holds"
    assert "Nearly Type D" not in exact.verdict
    assert "leakage" not in exact.verdict


def test_near_factors_are_judged_as_blocks_and_one_factor_is_not_all_that_is_said():
    mixing = np.random.default_rng(2).normal(size=(6, 6))
    found = mechanisms_of(near_disjoint(0.0015, 8) @ mixing)
    assert found.factors.dimensions == (6,)
    assert found.blocks_from == "near-factors"
    assert [len(block) for block in found.blocks] == [3, 3]
    assert found.verdict.startswith("2 near-factors of dimensions 3 and 3; the next split leaks ")
    assert "Nearly Type D (leakage 0.15%" in found.verdict
    one = mechanisms_of(np.random.default_rng(0).normal(size=(5, 30, 6)))
    assert "one irreducible Type D factor of dimension 6. The best split found" in one.verdict
    assert "near-factors" not in one.verdict


@pytest.fixture(scope="module")
def trained():
    """A decoder fitted to a generator of Type D, by its latents."""
    from isorep.models import SlotAutoencoder

    generator = slot_generator(2, 2, 10, 0, activation="smooth", random_state=0)
    z = torch.tensor(generator.sample(1500), dtype=torch.float32)
    x = torch.tensor(generator(z.numpy().astype(float)), dtype=torch.float32)
    x = x / x.std()
    torch.manual_seed(0)
    decoder = SlotAutoencoder(20, (2, 2), hidden=(40, 40), activation="smooth").decoder
    optimiser = torch.optim.Adam(decoder.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 400)
    for _ in range(400):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(decoder(z), x).backward()
        optimiser.step()
        schedule.step()
    return decoder, z.numpy()


def test_a_trained_decoder_is_nearly_independent_in_its_blocks_and_found_without_them(trained):
    decoder, z = trained
    options = {"samples": 20, "higher_samples": 4}
    given = mechanisms(decoder, z, [2, 2], **options)
    leak = by_name(given.leakage)["D"]
    assert given.type_d.state == "fails"
    assert leak.near
    assert "Nearly Type D" in given.verdict
    turn = haar(4, np.random.default_rng(3))
    matrix = torch.tensor(turn, dtype=torch.float32)
    turned = mechanisms(lambda y: decoder(y @ matrix.T), (z @ turn).astype(np.float32), [2, 2], **options)
    assert by_name(turned.leakage)["D"].mean > 4 * leak.mean
    assert "Nearly Type D" not in turned.verdict
    free = mechanisms(lambda y: decoder(y @ matrix.T), (z @ turn).astype(np.float32), **options)
    assert free.blocks_from == "near-factors"
    assert free.near_factors.dimensions == (2, 2)
    assert by_name(free.leakage)["D"].near


# Inactive latents, the plateau, theorems -------------------------------------------------------------------------


def faint(strength):
    def decoder(z):
        a, b, c = z[:, 0], z[:, 1], z[:, 2]
        moved = torch.stack([torch.sinh(a), a, b, torch.exp(b), a**3], 1)
        return moved + strength * torch.sin(c)[:, None] * torch.tensor([1.0, -2, 3, 1, 0.5])

    return decoder


@pytest.mark.parametrize("blocks", [[[0, 2], [1]], [[0], [1], [2]], None])
def test_a_latent_without_effect_is_left_out_named_and_the_rest_judged(rng, blocks):
    z = rng.normal(size=(40, 3)) * [1, 1, 5]
    for strength in (0.0, 1e-8):
        found = mechanisms(faint(strength), z, blocks, **SMALL)
        assert found.inactive == (2,)
        assert found.type_d.state == found.type_s.state == found.type_h2.state == "holds"
        assert sorted(found.blocks) == [(0,), (1,)]
        assert found.factors.dimensions == (1, 1)
        assert found.factors.subspaces[0].shape == (3, 1)
        assert any("latent 2 is inactive" in caveat for caveat in found.caveats)
    loud = mechanisms(faint(0.1), z, blocks, **SMALL)
    assert loud.inactive == ()
    assert loud.type_d is None or loud.type_d.state == "fails"
    assert not any("inactive" in caveat for caveat in loud.caveats)


def test_inactivity_is_of_effects_and_not_of_units(rng):
    z = rng.normal(size=(30, 3)) * [1e6, 1.0, 1e-6]
    found = mechanisms(lambda y: y / np.array([1e6, 1.0, 1e-6]) @ np.eye(3, 6), z, **SMALL)
    assert found.inactive == ()
    weak = mechanisms_of(np.eye(3)[None] * [1, 1, 1e-8], [1, 1, 1])
    assert weak.inactive == ()
    assert any("units are unknown" in caveat for caveat in weak.caveats)


def test_a_perfect_map_is_answered_at_coarse_tolerances_and_a_dense_one_is_not_split():
    perfect = np.kron(np.eye(4), np.ones((3, 1)))[None]
    for tolerances in ((1e-3, 1e-2, 1e-1), (1e-2, 3e-2, 0.2)):
        found = mechanisms_of(perfect @ np.random.default_rng(0).normal(size=(4, 4)), tolerances=tolerances)
        assert [level.dimensions for level in found.factors.levels] == [(1, 1, 1, 1)] * 3
        assert found.type_d.state == "holds"
        dense = mechanisms_of(np.random.default_rng(1).normal(size=(2, 12, 4)), tolerances=tolerances)
        assert {level.dimensions for level in dense.factors.levels} <= {(4,), ()}


def test_the_plateau_over_tolerances_decides_and_precision_does_not_harm():
    def level(tolerance, dimensions, constant=True):
        state = "found" if dimensions else "undecided"
        return FactorLevel(tolerance, state, dimensions, 1.0, 1.0, np.zeros(0, int), constant=constant)

    factors = Factors((level(1e-6, (6,)), level(1e-4, (3, 3)), level(1e-3, (3, 3))))
    assert (factors.dimensions, factors.best.tolerance) == ((3, 3), 1e-4)
    assert factors.state == "depends on the tolerance"
    assert Factors((level(1e-6, (6,)), level(1e-4, (6,)), level(1e-3, (3, 3)))).dimensions == (6,)
    assert Factors((level(1e-6, (6,)), level(1e-4, (3, 3)), level(1e-3, ()))).dimensions == (3, 3)
    leaking = near_disjoint(1e-10, 6)  # 1e-5 in size: between two of the tolerances in double precision
    for dtype in (np.float64, np.float32):
        assert mechanisms_of(leaking.astype(dtype)).factors.dimensions == (3, 3)


def of_states(name, states, irreducible="irreducible", method="row norms"):
    levels = tuple(
        Level(tolerance, state, 1.0, 1.0, 0.0, 0, method)
        for tolerance, state in zip((1e-6, 1e-4, 1e-2), states, strict=True)
    )
    parts = tuple(Irreducibility(block, (irreducible,) * 3, 1.0) for block in range(2))
    return Criterion(name, "", (Evidence(method, levels),), parts)


@pytest.mark.parametrize(
    ("states", "irreducible", "applies", "words"),
    [
        (("holds", "holds", "holds"), "irreducible", True, "was found: locally"),
        (("holds", "holds", "undecided"), "irreducible", True, "at tolerances 1e-06, 0.0001"),
        (("holds", "undecided", "undecided"), "irreducible", None, "depends on the tolerance"),
        (("fails", "fails", "holds"), "irreducible", None, "depends on the tolerance"),
        (("fails", "undecided", "undecided"), "irreducible", False, "does not apply; missing at 1e-06"),
        (("undecided", "undecided", "undecided"), "irreducible", None, "is open"),
        (("fails", "fails", "fails"), "irreducible", False, "does not apply"),
        (("holds", "holds", "holds"), "reducible", False, "does not apply"),
    ],
)
def test_a_theorem_applies_only_where_its_criterion_holds(states, irreducible, applies, words):
    found = theorem(of_states("S", states, irreducible), True, (), (), 2)
    assert found.applies is applies
    assert words in found.sentence


def test_type_m_of_several_dimensions_is_open_in_our_reading_and_fails_where_it_fails():
    found = theorem(of_states("M", ("holds",) * 3, "reducible"), True, (), (), 2)
    assert found.applies is None
    assert "our reading" in found.sentence
    assert theorem(of_states("M", ("fails",) * 3, "reducible"), True, (), (), 2).applies is False


def test_type_d_settles_what_was_open_about_m_and_s():
    undecided, held = ("undecided",) * 3, ("holds", "holds", "fails")
    given = {"D": of_states("D", held), "M": of_states("M", undecided), "S": of_states("S", undecided)}
    found, _ = checked_hierarchy(given, full_rank=True)
    for name in "MS":
        assert [level.state for level in found[name].levels] == ["holds", "holds", "undecided"]
        assert [level.method for level in found[name].levels] == ["implied by Type D"] * 2 + ["row norms"]
    lost, _ = checked_hierarchy(given, full_rank=False)
    assert lost["M"].state == lost["S"].state == "undecided"


def test_wide_disjoint_blocks_hold_type_s_though_bases_are_too_many_to_see():
    apart, shared = (slot_generator(2, 3, 12, overlap) for overlap in (0, 2))
    found = mechanisms_of(apart.jacobian(apart.sample(2)), [3, 3], subsets=20)
    assert found.type_d.state == found.type_m.state == found.type_s.state == "holds"
    assert not any("drawn at random" in caveat for caveat in found.caveats)
    assert found.type_s.levels[0].method == "implied by Type D"
    other = mechanisms_of(shared.jacobian(shared.sample(2)), [3, 3], subsets=20)
    assert other.type_m.state == other.type_s.state == "undecided"


def test_h2_holding_beside_h3_failing_is_no_impossibility_in_words():
    given = {"H2": of_states("H2", ("holds",) * 3), "H3": of_states("H3", ("fails",) * 3)}
    _, steps = checked_hierarchy(given, full_rank=True)
    assert "cannot be" not in steps[0].sentence
    assert "possible with small numbers" in steps[0].sentence


def test_a_latent_that_neither_varies_nor_moves_anything_is_inactive(rng):
    z = rng.normal(size=(40, 3)) * [1, 1, 0] + [0, 0, 0.7]
    for strength in (0.0, 1e-8):
        found = mechanisms(faint(strength), z, [1, 1, 1], **SMALL)
        assert found.inactive == (2,)
        assert found.type_d.state == "holds"
    assert mechanisms(faint(0.1), z, [1, 1, 1], **SMALL).inactive == ()
    jacobian = np.array([[[1.0, 0, 0, 0], [2, 0, 0, 0], [0, 0, 1e-5, 0], [0, 0, 1e-5, 3]]])
    dead = mechanisms_of(jacobian, [1, 1, 1, 1])
    assert dead.inactive == (1,)
    assert dead.blocks == ((0,), (2,), (3,))
    assert any(caveat.startswith("column 2 is below") for caveat in dead.caveats)
    assert "block 1 has only inactive latents: the others are numbered without it" in dead.caveats
    assert not any("only inactive latents" in caveat for caveat in mechanisms_of(jacobian, [[0, 1], [2], [3]]).caveats)
    assert mechanisms_of(0 * jacobian, [1, 1, 1, 1]).inactive == (0, 1, 2, 3)


def test_a_single_latent_does_not_act_together_with_others():
    assert mechanisms_of([[[1.0], [2.0]]]).verdict == "There is only one active latent."
    assert mechanisms_of([[[1.0, 0], [2.0, 0]]]).verdict.startswith("There is only one active latent")
    assert "act together" in mechanisms_of(np.random.default_rng(0).normal(size=(3, 8, 2))).verdict


def test_what_is_open_is_not_listed_as_missing(rng):
    dense = mechanisms_of(rng.normal(size=(2, 9, 4)), [2, 2])
    said = next(each.sentence for each in dense.theorems if each.name == "M")
    missing, opened = said.split("open: ")
    assert "does not apply" in missing
    assert "sparsity condition" in opened
    assert "sparsity condition" not in missing


def test_a_cut_that_serves_all_but_a_few_samples_is_not_said_to_turn():
    rng = np.random.default_rng(3)
    gains = np.ones((9, 1, 3))
    gains[np.arange(3) * 3, 0, np.arange(3)] = 0.01  # samples at which one latent hardly moves anything
    jacobians = np.kron(np.eye(3), np.ones((5, 1))) * gains + 0.03 * rng.normal(size=(9, 15, 3))
    found = mechanisms_of(jacobians @ haar(3, rng))
    assert found.near_factors.state == "one"
    assert found.near_factors.turning is None
    assert found.near_factors.next_split.leak < 0.05
    assert found.near_factors.leakage.mean > 0.05
    assert "At single samples, where all directions have equal weight, it leaks " in found.verdict
    assert "but different ones" not in found.verdict
    assert mechanisms_of((jacobians / gains)[1:3] @ haar(3, rng)).near_factors.state == "found"
