"""Decoders from model files and from code: TorchScript, exported programs, ``package.module:factory``."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError
from .archives import open_archive
from .preparing import import_torch

_IMPORT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def load_decoder(source: str | Path, *, weights: str | Path | None = None) -> Any:
    """A decoder from a file or from code.

    Parameters
    ----------
    source : str or Path
        A TorchScript file, a program that ``torch.export.save`` wrote, or ``package.module:name``, where the name is a
        module, a function of a batch, or a class or function without arguments that makes one. Code is imported and
        run; model files are checked first, and nothing in them is unpickled.
    weights : str or Path, optional
        A safetensors file with the parameters of a decoder that comes from code.

    Returns
    -------
    callable
        Takes a batch of latents.
    """
    import_torch()
    text = str(source)
    if _IMPORT.fullmatch(text) and not Path(text).exists():
        decoder = _imported(text)
        return decoder if weights is None else _with_weights(decoder, text, Path(weights))
    if weights is not None:
        raise InputError(f"--weights is for decoders that come from code, as package.module:factory, not for {text}")
    path = Path(source)
    if not path.exists():
        hint = " (code is named as package.module:factory)" if path.suffix in ("", ".py") else ""
        raise MissingFileError(f"{path} does not exist{hint}")
    if not path.is_file():
        raise InputError(f"{path} is not a file: name a model file, or package.module:factory")
    if path.suffix == ".py":
        raise InputError(f"{path} is code: name what it holds as {path.stem}:factory, from its folder")
    kind, archive = open_archive(path)
    with _quiet():
        return _script(path, archive) if kind == "script" else _program(path, archive)


def _script(path: Path, archive: Any) -> Any:
    torch = import_torch()
    try:
        return torch.jit.load(archive, map_location="cpu")
    except Exception as error:  # what torch raises and says differs between its versions
        raise InputError(f"{path} is not a TorchScript module that this torch reads: {_first_line(error)}") from error


def _program(path: Path, archive: Any) -> Any:
    torch = import_torch()
    try:
        program = torch.export.load(archive)
        module = program.module(check_guards=False)
    except Exception as error:  # as above
        raise InputError(f"{path} is not an exported program that this torch reads: {_first_line(error)}") from error
    inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    if len(inputs) != 1 or len(program.graph_signature.user_outputs) != 1:
        raise InputError(
            f"{path} has {len(program.graph_signature.user_inputs)} inputs and "
            f"{len(program.graph_signature.user_outputs)} outputs: a decoder takes one tensor and returns one"
        )
    example = inputs[0].meta.get("val")
    if not isinstance(example, torch.Tensor) or example.dim() < 1:
        raise InputError(f"{path} does not take a batch of latents")
    size = example.shape[0]
    if isinstance(size, int):
        return in_batches(module, size, size)
    limits = [program.range_constraints.get(symbol) for symbol in size.node.expr.free_symbols]
    low, high = _limits(limits[0]) if len(limits) == 1 and size.node.expr.is_Symbol else (1, None)
    return module if low <= 1 and high is None else in_batches(module, low, high)


def _limits(allowed: Any) -> tuple[int, int | None]:
    """The sizes of a batch that a program takes."""
    if allowed is None:
        return 1, None
    low = int(allowed.lower) if getattr(allowed.lower, "is_Integer", False) else 1
    high = int(allowed.upper) if getattr(allowed.upper, "is_Integer", False) else None
    return max(low, 1), high


def in_batches(module: Any, low: int, high: int | None) -> Any:
    """A module that takes batches of ``low`` to ``high`` rows as one that takes any: the last row fills up the last."""
    torch = import_torch()

    class Batches(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.module = module
            self.training = False
            self.rows_at_least = low

        def forward(self, rows: Any) -> Any:
            parts = []
            for part in torch.split(rows, high or max(len(rows), 1)):
                missing = max(low - len(part), 0)
                filled = torch.cat([part, part[-1:].expand(missing, *part.shape[1:])]) if missing else part
                found = self.module(filled)
                parts.append(found[: len(part)] if isinstance(found, torch.Tensor) else found)
            return torch.cat(parts) if isinstance(parts[0], torch.Tensor) else parts[0]

    return Batches()


def _imported(text: str) -> Any:
    """What ``package.module:name`` names; modules are also looked for in the current folder."""
    home, _, attribute = text.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(home)
    except ModuleNotFoundError as error:
        if error.name is not None and (home == error.name or home.startswith(f"{error.name}.")):
            raise InputError(f"there is no module {home!r} to import, here or among what is installed") from None
        raise InputError(f"{home} cannot be imported: {_first_line(error)}") from error
    except (Exception, SystemExit) as error:  # the user's code
        raise InputError(f"{home} cannot be imported: {_said(error)}") from error
    finally:
        if here in sys.path:
            sys.path.remove(here)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise InputError(f"{home} has no {attribute!r}")
        found = getattr(found, name)
    return _made(found, text)


def _made(found: Any, text: str) -> Any:
    """A module or a function of a batch, made by calling what makes one."""
    torch = import_torch()
    if isinstance(found, torch.nn.Module):
        return found
    if not callable(found):
        raise InputError(f"{text} is of type {type(found).__name__}, not a decoder or a function that makes one")
    if not inspect.isclass(found) and not _takes_nothing(found):
        return found
    if not _takes_nothing(found):
        raise InputError(f"{text} cannot be called without arguments: name a function that makes the decoder")
    try:
        made = found()
    except (Exception, SystemExit) as error:  # the user's code
        raise InputError(f"{text} fails: {_said(error)}") from error
    if not callable(made):
        raise InputError(f"{text} makes an object of type {type(made).__name__}, not a decoder")
    return made


def _takes_nothing(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # a class without a signature, as some in C have
        return inspect.isclass(function)
    return True


def _with_weights(decoder: Any, text: str, path: Path) -> Any:
    torch = import_torch()
    if not isinstance(decoder, torch.nn.Module):
        raise InputError(f"{text} is not a torch module, so it has no parameters to load from {path}")
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    if path.suffix.lower() != ".safetensors":
        raise InputError(f"{path} is not a safetensors file: save weights with safetensors.torch.save_file")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        decoder.load_state_dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a safetensors file, or it is damaged: {_first_line(error)}") from error
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise InputError(f"{path} does not fit {text}: {' '.join(lines[1:3])[:300]}") from error
    return decoder


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's notes on TorchScript's future, and its log of programs that it cannot read."""
    log = logging.getLogger("torch")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _said(error: BaseException) -> str:
    """What kind of error the user's code raised, and its words."""
    return f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
