"""The extract command, and the way from two trained models to a report."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import isorep  # noqa: E402

from ..models.extraction.conftest import WORDS, gpt2  # noqa: E402, F401

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "two-checkpoints.md"


def test_two_language_models_are_compared_token_by_token_with_documents_as_groups(isorep_command, gpt2, tmp_path):  # noqa: F811
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(WORDS, size=rng.integers(1, 20))) for _ in range(60)]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    for seed in (0, 1):
        done = isorep_command(
            "extract", gpt2 / f"seed{seed}", tmp_path / "texts.txt", "-l", "1,-1", "--pool", "token",
            "-o", tmp_path / f"seed{seed}", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html",
        )  # fmt: skip
        assert done.code == 0, done.err
        assert "isorep compare A B --groups group" in done.out
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["schema"] == "isorep.extract/1"
    assert [layer["name"] for layer in result["layers"]] == ["hidden_1", "hidden_2"]
    assert "What the rows are like" in (tmp_path / "r.html").read_text()
    a, b = (tmp_path / f"seed{seed}" / "hidden_2.parquet" for seed in (0, 1))
    compared = isorep_command(
        "compare", a, b, "--groups", "group", "--null", "2", "--boot", "0", "--json", tmp_path / "c.json"
    )
    assert compared.code == 0, compared.err
    documents = [int(label.split(":")[0]) for label in isorep.read(a).ids]
    wanted = isorep.compare(isorep.read(a), isorep.read(b), groups=documents, n_null=2, n_boot=0)
    found = json.loads((tmp_path / "c.json").read_text())
    assert found["forward"]["rungs"]["linear"] == json.loads(wanted.to_json())["forward"]["rungs"]["linear"]


def test_layers_are_listed(isorep_command, gpt2):  # noqa: F811
    done = isorep_command("extract", gpt2 / "seed0", "--list-layers")
    assert done.code == 0, done.err
    assert re.search(r"^h\.0 +GPT2Block +4 x 8$", done.out, re.MULTILINE)
    assert re.search(r"^hidden_2 +2 +hidden state +4 x 8$", done.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["model.pkl", "x.npy", "-o", "out"], "is a pickle, and no model is unpickled"),
        (["model.pt", "x.npy", "-o", "out"], "is a pickle, and no model is unpickled"),
        (["w.safetensors", "x.npy", "-o", "out"], "weights without a model"),
        (["someone/model", "x.npy", "-o", "out"], "does not exist: .* nothing is downloaded"),
        (["torch.nn:Flatten", "x.npy"], "--output FOLDER"),
        (["torch.nn:Flatten", "-o", "out"], "name the DATA"),
        (["torch.nn:Flatten", "--list-layers"], "name the data too"),
        (["torch.nn:Flatten", "x.npy", "-o", "out", "--mean", "a"], "--mean takes numbers"),
        (["torch.nn:Flatten", "texts.txt", "-o", "out"], "has no tokenizer"),
        (["torch.nn:functional", "x.npy", "-o", "out"], "not a model"),
        (["torch.nn:Flatten", "x.npy", "-o", "out", "--weights", "model.pkl"], "not a safetensors file"),
        (["torch.nn:Flatten", "x.npy", "-o", "out", "--weights", "model.pt"], "more than tensors"),
    ],
)
def test_wrong_calls_exit_2_with_one_sentence(isorep_command, tmp_path, monkeypatch, arguments, match):
    import pickle

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones((3, 2), np.float32))
    Path("texts.txt").write_text("a\n")
    Path("model.pkl").write_bytes(pickle.dumps(torch.nn.Linear))
    torch.save(torch.nn.Linear(2, 2), "model.pt")
    Path("w.safetensors").write_bytes(b"\0" * 16)
    done = isorep_command("extract", *arguments)
    assert done.code == 2
    assert re.search(match, done.err), done.err
    assert done.err.count("\n") == 1


def test_the_guide_runs_from_training_to_report(isorep_command, tmp_path, monkeypatch):
    """Every block of the guide, in order: Python is executed, commands are called."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    text = GUIDE.read_text().replace("epochs = 200", "epochs = 3")
    spaces: dict = {}
    calls = 0
    for kind, block in re.findall(r"```(python|shell)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            first = block.splitlines()[0]
            if first.startswith("# ") and first.endswith(".py"):
                Path(first[2:]).write_text(block)
            if first != "# nets.py":
                exec(compile(block, "guide", "exec"), spaces)
            continue
        for line in block.strip().splitlines():
            if not line.startswith("isorep"):
                continue
            done = isorep_command(*line.split("#")[0].split()[1:])
            assert done.code == 0, line + done.err
            calls += 1
    sys.modules.pop("nets", None)
    assert calls >= 4
    assert Path("report.html").stat().st_size > 10_000
    assert spaces["result"].rungs["linear"].held_out.mean > 0
