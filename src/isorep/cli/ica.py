"""``isorep ica``: fit independent components, apply them to other rows, and ask which of them come back."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import Html, Json, Quiet, plain_path, require_apart, require_outputs, write_outputs

if TYPE_CHECKING:
    from ..ica.estimator import ICA, FitProgress
    from ..representation import Representation

app = typer.Typer(
    help="Independent components: fit them, apply them, ask which come back.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file of any format, or a folder of shards. FILE::NAME picks an array.")
]
Ids = Annotated[str | None, typer.Option(help="The column or array with row ids.")]
Components = Annotated[int | None, typer.Option(help="How many components; by default the rank of the data.")]
Standardise = Annotated[
    bool,
    typer.Option(
        "--standardise",
        help="Columns have different units: all that vary count. By default those below 1e-4 of the median spread do "
        "not.",
    ),
]
ContrastName = Annotated[str, typer.Option(help="logcosh, exp or cube.")]


@app.command()
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the model here: a .safetensors file.")],
    components: Components = None,
    contrast: ContrastName = "logcosh",
    whiten: Annotated[str, typer.Option(help="pca, zca or none.")] = "pca",
    tol: Annotated[float, typer.Option(help="Radians, RMS, that a Newton step may still turn planes by.")] = 1e-4,
    max_iter: Annotated[int, typer.Option(help="At most this many sweeps over the data.")] = 200,
    standardise: Standardise = False,
    device: Annotated[str | None, typer.Option(help="A torch device such as cuda, to sweep there.")] = None,
    ids: Ids = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="Seed of the rows that the search draws, and of restarts.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on from the checkpoint of an interrupted fit, if there.")
    ] = True,
) -> None:
    """Fit independent components and write the model.

    The state is kept beside the model, in MODEL.checkpoint: after an interruption the same command goes on.
    """
    from ..errors import InputError
    from ..ica.checkpoint import Checkpoint
    from ..ica.model import save_model
    from ..ica.summary import Fit
    from ..ica.whitening import as_source
    from ..representation import reading_notes
    from ..storage import read
    from ..storage.model_files import require_model_path
    from .common import Interrupted, fit_bar, peak_memory, print_fit

    if whiten not in ("pca", "zca", "none"):
        raise InputError(f"--whiten is {whiten!r}; known are pca, zca, none")
    ica = _estimator(
        components,
        contrast,
        seed,
        whiten=None if whiten == "none" else whiten,
        tol=tol,
        max_iter=max_iter,
        standardise=standardise,
        device=device,
    )
    checkpoint = Path(f"{output}.checkpoint")
    require_model_path(output)
    require_outputs([output, checkpoint, json, html], data)
    if not resume and checkpoint.exists():
        Checkpoint(checkpoint, {}).load()  # only a checkpoint is thrown away
        checkpoint.unlink()
    going_on = checkpoint.exists() and whiten != "none"
    began, saved = time.monotonic(), False
    try:
        rows = read(data, ids=ids)
        name = rows.name or data
        training = {"name": name, "rows": len(rows), "fingerprint": as_source(rows.values).fingerprint()}
        with fit_bar(quiet) as progress, _noted() as notes:
            _fit(ica, rows, checkpoint, progress)
        save_model(ica, output, extra=training)
        saved = True
        seconds = time.monotonic() - began
        result = Fit.of(
            ica,
            name=name,
            rows=len(rows),
            seconds=seconds,
            peak_memory=peak_memory(),
            notes=tuple(reading_notes(rows)),
        )
        write_outputs(result, json, html)
    except KeyboardInterrupt:
        raise Interrupted(f"the model is in {output}" if saved else _what_is_left(checkpoint)) from None
    if not quiet:
        went_on = [f"went on from {checkpoint}"] if going_on else []
        print_fit(ica, name, len(rows), [*went_on, *notes, *result.caveats])
        print(f"wrote {output}")


@app.command()
def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that isorep ica fit wrote.")],
    data: Data,
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="Write the result here; the suffix chooses the format, as in reading.")
    ],
    inverse: Annotated[bool, typer.Option("--inverse", help="Map components back to the columns.")] = False,
    ids: Ids = None,
    drop_ids: Annotated[bool, typer.Option("--drop-ids", help="Leave the row ids out.")] = False,
    quiet: Quiet = False,
) -> None:
    """Turn rows into their independent components, or back, block by block."""
    from ..ica.model import applied, load_model
    from ..representation import reading_notes
    from ..storage import read, write
    from ..storage.write import require_target
    from .common import progress_bar

    require_target(output)
    require_apart([plain_path(output)], data, model)
    ica = load_model(model)
    rows = read(data, ids=ids)
    with progress_bar(quiet) as progress:
        result = applied(ica, rows, inverse=inverse, progress=lambda done, total: progress("applying", done, total))
        write(result, output, drop_ids=drop_ids)
    if not quiet:
        kept = rows.ids is not None and not drop_ids and plain_path(output).suffix.lower() != ".npy"
        with_ids = "with" if kept else "without"
        print(f"wrote {output}: {len(result)} rows x {result.shape[1]} columns, {result.values.dtype}, {with_ids} ids")
        for note in reading_notes(rows):
            print(f"note: {note}")


@app.command()
def stability(
    data: Data,
    restarts: Annotated[int, typer.Option(help="How many fits to compare.")] = 10,
    resample: Annotated[
        bool, typer.Option("--resample/--no-resample", help="Draw the rows anew for every fit, or only the start.")
    ] = True,
    groups: Annotated[
        str | None,
        typer.Option(help="Rows that belong together: a column (or array) of DATA, or FILE::COLUMN, or an npy file."),
    ] = None,
    ids: Ids = None,
    components: Components = None,
    contrast: ContrastName = "logcosh",
    standardise: Standardise = False,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option(help="Seed of starts and resampled rows.")] = 0,
) -> None:
    """Which components come back when the fit is repeated?"""
    from ..errors import InputError
    from ..ica.stability import stability as repeat
    from ..storage import labels, read
    from .common import progress_bar

    if restarts < 1:
        raise InputError(f"--restarts is {restarts} and must be at least 1")
    ica = _estimator(components, contrast, seed, standardise=standardise)
    require_outputs([json, html], data)
    rows = read(data, ids=ids, besides=[groups])
    together = None if groups is None else labels(groups, data)
    with progress_bar(quiet) as progress, _noted() as notes, _about(rows):
        result = repeat(
            rows, restarts, resample=resample, ica=ica, groups=together, random_state=seed, progress=progress
        )
    write_outputs(result, json, html)
    if not quiet:
        print(result)
        for note in notes:
            print(f"note: {note}")


def _estimator(components: int | None, contrast: str, seed: int, **settings: Any) -> ICA:
    from ..errors import InputError
    from ..ica.contrasts import contrast_named
    from ..ica.estimator import ICA

    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed} and must lie between 0 and {2**32 - 1}")
    if components is not None and components < 1:
        raise InputError(f"--components is {components} and must be at least 1")
    return ICA(components, contrast_named(contrast).name, seed, **settings)


def _fit(ica: ICA, rows: Representation, checkpoint: Path, progress: FitProgress | None) -> None:
    from ..errors import InputError

    try:
        with _about(rows, besides=str(checkpoint)):
            ica.fit(rows, checkpoint=None if ica.whiten is None else checkpoint, progress=progress)
    except InputError as error:
        if "is the checkpoint of" not in str(error):
            raise
        raise InputError(f"{error} (--no-resume does, and starts again)") from None


@contextmanager
def _about(rows: Representation, *, besides: str | None = None) -> Iterator[None]:
    """Let errors name the file, unless they are about something else, and count values that are not finite."""
    from ..errors import InputError
    from ..rows import refuse_non_finite

    name = rows.name or "the data"
    if len(rows) < 2:
        raise InputError(f"{name} has one row, and one row has no variance")
    try:
        yield
    except ValueError as error:
        if besides is not None and besides in str(error):
            raise
        refuse_non_finite(rows.values, name)
        if not isinstance(error, InputError) or name in str(error):
            raise
        raise InputError(f"{name}: {error}") from error


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Collect warnings as sentences, to be printed with the result, but for those that its caveats repeat."""
    from ..ica.estimator import GaussianityWarning

    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", GaussianityWarning)
        warnings.filterwarnings("ignore", message="stopped after")
        warnings.filterwarnings("ignore", message=".* hardly var")
        yield notes
    notes.extend(dict.fromkeys(str(each.message) for each in caught))


def _what_is_left(checkpoint: Path) -> str:
    if checkpoint.exists():
        return f"the same command goes on from {checkpoint}"
    return "it was too early for a checkpoint, so the same command starts again"
