"""``isorep structure``: every score of a file of latents against a file of known factors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import Html, Json, Quiet

if TYPE_CHECKING:
    from ..structure import FactorScores


def command(
    latents: Annotated[str, typer.Argument(metavar="LATENTS", help="A file of any format. FILE::NAME picks a part.")],
    factors: Annotated[
        str,
        typer.Argument(
            metavar="FACTORS",
            help="The same rows: csv, parquet, npy, ... with numbers or text. FILE::A,B picks columns.",
        ),
    ],
    scores: Annotated[
        str,
        typer.Option(
            help="all, or comma-separated from infomec, dci, mig, sap, modularity, explicitness, mcc, linear_r2, "
            "kernel_r2, slots."
        ),
    ] = "all",
    factors_discrete: Annotated[
        str | None, typer.Option(metavar="all|none|NAMES", help="Which factors are discrete, where the rule errs.")
    ] = None,
    latents_discrete: Annotated[
        str | None, typer.Option(metavar="all|none|NAMES", help="Which latents are discrete, where the rule errs.")
    ] = None,
    slots: Annotated[
        str | None, typer.Option(metavar="SIZE|SIZES", help="Columns of each slot of the latents: 3, or 3,3,2.")
    ] = None,
    factor_slots: Annotated[
        str | None, typer.Option(metavar="SIZE|SIZES", help="Those of the factors, if other than of the latents.")
    ] = None,
    threshold: Annotated[str, typer.Option(help="Active latents: range/20, range/8 or iqr/10.")] = "range/20",
    neighbors: Annotated[int, typer.Option(help="Neighbours of the estimate of mutual information.")] = 10,
    importance: Annotated[str, typer.Option(help="What DCI reads: binned, trees or lasso.")] = "binned",
    ladder: Annotated[
        bool, typer.Option("--ladder/--no-ladder", help="Fit the ladder from latents to factors.")
    ] = True,
    resamples: Annotated[int, typer.Option(help="Halves of the rows for intervals; 0 for none.")] = 10,
    null: Annotated[int, typer.Option(help="Shuffles for chance levels and p-values; 0 for none.")] = 100,
    groups: Annotated[
        str | None,
        typer.Option(help="Rows that belong together: a column of LATENTS, or FILE::COLUMN, or an npy file."),
    ] = None,
    fail_below: Annotated[
        str | None,
        typer.Option(metavar="SCORE=VALUE", help="Exit 1 if a score is below this; several after commas."),
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="Seed of splits, halves and shuffles.")] = 0,
) -> None:
    """Are the latents the true factors? Every score, with an interval, beside what chance gives."""
    from .. import score_factors
    from ..storage import labels
    from .common import fail, progress_bar, require_outputs, write_outputs

    require_outputs([json, html], latents, factors)
    wanted = _parts(scores, "--scores")
    limits = _limits(fail_below, wanted)
    with progress_bar(quiet) as progress:
        result = score_factors(
            latents,
            factors,
            scores="all" if wanted == ["all"] else wanted,
            ladder=ladder,
            slots=_sizes(slots, "--slots"),
            factor_slots=_sizes(factor_slots, "--factor-slots"),
            threshold=threshold,
            n_neighbors=neighbors,
            importance=importance,
            discrete_factors=_kinds(factors_discrete, "--factors-discrete"),
            discrete_latents=_kinds(latents_discrete, "--latents-discrete"),
            groups=None if groups is None else labels(groups, latents),
            n_resamples=resamples,
            n_null=null,
            random_state=seed,
            progress=progress,
        )
    write_outputs(result, json, html)
    if not quiet:
        _print(result)
    below = {name: result[name].value for name, limit in limits.items() if result[name].value < limit}
    fail(*(f"{name}, {value:.4f}, is below the limit {limits[name]:g}" for name, value in below.items()))


def _print(result: FactorScores) -> None:
    for noun, name, columns in (
        ("latents", result.names[0], result.columns["latents"]),
        ("factors", result.names[1], result.columns["factors"]),
    ):
        discrete = sum(column["discrete"] for column in columns)
        kinds = ", ".join(
            f"{number} {kind}"
            for number, kind in ((discrete, "discrete"), (len(columns) - discrete, "continuous"))
            if number
        )
        print(f"{noun}  {name}: {result.rows} rows, {kinds}")
    print("\nhigher is better; chance is what shuffled rows give")
    print(result)


def _parts(text: str, option: str) -> list[str]:
    from ..errors import InputError

    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise InputError(f"{option} takes names separated by commas, not {text!r}")
    return found


def _kinds(text: str | None, option: str) -> Any:
    if text is None or text in ("all", "none"):
        return None if text is None else text == "all"
    return _parts(text, option)


def _sizes(text: str | None, option: str) -> int | list[int] | None:
    from ..errors import InputError

    if text is None:
        return None
    parts = _parts(text, option)
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(f"{option} takes a number of columns, or several separated by commas, not {text!r}")
    return int(parts[0]) if len(parts) == 1 else [int(part) for part in parts]


def _limits(text: str | None, wanted: list[str]) -> dict[str, float]:
    from ..errors import InputError
    from ..structure import OUTPUTS

    found: dict[str, float] = {}
    for part in [] if text is None else _parts(text, "--fail-below"):
        name, _, number = part.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = float("nan")
        if name not in OUTPUTS or not limit <= 1:
            raise InputError(
                f"--fail-below takes SCORE=VALUE with a value of at most 1, not {part!r}; "
                f"scores are {', '.join(OUTPUTS)}"
            )
        if wanted != ["all"] and OUTPUTS[name] not in wanted:
            raise InputError(f"--fail-below names {name}, whose family {OUTPUTS[name]} is not among --scores")
        found[name] = limit
    return found
