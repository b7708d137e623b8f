"""What is known about two models' closeness, in distribution and in representation, and the sentence that follows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..resampling import FEW_GROUPS, Interval
from ..results import Written, aligned
from .inputs import envelope

CLOSE_KL = 0.01  # nats: below it two distributions pass for the same
FEW_ROWS = 200  # fewer than this, and intervals over rows are only approximate
CLOSE_ODDS = 0.1  # standardised log-odds distance, a correlation of 0.995 in every class


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
class Closeness(Written):
    """Two models on the same rows. Lower is closer, but for ``agreement`` (the share of equal predictions).

    ``kl`` is KL(source ‖ target) and ``kl_reverse`` KL(target ‖ source), in nats.
    """

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

    def table(self) -> str:
        """One line a quantity, with its interval and its direction."""
        odds = self.log_odds
        rows = [("quantity", "value", "95 % interval", "largest", "closer is")]
        for name, part, closer in (
            ("KL(source ‖ target), nats", self.kl, "lower"),
            ("KL(target ‖ source), nats", self.kl_reverse, "lower"),
            ("total variation", self.total_variation, "lower"),
            ("agreement of predictions", self.agreement, "higher"),
        ):
            largest = "" if part is self.agreement else f"{part.largest:.4g}"
            rows.append((name, f"{part.mean:.4g}", interval_text(part.interval), largest, closer))
        rows.append(("log-odds distance (nats)", f"{odds.value:.4g}", interval_text(odds.interval), "", "lower"))
        rows.append(
            ("  standardised", f"{odds.standardised:.4g}", interval_text(odds.standardised_interval), "", "lower")
        )
        rows.append(("  largest mean", f"{odds.mean_difference:.4g}", "", "", "lower"))
        rows.append(("  over classes", f"{odds.over_classes:.4g}", "", "", "lower"))
        each = self.representations
        if each is not None:
            for name, value, span, closer in (
                ("linear R², target from source", each.linear_r2, each.linear_r2_interval, "higher"),
                ("linear R², source from target", each.linear_r2_reverse, each.linear_r2_reverse_interval, "higher"),
                ("mean CCA", each.cca, each.cca_interval, "higher"),
                ("SVD distance", each.svd_distance, each.svd_distance_interval, "lower"),
            ):
                rows.append((name, f"{value:.4g}", interval_text(span), "", closer))
        return aligned(rows, left=(0, 4))

    def part(self) -> dict[str, Any]:
        """Plain data, as one part of a result."""
        return {**asdict(self), "close": self.close, "misleading": self.misleading, "verdict": self.verdict}

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return envelope(self.verdict, self.close, self.caveats, self.settings, closeness=self.part())

    def __str__(self) -> str:
        return "\n".join([self.table(), "", self.verdict, *(f"note: {caveat}" for caveat in self.caveats)])


def few_units(rows: int, groups: int | None) -> list[str]:
    """A note where intervals rest on little."""
    if groups is not None and groups < FEW_GROUPS:
        return [f"intervals rest on {groups} groups: below {FEW_GROUPS} they are only approximate"]
    if groups is None and rows < FEW_ROWS:
        return [f"intervals rest on {rows} rows: below {FEW_ROWS} they are only approximate"]
    return []


def interval_text(interval: Interval | None) -> str:
    """An interval as text."""
    return "" if interval is None else f"{interval.low:.4g} to {interval.high:.4g}"
