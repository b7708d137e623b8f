"""What is known about two models' closeness, in distribution and in representation, and the sentence that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..resampling import Interval
from ..results import aligned
from .result import HeadResult, Parts, few_units, interval_text

CLOSE_KL = 0.01  # nats: below it two distributions pass for the same
CLOSE_ODDS = 0.1  # standardised log-odds distance, a correlation of 0.995 in every class
REPRESENTATION_DISTANCES = (
    ("linear R², target from source", "linear_r2", "higher"),
    ("linear R², source from target", "linear_r2_reverse", "higher"),
    ("mean CCA", "cca", "higher"),
    ("SVD distance", "svd_distance", "lower"),
)
Quantity = tuple[str, float, Interval | None, float | None, str]


@dataclass(frozen=True)
class Divergence:
    """A quantity of each row: its mean with an interval, its largest value and its quantiles."""

    mean: float
    largest: float
    quantiles: dict[str, float]
    interval: Interval | None


@dataclass(frozen=True)
class LogOddsDistance:
    """The log-odds distance in nats, with the class that has it.

    ``mean_difference`` is the largest mean over rows, ``over_classes`` the largest standard deviation over classes of
    any row, ``standardised`` the distance with every log-odds at unit variance (0 to 2). ``by_class`` lists name,
    distance and standardised distance of the classes farthest apart.
    """

    value: float
    interval: Interval | None
    worst_class: str
    mean_difference: float
    over_classes: float
    standardised: float
    standardised_interval: Interval | None
    by_class: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class RepresentationDistances:
    """Linear R² of target from source and the reverse (in sample), mean CCA, and the SVD distance.

    In-sample figures grow with the width over the number of rows; their intervals are for what this many rows give on
    average.
    """

    linear_r2: float
    linear_r2_reverse: float
    cca: float
    svd_distance: float
    linear_r2_interval: Interval | None = None
    linear_r2_reverse_interval: Interval | None = None
    cca_interval: Interval | None = None
    svd_distance_interval: Interval | None = None


@dataclass(frozen=True)
class Closeness(HeadResult):
    """Two models on the same rows. Lower is closer, but for ``agreement`` (the share of equal predictions).

    ``kl`` is KL(source ‖ target) and ``kl_reverse`` KL(target ‖ source), in nats.
    """

    derived: ClassVar[tuple[str, ...]] = ("close", "misleading", "verdict")
    names: tuple[str, str]
    rows: int
    classes: int
    kl: Divergence
    kl_reverse: Divergence
    worst_row: str
    total_variation: Divergence
    agreement: Divergence
    log_odds: LogOddsDistance
    representations: RepresentationDistances | None
    settings: dict[str, Any]

    @property
    def close(self) -> bool:
        """Whether the models are close in the sense that bounds representations: in every class's log-odds."""
        return self.log_odds.standardised <= CLOSE_ODDS

    @property
    def holds(self) -> bool:
        """Whether the models are close."""
        return self.close

    @property
    def parts(self) -> Parts:
        """One pair of models."""
        return Parts(closeness=self)

    @property
    def misleading(self) -> bool:
        """Whether divergence calls them close and log-odds do not."""
        return max(self.kl.mean, self.kl_reverse.mean) <= CLOSE_KL and not self.close

    @property
    def verdict(self) -> str:
        """One sentence on both kinds of closeness."""
        kl = f"mean KL {max(self.kl.mean, self.kl_reverse.mean):.3g} nats"
        odds = (
            f"log-odds distance {self.log_odds.value:.3g} nats (class {self.log_odds.worst_class}; standardised "
            f"{self.log_odds.standardised:.2f})"
        )
        features = ""
        if self.representations is not None:
            shares = sorted((self.representations.linear_r2, self.representations.linear_r2_reverse))
            features = f", and a linear map explains {shares[0]:.1%} to {shares[1]:.1%} of the features"
        if self.misleading:
            return f"Close in divergence, not in log-odds: {kl}, but {odds}{features}."
        if self.close:
            return f"Close in log-odds, the closeness that carries over to representations: {odds}, {kl}{features}."
        return f"Not close in distribution: {kl}, {odds}{features}."

    @property
    def caveats(self) -> tuple[str, ...]:
        """What to keep in mind."""
        said = [self.settings["joined"]] if self.settings.get("joined") else []
        each = self.representations
        if self.settings["intervals"]:
            if each is not None and each.cca_interval is None:
                said.append("features are too wide, or rows too few, for intervals of the representations' distances")
            said += few_units(self.rows, self.settings["groups"])
        return tuple(said)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Every number: its name, value, interval, the largest of any row, and which way is closer."""
        odds, features = self.log_odds, self.representations
        rows = [
            ("KL(source ‖ target), nats", self.kl, "lower"),
            ("KL(target ‖ source), nats", self.kl_reverse, "lower"),
            ("total variation", self.total_variation, "lower"),
        ]
        told: list[Quantity] = [(name, part.mean, part.interval, part.largest, closer) for name, part, closer in rows]
        told += [
            ("agreement of predictions", self.agreement.mean, self.agreement.interval, None, "higher"),
            ("log-odds distance, nats", odds.value, odds.interval, None, "lower"),
            ("log-odds distance, standardised", odds.standardised, odds.standardised_interval, None, "lower"),
            ("largest mean of log-odds, nats", odds.mean_difference, None, None, "lower"),
            ("largest spread over classes, nats", odds.over_classes, None, None, "lower"),
        ]
        for words, name, closer in REPRESENTATION_DISTANCES if features is not None else ():
            told.append((words, getattr(features, name), getattr(features, f"{name}_interval"), None, closer))
        return tuple(told)

    def table(self) -> str:
        """One line per quantity, with its interval and its direction."""
        rows = [("quantity", "value", "95 % interval", "largest", "closer is")]
        for name, value, interval, largest, closer in self.quantities:
            most = "" if largest is None else f"{largest:.4g}"
            rows.append((name, f"{value:.4g}", interval_text(interval), most, closer))
        return aligned(rows, left=(0, 4))
