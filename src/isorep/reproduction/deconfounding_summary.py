"""AUROC on held-out batches with and without ICA: tables with the published values, charts and claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from ..resampling import Interval, Value
from .deconfounding import AUROC, CONCENTRATION, CONDITIONS, CORRECTIONS, GENES, SPARSITY, Preset
from .experiment import Chart, Claim, Line, Mark, Outcome, Summary, Table
from .outcomes import cloud, mark, mean_of, over_cases, summary, table

KINDS = {"independent": "independent factors", "gaussian": "Gaussian factors"}
EFFECTS = KINDS | {
    "moved": "batches move all factors",
    "shape": "batches change shapes",
    "few": "8 controls per batch",
}
"""All kinds of simulated screens; the first two have the published measures, all have corrections by controls."""
ALONE = "-train_on_one"
PRIMARY = ("week", "standardised", "tenth")
"""How BBBC021 is split and reduced where it is judged."""
RIVALS = ("base", "pca_rand")
AXIS = "AUROC on held-out batches"
HIGHER = "higher is better"
GENES_MEAN = "RxRx3-core, mean of the genes"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    parts = Parts(preset, outcomes)
    return summary(claims_of(parts), tables(parts), charts(parts))


class Parts:
    """Outcomes by part: simulated screens by kind, genes of RxRx3-core, wells and mechanisms of BBBC021."""

    def __init__(self, preset: Preset, outcomes: Mapping[str, Outcome]) -> None:
        self.shares = preset.top
        self.share = 0.25 if 0.25 in preset.top else preset.top[0]
        folds = {key: each for key, each in outcomes.items() if not key.endswith(ALONE)}
        alone = {key.removesuffix(ALONE): each for key, each in outcomes.items() if key.endswith(ALONE)}
        self.screens = {kind: _screens(folds, kind) for kind in EFFECTS}
        self.genes, self.alone_genes = _genes(folds), _genes(alone)
        self.alone_screens = _screens(alone, "independent")
        wells = {case[:3]: outcomes.get(f"bbbc021-{'-'.join(case)}") for case in preset.wells if case[3] == "all"}
        self.wells = {case: outcome for case, outcome in wells.items() if outcome is not None}
        self.mechanisms: dict[str, Any] = outcomes.get(f"bbbc021-{'-'.join(PRIMARY)}-each", {}).get("tasks", {})

    def ceiling(self, kind: str) -> float:
        """The best AUROC that is possible, on average over screens."""
        return float(np.mean([screen["ceiling"] for screen in self.screens[kind]]))


def _screens(outcomes: Mapping[str, Outcome], kind: str) -> list[Outcome]:
    return [each for key, each in outcomes.items() if key.startswith(f"simulated-{kind}-")]


def _genes(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    found = {gene: outcomes.get(f"rxrx3-{gene}") for gene in GENES}
    return {gene: each for gene, each in found.items() if each is not None and not each.get("absent")}


def by_condition(conditions: Mapping[str, Any], measure: str) -> list[Value]:
    """Values with standard errors in the order of the conditions."""
    return [Value(conditions[name][measure]["value"], conditions[name][measure]["error"]) for name in CONDITIONS]


def means_of(outcomes: Iterable[Outcome], measure: str) -> list[Value]:
    """Means over screens or genes by condition; nothing where there are none."""
    rows = [by_condition(each["conditions"], measure) for each in outcomes]
    return [mean_of(value.mean for value in column) for column in zip(*rows, strict=True)]


def gain_over(outcomes: Iterable[Outcome], against: str, measure: str = "auroc") -> Value:
    """PCA + ICA minus another condition, over screens or genes."""
    pairs = [[each["conditions"][name][measure]["value"] for name in ("pca_ica", against)] for each in outcomes]
    return mean_of(ica - other for ica, other in pairs if ica is not None and other is not None)


def claims_of(parts: Parts) -> list[Claim]:
    """RxRx3-core first where it was run; sparsity and concentration are judged in the same part."""
    judged = {
        "RxRx3-core, new plates": list(parts.genes.values()),
        "simulated screens, independent factors": parts.screens["independent"],
    }
    if not any(judged.values()):
        judged = {
            "RxRx3-core, one training plate": list(parts.alone_genes.values()),
            "simulated screens, one training batch": parts.alone_screens,
        }
    better = {words: {name: gain_over(each, name) for name in RIVALS} for words, each in judged.items() if each}
    if PRIMARY in parts.wells:
        tests = {test["against"]: test for test in parts.wells[PRIMARY]["tests"]}
        better["BBBC021, new weeks"] = {name: _tested(tests.get(name)) for name in RIVALS}
    asked: list[tuple[str, dict[str, Value], dict[str, Any]]] = [
        (
            f"{words}: ICA transfers better to new batches than raw features and a random rotation",
            {f"AUROC of PCA + ICA minus that of {CONDITIONS[name]}": value for name, value in gains.items()},
            {"above": 0.0, "published": "0.732 against 0.690 and 0.703 in RxRx3-core (Table 3)"},
        )
        for words, gains in better.items()
    ]
    if parts.screens["gaussian"]:
        text = "simulated screens, Gaussian factors: there are no axes to find, and ICA does not help"
        gain = gain_over(parts.screens["gaussian"], "pca_rand")
        asked.append((text, {"AUROC of PCA + ICA minus that of PCA + Rand": gain}, {"most": 0}))
    asked += _against_corrections(parts)
    compared = {
        "hoyer": ("splits are sparser", "Hoyer sparsity", "0.254 against 0.226 in RxRx3-core (Table 3)"),
        f"share@{parts.share}": (
            "the signal is more concentrated",
            f"concentration in the top {100 * parts.share:g}%",
            "0.386 against 0.332 in RxRx3-core, top 25% (Table 4)",
        ),
    }
    for words, outcomes in [each for each in judged.items() if each[1]][:1]:
        asked += [
            (
                f"{words}: {what} with independent than with principal components",
                {f"{name} of PCA + ICA minus that of PCA": gain_over(outcomes, "pca", measure)},
                {"above": 0.0, "published": published},
            )
            for measure, (what, name, published) in compared.items()
        ]
    return [over_cases(text, cases, form=".3f±", **bounds) for text, cases, bounds in asked]


def _against_corrections(parts: Parts) -> list[tuple[str, dict[str, Value], dict[str, Any]]]:
    """Where ICA and corrections by controls should part: what controls show, and what few of them cannot tell."""
    by_controls, ica = ("control_z", "tvn"), ("pca_ica", "pca_ica")
    told = {
        "moved": ("corrections by controls of the new batch transfer better than ICA", by_controls, ica),
        "few": ("ICA transfers better than corrections by them", ica, by_controls),
    }
    names = CONDITIONS | CORRECTIONS
    asked: list[tuple[str, dict[str, Value], dict[str, Any]]] = []
    for kind, (words, higher, lower) in told.items():
        screens = [each["conditions"] | each["corrections"] for each in parts.screens[kind] if each.get("corrections")]
        gains = {
            f"AUROC of {names[one]} minus that of {names[other]}": mean_of(
                each[one]["auroc"]["value"] - each[other]["auroc"]["value"] for each in screens
            )
            for one, other in zip(higher, lower, strict=True)
        }
        if screens:
            asked.append((f"simulated screens, {EFFECTS[kind]}: {words}", gains, {"above": 0.0}))
    return asked


def _tested(test: Mapping[str, Any] | None) -> Value:
    """The difference that a test gave, judged by its interval: unknown without one."""
    if test is None or test["low"] is None or test["high"] is None:
        return Value(None)
    return Value(test["difference"], interval=Interval(test["low"], test["high"]))


def tables(parts: Parts) -> tuple[Table, ...]:
    """AUROC and sparsity of all parts, concentration, one training batch, and corrections by controls."""
    hoyer = ("hoyer", "Hoyer sparsity of the splits ± s.e.", "1: a single feature", "Table 3")
    return (
        _table(parts, "auroc", ("auroc", "AUROC on held-out batches ± s.e.", HIGHER, "Table 3"), AUROC),
        _table(parts, "hoyer", hoyer, SPARSITY),
        _concentration(parts),
        _alone(parts, "auroc", "AUROC on all other batches, trained on one, ± s.e.", HIGHER, AUROC),
        _alone(parts, "hoyer", "Hoyer sparsity of the splits, trained on one batch, ± s.e.", hoyer[2], SPARSITY),
        _corrections(parts),
    )


def _table(
    parts: Parts, measure: str, words: tuple[str, str, str, str], genes: Mapping[str, tuple[float, ...]]
) -> Table:
    rows = _gene_rows(parts.genes, measure)
    for kind in KINDS:
        if parts.screens[kind]:
            ceiling = f", at best {parts.ceiling(kind):.3f}" if measure == "auroc" else ""
            rows[f"simulated, {KINDS[kind]}{ceiling}"] = means_of(parts.screens[kind], measure)
    for case, outcome in parts.wells.items():
        rows[_well(case, outcome)] = by_condition(outcome["conditions"], measure)
    for mechanism, conditions in parts.mechanisms.items():
        rows[f"BBBC021 by week, {mechanism}"] = by_condition(conditions, measure)
    name, title, direction, source = words
    return table(name, title, direction, rows, tuple(CONDITIONS.values()), _published(genes), source)


def _concentration(parts: Parts) -> Table:
    """Table 7: the share of its first column is known, that of the others is not, so no row of ours stands beside."""
    rows: dict[str, list[Value]] = {}
    for share in parts.shares:
        measure, top = f"share@{share}", f"top {100 * share:g}%"
        rows[f"{GENES_MEAN}, {top}"] = means_of(parts.genes.values(), measure)
        for kind in KINDS:
            if parts.screens[kind]:
                rows[f"simulated, {KINDS[kind]}, {top}"] = means_of(parts.screens[kind], measure)
        for case, outcome in parts.wells.items():
            rows[f"{_well(case, outcome)}, {top}"] = by_condition(outcome["conditions"], measure)
    first, *others = CONCENTRATION
    published: dict[str, tuple[float | None, ...]] = {f"{GENES_MEAN}, top 25%": first}
    published |= {f"{GENES_MEAN}, column {at} of Table 7": values for at, values in enumerate(others, start=2)}
    rows = {name: [] for name in published} | rows
    title = "Concentration: share of the signal that the rest lacks, by the share of top features"
    return table("concentration", title, HIGHER, rows, tuple(CONDITIONS.values()), published, "Tables 4 and 7")


def _alone(parts: Parts, measure: str, title: str, direction: str, genes: Mapping[str, tuple[float, ...]]) -> Table:
    """Appendix A.7.4: the published values are those of Table 3, whose augmented version has no numbers in our copy."""
    rows = _gene_rows(parts.alone_genes, measure) if parts.alone_genes or parts.alone_screens else {}
    if parts.alone_screens:
        rows["simulated, independent factors"] = means_of(parts.alone_screens, measure)
    name, source = f"{measure}-train-on-one", "Table 3; protocol of appendix A.7.4"
    return table(name, title, direction, rows, tuple(CONDITIONS.values()), _published(genes), source)


def _corrections(parts: Parts) -> Table:
    """ICA and corrections by controls in simulated screens of all kinds."""
    names = CONDITIONS | CORRECTIONS
    rows = {}
    for kind, screens in parts.screens.items():
        values = _with_corrections(screens)
        if values:
            rows[f"simulated, {EFFECTS[kind]}, at best {parts.ceiling(kind):.3f}"] = values
    title = "AUROC on held-out batches ± s.e. with ICA and with corrections by controls"
    return table("corrections", title, HIGHER, rows, tuple(names.values()))


def _with_corrections(screens: list[Outcome]) -> list[Value]:
    """AUROC of all conditions and corrections, means over screens; nothing where corrections were not made."""
    if not screens or not all(screen.get("corrections") for screen in screens):
        return []
    both = [screen["conditions"] | screen["corrections"] for screen in screens]
    return [mean_of(each[name]["auroc"]["value"] for each in both) for name in CONDITIONS | CORRECTIONS]


def _gene_rows(found: Mapping[str, Outcome], measure: str) -> dict[str, list[Value]]:
    """The mean of the genes, then each; without values where a gene was not run."""
    rows = {GENES_MEAN: means_of(found.values(), measure)}
    for gene in GENES:
        rows[f"RxRx3-core, {gene}"] = by_condition(found[gene]["conditions"], measure) if gene in found else []
    return rows


def _published(genes: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float | None, ...]]:
    published: dict[str, tuple[float | None, ...]] = {f"RxRx3-core, {gene}": values for gene, values in genes.items()}
    return published | {GENES_MEAN: tuple(float(np.mean(each)) for each in zip(*genes.values(), strict=True))}


def _well(case: tuple[str, str, str], outcome: Outcome) -> str:
    batch, features, wanted = case
    dimensions = f"{'all ' if wanted == 'all' else ''}{outcome['dimensions']['pca_ica']} dimensions"
    return f"BBBC021, new {batch}s, {features}, {dimensions}"


def charts(parts: Parts) -> tuple[Chart, ...]:
    """One figure for each part that was run."""
    mechanisms = ", ".join(f"{number} {name}" for number, name in enumerate(parts.mechanisms, start=1))
    return (
        Chart(
            "simulated",
            "Simulated screens",
            "Mean over screens with its standard error. The tick is the best that is possible: the likelihood ratio of "
            "the true biological factors. Gaussian factors have no axes to find.",
            (AXIS, ""),
            marks=tuple(_screen_marks(parts)),
            bound="best possible",
        ),
        Chart(
            "corrections",
            "ICA and corrections by controls in simulated screens",
            "Mean over screens with its standard error; the tick is the best that is possible. Controls of a new batch "
            "show how it moves all factors, and no rotation removes that. Eight controls per batch are too few for a "
            "correction, and ICA uses all rows.",
            (AXIS, ""),
            marks=tuple(_correction_marks(parts)),
            bound="best possible",
        ),
        Chart(
            "bbbc021",
            "BBBC021: treated wells against DMSO",
            "Mean over held-out weeks or plates with its standard error, standardised features, and the number of "
            "dimensions. With all dimensions of so few wells, single wells become components.",
            (AXIS, ""),
            marks=tuple(_well_marks(parts)),
        ),
        Chart(
            "bbbc021-mechanisms",
            "BBBC021: each mechanism against DMSO, new weeks",
            f"Mean AUROC over the weeks that hold the mechanism; their compounds are new, too. {mechanisms}.",
            ("mechanism", AXIS),
            lines=tuple(_lines(parts.mechanisms, dotted=True)),
            ticks=tuple((float(number), str(number)) for number in range(1, len(parts.mechanisms) + 1)),
        ),
        Chart(
            "rxrx3",
            "RxRx3-core: genes against untreated wells, new plates",
            "Lines: obtained from the published embeddings of wells. Dots: published, from one patch per image.",
            ("gene", AXIS),
            lines=tuple(_lines({gene: each["conditions"] for gene, each in parts.genes.items()}, published=AUROC)),
            ticks=tuple((float(number), gene) for number, gene in enumerate(parts.genes, start=1)),
        ),
    )


def _screen_marks(parts: Parts) -> Iterable[Mark]:
    for kind in KINDS:
        values = means_of(parts.screens[kind], "auroc")
        for place, (name, value) in enumerate(zip(CONDITIONS.values(), values, strict=False)):
            yield from mark(f"{name}, {KINDS[kind].split()[0]}", value, place, parts.ceiling(kind))


def _correction_marks(parts: Parts) -> Iterable[Mark]:
    names = CONDITIONS | CORRECTIONS
    for kind, word in (("moved", "all moved"), ("few", "8 controls")):
        for place, (name, value) in enumerate(
            zip(names.values(), _with_corrections(parts.screens[kind]), strict=False)
        ):
            yield from mark(f"{name}, {word}", value, place, parts.ceiling(kind))


def _well_marks(parts: Parts) -> Iterable[Mark]:
    for batch, wanted in product(("week", "plate"), ("tenth", "all")):
        outcome = parts.wells.get((batch, "standardised", wanted), {})
        for place, value in enumerate(by_condition(outcome["conditions"], "auroc") if outcome else ()):
            condition, name = list(CONDITIONS.items())[place]
            if condition != "base" or wanted != "all":  # raw features have no dimensions to choose
                yield from mark(f"{name}, {batch}s, {outcome['dimensions'][condition]}", value, place)


def _lines(
    by_name: Mapping[str, Any], dotted: bool = False, published: Mapping[str, tuple[float, ...]] | None = None
) -> Iterable[Line]:
    """AUROC of mechanisms or genes by condition; published values as dots of the same colour."""
    for place, name in enumerate(CONDITIONS.values()):
        values = {each: by_condition(conditions, "auroc")[place].mean for each, conditions in by_name.items()}
        known = [(float(at), value, each) for at, (each, value) in enumerate(values.items(), 1) if value is not None]
        if known:
            labels = [f"{each}: {value:.3f}" for _, value, each in known]
            yield replace(cloud([(at, value) for at, value, _ in known], name, place, labels), dotted=dotted)
            if published:
                told = [(at, published[each][place]) for at, each in enumerate(by_name, start=1)]
                words = [f"{each}, published: {published[each][place]:.3f}" for each in by_name]
                yield cloud(told, f"{name}, published", place, words)
