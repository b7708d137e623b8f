"""Torch helpers: the missing extra, devices, evaluation mode, temporary hooks.

Modules that define networks take ``torch`` and ``nn`` from here, so that the error without torch names the extra.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..errors import InputError, import_extra
from ..representation import Array

if TYPE_CHECKING:
    import torch as torch
    from torch import nn as nn


def __getattr__(name: str) -> Any:
    if name not in ("torch", "nn"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    torch = import_torch("training a network")
    return torch if name == "torch" else torch.nn


def import_torch(purpose: str) -> Any:
    """Torch, or the error that names the extra."""
    return import_extra("torch", "torch", purpose)


def device_named(name: str) -> Any:
    """An available device; ``auto`` takes the fastest."""
    torch = import_torch("a device")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "meta": False}
    if name == "auto":
        return torch.device("cuda" if there["cuda"] else "mps" if there["mps"] else "cpu")
    try:
        device = torch.device(name)
        if there.get(device.type, True):
            return torch.empty(0, device=device).device  # with its number, as those of parameters have it
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device {name!r} is not known to torch: {first_line(error)}") from None
    raise InputError(f"device {name!r} is not there: this torch sees no {device.type}")


@contextmanager
def evaluating(*modules: Any, device: Any = None) -> Iterator[None]:
    """Modules in evaluation mode, on a device where one is given; their state is restored afterwards."""
    modes = [(part, part.training) for module in modules for part in module.modules()]
    trained = [module for module in modules if module.training]
    homes = []
    for module in modules if device is not None else ():
        first = next(iter([*module.parameters(), *module.buffers()]), None)
        if first is not None and first.device != device:
            homes.append((module, first.device))
    try:
        for module in modules:
            with suppress(NotImplementedError):  # an exported program has its mode built in
                module.eval()
        for module, _ in homes:
            module.to(device)
        yield
    finally:
        for module, home in homes:
            module.to(home)
        for module in trained:
            with suppress(NotImplementedError):
                module.train()  # a module may do more here than set the flag
        for part, mode in modes:
            part.training = mode


@contextmanager
def hooked(handles: Iterable[Any]) -> Iterator[None]:
    """Hooks, registered one by one and removed at the end, also after an error."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        yield


def said(error: BaseException) -> str:
    """The type and message of an error in the user's code."""
    return f"{type(error).__name__}: {first_line(error)}"


def known_to_torch(values: Array) -> Array:
    """The same numbers as torch takes them: in the byte order of this machine, and of no more than 8 bytes."""
    if values.dtype.kind not in "iuf":
        return values
    return values.astype("f8" if values.dtype.itemsize > 8 else values.dtype.newbyteorder("="), copy=False)


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
