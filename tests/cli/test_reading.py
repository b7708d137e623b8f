"""One bad cell of a csv file stops every command with one sentence; what is left out of a legal one is in its notes."""

import json

import pytest

from ..data import mixing, sources

ROWS = 240
VALUES = sources(ROWS, 3) @ mixing(3, 0)
COMMANDS = {
    "compare": ("compare", "{a}", "{b}", "--rungs", "identity,rigid", "--null", "0", "--boot", "0"),
    "compare many": ("compare", "{a}", "{b}", "{b}", "--rungs", "identity,rigid"),
    "similarity": ("similarity", "{a}", "{b}", "--indices", "cka"),
    "blocks": ("blocks", "{a}", "{b}", "--null", "19"),
    "ica fit": ("ica", "fit", "{a}", "-o", "{folder}/m.safetensors"),
    "ica stability": ("ica", "stability", "{a}", "--restarts", "2"),
    "translate": ("translate", "fit", "{a}", "{b}", "-o", "{folder}/map.safetensors", "--maps", "rigid"),
    "structure": ("structure", "{a}", "{b}", "--scores", "mcc", "--resamples", "0", "--null", "0"),
    "deconfound": (
        *("deconfound", "{a}", "--label", "label", "--batch", "plate"),
        *("--classifiers", "logistic", "--conditions", "base,pca", "--restarts", "0"),
    ),
}


def table(path, **cells):
    lines = ["p,q,r,label,plate,time"]
    for row, numbers in enumerate(VALUES):
        line = [f"{number:.6f}" for number in numbers]
        line[1] = cells.get(f"row_{row}", line[1])
        lines.append(",".join([*line, "drug" if row % 2 else "DMSO", str(row // 40), "2020-01-01"]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def run(tmp_path, isorep_command):
    """Call one of the commands on a file and a neighbour that is right."""

    def call(name, *more, **cells):
        a, b = table(tmp_path / "a.csv", **cells), table(tmp_path / "b.csv")
        words = [part.format(a=a, b=b, folder=tmp_path) for part in COMMANDS[name]]
        return isorep_command(*words, *more)

    return call


@pytest.mark.parametrize("name", COMMANDS)
def test_one_bad_cell_is_one_sentence_and_exit_2(run, name):
    done = run(name, row_30="0.3x")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "a.csv: line 32 (row 30), column 'q': '0.3x' is not a number" in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_missing_cell_is_one_sentence_and_exit_2(run, name):
    done = run(name, row_30="")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "a.csv" in done.err
    assert "row 30" in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_the_neighbouring_legal_file_is_read(run, name):
    assert run(name, row_30=" 3e-1 ").code == 0


@pytest.mark.parametrize("name", ["ica fit", "ica stability", "deconfound"])
def test_what_was_left_out_is_printed_and_in_the_json_and_the_report(run, tmp_path, name):
    used = ("label", "plate") if name == "deconfound" else ()
    more = ("--groups", "plate") if name == "ica stability" else ()
    done = run(name, *more, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert done.code == 0
    left = "'time' (text)" if used else "'label', 'time' (text)"
    note = f"left out of a.csv: {left}"
    assert f"note: {note}" in done.out
    found = json.loads((tmp_path / "r.json").read_text())
    assert note in found["caveats"]
    assert "left out of a.csv" in (tmp_path / "r.html").read_text()
    columns = found["columns"] if "columns" in found else found["data"]["columns"]
    assert columns == (4 if name == "ica fit" else 3), "groups and labels are no features"


def test_applying_a_model_names_what_was_left_out(run, tmp_path, isorep_command):
    assert run("ica fit").code == 0
    done = isorep_command("ica", "apply", tmp_path / "m.safetensors", tmp_path / "a.csv", tmp_path / "out.csv")
    assert done.code == 0
    assert "note: left out of a.csv: 'label', 'time' (text)" in done.out
    table(tmp_path / "a.csv", row_30="")
    done = isorep_command("ica", "apply", tmp_path / "m.safetensors", tmp_path / "a.csv", tmp_path / "out.csv")
    assert done.code == 2
    assert "row 30" in done.err


@pytest.mark.parametrize(("groups", "columns"), [((), 4), (("--groups", "plate"), 3), (("--within", "plate"), 3)])
def test_groups_and_classes_are_no_features(run, tmp_path, groups, columns):
    assert run("compare", *groups, "--json", tmp_path / "r.json").code == 0
    found = json.loads((tmp_path / "r.json").read_text())
    assert (found["source"]["columns"], found["target"]["columns"]) == (columns, columns)
