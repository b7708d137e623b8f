"""Held-out biology: a second column that is held out, and notes on columns that share batches or labels."""

import numpy as np
import pandas as pd
import pytest

import isorep
from isorep import InputError

from .screens import screen

X, TREATED, PLATE = screen(n_batches=8, wells=40)
QUICK = {"conditions": ("base", "pca"), "classifiers": "logistic", "mixing": False}
CLONE = np.where(TREATED, "t", "c") + (np.arange(len(X)) % 4).astype(str).astype(object)  # eight clones, in all plates


def notes(**columns):
    frame = pd.DataFrame(X, columns=[f"feature_{place}" for place in range(X.shape[1])])
    frame["Metadata_plate"], frame["Metadata_drug"] = PLATE, np.where(TREATED, "drug", "DMSO")
    for name, values in columns.items():
        frame[f"Metadata_{name}"] = values
    return " | ".join(isorep.deconfound(frame, "Metadata_drug", "Metadata_plate", **QUICK).caveats)


def test_test_rows_have_a_batch_and_a_value_that_no_training_row_has():
    rng = np.random.default_rng(0)
    marked = X + 3 * rng.normal(size=(8, X.shape[1]))[np.unique(CLONE, return_inverse=True)[1]]
    seen = isorep.deconfound(marked, TREATED, PLATE, **QUICK)
    unseen = isorep.deconfound(marked, TREATED, PLATE, also_hold_out=CLONE, **QUICK)
    assert unseen.mean("auroc", "base").value < seen.mean("auroc", "base").value - 0.05
    assert unseen.settings["also_hold_out"] == "also_hold_out"
    assert unseen.tests[0].pairs == 8  # a batch is a pair, whatever else is held out
    for fold in unseen.folds:
        assert fold.beside
        assert fold.train_rows == np.sum(~np.isin(PLATE, fold.held_out) & ~np.isin(CLONE.astype(str), fold.beside))
        assert fold.test_rows == np.sum(np.isin(PLATE, fold.held_out) & np.isin(CLONE.astype(str), fold.beside))


def test_controls_of_one_value_are_divided_by_batch_and_that_is_said():
    compound = np.where(TREATED, CLONE, "DMSO")
    result = isorep.deconfound(X, TREATED, PLATE, also_hold_out=compound, **QUICK)
    assert any("controls share one value of also_hold_out" in caveat for caveat in result.caveats)
    missing = np.where(TREATED, CLONE, None)
    again = isorep.deconfound(X, TREATED, PLATE, also_hold_out=missing, **QUICK)
    assert again.mean("auroc", "base") == result.mean("auroc", "base")
    plain = isorep.deconfound(X, TREATED, PLATE, also_hold_out=CLONE, **QUICK)
    assert not any("share one value" in caveat for caveat in plain.caveats)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (np.where(np.arange(len(X)) == 3, None, CLONE), "also_hold_out is missing for 1 rows, the first at row 3"),
        (PLATE, "divides rows as batch does"),
        (np.where(TREATED, "one", CLONE), "all perturbed rows of 1 lie in one value of also_hold_out, 'one'"),
        ("clone", "names a column, and the embedding is an array"),
    ],
)
def test_a_second_column_that_cannot_be_held_out(column, words):
    with pytest.raises(InputError) as caught:
        isorep.deconfound(X, TREATED.astype(int), PLATE, also_hold_out=column, **QUICK)
    assert words in str(caught.value)


def test_plates_within_weeks_are_named_and_weeks_across_plates_are_not():
    number = np.unique(PLATE, return_inverse=True)[1]
    said = "every Metadata_plate lies within one Metadata_week"
    assert said in notes(week=number // 2)
    assert said not in notes(week=np.arange(len(X)) % 3)
    assert said not in notes(week=number)  # the same division by another name


def test_clones_that_recur_with_one_label_are_named_and_those_with_both_or_in_one_plate_are_not():
    said = "each value of Metadata_clone has one Metadata_drug and recurs in several batches"
    assert said in notes(clone=CLONE.astype(str))
    assert said not in notes(clone=(np.arange(len(X)) % 4).astype(str))
    assert said not in notes(clone=np.char.add(PLATE.astype(str), CLONE.astype(str)))
    assert said not in notes(clone=[f"well {row}" for row in range(len(X))])


def test_compounds_of_one_week_are_named():
    number = np.unique(PLATE, return_inverse=True)[1]
    label = np.where(TREATED, np.char.add("drug ", (number // 2).astype(str)), "DMSO")
    frame = pd.DataFrame(X, columns=[f"feature_{place}" for place in range(X.shape[1])])
    frame["plate"], frame["drug"], frame["week"] = PLATE, label, [f"week {each}" for each in number // 2]
    said = "every perturbed value of drug lies in one week only"
    assert any(said in caveat for caveat in isorep.deconfound(frame, "drug", "plate", **QUICK).caveats)
    frame["drug"] = np.where(TREATED, np.where(np.arange(len(X)) % 2, "a", "b"), "DMSO")
    assert not any(
        "lies in one week" in caveat for caveat in isorep.deconfound(frame, "drug", "plate", **QUICK).caveats
    )
