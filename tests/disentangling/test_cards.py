"""Cards of disentangled components, and the columns that describe images."""

import numpy as np
import pandas as pd
import pytest

from isorep import InputError
from isorep.disentangling.disentangle import _described
from isorep.disentangling.images import Pictures
from isorep.report.page import write_page

VALUES = np.zeros((4, 1, 4, 4), np.uint8)
FILES = ("cat/1.png", "cat/2.png", "dog/1.png", "dog/3.png")


def test_images_in_subfolders_are_described_by_them():
    columns, notes = _described(Pictures(VALUES, "pets", np.arange(4), 4, FILES), None)
    assert {name: values.tolist() for name, values in columns.items()} == {"folder": ["cat", "cat", "dog", "dog"]}
    assert notes == []
    flat = Pictures(VALUES, "pets", np.arange(4), 4, ("1.png", "2.png", "3.png", "4.png"))
    assert _described(flat, None) == ({}, [])


def test_a_table_is_joined_by_file_name_and_columns_in_order_are_of_all_images(tmp_path):
    table = pd.DataFrame({"id": [*FILES[::-1], "cat/9.png"], "age": [4, 3, 2, 1, 9]})
    table.to_csv(tmp_path / "obs.csv", index=False)
    pictures = Pictures(VALUES, "pets", np.array([0, 1, 2, 4]), 5, FILES)
    assert _described(pictures, tmp_path / "obs.csv")[0]["age"].tolist() == [1, 2, 3, 4]
    drawn = Pictures(VALUES, "images", np.array([0, 1, 2, 4]), 5)
    assert _described(drawn, {"age": [1, 2, 3, 9, 4]})[0]["age"].tolist() == [1, 2, 3, 4]
    table[["age"]].to_csv(tmp_path / "plain.csv", index=False)
    assert _described(drawn, str(tmp_path / "plain.csv"))[0]["age"].tolist() == [4, 3, 2, 9]
    with pytest.raises(InputError, match="'age'"):
        _described(drawn, {"age": [1, 2, 3, 4]})


def test_every_component_has_a_card_with_its_traversal(found):
    result, images, _ = found
    assert [card.name for card in result.cards] == [component.name for component in result.components]
    for card, component in zip(result.cards, result.components, strict=True):
        assert card.score == np.median(component.correlations)
        assert card.comes_back == component.comes_back
        assert sum(card.bins.counts) + card.bins.below + card.bins.above == len(images)
    html = write_page(result.page())
    assert html.count('<svg class="strip"') == len(result.rows)
    assert "No column describes the rows" in html
    assert result.to_dict()["cards"]["items"][0]["loadings"] == []
