"""``isorep structure``: every score of a file of latents against a file of known factors."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import (
    NAMES,
    Groups,
    Html,
    Json,
    N,
    Quiet,
    fail,
    named_limit,
    parts,
    progress_bar,
    require_outputs,
    row_labels,
    show_result,
    tell_outputs,
    write_outputs,
)

if TYPE_CHECKING:
    from ..structure import FactorScores


def command(
    latents: Annotated[str, Argument(metavar="LATENTS", help="File of any format. FILE::NAME picks a part.")],
    factors: Annotated[
        str,
        Argument(
            metavar="FACTORS",
            help="The same rows: csv, parquet, npy, ... with numbers or text. FILE::A,B picks columns.",
        ),
    ],
    scores: Annotated[
        str,
        Option(
            metavar=NAMES,
            help="Scores to compute, by commas: infomec, dci, mig, sap, modularity, explicitness, mcc, linear_r2, "
            "kernel_r2, slots; or all.",
        ),
    ] = "all",
    factors_discrete: Annotated[
        str | None, Option(metavar="all|none|NAMES", help="Factors to treat as discrete; default: by rule.")
    ] = None,
    latents_discrete: Annotated[
        str | None, Option(metavar="all|none|NAMES", help="Latents to treat as discrete; default: by rule.")
    ] = None,
    slots: Annotated[
        str | None, Option(metavar="SIZES", help="Columns per slot: 3 for all slots, or 3,3,2; default: no slots.")
    ] = None,
    factor_slots: Annotated[
        str | None, Option(metavar="SIZES", help="Columns per slot of the factors; default: as --slots.")
    ] = None,
    threshold: Annotated[
        str, Option(metavar="RULE", help="Spread above which a latent is active: range/20, range/8 or iqr/10.")
    ] = "range/20",
    neighbors: Annotated[
        int, Option(metavar=N, help="Number of neighbours for the estimate of mutual information.")
    ] = 10,
    importance: Annotated[
        str, Option(metavar="KIND", help="Feature importance for DCI: binned, trees or lasso.")
    ] = "binned",
    ladder: Annotated[bool, Option("--ladder/--no-ladder", help="Fit the ladder from latents to factors.")] = True,
    resamples: Annotated[
        int, Option(metavar=N, help="Number of random halves of the rows for intervals, 0 for none.")
    ] = 10,
    null: Annotated[
        int, Option(metavar=N, help="Number of shuffles, and of random axes, for chance levels, 0 for none.")
    ] = 100,
    groups: Groups = None,
    fail_below: Annotated[
        str | None, Option(metavar="SCORE=VALUE", help="Exit 1 if the score is below VALUE; several by commas.")
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of splits, halves, shuffles and axes.")] = 0,
) -> None:
    """Do the latents match known factors?

    Prints the verdict, every score with its interval, compared with shuffled rows and random axes, and every factor.
    """
    from .. import score_factors

    require_outputs([json, html], latents, factors, groups)
    wanted = parts(scores, "--scores")
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
            groups=row_labels(groups, latents),
            n_resamples=resamples,
            n_null=null,
            random_state=seed,
            progress=progress,
        )
    write_outputs(result, json, html)
    if not quiet:
        _print(result)
        tell_outputs(json, html)
    below = {name: result[name].value for name, limit in limits.items() if result[name].value < limit}
    fail(*(f"{name}, {value:.4f}, is below the limit {limits[name]:g}" for name, value in below.items()))


def _print(result: "FactorScores") -> None:
    facts = []
    for noun, name in zip(("latents", "factors"), result.names, strict=True):
        columns = result.columns[noun]
        discrete = sum(column["discrete"] for column in columns)
        counts = {"discrete": discrete, "continuous": len(columns) - discrete}
        kinds = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
        facts.append(f"{noun}  {name}: {result.rows} rows, {kinds}")
    show_result(result, *facts)


def _kinds(text: str | None, option: str) -> Any:
    if text is None or text in ("all", "none"):
        return None if text is None else text == "all"
    return parts(text, option)


def _sizes(text: str | None, option: str) -> int | list[int] | None:
    if text is None:
        return None
    sizes = parts(text, option)
    if not all(size.isascii() and size.isdigit() for size in sizes):
        raise InputError(f"{option} takes a number of columns, or several separated by commas, not {text!r}")
    return int(sizes[0]) if len(sizes) == 1 else [int(size) for size in sizes]


def _limits(text: str | None, wanted: list[str]) -> dict[str, float]:
    from ..structure import OUTPUTS

    limits: dict[str, float] = {}
    for part in [] if text is None else parts(text, "--fail-below"):
        name, limit = named_limit(part)
        if name not in OUTPUTS or not limit <= 1:
            raise InputError(
                f"--fail-below takes SCORE=VALUE with a value of at most 1, not {part!r}; "
                f"scores are {', '.join(OUTPUTS)}"
            )
        if wanted != ["all"] and OUTPUTS[name] not in wanted:
            raise InputError(f"--fail-below names {name}, whose family {OUTPUTS[name]} is not among --scores")
        limits[name] = limit
    return limits
