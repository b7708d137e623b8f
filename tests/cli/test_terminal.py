"""The terminal: widths, emphasis, help, what was written, and where to look next."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from isorep._version import ISSUES
from isorep.cli.commands import GROUPS, app

from ..data import noisy_pair

ROOT = Path(__file__).parents[2]
FAST = ("--fast", "--null", "5", "--boot", "0")
COMMANDS = [
    *([name] for group in GROUPS.values() for name in group if name not in ("ica", "translate", "datasets")),
    *(["ica", name] for name in ("fit", "apply", "stability")),
    *(["translate", name] for name in ("fit", "apply")),
    *(["datasets", name] for name in ("list", "download")),
]
BOLD = "\x1b[1m"


@pytest.fixture
def columns() -> int:
    return 80


def test_every_command_is_in_a_group_with_a_summary_that_is_not_cut(isorep_command):
    commands = {each.name for each in app.registered_commands} | {each.name for each in app.registered_groups}
    assert commands == {name for group in GROUPS.values() for name in group}
    out = isorep_command("--help").out
    assert "..." not in out.replace("[ARGS]...", "")
    for title, group in GROUPS.items():
        assert f"\n{title}:\n" in out
        for name, summary in group.items():
            assert len(summary) <= 45
            assert re.search(rf"^  {name} +{re.escape(summary)}$", out, re.MULTILINE)
    assert "--install-completion" in out


@pytest.mark.parametrize("group", ["ica", "translate", "datasets"])
def test_summaries_of_nested_commands_are_not_cut(isorep_command, group):
    out = isorep_command(group, "--help").out
    assert "..." not in out.replace("[ARGS]...", "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_fits_and_says_what_an_option_takes(isorep_command, command):
    done = isorep_command(*command, "--help")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    assert not set("{}<>") & set(done.out.partition("\n\n")[0])
    options = done.out.partition("Options:")[2]
    assert not re.search(r"<\w+|\bTEXT\b|\bINTEGER\b|\bFLOAT\b|\bPATH\b.*PATH", options), options
    assert "by default" not in done.out


def test_help_loads_no_arithmetic():
    code = (
        "import sys; from isorep.cli.commands import app; app(['--help'], standalone_mode=False); "
        "print([name for name in ('numpy', 'scipy', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("columns", [80, 200])
def test_text_fits_the_terminal_and_wide_ones_show_more(isorep_command, files, columns):
    done = isorep_command("compare", files / "a.npy", files / "b.npy", *FAST)
    assert max(map(len, done.out.splitlines())) <= columns
    assert ("in-sample  diameters" in done.out) == (columns == 200)
    assert ("diameters: the held-out error in diameters of b.npy" in done.out) == (columns == 200)


@pytest.mark.parametrize(
    ("terminal", "variable", "bold"), [(True, None, True), (True, "NO_COLOR", False), (False, None, False)]
)
def test_the_verdict_and_its_rung_are_bold_on_a_terminal_alone(
    isorep_command, files, monkeypatch, terminal, variable, bold
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    if variable:
        monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    out = isorep_command("compare", files / "a.npy", files / "b.npy", *FAST).out
    assert (f"{BOLD}verdict: " in out) == (f"{BOLD}> rigid" in out) == bold
    assert ("\x1b" in out) == bold
    assert f"{BOLD}  linear" not in out
    assert "> rigid" in out


def test_a_comparison_without_a_rung_marks_none(isorep_command, tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(200, 3)))
    out = isorep_command("compare", tmp_path / "a.npy", tmp_path / "b.npy", *FAST).out
    assert "are not explained by any rung" in " ".join(out.split())
    assert "> " not in out.replace(" -> ", "")


def test_written_files_are_named_unless_quiet(isorep_command, files):
    arguments = ["compare", files / "a.npy", files / "b.npy", *FAST]
    report, result = files / "r.html", files / "r.json"
    done = isorep_command(*arguments, "--html", report, "--json", result)
    assert done.out.endswith(f"\n\nReport: {report}\nResult: {result}\n")
    assert report.exists()
    assert result.exists()
    assert isorep_command(*arguments, "--json", result).out.endswith(f"\n\nResult: {result}\n")
    assert "Result:" not in isorep_command(*arguments).out
    assert isorep_command(*arguments, "--json", result, "--quiet").out == ""


@pytest.mark.parametrize("command", ["compare", "ica fit", "datasets download"])
def test_a_wrong_option_points_to_the_help_of_its_command(isorep_command, command):
    done = isorep_command(*command.split(), "--no-such-option")
    assert done.code == 2
    assert done.err.rstrip().endswith(f"isorep {command} --help")
    assert done.err.count("\n") == 1


def test_there_is_one_address_for_issues(isorep_command, files, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Issues"] == ISSUES == f"{urls['Source']}/issues"
    monkeypatch.setattr("isorep.compare", broken)
    monkeypatch.delenv("ISOREP_DEBUG", raising=False)
    assert ISSUES in isorep_command("compare", files / "a.npy", files / "b.npy").err
    assert ISSUES in isorep_command("doctor").out


def test_doctor_lists_every_extra_with_its_packages(isorep_command, monkeypatch, tmp_path):
    from isorep.cli import doctor

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tools = ("test", "dev", "docs", "bench")
    wanted = {
        extra: [re.split(r"[\[><=]", each)[0] for each in packages]
        for extra, packages in project["optional-dependencies"].items()
        if extra not in tools
    }
    assert {extra: list(packages) for extra, packages in doctor.EXTRAS.items()} == wanted
    assert set(doctor.CORE) == {re.split(r"[\[><=]", each)[0] for each in project["dependencies"]}
    monkeypatch.setattr(doctor, "_version", lambda package: None if package == "zarr" else "1.0")
    out = isorep_command("doctor", "--json", tmp_path / "d.json").out
    assert re.search(r"io +zarr +not installed: pip install 'isorep\[io\]'", out)
    assert out.count("not installed") == 1
    assert json.loads((tmp_path / "d.json").read_text())["extras"]["io"]["zarr"] is None


def test_files_of_one_name_are_told_apart_by_folder_and_parts_by_name(isorep_command, tmp_path):
    x, y = noisy_pair(200, 4, 0.1)
    for place, values in enumerate((x, y)):
        (tmp_path / f"seed{place}" / "layers").mkdir(parents=True)
        np.save(tmp_path / f"seed{place}" / "layers" / "flat.npy", values)
    np.savez(tmp_path / "both.npz", u=x, v=y)
    by_folder = [tmp_path / f"seed{place}" / "layers" / "flat.npy" for place in range(2)]
    by_part = [f"{tmp_path / 'both.npz'}::{part}" for part in "uv"]
    for command in (("compare", *FAST), ("similarity", "--permutations", 5)):
        out = isorep_command(command[0], *by_folder, *command[1:]).out
        assert "seed0/layers/flat.npy and seed1/layers/flat.npy" in " ".join(out.split())
        out = isorep_command(command[0], *by_part, *command[1:]).out
        assert "both.npz::u and both.npz::v" in " ".join(out.split())
    twice = isorep_command("compare", by_folder[0], by_folder[0], *FAST).out
    assert "flat.npy (source) and flat.npy (target) agree as they are" in " ".join(twice.split())


def test_similarity_joins_by_id(isorep_command, tmp_path):
    x, y = noisy_pair(120, 3, 0.1)
    ids = np.array([f"r{i}" for i in range(120)])
    np.savez(tmp_path / "a.npz", latents=x, ids=ids, plate=np.arange(120) // 4)
    np.savez(tmp_path / "b.npz", latents=y[::-1][:100], ids=ids[::-1][:100])
    np.savez(tmp_path / "c.npz", latents=x[20:], ids=ids[20:], plate=np.arange(20, 120) // 4)
    np.savez(tmp_path / "d.npz", latents=y[20:], ids=ids[20:])
    pair = ["similarity", tmp_path / "a.npz", tmp_path / "b.npz", "--permutations", "20", "--groups", "plate"]
    refused = isorep_command(*pair)
    assert refused.code == 2
    assert "--join" in refused.err
    done = isorep_command(*pair, "--join", "--json", tmp_path / "joined.json")
    assert "note: joined by id: 100 common rows, 20 dropped from a.npz and 0 from b.npz" in " ".join(done.out.split())
    plain = isorep_command(
        "similarity", tmp_path / "c.npz", tmp_path / "d.npz", *pair[3:], "--json", tmp_path / "p.json"
    )
    assert "joined" not in plain.out
    joined, common = (json.loads((tmp_path / name).read_text())["indices"] for name in ("joined.json", "p.json"))
    for name, index in common.items():
        assert joined[name]["value"] == pytest.approx(index["value"], abs=1e-9)
        assert joined[name]["null"]["mean"] == pytest.approx(index["null"]["mean"], abs=1e-9)
    layers = isorep_command(*pair, "--join", "--layers", "latents")
    assert layers.code == 0, layers.err
    assert "joined by id: 100 common rows" in " ".join(layers.out.split())


def test_terminal_and_json_have_the_same_chance(isorep_command, files):
    done = isorep_command(
        "similarity", files / "a.npy", files / "b.npy", "--permutations", 30, "--json", files / "s.json"
    )
    written = json.loads((files / "s.json").read_text())["indices"]
    for name, index in written.items():
        line = next(line for line in done.out.splitlines() if line.startswith(f"{name} "))
        numbers = [float(word) for word in re.findall(r"-?\d+\.\d+", line)]
        null = index["null"]
        assert numbers[:4] == pytest.approx([index["value"], null["mean"], *null["range_95"]], abs=5.1e-5)
        assert ("↑" in line) == index["higher_is_closer"]
        assert "-0.0000" not in line
        assert null["range_95"][0] <= null["low"]
        assert null["range_95"][1] >= null["high"] or len(set(null["range_95"])) == 1 or null["n"] < 40


def test_a_checkpoint_is_read_by_the_name_of_a_dict_or_of_a_tensor(isorep_command, tmp_path):
    torch = pytest.importorskip("torch")
    x, y = (torch.tensor(each) for each in noisy_pair(200, 4, 0.1))
    one = {"epoch": 3, "model": {"state_dict": {"enc.weight": x, "enc.bias": x[:, 0]}}, "optimizer": {"state": {0: y}}}
    torch.save(one, tmp_path / "one.pt")
    torch.save({"enc.weight": y}, tmp_path / "two.pt")
    for named in ("::model", "::model.state_dict", "::model::state_dict::enc.weight", "::model.state_dict.enc.weight"):
        done = isorep_command("compare", f"{tmp_path / 'one.pt'}{named}", tmp_path / "two.pt", *FAST)
        said = " ".join(done.out.split())
        assert done.code == 0, done.err
        assert "one.pt and two.pt agree up to a rigid motion" in said
        assert ("note: took tensor 'model.state_dict.enc.weight' of one.pt" in said) == (not named.endswith("weight"))
        assert "note: took tensor 'enc.weight' of two.pt" in said
    unnamed = isorep_command("compare", tmp_path / "one.pt", tmp_path / "two.pt", *FAST)
    assert unnamed.code == 2
    assert "several tensors could be meant" in unnamed.err
    missing = isorep_command("compare", f"{tmp_path / 'one.pt'}::decoder", tmp_path / "two.pt", *FAST)
    assert missing.code == 2
    assert "there is no tensor 'decoder'" in missing.err


@pytest.mark.parametrize(("noise", "word"), [(0.2, "agree"), (2.0, "are partly related,")])
def test_runs_are_not_said_to_agree_with_a_fifth_of_the_variance_unexplained(isorep_command, tmp_path, noise, word):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 3))
    files = []
    for place in range(3):
        np.save(tmp_path / f"{place}.npy", x + noise / 3 * rng.normal(size=x.shape))
        files.append(tmp_path / f"{place}.npy")
    for count in (2, 3):
        done = isorep_command(
            "compare", *files[:count], *(FAST if count == 2 else FAST[:3]), "--json", tmp_path / "r.json"
        )
        said = " ".join(done.out.partition("\n\n")[0].split())
        written = json.loads((tmp_path / "r.json").read_text())
        rungs = (written["forward"] if count == 2 else written)["rungs"]
        rung = rungs[written["verdict"]["rung"]]
        assert f" {word} " in said
        assert (rung["explained"] >= 0.8) == (word == "agree")
        assert f"R² {rung['explained']:.3f}" in said
