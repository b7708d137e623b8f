"""Settings of a preset that the caller changes, given as text: ``replicates=2``, ``models=ae,beta_vae``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ..errors import InputError


def overridden(preset: Any, changes: Mapping[str, Any]) -> Any:
    """The preset with other values; text is read as the kind of value that it replaces."""
    known = {each.name: getattr(preset, each.name) for each in fields(preset)}
    found = {}
    for name, value in changes.items():
        if name not in known:
            raise InputError(f"the preset has no setting {name!r}; it has {', '.join(known)}")
        found[name] = _read(name, value, known[name]) if isinstance(value, str) else value
    return replace(preset, **found)


def _read(name: str, text: str, before: Any) -> Any:
    """Text as the kind of value that was there before: a tuple takes parts between commas."""
    if isinstance(before, tuple):
        first = before[0] if before else ""
        if isinstance(first, tuple) or hasattr(first, "__dataclass_fields__"):
            raise InputError(f"the setting {name} cannot be given as text")
        return tuple(_read(name, part.strip(), first) for part in text.split(",") if part.strip())
    kinds = (int, float) if before is None else (type(before),)
    if isinstance(before, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
    elif isinstance(before, str):
        return text
    elif before is None or isinstance(before, int | float):
        if text.lower() == "none" and not isinstance(before, int | float):
            return None
        for kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    else:
        raise InputError(f"the setting {name} cannot be given as text")
    raise InputError(f"the setting {name} is {before!r} by default, and {text!r} is not of that kind")
