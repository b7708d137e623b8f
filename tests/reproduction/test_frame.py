"""The frame of experiments: what is kept, what is resumed, what is refused, what is written."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import isorep
from isorep.reproduction import EXPERIMENTS, experiment_named, reproduce, runner
from isorep.reproduction.experiment import Row, Table
from isorep.reproduction.runner import file_name, table_text

from ..waiting import until
from . import toy

KEYS = [f"unit/{place}" for place in range(5)]

SLOW = """
from isorep.reproduction import reproduce, runner
from tests.reproduction import toy
runner.experiment_named = lambda name: toy.TOY
import sys, time
toy.pause = lambda seconds: len(toy.DONE) < 3 or time.sleep(1000)
reproduce("toy", scale="paper", out=sys.argv[1])
"""


def metrics(folder):
    """What was found, without how long it took."""
    found = json.loads((folder / "metrics.json").read_text())
    del found["seconds"], found["page"]  # which shows the run time
    return found


def test_a_run_leaves_config_units_metrics_table_and_figures(toy_done, tmp_path):
    result = reproduce("toy", scale="smoke", out=tmp_path / "run", random_state=2)
    assert toy_done == KEYS
    folder = tmp_path / "run"
    assert result.folder == folder
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    units = {f"units/unit-{place}.json" for place in range(5)}
    assert names == units | {"config.json", "metrics.json", "table.txt", "figures/rows.svg", "figures/lines.svg"}
    config = json.loads((folder / "config.json").read_text())
    assert (config["experiment"], config["scale"], config["seed"]) == ("toy", "smoke", 2)
    assert config["preset"] == {"units": 5, "pause": 0.0}
    found = metrics(folder)
    assert found["schema"] == "isorep.reproduction/1"
    assert found["units"]["unit/1"] == {"value": pytest.approx(10 / 3), "missing": None}
    assert found["versions"]["no-such-package"] == "not installed"
    text = (folder / "table.txt").read_text()
    assert text.startswith("verdict: ")
    for words in ("published in Table 1", "2.333 ± 0.500", "seed 2", "numpy", "Somebody, somewhere"):
        assert words in text


def test_counts_are_whole_and_small_numbers_keep_three_digits():
    rows = (
        Row("a", (3.0, 0.00012345, 0.5), (None, 0.00001, None), (9.0, None, None)),
        Row("b", (12.0, 0.8, 1.0), (None, 0.0, 0.25)),
    )
    text = table_text(Table("t", "Numbers", ("pairs", "error", "share"), rows, "lower is closer", "Table 1"), 100)
    first, second = (line.split() for line in text.splitlines()[-2:])
    assert first == ["a", "3", "0.000123", "±", "0.0000100", "0.500", "|", "9", "–", "–"]
    assert second == ["b", "12", "0.800", "±", "0", "1.000", "±", "0.250", "|"]


def test_figures_are_svg_files_that_need_nothing_else(toy_done, tmp_path):
    reproduce("toy", scale="smoke", out=tmp_path)
    for name in ("rows", "lines"):
        text = (tmp_path / "figures" / f"{name}.svg").read_text()
        root = ElementTree.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "a &amp; b" in (tmp_path / "figures" / "rows.svg").read_text()


def test_an_interrupted_run_goes_on_and_ends_with_the_same_metrics(toy_done, tmp_path, monkeypatch):
    reproduce("toy", scale="smoke", out=tmp_path / "whole")

    def stopped(unit, settings):
        if unit.key == KEYS[3]:
            raise KeyboardInterrupt
        return toy.run(unit, settings)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "experiment_named", lambda name: replace(toy.TOY, run=stopped))
        with pytest.raises(KeyboardInterrupt):
            reproduce("toy", scale="smoke", out=tmp_path / "parts")
    assert len(list((tmp_path / "parts" / "units").iterdir())) == 3
    assert not (tmp_path / "parts" / "metrics.json").exists()
    toy_done.clear()
    told = []
    result = reproduce("toy", scale="smoke", out=tmp_path / "parts", started=lambda *told_: told.append(told_))
    assert toy_done == KEYS[3:]
    assert told == [(tmp_path / "parts", 3, 5)]
    assert result.timing.resumed == 3
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")


def test_a_killed_process_loses_only_the_unit_it_was_in(toy_done, tmp_path):
    folder = tmp_path / "run"
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", SLOW, str(folder)], cwd=root) as process:
        until(lambda: len(list(folder.glob("units/*.json"))) == 3, process)
        process.send_signal(signal.SIGKILL)
    kept = sorted(path.name for path in (folder / "units").glob("unit*.json"))
    assert len(kept) == 3
    stamps = {name: (folder / "units" / name).stat().st_mtime_ns for name in kept}
    reproduce("toy", scale="paper", out=folder)
    assert toy_done == KEYS[len(kept) :]
    assert stamps == {name: (folder / "units" / name).stat().st_mtime_ns for name in kept}
    reproduce("toy", scale="paper", out=tmp_path / "whole")
    assert metrics(folder) == metrics(tmp_path / "whole")


def test_another_config_in_the_same_folder_is_refused(toy_done, tmp_path):
    reproduce("toy", scale="smoke", out=tmp_path)
    toy_done.clear()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(isorep.InputError, match=r"another scale \(smoke, not laptop\): name another folder"):
        reproduce("toy", scale="laptop", out=tmp_path)
    with pytest.raises(isorep.InputError, match=r"another seed \(0, not 7\)"):
        reproduce("toy", scale="smoke", out=tmp_path, random_state=7)
    assert toy_done == []
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.*")}


def test_a_folder_with_anything_else_in_it_is_refused(toy_done, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(isorep.InputError, match="is not empty and holds no run"):
        reproduce("toy", scale="smoke", out=tmp_path)
    with pytest.raises(isorep.InputError, match="is a file"):
        reproduce("toy", scale="smoke", out=tmp_path / "notes.txt")
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(isorep.InputError, match="is not the config of a run"):
        reproduce("toy", scale="smoke", out=tmp_path)


def test_a_run_that_was_killed_before_its_config_was_there_begins_anew(toy_done, tmp_path):
    (tmp_path / ".config.json-isorep-abc.json").write_text("{")
    reproduce("toy", scale="smoke", out=tmp_path)
    assert toy_done == KEYS


def test_state_that_a_killed_run_left_of_a_finished_unit_is_removed(toy_done, tmp_path):
    reproduce("toy", scale="smoke", out=tmp_path)
    state = tmp_path / "state" / "unit-1"
    state.mkdir(parents=True)
    (state / "training.safetensors").touch()
    reproduce("toy", scale="smoke", out=tmp_path)
    assert not (tmp_path / "state").exists()
    assert toy_done == KEYS


def test_two_runs_in_one_folder_do_not_mix(toy_done, tmp_path):
    def again(place, finished, units):
        reproduce("toy", scale="smoke", out=place)

    with pytest.raises(isorep.InputError, match="another run is at work in"):
        reproduce("toy", scale="smoke", out=tmp_path, started=again)
    assert toy_done == []
    reproduce("toy", scale="smoke", out=tmp_path)
    assert toy_done == KEYS


def test_a_damaged_unit_is_done_again(toy_done, tmp_path):
    reproduce("toy", scale="smoke", out=tmp_path)
    before = metrics(tmp_path)
    (tmp_path / "units" / "unit-2.json").write_text('{"key": "uni')
    (tmp_path / "units" / "unit-4.json").write_text('{"key": "another"}')
    toy_done.clear()
    reproduce("toy", scale="smoke", out=tmp_path)
    assert toy_done == ["unit/2", "unit/4"]
    assert metrics(tmp_path) == before


@pytest.mark.parametrize("text", ["[" * 10**5, '{"key": "unit/2"}', '{"key": "unit/2", "outcome": {}, "seconds": "x"}'])
def test_a_unit_of_another_shape_is_done_again(toy_done, tmp_path, text):
    reproduce("toy", scale="smoke", out=tmp_path)
    (tmp_path / "units" / "unit-2.json").write_text(text)
    toy_done.clear()
    reproduce("toy", scale="smoke", out=tmp_path)
    assert toy_done == ["unit/2"]


def test_units_that_cannot_be_summarised_are_called_damaged(toy_done, tmp_path):
    reproduce("toy", scale="smoke", out=tmp_path)
    (tmp_path / "units" / "unit-2.json").write_text('{"key": "unit/2", "outcome": {}, "seconds": 1.5}')
    with pytest.raises(isorep.InputError, match="holds damaged units"):
        reproduce("toy", scale="smoke", out=tmp_path)
    (tmp_path / "config.json").write_text("[" * 10**5)
    with pytest.raises(isorep.InputError, match="is not the config of a run"):
        reproduce("toy", scale="smoke", out=tmp_path)


@pytest.mark.parametrize("name", ["metrics.json", "units/unit-2.json", "units", "config.json"])
def test_links_in_the_folder_of_a_run_are_not_written_through(toy_done, tmp_path, name):
    reproduce("toy", scale="smoke", out=tmp_path / "run")
    path = tmp_path / "run" / name
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(isorep.InputError, match=f"{name} is a link inside a folder"):
        reproduce("toy", scale="smoke", out=tmp_path / "run")


def test_names_scales_and_seeds_that_do_not_exist_are_refused(toy_done, tmp_path):
    with pytest.raises(isorep.InputError, match="there is no scale 'huge'; there are smoke, laptop, paper"):
        reproduce("toy", scale="huge", out=tmp_path)
    with pytest.raises(isorep.InputError, match="the seed is -1"):
        reproduce("toy", scale="smoke", out=tmp_path, random_state=-1)
    with pytest.raises(isorep.InputError, match=r"there is no experiment 'alchemy'; there are .*deconfounding"):
        experiment_named("alchemy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_experiment_has_three_scales_and_keys_that_make_files(name):
    experiment = experiment_named(name)
    assert list(experiment.scales) == ["smoke", "laptop", "paper"]
    for preset in experiment.scales.values():
        keys = [file_name(unit.key).lower() for unit in experiment.plan(preset, None).units]
        assert len(set(keys)) == len(keys)
        assert keys or name == "released", "which has no units without packages"
