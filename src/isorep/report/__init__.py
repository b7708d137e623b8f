"""Plain result dicts as one self-contained HTML page, a notebook snippet or a figure for papers.

The room knows results only as parsed JSON with a ``schema``; it imports no other room.
"""

from .page import render, write
from .reading import read_result

__all__ = ["read_result", "render", "write"]
