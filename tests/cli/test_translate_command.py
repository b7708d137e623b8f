"""``isorep translate``: fit and apply from the shell; formats, drift, limits, and everything that can be wrong."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import typer

import isorep

from ..data import mixing, sources
from ..waiting import until

RNG = np.random.default_rng(0)
OLD = (sources(600, 8) @ mixing(8, 0) + 1).astype(np.float32)
NEW = (OLD @ RNG.normal(size=(8, 6)) + 0.1 * RNG.normal(size=(600, 6))).astype(np.float32)

# The command with blocks of which all but the first wait to be interrupted.
SLOW = """
import signal, sys, threading
import isorep.storage.registry as registry
from isorep.cli.main import run
from isorep.translation.translator import TranslatedRows
registry._BLOCK_BYTES = 2**12
translate = TranslatedRows._map_block
first, stopped = threading.Lock(), threading.Event()
def waiting(rows, *arguments):
    if not first.acquire(blocking=False):
        stopped.wait()
    return translate(rows, *arguments)
def stop(number, frame):
    stopped.set()
    raise KeyboardInterrupt
TranslatedRows._map_block = waiting
signal.signal(signal.SIGINT, stop)
run()
"""


@pytest.fixture
def folder(tmp_path):
    """The same items by two models, as npy without ids and npz with ids."""
    np.save(tmp_path / "old.npy", OLD)
    np.save(tmp_path / "new.npy", NEW)
    ids = np.arange(600) + 100
    np.savez(tmp_path / "old.npz", values=OLD, ids=ids, doc=np.arange(600) // 6)
    np.savez(tmp_path / "new.npz", values=NEW[::-1], ids=ids[::-1])
    return tmp_path


@pytest.fixture
def fitted(folder, isorep_command):
    done = isorep_command(
        "translate", "fit", folder / "old.npy", folder / "new.npy", "-o", folder / "m.safetensors", "--quiet"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    return folder / "m.safetensors"


def one_sentence(done, *words):
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("isorep: ")
    assert done.err.count("\n") == 1, done.err
    for each in words:
        assert each in done.err, done.err
    return True


def test_a_fit_prints_what_is_lost_and_writes_map_json_and_page(isorep_command, folder):
    out = folder / "m.safetensors"
    done = isorep_command(
        "translate", "fit", folder / "old.npy", folder / "new.npy", "-o", out,
        "--json", folder / "r.json", "--html", folder / "r.html",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    for words in (
        "old    old.npy: 8 columns, rank 8, condition 10",
        "pairs  600: 480 to fit and choose, 120 to test",
        "store   store   store  queries",
        "> linear ",
        "untranslated",
        "verdict: old.npy can be translated to new.npy",
        "pairs: ",
        "note: ",
    ):
        assert words in done.out
    assert f"\nMap: {out} (the linear map, fitted to all 600 pairs)\n" in done.out
    result = json.loads((folder / "r.json").read_text())
    assert (result["schema"], result["best"]) == ("isorep.translate/3", "linear")
    assert "<html" in (folder / "r.html").read_text()
    kept = isorep.Translator.load(out)
    np.testing.assert_array_equal(kept.matrix, isorep.translate(OLD, NEW).translator.matrix)


def test_options_reach_the_fit(isorep_command, folder):
    out = folder / "m.safetensors"
    done = isorep_command(
        "translate", "fit", folder / "old.npz::values", folder / "new.npz", "-o", out, "--join", "--groups", "doc",
        "--maps", "rigid,ridge", "--folds", 4, "--at", "2,7", "--metric", "euclidean", "--n-queries", 30,
        "--corpus", 100, "--seed", 3, "--json", folder / "r.json", "--quiet",
    )  # fmt: skip
    assert (done.code, done.out, done.err) == (0, "", "")
    result = json.loads((folder / "r.json").read_text())
    assert set(result["maps"]) == {"rigid", "ridge"}
    settings = result["settings"]
    assert (settings["folds"], settings["groups"], settings["join"], settings["random_state"]) == (4, 100, True, 3)
    retrieval = result["retrieval"]
    assert (retrieval["queries"], retrieval["corpus"], retrieval["at"]) == (30, 100, [2, 7])
    assert retrieval["metric"] == "euclidean"


@pytest.mark.parametrize(
    ("limit", "code", "words"),
    [
        ("0.5", 0, ""),
        ("loss@1=0.9", 0, ""),
        ("error=0.9", 0, ""),
        ("error=0.001", 1, "the held-out error, 0."),
        ("error=0", 1, "exceeds the limit 0"),
    ],
)
def test_a_stated_limit_decides_the_exit_code(isorep_command, folder, limit, code, words):
    out = folder / "m.safetensors"
    done = isorep_command(
        "translate", "fit", folder / "old.npy", folder / "new.npy", "-o", out, "--fail-above", limit, "--quiet"
    )
    assert done.code == code, done.err
    assert words in done.err
    assert out.exists()


def test_lost_recall_exceeds_its_limit(isorep_command, folder):
    np.save(folder / "noise.npy", RNG.normal(size=(600, 6)))
    done = isorep_command(
        "translate", "fit", folder / "old.npy", folder / "noise.npy", "-o", folder / "m.safetensors",
        "--fail-above", "0.2",
    )  # fmt: skip
    assert done.code == 1
    assert "isorep: the loss of recall at 10, " in done.err
    assert "embed again" in done.out


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors", "csv", "parquet", "h5", "zarr"])
def test_every_format_is_written_with_ids(isorep_command, folder, fitted, suffix):
    pytest.importorskip({"parquet": "pyarrow", "zarr": "zarr", "h5": "h5py"}.get(suffix, "numpy"))
    out = folder / f"t.{suffix}"
    done = isorep_command("translate", "apply", fitted, f"{folder / 'old.npz'}::values", out)
    assert (done.code, done.err) == (0, "")
    kept = "without" if suffix == "npy" else "with"
    assert done.out == f"wrote {out}: 600 rows x 6 columns, float32, {kept} ids\n"
    found = isorep.read(out)
    np.testing.assert_allclose(found.values[:], isorep.Translator.load(fitted).transform(OLD), rtol=1e-4, atol=1e-5)
    if suffix != "npy":
        np.testing.assert_array_equal(found.ids.astype(int), np.arange(600) + 100)


def test_a_folder_of_shards_becomes_one_file_or_a_folder(isorep_command, folder, fitted):
    (folder / "shards").mkdir()
    for place, part in enumerate(np.array_split(OLD, 3)):
        np.save(folder / "shards" / f"{place}.npy", part)
    expected = isorep.Translator.load(fitted).transform(OLD)
    done = isorep_command("translate", "apply", fitted, folder / "shards", folder / "one.npy")
    assert done.code == 0, done.err
    np.testing.assert_allclose(np.load(folder / "one.npy"), expected, rtol=1e-5, atol=1e-6)
    done = isorep_command("translate", "apply", fitted, folder / "shards", folder / "many")
    assert done.out == f"wrote {folder / 'many'}: 600 rows x 6 columns, float32, without ids\n"
    assert sorted(path.name for path in (folder / "many").iterdir()) == ["0.npy", "1.npy", "2.npy"]
    np.testing.assert_allclose(isorep.read(folder / "many").values[:], expected, rtol=1e-5, atol=1e-6)
    again = isorep_command("translate", "apply", fitted, folder / "shards", folder / "many")
    assert one_sentence(again, "is not an empty folder")
    inside = isorep_command("translate", "apply", fitted, folder / "shards", folder / "shards" / "out")
    assert one_sentence(inside, "lie in one another")


def test_foreign_vectors_are_translated_with_a_warning_or_not_at_all(isorep_command, folder, fitted):
    np.save(folder / "scaled.npy", 3 * OLD)
    out = folder / "t.npy"
    strict = isorep_command("translate", "apply", fitted, folder / "scaled.npy", out, "--strict")
    assert (strict.code, strict.out) == (1, "")
    assert strict.err.startswith("isorep: scaled.npy: the rows do not look like those that the map was fitted to: ")
    assert strict.err.endswith("; nothing was written\n")
    assert not out.exists()
    done = isorep_command("translate", "apply", fitted, folder / "scaled.npy", out, "--quiet")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("warning: scaled.npy: the rows do not look like")
    assert len(np.load(out)) == 600
    same = isorep_command("translate", "apply", fitted, folder / "old.npy", out, "--strict")
    assert (same.code, same.err) == (0, "")


def test_what_cannot_be_applied_exits_2_and_leaves_nothing(isorep_command, folder, fitted):
    spoilt = OLD.copy()
    spoilt[500, 3] = np.nan
    np.save(folder / "nan.npy", spoilt)
    np.savez(folder / "named.npz", values=OLD, ids=[f"item {i}" for i in range(600)])
    (folder / "broken.safetensors").write_bytes(fitted.read_bytes()[:-9])
    old, before = folder / "old.npy", sorted(folder.iterdir())
    cases = [
        ((fitted, folder / "new.npy", folder / "t.npy"), "new.npy has 6 columns, and the map translates vectors of 8"),
        ((fitted, folder / "nan.npy", folder / "t.csv"), "nan.npy holds 1 NaN value, the first at row 500, column 3"),
        ((fitted, folder / "named.npz", folder / "t.npy"), "cannot hold text ids such as 'item 0'"),
        ((fitted, old, old), "old.npy is an input"),
        ((fitted, old, fitted), "m.safetensors is an input"),
        ((fitted, old, folder / "nowhere" / "t.npy"), "nowhere is not a folder"),
        ((fitted, old, folder / "t.foo"), "cannot write .foo"),
        ((fitted, old, folder / "t"), "cannot write no suffix"),
        ((fitted, folder / "absent.npy", folder / "t.npy"), "absent.npy does not exist"),
        ((fitted, folder / "absent", folder / "t"), "absent does not exist"),
        ((folder / "absent.safetensors", old, folder / "t.npy"), "absent.safetensors does not exist"),
        ((folder / "broken.safetensors", old, folder / "t.npy"), "not a map that isorep saved"),
        ((old, old, folder / "t.npy"), "not a map that isorep saved"),
    ]
    for arguments, words in cases:
        assert one_sentence(isorep_command("translate", "apply", *arguments), words), arguments
        assert sorted(folder.iterdir()) == before


def test_what_cannot_be_fitted_exits_2_and_leaves_nothing(isorep_command, folder):
    old, new, out = folder / "old.npy", folder / "new.npy", folder / "m.safetensors"
    np.save(folder / "short.npy", NEW[:500])
    np.save(folder / "constant.npy", np.ones((600, 3)))
    before = sorted(folder.iterdir())
    cases = [
        ((old, folder / "short.npy"), "old.npy has 600 rows and short.npy has 500"),
        ((folder / "old.npz::values", folder / "new.npz"), "hold the same ids in another order"),
        ((old, folder / "constant.npy"), "all rows of constant.npy are identical"),
        ((old, folder / "absent.npy"), "absent.npy does not exist"),
        ((old, new, "--maps", "cubic"), "choose from rigid, linear, ridge, low_rank"),
        ((old, new, "--folds", 2), "folds is 2"),
        ((old, new, "--at", "a"), "--at takes whole numbers"),
        ((old, new, "--at", "0"), "at is"),
        ((old, new, "--metric", "l1"), "choose from cosine, euclidean, dot"),
        ((old, new, "--fail-above", "much"), "--fail-above takes a number"),
        ((old, new, "--fail-above", "loss@3=0.1"), "--fail-above takes a number"),
        (
            (
                old,
                new,
                "--fail-above=-1",
            ),
            "--fail-above takes a number",
        ),
        ((old, new, "--groups", "doc"), "doc"),
        ((old, new, "--json", old), "old.npy is an input"),
        ((old, new, "--json", out), "m.safetensors is named twice"),
        ((old, new, "--seed", -1), "random_state is -1"),
    ]
    for arguments, words in cases:
        assert one_sentence(isorep_command("translate", "fit", *arguments, "-o", out), words), arguments
        assert sorted(folder.iterdir()) == before
    assert one_sentence(isorep_command("translate", "fit", old, new, "-o", folder / "m.npz"), "end in .safetensors")


def test_an_interrupted_apply_leaves_the_older_file(folder, fitted):
    out = folder / "t.npy"
    np.save(out, np.ones(3))
    before = sorted(folder.iterdir())
    command = [sys.executable, "-c", SLOW, "translate", "apply", fitted, folder / "old.npy", out]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as process:
        until(lambda: len(list(folder.iterdir())) > len(before), process)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert (process.returncode, told) == (130, "isorep: interrupted; nothing was written\n")
    assert sorted(folder.iterdir()) == before
    np.testing.assert_array_equal(np.load(out), np.ones(3))


def test_help_is_there(isorep_command):
    for arguments in (["translate"], ["translate", "fit"], ["translate", "apply"]):
        done = isorep_command(*arguments, "--help")
        assert done.code == 0
        assert f"isorep {' '.join(arguments)} [OPTIONS]" in done.out


def test_a_store_of_lists_keeps_its_columns_and_a_map_takes_added_pairs(isorep_command, folder, fitted):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    text = [f"text {row}" for row in range(600)]
    parquet.write_table(pa.table({"id": text, "vector": list(OLD), "n": range(600)}), folder / "s.parquet")
    done = isorep_command("translate", "apply", fitted, folder / "s.parquet", folder / "t.parquet")
    assert (done.code, done.err) == (0, "")
    assert "600 rows x 6 columns, float, in the column 'vector', with 2 other columns" in " ".join(done.out.split())
    assert parquet.read_table(folder / "t.parquet")["id"].to_pylist() == text
    done = isorep_command(
        "translate", "apply", fitted, folder / "s.parquet", folder / "u.parquet", "--confidence", folder / "c.npy"
    )
    assert (done.code, done.err) == (0, "")
    assert "predicted cosines in the order of the rows" in " ".join(done.out.split())
    assert np.load(folder / "c.npy").shape == (600, 1)
    more = folder / "more.safetensors"
    np.save(folder / "more_old.npy", OLD[:300])
    np.save(folder / "more_new.npy", NEW[:300])
    adding = ("translate", "fit", folder / "more_old.npy", folder / "more_new.npy", "--add")
    done = isorep_command(*adding, fitted, "-o", more)
    assert (done.code, done.err) == (0, "")
    assert "the linear map of 900 pairs, 300 of them added" in " ".join(done.out.split())
    facts = isorep.Translator.load(more).facts
    assert facts["pairs"] == 900
    assert facts["first fit"]["pairs"] == 600
    assert not {"held-out error", "held-out cosine", "recall", "corpus"} & set(facts)
    again = isorep_command(*adding, more, "-o", folder / "again.safetensors")
    assert one_sentence(again, "more_old.npy and more_new.npy are already in the map")


def test_added_pairs_that_do_not_fit_are_warned_of(isorep_command, folder, fitted):
    rng, out = np.random.default_rng(1), folder / "more.safetensors"
    for name, old, new, words in (
        ("scaled", 100 * OLD[:300], NEW[:300], "warning: scaled_old.npy: the rows do not look like"),
        ("scaled", OLD[:300], 100 * NEW[:300], "warning: scaled_new.npy: the rows do not look like"),
        ("shuffled", OLD[:300], NEW[rng.permutation(300)], "not shown to fit the map better than shuffled ones"),
        ("partly", OLD[:300], NEW[[*range(149, -1, -1), *range(150, 300)]], "and held-out pairs of the first fit"),
    ):
        np.save(folder / f"{name}_old.npy", old)
        np.save(folder / f"{name}_new.npy", new)
        done = isorep_command(
            "translate", "fit", folder / f"{name}_old.npy", folder / f"{name}_new.npy", "--add", fitted, "-o", out
        )
        assert done.code == 0
        assert words in done.err
        assert all(line.startswith("warning: ") for line in done.err.splitlines())


OPTIONS = {
    "--maps": "rigid", "--scenario": "queries", "--store-size": 100, "--normalise": "yes", "--check-old": "x.npy",
    "--check-new": "x.npy", "--folds": 4, "--groups": "doc", "--labels": "doc", "--at": "1,10,100",
    "--metric": "dot", "--queries": "q.npy", "--old-queries": "q.npy", "--relevance": "q.txt", "--n-queries": 10,
    "--corpus": 10, "--fail-above": 0.5, "--json": "r.json", "--html": "r.html", "--seed": 1,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["--add", "--unpaired"])
def test_options_without_effect_are_refused_by_name(isorep_command, folder, fitted, mode):
    how = ("--add", fitted) if mode == "--add" else ("--unpaired",)
    given = ("translate", "fit", folder / "old.npy", folder / "new.npy", *how, "-o", folder / "o.safetensors")
    has_effect = () if mode == "--add" else ("--normalise", "--check-old", "--check-new", "--json", "--html", "--seed")
    for name, value in OPTIONS.items():
        if name not in has_effect:
            assert one_sentence(isorep_command(*given, name, value), f"{name} has no effect with {mode}: leave it out")
    both = isorep_command(*given, "--at", "none", "--folds", -1)
    assert one_sentence(both, f"--folds, --at have no effect with {mode}: leave them out")
    assert not (folder / "o.safetensors").exists()


def test_every_option_of_a_fit_has_an_effect_or_is_refused():
    from isorep.cli import translate

    names = {each.name for each in typer.main.get_command(translate.app).commands["fit"].params}
    unknown = {name.removeprefix("--").replace("-", "_") for name in OPTIONS} | {"help"}
    assert names - unknown - {"force", "join", "dask", "add", "unpaired"} <= translate._ADD & translate._UNPAIRED
    assert names >= translate._ADD | translate._UNPAIRED


def test_scenario_store_size_labels_queries_and_confidence(isorep_command, folder):
    out, unit = folder / "m.safetensors", NEW / np.linalg.norm(NEW, axis=1, keepdims=True)
    np.savez(folder / "unit.npz", values=unit, ids=np.arange(600) + 100)
    np.savez(folder / "q.npz", values=unit[:90], ids=np.arange(90))
    (folder / "qrels.tsv").write_text("".join(f"{row}\t{row + 100}\t1\n" for row in range(90)))
    done = isorep_command(
        "translate", "fit", folder / "old.npz::values", folder / "unit.npz", "-o", out, "--scenario", "queries",
        "--store-size", 50_000, "--labels", "doc", "--queries", folder / "q.npz", "--relevance", folder / "qrels.tsv",
        "--maps", "linear,cosine", "--json", folder / "r.json", "--html", folder / "r.html",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    said = " ".join(done.out.split())
    for words in ("of 50,000 native vectors", "scaled to the length of new ones, 1", "nDCG@10", "label", "estimated"):
        assert words in said
    result = json.loads((folder / "r.json").read_text())
    assert (result["scenario"], result["norm"]) == ("queries", pytest.approx(1))
    assert result["relevance"]["scenarios"]["store"]["native_recall"] == 1
    done = isorep_command(
        "translate", "apply", out, folder / "old.npy", folder / "t.npy", "--confidence", folder / "c.npy"
    )
    assert (done.code, done.err) == (0, "")
    assert "predicted cosines" in done.out
    assert np.load(folder / "c.npy").shape == (600, 1)
    np.testing.assert_allclose(np.linalg.norm(np.load(folder / "t.npy"), axis=1), 1, rtol=1e-5)
    assert one_sentence(
        isorep_command("translate", "fit", folder / "old.npy", folder / "new.npy", "-o", out, "--queries", "30"),
        "--n-queries 30",
    )
    assert one_sentence(
        isorep_command("translate", "fit", folder / "old.npy", folder / "new.npy", "-o", out, "--normalise", "maybe"),
        "choose from auto, yes, no",
    )


def test_apply_names_the_columns_that_it_leaves_out(isorep_command, folder, fitted):
    import pandas as pd

    table = pd.DataFrame({"doc_id": [f"d{row}" for row in range(20)], "vector": list(OLD[:20])})
    table.to_parquet(folder / "store.parquet")
    table.drop(columns="doc_id").to_parquet(folder / "bare.parquet")
    out = isorep_command("translate", "apply", fitted, folder / "store.parquet", folder / "a.npy").out
    assert "note: left out of store.parquet: 'doc_id' (text)" in out
    out = isorep_command("translate", "apply", fitted, folder / "bare.parquet", folder / "b.npy").out
    assert "note" not in out


def test_a_store_keeps_its_columns_with_named_ids_and_in_shards(isorep_command, folder, fitted):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    doc = [f"d{row}" for row in range(600)]
    table = pa.table({"doc": doc, "vector": list(OLD), "n": range(600)})
    (folder / "in").mkdir()
    for part in range(2):
        parquet.write_table(table.slice(300 * part, 300), folder / "in" / f"{part}.parquet")
    parquet.write_table(table, folder / "in.parquet")
    for source, output in (("in", "out"), ("in.parquet", "out.parquet")):
        confidence = folder / f"{source}.csv"
        done = isorep_command(
            "translate", "apply", fitted, folder / source, folder / output, "--ids", "doc", "--confidence", confidence
        )
        assert (done.code, done.err) == (0, "")
        found = parquet.read_table(folder / output)
        assert found.schema.names == ["doc", "vector", "n"]
        assert found["doc"].to_pylist() == doc
        assert isorep.read(confidence).ids.tolist() == doc
    refused = isorep_command("translate", "apply", fitted, folder / "in", folder / "more", "--ids", "absent")
    assert one_sentence(refused, "there is no column 'absent'")
    plain = isorep_command("translate", "apply", fitted, folder / "in.parquet", folder / "plain.parquet", "--drop-ids")
    assert plain.code == 0
    assert "note: left out of in.parquet: 'doc' (text)" in plain.out


@pytest.mark.parametrize("option", ["--drop-ids", "--dask=local"])
def test_options_for_plain_vectors_are_refused_where_there_are_none(isorep_command, folder, fitted, option):
    (folder / "int8.jsonl").write_text('{"v": [1, 2, 3, 4, 5, 6, 7, 8], "scale": 0.1}\n')
    cases = {
        (f"qdrant:{folder / 'q'}::a", f"qdrant:{folder / 'q'}::b"): "leave it out for qdrant:",
        (f"lancedb:{folder / 'q'}::a", f"lancedb:{folder / 'q'}::b"): "leave it out for lancedb:",
        (folder / "a.faiss", folder / "b.faiss"): "leave it out for",
        (folder / "int8.jsonl", folder / "t.jsonl"): "int8 vectors of int8.jsonl are written to a jsonl file",
        (folder / "old.npy", folder / "t.npy", "--scale", "0.1"): "and --scale exclude each other",
    }
    before = sorted(folder.iterdir())
    for arguments, words in cases.items():
        assert one_sentence(isorep_command("translate", "apply", fitted, *arguments, option), words)
    assert sorted(folder.iterdir()) == before


def test_foreign_rows_late_in_a_store_are_found(isorep_command, folder, fitted):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = np.concatenate([np.tile(OLD, (20, 1)), np.tile(4 * OLD, (20, 1))])
    parquet.write_table(pa.table({"vector": list(rows)}), folder / "late.parquet")
    out = folder / "t.parquet"
    done = isorep_command("translate", "apply", fitted, folder / "late.parquet", out, "--strict")
    assert done.code == 1
    assert "late.parquet: the rows do not look like" in done.err
    assert not out.exists()


def test_a_confidence_that_cannot_be_written_leaves_nothing(isorep_command, folder, fitted):
    import dataclasses

    bare = folder / "bare.safetensors"
    dataclasses.replace(isorep.Translator.load(fitted), confidence_model=None).save(bare)
    np.save(folder / "odd.npy", np.array(["", *(f"item {row}" for row in range(1, 600))]))
    np.save(folder / "names.npy", np.array([f"item {row}" for row in range(600)]))
    before = sorted(folder.iterdir())
    out, old = folder / "t.npy", folder / "old.npy"
    cases = [
        ((bare, old, out, "--confidence", folder / "c.npy"), "has no confidence"),
        ((fitted, old, out, "--ids", folder / "odd.npy", "--confidence", folder / "c.csv"), "row 0 has the id ''"),
        ((fitted, old, out, "--confidence", folder / "c"), "cannot write no suffix"),
    ]
    for arguments, words in cases:
        assert one_sentence(isorep_command("translate", "apply", *arguments), words), arguments
        assert sorted(folder.iterdir()) == before
    for suffix in ("npy", "csv"):
        path = folder / f"c.{suffix}"
        done = isorep_command(
            "translate", "apply", fitted, old, out, "--ids", folder / "names.npy", "--confidence", path
        )
        assert (done.code, done.err) == (0, "")
        assert (isorep.read(path).ids is None) == (suffix == "npy")


@pytest.mark.parametrize("suffix", ["npz", "jsonl"])
def test_int8_pairs_are_fitted_and_added_with_their_scale(isorep_command, folder, fitted, suffix):
    scales = np.abs(OLD).max(axis=1) / 127
    integers = np.rint(OLD / scales[:, None]).astype(np.int8)
    path = folder / f"int8.{suffix}"
    if suffix == "npz":
        np.savez(path, values=integers, factor=scales)
    else:
        pairs = zip(integers.tolist(), scales.tolist(), strict=True)
        path.write_text("".join(json.dumps({"v": row, "factor": scale}) + "\n" for row, scale in pairs))
    out = folder / "m8.safetensors"
    given = ("translate", "fit", path, folder / "new.npy", "--scale", "factor", "-o", out, "--quiet")
    for more in ((), ("--add", fitted)):
        done = isorep_command(*given, *more)
        assert (done.code, done.err) == (0, "")
        found = isorep.Translator.load(out).transform(OLD)
        np.testing.assert_allclose(found, isorep.Translator.load(fitted).transform(OLD), atol=0.15)
    assert isorep.Translator.load(out).facts["pairs"] == 1200


def test_a_map_without_pairs_is_written_or_refused(isorep_command, tmp_path):
    x, y = (skewed(4000, seed) @ np.random.default_rng(seed).normal(size=(3, 3)) for seed in (1, 2))
    np.save(tmp_path / "old.npy", x)
    np.save(tmp_path / "new.npy", 30 * y + 7)
    np.save(tmp_path / "gauss.npy", np.random.default_rng(5).normal(size=(3000, 3)))
    out = tmp_path / "map.safetensors"
    given = ("translate", "fit", tmp_path / "old.npy")
    done = isorep_command(
        *given, tmp_path / "new.npy", "--unpaired", "-o", out, "--json", tmp_path / "r.json", "--html",
        tmp_path / "r.html",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert "without pairs, if both hold the same kind of items" in " ".join(done.out.split())
    assert json.loads((tmp_path / "r.json").read_text())["verdict"]["answer"] == "found"
    assert isorep_command("translate", "apply", out, tmp_path / "old.npy", tmp_path / "t.npy").code == 0
    np.testing.assert_allclose(np.load(tmp_path / "t.npy").std(axis=0), 30 * y.std(axis=0), rtol=0.2)
    refused = isorep_command(*given, tmp_path / "gauss.npy", "--unpaired", "-o", tmp_path / "no.safetensors")
    assert refused.code == 1
    assert "no map was written" in " ".join(refused.err.split())
    assert not (tmp_path / "no.safetensors").exists()
    forced = isorep_command(*given, tmp_path / "gauss.npy", "--unpaired", "--force", "-o", tmp_path / "no.safetensors")
    assert forced.code == 0
    assert (tmp_path / "no.safetensors").exists()
    assert one_sentence(
        isorep_command(*given, tmp_path / "new.npy", "--unpaired", "--join", "-o", out), "--join has no effect"
    )
    assert one_sentence(isorep_command(*given, tmp_path / "new.npy", "--force", "-o", out), "to --unpaired")


def skewed(n, seed):
    rng = np.random.default_rng(seed)
    return np.stack([rng.exponential(size=n), rng.gamma(4, size=n), rng.random(n) ** 2], axis=1)
