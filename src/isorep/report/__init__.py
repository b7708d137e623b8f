"""Plain result dicts as one self-contained HTML page, a notebook snippet or a figure for papers.

The room knows results only as parsed JSON with a ``schema``; it imports no other room.
"""

from __future__ import annotations

from .page import render, write
from .read import read_result

__all__ = ["read_result", "render", "write"]
