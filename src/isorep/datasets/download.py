"""Downloads from the owners' hosts: resumable, checked, and renamed when complete."""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import InputError
from ..files import record_written, replacing
from ..rows import Progress
from .catalogue import PublishedSet, Remote, published_set
from .folder import data_folder, members

_BLOCK = 2**20
_TIMEOUT = 60  # seconds without a byte
_DISK_RESERVE = 2**28
_EACH, _TOTAL = 2**25, 2**33  # of the members taken from an archive, and of the whole of it


@dataclass(frozen=True)
class Downloaded:
    """A downloaded file; ``checked`` is the kind of check: ``sha256``, ``md5``, ``size`` or nothing."""

    path: Path
    size: int
    sha256: str
    checked: str


def download(
    name: str, folder: str | Path | None = None, *, progress: Progress | None = None
) -> tuple[Downloaded, ...]:
    """Download the files of a data set into its subfolder of the data folder; existing files are kept.

    An interrupted transfer resumes where it stopped, if the host allows it. Nothing is left under the final name
    unless it is complete and, where a checksum is known, right.
    """
    entry = published_set(name)
    if not entry.remotes:
        raise InputError(f"{name} cannot be downloaded from here: {entry.origin()}")
    data = data_folder(folder)
    if data is None:
        raise InputError("name the folder to download to, or set ISOREP_DATA")
    target = data / entry.name
    target.mkdir(exist_ok=True)
    done = tuple(fetch(remote, target, progress=progress) for remote in entry.remotes)
    if entry.unpack:
        _unpack(entry, done[0].path, target)
    return done


def fetch(remote: Remote, folder: Path, *, progress: Progress | None = None) -> Downloaded:
    """Fetch one file, or check the one that is there."""
    path = folder / remote.file
    if path.is_file():
        return _checked(remote, path, path)
    part, tag = folder / f".{remote.file}.part", folder / f".{remote.file}.tag"
    try:
        _transfer(remote, part, tag, progress)
    except urllib.error.HTTPError as error:
        raise InputError(f"{remote.url} answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        kept = part.stat().st_size if part.is_file() else 0
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise InputError(
            f"{remote.url} was interrupted after {kept} bytes ({reason}): run the same command to resume"
        ) from None
    try:
        downloaded = _checked(remote, part, path)
    except InputError:
        _discard(part, tag)
        raise
    part.replace(path)
    record_written(path)
    _discard(tag)
    return downloaded


def _transfer(remote: Remote, part: Path, tag: Path, progress: Progress | None) -> None:
    """Fill the partial file, from its end where the host lets us, otherwise from the start."""
    start = _resumable(remote, part, tag)
    if remote.size is not None and start == remote.size:
        return
    headers = {"User-Agent": f"isorep/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if tag.is_file():
            headers["If-Range"] = tag.read_text(encoding="latin-1")
    try:
        answer = urllib.request.urlopen(urllib.request.Request(remote.url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not start:
            raise
        _discard(part, tag)  # what is there is no beginning of the file
        _transfer(remote, part, tag, progress)
        return
    with answer:
        if start and answer.status != 206:
            start = 0
        if start and not re.match(rf"bytes {start}-", answer.headers.get("Content-Range", "")):
            raise InputError(f"{remote.url} answers with another part of the file than the one asked for")
        total = _announced(remote, answer, start)
        _require_disk(part.parent, (total or 0) - start)
        validator = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if validator and not validator.startswith("W/"):
            tag.write_text(validator, encoding="latin-1")
        else:
            tag.unlink(missing_ok=True)
        _copy(answer, part, start, total, remote, progress)


def _copy(answer: Any, part: Path, start: int, total: int | None, remote: Remote, progress: Progress | None) -> None:
    got = start
    with part.open("r+b" if start else "wb") as file:
        file.seek(start)
        while block := answer.read(_BLOCK):
            got += len(block)
            if total is not None and got > total:
                raise InputError(f"{remote.url} sends more than the {total} bytes it announced")
            file.write(block)
            if progress is not None:
                progress(remote.file, got, total or got)
        file.truncate()
    if total is not None and got < total:
        raise http.client.IncompleteRead(b"", total - got)


def _resumable(remote: Remote, part: Path, tag: Path) -> int:
    """Bytes of the partial file that can be kept: all, if a change at the host would be detected."""
    if not part.is_file():
        return 0
    noticed = remote.sha256 or remote.md5 or tag.is_file()
    kept = part.stat().st_size
    return kept if noticed and (remote.size is None or kept <= remote.size) else 0


def _announced(remote: Remote, answer: Any, start: int) -> int | None:
    """The size of the whole file as the host announces it; refused if it is not the known one."""
    length = answer.headers.get("Content-Length")
    total = start + int(length) if length is not None and length.isdigit() else None
    if remote.size is not None and total is not None and total != remote.size:
        raise InputError(f"{remote.url} announces {total} bytes where {remote.size} are known: it has changed")
    return remote.size if total is None else total


def _require_disk(folder: Path, wanted: int) -> None:
    free = shutil.disk_usage(folder).free
    if wanted + _DISK_RESERVE > free:
        raise InputError(f"{wanted / 2**30:.1f} GiB are needed and {folder} has {free / 2**30:.1f} GiB free")


def _checked(remote: Remote, path: Path, final: Path) -> Downloaded:
    """Compare size and checksum with what is known, and compute the SHA-256 in any case."""
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        raise InputError(f"{final} has {size} bytes where {remote.size} are known: remove it and fetch it again")
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            md5.update(block)
    for kind, known, computed in (("sha256", remote.sha256, sha256.hexdigest()), ("md5", remote.md5, md5.hexdigest())):
        if known is not None and known != computed:
            raise InputError(f"{final} has the {kind} {computed} where {known} is known: it is damaged or has changed")
    checked = "sha256" if remote.sha256 else "md5" if remote.md5 else "size" if remote.size is not None else ""
    return Downloaded(final, size, sha256.hexdigest(), checked)


def _unpack(entry: PublishedSet, archive: Path, folder: Path) -> None:
    """Take the wanted members out of an archive, into the folder of the main file."""
    pattern = re.compile(entry.unpack)
    for name, data in members(archive, lambda full: pattern.fullmatch(full) is not None, each=_EACH, total=_TOTAL):
        parent = folder / Path(entry.file).parent
        parent.mkdir(parents=True, exist_ok=True)
        with replacing(parent / name) as temporary:
            temporary.write_bytes(data)


def _discard(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
