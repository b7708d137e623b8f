"""``isorep report`` and ``--html``: a page beside the JSON, or one sentence and exit code 2."""

import json

import pytest

FAST = ("--null", "5", "--boot", "50")


def test_the_page_of_a_saved_result_is_the_page_of_the_run(isorep_command, files):
    pair = (files / "a.npy", files / "b.npy")
    wrote = (files / "r.json", files / "direct.html")
    done = isorep_command("compare", *pair, *FAST, "--json", wrote[0], "--html", wrote[1], "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    again = isorep_command("report", wrote[0])
    assert (again.code, again.out, again.err) == (0, f"Report: {files / 'r.html'}\n", "")
    assert (files / "r.html").read_text() == wrote[1].read_text()
    named = isorep_command("report", wrote[0], "-o", files / "named.html", "--quiet")
    assert (named.code, named.out) == (0, "")
    assert (files / "named.html").read_text() == wrote[1].read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "is not an isorep result"),
        ('{"a": 1}', "not an isorep result"),
    ],
)
def test_what_is_no_result_ends_with_one_sentence_and_no_file(isorep_command, tmp_path, content, said):
    (tmp_path / "r.json").write_text(content)
    done = isorep_command("report", tmp_path / "r.json")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_the_result_itself_is_never_replaced(isorep_command, tmp_path):
    path = tmp_path / "r.html"
    path.write_text(json.dumps({"schema": "isorep.compare/2"}))
    done = isorep_command("report", path)
    assert done.code == 2
    assert "name another file with -o" in done.err
    assert json.loads(path.read_text())


def test_a_page_that_cannot_be_written_is_refused_before_the_work(isorep_command, files):
    missing = files / "no" / "folder.html"
    compared = isorep_command("compare", files / "absent.npy", files / "b.npy", "--html", missing)
    assert compared.code == 2
    assert "cannot be written there" in compared.err
    for command in (("demo", "--html", missing), ("report", files / "absent.json", "-o", missing)):
        done = isorep_command(*command)
        assert done.code == 2
        assert "cannot be written there" in done.err


def test_an_empty_name_ends_with_one_sentence(isorep_command):
    done = isorep_command("report", "")
    assert done.code == 2
    assert done.err.count("\n") == 1
