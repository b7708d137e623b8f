"""Shared settings and small data makers."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import settings

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # tests may import onnxruntime before isorep does
os.environ["COLUMNS"] = "1000"  # no sentence is wrapped and no column left out, whatever the terminal

settings.register_profile("isorep", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("isorep")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
