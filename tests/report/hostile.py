"""Results with something wrong in them, for pages that must survive it."""

from __future__ import annotations

import copy
from typing import Any

HOSTILE = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Every place in a result."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def broken(result: dict[str, Any], path: tuple[Any, ...], put: Any) -> dict[str, Any]:
    """A copy of a result with something else in one place."""
    found = copy.deepcopy(result)
    where: Any = found
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = put
    return found
