"""The errors a caller can act on: one sentence that says what is wrong and where."""

from __future__ import annotations


class InputError(ValueError):
    """The input or the call is wrong; the message is one sentence that says what and where."""


class MissingFileError(InputError, FileNotFoundError):
    """A file that was named does not exist."""

    def __str__(self) -> str:
        return str(self.args[0])


def missing_extra(package: str, extra: str, purpose: str) -> InputError:
    """The error for an optional package that is not installed."""
    return InputError(f"{purpose} needs {package}: install it with  pip install 'isorep[{extra}]'")
