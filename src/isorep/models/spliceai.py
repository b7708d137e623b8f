"""SpliceAI (Jaganathan et al. 2019): splice sites from DNA, five trainings of one network, read without Keras."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from .backend import nn, torch
from .keras_files import open_keras
from .spliceai_layers import read_plan

VARIABLE = "ISOREP_SPLICEAI"
CLASSES = ("neither", "acceptor", "donor")
LICENCE = (
    "The SpliceAI models are the work of Jaganathan et al. (Cell 176, 2019) and no part of isorep. The package "
    "spliceai 1.3.1 states GPLv3 in its metadata and carries no licence file; the authors' repository says that the "
    "source code is under GPLv3 and the models are under CC BY NC 4.0, for academic and non-commercial use."
)
_HOW = f"pip install --no-deps spliceai==1.3.1, or name the folder of its h5 files in {VARIABLE}"
_LETTERS = b"ACGT"


class SpliceAI(nn.Module):
    """Probabilities of splice sites for every position of a DNA sequence.

    A convolution of width 1 opens the stem; every stage adds blocks of two dilated convolutions to it, each after a
    batch norm and a ReLU. A convolution of width 1 leads from the stem and from the end of every stage to one sum, the
    representation; the head makes three classes of it, position by position. The defaults are SpliceAI-10k.

    Parameters
    ----------
    channels : int
        Of the stem, the blocks and the representation.
    widths, dilations : sequence of int
        Of the convolutions of each stage; widths are odd.
    blocks : int
        In each stage.
    classes : int
        Neither, acceptor, donor.
    crop : int, optional
        Positions that are cut off at either end; by default those that see beyond it.
    epsilon : float
        Of the batch norms.
    """

    def __init__(
        self,
        *,
        channels: int = 32,
        widths: Sequence[int] = (11, 11, 21, 41),
        dilations: Sequence[int] = (1, 4, 10, 25),
        blocks: int = 4,
        classes: int = 3,
        crop: int | None = None,
        epsilon: float = 1e-3,
    ) -> None:
        super().__init__()
        if len(widths) != len(dilations) or any(width % 2 == 0 for width in widths):
            raise InputError("every stage has one dilation and one width, which is odd")
        reach = sum(blocks * (width - 1) * dilation for width, dilation in zip(widths, dilations, strict=True))
        self.crop = reach if crop is None else int(crop)
        self.stem = nn.Conv1d(len(_LETTERS), channels, 1)
        self.stages = nn.ModuleList(
            nn.Sequential(*(_Block(channels, width, dilation, epsilon) for _ in range(blocks)))
            for width, dilation in zip(widths, dilations, strict=True)
        )
        self.skips = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(len(widths) + 1))
        self.head = nn.Conv1d(channels, classes, 1)

    def forward(self, dna: Any) -> Any:
        """Probabilities (n, 3, length - 2 crop) of :func:`encode_dna`'s (n, 4, length)."""
        return torch.softmax(self.head(self.represent(dna)), 1)

    def represent(self, dna: Any) -> Any:
        """What the head sees: (n, channels, length - 2 crop)."""
        return self.combine(self.depths(dna))

    def depths(self, dna: Any) -> list[Any]:
        """The stem and the end of every stage, cropped as the output is."""
        if dna.ndim != 3 or dna.shape[1] != len(_LETTERS) or dna.shape[2] <= 2 * self.crop:
            raise InputError(
                f"DNA of shape {tuple(dna.shape)} was given where (n, 4, length) is expected, longer than the "
                f"{2 * self.crop} positions that are cut off"
            )
        state = self.stem(dna)
        found = [state]
        for stage in self.stages:
            state = stage(state)
            found.append(state)
        return [each[..., self.crop : each.shape[-1] - self.crop] for each in found]

    def combine(self, depths: Sequence[Any]) -> Any:
        """The representation, from what :meth:`depths` gives."""
        return sum(skip(state) for skip, state in zip(self.skips, depths, strict=True))


class _Block(nn.Module):
    """Twice batch norm, ReLU and a dilated convolution, added to what came in."""

    def __init__(self, channels: int, width: int, dilation: int, epsilon: float) -> None:
        super().__init__()
        parts: list[Any] = []
        for _ in range(2):
            convolution = nn.Conv1d(channels, channels, width, dilation=dilation, padding=dilation * (width - 1) // 2)
            parts += [nn.BatchNorm1d(channels, eps=epsilon), nn.ReLU(), convolution]
        self.inner = nn.Sequential(*parts)

    def forward(self, state: Any) -> Any:
        return state + self.inner(state)


def load_spliceai(path: str | Path | None = None) -> list[SpliceAI]:
    """The members of the ensemble, from the h5 files that its authors have published.

    The network is taken from what the file says about its layers, which must be those of SpliceAI in some size, and all
    weights are checked for shape and finiteness. Nothing of the file is run, and Keras is not needed.

    The models are no part of isorep. The package ``spliceai`` 1.3.1 states GPLv3 in its metadata and carries no licence
    file; the authors' repository says that the source code is under GPLv3 and the models are under CC BY NC 4.0, for
    academic and non-commercial use.

    Parameters
    ----------
    path : path, optional
        One h5 file, or a folder of them; by default that of the environment variable ``ISOREP_SPLICEAI``, else the
        models of the installed package ``spliceai``, which is found and not imported
        (``pip install --no-deps spliceai==1.3.1``).

    Returns
    -------
    list of SpliceAI
        In the order of the files' numbers, for evaluation.
    """
    return [_read(each) for each in find_spliceai(path)]


def find_spliceai(path: str | Path | None = None) -> list[Path]:
    """The h5 files that :func:`load_spliceai` reads; where there are none, a FileNotFoundError says how to get them."""
    given = path if path is not None else os.environ.get(VARIABLE) or None
    if given is None:
        spec = find_spec("spliceai")  # looks for the package and does not import it: that would need Keras
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        if not places:
            raise MissingFileError(f"the SpliceAI models are not here: {_HOW}")
        folder = Path(places[0]) / "models"
    else:
        folder = Path(given)
    if folder.is_file():
        return [folder]
    found = sorted(folder.glob("*.h5"), key=lambda each: (len(each.name), each.name))
    if not found:
        raise MissingFileError(f"there are no h5 files in {folder}: {_HOW}")
    return found


def encode_dna(sequences: str | Sequence[str]) -> Any:
    """One-hot letters (n, 4, length) in the order A, C, G, T; N is zero everywhere, and case does not matter."""
    listed = [sequences] if isinstance(sequences, str) else list(sequences)
    if not listed or not all(isinstance(each, str) for each in listed) or len({len(each) for each in listed}) > 1:
        raise InputError("DNA is a string, or several of one length")
    codes = np.full(256, 255, dtype=np.uint8)
    for place, letter in enumerate(_LETTERS):
        codes[[letter, letter + 32]] = place
    codes[list(b"Nn")] = len(_LETTERS)
    rows = []
    for number, text in enumerate(listed):
        read = codes[np.frombuffer(text.encode("ascii", "replace"), dtype=np.uint8)]
        if (wrong := np.flatnonzero(read == 255)).size:
            raise InputError(f"sequence {number} has {text[wrong[0]]!r} at {wrong[0]}: known are A, C, G, T and N")
        rows.append(np.eye(len(_LETTERS) + 1, len(_LETTERS), dtype=np.float32)[read].T)
    return torch.from_numpy(np.stack(rows))


def _read(path: Path) -> SpliceAI:
    with open_keras(path) as file:
        plan = read_plan(file)
        weights = {name: torch.from_numpy(values) for name, values in plan.weights(file).items()}
    with torch.device("meta"):  # no weights are drawn, so that the caller's random numbers stay as they are
        model = SpliceAI(
            channels=plan.channels,
            widths=plan.widths,
            dilations=plan.dilations,
            blocks=len(plan.stages[0]),
            classes=plan.classes,
            crop=plan.crop,
            epsilon=plan.epsilon,
        )
    counts = {name: torch.tensor(0) for name in model.state_dict() if name.endswith("num_batches_tracked")}
    model.load_state_dict(weights | counts, assign=True)
    return model.eval().requires_grad_(False)
