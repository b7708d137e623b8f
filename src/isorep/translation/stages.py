"""The stages of one translation: moments, selection, the test fold, and the map that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..alignment import AffineMap
from ..comparison.result import Side
from ..comparison.sides import describe_side, rms_radius
from ..comparison.stages import Pair
from ..conditioning import factor_covariance, left_out_sentence
from ..moments import fold_moments, leave_one_out, merged, require_memory
from ..representation import Array, rounding_of
from ..resampling import assign_blocks, group_codes, ratio_jackknife, t_interval
from ..rows import Progress, block_rows, map_blocks, read_rows
from .drift import Reference, calibrated, damped_whitener
from .result import HeldOut
from .solving import Setting, Training, best_of, choose
from .splits import Split


class Work:
    """One pass over the rows gives the moments of every code; all maps and choices follow from these."""

    def __init__(self, pair: Pair, split: Split, report: Progress) -> None:
        self.pair, self.split, self.report = pair, split, report
        require_memory(pair.x.shape[1], pair.y.shape[1], split.n_codes)
        self.codes = fold_moments(
            pair.x, pair.y, split.codes, split.n_codes, names=pair.names, progress=self._stage("moments")
        )
        self.rounding = rounding_of(pair.x)
        self.total = merged(self.codes)
        (old, self.resolved), (new, _) = map_blocks(lambda one: self._side(one.start), 2, 1)
        self.left_out = self._drop_dead_columns()
        self.training = Training(merged(self.codes[:-1]), self.rounding)
        self.sides = old, new
        self.radius = new.rms_radius
        self.unit = float(np.trace(self.training.moments.xx)) / pair.x.shape[1]

    def _drop_dead_columns(self) -> str | None:
        """Take columns of the old vectors that hardly vary out of the moments, so that no map uses them.

        Least squares would give them huge coefficients, and what is noise here may be larger noise in a store.
        """
        total = self.total
        factor = factor_covariance(total.xx, total.n, total.source_mean, self.rounding)
        for moments in (*self.codes, total):
            moments.xx[factor.left_out], moments.xx[:, factor.left_out] = 0.0, 0.0
            moments.xy[factor.left_out] = 0.0
            # one mean for all, or merging would put the differences of means back
            moments.source_mean = np.where(factor.left_out, total.source_mean, moments.source_mean)
        return left_out_sentence(factor, self.pair.names[0])

    def select(self, kinds: Sequence[str]) -> tuple[dict[str, Setting], dict[str, float], str]:
        """The setting of every kind and its RMS error over the selection folds, in radii; and the best kind."""
        folds = self.split.selection_folds(self.codes)
        without = [Training(moments, self.rounding) for moments in leave_one_out(folds)]
        settings, errors = {}, {}
        for place, kind in enumerate(kinds):
            settings[kind], errors[kind] = choose(kind, list(zip(without, folds, strict=True)), self.unit)
            self.report("selection", place + 1, len(kinds))
        spread = sum(float(np.trace(fold.yy)) for fold in folds)
        rms = {kind: float(np.sqrt(error / self.training.moments.n)) / self.radius for kind, error in errors.items()}
        return settings, rms, best_of(errors, spread)

    def test(
        self, fitted: Mapping[str, AffineMap], labels: Array | None, intervals: bool, rng: np.random.Generator
    ) -> tuple[dict[str, HeldOut], Reference]:
        """One pass over the test fold: errors and cosines of every map, and what drift is measured against."""
        rows, test = self.split.test_rows, self.codes[-1]
        x, y = self.pair.x, self.pair.y
        moments = self.training.moments
        whitener = damped_whitener(*self.training.spectrum, moments.n)
        radius = float(np.sqrt(np.trace(moments.xx) / moments.n))
        reference = Reference(moments.source_mean, whitener, radius, np.inf, 1.0, 0.0, moments.n, test.n)

        def look(part: slice) -> list[Array]:
            old, native = (read_rows(side, rows[part]).astype(np.float64) for side in (x, y))
            found = [reference.norms(old), reference.distances(old), np.linalg.norm(native - test.target_mean, axis=1)]
            for each in fitted.values():
                mapped = each.apply(old)[:, : each.target_width]
                found += [np.linalg.norm(mapped - native, axis=1), _cosines(mapped, native)]
            return found

        parts = map_blocks(look, len(rows), block_rows(x.shape[1], y.shape[1]), progress=self._stage("test fold"))
        norms, distances, radii, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        errors = dict(zip(fitted, columns[::2], strict=True))
        cosines = dict(zip(fitted, columns[1::2], strict=True))
        together = None if labels is None else group_codes(labels[rows], len(rows))
        blocks = assign_blocks(len(rows), together, rng)
        away, spread = np.bincount(blocks, radii), float(np.trace(test.yy))
        held = {}
        for kind, norm in errors.items():
            total = float(norm @ norm)
            ratio, se = ratio_jackknife(np.bincount(blocks, norm), away)
            held[kind] = HeldOut(
                mean=float(ratio),
                rms=float(np.sqrt(total / test.n)) / self.radius,
                r2=1 - total / spread if spread > 0 else float("nan"),
                cosine=float(cosines[kind].mean()),
                interval=t_interval(float(ratio), float(se), len(away), least=0.0) if intervals else None,
            )
        return held, calibrated(reference, norms, distances)

    def fit(self, settings: Mapping[str, Setting], best: str) -> tuple[dict[str, AffineMap], AffineMap]:
        """Every map fitted to the training rows, and the best one to all rows, one a core."""
        whole = Training(self.total, self.rounding)
        wanted = [(self.training, kind) for kind in settings] + [(whole, best)]
        *fitted, kept = map_blocks(
            lambda one: wanted[one.start][0].fit(wanted[one.start][1], settings[wanted[one.start][1]]), len(wanted), 1
        )
        return dict(zip(settings, fitted, strict=True)), kept

    def _side(self, which: int) -> tuple[Side, bool]:
        """The facts about one side, and whether its moments resolve all its directions."""
        values, name = (self.pair.x, self.pair.y)[which], self.pair.names[which]
        total = self.total if which == 0 else self.total.swapped()
        radius = rms_radius(name, total.n, total.source_mean, total.xx)
        factor = factor_covariance(total.xx, total.n, total.source_mean, rounding_of(values))
        return describe_side(name, values, factor, radius), factor.resolved

    def _stage(self, name: str) -> Any:
        return lambda done, total: self.report(name, done, total)


def _cosines(mapped: Array, native: Array) -> Array:
    """Cosines between rows; 0 where one has no length."""
    lengths = np.linalg.norm(mapped, axis=1) * np.linalg.norm(native, axis=1)
    overlap = np.einsum("ij,ij->i", mapped, native)
    return np.asarray(np.divide(overlap, lengths, out=np.zeros_like(overlap), where=lengths > 0))
