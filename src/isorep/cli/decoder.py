"""``isorep decoder``: how far a decoder is from an isometry, at a sample of latents.

With ``--blocks`` or ``--mechanisms``: which latents act on the outputs independently. With ``--against``: two decoders
side by side, measured and allowed errors.
"""

from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import (
    FILE,
    NAME,
    Html,
    Json,
    N,
    Quiet,
    X,
    fail,
    numbers,
    progress_bar,
    require_outputs,
    show_result,
    tell_outputs,
    write_outputs,
)


def command(
    model: Annotated[
        str,
        Argument(
            metavar="MODEL",
            help="TorchScript file, program of torch.export.save (.pt2), or code: package.module:factory.",
        ),
    ],
    latents: Annotated[
        str, Argument(metavar="LATENTS", help="Latents, one per row, any format. FILE::NAME picks an array.")
    ],
    weights: Annotated[Path | None, Option(metavar=FILE, help="Weights of a model given as code: safetensors.")] = None,
    against: Annotated[
        str | None, Option(metavar="MODEL", help="Second decoder: compare measured errors with the theory's bounds.")
    ] = None,
    against_latents: Annotated[
        str | None, Option(metavar="LATENTS", help="Latents of the second decoder for the same examples.")
    ] = None,
    against_weights: Annotated[
        Path | None, Option(metavar=FILE, help="Weights of the second decoder, as --weights.")
    ] = None,
    join: Annotated[bool, Option("--join", help="Align both files of latents by row id.")] = False,
    mechanisms: Annotated[bool, Option("--mechanisms", help="Find and test factors that act independently.")] = False,
    blocks: Annotated[
        str | None,
        Option(metavar="SIZES", help="Test these blocks of latents: sizes (3,3,3) or latents per block (0,2/1,3)."),
    ] = None,
    tolerances: Annotated[
        str | None,
        Option(
            metavar="A,B,C",
            help="Relative thresholds below which a Jacobian entry counts as zero; default: chosen by precision.",
        ),
    ] = None,
    require: Annotated[
        str | None,
        Option(metavar="TYPE", help="Exit 1 unless this type holds: D, M, S, H2 to H6, IMA, conformal or isometric."),
    ] = None,
    order: Annotated[int, Option(metavar=N, help="Largest n of Types Hₙ to test, up to 6.")] = 3,
    max_leakage: Annotated[
        float | None, Option(metavar=X, help="Exit 1 if the mean Type D leakage (0 to 1) exceeds X.")
    ] = None,
    mode: Annotated[
        str,
        Option(
            metavar="MODE",
            help="Constants from: exact Jacobians, paper (random directions, a lower bound), or matrix_free.",
        ),
    ] = "exact",
    samples: Annotated[int, Option(metavar=N, help="Number of rows to measure at, drawn at random; 0 for all.")] = 1000,
    directions: Annotated[int, Option(metavar=N, help="Random directions per row.")] = 10,
    inactive_below: Annotated[
        float,
        Option(metavar=X, help="Share of the largest Jacobian column below which a latent is inactive."),
    ] = 1e-3,
    memory: Annotated[float, Option(metavar="GIB", help="Memory to use, in GiB.")] = 1.0,
    device: Annotated[
        str | None, Option(metavar=NAME, help="Torch device; default: that of the model's weights.")
    ] = None,
    fail_above: Annotated[float | None, Option(metavar=X, help="Exit 1 if the constant 1 + L exceeds X.")] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[
        int, Option(metavar=N, help="Random seed of sampled rows, directions and the convexity probe.")
    ] = 0,
) -> None:
    """How far is a decoder from an isometry?

    Prints the bi-Lipschitz constant over the latents, with and without a free scale, and inactive latents. With
    --against, the rigid error between two models' latents, compared with the bounds that their decoders give. With
    --blocks or --mechanisms, which blocks of latents act on the outputs independently.
    """
    # The options that are given otherwise than by default; nothing else is a local name yet.
    given = {name for name, value in locals().items() if value != signature(command).parameters[name].default}
    from .. import decoder

    is_pair = against is not None or against_latents is not None
    form = "mechanisms" if mechanisms or blocks is not None else "pair" if is_pair else "single"
    for what, options in _WITHOUT_EFFECT[form].items():
        for name in options:
            if name in given:
                raise InputError(f"--{name.replace('_', '-')} is for {what}")
    models = [NamedModel(model, latents, weights)]
    if form == "pair":
        if against is None or against_latents is None:
            missing = "--against" if against is None else "--against-latents"
            raise InputError(f"a pair needs --against MODEL and --against-latents LATENTS: {missing} is missing")
        models.append(NamedModel(against, against_latents, against_weights))
    require_outputs([json, html], *(file for each in models for file in each.files))
    if fail_above is not None and not fail_above >= 1:
        raise InputError(f"--fail-above takes a constant, which is 1 or more, not {fail_above:g}")
    if samples < 0:
        raise InputError(f"--samples takes a number of rows, not {samples}")
    if require is not None and require not in STATES:
        raise InputError(f"--require is one of {', '.join(STATES)}, not {require}")
    if require is not None and require[1:].isdigit() and int(require[1:]) > order:
        raise InputError(f"--require {require} needs --order {require[1:]}")
    if max_leakage is not None and not 0 <= max_leakage <= 1:
        raise InputError(f"--max-leakage takes a share between 0 and 1, not {max_leakage:g}")
    split = None if blocks is None else parsed_blocks(blocks)
    levels = None if tolerances is None else numbers(tolerances, "--tolerances")
    decoders = [each.load() for each in models]
    settings: dict[str, Any] = {"samples": samples or None, "random_state": seed}
    if form != "mechanisms":
        settings |= {"mode": mode, "device": device}
    with progress_bar(quiet) as progress:
        if form == "mechanisms":
            settings |= {"samples": 100 if samples == 1000 else samples or _ALL, "highest_order": order}
            result: Any = decoder.mechanisms(
                decoders[0], latents, split, tolerances=levels, progress=progress, **settings
            )
        elif form == "pair":
            result = _pair(models, decoders, join=join, progress=progress, **settings)
        else:
            settings |= {"n_directions": directions, "inactive_below": inactive_below, "memory": memory * 2**30}
            result = decoder.bilipschitz(decoders[0], latents, name=models[0].name, progress=progress, **settings)
    write_outputs(result, json, html)
    if not quiet:
        show_result(result, *_head(form, result, models[0].name))
        tell_outputs(json, html)
    if max_leakage is not None:
        _limit(result, max_leakage)
    if require is not None:
        _require(result, require)
    if fail_above is not None:
        _judge(result, form == "pair", fail_above)


_ALL = 2**31  # samples: all rows
STATES = ("D", "M", "S", "H2", "H3", "H4", "H5", "H6", "IMA", "conformal", "isometric")
_OF_DISTANCES = ["mode", "device", "memory", "directions", "fail_above", "inactive_below", "against"]
_WITHOUT_EFFECT = {  # in each form of the command: what options are for that would have none
    "mechanisms": {
        "distances, not mechanisms": _OF_DISTANCES,
        "a pair, with --against": ["against_latents", "join", "against_weights"],
    },
    "pair": {
        "mechanisms, with --mechanisms or --blocks": ["tolerances", "require", "order", "max_leakage"],
        "a single decoder, not a pair": ["directions", "memory", "inactive_below"],
    },
    "single": {
        "mechanisms, with --mechanisms or --blocks": ["tolerances", "require", "order", "max_leakage"],
        "a pair, with --against": ["against_weights", "join"],
    },
}


@dataclass(frozen=True)
class NamedModel:
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
        from ..models.load import code_files

        named = (self.model, None if self.weights is None else str(self.weights))
        return [
            self.latents,
            *(path for path in named if path and Path(path).exists()),
            *map(str, code_files(self.model)),
        ]

    def load(self) -> Any:
        """The decoder."""
        from ..decoder.load import load_decoder

        return load_decoder(self.model, weights=self.weights)


def _pair(models: list[NamedModel], decoders: list[Any], **settings: Any) -> Any:
    from ..decoder import pair

    first, second = models
    names = first.name, second.name
    if first.name == second.name:
        from ..representation import told_apart

        files = [each.model if Path(each.model).exists() else str(each.weights or each.latents) for each in models]
        here, there = told_apart(names, files)
        names = here, there
    return pair(decoders[0], first.latents, decoders[1], second.latents, names=names, **settings)


def _head(form: str, result: Any, name: str) -> list[str]:
    """What was measured, in lines."""
    from ..decoder.bound import shown

    if form == "mechanisms":
        return [f"decoder  {name}: {result.dimension} latents to {result.outputs}, {result.samples} samples"]
    if form == "pair":
        sides = [
            f"{title}  {side.name}: {side.latents} latents to {side.outputs} outputs, {side.rows} rows, constant "
            f"{shown(side.constant)}"
            for title, side in (("first ", result.first), ("second", result.second))
        ]
        return [*sides, "errors of rigid motions in diameters of the second's latents; lower is closer"]
    data = result.data
    shape = " x ".join(map(str, data["output_shape"])) or "1"
    drawn = "" if data["rows_used"] == data["rows"] else f", {data['rows_used']} of them measured"
    return [
        f"decoder  {data['decoder']}: {data['latents']} latents to {shape}, {data['dtype']}",
        f"latents  {data['latents_name']}: {data['rows']} rows{drawn}",
    ]


def parsed_blocks(text: str) -> list[Any]:
    """Sizes of consecutive blocks, as ``3,3,3``, or the latents of each, as ``0,2/1,3``."""
    try:
        if "/" in text:
            return [[int(each) for each in block.split(",")] for block in text.split("/")]
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise InputError(
            f"--blocks takes sizes, as 3,3,3, or the latents of each block, as 0,2/1,3, not {text!r}"
        ) from None


def _require(result: Any, name: str) -> None:
    from ..decoder.mechanism.result import symbol

    state = result.states.get(name)
    called = f"Type {symbol(name)}" if name in STATES[:8] else name
    if state is None:
        fail(f"{called} was not judged: no factors were found to be blocks")
    elif state != "holds":
        fail(f"{called} is required and its state is: {state}")


def _limit(result: Any, limit: float) -> None:
    from ..decoder.mechanism.near import as_share

    leak = next((each for each in result.leakage if each.name == "D"), None)
    if leak is None:
        fail("Type D leakage was not measured: there are no two blocks to be told apart")
    elif leak.mean > limit:
        fail(f"the Type D leakage, {as_share(leak.mean)}, is above the limit {as_share(limit)}")


def _judge(result: Any, is_pair: bool, limit: float) -> None:
    from ..decoder.bound import shown

    constant = max(result.first.constant, result.second.constant) if is_pair else result.constant
    if not constant <= limit:
        fail(f"the {'larger ' if is_pair else ''}constant, {shown(constant)}, is above the limit {limit:g}")
