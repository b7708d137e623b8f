"""Which layers are meant: by dotted name, or by number."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from ...errors import InputError

OUTPUT = "output"
HIDDEN = "hidden_"


def module_named(model: Any, layer: str) -> Any:
    """A module by its dotted name; ``output`` is the model itself, unless a module is called so."""
    if not isinstance(layer, str):
        raise InputError(f"layers are named by dotted names, not by {layer!r}")
    modules = dict(model.named_modules())
    if layer and layer in modules:
        return modules[layer]
    if layer == OUTPUT:
        return model
    names = [name for name in modules if name]
    near = difflib.get_close_matches(layer, names, n=3, cutoff=0.4)
    near += [name for name in names if name.endswith(f".{layer}") and name not in near][:2]
    listed = f"near are {', '.join(near)}" if near else f"there are {', '.join(names[:8]) or 'none'}"
    raise InputError(f"there is no layer {layer!r}; {listed} (--list-layers shows all)")


def parse_layers(given: Any, model: Any) -> list[str | int]:
    """Names and numbers from one name, one number, a list of them, or text with commas.

    Text that looks like a number is one, unless the model has a module of that name.
    """
    items = [given] if isinstance(given, str | int) else list(given)
    modules = {name for name, _ in model.named_modules()}
    found: list[str | int] = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise InputError(f"layers are named by dotted names or numbers, not by {item!r}")
        parts = [item] if isinstance(item, int) else [part.strip() for part in item.split(",")]
        found += [_number(part) if isinstance(part, str) and part not in modules else part for part in parts]
    if not found or "" in found:
        raise InputError("layers is empty: name one, such as encoder.3, or number one, such as -1")
    return found


def hidden_label(index: int) -> str:
    """What a hidden state is called: its number from 0, the embeddings."""
    return f"{HIDDEN}{index}"


def number_of_hidden(name: str, model: Any) -> str | int:
    """The number of a hidden state that is called as :func:`hidden_label` does; any other name as it is."""
    digits = name.removeprefix(HIDDEN)
    is_state = name.startswith(HIDDEN) and digits.isascii() and digits.isdigit()
    return int(digits) if is_state and name not in dict(model.named_modules()) else name


def numbered(index: int, names: Sequence[str], what: str) -> str:
    """One of the names by its number, also from the end."""
    if not names:
        raise InputError(f"there is no layer {index}: the model calls no modules inside of it; name {OUTPUT!r}")
    if not -len(names) <= index < len(names):
        raise InputError(
            f"there is no layer {index}: {what} are numbered 0 to {len(names) - 1}, or -{len(names)} to -1"
        )
    return names[index]


def leaves_in_order(calls: Sequence[str], model: Any) -> list[str]:
    """The modules without children, in the order in which one pass first calls them."""
    modules = dict(model.named_modules())
    seen = dict.fromkeys(name for name in calls if name and not list(modules[name].children()))
    return list(seen)


def _number(text: str) -> str | int:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else text
