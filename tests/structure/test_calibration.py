"""P-values at or below 0.05 for unrelated latents, and intervals that hold the mean score, as often as they claim."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import isorep
from isorep.structure.families import FAMILIES, chances

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def calibration():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("calibration_structure", BENCHMARKS / "calibration_structure.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


@pytest.mark.parametrize("kind", ["groups of 1-80", "walks of 5-16"])
def test_unrelated_latents_are_significant_in_one_of_twenty(calibration, kind):
    for cell in calibration.cells(50, 1, parts=["chance"], kinds=[kind], families=["mig", "linear_r2"]):
        assert cell["share_p_below_05"] <= cell["high"], cell


def test_intervals_of_scores_and_heads_hold_what_they_are_for(calibration):
    found = calibration.cells(25, 1, parts=["intervals"], kinds=["20 groups of 20"], families=["mig", "mcc"])
    found += calibration.cells(20, 1, parts=["heads"], kinds=["200 rows"])
    for cell in found:
        assert cell["coverage"] >= cell["low"], cell
        assert cell["outside"] == 0, cell


@pytest.mark.parametrize("name", FAMILIES)
def test_the_observed_score_is_measured_as_the_shuffled_ones_are(calibration, name):
    """Shuffles that change nothing give the observed score, whatever the family does."""
    rng = np.random.default_rng(0)
    factors = {"label": np.repeat(np.arange(3), 20), "number": np.repeat([0.1, -1.0, 2.0], 20)}
    latents = np.repeat(rng.normal(size=(3, 2)), 20, axis=0)
    groups = np.tile(np.arange(20), 3)  # each group holds the same three rows
    order = np.argsort(groups, kind="stable")
    pair = isorep.structure.columns.paired(
        {key: values[order] for key, values in factors.items()}, latents[order], discrete_latents=False
    )
    slots = ([1, 1], [1, 1])
    task = isorep.structure.families.Task(pair, groups[order], 0, "range/20", 3, "binned", slots)
    for null in chances(task, [name], 3, rng, lambda: None).nulls.values():
        assert np.allclose(null.draws, null.observed, rtol=1e-9, atol=1e-12)
        assert null.p_value == 1
