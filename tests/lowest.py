"""The lowest versions that pyproject.toml claims, as constraints for pip.

``make test-lowest`` installs under them. Every requirement with a lower bound sits at it; every other package may be
no newer than in constraints.txt, so that the environment is the same tomorrow.
"""

from __future__ import annotations

import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+?)(\[[\w,-]+\])?(>=(?P<bound>[\w.]+))?")


def lowest(project: dict, tested: str) -> list[str]:
    """One constraint a package, from pyproject's ``[project]`` table and the text of constraints.txt."""
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    bounds: dict[str, str] = {}
    for requirement in wanted:
        name, bound = name_and_bound(requirement)
        if bound and bounds.setdefault(name, bound) != bound:
            raise ValueError(f"{name} has two lower bounds, {bounds[name]} and {bound}")
    pins = [line.split("==") for line in tested.splitlines() if "==" in line]
    ceilings = [f"{name}<={version}" for name, version in pins if normal(name) not in bounds]
    return [*(f"{name}=={bound}" for name, bound in sorted(bounds.items())), *ceilings]


def name_and_bound(requirement: str) -> tuple[str, str | None]:
    """``dask[array]>=2024.8`` is ``dask`` and ``2024.8``; one without a bound has None, and markers do not count."""
    match = REQUIREMENT.fullmatch(requirement.partition(";")[0].replace(" ", ""))
    if match is None:
        raise ValueError(f"{requirement!r} is not NAME or NAME>=VERSION")
    return normal(match["name"]), match["bound"]


def normal(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print(*lowest(project, (ROOT / "constraints.txt").read_text()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
