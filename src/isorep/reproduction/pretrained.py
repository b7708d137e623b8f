"""Pairs of trained models (Table 1 of Nelson et al. 2026): up to which group are two trainings the same?

Pairs are trained here, or named by the user in a TOML file: model folders, code with weights, or ready representations.

The rungs of Table 1 for one pair: in sample as published, and held out with intervals and chance.

The units of work: the trainings of each kind, then each pair of them, and each pair that the user names.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison import compare
from ..errors import InputError
from ..representation import Array, Representation
from .experiment import Experiment, Outcome, Plan, Run, Unit
from .layers_networks import parsed
from .outcomes import all_pairs, threads
from .pretrained_named import Named, layers_of, named_pairs
from .pretrained_settings import KINDS, PAPER, SCALES, Preset, image_files
from .pretrained_training import SUBJECTS, rows_of

RUNGS = ("signed_permutation", "rigid", "linear", "ica")
_BLOCK = 2**14


def measure(source: Any, target: Any, groups: Array | None, preset: Preset, seed: int) -> dict[str, Any]:
    """Both directions, errors in diameters of the target."""
    with warnings.catch_warnings():  # on few rows and on ICA: both are among the caveats
        warnings.simplefilter("ignore")
        found = compare(
            source,
            target,
            rungs=RUNGS,
            groups=groups,
            n_null=preset.n_null,
            n_boot=preset.n_boot,
            worst_case=False,
            random_state=seed,
        )
    return {
        "rows": found.settings["rows_used"],
        "groups": found.settings["groups"],
        "columns": [found.source.columns, found.target.columns],
        "ranks": [found.source.rank, found.target.rank],
        "ways": [_way(each) for each in (found.forward, found.reverse)],
        "caveats": list(found.caveats),
    }


def fewer_rows(
    source: Representation, target: Representation, groups: Array | None, most: int, seed: int
) -> tuple[Representation, Representation, Array | None]:
    """At most so many rows of both, drawn at random, in their order."""
    count = len(source)
    if count <= most or len(target) != count:  # unequal lengths are for the comparison to refuse
        return source, target, groups
    chosen = np.sort(np.random.default_rng([seed, 61]).permutation(count)[:most])
    taken = [
        Representation(_taken(each.values, chosen), None if each.ids is None else each.ids[chosen], each.name)
        for each in (source, target)
    ]
    if groups is not None and len(groups) == count:
        groups = np.asarray(groups)[chosen]
    return taken[0], taken[1], groups


def _taken(values: Any, chosen: Array) -> Array:
    """Some rows of an array, or of what gives slices of one."""
    if isinstance(values, np.ndarray):
        return np.asarray(values[chosen])
    parts = []
    for start in range(0, int(chosen[-1]) + 1, _BLOCK):
        inside = chosen[(chosen >= start) & (chosen < start + _BLOCK)]
        if len(inside):
            parts.append(np.asarray(values[start : start + _BLOCK])[inside - start])
    return np.concatenate(parts)


def _way(direction: Any) -> dict[str, Any]:
    return {
        "rungs": {
            name: {
                "in_sample": rung.in_sample.mean,
                "held_out": rung.held_out.mean,
                "interval": _ends(rung.interval),
                "excess": _ends(rung.over_linear),
                "chance": None if rung.null is None else rung.null.mean,
                "below_null": rung.below_null,
            }
            for name, rung in ((name, each.in_diameters) for name, each in direction.rungs.items())
        },
        "baseline": direction.baseline,
        "efficiency": direction.ica_efficiency,
        "efficiency_in_sample": direction.ica_efficiency_in_sample,
        "verdict": direction.verdict.rung,
    }


def _ends(interval: Any) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


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


__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="pretrained",
    title="Pairs of trained models: the same up to a linear map, a rigid map, or ICA alone",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    packages=("torch", "transformers"),
)
