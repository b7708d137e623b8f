"""Version: stated here alone."""

from __future__ import annotations

__version__ = "0.1.0"

ISSUES = "https://github.com/isorep/isorep/issues"
"""Where to report a problem; ``pyproject.toml`` has the same address."""
