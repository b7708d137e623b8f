"""Result of matched dictionaries: records of every pair, the table, figures and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..representation import Array
from ..resampling import Null
from ..results import Record, ResultRecord, Verdict, aligned, decimals, told
from .frequency import Curve
from .splitting import Absorption, Splitting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WAYS = {"one_to_one": "one to one", "forward": "best match", "backward": "best match back"}


@dataclass(frozen=True, eq=False)
class Level(Record):
    """Similarity of matched atoms, and the share that reaches the threshold.

    Attributes
    ----------
    mean, share : float
        Mean similarity, and share of atoms that reach the threshold. One to one: of as many atoms as the smaller
        dictionary has.
    mean_null, share_null : Null
        The same of rotated dictionaries, or of shuffled rows of activations: this decides.
    random_mean, random_share : float
        The same of random directions; None for activations.
    """

    mean: float
    share: float
    mean_null: Null
    share_null: Null
    random_mean: float | None
    random_share: float | None

    @property
    def above_chance(self) -> float:
        """The share above chance, (share - chance)/(1 - chance); 0 where chance does as well."""
        chance = self.share_null.mean
        return max((self.share - chance) / (1 - chance), 0.0) if chance < 1 else 0.0


@dataclass(frozen=True, eq=False)
class Agreement(Record):
    """Matchings of two dictionaries by one similarity.

    Attributes
    ----------
    measure : {"cosine", "correlation"}
        Of decoder rows, or of activations.
    chance : str
        What chance levels are from.
    one_to_one, forward, backward : Level
        One-to-one matching, best match in the target of every source atom, and the other way round.
    gap : float
        Upper bound on what the mean similarity of the one-to-one matching lacks to the optimum.
    sampled : bool
        Whether chance levels look at some atoms only; that of one-to-one matching is then that of best matches, which
        is never lower.
    limit : float
        The 99th percentile of best matches by chance.
    partner : (atoms,) array
        Target atom of every source atom, -1 for none and for dead atoms.
    similarity : (atoms,) array
        Similarity with the partner, 0 without one.
    """

    measure: str
    chance: str
    one_to_one: Level
    forward: Level
    backward: Level
    gap: float
    sampled: bool
    limit: float
    partner: Array
    similarity: Array


@dataclass(frozen=True, eq=False)
class SideBySide(Record):
    """Cosine of decoders and correlation of activations of the same pairs: the one-to-one matching of decoders.

    Attributes
    ----------
    atoms : (n,) array
        The source atoms that are matched.
    cosine, correlation : (n,) array
    both, cosine_only, correlation_only : float
        Share of matched atoms that reach the threshold in both, or in one alone.
    mean_correlation : float
        Mean correlation of pairs whose cosine reaches the threshold; None without such pairs.
    same_partner : float
        Share of atoms to which activations, matched on their own, give the same partner; None if nothing is matched.
    """

    atoms: Array
    cosine: Array
    correlation: Array
    both: float
    cosine_only: float
    correlation_only: float
    mean_correlation: float | None
    same_partner: float | None


@dataclass(frozen=True, eq=False)
class PairRecurrence(Record):
    """Recurrence of the atoms of two dictionaries: matchings, splitting, absorption, and curves against frequency."""

    source: str
    target: str
    decoder: Agreement | None
    activations: Agreement | None
    together: SideBySide | None
    splitting: tuple[Splitting, ...]
    absorption: tuple[Absorption, ...]
    curves: tuple[Curve, ...]

    @property
    def main(self) -> Agreement:
        """The agreement that the verdict is about: of decoders, or of activations where there are no decoders."""
        chosen = self.decoder or self.activations
        assert chosen is not None
        return chosen

    @property
    def agreements(self) -> list[Agreement]:
        """Those that were measured."""
        return [each for each in (self.decoder, self.activations) if each is not None]


@dataclass(frozen=True)
class Side(Record):
    """One dictionary.

    Attributes
    ----------
    name : str
    atoms, alive : int
        All atoms, and those that are not dead.
    width : int
        Dimensions of an atom; None without decoders.
    zero, never_active : int
        Dead atoms: zero vectors, and others that are never active.
    duplicates : int
        Atoms that nearly equal an earlier one of the same dictionary (similarity from 0.99 on).
    recurs_in : tuple of int
        Living atoms by the number of other dictionaries in which they recur, from none to all.
    """

    name: str
    atoms: int
    width: int | None
    alive: int
    zero: int
    never_active: int
    duplicates: int
    recurs_in: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Recurrence(ResultRecord):
    """Recurrence of atoms over dictionaries.

    Attributes
    ----------
    sides : tuple of Side
        Every dictionary: its atoms, the dead ones, duplicates, and how many recur elsewhere.
    pairs : tuple of PairRecurrence
        Every two dictionaries.
    verdict : Verdict
        Whether atoms recur, and a sentence that says why.
    threshold : float
        Similarity from which on an atom recurs.
    rows : int
        Rows of the activations; None without.
    caveats : tuple of str
    settings : dict
    """

    schema: ClassVar[str] = "isorep.dictionaries/1"
    page_by: ClassVar[str] = "dictionaries.page:page"

    sides: tuple[Side, ...]
    pairs: tuple[PairRecurrence, ...]
    verdict: Verdict
    threshold: float
    rows: int | None
    caveats: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def share(self) -> float:
        """Share of atoms that recur one to one, in the mean over pairs."""
        return float(np.mean([pair.main.one_to_one.share for pair in self.pairs]))

    def table(self) -> str:
        """One line per matching of a pair; of many pairs the one-to-one matchings."""
        head = ("pair", "matching", "similarity", "mean", "chance", "random", "recur", "chance", "p")
        rows: list[tuple[str, ...]] = [head]
        for pair in self.pairs:
            name = f"{pair.source} > {pair.target}"
            for agreement in pair.agreements:
                for way, words in WAYS.items():
                    if len(self.pairs) > 1 and way != "one_to_one":  # those of many pairs are on the page
                        continue
                    level: Level = getattr(agreement, way)
                    rows.append(
                        (
                            name,
                            words,
                            agreement.measure,
                            decimals(level.mean, 3),
                            decimals(level.mean_null.mean, 3),
                            decimals(level.random_mean, 3),
                            decimals(level.share, 3),
                            decimals(level.share_null.mean, 3),
                            level.share_null.p_text,
                        )
                    )
                    name = ""
        rows = [row[1:] if len(self.pairs) == 1 else (row[0], *row[2:]) for row in rows]
        return aligned(rows, optional=("random",))

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per pair, similarity and matching."""
        return [
            {
                "source": pair.source,
                "target": pair.target,
                "measure": agreement.measure,
                "matching": way,
                "mean": level.mean,
                "chance_mean": level.mean_null.mean,
                "random_mean": level.random_mean,
                "share": level.share,
                "chance_share": level.share_null.mean,
                "p_value": level.share_null.p_value,
            }
            for pair in self.pairs
            for agreement in pair.agreements
            for way in WAYS
            for level in [getattr(agreement, way)]
        ]

    def facts(self) -> str:
        """What every dictionary holds, in lines."""
        rows: list[tuple[str, ...]] = [("dictionary", "atoms", "alive", "zero", "never\nactive", "duplicates", "width")]
        for side in self.sides:
            counts = (side.atoms, side.alive, side.zero, side.never_active, side.duplicates)
            rows.append((side.name, *map(str, counts), "-" if side.width is None else str(side.width)))
        return aligned(rows)

    def findings(self) -> tuple[str, ...]:
        """What else was found, in sentences; of many pairs the page says it."""
        from .verdict import findings_of

        return tuple(findings_of(self.pairs[0], self.threshold)) if len(self.pairs) == 1 else ()

    def __str__(self) -> str:
        from ..results import wrapped

        found = "\n".join(wrapped(each) for each in self.findings())
        return told(self.verdict, self.facts(), self.table(), found, notes=self.caveats)

    # Figures

    def plot_scores(self, ax: Axes | None = None, width: str = "single") -> Axes:
        """Shares of atoms that recur, with chance, for every pair and similarity."""
        from ..report.plots import Mark, dots, middle

        marks = []
        for pair in self.pairs:
            for agreement in pair.agreements:
                level = agreement.one_to_one
                name = agreement.measure if len(self.pairs) == 1 else f"{pair.source} > {pair.target}"
                null = level.share_null
                strong = agreement is pair.main and len(self.pairs) == 1
                marks.append(Mark(name, level.share, None, null.mean, middle(null), strong=strong))
        label = f"share of atoms that recur (similarity >= {self.threshold:g})"
        return dots(ax, marks, label, width=width, limits=(0.0, 1.0), value_name="one to one")

    def plot_matrix(self, ax: Axes | None = None, width: str = "single") -> Axes:
        """The share of atoms that recur, for every two dictionaries."""
        from ..report.plots import matrix

        names = [side.name for side in self.sides]
        return matrix(ax, self.shares(), names, names, "share of atoms that recur", width=width)

    def plot_components(self, ax: Axes | None = None, width: str = "single") -> Axes:
        """Recurrence against frequency, or sorted similarities of partners where frequencies are unknown."""
        from ..report.plots import ACCENT, CHANCE, OTHER, above, canvas

        ax = canvas(ax, width, 2.4, "plot_components()")
        pair = self.pairs[0]
        if not pair.curves:
            values = -np.sort(-pair.main.similarity)
            ax.plot(np.arange(1, len(values) + 1) / len(values), values, color=ACCENT, lw=1.5)
            ax.axhline(self.threshold, color=CHANCE, lw=0.8, ls=":", label="threshold")
            ax.axhline(pair.main.one_to_one.mean_null.mean, color=CHANCE, lw=1.0, ls="--", label="chance, mean")
            ax.set_xlabel(f"share of the atoms of {pair.source}", fontsize="small")
            ax.set_ylabel(f"{pair.main.measure} with the partner", fontsize="small")
        for curve, colour in zip(pair.curves, (ACCENT, OTHER), strict=False):
            across = [each.frequency for each in curve.bins]
            low, high = ([getattr(each.interval, end) for each in curve.bins] for end in ("low", "high"))
            ax.fill_between(across, low, high, color=colour, alpha=0.15, lw=0)
            ax.plot(across, [each.share for each in curve.bins], "o-", color=colour, ms=3, label=curve.name)
        known = [
            (each.frequency, each.chance) for curve in pair.curves[:1] for each in curve.bins if each.chance is not None
        ]
        if pair.curves:
            ax.set_xscale("log")
            ax.set_xlabel("frequency (share of rows)", fontsize="small")
            ax.set_ylabel("share that recurs", fontsize="small")
        if known:
            ax.plot(*zip(*known, strict=True), "--", color=CHANCE, lw=1.0, label="chance")
        ax.set_ylim(0, 1.03)
        above(ax, ax.get_legend_handles_labels()[0])
        return ax

    def panels(self) -> list[str]:
        """The matrix only where there are more than two dictionaries."""
        return [name for name in super().panels() if name != "plot_matrix" or len(self.sides) > 2]

    def shares(self) -> Array:
        """Shares of atoms that recur, of the smaller dictionary of every two; NaN on the diagonal."""
        size = len(self.sides)
        shares = np.full((size, size), np.nan)
        places = [(i, j) for i in range(size) for j in range(i + 1, size)]
        for (i, j), pair in zip(places, self.pairs, strict=True):
            shares[i, j] = shares[j, i] = pair.main.one_to_one.share
        return shares
