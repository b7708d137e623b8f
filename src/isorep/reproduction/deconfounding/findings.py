"""Where ICA helps and where it does not, in sentences made by rule from the numbers."""

from __future__ import annotations

import numpy as np

from ..experiment import Outcome
from .published import CONDITIONS, LEFT_OPEN
from .reading import PRIMARY, Reading


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
    found = [*_simulated(reading), *_sparsity(reading), *_wells(reading), *_mechanisms(reading), LEFT_OPEN]
    return tuple(found)


def _simulated(reading: Reading) -> list[str]:
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


def _mechanisms(reading: Reading) -> list[str]:
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
