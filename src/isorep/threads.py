"""BLAS thread limits and crews of threads: one thread per core over blocks, with single-threaded BLAS inside."""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ContextDecorator, contextmanager
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock, local
from typing import Any, Self, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


class _OneThread(ContextDecorator):
    """BLAS with one thread, for as long as any caller in this process asks for it: a context, or a decorator.

    Limits belong to the process. So the first caller sets them and the last one restores them, whichever thread either
    is in. It decorates public functions whose matrices are small, or whose work a crew or Dask's workers share.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._limits: Any = None
        self.threads = 1  # available before the limit, as far as this process may use them

    def __enter__(self) -> None:
        with self._lock:
            if self._count == 0:
                self.threads = min(blas_threads(), allowed_processors())
                self._limits = _controller(len(sys.modules)).limit(limits=1)
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._limits.restore_original_limits()


one_blas_thread = _OneThread()
WIDE_MATRIX = 2048
"""Columns beyond which one matrix of a fit takes tens of megabytes, and its decompositions many seconds."""
_THREAD = local()  # whether it belongs to a crew


class Crew:
    """One thread per core, with single-threaded BLAS inside: the way every pass is made.

    Results come in the order of the items, so that nothing depends on the number of threads. Inside a thread of a crew
    another one has that thread alone.
    """

    def __enter__(self) -> Self:
        one_blas_thread.__enter__()
        self.size = 1 if getattr(_THREAD, "of_a_crew", False) else one_blas_thread.threads
        self._pool = ThreadPoolExecutor(self.size, initializer=_join_crew) if self.size > 1 else None
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        one_blas_thread.__exit__()

    def stream(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Results one by one, in order; only as many are worked on ahead as there are threads."""
        if self._pool is None:
            yield from map(function, items)
            return
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending.append(self._pool.submit(function, item))
                if len(pending) > self.size:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _join_crew() -> None:
    _THREAD.of_a_crew = True


@contextmanager
def alone_if_small(products: int) -> Iterator[None]:
    """Crews that this thread calls have this thread alone where a pass has at most 2**24 products.

    Such a pass takes less than a millisecond, and threads that share it wait for the interpreter: a comparison of
    2,000 x 64 takes 1.9 s without crews and 2.5 s with two threads, one of 1,000 x 256 takes 5.3 and 4.0 s.
    """
    before = getattr(_THREAD, "of_a_crew", False)
    _THREAD.of_a_crew = before or products <= 2**24
    try:
        yield
    finally:
        _THREAD.of_a_crew = before


@contextmanager
def many_if_wide(columns: int) -> Iterator[None]:
    """Lift the caller's limit of one BLAS thread, outside crews, where matrices have more than 2,048 columns.

    Decompositions of such matrices take minutes, come one after the other and cannot be shared by a crew.
    """
    lifted = columns > WIDE_MATRIX and not getattr(_THREAD, "of_a_crew", False)
    if lifted:
        one_blas_thread.__exit__()
    try:
        yield
    finally:
        if lifted:
            one_blas_thread.__enter__()


def blas_threads() -> int:
    """The number of threads that BLAS may use, which is also how many blocks are worked on at once."""
    pools = _controller(len(sys.modules)).info()
    return max((int(pool["num_threads"]) for pool in pools if pool["user_api"] == "blas"), default=1)


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """The BLAS libraries of this process, looked for again when modules have been loaded: a look takes milliseconds."""
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)

    return ThreadpoolController()


@cache
def allowed_processors(root: Path = Path("/sys/fs/cgroup"), told: Path = Path("/proc/self/cgroup")) -> int:
    """How many processors a container lets this process use at once; the machine's where nothing limits it.

    BLAS counts the machine's, and threads beyond the quota of a control group (Linux) are only stopped in turn.
    """
    most = os.cpu_count() or 1
    try:
        groups = [line.split(":", 2) for line in told.read_text().splitlines()]
    except OSError:
        return most
    for _, controllers, place in groups:
        if controllers == "" or "cpu" in controllers.split(","):
            home = root if controllers == "" else root / controllers
            for folder in (home / place.lstrip("/"), home):
                most = min(most, _quota(folder) or most)
    return most


def _quota(folder: Path) -> int | None:
    """The quota over the period of a control group, rounded up, in either version's files; None without one."""
    try:
        both = folder / "cpu.max"
        if both.exists():
            quota, period = both.read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return max(math.ceil(int(quota) / int(period)), 1) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # no such files, "max", or something else
        return None
