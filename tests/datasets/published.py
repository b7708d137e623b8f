"""Small files in the published formats of image data sets, written by hand."""

from __future__ import annotations

import gzip
import io
import itertools
import struct
import tarfile
from pathlib import Path

import numpy as np
import scipy.io
from PIL import Image

from isorep.datasets import images as layouts
from isorep.datasets.images import grid_classes


def pixels(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def write_shapes3d(folder: Path, sizes=(2, 1, 2, 2, 4, 3), chunks=None) -> tuple[np.ndarray, np.ndarray]:
    import h5py

    grids = [np.linspace(0, 0.9, 10), np.linspace(0, 0.9, 10), np.linspace(0, 0.9, 10), np.linspace(0.75, 1.25, 8)]
    grids += [np.arange(4.0), np.linspace(-30, 30, 15)]
    labels = np.array(list(itertools.product(*(grid[:size] for grid, size in zip(grids, sizes, strict=True)))))
    images = pixels(len(labels), 64, 64, 3)
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "3dshapes.h5", "w") as file:
        file.create_dataset("images", data=images, chunks=chunks, compression=None if chunks is None else "gzip")
        file.create_dataset("labels", data=labels)
    return images, labels


def write_mpi3d(path: Path, sizes: tuple[int, ...], compress: bool = False) -> np.ndarray:
    images = pixels(int(np.prod(sizes)), 64, 64, 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    (np.savez_compressed if compress else np.savez)(path, images=images)
    return images


def write_dsprites(path: Path, n: int = 40, metadata: object = None, **changed: np.ndarray) -> dict[str, np.ndarray]:
    """The last ``n`` sprites of the grid; ``metadata`` is pickled, as in the published file."""
    classes = grid_classes(layouts.DSPRITES.sizes)[-n:].astype(np.int64)
    grids = [[1.0], [1.0, 2.0, 3.0], np.linspace(0.5, 1, 6), np.linspace(0, 2 * np.pi, 40), np.linspace(0, 1, 32)]
    grids.append(np.linspace(0, 1, 32))
    values = np.stack([np.asarray(grid)[classes[:, place]] for place, grid in enumerate(grids)], axis=1)
    arrays = {"imgs": pixels(n, 64, 64) % 2, "latents_values": values, "latents_classes": classes} | changed
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, metadata=np.array(metadata or {"author": "nobody"}, dtype=object), **arrays)
    return arrays


def write_pngs(folder: Path, labels_file: str, layout: layouts.Layout, n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    classes = grid_classes(layout.sizes)[:n]
    labels = classes / np.maximum(np.array(layout.sizes) - 1, 1)
    images = pixels(n, 128, 128, 3)
    (folder / "images").mkdir(parents=True)
    for row, image in enumerate(images):
        Image.fromarray(image).save(folder / "images" / f"{row:06}.png")
    with (folder / labels_file).open("wb") as file:
        np.save(file, labels)
    return images, labels


def write_cars3d(folder: Path, cars: int = 3) -> np.ndarray:
    """The images as (car, height, width, channel, azimuth, elevation)."""
    folder.mkdir(parents=True)
    names = [f"car_{number:03}_mesh" for number in range(1, cars + 1)]
    (folder / "list.txt").write_text("\n".join(names) + "\n")
    images = pixels(cars, 128, 128, 3, 24, 4)
    for name, image in zip(names, images, strict=True):
        mask = np.ones((128, 128, 24, 4), np.uint8)
        scipy.io.savemat(folder / f"{name}.mat", {"im": image, "mask": mask}, do_compression=True)
    return images


def norb_matrix(array: np.ndarray) -> bytes:
    magic = {np.dtype("u1"): 0x1E3D4C55, np.dtype("<i4"): 0x1E3D4C54, np.dtype("<f4"): 0x1E3D4C51}[array.dtype]
    sizes = [*array.shape, *[1] * (3 - array.ndim)]
    return struct.pack(f"<Ii{len(sizes)}i", magic, array.ndim, *sizes) + array.tobytes()


def write_smallnorb(folder: Path, n: int = 6, packed: bool = True) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for part, stem, instances in (
        ("train", "smallnorb-5x46789x9x18x6x2x96x96-training", [4, 6, 7, 8, 9]),
        ("test", "smallnorb-5x01235x9x18x6x2x96x96-testing", [0, 1, 2, 3, 5]),
    ):
        rng = np.random.default_rng(len(part))
        factors = np.stack(
            [
                rng.integers(0, 5, n),
                rng.choice(instances, n),
                rng.integers(0, 9, n),
                2 * rng.integers(0, 18, n),
                rng.integers(0, 6, n),
            ],
            axis=1,
        ).astype(np.int32)
        images = pixels(n, 2, 96, 96, seed=len(part))
        for kind, array in (("dat", images), ("cat", factors[:, 0].copy()), ("info", factors[:, 1:].copy())):
            data = norb_matrix(array)
            path = folder / f"{stem}-{kind}.mat{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(data, 1) if packed else data)
        written[part] = (images, factors)
    return written


def cifar_batches(rows: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    found = {}
    for name in names:
        records = rng.integers(0, 256, (rows, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        found[name] = records
    return found


def tar_gz(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for info, data in members:
            info.size = len(data) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(data))
