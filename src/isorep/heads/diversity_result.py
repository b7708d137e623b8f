"""What is known about the diversity of a head, and the sentence that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..results import aligned
from .result import HeadResult, Parts

NEARLY = 1e4  # a condition number from which a head that passes is said to fail nearly


@dataclass(frozen=True)
class Pairs:
    """Pairs of classes whose differences span the head, with their condition number and that of pivoted QR."""

    classes: tuple[tuple[str, str], ...]
    condition: float
    pivoted_condition: float
    exchanged: int


@dataclass(frozen=True)
class ClassDiversity:
    """The classes that occur: how many, how many differ, and the rank and condition of their centred embeddings.

    ``spectrum`` holds standard deviations along principal axes, ``participation`` how many of them carry the variance.
    """

    stored: int
    used: int
    distinct: int
    width: int
    rank: int
    condition: float
    constant_columns: int
    spectrum: tuple[float, ...]
    participation: float
    pairs: Pairs | None

    @property
    def enough(self) -> bool:
        """Whether there are as many distinct classes as the theorem needs at the least, the width plus one."""
        return self.distinct >= self.width + 1

    @property
    def diverse(self) -> bool:
        """Whether differences of classes span the space."""
        return self.rank == self.width


@dataclass(frozen=True)
class FeatureDiversity:
    """The features of data: rank and condition about their mean and about zero.

    ``effective_dimension`` is the rank of what the classes' differences see of the features, ``seen_share`` the share
    of the features' variance that lies there.
    """

    name: str
    rows: int
    width: int
    rank: int
    condition: float
    rank_about_zero: int
    condition_about_zero: float
    spectrum: tuple[float, ...]
    effective_dimension: int
    seen_share: float

    def diverse(self, biased: bool) -> bool:
        """Whether features span the space: about zero, or with biases about their mean."""
        return (self.rank if biased else self.rank_about_zero) == self.width


@dataclass(frozen=True)
class Diversity(HeadResult):
    """Whether the theorem applies to a head, and by what margin.

    Attributes
    ----------
    name : str
    classes : ClassDiversity
    weighted_rank, weighted_condition, weighted_spectrum
        Of the covariance with class frequencies; None without weights. Standard deviations along principal axes.
    features : FeatureDiversity or None
    biased : bool
        Whether the head has biases, so that features have to vary about their mean.
    dtype : str
        As stored; directions below its rounding do not count.
    """

    derived: ClassVar[tuple[str, ...]] = ("enough_classes", "applies", "nearly_fails", "verdict")
    name: str
    classes: ClassDiversity
    weighted_rank: int | None
    weighted_condition: float | None
    weighted_spectrum: tuple[float, ...] | None
    features: FeatureDiversity | None
    biased: bool
    dtype: str

    @property
    def applies(self) -> bool:
        """Whether the classes are diverse, and the features where they were given."""
        return self.classes.diverse and (self.features is None or self.features.diverse(self.biased))

    @property
    def holds(self) -> bool:
        """Whether the theorem applies."""
        return self.applies

    @property
    def parts(self) -> Parts:
        """One head."""
        return Parts((self,))

    @property
    def enough_classes(self) -> bool:
        """Whether there are as many distinct classes as the theorem needs."""
        return self.classes.enough

    @property
    def nearly_fails(self) -> bool:
        """Whether it applies with a condition number that leaves hardly any margin."""
        margins = [self.classes.condition, self.weighted_condition or 0.0]
        return self.applies and max(margins) >= NEARLY

    @property
    def verdict(self) -> str:
        """One sentence: whether the theorem applies, and how nearly it fails."""
        found = self.classes
        count = "one distinct class" if found.distinct == 1 else f"{found.distinct} distinct classes"
        verb = "spans" if found.distinct == 1 else "span"
        head = f"the {count} of {self.name} {verb} {found.rank} of {found.width} dimensions"
        if not found.diverse:
            return f"The theorem does not apply: {head}{self._why()}."
        if not self.applies and self.features is not None:
            about = "about their mean, as biases demand" if self.biased else "about zero"
            rank = self.features.rank if self.biased else self.features.rank_about_zero
            return (
                f"The theorem applies to the features but not to the head itself: {head}, and the rows of "
                f"{self.features.name} span only {rank} {about}."
            )
        margin = f"condition number {found.condition:.3g}"
        if found.pairs is not None:
            margin += f", {found.pairs.condition:.3g} for the best {found.width} differences"
        if self.weighted_condition is not None:
            margin += f", {self.weighted_condition:.3g} weighted by class frequency"
        words = "The theorem applies, but nearly fails" if self.nearly_fails else "The theorem applies"
        return f"{words}: {head} ({margin})."

    def _why(self) -> str:
        found = self.classes
        if not found.enough:
            return f", and at least {found.width + 1} distinct classes are needed"
        if found.constant_columns:
            columns = "columns are" if found.constant_columns > 1 else "column is"
            return f" ({found.constant_columns} {columns} the same for every class)"
        return ", and differences of classes do not reach the rest"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What to keep in mind."""
        found, said = self.classes, []
        if found.used < found.stored:
            said.append(f"{found.stored - found.used} of {found.stored} classes have no weight and were left out")
        if found.distinct < found.used:
            said.append(f"{found.used - found.distinct} of {found.used} classes repeat the embedding of another one")
        if found.diverse and found.distinct == found.width + 1:
            said.append(
                f"{found.distinct} classes are as few as {found.width} dimensions allow: any two such heads are "
                "related by an invertible map, so that heads alone can show no disagreement"
            )
        if self.features is not None and self.features.rows <= self.features.width:
            said.append(f"{self.features.rows} rows of features cannot span {self.features.width} dimensions")
        return tuple(said)

    def table(self) -> str:
        """One line a quantity."""
        found = self.classes
        rows = [
            ("distinct classes", f"{found.distinct} (at least {found.width + 1} needed)"),
            ("rank of the centred head", f"{found.rank} of {found.width}"),
            ("condition of the centred head", f"{found.condition:.4g}"),
        ]
        if found.pairs is not None:
            rows.append(("condition of the best differences", f"{found.pairs.condition:.4g}"))
            rows.append(("  as pivoted QR picks them", f"{found.pairs.pivoted_condition:.4g}"))
        if self.weighted_condition is not None:
            rows.append(("weighted by class frequency", f"rank {self.weighted_rank}, {self.weighted_condition:.4g}"))
        if self.features is not None:
            each = self.features
            rows.append(("rank of the features", f"{each.rank} about the mean, {each.rank_about_zero} about zero"))
            rows.append(("condition of the features", f"{each.condition:.4g}, {each.condition_about_zero:.4g}"))
            rows.append(("effective dimension", f"{each.effective_dimension} ({each.seen_share:.1%} of variance)"))
        return aligned([(f"{self.name}", ""), *rows], left=(0, 1))
