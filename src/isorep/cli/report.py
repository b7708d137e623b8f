"""``isorep report``: the HTML page of results that were written with ``--json``, of one or of several.

``isorep doctor``: what this installation has.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from .._version import __version__
from ..errors import InputError
from .common import Json, Quiet


def command(
    results: Annotated[
        list[Path], Argument(metavar="RESULT...", help="Results that isorep wrote with --json; several make one page.")
    ],
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Default: next to RESULT, named .html; of several results report.html."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Turn results into one HTML file: figures and tables inside, no network needed."""
    from ..files import require_writable
    from ..report import read_result, write

    if output is None:
        output = results[0].with_suffix(".html") if len(results) == 1 else Path("report.html")
    for result in results:
        if output.resolve() == result.resolve():
            raise InputError(f"the page would replace {result}: name another file with -o")
    require_writable(output)
    write([read_result(result) for result in results], output)
    if not quiet:
        print(f"wrote {output}")


CORE = ("numpy", "scipy", "scikit-learn", "safetensors", "threadpoolctl", "typer", "rich", "jinja2")
EXTRAS = {
    "io": ("pyarrow", "zarr", "h5py"),
    "bio": ("anndata", "h5py"),
    "torch": ("torch",),
    "hf": ("transformers",),
    "plot": ("matplotlib",),
}
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TMPDIR")


def doctor(json: Json = None, quiet: Quiet = False) -> None:
    """Print versions, extras, BLAS and threads."""
    facts = collect()
    if json is not None:
        from ..files import finite_json, write_text

        write_text(json, finite_json(facts))
    if not quiet:
        _print(facts)


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
    from importlib import metadata, util

    spec = util.find_spec(package.replace("scikit-learn", "sklearn"))
    return None if spec is None else metadata.version(package)
