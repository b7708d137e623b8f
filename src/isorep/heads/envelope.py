"""The plain form that every result of this room shares, so that one page draws them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._version import __version__

SCHEMA = "isorep.heads/1"


def envelope(
    verdict: str,
    holds: bool | None,
    caveats: Sequence[str],
    settings: dict[str, Any],
    *,
    heads: Sequence[dict[str, Any]] = (),
    head_map: dict[str, Any] | None = None,
    closeness: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A result with the parts that there are."""
    return {
        "schema": SCHEMA,
        "isorep": __version__,
        "verdict": verdict,
        "holds": holds,
        "heads": list(heads),
        "map": head_map,
        "closeness": closeness,
        "settings": settings,
        "caveats": list(caveats),
    }
