"""Models of the disentanglement benchmark as published: beta-VAE, beta-TCVAE, VQ-VAE, QLAE, by name with recipes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..settings import check_counts
from .autoencoders import BioAE, PlainAutoencoder, Prepare, Shape, as_unit, cross_entropy
from .evaluation import nn, torch
from .recipe import Group, Recipe, Schedule

_LOG_TWO_PI = math.log(2 * math.pi)


class BetaVAE(PlainAutoencoder):
    r"""beta-VAE: a variational autoencoder whose divergence from the prior has the weight :math:`\beta`.

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
    r"""beta-TCVAE: a variational autoencoder whose total correlation has the weight :math:`\beta`.

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
        check_counts(rows=(rows, 1))
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


CODE_WIDTH = 64


class VQVAE(PlainAutoencoder):
    r"""VQ-VAE: each latent is the nearest code of a common codebook; the index of the code is scored.

    .. math:: \mathrm{BCE}+\overline{(\mathrm{sg}(z)-e)^2}+\kappa\,\overline{(z-\mathrm{sg}(e))^2}

    Gradients of the reconstruction pass straight through the choice of the code.
    """

    outputs = inputs = CODE_WIDTH
    discrete = True
    has_axes = False

    def __init__(
        self, shape: Shape, latents: int, *, network: str = "dense", codes: int = 512, commitment: float = 0.25
    ) -> None:
        super().__init__(shape, latents, network=network)
        if codes < 2 or not commitment >= 0:
            raise InputError("a codebook has at least 2 codes, and the weight of the commitment is at least 0")
        self.commitment = float(commitment)
        most = math.sqrt(3 / CODE_WIDTH)  # of variance 1 / CODE_WIDTH: codes have about unit length
        self.codebook = nn.Parameter(torch.empty(codes, CODE_WIDTH).uniform_(-most, most))

    def encode(self, images: Any) -> Any:
        """The number of the nearest code, for each latent."""
        return nearest_code(self._tokens(as_unit(images)), self.codebook)

    def decode(self, latents: Any) -> Any:
        """Images for numbers of codes."""
        codes = latents.to(torch.int64)
        unknown = codes[(codes < 0) | (codes >= len(self.codebook))]
        if len(unknown):
            raise InputError(f"a codebook of {len(self.codebook)} has no code {int(unknown[0])}")
        return torch.sigmoid(self.decoder(self.codebook[codes].flatten(1)))

    def losses(self, batch: Any) -> dict[str, Any]:
        """Loss, reconstruction and both distances between tokens and codes."""
        images = as_unit(batch)
        tokens = self._tokens(images)
        codes = self.codebook[nearest_code(tokens, self.codebook)]
        reconstruction = cross_entropy(self.decoder(straight_through(tokens, codes).flatten(1)), images)
        quantisation, commitment = distances(tokens, codes)
        return {
            "loss": reconstruction + quantisation + self.commitment * commitment,
            "reconstruction": reconstruction,
            "quantisation": quantisation.detach(),
        }

    def _tokens(self, images: Any) -> Any:
        return self.encoder(images).unflatten(-1, (self.latents, CODE_WIDTH))


class QLAE(PlainAutoencoder):
    r"""QLAE: each latent is a number, quantised to the nearest of a few values learnt for that latent.

    .. math:: \mathrm{BCE}+\lambda_q\,\overline{(\mathrm{sg}(z)-v)^2}+\lambda_c\,\overline{(z-\mathrm{sg}(v))^2}

    The values are scored. A strong weight decay is part of the method.
    """

    discrete = True

    def __init__(
        self,
        shape: Shape,
        latents: int,
        *,
        network: str = "dense",
        values: int = 10,
        quantisation: float = 0.01,
        commitment: float = 0.01,
    ) -> None:
        super().__init__(shape, latents, network=network)
        if values < 2 or not (quantisation >= 0 and commitment >= 0):
            raise InputError("a latent has at least 2 values, and weights of the loss are at least 0")
        self.quantisation, self.commitment = float(quantisation), float(commitment)
        self.codebook = nn.Parameter(torch.linspace(-0.5, 0.5, values).repeat(latents, 1))

    def encode(self, images: Any) -> Any:
        """The value of each latent."""
        return nearest_value(self.encoder(as_unit(images)), self.codebook)

    def losses(self, batch: Any) -> dict[str, Any]:
        """Loss, reconstruction and the distance between numbers and values."""
        images = as_unit(batch)
        numbers = self.encoder(images)
        values = nearest_value(numbers, self.codebook)
        reconstruction = cross_entropy(self.decoder(straight_through(numbers, values)), images)
        quantisation, commitment = distances(numbers, values)
        return {
            "loss": reconstruction + self.quantisation * quantisation + self.commitment * commitment,
            "reconstruction": reconstruction,
            "quantisation": quantisation.detach(),
        }


def nearest_code(tokens: Any, codebook: Any) -> Any:
    """Which code is nearest to each token: tokens (..., width), codebook (codes, width)."""
    squares = (codebook**2).sum(-1) - 2 * tokens @ codebook.mT  # less the token's own square, the same for all codes
    return squares.detach().argmin(-1)


def nearest_value(numbers: Any, codebook: Any) -> Any:
    """The nearest value of its own for each number: numbers (rows, latents), codebook (latents, values)."""
    places = (numbers[..., None] - codebook).detach().abs().argmin(-1, keepdim=True)
    return torch.gather(codebook.expand(*numbers.shape, -1), -1, places)[..., 0]


def straight_through(given: Any, quantised: Any) -> Any:
    """Straight-through estimator: quantised in the forward pass, identity for gradients."""
    return given + (quantised - given).detach()


def distances(given: Any, quantised: Any) -> tuple[Any, Any]:
    """Mean squared distances that move the quantised side alone, and the given side alone."""
    return ((given.detach() - quantised) ** 2).mean(), ((given - quantised.detach()) ** 2).mean()


@dataclass(frozen=True)
class Method:
    """A model of the benchmark.

    Attributes
    ----------
    name, title : str
    model : type
        A subclass of :class:`PlainAutoencoder`.
    weight_decay : float
        As published for most data sets; 0 for models without any.
    settings : mapping
        Arguments of the model.
    by_data : mapping of str to mapping
        Published settings that differ for a data set; ``weight_decay`` may be among them.
    """

    name: str
    title: str
    model: type[PlainAutoencoder]
    weight_decay: float = 0.0
    settings: Mapping[str, float] = field(default_factory=dict)
    by_data: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def settings_for(self, data: str) -> tuple[dict[str, float], float]:
        """The model's arguments and the weight decay for a data set."""
        found = {"weight_decay": self.weight_decay, **self.settings, **self.by_data.get(data, {})}
        decay = found.pop("weight_decay")
        return found, decay

    def builder(self, shape: Shape, latents: int, *, network: str, rows: int, **settings: float) -> Any:
        """``build(seed)`` for the trainer, which seeds torch before it calls."""
        given: dict[str, Any] = {"network": network, **settings}
        if issubclass(self.model, BetaTCVAE):
            given["rows"] = rows
        return lambda seed: self.model(shape, latents, **given)


def method_named(name: str) -> Method:
    """A model of the benchmark by its name."""
    if name not in METHODS:
        raise InputError(f"there is no model {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name]


def benchmark_recipe(
    steps: int,
    *,
    weight_decay: float = 0.0,
    learning_rate: float = 1e-3,
    batch: int = 128,
    falls_after: float | None = None,
    record_every: int | None = None,
) -> Recipe:
    """How models of the benchmark are trained.

    Gradients of weights are clipped entry by entry to [-1, 1] and moved by AdamW. Biases and codebooks are moved by
    Adam, neither clipped nor decayed. ``falls_after`` is the share of steps after which the learning rate falls to
    zero along a cosine; as published it stays.
    """
    return Recipe(
        steps=steps,
        batch=batch,
        groups=(
            Group("adam", learning_rate, names=("*bias", "*codebook")),
            Group("adamw", learning_rate, options={"weight_decay": weight_decay}, clip_value=1.0),
        ),
        schedule=Schedule() if falls_after is None else Schedule("cosine", start=falls_after),
        record_every=record_every,
    )


METHODS = {
    method.name: method
    for method in (
        Method("ae", "AE", PlainAutoencoder, weight_decay=1e-3),
        Method(
            "beta_vae",
            "β-VAE",
            BetaVAE,
            settings={"beta": 3.0},
            by_data={"mpi3d_real_complex": {"beta": 0.1}, "falcor3d": {"beta": 10.0}, "isaac3d": {"beta": 0.3}},
        ),
        Method(
            "beta_tcvae",
            "β-TCVAE",
            BetaTCVAE,
            settings={"beta": 3.0},
            by_data={"mpi3d_real_complex": {"beta": 0.3}, "isaac3d": {"beta": 1.0}},
        ),
        Method("bioae", "BioAE", BioAE, weight_decay=1e-4, by_data={"isaac3d": {"activity": 0.1}}),
        Method("vqvae", "VQ-VAE", VQVAE),
        Method("vqvae_decay", "VQ-VAE with weight decay", VQVAE, weight_decay=0.01),
        Method("qlae", "QLAE", QLAE, weight_decay=0.1, by_data={"mpi3d_real_complex": {"weight_decay": 1e-3}}),
    )
}
"""Every model of the benchmark."""
