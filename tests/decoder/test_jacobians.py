"""Jacobians and singular values against known ones, by every way there is, within the limits set."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import isorep  # noqa: E402
from isorep.decoder import extreme_singular_values, jacobian, singular_values  # noqa: E402
from isorep.decoder.jacobian import opened  # noqa: E402

from .networks import Images, Square, SquareOnce, Tokens, linear, mlp, with_values  # noqa: E402

ACCURACY = {torch.float32: 2e-6, torch.float64: 1e-12}


def one_by_one(decoder, z):
    """The Jacobian by torch's plain function, row by row."""
    found = [torch.autograd.functional.jacobian(lambda row: decoder(row[None]).reshape(-1), row) for row in z]
    return torch.stack(found).numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("outputs", "d"), [(7, 4), (4, 7), (5, 5), (1, 3), (3, 1), (1, 1), (64, 3)])
@pytest.mark.parametrize("n", [1, 6])
def test_a_linear_map_is_its_own_jacobian(rng, dtype, outputs, d, n):
    matrix = rng.standard_normal((outputs, d))
    decoder, z = linear(matrix, dtype), rng.standard_normal((n, d))
    for direction in ("auto", "forward", "reverse"):
        found = jacobian(decoder, z, direction=direction)
        assert found.shape == (n, outputs, d)
        assert found.dtype == (np.float32 if dtype == torch.float32 else np.float64)
        np.testing.assert_allclose(found, np.broadcast_to(matrix, found.shape), atol=1e-6)
    values = singular_values(decoder, z)
    assert values.shape == (n, min(outputs, d))
    np.testing.assert_allclose(values[0], np.linalg.svd(matrix)[1], rtol=ACCURACY[dtype])


@pytest.mark.parametrize("small", [1e-3, 1e-6, 1e-9])
def test_small_singular_values_are_right(small):
    wanted = np.geomspace(1, small, 6)
    for outputs in (6, 100):
        found = singular_values(linear(with_values(wanted, outputs)), np.zeros((2, 6)))
        np.testing.assert_allclose(found[1], wanted, rtol=1e-15 / small * 100)


def test_the_gram_route_is_used_in_float32_only_where_it_is_safe():
    for small in (0.5, 1e-5):
        wanted = np.geomspace(2, small, 8)
        matrix = with_values(wanted, 300)
        found = singular_values(linear(matrix, torch.float32), np.zeros((1, 8)))
        exact = np.linalg.svd(matrix.astype(np.float32).astype(np.float64))[1]
        np.testing.assert_allclose(found[0], exact, rtol=1e-7)


def test_forward_reverse_sliced_krylov_and_fallback_agree(rng):
    decoder, z = mlp(), rng.standard_normal((7, 5))
    wanted = one_by_one(decoder, torch.as_tensor(z))
    by_hand = functools.partial(_through_numbers, decoder)
    for way in (decoder, by_hand):
        for direction in ("forward", "reverse"):
            for memory in (1, 5000, 2**30):
                found = jacobian(way, z, direction=direction, memory=memory)
                np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    values = np.linalg.svd(wanted)[1]
    for memory in (1, 5000, 2**30):
        np.testing.assert_allclose(singular_values(decoder, z, memory=memory), values, rtol=1e-12)
    for limit in (0, 10):
        largest, smallest = extreme_singular_values(decoder, z, exact_up_to=limit)
        np.testing.assert_allclose(largest, values[:, 0], rtol=1e-10)
        np.testing.assert_allclose(smallest, values[:, -1], rtol=1e-10)


def _through_numbers(decoder, z):
    """Rows decoded one by one, with a branch that depends on their values."""
    return torch.cat([decoder(row) if float(row.sum()) > 0 else 1 * decoder(row) for row in z[:, None]])


@pytest.mark.parametrize("function", [Square, SquareOnce])
def test_functions_that_torch_func_cannot_transform_go_through_plain_autograd(rng, function):
    matrix, z = rng.standard_normal((9, 4)), rng.standard_normal((5, 4))
    found = jacobian(lambda rows: function.apply(rows) @ torch.as_tensor(matrix.T), z)
    np.testing.assert_allclose(found, matrix * 2 * z[:, None, :], rtol=1e-12)


@pytest.mark.parametrize("decoder", [Images(), Tokens()], ids=["convolutions", "attention"])
def test_networks_agree_with_torch_s_own_jacobian_in_evaluation_mode(decoder):
    z = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    wanted = one_by_one(decoder.eval(), z)
    decoder.train()
    running = {name: value.clone() for name, value in decoder.named_buffers()}
    for direction in ("forward", "reverse"):
        found = jacobian(decoder, z, direction=direction)
        np.testing.assert_allclose(found, wanted, atol=2e-6)
    with opened(decoder, z, "auto", 2**30, None) as jacobians:
        assert not jacobians.ways.plain
    assert all(part.training for part in decoder.modules())
    assert all(parameter.grad is None for parameter in decoder.parameters())
    assert all(torch.equal(value, running[name]) for name, value in decoder.named_buffers())


def test_flags_are_restored_one_by_one_and_after_an_error():
    decoder = Images()
    decoder.layers[1].eval()
    before = [part.training for part in decoder.modules()]
    jacobian(decoder, torch.zeros(2, 6))
    assert [part.training for part in decoder.modules()] == before
    with pytest.raises(isorep.InputError, match="fails on rows of shape"):
        jacobian(decoder, torch.zeros(2, 5))
    assert [part.training for part in decoder.modules()] == before
    assert torch.is_grad_enabled()


def test_a_function_around_a_module_also_runs_it_in_evaluation_mode():
    decoder = Images()
    found = jacobian(lambda z: 2 * decoder(z), np.zeros((2, 6)))
    np.testing.assert_allclose(found, 2 * jacobian(decoder, np.zeros((2, 6))), atol=1e-6)
    np.testing.assert_allclose(jacobian(decoder.forward, np.zeros((2, 6))), found / 2, atol=1e-6)
    assert decoder.training


def test_rows_with_a_shape_reach_the_decoder_in_it(rng):
    z = rng.standard_normal((3, 2, 4, 4))
    decoder = torch.nn.Conv2d(2, 3, 3, padding=1).double()
    found = jacobian(decoder, z)
    assert found.shape == (3, 48, 32)
    step = np.einsum("oi,ni->no", found[0], z.reshape(3, -1))
    bias = decoder(torch.zeros(1, 2, 4, 4, dtype=torch.float64)).detach().numpy().reshape(-1)
    np.testing.assert_allclose(step + bias, decoder(torch.as_tensor(z)).detach().numpy().reshape(3, -1))
    np.testing.assert_allclose(jacobian(decoder, torch.as_tensor(z)), found)


def test_latents_come_from_arrays_tensors_representations_lists_and_files(rng, tmp_path):
    decoder, z = mlp(), rng.standard_normal((4, 5))
    np.save(tmp_path / "z.npy", z)
    wanted = jacobian(decoder, z)
    for given_latents in (
        torch.as_tensor(z),
        isorep.Representation(z),
        z.tolist(),
        tmp_path / "z.npy",
        z[::1].T.copy().T,
    ):
        assert np.array_equal(jacobian(decoder, given_latents), wanted)


def test_half_precision_is_computed_in_single_on_a_copy():
    decoder = torch.nn.Linear(3, 4).to(torch.bfloat16)
    found = jacobian(decoder, np.zeros((1, 3)))
    assert found.dtype == np.float32
    assert np.array_equal(found[0], decoder.weight.detach().float().numpy())
    assert decoder.weight.dtype == torch.bfloat16


def test_a_function_that_holds_single_precision_weights_takes_double_latents(rng):
    weight = torch.randn(3, 2)
    assert jacobian(lambda z: z @ weight, rng.standard_normal((2, 3))).dtype == np.float32


def test_memory_limits_the_rows_and_directions_that_are_worked_on_at_once(rng):
    sizes = []

    class Watched(torch.nn.Module):
        def forward(self, z):
            sizes.append(len(z))
            return z.repeat(1, 50)

    z = rng.standard_normal((40, 8))
    jacobian(Watched(), z)
    assert max(sizes) == 40
    sizes.clear()
    limit = 1_000_000
    with opened(Watched(), z, "auto", limit, None) as jacobians:
        rows, together = jacobians.rows_at_once, jacobians.together
        assert 1 < rows < 40
        assert rows * together * 400 * 8 < limit
        sizes.clear()
        assert len(list(jacobians.blocks())) == -(-40 // rows)
    assert max(sizes) == rows
    with opened(Watched(), z, "auto", 10_000, None) as tight:
        assert (tight.rows_at_once, tight.together) == (1, 1)
        assert tight.slices > 1


@pytest.mark.parametrize(
    ("decoder", "words"),
    [
        (lambda z: z - z.mean(0), "depends on the other rows"),
        (lambda z: z + torch.randn_like(z), "draws at random"),
        (lambda z: 2 * z.detach(), "no gradient reaches its input"),
        (lambda z: (z, z), r"of type tuple where a tensor is needed: wrap it, as in lambda z: decoder\(z\)\[0\]"),
        (lambda z: {"x": z}, r"decoder\(z\)\[.name.\]"),
        (lambda z: z if len(z) < 3 else 1 / 0, "fails on a batch of 4 rows: division by zero"),
        (lambda z: z.sum(), "maps 2 rows to shape"),
        (lambda z: z[:, :0], "returns no numbers"),
        (lambda z: z.to(torch.complex64), "complex64 numbers"),
        (lambda z: z @ torch.zeros(9, 9, dtype=z.dtype), "fails on rows of shape"),
        (lambda z: (z - z).sqrt() + z, "Jacobian is not finite at row 0"),
        (torch.nn.BatchNorm1d(3, track_running_stats=False), "fails on one"),
        ("a name", "the decoder is a str"),
    ],
)
def test_decoders_without_a_jacobian_of_a_row_are_refused(rng, decoder, words):
    with pytest.raises(isorep.InputError, match=words):
        jacobian(decoder, rng.standard_normal((4, 3)))


def test_rows_that_influence_each_other_only_sometimes_are_found_in_the_fallback():
    def decoder(z):
        return z * 2 if float(z.sum()) > 10 else z * 3

    with pytest.raises(isorep.InputError, match="depends on the other rows"):
        jacobian(decoder, np.array([[0.0], [1.0], [2.0], [20.0]]))


@pytest.mark.parametrize(
    ("latents", "words"),
    [
        (np.array([[0.0, np.nan, 1.0]]), "NaN"),
        (np.zeros((0, 3)), "empty"),
        (np.zeros(3), "has shape"),
        (np.zeros((2, 3), dtype=int), "holds integers"),
        (np.zeros((2, 0, 3)), "empty"),
    ],
)
def test_latents_that_are_none_are_refused(latents, words):
    with pytest.raises(isorep.InputError, match=words):
        jacobian(mlp(3), latents)


def test_wrong_settings_are_refused():
    for wrong in ({"direction": "sideways"}, {"memory": 0}, {"device": "nowhere"}):
        with pytest.raises(isorep.InputError):
            jacobian(mlp(3), np.zeros((1, 3)), **wrong)
    for wrong in ({"tol": 0}, {"max_iter": 0}):
        with pytest.raises(isorep.InputError):
            extreme_singular_values(mlp(3), np.zeros((1, 3)), **wrong)


def test_progress_is_told_and_ends():
    told = []
    jacobian(mlp(3), np.zeros((5, 3)), memory=1, progress=lambda *report: told.append(report))
    assert told[0] == ("Jacobians", 0, 5)
    assert told[-1] == ("Jacobians", 5, 5)


def test_large_images_within_a_small_limit():
    decoder = torch.nn.Linear(40, 3 * 64 * 64)
    with torch.no_grad():
        decoder.weight.copy_(torch.as_tensor(with_values(np.geomspace(3, 0.1, 40), 3 * 64 * 64)))
    found = singular_values(decoder, np.zeros((3, 40)), memory=2**23)
    np.testing.assert_allclose(found, np.tile(np.geomspace(3, 0.1, 40), (3, 1)), rtol=1e-5)


def test_the_krylov_space_says_when_it_did_not_converge():
    values = np.concatenate([[5.0], np.linspace(1, 1.2, 398), [0.01]])
    found = extreme_singular_values(
        lambda z: z * torch.as_tensor(values), np.zeros((2, 400)), exact_up_to=0, max_iter=12
    )
    assert not found.exact
    assert found.converged[:, 0].all()
    np.testing.assert_allclose(found.largest, 5.0, rtol=1e-3)
    assert not found.converged[:, 1].any() or np.allclose(found.smallest, 0.01, rtol=1e-3)
    assert (found.smallest >= 0.01 - 1e-9).all()
    whole = extreme_singular_values(lambda z: z * torch.as_tensor(values), np.zeros((2, 400)))
    assert whole.exact
    np.testing.assert_allclose(whole.smallest, 0.01, rtol=1e-9)


@pytest.mark.parametrize(
    "matrix", [np.eye(20), np.zeros((6, 5)), with_values([1, 1, 1, 0, 0], 9), np.ones((3, 8))], ids=range(4)
)
def test_krylov_spaces_that_close_early_go_on(matrix):
    largest, smallest = extreme_singular_values(linear(matrix), np.zeros((2, matrix.shape[1])), exact_up_to=0)
    values = np.linalg.svd(matrix)[1]
    np.testing.assert_allclose(largest, values[0], atol=1e-9)
    np.testing.assert_allclose(smallest, values[-1] if len(matrix) >= matrix.shape[1] else 0, atol=1e-9)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 2**16))
def test_any_linear_map(d, outputs, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((outputs, d)) * 10.0 ** rng.integers(-3, 4)
    decoder, z = linear(matrix), rng.standard_normal((2, d))
    wanted = np.linalg.svd(matrix)[1]
    np.testing.assert_allclose(singular_values(decoder, z)[0], wanted, rtol=1e-9, atol=1e-13 * wanted[0])
    largest, smallest = extreme_singular_values(decoder, z, exact_up_to=0)
    np.testing.assert_allclose(largest, wanted[0], rtol=1e-6)
    if outputs >= d:
        np.testing.assert_allclose(smallest, wanted[-1], rtol=1e-5)


@pytest.mark.parametrize("memory", [0, np.inf, np.nan, None])
def test_memory_is_a_finite_number_of_bytes(memory):
    with pytest.raises(isorep.InputError, match="number of bytes"):
        jacobian(lambda z: z, np.zeros((2, 2)), memory=memory)


def test_steps_that_return_several_tensors_count_for_planning():
    norm = torch.nn.Sequential(torch.nn.Linear(3, 50), torch.nn.GroupNorm(2, 50))
    with opened(norm, np.ones((2, 3), np.float32), "auto", 2**20, None) as found:
        assert found.ready.held >= 100
