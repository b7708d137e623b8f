"""``isorep compare`` with three files and more: what is printed and written, limits, and refusals."""

import json

import numpy as np
import pytest

import isorep

from ..data import rotation, sources


@pytest.fixture
def runs(tmp_path):
    """Five runs of the same 200 examples; e.npy is unrelated."""
    rng = np.random.default_rng(0)
    shared = sources(200, 4)
    for place, name in enumerate("abcde"):
        run = shared @ rotation(4, place) + 0.1 * rng.normal(size=shared.shape)
        np.save(tmp_path / f"{name}.npy", (rng.permutation(run) if name == "e" else run).astype(np.float32))
    return [tmp_path / f"{name}.npy" for name in "abcde"]


def test_matrices_consensus_components_outliers_and_verdict_are_printed_in_that_order(isorep_command, runs):
    done = isorep_command("compare", *runs)
    assert (done.code, done.err) == (0, "")
    words = [
        "verdict: 4 of the 5 runs agree up to a rigid motion",
        "e.npy is an outlier",
        "e.npy: 200 rows x 4 columns",
        "lower is closer, 1 is no better than the mean; over all pairs, outliers included",
        "> rigid",
        "> marks the verdict",
        "rigid, row mapped onto column",
        "consensus:",
        "components: none recurs in all 5 runs, 4 do in some",
    ]
    places = [done.out.index(word) for word in words]
    assert places == sorted(places)
    assert done.out.count("row mapped onto column") == 1
    assert "outliers: none" not in done.out
    assert "outliers: none" in isorep_command("compare", *runs[:4]).out


def test_json_equals_the_python_result_and_becomes_the_same_page(isorep_command, runs, tmp_path):
    target, page, again = tmp_path / "out.json", tmp_path / "out.html", tmp_path / "again.html"
    done = isorep_command(
        "compare", *runs[:3], "--json", target, "--html", page, "--quiet", "--seed", "3", "--residuals", "--null", "2"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    result = isorep.compare_many(runs[:3], random_state=3, residuals=True, n_null=2)
    written, computed = json.loads(target.read_text()), json.loads(result.to_json())
    assert dict(written["page"].pop("provenance")).items() >= dict(computed["page"].pop("provenance")).items()
    assert written.pop("seconds").keys() == computed.pop("seconds").keys()
    assert written == computed
    assert isorep_command("report", target, "-o", again).code == 0
    assert page.read_text() == again.read_text()


@pytest.mark.parametrize(("limit", "code"), [("1.5", 0), ("0.01", 1), ("rigid=0.3", 0), ("identity=0.5", 1)])
def test_a_limit_is_for_the_worst_pair(isorep_command, runs, limit, code):
    done = isorep_command("compare", *runs[:4], "--rungs", "identity,rigid,linear", "--fail-above", limit)
    assert done.code == code
    assert "verdict:" in done.out
    assert ("mean distances to the mean for" in done.err and "exceeds the limit" in done.err) == (code == 1)


@pytest.mark.parametrize(
    "option", [("--reverse",), ("--worst-case",), ("--no-worst-case",), ("--diameter", "exact"), ("--boot", "10")]
)
def test_options_for_two_files_are_refused_for_more(isorep_command, runs, option):
    done = isorep_command("compare", *runs[:3], *option)
    assert done.code == 2
    assert "is for two files, and 3 were named" in done.err
    assert len(done.err.splitlines()) == 1


def test_one_file_cannot_be_compared_and_none_neither(isorep_command, runs):
    alone = isorep_command("compare", runs[0])
    assert alone.code == 2
    assert "alone cannot be compared: name at least two files" in alone.err
    assert isorep_command("compare").code == 2


def test_files_that_do_not_go_together_are_refused_and_nothing_is_written(isorep_command, runs, tmp_path):
    np.save(tmp_path / "short.npy", np.zeros((7, 4)))
    before = set(tmp_path.iterdir())
    done = isorep_command("compare", *runs[:2], tmp_path / "short.npy", "--json", tmp_path / "out.json")
    assert done.code == 2
    assert "a.npy has 200 rows and short.npy has 7" in done.err
    assert set(tmp_path.iterdir()) == before
    over = isorep_command("compare", *runs[:3], "--json", runs[2])
    assert over.code == 2
    assert "is an input" in over.err


def test_ids_groups_and_join_work_for_many_files(isorep_command, tmp_path):
    shared = sources(120, 3)
    ids = np.array([f"r{i}" for i in range(120)])
    for place, rows in enumerate((slice(0, 110), slice(None, None, -1), slice(5, None))):
        np.savez(tmp_path / f"{place}.npz", latents=(shared @ rotation(3, place))[rows], ids=ids[rows])
    np.save(tmp_path / "groups.npy", np.arange(110) // 5)
    files = [tmp_path / f"{place}.npz" for place in range(3)]
    assert isorep_command("compare", *files).code == 2
    done = isorep_command("compare", *files, "--join", "--groups", tmp_path / "groups.npy")
    assert done.code == 0, done.err
    assert "105 rows are in all runs; dropped: 5 from 0.npz, 15 from 1.npz, 10 from 2.npz" in done.out


def test_files_of_one_name_are_told_apart_by_their_folders(isorep_command, runs, tmp_path):
    folders = []
    for place, run in enumerate(runs[:3]):
        (tmp_path / f"seed{place}").mkdir()
        folders.append(run.rename(tmp_path / f"seed{place}" / "z.npy"))
    done = isorep_command("compare", *folders, "--rungs", "rigid,linear")
    assert "seed1/z.npy: 200 rows" in done.out
