"""Coverage-guided fuzzing of the readers with atheris: ``make fuzz``. A crash is anything but a clear error.

The first byte of the input chooses the format. Options are those of libFuzzer, such as ``-max_total_time=600``.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["isorep.storage", "isorep.report.read", "isorep.ica.model"]):
    import hostile
    import isorep
    from isorep.storage import gct, hdf5, jsonl, npy, npz, parquet, safetensors, text, tree  # noqa: F401

KINDS = ("npy", "npz", "csv", "tsv", "jsonl", "gct", "safetensors", "parquet", "csv.gz", "model", "result")
FOLDER = Path(tempfile.mkdtemp(prefix="isorep-fuzz-"))


def test_one_input(data: bytes) -> None:
    """Read any bytes as a file of some kind."""
    if not data:
        return
    kind = KINDS[data[0] % len(KINDS)]
    suffix = {"model": "safetensors", "result": "json"}.get(kind, kind)
    path = FOLDER / f"a.{suffix}"
    path.write_bytes(data[1:])
    said = hostile.outcome(kind, path)
    if said not in ("read", "refused"):
        raise RuntimeError(f"{kind}: {said}")


def main() -> None:
    """Fuzz until libFuzzer's options say stop, from sound files as seeds."""
    warnings.simplefilter("ignore")
    seeds = FOLDER / "seeds"
    (FOLDER / "sound").mkdir()
    seeds.mkdir()
    for kind, path in hostile.originals(FOLDER / "sound").items():
        if kind in KINDS and path.is_file():
            (seeds / kind).write_bytes(bytes([KINDS.index(kind)]) + path.read_bytes())
    atheris.Setup([*sys.argv, str(seeds)], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    assert isorep.InputError
    main()
