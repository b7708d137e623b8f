"""From a folder to an open data set: which files are wanted, and under which names they may lie there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import InputError, MissingFileError
from . import cars3d, cifar10, dsprites, mnist, mpi3d, pngs, shapes3d, smallnorb
from .entries import Entry
from .folder import find_file
from .images import FactorImages


def open_shapes3d(folder: Path, entry: Entry) -> FactorImages:
    """Shapes3D."""
    return shapes3d.read_shapes3d(_require(folder, entry, shapes3d.FILE))


def mpi3d_opener(variant: str) -> Callable[..., FactorImages]:
    """The opener of one variant of MPI3D."""

    def opened(folder: Path, entry: Entry, *, sizes: tuple[int, ...] | None = None) -> FactorImages:
        path = _require(folder, entry, *mpi3d.FILES[variant])
        return mpi3d.read_mpi3d(path, variant, sizes=sizes)

    return opened


def open_dsprites(folder: Path, entry: Entry) -> FactorImages:
    """The sprites of dSprites."""
    return dsprites.read_dsprites(_require(folder, entry, dsprites.FILE))


def open_pngs(folder: Path, entry: Entry, *, size: int | None = 64) -> FactorImages:
    """Falcor3D or Isaac3D."""
    inside, labels = pngs.FOLDERS[entry.name]
    return pngs.read_png_folder(_require(folder, entry, f"{inside}/{labels}", labels), entry.name, size=size)


def open_cars3d(folder: Path, entry: Entry, *, size: int | None = 64) -> FactorImages:
    """Cars3D."""
    listing = _require(folder, entry, f"cars/{cars3d.LIST}", f"data/cars/{cars3d.LIST}", cars3d.LIST)
    return cars3d.read_cars3d(listing, size=size)


def open_smallnorb(
    folder: Path, entry: Entry, *, part: str = "both", camera: int = 0, size: int | None = 64
) -> FactorImages:
    """One part of SmallNORB, or both."""
    if part not in ("train", "test", "both"):
        raise InputError(f"part is {part!r} and must be train, test or both")
    parts = [
        smallnorb.PartFiles(*(_require(folder, entry, f"{stem}-{kind}.mat") for kind in smallnorb.KINDS))
        for each, stem in smallnorb.PARTS.items()
        if part in (each, "both")
    ]
    return smallnorb.read_smallnorb(parts, camera=camera, size=size)


def open_cifar10(folder: Path, entry: Entry, *, part: str = "train") -> FactorImages:
    """CIFAR-10 from its binary files, or from the archive that holds them."""
    inside = "cifar-10-batches-bin"
    first = cifar10.BATCHES["train"][0]
    found = [find_file(folder, entry.name, file) for file in (f"{inside}/{first}", first)]
    plain = next((path for path in found if path is not None), None)
    if plain is None:
        return cifar10.read_cifar10_binary(_require(folder, entry, cifar10.ARCHIVE), part)
    files = {each: [plain.parent / name for name in batches] for each, batches in cifar10.BATCHES.items()}
    for path in [path for paths in files.values() for path in paths]:
        if not path.is_file():
            raise MissingFileError(f"{path} does not exist: {entry.origin()}")
    return cifar10.read_cifar10_binary(files, part)


def open_cifar10_jpeg(folder: Path, entry: Entry, *, part: str = "train") -> FactorImages:
    """CIFAR-10 as JPEGs."""
    return cifar10.read_cifar10_jpeg(_require(folder, entry, cifar10.JPEGS), part)


def open_mnist(folder: Path, entry: Entry, *, part: str = "train") -> FactorImages:
    """MNIST, which is read into memory."""
    if part not in ("train", "test", "both"):
        raise InputError(f"part is {part!r} and must be train, test or both")
    _require(folder, entry, mnist.FILE)
    digits = mnist.load_mnist(folder)
    parts = {"train": (digits.train, digits.train_labels), "test": (digits.test, digits.test_labels)}
    chosen = [parts[each] for each in parts if part in (each, "both")]
    images = np.concatenate([pixels for pixels, _ in chosen])[..., None]
    labels = np.concatenate([labels for _, labels in chosen]).astype(np.int32)[:, None]
    return FactorImages("mnist", ("class",), (10,), labels, None, (28, 28, 1), lambda rows: images[rows])


def _require(folder: Path, entry: Entry, *files: str) -> Path:
    """The first of these files that is there, in the data set's own folder or directly in the one given."""
    for file in files:
        found = find_file(folder, entry.name, file)
        if found is not None:
            return found
    raise MissingFileError(
        f"{files[0]} does not exist, looked for in {folder / entry.name} and {folder}: {entry.origin()}"
    )
