"""MNIST in its npz file: read as it is, refused where it is anything else."""

import numpy as np
import pytest

import isorep
from isorep.datasets import load_mnist


def write_mnist(folder, **changed):
    """A small file in the published format: four images of each digit to train on, one to test on."""
    rng = np.random.default_rng(0)
    labels = {"y_train": np.repeat(np.arange(10), 4).astype(np.uint8), "y_test": np.arange(10).astype(np.uint8)}
    images = {
        f"x_{part}": rng.integers(0, 256, (len(labels[f"y_{part}"]), 28, 28), np.uint8) for part in ("train", "test")
    }
    np.savez(folder / "mnist.npz", **(images | labels | changed))
    return images


def test_images_and_labels_come_as_they_are(tmp_path, monkeypatch):
    images = write_mnist(tmp_path)
    found = load_mnist(tmp_path)
    np.testing.assert_array_equal(found.train, images["x_train"])
    np.testing.assert_array_equal(found.test, images["x_test"])
    assert found.train_labels.tolist() == sorted(list(range(10)) * 4)
    assert found.test_labels.tolist() == list(range(10))
    monkeypatch.setenv("ISOREP_DATA", str(tmp_path))
    np.testing.assert_array_equal(load_mnist().train, images["x_train"])
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist.npz").rename(tmp_path / "mnist" / "mnist.npz")
    assert len(load_mnist(tmp_path).train) == 40


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x_train": np.zeros((40, 14, 14), np.uint8)}, r"'x_train' is uint8 of shape \(40, 14, 14\)"),
        ({"x_test": np.zeros((10, 28, 28))}, "'x_test' is float64"),
        ({"y_train": np.zeros(7, np.uint8)}, "where 40 whole numbers are needed"),
        ({"y_test": np.full(10, 11)}, "'y_test' holds values other than 0 to 9"),
        ({"y_test": np.array(["a"] * 10)}, "where 10 whole numbers are needed"),
        ({"x_train": np.array([{}] * 40, dtype=object)}, "mnist.npz"),
    ],
)
def test_other_contents_are_refused(tmp_path, changed, message):
    write_mnist(tmp_path, **changed)
    with pytest.raises(isorep.InputError, match=message):
        load_mnist(tmp_path)


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    with pytest.raises(isorep.InputError, match="no data folder is known"):
        load_mnist()
    with pytest.raises(isorep.InputError, match=r"mnist.npz does not exist: it comes from"):
        load_mnist(tmp_path)
    (tmp_path / "mnist.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(isorep.InputError, match=r"mnist.npz"):
        load_mnist(tmp_path)
