"""Components of a deconfounding are cards: read against every column, with names of features."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest

import isorep
from isorep.files import finite_json
from isorep.ica import Card

FAST = {"conditions": ("base", "pca_ica"), "classifiers": "logistic", "n_restarts": 0, "mixing": False, "folds": 6}


@cache
def screen():
    """Wells of which 5% are a clone that nobody named, far out on one factor; one plate varies more on another."""
    rng = np.random.default_rng(0)
    n = 900
    plate, treated = np.arange(n) % 9, rng.random(n) < 0.5
    clone = np.where(rng.random(n) < 0.06, "B7", "parental")
    factors = rng.laplace(size=(n, 6))
    factors[:, 0] += 1.5 * treated
    factors[clone == "B7", 1] += 12
    factors[:, 2] *= np.where(plate == 4, 5, 1)
    names = [f"Cells_Intensity_MeanIntensity_C{index}" for index in range(6)]
    frame = pd.DataFrame(factors @ rng.normal(size=(6, 6)), columns=names, index=[f"w{i}" for i in range(n)])
    return frame.assign(
        Metadata_treatment=np.where(treated, "drug", "DMSO"),
        Metadata_plate=[f"p{code}" for code in plate],
        Metadata_clone=clone,
        Metadata_well=frame.index,
    )


@cache
def found():
    return isorep.deconfound(screen(), "Metadata_treatment", "Metadata_plate", **FAST)


def test_a_column_that_was_not_asked_for_is_found_at_the_end_of_a_component():
    said = [finding for component in found().components for finding in component.findings]
    assert any("highest rows: Metadata_clone = B7" in finding for finding in said)
    assert found().cards.skipped == {"Metadata_well": "another value in every row"}
    assert set(found().cards.columns) == {"Metadata_treatment", "Metadata_plate", "Metadata_clone"}
    assert "Metadata_clone = B7" in str(found())
    uneven = max(each.association("Metadata_plate").spread_r2 for each in found().components)
    assert uneven > 0.2 > max(each.batch_r2["Metadata_plate"] for each in found().components)


def test_components_are_cards_with_the_names_of_features_also_in_json():
    assert all(isinstance(component, Card) for component in found().components)
    plain = json.loads(finite_json(found().to_dict()))
    first = plain["components"][0]
    assert first["loadings"][0]["feature"].startswith("Cells_Intensity_MeanIntensity_C")
    assert first["groups"]["measurement"] == [{"name": "Intensity", "share": pytest.approx(1), "of_features": 1.0}]
    assert {"label_r2", "batch_r2", "recurrence", "recurs", "highest", "findings"} <= set(first)
    assert first["highest"][0]["id"].startswith("w")
    assert "items" not in plain["cards"]
    assert plain["cards"]["tests"] == found().cards.tests


def test_association_with_label_and_batch_is_that_of_the_cards():
    for component in found().components:
        assert component.label_r2 == pytest.approx(component.association("Metadata_treatment").r2, abs=1e-5)
        assert component.batch_r2["Metadata_plate"] == pytest.approx(
            component.association("Metadata_plate").r2, abs=1e-5
        )


def test_arrays_are_read_against_label_and_batch_alone():
    frame = screen()
    plain = isorep.deconfound(
        frame.iloc[:, :6].to_numpy(), frame["Metadata_treatment"], frame["Metadata_plate"].to_numpy(), **FAST
    )
    assert plain.cards.columns == ("label", "batch")
    assert not any("B7" in finding for component in plain.components for finding in component.findings)


def test_a_file_gives_the_same_findings(tmp_path):
    screen().to_csv(tmp_path / "screen.csv")
    stored = isorep.deconfound(tmp_path / "screen.csv", "Metadata_treatment", "Metadata_plate", **FAST)
    assert [each.findings for each in stored.components] == [each.findings for each in found().components]
