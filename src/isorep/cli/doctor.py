"""``isorep doctor``: what this installation has."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Annotated, Any

import typer

from .._version import __version__
from .common import Quiet

CORE = ("numpy", "scipy", "scikit-learn", "safetensors", "threadpoolctl", "typer", "rich", "jinja2")
EXTRAS = {
    "io": ("pyarrow", "zarr", "h5py"),
    "bio": ("anndata", "h5py"),
    "torch": ("torch",),
    "hf": ("transformers",),
    "plot": ("matplotlib",),
}
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TMPDIR")


def command(
    json: Annotated[Path | None, typer.Option(help="Write the same as JSON here.")] = None,
    quiet: Quiet = False,
) -> None:
    """Print versions, extras, BLAS and threads."""
    facts = collect()
    if json is not None:
        from json import dumps

        from ..files import write_text

        write_text(json, dumps(facts, indent=2) + "\n")
    if not quiet:
        _print(facts)


def collect() -> dict[str, Any]:
    """What a bug report needs to say about the installation."""
    import numpy  # noqa: F401  (loads BLAS, so that its pools can be seen)
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return {
        "isorep": __version__,
        "location": str(Path(__file__).parents[1]),
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "core": {package: _version(package) for package in CORE},
        "extras": {extra: {package: _version(package) for package in packages} for extra, packages in EXTRAS.items()},
        "blas": [
            {key: pool.get(key) for key in ("internal_api", "version", "num_threads", "architecture")}
            for pool in threadpool_info()
        ],
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def _print(facts: dict[str, Any]) -> None:
    print(f"isorep {facts['isorep']}  {facts['location']}")
    print(f"python {facts['python']}  {facts['executable']}")
    print(f"system {facts['system']}, {facts['cores']} cores")
    print("\ncore")
    for package, version in facts["core"].items():
        print(f"  {package:<14} {version or 'missing'}")
    print("\nextras")
    for extra, packages in facts["extras"].items():
        for package, version in packages.items():
            hint = f"not installed: pip install 'isorep[{extra}]'"
            print(f"  {extra:<6} {package:<14} {version or hint}")
    print("\nBLAS and threads")
    for pool in facts["blas"]:
        known = f"{pool['internal_api']:<10} {pool['version'] or '-':<14}"
        print(f"  {known} {pool['num_threads']} threads  {pool['architecture'] or ''}")
    for name, value in facts["environment"].items():
        print(f"  {name}={value}")


def _version(package: str) -> str | None:
    """The installed version; None where the package is missing."""
    if util.find_spec(package.replace("scikit-learn", "sklearn")) is None:
        return None
    return metadata.version(package)
