"""``isorep decoder``: how far a decoder is from an isometry, at a sample of latents.

With ``--blocks`` or ``--mechanisms``: which latents act on the outputs independently. With ``--against``: two decoders
side by side, measured and allowed errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import Html, Json, Quiet, fail

if TYPE_CHECKING:
    from ..decoder import Geometry


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A TorchScript file, a program of torch.export.save (.pt2), or code: package.module:factory.",
        ),
    ],
    latents: Annotated[
        str,
        typer.Argument(metavar="LATENTS", help="A file of any format, one row a latent. FILE::NAME picks an array."),
    ],
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A safetensors file with the weights of a model given as code.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="A second decoder: set measured errors beside what both allow."),
    ] = None,
    against_latents: Annotated[
        str | None, typer.Option(metavar="LATENTS", help="The second decoder's latents of the same examples.")
    ] = None,
    against_weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="As --weights, for the second decoder.")
    ] = None,
    join: Annotated[bool, typer.Option("--join", help="Align both latents by row id.")] = False,
    mechanisms: Annotated[
        bool, typer.Option("--mechanisms", help="Find and judge factors that act on the outputs independently.")
    ] = False,
    blocks: Annotated[
        str | None,
        typer.Option(metavar="SIZES", help="Judge these blocks of latents: sizes, as 3,3,3, or latents, as 0,2/1,3."),
    ] = None,
    tolerances: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Shares of the largest entry below which a mechanism is none.")
    ] = None,
    require: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Exit 1 unless this type holds: D, M, S, H2 or H3.")
    ] = None,
    mode: Annotated[
        str,
        typer.Option(help="exact (all singular values), paper (random directions, from below), or matrix_free."),
    ] = "exact",
    samples: Annotated[int, typer.Option(help="Rows to measure at, drawn at random; 0 for all.")] = 1000,
    directions: Annotated[int, typer.Option(help="Random directions a row.")] = 10,
    inactive_below: Annotated[
        float,
        typer.Option(help="Latents whose columns are nowhere longer than this share of the longest are inactive."),
    ] = 1e-3,
    memory: Annotated[float, typer.Option(help="GiB to work in.")] = 1.0,
    device: Annotated[
        str | None, typer.Option(help="A torch device; by default where the model's weights are.")
    ] = None,
    fail_above: Annotated[
        float | None,
        typer.Option(metavar="X", help="Exit 1 if the bi-Lipschitz constant 1 + L is above this, or infinite."),
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="Seed of the rows drawn, of directions and of the convexity probe.")] = 0,
) -> None:
    """How far is a decoder from an isometry?

    Prints the bi-Lipschitz constant over the latents, what is left of it when the scale is free, and inactive latents.
    With --against, the rigid error between two models' latents beside the bounds that their decoders give. With
    --blocks or --mechanisms, which blocks of latents act on the outputs independently.
    """
    from ..errors import InputError

    asked = Asked(Given(model, latents, weights), json, html, quiet, seed)
    if mechanisms or blocks is not None:
        _refuse("distances, not mechanisms", mode=mode != "exact", device=device is not None, memory=memory != 1)
        _refuse("distances, not mechanisms", directions=directions != 10, fail_above=fail_above is not None)
        _refuse("distances, not mechanisms", inactive_below=inactive_below != 1e-3, against=against is not None)
        _refuse("a pair, with --against", against_latents=against_latents is not None, join=join)
        _refuse("a pair, with --against", against_weights=against_weights is not None)
        run_mechanisms(asked, blocks, tolerances, require, 100 if samples == 1000 else samples)
        return
    _refuse("mechanisms, with --mechanisms or --blocks", tolerances=tolerances is not None, require=require is not None)
    if against is not None or against_latents is not None:
        _refuse("a single decoder, not a pair", directions=directions != 10, memory=memory != 1)
        _refuse("a single decoder, not a pair", inactive_below=inactive_below != 1e-3)
        if against is None or against_latents is None:
            missing = "--against" if against is None else "--against-latents"
            raise InputError(f"a pair needs --against MODEL and --against-latents LATENTS: {missing} is missing")
        second = Given(against, against_latents, against_weights)
        run_pair(asked, second, fail_above, join=join, mode=mode, samples=samples, device=device)
        return
    _refuse("a pair, with --against", against_weights=against_weights is not None, join=join)
    run_single(
        asked,
        fail_above,
        mode=mode,
        samples=samples,
        n_directions=directions,
        inactive_below=inactive_below,
        memory=memory * 2**30,
        device=device,
    )


@dataclass(frozen=True)
class Given:
    """One model as named on the command line."""

    model: str
    latents: str
    weights: Path | None

    @property
    def name(self) -> str:
        """What to call it."""
        return Path(self.model).name if Path(self.model).exists() else self.model

    @property
    def files(self) -> list[str]:
        """The files it reads."""
        named = (self.model, None if self.weights is None else str(self.weights))
        return [self.latents, *(path for path in named if path and Path(path).exists())]

    def load(self) -> Any:
        """The decoder."""
        from ..decoder.load import load_decoder

        return load_decoder(self.model, weights=self.weights)


@dataclass(frozen=True)
class Asked:
    """What every form of the command is asked: a model, the files to write, and the seed."""

    given: Given
    json: Path | None
    html: Path | None
    quiet: bool
    seed: int

    def check(self, samples: int, fail_above: float | None = None, *more: Given) -> None:
        """Refuse files to write that are inputs, and numbers that make no sense."""
        from ..errors import InputError
        from .common import require_outputs

        require_outputs([self.json, self.html], *(file for each in (self.given, *more) for file in each.files))
        if fail_above is not None and not fail_above >= 1:
            raise InputError(f"--fail-above takes a constant, which is 1 or more, not {fail_above:g}")
        if samples < 0:
            raise InputError(f"--samples takes a number of rows, not {samples}")

    def write(self, result: Any) -> None:
        """The files that were asked for."""
        if self.json is not None:
            result.to_json(self.json)
        if self.html is not None:
            result.to_html(self.html)


def run_single(asked: Asked, fail_above: float | None, *, samples: int, **settings: Any) -> None:
    """Measure one decoder, write and print."""
    from ..decoder import bilipschitz
    from .common import progress_bar

    asked.check(samples, fail_above)
    given, decoder = asked.given, asked.given.load()
    with progress_bar(asked.quiet) as progress:
        result = bilipschitz(
            decoder,
            given.latents,
            samples=samples or None,
            name=given.name,
            random_state=asked.seed,
            progress=progress,
            **settings,
        )
    asked.write(result)
    if not asked.quiet:
        _print(result)
    _fail_above(fail_above, "the constant", result.constant)


def _fail_above(limit: float | None, what: str, constant: float) -> None:
    from ..decoder.bound import shown

    if limit is not None and not constant <= limit:
        fail(f"{what}, {shown(constant)}, is above the limit {limit:g}")


def _refuse(place: str, **given: bool) -> None:
    """Refuse options that would have no effect."""
    from ..errors import InputError

    for name, is_given in given.items():
        if is_given:
            raise InputError(f"--{name.replace('_', '-')} is for {place}")


def _print(result: Geometry) -> None:
    data = result.data
    shape = " x ".join(map(str, data["output_shape"])) or "1"
    drawn = "" if data["rows_used"] == data["rows"] else f", {data['rows_used']} of them measured"
    print(f"decoder  {data['decoder']}: {data['latents']} latents to {shape}, {data['dtype']}")
    print(f"latents  {data['latents_name']}: {data['rows']} rows{drawn}\n")
    print(result)


_ALL = 2**31  # samples: all rows
STATES = ("D", "M", "S", "H2", "H3")


def run_mechanisms(asked: Asked, blocks: str | None, tolerances: str | None, require: str | None, samples: int) -> None:
    """Judge every criterion for the blocks, or for the factors that are found; print and write what was found."""
    from ..decoder import mechanisms
    from ..errors import InputError
    from .common import progress_bar

    asked.check(samples)
    split = None if blocks is None else parsed_blocks(blocks)
    levels = None if tolerances is None else _numbers(tolerances)
    if require is not None and require not in STATES:
        raise InputError(f"--require is one of {', '.join(STATES)}, not {require}")
    given, decoder = asked.given, asked.given.load()
    rows, seed = samples or _ALL, asked.seed
    with progress_bar(asked.quiet) as progress:
        result = mechanisms(
            decoder, given.latents, split, tolerances=levels, samples=rows, random_state=seed, progress=progress
        )
    asked.write(result)
    if not asked.quiet:
        print(f"decoder  {given.name}: {result.dimension} latents to {result.outputs}, {result.samples} samples\n")
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
        fail(f"Type {name} {state if found is None else f'is required and its state is: {state}'}")


def run_pair(asked: Asked, second: Given, fail_above: float | None, *, samples: int, **settings: Any) -> None:
    """Compare two decoders, write and print."""
    from ..decoder import pair
    from ..decoder.bound import shown
    from .common import progress_bar

    asked.check(samples, fail_above, second)
    first = asked.given
    names = (first.name, second.name)
    if names[0] == names[1]:
        names = (f"{names[0]} (first)", f"{names[1]} (second)")
    decoders = (first.load(), second.load())
    with progress_bar(asked.quiet) as progress:
        result = pair(
            decoders[0],
            first.latents,
            decoders[1],
            second.latents,
            names=names,
            samples=samples or None,
            random_state=asked.seed,
            progress=progress,
            **settings,
        )
    asked.write(result)
    if not asked.quiet:
        for title, side in (("first ", result.first), ("second", result.second)):
            print(
                f"{title}  {side.name}: {side.latents} latents to {side.outputs} outputs, {side.rows} rows, constant "
                f"{shown(side.constant)}"
            )
        print("\nErrors of rigid motions in diameters of the second's latents; lower is closer")
        print(result)
    _fail_above(fail_above, "the larger constant", max(result.first.constant, result.second.constant))
