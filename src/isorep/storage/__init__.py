"""Reading representations from files: one module a family of formats, found by the file's suffix.

To add a format, write a module with ``load(path, key, ids) -> Contents`` and name it in ``_READERS``.
"""

from .registry import Contents, column, read, suffixes

__all__ = ["Contents", "column", "read", "suffixes"]
