"""The answer to "does ICA help on batches it has not seen?", by rule, and what to keep in mind about it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ica import ICA, Whitening
from ..ica.whitening import columns_left_out
from ..results import Verdict
from .components import Component
from .evaluation import Asked, Evaluation, Plan
from .inputs import Inputs
from .result import Condition, PairedTest
from .transforms import TRANSDUCTIVE, WHITE, condition_name, dimensions, quietly

Caveats = list[tuple[Any, str]]  # whether a sentence applies, and the sentence

LEVEL = 0.05


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
    return test.corrected <= LEVEL and interval is not None and not interval.low <= 0 <= interval.high


def _beside(test: PairedTest) -> str:
    name = {"pca": "whitening alone", "pca_rand": "a random rotation"}[test.against]
    if _shown(test):
        return f"It is {'better' if test.difference > 0 else 'worse'} than {name} ({test.difference:+.3f})."
    return f"No difference from {name} is shown ({test.difference:+.3f}, corrected p {test.corrected:.2g})."


def collect_caveats(
    inputs: Inputs,
    asked: Asked,
    plan: Plan,
    found: Evaluation,
    tests: tuple[PairedTest, ...],
    model: ICA | None,
    components: tuple[Component, ...],
) -> list[str]:
    """What limits these numbers, in sentences."""
    back = [component.recurs for component in components if component.recurs is not None]
    white = sum(name in WHITE for name in asked.names)
    transductive = [condition_name(name) for name in asked.names if name in TRANSDUCTIVE]
    centred = found.mixings.get("centred")
    left_out = columns_left_out(model or quietly(Whitening(), inputs.values), inputs.name) if white else None
    said = [
        (
            back and 2 * sum(back) < len(back),
            f"only {sum(back)} of {len(back)} components come back in refits: the others depend on which rows there "
            "are",
        ),
        *_about_dimensions(inputs, asked, plan, found),
        (left_out, left_out or ""),
        (
            transductive,
            f"{' and '.join(transductive)} {'need' if len(transductive) > 1 else 'needs'} the batch of held-out rows, "
            "which are corrected together with the training rows",
        ),
        (
            centred is not None and centred.batch_auroc < 0.5,
            "batch AUROC below 0.5 is a trace of centring: what is left of a mean in one half is missing in the other",
        ),
        (
            asked.fit_on == "all",
            "transforms were fitted on all rows, held-out batches among them, though without labels",
        ),
        (
            "logistic" in asked.classifiers and white > 1,
            "a linear classifier cannot tell rotations apart: PCA, PCA+ICA and PCA+Rand agree by construction",
        ),
        (
            found.mixings and white > 1,
            "batch AUROC, silhouettes and mixing do not change under rotation: PCA, PCA+ICA and PCA+Rand share them",
        ),
        (not found.mixings, "there are not two batches of 10 rows, so how batches mix was not measured"),
        (
            found.nothing_left,
            f"in {found.nothing_left} folds all components were batch-driven, and the least so was kept",
        ),
        *_about_tests(tests, plan, inputs),
    ]
    return [*inputs.notes, *(sentence for applies, sentence in (*_about_data(inputs, plan), *said) if applies)]


def _about_data(inputs: Inputs, plan: Plan) -> Caveats:
    label, batch, lost = inputs.label, inputs.batch, plan.left_out
    named = ", ".join(lost[:5]) + (" and more" if len(lost) > 5 else "")
    pairs = len(np.unique(label.codes * np.int64(batch.count) + batch.codes))
    return [
        (lost, f"{len(lost)} tasks were left out, because no split has both classes on both sides: {named}"),
        (plan.skipped, f"{plan.skipped} folds were left out of a task, because a class was missing on one side"),
        (
            pairs == batch.count,
            f"every value of {batch.title} holds one value of {label.title}: effects of the two are confounded",
        ),
    ]


def _about_dimensions(inputs: Inputs, asked: Asked, plan: Plan, found: Evaluation) -> Caveats:
    rows = min(fold.train_rows for fold in plan.facts) if asked.fit_on == "train" else len(inputs.values)
    width = inputs.values.shape[1]
    kept = next((found.dimensions[name] for name in WHITE if name in found.dimensions), width)
    return [
        (
            kept < width and asked.n_components is None and dimensions(rows, width, None) < width,
            f"whitening kept {kept} of {width} dimensions, a tenth of the rows it was fitted on: with more, single "
            "rows become components; n_components sets another number",
        ),
        (
            any(name in WHITE for name in asked.names) and asked.n_components == "all" and rows < 10 * kept,
            f"whitening kept {kept} dimensions of {rows} rows: noise is blown up, and single rows may be components",
        ),
        (
            len(set(found.dimensions.values())) > 1 and "lightgbm" in asked.classifiers,
            "Hoyer sparsity depends on the number of dimensions: compare it only between conditions of as many",
        ),
    ]


def _about_tests(tests: tuple[PairedTest, ...], plan: Plan, inputs: Inputs) -> Caveats:
    least = len(tests) * tests[0].least_p if tests else 0.0
    pairs = tests[0].pairs if tests else 0
    return [
        (
            least > LEVEL,
            f"{pairs} pairs cannot give a corrected p below {min(1.0, least):.2g}: use more folds to show a difference",
        ),
        (
            len({fold.seed for fold in plan.facts}) > 1,
            "pairs of other seeds share their rows, so p-values and standard errors are somewhat too small",
        ),
        (
            plan.each or inputs.guides is not None,
            "tasks share their control rows, so their scores are not independent",
        ),
    ]
