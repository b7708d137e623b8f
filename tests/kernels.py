"""Numeric tests under other processor kernels of OpenBLAS, numpy and torch, one factor at a time.

Kernels round differently, so a test that passes under one may hang on its last digits. ``make test-kernels`` runs all
of them and prints a table; ``make test`` runs one kernel besides the native one (``--one``).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

FEW = ["tests/test_golden.py", "tests/ica", "tests/similarity", "tests/alignment", "tests/comparison"]
TORCH = ["tests/decoder", "tests/disentangling", "tests/heads", "tests/models", "tests/ica/test_accelerated.py"]
NUMERIC = [
    *FEW,
    *TORCH[:3],
    "tests/structure",
    "tests/translation",
    "tests/deconfounding",
    "tests/test_columns.py",
    "tests/test_moments.py",
    "tests/test_resampling.py",
    "tests/cli/test_deconfound_command.py",
    "tests/cli/test_extremes.py",
]
EVERY = [*NUMERIC, "tests/models"]
DRAWN = ["tests/similarity/test_calibration.py"]  # shares of many draws, in which last digits are lost
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

Setting = tuple[dict[str, str], list[str]]


def native() -> str:
    """The kernel that OpenBLAS chooses here."""
    found = [pool["architecture"] for pool in threadpool_info() if pool["internal_api"] == "openblas"]
    return found[0] if found else "none"


def other() -> str:
    """One kernel that rounds differently from the native one."""
    return "Haswell" if native() == "SkylakeX" else "Nehalem"


def settings() -> list[Setting]:
    """The native setting, then every other value of one variable that this processor can run."""
    flags = set(Path("/proc/cpuinfo").read_text().split()) if Path("/proc/cpuinfo").exists() else set()
    kernels = ["Nehalem", "Prescott"]
    kernels += ["Haswell", "Zen"] if "avx2" in flags else []
    kernels += ["SkylakeX"] if "avx512f" in flags else []
    found: list[Setting] = [({}, EVERY)]
    found += [({"OPENBLAS_CORETYPE": kernel}, NUMERIC) for kernel in kernels if kernel != native()]
    found += [({"NPY_DISABLE_CPU_FEATURES": features}, NUMERIC) for features in numpy_features()]
    found += [({"ATEN_CPU_CAPABILITY": level}, TORCH) for level in ("default", "avx2")]
    found += [({"MKL_ENABLE_INSTRUCTIONS": level}, TORCH) for level in ("SSE4_2", "AVX2")]
    found += [({"ONEDNN_MAX_CPU_ISA": level}, TORCH) for level in ("SSE41", "AVX2")]
    found.append(({"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}, EVERY))
    return found


def name_of(setting: dict[str, str]) -> str:
    """What a setting is called in the table."""
    return " ".join(f"{key}={value}" for key, value in setting.items()) or f"native ({native()})"


def numpy_features() -> list[str]:
    """Features to disable: all that this build of numpy dispatches to and this processor has, and the widest alone."""
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    has = [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]
    wide = [name for name in has if name.startswith(("AVX512", "X86_V4"))]
    return list(dict.fromkeys(" ".join(names) for names in (has, wide) if names))


def passes(setting: dict[str, str], paths: list[str], extra: list[str]) -> bool:
    """Whether the tests pass with these variables set."""
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "2", "--dist", "worksteal", *paths, *extra]
    return subprocess.run(command, env={**os.environ, **ONE_THREAD, **setting}, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", action="store_true", help="only one kernel besides the native one")
    parser.add_argument("--only", default="", help="only settings whose name holds this, such as OPENBLAS or Zen")
    arguments, extra = parser.parse_known_args()
    chosen = [({"OPENBLAS_CORETYPE": other()}, FEW)] if arguments.one else settings()
    if arguments.one:
        extra += [f"--ignore={path}" for path in DRAWN]
    chosen = [each for each in chosen if arguments.only in name_of(each[0])]
    lines, failed = [], 0
    for setting, paths in chosen:
        name = name_of(setting)
        print(f"== {name}", flush=True)
        good = passes(setting, paths, extra)
        failed += not good
        lines.append(f"{'passed' if good else 'FAILED'}  {name}")
    print(f"\nnumpy {np.__version__}, native kernel {native()}", *lines, sep="\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
