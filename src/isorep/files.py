"""Writing files completely or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import InputError


def write_text(path: str | Path, text: str) -> None:
    """Write to a temporary name beside the target, then rename: nobody ever sees half a file."""
    path = Path(path)
    require_writable(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def require_writable(path: str | Path) -> None:
    """Refuse a path that cannot be written, before any work is done for it."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file to write")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder, so {path.name} cannot be written there")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path.parent} cannot be written to")
