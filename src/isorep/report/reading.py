"""Reading a result file that anybody may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError

MOST_BYTES = 64_000_000


def read_result(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is refused with one sentence."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a result that isorep wrote with --json")
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise InputError(f"{path.name} has more than {MOST_BYTES // 1_000_000} MB: no isorep result is that large")
    try:
        result = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path.name} is not JSON{where}: name a result that isorep wrote with --json") from None
    if not isinstance(result, dict):
        raise InputError(f"{path.name} is not an isorep result: it holds a {type(result).__name__}, not an object")
    return result
