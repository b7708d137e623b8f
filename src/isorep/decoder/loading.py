"""Decoders from model files and from code: TorchScript, exported programs, ``package.module:factory``."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError
from ..models.loading import first_line, imported, made, names_code, with_weights
from .archives import open_archive
from .preparing import import_torch


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
    if names_code(text):
        decoder = made(imported(text), text, "decoder")
        return decoder if weights is None else with_weights(decoder, text, Path(weights))
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
        raise InputError(f"{path} is not a TorchScript module that this torch reads: {first_line(error)}") from error


def _program(path: Path, archive: Any) -> Any:
    torch = import_torch()
    try:
        program = torch.export.load(archive)
        module = program.module(check_guards=False)
    except Exception as error:  # as above
        raise InputError(f"{path} is not an exported program that this torch reads: {first_line(error)}") from error
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
