"""Reading and writing representations: one module per family of formats, chosen by the file's suffix.

To add a format, write a module with ``load(path, key, ids, besides) -> Contents`` and, to be written as well,
``save(path, rows, key)``, and name it in ``registry._FAMILIES``.
"""

from __future__ import annotations

from .registry import Contents, column, labels, loaded, read, suffixes
from .write import write

__all__ = ["Contents", "column", "labels", "loaded", "read", "suffixes", "write"]
