"""The names of :mod:`isorep.extraction`, importable from where they were in version 0.1.0."""

from ..extraction import *  # noqa: F403
from ..extraction import __all__ as __all__
