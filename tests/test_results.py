"""Text of results: widths, marks, numbers and notes."""

import math

import numpy as np
import pytest

from isorep.files import without_secrets
from isorep.results import aligned, counted, cut, cut_inside, decimals, largest, least, significant, told, wrapped

ROWS = [
    ("rung", "held-out\nerror", "95% interval", "in-sample", "diameters"),
    ("rigid", "0.1", "[0.05, 0.15]", "0.09", "0.01"),
    ("linear", "0.123", "[0.1, 0.2]", "0.1", "0.02"),
]


def test_optional_columns_go_first_and_the_first_one_named_goes_first():
    wide = aligned(ROWS, optional=("diameters", "in-sample"), width=math.inf)
    assert wide.splitlines()[1].split() == ["rung", "error", "95%", "interval", "in-sample", "diameters"]
    width = max(map(len, wide.splitlines()))
    assert aligned(ROWS, optional=("diameters", "in-sample"), width=width) == wide
    less = aligned(ROWS, optional=("diameters", "in-sample"), width=width - 1)
    assert "diameters" not in less
    assert "in-sample" in less


def test_what_has_no_room_goes_on_below_and_nothing_is_cut():
    text = aligned(ROWS, width=30)
    assert max(map(len, text.splitlines())) <= 30
    blocks = [block.splitlines() for block in text.split("\n\n")]
    assert len(blocks) > 1
    assert all(block[-1].startswith("linear") for block in blocks)
    assert sorted(text.split()) == sorted(
        aligned(ROWS, width=math.inf).split() + ["rung", "rigid", "linear"] * (len(blocks) - 1)
    )


def test_a_marked_row_has_its_mark_and_a_table_without_one_has_no_margin():
    lines = aligned(ROWS, marked=["linear"], width=80).splitlines()
    assert [line[:2] for line in lines] == ["  ", "  ", "  ", "> "]
    assert aligned(ROWS, width=80).splitlines()[2].startswith("rigid")


def test_tables_and_sentences_follow_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    sentence = "one name, one unit and one meaning " * 6
    assert max(map(len, wrapped(sentence).splitlines())) <= 50
    assert "diameters" not in aligned(ROWS, optional=("diameters",))
    monkeypatch.setenv("COLUMNS", "300")
    assert "\n" not in wrapped(sentence)
    assert "diameters" in aligned(ROWS, optional=("diameters",))


def test_words_are_never_broken(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    path = "/a/very/long/path/" + "x" * 60 + "/well-known-file.npy"
    assert path in wrapped(f"wrote {path} again")


def test_the_verdict_comes_first_and_notes_last():
    text = told("yes.", "table", notes=["a", "b"])
    assert text == "verdict: yes.\n\ntable\n\nnote: a\nnote: b"
    assert told("yes.", "table") == "verdict: yes.\n\ntable"


@pytest.mark.parametrize(
    ("value", "text"),
    [(-1e-9, "0.0000"), (-0.0, "0.0000"), (-0.00006, "-0.0001"), (0.5, "0.5000"), (None, "-"), (math.nan, "-")],
)
def test_there_is_no_minus_zero(value, text):
    assert decimals(value) == text


def test_from_a_million_on_decimals_give_way_to_an_exponent():
    assert decimals(999_999.25, 2) == "999999.25"
    assert decimals(1e6) == "1.00e+06"
    assert decimals(-3.88e20, 3) == "-3.88e+20"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.000123456, "0.000123"),
        (0.9999, "1.00"),
        (9.996, "10.0"),
        (12345.6, "12346"),
        (-0.5, "-0.500"),
        (1e-7, "1.00e-07"),
    ],
)
def test_three_significant_digits(value, text):
    assert significant(value) == text


def test_one_pair_is_one_pair():
    assert [counted(number, "pair") for number in (0, 1, 2)] == ["0 pairs", "1 pair", "2 pairs"]


SIGNED = "https://host/a.npy?X-Amz-Credential=AKIA%2F1&X-Amz-Date=20260101&X-Amz-Signature=1f2e"


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("s3://me:p@ss@host/a.npy", "s3://me:***@host/a.npy"),
        ("s3://AKIA:a/b+c@bucket/a@2.npy", "s3://AKIA:***@bucket/a@2.npy"),
        ("https://ghp_1234@host/a.npy", "https://***@host/a.npy"),
        ("--against=https://me:pw@host/a.npy::layer", "--against=https://me:***@host/a.npy::layer"),
        (SIGNED, "https://host/a.npy?X-Amz-Credential=***&X-Amz-Date=20260101&X-Amz-Signature=***"),
        ("https://host/a.npy?token=abc::layer", "https://host/a.npy?token=***::layer"),
        ("https://host/a.npy?sv=2020&sig=a%2Fb%3D", "https://host/a.npy?sv=2020&sig=***"),
        (
            "https://host/a?version=3&api_key=abc#access_token=def",
            "https://host/a?version=3&api_key=***#access_token=***",
        ),
        ("simplecache::s3://me:pw@host/a.npy", "simplecache::s3://me:***@host/a.npy"),
    ],
)
def test_secrets_of_urls_are_hidden(given, written):
    assert without_secrets(given) == written
    assert without_secrets(f"isorep compare '{given}' b.npy") == f"isorep compare '{written}' b.npy"


@pytest.mark.parametrize(
    "harmless",
    [
        "runs/me:pw@host.npy",
        "what?token=1.npy",
        "s3://bucket/run@2.npy",
        "memory://run@2.npy",
        "sftp://me@host/a.npy",
        "http://host:8080/run@2.npy",
        "tcp://[::1]:8786/a@b",
        "https://host/a.npy?versionId=3&part=2",
        "https://host/a.npy?design=x&keyword=y&monkey=z",
        "a.npy::layer@2",
    ],
)
def test_what_is_no_secret_stays(harmless):
    assert without_secrets(harmless) == harmless


def test_a_long_name_is_looked_at_once_for_addresses():
    """From every letter on, a search for the end of a scheme would take minutes."""
    assert without_secrets("k" * 200_000) == "k" * 200_000
    assert without_secrets("k" * 200_000 + "://me:pw@host/a") == "k" * 200_000 + "://me:***@host/a"


def test_the_command_that_is_written_holds_no_secret(monkeypatch, tmp_path):
    from isorep import compare

    line = ["/bin/isorep", "compare", "https://me:hush@host/a.npy?token=hush", "what?@b.npy"]
    monkeypatch.setattr("sys.argv", line)
    rows = np.random.default_rng(0).normal(size=(40, 2))
    result = compare(rows, rows, n_null=0, n_boot=0, rungs=["rigid"])
    result.to_json(tmp_path / "r.json")
    result.to_html(tmp_path / "r.html")
    for name in ("r.json", "r.html"):
        text = (tmp_path / name).read_text()
        assert "hush" not in text
        assert "me:***@host/a.npy?token=***" in text
        assert "what?@b.npy" in text


def test_names_that_differ_at_their_end_stay_different_when_cut():
    first, second = (f"Cytoplasm_Texture_AngularSecondMoment_Corr{end}" for end in ("Actin_3_0", "DAPI_3_0"))
    cuts = [cut_inside(name, 40) for name in (first, second)]
    assert len(set(cuts)) == 2
    assert [len(each) for each in cuts] == [40, 40]
    assert cuts[0].startswith("Cytoplasm")
    assert cuts[0].endswith("Actin_3_0")
    assert cut_inside("short", 40) == cut("short", 40) == "short"
    assert cut(first, 10) == "Cytoplasm…"


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_of_values_that_differ_by_rounding_the_first_is_named(scale):
    tied = {"a": scale * 0.5, "b": scale * (1 + 1e-13), "c": scale, "d": scale * 0.5 * (1 - 1e-13)}
    assert (largest(tied), least(tied)) == ("b", "a")
    assert (largest(dict(reversed(tied.items()))), least(dict(reversed(tied.items())))) == ("c", "d")
    clear = {"a": scale * 0.5, "b": scale, "c": scale * (1 + 1e-6), "d": scale * 0.5 * (1 - 1e-6)}
    assert (largest(clear), least(clear)) == ("c", "d")
    assert least({"a": 0.8, "b": 0.5, "c": 1e-16, "d": 2e-16, "e": 1e12}) == "c"
    assert largest({"a": -0.8, "b": -1e-16, "c": -1e-17, "d": -1e30}) == "b"
    gaps = {"a": math.nan, "b": scale, "c": math.inf, "d": math.nan}
    assert (largest(gaps), least(gaps), largest({"a": math.nan, "b": math.nan})) == ("c", "b", "a")
