"""Atoms and DNA as rows of released pairs: ANI-1x, CHGNet and SpliceAI."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
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


def crystals(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """Atoms of crystals by three releases of CHGNet, each compared with the next; oxides of a metal are a group.

    The element of an atom is given to the network, so that oxygen atoms alone are compared, too.
    """
    from ..models.chgnet import load_chgnet

    home = models["chgnet"].opened(folder)
    networks = {name: load_chgnet(first_file(home, f"{name}/*.pth.tar")) for name in RELEASES}
    seeds = seeds_from(run.seed, 109, count=len(networks))
    sides = {"trained": list(networks.values())}
    if run.preset.control:
        made = zip(sides["trained"], seeds, strict=True)
        sides["untrained"] = [network.untrained(seed) for network, seed in made]
    drawn, metals = draw_crystals(run)
    numbers = np.concatenate([each.numbers for each in drawn])
    groups = np.repeat(metals, [len(each.numbers) for each in drawn])
    states: dict[str, list[Array]] = {}
    for when, both in sides.items():
        for place, network in enumerate(both):
            parts = [network.graph(drawn[start : start + TOGETHER]) for start in range(0, len(drawn), TOGETHER)]
            states.setdefault(when, []).append(np.concatenate([network.represent(each) for each in parts]))
            run.progress(f"crystals, {when}", place + 1, len(both))
    for label, kept in (("all atoms", numbers > 0), ("oxygen atoms", numbers == OXYGEN)):
        chosen = np.flatnonzero(kept)
        if len(chosen) < 2:
            continue
        picked = chosen[some_rows(len(chosen), run)]
        for one, (first, second) in enumerate(pairwise(RELEASES)):
            pairs = {when: (each[one][picked], each[one + 1][picked]) for when, each in states.items()}
            title = f"{first} → {second}, {label}"
            yield Compared(title, pairs["trained"], (one, one + 1), pairs.get("untrained"), groups[picked])


RELEASES = ("0.2.0", "0.3.0", "r2scan")
"""Folders of the releases; r2SCAN went on from the weights of 0.3.0 with another functional."""

METALS = (
    "Li", "Na", "K", "Mg", "Ca", "Sr", "Ba", "Al", "Sc", "Ti", "V", "Cr", "Mn", "Fe", "Co",
    "Ni", "Cu", "Zn", "Ga", "Y", "Zr", "Nb", "Mo", "Ag", "Cd", "In", "Sn", "La", "Pb", "Bi",
)  # fmt: skip
LATTICES = {"rocksalt": 2.0, "zincblende": 4 / 3**0.5, "cesiumchloride": 2 / 3**0.5}
"""Lattice of an oxide -> edge of the cube in distances of neighbours."""

OXYGEN, TOGETHER, STRETCH = 8, 40, 0.05


def draw_crystals(run: Run) -> tuple[list[Any], Array]:
    """Oxides of one metal each in three lattices, stretched and shaken at random, and the number of the metal.

    Neighbours are as far apart as the sum of covalent radii.
    """
    from ..models.chgnet import Crystal

    build, data = (import_module(f"ase.{name}") for name in ("build", "data"))
    rng = np.random.default_rng([run.seed, 113])
    made, metals = [], []
    for number, metal in enumerate(METALS[: run.preset.metals]):
        apart = sum(data.covalent_radii[data.atomic_numbers[each]] for each in (metal, "O"))
        for lattice, edge in LATTICES.items():
            cube = {"cubic": True} if lattice != "cesiumchloride" else {}
            atoms = build.bulk(f"{metal}O", lattice, a=edge * apart, **cube)
            for _ in range(run.preset.lattices):
                stretch = 1 + STRETCH * rng.uniform(-1, 1)
                places = atoms.positions * stretch + SHAKEN * rng.standard_normal(atoms.positions.shape)
                made.append(Crystal(atoms.get_atomic_numbers(), places, np.asarray(atoms.cell) * stretch))
                metals.append(number)
    return made, np.array(metals)


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
