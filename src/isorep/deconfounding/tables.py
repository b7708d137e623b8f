"""Results as text for a terminal."""

from __future__ import annotations

from ..resampling import p_text
from ..results import aligned
from .pairing import least_p
from .result import Deconfounding, Mean

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
