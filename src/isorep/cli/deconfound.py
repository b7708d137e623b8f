"""``isorep deconfound``: do the axes of an embedding that tell biology survive a new batch?"""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import Html, Json, Quiet, numbers, parts, plain_path, progress_bar, require_outputs, write_outputs


def command(
    data: Annotated[
        str, Argument(metavar="DATA", help="Rows with annotation: h5ad, parquet, csv, ... FILE::KEY names a part.")
    ],
    label: Annotated[str, Option(help="The column that says what was done to a row, or FILE::COLUMN.")],
    batch: Annotated[str, Option(help="The column to hold out by, such as plate; further ones after commas.")],
    key: Annotated[str | None, Option(help="The obsm entry (or X), array or column prefix.")] = None,
    control: Annotated[str | None, Option(help="Labels of controls, comma-separated; by default by name.")] = None,
    each: Annotated[bool, Option("--each", help="Tell each label from the controls on its own.")] = False,
    guides: Annotated[str | None, Option(help="The column of independent experiments on a label.")] = None,
    conditions: Annotated[
        str, Option(help="Comma-separated, from base, pca, pca_ica, pca_rand, ica_base, centred, harmony.")
    ] = "base,pca,pca_ica,pca_rand",
    fit_on: Annotated[str, Option(metavar="train|all|FILE", help="The rows that transforms are fitted on.")] = "train",
    components: Annotated[
        str | None, Option(metavar="N|all", help="Axes to keep; by default rows / 10 at most.")
    ] = None,
    split: Annotated[str, Option(help="folds, leave_one_out or train_on_one.")] = "folds",
    folds: Annotated[int, Option(help="Number of folds of batches.")] = 5,
    seeds: Annotated[int, Option(help="Repeat with so many other folds, rotations and classifier seeds.")] = 1,
    classifiers: Annotated[str, Option(help="lightgbm, logistic, or both; the first decides.")] = "lightgbm",
    top: Annotated[str, Option(help="Shares of features for the concentration, comma-separated.")] = "0.25",
    batch_limit: Annotated[float, Option(help="Drop components of which batches explain more than this.")] = 0.1,
    restarts: Annotated[int, Option(help="Refits that tell whether components recur.")] = 5,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Write a copy of an h5ad file with components.")
    ] = None,
    output_key: Annotated[str, Option(help="The obsm entry to write.")] = "X_isorep_ica",
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(help="Seed of folds, rotations, classifiers and samples.")] = 0,
) -> None:
    """Does ICA separate biology from batch, so that a classifier works on batches it has not seen?

    Prints what each condition shows on held-out batches, paired tests, the verdict, and what components are about.
    """
    from .. import deconfound

    other_rows = [] if fit_on in ("train", "all") else [fit_on]
    require_outputs([output, json, html], data, *other_rows)
    if output is not None and not plain_path(data).suffix == output.suffix == ".h5ad":
        raise InputError(
            f"--output copies an .h5ad file with components in it, not {plain_path(data).name} to {output.name}"
        )
    with progress_bar(quiet) as progress:
        result = deconfound(
            data,
            label,
            parts(batch, "--batch"),
            key=key,
            control=None if control is None else parts(control, "--control"),
            each=each,
            guides=guides,
            conditions=parts(conditions, "--conditions"),
            fit_on=fit_on,
            n_components=_components(components),
            split=split,
            folds=folds,
            n_seeds=seeds,
            classifiers=parts(classifiers, "--classifiers"),
            top=numbers(top, "--top", "shares such as 0.25"),
            batch_limit=batch_limit,
            n_restarts=restarts,
            random_state=seed,
            progress=progress,
        )
    if output is not None:
        result.annotate(plain_path(data), key=output_key, output=output)
    write_outputs(result, json, html)
    if not quiet:
        screen = result.data
        print(f"data   {screen.name}: {screen.rows} rows x {screen.columns} columns")
        print(f"label  {screen.label}: {screen.positives} rows against {', '.join(screen.control)}")
        only = f", {screen.control_only} with controls only" if screen.control_only else ""
        print(f"batch  {', '.join(screen.batch)}: {screen.batches} batches{only}\n")
        print("AUROC and average precision on held-out batches, ± standard error; higher is better")
        print(result)
        if output is not None:
            print(f"wrote {output}: obsm[{output_key!r}], {len(result.components)} components")


def _components(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    if not text.isascii() or not text.isdigit():
        raise InputError(f"--components takes a whole number or all, not {text!r}")
    return int(text)
