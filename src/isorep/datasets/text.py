"""Text to train language models on: the prose of Python's own library, or the user's files.

Every machine that runs this has the standard library: its docstrings, comments and reference pages are some four
million characters of English about programming. They change with the version of Python, so store :func:`text_digest`
with the results.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, MissingFileError
from ..settings import check_counts

TEXT_SUFFIXES = (".txt", ".md", ".rst", ".py")
"""The suffixes of text files in a folder; for Python files the prose is used."""

_FIRST = "pydoc_data/topics.py"
_LEFT_OUT = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})
_LEAST_WORDS = 8
_MOST_BYTES = 200_000_000


@dataclass(frozen=True)
class Document:
    """A piece of text that belongs together, with its name: a path with forward slashes."""

    name: str
    text: str


def standard_library_text(limit: int | None = None) -> list[Document]:
    """The prose of Python's standard library: strings of eight words or more, and comments, one document per module.

    Docstrings, help texts and lines of comments stay in the order of the source; code, test suites and installed
    packages are left out. The pages of the language reference (``pydoc_data/topics.py``) come first, as they are
    continuous prose, then all modules by path. The same installation gives the same documents.

    Parameters
    ----------
    limit : int, optional
        At most so many characters altogether; the last document is cut there.

    Returns
    -------
    list of Document

    Examples
    --------
    >>> from isorep.datasets import standard_library_text
    >>> first, *_ = standard_library_text(limit=2000)
    >>> first.name, len(first.text)
    ('pydoc_data/topics.py', 2000)
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    files = {path.relative_to(root).as_posix(): path for path in _python_files(root)}
    if not files:
        raise MissingFileError(f"{root} holds no Python files: give your own text")
    names = sorted(files, key=lambda name: (name != _FIRST, name))
    return _limited((Document(name, _prose_or_nothing(files[name])) for name in names), limit)


def text_documents(path: str | Path, limit: int | None = None) -> list[Document]:
    """A text file, or all text files of a folder by name, one document each; of Python files the prose.

    Parameters
    ----------
    path : str or Path
        A file of any name, or a folder whose files end in .txt, .md, .rst or .py.
    limit : int, optional
        At most so many characters altogether; the last document is cut there.
    """
    source = Path(path).expanduser()
    if source.is_file():
        return _limited([Document(source.name, _read(source))], limit)
    if not source.is_dir():
        raise MissingFileError(f"{source} does not exist: name a text file or a folder of text files")
    files = {each.relative_to(source).as_posix(): each for each in source.rglob("*") if each.suffix in TEXT_SUFFIXES}
    documents = _limited((Document(name, _read(files[name])) for name in sorted(files) if files[name].is_file()), limit)
    if not documents:
        raise InputError(f"{source} holds no text: its files must end in {', '.join(TEXT_SUFFIXES)}")
    return documents


def text_digest(documents: Sequence[Document]) -> str:
    """A digest of names and texts, to be stored with results: the same text gives the same 32 letters."""
    digest = hashlib.blake2b(digest_size=16)
    for document in documents:
        for part in (document.name, document.text):
            coded = part.encode("utf-8", "surrogatepass")
            digest.update(len(coded).to_bytes(8, "little") + coded)
    return digest.hexdigest()


def prose(source: str) -> str:
    """The strings of eight words or more and the comment lines of a Python source, as paragraphs in their order."""
    with warnings.catch_warnings():  # warnings about escapes in a file that is only read are irrelevant
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    inside: set[int] = set()
    paragraphs: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            inside.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            if len(node.value.split()) >= _LEAST_WORDS:
                paragraphs.append((node.lineno, inspect.cleandoc(node.value)))
    paragraphs += _comments(source.splitlines(), inside)
    return "\n\n".join(text for _, text in sorted(paragraphs, key=lambda each: each[0]))


def _comments(lines: list[str], inside: set[int]) -> Iterator[tuple[int, str]]:
    """Runs of lines that are comments and not part of a string, each with its first line's number."""
    start, run = 0, list[str]()
    for number, line in enumerate([*lines, ""], start=1):
        bare = line.strip()
        if bare.startswith("#") and number not in inside:
            start = start if run else number
            run.append(bare.lstrip("#!: ").rstrip())
            continue
        if run and sum(len(each.split()) for each in run) >= _LEAST_WORDS:
            yield start, "\n".join(run)
        run = []


def _python_files(root: Path) -> Iterator[Path]:
    for path in root.rglob("*.py"):
        if not _LEFT_OUT & set(path.relative_to(root).parts[:-1]):
            yield path


def _prose_or_nothing(path: Path) -> str:
    """The prose of a module of the library; a few are no Python on purpose (templates, other encodings)."""
    try:
        return prose(_read_raw(path))
    except (SyntaxError, ValueError, RecursionError):
        return ""


def _read(path: Path) -> str:
    text = _read_raw(path)
    if path.suffix != ".py":
        return text
    try:
        return prose(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not Python: {error}") from None


def _read_raw(path: Path) -> str:
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path} is larger than {_MOST_BYTES // 10**6} MB: give a part of it")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _limited(documents: Iterable[Document], limit: int | None) -> list[Document]:
    """Documents with text, up to a number of characters; no file is read after the last that is needed."""
    if limit is not None:
        check_counts(limit=(limit, 1))
    kept: list[Document] = []
    left = limit
    for document in documents:
        if not document.text.strip():
            continue
        kept.append(document if left is None else Document(document.name, document.text[:left]))
        left = None if left is None else left - len(kept[-1].text)
        if left == 0:
            break
    return kept
