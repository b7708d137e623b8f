"""A small experiment: five units whose outcomes are known, to test the frame with."""

from __future__ import annotations

import time
from dataclasses import dataclass

from isorep.reproduction import Chart, Claim, Experiment, Line, Mark, Plan, Row, Summary, Table, Unit

DONE: list[str] = []
"""Keys of units in the order they were run."""


@dataclass(frozen=True)
class Preset:
    units: int
    pause: float = 0.0


def plan(preset, data):
    return Plan(tuple(Unit(f"unit/{place}", f"unit {place}", {"place": place}) for place in range(preset.units)))


def pause(seconds):
    """What a unit begins with."""
    time.sleep(seconds)


def run(unit, run):
    pause(run.preset.pause)
    DONE.append(unit.key)
    return {"value": 1 / 3 + run.seed + unit.arguments["place"], "missing": float("nan")}


def summarise(preset, outcomes):
    values = tuple(outcome["value"] for outcome in outcomes.values())
    here = Row("obtained here", (values[0], None), (0.5, None), (0.3, None))
    mark = Mark("a & b", values[0], 0.1, 0.9, 0.7, 2)
    return Summary(
        "It adds up. So it does.",
        True,
        (
            Table(
                "sums",
                "Values",
                ("first", "last"),
                (here, Row("only published", (), (), (1, 2))),
                "higher is better",
                "Table 1",
            ),
        ),
        (
            Chart(
                "rows",
                "Rows",
                "Words.",
                ("value", ""),
                marks=(mark,),
                bound="top",
            ),
            Chart("lines", "Lines", "", ("x", "y"), lines=(Line("s", ((0.0, 1.0), (1.0, 2.0)), ("p", "q"), 1),)),
        ),
        (Claim("It adds up", "sum 3", "at least 3", "3", True),),
    )


class Toy(Experiment):
    """An experiment whose summary is not a module of the room."""

    def summarise(self, preset, outcomes):
        return summarise(preset, outcomes)


TOY = Toy(
    "toy",
    "A toy",
    "Somebody, somewhere",
    {"smoke": Preset(5), "laptop": Preset(6), "paper": Preset(5)},
    plan,
    run,
    packages=("numpy", "no-such-package"),
)
