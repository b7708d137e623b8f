"""Several results as one page, and what every page begins with: a short headline and where it comes from."""

import json
import re
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

import isorep
from isorep import similarity
from isorep.comparison import Verdict
from isorep.comparison.page import verdict_answer
from isorep.report import read_result, render

from ..data import noisy_pair
from .examples import small_result


@cache
def results():
    x, y = noisy_pair(80, 3, 0.1)
    compared = isorep.compare(x, y, n_null=5, n_boot=20, worst_case=False)
    indices = similarity.indices(x, y, permutations=20)
    return [json.loads(each.to_json()) for each in (compared, compared, indices)]


def test_several_results_are_one_page_with_a_summary_and_the_contents_of_all():
    html = render(results())
    assert "<h1>3 results</h1>" in html
    names = re.findall(r' id="([^"]+)"', html)
    assert len(names) == len(set(names))
    assert [f"r{number}" for number in (1, 2, 3)] == re.findall(r'<article id="([^"]+)"', html)
    targets = re.findall(r'href="#([^"]+)"', html)
    assert set(targets) <= set(names)
    for result in results():
        assert result["page"]["opening"][0]["sentence"] in html
    assert html.count('class="headline"') == 3


def test_a_list_of_one_result_is_the_page_of_the_result():
    assert render(results()[:1]) == render(results()[0])


def test_ladders_of_one_page_are_apart(browser, tmp_path):
    path = tmp_path / "several.html"
    path.write_text(render(results()), encoding="utf-8")
    browser.open(path)
    browser.run("document.querySelector('#r2 .rungs [data-k=linear]').click()")
    chosen = "return [...document.querySelectorAll('.rungs [aria-pressed=true]')].map((each) => each.dataset.k)"
    assert browser.run(chosen) == [results()[0]["figures"]["scatter"]["rung"], "linear"]
    assert browser.errors() == []


def test_the_command_writes_one_page_of_several_results(tmp_path):
    for number, result in enumerate(results()):
        (tmp_path / f"{number}.json").write_text(json.dumps(result), encoding="utf-8")
    files = [str(tmp_path / f"{number}.json") for number in range(3)]
    command = [sys.executable, "-m", "isorep", "report", *files, "-o", str(tmp_path / "all.html")]
    subprocess.run(command, check=True, capture_output=True)
    assert "<h1>3 results</h1>" in (tmp_path / "all.html").read_text(encoding="utf-8")
    refused = subprocess.run([*command[:-1], files[1]], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "would replace" in refused.stderr


def test_a_file_says_when_and_how_it_was_written_and_its_page_repeats_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    x, y = noisy_pair(60, 2, 0.1)
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "b.npy", y)
    command = [sys.executable, "-m", "isorep", "compare", "a.npy", "b.npy", "--fast", "--json", "r.json"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "864000")
    html = render(read_result(tmp_path / "r.json"))
    for words in ("1970-01-02 00:00 UTC", "isorep compare a.npy b.npy --fast --json r.json", "a.npy 60 × 2"):
        assert words in html, words
    small_result().to_html(tmp_path / "here.html")
    assert "from Python" in (tmp_path / "here.html").read_text(encoding="utf-8")


def test_the_json_in_memory_of_equal_results_is_equal():
    x, y = noisy_pair(60, 2, 0.1)
    first, second = (similarity.indices(x, y, permutations=5).to_json() for _ in range(2))
    assert first == second
    assert "written" not in dict(json.loads(first)["page"]["provenance"])


@pytest.mark.parametrize("rung", [None, "identity", "signed_permutation", "rigid", "linear", "ica"])
@pytest.mark.parametrize("words", ["agree", "are partly related, so", "No verdict"])
@pytest.mark.parametrize("qualified", [None, "Few rows decide this."])
@pytest.mark.parametrize("who", ["The two representations", "19 of 20 runs"])
def test_headlines_of_verdicts_have_at_most_twelve_words(rung, words, qualified, who):
    answer = verdict_answer(Verdict(rung, f"A and B {words}.", qualified), who)
    assert len(answer.sentence.split()) <= 12, answer.sentence
