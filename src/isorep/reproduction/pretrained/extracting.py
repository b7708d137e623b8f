"""The rows of a named pair, layer by layer: extracted from models, or read from files; and those of untrained ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...models.loading import names_code
from ...representation import Array, Representation
from ...storage import labels, read
from ..experiment import Run
from .named import Named

Layer = tuple[str, Representation, Representation, Array | None]
"""Its name, the source's rows, the target's rows and the groups of both."""


def layers_of(pair: Named, run: Run, *, trained: bool) -> Iterator[Layer]:
    """One layer after the other; a file of representations is one, and has nothing untrained."""
    if not pair.models:
        if trained:
            yield "", read(pair.source), read(pair.target), _labels(pair)
        return
    if not trained and not _has_control(pair):
        return
    found = [_extracted(pair, side, run, trained=trained) for side in ("source", "target")]
    names = [list(each.layers) for each in found]
    if len(names[0]) != len(names[1]):
        raise InputError(f"source gave {len(names[0])} layers and target {len(names[1])}: name them one by one")
    for one, other in zip(*names, strict=True):
        label = one if one == other else f"{one} and {other}"
        yield label, found[0][one], found[1][other], found[0].groups


def _extracted(pair: Named, side: str, run: Run, *, trained: bool) -> Any:
    """An extraction in the scratch folder of the unit, where one that was stopped goes on."""
    from ...models import extract

    model, weights = getattr(pair, side), getattr(pair, f"{side}_weights")
    layers = pair.layers if side == "source" else pair.target_layers
    seed = int(np.random.SeedSequence([run.seed, 67, side == "target"]).generate_state(1)[0])
    options: dict[str, Any] = {} if trained else _untrained(model, seed)
    when = "trained" if trained else "untrained"
    return extract(
        options.pop("model", model),
        pair.data,
        layers=list(layers) or None,
        output=None if run.scratch is None else run.scratch / f"{side}-{when}" / "{layer}.npy",
        pool=pair.pool,
        weights=weights if weights and trained else None,
        input=pair.input,
        text_field=pair.text_field,
        group_field=pair.group or None,
        context=pair.context,
        limit=pair.limit,
        seed=seed,
        progress=run.progress,
        **options,
    )


def _untrained(model: str, seed: int) -> dict[str, Any]:
    """A model folder's architecture with random weights; code makes its own, which the seed decides."""
    from ...models.batched import seeded
    from ...models.extraction.sources import open_model

    if names_code(model):
        return {}
    source = open_model(Path(model))
    module = seeded(lambda _: type(source.module)(source.module.config), seed)
    return {"model": module, "tokenizer": source.tokenizer, "pixels": dict(source.pixels)}


def _has_control(pair: Named) -> bool:
    """Code without weights is what it makes itself: nothing is known that it was before."""
    sides = ((pair.source, pair.source_weights), (pair.target, pair.target_weights))
    return all(weights or not names_code(model) for model, weights in sides)


def _labels(pair: Named) -> Array | None:
    return labels(pair.group, pair.source) if pair.group else None
