"""Masked autoencoders that draw their masks in the pass: shown whole images, with patches in their order.

The library's ViTMAE keeps the patches with the least of some random numbers, in the order of these, three quarters of
them masked: other ones each time. Its features are those of the whole image, so nothing is masked, and numbers that
grow take the place of random ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..loading import import_torch
from .sources import TRANSFORMER, Source


@contextmanager
def unmasked(source: Source) -> Iterator[tuple[str, ...]]:
    """Without masks, where a model draws them; what was done about it, as a note."""
    config = getattr(source.module, "config", None)
    before = getattr(config, "mask_ratio", None)
    takes_noise = "noise" in inspect.signature(source.module.forward).parameters
    if source.kind != TRANSFORMER or before is None or not takes_noise:
        yield ()
        return
    handle = source.module.register_forward_pre_hook(_in_order, with_kwargs=True)
    config.mask_ratio = 0.0  # type: ignore[union-attr]
    try:
        yield (f"{source.name} masks patches at random ({before:.0%}): it was shown whole images",)
    finally:
        config.mask_ratio = before  # type: ignore[union-attr]
        handle.remove()


def _in_order(module: Any, inputs: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    torch = import_torch("extraction")
    images = given["pixel_values"]
    size = module.config.patch_size
    patches = (images.shape[-2] // size) * (images.shape[-1] // size)
    order = torch.arange(patches, device=images.device, dtype=torch.float32)
    return inputs, {**given, "noise": order.expand(len(images), patches)}
