"""Experiment: presets for each scale, units of work with stable keys, and a summary of their outcomes.

Experiments are found by name; their modules are loaded on demand.

Settings of a preset that the caller changes, given as text: ``replicates=2``, ``models=ae,beta_vae``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ..datasets.folder import VARIABLE
from ..errors import InputError
from ..rows import Progress, no_progress

SCALES = ("smoke", "laptop", "paper")
T = TypeVar("T")

NELSON = (
    "Nelson, Fumero, Karaletsos and Locatello, Statistical and structural identifiability in representation learning, "
    "ICLR 2026"
)
ROEDER = "Roeder, Metz and Kingma, On linear identifiability of learned representations, ICML 2021"

Outcome = dict[str, Any]
"""The outcome of a unit, as plain data for JSON."""


@dataclass(frozen=True)
class Unit:
    """A unit of work that is done once: ``key`` names its file, ``arguments`` define it."""

    key: str
    words: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The units of a run in order, the data files they read, and a sentence for each part that cannot be run."""

    units: tuple[Unit, ...]
    files: tuple[Path, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """Input of every unit: the preset of the scale, the data folder and the seed.

    ``scratch`` is a folder for the state of long work within the unit; it is removed when the unit is finished.
    ``folder`` is that of the whole run, for further files such as trained weights.
    """

    preset: Any
    data: Path | None
    seed: int
    progress: Progress = no_progress
    scratch: Path | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class Row:
    """Obtained values with standard errors, and the published values of the same columns."""

    name: str
    values: tuple[float | None, ...] = ()
    errors: tuple[float | None, ...] = ()
    published: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Table:
    """Obtained and published values; ``source`` is the place in the paper, ``direction`` what larger values mean."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    direction: str
    source: str = ""


@dataclass(frozen=True)
class Mark:
    """A value with its interval, in a chart of rows; ``bound`` is a tick for the best or the published value."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    series: int = 0


@dataclass(frozen=True)
class Line:
    """A series of points with labels; ``dotted`` ones have no line through them, ``spans`` are their intervals."""

    name: str
    points: tuple[tuple[float, float], ...]
    labels: tuple[str, ...]
    series: int = 0
    dotted: bool = False
    spans: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Chart:
    """A figure as plain numbers: ``marks`` are rows of values, ``lines`` are series over a common x.

    Or ``cells`` are a matrix from 0 to 1 whose ``sides`` name its rows and columns, with ``words`` in them, or
    ``picture`` is a PNG image in base64 of so many ``pixels``; one of the four. ``bound`` and ``whisker`` describe the
    ticks and the intervals of marks. ``square`` gives both axes of lines one scale, and ``notes`` are words at places
    of lines, by x and y.
    """

    name: str
    title: str
    caption: str
    axes: tuple[str, str]
    marks: tuple[Mark, ...] = ()
    lines: tuple[Line, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    bound: str = ""
    whisker: str = "standard error"
    cells: tuple[tuple[float | None, ...], ...] = ()
    sides: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    words: tuple[tuple[str, ...], ...] = ()
    picture: str = ""
    pixels: tuple[int, int] = (0, 0)
    square: bool = False
    notes: tuple[tuple[float, float, str], ...] = ()


ANSWERS = {True: "holds", False: "does not hold", None: "undecided"}


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: its text, the measured number, the rule, the published number, and whether it holds.

    ``holds`` is None where the numbers do not decide.
    """

    text: str
    measure: str
    rule: str
    published: str
    holds: bool | None

    @property
    def told(self) -> str:
        """The measured number, the rule and the published number."""
        return f"{self.measure}; required: {self.rule}" + (f"; published: {self.published}" if self.published else "")

    def __str__(self) -> str:
        return f"{ANSWERS[self.holds]}: {self.text} ({self.told})"


@dataclass(frozen=True)
class Summary:
    """The outcomes as a verdict, tables, figures and at most six claims.

    ``reached`` is whether the published effect was seen.
    """

    verdict: str
    reached: bool | None
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def findings(self) -> tuple[str, ...]:
        """The claims in sentences."""
        return tuple(map(str, self.claims))


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    Attributes
    ----------
    name, title, paper : str
        Its names, and the citation.
    scales : mapping of str to dataclass
        The preset of each scale; its fields are the settings that are kept with the results.
    plan : callable
        ``plan(preset, data)``: the units, in order.
    run : callable
        ``run(unit, run)``: one unit's outcome. The same unit, preset, data and seed give the same outcome.
    packages : tuple of str
        Packages beyond the core whose versions matter.
    """

    name: str
    title: str
    paper: str
    scales: Mapping[str, Any]
    plan: Callable[[Any, Path | None], Plan]
    run: Callable[[Unit, Run], Outcome]
    packages: tuple[str, ...] = ()

    def summarise(self, preset: Any, outcomes: Mapping[str, Outcome]) -> Summary:
        """From outcomes by key to sentences, tables and figures: the function of this name in ``NAME_summary``."""
        summary: Summary = import_module(f".{self.name}_summary", __package__).summarise(preset, outcomes)
        return summary


EXPERIMENTS = (
    "classes", "contrastive", "deconfounding", "disentanglement", "inversion", "layers", "pretrained", "released",
    "slots", "warmup", "words",
)  # fmt: skip
"""Names of experiments: modules of this room, each with its ``EXPERIMENT``."""


def scaled(smoke: T, laptop: T, paper: T) -> T:
    """A setting of a preset with its value at each scale; that of the laptop is the default."""
    return field(default=laptop, metadata=dict(zip(SCALES, (smoke, laptop, paper), strict=True)))


def by_scale(preset: Any) -> dict[str, Any]:
    """The presets of the three scales, from a dataclass whose settings are ``scaled`` or the same at all scales."""
    varied = [setting for setting in fields(preset) if setting.metadata]
    return {scale: preset(**{setting.name: setting.metadata[scale] for setting in varied}) for scale in SCALES}


def how_to_find(data: Path | None) -> str:
    """Advice on files that are missing from the folder of data sets."""
    return f"name a folder with --data or {VARIABLE}" if data is None else f"{data} does not hold its files"


def experiment_named(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    experiment: Experiment = import_module(f".{name}", __package__).EXPERIMENT
    return experiment


def overridden(preset: Any, changes: Mapping[str, Any]) -> Any:
    """The preset with other values; text is read as the kind of value that it replaces."""
    known = {each.name: getattr(preset, each.name) for each in fields(preset)}
    read = {}
    for name, value in changes.items():
        if name not in known:
            raise InputError(f"the preset has no setting {name!r}; it has {', '.join(known)}")
        read[name] = _read(name, value, known[name]) if isinstance(value, str) else value
    return replace(preset, **read)


_READERS: dict[type, tuple[dict[str, Any], tuple[Callable[[str], Any], ...]]] = {
    bool: ({"true": True, "false": False}, ()),
    type(None): ({"none": None}, (int, float)),
    int: ({}, (int,)),
    float: ({}, (float,)),
    str: ({}, (str,)),
}
"""Kind of a setting -> words that it can be given as, and what else reads it."""


def _read(name: str, text: str, before: Any) -> Any:
    """Text as the kind of value that was there before: a tuple takes parts between commas."""
    first = (before[0] if before else "") if isinstance(before, tuple) else before
    if type(first) not in _READERS:
        raise InputError(f"the setting {name} cannot be given as text")
    if isinstance(before, tuple):
        return tuple(_read(name, part.strip(), first) for part in text.split(",") if part.strip())
    words, readers = _READERS[type(before)]
    if text.lower() in words:
        return words[text.lower()]
    for reader in readers:
        with suppress(ValueError):
            return reader(text)
    raise InputError(f"the setting {name} is {before!r} by default, and {text!r} is not of that kind")
