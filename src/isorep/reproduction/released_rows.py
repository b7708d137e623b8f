"""Rows of released pairs: what each model is shown, and the representations that are compared.

Each function gives :class:`Compared` representations one by one: both sides trained, and untrained where the
architecture is known. Speech, molecules and DNA are made here, so that nothing but the packages is needed.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.catalogue import find_cifar10, labelled_images
from ..errors import InputError, import_extra
from ..models.corpus import documents_of
from ..models.pair_files import untrained_model
from ..models.released import Released
from ..models.states import batched_outputs
from ..representation import Array
from .experiment import Run
from .outcomes import all_pairs, explained, folds_of, held_out, seeds_from


@dataclass(frozen=True)
class Compared:
    """Two sides row by row, before ``components`` are taken.

    ``label`` is what is compared, ``pair`` are the places of both models in their family, and ``facts`` are further
    measures of this pair.
    """

    label: str
    trained: tuple[Array, Array]
    pair: tuple[int, int] = (0, 1)
    untrained: tuple[Array, Array] | None = None
    groups: Array | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def words(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """The most frequent words that both tables have; they are files of numbers, without an untrained state."""
    parquet = import_extra("pyarrow.parquet", "io", "the words of a parquet file")
    glove, wink = models["glove-50"].opened(folder), models["wink-100"].opened(folder)
    values = np.load(_one(glove, "*.npy"), mmap_mode="r", allow_pickle=False)
    listed = parquet.read_table(_one(glove, "*.parquet"))
    texts = next((name for name in listed.column_names if str(listed.schema.field(name).type).endswith("string")), None)
    if texts is None:
        raise InputError(f"{_one(glove, '*.parquet').name} has no column of words")
    places = {word: place for place, word in enumerate(listed[texts].to_pylist())}
    if len(places) != len(values):
        raise InputError(f"there are {len(places)} words and {len(values)} vectors")
    chosen, vectors = [], []
    for word, vector in wink_vectors(_one(wink, "*.json")):
        if word in places:
            chosen.append(places[word])
            vectors.append(vector)
        if len(chosen) == run.preset.rows:
            break
    yield Compared("most frequent", (np.asarray(values[chosen], np.float64), np.array(vectors)))


def wink_vectors(path: Path) -> Iterator[tuple[str, list[float]]]:
    """Words and vectors of a table of wink, in their order, read piece by piece: the whole takes gigabytes."""
    decoder, text, width = json.JSONDecoder(), "", 0
    with path.open(encoding="utf-8") as file:
        while '"vectors":' not in text:
            block = file.read(2**20)
            if not block:
                raise InputError(f"{path.name} has no vectors: it is no table of wink")
            text += block
        header, _, text = text.partition('"vectors":')
        found = re.search(r'"dimensions" *: *(\d+)', header)
        width = int(found.group(1)) if found else 0
        text = text.lstrip(" {\n")
        while width:
            try:
                word, end = decoder.raw_decode(text)
                vector, stop = decoder.raw_decode(text, re.compile(r"\s*:\s*").match(text, end).end())  # type: ignore[union-attr]
            except (ValueError, AttributeError):  # the piece ends here
                block = file.read(2**20)
                if not block:
                    return
                text += block
                continue
            yield word, vector[:width]
            text = text[stop:].lstrip(", \n") if stop > 2**19 else re.sub(r"^[, \n]+", "", text[stop:])
            if text.startswith("}"):
                return


def sentences(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """Embeddings of sentences, their tokens one by one, and the tables of input embeddings."""
    import_extra("transformers", "hf", "sentence embeddings")
    homes = [_one(models[name].opened(folder), "config.json").parent for name in ("minilm", "mpnet")]
    texts = sentences_of(run.preset.text, run.preset.texts)
    sides = {"trained": [_tokens(home, texts, run, None) for home in homes]}
    if run.preset.control:
        seeds = seeds_from(run.seed, 71, count=2)
        sides["untrained"] = [_tokens(home, texts, run, seed) for home, seed in zip(homes, seeds, strict=True)]
    tokens, whole, groups = {}, {}, None
    for when, both in sides.items():
        common = [place for place in range(len(texts)) if len(both[0][place]) == len(both[1][place]) > 2]
        if len(common) < 2:
            raise InputError("the two models cut the sentences into different tokens")
        first, second = (_unit(np.stack([side[place].mean(0) for place in common])) for side in both)
        whole[when] = first, second
        tokens[when] = tuple(np.concatenate([side[place][1:-1] for place in common]) for side in both)
        groups = np.repeat(common, [len(both[0][place]) - 2 for place in common])
    yield Compared("sentences", whole["trained"], untrained=whole.get("untrained"))
    assert groups is not None
    picked = _some(len(groups), run)
    chosen = {when: (both[0][picked], both[1][picked]) for when, both in tokens.items()}
    yield Compared("tokens", chosen["trained"], untrained=chosen.get("untrained"), groups=groups[picked])
    yield Compared("input embeddings", _vocabularies(homes, run))


def sentences_of(text: str, count: int) -> list[str]:
    """Lines of the user's file, plain or gzipped, or sentences of the prose of Python's library."""
    if text:
        path = Path(text).expanduser()
        if not path.is_file():
            raise InputError(f"text is {path}, which is no file: name a file with one sentence per line")
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    else:
        prose = " ".join(each.text for each in documents_of("", 400 * count))
        lines = [" ".join(each.split()) for each in re.split(r"(?<=[.!?])\s+", prose)]
    found = list(dict.fromkeys(line for line in lines if 3 <= len(line.split()) <= 40))[:count]
    if len(found) < 2:
        raise InputError("there are fewer than 2 sentences of 3 to 40 words")
    return found


def _tokens(home: Path, texts: list[str], run: Run, seed: int | None) -> list[Array]:
    """States of all tokens of each sentence after the last layer, special tokens at its ends."""
    from ..models import extract

    options: dict[str, Any] = {"model": home} if seed is None else untrained_model(str(home), seed)
    options.pop("pixels", None)
    found = extract(data=texts, layers=-1, pool="token", progress=run.progress, **options)
    values, groups = np.asarray(found[next(iter(found.layers))].values), found.groups
    assert groups is not None
    owners = np.array([int(each) for each in groups])
    return [values[owners == place] for place in range(len(texts))]


def _vocabularies(homes: list[Path], run: Run) -> tuple[Array, Array]:
    """Input embeddings of the tokens that both vocabularies have, without special and unused ones."""
    from safetensors.numpy import load_file

    tables, places = [], []
    for home in homes:
        lines = (home / "vocab.txt").read_text("utf-8").splitlines()
        places.append({token: place for place, token in enumerate(lines) if not re.fullmatch(r"[\[<].+[\]>]", token)})
        stored = load_file(home / "model.safetensors")
        tables.append(next(value for name, value in stored.items() if name.endswith("word_embeddings.weight")))
    shared = sorted(set(places[0]) & set(places[1]), key=lambda token: places[0][token])
    picked = [shared[place] for place in _some(len(shared), run)]
    one, other = (
        table[[where[token] for token in picked]].astype(np.float64)
        for table, where in zip(tables, places, strict=True)
    )
    return one, other


def images(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """Penultimate features of photographs, and how far they agree in what the classifier reads and what it does not."""
    from ..models.efficientnet import load_efficientnet
    from ..models.evaluation import torch

    preset = run.preset
    data = run.data if find_cifar10(run.data) else None
    shown = labelled_images(data, 32, preset.images, preset.images, False, run.seed).rows
    names = [name for name in models if name.startswith("efficientnet")]
    files = [_one(models[name].opened(folder), "*.pth") for name in names]
    seeds = seeds_from(run.seed, 73, count=len(names))
    sides: dict[str, list[Array]] = {}
    heads = []
    for when in ("trained", "untrained") if preset.control else ("trained",):
        for place, file in enumerate(files):
            network = load_efficientnet(file, seed=None if when == "trained" else seeds[place])
            side = preset.pixels or NATIVE[place]

            def outputs(part: Any, network: Any = network, side: int = side) -> list[Any]:
                larger = torch.nn.functional.interpolate(
                    part.float() / 255, (side, side), mode="bilinear", antialias=False, align_corners=False
                )
                return [network.represent(larger)]

            sides.setdefault(when, []).append(batched_outputs(outputs, shown, 16)[0].astype(np.float64))
            if when == "trained":
                heads.append(network._fc.weight.detach().double().numpy())
            run.progress("images", len(sides[when]), len(files))
    for one, other in pairwise(range(len(names))):
        both = {when: (each[one], each[other]) for when, each in sides.items()}
        facts = {"head": {when: head_parts(*pair, heads[other], run) for when, pair in both.items()}}
        yield Compared("penultimate layer", both["trained"], (one, other), both.get("untrained"), facts=facts)


NATIVE = (224, 240, 260)
"""Pixels that EfficientNet-Lite 0, 1 and 2 were trained on."""


def head_parts(source: Array, target: Array, head: Array, run: Run) -> dict[str, Any]:
    """Held-out R² of a linear map in the directions that the target's classifier reads, and in all others.

    Only differences of scores matter, so the head's rows are centred. ``shuffled`` are the same with rows of the source
    in random order.
    """
    centred = head - head.mean(0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=True)
    rank = int((sizes > sizes[0] * 1e-6).sum())
    reduced, _ = leading(source, run.preset.components)
    folds = folds_of(len(source), 5, run.seed)
    order = np.random.default_rng([run.seed, 79]).permutation(len(source))
    told: dict[str, Any] = {"classes": len(head), "columns": head.shape[1], "rank": rank}
    around = target - target.mean(0)
    for name, part in (("read", directions[:rank]), ("unread", directions[rank:])):
        seen = around @ part.T
        told[name] = {"variance": float((seen**2).sum() / (around**2).sum()) if len(part) else 0.0}
        for how, rows in (("linear", reduced), ("shuffled", reduced[order])):
            told[name][how] = explained(held_out(rows, seen, folds), seen) if len(part) else None
    return told


def leading(rows: Array, components: int) -> tuple[Array, float]:
    """Scores on the leading principal components where there are more columns, and the share of variance they keep."""
    centred = np.asarray(rows, np.float64) - rows.mean(0)
    if not components or rows.shape[1] <= components:
        return np.asarray(rows, np.float64), 1.0
    values, directions = np.linalg.eigh(centred.T @ centred)
    kept = directions[:, ::-1][:, :components]
    return centred @ kept, float(values[::-1][:components].sum() / values.sum())


def chemistry(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """Last hidden layers of members of ANI-1x for atoms of small molecules, shaken at random, by element."""
    from ..models.ani import load_ani

    build, collections = (import_module(f"ase.{name}") for name in ("build", "collections"))
    surroundings, members = load_ani(_one(models["ani-1x"].opened(folder), "*.params").parent)
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
        picked = _some(len(found), run)
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
    networks = load_spliceai(_one(models["spliceai"].opened(folder), "*1.h5").parent)[: preset.members]
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


def speech(models: dict[str, Released], folder: Path, run: Run) -> Iterator[Compared]:
    """States of Whisper's encoders by depth, for synthesised speech; clips are groups."""
    from ..models import extract

    transformers = import_extra("transformers", "hf", "the features of Whisper")
    import_extra("onnxruntime", "onnx", "Whisper")
    names = [name for name in models if name.startswith("whisper")][: run.preset.sizes]
    homes = [_one(models[name].opened(folder), "config.json").parent for name in names]
    rng = np.random.default_rng([run.seed, 101])
    settings = json.loads((homes[0] / "preprocessor_config.json").read_text("utf-8"))
    extractor = transformers.WhisperFeatureExtractor(
        feature_size=settings["feature_size"], n_fft=settings["n_fft"], hop_length=settings["hop_length"]
    )
    clips = [draw_speech(rng, CLIP_SECONDS) for _ in range(run.preset.clips)]
    sounds = np.concatenate([extractor(clip, sampling_rate=RATE, return_tensors="np").input_features for clip in clips])
    sides: dict[str, list[dict[str, Array]]] = {"trained": []}
    for home in homes:
        depth = json.loads((home / "config.json").read_text("utf-8"))["encoder_layers"]
        layers = {name: f"/layers.{round(share * depth) - 1}/Add_1_output_0" for name, share in DEPTHS.items()}
        wanted = [*layers.values(), LAST]
        found = extract(home / "onnx" / "encoder_model_quantized.onnx", sounds, layers=wanted, pool="token", batch=1)
        named = {**layers, "output": LAST}
        sides["trained"].append({name: _frames(np.asarray(found[layer].values), run) for name, layer in named.items()})
        run.progress("speech", len(sides["trained"]), len(homes))
    if run.preset.control:
        seeds = seeds_from(run.seed, 103, count=len(homes))
        sides["untrained"] = [
            _untrained_encoder(home, sounds, seed, run) for home, seed in zip(homes, seeds, strict=True)
        ]
    groups = np.repeat(np.arange(len(clips)), len(sides["trained"][0]["output"]) // len(clips))
    for one, other in pairwise(range(len(homes))):
        for name in sides["trained"][0]:
            both = {when: (each[one][name], each[other][name]) for when, each in sides.items()}
            yield Compared(name, both["trained"], (one, other), both.get("untrained"), groups)


DEPTHS = {"1/4": 0.25, "1/2": 0.5, "3/4": 0.75, "last block": 1.0}
LAST = "last_hidden_state"
RATE, CLIP_SECONDS = 16_000, 30
VOWELS = {
    "i": (270, 2290, 3010),
    "e": (530, 1840, 2480),
    "a": (730, 1090, 2440),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
    "er": (490, 1350, 1690),
}
"""Formants of men's vowels in hertz (Peterson and Barney 1952)."""


def draw_speech(rng: np.random.Generator, seconds: float) -> Array:
    """Syllables of a made-up speaker: a burst of noise, then pulses through the resonances of a vowel."""
    from scipy.signal import lfilter

    size = rng.uniform(0.9, 1.2)  # of the vocal tract: formants of a smaller one are higher
    pitch = rng.uniform(90, 220)
    parts: list[Array] = []
    while sum(map(len, parts)) < seconds * RATE:
        burst = rng.standard_normal(int(RATE * rng.uniform(0.02, 0.08)))
        centre = rng.uniform(1500, 6000)
        parts.append(0.3 * _resonance(burst, centre, 1500, lfilter))
        length = int(RATE * rng.uniform(0.08, 0.25))
        glide = pitch * (1 + 0.15 * np.sin(np.linspace(0, rng.uniform(1, 4), length)))
        pulses = np.diff(np.floor(np.cumsum(glide / RATE)), prepend=0.0)
        voiced = pulses + 0.01 * rng.standard_normal(length)
        for place, formant in enumerate(VOWELS[str(rng.choice(list(VOWELS)))]):
            voiced = _resonance(voiced, formant * size, 60 + 30 * place, lfilter)
        parts.append(np.hanning(length) * voiced)
        if rng.uniform() < 0.15:
            parts.append(np.zeros(int(RATE * rng.uniform(0.05, 0.3))))
    sound = np.concatenate(parts)[: int(seconds * RATE)]
    return np.asarray(0.3 * sound / np.abs(sound).max(), np.float32)


def _resonance(sound: Array, centre: float, width: float, lfilter: Any) -> Array:
    """A filter of two poles, scaled to the loudness of one."""
    radius = np.exp(-np.pi * width / RATE)
    found = lfilter([1.0], [1.0, -2 * radius * np.cos(2 * np.pi * centre / RATE), radius**2], sound)
    return np.asarray(found / (found.std() + 1e-12))


def _untrained_encoder(home: Path, sounds: Array, seed: int, run: Run) -> dict[str, Array]:
    """States of an encoder with random weights at the same depths."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    from ..models.batched import seeded

    config = WhisperConfig(**json.loads((home / "config.json").read_text("utf-8")))
    network = seeded(lambda _: WhisperEncoder(config), seed).eval()
    count = config.encoder_layers
    places = [round(share * count) for share in DEPTHS.values()]

    def states(part: Any) -> list[Any]:
        found = network(part, output_hidden_states=True)
        hidden = [*found.hidden_states[:count], found.last_hidden_state]
        return [hidden[place].flatten(0, 1) for place in places] + [found.last_hidden_state.flatten(0, 1)]

    return dict(
        zip((*DEPTHS, "output"), (_frames(each, run) for each in batched_outputs(states, sounds, 1)), strict=True)
    )


def _frames(values: Array, run: Run) -> Array:
    """Every so many frames of every clip."""
    return values.reshape(run.preset.clips, -1, values.shape[1])[:, :: run.preset.stride].reshape(-1, values.shape[1])


def _one(folder: Path, pattern: str) -> Path:
    """The first file of an unpacked package whose name fits."""
    found = sorted(folder.rglob(pattern))
    if not found:
        raise InputError(f"{folder} has no file {pattern}")
    return found[0]


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _some(count: int, run: Run) -> Array:
    """At most so many rows as are compared, at random, in their order."""
    rng = np.random.default_rng([run.seed, 107])
    return np.sort(rng.permutation(count)[: run.preset.rows])
