"""``isorep heads``: one head, two heads, paired features, limits, and what is refused."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from ..heads.worlds import equal_models


@pytest.fixture
def folder(tmp_path):
    m = equal_models(n=80)
    source = {"lm_head.weight": m.g, "lm_head.bias": m.b, "other.weight": m.g[:2]}
    save_file({name: values.astype(np.float32) for name, values in source.items()}, tmp_path / "model.safetensors")
    np.save(tmp_path / "other.npy", m.other_g)
    np.save(tmp_path / "other_bias.npy", m.other_b)
    np.savez(tmp_path / "features.npz", values=m.f, document=np.repeat(np.arange(20), 4))
    np.save(tmp_path / "other_features.npy", m.other_f)
    np.save(tmp_path / "counts.npy", np.arange(1, 13))
    np.save(tmp_path / "few.npy", m.g[:4])
    np.save(tmp_path / "sets.npy", np.arange(12).reshape(3, 4))
    return tmp_path


def test_one_head_of_a_checkpoint(isorep_command, folder):
    done = isorep_command("heads", f"{folder / 'model.safetensors'}::lm_head.weight", "--json", folder / "h.json")
    assert (done.code, done.err) == (0, "")
    assert "rank of the centred head           4 of 4" in done.out
    assert "The theorem applies: the 12 distinct classes" in done.out
    found = json.loads((folder / "h.json").read_text())
    assert found["schema"] == "isorep.heads/1"
    assert found["heads"][0]["applies"] is True
    assert found["heads"][0]["dtype"] == "float32"


def test_two_heads_with_features_and_everything(isorep_command, folder):
    done = isorep_command(
        "heads", f"{folder / 'model.safetensors'}::lm_head.weight", folder / "other.npy",
        "--bias", "lm_head.bias", "--other-bias", folder / "other_bias.npy",
        "--features", f"{folder / 'features.npz'}::values", "--other-features", folder / "other_features.npy",
        "--groups", "document", "--weights", folder / "counts.npy",
        "--json", folder / "h.json", "--html", folder / "h.html",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert "The heads predict the map between the features" in done.out
    assert "Close in log-odds" in done.out
    found = json.loads((folder / "h.json").read_text())
    assert found["map"]["agrees"] is True
    assert found["map"]["regression"]["head"]["r2"] > 1 - 1e-6
    assert found["settings"]["groups"] == 20
    assert found["heads"][0]["weighted_rank"] == 4
    assert "plane-head-figure" in (folder / "h.html").read_text()
    again = isorep_command("report", folder / "h.json", "-o", folder / "again.html")
    assert again.code == 0, again.err


def test_limits_decide_the_exit_code(isorep_command, folder):
    kept = isorep_command("heads", folder / "other.npy", "--fail-above", "condition=1000", "--quiet")
    assert (kept.code, kept.out, kept.err) == (0, "", "")
    missed = isorep_command("heads", folder / "few.npy", "--fail-above", "condition=1000")
    assert missed.code == 1
    assert "does not apply" in missed.out
    assert "the condition number of the worse centred head, inf, exceeds the limit 1000" in missed.err
    both = isorep_command(
        "heads", folder / "other.npy", folder / "other.npy", "--features", folder / "other_features.npy",
        "--other-features", f"{folder / 'features.npz'}::values", "--no-intervals",
        "--fail-above", "kl=0.001", "--fail-above", "excess=0.001", "--quiet",
    )  # fmt: skip
    assert both.code == 1
    assert "Kullback-Leibler" in both.err
    assert "above the regression's" in both.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["other.npy", "--fail-above", "kl=1"], "needs two heads and paired features"),
        (["other.npy", "--fail-above", "kl"], "takes QUANTITY=VALUE"),
        (["other.npy", "--fail-above", "nonsense=1"], "takes QUANTITY=VALUE"),
        (["missing.npy"], "does not exist"),
        (["model.safetensors"], "several tensors could be meant"),
        (["other.npy", "few.npy"], "12 classes and few.npy has 4"),
        (["other.npy", "--groups", "counts.npy"], "name two heads"),
        (["other.npy", "--bias", "few.npy"], "where one entry per row is needed"),
        (["other.npy", "--features", "counts.npy"], "holds integers"),
        (["other.npy", "--json", "other.npy"], "is an input"),
        (["other.npy", "--family", "poisson"], "choose from softmax, contrastive, bernoulli, gaussian"),
        (["other.npy", "--sets", "counts.npy"], "set 0 is not a list of whole numbers"),
        (["other.npy", "--sets", "missing.npy"], "is no .npy file"),
        (["other.npy", "--sets", "few.npy"], "set 0 is not a list of whole numbers"),
        (["other.npy", "--sets", "sets.npy", "--family", "gaussian"], "a gaussian head compares none"),
        (["other.npy", "--sets", "sets.npy", "--fail-above", "differences=9"], "sets that are never compared"),
    ],
)
def test_wrong_calls_are_one_sentence(isorep_command, folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    done = isorep_command("heads", *arguments)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_table_of_embeddings_with_their_biases(isorep_command, folder):
    pandas = pytest.importorskip("pandas")
    m = equal_models(n=80)
    frame = pandas.DataFrame(m.g, columns=[f"w{place}" for place in range(4)])
    frame.assign(bias=m.b, count=np.arange(12)).to_parquet(folder / "head.parquet", index=False)
    mixed = isorep_command("heads", folder / "head.parquet", "--bias", "bias")
    assert mixed.code == 2
    assert "was read as a dimension of the embeddings too" in mixed.err
    done = isorep_command(
        "heads", f"{folder / 'head.parquet'}::w", "--bias", "bias", "--weights", "count", "--json", folder / "h.json"
    )
    assert (done.code, done.err) == (0, "")
    found = json.loads((folder / "h.json").read_text())["heads"][0]
    assert (found["classes"]["width"], found["classes"]["used"], found["biased"]) == (4, 11, True)


def test_families_and_sets_from_the_shell(isorep_command, folder):
    few = folder / "few.npy"  # four rows of four columns
    labels = isorep_command(
        "heads", few, "--family", "bernoulli", "--json", folder / "h.json", "--html", folder / "h.html"
    )
    assert (labels.code, labels.err) == (0, "")
    assert "The theorem applies: the 4 distinct labels" in labels.out
    assert json.loads((folder / "h.json").read_text())["heads"][0]["family"] == "bernoulli"
    assert "distinct labels" in (folder / "h.html").read_text()
    assert "does not apply: the 4 distinct classes" in isorep_command("heads", few).out
    missed = isorep_command("heads", few, "--family", "gaussian", "--fail-above", "condition=1")
    assert "the condition number of the worse head," in missed.err
    drawn = isorep_command("heads", folder / "other.npy", "--family", "contrastive", "--sets", folder / "sets.npy")
    assert (drawn.code, drawn.err) == (0, "")
    assert "12 distinct candidates of other.npy, compared within 3 sets," in drawn.out


def test_groups_without_features_are_refused(isorep_command, folder):
    two = isorep_command("heads", folder / "other.npy", folder / "other.npy", "--groups", "document")
    assert (two.code, two.out) == (2, "")
    assert "groups belong to the rows of features" in two.err
    one = isorep_command("heads", folder / "other.npy", "--groups", "document")
    assert "name two heads" in one.err


def test_features_in_another_order_are_joined_by_id(isorep_command, folder):
    m, order = equal_models(n=80, biases=False), np.random.default_rng(1).permutation(75)
    np.savez(folder / "a.npz", values=m.f[5:], ids=np.arange(5, 80))
    np.savez(folder / "b.npz", values=m.other_f[order], ids=order)
    np.save(folder / "g.npy", m.g)
    np.save(folder / "h.npy", m.other_g)
    asked = ["heads", folder / "g.npy", folder / "h.npy", "--features", folder / "a.npz",
             "--other-features", folder / "b.npz", "--no-intervals"]  # fmt: skip
    refused = isorep_command(*asked)
    assert refused.code == 2
    assert "join them by id (--join" in refused.err
    done = isorep_command(*asked, "--join")
    assert (done.code, done.err) == (0, "")
    assert "note: joined by id: 70 common rows, 5 dropped from a.npz and 5 from b.npz" in done.out
