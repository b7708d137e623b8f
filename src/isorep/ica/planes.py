"""How well the data determine the rotation, plane by plane."""

from __future__ import annotations

import numpy as np

from ..representation import Array
from .white import Portrait


def conditioning(portrait: Portrait) -> Array:
    r"""Second variation of the contrast in the plane of every two components.

    .. math:: h_{ij}=\tfrac12\{c_i[\mathbb Eg'(y_i)y_j^2-\mathbb Eg(y_i)y_i]
              +c_j[\mathbb Eg'(y_j)y_i^2-\mathbb Eg(y_j)y_j]\}

    with :math:`c_j=\operatorname{sign}\alpha_j`. Two components with a small :math:`h_{ij}` may rotate into each other
    at little cost; where it is negative the point is a saddle. The smallest one bounds the constant :math:`\gamma` of
    the perturbation lemma from above. The diagonal holds :math:`|\alpha_j|`, a component's curvature against noise.
    """
    signs = np.where(portrait.alpha >= 0, 1.0, -1.0)
    one_way = signs[:, None] * (portrait.pairs - portrait.product[:, None])
    planes = (one_way + one_way.T) / 2
    np.fill_diagonal(planes, np.abs(portrait.alpha))
    return np.asarray(planes)
