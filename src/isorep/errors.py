"""Errors that a caller can act on: one sentence on what is wrong and where."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class InputError(ValueError):
    """The input or the call is wrong; the message is one sentence on what and where."""


class MissingFileError(InputError, FileNotFoundError):
    """A named file does not exist."""

    def __str__(self) -> str:
        return str(self.args[0])


def missing_extra(package: str, extra: str, purpose: str) -> InputError:
    """The error for an optional package that is not installed."""
    return InputError(f"{purpose} needs {package}: install it with  pip install 'isorep[{extra}]'")


def import_extra(module: str, extra: str, purpose: str, package: str = "") -> Any:
    """An optional module, or the error that names its extra; ``package`` is the name for pip if it differs."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise missing_extra(package or module.partition(".")[0], extra, purpose) from None
