"""How large a cloud of rows is, in ways that no single row sets."""

from __future__ import annotations

import numpy as np

from ..representation import Array


def rms_radius(rows: Array) -> float:
    """The root mean square distance from the mean."""
    return float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()))


def quartic_spread(rows: Array) -> float:
    r"""The spread :math:`(\mathbb E\|x-x'\|^4)^{1/4}` over all pairs of rows, without going through pairs.

    For centred rows with :math:`a=\|x\|^2` and covariance :math:`\Sigma`,
    :math:`\mathbb E\|x-x'\|^4=2\,\mathbb E a^2+2(\mathbb E a)^2+4\|\Sigma\|_F^2`.
    """
    centred = rows - rows.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    wide = centred.shape[1] > len(centred)
    gram = (centred @ centred.T if wide else centred.T @ centred) / len(centred)  # of the same Frobenius norm
    total = 2 * float((squares**2).mean()) + 2 * float(squares.mean()) ** 2 + 4 * float((gram**2).sum())
    return float(total**0.25)
