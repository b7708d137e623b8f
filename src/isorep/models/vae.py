"""Variational autoencoders: beta-VAE, and beta-TCVAE with its minibatch-weighted total correlation."""

from __future__ import annotations

import math
from typing import Any

from ..errors import InputError
from .networks import Shape
from .plain_autoencoder import PlainAutoencoder, Prepare, as_unit, cross_entropy
from .torch_tools import nn, torch

_LOG_TWO_PI = math.log(2 * math.pi)


class BetaVAE(PlainAutoencoder):
    r"""A variational autoencoder whose divergence from the prior weighs :math:`\beta`.

    .. math:: \mathrm{BCE}+\frac{\beta}{D}\sum_j\mathrm{KL}\big(N(\mu_j,\sigma_j^2)\,\|\,N(0,1)\big)

    with the mean cross-entropy per pixel, D pixels, and :math:`\sigma` a softplus. The means are scored. Its noise is
    drawn by ``prepare``, so that a batch is a dict of ``images`` and ``noise``.
    """

    outputs = 2

    def __init__(self, shape: Shape, latents: int, *, network: str = "dense", beta: float = 1.0) -> None:
        super().__init__(shape, latents, network=network)
        if not beta >= 0:
            raise InputError(f"beta is {beta}: it must be at least 0")
        self.beta = float(beta)

    def encode(self, images: Any) -> Any:
        """The means."""
        return self.posterior(images)[0]

    def posterior(self, images: Any) -> tuple[Any, Any]:
        """Means and standard deviations."""
        mean, raw = self.encoder(as_unit(images)).chunk(2, dim=-1)
        return mean, nn.functional.softplus(raw)

    def losses(self, batch: Any) -> dict[str, Any]:
        """Loss, reconstruction and the summed divergence."""
        images = as_unit(batch["images"])
        mean, deviation = self.posterior(images)
        reconstruction = cross_entropy(self.decoder(mean + deviation * batch["noise"]), images)
        divergence = kl_from_normal(mean, deviation).sum(-1).mean()
        return {
            "loss": reconstruction + self.beta * divergence / self.pixels,
            "reconstruction": reconstruction,
            "divergence": divergence,
        }

    @classmethod
    def prepare(cls, latents: int) -> Prepare:
        """Images with standard normal noise for each latent."""

        def drawn(batch: Any, generator: Any) -> dict[str, Any]:
            noise = torch.randn(len(batch), latents, generator=generator, device=batch.device)
            return {"images": batch, "noise": noise}

        return drawn


class BetaTCVAE(BetaVAE):
    r"""A variational autoencoder whose divergence is split, and whose total correlation weighs :math:`\beta`.

    .. math::
        \mathrm{BCE}+\tfrac1D\big(\mathrm{MI}+\beta\,\mathrm{TC}+\mathrm{DWKL}\big),\qquad
        \mathrm{TC}=\mathbb E\Big[\log q(z)-\sum_j\log q(z_j)\Big],

    where :math:`q(z)` is estimated from the batch of M among ``rows`` N images:
    :math:`\log q(z)\approx\log\sum_m q(z\,|\,x_m)-\log NM`. The number of rows moves the reported parts, and no
    gradient.
    """

    def __init__(
        self, shape: Shape, latents: int, *, network: str = "dense", beta: float = 1.0, rows: int = 10_000
    ) -> None:
        super().__init__(shape, latents, network=network, beta=beta)
        if rows < 1:
            raise InputError(f"there are {rows} rows: at least 1 is needed")
        self.rows = int(rows)

    def losses(self, batch: Any) -> dict[str, Any]:
        """Loss, reconstruction and the three parts of the divergence."""
        images = as_unit(batch["images"])
        mean, deviation = self.posterior(images)
        sample = mean + deviation * batch["noise"]
        reconstruction = cross_entropy(self.decoder(sample), images)
        information, correlation, dimensions = divergence_parts(sample, mean, deviation, self.rows)
        total = information + self.beta * correlation + dimensions
        return {
            "loss": reconstruction + total / self.pixels,
            "reconstruction": reconstruction,
            "information": information,
            "total_correlation": correlation,
            "dimension_wise": dimensions,
        }


def kl_from_normal(mean: Any, deviation: Any) -> Any:
    """KL divergence of normal distributions from the standard one, entry by entry."""
    return 0.5 * (mean**2 + deviation**2 - 1) - torch.log(deviation)


def divergence_parts(sample: Any, mean: Any, deviation: Any, rows: int) -> tuple[Any, Any, Any]:
    """Index-code mutual information, total correlation and dimension-wise divergence, minibatch-weighted.

    They add up to the mean of log q(z|x) - log p(z) at the sample.
    """
    own = log_density(sample, mean, deviation).sum(-1)
    pairs = log_density(sample[:, None], mean[None], deviation[None])  # each sample under the posterior of each image
    weight = math.log(rows * len(sample))
    joint = torch.logsumexp(pairs.sum(-1), dim=1) - weight
    product = (torch.logsumexp(pairs, dim=1) - weight).sum(-1)
    prior = log_density(sample, torch.zeros_like(sample), torch.ones_like(sample)).sum(-1)
    return (own - joint).mean(), (joint - product).mean(), (product - prior).mean()


def log_density(values: Any, mean: Any, deviation: Any) -> Any:
    """Log density of normal distributions, entry by entry."""
    return -0.5 * (((values - mean) / deviation) ** 2 + _LOG_TWO_PI) - torch.log(deviation)
