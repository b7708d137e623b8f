r"""Objectives with identifiability theorems: InfoNCE, DIET, VICReg, LeJEPA and iVAE, on fully connected networks.

Joint embeddings: two views of an example have nearby codes, and something keeps all codes from being one point. Losses
are functions of a module and a batch, so that :func:`isorep.models.train_many` trains many seeds as one program;
random numbers that a loss needs are part of its batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ..errors import InputError
from ..settings import check_counts
from .evaluation import nn, torch

Loss = Callable[[Any, Any], Any]
HIDDEN = (64, 64)
_START = 0.1  # from large vectors each class keeps a direction of its own, and training ends in a poor optimum
_SMALLEST = 1e-4  # added to variances, as published for VICReg
_FREQUENCIES, _LARGEST = 9, 5.0  # of characteristic functions, as published for SIGReg


class Encoder(nn.Module):
    r"""Fully connected layers with LeakyReLU; codes on a sphere where ``normalise`` is set.

    Parameters
    ----------
    inputs, outputs : int
        Numbers of an example and of its code.
    hidden : sequence of int
        Widths between.
    normalise : bool
        Scale codes to length 1.
    classes : int
        Vectors of classes for :func:`diet_loss`; default none.
    decoder : bool
        Add layers from codes back to inputs, for :func:`autoencoder_loss`.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import Encoder
    >>> Encoder(5, 3, normalise=True).represent(torch.ones(2, 5)).norm(dim=1).allclose(torch.ones(2))
    True
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        hidden: Sequence[int] = HIDDEN,
        normalise: bool = False,
        classes: int = 0,
        decoder: bool = False,
    ) -> None:
        super().__init__()
        check_counts(inputs=(inputs, 1), outputs=(outputs, 1), classes=(classes, 0))
        self.normalise = normalise
        self.layers = _layers((inputs, *hidden, outputs))
        self.vectors = nn.Parameter(_START * torch.randn(classes, outputs)) if classes else None
        self.decoder = _layers((outputs, *reversed(hidden), inputs)) if decoder else None

    def represent(self, inputs: Any) -> Any:
        """Codes, one row per example."""
        found = self.layers(inputs)
        return nn.functional.normalize(found, dim=-1) if self.normalise else found

    forward = represent


def infonce_loss(power: float | None = None, temperature: float = 1.0) -> Loss:
    r"""InfoNCE of pairs (x, y) with the other pairs of the batch as negatives (Zimmermann et al. 2021).

    .. math:: \frac1n\sum_i\Bigl(\log\sum_j e^{\ell_{ij}}-\ell_{ii}\Bigr),\qquad
              \ell_{ij}=\frac{\langle f(x_i),f(y_j)\rangle}{\tau}
              \quad\text{or}\quad\ell_{ij}=-\frac{\|f(x_i)-f(y_j)\|_p^p}{\tau}

    Parameters
    ----------
    power : float, optional
        The p of the distance; default: the inner product, for normalised codes.
    temperature : float
        :math:`\tau`.
    """
    if power is not None and not 1 <= power < math.inf:
        raise InputError(f"power is {power}: it must be a number from 1 on")
    if not 0 < temperature < math.inf:
        raise InputError(f"temperature is {temperature}: it must be above zero")

    def loss(module: Any, batch: Any) -> Any:
        one, other = (module.represent(view) for view in batch)
        if power is None:
            logits = one @ other.mT
        else:
            apart = (one[:, None, :] - other[None, :, :]).abs()
            logits = -(apart if power == 1 else apart**power).sum(-1)
        logits = logits / temperature
        return (torch.logsumexp(logits, -1) - logits.diagonal()).mean()

    return loss


def diet_loss(temperature: float = 1.0) -> Loss:
    r"""DIET: cross entropy of the instance that a view was made from (Reizinger et al. 2025).

    .. math:: -\log\frac{\exp(w_c^\top f(x)/\tau)}{\sum_k\exp(w_k^\top f(x)/\tau)}

    with a vector :math:`w_c` per instance; a batch is (views, numbers of their instances).
    """
    if not 0 < temperature < math.inf:
        raise InputError(f"temperature is {temperature}: it must be above zero")

    def loss(module: Any, batch: Any) -> Any:
        views, instances = batch
        return nn.functional.cross_entropy(module.represent(views) @ module.vectors.mT / temperature, instances)

    return loss


def vicreg_loss(invariance: float = 25.0, variance: float = 25.0, covariance: float = 1.0) -> Loss:
    r"""VICReg of pairs (Bardes, Ponce and LeCun 2022), with the published weights.

    .. math:: \lambda\,\overline{(z-z')^2}+\mu\sum_{z,z'}\frac1d\sum_j\max(0,1-\sigma_j)
              +\nu\sum_{z,z'}\frac1d\sum_{i\ne j}C_{ij}^2

    with standard deviations :math:`\sigma_j` and covariances :math:`C` of the codes of a batch. The variance term has
    the weight :math:`\mu/2` for each of the two views.
    """

    def loss(module: Any, batch: Any) -> Any:
        one, other = (module.represent(view) for view in batch)
        total = invariance * (one - other).square().mean()
        for codes in (one, other):
            around = codes - codes.mean(0)
            cross = around.mT @ around / (len(codes) - 1)
            spread = (cross.diagonal() + _SMALLEST).sqrt()
            apart = cross.square().sum() - cross.diagonal().square().sum()
            total = total + variance / 2 * torch.relu(1 - spread).mean() + covariance * apart / codes.shape[-1]
        return total

    return loss


def lejepa_loss(weight: float = 0.05) -> Loss:
    r"""LeJEPA of pairs: alignment and a Gaussian law of the codes (Balestriero and LeCun 2025).

    .. math:: (1-\lambda)\,\overline{\|z-z'\|^2}+\lambda\,\mathrm{SIGReg}(z,z')

    A batch is (views, other views, directions), the directions drawn anew for each step; see :func:`sigreg`.
    """
    if not 0 < weight < 1:
        raise InputError(f"weight is {weight}: it must lie between 0 and 1")

    def loss(module: Any, batch: Any) -> Any:
        first, second, directions = batch
        one, other = module.represent(first), module.represent(second)
        away = (sigreg(one, directions) + sigreg(other, directions)) / 2
        return (1 - weight) * (one - other).square().sum(-1).mean() + weight * away

    return loss


def sigreg(codes: Any, directions: Any) -> Any:
    r"""SIGReg: distance of codes from a standard Gaussian, by projections (Balestriero and LeCun 2025).

    .. math:: \frac1M\sum_{m=1}^M n\int\Bigl|\frac1n\sum_je^{it\,a_m^\top z_j}-e^{-t^2/2}\Bigr|^2e^{-t^2/2}\,dt

    the statistic of Epps and Pulley along each unit direction :math:`a_m`, by the trapezoidal rule on [0, 5].

    Parameters
    ----------
    codes : tensor of shape (n, d)
        One row per example.
    directions : tensor of shape (M, d)
        Of any length; they are normalised.
    """
    along = codes @ nn.functional.normalize(directions, dim=-1).mT
    places = torch.linspace(0.0, _LARGEST, _FREQUENCIES, device=codes.device, dtype=codes.dtype)
    wanted = torch.exp(-places.square() / 2)
    angles = along[..., None] * places
    away = (angles.cos().mean(0) - wanted).square() + angles.sin().mean(0).square()
    return 2 * len(codes) * torch.trapezoid(away * wanted, places).mean()


class IdentifiableVAE(nn.Module):
    r"""iVAE (Khemakhem et al. 2020): a variational autoencoder whose prior depends on an auxiliary variable.

    .. math:: p(z\mid c)=\mathcal N(\mu_c,\operatorname{diag}\sigma_c^2),\qquad p(x\mid z)=\mathcal N(g(z),\nu^2I)

    with one mean and variance of every latent for each value c, all learnt; the posterior is a Gaussian whose mean and
    variances are networks of x.

    Parameters
    ----------
    inputs, outputs, values : int
        Numbers of an example, latents, and values of the auxiliary variable.
    hidden : sequence of int
        Widths of encoder and decoder.
    noise : float
        Standard deviation :math:`\nu` of the observations.
    """

    def __init__(
        self, inputs: int, outputs: int, values: int, *, hidden: Sequence[int] = HIDDEN, noise: float = 0.1
    ) -> None:
        super().__init__()
        check_counts(inputs=(inputs, 1), outputs=(outputs, 1), values=(values, 1))
        if not 0 < noise < math.inf:
            raise InputError(f"noise is {noise}: it must be above zero")
        self.noise = noise
        self.layers = _layers((inputs, *hidden, 2 * outputs))
        self.decoder = _layers((outputs, *reversed(hidden), inputs))
        self.means = nn.Parameter(0.1 * torch.randn(values, outputs))
        self.log_variances = nn.Parameter(torch.zeros(values, outputs))

    def represent(self, inputs: Any) -> Any:
        """Posterior means, one row per example."""
        return self.layers(inputs).chunk(2, dim=-1)[0]

    forward = represent


def ivae_loss(module: Any, batch: Any) -> Any:
    """Minus the evidence lower bound of iVAE; a batch is (examples, values of c, standard normal noise)."""
    inputs, values, drawn = batch
    mean, spread = module.layers(inputs).chunk(2, dim=-1)
    codes = mean + torch.exp(spread / 2) * drawn
    centre, width = module.means[values], module.log_variances[values]
    missed = (module.decoder(codes) - inputs).square().sum(-1) / (2 * module.noise**2)
    apart = (width - spread + (spread.exp() + (mean - centre).square()) * torch.exp(-width) - 1).sum(-1) / 2
    return (missed + apart).mean()


def autoencoder_loss(module: Any, batch: Any) -> Any:
    """Mean squared error of the reconstruction of a batch (examples,)."""
    return (module.decoder(module.represent(batch[0])) - batch[0]).square().mean()


def _layers(widths: Sequence[int]) -> Any:
    layers: list[Any] = []
    for wide, narrow in pairwise(widths):
        layers += [nn.Linear(wide, narrow), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])
