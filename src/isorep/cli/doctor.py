"""``isorep doctor``: what this installation has."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata, util

from .._version import __version__

CORE = ("numpy", "scipy", "scikit-learn", "safetensors", "threadpoolctl", "typer", "rich")
EXTRAS = {"io": ("pyarrow",)}


def command() -> None:
    """Print versions, extras, BLAS and threads."""
    import numpy  # noqa: F401  (loads BLAS, so that the pools below can be seen)
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    print(f"isorep {__version__}  {os.path.dirname(os.path.dirname(__file__))}")  # noqa: PTH120
    print(f"python {platform.python_version()}  {sys.executable}")
    print(f"system {platform.platform()}, {os.cpu_count()} cores")
    print("\ncore")
    for package in CORE:
        print(f"  {package:<14} {_version(package)}")
    print("\nextras")
    for extra, packages in EXTRAS.items():
        for package in packages:
            found = util.find_spec(package) is not None
            print(f"  {extra:<6} {package:<14} {_version(package) if found else _hint(extra)}")
    print("\nBLAS and threads")
    for pool in threadpool_info():
        print(
            f"  {pool['internal_api']:<10} {pool['version'] or '-':<10} {pool['num_threads']} threads  "
            f"{pool.get('architecture', '')}"
        )
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TMPDIR"):
        if variable in os.environ:
            print(f"  {variable}={os.environ[variable]}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _hint(extra: str) -> str:
    return f"not installed: pip install 'isorep[{extra}]'"
