"""Word embeddings from two trainings: end to end through the command, resumed, and judged by claims."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import isorep
from isorep.datasets import Document
from isorep.reproduction import reproduce, runner
from isorep.reproduction.outcomes import explained
from isorep.reproduction.words import EXPERIMENT, SCALES, Preset, _transposed, bands, examples, words_of

pytest.importorskip("torch")

SHORT = ("characters=200000", "vocabulary=150", "dimensions=2", "steps=150", "bands=50,150", "contexts=600")


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """Folder, output and result of a shortened ``isorep reproduce words --scale smoke``."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "tmp").mkdir()
    call = ["reproduce", "words", "--scale", "smoke", "--out", str(folder / "run"), "--html", str(folder / "page.html")]
    done = subprocess.run(
        [sys.executable, "-c", "from isorep.cli.main import run; run()", *call, *(f"--set={each}" for each in SHORT)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder / "tmp")},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list((folder / "tmp").iterdir()) == []
    return folder, done.stdout, json.loads((folder / "run" / "metrics.json").read_text())


@pytest.fixture
def own_text(tmp_path):
    """A text whose words follow each other in a few fixed ways."""
    rng = np.random.default_rng(0)
    names = [f"word{'abcdefghijklmnopqrstuvwxyz'[place]}" for place in range(26)]
    places = np.cumsum(rng.choice([1, 1, 1, 5], 14_000)) % 26
    path = tmp_path / "own.txt"
    path.write_text(" ".join(names[place] for place in places))
    return path


def tiny(own_text, **changes):
    preset = Preset(
        text=str(own_text), vocabulary=26, context=2, dimensions=(2, 3), estimators=("softmax", "nce"), noise=5,
        seeds=2, steps=30, batch=64, contexts=300, bands=(10, 26), labelled=4,
    )  # fmt: skip
    return replace(preset, **changes)


def run(monkeypatch, preset, folder, **more):
    monkeypatch.setattr(runner, "experiment_named", lambda _: replace(EXPERIMENT, scales={"smoke": preset}))
    return reproduce("words", scale="smoke", out=folder, **more)


def test_a_smoke_run_of_the_standard_library_is_measured_and_drawn(smoke):
    folder, out, found = smoke
    unit = found["units"]["softmax-dimension-2"]
    assert unit["corpus"]["source"] == "standard library of Python"
    assert len(unit["corpus"]["digest"]) == 32
    assert all(model["loss"] < unit["unigram"] for model in unit["models"])
    for pair in unit["pairs"]:
        assert pair["f"]["linear"] > pair["f_shuffled"] + 0.1
        assert len(pair["bands"]) == 2
    assert "the" in unit["picture"]["words"]
    for words in ("claim: ", "in 2 dimensions", unit["corpus"]["digest"], "published: Roeder"):
        assert words in out + (folder / "run" / "table.txt").read_text()
    html = (folder / "page.html").read_text()
    for name in ("contexts-before", "contexts-after", "words-first", "words-second", "words-mapped", "bands"):
        assert (folder / "run" / "figures" / f"{name}.svg").exists()
        assert f"{name}-figure" in html


def test_own_text_is_resumed_to_the_same_numbers_and_a_changed_one_is_refused(monkeypatch, tmp_path, own_text):
    preset = tiny(own_text)
    whole = run(monkeypatch, preset, tmp_path / "whole")
    assert list(whole.outcomes) == ["softmax-dimension-2", "softmax-dimension-3", "nce-dimension-2"]

    def progress(stage, place, total):
        if stage == "experiment" and place == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, preset, tmp_path / "parts", progress=progress)
    parts = run(monkeypatch, preset, tmp_path / "parts")
    assert (parts.timing.resumed, parts.outcomes) == (2, whole.outcomes)
    mixed = dict(parts.outcomes)
    mixed["nce-dimension-2"] = mixed["nce-dimension-2"] | {"corpus": {"digest": "another"}}
    with pytest.raises(isorep.InputError, match="text has changed"):
        EXPERIMENT.summarise(preset, mixed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimators": ("hard",)}, "estimators are softmax and nce"),
        ({"estimators": ("nce", "nce")}, "each once"),
        ({"dimensions": (0,)}, "dimensions are whole numbers"),
        ({"seeds": 1}, "at least 2"),
        ({"vocabulary": 3}, "at least 20 words"),
        ({"text": "/nowhere/text.txt"}, "does not exist"),
    ],
)
def test_settings_that_make_no_sense_are_refused(own_text, changes, message):
    with pytest.raises(isorep.InputError, match=message):
        EXPERIMENT.plan(tiny(own_text, **changes), None)


def test_words_are_runs_of_letters_in_lower_case():
    assert words_of("Don't SPLIT os_path.join2() café—naïve") == [
        "don't",
        "split",
        "os",
        "path",
        "join",
        "café",
        "naïve",
    ]


def test_examples_are_the_words_before_each_word_of_the_vocabulary():
    text = " ".join(["a b c d"] * 5000 + ["rare"])
    found = examples([Document("one", text), Document("two", text)], 4, 2, "here")
    assert found.vocabulary == ("a", "b", "c", "d")
    contexts, words = (
        np.concatenate([found.contexts, found.test_contexts]),
        np.concatenate([found.words, found.test_words]),
    )
    assert len(words) == 40_000
    assert (contexts == [5, 5]).all(1).sum() == 2, "a document begins with empty places"
    assert (words < 4).all()
    inside = (contexts < 4).all(1)
    np.testing.assert_array_equal(contexts[inside], (words[inside, None] + [2, 3]) % 4)
    assert 0.08 < found.facts["held_out"] / 40_000 < 0.12
    assert found.facts["rarest"] == 10_000
    with pytest.raises(isorep.InputError, match="5 different words"):
        examples([Document("one", text)], 6, 2, "here")
    with pytest.raises(isorep.InputError, match="too few"):
        examples([Document("one", "a b c d " * 100)], 4, 2, "here")


def test_bands_cover_the_vocabulary_once():
    assert bands(replace(SCALES["laptop"], vocabulary=1000, bands=(400, 50, 5000))) == [(0, 50), (50, 400), (400, 1000)]


def test_the_map_of_contexts_gives_the_map_of_words(rng):
    f, g, change = rng.normal(size=(50, 3)), rng.normal(size=(20, 3)), rng.normal(size=(3, 3))
    other_f, other_g = f @ change, g @ np.linalg.inv(change).T
    np.testing.assert_allclose(other_f @ other_g.T, f @ g.T, atol=1e-9)
    assert explained(g @ _transposed(f, other_f), other_g) == pytest.approx(1)


def outcomes(identity=-1.2, linear=0.97, words=0.95, diverse=True, estimators=("softmax", "nce")):
    """Three models in 2 and 8 dimensions; a measure is a number for all pairs, or one number for each."""

    def each(values, place):
        return values[place] if isinstance(values, tuple) else values

    def pair(place):
        rungs = {"permutation": 0.4, "rigid": 0.6}
        return {
            "first": place // 2, "second": 1 + (place + 1) // 2, "cca": 0.9, "cca_g": 0.8, "bands": [0.9, 0.5],
            "f": rungs | {"identity": each(identity, place), "linear": each(linear, place)}, "f_shuffled": -0.01,
            "g": rungs | {"identity": -0.5, "linear": each(words, place)}, "g_shuffled": -0.02,
            "head": 0.9, "transposed": 0.8,
        }  # fmt: skip

    corpus = {"digest": "d1", "source": "here", "words": 10, "different_words": 5, "covered": 0.75, "rarest": 1}
    return {
        f"{estimator}-{dimension}": {
            "estimator": estimator, "dimension": dimension, "corpus": corpus, "unigram": 5.0,
            "models": [{"loss": 4.0, "diverse": diverse, "condition": 1.5}] * 3, "bands": [[0, 50], [50, 100]],
            "pairs": [pair(place) for place in range(3)],
        }
        for estimator, dimension in (("softmax", 2), ("softmax", 8), ("nce", 2))
        if estimator in estimators
    }  # fmt: skip


def claims(**numbers):
    return EXPERIMENT.summarise(SCALES["laptop"], outcomes(**numbers)).claims


@pytest.mark.parametrize(
    ("place", "holds", "fails", "undecided"),
    [
        (0, {}, {"linear": 0.6}, {"linear": (0.6, 0.99, 0.99)}),
        (0, {"identity": 0.4}, {"identity": 0.96}, {"identity": (0.1, 0.9, 0.5)}),
        (1, {"linear": 0.3}, {"identity": 0.97}, {"identity": (0.99, 0.5, 0.9)}),
        (2, {}, {"words": 0.5}, {"words": None}),
        (3, {}, {"linear": 0.6}, {"linear": (0.6, 0.99, 0.99)}),
        (4, {}, {"linear": 0.6}, {"linear": None}),
        (5, {}, {"diverse": False}, None),
    ],
)
def test_a_claim_holds_fails_or_is_undecided(place, holds, fails, undecided):
    for expected, numbers in ((True, holds), (False, fails), (None, undecided)):
        if numbers is not None:
            found = claims(**numbers)[place]
            assert found.holds is expected, str(found)


def test_a_part_that_was_not_run_makes_no_claim_and_constants_decide_nothing():
    assert len(claims()) == 6
    assert not any("estimator" in each.text for each in claims(estimators=("softmax",)))
    assert {each.holds for each in claims(identity=None, linear=None, words=None)[:5]} == {None}
    summary = EXPERIMENT.summarise(SCALES["laptop"], {})
    assert (summary.reached, summary.claims, summary.tables) == (None, (), ())


def test_the_verdict_is_the_first_claim_and_the_text_is_a_row():
    summary = EXPERIMENT.summarise(SCALES["laptop"], outcomes())
    assert summary.reached is True
    assert "no map −1.00 ± 0.00, of a linear map 0.97 ± 0.00; required: at most 0.50, at least 0.90" in summary.verdict
    row = summary.tables[-1].rows[0]
    assert (row.name, row.values) == ("here, digest d1", (10, 5, 0.75, 1))
