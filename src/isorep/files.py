"""Files that are written completely or not at all, and never with the secrets of a URL."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import InputError

HIDDEN = "***"
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>[^\s'\"<>]+)", re.IGNORECASE)
_PAIR = re.compile(r"([?&;#])([^=?&;#]+)=((?:(?!::)[^&;#])*)")
_SECRET = re.compile(
    r"token|secret|signature|password|passwd|credential|(^|[^a-z])(sig|pwd|pass|auth|authorization|code|jwt|sas)($|[^a-z])"
    r"|(^|[^a-z])key($|[^a-z])|(api|access|subscription|account|private)[-_]?key",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Text whose URLs show neither passwords nor tokens: what is secret in them becomes ``***``.

    Of a URL these are the password before the host, a user of http alone (tokens are given so), and the values in
    its query whose names say so. Paths that are no URLs stay as they are.

    Examples
    --------
    >>> without_secrets("s3://me:pw@host/run@2.npy https://host/a.npy?version=3&X-Amz-Signature=1f2e::layer")
    's3://me:***@host/run@2.npy https://host/a.npy?version=3&X-Amz-Signature=***::layer'
    >>> without_secrets("runs/me:pw@host?token=1.npy")
    'runs/me:pw@host?token=1.npy'
    """
    return _URL.sub(_hidden_in_url, text)


def _hidden_in_url(found: re.Match[str]) -> str:
    scheme, rest = found["scheme"], found["rest"]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        before = authority.rpartition("@")[0]
        user, colon, _ = before.partition(":")
        shown = f"{user}:{HIDDEN}" if colon else HIDDEN if scheme.lower().startswith("http") else user
        rest = f"{shown}{rest[len(before) :]}"
    elif not authority.startswith("["):  # a password with an unquoted slash: what follows the colon is no port
        user, colon, port = authority.partition(":")
        behind = rest[len(user) + 1 :]
        if colon and port and not port.isdecimal() and "@" in behind:
            rest = f"{user}:{HIDDEN}@{behind.partition('@')[2]}"
    return f"{scheme}://{_PAIR.sub(_hidden_value, rest)}"


def _hidden_value(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    return f"{mark}{name}={HIDDEN if value and _SECRET.search(name) else value}"


def finite_json(result: Any, **on_one_line: Any) -> str:
    """Plain data as JSON text; JSON has no infinity and no NaN, so both become null.

    Further keys, which are not meant to be read by eye, are written on one line each.
    """
    text = json.dumps(_finite(result), indent=2, allow_nan=False)
    for key, value in on_one_line.items():
        line = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
        text = f'{text.removesuffix("}").rstrip()},\n  "{key}": {line}\n}}'
    return text + "\n"


def write_text(path: str | Path, text: str) -> None:
    """Write to a temporary file next to the target, then rename, so that the target is never incomplete.

    Links are followed, and targets that are not regular files (a pipe, a device) are written directly.
    """
    path = Path(path)
    require_writable(path)
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    with replacing(path.resolve()) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """A temporary file or folder next to the target that replaces it at the end, and is removed on any error."""
    prefix, suffix = f".{path.name}-", "".join(path.suffixes[-2:])
    if folder:
        temporary = Path(tempfile.mkdtemp(suffix, prefix, path.parent))
    else:
        handle, name = tempfile.mkstemp(suffix, prefix, path.parent)
        os.close(handle)
        temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod((0o777 if folder else 0o666) & ~umask)
        if folder and path.exists():
            _swap(temporary, path)
        else:
            temporary.replace(path)
    except BaseException:
        _remove(temporary)
        raise


def _swap(new: Path, old: Path) -> None:
    """Replace one folder by another: a folder that is not empty cannot be renamed over."""
    aside = Path(tempfile.mkdtemp(dir=old.parent, prefix=f".{old.name}-"))
    old.replace(aside)
    try:
        new.replace(old)
    except BaseException:
        aside.replace(old)
        raise
    _remove(aside)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def require_writable(path: str | Path, inputs: Sequence[str | Path] = ()) -> None:
    """Refuse a path that cannot be written, or that is one of the inputs, before any work is done for it."""
    path = Path(path)
    for given in map(Path, inputs):
        if path.exists() and given.exists() and path.samefile(given):
            raise InputError(f"{path} is an input: name another file to write")
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file to write")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder, so {path.name} cannot be written there")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path.parent} cannot be written to")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
