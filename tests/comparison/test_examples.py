"""Examples of rows for the report: read from files, checked before any work, and small on the page."""

import numpy as np
import pytest

import isorep
from isorep.comparison.examples import MOST_CHARACTERS, read_examples, shown_examples
from isorep.errors import InputError

from ..data import noisy_pair


def test_a_text_file_has_one_example_per_line(tmp_path):
    (tmp_path / "texts.txt").write_text("one\ntwo words\n\nlast\n", encoding="utf-8")
    assert read_examples(tmp_path / "texts.txt") == ["one", "two words", "", "last"]


def test_images_come_from_a_folder_by_name_or_from_a_list(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name in ("b.png", "a.png"):
        image.new("RGB", (100, 60), "red").save(tmp_path / name)
    (tmp_path / "list.txt").write_text("b.png\na.png\n", encoding="utf-8")
    assert [path.name for path in read_examples(tmp_path)] == ["a.png", "b.png"]
    listed = read_examples(tmp_path / "list.txt")
    assert [path.name for path in listed] == ["b.png", "a.png"]
    shown = shown_examples(listed, np.array([0, 1]))
    assert all(each.startswith("data:image/jpeg;base64,") for each in shown)


def test_many_thumbnails_share_one_budget(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    image.fromarray(rng.integers(0, 256, (200, 200, 3), dtype=np.uint8)).save(tmp_path / "noise.png")
    shown = shown_examples([tmp_path / "noise.png"] * 400, np.arange(400))
    assert sum(map(len, shown)) <= MOST_CHARACTERS


def test_the_report_shows_the_examples_of_the_rows_it_draws_whatever_the_order():
    x, y = noisy_pair(30, 2, 0.1)
    ids = np.arange(30)
    source = isorep.Representation(x[::-1], ids=ids[::-1])
    target = isorep.Representation(y, ids=ids)
    texts = [f"row {row}" for row in ids[::-1]]
    found = isorep.compare(source, target, join=True, examples=texts, fast=True, n_null=2)
    scatter = found.figures.scatter
    assert scatter.examples == tuple(f"row {name}" for name in scatter.rows)


def test_classes_are_those_of_the_rows_and_many_are_none():
    x, y = noisy_pair(60, 2, 0.1)
    classes = np.arange(60) % 3
    scatter = isorep.compare(x, y, within=classes, fast=True, n_null=2).figures.scatter
    assert scatter.classes == tuple(str(int(row) % 3) for row in scatter.rows)
    assert isorep.compare(x, y, groups=np.arange(60), fast=True, n_null=2).figures.scatter.classes == ()


def test_places_and_errors_are_those_of_every_rung():
    x, y = noisy_pair(50, 3, 0.1)
    found = isorep.compare(x, y, n_null=2, worst_case=False)
    scatter = found.figures.scatter
    assert set(scatter.by_rung) == set(scatter.errors) == set(found.rungs)
    np.testing.assert_array_equal(scatter.after, scatter.by_rung[scatter.rung])
    for name, rung in found.rungs.items():  # all rows are drawn, so that the mean is the rung's
        assert scatter.errors[name].mean() == pytest.approx(rung.held_out.mean, abs=1e-5)


def test_what_does_not_fit_is_refused_before_any_work(tmp_path):
    x, y = noisy_pair(20, 2, 0.1)
    with pytest.raises(InputError, match="2 entries and the source 20 rows"):
        isorep.compare(x, y, examples=["a", "b"])
    pytest.importorskip("PIL.Image")
    with pytest.raises(InputError, match="does not exist"):
        isorep.compare(x, y, examples=[tmp_path / "no.png"] * 20)
    with pytest.raises(InputError, match="holds no images"):
        read_examples(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match="is not text"):
        read_examples(tmp_path / "bytes")
