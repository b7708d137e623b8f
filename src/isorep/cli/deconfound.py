"""``isorep deconfound``: does ICA separate biology from batch effects in an embedding?"""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import (
    COLUMN,
    FILE,
    NAME,
    NAMES,
    Html,
    Json,
    N,
    Quiet,
    X,
    numbers,
    parts,
    plain_path,
    progress_bar,
    require_outputs,
    show,
    show_result,
    tell_outputs,
    write_outputs,
)


def command(
    data: Annotated[
        str, Argument(metavar="DATA", help="Annotated rows: h5ad, parquet, csv, ... FILE::KEY picks a part.")
    ],
    label: Annotated[str, Option(metavar=COLUMN, help="Column with the treatment of each row, or FILE::COLUMN.")],
    batch: Annotated[
        str, Option(metavar="COLUMNS", help="Column to hold out by, such as plate; several comma-separated.")
    ],
    key: Annotated[
        str | None, Option(metavar=NAME, help="X, an obsm entry, layers/NAME, array or column prefix.")
    ] = None,
    control: Annotated[
        str | None, Option(metavar="LABELS", help="Labels of controls, comma-separated; default: found by name.")
    ] = None,
    each: Annotated[bool, Option("--each", help="Classify each label against the controls separately.")] = False,
    guides: Annotated[
        str | None, Option(metavar=COLUMN, help="Column of independent experiments per label, such as guides.")
    ] = None,
    also_hold_out: Annotated[
        str | None, Option(metavar=COLUMN, help="Column to hold out beside the batches, such as clone or compound.")
    ] = None,
    conditions: Annotated[
        str | None,
        Option(
            metavar=NAMES,
            help="Comma-separated: base, pca, pca_ica, pca_rand, ica_base, control_z, sphere, tvn, centred, "
            "regress_out, combat, harmony; or all. Default: base, pca_ica, pca_rand and, with controls, control_z.",
        ),
    ] = None,
    fit_on: Annotated[str, Option(metavar="train|all|FILE", help="Rows that transforms are fitted on.")] = "train",
    components: Annotated[
        str | None,
        Option(metavar="N|all|tenth", help="Number of axes to keep; default: chosen inside the training batches."),
    ] = None,
    split: Annotated[
        str, Option(metavar="KIND", help="leave_one_out, folds, train_on_one, or auto: one batch at a time up to 20.")
    ] = "auto",
    folds: Annotated[int | None, Option(metavar=N, help="Number of folds of batches; default: see --split.")] = None,
    seeds: Annotated[int, Option(metavar=N, help="Number of repeats with other folds, rotations and seeds.")] = 1,
    rotations: Annotated[int, Option(metavar=N, help="Number of random rotations of pca_rand.")] = 1,
    classifiers: Annotated[
        str, Option(metavar=NAMES, help="Classifiers: lightgbm, logistic or both; the first decides.")
    ] = "lightgbm,logistic",
    top: Annotated[
        str | None, Option(metavar="SHARES", help="Shares of features for the concentration, such as 0.25,0.5.")
    ] = None,
    batch_limit: Annotated[
        float, Option(metavar=X, help="Share explained by batches above which a component is dropped.")
    ] = 0.1,
    restarts: Annotated[int, Option(metavar=N, help="Number of refits to test reproducibility with.")] = 5,
    keep_metadata: Annotated[
        bool, Option("--keep-metadata", help="Use columns that look like metadata: counts, positions, row numbers.")
    ] = False,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar=FILE, help="Write a copy of the h5ad file with components.")
    ] = None,
    output_key: Annotated[str, Option(metavar=NAME, help="The obsm entry to write.")] = "X_isorep_ica",
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of folds, rotations, classifiers and samples.")] = 0,
) -> None:
    """Does ICA separate biology from batch, so that a classifier works on unseen batches?

    Prints the verdict, AUROC and average precision per condition on held-out batches, paired tests and components.
    """
    from .. import deconfound

    batches = parts(batch, "--batch")
    other_rows = None if fit_on in ("train", "all") else fit_on
    require_outputs([output, json, html], data, other_rows, label, *batches, guides, also_hold_out)
    if output is not None and not plain_path(data).suffix == output.suffix == ".h5ad":
        raise InputError(
            f"--output copies an .h5ad file with components in it, not {plain_path(data).name} to {output.name}"
        )
    with progress_bar(quiet) as progress:
        result = deconfound(
            data,
            label,
            batches,
            key=key,
            control=None if control is None else parts(control, "--control"),
            each=each,
            guides=guides,
            also_hold_out=also_hold_out,
            conditions=None if conditions is None else parts(conditions, "--conditions"),
            fit_on=fit_on,
            n_components=_components(components),
            split=split,
            folds=folds,
            n_seeds=seeds,
            n_rotations=rotations,
            classifiers=parts(classifiers, "--classifiers"),
            top=() if top is None else numbers(top, "--top", "shares such as 0.25"),
            batch_limit=batch_limit,
            n_restarts=restarts,
            random_state=seed,
            keep_metadata=keep_metadata,
            progress=progress,
        )
    if output is not None:
        result.annotate(plain_path(data), key=output_key, output=output)
    write_outputs(result, json, html)
    if not quiet:
        screen = result.data
        matrix = "" if result.place is None else f" of {result.place}"
        only = f", {screen.control_only} with controls only" if screen.control_only else ""
        show_result(
            result,
            f"data   {screen.name}: {screen.rows} rows x {screen.columns} columns{matrix}",
            f"label  {screen.label}: {screen.positives} rows against {', '.join(screen.control)}",
            f"batch  {', '.join(screen.batch)}: {screen.batches} batches{only}",
            "AUROC and average precision (AP) on held-out batches, ± standard error; higher is better",
        )
        if output is not None:
            show(f"wrote {output}: obsm[{output_key!r}], {len(result.components)} components")
        tell_outputs(json, html)


def _components(text: str | None) -> int | str | None:
    if text in (None, "all", "tenth"):
        return text
    if not text.isascii() or not text.isdigit():
        raise InputError(f"--components takes a whole number, all or tenth, not {text!r}")
    return int(text)
