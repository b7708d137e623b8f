"""Shared settings and small data makers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("isorep", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("isorep")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
