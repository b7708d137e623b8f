"""Settings of a preset that a caller changes."""

import json
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

import isorep
from isorep.cli.commands import app
from isorep.reproduction import reproduce
from isorep.reproduction.experiment import overridden


@dataclass(frozen=True)
class Preset:
    count: int = 3
    share: float = 0.5
    names: tuple[str, ...] = ("a",)
    sizes: tuple[int, ...] = (1, 2)
    most: int | None = None
    fast: bool = False
    pairs: tuple[tuple[str, int], ...] = (("a", 1),)


def test_text_is_read_as_the_kind_of_value_that_it_replaces():
    found = overridden(
        Preset(), {"count": "7", "share": "1e-3", "names": "x, y", "sizes": "4", "most": "12", "fast": "True"}
    )
    assert found == Preset(7, 1e-3, ("x", "y"), (4,), 12, True)
    assert overridden(Preset(), {"most": "none", "count": 9}) == Preset(count=9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": "1"}, "no setting 'size'; it has count, share"),
        ({"count": "1.5"}, "count is 3 by default, and '1.5' is not of that kind"),
        ({"sizes": "1,b"}, "sizes is 1 by default, and 'b'"),
        ({"fast": "maybe"}, "fast is False by default"),
        ({"pairs": "a"}, "cannot be given as text"),
    ],
)
def test_what_does_not_fit_is_refused(changes, words):
    with pytest.raises(isorep.InputError, match=words):
        overridden(Preset(), changes)


def test_a_changed_setting_is_part_of_the_config(toy_done, tmp_path):
    reproduce("toy", scale="smoke", out=tmp_path / "run", settings={"units": "2"})
    assert toy_done == ["unit/0", "unit/1"]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["preset"]["units"] == 2
    with pytest.raises(isorep.InputError, match=r"another units \(2, not 5\)"):
        reproduce("toy", scale="smoke", out=tmp_path / "run")


def test_the_command_takes_pairs(toy_done, tmp_path):
    given = ["reproduce", "toy", "--scale", "smoke", "--out", str(tmp_path / "run"), "--quiet"]
    found = CliRunner().invoke(app, [*given, "--set", "units=1", "--set", "pause=0"])
    assert found.exit_code == 0, found.output
    assert toy_done == ["unit/0"]
    found = CliRunner().invoke(app, [*given, "--set", "units"])
    assert isinstance(found.exception, isorep.InputError)
    assert "--set takes KEY=VALUE" in str(found.exception)
