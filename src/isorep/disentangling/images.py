"""Images from a folder of image files, an array file, or an array."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..annotated import is_annotated
from ..errors import InputError, MissingFileError
from ..extraction.data import IMAGES, open_image, pillow
from ..files import require_regular
from ..representation import Array
from ..rows import Progress, no_progress
from ..settings import check_counts
from ..storage import npy, npz
from ..storage.lazy import LazyMatrix
from ..storage.registry import guarded, split_key

FEWEST = 64
_SAID = {
    "deep": "{} files have 16 bits per pixel: 0 to 65535 became bytes, 0 to 255",
    "clear": "{} files have transparent pixels: the colours under them were used, and transparency was left out",
    "frames": "{} files have several pages or frames: the first of each was used",
}


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images as bytes of shape (n, channels, size, size), in the order of their names or rows.

    ``rows`` are the places of these images among all ``of_rows``.
    """

    values: Array
    name: str
    rows: Array
    of_rows: int
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)


def as_pictures(
    given: Any,
    *,
    size: int = 32,
    key: str | None = None,
    most: int | None = None,
    fewest: int = FEWEST,
    channels: int | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Pictures:
    """Load images, crop them to squares at the centre, and resize them.

    Parameters
    ----------
    given : path or array
        A folder of PNG, JPEG, BMP, GIF, TIFF or WebP files, also in its subfolders, but for hidden ones; an ``.npy`` or
        ``.npz`` file; or an array. Arrays have the shape (n, height, width) or (n, height, width, channels), with bytes
        or numbers in [0, 1].
    size : int
        Side of the resulting images in pixels.
    key : str, optional
        Name of the array in an npz file; also ``FILE::KEY``.
    most : int, optional
        Largest number of images, drawn at random.
    fewest : int
        Smallest number of images; more than one must not all be equal.
    channels : int, optional
        1 or 3; default: as the images have, where grey colours are one channel.
    random_state : int
        Seed of the draw.
    progress : callable, optional
        Called as ``progress("reading images", done, total)``.
    """
    check_counts(size=(size, 4, 256), **({} if most is None else {"most": (most, 1)}))
    rng = np.random.default_rng(random_state)
    path, named = split_key(given, key) if isinstance(given, str | Path) else (None, None)
    if path is not None and path.is_dir():
        pictures = _folder(path, size, most, fewest, rng, progress or no_progress)
    elif path is not None:
        pictures = _array(guarded(path, lambda: _stored(path, named)), path.name, size, most, rng)
    else:
        pictures = _array(given, "images", size, most, rng)
    return _checked(pictures, fewest, channels)


def _stored(path: Path, key: str | None) -> Any:
    """The array of a file, which stays there until images are chosen; nothing is unpickled."""
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    require_regular(path)
    if path.suffix == ".npy":
        return npy.load(path, key, None).values
    if path.suffix == ".npz":
        return npz.array(path, key or "images")
    raise InputError(f"{path.name} is no folder of images, and no .npy or .npz file")


def _array(given: Any, name: str, size: int, most: int | None, rng: np.random.Generator) -> Pictures:
    if isinstance(given, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array: fill the masked entries first")
    if is_annotated(given):
        raise InputError(f"{name} is an AnnData object, which holds rows and no images: see isorep.ICA")
    try:
        stored = given if isinstance(given, LazyMatrix) else _as_array(given)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} cannot be taken as an array: {error}") from None
    if stored.dtype.kind not in "uif":
        raise InputError(f"{name} holds {stored.dtype} where bytes or numbers in [0, 1] are needed")
    if len(stored.shape) == 3 and stored.shape[-1] in (3, 4):
        single = f"{name} has the shape {stored.shape}, as a single image has"
        raise InputError(f"{single}: give (n, height, width, channels), also where n is 1")
    shape = (*stored.shape, 1) if len(stored.shape) == 3 else stored.shape
    if len(shape) != 4 or shape[-1] not in (1, 3, 4) or min(shape) < 1:
        wanted = "(n, height, width) or (n, height, width, channels) with 1, 3 or 4 channels"
        raise InputError(f"{name} has the shape {stored.shape} where {wanted} is needed")
    count = len(stored)
    rows = _chosen(count, most, rng)
    notes = []
    if shape[-1] == 4:
        notes.append("the fourth channel, transparency, was left out")
    chosen = np.asarray(stored[rows] if len(rows) < count else stored[:])
    values = chosen.reshape(-1, *shape[1:])[..., :3]
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        wrong = rows[~np.isfinite(values).all(axis=(1, 2, 3))][0]
        raise InputError(f"{name} holds values that are not finite, the first in image {wrong}")
    if values.dtype.kind in "ui" and values.max() == 1 and values.min() == 0:
        values = 255 * values.astype(np.uint8)
        notes.append("its whole numbers are 0 and 1: they were read as black and white")
    return Pictures(_resized(values, size, name), name, rows, count, notes=tuple(notes))


def _as_array(given: Any) -> Array:
    return np.asanyarray(given.detach().cpu() if hasattr(given, "detach") else given)


def _folder(path: Path, size: int, most: int | None, fewest: int, rng: np.random.Generator, tell: Progress) -> Pictures:
    pillow()
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGES and file.is_file())
    files = [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not files:
        raise InputError(f"{path} holds no images ({', '.join(IMAGES)})")
    rows = _chosen(len(files), most, rng)
    chosen = [files[index] for index in rows]
    _require_enough(len(chosen), fewest, str(path))
    values = np.empty((len(chosen), size, size, 3), np.uint8)
    seen: Counter[str] = Counter()
    for index, file in enumerate(chosen):
        values[index], kinds = _read(file, size)
        seen.update(kinds)
        if index % 100 == 0:
            tell("reading images", index, len(chosen))
    tell("reading images", len(chosen), len(chosen))
    names = tuple(str(file.relative_to(path)) for file in chosen)
    notes = tuple(words.format(seen[kind]) for kind, words in _SAID.items() if seen[kind])
    return Pictures(values, path.name or str(path), rows, len(files), names, notes)


def _read(file: Path, size: int) -> tuple[Array, set[str]]:
    """One upright square image from a file, and notes about it."""
    from PIL import ImageOps

    with open_image(file) as picture:
        kinds = {"frames"} if getattr(picture, "n_frames", 1) > 1 else set()
        wide = picture.mode[:1] in "IF"
        if picture.mode.startswith("I"):
            kinds.add("deep")
        if not wide and _has_clear(picture):
            kinds.add("clear")
        grey = _as_bytes(picture, file) if wide else picture
        upright = ImageOps.exif_transpose(grey.convert("RGB"))  # orientation from the EXIF data, as viewers show it
        side = min(upright.size)
        left, top = (upright.width - side) // 2, (upright.height - side) // 2
        square = upright.crop((left, top, left + side, top + side))
        return np.asarray(square.resize((size, size), pillow().Resampling.BICUBIC, reducing_gap=3.0)), kinds


def _has_clear(picture: Any) -> bool:
    """Whether some pixel is transparent."""
    if picture.mode not in ("RGBA", "LA", "PA", "RGBa", "La") and "transparency" not in picture.info:
        return False
    return bool(picture.convert("RGBA").getchannel("A").getextrema()[0] < 255)


def _as_bytes(picture: Any, file: Path) -> Any:
    """Grey numbers of 16 bits, or in [0, 1], as bytes: converted as they are, all above 255 would be white."""
    values = np.asarray(picture, dtype=np.float64)
    top = 1.0 if picture.mode == "F" else 65535.0
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= top):
        raise InputError(f"{file} holds grey numbers outside 0 to {top:g}: scale them, or give bytes")
    return pillow().fromarray(np.rint(values * (255 / top)).astype(np.uint8))


def _resized(values: Array, size: int, name: str) -> Array:
    """Squares of the wanted size; floating-point numbers are checked first."""
    if values.dtype.kind == "f":
        low, high = float(values.min()), float(values.max())
        if low < 0 or high > 1:
            raise InputError(f"{name} holds numbers from {low:g} to {high:g}: scale them to [0, 1], or give bytes")
        values = np.rint(values * 255).astype(np.uint8)
    elif values.min() < 0 or values.max() > 255:
        raise InputError(f"{name} holds whole numbers from {values.min()} to {values.max()}: give bytes, 0 to 255")
    values = values.astype(np.uint8)
    side = min(values.shape[1:3])
    top, left = (values.shape[1] - side) // 2, (values.shape[2] - side) // 2
    values = values[:, top : top + side, left : left + side]
    if side == size:
        return values
    image = pillow()
    made = np.empty((len(values), size, size, values.shape[-1]), np.uint8)
    for index, each in enumerate(values):
        squeezed = each[..., 0] if each.shape[-1] == 1 else each
        small = image.fromarray(squeezed).resize((size, size), image.Resampling.BICUBIC, reducing_gap=3.0)
        made[index] = np.asarray(small).reshape(size, size, -1)
    return made


def _checked(found: Pictures, fewest: int, channels: int | None) -> Pictures:
    """Channels first, as many as wanted; too few images, or images that are all alike, are refused."""
    values = found.values
    _require_enough(len(values), fewest, found.name)
    if fewest > 1 and bool((values == values[:1]).all()):
        why = f" ({'; '.join(found.notes)})" if found.notes else ""
        raise InputError(f"all images of {found.name} are alike: there is nothing to learn{why}")
    grey = values.shape[-1] == 1 or bool((values == values[..., :1]).all())
    if channels == 1 and not grey:
        raise InputError(f"{found.name} has colours where grey images are needed")
    if grey:
        values = values[..., :1] if channels != 3 else np.repeat(values[..., :1], 3, axis=-1)
    return replace(found, values=np.ascontiguousarray(np.moveaxis(values, -1, 1)))


def _require_enough(count: int, fewest: int, name: str) -> None:
    if count < fewest:
        what = "image" if count == 1 else "images"
        raise InputError(f"{name} holds {count} {what}: at least {fewest} are needed to train on")


def _chosen(count: int, most: int | None, rng: np.random.Generator) -> Array:
    if most is None or count <= most:
        return np.arange(count)
    return np.sort(rng.choice(count, most, replace=False))
