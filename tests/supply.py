"""Supply chain: hashes of the locked set, and the licences of what isorep needs.

``python tests/supply.py hashes`` writes ``requirements-hashed.txt`` from ``constraints.txt``, by pip's own resolution
of every pin. ``python tests/supply.py licences`` writes ``docs/project/licences.md`` from the installed packages.
``python tests/supply.py audit`` looks every pin up among known vulnerabilities, by pip-audit; ``make audit`` does.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
HASHED = ROOT / "requirements-hashed.txt"
LICENCES = ROOT / "docs" / "project" / "licences.md"
EXTRAS = ("io", "bio", "dask", "torch", "hf", "plot", "images", "onnx", "gguf", "stores")
_HEAD = """\
# constraints.txt with the hash of every wheel for Linux on x86-64 and CPython 3.11, made by tests/supply.py:
#   pip install --require-hashes --no-deps -r requirements-hashed.txt
# torch is the build without CUDA.
"""


def plain(name: str) -> str:
    """A package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """The version of each package in a list of pins."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE)
    return {plain(name): version for name, version in found}


def hashes() -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of the wheel that pip would install for each pin; nothing is installed."""
    pinned = [f"{name}=={version}" for name, version in pins((ROOT / "constraints.txt").read_text()).items()]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--no-deps"]
    command += ["--only-binary", ":all:", "--report", "-", *pinned]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for item in json.loads(done.stdout)["install"]:
        archive = item["download_info"]["archive_info"]
        about = item["metadata"]
        version = about["version"].partition("+")[0]  # torch's build without CUDA has a suffix, which no pin names
        found[plain(about["name"])] = (version, [f"{kind}:{held}" for kind, held in archive["hashes"].items()])
    return found


def requirements(name: str) -> Iterator[str]:
    """The packages that one needs without any extra."""
    try:
        needed = distribution(name).requires or []
    except PackageNotFoundError:
        return
    for each in needed:
        if "extra ==" not in each:
            yield plain(re.split(r"[\s;<>=!~\[(]", each, maxsplit=1)[0])


def needed() -> dict[str, str]:
    """What isorep and its extras need, also indirectly, and who asks for it first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {"core": project["dependencies"]}
    asked |= {extra: project["optional-dependencies"][extra] for extra in EXTRAS}
    found: dict[str, str] = {}
    for group, packages in asked.items():
        pending = [plain(re.split(r"[\[<>=]", each, maxsplit=1)[0]) for each in packages]
        while pending:
            name = pending.pop(0)
            if name not in found:
                found[name] = group
                pending += requirements(name)
    return found


def licence(held: Distribution) -> str:
    """The licence that a package declares: the expression, else its classifiers, else the first line of the text."""
    about = held.metadata
    declared = about.get("License-Expression")
    if declared:
        return str(declared)
    classified = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier") or [] if "License ::" in each]
    first = str(about.get("License") or "").strip().split("\n")[0]
    return ", ".join(classified) or first[:60] or "not declared"


def licence_table() -> str:
    """A page with the licence of every installed package that isorep or an extra needs."""
    rows = []
    for name, group in sorted(needed().items()):
        try:
            rows.append((name, group, licence(distribution(name))))
        except PackageNotFoundError:  # for other systems or Pythons
            continue
    lines = [f"| {name} | {group} | {told} |" for name, group, told in rows]
    return "\n".join(
        [
            "# Licences of dependencies",
            "",
            "isorep is licensed under Apache-2.0. This table lists what the core and each extra need, also",
            "indirectly, with the licence that each package declares. `python tests/supply.py licences` makes it.",
            "",
            "| package | needed by | licence |",
            "|---|---|---|",
            *lines,
            "",
        ]
    )


def audited(told: str) -> tuple[int, list[str]]:
    """How many pins pip-audit found in its service, and the known vulnerabilities; those not found are not audited."""
    packages = [each for each in json.loads(told)["dependencies"] if "skip_reason" not in each]
    known = [f"{each['name']} {each['version']}: {one['id']}" for each in packages for one in each["vulns"]]
    return len(packages), known


def audit() -> None:
    """Look up the pins, record the counts; exit 1 if one is known to be vulnerable, 3 if the service did not answer."""
    from faults import record

    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    done = subprocess.run([*command, "--format", "json", "-r", str(HASHED)], capture_output=True, text=True)
    count = len(pins(HASHED.read_text()))
    looked_up, known = audited(done.stdout) if done.stdout.strip() else (0, [])
    if looked_up < count:
        why = "" if looked_up else ": its service of known vulnerabilities cannot be reached from here"
        print(f"pip-audit looked up {looked_up} of {count} pins{why}", file=sys.stderr)
    else:
        print(f"pip-audit looked up all {count} pins: {len(known)} known vulnerabilities")
    print(*known, sep="\n")
    record("audit", {"pins": count, "looked_up": looked_up, "vulnerabilities": len(known)})
    sys.exit(1 if known else 3 if looked_up < count else 0)


def main() -> None:
    """Write the hashes or the licences, or audit the pins."""
    if sys.argv[1:] == ["hashes"]:
        lines = [
            " \\\n    ".join([f"{name}=={version}", *(f"--hash={each}" for each in held)])
            for name, (version, held) in sorted(hashes().items())
        ]
        HASHED.write_text(_HEAD + "\n".join(lines) + "\n")
    elif sys.argv[1:] == ["licences"]:
        LICENCES.write_text(licence_table())
    elif sys.argv[1:] == ["audit"]:
        audit()
    else:
        sys.exit("name what to do: hashes, licences or audit")


if __name__ == "__main__":
    main()
