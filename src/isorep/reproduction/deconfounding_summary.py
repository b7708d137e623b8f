"""Where ICA helps and where it does not, in sentences made by rule from the numbers.

The figures of the experiment, as plain numbers.

The outcomes of the units, by part: what tables, figures and findings read from.

Outcomes of the units as tables beside the published ones, figures, findings and a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .deconfounding import AUROC, CONCENTRATION, CONDITIONS, GENES, LEFT_OPEN, SPARSITY, Preset
from .experiment import Chart, Line, Mark, Outcome, Row, Summary, Table


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """The answer, and whether the published effect (PCA + ICA above Base and PCA + Rand) was seen: all, part, none."""
    simulated = _above(reading.differences("independent", "base")) and _above(
        reading.differences("independent", "pca_rand")
    )
    values, _ = reading.screens_mean("independent", "auroc")
    said = [
        f"In simulated screens with independent factors ICA {'carries' if simulated else 'does not carry'} over better "
        "to new batches",
        f"Their AUROC is {_change(values)}, at best {reading.ceiling('independent'):.3f}",
    ]
    seen = [simulated]
    wells = reading.well(*PRIMARY)
    if wells is not None:
        helps = _helps(wells)
        seen.append(helps)
        values, _ = reading.conditions(wells["conditions"], "auroc")
        worse = wells["answer"] == "hurts"
        words = "does, too" if helps else "does worse than the raw features" if worse else "is not shown to"
        said.append(f"In BBBC021 with new weeks it {words} ({_change(values)})")
    if reading.genes():
        values, _ = reading.genes_mean("auroc")
        helps = values[2] is not None and values[2] > max(value or 0.0 for value in (values[0], values[3]))
        seen.append(helps)
        said.append(f"In RxRx3-core with new plates it {'does, too' if helps else 'does not'} ({_change(values)})")
    return ". ".join(said) + ".", True if all(seen) else None if any(seen) else False


def findings(reading: Reading) -> tuple[str, ...]:
    """One sentence or two on each question, for parts that were run."""
    found = [
        *_simulated_finding(reading),
        *_sparsity(reading),
        *_wells(reading),
        *_mechanisms_finding(reading),
        LEFT_OPEN,
    ]
    return tuple(found)


def _simulated_finding(reading: Reading) -> list[str]:
    gains, turns = reading.differences("independent", "base"), reading.differences("independent", "pca_rand")
    said = [
        f"Simulated, independent factors: PCA + ICA differs from Base by {_mean(gains)} and from PCA + Rand by "
        f"{_mean(turns)} AUROC (mean ± s.e.; screens: {len(gains)}). A single independent component follows an "
        f"affected factor with correlation {reading.alignment('independent', 'pca_ica'):.2f}, the best single raw "
        f"feature with {reading.alignment('independent', 'base'):.2f}."
    ]
    gaussian = reading.differences("gaussian", "pca_rand")
    if gaussian:
        helps = _above(gaussian)
        said.append(
            f"Simulated, Gaussian factors: PCA + ICA differs from PCA + Rand by {_mean(gaussian)} AUROC. "
            + (
                "That is more than the theory allows for, as Gaussian factors have no axes to find."
                if helps
                else "As the theory says, Gaussian factors have no axes to find, and ICA does not help."
            )
        )
    return said


def _sparsity(reading: Reading) -> list[str]:
    values, _ = reading.screens_mean("independent", "hoyer")
    if not values or values[1] is None or values[2] is None or values[1] <= values[2]:
        return []
    return [
        "Sparsity does not say what carries over: in the simulated screens splits on principal components are the "
        f"sparsest ({values[1]:.3f}, independent components {values[2]:.3f}), yet they predict less well in new "
        "batches. The leading principal components are batch axes there."
    ]


def _wells(reading: Reading) -> list[str]:
    said = []
    for batch, words in (("week", "new weeks"), ("plate", "new plates")):
        found = reading.well(batch, *PRIMARY[1:])
        if found is not None:
            tests = {test["against"]: test for test in found["tests"]}
            parts = [
                f"{_signed(tests[name]['difference'])} against {CONDITIONS[name]} "
                f"(95 % interval {_signed(tests[name]['low'])} to {_signed(tests[name]['high'])})"
                for name in ("base", "pca_rand")
                if name in tests
            ]
            answer = {"helps": "ICA helps", "hurts": "ICA hurts"}.get(found["answer"], "ICA is not shown to help")
            said.append(f"BBBC021, {words}: {answer}; AUROC of PCA + ICA: {' and '.join(parts)}.")
    tenth, every = reading.well(*PRIMARY), reading.well(*PRIMARY[:2], "all")
    if tenth is not None and every is not None:
        few, many = (outcome["conditions"]["pca_ica"]["auroc"]["value"] for outcome in (tenth, every))
        said.append(
            f"BBBC021 has few wells for its features. With all {every['dimensions']['pca_ica']} dimensions whitened, "
            f"{every['single_wells']:.0%} of the independent components are single wells, and the AUROC of PCA + ICA "
            f"is {many:.3f}; with {tenth['dimensions']['pca_ica']} dimensions, a tenth of the training wells, "
            f"{tenth['single_wells']:.0%} are, and it is {few:.3f}."
        )
    return said


def _mechanisms_finding(reading: Reading) -> list[str]:
    rows = [reading.conditions(found, "auroc")[0] for found in reading.mechanisms.values()]
    whole = [tuple(value for value in row if value is not None) for row in rows]
    whole = [row for row in whole if len(row) == len(CONDITIONS)]
    if not whole:
        return []
    over = {place: sum(row[2] > row[place] for row in whole) for place in (0, 1, 3)}
    means = tuple(float(value) for value in np.mean(whole, axis=0))
    return [
        f"BBBC021, each mechanism with new weeks: mean AUROC {_change(means)}. PCA + ICA is above Base in {over[0]} of "
        f"{len(whole)} mechanisms, above PCA in {over[1]} and above PCA + Rand in {over[3]}. Every compound was used "
        "in one week only, so a new week also means new compounds: a low value may be other biology as well as another "
        "batch."
    ]


def _helps(outcome: Outcome) -> bool:
    """PCA + ICA above Base and PCA + Rand, with intervals that leave out zero."""
    tests = {test["against"]: test for test in outcome["tests"]}
    lows = [tests[name]["low"] for name in ("base", "pca_rand") if name in tests]
    return len(lows) == 2 and all(low is not None and low > 0 for low in lows)


def _above(differences: list[float]) -> bool:
    """A mean above zero by two standard errors; with a single screen, its sign."""
    if not differences:
        return False
    if len(differences) == 1:
        return differences[0] > 0
    return float(np.mean(differences)) > 2 * float(np.std(differences, ddof=1) / np.sqrt(len(differences)))


def _change(values: tuple[float | None, ...]) -> str:
    return ", ".join(
        f"{name} {value:.3f}" for name, value in zip(CONDITIONS.values(), values, strict=True) if value is not None
    )


def _mean(differences: list[float]) -> str:
    if len(differences) < 2:
        return _signed(differences[0]) if differences else "nothing"
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    return f"{_signed(float(np.mean(differences)))} ± {error:.3f}"


def _signed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+.3f}".replace("-", "−")


AXIS = "AUROC on held-out batches"


def charts(reading: Reading) -> tuple[Chart, ...]:
    """One figure for each part that was run."""
    drawn = (_simulated_chart(reading), _dimensions_chart(reading), _mechanisms_chart(reading), _genes(reading))
    return tuple(chart for chart in drawn if chart is not None)


def _simulated_chart(reading: Reading) -> Chart | None:
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


def _dimensions_chart(reading: Reading) -> Chart | None:
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


def _mechanisms_chart(reading: Reading) -> Chart | None:
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


KINDS = {"independent": "independent factors", "gaussian": "Gaussian factors"}
PRIMARY = ("week", "standardised", "tenth")
"""How BBBC021 is split and reduced in the headline."""

Values = tuple[float | None, ...]


class Reading:
    """Outcomes of one run, some of which may be missing."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self._outcomes = outcomes
        self.headline_share = 0.25 if 0.25 in preset.top else preset.top[0]
        self.wells = {
            f"new {batch}s, {features}, {_dimensions(outcome, dimensions)}": outcome
            for batch, features, dimensions, task in preset.wells
            if task == "all" and (outcome := outcomes.get(f"bbbc021-{batch}-{features}-{dimensions}-{task}"))
        }
        each = outcomes.get(f"bbbc021-{'-'.join(PRIMARY)}-each", {})
        self.mechanisms: dict[str, Any] = each.get("tasks", {})

    def screens(self, kind: str) -> list[Outcome]:
        """The simulated screens of a kind."""
        return [outcome for key, outcome in self._outcomes.items() if key.startswith(f"simulated-{kind}-")]

    def screens_mean(self, kind: str, measure: str) -> tuple[Values, Values]:
        """Means over screens with their standard errors, by condition."""
        return _means([self.conditions(screen["conditions"], measure)[0] for screen in self.screens(kind)])

    def ceiling(self, kind: str) -> float:
        """The best AUROC that is possible, on average over screens."""
        return float(np.mean([screen["ceiling"] for screen in self.screens(kind)]))

    def alignment(self, kind: str, condition: str) -> float:
        """How far single features follow the affected factors, on average over screens."""
        return float(np.mean([screen["alignment"][condition] for screen in self.screens(kind)]))

    def differences(self, kind: str, against: str) -> list[float]:
        """AUROC of PCA + ICA less that of another condition, for each screen."""
        pairs = [
            (screen["conditions"]["pca_ica"]["auroc"]["value"], screen["conditions"][against]["auroc"]["value"])
            for screen in self.screens(kind)
        ]
        return [first - second for first, second in pairs if first is not None and second is not None]

    def well(self, batch: str, features: str, dimensions: str) -> Outcome | None:
        """BBBC021, all treated wells, split and reduced in one way."""
        return self._outcomes.get(f"bbbc021-{batch}-{features}-{dimensions}-all")

    def genes(self) -> list[Outcome]:
        """The genes of RxRx3-core that were run and found."""
        found = [self._outcomes.get(f"rxrx3-{gene}") for gene in GENES]
        return [outcome for outcome in found if outcome is not None and not outcome.get("absent")]

    def gene(self, gene: str, measure: str) -> tuple[Values, Values]:
        """A gene's values and errors; nothing where it was not run."""
        outcome = self._outcomes.get(f"rxrx3-{gene}")
        if outcome is None or outcome.get("absent"):
            return (), ()
        return self.conditions(outcome["conditions"], measure)

    def genes_mean(self, measure: str) -> tuple[Values, Values]:
        """Means over genes with their standard errors."""
        return _means([self.conditions(outcome["conditions"], measure)[0] for outcome in self.genes()])

    @staticmethod
    def conditions(found: Mapping[str, Any], measure: str) -> tuple[Values, Values]:
        """Values and standard errors in the order of the conditions."""
        values = tuple(found[name][measure]["value"] for name in CONDITIONS)
        return values, tuple(found[name][measure]["error"] for name in CONDITIONS)


def _means(rows: list[Values]) -> tuple[Values, Values]:
    """Means of columns and standard errors of these; what is missing in a row is left out."""
    if not rows:
        return (), ()
    means, errors = [], []
    for column in zip(*rows, strict=True):
        known = [value for value in column if value is not None]
        means.append(float(np.mean(known)) if known else None)
        errors.append(float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None)
    return tuple(means), tuple(errors)


def _dimensions(outcome: Outcome, wanted: str) -> str:
    return f"{'all ' if wanted == 'all' else ''}{outcome['dimensions']['pca_ica']} dimensions"


HIGHER = "higher is better"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=(
            _table(reading, "auroc", "AUROC on held-out batches ± s.e.", HIGHER, "Table 3", AUROC),
            _table(reading, "hoyer", "Hoyer sparsity of the splits ± s.e.", "1: a single feature", "Table 3", SPARSITY),
            _concentration(reading),
        ),
        charts=charts(reading),
        findings=findings(reading),
    )


def _table(
    reading: Reading, measure: str, title: str, direction: str, source: str, published: Mapping[str, tuple[float, ...]]
) -> Table:
    means = tuple(float(np.mean([published[gene][place] for gene in GENES])) for place in range(len(CONDITIONS)))
    rows = [Row("RxRx3-core, mean of the genes", *reading.genes_mean(measure), means)]
    rows += [Row(f"RxRx3-core, {gene}", *reading.gene(gene, measure), published[gene]) for gene in GENES]
    rows += _obtained(reading, measure)
    return Table(measure, title, tuple(CONDITIONS.values()), tuple(rows), direction, source)


def _concentration(reading: Reading) -> Table:
    measure = f"share@{reading.headline_share}"
    genes = Row("RxRx3-core, mean of the genes", *reading.genes_mean(measure), CONCENTRATION)
    rows = [genes, *_obtained(reading, measure)]
    title = f"Concentration: share of the signal that the rest lacks, top {reading.headline_share:.0%} of the features"
    return Table("concentration", title, tuple(CONDITIONS.values()), tuple(rows), HIGHER, "Table 4")


def _obtained(reading: Reading, measure: str) -> list[Row]:
    rows = []
    for kind, words in KINDS.items():
        if reading.screens(kind):
            ceiling = f", at best {reading.ceiling(kind):.3f}" if measure == "auroc" else ""
            rows.append(Row(f"simulated, {words}{ceiling}", *reading.screens_mean(kind, measure)))
    for words, outcome in reading.wells.items():
        rows.append(Row(f"BBBC021, {words}", *reading.conditions(outcome["conditions"], measure)))
    for mechanism, conditions in reading.mechanisms.items():
        rows.append(Row(f"BBBC021 by week, {mechanism}", *reading.conditions(conditions, measure)))
    return rows
