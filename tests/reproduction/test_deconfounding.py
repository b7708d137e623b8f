"""The deconfounding experiment: published numbers, its three parts end to end, and findings made by rule."""

import copy

import numpy as np
import pytest

from isorep.reproduction import experiment_named, reproduce
from isorep.reproduction.deconfounding import AUROC, CONDITIONS, SCALES, SPARSITY, _alignment, _single_rows

from ..data import rotation
from ..datasets.making import write_bbbc021, write_rxrx3


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """All three parts at smoke scale, on small files in the published formats."""
    data = tmp_path_factory.mktemp("data")
    write_bbbc021(data)
    write_rxrx3(data)
    return reproduce("deconfounding", scale="smoke", data=data, out=tmp_path_factory.mktemp("out") / "run")


def test_the_published_numbers_are_those_of_the_paper():
    assert AUROC["PLK1"] == (0.803, 0.811, 0.815, 0.792)
    assert SPARSITY["EIF3H"] == (0.192, 0.224, 0.268, 0.214)
    assert np.mean([row[2] for row in AUROC.values()]) == pytest.approx(0.7325)
    for rows in (AUROC, SPARSITY):
        assert all(len(row) == len(CONDITIONS) for row in rows.values())


def test_a_smoke_run_has_all_parts_beside_the_published_table(smoke):
    assert list(smoke.outcomes) == [
        "simulated-independent-00",
        "simulated-gaussian-00",
        "bbbc021-week-standardised-tenth-all",
        "rxrx3-SRC",
    ]
    assert smoke.skipped == ()
    auroc, hoyer, concentration = smoke.summary.tables
    rows = {row.name: row for row in auroc.rows}
    assert rows["RxRx3-core, SRC"].published == AUROC["SRC"]
    assert len(rows["RxRx3-core, SRC"].values) == 4
    assert rows["RxRx3-core, PLK1"].values == ()
    for table in (auroc, hoyer):
        for row in table.rows:
            assert all(value is None or 0 <= value <= 1 for value in row.values)
    assert concentration.rows[0].published == (0.163, 0.332, 0.386, 0.287)
    assert [chart.name for chart in smoke.summary.charts] == ["simulated", "bbbc021", "rxrx3"]
    assert 0.75 < smoke.outcomes["simulated-independent-00"]["ceiling"] < 0.97
    # The perturbation shifts one feature by two standard deviations, so no condition may miss it.
    assert smoke.outcomes["rxrx3-SRC"]["conditions"]["base"]["auroc"]["value"] > 0.8
    assert smoke.outcomes["rxrx3-SRC"]["guides"] == ["SRC_guide_1"]
    for words in ("verdict: In simulated screens", "In BBBC021 with new weeks", "In RxRx3-core with new plates"):
        assert words in str(smoke)


def test_parts_without_files_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    experiment = experiment_named("deconfounding")
    plan = experiment.plan(SCALES["laptop"], None)
    assert len(plan.units) == 2 * SCALES["laptop"].screens
    assert [words.partition(" was left out: name a folder with --data")[0] for words in plan.skipped] == [
        "BBBC021",
        "RxRx3-core",
    ]
    assert all("does not hold its files" in words for words in experiment.plan(SCALES["laptop"], tmp_path).skipped)
    plan = experiment.plan(SCALES["paper"], write_bbbc021(tmp_path))
    assert len(plan.units) == 2 * SCALES["paper"].screens + 16
    assert len(plan.files) == 3


def _made(smoke, gain, turn):
    """Outcomes of three screens in which PCA + ICA has these gains over Base and PCA + Rand, give or take."""
    outcomes = {}
    for kind in ("independent", "gaussian"):
        for place in range(3):
            screen = copy.deepcopy(smoke.outcomes["simulated-independent-00"])
            noise = 0.01 * (place - 1)
            for name, value in (("base", 0.7), ("pca", 0.72), ("pca_ica", 0.7 + gain), ("pca_rand", 0.7 + gain - turn)):
                screen["conditions"][name]["auroc"]["value"] = value + (noise if name == "pca_ica" else 0.0)
            outcomes[f"simulated-{kind}-{place:02}"] = screen
    return outcomes


def test_the_verdict_follows_the_numbers(smoke):
    summarise = experiment_named("deconfounding").summarise
    helped = summarise(SCALES["laptop"], _made(smoke, 0.1, 0.05))
    assert helped.reached is True
    assert "ICA carries over better" in helped.verdict
    assert "more than the theory allows for" in helped.findings[1]
    turned = summarise(SCALES["laptop"], _made(smoke, 0.1, 0.0))
    assert turned.reached is False
    assert "ICA does not carry over better" in turned.verdict
    assert "no axes to find, and ICA does not help" in turned.findings[1]
    wells = smoke.outcomes["bbbc021-week-standardised-tenth-all"]
    mixed = summarise(SCALES["smoke"], _made(smoke, 0.1, 0.05) | {"bbbc021-week-standardised-tenth-all": wells})
    assert mixed.reached is (True if "does, too" in mixed.verdict else None)


def test_mechanisms_are_counted(smoke):
    outcomes = _made(smoke, 0.1, 0.05)
    found = {}
    for place, name in enumerate(("Actin", "Tubulin", "Kinase")):
        conditions = copy.deepcopy(smoke.outcomes["simulated-independent-00"]["conditions"])
        for condition, value in zip(CONDITIONS, (0.7, 0.8, 0.75 + 0.02 * place, 0.78), strict=True):
            conditions[condition]["auroc"]["value"] = value
        found[name] = conditions
    outcomes["bbbc021-week-standardised-tenth-each"] = {"tasks": found}
    summary = experiment_named("deconfounding").summarise(SCALES["laptop"], outcomes)
    (said,) = [words for words in summary.findings if "each mechanism" in words]
    assert "mean AUROC Base 0.700, PCA 0.800, PCA + ICA 0.770, PCA + Rand 0.780." in said
    assert "above Base in 3 of 3 mechanisms, above PCA in 0 and above PCA + Rand in 1" in said
    assert summary.charts[-1].name == "bbbc021-mechanisms"
    assert "BBBC021 by week, Kinase" in [row.name for row in summary.tables[0].rows]


def test_alignment_is_one_for_an_axis_and_less_for_a_rotation(rng):
    factors = rng.laplace(size=(2000, 6))
    assert _alignment(-3 * factors, factors[:, :2]) == pytest.approx(1)
    assert _alignment(factors @ rotation(6, 0), factors[:, :2]) < 0.9


def test_single_rows_are_noticed(rng):
    components = rng.normal(size=(100, 4))
    assert _single_rows(components) == 0
    components[7, 1] += 60
    assert _single_rows(components) == 0.25
