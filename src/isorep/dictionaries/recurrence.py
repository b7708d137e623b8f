"""Recurrence of dictionary atoms over seeds and widths: matching, chance levels, splitting, absorption, frequency."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from ..resampling import null_of
from ..rows import Progress, no_progress
from ..settings import MOST_DRAWS, check_counts, check_seed
from .chance import ChanceDraw, draw, random_dictionary, rotated_dictionary, shuffled_rows
from .frequency import curve_of
from .inputs import Dictionary, Given, open_dictionaries
from .matching import CANDIDATES, BestMatches, OneToOne, best_matches, one_to_one
from .result import Agreement, Level, PairRecurrence, Recurrence, Side, SideBySide
from .splitting import CHILD, LISTED, Absorbed, Absorption, Split, Splitting, find_absorbed, find_splits
from .verdict import caveats_of, verdict_of

N_NULL = 20
LEAST_NULL = 19
"""Draws from which on a p-value can be at most 0.05."""
_RANDOM = 3  # draws of random dictionaries, whose mean alone is shown
_ROUNDED = 1e-6  # of cosines in float32: equal atoms reach a threshold of 1
LIMIT = 0.99
"""Quantile of best matches by chance that a part of a split, or an absorbing atom, must exceed."""


def recurrence(
    *dictionaries: Any,
    activations: Sequence[Any] | None = None,
    frequencies: Sequence[Any] | None = None,
    threshold: float = 0.7,
    signed: bool = True,
    transpose: bool = False,
    rows: int | None = None,
    n_null: int = N_NULL,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Recurrence:
    r"""Do the atoms of overcomplete dictionaries recur over seeds and widths?

    Every two dictionaries are matched: one to one, so that the sum of similarities is largest, and by the best match of
    every atom, both ways. The similarity is the cosine of decoder rows and, where activations are given, their
    correlation. An atom *recurs* if its one-to-one partner reaches the threshold. Chance levels come from rotated
    dictionaries (:mod:`isorep.dictionaries.chance`) and from shuffled rows of activations.

    Parameters
    ----------
    *dictionaries : (atoms, width) arrays, paths or sparse autoencoders
        Decoder rows, two or more dictionaries; numbers of atoms may differ, widths may not. None at all if
        ``activations`` are given instead.
    activations : sequence of (rows, atoms) arrays or paths, optional
        Activations of each dictionary on the same rows.
    frequencies : sequence of (atoms,) arrays, optional
        Share of examples in which each atom is active; default: from the activations. Atoms of frequency 0 are dead.
    threshold : float
        Similarity from which on an atom recurs (default 0.7).
    signed : bool
        Whether an atom and its negative differ (default), as for codes that are not negative.
    transpose : bool
        Atoms are columns, as in the weight of torch's linear decoder.
    rows : int, optional
        Rows of activations to take at random; default: as many as make 2**26 numbers per dictionary.
    n_null : int
        Rotated dictionaries per pair, at least 19.
    random_state : int
        Seed of rotations, shuffles and sampled rows.
    progress : callable, optional
        ``progress(stage, done, total)``.

    Returns
    -------
    Recurrence

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(60, 32))
    >>> other = np.concatenate([atoms[:30], rng.normal(size=(50, 32))])
    >>> found = isorep.dictionaries.recurrence(atoms, other)
    >>> found.pairs[0].decoder.one_to_one.share
    0.5
    """
    check_counts(n_null=(n_null, LEAST_NULL, MOST_DRAWS))
    check_seed(random_state)
    if rows is not None:
        check_counts(rows=(rows, 3))
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or not 0 < threshold <= 1:
        raise InputError(f"threshold is {threshold!r} and must be a similarity above 0 and at most 1")
    threshold = float(threshold)
    report = progress or no_progress
    rng = np.random.default_rng(random_state)
    given = open_dictionaries(
        dictionaries,
        activations,
        frequencies,
        transpose=transpose,
        signed=signed,
        rows=rows,
        rng=rng,
        progress=report,
    )
    places = list(combinations(range(len(given.dictionaries)), 2))
    pairs = []
    for done, (i, j) in enumerate(places):
        report("matching", done, len(places))
        one, other = given.dictionaries[i], given.dictionaries[j]
        drawn = np.random.default_rng([random_state, i, j])
        pairs.append(_Matcher(one, other, threshold * (1 - _ROUNDED), signed, n_null, drawn).pair())
    report("matching", len(places), len(places))
    return _result(given, tuple(pairs), places, threshold, {
        "threshold": threshold,
        "signed": bool(signed),
        "transpose": bool(transpose),
        "rows": None if rows is None else int(rows),
        "n_null": int(n_null),
        "random_state": int(random_state),
    })  # fmt: skip


def _result(
    given: Given,
    pairs: tuple[PairRecurrence, ...],
    places: list[tuple[int, int]],
    threshold: float,
    settings: dict[str, Any],
) -> Recurrence:
    count = len(given.dictionaries)
    found = [np.zeros(each.atoms, dtype=np.int64) for each in given.dictionaries]
    for (i, j), pair in zip(places, pairs, strict=True):
        main = pair.main
        here = np.flatnonzero(main.similarity >= threshold * (1 - _ROUNDED))
        found[i][here] += 1
        found[j][main.partner[here]] += 1
    sides = tuple(
        Side(
            name=each.name,
            atoms=each.atoms,
            width=each.width,
            alive=len(each.alive),
            zero=each.zero,
            never_active=each.never_active,
            duplicates=each.duplicates,
            recurs_in=tuple(np.bincount(hits[each.alive], minlength=count).tolist()),
        )
        for each, hits in zip(given.dictionaries, found, strict=True)
    )
    return Recurrence(
        sides=sides,
        pairs=pairs,
        verdict=verdict_of(sides, pairs, threshold),
        threshold=threshold,
        rows=given.rows,
        caveats=caveats_of(given, sides, pairs, threshold),
        settings=settings | {"sampled_rows": given.sampled},
    )


class _Matcher:
    """Everything about one pair of dictionaries."""

    def __init__(
        self,
        source: Dictionary,
        target: Dictionary,
        threshold: float,
        signed: bool,
        n_null: int,
        rng: np.random.Generator,
    ) -> None:
        self.source, self.target, self.threshold, self.signed = source, target, threshold, signed
        self.n_null, self.rng = n_null, rng

    def pair(self) -> PairRecurrence:
        """Agreement of decoders and of activations, and what follows from both."""
        decoder = activations = together = None
        splitting: tuple[Splitting, ...] = ()
        absorption: tuple[Absorption, ...] = ()
        here, there = self.source, self.target
        if here.decoder is not None and there.decoder is not None:
            decoder, found, matched, draws = self._agreement("cosine", here.decoder, there.decoder)
            splitting = self._splitting(here.decoder, there.decoder, found, draws, decoder)
            if here.fires is not None and there.fires is not None:
                absorption = self._absorption(found, matched, decoder.limit)
            main, hits = decoder, draws
        if here.activations is not None and there.activations is not None:
            activations, _, coded, shuffles = self._agreement("correlation", here.activations, there.activations)
            if decoder is None:
                main, hits = activations, shuffles
            else:
                together = self._together(matched, coded, here.activations, there.activations)
        return PairRecurrence(
            source=here.name,
            target=there.name,
            decoder=decoder,
            activations=activations,
            together=together,
            splitting=splitting,
            absorption=absorption,
            curves=self._curves(main, hits),
        )

    def _agreement(
        self, measure: str, source: Array, target: Array
    ) -> tuple[Agreement, BestMatches, OneToOne, list[ChanceDraw]]:
        """Matchings and chance levels of unit vectors."""
        signed, of_codes = self.signed, measure == "correlation"
        found = best_matches(source, target, signed=signed, keep=CANDIDATES)
        matched = one_to_one(source, target, signed=signed, found=found)
        back = len(source) > len(target) and not of_codes
        made = shuffled_rows(target) if of_codes else rotated_dictionary(source if back else target)
        draws = [
            draw(
                source,
                target,
                made,
                self.rng,
                signed=signed,
                whole=turn == 0 and not of_codes,
                instead_of_source=back,
            )
            for turn in range(self.n_null)
        ]
        random = random_dictionary(target)
        loose = [] if of_codes else [draw(source, target, random, self.rng, signed=signed) for _ in range(_RANDOM)]
        least = min(len(source), len(target))
        pairs = np.sort(matched.similarity)[len(source) - least :]
        method = "shuffled rows" if of_codes else "rotated dictionaries"
        levels = {
            name: self._level(
                values, [getattr(each, name) for each in draws], [getattr(x, name) for x in loose], method
            )
            for name, values in (
                ("one_to_one", pairs),
                ("forward", found.similarity),
                ("backward", found.reverse_similarity),
            )
        }
        partner, similarity = np.full(self.source.atoms, -1, dtype=np.int64), np.zeros(self.source.atoms)
        paired = np.flatnonzero(matched.partner >= 0)
        partner[self.source.alive[paired]] = self.target.alive[matched.partner[paired]]
        similarity[self.source.alive[paired]] = matched.similarity[paired]
        by_chance = np.concatenate([values for each in draws for values in (each.forward, each.backward)])
        agreement = Agreement(
            measure=measure,
            chance=method,
            **levels,
            gap=matched.gap / least,
            sampled=len(draws[0].sources) < len(source) or len(draws[0].targets) < len(target),
            limit=float(np.quantile(by_chance, LIMIT)),
            partner=partner,
            similarity=similarity,
        )
        return agreement, found, matched, draws

    def _level(self, values: Array, draws: list[Array], loose: list[Array], method: str) -> Level:
        def share(each: Array) -> float:
            return float(np.mean(each >= self.threshold))

        means, shares = [float(each.mean()) for each in draws], [share(each) for each in draws]
        return Level(
            mean=float(values.mean()),
            share=share(values),
            mean_null=null_of(means, float(values.mean()), higher_is_closer=True, method=method),
            share_null=null_of(shares, share(values), higher_is_closer=True, method=method),
            random_mean=float(np.mean([each.mean() for each in loose])) if loose else None,
            random_share=float(np.mean([share(each) for each in loose])) if loose else None,
        )

    def _splitting(
        self, source: Array, target: Array, found: BestMatches, draws: list[ChanceDraw], decoder: Agreement
    ) -> tuple[Splitting, ...]:
        """Atoms of either side that are split in the other; chance from the rotated dictionaries matched as a whole."""
        limit = max(CHILD, decoder.limit)
        ways = (
            (self.source, self.target, source, target, found.source, found.reverse_similarity, "source"),
            (self.target, self.source, target, source, found.target, found.similarity, "target"),
        )
        made = []
        for one, other, whole, parts, parents, similarity, _ in ways:
            splits = find_splits(whole, parts, parents, similarity, limit, self.threshold, signed=self.signed)
            renamed = [
                Split(int(one.alive[each.atom]), tuple(int(other.alive[part]) for part in each.parts), each.best,
                      each.together)
                for each in splits
            ]  # fmt: skip
            made.append((one, other, renamed))
        chance = self._split_by_chance(draws, limit)
        return tuple(
            Splitting(one.name, other.name, len(splits), len(splits) / len(one.alive), by_chance, limit,
                      tuple(splits[:LISTED]))
            for (one, other, splits), by_chance in zip(made, chance, strict=True)
        )  # fmt: skip

    def _split_by_chance(self, draws: list[ChanceDraw], limit: float) -> tuple[float, float]:
        """An upper bound on the share of atoms that a rotated dictionary splits, either way.

        A split needs two parts above the limit: atoms that have two are counted, whether or not these combine.
        """
        counts: list[tuple[float, float]] = []
        for each in draws:
            if each.whole is None:
                continue
            ways = (
                (each.whole.source, each.whole.reverse_similarity, len(self.source.alive)),
                (each.whole.target, each.whole.similarity, len(self.target.alive)),
            )
            shares = [
                float((np.bincount(parents[near >= limit], minlength=size) > 1).mean()) for parents, near, size in ways
            ]
            counts.append((shares[0], shares[1]))
        first, second = np.mean(counts, axis=0)
        return float(first), float(second)

    def _absorption(self, found: BestMatches, matched: OneToOne, limit: float) -> tuple[Absorption, ...]:
        """Recurring atoms of either side that are absorbed in the other."""
        here, there = self.source, self.target
        back = np.full(len(there.alive), -1, dtype=np.int64)
        paired = np.flatnonzero(matched.partner >= 0)
        back[matched.partner[paired]] = paired
        recurs = matched.similarity >= self.threshold
        reverse = np.zeros(len(there.alive), dtype=bool)
        reverse[matched.partner[np.flatnonzero(recurs)]] = True
        near = best_matches(there.decoder, here.decoder, signed=self.signed, keep=CANDIDATES)  # type: ignore[arg-type]
        made = []
        for one, other, partner, again, candidates in (
            (here, there, matched.partner, recurs, found),
            (there, here, back, reverse, near),
        ):
            tested, absorbed = find_absorbed(one.fires, other.fires, partner, again, candidates, limit)  # type: ignore[arg-type]
            renamed = tuple(
                Absorbed(int(one.alive[each.atom]), int(other.alive[each.partner]), int(other.alive[each.by]),
                         each.missed, each.covered, each.elsewhere)
                for each in absorbed[:LISTED]
            )  # fmt: skip
            share = len(absorbed) / tested if tested else 0.0
            made.append(Absorption(one.name, other.name, tested, len(absorbed), share, renamed))
        return tuple(made)

    def _together(self, matched: OneToOne, coded: OneToOne, source: Array, target: Array) -> SideBySide | None:
        """Cosine and correlation of the same pairs, those that decoders match; None where there are none."""
        here = np.flatnonzero(matched.partner >= 0)
        if len(here) == 0:
            return None
        there = matched.partner[here]
        correlation = np.einsum("ij,ij->i", source[here], target[there], dtype=np.float64)
        correlation = np.clip(correlation if self.signed else np.abs(correlation), -1.0, 1.0)
        by_decoder, by_code = matched.similarity[here] >= self.threshold, correlation >= self.threshold
        both_matched = (matched.partner >= 0) & (coded.partner >= 0)
        same = matched.partner[both_matched] == coded.partner[both_matched]
        recurring = by_decoder.any()
        return SideBySide(
            atoms=self.source.alive[here],
            cosine=matched.similarity[here],
            correlation=correlation,
            both=float((by_decoder & by_code).mean()),
            cosine_only=float((by_decoder & ~by_code).mean()),
            correlation_only=float((~by_decoder & by_code).mean()),
            mean_correlation=float(correlation[by_decoder].mean()) if recurring else None,
            same_partner=float(same.mean()) if len(same) else None,
        )

    def _curves(self, main: Agreement, draws: list[ChanceDraw]) -> tuple[Any, ...]:
        """Recurrence against frequency, of either side where it is known."""
        here, there = self.source, self.target
        hits = main.similarity >= self.threshold
        back = np.zeros(there.atoms, dtype=bool)
        back[main.partner[hits]] = True
        made = []
        for one, recurs, atoms, near in (
            (here, hits, "sources", "forward"),
            (there, back, "targets", "backward"),
        ):
            if one.frequency is None:
                continue
            by_chance = np.zeros((2, len(one.alive)))
            for each in draws:
                np.add.at(by_chance[0], getattr(each, atoms), getattr(each, near) >= self.threshold)
                np.add.at(by_chance[1], getattr(each, atoms), 1)
            made.append(curve_of(one.name, one.frequency, recurs[one.alive], by_chance))
        return tuple(made)
