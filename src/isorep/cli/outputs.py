"""The files that commands write: refused before any work if they cannot be written or would overwrite an input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..results import Written


def require_outputs(outputs: Sequence[Path | None], *inputs: str | Path) -> None:
    """Refuse files to write that cannot be written, or are not apart from each other and from the inputs."""
    from ..files import require_writable

    named = [path for path in outputs if path is not None]
    require_apart(named, *inputs)
    for path in named:
        require_writable(path)


def write_outputs(result: Written, json: Path | None, html: Path | None) -> None:
    """Write the files that were asked for."""
    if json is not None:
        result.to_json(json)
    if html is not None:
        result.to_html(html)


def require_apart(outputs: Sequence[Path], *inputs: str | Path) -> None:
    """Refuse an output that is named twice, or that is, holds or lies in an input."""
    from ..errors import InputError

    for place, path in enumerate(outputs):
        here = path.resolve()
        for given in map(plain_path, inputs):
            there = given.resolve()
            if here == there:
                raise InputError(f"{path} is an input: name another file to write")
            if there in here.parents or here in there.parents:
                raise InputError(f"{path} and the input {given} lie in one another: name another file to write")
        if here in [other.resolve() for other in outputs[:place]]:
            raise InputError(f"{path} is named twice: name another file to write")


def plain_path(path: str | Path) -> Path:
    """A path without its ``::NAME``."""
    from ..storage.registry import split_key

    return split_key(path, None)[0]
