"""Simulated screens: independent biological and technical factors, mixed by a near-isometry of known excess."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..settings import check_choice

NOISE = 0.05
"""Standard deviation of the noise in each dimension; a factor has 1."""

BATCH_EFFECTS = ("technical", "all", "shape")
"""What differs between batches: mean and spread of technical factors or of all, or the shape of technical ones."""


@dataclass(frozen=True, eq=False)
class Simulation:
    r"""Rows of a simulated screen, and the truth about them.

    Attributes
    ----------
    values : array of shape (rows, dimensions)
        Simulated embeddings.
    perturbed : array of bool
        The label to predict.
    batch : array of int
        Batch of each row; technical factors have another distribution in every batch.
    factors : array of shape (rows, factors)
        The true factors with the effects of batches, the biological ones first.
    biological, affected : int
        Number of biological factors, and number of these, the first ones, that the perturbation shifts.
    evidence : array
        :math:`\log p(b \mid \text{perturbed}) - \log p(b \mid \text{control})` of the biological factors b without
        effects of batches. By the lemma of Neyman and Pearson no score of them has a larger AUROC.
    excess : float
        The mixing map stretches no direction by less than 1 or more than 1 + excess.
    """

    values: Array
    perturbed: Array
    batch: Array
    factors: Array
    biological: int
    affected: int
    evidence: Array
    excess: float

    def ceiling(self) -> float:
        """The AUROC of the evidence: the best that any classifier can reach in a new batch, up to sampling."""
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(self.perturbed, self.evidence))


def simulate_batches(
    *,
    batches: int = 20,
    rows: int = 200,
    biological: int = 8,
    technical: int = 8,
    affected: int = 2,
    dimensions: int = 32,
    shift: float = 1.0,
    batch_shift: float = 1.5,
    batch_scale: float = 0.5,
    excess: float = 0.3,
    gaussian: bool = False,
    batch_effect: str = "technical",
    controls: int | None = None,
    random_state: int | np.random.SeedSequence = 0,
) -> Simulation:
    r"""Simulate a screen of several batches.

    A row has biological factors b and technical factors t, all independent given batch and label, with unit variance:
    the affected ones and every third other one Laplace, the rest uniform or exponential (``gaussian``: all normal). A
    perturbation adds ``shift`` to the affected biological factors. Batch j maps :math:`t \mapsto m_j + e^{s_j} t`
    axis by axis, with :math:`m_j \sim N(0, \text{batch\_shift}^2)` and :math:`s_j \sim N(0, \text{batch\_scale}^2)`.
    With ``batch_effect="all"`` biological factors are moved and scaled, too: the controls of a batch show the effect,
    and what follows an affected factor follows the batch as well. With ``"shape"`` mean and spread are the same in all
    batches, so that centring and sphering on controls change nothing: a technical factor takes one of two values, the
    upper one with a probability that differs from batch to batch, and has standard deviation
    :math:`\sqrt{1+\text{batch\_shift}^2}`.

    The share of perturbed rows differs from batch to batch and a fifth of the batches hold controls alone, so that
    technical factors predict the label within known batches, and fail in new ones. With ``controls`` every batch has
    that many control rows instead, and all others are perturbed. The factors z are mixed by

    .. math:: x = \left(z + L \tanh(z R) R^\top\right) Q^\top + \varepsilon

    with R orthogonal and Q of orthonormal columns. The Jacobian's singular values lie in [1, 1 + L], L the ``excess``.

    Examples
    --------
    >>> screen = simulate_batches(batches=4, rows=50, batch_effect="all")
    >>> screen.values.shape, round(screen.ceiling(), 1)
    ((200, 32), 0.9)
    """
    check_choice("batch_effect", batch_effect, BATCH_EFFECTS)
    if not 1 <= affected <= biological or dimensions < biological + technical:
        raise InputError("a simulation needs 1 <= affected <= biological and at least one dimension for each factor")
    if controls is not None and not 1 <= controls < rows:
        raise InputError(f"a batch of {rows} rows has 1 to {rows - 1} controls, not {controls}")
    rng = np.random.default_rng(random_state)
    n, count = batches * rows, biological + technical
    batch = np.repeat(np.arange(batches), rows)
    shares = rng.uniform(0.1, 0.9, batches)
    shares[: batches // 5] = 0.0
    perturbed = rng.random(n) < rng.permutation(shares)[batch]
    if controls is not None:
        perturbed = np.tile(np.arange(rows) >= controls, batches)
    factors = np.stack([_maker(rng, index, affected, gaussian)(n) for index in range(count)], axis=1)
    factors[:, :affected] += shift * perturbed[:, None]
    evidence = _evidence(factors[:, :affected], shift, gaussian)
    if batch_effect == "shape":
        factors[:, biological:] = np.hypot(1, batch_shift) * _two_values(rng, batch, technical)
    else:
        first = biological if batch_effect == "technical" else 0
        moved = batch_shift * rng.normal(size=(batches, count - first))
        scaled = np.exp(batch_scale * rng.normal(size=(batches, count - first)))
        factors[:, first:] = moved[batch] + scaled[batch] * factors[:, first:]
    turn = _orthonormal(rng, count, count)
    bent = factors + excess * np.tanh(factors @ turn) @ turn.T
    values = bent @ _orthonormal(rng, dimensions, count).T + NOISE * rng.normal(size=(n, dimensions))
    return Simulation(values, perturbed, batch, factors, biological, affected, evidence, excess)


def _maker(rng: np.random.Generator, index: int, affected: int, gaussian: bool) -> Callable[[int], Array]:
    """Draws of unit variance and mean 0."""
    if gaussian:
        return lambda n: rng.normal(size=n)
    if index < affected or index % 3 == 0:
        return lambda n: rng.laplace(scale=np.sqrt(0.5), size=n)
    if index % 3 == 1:
        return lambda n: rng.uniform(-np.sqrt(3), np.sqrt(3), size=n)
    return lambda n: rng.exponential(size=n) - 1.0


def _two_values(rng: np.random.Generator, batch: Array, count: int) -> Array:
    """Columns of mean 0 and variance 1 in every batch that take two values, one with another probability in each."""
    share = rng.uniform(0.1, 0.9, (batch.max() + 1, count))[batch]
    return np.asarray(((rng.random(share.shape) < share) - share) / np.sqrt(share * (1 - share)))


def _evidence(moved: Array, shift: float, gaussian: bool) -> Array:
    """The log-likelihood ratio; factors that are not affected cancel."""
    if gaussian:
        return np.asarray((shift * moved - shift**2 / 2).sum(1))
    return np.asarray(np.sqrt(2) * (np.abs(moved) - np.abs(moved - shift)).sum(1))


def _orthonormal(rng: np.random.Generator, rows: int, columns: int) -> Array:
    return np.asarray(np.linalg.qr(rng.normal(size=(rows, columns)))[0])
