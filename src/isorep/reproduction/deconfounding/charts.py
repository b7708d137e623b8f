"""The figures of the experiment, as plain numbers."""

from __future__ import annotations

from ..experiment import Chart, Line, Mark
from .published import AUROC, CONDITIONS, GENES
from .reading import KINDS, Reading

AXIS = "AUROC on held-out batches"


def charts(reading: Reading) -> tuple[Chart, ...]:
    """One figure for each part that was run."""
    drawn = (_simulated(reading), _dimensions(reading), _mechanisms(reading), _genes(reading))
    return tuple(chart for chart in drawn if chart is not None)


def _simulated(reading: Reading) -> Chart | None:
    marks = []
    for kind, words in KINDS.items():
        if not reading.screens(kind):
            continue
        values, errors = reading.screens_mean(kind, "auroc")
        ceiling = reading.ceiling(kind)
        for place, name in enumerate(CONDITIONS.values()):
            mark = _mark(f"{name}, {words.split()[0]}", values[place], errors[place], place, ceiling)
            marks += [mark] if mark else []
    if not marks:
        return None
    return Chart(
        "simulated",
        "Simulated screens",
        "Mean over screens with its standard error. The tick is the best that is possible: the likelihood ratio of the "
        "true biological factors. Gaussian factors have no axes to find.",
        (AXIS, ""),
        marks=tuple(marks),
        bound="best possible",
    )


def _dimensions(reading: Reading) -> Chart | None:
    marks = []
    for batch, dimensions in (("week", "tenth"), ("week", "all"), ("plate", "tenth"), ("plate", "all")):
        outcome = reading.well(batch, "standardised", dimensions)
        if outcome is None:
            continue
        values, errors = reading.conditions(outcome["conditions"], "auroc")
        for place, (condition, name) in enumerate(CONDITIONS.items()):
            if condition == "base" and dimensions == "all":
                continue  # it has no dimensions to choose
            mark = _mark(f"{name}, {batch}s, {outcome['dimensions'][condition]}", values[place], errors[place], place)
            marks += [mark] if mark else []
    if not marks:
        return None
    return Chart(
        "bbbc021",
        "BBBC021: treated wells against DMSO",
        "Mean over held-out weeks or plates with its standard error, standardised features, and the number of "
        "dimensions. All dimensions of so few wells make single wells into components.",
        (AXIS, ""),
        marks=tuple(marks),
    )


def _mechanisms(reading: Reading) -> Chart | None:
    names = list(reading.mechanisms)
    lines = []
    for place, (condition, name) in enumerate(CONDITIONS.items()):
        found = [reading.mechanisms[each][condition]["auroc"]["value"] for each in names]
        kept = [(number, value) for number, value in enumerate(found, start=1) if value is not None]
        labels = tuple(f"{names[number - 1]}: {value:.3f}" for number, value in kept)
        if kept:
            lines.append(Line(name, tuple((float(n), v) for n, v in kept), labels, place, dotted=True))
    if not lines:
        return None
    listed = ", ".join(f"{number} {name}" for number, name in enumerate(names, start=1))
    return Chart(
        "bbbc021-mechanisms",
        "BBBC021: each mechanism against DMSO, new weeks",
        f"Mean AUROC over the weeks that hold the mechanism; their compounds are new, too. {listed}.",
        ("mechanism", AXIS),
        lines=tuple(lines),
        ticks=tuple((float(number), str(number)) for number in range(1, len(names) + 1)),
    )


def _genes(reading: Reading) -> Chart | None:
    """Obtained with lines, published as dots, in the same colours."""
    lines = []
    run = [gene for gene in GENES if reading.gene(gene, "auroc")[0]]
    for place, name in enumerate(CONDITIONS.values()):
        obtained = [(number, reading.gene(gene, "auroc")[0][place]) for number, gene in enumerate(run, start=1)]
        kept = [(float(number), value) for number, value in obtained if value is not None]
        if kept:
            labels = tuple(f"{run[int(number) - 1]}: {value:.3f}" for number, value in kept)
            lines.append(Line(name, tuple(kept), labels, place))
            told = tuple((float(number), AUROC[gene][place]) for number, gene in enumerate(run, start=1))
            words = tuple(f"{gene}, published: {AUROC[gene][place]:.3f}" for gene in run)
            lines.append(Line(f"{name}, published", told, words, place, dotted=True))
    if not lines:
        return None
    return Chart(
        "rxrx3",
        "RxRx3-core: genes against untreated wells, new plates",
        "Lines: obtained from the published embeddings of wells. Dots: published, from one patch an image.",
        ("gene", AXIS),
        lines=tuple(lines),
        ticks=tuple((float(number), gene) for number, gene in enumerate(run, start=1)),
    )


def _mark(name: str, value: float | None, error: float | None, series: int, bound: float | None = None) -> Mark | None:
    if value is None:
        return None
    if error is None:
        return Mark(name, value, bound=bound, series=series)
    return Mark(name, value, max(value - error, 0.0), value + error, bound, series)
