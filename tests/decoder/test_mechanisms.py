"""``isorep.decoder.mechanisms``: generators on both sides of every criterion, invariances, and hard inputs."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import isorep
from isorep.datasets import slot_generator
from isorep.decoder import jacobian, mechanisms, mechanisms_of
from isorep.decoder.mechanism.factors import row_components
from isorep.decoder.mechanism.result import Criterion, Evidence, Level
from isorep.decoder.mechanism.theorems import _slices, checked_hierarchy

torch = pytest.importorskip("torch")
SMALL = {"samples": 8, "higher_samples": 4}


def of(generator, n=8, **options):
    latents = generator.sample(n)
    return mechanisms(generator.module(torch.float64), latents, generator.blocks, **{**SMALL, **options})


def states(found):
    return {name: criterion.state for name, criterion in found.criteria.items()}


# Both sides of every criterion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["leaky_relu", "smooth"])
@pytest.mark.parametrize("interaction", ["additive", "product", "occlusion"])
@pytest.mark.parametrize("overlap", [0, 2])
def test_verdicts_are_the_generator_s(interaction, activation, overlap):
    generator = slot_generator(2, 2, 8, overlap, interaction=interaction, activation=activation, random_state=1)
    found, truth = of(generator, 14, samples=14), generator.truth
    assert (found.type_d.state == "holds") == truth.type_d
    assert (found.type_m.state == "holds") == truth.type_m
    assert found.type_s.state == ("holds" if truth.type_s else "fails")
    for criterion, by_swaps, by_derivatives in (
        (found.type_h2, truth.h2_swaps, truth.h2_derivatives),
        (found.type_h3, truth.h3_swaps, truth.h3_derivatives),
    ):
        assert (criterion.way("swaps").state == "holds") == by_swaps
        if activation == "smooth":
            assert (criterion.way("derivatives").state == "holds") == by_derivatives
            assert (criterion.state == "holds") == (by_swaps and by_derivatives)
        else:
            assert (criterion.state == "holds") == by_swaps


def test_type_s_and_m_fail_where_windows_overlap_too_much():
    generator = slot_generator(2, 2, 6, 4)
    found = of(generator)
    assert generator.truth.type_s is False
    assert found.type_s.state == "fails"
    assert found.type_s.evidence[0].levels[0].method == "exact gap"
    generator = slot_generator(2, 2, 4, 3)
    assert generator.truth.type_m is False
    assert of(generator).type_m.state == "fails"


def test_the_bound_is_used_beyond_the_limit_says_so_and_decides_only_upwards():
    generator = slot_generator(2, 2, 8, 2)
    exact, bound = of(generator, 2).type_s, of(generator, 2, subsets=50).type_s
    assert exact.evidence[0].levels[0].method == "exact gap"
    assert bound.evidence[0].levels[0].method == "bound"
    assert 0 < bound.evidence[0].levels[0].worst <= exact.evidence[0].levels[0].worst
    generator = slot_generator(2, 2, 8, 4)
    assert of(generator, 2, subsets=50).type_s.state == "undecided"
    assert of(generator, 2).type_s.state == "holds"


def test_relu_networks_are_judged_by_swaps_and_the_result_says_why():
    found = of(slot_generator(2, 2, 8, 2))
    assert found.type_h2.way("derivatives").levels == ()
    assert any("piecewise" in caveat and "swaps" in caveat for caveat in found.caveats)
    assert found.type_h2.state == "holds"


def test_affine_decoders_pass_h2_by_convention_but_are_degenerate_and_not_identified():
    weights = torch.tensor(np.random.default_rng(0).normal(size=(2, 5)))
    found = mechanisms(lambda z: z @ weights, np.random.default_rng(1).normal(size=(10, 2)), [1, 1], **SMALL)
    assert found.type_h2.state == "holds"
    assert found.type_h2.irreducible[0].state == "degenerate"
    assert next(each for each in found.theorems if each.name == "H2").applies is False


def test_third_order_separates_bilinear_interaction_from_more():
    z = np.random.default_rng(0).normal(size=(12, 2))

    def bilinear(z):
        a, b = z[:, 0], z[:, 1]
        return torch.stack([torch.sinh(a) + a * b, torch.exp(b), a**3, a - 2 * b], 1)

    def more(z):
        return torch.cat([bilinear(z), (z[:, :1] ** 2 * z[:, 1:])], 1)

    for decoder, h3 in ((bilinear, "holds"), (more, "fails")):
        found = mechanisms(decoder, z, [1, 1], **SMALL)
        assert found.type_h2.state == "fails"
        assert found.type_h3.state == h3
        assert found.type_h3.way("swaps").state == h3
        assert found.type_h3.way("derivatives").state == h3


def test_occlusion_is_local_only_and_not_called_a_contradiction():
    generator = slot_generator(2, 2, 10, 4, interaction="occlusion", activation="smooth", random_state=2)
    found = of(generator, 30, samples=30)
    step = next(each for each in found.hierarchy if (each.premise, each.conclusion) == ("D", "H2"))
    assert step.state == "local only"
    assert found.type_h2.way("derivatives").state == "holds"
    assert found.type_h2.way("swaps").state == found.type_h2.state == "fails"
    assert any("different blocks at different samples" in caveat for caveat in found.caveats)


# Factors -------------------------------------------------------------------------------------------------------------


def test_factors_are_found_in_a_foreign_basis_and_judged_as_blocks():
    generator = slot_generator(3, [2, 1, 2], 7, 0, activation="smooth")
    mixing = np.random.default_rng(0).normal(size=(5, 5))
    latents = generator.sample(8)
    network, turn = generator.module(torch.float64), torch.tensor(mixing)
    found = mechanisms(lambda z: network(z @ turn.T), latents @ np.linalg.inv(mixing).T, **SMALL)
    assert found.factors.state == "found"
    assert found.factors.dimensions == (2, 2, 1)
    assert found.factors.constant
    assert not found.given
    assert states(found)["D"] == "holds"
    assert found.type_h2.state == "holds"
    best = found.factors.best
    assert best.components == 3
    assert best.components_here == 1
    assert best.nonzeros < best.nonzeros_here
    assert best.gap > 0
    expected = np.linalg.inv(mixing)
    for block in generator.blocks:
        truth = np.linalg.qr(expected[:, block])[0]
        assert any(np.allclose(basis @ (basis.T @ truth), truth, atol=1e-6) for basis in found.factors.subspaces)


def test_factors_that_turn_from_sample_to_sample_are_not_taken_for_blocks():
    def decoder(z):
        a, b = z[:, 0], z[:, 1]
        return torch.stack([a * b, torch.sinh(a * b), a + b**2, (a + b**2) ** 3 + (a + b**2)], 1)

    found = mechanisms(decoder, 1 + np.random.default_rng(0).random((8, 2)), **SMALL)
    assert found.factors.dimensions == (1, 1)
    assert not found.factors.constant
    assert found.factors.best.angle > 5
    assert found.criteria == {}
    assert "not the same" in found.verdict


def test_blocks_that_do_not_follow_the_factors_fail_and_reducible_blocks_are_named():
    generator = slot_generator(2, 1, 6, 0)
    latents = generator.sample(6)
    found = mechanisms(generator, latents, [[0, 1]], **SMALL)
    assert found.type_d.irreducible[0].state == "reducible"
    assert found.type_s.irreducible[0].state == "reducible"
    assert all(each.applies is False for each in found.theorems)
    turned = mechanisms_of(generator.jacobian(latents) @ np.array([[1.0, 1], [1, -1]]), [1, 1])
    assert turned.type_d.state == "fails"
    assert turned.type_s.state == "fails"
    assert turned.factors.dimensions == (1, 1)


# Invariances ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0, 3])
def test_rescaling_permuting_and_basis_changes_inside_blocks_change_no_verdict(overlap):
    rng = np.random.default_rng(5)
    generator = slot_generator(3, [2, 1, 2], 8, overlap)
    jacobians = generator.jacobian(generator.sample(5))
    plain = mechanisms_of(jacobians, generator.blocks)
    inside = np.zeros((5, 5))
    for block, scale in zip(generator.blocks, (1e-4, 1.0, 1e5), strict=True):
        inside[np.ix_(block, block)] = scale * rng.normal(size=(len(block), len(block)))
    rows, columns = rng.permutation(jacobians.shape[1]), rng.permutation(5)
    moved = 1e6 * (jacobians @ inside)[:, rows][:, :, columns]
    places = np.argsort(columns)
    other = mechanisms_of(moved, [[int(places[latent]) for latent in block] for block in reversed(generator.blocks)])
    assert states(other) == states(plain)
    for name in "DMS":
        levels = [found.criteria[name].evidence[0].levels[:2] for found in (plain, other)]
        for one, two in zip(*levels, strict=True):
            assert one.worst == pytest.approx(two.worst, rel=1e-6, abs=1e-9)
        assert [each.state for each in plain.criteria[name].irreducible] == [
            each.state for each in reversed(other.criteria[name].irreducible)
        ]
    assert plain.factors.dimensions == other.factors.dimensions


def test_hessians_are_judged_alike_in_any_basis_of_a_block():
    generator = slot_generator(2, 2, 8, 2, interaction="product", activation="smooth")
    turn = np.zeros((4, 4))
    turn[:2, :2], turn[2:, 2:] = [[300.0, 0], [10, 20]], [[1e-3, 0], [0, 1]]
    latents, network, matrix = generator.sample(4), generator.module(torch.float64), torch.tensor(turn)
    plain = mechanisms(network, latents, [2, 2], **SMALL)
    other = mechanisms(lambda z: network(z @ matrix.T), latents @ np.linalg.inv(turn).T, [2, 2], **SMALL)
    for name in ("H2", "H3"):
        one, two = (found.criteria[name].way("derivatives").levels[0].worst for found in (plain, other))
        assert one == pytest.approx(two, rel=1e-6)
    assert [each.state for each in plain.type_h2.separable] == [each.state for each in other.type_h2.separable]


def test_the_same_seed_gives_the_same_result():
    generator = slot_generator(2, 2, 6, 2, activation="smooth")
    first, second = (of(generator, 30, samples=5).to_dict() | {"seconds": 0} for _ in range(2))
    assert first == second


# Hard inputs ---------------------------------------------------------------------------------------------------------


def test_single_precision_finds_the_same_with_coarser_tolerances():
    generator = slot_generator(2, 2, 8, 0, activation="smooth")
    found = mechanisms(generator.module(), generator.sample(6).astype(np.float32), generator.blocks, **SMALL)
    assert found.source.endswith("float32")
    assert found.tolerances == (1e-4, 1e-3, 1e-2)
    assert found.type_d.state == "holds"
    assert found.type_h2.state == "holds"
    assert found.factors.dimensions == (2, 2)
    overlapping = slot_generator(2, 2, 8, 3)
    jacobians = overlapping.jacobian(overlapping.sample(4)).astype(np.float32)
    found = mechanisms_of(jacobians, overlapping.blocks)
    assert found.type_d.state == "fails"
    assert found.type_m.state == "holds"
    assert 1e-4 in found.type_s.holds_at


def test_one_sample_one_latent_and_one_block_are_normal_cases():
    one = mechanisms(lambda z: torch.cat([z, z**3], 1), [[0.7]], [1])
    assert one.samples == one.dimension == 1
    assert states(one) == {"D": "holds", "M": "holds", "S": "holds", "H2": "holds", "H3": "holds"}
    assert all(theorem.applies is False for theorem in one.theorems)
    assert "one there is nothing" in one.theorems[0].sentence
    free = mechanisms(lambda z: torch.cat([z, z**3], 1), [[0.7]])
    assert free.factors.dimensions == (1,)
    assert free.criteria == {}
    json.loads(free.to_json())


def test_dead_outputs_with_noise_change_nothing():
    generator = slot_generator(2, 2, 8, 0)
    jacobians = generator.jacobian(generator.sample(4))
    noise = 1e-7 * np.random.default_rng(0).normal(size=(4, 3, 4))
    found = mechanisms_of(np.concatenate([jacobians, noise], axis=1), generator.blocks)
    assert states(found) == {"D": "holds", "M": "holds", "S": "holds"}
    assert found.factors.dimensions == (2, 2)
    assert {each.state for each in found.type_d.irreducible} == {"irreducible"}


def test_leaks_make_the_verdict_depend_on_the_tolerance_and_it_says_at_which_it_holds():
    generator = slot_generator(2, 1, 8, 0)
    jacobians = generator.jacobian(generator.sample(3))
    leaking = jacobians + 1e-3 * np.abs(jacobians).max() * (jacobians == 0)
    found = mechanisms_of(leaking, generator.blocks, tolerances=(1e-6, 1e-4, 1e-2))
    assert found.type_d.state == "depends on the tolerance"
    assert found.type_d.holds_at == (0.01,)
    assert "0.01" in found.verdict


def test_a_latent_that_moves_nothing_is_inactive_and_the_rest_is_judged():
    jacobians = np.random.default_rng(0).normal(size=(3, 6, 3))
    jacobians[:, :, 1] = 0
    found = mechanisms_of(jacobians, [[0, 1], [2]])
    assert found.inactive == (1,)
    assert found.deficient == 0.0
    assert found.factors.state != "rank deficient"


@pytest.mark.parametrize("kind", ["same direction", "few outputs"])
def test_rank_deficient_jacobians_are_said_to_be_and_identify_nothing(kind):
    jacobians = np.random.default_rng(0).normal(size=(3, 6, 3))
    if kind == "same direction":
        jacobians[:, :, 2] = 2 * jacobians[:, :, 0]
    else:
        jacobians = jacobians[:, :2]
    found = mechanisms_of(jacobians, [[0, 1], [2]])
    assert found.deficient == 1.0
    assert found.factors.state == "rank deficient"
    assert found.type_s.state == found.type_m.state == "fails"
    assert all("full rank" in theorem.sentence for theorem in found.theorems)
    assert {each.state for each in found.hierarchy} <= {"not applicable", "agrees"}


def test_numpy_functions_have_jacobians_by_differences_and_swaps():
    z = np.random.default_rng(0).normal(size=(20, 2))

    def decoder(z):
        return np.stack([np.sinh(z[:, 0]), np.exp(z[:, 1]), z[:, 0] ** 3 + z[:, 0]], axis=1)

    found = mechanisms(decoder, z, [1, 1], samples=10)
    assert found.source == "central differences"
    assert states(found) == {"D": "holds", "M": "holds", "S": "holds", "H2": "holds", "H3": "holds"}
    assert found.type_h2.irreducible[0].state == "not tested"
    assert any("not a torch function" in caveat for caveat in found.caveats)
    mixed = mechanisms(lambda z: decoder(z) + np.tanh(z[:, :1] * z[:, 1:]), z, [1, 1], samples=10)
    assert states(mixed)["H2"] == states(mixed)["H3"] == states(mixed)["D"] == "fails"


def test_given_jacobians_replace_the_decoder_s():
    generator = slot_generator(2, 1, 5, 0)
    latents = generator.sample(4)
    network = generator.module(torch.float64)
    found = mechanisms(network, latents, [1, 1], jacobians=jacobian(network, latents), **SMALL)
    assert found.source == "given"
    assert found.type_h2.state == "holds"


def test_the_sparsity_condition_compares_with_a_reference():
    generator = slot_generator(2, 1, 6, 2)
    latents = generator.sample(5)
    mixed = np.array([[1.0, 1], [1, -1]])
    network = generator.module(torch.float64)
    good = mechanisms(generator, latents, [1, 1], reference=(network, latents), **SMALL)
    assert {each.share for each in good.sparsity} == {1.0}
    theorem = next(each for each in good.theorems if each.name == "M")
    assert theorem.applies is True
    bad = mechanisms(
        lambda z: generator(z @ mixed), latents @ np.linalg.inv(mixed), [1, 1], reference=(network, latents)
    )
    assert {each.share for each in bad.sparsity} == {0.0}
    assert next(each for each in bad.theorems if each.name == "M").applies is False
    with pytest.raises(isorep.InputError, match="reference has 5 latents and this decoder 4"):
        mechanisms(generator, latents[:4], [1, 1], reference=(network, latents))


# Hierarchy, theorems, lifting ------------------------------------------------------------------------------------


def test_a_contradiction_is_numerical_indecision_and_never_silent():
    def criterion(name, state, method="row norms"):
        return Criterion(name, "", (Evidence(method, (Level(1e-6, state, 1.0, 1.0, 0.0, 0, method),)),))

    given = {"D": criterion("D", "holds"), "M": criterion("M", "fails"), "S": criterion("S", "holds")}
    found, steps = checked_hierarchy(given, full_rank=True)
    assert found["D"].state == found["M"].state == "undecided"
    assert found["S"].state == "holds"
    assert [step.state for step in steps] == ["numerical indecision", "agrees"]
    assert "numerical indecision" in found["M"].evidence[0].levels[0].note
    found, steps = checked_hierarchy(
        {"H2": criterion("H2", "holds", "swaps"), "H3": criterion("H3", "fails", "swaps")}, full_rank=True
    )
    assert found["H3"].state == "undecided"
    assert steps[0].state == "numerical indecision"


def test_theorems_name_the_missing_assumption():
    generator = slot_generator(2, 2, 8, 2, activation="smooth")
    by_name = {each.name: each for each in of(generator).theorems}
    assert by_name["D"].applies is False
    assert "independence itself" in by_name["D"].sentence
    assert by_name["M"].applies is None  # generic blocks of two dimensions split by containment, in our reading
    assert "irreducible" in by_name["M"].sentence
    assert by_name["S"].applies
    assert 1e-6 in by_name["S"].applies_at
    assert "sparsity condition" in " ".join(by_name["M"].missing)


def test_lifting_is_never_proved_and_sees_gaps_folds_and_lost_rank():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 2))
    stretch = lambda z: torch.stack([z[:, 0], torch.sinh(z[:, 0]), z[:, 1], torch.exp(z[:, 1])], 1)  # noqa: E731
    fold = lambda z: torch.stack([z[:, 0] ** 2, z[:, 0] ** 2 + 1, z[:, 1], torch.exp(z[:, 1])], 1)  # noqa: E731
    whole = {check.name: check.state for check in mechanisms(stretch, z, [1, 1], **SMALL).lifting}
    assert set(whole.values()) == {"not falsified", "not tested"}
    assert whole["connected slices"] == "not falsified"
    apart = z + np.where(np.arange(400) % 2, 20.0, 0)[:, None]
    found = {check.name: check.state for check in mechanisms(stretch, apart / 10, [1, 1], **SMALL).lifting}
    assert found["simply connected latents"] == "falsified"
    folded = np.concatenate([z, z * [-1, 1]])
    found = {check.name: check.state for check in mechanisms(fold, folded, [1, 1], **SMALL).lifting}
    assert found["no collisions"] == "falsified"
    given = mechanisms(stretch, z[:5], [1, 1], domain="convex").lifting
    assert given[0].state == given[1].state == "not falsified"


def test_few_different_latents_tell_nothing_about_connectedness():
    stretch = lambda z: torch.stack([z[:, 0], torch.sinh(z[:, 0]), z[:, 1], torch.exp(z[:, 1])], 1)  # noqa: E731
    z = np.random.default_rng(0).normal(size=(400, 2))

    def states(latents):
        return [check.state for check in mechanisms(stretch, latents, [1, 1], **SMALL).lifting[:2]]

    assert states(np.repeat(z[:20], 20, axis=0)) == ["not tested", "not tested"]
    assert states((z > 0).astype(float)) == ["not tested", "not tested"]
    assert states(np.c_[z[:, 0], np.where(z[:, 1] > 0, 0.1, 0.9)])[1] == "not tested"
    assert states(z.astype(np.float16))[1] == "not falsified"
    assert states(np.tile(z[:1], (400, 1))) == ["not tested", "not tested"]
    assert states(np.c_[z[:, 0], np.full(400, 0.3)])[1] == "not falsified"  # a slice may be a single point


@pytest.mark.parametrize("scale", [1e-300, 1e-310, 1e200])
def test_latents_whose_spread_has_no_square_are_refused(scale):
    z = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(isorep.InputError, match=r"latent 1 spreads over \de[+-]\d+: rescale it"):
        mechanisms(None, z * [1, scale], [1, 1], jacobians=np.tile(np.eye(2), (60, 1, 1)))


def test_slices_of_one_piece_are_seldom_taken_for_several_on_a_line():
    blocks = [np.array([0]), np.array([1])]
    draws = [np.random.default_rng(seed).normal(size=(100, 2)) for seed in range(10)]
    wrong = [_slices(each, blocks, None, np.random.default_rng(0))[0] == "falsified" for each in draws]
    assert sum(wrong) <= 1
    apart = draws[0] + np.where(np.arange(100) % 2, 20.0, 0)[:, None] * [1, 0]
    assert _slices(apart / apart.std(0), blocks, None, np.random.default_rng(0))[0] == "falsified"


@pytest.mark.parametrize("kind", [np, torch])
def test_a_constant_decoder_identifies_nothing_and_collides_everywhere(kind):
    z = np.random.default_rng(0).normal(size=(10, 3))
    constant = lambda z: kind.ones((len(z), 5)) + 0 * z[:, :1]  # noqa: E731
    found = mechanisms(constant, z, [1, 2], **SMALL)
    assert found.deficient == 1
    assert not any(each.applies for each in found.theorems)
    assert {check.name: check.state for check in found.lifting}["no collisions"] == "falsified"


def test_quadratic_decoders_are_no_piecewise_ones():
    quadratic = lambda z: torch.stack([z[:, 0] + z[:, 0] ** 2, z[:, 1] * z[:, 0], z[:, 1]], 1)  # noqa: E731
    found = mechanisms(quadratic, np.random.default_rng(0).normal(size=(10, 2)), [1, 1], **SMALL)
    assert found.type_h3.way("derivatives").state == "holds"
    assert found.type_h2.way("derivatives").state == "fails"
    assert not any("piecewise" in caveat for caveat in found.caveats)


def test_jacobians_are_judged_in_the_precision_they_come_in():
    jacobians = np.random.default_rng(0).normal(size=(2, 6, 2)) * (np.arange(6)[:, None] // 3 == np.arange(2))
    expected = {np.float64: 1e-6, np.float32: 1e-4, np.float16: 1e-2}
    for dtype, tolerance in expected.items():
        found = mechanisms_of(jacobians.astype(dtype), [1, 1])
        assert found.tolerances[0] == tolerance
        assert found.type_d.state == "holds"
    assert mechanisms_of(np.array([[1, 0], [0, 3]], dtype=np.int16), [1, 1]).tolerances[0] == 1e-6
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 1e-2)):
        tensor = torch.tensor(jacobians, dtype=dtype, requires_grad=True)
        assert mechanisms_of(tensor, [1, 1]).tolerances[0] == tolerance


def test_factors_of_many_outputs_take_no_square_of_them():
    rng = np.random.default_rng(0)
    n = 20_000  # squared, 3.2 GB
    jacobian = rng.normal(size=(n, 3))
    jacobian[: n // 2, 2] = jacobian[n // 2 :, :2] = 0
    tracemalloc.start()
    found = row_components(jacobian @ rng.normal(size=(3, 3)), 1e-6, 1e-13)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.dimensions == (2, 1)
    assert peak < 100e6


def test_the_gap_is_not_called_exact_where_bases_of_blocks_were_only_sampled():
    jacobian = np.random.default_rng(0).normal(size=(1, 8, 7))
    level = mechanisms_of(jacobian, [4, 3], subsets=50).type_s.evidence[0].levels[0]
    assert (level.state, level.method) == ("undecided", "no gap")
    assert mechanisms_of(jacobian, [4, 3]).type_s.evidence[0].levels[0].method == "exact gap"


# Results and wrong input -----------------------------------------------------------------------------------------


def test_the_result_prints_and_serialises_itself(tmp_path):
    found = of(slot_generator(2, 2, 6, 1))
    plain = json.loads(found.to_json(tmp_path / "found.json"))
    assert plain["schema"] == "isorep.mechanisms/1"
    assert plain["criteria"]["D"]["state"] == "fails"
    assert len(plain["criteria"]["S"]["evidence"][0]["levels"]) == 3
    assert "tolerance" in found.table()
    assert found.verdict in str(found)
    found.to_html(tmp_path / "found.html")
    assert (tmp_path / "found.html").stat().st_size < 1_500_000


@pytest.mark.parametrize(
    ("blocks", "options", "words"),
    [
        ([2, 1], {}, "do not make up 2 latents"),
        ([[0], [0, 1]], {}, "each of the latents 0 to 1 once"),
        ([[0], []], {}, "once"),
        ([["a"], [1]], {}, "lists of latents"),
        ("ab", {}, "lists of latents"),
        ([1, 1], {"tolerances": [1e-3]}, "at least three"),
        ([1, 1], {"tolerances": [0, 0.1, 0.2]}, "between 0 and 1"),
        ([1, 1], {"tolerances": "x"}, "at least three"),
        ([1, 1], {"domain": "torus"}, "domain is 'torus'"),
        ([1, 1], {"samples": 0}, "samples is 0"),
        ([1, 1], {"jacobians": np.ones((2, 3, 2))}, "does not fit"),
        ([1, 1], {"reference": 3}, "pair"),
        ([1, 1], {"higher_samples": 2.5}, "higher_samples is 2.5"),
        ([1, 1], {"random_state": -1}, "random_state is -1"),
        ([1, 1], {"angle": float("nan")}, "angle is nan"),
    ],
)
def test_wrong_calls_are_refused_in_one_sentence(blocks, options, words):
    with pytest.raises(isorep.InputError, match=words):
        mechanisms(lambda z: torch.cat([z, z**3], 1), np.ones((3, 2)) * [[1], [2], [3]], blocks, **options)


def test_wrong_jacobians_are_refused():
    for given, words in (
        (np.full((2, 3, 2), np.nan), "not finite"),
        (np.ones(3), "shape"),
        (np.array([[["a"]]]), "numbers"),
        (np.ones((0, 3, 2)), "shape"),
    ):
        with pytest.raises(isorep.InputError, match=words):
            mechanisms_of(given, [1, 1])
    with pytest.raises(isorep.InputError, match="neither a decoder"):
        mechanisms(None, np.ones((2, 2)))
    with pytest.raises(isorep.InputError, match="pass a torch module"):
        mechanisms(3, np.ones((2, 2)))


def test_importing_the_room_does_not_import_torch():
    code = "import sys, isorep.decoder; isorep.decoder.mechanisms; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_sparsest_bases_that_were_only_sampled_decide_nothing():
    generator = slot_generator(2, 3, 12, 2)
    found = of(generator, 2, subsets=20)
    assert found.type_m.state == "undecided"
    assert found.type_m.evidence[0].levels[0].worst >= 1
    assert any("drawn at random" in caveat for caveat in found.caveats)
    assert of(generator, 2).type_m.state == "holds"


def test_of_a_decoder_that_does_nothing_nothing_is_said_to_hold():
    rng = np.random.default_rng(0)
    still = isorep.decoder.mechanisms_of(np.zeros((5, 4, 2)), [1, 1])
    assert still.verdict == "No latent moves the outputs: there is nothing to judge."
    assert still.inactive == (0, 1)
    half = np.zeros((5, 4, 3))
    half[:, :2, 0], half[:, 2:, 1] = rng.normal(size=(2, 5, 2))
    one = isorep.decoder.mechanisms_of(half, [1, 1, 1])
    assert one.inactive == (2,)
    assert one.verdict.startswith("Types D,")
