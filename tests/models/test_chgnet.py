"""CHGNet: bonds and angles of crystals, invariances of its states, and files that are refused."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from isorep import InputError  # noqa: E402
from isorep.models.chgnet import Crystal, load_chgnet, make_graph, neighbours  # noqa: E402

WIDTH, RADIAL, ORDER = 4, 5, 2
SALT = Crystal(
    np.array([11, 17]), np.array([[0, 0, 0], [2.8, 0, 0]]), 2.8 * np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
)


def dense(name, given, made, places):
    shapes = {f"{name}.layers.{place}.weight": (made, given if not n else made) for n, place in enumerate(places)}
    return shapes | {f"{name}.layers.{place}.bias": (made,) for place in places}


def gated(name, given, places, norm):
    shapes = dense(f"{name}.mlp_core", given, WIDTH, places) | dense(f"{name}.mlp_gate", given, WIDTH, places)
    norms = ("bn1", "bn2") if norm else ()
    return shapes | {f"{name}.{each}.{kind}": (WIDTH,) for each in norms for kind in ("weight", "bias")}


def stored(path, norm=True, layers=2):
    """A small network with random weights, in the form of a release."""
    shapes = {
        "composition_model.fc.weight": (1, 94),
        "atom_embedding.embedding.weight": (94, WIDTH),
        "bond_basis_expansion.rbf_expansion_ag.frequencies": (RADIAL,),
        "bond_basis_expansion.rbf_expansion_bg.frequencies": (RADIAL,),
        "bond_embedding.weight": (WIDTH, RADIAL),
        "bond_weights_ag.weight": (WIDTH, RADIAL),
        "bond_weights_bg.weight": (WIDTH, RADIAL),
        "angle_basis_expansion.fourier_expansion.frequencies": (ORDER,),
        "angle_embedding.weight": (WIDTH, 1 + 2 * ORDER),
    } | dense("mlp", WIDTH, WIDTH, (0,))
    shapes |= {"mlp.layers.2.weight": (1, WIDTH), "mlp.layers.2.bias": (1,)}
    if norm:
        shapes |= {"readout_norm.weight": (WIDTH,), "readout_norm.bias": (WIDTH,)}
    for layer in range(layers):
        shapes |= gated(f"atom_conv_layers.{layer}.twoBody_atom", 3 * WIDTH, (0, 3), norm)
        shapes |= dense(f"atom_conv_layers.{layer}.mlp_out", WIDTH, WIDTH, (1,))
    for layer in range(layers - 1):
        shapes |= gated(f"bond_conv_layers.{layer}.twoBody_bond", 4 * WIDTH, (0, 3), norm)
        shapes |= dense(f"bond_conv_layers.{layer}.mlp_out", WIDTH, WIDTH, (1,))
        shapes |= gated(f"angle_layers.{layer}.twoBody_bond", 4 * WIDTH, (1,), norm)
    drawn = torch.Generator().manual_seed(3)
    weights = {name: torch.randn(shape, generator=drawn) for name, shape in shapes.items()}
    settings = {"atom_graph_cutoff": 5, "bond_graph_cutoff": 3, "cutoff_coeff": 5, "is_intensive": True}
    torch.save({"model": {"state_dict": weights, "model_args": settings}}, path)
    return path


@pytest.fixture(params=[True, False], ids=["norms", "no norms"])
def network(request, tmp_path):
    return load_chgnet(stored(tmp_path / "net.pth.tar", request.param))


def doubled(crystal):
    """Two cells of a crystal, as one."""
    places = np.concatenate([crystal.positions, crystal.positions + crystal.cell[0]])
    return Crystal(np.tile(crystal.numbers, 2), places, crystal.cell * np.array([[2], [1], [1]]))


def test_salt_has_six_neighbours_then_twelve_and_thirty_angles_per_atom():
    centre, other, _, away = neighbours(SALT, 4.0)
    lengths = np.linalg.norm(away, axis=1)
    for atom in range(2):
        mine = centre == atom
        assert (other[mine & (lengths < 3)] == 1 - atom).sum() == 6
        assert (other[mine & (lengths > 3)] == atom).sum() == 12
    graph = make_graph([SALT], 4.0, 3.0)
    assert np.bincount(graph.angles[:, 0]).tolist() == [30, 30]
    assert len(graph.lengths) == len(graph.ends) / 2, "each bond once without its direction"
    np.testing.assert_allclose(np.sort(np.unique(graph.cosines.round(6))), [-1, 0])


def test_bonds_of_both_directions_have_one_length_also_where_rounding_could_part_them():
    rng = np.random.default_rng(1)
    crystal = Crystal(np.arange(1, 6), rng.uniform(-4, 4, (5, 3)), np.diag([2.1055005, 3.3, 4.1]))
    graph = make_graph([crystal], 5.0, 3.0)
    assert np.bincount(graph.twin).tolist() == [2] * len(graph.lengths)
    _, _, _, away = neighbours(crystal, 5.0)
    np.testing.assert_allclose(graph.lengths[graph.twin], np.linalg.norm(away, axis=1))


def test_states_do_not_change_with_rotations_order_or_the_choice_of_the_cell_but_with_distances(network):
    rng = np.random.default_rng(2)
    crystal = Crystal(np.array([8, 12, 8]), rng.uniform(0, 2.5, (3, 3)), np.diag([3.1, 3.4, 3.9]) + 0.3)
    states = network.represent(network.graph([crystal]))
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turned = Crystal(crystal.numbers, crystal.positions @ turn + 1, crystal.cell @ turn)
    np.testing.assert_allclose(network.represent(network.graph([turned])), states, atol=1e-4)
    order = [2, 0, 1]
    mixed = Crystal(crystal.numbers[order], crystal.positions[order], crystal.cell)
    np.testing.assert_allclose(network.represent(network.graph([mixed])), states[order], atol=1e-4)
    twice = network.represent(network.graph([doubled(crystal)]))
    np.testing.assert_allclose(twice, np.tile(states, (2, 1)), atol=1e-4)
    larger = Crystal(crystal.numbers, 1.05 * crystal.positions, 1.05 * crystal.cell)
    assert np.abs(network.represent(network.graph([larger])) - states).max() > 1e-2


def test_crystals_together_are_as_alone_and_energies_are_per_atom(network):
    oxygen = Crystal(np.array([8, 8]), np.array([[0, 0, 0], [0, 0, 1.2]]))
    joined = network.energies(network.graph([SALT, oxygen]))
    alone = [network.energies(network.graph([each]))[0] for each in (SALT, oxygen)]
    np.testing.assert_allclose(joined, alone, rtol=1e-4)
    np.testing.assert_allclose(network.energies(network.graph([doubled(SALT)])), alone[:1], rtol=1e-4)


def test_atoms_without_neighbours_keep_a_state_of_their_element(network):
    far = Crystal(np.array([8, 3]), np.array([[0, 0, 0], [0, 0, 9.0]]))
    single = [Crystal(np.array([number]), np.zeros((1, 3))) for number in (8, 3)]
    apart = np.concatenate([network.represent(network.graph([each])) for each in single])
    np.testing.assert_allclose(network.represent(network.graph([far])), apart, atol=1e-6)


def test_untrained_weights_follow_the_seed(network):
    graph = network.graph([SALT])
    first, same, other = (network.untrained(seed).represent(graph) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)
    assert not np.allclose(first, network.represent(graph))


def test_files_with_code_and_other_networks_are_refused(tmp_path):
    torch.save({"model": torch.nn.Linear(2, 2)}, tmp_path / "code.pth.tar")
    torch.save({"model": {"state_dict": {}, "model_args": {}}}, tmp_path / "empty.pth.tar")
    for name in ("code", "empty"):
        with pytest.raises(InputError, match="holds no CHGNet that weights_only can read"):
            load_chgnet(tmp_path / f"{name}.pth.tar")
