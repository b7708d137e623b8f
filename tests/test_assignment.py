"""The assignment of rows to columns: as good as scipy's, with and without prices from an auction."""

import numpy as np
import pytest
from scipy import optimize

from isorep import assignment


@pytest.mark.parametrize("kept_elsewhere", [False, True])
def test_the_solver_is_that_of_scipy(monkeypatch, kept_elsewhere):
    """The compiled function is taken without its package, and from the package where scipy keeps it elsewhere."""
    if kept_elsewhere:
        monkeypatch.setattr(assignment.PathFinder, "find_spec", lambda *_: None)
    assignment._solver.cache_clear()
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (3, 3), (3, 7), (7, 3), (40, 40)):
        gains = rng.normal(size=shape)
        expected = optimize.linear_sum_assignment(gains, maximize=True)
        for mine, theirs in zip(assignment.best_assignment(gains), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert (assignment._solver() is optimize.linear_sum_assignment) == kept_elsewhere
    assignment._solver.cache_clear()


def _gains(kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    plain = np.abs(rng.normal(size=(n, n)))
    return {
        "plain": plain,
        "negative": rng.normal(size=(n, n)) - 5,
        "few directions": np.abs(rng.normal(size=(n, 4)) @ rng.normal(size=(4, n))),
        "one direction": np.outer(rng.random(n), rng.random(n)),
        "a permutation": np.eye(n)[rng.permutation(n)] + 0.01 * plain,
        "dead rows": np.where(np.arange(n)[:, None] < n // 2, plain, 0.0),
        "heavy tails": np.abs(rng.standard_cauchy(size=(n, n))),
        "all sizes": np.exp(9 * rng.normal(size=(n, 1))) * plain,
        "repeated": np.repeat(plain[:, : n // 4], 4, axis=1),
        "equal": np.ones((n, n)),
        "zero": np.zeros((n, n)),
        "huge": 1e300 * plain,
        "tiny": 1e-300 * plain,
    }[kind]


KINDS = ["plain", "negative", "few directions", "one direction", "a permutation", "dead rows", "heavy tails"]
KINDS += ["all sizes", "repeated", "equal", "zero", "huge", "tiny"]


@pytest.mark.parametrize("n", [4, 60, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_prices_leave_the_optimum_what_it_is(monkeypatch, kind, n):
    gains = _gains(kind, n)
    best = gains[optimize.linear_sum_assignment(gains, maximize=True)].sum()
    monkeypatch.setattr(assignment, "_AUCTIONED", 1)
    monkeypatch.setattr(assignment, "_SPREAD", (0, 2))
    rows, columns = assignment.best_assignment(gains)
    assert sorted(columns) == list(rows) == list(range(n))
    assert gains[rows, columns].sum() == pytest.approx(best, rel=1e-12)


def test_an_auction_ends_with_prices_that_spread_demand_and_not_where_gains_are_equal():
    gains = _gains("plain", 300)
    prices = assignment._prices(gains)
    wanted = (gains - prices).argmax(axis=1)
    assert len(np.unique(wanted)) > 1.15 * len(np.unique(gains.argmax(axis=1)))
    assert assignment._prices(_gains("dead rows", 300)) is None
    assert assignment._prices(_gains("equal", 300)) is None


def test_no_auction_is_held_where_nearly_all_want_different_columns_or_the_same_few(monkeypatch):
    held = []
    monkeypatch.setattr(assignment, "_AUCTIONED", 1)
    monkeypatch.setattr(assignment, "_prices", lambda gains: held.append(len(gains)))
    for kind in ("a permutation", "one direction", "zero"):
        assignment.best_assignment(_gains(kind, 200))
    assert not held
    assignment.best_assignment(_gains("plain", 200))
    assert held == [200]


@pytest.mark.parametrize("kind", ["int8", "uint8", "bool", "float16"])
def test_gains_may_be_of_any_kind(kind):
    gains = (np.random.default_rng(0).integers(0, 2 if kind == "bool" else 120, size=(50, 50))).astype(kind)
    best = optimize.linear_sum_assignment(gains.astype(float), maximize=True)
    assert gains[assignment.best_assignment(gains)].sum(dtype=float) == gains[best].sum(dtype=float)
