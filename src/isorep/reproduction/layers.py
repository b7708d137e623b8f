"""Layers of language models (section 5.3 of Roeder et al. 2021): is the last layer the most similar across trainings?

Small GPTs trained here on the prose of Python's library, or real model folders; layer by layer, up to which group.

What is measured of two networks, layer by layer from the end: SVCCA, and the ladder held out by document.

The units of work: one network each, then one pair each.
"""

from __future__ import annotations

import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison import compare
from ..comparison.fits import checked_rungs
from ..errors import InputError
from ..models.corpus import parsed
from ..representation import Array
from ..similarity import svcca
from .experiment import Experiment, Outcome, Plan, Run, Unit
from .layers_networks import (
    PAPER,
    SCALES,
    Network,
    Preset,
    States,
    constants,
    corpus_of,
    folder_model,
    label,
    measured_windows,
    small_gpt,
)
from .outcomes import threads

CONTROL_RUNGS = ("rigid", "linear")


def places_of(preset: Preset, counts: tuple[int, int]) -> list[int]:
    """Layers to compare, from the end: as many as both have, and an embedding only with an embedding."""
    most = min(counts) if counts[0] == counts[1] else min(counts) - 1
    return [place for place in (preset.places or range(most + 1)) if 0 <= place <= most]


def compare_layers(
    first: States, second: States, groups: Array, preset: Preset, seed: int, *, control: bool
) -> list[dict[str, Any]]:
    """One entry a layer; a control has the rungs that it is read for."""
    counts = (first.layers, second.layers)
    rungs = tuple(rung for rung in preset.rungs if not control or rung in CONTROL_RUNGS)
    found = []
    for place in places_of(preset, counts):
        x, y = first.at[place], second.at[place]
        found.append(
            {
                "place": place,
                "labels": [label(place, count) for count in counts],
                "svcca": {str(count): _svcca(x, y, count, groups, preset, seed) for count in preset.components},
                "ladder": _ladder(x, y, groups, rungs, preset, seed),
            }
        )
    return found


def _svcca(x: Array, y: Array, components: int, groups: Array, preset: Preset, seed: int) -> dict[str, Any]:
    """As Roeder et al. compute it, every column at unit variance."""
    found = svcca(
        x, y, components=components, standardise=True, permutations=preset.n_null, groups=groups, random_state=seed
    )
    return {"value": found.value, "chance": None if found.null is None else found.null.mean}


def _ladder(
    x: Array, y: Array, groups: Array, rungs: tuple[str, ...], preset: Preset, seed: int
) -> dict[str, dict[str, Any]]:
    """Held-out errors of each rung, in diameters of the target: the mean of both directions."""
    if not rungs:
        return {}
    with warnings.catch_warnings():  # on how well ICA converged and how many rows there are: it is the same everywhere
        warnings.simplefilter("ignore")
        found = compare(
            x,
            y,
            rungs=rungs,
            groups=groups,
            n_null=preset.n_null,
            n_boot=preset.n_boot,
            diameter="auto",
            worst_case=False,
            random_state=seed,
        )
    entries = {}
    for rung in rungs:
        ways = [found.rungs[rung].in_diameters, found.reverse.rungs[rung].in_diameters]
        entries[rung] = {
            "error": float(np.mean([each.held_out.mean for each in ways])),
            "ways": [each.held_out.mean for each in ways],
            "interval": [None if each.interval is None else [each.interval.low, each.interval.high] for each in ways],
            "chance": None if ways[0].null is None else float(np.mean([each.null.mean for each in ways if each.null])),
            "below_null": [each.below_null for each in ways],
        }
    return entries


FOLDERS = "model folders"


def plan(preset: Preset, data: Path | None) -> Plan:
    """Every network, then all pairs of one size, then those of two sizes seed by seed; or all pairs of folders."""
    checked_rungs(preset.rungs)
    if preset.models:
        return _folders(preset)
    for size in preset.sizes:
        if parsed(size)[0] % preset.heads:
            raise InputError(f"the width of {size} does not divide into {preset.heads} heads")
    if len(set(preset.sizes)) < len(preset.sizes) or not preset.sizes or preset.seeds < 2:
        raise InputError("there must be sizes, each only once, and at least 2 seeds of each")
    units = [
        Unit(f"model-{size}-{place}", f"GPT {size}, training {place + 1}", {"size": size, "place": place})
        for size in preset.sizes
        for place in range(preset.seeds)
    ]
    for size in preset.sizes:
        for a, b in combinations(range(preset.seeds), 2):
            units.append(_pair((size, a), (size, b), size))
    for small, large in combinations(preset.sizes, 2):
        for place in range(preset.seeds):
            # Not of the same seed: those begin with some of the same draws.
            other = (place + 1) % preset.seeds
            units.append(_pair((small, place), (large, other), f"{small} with {large}"))
    return Plan(tuple(units))


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train and describe a network, or compare two."""
    with threads(run.preset.threads):
        return _compared(unit, run) if "pair" in unit.arguments else _described(unit, run)


def _described(unit: Unit, run: Run) -> Outcome:
    preset: Preset = run.preset
    wanted = unit.arguments
    network, facts = _network(wanted, run, trained=True)
    found: dict[str, Any] = {**wanted, **facts, "constants": _constants(network, run), "initial_constants": None}
    if preset.control:
        found["initial_constants"] = _constants(_network(wanted, run, trained=False)[0], run)
    if not preset.models:
        corpus = corpus_of(preset, run.seed)
        found |= {
            "unigram": corpus.unigram,
            "text": {"digest": corpus.digest, "characters": corpus.characters, "tokens": int(corpus.train.size)},
        }
    return found


def _compared(unit: Unit, run: Run) -> Outcome:
    preset: Preset = run.preset
    wanted = unit.arguments
    windows = measured_windows(preset, run.seed)
    found: dict[str, Any] = {**wanted, "rows": int(windows.tokens.size), "documents": len(np.unique(windows.documents))}
    for key, trained in (("layers", True), ("initial", False)):
        if not trained and not preset.control:
            continue
        sides = (_network(each, run, trained=trained)[0] for each in wanted["pair"])
        first, second = (side.states(windows.tokens, preset.places) for side in sides)
        found[key] = compare_layers(first, second, windows.groups, preset, run.seed, control=not trained)
    return found


def _constants(network: Network, run: Run) -> list[dict[str, float]] | None:
    """At the last tokens of windows that are spread over the held-out text."""
    count = run.preset.jacobians
    if not count:
        return None
    tokens = measured_windows(run.preset, run.seed).tokens
    rows = np.unique(np.linspace(0, len(tokens) - 1, min(count, len(tokens))).astype(int))
    return constants(network.jacobians(tokens[rows]))


def _network(wanted: Any, run: Run, *, trained: bool) -> tuple[Network, dict[str, Any]]:
    if "folder" in wanted:
        return folder_model(wanted["folder"], run, trained=trained)
    return small_gpt(wanted["size"], wanted["place"], run, trained=trained)


def _pair(first: tuple[str, int], second: tuple[str, int], group: str) -> Unit:
    key = ".".join(f"{size}-{place}" for size, place in (first, second))
    words = " and ".join(f"{size}, training {place + 1}" for size, place in (first, second))
    sides = [{"size": size, "place": place} for size, place in (first, second)]
    return Unit(f"pair-{key}", f"GPT {words}", {"pair": sides, "group": group})


def _folders(preset: Preset) -> Plan:
    folders = list(preset.models)
    if len(folders) < 2 or len(set(folders)) < len(folders):
        raise InputError("models are at least two folders, each only once, between commas")
    missing = [folder for folder in folders if not Path(folder).expanduser().is_dir()]
    if missing:
        raise InputError(f"{missing[0]} is not a folder: models are folders of the transformers library")
    sides = [{"folder": folder, "size": f"{place + 1}: {Path(folder).name}"} for place, folder in enumerate(folders)]
    units = [Unit(f"model-{place}", f"model {side['size']}", side) for place, side in enumerate(sides)]
    for a, b in combinations(range(len(sides)), 2):
        words = f"models {sides[a]['size']} and {sides[b]['size']}"
        units.append(Unit(f"pair-{a}.{b}", words, {"pair": [sides[a], sides[b]], "group": FOLDERS}))
    return Plan(tuple(units))


__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="layers",
    title="Layers of language models: the last is identified, earlier ones need not be",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    packages=("torch", "transformers"),
)
