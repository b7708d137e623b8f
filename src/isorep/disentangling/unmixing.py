"""Unmixing of an autoencoder's latents into independent components, in the directions that its decoder responds to.

Conditioning of the decoder, over all latents and over active directions only.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..decoder import bilipschitz
from ..errors import InputError
from ..ica import ICA
from ..representation import Array
from ..results import Record
from ..rows import refuse_non_finite
from ..settings import check_choice

KINDS = ("pruned", "scaled", "published", "whitened")
SCALE = 3.0
"""Root mean square of latents before ICA that does not whiten; below about 1 its fixed point stops at once."""
SHARE = 1 / 20
"""A direction is active if its effect on the images exceeds this share of the most active one's."""
_SWEEPS = 500


@dataclass(frozen=True, eq=False)
class Unmixing(Record):
    """An affine map from latents to components, and back.

    Attributes
    ----------
    kind : str
    mean : (d,) array
    matrix : (k, d) array
        Components are ``(latents - mean) @ matrix.T``.
    back : (d, k) array
        Latents are ``components @ back.T + mean``; directions that were pruned stay at their mean.
    converged : bool
    conditioning : (k, k) array or None
        Second variation of the contrast in the plane of two components (see :class:`isorep.ICA`); None without
        whitening.
    gaussian : (k,) array of bool or None
        Components that are indistinguishable from Gaussian.
    activity : (d,) array or None
        Effect of each direction on the images, the most active first; only for the pruned kind.
    """

    kind: str
    mean: Array
    matrix: Array
    back: Array
    converged: bool
    conditioning: Array | None = field(default=None, repr=False)
    gaussian: Array | None = field(default=None, repr=False)
    activity: Array | None = field(default=None, repr=False)

    @property
    def components(self) -> int:
        """The number of components."""
        return len(self.matrix)

    def transform(self, latents: Any) -> Array:
        """Map latents to components."""
        return np.asarray((np.asarray(latents, dtype=np.float64) - self.mean) @ self.matrix.T)

    def inverse_transform(self, components: Any) -> Array:
        """Map components back to latents."""
        return np.asarray(np.asarray(components, dtype=np.float64) @ self.back.T + self.mean)


def unmix(latents: Any, kind: str = "pruned", *, response: Array | None = None, random_state: int = 0) -> Unmixing:
    r"""Compute independent components of latents.

    Parameters
    ----------
    latents : (n, d) array
        One row per image.
    kind : {"pruned", "scaled", "published", "whitened"}
        ``published`` neither centres nor whitens: the fixed point of ICA on latents as they are, all dimensions kept.
        Its result depends on their scale. ``scaled`` does the same to centred latents with a root mean square of 3.
        ``whitened`` whitens all directions that vary at all, which gives inactive ones the weight of active ones.
        ``pruned`` keeps the directions that the decoder responds to, and whitens these.
    response : (d, d) array, optional
        For ``pruned``: the mean of :math:`J^\top J` over Jacobians of the decoder, from :func:`decoder_response`.
    random_state : int
        Seed of the search.

    Examples
    --------
    >>> import numpy as np
    >>> from isorep.disentangling import unmix
    >>> rng = np.random.default_rng(0)
    >>> factors = rng.uniform(-1, 1, size=(4000, 2))
    >>> latents = np.column_stack([factors @ [[1, 0.5], [-0.5, 1]], 0.01 * rng.normal(size=4000)])
    >>> found = unmix(latents, response=np.eye(3))
    >>> found.components
    2
    >>> bool(np.abs(np.corrcoef(factors.T, found.transform(latents).T)[:2, 2:]).max(axis=1).min() > 0.99)
    True
    """
    values = np.asarray(latents)
    if values.ndim != 2 or min(values.shape) < 1 or len(values) < 2 or values.dtype.kind not in "fiu":
        raise InputError(f"latents are numbers in rows and columns, not {values.dtype} of the shape {values.shape}")
    values = values.astype(np.float64)
    refuse_non_finite(values, "latents")
    check_choice("kind", kind, KINDS)
    mean = values.mean(0)
    scale = float(np.sqrt(np.mean((values - mean) ** 2)))
    if scale == 0:
        raise InputError("all rows of the latents are alike: there is nothing to unmix")
    if kind in ("published", "scaled"):
        shift, factor = (np.zeros_like(mean), 1.0) if kind == "published" else (mean, SCALE / scale)
        ica = _fitted(ICA(whiten=None, random_state=random_state, max_iter=_SWEEPS), (values - shift) * factor)
        return Unmixing(kind, shift, factor * ica.components_, ica.mixing_ / factor, bool(ica.converged_))
    if kind == "whitened":
        same = np.eye(len(mean))
        return _whitened(kind, _fitted(ICA(random_state=random_state), values), mean, same, same)
    if response is None:
        raise InputError("pruning needs the response of the decoder: see decoder_response")
    onto, back, activity = active_directions(values, response)
    found = _fitted(ICA(random_state=random_state), (values - mean) @ onto.T)
    return _whitened(kind, found, mean, onto, back, activity)


def decoder_response(jacobians: Any) -> Array:
    r"""The response of a decoder to each pair of latents: the mean of :math:`J^\top J` over samples."""
    values = np.asarray(jacobians)
    if values.ndim != 3 or min(values.shape) < 1:
        raise InputError(f"Jacobians have samples, outputs and latents, not the shape {values.shape}")
    flat = values.reshape(-1, values.shape[2]).astype(np.float64)
    return np.asarray(flat.T @ flat / len(values))


def active_directions(latents: Array, response: Array, share: float = SHARE) -> tuple[Array, Array, Array]:
    r"""White coordinates in the directions that affect images, the inverse map, and the effect of every direction.

    With the covariance :math:`\Sigma` of latents and the response M of the decoder, the eigenvalues of
    :math:`\Sigma^{1/2}M\Sigma^{1/2}` are the variances of the images along white directions, to first order. They do
    not change when latents are mixed or rescaled and the decoder makes up for it.
    """
    if response.shape != 2 * (latents.shape[1],):
        raise InputError(f"the response has the shape {response.shape} and there are {latents.shape[1]} latents")
    spread, axes = np.linalg.eigh(np.cov(latents, rowvar=False).reshape(response.shape))
    there = spread > spread[-1] * 1e-12
    roots = np.sqrt(spread[there])
    half = axes[:, there] * roots
    moved, turned = np.linalg.eigh(half.T @ response @ half)
    activity = np.sqrt(np.maximum(moved[::-1], 0.0))
    if not activity[0] > 0:
        raise InputError("the decoder responds to no direction of the latents")
    kept = int((activity > share * activity[0]).sum())
    chosen = turned[:, ::-1][:, :kept]
    onto = chosen.T @ (axes[:, there] / roots).T
    return onto, half @ chosen, np.pad(activity, (0, latents.shape[1] - len(activity)))


def _fitted(ica: ICA, values: Array) -> ICA:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the result reports them
        return ica.fit(values)


def _whitened(kind: str, ica: ICA, mean: Array, onto: Array, back: Array, activity: Array | None = None) -> Unmixing:
    maps = (ica.components_ @ onto, back @ ica.mixing_, bool(ica.converged_))
    return Unmixing(kind, mean, *maps, ica.conditioning_, ica.gaussian_, activity)


def decoder_constants(module: Any, pruned: Unmixing, sample: Array) -> dict[str, Any]:
    """Bi-Lipschitz constants of ``module.decode`` at a sample of latents.

    ``all`` is over every latent. ``active`` is over the directions that a pruned unmixing keeps, in orthonormal
    coordinates of these, so that lengths are those of the latents.
    """
    from ..models.evaluation import nn, torch

    first = next(module.parameters())
    basis = np.linalg.qr(pruned.back)[0]
    onto, mean = (torch.from_numpy(part).to(first) for part in (basis, pruned.mean))

    class Restricted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = module

        def forward(self, coordinates: Any) -> Any:
            return self.whole.decode(coordinates @ onto.T + mean)

    activity = pruned.activity if pruned.activity is not None else np.ones(1)
    return {
        "directions": pruned.components,
        "activity": (activity / activity[0]).tolist(),
        "all": _constants(module.decode, sample),
        "active": _constants(Restricted(), (sample - pruned.mean) @ basis),
    }


def _constants(decoder: Any, sample: Array) -> dict[str, float]:
    constants = bilipschitz(decoder, sample.astype(np.float32), n_directions=0).constants
    return {
        "constant": constants.constant,
        "similarity": constants.similarity_constant,
        "condition": constants.condition,
        "median_condition": constants.median_condition,
    }
