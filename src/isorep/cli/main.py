"""The ``isorep`` command: signals, closed streams, and an exit code and one sentence for every error.

Nothing else is imported before the handlers of signals are in place: Ctrl-C may come at any moment.
"""

import atexit
import errno
import os
import signal
import sys
import time
from _thread import start_new_thread

TYPE_CHECKING = False  # without typing, which takes as long as all of these
if TYPE_CHECKING:
    from typing import Any, NoReturn

_LONGEST = 2000  # letters of a sentence
_PATIENCE = 10  # seconds in which an interrupted command must come to an end


def run() -> None:
    """Run the command line: exit 2 and one sentence for wrong input, never a traceback for it."""
    with _Asked() as asked:
        try:
            _run(asked)
        except (SystemExit, KeyboardInterrupt) as stop:
            if not asked.number:
                raise
            # No thread is waited for; and Python would end python -m by SIGINT, whatever the signal was.
            atexit._run_exitfuncs()
            os._exit(stop.code if isinstance(stop, SystemExit) and isinstance(stop.code, int) else asked.code)


def _run(asked: "_Asked") -> "NoReturn":
    code: Any = 0
    try:
        from .loading import postpone, share_freed_memory
        from .streams import open_streams, warnings_in_one_line

        open_streams()
        postpone()
        share_freed_memory()
        from ..files import forget_written
        from .commands import app

        forget_written()
        with warnings_in_one_line():
            code = app(standalone_mode=False)
        if code == 130:  # how newer versions of typer report what older ones raise
            raise KeyboardInterrupt
        sys.stdout.flush()
    except BaseException as error:
        asked.ended = True
        if isinstance(error, KeyboardInterrupt) or asked.number or type(error).__name__ in ("Abort", "Interrupted"):
            from ..files import remove_unfinished

            remove_unfinished()  # which an interrupt between two steps may have left
            _stop(f"{asked.word}; {left_behind(error)}", asked.code)
        _explain(error)
    sys.exit(code if isinstance(code, int) else 0)


def left_behind(error: BaseException | None = None) -> str:
    """What an interrupted command leaves behind."""
    if type(error).__name__ == "Interrupted":  # the command says so itself
        return str(error)
    from ..files import written

    names = [str(path) for path in written()]
    if not names:
        return "nothing was written"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"written before that: {', '.join(names[:3])}{more}"


def _explain(error: BaseException) -> "NoReturn":
    """One sentence on an error, and the exit code."""
    from .._version import ISSUES
    from ..errors import InputError
    from .streams import print_error, silence

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
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has two of them
            before = None if number is None else signal.getsignal(number)
            if number is not None and before in (signal.SIG_DFL, signal.default_int_handler):  # nohup has it ignored
                try:
                    signal.signal(number, self._end)
                except ValueError:  # this is not the main thread, which alone has signals
                    break
                self._before[number] = before
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if self.number else before)

    def _end(self, number: int, frame: object) -> None:
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


def _stop(sentence: str, code: int) -> "NoReturn":
    from ..files import visible, without_secrets
    from .streams import print_error, silence

    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)
    told = visible(without_secrets(sentence))
    if len(told) > _LONGEST:  # a path or a name of thousands of letters
        told = f"{told[: _LONGEST // 2]}…{told[-_LONGEST // 2 :]}"
    print_error(f"isorep: {told}")
    sys.exit(code)
