"""Content and style: the block that several views of the same examples share, and what changes between them."""

from __future__ import annotations

from .content import content_style
from .result import Blocks, Component, Rerun, View

__all__ = ["Blocks", "Component", "Rerun", "View", "content_style"]
