"""The supply chain: hashes for every pin, licences for every package, and no connection that nobody asked for."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from . import supply

OFFLINE = """
import socket, sys
def refuse(*_, **__):
    raise AssertionError("a connection was opened")
socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = refuse
{action}
"""
IMPORTS = """
import importlib, pkgutil, isorep
for name in ("storage", "comparison", "similarity", "structure", "ica", "translation", "heads", "report", "cli"):
    importlib.import_module(f"isorep.{name}")
import isorep.cli.commands
"""
RUN = """
from isorep.cli.main import run
sys.argv = ["isorep", *sys.argv[1:]]
run()
"""


def test_the_hashes_agree_with_the_constraints():
    text = supply.HASHED.read_text()
    pinned, hashed = supply.pins((supply.ROOT / "constraints.txt").read_text()), supply.pins(text)
    assert hashed == pinned
    blocks = re.split(r"\n(?=[A-Za-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(blocks) == len(pinned)
    for block in blocks:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block


def test_the_licence_table_names_what_is_needed_and_no_licence_is_missing():
    text = supply.LICENCES.read_text()
    rows = dict(re.findall(r"^\| ([a-z0-9-]+) \| [a-z]+ \| (.+) \|$", text, re.MULTILINE))
    for name, group in supply.needed().items():
        try:
            supply.distribution(name)
        except supply.PackageNotFoundError:
            continue
        assert f"| {name} | {group} |" in text, "run  python tests/supply.py licences"
    assert "not declared" not in rows.values()
    core = [name for name, group in supply.needed().items() if group == "core"]
    assert not [name for name in core if "GPL" in rows.get(name, "") and "LGPL" not in rows[name]]


@pytest.mark.parametrize("action", ["import", "compare"])
def test_nothing_is_connected_to_unless_asked(tmp_path, action):
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(60, 3)))
    code = OFFLINE.format(action=IMPORTS if action == "import" else RUN)
    arguments = [
        "compare",
        tmp_path / "a.npy",
        tmp_path / "b.npy",
        "--fast",
        "--null",
        "2",
        "--html",
        tmp_path / "r.html",
    ]
    command = [sys.executable, "-c", code, *map(str, arguments if action == "compare" else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def test_the_guard_notices_a_connection():
    code = OFFLINE.format(action="import socket; socket.create_connection(('localhost', 9))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "a connection was opened" in done.stderr


def test_pins_that_the_audit_did_not_find_are_not_counted_as_audited():
    told = {
        "dependencies": [
            {"name": "unknown", "skip_reason": "not found"},
            {"name": "sound", "version": "1.0", "vulns": []},
            {"name": "old", "version": "0.1", "vulns": [{"id": "CVE-1"}]},
        ]
    }
    assert supply.audited(json.dumps(told)) == (2, ["old 0.1: CVE-1"])
