"""Released models (Table 1 of Nelson et al. 2026 and section 5.3 of Roeder et al. 2021 on weights that others trained).

The packages of a catalogue are fetched by the user's own package manager, on request. Seven families are compared, each
pair as the published ones: up to a signed permutation, a rigid map, a linear map and ICA, in-sample and held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..datasets.catalogue import find_cifar10
from ..errors import InputError
from ..models.released import Released, released_models
from ..settings import check_choice, check_names
from . import released_rows as rows
from . import released_science as science
from . import released_speech as spoken
from .experiment import NELSON, Experiment, Outcome, Plan, Run, Unit, by_scale, how_to_find, scaled
from .outcomes import threads
from .pretrained import measure


@dataclass(frozen=True)
class Family:
    """Models of the catalogue that are compared, and how.

    ``kind`` is the network of Table 1 whose findings are tested, ``published`` the row to compare with, ``needs`` the
    packages without which the family cannot be run. With ``whole`` all columns are compared.
    """

    title: str
    models: tuple[str, ...]
    compared: Callable[[dict[str, Released], Path, Run], Iterator[rows.Compared]]
    kind: str = ""
    published: str = ""
    needs: tuple[str, ...] = ()
    whole: bool = False


FAMILIES = {
    "words": Family("Words", ("glove-50", "wink-100"), rows.words, "gpt", "Pythia-160M", ("pyarrow",), whole=True),
    "sentences": Family(
        "Sentences", ("minilm", "mpnet"), rows.sentences, "gpt", "Pythia-160M", ("torch", "transformers")
    ),
    "images": Family(
        "Images", tuple(f"efficientnet-lite{place}" for place in range(3)), rows.images, "cnn", "ResNet-18", ("torch",)
    ),
    "chemistry": Family("ANI-1x", ("ani-1x",), science.chemistry, "cnn", "", ("ase",), whole=True),
    "crystals": Family("CHGNet", ("chgnet",), science.crystals, "cnn", "", ("torch", "ase"), whole=True),
    "splicing": Family("SpliceAI", ("spliceai",), science.splicing, "cnn", "ResNet-18", ("torch", "h5py"), whole=True),
    "speech": Family(
        "Whisper",
        ("whisper-tiny", "whisper-base", "whisper-small"),
        spoken.speech,
        needs=("torch", "transformers", "onnxruntime"),
    ),
}


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    families : tuple of str
        What is compared: ``words``, ``sentences``, ``images``, ``chemistry``, ``crystals``, ``splicing``,
        ``speech``.
    folder : str
        Folder with the packages; default: ``released`` in the data folder.
    fetch : bool
        Fetch packages that are missing with pip and npm.
    catalogue : str
        A TOML file of the form of ``isorep/models/released.toml``; default: that file.
    components : int
        Wider representations of sentences, images and speech are reduced to so many principal components of each side;
        0 takes all columns.
    rows : int
        Rows that are compared, at most: words, tokens, atoms, positions.
    text : str
        A file with one sentence per line, plain or gzipped; default: sentences of Python's library.
    texts, images, clips, sequences : int
        Sentences, images of CIFAR-10, clips of speech of 30 seconds, sequences of DNA.
    speaker : {"espeak-ng", "syllables"}
        Who speaks the clips: eSpeak NG reads the sentences, or syllables are drawn, also where it is not installed.
    pixels : int
        Height and width that images are enlarged to; 0: what each network was trained on.
    stride : int
        Every so many of the 1,500 frames of a clip is a row.
    sizes : int
        Whisper models, from the smallest on.
    members : int
        Members of ANI-1x and SpliceAI; all pairs of them are compared.
    elements : tuple of str
        Elements whose atoms are compared, each with its own networks.
    molecules, copies : int
        Molecules at most, and shaken copies of each.
    metals, lattices : int
        Metals whose oxides are compared at most, and shaken copies of each of their three lattices.
    n_null, n_boot : int
        Shuffled pairings, and draws for intervals.
    control : bool
        Whether untrained networks are compared, too.
    threads : int
        Number of torch threads; 0 leaves the setting unchanged.
    """

    families: tuple[str, ...] = tuple(FAMILIES)
    folder: str = ""
    fetch: bool = False
    catalogue: str = ""
    components: int = scaled(6, 64, 256)
    rows: int = scaled(300, 4_000, 20_000)
    text: str = ""
    texts: int = scaled(60, 600, 4_000)
    images: int = scaled(120, 800, 10_000)
    pixels: int = scaled(32, 96, 0)
    clips: int = scaled(5, 8, 40)
    speaker: str = scaled("syllables", "espeak-ng", "espeak-ng")
    stride: int = scaled(30, 6, 3)
    sizes: int = scaled(2, 3, 3)
    sequences: int = scaled(5, 6, 20)
    members: int = scaled(2, 3, 5)
    elements: tuple[str, ...] = scaled(("H",), ("C",), ("C", "H", "N", "O"))
    molecules: int = scaled(12, 1_000, 1_000)
    copies: int = scaled(4, 20, 60)
    metals: int = scaled(6, 30, 30)
    lattices: int = scaled(2, 3, 20)
    n_null: int = scaled(3, 10, 20)
    n_boot: int = scaled(100, 500, 1_000)
    control: bool = True
    threads: int = scaled(0, 2, 2)

    def __post_init__(self) -> None:
        check_names("families", self.families, FAMILIES)
        check_choice("speaker", self.speaker, spoken.SPEAKERS)
        if len(set(self.families)) < len(self.families):
            raise InputError("families are named once each")
        counts = (self.rows, self.texts, self.images, self.clips, self.sequences, self.members, self.sizes)
        if (
            min(counts) < 2
            or min(self.copies, self.molecules, self.stride, self.metals, self.lattices) < 1
            or min(self.components, self.pixels) < 0
        ):
            raise InputError("counts are from 1 on, and there are at least 2 rows, texts, images, clips and members")


SCALES = by_scale(Preset)


def plan(preset: Preset, data: Path | None) -> Plan:
    """A unit for each family whose packages are there or can be fetched; for the others how to get them."""
    models = released_models(preset.catalogue)
    folder = folder_of(preset, data)
    units, files, skipped = [], [], []
    for name in preset.families:
        family = FAMILIES[name]
        if lacking := [model for model in family.models if model not in models]:
            skipped.append(f"{name}: the catalogue has no {lacking[0]}")
            continue
        if lacking := [package for package in family.needs if find_spec(package) is None]:
            skipped.append(f"{name}: {lacking[0]} is not installed")
            continue
        if why := _missing(name, family, models, folder, preset.fetch):
            skipped.append(why)
            continue
        assert folder is not None
        for model in family.models:
            files += models[model].archives(folder) or []
        units.append(Unit(name, f"{family.title}: {', '.join(family.models)}", {"family": name}))
    if any(unit.key == "images" for unit in units) and find_cifar10(data) is None:
        words = "CIFAR-10 is not available, so images are rendered rooms"
        skipped.append(f"{words}: {how_to_find(data)}")
    if any(unit.key == "speech" for unit in units) and spoken.speaker_of(preset.speaker) != preset.speaker:
        skipped.append(f"{preset.speaker} is not installed, so speech is made of syllables without words")
    return Plan(tuple(units), tuple(files), tuple(skipped))


def folder_of(preset: Preset, data: Path | None) -> Path | None:
    """The folder of packages."""
    if preset.folder:
        return Path(preset.folder).expanduser()
    return None if data is None else data / "released"


def _missing(name: str, family: Family, models: dict[str, Released], folder: Path | None, fetch: bool) -> str | None:
    """Why a family cannot be run; packages are fetched first where the user asked for it."""
    if folder is None:
        return f"{name}: name a folder of packages with --set folder=FOLDER"
    for model in family.models:
        if models[model].archives(folder) is not None:
            continue
        if not fetch:
            return f"{name}: {folder} does not hold {model}: {models[model].command}, or --set fetch=true"
        try:
            models[model].fetch(folder)
        except InputError as error:
            return f"{name}: {error}"
    return None


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Read the models of a family, and compare its pairs."""
    family = FAMILIES[unit.arguments["family"]]
    if "torch" not in family.needs:
        return _compared(unit.key, family, run)
    with threads(run.preset.threads):
        return _compared(unit.key, family, run)


def _compared(name: str, family: Family, run: Run) -> Outcome:
    folder = folder_of(run.preset, run.data)
    assert folder is not None
    layers = []
    try:
        for each in family.compared(released_models(run.preset.catalogue), folder, run):
            layer: dict[str, Any] = {"layer": each.label, "pair": list(each.pair), **each.facts}
            sides = {"trained": each.trained, "untrained": each.untrained}
            for when, both in sides.items():
                if both is not None:
                    narrow = [rows.leading(side, 0 if family.whole else run.preset.components) for side in both]
                    found = measure(narrow[0][0], narrow[1][0], each.groups, run.preset, run.seed)
                    layer[when] = found | {
                        "whole": [side.shape[1] for side in both],
                        "kept": [each for _, each in narrow],
                    }
            layers.append(layer)
            run.progress("comparing", len(layers), len(layers))
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return {"name": family.title, "kind": family.kind, "published": family.published, "layers": layers}


TITLE = "Released models: the same up to a linear map, a rigid map, or ICA alone"
PAPER = f"{NELSON}, section 4.2, Table 1"
EXPERIMENT = Experiment(
    "released", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch", "transformers", "onnxruntime", "ase")
)
