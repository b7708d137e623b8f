"""Sparse autoencoders: overcomplete dictionaries of a model's activations, with top-k or ReLU codes.

Top-k codes: Makhzani & Frey (2014), Gao et al. (2024). ReLU codes with an L1 penalty: Bricken et al. (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..rows import Progress, blocks
from ..settings import check_choice, check_counts
from ..storage import loaded
from .evaluation import nn, torch
from .recipe import Group, Recipe, Schedule
from .training import Trained, train_many

CODES = ("topk", "relu")
_ROWS = 4096  # rows that are encoded at once


class SparseAutoencoder(nn.Module):
    r"""Sparse autoencoder with unit atoms.

    .. math:: c=\sigma\bigl(W(x-b)+a\bigr),\qquad \hat x=b+\sum_i c_i\,d_i,\qquad \|d_i\|=1

    With ``topk`` codes :math:`\sigma` keeps the k largest entries that are positive; with ``relu`` codes it keeps all
    positive ones, and the loss adds ``penalty`` times :math:`\sum_ic_i`.

    Parameters
    ----------
    width : int
        Dimensions of the data.
    atoms : int
        Number of atoms.
    codes : {"topk", "relu"}
        How codes are made sparse.
    k : int
        Atoms that may be active in a row (``topk``).
    penalty : float
        Weight of the L1 penalty (``relu``).

    Examples
    --------
    >>> import torch
    >>> from isorep.models import SparseAutoencoder
    >>> model = SparseAutoencoder(8, 32, k=4)
    >>> codes = model.encode(torch.randn(5, 8))
    >>> codes.shape, int((codes > 0).sum(1).max()) <= 4, model.dictionary.shape
    (torch.Size([5, 32]), True, torch.Size([32, 8]))
    """

    def __init__(self, width: int, atoms: int, *, codes: str = "topk", k: int = 16, penalty: float = 1e-3) -> None:
        super().__init__()
        check_counts(width=(width, 1), atoms=(atoms, 1))
        check_choice("codes", codes, CODES)
        if codes == "topk":
            check_counts(k=(k, 1, atoms))
        elif not penalty >= 0:
            raise InputError(f"penalty is {penalty!r} and must not be negative")
        self.codes, self.k, self.penalty = codes, int(k), float(penalty)
        start = nn.functional.normalize(torch.randn(atoms, width), dim=1)
        self.decoder = nn.Parameter(start.clone())
        self.encoder = nn.Parameter(start.clone())  # tied at first, so that atoms start alive
        self.threshold = nn.Parameter(torch.zeros(atoms))
        self.centre = nn.Parameter(torch.zeros(width))

    @property
    def dictionary(self) -> Any:
        """The atoms, one unit vector per row."""
        return nn.functional.normalize(self.decoder, dim=1)

    def encode(self, rows: Any) -> Any:
        """Codes, none of them negative."""
        codes = torch.relu((rows - self.centre) @ self.encoder.T + self.threshold)
        if self.codes == "relu":
            return codes
        least = torch.topk(codes, self.k, dim=-1).values[..., -1:]
        return torch.where(codes >= least, codes, torch.zeros_like(codes))

    def decode(self, codes: Any) -> Any:
        """Rows that codes stand for."""
        return codes @ self.dictionary + self.centre

    def forward(self, rows: Any) -> Any:
        """Reconstructed rows."""
        return self.decode(self.encode(rows))

    def losses(self, batch: Any) -> dict[str, Any]:
        """Squared error per row, sparsity, and their sum, the loss."""
        codes = self.encode(batch)
        error = ((self.decode(codes) - batch) ** 2).sum(-1).mean()
        size = codes.sum(-1).mean()
        loss = error + self.penalty * size if self.codes == "relu" else error
        return {"loss": loss, "error": error, "size": size, "active": (codes > 0).to(batch.dtype).sum(-1).mean()}

    def activations(self, rows: Any) -> Array:
        """Codes of an array of rows, as an array in float32."""
        values = np.asarray(loaded(rows, "rows").values[:], dtype=np.float32)
        with torch.no_grad():
            found = [self.encode(torch.from_numpy(values[part])).numpy() for part in blocks(len(values), _ROWS)]
        return np.concatenate(found)


def train_sparse_autoencoders(
    data: Any,
    atoms: int,
    *,
    seeds: Sequence[int] = (0, 1),
    codes: str = "topk",
    k: int = 16,
    penalty: float = 1e-3,
    recipe: Recipe | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> list[Trained]:
    """Train one sparse autoencoder per seed on the same rows.

    Rows are used as they are, so scale them to the order of 1 first. The models start from the mean of the rows.

    Parameters
    ----------
    data : (n, width) array or path
        Activations or embeddings.
    atoms : int
        Number of atoms.
    seeds : sequence of int
        Seeds, all different.
    codes, k, penalty
        As for :class:`SparseAutoencoder`.
    recipe : Recipe, optional
        Default: 20 epochs of Adam in batches of 512, with a learning rate that falls from 2e-3.
    checkpoint, progress
        As for :func:`isorep.models.train_many`.

    Returns
    -------
    list of Trained
        ``module.dictionary`` holds the atoms, ``module.activations(rows)`` their codes.

    Examples
    --------
    >>> import numpy as np
    >>> from isorep.models import Recipe, train_sparse_autoencoders
    >>> rows = np.random.default_rng(0).normal(size=(200, 6))
    >>> models = train_sparse_autoencoders(rows, 12, k=3, recipe=Recipe(epochs=2, batch=64))
    >>> [each.module.dictionary.shape for each in models]
    [torch.Size([12, 6]), torch.Size([12, 6])]
    """
    read = loaded(data, "data")
    values = np.asarray(read.values[:], dtype=np.float32)
    if not np.isfinite(values).all():
        raise InputError(f"{read.name or 'data'} holds values that are not finite")
    mean = torch.from_numpy(values.mean(axis=0))

    def build(seed: int) -> SparseAutoencoder:
        model = SparseAutoencoder(values.shape[1], atoms, codes=codes, k=k, penalty=penalty)
        with torch.no_grad():
            model.centre.copy_(mean)
        return model

    usual = Recipe(epochs=20, batch=512, groups=Group("adam", 2e-3), schedule=Schedule("linear", start=0.5))
    return train_many(
        build,
        torch.from_numpy(values),
        SparseAutoencoder.losses,
        usual if recipe is None else recipe,
        seeds=list(seeds),
        checkpoint=checkpoint,
        progress=progress,
    )
