"""``isorep.compare_layers``: the ladder of every layer that two models have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import InputError
from ..representation import Array, Representation, match_rows, told_apart
from ..results import ResultRecord, aligned, decimals, r2_text, told, wrapped
from ..rows import Deadline, Progress, no_progress
from ..storage import labels
from ..storage.layers import open_layers
from ..threads import one_blas_thread
from .compare import compare
from .fits import RUNGS
from .result import Comparison, Direction, Rung, Verdict
from .stages import as_deadline
from .verdict import AGREES, PARTLY, agrees, best_rung

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNIT = "held-out errors in mean distances of the target to its mean; lower is closer, 1 is no better than the mean"
NONE, UNJUDGED = "none", "no verdict"
_MOST_NOTES = 10  # that are printed
_UNWRITTEN = ("schema", "isorep", "versions", "figures")  # of single layers
LayerPreview = Callable[[str, dict[str, float]], None]


@dataclass(frozen=True)
class LayerComparison(ResultRecord):
    """The result of :func:`isorep.compare_layers`; ``result["name"]`` is the comparison of one layer.

    Attributes
    ----------
    source, target : str
        Names of the two folders.
    layers : dict of str to Comparison
        Every layer that was compared, in the order of the source's model.
    verdict : Verdict
        Which rung suffices in which layers; its ``rung`` is that of all layers, None where they differ.
    only_source, only_target : tuple of str
        Layers that only one folder has.
    refused : dict of str to str
        Common layers that could not be compared, with the reason, such as values that are the same in all rows.
    left_out : tuple of str
        Common layers that were not started because the run was stopped.
    caveats : tuple of str
        Limits of these numbers; a caveat that several layers share is listed once, after their names.
    """

    schema: ClassVar[str] = "isorep.compare_layers/1"
    page_by: ClassVar[str] = "comparison.layers_page:page"
    source: str
    target: str
    layers: dict[str, Comparison]
    verdict: Verdict
    settings: dict[str, Any]
    only_source: tuple[str, ...] = ()
    only_target: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    seconds: float = 0.0

    def __getitem__(self, layer: str) -> Comparison:
        if layer not in self.layers:
            raise InputError(f"{layer!r} was not compared; there are {', '.join(self.layers)}")
        return self.layers[layer]

    @property
    def rungs(self) -> tuple[str, ...]:
        """The rungs that any layer has, in the order of the ladder."""
        return tuple(name for name in RUNGS if any(name in each.rungs for each in self.layers.values()))

    def directions(self, *, reverse: bool = False) -> dict[str, Direction]:
        """The ladder of every layer, source mapped onto target or the reverse."""
        return {layer: each.reverse if reverse else each.forward for layer, each in self.layers.items()}

    def table(self, *, reverse: bool = False, width: float | None = None) -> str:
        """One row per layer: held-out error of every rung, chance and R² of the best one, and the verdict's rung."""
        facts = ("best\nrung", "its\nchance", "its\nR²", "verdict")
        rows = [("layer", *(name.replace("_", "_\n") for name in self.rungs), *facts)]
        for layer, direction in self.directions(reverse=reverse).items():
            errors = [decimals(error_of(direction, name)) for name in self.rungs]
            best = direction.rungs[best_rung(direction.rungs)]
            beside = (best.name, decimals(chance_of(best)), r2_text(best.explained))
            rows.append((layer, *errors, *beside, told_rung(direction.verdict)))
        last = len(rows[0]) - 1
        return aligned(rows, left=(0, last - 3, last), optional=(facts[1], facts[0], facts[2]), width=width)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the data behind the figures of single layers, as plain data with a versioned schema."""
        told = super().to_dict() | {"unit": UNIT}
        for layer in told["layers"].values():
            for name in _UNWRITTEN:
                del layer[name]
        return told

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per layer and rung: the ladder of every layer, and whether the rung is the layer's verdict."""
        return [
            {"layer": layer, **row, "verdict": row["rung"] == direction.verdict.rung}
            for layer, direction in self.directions().items()
            for row in direction.frame_rows()
        ]

    def plot_matrix(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The held-out error of every rung in every layer; 1 is no better than the mean."""
        from .plots import matrix_of_layers

        return matrix_of_layers(ax, self, width)

    def notes(self) -> list[str]:
        """The first caveats, and how many more there are."""
        more = len(self.caveats) - _MOST_NOTES
        left = [f"{more} more {'notes are' if more > 1 else 'note is'} in the JSON and on the page"]
        return [*self.caveats[:_MOST_NOTES], *(left if more > 0 else [])]

    def __str__(self) -> str:
        return told(self.verdict, f"{wrapped(UNIT)}\n{self.table()}", notes=self.notes())


@one_blas_thread
def compare_layers(
    source_folder: str | Path,
    target_folder: str | Path,
    *,
    layers: str | Sequence[str] | None = None,
    groups: Any = None,
    within: Any = None,
    join: bool = False,
    in_chunks: bool = False,
    time_limit: float | Deadline | None = None,
    progress: Progress | None = None,
    preview: LayerPreview | None = None,
    **options: Any,
) -> LayerComparison:
    """Compare two models layer by layer: up to which transformation are they the same?

    Every layer of one folder is compared with the layer of the same name of the other, as :func:`isorep.compare` does.
    Row ids and groups are those of the folders, so that tokens of one document are held out and shuffled together.

    Parameters
    ----------
    source_folder, target_folder : str or Path
        Two folders that ``isorep extract`` has written from the same data, or other folders with one file per layer
        if ``layers`` names the files.
    layers : str or sequence of str, optional
        Layers to compare; both folders must have them. Default: all common layers, in the order of the source's model.
    groups : (n,) array or str, optional
        Groups of rows, as in :func:`isorep.compare`: labels, a column of the source's files, ``FILE::COLUMN`` or an npy
        file. Default: the groups stored in the source's folder, or in the target's where the source has none.
    within : (n,) array or str, optional
        Classes inside which rows are shuffled, as in :func:`isorep.compare`; given as for ``groups``.
    join : bool
        Align by row id; default: raise an error if order or rows differ.
    in_chunks : bool
        Process the rows in the workers of the current Dask cluster, as in :func:`isorep.read`; default: no.
    time_limit : float or Deadline, optional
        Seconds for all layers: each layer gets an equal share of the remaining time. Layers that were not started when
        a :class:`isorep.rows.Deadline` was stopped are left out.
    progress : callable, optional
        Called as in :func:`isorep.compare`, and with the stage ``layers``.
    preview : callable, optional
        Called with each layer and its held-out errors (without ICA), source onto target, as soon as they are known.
    **options
        Other options of :func:`isorep.compare`: ``rungs``, ``fast``, ``n_null`` and so on.

    Returns
    -------
    LayerComparison

    Examples
    --------
    >>> import numpy as np, torch, isorep, tempfile
    >>> X = np.random.default_rng(0).laplace(size=(200, 4)).astype("float32")
    >>> folders = [f"{tempfile.mkdtemp()}/seed{seed}" for seed in range(2)]
    >>> for folder in folders:
    ...     model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    ...     _ = isorep.extract(model, X, layers=["0", "1"], output=folder)
    >>> result = isorep.compare_layers(*folders, fast=True)
    >>> list(result.layers), result["1"].verdict.rung
    (['0', '1'], 'linear')
    """
    began, deadline = time.monotonic(), as_deadline(time_limit)
    wanted = [layers] if isinstance(layers, str) else layers
    a, b = open_layers(source_folder, wanted), open_layers(target_folder, wanted)
    common = [layer for layer in a.files if layer in b.files]
    if not common:
        held = (f"{each.path} has {', '.join(list(each.files)[:8]) or 'none'}" for each in (a, b))
        raise InputError(f"there is no layer that both folders have: {' and '.join(held)}")
    report = progress or no_progress
    names = told_apart([a.name, b.name], [a.path, b.path])
    if a.path.resolve() == b.path.resolve():
        names = [f"{a.name} (source)", f"{b.name} (target)"]
    found: dict[str, Comparison] = {}
    refused: dict[str, str] = {}
    begun = 0
    for layer in common:
        if deadline.stopped and found:
            break
        report("layers", begun, len(common))
        share = deadline.share(1 / (len(common) - begun))
        begun += 1
        try:
            used = [each for each in (groups, within) if isinstance(each, str)]
            (x, own), (y, other) = (each.read(layer, besides=used, in_chunks=in_chunks) for each in (a, b))
            given = labels(groups, a.files[layer]) if isinstance(groups, str) else groups
            told = None if preview is None else _preview_of(preview, layer)
            found[layer] = compare(
                replace(x, name=f"{names[0]}/{layer}"),
                replace(y, name=f"{names[1]}/{layer}"),
                groups=_groups(x, y, own, other, join) if given is None else given,
                within=labels(within, a.files[layer]) if isinstance(within, str) else within,
                join=join,
                time_limit=share,
                progress=progress,
                preview=told,
                **options,
            )
        except InputError as error:
            refused[layer] = str(error)
    report("layers", begun, len(common))
    if not found:
        raise InputError(next(iter(refused.values())))
    settings = [each.settings for each in found.values()]
    alike = {key: value for key, value in settings[0].items() if all(each[key] == value for each in settings)}
    only = [tuple(layer for layer in each.files if layer not in common) for each in (a, b)]
    left_out = tuple(common[begun:])
    return LayerComparison(
        names[0],
        names[1],
        layers=found,
        verdict=_verdict(found, common),
        settings={"folders": [str(a.path), str(b.path)], **alike, "time_limit": deadline.seconds},
        only_source=only[0],
        only_target=only[1],
        refused=refused,
        left_out=left_out,
        caveats=(
            *([f"the run was stopped; layers not started: {', '.join(left_out)}"] if left_out else []),
            *(
                f"only {name} has layer{'s' if len(each) > 1 else ''} {', '.join(each)}"
                for name, each in zip(names, only, strict=True)
                if each
            ),
            *(f"layer {layer} could not be compared: {why}" for layer, why in refused.items()),
            *_shared_notes(found, common, names),
        ),
        seconds=time.monotonic() - began,
    )


def error_of(direction: Direction, rung: str) -> float | None:
    """The held-out error of a rung, where the direction has it."""
    return direction.rungs[rung].held_out.mean if rung in direction.rungs else None


def chance_of(rung: Rung) -> float | None:
    """The mean error of shuffled pairings, where any were drawn."""
    return None if rung.null is None else rung.null.mean


def told_rung(verdict: Verdict) -> str:
    """The rung of a verdict; without one, whether no rung suffices or nothing could be judged."""
    word = verdict.rung or (UNJUDGED if verdict.sentence.startswith("No verdict") else NONE)
    return word if verdict.qualified is None else f"{word} (qualified)"


def _preview_of(preview: LayerPreview, layer: str) -> Callable[[dict[str, float]], None]:
    return lambda rungs: preview(layer, rungs)


def _groups(x: Representation, y: Representation, own: Array | None, other: Array | None, join: bool) -> Array | None:
    """The groups of the source's rows, from the target where the source has none."""
    if own is not None or other is None:
        return own
    match = match_rows(x, y, join=join)
    if match.source_rows is None:
        return other
    mine = np.full(len(x), other[0], dtype=other.dtype)  # rows without a partner are dropped, whatever their group
    mine[match.source_rows] = other[match.target_rows]
    return mine


def _verdict(found: dict[str, Comparison], common: Sequence[str]) -> Verdict:
    """Which rung suffices in which layers, and the errors of the best rungs."""
    verdicts = {layer: each.verdict for layer, each in found.items()}

    def where(layers: Collection[str]) -> str:
        if len(found) == 1:
            return f"the one layer compared, {next(iter(layers))}"
        which = _ranges(layers, common)
        return (
            f"all {len(found)} layers"
            if len(layers) == len(found)
            else f"{len(layers)} of {len(found)} layers ({which})"
        )

    by_rung = {rung: [layer for layer, each in verdicts.items() if each.rung == rung] for rung in RUNGS}
    by_rung = {rung: layers for rung, layers in by_rung.items() if layers}
    kinds = {layer: told_rung(each) for layer, each in verdicts.items()}
    none, unjudged = ([layer for layer, kind in kinds.items() if kind.startswith(word)] for word in (NONE, UNJUDGED))
    said = []
    if by_rung:
        listed = ", ".join(f"{rung} in {where(layers)}" for rung, layers in by_rung.items())
        said.append(f"The smallest rung that suffices is {listed}.")
    if none:
        said.append(f"No rung suffices in {where(none)}.")
    if unjudged:
        said.append(f"No verdict on {where(unjudged)}.")
    partly = [
        layer
        for layers in by_rung.values()
        for layer in layers
        if not _agree(found[layer].rungs[str(verdicts[layer].rung)])
    ]
    if partly:
        said.append(
            f"The two are partly related (R² below {AGREES:g} or an error above {PARTLY:g}) in {where(partly)}."
        )
    errors = {layer: each.rungs[best_rung(each.rungs)].held_out.mean for layer, each in found.items()}
    low, high = (pick(errors, key=lambda layer: errors[layer]) for pick in (min, max))
    least, most = decimals(errors[low], 3), decimals(errors[high], 3)
    ends = f"from {least} ({low}) to {most} ({high})" if low != high else least
    said.append(f"Held-out error of the best rung: {ends} mean distances to the mean.")
    weak = [layer for layer, each in verdicts.items() if each.qualified is not None]
    qualified = f"The verdict on {where(weak)} is qualified by the layer's own sentence." if weak else None
    same = len(by_rung) == 1 and not none and not unjudged
    return Verdict(
        next(iter(by_rung)) if same else None, " ".join([*said, *([qualified] if qualified else [])]), qualified
    )


def _agree(rung: Rung) -> bool:
    return agrees(rung.held_out.mean, rung.explained)


def _ranges(layers: Collection[str], common: Sequence[str]) -> str:
    """Layers in their order; three or more consecutive ones by the first and the last."""
    stretches: list[list[str]] = []
    before = -2
    for place, layer in enumerate(common):
        if layer in layers:
            if place == before + 1:
                stretches[-1].append(layer)
            else:
                stretches.append([layer])
            before = place
    return ", ".join(f"{each[0]} to {each[-1]}" if len(each) > 2 else ", ".join(each) for each in stretches)


def _shared_notes(found: dict[str, Comparison], common: Sequence[str], names: Sequence[str]) -> list[str]:
    """The notes on single layers, each once with the layers that it is about."""
    about: dict[str, list[str]] = {}
    for layer, each in found.items():
        for caveat in each.caveats:
            for side, name in zip((each.source, each.target), names, strict=True):
                caveat = caveat.replace(side.name, name)
            about.setdefault(caveat, []).append(layer)
    return [
        f"layer{'s' if len(layers) > 1 else ''} {_ranges(layers, common)}: {caveat}" for caveat, layers in about.items()
    ]
