"""``isorep structure``: every score of a file of latents against a file of known factors."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import (
    Groups,
    Html,
    Json,
    Quiet,
    fail,
    named_limit,
    parts,
    progress_bar,
    require_outputs,
    row_labels,
    write_outputs,
)

if TYPE_CHECKING:
    from ..structure import FactorScores


def command(
    latents: Annotated[str, Argument(metavar="LATENTS", help="A file of any format. FILE::NAME picks a part.")],
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
            help="all, or comma-separated from infomec, dci, mig, sap, modularity, explicitness, mcc, linear_r2, "
            "kernel_r2, slots."
        ),
    ] = "all",
    factors_discrete: Annotated[
        str | None, Option(metavar="all|none|NAMES", help="Discrete factors, where the rule errs.")
    ] = None,
    latents_discrete: Annotated[
        str | None, Option(metavar="all|none|NAMES", help="Discrete latents, where the rule errs.")
    ] = None,
    slots: Annotated[str | None, Option(metavar="SIZE|SIZES", help="Columns of each slot: 3, or 3,3,2.")] = None,
    factor_slots: Annotated[str | None, Option(metavar="SIZE|SIZES", help="Those of the factors, if others.")] = None,
    threshold: Annotated[str, Option(help="Active latents: range/20, range/8 or iqr/10.")] = "range/20",
    neighbors: Annotated[int, Option(help="Neighbours of the estimate of mutual information.")] = 10,
    importance: Annotated[str, Option(help="What DCI reads: binned, trees or lasso.")] = "binned",
    ladder: Annotated[bool, Option("--ladder/--no-ladder", help="Fit the ladder from latents to factors.")] = True,
    resamples: Annotated[int, Option(help="Halves of the rows for intervals; 0 for none.")] = 10,
    null: Annotated[int, Option(help="Shuffles, and random axes, for chance levels; 0 for none.")] = 100,
    groups: Groups = None,
    fail_below: Annotated[
        str | None, Option(metavar="SCORE=VALUE", help="Exit 1 if a score is below; several by commas.")
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(help="Seed of splits, halves, shuffles and axes.")] = 0,
) -> None:
    """Are the latents the true factors? Every score, with an interval, beside shuffled rows and random axes."""
    from .. import score_factors

    require_outputs([json, html], latents, factors)
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
    below = {name: result[name].value for name, limit in limits.items() if result[name].value < limit}
    fail(*(f"{name}, {value:.4f}, is below the limit {limits[name]:g}" for name, value in below.items()))


def _print(result: "FactorScores") -> None:
    for noun, name in zip(("latents", "factors"), result.names, strict=True):
        columns = result.columns[noun]
        discrete = sum(column["discrete"] for column in columns)
        counts = {"discrete": discrete, "continuous": len(columns) - discrete}
        kinds = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
        print(f"{noun}  {name}: {result.rows} rows, {kinds}")
    print("\nhigher is better; shuffled rows ask for information, random axes whether any other axes would do as well")
    print(result)


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
