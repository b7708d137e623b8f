"""``isorep doctor``: versions of Python, packages and extras, BLAS and threads."""

import os
import sys
from pathlib import Path
from typing import Any

from .._version import ISSUES, __version__
from .common import Json, Quiet, require_outputs, show, tell_outputs

CORE = ("numpy", "scipy", "scikit-learn", "safetensors", "threadpoolctl", "typer", "rich", "jinja2")
EXTRAS = {
    "io": ("pyarrow", "zarr", "h5py"),
    "bio": ("anndata", "h5py", "harmonypy", "lightgbm"),
    "dask": ("dask", "distributed"),
    "torch": ("torch",),
    "hf": ("torch", "transformers"),
    "onnx": ("torch", "onnxruntime"),
    "gguf": ("torch", "transformers", "gguf", "accelerate"),
    "plot": ("matplotlib",),
    "images": ("pillow",),
    "stores": ("faiss-cpu", "lancedb", "psycopg", "qdrant-client"),
}
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TMPDIR", "ISOREP_DATA")


def command(json: Json = None, quiet: Quiet = False) -> None:
    """Show versions of Python, packages and extras, BLAS and threads: what a bug report needs."""
    require_outputs([json])
    facts = collect()
    if json is not None:
        from ..files import finite_json, write_text

        write_text(json, finite_json(facts))
    if not quiet:
        show(_text(facts))
        tell_outputs(json, None)


def collect() -> dict[str, Any]:
    """What a bug report needs to say about the installation."""
    import platform

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


def _text(facts: dict[str, Any]) -> str:
    from ..results import counted

    lines = [
        f"isorep {facts['isorep']}  {facts['location']}",
        f"python {facts['python']}  {facts['executable']}",
        f"system {facts['system']}, {counted(facts['cores'] or 1, 'core')}",
        "",
        "core",
        *(f"  {package:<14} {version or 'missing'}" for package, version in facts["core"].items()),
        "",
        "extras",
    ]
    for extra, packages in facts["extras"].items():
        for package, version in packages.items():
            hint = f"not installed: pip install 'isorep[{extra}]'"
            lines.append(f"  {extra:<7} {package:<13} {version or hint}")
    lines += ["", "BLAS and threads"]
    for pool in facts["blas"]:
        known = f"{pool['internal_api']:<10} {pool['version'] or '-':<14}"
        threads = counted(pool["num_threads"], "thread")
        lines.append(f"  {known} {threads}  {pool['architecture'] or ''}".rstrip())
    lines += [f"  {name}={value}" for name, value in facts["environment"].items()]
    return "\n".join([*lines, "", f"Problems: {ISSUES}"])


def _version(package: str) -> str | None:
    """The installed version; None where the package is missing."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
