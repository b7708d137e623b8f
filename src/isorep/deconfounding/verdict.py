"""The answer to "does ICA help on batches it has not seen?", by rule, and what to keep in mind about it.

Results as text for a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ica import ICA, Whitening
from ..ica.whitening import columns_left_out
from ..resampling import p_text
from ..results import Verdict, aligned
from .components import Component
from .inputs import Inputs, least_p
from .result import Condition, Deconfounding, Mean, PairedTest
from .transforms import TRANSDUCTIVE, WHITE, dimensions, quietly

if TYPE_CHECKING:
    from .work import Plan, Work

_LEVEL = 0.05


def judge(conditions: dict[str, Condition], tests: tuple[PairedTest, ...], classifier: str) -> Verdict:
    """ICA helps, or hurts, if its difference from Base is shown: corrected p at most 0.05, and an interval without 0.

    The test takes folds for independent, which they are not; the interval allows for the training rows they share.
    """
    against_base = next((test for test in tests if (test.condition, test.against) == ("pca_ica", "base")), None)
    if against_base is None:
        best = max(conditions.values(), key=lambda condition: condition.scores[classifier].auroc.value)
        value = best.scores[classifier].auroc.value
        said = f"Base and PCA+ICA were not both asked for; the highest AUROC on held-out batches is {value:.3f}"
        return Verdict("not asked", f"{said}, with {condition_name(best.name)}.")
    ica, base = (conditions[name].scores[classifier].auroc.value for name in ("pca_ica", "base"))
    answer = "not shown" if not _shown(against_base) else "helps" if against_base.difference > 0 else "hurts"
    opening = {"helps": "ICA helps", "hurts": "ICA hurts", "not shown": "ICA is not shown to help or to hurt"}[answer]
    interval = against_base.interval
    span = f"95 % interval {interval.low:+.3f} to {interval.high:+.3f}, " if interval else ""
    said = (
        f"{opening}: on held-out batches AUROC is {ica:.3f} with PCA+ICA and {base:.3f} without. The difference is "
        f"{against_base.difference:+.3f} ({span}corrected p {against_base.corrected:.2g} from {against_base.pairs} "
        f"{'pair' if against_base.pairs == 1 else 'pairs'})."
    )
    others = [test for test in tests if test.condition == "pca_ica" and test.against in ("pca", "pca_rand")]
    return Verdict(answer, said + "".join(f" {_beside(test)}" for test in others))


def _shown(test: PairedTest) -> bool:
    interval = test.interval
    return test.corrected <= _LEVEL and interval is not None and not interval.low <= 0 <= interval.high


def _beside(test: PairedTest) -> str:
    name = {"pca": "whitening alone", "pca_rand": "a random rotation"}[test.against]
    if _shown(test):
        return f"It is {'better' if test.difference > 0 else 'worse'} than {name} ({test.difference:+.3f})."
    return f"No difference from {name} is shown ({test.difference:+.3f}, corrected p {test.corrected:.2g})."


def collect_caveats(
    inputs: Inputs,
    work: Work,
    plan: Plan,
    tests: tuple[PairedTest, ...],
    model: ICA | None,
    components: tuple[Component, ...],
    n_seeds: int,
    each: bool,
) -> list[str]:
    """What limits these numbers, in sentences."""
    said = [*inputs.notes, *_about_data(inputs, plan)]
    back = [component.recurs for component in components if component.recurs is not None]
    if back and 2 * sum(back) < len(back):
        said.append(
            f"only {sum(back)} of {len(back)} components come back in refits: the others depend on which rows there are"
        )
    said += _about_dimensions(inputs, work, plan)
    if model is not None or any(name in WHITE for name in work.names):
        left_out = columns_left_out(model or quietly(Whitening(), inputs.values), inputs.name)
        said += [] if left_out is None else [left_out]
    transductive = [condition_name(name) for name in work.names if name in TRANSDUCTIVE]
    if transductive:
        words = f"{' and '.join(transductive)} {'need' if len(transductive) > 1 else 'needs'}"
        said.append(f"{words} the batch of held-out rows, which are corrected together with the training rows")
    if "centred" in work.mixings and work.mixings["centred"].batch_auroc < 0.5:
        said.append(
            "batch AUROC below 0.5 is a trace of centring: what is left of a mean in one half is missing in the other"
        )
    if work.fit_on == "all":
        said.append("transforms were fitted on all rows, held-out batches among them, though without labels")
    if "logistic" in work.classifiers and sum(name in WHITE for name in work.names) > 1:
        said.append("a linear classifier cannot tell rotations apart: PCA, PCA+ICA and PCA+Rand agree by construction")
    if work.mixings and sum(name in WHITE for name in work.names) > 1:
        said.append(
            "batch AUROC, silhouettes and mixing do not change under rotation: PCA, PCA+ICA and PCA+Rand share them"
        )
    if work.sample is None:
        said.append("there are not two batches of 10 rows, so how batches mix was not measured")
    if work.nothing_left:
        said.append(f"in {work.nothing_left} folds all components were batch-driven, and the least so was kept")
    said += _about_tests(tests, n_seeds, each or inputs.guides is not None)
    return said


def _about_data(inputs: Inputs, plan: Plan) -> list[str]:
    said = []
    if plan.left_out:
        named = ", ".join(plan.left_out[:5]) + (" and more" if len(plan.left_out) > 5 else "")
        said.append(
            f"{len(plan.left_out)} tasks were left out, because no split has both classes on both sides: {named}"
        )
    if plan.skipped:
        said.append(f"{plan.skipped} folds were left out of a task, because a class was missing on one side")
    label, batch = inputs.label, inputs.batch
    pairs = len(np.unique(label.codes * np.int64(batch.count) + batch.codes))
    if pairs == batch.count:
        said.append(f"every value of {batch.title} holds one value of {label.title}: effects of the two are confounded")
    return said


def _about_dimensions(inputs: Inputs, work: Work, plan: Plan) -> list[str]:
    said = []
    rows = min(fold.train_rows for fold in plan.facts) if work.fit_on == "train" else len(inputs.values)
    width = inputs.values.shape[1]
    kept = next((work.dimensions[name] for name in WHITE if name in work.dimensions), None)
    if kept is not None and kept < width and work.n_components is None and dimensions(rows, width, None) < width:
        said.append(
            f"whitening kept {kept} of {width} dimensions, a tenth of the rows it was fitted on: with more, single "
            "rows become components; n_components sets another number"
        )
    elif kept is not None and work.n_components == "all" and rows < 10 * kept:
        said.append(
            f"whitening kept {kept} dimensions of {rows} rows: noise is blown up, and single rows may be components"
        )
    if len({work.dimensions[name] for name in work.names}) > 1 and "lightgbm" in work.classifiers:
        said.append("Hoyer sparsity depends on the number of dimensions: compare it only between conditions of as many")
    return said


def _about_tests(tests: tuple[PairedTest, ...], n_seeds: int, shared_controls: bool) -> list[str]:
    said = []
    if tests and len(tests) * tests[0].least_p > _LEVEL:
        least = min(1.0, len(tests) * tests[0].least_p)
        said.append(
            f"{tests[0].pairs} pairs cannot give a corrected p below {least:.2g}: use more folds to show a difference"
        )
    if n_seeds > 1:
        said.append("pairs of other seeds share their rows, so p-values and standard errors are somewhat too small")
    if shared_controls:
        said.append("tasks share their control rows, so their scores are not independent")
    return said


NAMES = {
    "base": "Base",
    "pca": "PCA",
    "pca_ica": "PCA+ICA",
    "pca_rand": "PCA+Rand",
    "ica_base": "ICA on Base",
    "centred": "batch-centred",
    "harmony": "Harmony",
}


def condition_name(name: str) -> str:
    """A condition as the paper spells it."""
    return NAMES.get(name, name)


def conditions_table(result: Deconfounding) -> str:
    """Aligned text, one row a condition and classifier."""
    classifiers, shares = result.settings["classifiers"], [f"{share:g}" for share in result.settings["top"]]
    head = ["condition", *(["classifier"] if len(classifiers) > 1 else []), "dims", "AUROC", "AP", "Hoyer"]
    head += [f"conc@{share}" for share in shares] + ["batch AUROC", "mixed"]
    rows = [head]
    for name, condition in result.conditions.items():
        for classifier, summary in condition.scores.items():
            row = [condition_name(name), *([classifier] if len(classifiers) > 1 else []), str(condition.dimensions)]
            row += [_cell(summary.auroc), _cell(summary.average_precision), _cell(summary.hoyer)]
            found = summary.concentration
            row += [_cell(found[share].share if share in found else None) for share in shares]
            mixing = condition.mixing
            row += ["-", "-"] if mixing is None else [f"{mixing.batch_auroc:.3f}", f"{mixing.accepted:.2f}"]
            rows.append(row)
    return aligned(rows)


def tests_table(result: Deconfounding) -> str:
    """The paired tests."""
    rows = [["paired difference in AUROC", "mean", "95 % interval", "p", "corrected", "pairs"]]
    for test in result.tests:
        interval = f"[{test.interval.low:+.3f}, {test.interval.high:+.3f}]" if test.interval else "-"
        words = f"{condition_name(test.condition)} - {condition_name(test.against)}"
        rows.append(
            [
                words,
                f"{test.difference:+.4f}",
                interval,
                p_text(test.p_value, test.least_p),
                f"{test.corrected:.3g}",
                str(test.pairs),
            ]
        )
    return aligned(rows)


def as_text(result: Deconfounding) -> str:
    """Everything that fits a terminal."""
    parts = [conditions_table(result)]
    if result.tests:
        parts += ["", tests_table(result)]
    parts += ["", f"verdict: {result.verdict}"]
    if result.components:
        driven = sum(component.batch_driven for component in result.components)
        said = f"components: {driven} of {len(result.components)} are batch-driven"
        if result.components[0].recurs is not None:
            said += f"; {sum(bool(component.recurs) for component in result.components)} come back in refits"
        parts.append(said)
    if result.filtered is not None:
        found = result.filtered
        p = p_text(found.p_value, least_p(found.pairs, result.settings["test"]))
        parts.append(
            f"without batch-driven components ({found.dropped.value:.1f} a fold) AUROC is {found.auroc.value:.4f} "
            f"({found.difference:+.4f}, p {p} from {found.pairs} pairs)"
        )
    parts += [f"note: {caveat}" for caveat in result.caveats]
    return "\n".join(parts)


def _cell(mean: Mean | None) -> str:
    if mean is None or mean.n == 0:
        return "-"
    return f"{mean.value:.3f}" + ("" if mean.error is None else f" ± {mean.error:.3f}")
