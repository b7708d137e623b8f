"""The rung up to which each objective recovers known latents, with assumptions kept and broken, and over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..resampling import Value
from .experiment import Chart, Claim, Outcome, Summary, Table
from .inversion import KEPT, OBJECTIVES, RUNGS, SCENE, WORDS, Preset
from .outcomes import LOWEST, claim, cloud, conjunction, estimate, over_cases, over_pairs, summary, table

RECOVERED = 0.9
"""Least held-out R² at which latents count as recovered, or trainings as agreeing, up to a rung."""
TOLERANCE = 0.03
"""Most R² that a smaller group may lose against linear maps: in few dimensions any rotation is near a permutation."""
MEASURES = {"signed_permutation": "signed perm.", "rigid": "rigid", "linear": "linear", "ica": "ICA, signed perm."}
SHORT = {"signed_permutation": "perm", "rigid": "rigid", "linear": "linear", None: "none"}
PARTS = {"truth": "the latents", "pairs": "another training"}
MOST = 0.5
"""Share of broken settings that must still reach the group, if recovery is to survive."""


class Cell:
    """One objective in one setting."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.objective, self.setting = OBJECTIVES[outcome["objective"]], outcome["setting"]
        self.promised: str | None = outcome["promised"]
        self.words = f"{self.objective.words}, {WORDS[self.setting]}"

    @property
    def broken(self) -> bool:
        """Whether an assumption is broken."""
        return self.setting not in (KEPT, SCENE)

    def share(self, part: str, measure: str) -> Value:
        """Mean held-out R² over trainings, or over their pairs (jackknifed over trainings); below -1 counts as -1."""
        found = self.outcome[part]
        if part == "pairs":
            values = {(each["first"], each["second"]): max(each[measure], LOWEST) for each in found}
            return Value(*over_pairs(values))
        return estimate(max(each[measure], LOWEST) for each in found)

    def reaches(self, part: str, rung: str) -> bool:
        """Whether the mean R² of a rung is large enough, and hardly below that of linear maps."""
        found, linear = (self.share(part, each).mean or 0.0 for each in (rung, "linear"))
        return found >= RECOVERED and linear - found <= TOLERANCE

    def rung(self, part: str) -> str | None:
        """The smallest rung that is reached."""
        return next((rung for rung in RUNGS if self.reaches(part, rung)), None)


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Claims, tables and figures."""
    cells = [Cell(outcome) for outcome in outcomes.values()]
    return summary(claims(cells), tables(cells), charts(cells))


def claims(cells: Sequence[Cell]) -> tuple[Claim, ...]:
    """The theorems where they hold; what ICA adds; broken assumptions; agreement of trainings against the truth."""
    made = []
    kept = {cell.words: (cell, cell.promised) for cell in cells if cell.setting == KEPT and cell.promised}
    if kept:
        text = "objectives recover the latents up to their theorem's group where its assumptions hold"
        shares = {f"R² up to {SHORT[rung]}, {words}": cell.share("truth", rung) for words, (cell, rung) in kept.items()}
        lost = {
            f"R² up to {SHORT[rung]} minus that of a linear map, {words}": _difference(cell, rung, "linear")
            for words, (cell, rung) in kept.items()
        }
        parts = [over_cases(text, shares, least=RECOVERED), over_cases(text, lost, least=-TOLERANCE, form=".3f±")]
        made.append(conjunction(text, parts, published="identifiability theorems"))
    turned = [cell for cell, rung in kept.values() if rung == "rigid" and cell.reaches("truth", "rigid")]
    if turned:
        rule = "R² of a rigid motion above that of a signed permutation"
        named = {f"{rule}, {cell.words}": _difference(cell, "rigid", "signed_permutation") for cell in turned}
        made.append(over_cases("a theorem that leaves a rotation does leave one", named, above=0.0, form=".3f±"))
        after = {f"R² after ICA, {cell.words}": cell.share("truth", "ica") for cell in turned}
        made.append(over_cases("ICA finds the latents where a rotation is left", after, least=RECOVERED))
    loose = [cell for cell in cells if cell.broken and cell.objective.group and not cell.promised]
    if loose:
        still = [cell.reaches("truth", str(cell.objective.group)) for cell in loose]
        words = f"share of {len(loose)} settings outside the theorems that still reach the group:"
        published = "'even if these assumptions are severely violated' (Zimmermann et al., InfoNCE)"
        share = Value(float(np.mean(still)))
        made.append(claim("recovery survives broken assumptions", words, share, least=MOST, published=published))
    found = [(cell, rung) for cell in cells if (rung := cell.rung("truth"))]
    if found:
        apart = [cell for cell, rung in found if not cell.reaches("pairs", rung)]
        spare = sum(cell.outcome["outputs"] > cell.outcome["dimension"] for cell in apart)
        words = f"of {len(found)} settings that recover the latents, those whose trainings disagree"
        words += f" ({spare} of them with more outputs than latents):" if spare else ":"
        text = "trainings that recover the latents up to a group agree up to it"
        made.append(claim(text, words, Value(len(apart)), most=0, published="Nelson et al., A.5", form=".0f"))
    agree = [cell for cell in cells if cell.rung("pairs")]
    if agree:
        wrong = sum(not cell.reaches("truth", str(cell.rung("pairs"))) for cell in agree)
        words = f"of {len(agree)} settings whose trainings agree, those that do not recover the latents as far:"
        text = "trainings that agree up to a group have recovered the latents up to it"
        made.append(claim(text, words, Value(wrong), most=0, published="no theorem", form=".0f"))
    return tuple(made)


def _difference(cell: Cell, first: str, second: str) -> Value:
    return estimate(max(each[first], LOWEST) - max(each[second], LOWEST) for each in cell.outcome["truth"])


def tables(cells: Sequence[Cell]) -> list[Table]:
    """R² against the latents and against another training, the controls, and errors in the ladder's unit."""
    made = []
    for part, words in PARTS.items():
        rows = {
            f"{cell.words} ({_promise(cell)})": [cell.share(part, measure) for measure in MEASURES] for cell in cells
        }
        title = f"Held-out R² of {words} by rung, and of a signed permutation after ICA, ± s.e. over trainings"
        made.append(table(part, title, "1 is exact", rows, tuple(MEASURES.values())))
    controls, errors = {}, {}
    for cell in cells:
        rung = cell.promised or "linear"
        controls[cell.words] = [
            cell.share("untrained", "linear"),
            cell.share("untrained", "signed_permutation"),
            cell.share("shuffled", "linear"),
            Value(cell.outcome["observations"]),
            Value(cell.outcome["rotated"]),
        ]
        best = cell.outcome["best"]["rungs"][rung]
        errors[f"{cell.words}, {SHORT[rung]}"] = [Value(best[key]) for key in ("error", "low", "high", "chance")]
    columns = ("untrained, linear", "untrained, perm", "shuffled, linear", "observations, linear", "turned, perm")
    title = (
        "Controls: R² of untrained networks, of shuffled rows, of the observations themselves, and of the latents "
        "after random rotations"
    )
    made.append(table("controls", title, "1 is exact", controls, columns))
    title = (
        "The training with the smallest loss: held-out error of the promised rung (otherwise linear) in mean distances "
        "to the mean, its 95% interval over rows, and the error with rows shuffled"
    )
    made.append(table("errors", title, "a lower error is closer", errors, ("error", "low", "high", "shuffled")))
    return made


def charts(cells: Sequence[Cell]) -> list[Chart]:
    """Assumptions x objectives, for the latents and for another training; both R² against each other."""
    columns = [name for name in OBJECTIVES if any(cell.outcome["objective"] == name for cell in cells)]
    rows = [name for name in WORDS if any(cell.setting == name for cell in cells)]
    at = {(cell.setting, cell.outcome["objective"]): cell for cell in cells}
    words = {
        "truth": (
            "rungs",
            "Up to which rung are the latents recovered?",
            f"The smallest group of maps with a held-out R² of at least {RECOVERED} and at most {TOLERANCE} below that "
            "of linear maps, mean over trainings: perm (signed permutation), rigid, linear or none. Below it, what a "
            "theorem promises: ✓ reached, ✗ not reached, – no theorem. Shade: R² of a linear map.",
        ),
        "pairs": (
            "agreement",
            "Up to which rung do two trainings agree?",
            "The same between trainings, without the latents. Below it, ✓ where the latents are recovered up to the "
            "same rung, ✗ where they are not. Shade: R² of a linear map.",
        ),
    }
    drawn = []
    for part, (name, title, caption) in words.items():
        found = [[at.get((row, column)) for column in columns] for row in rows]
        drawn.append(
            Chart(
                name,
                title,
                caption,
                ("objective", "assumption"),
                cells=tuple(tuple(_shade(cell, part) for cell in row) for row in found),
                sides=(tuple(WORDS[row] for row in rows), tuple(OBJECTIVES[column].short for column in columns)),
                words=tuple(tuple(_written(cell, part) for cell in row) for row in found),
            )
        )
    lines = []
    for series, column in enumerate(columns):
        mine = [cell for cell in cells if cell.outcome["objective"] == column]
        points = [[max(cell.share(part, "linear").mean or 0.0, 0.0) for part in ("pairs", "truth")] for cell in mine]
        labels = [f"{cell.words}: {x:.2f}, {y:.2f}" for cell, (x, y) in zip(mine, points, strict=True)]
        lines.append(cloud(points, OBJECTIVES[column].short, series, labels))
    drawn.append(
        Chart(
            "seen",
            "Agreement of trainings against recovery of the latents",
            "A dot is one objective in one setting. Across: held-out R² of a linear map between two trainings, which "
            "needs no truth. Up: that between codes and latents. Dots far below the diagonal agree on something else.",
            ("R² between trainings, linear", "R² of the latents, linear"),
            lines=tuple(lines),
        )
    )
    return drawn


def _shade(cell: Cell | None, part: str) -> float | None:
    return None if cell is None else min(max(cell.share(part, "linear").mean or 0.0, 0.0), 1.0)


def _written(cell: Cell | None, part: str) -> str:
    if cell is None:
        return ""
    rung = cell.rung(part)
    if part == "truth":
        mark = "–" if cell.promised is None else "✓" if cell.reaches("truth", cell.promised) else "✗"
    else:
        mark = "–" if rung is None else "✓" if cell.reaches("truth", rung) else "✗"
    return f"{SHORT[rung]}\n{mark}"


def _promise(cell: Cell) -> str:
    return "no theorem" if cell.promised is None else f"theorem: {SHORT[cell.promised]}"
