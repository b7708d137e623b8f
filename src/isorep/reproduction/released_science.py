"""Atoms and DNA as rows of released pairs: ANI-1x, CHGNet and SpliceAI."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..models.released import Released
from ..representation import Array
from .experiment import Run
from .outcomes import all_pairs, seeds_from
from .released_rows import Compared, first_file, some_rows


def chemistry(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """Last hidden layers of members of ANI-1x for atoms of small molecules, shaken at random, by element."""
    from ..models.ani import load_ani

    build, collections = (import_module(f"ase.{name}") for name in ("build", "collections"))
    surroundings, members = load_ani(first_file(models["ani-1x"].opened(folder), "*.params").parent)
    known = set(surroundings.elements)
    drawn = [build.molecule(name) for name in collections.g2.names]
    fitting = [each for each in drawn if set(each.get_chemical_symbols()) <= known and len(each) > 2]
    rng = np.random.default_rng([run.seed, 83])
    rows: dict[str, list[Array]] = {element: [] for element in run.preset.elements}
    groups: dict[str, list[int]] = {element: [] for element in run.preset.elements}
    for number, atoms in enumerate(fitting[: run.preset.molecules]):
        symbols = atoms.get_chemical_symbols()
        for _ in range(run.preset.copies):
            moved = atoms.positions + SHAKEN * rng.standard_normal(atoms.positions.shape)
            seen = surroundings(symbols, moved)
            for element, found in rows.items():
                chosen = [place for place, symbol in enumerate(symbols) if symbol == element]
                found += list(seen[chosen])
                groups[element] += [number] * len(chosen)
        run.progress("molecules", number + 1, min(len(fitting), run.preset.molecules))
    for element, found in rows.items():
        if len(found) < 2:
            raise InputError(f"no molecule has {element}: the networks know {', '.join(surroundings.elements)}")
        picked = some_rows(len(found), run)
        atoms, owners = np.stack(found)[picked], np.array(groups[element])[picked]
        trained = [each[element].represent(atoms) for each in members[: run.preset.members]]
        untrained = [members[0][element].untrained(rng).represent(atoms) for _ in trained]
        for one, other in all_pairs(len(trained)):
            control = (untrained[one], untrained[other]) if run.preset.control else None
            yield Compared(f"{element} atoms", (trained[one], trained[other]), (one, other), control, owners)


SHAKEN = 0.08
"""Ångström that atoms are moved by, as a standard deviation in each direction."""


def splicing(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """What the head of SpliceAI reads, at positions of DNA with planted exons."""
    from ..models import SpliceAI, encode_dna, load_spliceai
    from ..models.batched import seeded
    from ..models.evaluation import torch

    preset = run.preset
    networks = load_spliceai(first_file(models["spliceai"].opened(folder), "*1.h5").parent)[: preset.members]
    seeds = seeds_from(run.seed, 89, count=len(networks))
    random = [seeded(lambda _: _like(networks[0], SpliceAI), seed).eval() for seed in seeds] if preset.control else []
    rng = np.random.default_rng([run.seed, 97])
    states: list[list[Array]] = [[] for _ in (*networks, *random)]
    groups: list[int] = []
    for number in range(preset.sequences):
        dna = encode_dna(draw_dna(rng, 2 * networks[0].crop + POSITIONS))
        picked = np.sort(rng.choice(POSITIONS, min(preset.rows // preset.sequences, POSITIONS), replace=False))
        with torch.inference_mode():
            for place, network in enumerate((*networks, *random)):
                states[place].append(network.represent(dna)[0].T[picked].double().numpy())
        groups += [number] * len(picked)
        run.progress("sequences", number + 1, preset.sequences)
    joined = [np.concatenate(each) for each in states]
    for one, other in all_pairs(len(networks)):
        control = (joined[len(networks) + one], joined[len(networks) + other]) if random else None
        yield Compared("positions", (joined[one], joined[other]), (one, other), control, np.array(groups))


POSITIONS = 2500  # of a sequence that are represented


def _like(network: Any, kind: Any) -> Any:
    """An untrained network of the same sizes."""
    first = [stage[0].inner[2] for stage in network.stages]
    return kind(
        channels=network.stem.out_channels,
        widths=[each.kernel_size[0] for each in first],
        dilations=[each.dilation[0] for each in first],
        blocks=len(network.stages[0]),
        crop=network.crop,
    )


def draw_dna(rng: np.random.Generator, length: int) -> str:
    """Introns and exons, letters drawn one by one, with the consensus of human splice sites and decoys of donors."""
    intron, exon, tract = (0.29, 0.19, 0.20, 0.32), (0.28, 0.25, 0.28, 0.19), (0, 0.35, 0, 0.65)

    def letters(count: int, shares: tuple[float, ...]) -> str:
        return "".join(rng.choice(list("ACGT"), count, p=shares))

    text = ""
    while len(text) < length:
        text += (
            letters(int(rng.integers(120, 250)), intron) + "CAGGTAAGT" + letters(int(rng.integers(120, 250)), intron)
        )
        text += "TACTAAC" + letters(8, intron) + letters(18, tract) + "TTGCAG"
        text += "G" + letters(int(rng.integers(90, 160)), exon) + "CAG" + "GTAAGT"
    return text[:length]
