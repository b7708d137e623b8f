"""Freed memory is kept while many models are trained, and given back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isorep.models.memory import kept_memory

STATUS = Path("/proc/self/status")


@pytest.mark.skipif(not STATUS.exists(), reason="resident memory is read from /proc")
def test_memory_is_given_back():
    before = _resident()
    with kept_memory():
        held = [np.ones(2**20) for _ in range(16)]
        assert _resident() > before + 100e6
        del held
    assert _resident() < before + 40e6


def test_errors_pass_through():
    with pytest.raises(KeyError, match="inside"), kept_memory():
        raise KeyError("inside")


def _resident() -> int:
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
