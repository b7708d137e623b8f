"""``isorep reproduce``: end to end at smoke scale, resumed, refused and interrupted."""

import json

import pytest


def one_sentence(done, words):
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("isorep: ")
    assert done.err.count("\n") == 1
    assert words in done.err
    return True


def test_a_smoke_run_prints_its_table_and_is_not_done_twice(isorep_command, tmp_path, monkeypatch):
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    out, arguments = tmp_path / "run", ["reproduce", "deconfounding", "--scale", "smoke"]
    done = isorep_command(*arguments, "--out", out, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert (done.code, done.err) == (0, "")
    said = " ".join(done.out.split())
    assert done.out.startswith("verdict: ")
    units = len(list((out / "units").glob("*.json")))
    assert units >= 5
    for words in ("obtained", "published in Table 3", "claim: ", f"seed 0; {units} units in", "lightgbm"):
        assert words in said
    assert "note: BBBC021 was left out: name a folder with --data or ISOREP_DATA" in done.out
    assert f"\nRun: {out} (config.json, metrics.json, table.txt, units, figures)\n" in done.out
    assert done.out.endswith(f"\nReport: {tmp_path / 'r.html'}\nResult: {tmp_path / 'r.json'}\n")
    tables = json.loads((tmp_path / "r.json").read_text())["tables"]
    written = (out / "table.txt").read_text()
    for place, table in enumerate(tables):  # one table is printed, all are in the file
        assert table["title"] in " ".join(written.split())
        assert (table["title"] in said) == (place == 0)
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "isorep.reproduction/1"
    html = (tmp_path / "r.html").read_text()
    for name in ("claims", "tables", "figures", "units", "settings", "versions", "citation"):
        assert f'id="{name}"' in html
    monkeypatch.setattr("isorep.reproduction.runner._do", lambda *_: pytest.fail("a unit was done again"))
    again = isorep_command(*arguments, "--out", out)
    assert again.code == 0
    head, _, rest = again.out.partition("\n\n")
    assert " ".join(head.split()) == f"{out} holds {units} of {units} units: resuming"
    assert rest == done.out.partition("\nReport: ")[0]
    assert isorep_command(*arguments, "--out", out, "--quiet").out == ""
    assert one_sentence(isorep_command(*arguments, "--out", out, "--seed", 3), "another seed (0, not 3)")


def test_a_wrong_call_exits_2_with_one_sentence(isorep_command, tmp_path):
    cases = [
        (["alchemy"], "there is no experiment 'alchemy'"),
        (["deconfounding", "--scale", "huge"], "there is no scale 'huge'"),
        (["deconfounding", "--data", tmp_path / "nowhere"], "nowhere is not a folder"),
        (["disentanglement", "--models", "ae,gan"], "models gan: choose from"),
        (["deconfounding", "--models", "all"], "models"),
        (["deconfounding", "--seed", -1], "the seed is -1"),
        (["deconfounding", "--json", tmp_path / "no" / "r.json"], "is not a folder"),
    ]
    for arguments, words in cases:
        assert one_sentence(isorep_command("reproduce", *arguments, "--out", tmp_path / "out"), words)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_says_what_is_kept(isorep_command, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("isorep.reproduction.runner._do", stopped)
    done = isorep_command("reproduce", "deconfounding", "--scale", "smoke", "--out", tmp_path / "run")
    assert done.code == 130
    assert done.err.startswith("isorep: interrupted; ")
    assert "keeps 0 finished units: the same command resumes there" in done.err


def test_help_names_the_scales(isorep_command):
    done = isorep_command("reproduce", "--help")
    assert done.code == 0
    assert "smoke (seconds)" in " ".join(done.out.split())
