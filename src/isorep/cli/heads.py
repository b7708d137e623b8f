"""``isorep heads``: is a model identified by its head, and do two heads predict the map between features?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from .common import (
    COLUMN,
    FILE,
    NAME,
    Html,
    Json,
    N,
    Quiet,
    X,
    fail,
    named_limit,
    progress_bar,
    require_outputs,
    row_labels,
    show,
    tell_outputs,
    write_outputs,
)

if TYPE_CHECKING:
    from ..heads import Heads
    from ..representation import Representation


def command(
    head: Annotated[
        str, Argument(metavar="HEAD", help="Head of (classes x features), any format. FILE::NAME picks a tensor.")
    ],
    other: Annotated[str | None, Argument(metavar="OTHER", help="Second head of the same classes.")] = None,
    bias: Annotated[
        str | None, Option(metavar=COLUMN, help="Biases of HEAD: a column of its file, FILE::NAME or an npy file.")
    ] = None,
    other_bias: Annotated[str | None, Option(metavar=COLUMN, help="Biases of OTHER, given as --bias.")] = None,
    features: Annotated[str | None, Option(metavar=FILE, help="Features that HEAD reads, one row per input.")] = None,
    other_features: Annotated[
        str | None, Option(metavar=FILE, help="Features that OTHER reads, for the same inputs.")
    ] = None,
    weights: Annotated[
        str | None,
        Option(
            metavar=COLUMN,
            help="Class frequencies, label frequencies or output precisions, given as --bias; default: all equal.",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        Option(metavar=COLUMN, help="Keep features of one group together: a column, FILE::COLUMN or an npy file."),
    ] = None,
    ids: Annotated[str | None, Option(metavar=COLUMN, help="Column or array with row ids of the features.")] = None,
    join: Annotated[bool, Option("--join", help="Align the features by row id and keep the common rows.")] = False,
    family: Annotated[
        str, Option(metavar=NAME, help="Output distribution: softmax, contrastive, bernoulli or gaussian.")
    ] = "softmax",
    sets: Annotated[
        str | None, Option(metavar=FILE, help="Candidates drawn together: npy of class indices, one row per set.")
    ] = None,
    reference: Annotated[
        int | None, Option(metavar="CLASS", help="Reference class of the log-odds; default: the mean of all.")
    ] = None,
    folds: Annotated[int, Option(metavar=N, help="Number of folds of the regression.")] = 5,
    intervals: Annotated[bool, Option("--intervals/--no-intervals", help="Compute intervals.")] = True,
    tolerance: Annotated[
        float, Option(metavar=X, help="Largest excess of the head map's error over regression, in diameters.")
    ] = 0.01,
    fail_above: Annotated[
        list[str] | None,
        Option(
            metavar="QUANTITY=VALUE",
            help="Exit 1 if QUANTITY exceeds VALUE: condition, differences, kl, log_odds, standardised, error or "
            "excess. The condition of a head that the theorem does not cover is infinite. May be repeated.",
        ),
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of folds and blocks.")] = 0,
) -> None:
    """Does the linear identifiability theorem apply to a head? Do two heads predict the map between features?

    Prints the verdict, then rank and condition of each head. With two heads also the map between them; with paired
    features also the regression and the closeness in distribution.
    """
    from ..heads import examine
    from ..heads.inputs import read_head
    from ..storage import read

    limits = [_limit(text) for text in fail_above or []]
    require_outputs([json, html], head, other, features, other_features, bias, other_bias, weights, groups, sets)

    if groups is not None and other is None:
        raise InputError("groups say which rows are held out together, and one head holds none out: name two heads")
    if groups is not None and features is None:
        raise InputError("groups belong to the rows of features, and there are none: name them with --features")

    source, target = read_head(head, "head"), None if other is None else read_head(other, "other")
    beside_head, beside_other = row_labels(bias, head), row_labels(other_bias, other or head)
    frequencies = row_labels(weights, head)
    _require_apart(source, head, {bias: beside_head, weights: frequencies})
    _require_apart(target, other, {other_bias: beside_other})
    with progress_bar(quiet) as progress:
        result = examine(
            source,
            target,
            bias=beside_head,
            other_bias=beside_other,
            weights=frequencies,
            features=None if features is None else read(features, ids=ids, besides=[groups]),
            other_features=None if other_features is None else read(other_features, ids=ids, besides=[groups]),
            groups=row_labels(groups, features or head),
            join=join,
            reference=reference,
            folds=folds,
            intervals=intervals,
            tolerance=tolerance,
            random_state=seed,
            family=family,
            sets=None if sets is None else _sets(sets),
            progress=progress,
        )
    exceeded = [sentence for limit in limits if (sentence := _exceeded(result, *limit))]
    write_outputs(result, json, html)
    if not quiet:
        show(str(result))
        tell_outputs(json, html)
    fail(*exceeded)


def _require_apart(head: "Representation | None", path: str | None, columns: dict[str | None, Any]) -> None:
    """Refuse a column of biases or frequencies that was also read as a dimension of the embeddings."""
    import numpy as np

    for name, column in columns.items():
        if head is None or name is None or column is None or "::" in name or len(column) != len(head):
            continue
        try:
            wanted = np.asarray(column).astype(head.values.dtype)
        except ValueError:  # no numbers, which is refused with a sentence of its own
            continue
        if not Path(name).exists() and bool((np.asarray(head.values[:]) == wanted[:, None]).all(axis=0).any()):
            raise InputError(
                f"column {name!r} of {path} was read as a dimension of the embeddings too: name these by the start of "
                f"their columns, as {path}::PREFIX"
            )


def _sets(path: str) -> Any:
    """The places of candidates, one row per set."""
    from ..storage import npy
    from ..storage.registry import guarded

    file = Path(path)
    if file.suffix != ".npy" or not file.is_file():
        raise InputError(f"{path} is no .npy file: --sets takes whole numbers, one row per set")
    return guarded(file, lambda: npy.load(file, None, None).values[:])


def _limit(text: str) -> tuple[str, float]:
    from ..heads.examine import LIMITS

    name, limit = named_limit(text)
    if name not in LIMITS or not limit >= 0:
        raise InputError(
            f"--fail-above takes QUANTITY=VALUE with a value from 0 on, of one of {', '.join(LIMITS)}, not {text!r}"
        )
    return name, limit


def _exceeded(result: "Heads", name: str, limit: float) -> str | None:
    """A sentence if the stated limit is exceeded."""
    from ..heads.examine import LIMITS

    figure = result.figure(name)
    if figure is None:
        if name == "differences":
            raise InputError("--fail-above names differences, and none are sought across sets that are never compared")
        raise InputError(f"--fail-above names {name}, which needs two heads and paired features")
    named = LIMITS[name].replace("centred head", result.heads[0].words.head)
    return f"{named}, {figure:.4g}, exceeds the limit {limit:g}" if not figure <= limit else None
