"""The data of the ICA benchmark: mixtures with known sources, hard ones, and real representations."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np

DATA = Path(os.environ.get("ISOREP_DATA", Path(__file__).parents[2] / "shared" / "data"))
MNIST, CIFAR = DATA / "mnist.npz", DATA / "cifar10_jpeg.npz"
JUDGED_ROWS = 20_000


def write_mixture(place: str, n: int, d: int, seed: int) -> None:
    """A quarter each of four kinds of sources, mixed with condition number 1e3, written block by block."""
    rng = np.random.default_rng(seed)
    mixing = ill_conditioned(d, rng)
    x = np.lib.format.open_memmap(Path(place) / "x.npy", mode="w+", dtype=np.float32, shape=(n, d))
    for start in range(0, n, JUDGED_ROWS):
        values = sources(rng, min(JUDGED_ROWS, n - start), d)
        if start == 0:
            np.save(Path(place) / "sources.npy", values)
        x[start : start + len(values)] = values @ mixing
    x.flush()


def sources(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Columns of unit variance: Laplace, uniform, sparse and near-Gaussian in turn."""
    makers = (
        lambda size: rng.laplace(scale=np.sqrt(1 / 2), size=size),
        lambda size: rng.uniform(-np.sqrt(3), np.sqrt(3), size=size),
        lambda size: rng.standard_normal(size) * (rng.random(size) < 0.15) / np.sqrt(0.15),
        lambda size: (rng.standard_normal(size) + 0.5 * rng.laplace(size=size)) / np.sqrt(1.5),
    )
    values = np.empty((n, d))
    for kind, make in enumerate(makers):
        values[:, kind::4] = make((n, len(range(kind, d, 4))))
    return values


def write_hard(place: str, n: int, d: int, seed: int) -> None:
    """A quarter of the sources Gaussian; of the others every third shares a scale, and clusters run across them."""
    rng = np.random.default_rng(seed)
    values = sources(rng, n, d)
    gaussian = d // 4
    values[:, :gaussian] = rng.standard_normal((n, gaussian))
    scaled = np.arange(gaussian, d, 3)
    values[:, scaled] *= np.exp(0.3 * rng.standard_normal((n, 8)))[:, scaled % 8]
    values[:, gaussian:] += 0.5 * rng.standard_normal((10, d - gaussian))[rng.integers(0, 10, n)]
    np.save(Path(place) / "x.npy", (values @ ill_conditioned(d, rng)).astype(np.float32))


def rows_of_laplace(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).laplace(size=(n, d)).astype(np.float32)


def ill_conditioned(d: int, rng: np.random.Generator) -> np.ndarray:
    one, other = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    return one * np.geomspace(1, 1e-3, d) @ other


def rotation(d: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def write_mnist(place: str, scale: float, seed: int) -> None:
    with np.load(MNIST) as file:
        images = np.concatenate([file["x_train"], file["x_test"]])
    order = np.random.default_rng(seed).permutation(len(images))[: int(len(images) * scale)]
    write_principal(place, images[order].reshape(len(order), -1), 64)


def write_cifar(place: str, scale: float, seed: int) -> None:
    """Two 8 x 8 patches from every training image."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    with np.load(CIFAR) as file:
        data, offsets, held_out = file["bytes"], file["offsets"], file["is_test"]
    patches = []
    for image in rng.permutation(np.flatnonzero(~held_out))[: int((~held_out).sum() * scale)]:
        pixels = np.asarray(Image.open(io.BytesIO(data[offsets[image] : offsets[image + 1]].tobytes())).convert("RGB"))
        for top, left in rng.integers(0, 25, (2, 2)):
            patches.append(pixels[top : top + 8, left : left + 8].reshape(-1))
    write_principal(place, np.stack(patches)[rng.permutation(len(patches))], 96)


def write_principal(place: str, pixels: np.ndarray, k: int) -> None:
    values = pixels.astype(np.float64) / 255
    values -= values.mean(axis=0)
    axes = np.linalg.eigh(values.T @ values)[1][:, ::-1][:, :k]
    np.save(Path(place) / "x.npy", (values @ axes).astype(np.float32))
