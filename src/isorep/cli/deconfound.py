"""``isorep deconfound``: do the axes of an embedding that tell biology survive a new batch?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import Html, Json, Quiet


def command(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Rows with their annotation: h5ad, parquet, csv, ... FILE::KEY names a part."
        ),
    ],
    label: Annotated[str, typer.Option(help="The column that says what was done to a row, or FILE::COLUMN.")],
    batch: Annotated[str, typer.Option(help="The column to hold out by, such as plate; further ones after commas.")],
    key: Annotated[str | None, typer.Option(help="The obsm entry (or X), array or column prefix.")] = None,
    control: Annotated[
        str | None, typer.Option(help="Which labels are controls, comma-separated; by default what reads as one.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="Tell each label from the controls on its own.")] = False,
    guides: Annotated[str | None, typer.Option(help="The column of independent experiments on a label.")] = None,
    conditions: Annotated[
        str, typer.Option(help="Comma-separated, from base, pca, pca_ica, pca_rand, ica_base, centred, harmony.")
    ] = "base,pca,pca_ica,pca_rand",
    fit_on: Annotated[
        str, typer.Option(metavar="train|all|FILE", help="The rows that transforms are fitted on.")
    ] = "train",
    components: Annotated[
        str | None, typer.Option(metavar="N|all", help="Axes to keep; by default at most a tenth of the fitted rows.")
    ] = None,
    split: Annotated[str, typer.Option(help="folds, leave_one_out or train_on_one.")] = "folds",
    folds: Annotated[int, typer.Option(help="Number of folds of batches.")] = 5,
    seeds: Annotated[int, typer.Option(help="Repeat with so many other folds, rotations and classifier seeds.")] = 1,
    classifiers: Annotated[str, typer.Option(help="lightgbm, logistic, or both; the first decides.")] = "lightgbm",
    top: Annotated[str, typer.Option(help="Shares of features for the concentration, comma-separated.")] = "0.25",
    batch_limit: Annotated[
        float, typer.Option(help="Batches explain more than this share of a component that the filter drops.")
    ] = 0.1,
    restarts: Annotated[int, typer.Option(help="Refits that tell whether components recur.")] = 5,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a copy of an h5ad file with the components in it.")
    ] = None,
    output_key: Annotated[str, typer.Option(help="The obsm entry to write.")] = "X_isorep_ica",
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="Seed of folds, rotations, classifiers and samples.")] = 0,
) -> None:
    """Does ICA separate biology from batch, so that a classifier works on batches it has not seen?

    Prints what each condition shows on held-out batches, paired tests, the verdict, and what components are about.
    """
    from .. import deconfound
    from ..errors import InputError
    from .common import plain_path, progress_bar, require_outputs, write_outputs

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
            _parts(batch, "--batch"),
            key=key,
            control=None if control is None else _parts(control, "--control"),
            each=each,
            guides=guides,
            conditions=_parts(conditions, "--conditions"),
            fit_on=fit_on,
            n_components=_components(components),
            split=split,
            folds=folds,
            n_seeds=seeds,
            classifiers=_parts(classifiers, "--classifiers"),
            top=_shares(top),
            batch_limit=batch_limit,
            n_restarts=restarts,
            random_state=seed,
            progress=progress,
        )
    if output is not None:
        result.annotate(plain_path(data), key=output_key, output=output)
    write_outputs(result, json, html)
    if not quiet:
        found = result.data
        print(f"data   {found.name}: {found.rows} rows x {found.columns} columns")
        print(f"label  {found.label}: {found.positives} rows against {', '.join(found.control)}")
        only = f", {found.control_only} with controls only" if found.control_only else ""
        print(f"batch  {', '.join(found.batch)}: {found.batches} batches{only}\n")
        print("AUROC and average precision on held-out batches, ± standard error; higher is better")
        print(result)
        if output is not None:
            print(f"wrote {output}: obsm[{output_key!r}], {len(result.components)} components")


def _parts(text: str, option: str) -> list[str]:
    from ..errors import InputError

    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise InputError(f"{option} takes names separated by commas, not {text!r}")
    return found


def _components(text: str | None) -> int | str | None:
    from ..errors import InputError

    if text is None or text == "all":
        return text
    if not text.isascii() or not text.isdigit():
        raise InputError(f"--components takes a whole number or all, not {text!r}")
    return int(text)


def _shares(text: str) -> list[float]:
    from ..errors import InputError

    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"--top takes shares such as 0.25, not {text!r}") from None
