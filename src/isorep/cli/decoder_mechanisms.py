"""``isorep decoder --blocks`` and ``--mechanisms``: which latents act on the outputs independently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

_ALL = 2**31  # samples: all rows
STATES = ("D", "M", "S", "H2", "H3")


def run(
    model: str,
    latents: str,
    weights: Path | None,
    blocks: str | None,
    *,
    tolerances: str | None = None,
    require: str | None = None,
    samples: int = 100,
    json: Path | None = None,
    html: Path | None = None,
    quiet: bool = False,
    seed: int = 0,
) -> None:
    """Judge every criterion for the blocks, or for the factors that are found; print and write what was found."""
    from ..decoder import mechanisms
    from ..decoder.loading import load_decoder
    from ..errors import InputError
    from .console import progress_bar
    from .outputs import require_outputs

    inputs = [given for given in (model, str(weights) if weights else None) if given and Path(given).exists()]
    require_outputs([json, html], latents, *inputs)
    split = None if blocks is None else parsed_blocks(blocks)
    levels = None if tolerances is None else _numbers(tolerances)
    if require is not None and require not in STATES:
        raise InputError(f"--require is one of {', '.join(STATES)}, not {require}")
    if samples < 0:
        raise InputError(f"--samples takes a number of rows, not {samples}")
    decoder = load_decoder(model, weights=weights)
    with progress_bar(quiet) as progress:
        result = mechanisms(
            decoder, latents, split, tolerances=levels, samples=samples or _ALL, random_state=seed, progress=progress
        )
    if json is not None:
        result.to_json(json)
    if html is not None:
        result.to_html(html)
    if not quiet:
        name = model if ":" in model and not inputs else Path(model).name
        print(f"decoder  {name}: {result.dimension} latents to {result.outputs}, {result.samples} samples\n")
        print(result)
    if require is not None:
        _require(result, require)


def parsed_blocks(text: str) -> list[Any]:
    """Sizes of consecutive blocks, as ``3,3,3``, or the latents of each, as ``0,2/1,3``."""
    from ..errors import InputError

    try:
        if "/" in text:
            return [[int(each) for each in block.split(",")] for block in text.split("/")]
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise InputError(
            f"--blocks takes sizes, as 3,3,3, or the latents of each block, as 0,2/1,3, not {text!r}"
        ) from None


def _numbers(text: str) -> list[float]:
    from ..errors import InputError

    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        raise InputError(f"--tolerances takes numbers between commas, not {text!r}") from None


def _require(result: Any, name: str) -> None:
    found = result.criteria.get(name)
    state = "was not judged: no factors were found to be blocks" if found is None else found.state
    if state != "holds":
        typer.echo(
            f"isorep: Type {name} {state if found is None else f'is required and its state is: {state}'}", err=True
        )
        raise typer.Exit(1)
