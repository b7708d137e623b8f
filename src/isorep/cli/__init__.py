"""The command line: one file a command, thin."""

from __future__ import annotations
