"""Planted atoms recur at their rate and none by chance; dead atoms, duplicates, splits, absorption, bad input."""

import numpy as np
import pytest

import isorep
from isorep.dictionaries import chance, matching, recurrence, rotated_dictionary
from isorep.errors import InputError

from .worlds import planted, sparse_codes, unit


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("shared", "answer"), [(210, "most"), (90, "some"), (15, "few"), (0, "none")])
def test_planted_atoms_recur_at_their_rate(shared, answer, dtype):
    source, target, order = planted(shared=shared)
    found = recurrence(source.astype(dtype), target.astype(dtype))
    main = found.pairs[0].decoder
    assert main.one_to_one.share == shared / 300
    assert main.forward.share == shared / 300
    assert main.backward.share == shared / 400
    assert main.one_to_one.share_null.mean == 0
    assert found.verdict.answer == answer
    assert (order[main.partner[:shared]] == np.arange(shared)).all()
    assert found.sides[0].recurs_in == (300 - shared, shared)
    assert main.gap < 1e-6


def test_independent_dictionaries_with_the_same_preferred_directions_do_not_recur():
    """Anisotropic atoms are close by chance: rotated dictionaries know it, random ones do not."""
    rng = np.random.default_rng(3)
    spread = np.geomspace(1, 0.02, 40)
    source, target = (rng.normal(size=(400, 40)) * spread for _ in range(2))
    level = recurrence(source, target).pairs[0].decoder.one_to_one
    assert level.share > level.random_share + 0.2
    assert level.share_null.p_value > 0.05
    assert abs(level.mean - level.mean_null.mean) < 0.02
    assert recurrence(source, target).verdict.answer == "none"


def test_a_rotation_of_an_isotropic_dictionary_keeps_its_angles_and_duplicates():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(16, 16)))[0]
    atoms = np.concatenate([np.eye(16), basis, np.eye(16)]).astype(np.float32)
    turned = rotated_dictionary(atoms)(rng)
    assert np.allclose(turned @ turned.T, atoms @ atoms.T, atol=1e-4)
    assert not np.allclose(turned, atoms, atol=0.1)


def test_the_answer_does_not_depend_on_order_scale_or_a_rotation_of_both():
    source, target, _ = planted(shared=100)
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(64, 64)))[0]
    before = recurrence(source, target).pairs[0].decoder.one_to_one
    after = recurrence(3 * source[rng.permutation(300)] @ turn, target @ turn).pairs[0].decoder.one_to_one
    assert np.isclose(before.mean, after.mean, atol=1e-5)
    assert before.share == after.share


def test_one_atom_among_many_recurs_in_either_order():
    """The larger dictionary is rotated: a single atom can only change its sign."""
    atoms = np.random.default_rng(1).normal(size=(200, 32))
    for pair in ((atoms, atoms[:1]), (atoms[:1], atoms)):
        found = recurrence(*pair)
        assert found.pairs[0].decoder.one_to_one.share == 1
        assert found.verdict.answer == "most"
        assert not any("by chance" in each for each in found.caveats)
    alone = recurrence(atoms[:1], atoms[:1])
    assert alone.verdict.answer == "none"
    (said,) = [each for each in alone.caveats if "by chance" in each]
    assert "threshold" not in said.split(": ")[1]


def test_equal_atoms_reach_a_threshold_of_one_and_others_do_not():
    rng = np.random.default_rng(0)
    source, other = rng.normal(size=(2, 60, 32))
    target = np.concatenate([3 * source[:30], other])
    found = recurrence(source, target, threshold=1)
    assert found.share == 0.5
    assert found.sides[0].recurs_in == (30, 30)
    assert recurrence(source, target + 0.1 * rng.normal(size=target.shape), threshold=1).share == 0


def test_dead_atoms_are_left_out_and_counted():
    source, target, _ = planted(shared=100)
    source = np.concatenate([np.zeros((7, 64)), source])
    codes = [sparse_codes(400, np.full(307, 0.3)), sparse_codes(400, np.full(400, 0.3), seed=1)]
    codes[0][:, [7, 8]] = 0
    found = recurrence(source, target, activations=codes)
    side = found.sides[0]
    assert (side.atoms, side.alive, side.zero, side.never_active) == (307, 298, 7, 2)
    assert (found.pairs[0].decoder.partner[:9] == -1).all()
    assert found.pairs[0].decoder.one_to_one.share == 98 / 298
    by_vector = recurrence(source, target, frequencies=[codes[0].mean(0), np.ones(400)])
    assert by_vector.sides[0].never_active == 2


def test_duplicates_share_a_best_match_but_not_a_partner():
    source, target, _ = planted(atoms=50, others=60, shared=0)
    doubled = np.concatenate([target, np.repeat(source[:1], 5, axis=0)])
    found = recurrence(source, doubled)
    assert found.sides[1].duplicates == 4
    level = found.pairs[0].decoder
    assert level.backward.share == 5 / 65
    assert level.one_to_one.share == 1 / 50
    assert any("nearly equal an earlier one" in note for note in found.caveats)
    assert not any("nearly" in note for note in recurrence(source, target).caveats)


def test_unsigned_atoms_match_their_negative():
    source, target, _ = planted(shared=100)
    assert recurrence(source, -target).pairs[0].decoder.one_to_one.share == 0
    assert recurrence(source, -target, signed=False).pairs[0].decoder.one_to_one.share == 100 / 300


def test_activations_alone_and_beside_decoders():
    source, target, order = planted(shared=100)
    codes = sparse_codes(600, np.full(300, 0.1))
    other = sparse_codes(600, np.full(400, 0.1), seed=1)
    other[:, np.argsort(order)[:80]] = codes[:, :80]  # 80 of the 100 shared atoms are active alike
    alone = recurrence(activations=[codes, other])
    assert alone.pairs[0].decoder is None
    assert alone.pairs[0].main.measure == "correlation"
    assert alone.pairs[0].main.one_to_one.share == 80 / 300
    found = recurrence(source, target, activations=[codes, other]).pairs[0]
    matched = len(found.together.atoms)
    assert np.isclose(found.together.both, 80 / matched)
    assert np.isclose(found.together.cosine_only, 20 / matched)
    assert found.together.correlation_only == 0
    assert found.activations.one_to_one.mean_null.mean < 0.3


def test_recurrence_rises_with_frequency_where_it_was_planted_so():
    source, target, _ = planted(shared=150)
    frequency = np.where(np.arange(300) < 150, 0.2, 0.01) * np.random.default_rng(0).uniform(0.8, 1.2, 300)
    found = recurrence(source, target, frequencies=[frequency, np.ones(400)]).pairs[0].curves
    bins = found[0].bins
    assert sum(each.atoms for each in bins) == 300
    assert [each.share for each in bins] == sorted(each.share for each in bins)
    assert (bins[0].share, bins[-1].share) == (0, 1)
    assert all(each.interval.low <= each.share <= each.interval.high and each.chance == 0 for each in bins)
    assert len(found[1].bins) == 1  # one frequency, one bin


def test_a_split_atom_is_found_and_one_that_recurs_whole_is_none():
    rng = np.random.default_rng(0)
    target = unit(rng.normal(size=(200, 128)))
    source = np.concatenate([[target[0] + target[1], target[2] + target[3] + target[4], target[5]],
                             rng.normal(size=(50, 128))])  # fmt: skip
    forward, backward = recurrence(source, target).pairs[0].splitting
    assert {each.atom: set(each.parts) for each in forward.splits} == {0: {0, 1}, 1: {2, 3, 4}}
    assert all(each.together > 0.99 > each.best for each in forward.splits)
    assert (forward.count, backward.count) == (2, 0)
    assert forward.chance < 0.05


def test_an_absorbed_atom_is_found_with_the_one_that_absorbs_it():
    rng = np.random.default_rng(0)
    source = unit(rng.normal(size=(60, 128)))
    codes = sparse_codes(1000, np.full(60, 0.2))
    target, other = np.concatenate([source, rng.normal(size=(1, 128))]), np.pad(codes, ((0, 0), (0, 1)))
    target[60] = 0.6 * source[3] + 0.8 * unit(target[60:])[0]
    lost = np.flatnonzero(codes[:, 3])[:60]
    other[lost, 60], other[lost, 3] = 1, 0
    forward, backward = recurrence(source, target, activations=[codes, other]).pairs[0].absorption
    (found,) = forward.absorbed
    assert (found.atom, found.partner, found.by) == (3, 3, 60)
    assert (found.covered, found.elsewhere) == (1, 0)
    assert forward.tested == 60
    assert backward.count == 0
    # Silent partners that no other atom stands in for are not absorbed.
    other[lost, 60] = 0
    other[rng.choice(1000, 60, replace=False), 60] = 1
    assert recurrence(source, target, activations=[codes, other]).pairs[0].absorption[0].count == 0


def test_many_atoms_are_matched_by_candidates_with_sampled_chance(monkeypatch):
    """The same numbers as for few atoms, but for the chance level, which is then that of best matches."""
    source, target, _ = planted(shared=120)
    few = recurrence(source, target)
    plain = few.pairs[0].decoder
    assert "chance at most" not in few.verdict.sentence
    monkeypatch.setattr(matching, "DENSE", 0)
    monkeypatch.setattr(chance, "WHOLE", 0)
    monkeypatch.setattr(chance, "_SAMPLED", 0)
    found = recurrence(source, target)
    many = found.pairs[0].decoder
    assert many.sampled
    assert not plain.sampled
    assert np.isclose(many.one_to_one.mean, plain.one_to_one.mean, atol=1e-4)
    assert many.one_to_one.share == plain.one_to_one.share
    assert many.one_to_one.mean_null.mean >= plain.one_to_one.mean_null.mean - 0.01
    assert "chance at most" in found.verdict.sentence


def test_three_dictionaries_count_in_how_many_an_atom_recurs():
    source, target, _ = planted(shared=100)
    third = np.concatenate([source[:50], np.random.default_rng(5).normal(size=(30, 64))])
    found = recurrence(source, target, third)
    assert len(found.pairs) == 3
    assert found.sides[0].recurs_in == (200, 50, 50)
    assert found.sides[2].recurs_in == (30, 0, 50)
    assert "recur in all other dictionaries" in found.verdict.sentence
    assert np.isclose(found.shares()[0, 2], 50 / 80)


def test_crowded_spaces_are_at_chance_and_a_note_says_so():
    rng = np.random.default_rng(0)
    found = recurrence(*(rng.normal(size=(200, 3)) for _ in range(2)))
    assert found.verdict.answer == "none"
    assert any("by chance: atoms crowd" in note for note in found.caveats)


def test_sparse_autoencoders_are_taken_as_they_are():
    torch = pytest.importorskip("torch")
    from isorep.models import SparseAutoencoder

    torch.manual_seed(0)
    model = SparseAutoencoder(12, 40, k=4)
    found = recurrence(model, model)
    assert found.pairs[0].decoder.one_to_one.share == 1
    with pytest.raises(InputError, match="dictionary 1 is a Linear: give its decoder's weight"):
        recurrence(torch.nn.Linear(3, 4), np.eye(3))


ROWS = np.random.default_rng(0).normal(size=(9, 4))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: recurrence(), "at least two, and none was given"),
        (lambda: recurrence(ROWS), "at least two, and only one was given"),
        (lambda: recurrence(ROWS, ROWS[:0]), r"dictionary 2 has no atoms: its shape is \(0, 4\)"),
        (lambda: recurrence(ROWS, ROWS[:, :3]), "atoms of 4 dimensions and dictionary 2 of 3.*transpose"),
        (lambda: recurrence(ROWS, ROWS[:5, :3]), "atoms must lie in one space$"),
        (lambda: recurrence(ROWS, 0 * ROWS), "all 9 atoms of dictionary 2 are dead"),
        (lambda: recurrence(ROWS, np.full((9, 4), np.nan)), "dictionary 2 holds 36 NaN"),
        (lambda: recurrence(ROWS, ROWS, activations=[ROWS]), "2 dictionaries and activations of 1"),
        (lambda: recurrence(ROWS, ROWS, activations=[ROWS, ROWS]), "9 atoms and its activations have 4 columns"),
        (lambda: recurrence(ROWS, ROWS, activations=[ROWS.T, ROWS.T[:3]]), "activations 1 has 4 rows"),
        (lambda: recurrence(ROWS, ROWS, frequencies=[[1.0] * 9, [1.0] * 8]), "9 atoms and 8 frequencies"),
        (lambda: recurrence(ROWS, ROWS, frequencies=[[1.0] * 9, [-1.0] * 9]), "finite and not negative"),
        (lambda: recurrence(ROWS, ROWS, frequencies=[[1.0] * 9, [30.0] * 9]), "above 1: divide counts"),
        (lambda: recurrence(ROWS, ROWS, threshold=0), "threshold is 0 and must be a similarity"),
        (lambda: recurrence(ROWS, ROWS, n_null=5), "n_null is 5"),
    ],
)
def test_bad_input_is_named_in_one_sentence(call, said):
    with pytest.raises(InputError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_fewer_atoms_than_dimensions_are_noted_and_columns_can_be_atoms():
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(100, 30)), rng.normal(size=(80, 30))
    plain, turned = recurrence(source, target), recurrence(source.T, target.T, transpose=True)
    assert plain.pairs[0].decoder.one_to_one.mean == turned.pairs[0].decoder.one_to_one.mean
    assert not any("fewer atoms" in note for note in plain.caveats)
    assert any("if atoms are columns" in note for note in recurrence(source[:20], target).caveats)


def test_the_result_is_the_same_for_the_same_seed_and_shows_itself():
    source, target, _ = planted(shared=100)
    first, second = recurrence(source, target), recurrence(source, target)
    assert first.to_json() == second.to_json()
    assert repr(first).startswith("Recurrence(Some atoms recur: 100 of 300")
    assert [row["matching"] for row in first.frame_rows()] == ["one_to_one", "forward", "backward"]
    assert isorep.dictionaries.recurrence is recurrence


def test_single_atoms_and_atoms_without_any_partner_have_a_result_and_a_page():
    one = np.ones((1, 1))
    assert recurrence(one, one).pairs[0].decoder.one_to_one.share == 1
    codes = [np.array([[1.0], [0.0], [2.0]])] * 2
    lost = recurrence(one, -one, activations=codes)
    assert lost.verdict.answer == "none"
    assert lost.pairs[0].together is None
    lost.to_json()
