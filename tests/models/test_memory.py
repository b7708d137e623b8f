"""Freed memory is kept while many models are trained, and given back."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from isorep.models.batched import kept_memory

# In an interpreter of its own: what a process freed before may be used again without showing as new.
PROGRAM = """
import json
import numpy as np
from isorep.models.batched import kept_memory

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

before = resident()
with kept_memory():
    held = [np.ones(2**20) for _ in range(16)]
    full = resident()
    del held
    freed = resident()
print(json.dumps([full - before, freed - before, resident() - before]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep memory")
def test_memory_is_kept_and_given_back():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    full, freed, after = json.loads(done.stdout)
    assert full > 120e6  # sixteen arrays of 8 MB
    assert freed > 120e6
    assert after < 20e6


def test_errors_pass_through():
    with pytest.raises(KeyError, match="inside"), kept_memory():
        raise KeyError("inside")
