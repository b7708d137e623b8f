"""The units of work: the trainings of each kind, then each pair of them, and each pair that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import InputError
from ..experiment import Outcome, Plan, Run, Unit
from ..layers.presets import parsed
from ..pairs import all_pairs
from ..threads import threads
from .extracting import layers_of
from .material import image_files
from .measuring import fewer_rows, measure
from .named import Named, named_pairs
from .presets import KINDS, Preset
from .tasks import SUBJECTS
from .training import rows_of


def plan(preset: Preset, data: Path | None) -> Plan:
    """The user's pairs first, as their mistakes are told at once; then, kind by kind, trainings and pairs."""
    units: list[Unit] = []
    files: list[Path] = []
    if preset.pairs:
        for pair in named_pairs(preset.pairs):
            units.append(Unit(f"named-{pair.name}-{pair.digest}", f"pair {pair.name}", {"named": pair}))
    skipped = ""
    if preset.both or not preset.pairs:
        parsed(preset.gpt)
        for kind in preset.kinds:
            units.append(Unit(f"train-{kind}", f"{KINDS[kind]}, {preset.seeds} trainings", {"train": kind}))
            units += [
                Unit(
                    f"pair-{kind}-{a}.{b}",
                    f"{KINDS[kind]}, trainings {a + 1} and {b + 1}",
                    {"kind": kind, "pair": [a, b]},
                )
                for a, b in all_pairs(preset.seeds)
            ]
        if set(preset.kinds) - {"gpt"}:
            found, skipped = image_files(preset, data)
            files += found
    return Plan(tuple(units), tuple(files), (skipped,) if skipped else ())


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train, or compare."""
    named = unit.arguments.get("named")
    if named is not None and not named.models:  # nothing here needs torch
        return _named(named, run)
    with threads(run.preset.threads):
        if named is not None:
            return _named(named, run)
        if "train" in unit.arguments:
            return rows_of(unit.arguments["train"], run).facts
        return _pair(unit.arguments["kind"], unit.arguments["pair"], run)


def _pair(kind: str, places: list[int], run: Run) -> Outcome:
    preset: Preset = run.preset
    rows = rows_of(kind, run)
    a, b = places
    found: dict[str, Any] = {"kind": kind, "pair": places, "subjects": {}}
    for subject in SUBJECTS[kind]:
        given = rows.trained[subject]
        entry: dict[str, Any] = {"trained": measure(given[a], given[b], rows.groups, preset, run.seed)}
        if preset.control:
            before = rows.untrained[subject]
            entry["untrained"] = measure(before[a], before[b], rows.groups, preset, run.seed)
        found["subjects"][subject] = entry
    return found


def _named(pair: Named, run: Run) -> Outcome:
    preset: Preset = run.preset
    found: dict[str, Any] = {"name": pair.name, "published": pair.published, "models": pair.models, "layers": []}
    try:
        for trained in (True, False) if preset.control else (True,):
            for place, (label, source, target, groups) in enumerate(layers_of(pair, run, trained=trained)):
                given = fewer_rows(source, target, groups, preset.rows, run.seed)
                measured = measure(*given, preset, run.seed)
                if trained:
                    found["layers"].append({"layer": label, "trained": measured})
                else:
                    found["layers"][place]["untrained"] = measured
    except InputError as error:
        raise InputError(f"pair {pair.name!r}: {error}") from error
    return found
