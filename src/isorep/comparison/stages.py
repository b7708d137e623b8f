"""Stages of a comparison: their run times, and what a time limit leaves out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

from ..errors import InputError
from ..rows import Deadline, OutOfTimeError

ICA_SHARE, NULL_SHARE = 0.5, 0.8  # of the time that is left when they begin
Preview = Callable[[dict[str, float]], None]
_LEFT_OUT = {
    "independent components": "independent components",
    "null": "shuffled pairings",
    "worst case": "the worst case",
    "residuals": "largest errors and quantiles",
    "views": "the look at what few rows or dimensions decide",
}


def as_deadline(time_limit: float | Deadline | None) -> Deadline:
    """A deadline from seconds."""
    if isinstance(time_limit, Deadline):
        return time_limit
    if time_limit is not None and not float(time_limit) > 0:
        raise InputError(f"time_limit={time_limit!r} must be positive: it is in seconds")
    return Deadline(time_limit)


class Beside:
    """Work in another thread, which is stopped when this one fails."""

    def __init__(self, deadline: Deadline) -> None:
        self._until = deadline.share(1.0)
        self._pool = ThreadPoolExecutor(1)

    def start(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Begin, with the deadline as the first argument; the result is waited for later."""
        return self._pool.submit(work, self._until, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        self._until.stopped = kind is not None
        self._pool.shutdown(cancel_futures=True)


class Stopwatch:
    """Seconds per stage, and the stages that a deadline cut off."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.left_out: dict[str, str] = {}

    @contextmanager
    def __call__(self, stage: str, deadline: Deadline | None = None) -> Iterator[None]:
        """Time a stage; one with a deadline may be left."""
        start = time.perf_counter()
        try:
            yield
        except OutOfTimeError:
            if deadline is None:
                raise
            self.left_out[stage] = _LEFT_OUT[stage]
        finally:
            self.seconds[stage] = time.perf_counter() - start

    def told(self) -> tuple[str, ...]:
        """What was left out, in the order of the stages."""
        return tuple(self.left_out[stage] for stage in _LEFT_OUT if stage in self.left_out)
