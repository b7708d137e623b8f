"""Components: association with label and batch, recurrence in refits, and which ones a filter would drop."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from ..ica import ICA, Card, Cards, stability
from ..ica.associations import explained, in_bins, information, spread_explained
from ..ica.cards import cards_of_rows
from ..ica.whitening import quietly
from ..representation import Array
from .inputs import Column, Inputs, Request

_BATCHES_TO_DRAW = 10  # from this number on, refits resample whole batches, otherwise rows


@dataclass(frozen=True)
class Component(Card):
    """The card of a component, with its association with label and batches and whether the filter drops it.

    Attributes
    ----------
    label_r2, label_information : float
        Share of its variance that the label explains, corrected for chance; mutual information with it in nats.
    label_spread_r2 : float
        Share of the variance of its distances from the label's median: above zero where spreads differ.
    batch_r2, batch_information, batch_spread_r2 : dict of str to float
        The same for each batch column.
    batch_driven : bool
        Whether the filter drops it.
    recurrence : float or None
        Median absolute correlation with its match over refits; the ``score`` of the card.
    recurs : bool or None
        Whether that exceeds 0.9 in at least nine of ten refits.
    """

    derived: ClassVar[tuple[str, ...]] = ("findings", "recurrence", "recurs")
    label_r2: float
    label_information: float
    label_spread_r2: float
    batch_r2: dict[str, float]
    batch_information: dict[str, float]
    batch_spread_r2: dict[str, float]
    batch_driven: bool

    @property
    def by_label(self) -> float:
        """What the label explains of its values or of its spread, whichever is more."""
        return max(self.label_r2, self.label_spread_r2)

    def by_batch(self, column: str | None = None) -> float:
        """The same for a batch column, or for the one that explains most."""
        columns = self.batch_r2 if column is None else (column,)
        return max(max(self.batch_r2[each], self.batch_spread_r2[each]) for each in columns)

    @property
    def recurrence(self) -> float | None:
        """The score of the card."""
        return self.score

    @property
    def recurs(self) -> bool | None:
        """Whether it is reproducible."""
        return self.comes_back


def final_components(inputs: Inputs, asked: Request, dimensions: int) -> tuple[ICA, Cards]:
    """PCA+ICA fitted on all rows that transforms may use, and the cards of its components on all rows."""
    fitted = inputs.values if asked.elsewhere is None else asked.elsewhere
    ica = ICA(n_components=dimensions, random_state=0)
    stable: dict[str, Any] = {}
    if asked.n_restarts == 0:
        quietly(ica, fitted)
    else:
        by_batch = asked.elsewhere is None and inputs.batch.count >= _BATCHES_TO_DRAW
        groups = inputs.batch.codes if by_batch else None
        again = stability(
            fitted, asked.n_restarts, ica=ica, groups=groups, cards=False, random_state=asked.random_state
        )
        ica, stable = again.ica, {"stability": (again.scores, again.comes_back)}
    about: dict[str, Any] = {"features": inputs.used_features, "ids": inputs.ids, "numbers": inputs.rows}
    cards = cards_of_rows(ica, inputs.values, inputs.described, n_examples=asked.n_examples, **about, **stable)
    sources = np.asarray(ica.transform(inputs.values))
    found = associations(sources, inputs.label, inputs.batches)
    label, batches = found[0], dict(zip((each.title for each in inputs.batches), found[1:], strict=True))
    driven = batch_driven(found, asked.batch_limit)
    components = []
    for card in cards:
        index = card.number
        binned = in_bins(sources[:, index])
        components.append(
            Component(
                **{each.name: getattr(card, each.name) for each in fields(Card)},
                label_r2=float(label[0, index]),
                label_information=information(binned, inputs.label.codes),
                label_spread_r2=float(label[1, index]),
                batch_r2={title: float(each[0, index]) for title, each in batches.items()},
                batch_information={each.title: information(binned, each.codes) for each in inputs.batches},
                batch_spread_r2={title: float(each[1, index]) for title, each in batches.items()},
                batch_driven=bool(driven[index]),
            )
        )
    return widened(ica, inputs), replace(cards, items=tuple(components))


def associations(sources: Array, label: Column, batches: tuple[Column, ...], rows: Array | None = None) -> Array:
    """What the label, then each batch column explains (columns, 2, components): of values, and of spread."""
    columns = [column.codes for column in (label, *batches)]
    return np.array([[of(sources, codes, rows) for of in (explained, spread_explained)] for codes in columns])


def batch_driven(found: Array, limit: float) -> Array:
    """Components of whose values or spread a batch column explains more than the limit, and more than the label."""
    most = found.max(axis=1)
    batch = most[1:].max(axis=0)
    return np.asarray((batch > limit) & (batch > most[0]))


def widened(ica: ICA, inputs: Inputs) -> ICA:
    """A fit to the columns that are used as one of all columns of the data: those left out have no weight.

    It takes rows as the data hold them, and knows the names of all features.
    """
    kept, k = np.flatnonzero(inputs.kept), len(ica.components_)
    width = len(inputs.kept)
    components, mixing, mean = np.zeros((k, width)), np.zeros((width, k)), inputs.means.copy()
    components[:, kept], mixing[kept], mean[kept] = ica.components_, ica.mixing_, ica.mean_
    ica.components_, ica.mixing_, ica.mean_, ica.n_features_in_ = components, mixing, mean, width
    ica.left_out_columns_ = kept[ica.left_out_columns_]
    if inputs.features is not None:
        ica.feature_names_in_ = np.array(inputs.features, dtype=object)
    if inputs.place is not None:
        whole = inputs.place == "X" or "/" in inputs.place
        ica.matrix_in_ = inputs.place if whole else f"obsm/{inputs.place}"
    return ica
