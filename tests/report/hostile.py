"""Results with something wrong in them, for pages that must survive it."""

from __future__ import annotations

import copy
from typing import Any

HOSTILE = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"


def places(value: Any, path: tuple[Any, ...] = (), most: int | None = None) -> Any:
    """Every place in a result; of lists the first ``most`` items."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:most]) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key), most)


def broken(result: dict[str, Any], path: tuple[Any, ...], put: Any) -> dict[str, Any]:
    """A copy of a result with something else in one place."""
    found = copy.deepcopy(result)
    where: Any = found
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = put
    return found


def without(result: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """A copy of a result that lacks one place."""
    found = copy.deepcopy(result)
    where: Any = found
    for key in path[:-1]:
        where = where[key]
    del where[path[-1]]
    return found


def with_numbers(node: Any, value: Any) -> Any:
    """A copy of a result with all its numbers replaced by one."""
    if isinstance(node, dict):
        return {key: with_numbers(item, value) for key, item in node.items()}
    if isinstance(node, list):
        return [with_numbers(item, value) for item in node]
    return value if isinstance(node, int | float) and not isinstance(node, bool) else node
