"""Decoders in odd units and with odd steps: what must not change a verdict, and what falls back on swaps."""

import numpy as np
import pytest

import isorep

torch = pytest.importorskip("torch")

UNITS = np.array([1e6, 1e-6, 1e-6, 1e6])


def curved(z):
    """Two blocks of two latents, one of them linear: additive, and with outputs that both move."""
    a, b, c, d = z.T if isinstance(z, np.ndarray) else z.unbind(1)
    stack = np.stack if isinstance(z, np.ndarray) else torch.stack
    parts = [a, a + b, a - b, a + 2 * b, a + b + c, c + c**2 / 4, d + c, d - c**3 / 9, d - c, 2 * d]
    return stack(parts, 1)


@pytest.mark.parametrize("kind", ["torch", "numpy", "jacobians"])
def test_units_of_latents_change_no_verdict(rng, kind):
    z = rng.normal(size=(20, 4))
    if kind == "jacobians":
        whole = isorep.decoder.jacobian(curved, z)
        plain = isorep.decoder.mechanisms_of(whole, [2, 2])
        scaled = isorep.decoder.mechanisms_of(whole / UNITS, [2, 2])
    else:
        ones, units = (each if kind == "numpy" else torch.tensor(each) for each in (np.ones(4), UNITS))
        plain = isorep.decoder.mechanisms(lambda y: curved(y / ones), z, [2, 2])
        scaled = isorep.decoder.mechanisms(lambda y: curved(y / units), z * UNITS, [2, 2])
        assert plain.source.startswith("central differences" if kind == "numpy" else "automatic")
    assert plain.type_s.state == "holds"
    assert plain.factors.dimensions == (4,)
    for name, criterion in plain.criteria.items():
        found = scaled.criteria[name]
        assert found.state == criterion.state, name
        for one, other in zip(criterion.evidence, found.evidence, strict=True):
            assert [level.state for level in one.levels] == [level.state for level in other.levels], name
    assert scaled.factors.dimensions == plain.factors.dimensions
    assert scaled.deficient == 0
    assert [check.state for check in scaled.lifting] == [check.state for check in plain.lifting]
    assert not any("piecewise" in caveat for caveat in scaled.caveats)


def test_factors_are_told_in_the_units_of_the_latents(rng):
    z = rng.normal(size=(40, 3))
    units = np.array([1e5, 1e-5, 1.0])

    def decoder(y):
        a, b, c = (y / units).T
        return np.stack([a, a + b, np.sin(b), np.exp(c), c], 1)

    found = isorep.decoder.mechanisms(decoder, z * units)
    assert found.factors.dimensions == (2, 1)
    assert np.abs(found.basis[2, :2]).max() < 1e-6
    assert np.abs(found.basis[:2, 2]).max() < 1e-6
    assert found.basis.T @ found.basis == pytest.approx(np.eye(3), abs=1e-9)


class Cubed(torch.autograd.Function):
    """A step in the old style, which torch.func does not take."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x**3 + x

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return gradient * (3 * x**2 + 1)


def test_decoders_that_torch_cannot_differentiate_again_are_judged_by_swaps(rng):
    z = rng.normal(size=(30, 2))
    found = isorep.decoder.mechanisms(lambda y: torch.cat([Cubed.apply(y), y], 1), z, [1, 1])
    assert found.type_h2.state == "holds"
    assert found.type_h2.way("derivatives") is None
    assert any("by swaps alone" in caveat for caveat in found.caveats)


def test_steps_whose_second_derivatives_need_autograd_have_them(rng):
    z = rng.normal(size=(30, 2))
    silu = torch.nn.functional.silu
    mixed = isorep.decoder.mechanisms(lambda y: silu(torch.cat([y, y.sum(1, keepdim=True)], 1)), z, [1, 1])
    apart = isorep.decoder.mechanisms(lambda y: silu(torch.cat([y, 2 * y], 1)), z, [1, 1])
    assert mixed.type_h2.way("derivatives").state == "fails"
    assert apart.type_h2.way("derivatives").state == "holds"


def test_derivatives_that_would_fill_the_memory_are_left_to_swaps(rng):
    wide = torch.nn.Sequential(torch.nn.Linear(12, 20_000), torch.nn.Tanh(), torch.nn.Linear(20_000, 13))
    found = isorep.decoder.mechanisms(wide, rng.normal(size=(5, 12)), [6, 6], subsets=10)
    assert found.type_h2.way("derivatives") is not None
    assert found.type_h3.way("derivatives") is None
    assert any("order 3 do not fit in memory" in caveat for caveat in found.caveats)


def test_one_block_is_no_plural(rng):
    found = isorep.decoder.mechanisms_of(rng.normal(size=(2, 4, 2)), [2])
    assert "hold for the block, at every tolerance" in found.verdict
