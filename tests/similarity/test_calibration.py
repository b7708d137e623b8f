"""P-values of independent sides: at most 0.05 in about 5 % of replicates, for every index and every kind of rows."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from isorep import similarity

PATH = Path(__file__).parents[2] / "benchmarks" / "calibration_similarity.py"
KINDS = (
    "rows", "heavy tails", "groups of 10", "groups of 5 to 16", "groups of 1 to 80", "walks of 10", "walks of 5 to 16",
    "walks of 1 to 80", "within classes", "repeated rows", "few values",
)  # fmt: skip


@pytest.fixture(scope="module")
def calibration():
    spec = importlib.util.spec_from_file_location("calibration_similarity", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibration_similarity"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["calibration_similarity"]


@pytest.fixture(scope="module")
def counts(calibration):
    """For each kind the number of replicates, and how often each index had a p-value of at most 0.05."""
    found = {}
    for kind in calibration.KINDS:
        replicates = 8 if "80" in kind else 20
        cells = calibration.cells(replicates, 1, [kind])
        found[kind] = replicates, {cell["index"]: cell["share_p_below_05"] * replicates for cell in cells}
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_independent_sides_are_found_close_as_often_as_the_level_says(counts, kind):
    replicates, found = counts[kind]
    assert set(found) == set(similarity.INDICES)
    most = stats.binom.ppf(0.9999, replicates, 0.05)  # 99.9 % for all indices together
    assert {index: count for index, count in found.items() if count > most} == {}


def test_every_kind_is_tested_and_p_values_are_small_often_enough(counts):
    assert tuple(counts) == KINDS
    expected = 0.05 * sum(replicates * len(found) for replicates, found in counts.values())
    assert sum(sum(found.values()) for _, found in counts.values()) >= expected / 3  # indices of one pair agree


def test_shuffling_rows_of_walks_finds_what_is_not_there(calibration):
    """What groups are for: without them independent walks look alike."""
    rng = np.random.default_rng(0)
    close = 0
    for _ in range(20):
        (x, y), _ = calibration.KINDS["walks of 5 to 16"](rng)
        close += similarity.cka(x, y, permutations=39).p_value <= 0.05
    assert close >= 15
