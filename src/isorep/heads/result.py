"""Everything about one head or two: diversity, the map between them, closeness in distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..results import Written
from .closeness_result import Closeness
from .diversity_result import Diversity
from .envelope import envelope
from .map_result import HeadMap

LIMITS = {
    "condition": "the condition number of the worse centred head",
    "differences": "the condition number of the worse head's best differences",
    "kl": "the larger mean Kullback-Leibler divergence, in nats",
    "log_odds": "the log-odds distance, in nats",
    "standardised": "the standardised log-odds distance",
    "error": "the mean error of the head map, in diameters",
    "excess": "the mean error of the head map above the regression's, in diameters",
}


@dataclass(frozen=True, eq=False)
class Heads(Written):
    """What was found about one head, or about two heads of the same classes.

    Attributes
    ----------
    heads : tuple of Diversity
        One a head.
    head_map : HeadMap or None
        Of two heads.
    closeness : Closeness or None
        Of two heads with paired features.
    settings : dict
    """

    heads: tuple[Diversity, ...]
    head_map: HeadMap | None
    closeness: Closeness | None
    settings: dict[str, Any]

    @property
    def holds(self) -> bool:
        """Whether the theorem applies to every head, and the heads' map is borne out where there are features."""
        borne_out = self.head_map is None or self.head_map.agrees is not False
        return borne_out and all(each.applies for each in self.heads)

    @property
    def verdict(self) -> str:
        """The sentence that answers what was asked: on the map with paired features, otherwise on diversity."""
        failing = next((each for each in self.heads if not each.applies), self.heads[0])
        if self.head_map is None:
            return failing.verdict
        if self.head_map.regression is None and not failing.applies:
            return failing.verdict
        return self.head_map.verdict

    @property
    def caveats(self) -> tuple[str, ...]:
        """What to keep in mind."""
        said: list[str] = list(self.settings.get("reading", ()))
        for part in (*self.heads, self.head_map, self.closeness):
            if part is not None:
                named = f"{part.name}: " if isinstance(part, Diversity) and len(self.heads) > 1 else ""
                said.extend(named + each for each in part.caveats)
        return tuple(dict.fromkeys(said))

    def figure(self, name: str) -> float | None:
        """A quantity that a limit may be set on; None where nothing was measured.

        The condition number of a head to which the theorem does not apply is infinite.
        """
        conditions = [each.classes.condition if each.classes.diverse else float("inf") for each in self.heads]
        found: dict[str, float | None] = {"condition": max(conditions), "differences": max(conditions)}
        pairs = [each.classes.pairs for each in self.heads]
        if max(conditions) < float("inf"):
            found["differences"] = max(each.condition for each in pairs if each is not None)
        if self.closeness is not None:
            found["kl"] = max(self.closeness.kl.mean, self.closeness.kl_reverse.mean)
            found["log_odds"] = self.closeness.log_odds.value
            found["standardised"] = self.closeness.log_odds.standardised
        if self.head_map is not None and self.head_map.regression is not None:
            both = self.head_map.regression
            found["error"] = both.head.error.mean
            found["excess"] = both.head.error.mean - both.regression.error.mean
        return found.get(name)

    def table(self) -> str:
        """The tables of all parts."""
        parts = [each.table() for each in self.heads]
        parts += [part.table() for part in (self.head_map, self.closeness) if part is not None]
        return "\n\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data with a versioned schema."""
        return envelope(
            self.verdict,
            self.holds,
            self.caveats,
            self.settings,
            heads=[each.part() for each in self.heads],
            head_map=None if self.head_map is None else self.head_map.part(),
            closeness=None if self.closeness is None else self.closeness.part(),
        )

    def __str__(self) -> str:
        parts = [f"{each.table()}\n{each.verdict}" for each in self.heads]
        parts += [f"{part.table()}\n{part.verdict}" for part in (self.head_map, self.closeness) if part is not None]
        return "\n\n".join(parts) + "".join(f"\nnote: {caveat}" for caveat in self.caveats)
