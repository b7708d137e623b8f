"""Component cards: what is said of a component is there, and nothing is said where nothing is."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import mutual_info_score

import isorep
from isorep import ICA, InputError, Representation
from isorep.files import finite_json
from isorep.ica import cards as module
from isorep.ica import component_cards
from isorep.ica.associations import (
    RowColumn,
    explained,
    extremes,
    hypergeometric_tail,
    information,
    row_columns,
    spread_explained,
)
from isorep.ica.cards import chance_loading, feature_groups, make_cards
from isorep.ica.summary import Fit
from isorep.storage.tables import read_obs


def screen(n=1200, k=5, seed=0):
    """Rows of which 3% are a clone that is far out on one source, with a plate whose rows vary more on another."""
    rng = np.random.default_rng(seed)
    clone = rng.choice(["B7", "C2", "D4"], n, p=[0.04, 0.5, 0.46])
    plate = rng.integers(1, 9, n)
    sources = rng.laplace(size=(n, k))
    sources[clone == "B7", 0] += 12
    sources[:, 1] *= np.where(plate == 3, 5, 1)
    return sources @ rng.normal(size=(k, k)), {"clone": clone, "plate": plate, "noise": rng.choice(list("abcd"), n)}


def fitted(x, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ICA(**settings).fit(x)


def test_a_clone_at_one_end_is_found_and_the_other_column_is_not_mentioned():
    x, obs = screen()
    cards = component_cards(fitted(x), x, obs)
    told = [finding for card in cards for finding in card.findings]
    assert f"40 of 40 highest rows: clone = B7 ({np.mean(obs['clone'] == 'B7'):.1%} of all rows)" in told
    assert not any("noise" in finding for finding in told)
    assert cards.tests == 2 * 5 * (3 + 8 + 4)
    clonal = next(card for card in cards if card.association("clone").r2 > 0.5)
    assert clonal.association("noise").r2 < 0.02
    assert str(clonal.findings[0]) in cards.text()


def test_a_plate_that_varies_more_shows_in_the_spread_and_not_in_the_mean():
    x, obs = screen()
    found = max((card.association("plate") for card in component_cards(fitted(x), x, obs)), key=lambda a: a.spread_r2)
    assert found.spread_r2 > 0.2
    assert found.r2 < 0.05


@pytest.mark.parametrize("n", [60, 500])
def test_without_association_any_finding_is_said_in_at_most_five_per_cent_of_draws(n):
    rng = np.random.default_rng(1)
    sources = np.column_stack([rng.laplace(size=(n, 4)), rng.standard_t(2, (n, 2)), rng.random((n, 1)) < 0.1])
    said, draws = 0, 300
    for _ in range(draws):
        missing = rng.random(n) < 0.3
        obs = {
            "two": rng.random(n) < 0.2,
            "many": rng.integers(0, 40, n).astype(str),
            "gaps": np.where(missing, None, rng.choice(["x", "y"], n)),
            "number": np.where(missing, np.nan, rng.lognormal(size=n)),
            "tied": np.maximum(rng.normal(size=n), 0.5).round(2),
        }
        said += any(card.findings for card in make_cards(sources, obs))
    assert said <= stats.binom.isf(1e-4, draws, 0.05)


def test_equal_values_are_not_put_in_order_by_the_rows():
    sources = (np.random.default_rng(0).random((2000, 3)) < 0.01).astype(float)
    plates = np.repeat(np.arange(20), 100)  # rows sorted by plate
    assert not any(card.findings for card in make_cards(sources, {"plate": plates}))


def test_loadings_are_the_correlations_of_numpy_and_constant_features_have_none():
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(500, 4)) @ rng.normal(size=(4, 6)) * [1, 1e-2, 10, 1, 1, 1] + 1000
    x[:, 5] = 7.25
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d", "e", "flat"])
    ica = fitted(frame)
    cards = component_cards(ica, frame)
    wanted = np.corrcoef(x[:, :5].T, ica.transform(frame).T)[:5, 5:]
    np.testing.assert_allclose(cards.loadings[:5], wanted, atol=1e-7)
    assert np.isnan(cards.loadings[5]).all()
    for card in cards:
        assert {each.feature for each in card.loadings} == set("abcde")
        sizes = [abs(each.r) for each in card.loadings]
        assert sizes == sorted(sizes, reverse=True)
    assert list(cards.loadings_frame().index) == list(frame.columns)


def test_the_chance_level_is_that_of_unrelated_variables():
    rng = np.random.default_rng(0)
    n, d = 80, 30
    features = rng.normal(size=(n, d))
    features /= np.linalg.norm(features - features.mean(0), axis=0)
    largest = []
    for _ in range(400):
        y = rng.normal(size=n)
        y -= y.mean()
        largest.append(np.abs(y @ (features - features.mean(0))).max() / np.linalg.norm(y))
    assert chance_loading(n, d) == pytest.approx(np.quantile(largest, 0.95), abs=0.03)
    assert chance_loading(2, d) is None


def test_cellprofiler_names_are_grouped_and_others_are_not():
    names = [
        "Cells_Texture_Contrast_DNA_3_00",
        "Nuclei_Intensity_MeanIntensity_OrigER",
        "Cytoplasm_Correlation_K_DNA_AGP",
        "Cells_AreaShape_Area",
        "Nuclei_Intensity_MeanIntensity_Phase_Left",
        "Nuclei_Granularity_1_Phase_Left",
        "mass",
    ]
    groups = feature_groups(names)
    weights = {kind: {name: each.tolist() for name, each in held.items()} for kind, held in groups.items()}
    assert weights["compartment"]["Cells"] == [1, 0, 0, 1, 0, 0, 0]
    assert weights["compartment"]["other"] == [0, 0, 0, 0, 0, 0, 1]
    assert weights["measurement"]["Intensity"] == [0, 1, 0, 0, 1, 0, 0]
    assert weights["channel"]["DNA"] == [1, 0, 0.5, 0, 0, 0, 0]
    assert weights["channel"]["AGP"] == [0, 0, 0.5, 0, 0, 0, 0]
    assert weights["channel"]["ER"] == [0, 1, 0, 0, 0, 0, 0]
    assert weights["channel"]["Phase_Left"] == [0, 0, 0, 0, 1, 1, 0]
    assert weights["channel"]["no channel"] == [0, 0, 0, 1, 0, 0, 0]
    for held in groups.values():
        np.testing.assert_allclose(sum(held.values()), 1)
    assert feature_groups(["gene1", "gene2", "Cells_AreaShape_Area"]) == {}
    assert feature_groups([]) == {}


def test_shares_of_groups_are_those_of_squared_loadings():
    rng = np.random.default_rng(0)
    names = [f"Cells_Texture_Contrast_DNA_{i}" for i in range(3)] + [f"Nuclei_AreaShape_A{i}" for i in range(3)]
    x = pd.DataFrame(rng.laplace(size=(400, 6)), columns=names)
    cards = component_cards(fitted(x), x)
    for card in cards:
        squares = cards.loadings[:, card.number] ** 2
        texture = next(group for group in card.groups["measurement"] if group.name == "Texture")
        assert texture.share == pytest.approx(squares[:3].sum() / squares.sum())
        assert texture.of_features == 0.5


def test_tests_agree_with_scipy():
    for total, marked, drawn in ((50, 7, 10), (30, 28, 12), (1000, 3, 40)):
        wanted = stats.hypergeom.sf(np.arange(drawn + 1) - 1, total, marked, drawn)
        np.testing.assert_allclose(hypergeometric_tail(total, marked, drawn), wanted, rtol=1e-7, atol=1e-12)
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=200).round(1)
    ends = (np.arange(30), np.arange(170, 200))
    ((high, low),), tests = extremes((ends,), row_columns({"x": numbers}, 200)[0])
    assert tests == 2
    for found, rows in ((high, ends[0]), (low, ends[1])):
        rest = np.setdiff1d(np.arange(200), rows)
        wanted = stats.mannwhitneyu(numbers[rows], numbers[rest], method="asymptotic")
        assert found.p == pytest.approx(wanted.pvalue)
        assert found.higher == pytest.approx(wanted.statistic / (30 * 170))


def test_association_is_the_adjusted_share_and_information_the_corrected_one():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 300)
    values = rng.normal(size=(300, 2)) + codes[:, None] * [1.0, 0.0]
    groups = [values[codes == code] for code in range(4)]
    within = sum(((group - group.mean(0)) ** 2).sum(0) for group in groups)
    share = 1 - within / ((values - values.mean(0)) ** 2).sum(0)
    np.testing.assert_allclose(explained(values, codes), np.clip(1 - (1 - share) * 299 / 296, 0, 1))
    scaled = rng.normal(size=(300, 1)) * np.where(codes == 0, 5, 1)[:, None]
    assert spread_explained(scaled, codes)[0] > 0.3 > explained(scaled, codes)[0]
    few = np.repeat(np.arange(120), rng.integers(1, 6, 120))
    assert spread_explained(rng.normal(size=(len(few), 40)), few).mean() < 0.02
    bins = rng.integers(0, 10, 300)
    bins[codes == 1] = 3
    assert information(bins, codes) == pytest.approx(mutual_info_score(bins, codes) - 9 * 3 / 600)


COLUMNS = {
    "constant": (["x"] * 30, "one value only"),
    "ids": ([f"well {i}" for i in range(30)], "another value in every row"),
    "nearly ids": ([f"pair {i // 2}" for i in range(30)], "no value has 5 rows"),
    "empty": ([None] * 30, "no values"),
    "not a number": (np.full(30, np.nan), "no values"),
    "complex": (np.arange(30) * 1j, "neither numbers nor labels"),
}
KEPT = {
    "flags": (np.arange(30) < 10, ("False", "True"), False),
    "flags with gaps": ([None, True, False] * 10, ("False", "True"), False),
    "few numbers": (np.arange(30) % 3 + 1.0, ("1", "2", "3"), False),
    "categories": (pd.Categorical(["b", "a", None] * 10), ("a", "b"), False),
    "nullable": (pd.array([1, 2, None] * 10, dtype="Int64"), ("1", "2"), False),
    "bytes": (np.array([b"u", b"v"] * 15), ("u", "v"), False),
    "decimals": (np.linspace(0, 1, 30)[::-1].repeat(2)[:30], None, False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_cannot_tell_anything_are_skipped_with_the_reason(name):
    values, reason = COLUMNS[name]
    assert row_columns({name: values}, 30) == ((), {name: reason})


@pytest.mark.parametrize("name", KEPT)
def test_columns_of_every_kind_are_labels_or_numbers(name):
    values, labels, _ = KEPT[name]
    (column,), skipped = row_columns({name: values}, 30)
    assert skipped == {}
    assert isinstance(column, RowColumn)
    assert labels is None or column.labels == labels


def test_numbers_and_dates_are_compared_by_rank_and_infinity_is_missing():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=100)
    numbers[:3] = np.inf, -np.inf, np.nan
    dates = np.datetime64("2024-01-01") + np.arange(100)
    dates[5] = np.datetime64("NaT")
    zoned = [None, *pd.date_range("2024", periods=99, tz="UTC")]
    (number, date, moment), _ = row_columns({"x": numbers, "day": dates, "moment": zoned}, 100)
    assert np.diff(moment.numbers[1:]) == pytest.approx(1)
    assert moment.codes[0] == -1
    assert (number.codes[:3] == -1).all()
    assert len(number.filled) == 97
    assert date.codes[5] == -1
    assert date.numbers is not None


@pytest.mark.parametrize("values", [["a"] * 29, np.zeros((30, 2)), "text", [["a"], ["b", "c"]]])
def test_a_column_of_another_length_is_an_error_that_names_it(values):
    with pytest.raises(InputError, match="'given'"):
        row_columns({"given": values}, 30)


def test_obs_must_have_names_and_those_that_repeat_are_counted():
    with pytest.raises(InputError, match="mapping"):
        row_columns([1, 2], 2)
    frame = pd.DataFrame([["a", 1], ["b", 2]] * 10, columns=["x", "x"])
    assert [column.title for column in row_columns(frame, 20)[0]] == ["x", "x (2)"]


def test_features_without_names_and_names_that_repeat_are_told_apart_by_column():
    x = np.random.default_rng(0).laplace(size=(300, 3))
    ica = fitted(x)
    assert {each.feature for each in component_cards(ica, x)[0].loadings} == {"column 0", "column 1", "column 2"}
    named = component_cards(ica, x, features=["a", "a", "b"])
    assert {each.feature for each in named[0].loadings} == {"a (column 0)", "a (column 1)", "b"}
    assert component_cards(ica, x).text() == ""
    with pytest.raises(InputError, match="2 names for 3 features"):
        component_cards(ica, x, features=["a", "b"])


def test_one_row_has_a_card_and_rows_that_are_not_finite_have_none():
    x = np.random.default_rng(0).laplace(size=(300, 3))
    ica = fitted(x)
    card = component_cards(ica, x[:1], {"label": ["a"]})[0]
    assert card.findings == () == card.loadings
    assert sum(card.bins.counts) == 1
    x[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN|finite"):
        component_cards(ica, x)


def test_histograms_count_every_row():
    rng = np.random.default_rng(0)
    for values in (rng.standard_t(1.2, (700, 1)), rng.normal(size=(5, 1)), np.ones((9, 1))):
        bins = make_cards(values)[0].bins
        assert sum(bins.counts) + bins.below + bins.above == len(values)
        assert bins.low < bins.high


def test_gaussian_components_are_marked_and_say_nothing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 4))
    cards = component_cards(fitted(x), x, {"label": rng.choice(["a", "b"], 800)})
    assert all(card.gaussian for card in cards)
    assert not any(card.findings for card in cards)


def test_examples_are_the_outermost_rows_with_their_names():
    x, _ = screen()
    ids = np.array([f"well {i}" for i in range(len(x))])
    ica = fitted(x)
    card = component_cards(ica, Representation(x, ids=ids), n_examples=3)[0]
    values = ica.transform(x)[:, 0]
    assert [each.row for each in card.highest] == np.argsort(-values)[:3].tolist()
    assert [each.id for each in card.lowest] == ids[np.argsort(values)[:3]].tolist()


def test_of_very_many_rows_some_are_drawn_and_the_note_says_so(monkeypatch):
    x, obs = screen(n=4000)
    monkeypatch.setattr(module, "MOST_CELLS", 5 * 1500)
    cards = component_cards(fitted(x), x, obs)
    assert (cards.rows, cards.of_rows) == (1500, 4000)
    assert cards.notes[0] == "cards are from 1500 of 4000 rows, drawn at random"
    assert any("clone = B7" in finding for card in cards for finding in card.findings)


def test_stability_and_a_fit_carry_cards_into_json():
    x, obs = screen()
    found = isorep.stability(pd.DataFrame(x, columns=list("abcde")), 3, obs=obs)
    plain = json.loads(finite_json(found.to_dict()))["cards"]
    assert plain["items"][0]["score"] == found.scores[0]
    assert plain["items"][0]["loadings"][0]["feature"] in "abcde"
    assert any("B7" in finding for item in plain["items"] for finding in item["findings"])
    assert "loadings" not in plain
    assert "clone = B7" in str(found)
    assert "B7" not in str(isorep.stability(x, 3, obs={"noise": obs["noise"]}))
    whole = Fit.of(found.ica, name="x", rows=len(x), cards=found.cards).to_dict()["cards"]
    assert len(whole["items"]) == 5
    assert len(found.cards.to_frame()) == 5


def test_columns_of_files_are_read_with_their_gaps(tmp_path):
    pytest.importorskip("anndata")
    pytest.importorskip("pyarrow")
    import anndata

    x, obs = screen(n=60)
    frame = pd.DataFrame(x, columns=[f"f{i}" for i in range(5)]).assign(
        Metadata_plate=obs["plate"], clone=np.where(np.arange(60) == 3, None, obs["clone"])
    )
    frame.to_csv(tmp_path / "t.csv")
    frame.assign(when=pd.Timestamp("2024-01-01")).to_parquet(tmp_path / "t.parquet")
    table = pd.DataFrame(
        {"clone": pd.Categorical(frame["clone"]), "n": pd.array([None, *range(59)], dtype="Int64")},
        index=[f"c{i}" for i in range(60)],
    )
    held = anndata.AnnData(x, obs=table)
    held.write_h5ad(tmp_path / "t.h5ad")
    np.savez(tmp_path / "t.npz", latents=x, clone=obs["clone"])
    for name in ("t.csv", "t.parquet"):
        found = read_obs(tmp_path / name, isorep.read(tmp_path / name))
        assert {"Metadata_plate", "clone"} <= set(found.columns)
        assert not set(found.columns) & {"f0", "f4"}
        assert found.columns["clone"][3] == ""
    assert found.columns["when"].dtype.kind == "M"
    found = read_obs(tmp_path / "t.h5ad", isorep.read(tmp_path / "t.h5ad"))
    assert list(found.columns) == ["clone", "n"]
    assert np.isnan(found.columns["n"][0])
    assert list(read_obs(tmp_path / "t.npz", isorep.read(tmp_path / "t.npz")).columns) == ["clone"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert isorep.stability(held, 2).cards.columns == ("clone", "n")


def test_the_command_reads_the_columns_of_its_file_or_of_another(tmp_path):
    from typer.testing import CliRunner

    from isorep.cli.commands import app

    x, obs = screen()
    features = pd.DataFrame(x, columns=[f"f{i}" for i in range(5)]).assign(id=[f"w{i}" for i in range(len(x))])
    features.assign(clone=obs["clone"]).to_csv(tmp_path / "with.csv", index=False)
    features.to_csv(tmp_path / "x.csv", index=False)
    other = pd.DataFrame({"id": features["id"], "clone": obs["clone"], "noise": obs["noise"]})[::-1]
    other.to_csv(tmp_path / "obs.csv", index=False)
    model = str(tmp_path / "m.safetensors")

    def run(*words):
        done = CliRunner().invoke(app, ["ica", *map(str, words)])
        return done.exit_code, " ".join(f"{done.output} {done.exception or ''}".split())

    fit = ("fit", tmp_path / "with.csv", "-o", model)
    code, said = run(*fit, "--loadings", tmp_path / "l.csv", "--json", tmp_path / "r.json")
    assert code == 0
    assert "40 of 40 highest rows: clone = B7" in said
    assert pd.read_csv(tmp_path / "l.csv", index_col=0).shape == (5, 5)
    assert isorep.ICA.load(model).feature_names_in_.tolist() == [f"f{i}" for i in range(5)]
    assert json.loads((tmp_path / "r.json").read_text())["cards"]["columns"] == ["clone"]
    assert "B7" not in run("fit", tmp_path / "x.csv", "-o", model)[1]
    assert "clone = B7" in run("fit", tmp_path / "x.csv", "-o", model, "--obs", tmp_path / "obs.csv")[1]
    assert "B7" not in run("fit", tmp_path / "x.csv", "-o", model, "--obs", f"{tmp_path / 'obs.csv'}::noise")[1]
    assert "clone = B7" in run("stability", tmp_path / "with.csv", "--restarts", 2)[1]
    code, said = run("fit", tmp_path / "x.csv", "-o", model, "--obs", f"{tmp_path / 'obs.csv'}::nothing")
    assert code
    assert "there is no column 'nothing'" in said
    other[:-1].to_csv(tmp_path / "short.csv", index=False)
    code, said = run("fit", tmp_path / "x.csv", "-o", model, "--obs", tmp_path / "short.csv")
    assert code
    assert "no row for 1 row ids" in said
