"""The deconfounding experiment: published numbers, its three parts end to end, and claims."""

import numpy as np
import pytest

from isorep.reproduction import experiment_named, reproduce
from isorep.reproduction.deconfounding import (
    AUROC,
    CONCENTRATION,
    CONDITIONS,
    KINDS,
    PUBLISHED,
    SCALES,
    SPARSITY,
    _alignment,
    _single_rows,
)

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
        *(f"simulated-{kind}-00" for kind in KINDS),
        "simulated-independent-00-train_on_one",
        "bbbc021-week-standardised-tenth-all",
        "rxrx3-SRC",
        "rxrx3-SRC-train_on_one",
    ]
    assert smoke.skipped == ()
    auroc, hoyer, concentration, on_one, _, corrections = smoke.summary.tables
    assert [len(row.values) for row in on_one.rows if row.values] == [4, 4, 4]  # the mean, the gene, the screen
    assert on_one.rows[0].published == auroc.rows[0].published
    assert corrections.columns[4:] == ("z-score", "sphering", "TVN")
    assert len(corrections.rows) == len(KINDS)
    assert [row.published for row in concentration.rows[:3]] == list(CONCENTRATION)
    assert [bool(row.values) for row in concentration.rows[:3]] == [True, False, False]  # only one share is known
    rows = {row.name: row for row in auroc.rows}
    assert rows["RxRx3-core, SRC"].published == AUROC["SRC"]
    assert len(rows["RxRx3-core, SRC"].values) == 4
    assert rows["RxRx3-core, PLK1"].values == ()
    for table in (auroc, hoyer):
        for row in table.rows:
            assert all(value is None or 0 <= value <= 1 for value in row.values)
    assert [chart.name for chart in smoke.summary.charts] == ["simulated", "corrections", "bbbc021", "rxrx3"]
    assert 0.75 < smoke.outcomes["simulated-independent-00"]["ceiling"] < 0.97
    # The perturbation shifts one feature by two standard deviations, so no condition may miss it.
    assert smoke.outcomes["rxrx3-SRC"]["conditions"]["base"]["auroc"]["value"] > 0.8
    assert smoke.outcomes["rxrx3-SRC"]["guides"] == ["SRC_guide_1"]
    for words in ("RxRx3-core, new plates", "simulated screens, independent factors", "BBBC021, new weeks"):
        assert any(each.text.startswith(words) for each in smoke.summary.claims)
    assert smoke.summary.claims[0].text.startswith("RxRx3-core"), "the published effect where its data are at hand"
    assert len(smoke.summary.claims) == 8


def simulated(preset):
    """Screens of both protocols for independent factors, of one for Gaussian ones, and fewer of every other kind."""
    return (1 + len(PUBLISHED)) * preset.screens + (len(KINDS) - len(PUBLISHED)) * preset.further


def test_parts_without_files_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    experiment = experiment_named("deconfounding")
    plan = experiment.plan(SCALES["laptop"], None)
    assert len(plan.units) == simulated(SCALES["laptop"])
    assert [words.partition(" was left out: name a folder with --data")[0] for words in plan.skipped] == [
        "BBBC021",
        "RxRx3-core",
    ]
    assert all("does not hold its files" in words for words in experiment.plan(SCALES["laptop"], tmp_path).skipped)
    plan = experiment.plan(SCALES["paper"], write_bbbc021(tmp_path))
    assert len(plan.units) == simulated(SCALES["paper"]) + 16
    assert len(plan.files) == 3


WEEKS = "bbbc021-week-standardised-tenth-all"


def _conditions(auroc, hoyer=(0.1, 0.2, 0.3, 0.1), share=(0.1, 0.2, 0.3, 0.1)):
    measures = {"auroc": auroc, "hoyer": hoyer} | {f"share@{top}": share for top in SCALES["laptop"].top}
    return {
        name: {measure: {"value": values[place], "error": None} for measure, values in measures.items()}
        for place, name in enumerate(CONDITIONS)
    }


def _screens(kind, gain, turn, noise=0.01, **more):
    """Three screens in which PCA + ICA has these gains over Base and PCA + Rand, give or take."""
    return {
        f"simulated-{kind}-{place:02}": {
            "conditions": _conditions((0.7, 0.72, 0.7 + gain + (place - 1) * noise, 0.7 + gain - turn), **more),
            "ceiling": 0.9,
        }
        for place in range(3)
    }


def _wells(*tests):
    names = ("against", "difference", "low", "high")
    found = {"conditions": _conditions((0.9,) * 4), "dimensions": dict.fromkeys(CONDITIONS, 53)}
    return {WEEKS: found | {"tests": [dict(zip(names, test, strict=True)) for test in tests]}}


def _holds(outcomes):
    summary = experiment_named("deconfounding").summarise(SCALES["laptop"], outcomes)
    holds = [each.holds for each in summary.claims]
    assert summary.reached is (holds[0] if holds else None)
    return holds


@pytest.mark.parametrize(
    ("outcomes", "holds"),
    [
        (_screens("independent", 0.1, 0.05), [True, True, True]),
        (_screens("independent", 0.1, -0.05, hoyer=(0.1, 0.3, 0.2, 0.1), share=(0.1, 0.3, 0.2, 0.1)), [False] * 3),
        (_screens("independent", 0.1, 0.0, share=(None,) * 4), [None, True, None]),
        (_screens("independent", 0.0, 0.05, noise=0.0), [False, True, True]),  # no difference is none
        (_screens("gaussian", 0.1, 0.05), [False]),
        (_screens("gaussian", 0.1, 0.0), [None]),
        (_screens("gaussian", 0.1, -0.05), [True]),
        (_wells(("base", 0.1, 0.01, 0.2), ("pca_rand", 0.2, 0.1, 0.3)), [True]),
        (_wells(("base", 0.1, 0.01, 0.2), ("pca_rand", -0.2, -0.3, -0.1)), [False]),
        (_wells(("base", 0.1, -0.01, 0.2), ("pca_rand", 0.0, 0.0, 0.3)), [None]),
        (_wells(("base", 0.1, 0.01, 0.2), ("pca_rand", 0.2, None, None)), [None]),
        (_wells(("base", 0.1, 0.01, 0.2)), [None]),
        (_wells(("pca_rand", -0.2, -0.3, -0.1)), [False]),
        ({}, []),
    ],
)
def test_claims_follow_the_numbers(outcomes, holds):
    assert _holds(outcomes) == holds


def test_genes_are_the_published_effect_where_they_were_run():
    genes = {
        f"rxrx3-{gene}": {"conditions": _conditions((0.7, 0.7, 0.65 + 0.001 * place, 0.7))}
        for place, gene in enumerate(AUROC)
    }
    absent = {"rxrx3-SRC": {"absent": True, "gene": "SRC"}}
    assert _holds(genes | absent | _screens("independent", 0.1, 0.05)) == [False, True, True, True]
    assert _holds(absent | _screens("independent", 0.1, 0.05)) == [True, True, True]


def test_mechanisms_are_rows_and_dots():
    rows = {name: (0.7, 0.8, 0.75 + 0.02 * place, None) for place, name in enumerate(("Actin", "Kinase"))}
    each = {"tasks": {name: _conditions(values) for name, values in rows.items()}}
    summary = experiment_named("deconfounding").summarise(
        SCALES["laptop"], {"bbbc021-week-standardised-tenth-each": each}
    )
    (chart,) = summary.charts
    assert (chart.name, [line.name for line in chart.lines]) == ("bbbc021-mechanisms", ["Base", "PCA", "PCA + ICA"])
    assert chart.caption.endswith("1 Actin, 2 Kinase.")
    assert {row.name: row.values for row in summary.tables[0].rows}["BBBC021 by week, Kinase"] == rows["Kinase"]


def test_alignment_is_one_for_an_axis_and_less_for_a_rotation(rng):
    factors = rng.laplace(size=(2000, 6))
    assert _alignment(-3 * factors, factors[:, :2]) == pytest.approx(1)
    assert _alignment(factors @ rotation(6, 0), factors[:, :2]) < 0.9


def test_single_rows_are_noticed(rng):
    components = rng.normal(size=(100, 4))
    assert _single_rows(components) == 0
    components[7, 1] += 60
    assert _single_rows(components) == 0.25
