"""Plain result dicts as one self-contained HTML page, a notebook snippet or a figure for papers.

The room knows results only as parsed JSON with a ``schema``; it imports no other room. What draws pages is loaded when
one is drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .page import render, write
    from .read import read_result

__all__ = ["read_result", "render", "write"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'isorep.report' has no attribute {name!r}")
    return getattr(import_module(".read" if name == "read_result" else ".page", __name__), name)
