"""What is set up before numpy is loaded: one memory arena for all threads, and parts of numpy on first use."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from typing import Any

_MOST_ARENAS = -8  # M_ARENA_MAX of malloc.h


def share_freed_memory() -> None:
    """Let all threads allocate from one arena, where the C library is glibc.

    By default each thread keeps what it frees for itself: of 50,000 x 768 that is a fifth of the peak.
    """
    import ctypes

    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_MOST_ARENAS, 1)


def postpone() -> None:
    """Load parts of numpy that no command needs when something of them is used."""
    if not any(isinstance(finder, _Postponed) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Postponed())


class _Postponed:
    """Finder of parts of numpy that no command needs: they are loaded when something of them is used.

    scipy imports every public name of numpy, f2py and its parsers among them: a tenth of the time of a small command.
    """

    names = frozenset({"numpy.f2py", "numpy.testing"})

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in self.names else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
