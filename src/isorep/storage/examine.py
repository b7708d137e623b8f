"""HDF5 files examined in a child process: the library may crash or hang on a damaged file, and would take isorep along.

The child opens the file, walks through all groups, looks at every dataset's type, shape and chunks, and reads the
attributes, the first and last rows, and texts, whose lengths the library believes. It has limits on processor time and
memory, and is ended if it waits for long without a processor's work. One child serves all files of a process; whoever
sees it die refuses the file, and the next file gets a new one.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
from functools import lru_cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from .hdf5 import CheckedDataset, HDF5Tree

_SECONDS = 5  # of processor time per file
_PATIENCE = 60  # looks, a second apart, at a child that neither works nor waits for a processor
_BYTES = 2**30  # of memory beyond what the libraries take
_MOST_READ = 1000  # datasets whose first and last entries are read
_FEW = 100
_MOST_TEXTS = 2_000_000  # of a file, that are all read
_TEXTS_AT_ONCE = 20_000
_TEXT_BYTES = 2**29  # of memory, for one of them
_SWITCH = "ISOREP_EXAMINE"  # 0 switches the examination off, for files that one has written


class _LongTextError(Exception):
    """A text that needs more memory than any that is worth it."""


def examine(path: Path) -> None:
    """Refuse a file on which the HDF5 library crashes, hangs, or fills the memory."""
    if os.environ.get(_SWITCH) == "0":
        return
    known = path.stat()
    _examined(str(path.resolve()), known.st_ino, known.st_size, known.st_mtime_ns)


@lru_cache(4096)
def _examined(path: str, *stamp: int) -> None:
    with _LOCK:
        said = _CHILD.ask(path)
    if said == "long text":
        raise InputError("it is damaged, or a text in it is too long: it would take more than 0.5 GiB")
    if said is None:
        raise InputError("the HDF5 library crashed on it, or took too long, in a process of its own: it is damaged")


class _Child:
    """The process that opens files first; it is started for the first one, and again after it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def ask(self, path: str) -> str | None:
        """What the child says of a file; None if it dies of it."""
        if self._process is None or self._owner != os.getpid():  # a fork shares the pipes of its parent
            self._process, self._owner = _started(), os.getpid()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(path) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline() if _answers(process) else ""
        except OSError:
            answer = ""
        if not answer:
            self.end()
        return answer.strip() or None

    def end(self) -> None:
        """End the process, if it is this one's."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            process.wait()


def _answers(process: subprocess.Popen[str]) -> bool:
    """Wait until the child says something or dies; False if it seems to wait for ever.

    Looks are counted, not seconds: a machine that is busy, or that stopped both processes for a while, is no reason to
    refuse a file. Processor time has a limit of its own.
    """
    if os.name == "nt":  # pipes cannot be waited for
        return True
    assert process.stdout is not None
    blocked = 0
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while blocked < _PATIENCE:
            if waiting.select(1.0):
                return True
            blocked += _is_blocked(process.pid)
    return False


def _is_blocked(pid: int) -> bool:
    """Whether a process waits for anything but a processor; True where the system does not tell."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return told.rpartition(")")[2].split()[0] not in "RTt"  # running or runnable, stopped, traced


_CHILD, _LOCK = _Child(), Lock()
atexit.register(_CHILD.end)


def _started() -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-c", "from isorep.storage.examine import serve; serve()"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True
    )


def serve() -> None:
    """Examine the files that stdin names, one JSON text per line, and say so on stdout, until stdin ends."""
    import_module("h5py")  # before memory is limited
    _limit_memory()
    for line in sys.stdin:
        _limit_time()
        try:
            _look(json.loads(line))
        except _LongTextError:
            print("long text", flush=True)
        except Exception:  # a refusal is what the reader itself finds and says better: here only crashes matter
            print("refused", flush=True)
        else:
            print("opened", flush=True)


def _limit_memory(most: int = _BYTES) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    pages = Path("/proc/self/statm")
    taken = int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 2**33
    _limit("RLIMIT_AS", taken + most)
    _limit("RLIMIT_CORE", 0)


def _limit_time() -> None:
    """Allow so many more seconds of processor time; whoever exceeds them is killed, in the midst of C too."""
    try:
        import resource
    except ImportError:  # Windows
        return
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)  # the parent may ignore it
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit("RLIMIT_CPU", int(used.ru_utime + used.ru_stime) + _SECONDS)


def _limit(name: str, most: int) -> None:
    """Set a limit of this process, within the one that it was started with and may not raise."""
    import resource

    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    resource.setrlimit(number, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _look(path: str) -> None:
    from .hdf5 import HDF5Tree

    tree, texts = HDF5Tree(Path(path), examined=True), 0
    for name in ("", "obs", "var", "X"):
        tree.attributes(name)
    for name, (shape, kind) in islice(tree.arrays().items(), _MOST_READ):
        if not shape or 0 in shape:
            continue
        try:
            if len(shape) > 1 and kind in "fiub":
                tree.matrix(name)
            elif len(shape) == 1:
                texts += shape[0] if kind == "O" else 0
                if kind == "O" and texts <= _MOST_TEXTS:
                    _texts(tree, name)
                else:
                    _ends(tree, name)
        except _LongTextError:
            raise
        except Exception:  # the next dataset may still crash
            continue


def _texts(tree: HDF5Tree, name: str) -> None:
    """Read all texts of a dataset, as many chunks at once as hold thousands."""
    checked = tree.checked(name)
    step = max((_TEXTS_AT_ONCE, *(tree.chunks(name) or ())))
    _limit_memory(_TEXT_BYTES)
    try:
        for start in range(0, checked.shape[0], step):
            _read_texts(checked, start, min(start + step, checked.shape[0]))
    finally:
        _limit_memory()


def _read_texts(checked: CheckedDataset, start: int, stop: int) -> None:
    """Read these texts, in halves where they are too much at once; many long ones are legal."""
    try:
        checked[start:stop]
    except (OSError, MemoryError) as error:
        if not (isinstance(error, MemoryError) or "allocation failed" in str(error)):
            raise
        if stop - start == 1:
            raise _LongTextError from error
        middle = (start + stop) // 2
        _read_texts(checked, start, middle)
        _read_texts(checked, middle, stop)


def _ends(tree: HDF5Tree, name: str) -> None:
    """Read a few entries of a dataset of one dimension: all would take the time that the reader itself takes."""
    checked = tree.checked(name)
    for start in {0, max(0, checked.shape[0] - _FEW)}:
        checked[start : min(start + _FEW, checked.shape[0])]
