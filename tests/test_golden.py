"""Every command gives the figures of its golden file, twice the same bytes, and the same page for the same result."""

import json

import pytest

from . import golden

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    golden.write_inputs(folder)
    return folder


@pytest.mark.parametrize("name", golden.CASES)
def test_a_command_gives_its_golden_figures_and_the_same_bytes_again(inputs, name):
    first = golden.run_case(name, inputs)
    assert golden.differences(golden.golden(name), golden.figures(name, first)) == []
    again = golden.run_case(name, inputs)
    plain = [json.dumps(golden.without_run_times(told)) for told in (first, again)]
    assert plain[0] == plain[1]


def test_a_result_gives_the_same_page_again(inputs, monkeypatch):
    from isorep.cli.main import run

    golden.run_case("similarity", inputs)
    pages = []
    for _ in range(2):
        page = inputs / "page.html"
        monkeypatch.setattr(
            "sys.argv", ["isorep", "report", str(inputs / "similarity.json"), "-o", str(page), "--quiet"]
        )
        with pytest.raises(SystemExit) as stopped:
            run()
        assert not stopped.value.code
        pages.append(page.read_bytes())
    assert pages[0] == pages[1]
    assert b"0.99" in pages[0]


def test_differences_are_found():
    wanted = {"a": [1.0, 1e-8], "b": ["same", 0.0], "c": [2, 0.0]}
    assert golden.differences(wanted, {"a": [1.0 + 5e-9, 0.0], "b": ["same", 0.0], "c": [2, 0.0]}) == []
    found = golden.differences(wanted, {"a": [1.0 + 5e-8, 0.0], "b": ["other", 0.0], "d": [2, 0.0]})
    assert [each.partition(":")[0] for each in found] == ["c", "d", "a", "b"]
