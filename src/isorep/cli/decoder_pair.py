"""The work of ``isorep decoder --against``: two decoders side by side, measured and allowed errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer


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


def run(
    first: Given,
    against: str | None,
    against_latents: str | None,
    against_weights: Path | None,
    *,
    join: bool,
    mode: str,
    samples: int,
    device: str | None,
    fail_above: float | None,
    json: Path | None,
    html: Path | None,
    quiet: bool,
    seed: int,
) -> None:
    """Compare, write and print."""
    from ..decoder import pair
    from ..decoder.bound import shown
    from ..decoder.loading import load_decoder
    from ..errors import InputError
    from .console import progress_bar
    from .outputs import require_outputs

    if against is None or against_latents is None:
        missing = "--against" if against is None else "--against-latents"
        raise InputError(f"a pair needs --against MODEL and --against-latents LATENTS: {missing} is missing")
    second = Given(against, against_latents, against_weights)
    require_outputs([json, html], *first.files, *second.files)
    if fail_above is not None and not fail_above >= 1:
        raise InputError(f"--fail-above takes a constant, which is 1 or more, not {fail_above:g}")
    if samples < 0:
        raise InputError(f"--samples takes a number of rows, not {samples}")
    names = (first.name, second.name)
    if names[0] == names[1]:
        names = (f"{names[0]} (first)", f"{names[1]} (second)")
    decoders = [load_decoder(each.model, weights=each.weights) for each in (first, second)]
    with progress_bar(quiet) as progress:
        result = pair(
            decoders[0],
            first.latents,
            decoders[1],
            second.latents,
            names=names,
            join=join,
            mode=mode,
            samples=samples or None,
            device=device,
            random_state=seed,
            progress=progress,
        )
    if json is not None:
        result.to_json(json)
    if html is not None:
        result.to_html(html)
    if not quiet:
        for title, side in (("first ", result.first), ("second", result.second)):
            print(
                f"{title}  {side.name}: {side.latents} latents to {side.outputs} outputs, {side.rows} rows, constant "
                f"{shown(side.constant)}"
            )
        print("\nErrors of rigid motions in diameters of the second's latents; lower is closer")
        print(result)
    largest = max(result.first.constant, result.second.constant)
    if fail_above is not None and not largest <= fail_above:
        typer.echo(f"isorep: the larger constant, {shown(largest)}, is above the limit {fail_above:g}", err=True)
        raise typer.Exit(1)
