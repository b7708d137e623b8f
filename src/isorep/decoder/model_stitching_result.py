"""Result of model stitching: outcomes of maps beside both networks, and the verdict on the smallest map that serves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..resampling import Interval
from ..results import Record, ResultRecord, Verdict, aligned, decimals, significant, told

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RUNGS = ("identity", "signed_permutation", "rigid", "linear")
LOSSES = ("cross_entropy", "squared")
_FEW = 200


@dataclass(frozen=True)
class Outcome(Record):
    """One network, or one map between two.

    Attributes
    ----------
    name : str
    kind : {"parent", "map", "control", "retrained"}
        A network by itself, a map that was fitted or given, one that knows nothing, or one trained on the targets.
    loss : float
        Mean over the held-out rows, lower is better.
    interval : Interval
        95% interval of the loss over rows; None for losses that may be negative.
    accuracy, accuracy_interval
        Share of held-out rows whose class is right, and Wilson's interval; None without classes.
    error : float
        Mean distance of mapped rows from the second network's own, in mean distances of these to their mean.
    recovered : float
        Share of the loss between the best uninformed outcome (0) and the second network (1) that is recovered.
    """

    name: str
    kind: str
    loss: float
    interval: Interval | None
    accuracy: float | None
    accuracy_interval: Interval | None
    error: float | None = None
    recovered: float | None = None


@dataclass(frozen=True, eq=False)
class ModelStitching(ResultRecord):
    """Two networks stitched at a layer.

    Attributes
    ----------
    names, layers : tuple of str
        The networks, and the layers after which the first is left and the second entered.
    widths : tuple of int
        Widths of the two layers, which the map is between.
    positions : int
        Tokens or pixels of a row, which share the map; 1 for vectors.
    rows : tuple of int
        Rows that maps were fitted on, and held-out rows.
    parents : tuple of Outcome
        Both networks by themselves, on the held-out rows.
    outcomes : tuple of Outcome
        Every map between the layers.
    verdict : Verdict
        The smallest map that suffices, and a sentence with its numbers.
    passes_by : bool
        Whether paths of the second network lead past its layer.
    caveats : tuple of str
    settings : dict
    """

    schema: ClassVar[str] = "isorep.stitching/1"
    page_by: ClassVar[str] = "decoder.model_stitching_page:page"

    names: tuple[str, str]
    layers: tuple[str, str]
    widths: tuple[int, int]
    positions: int
    rows: tuple[int, int]
    parents: tuple[Outcome, Outcome]
    outcomes: tuple[Outcome, ...]
    verdict: Verdict
    passes_by: bool
    caveats: tuple[str, ...]
    settings: dict[str, Any]

    def outcome(self, name: str) -> Outcome:
        """The outcome of a map, or of a network, by its name."""
        return next(each for each in (*self.outcomes, *self.parents) if each.name == name)

    def table(self) -> str:
        """One line per network and map."""
        rows = [("stitched by", "loss", "95% interval", "accuracy", "layer\nerror", "recovered")]
        for each in (*self.parents, *self.outcomes):
            name = f"{each.name} alone" if each.kind == "parent" else each.name
            span = "-" if each.interval is None else f"[{each.interval.low:.4f}, {each.interval.high:.4f}]"
            shares = (decimals(each.accuracy, 3), decimals(each.error, 3), decimals(each.recovered, 3))
            rows.append((name, decimals(each.loss), span, *shares))
        return aligned(rows, marked=[self.verdict.answer], optional=("95% interval",))

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per network and map."""
        return [row for each in (*self.parents, *self.outcomes) for row in each.frame_rows()]

    def __str__(self) -> str:
        return told(self.verdict, self.table(), notes=self.caveats)

    def plot_scores(self, ax: Axes | None = None, width: str = "single") -> Axes:
        """Accuracy, or loss without classes, of networks and maps."""
        from ..report.plots import Mark, dots, span

        classes = self.parents[0].accuracy is not None
        marks = [
            Mark(
                f"{each.name} alone" if each.kind == "parent" else each.name.replace("_", " "),
                math.nan if each.accuracy is None and classes else float(each.accuracy if classes else each.loss),  # type: ignore[arg-type]
                span(each.accuracy_interval if classes else each.interval),
                strong=each.name == self.verdict.answer and each.kind == "map",
            )
            for each in (*self.parents, *self.outcomes)
        ]
        label = "accuracy on held-out rows" if classes else "loss on held-out rows"
        return dots(ax, marks, label, width=width, limits=(0.0, 1.0) if classes else (0.0, None))


def recovered(each: Outcome, floor: float, goal: float) -> Outcome:
    """An outcome with its share of the loss between the best uninformed one and the second network."""
    if not floor > goal:
        return each
    return replace(each, recovered=(floor - each.loss) / (floor - goal))


def verdict_of(
    outcomes: Sequence[Outcome], parents: Sequence[Outcome], tolerance: float, floor: float, layers: tuple[str, str]
) -> Verdict:
    """The first map that recovers all but the tolerance; smaller groups come first."""
    first, second = parents
    where = repr(layers[0]) if layers[0] == layers[1] else f"{layers[0]!r} and {layers[1]!r}"
    ends = f"{second.name} alone {_numbers(second)}; uninformed at best {significant(floor)}"
    maps = [each for each in outcomes if each.kind == "map"]
    if not floor > second.loss:
        return Verdict(
            "undetermined",
            f"Nothing can be said about stitching at {where}: {second.name} is no better than without any information "
            f"({ends}).",
        )
    enough = next((each for each in maps if each.recovered is not None and each.recovered >= 1 - tolerance), None)
    trained = next((each for each in outcomes if each.name == "trained linear stitch"), None)
    beside = "" if trained is None else f" A stitch trained on the targets reaches {_numbers(trained)}."
    if enough is not None:
        return Verdict(
            enough.name,
            f"The {_words(enough.name)} suffices: {first.name} up to {layers[0]!r}, mapped into {second.name} from "
            f"{layers[1]!r} on, has {_numbers(enough)} on held-out rows and recovers {enough.recovered:.1%} ({ends})."
            f"{beside}",
        )
    if not maps:
        return Verdict("none", f"No map was fitted at {where} ({ends}).{beside}")
    best = max(maps, key=lambda each: -math.inf if each.recovered is None else each.recovered)
    return Verdict(
        "none",
        f"No map between the layers suffices: the best, the {_words(best.name)}, has {_numbers(best)} on held-out rows "
        f"and recovers {best.recovered:.1%} ({ends}).{beside}",
    )


def _words(name: str) -> str:
    known = {"identity": "identity", "rigid": "rigid map", "linear": "linear map"}
    return known.get(name, name.replace("_", " ") if name in RUNGS else f"map {name}")


def _numbers(each: Outcome) -> str:
    right = "" if each.accuracy is None else f", accuracy {each.accuracy:.1%}"
    return f"loss {significant(each.loss)}{right}"


def caveats_of(past: bool, layer: str, name: str, no_identity: bool, rows: int) -> tuple[str, ...]:
    """Limits of these numbers, as sentences."""
    said = []
    if past:
        said.append(
            f"paths of {name} lead past {layer!r}: its rest also sees its own input there, not only what is stitched in"
        )
    if no_identity:
        said.append("the layers have different widths, so the identity was left out")
    if rows < _FEW:
        said.append(f"{rows} rows are held out: below {_FEW} intervals are wide")
    return tuple(said)
