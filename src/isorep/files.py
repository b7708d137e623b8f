"""Files that are written completely or not at all, and text without the secrets of a URL and without control codes.

Locks: one run at a time in a folder of its own.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import InputError

# Windows has no such module: what a killed process leaves behind stays there.
fcntl = import_module("fcntl") if find_spec("fcntl") else None

HIDDEN = "***"
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{0,40})://(?P<rest>[^\s'\"<>]+)", re.IGNORECASE)
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


_CONTROLS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def visible(text: str, keep: str = "") -> str:
    r"""Text whose control characters are written out: names and ids of files must not steer a terminal or a page.

    Besides line breaks and escape codes, these are marks that turn the direction of text, and halves of characters.

    Examples
    --------
    >>> visible("seed 0" + chr(27) + "[2J" + chr(10) + "verdict: the same")
    'seed 0\\x1b[2J\\nverdict: the same'
    """
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def finite_json(result: Any, **on_one_line: Any) -> str:
    """Plain data as JSON text; JSON has no infinity and no NaN, so both become null.

    Further keys, which are not meant to be read by eye, are written on one line each.
    """
    text = json.dumps(_finite(result), indent=2, allow_nan=False)
    for key, value in on_one_line.items():
        line = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
        text = f'{text.removesuffix("}").rstrip()},\n  "{key}": {line}\n}}'
    return text + "\n"


def require_regular(path: Path) -> None:
    """Refuse a pipe, a device or a folder where a file is read: opening a pipe may wait for ever."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file")


_LONGEST_HEADER = 2**24  # bytes; parsed it takes some ten times as many


def require_short_header(path: Path) -> None:
    """Refuse a safetensors file whose header would fill the memory; the library reads up to 100 MB."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if _LONGEST_HEADER < size <= path.stat().st_size:
        raise InputError(f"{path.name}: its header has {size} bytes, and one of up to {_LONGEST_HEADER} is read")


def resolved(path: Any) -> Any:
    """A path with all links followed; one whose links lead in a circle is refused."""
    try:
        found = path.resolve()
    except RuntimeError:  # until Python 3.13, which gives back the link
        found = path
    if isinstance(found, Path) and found.is_symlink():
        raise InputError(f"{path} is a link that leads back to itself")
    return found


def behind_link(path: Path) -> Path:
    """What a link points to, which is written while the link stays; any other path as it is."""
    return Path(resolved(path)) if path.is_symlink() else path


def require_plain(path: Any, folder: Any) -> None:
    """Refuse a link, a pipe or a device inside a folder: a file from elsewhere must not be read as a part of it.

    Object stores have none of these.
    """
    if not isinstance(path, Path):
        return
    name = path.relative_to(folder)
    if path.resolve() != folder.resolve() / name:
        raise InputError(f"{name} is a link inside a folder, which is not followed: copy what it points to")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"{name} is not a regular file")


def write_text(path: str | Path, text: str) -> None:
    """Write to a temporary file next to the target, then rename, so that the target is never incomplete.

    Links are followed, and targets that are not regular files (a pipe, a device) are written directly.
    """
    path = Path(path)
    require_writable(path)
    if path.exists() and not path.is_file():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:  # which names no file
            raise OSError(error.errno, os.strerror(error.errno or 0), str(path)) from error
        record_written(path)
        return
    with replacing(path.resolve()) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path, *, folder: bool = False, apart: bool = False) -> Iterator[Path]:
    """A temporary file or folder next to the target that replaces it at the end, and is removed on any error.

    ``apart`` is for libraries that make temporary files of their own, as safetensors does: they write the file in a
    temporary folder, so that nothing is left next to the target if they are killed.

    A process that is killed cannot remove it: the next one that writes the same target does. The lock on it tells
    whether somebody is still writing.
    """
    path = behind_link(path)
    _remove_left_behind(path)
    mine = _Temporary(path, folder=folder or apart)
    try:
        temporary = mine.make()
        made = temporary / path.name if apart else temporary
        yield made
        umask = os.umask(0)
        os.umask(umask)
        made.chmod((0o777 if folder else 0o666) & ~umask)
        _WRITTEN[path] = _identity(made)  # which keeps it under its new name
        if folder:
            _put_folder(made, path)
        else:
            made.replace(path)
        if apart:
            _remove(temporary)
    except OSError as error:
        mine.remove()
        if error.errno in _NO_ROOM:  # such an error names no file, or the temporary one
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise
    except InputError as error:  # of a file in a folder, such as one of several shards
        mine.remove()
        raise type(error)(str(error).replace(str(made), str(path))) from error
    except BaseException:
        mine.remove()
        raise
    finally:
        mine.release()


_WRITTEN: dict[Path, tuple[int, int] | None] = {}


def written() -> list[Path]:
    """The files and folders that this process has put in place since it was told to forget, and that are there."""
    return [path for path, made in list(_WRITTEN.items()) if made is None or made == _identity(path)]


def record_written(path: Path) -> None:
    """Count a target as written that was not made by :func:`replacing`."""
    _WRITTEN[path] = None


def forget_written() -> None:
    """Count as written what comes from now on."""
    _WRITTEN.clear()


def _identity(path: Path) -> tuple[int, int]:
    """Device and number of a file, which it keeps when it is renamed; zeros where there is no file."""
    try:
        known = path.stat()
    except OSError:
        return 0, 0
    return known.st_dev, known.st_ino


_LONGEST_NAME = 100  # bytes of a target in the name of its temporary file: names have at most 255 bytes
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FRESH = 2.0  # seconds: a temporary file may be so young that it is not locked yet
_NAMES = 10  # that are tried
_WRITING: set[Path] = set()  # by this process, whose own locks would not stop it


def _locked(path: Path) -> int | None:
    """An open file that this process alone has locked; None where another one has, or where there are no locks.

    The lock ends with the process. Files have the locks of fcntl, since HDF5 itself takes those of flock.
    """
    if fcntl is None:
        return None
    folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except OSError:
        return None
    try:
        (fcntl.flock if folder else fcntl.lockf)(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def is_temporary(path: Path, target: Path) -> bool:
    """Whether a name is that of a temporary file or folder of a target."""
    prefix, suffix = _affixes(target)
    return path.name.startswith(prefix) and path.name.endswith(suffix)


def _affixes(target: Path) -> tuple[str, str]:
    """How temporary names of a target begin and end."""
    name, suffix = (os.fsencode(each) for each in (target.name, "".join(target.suffixes[-2:])))
    ends = (name[:_LONGEST_NAME], suffix[-_LONGEST_NAME:])
    first, last = (os.fsdecode(part.decode("utf-8", "ignore").encode()) for part in ends)  # whole characters alone
    return f".{first}-isorep-", last


class _Temporary:
    """A temporary file or folder of a target, and the lock on it where there are locks.

    Its name is known before it is made, so that an interrupt at any moment leaves nothing.
    """

    def __init__(self, target: Path, *, folder: bool) -> None:
        self._target, self._folder = target, folder
        self._path: Path | None = None
        self._lock: int | None = None

    def make(self) -> Path:
        """Make and lock it."""
        prefix, suffix = _affixes(self._target)
        for _ in range(_NAMES):  # another process may take it for left behind, if this one is stopped before it locks
            path = self._path = self._target.parent / f"{prefix}{os.urandom(6).hex()}{suffix}"
            _WRITING.add(path)
            try:
                if self._folder:
                    path.mkdir(0o700)
                else:
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                self.release()
                continue
            except OSError as error:  # which names the temporary file
                raise OSError(error.errno, os.strerror(error.errno or 0), str(self._target)) from error
            self._lock = _locked(path)
            if path.exists():
                return path
            self.release()
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), str(self._target))

    def remove(self) -> None:
        """Remove it, if it is there."""
        if self._path is not None:
            _remove(self._path)

    def release(self) -> None:
        """Give up the name and the lock."""
        path, lock, self._path, self._lock = self._path, self._lock, None, None
        if path is not None:
            _WRITING.discard(path)
        if lock is not None:
            os.close(lock)


def _remove_left_behind(target: Path) -> None:
    """Remove temporary files of a target that no process is writing."""
    for each in target.parent.iterdir():
        if not is_temporary(each, target) or each.is_symlink() or each in _WRITING or _is_fresh(each):
            continue
        lock = _locked(each)
        if lock is not None:
            _remove(each)
            os.close(lock)


def _is_fresh(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < _FRESH
    except FileNotFoundError:  # another process has just finished it
        return True


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make a folder if there is none, and lock it for this run: a second run in it is refused.

    The lock ends with the process. Where the file system has no locks, nothing is locked.
    """
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            yield
            return
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # the run that was there has just removed it
            continue
        try:
            if _taken(handle):
                raise InputError(f"another run is at work in {folder}")
            if folder.exists() and os.path.samestat(os.fstat(handle), folder.stat()):
                yield
                return
        finally:
            os.close(handle)


def _taken(handle: int) -> bool:
    """Lock an open folder; whether another process has done so."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # type: ignore[union-attr]
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return False


_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EINVAL)
_TRIES = 1000  # of two processes that write one folder over and over


def _put_folder(new: Path, old: Path) -> None:
    """Rename a folder to a name that may be taken: a folder that is not empty cannot be renamed over.

    Linux exchanges two folders in one step, so that there is always a whole one. Elsewhere the old one is first moved
    away. Other processes may do the same at the same time.
    """
    for _ in range(_TRIES):
        try:
            new.replace(old)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
        if _exchanged(new, old):
            _remove(new)  # which is now the old one
            return
        aside = Path(tempfile.mkdtemp(dir=old.parent, prefix=_affixes(old)[0]))
        try:
            old.replace(aside)
        except FileNotFoundError:  # moved away by somebody else
            aside.rmdir()
            continue
        try:
            new.replace(old)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                aside.replace(old)
                raise
            _remove(aside)  # somebody else has put a newer one there
        else:
            _remove(aside)
            return
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(old))


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step by ``renameat2``; False where the system or the file system has no such call."""
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def remove_unfinished() -> None:
    """Remove the temporary files and folders of this process, which is about to end without tidying up."""
    for path in list(_WRITING):
        _remove(path)


def _remove(path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path, ignore_errors=True)
    except OSError as error:  # what an interrupt becomes between the closing of a folder and its end
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


_CACHE = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def without_cache_folder() -> Iterator[None]:
    """Remove the empty folder for compiled code that torch makes in TMPDIR with its first optimiser.

    Where it is depends on torch, which leaves the place in the environment. A folder that the user named stays.
    """
    named = _CACHE in os.environ
    yield
    if not named and _CACHE in os.environ:
        with suppress(OSError):  # others may compile, and use it
            Path(os.environ.pop(_CACHE)).rmdir()


def require_writable(path: str | Path, inputs: Sequence[str | Path] = ()) -> None:
    """Refuse a path that cannot be written, or that is one of the inputs, before any work is done for it."""
    path = behind_link(Path(path))
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
