"""Two models layer by layer: which layers, in which order, with whose groups, and what the verdict says."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pyarrow")

import isorep  # noqa: E402
from isorep.rows import Deadline  # noqa: E402
from isorep.storage.layers import LIST, open_layers  # noqa: E402

from ..data import rotation, sources  # noqa: E402


class Wave(torch.nn.Module):
    def __init__(self, steepness):
        super().__init__()
        self.steepness = steepness

    def forward(self, x):
        return torch.sin(self.steepness * x)


def net(seed, width=4):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, width), Wave(40), torch.nn.Linear(width, width))


ROWS = sources(240, 4).astype(np.float32)
QUICK = {"fast": True, "n_null": 10}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two seeds: layer 0 is linearly the same, layer 1 is not, and each has a layer that the other has not."""
    folder = tmp_path_factory.mktemp("layers")
    for seed, layers in ((0, ["output", "1", "0"]), (1, ["1", "0", "2"])):
        isorep.extract(net(seed), ROWS, layers=layers, output=folder / f"seed{seed}")
    return folder / "seed0", folder / "seed1"


@pytest.fixture(scope="module")
def result(folders):
    return isorep.compare_layers(*folders, **QUICK)


def test_every_common_layer_is_compared_in_the_order_of_the_model(folders, result):
    assert list(open_layers(folders[0]).files) == ["0", "1", "output"]
    assert list(result.layers) == ["0", "1"]
    for layer, found in result.layers.items():
        alone = isorep.compare(*(folder / f"{layer}.parquet" for folder in folders), **QUICK)
        for name, rung in alone.rungs.items():
            assert found.rungs[name].held_out == rung.held_out
            np.testing.assert_array_equal(found.rungs[name].null.draws, rung.null.draws)
    assert (result.only_source, result.only_target) == (("output",), ("2",))
    assert result.caveats[:2] == ("only seed0 has layer output", "only seed1 has layer 2")
    assert result["0"] is result.layers["0"]
    with pytest.raises(isorep.InputError, match="'2' was not compared; there are 0, 1"):
        result["2"]


def test_the_verdict_says_which_rung_suffices_where(result):
    assert result["0"].verdict.rung == "linear"
    assert result.verdict.rung is None
    assert "linear in 1 of 2 layers (0)" in result.verdict.sentence
    assert "No rung suffices in 1 of 2 layers (1)." in result.verdict.sentence
    assert "Held-out error of the best rung: from 0.000 (0) to " in result.verdict.sentence


def test_one_rung_in_all_layers_is_the_verdict(folders):
    result = isorep.compare_layers(*folders, layers="0", **QUICK)
    assert result.verdict.rung == "linear"
    assert result.verdict.sentence.startswith(
        "The smallest rung that suffices is linear in the one layer compared, 0. Held-out error"
    )
    same = isorep.compare_layers(folders[0], folders[0], **QUICK)
    assert same.verdict.rung == "identity"
    assert "identity in all 3 layers." in same.verdict.sentence
    assert (same.source, same.target) == ("seed0 (source)", "seed0 (target)")


def test_without_a_null_there_is_no_verdict(folders):
    result = isorep.compare_layers(*folders, n_null=0, fast=True)
    assert result.verdict.rung is None
    assert result.verdict.sentence.startswith("No verdict on all 2 layers.")
    assert "no verdict" in result.table()


def test_the_table_has_one_row_per_layer(result):
    above, head, *rows = result.table(width=200).splitlines()
    assert above.split() == ["signed_", "best", "its", "its"]
    assert head.split() == ["layer", "identity", "permutation", "rigid", "linear", "rung", "chance", "R²", "verdict"]
    assert max(map(len, result.table(width=80).splitlines())) <= 80
    assert [row.split()[0] for row in rows] == ["0", "1"]
    assert [row.split()[-1] for row in rows] == ["linear", "none"]
    assert f"{result['0'].rungs['rigid'].held_out.mean:.4f}" in rows[0]
    assert " ".join(str(result).split()).endswith(" ".join(result.notes()[-1].split()))


def test_the_result_is_written_without_the_figures_of_single_layers(result, tmp_path):
    told = json.loads(result.to_json(tmp_path / "r.json"))
    assert told["schema"] == "isorep.compare_layers/1"
    assert list(told["layers"]) == ["0", "1"]
    assert "figures" not in told["layers"]["0"]
    rung = told["layers"]["0"]["forward"]["rungs"]["rigid"]
    assert rung["held_out"]["mean"] == result["0"].rungs["rigid"].held_out.mean
    result.to_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "Layer by layer" in page
    assert page.count("Layer 0</h3>") == 1
    assert "smallest rung that suffices" in result._repr_html_()
    from isorep.report.page import render

    assert render(told) == page


def test_progress_and_preview_name_the_layer(folders):
    stages, told = [], {}
    isorep.compare_layers(*folders, **QUICK, progress=lambda *at: stages.append(at), preview=told.__setitem__)
    assert [at for at in stages if at[0] == "layers"] == [("layers", done, 2) for done in range(3)]
    assert list(told) == ["0", "1"]
    assert list(told["0"]) == ["identity", "signed_permutation", "rigid", "linear"]
    began = dict(reversed([(stage, done) for stage, done, _ in stages]))
    ended = {stage: (done, total) for stage, done, total in stages}
    assert set(began.values()) == {0}
    assert all(done == total for done, total in ended.values())


def test_a_time_limit_is_shared_and_a_stopped_run_has_what_was_done(folders):
    short = isorep.compare_layers(*folders, time_limit=1e-6)
    assert list(short.layers) == ["0", "1"]
    assert all("independent components" in each.left_out for each in short.layers.values())
    assert any("layers 0, 1: left out by the time limit: " in caveat for caveat in short.caveats)
    assert short.settings["time_limit"] == 1e-6
    deadline = Deadline(1e6)

    def stop(stage, done, total):
        deadline.stopped = deadline.stopped or stage == "null"

    stopped = isorep.compare_layers(*folders, time_limit=deadline, progress=stop)
    assert list(stopped.layers) == ["0"]
    assert stopped.left_out == ("1",)
    assert stopped.caveats[0] == "the run was stopped; layers not started: 1"
    assert any("layer 0: the run was stopped; left out: " in caveat for caveat in stopped.caveats)


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Tokens of a document hardly differ, and two waves of them share nothing but the documents."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("documents")
    tokens = rng.normal(size=(30, 1, 4)) + 0.01 * rng.normal(size=(30, 10, 4))
    for seed, format in ((0, "parquet"), (1, "npy"), (2, "zarr")):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(4, 24), Wave(4))
        isorep.extract(
            model, tokens.astype(np.float32), layers=["1"], pool="token", format=format, output=folder / f"seed{seed}"
        )
    return folder


def test_groups_are_taken_along_from_every_format(documents):
    for source, target in ((0, 1), (1, 2), (2, 0)):
        found = isorep.compare_layers(documents / f"seed{source}", documents / f"seed{target}", **QUICK)["1"]
        assert found.settings["groups"] == 30
        assert found.verdict.rung is None
    alone = [isorep.compare_layers(documents / "seed0", documents / "seed1", groups=np.arange(300), **QUICK)]
    assert alone[0]["1"].verdict.rung == "linear"  # the wrong answer that groups prevent
    named = isorep.compare_layers(documents / "seed0", documents / "seed1", groups="group", **QUICK)["1"]
    assert named.settings["groups"] == 30


def test_groups_of_the_target_serve_where_the_source_has_none(documents, tmp_path):
    tokens = isorep.read(documents / "seed1" / "1.npy")
    ids = np.load(documents / "seed1" / "1.ids.npy")
    (tmp_path / "plain").mkdir()
    isorep.write(isorep.Representation(np.asarray(tokens.values), ids), tmp_path / "plain" / "1.parquet")
    found = isorep.compare_layers(tmp_path / "plain", documents / "seed0", layers=["1"], **QUICK)["1"]
    assert found.settings["groups"] == 30
    isorep.write(isorep.Representation(np.asarray(tokens.values)[::-1], ids[::-1]), tmp_path / "plain" / "1.parquet")
    with pytest.raises(isorep.InputError, match=r"the same ids in another order.*--join"):
        isorep.compare_layers(tmp_path / "plain", documents / "seed0", layers=["1"], **QUICK)
    joined = isorep.compare_layers(tmp_path / "plain", documents / "seed0", layers=["1"], join=True, **QUICK)["1"]
    assert joined.settings["groups"] == 30
    assert joined.rungs["linear"].held_out.mean == pytest.approx(found.rungs["linear"].held_out.mean, rel=0.2)


def test_other_numbers_of_rows_are_refused_and_joined(folders, tmp_path):
    isorep.extract(net(1), ROWS[:200], layers=["0"], output=tmp_path / "short")
    with pytest.raises(isorep.InputError, match="40 rows of seed0/0 not in short/0"):
        isorep.compare_layers(folders[0], tmp_path / "short", **QUICK)
    joined = isorep.compare_layers(folders[0], tmp_path / "short", join=True, **QUICK)
    assert joined.settings["rows_used"] == 200


def test_a_layer_that_cannot_be_compared_is_named_and_the_others_are_compared(tmp_path):
    for seed in (0, 1):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Threshold(1e6, 0.0))
        isorep.extract(model, ROWS, layers=["0", "1"], output=tmp_path / f"seed{seed}")
    result = isorep.compare_layers(tmp_path / "seed0", tmp_path / "seed1", **QUICK)
    assert list(result.layers) == ["0"]
    assert "identical" in result.refused["1"]
    assert f"layer 1 could not be compared: {result.refused['1']}" in result.caveats


def test_layers_of_a_second_extraction_take_their_place(tmp_path):
    model = net(0)
    isorep.extract(model, ROWS, layers=["2"], output=tmp_path / "a")
    isorep.extract(model, ROWS, layers=["0"], output=f"{tmp_path}/a/{{layer}}.parquet")
    assert list(open_layers(tmp_path / "a").files) == ["0", "2"]
    (tmp_path / "a" / "2.parquet").unlink()
    assert list(open_layers(tmp_path / "a").files) == ["0"]
    isorep.extract(model, ROWS, layers=["1"], output=tmp_path / "b" / "x.parquet")
    assert not (tmp_path / "b" / LIST).exists()


def test_wrong_folders_are_refused_with_what_to_do(folders, tmp_path):
    empty, other, damaged = (tmp_path / name for name in ("empty", "other", "damaged"))
    for folder in (empty, other, damaged):
        folder.mkdir()
    isorep.extract(net(0), ROWS, layers=["2"], output=other)
    for source, match in (
        (tmp_path / "missing", "is not a folder of layers"),
        (folders[0] / "0.parquet", "is not a folder of layers"),
        (empty, "has no list of layers, as isorep extract writes one: name its files"),
        (other, "no layer that both folders have: .*other has 2 and .*seed0 has 0, 1, output"),
    ):
        with pytest.raises(isorep.InputError, match=match):
            isorep.compare_layers(source, folders[0])
    for text in (
        "{",
        '{"format": "isorep.layer_files/1", "layers": [{"name": "a", "file": "../a", "place": 0}]}',
        '{"format": "isorep.layer_files/1", "layers": [{"name": "a", "file": "a.npy", "place": Infinity}]}',
        "[]",
    ):
        (damaged / LIST).write_text(text)
        with pytest.raises(isorep.InputError, match="is not a list of layers"):
            isorep.compare_layers(damaged, folders[0])
    (damaged / LIST).write_text('{"format": "isorep.layer_files/1", "layers": []}')
    with pytest.raises(isorep.InputError, match="has a list of layers, and none of the files in it is there"):
        isorep.compare_layers(damaged, folders[0])
    with pytest.raises(isorep.InputError, match="holds no file called 'nine'; there are 0, 1, output"):
        isorep.compare_layers(*folders, layers=["nine"])
    with pytest.raises(isorep.InputError, match="different names"):
        isorep.compare_layers(*folders, layers=["0", "0"])
    with pytest.raises(isorep.InputError, match="affine"):
        isorep.compare_layers(*folders, rungs=["affine"])


def test_a_folder_of_layers_is_no_matrix(folders):
    with pytest.raises(
        isorep.InputError, match=r"holds 3 layers, each a matrix of its own: name one, such as .*0.parq"
    ):
        isorep.read(folders[0])


def test_the_same_layer_rotated_agrees_up_to_a_rigid_motion_in_plain_folders(tmp_path):
    for name, turned in (("a", ROWS), ("b", ROWS @ rotation(4, 0).astype(np.float32))):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "early.npy", turned)
        np.save(tmp_path / name / "late.npy", turned[:, :3])
    result = isorep.compare_layers(tmp_path / "a", tmp_path / "b", layers=["late", "early"], **QUICK)
    assert list(result.layers) == ["late", "early"]
    assert result["early"].verdict.rung == "rigid"
