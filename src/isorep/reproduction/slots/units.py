"""The units of work: all seeds of one setting, trained as one program."""

from __future__ import annotations

import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets.slots import slot_generator
from ...errors import InputError
from ..experiment import Outcome, Plan, Run, Unit
from ..threads import threads
from .conditions import CONDITIONS, loss_of, parsed
from .measuring import Examples, ceiling, examples, measure, unmixed
from .presets import Preset

UNIT = ("unit", "regrouped")
LAWS = {"normal": "normal latents", "dependent": "dependent latents", "uniform": "uniform latents"}


def plan(preset: Preset, data: Path | None) -> Plan:
    """The sweep over slots, overlap and λ; additive decoders; other laws; and what goes past the paper."""
    unknown = [law for law in preset.laws if law not in LAWS]
    if unknown or "normal" not in preset.laws:
        raise InputError(f"laws are {', '.join(LAWS)}, and normal is one of them: not {', '.join(preset.laws)}")
    units = []
    for slots in preset.slots:
        for overlap in (*preset.overlaps, *(preset.failing if slots == 2 else ())):
            units.append(_unit(slots, overlap, "normal", "plain", 0.0))
            units += [_unit(slots, overlap, "normal", "contrast", strength) for strength in preset.strengths]
            units += [_unit(slots, overlap, "normal", name, each) for name in UNIT for each in preset.unit_strengths]
            if overlap in preset.additive_overlaps:
                units.append(_unit(slots, overlap, "normal", "additive", 0.0))
    for law in preset.laws:
        for slots in preset.law_slots if law != "normal" else ():
            for overlap in preset.law_overlaps:
                units.append(_unit(slots, overlap, law, "plain", 0.0))
                units += [_unit(slots, overlap, law, "contrast", strength) for strength in preset.law_strengths]
                units += [_unit(slots, overlap, law, name, each) for name in UNIT for each in preset.unit_strengths]
    for slots in preset.beyond_slots:
        for overlap in preset.beyond_overlaps:
            units += [_unit(slots, overlap, "normal", *parsed(text)) for text in preset.beyond]
    return Plan(tuple(units))


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train all seeds of a setting, and measure each."""
    preset: Preset = run.preset
    wanted = unit.arguments
    slots, overlap, name, strength = (wanted[key] for key in ("slots", "overlap", "condition", "strength"))
    generator = slot_generator(slots, preset.dimension, preset.window, overlap, random_state=run.seed)
    given = examples(generator, wanted["law"], preset.rows, preset.test_rows, run.seed)
    count = preset.restart_seeds if name == "restarts" else preset.seeds
    seeds = [int(seed) for seed in np.random.SeedSequence([run.seed, 23]).generate_state(count)]
    with threads(preset.threads):
        trained, exchanges = _trained(name, strength, generator, given, seeds, run)
    runs = [measure(each, generator, given) | {"exchanges": exchanges[each.seed]} for each in trained]
    if name == "plain":
        for found, each in zip(runs, trained, strict=True):
            found |= unmixed(each, generator, given, run.seed)
    return {
        **wanted,
        "share": overlap / preset.window,
        "words": CONDITIONS[name].words,
        "outputs": generator.outputs,
        "truth": asdict(generator.truth),
        "ceiling": ceiling(generator, given),
        "together": trained[0].together,
        "runs": runs,
    }


def _trained(
    name: str, strength: float, generator: Any, given: Examples, seeds: list[int], run: Run
) -> tuple[list[Any], dict[int, int]]:
    """One stage after the other, each from the weights where the one before ended; and how often slots exchanged."""
    from ...models import Group, Recipe, Schedule, SlotAutoencoder, regroup_slots, train_many

    preset: Preset = run.preset
    condition = CONDITIONS[name]
    activation = "smooth" if condition.smooth else "leaky_relu"
    found: list[Any] = []
    exchanges = dict.fromkeys(seeds, 0)

    def build(seed: int) -> Any:
        if found:
            return copy.deepcopy(next(each.module for each in found if each.seed == seed)).train()
        return SlotAutoencoder(
            generator.outputs, generator.dimensions, additive=condition.additive, activation=activation
        )

    for place, (share, factor) in enumerate(condition.stages):
        last = place == len(condition.stages) - 1
        steps = max(round(share * preset.steps), 1)
        done = train_many(
            build,
            given.outputs,
            loss_of(condition.loss, factor * strength, generator.blocks),
            Recipe(
                steps=steps,
                batch=preset.batch,
                groups=Group("adam", preset.learning_rate),
                schedule=Schedule(preset.schedule) if last else Schedule(),
                record_every=max(steps // 20, 1),
            ),
            seeds=seeds,
            batched=True,
            checkpoint=None if run.scratch is None else run.scratch / f"stage-{place}.safetensors",
            progress=run.progress,
        )
        found[:] = done
        for seat, each in enumerate(found if condition.regroup else ()):
            if each.ended != "diverged":
                module, count = regroup_slots(each.module, given.outputs)
                found[seat] = replace(each, module=module.eval())
                exchanges[each.seed] += count
    return found, exchanges


def _unit(slots: int, overlap: int, law: str, condition: str, strength: float) -> Unit:
    label = f"λ = {strength:g}" if strength else CONDITIONS[condition].words
    words = f"{slots} slots, overlap {overlap}, {LAWS[law]}, {label}"
    if CONDITIONS[condition].loss and condition != "contrast":
        words += f", {CONDITIONS[condition].words}"
    key = f"{law}-slots-{slots}-overlap-{overlap}-{condition}" + (f"-{strength:g}" if strength else "")
    arguments = {"slots": slots, "overlap": overlap, "law": law, "condition": condition, "strength": strength}
    return Unit(key, words, arguments)
