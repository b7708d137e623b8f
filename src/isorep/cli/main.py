"""The ``isorep`` command: signals, closed streams, and an exit code and one sentence for every error.

Nothing else is imported before the handlers of signals are in place: Ctrl-C may come at any moment.
"""

import errno
import os
import signal
import sys
import threading
import time
from _thread import start_new_thread
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from typing import Any, NoReturn

from .._version import ISSUES
from ..errors import InputError
from .streams import open_streams, print_error, silence

_MOST_ARENAS = -8  # M_ARENA_MAX of malloc.h
_PATIENCE = 10  # seconds in which an interrupted command must come to an end


def run() -> None:
    """Run the command line: exit 2 and one sentence for wrong input, never a traceback for it."""
    with _Asked() as asked:
        open_streams()
        if not any(isinstance(finder, _Postponed) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Postponed())
        _share_freed_memory()
        _run(asked)


def _share_freed_memory() -> None:
    """Let all threads allocate from one arena, where the C library is glibc.

    By default each thread keeps what it frees for itself: of 50,000 x 768 that is a fifth of the peak.
    """
    import ctypes

    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_MOST_ARENAS, 1)


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


def _run(asked: "_Asked") -> NoReturn:
    code: Any = 0
    try:
        from ..files import forget_written
        from .commands import app

        forget_written()
        code = app(standalone_mode=False)
        if code == 130:  # how newer versions of typer report what older ones raise
            raise KeyboardInterrupt
        sys.stdout.flush()
    except BaseException as error:
        asked.ended = True
        if isinstance(error, KeyboardInterrupt) or asked.number or type(error).__name__ in ("Abort", "Interrupted"):
            _stop(f"{asked.word}; {_left(error)}", asked.code)
        _explain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _left(error: BaseException) -> str:
    """What an interrupted command leaves behind."""
    if type(error).__name__ == "Interrupted":  # the command says so itself
        return str(error)
    from ..files import written

    names = [str(path) for path in written()]
    if not names:
        return "nothing was written"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"written before that: {', '.join(names[:3])}{more}"


def _explain(error: BaseException) -> NoReturn:
    """One sentence on an error, and the exit code."""
    if isinstance(error, InputError):
        _stop(str(error), 2)
    if isinstance(error, SystemExit):  # typer's answer to a closed pipe: whoever read our output has seen enough
        sys.exit(0)
    if isinstance(error, BrokenPipeError):
        silence(sys.stdout)  # the interpreter's last flush must not fail
        sys.exit(0)
    if isinstance(error, MemoryError):
        _stop("not enough memory for this input", 2)
    if isinstance(error, OSError):
        _stop(_told(error), 2)
    if not hasattr(error, "format_message"):
        if "ISOREP_DEBUG" in os.environ:
            raise error
        _stop(
            f"internal error: {type(error).__name__}: {error}. Please report it at {ISSUES}; ISOREP_DEBUG=1 shows "
            "where it happened",
            70,
        )
    said = error.format_message()
    if "\n" in said:  # the help of a command that was named without what it needs
        print_error(said)
        sys.exit(2)
    context = getattr(error, "ctx", None)  # a wrong option or argument
    stop = "" if said.endswith("?") else "."
    _stop(f"{said.rstrip('.')}{stop} See {'isorep' if context is None else context.command_path} --help", 2)


class _Asked:
    """Requests to end: SIGTERM and SIGHUP interrupt as Ctrl-C does, so that temporary files are removed.

    The first one counts, the rest is tidying up: further ones are ignored. What does not come to an end then, such as
    a thread that waits for a device, is cut off.
    """

    def __init__(self) -> None:
        self.word, self.code, self.number = "interrupted", 130, 0
        self.ended = False  # whether the command has come to an end, and only the process has not
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_Asked":
        here = threading.current_thread() is threading.main_thread()
        for name in ("SIGINT", "SIGTERM", "SIGHUP") if here else ():
            number = getattr(signal, name, None)  # Windows has two of them
            before = None if number is None else signal.getsignal(number)
            if number is not None and before in (signal.SIG_DFL, signal.default_int_handler):  # nohup has it ignored
                self._before[number] = before
                signal.signal(number, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if self.number else before)

    def _end(self, number: int, frame: Any) -> None:
        if self.number:
            return
        self.number = number
        self.word, self.code = ("interrupted" if number == signal.SIGINT else "terminated"), 128 + number
        start_new_thread(self._cut_off, ())  # a thread of threading takes locks, which the main thread may hold
        raise KeyboardInterrupt

    def _cut_off(self) -> None:
        time.sleep(_PATIENCE)
        if not self.ended:
            said = f"isorep: {self.word}; it did not end within {_PATIENCE} s, so temporary files may be left\n"
            os.write(2, said.encode())
        os._exit(self.code)


def _told(error: OSError) -> str:
    """What the system says, and of which file."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"what was printed, or a scratch file (TMPDIR), cannot be written: {reason}"
    return reason


def _stop(sentence: str, code: int) -> NoReturn:
    from ..files import visible, without_secrets

    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
    print_error(f"isorep: {visible(without_secrets(sentence))}")
    sys.exit(code)
