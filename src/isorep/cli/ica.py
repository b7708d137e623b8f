"""``isorep ica``: fit independent components, apply them to other rows, and test which are reproducible."""

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ..errors import InputError
from . import common
from .common import FILE, NAME, DropIds, Groups, Html, Ids, Json, N, Obs, Quiet, X

if TYPE_CHECKING:
    from ..ica.estimator import ICA, FitProgress
    from ..ica.summary import Fit
    from ..representation import Representation

app = typer.Typer(
    help="Fit independent components, apply them, and test which are reproducible.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Data = Annotated[
    str, Argument(metavar="DATA", help="File of any format, or folder of shards. FILE::NAME picks an array.")
]
Components = Annotated[int | None, Option(metavar=N, help="Number of components; default: the rank of the data.")]
Standardise = Annotated[
    bool,
    Option(
        "--standardise",
        help="Standardise columns with different units, and keep all that vary; default: columns below 1e-4 of the "
        "median spread are left out.",
    ),
]
ContrastName = Annotated[str, Option(metavar=NAME, help="Contrast function: logcosh, exp or cube.")]


@app.command(cls=common.Command, short_help="Fit components and write the model")
def fit(
    data: Data,
    output: Annotated[Path, Option("--output", "-o", metavar=FILE, help="Write the model to this .safetensors file.")],
    components: Components = None,
    contrast: ContrastName = "logcosh",
    whiten: Annotated[str, Option(metavar=NAME, help="Whitening: pca, zca or none.")] = "pca",
    tol: Annotated[
        float, Option(metavar=X, help="Convergence tolerance: RMS rotation (radians) of the next Newton step.")
    ] = 1e-4,
    max_iter: Annotated[int, Option(metavar=N, help="Largest number of sweeps over the data.")] = 200,
    standardise: Standardise = False,
    device: Annotated[
        str | None, Option(metavar=NAME, help="Torch device for the sweeps, such as cuda; default: numpy.")
    ] = None,
    ids: Ids = None,
    obs: Obs = None,
    loadings: Annotated[
        Path | None,
        Option(metavar=FILE, help="Write the correlation of every feature with every component to this .csv file."),
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of the search and of restarts.")] = 0,
    resume: Annotated[bool, Option("--resume/--no-resume", help="Resume from a checkpoint if there is one.")] = True,
) -> None:
    """Fit independent components and write the model.

    Progress is kept in MODEL.checkpoint: after an interruption the same command resumes.
    """
    from ..ica.associations import obs_of_file
    from ..ica.cards import component_cards
    from ..ica.checkpoint import Checkpoint
    from ..ica.model import save_model
    from ..ica.summary import Fit
    from ..ica.unmixing import as_source
    from ..representation import reading_notes
    from ..storage import read
    from ..storage.model_files import require_model_path

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
    common.require_outputs([output, checkpoint, loadings, json, html], data, obs)
    if loadings is not None and loadings.suffix.lower() != ".csv":
        raise InputError(f"{loadings} will hold the loadings, so its name must end in .csv")
    if not resume and checkpoint.exists():
        Checkpoint(checkpoint, {}).load()  # only a checkpoint is thrown away
        checkpoint.unlink()
    resumes = checkpoint.exists() and whiten != "none"
    began, saved = time.monotonic(), False
    try:
        rows = read(data, ids=ids, repeated_ids=obs is None)
        name = rows.name or data
        columns, unread = obs_of_file(data, rows, obs)
        training = {"name": name, "rows": len(rows), "fingerprint": as_source(rows.values).fingerprint()}
        with _fit_bar(quiet) as progress, _noted() as notes:
            _fit(ica, rows, checkpoint, progress)
        part = rows.origin.rpartition("::")[2] if "::" in rows.origin else ""
        if common.plain_path(data).suffix.lower() == ".h5ad" and part:
            ica.matrix_in_ = part
        save_model(ica, output, extra=training)
        saved = True
        spent = {"seconds": time.monotonic() - began, "peak_memory": _peak_memory()}
        cards = component_cards(ica, rows, columns)
        result = Fit.of(ica, name=name, rows=len(rows), notes=tuple(reading_notes(rows)), cards=cards, **spent)
        common.write_outputs(result, json, html)
        if loadings is not None:
            cards.save_loadings(loadings)
    except KeyboardInterrupt:
        raise common.Interrupted(f"the model is in {output}" if saved else _what_is_left(checkpoint)) from None
    if not quiet:
        resumed = [f"resumed from {checkpoint}"] if resumes else []
        _print_fit(result, [*resumed, *notes, *result.caveats, *cards.notes, *unread])
        common.show()
        common.show_path("Model", output)
        if loadings is not None:
            common.show_path("Loadings", loadings)
        common.tell_outputs(json, html)


@app.command(cls=common.Command, short_help="Transform rows into components, or back")
def apply(
    model: Annotated[Path, Argument(metavar="MODEL", help="Model that isorep ica fit wrote.")],
    data: Data,
    output: Annotated[Path, Argument(metavar="OUT", help="File to write; the suffix chooses the format.")],
    inverse: Annotated[bool, Option("--inverse", help="Map components back to the original columns.")] = False,
    ids: Ids = None,
    drop_ids: DropIds = False,
    quiet: Quiet = False,
) -> None:
    """Transform rows into independent components, or back, block by block.

    Other columns of a table, and everything else of an h5ad file, are kept in outputs of the same kind.
    """
    from ..ica.model import applied, load_model
    from ..representation import reading_notes
    from ..results import counted
    from ..storage import read, write
    from ..storage.write import holds_labels, others, require_target, write_beside

    require_target(output)
    common.require_apart([common.plain_path(output)], data, model)
    ica = load_model(model)
    source, key = common.split_key(data)
    annotated = source.suffix.lower() == ".h5ad"
    if key is None and annotated and not inverse:
        key = getattr(ica, "matrix_in_", None)
    rows = read(source, ids=ids, key=key)
    beside: dict[str, Any] = {}
    left = ""
    with common.progress_bar(quiet) as progress:
        result = applied(ica, rows, inverse=inverse, progress=lambda done, total: progress("applying", done, total))
        if annotated and not drop_ids and common.plain_path(output).suffix.lower() == ".h5ad":
            place = common.split_key(output)[1] or ("X_isorep" if inverse else "X_isorep_ica")
            write_beside(result, source, output, {} if inverse else _beside(ica, rows, place), place)
            left = f", in obsm[{place!r}] of a copy of {source.name}"
        else:
            beside = others(data, rows, ids) if not drop_ids else {}
            holds = holds_labels(output)
            left = f", {counted(len(beside), 'other column')} kept" if beside and holds else ""
            write(result, output, drop_ids=drop_ids, labels=beside if holds else None)
    if not quiet:
        kept = rows.ids is not None and not drop_ids and common.plain_path(output).suffix.lower() != ".npy"
        with_ids = "with" if kept else "without"
        size = f"{len(result)} rows x {result.shape[1]} columns"
        common.say(f"wrote {output}: {size}, {result.values.dtype}, {with_ids} ids{left}")
        if beside and not left:
            told = f"left out {counted(len(beside), 'other column')} of {source.name}"
            common.say(f"note: {told}: write csv, parquet, zarr or h5ad to keep them")
        common.say(*(f"note: {note}" for note in reading_notes(rows)))


@app.command(cls=common.Command, short_help="Test which components are reproducible")
def stability(
    data: Data,
    restarts: Annotated[int, Option(metavar=N, help="Number of refits.")] = 10,
    resample: Annotated[
        bool, Option("--resample/--no-resample", help="Resample the rows per refit, or change only the start.")
    ] = True,
    groups: Groups = None,
    ids: Ids = None,
    obs: Obs = None,
    components: Components = None,
    contrast: ContrastName = "logcosh",
    standardise: Standardise = False,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of starts and resampled rows.")] = 0,
) -> None:
    """Test which components are reproducible across resamples and restarts."""
    from ..ica.associations import obs_of_file
    from ..ica.refits import stability as repeat
    from ..storage import read

    if restarts < 1:
        raise InputError(f"--restarts is {restarts} and must be at least 1")
    ica = _estimator(components, contrast, seed, standardise=standardise)
    common.require_outputs([json, html], data, obs, groups)
    rows = read(data, ids=ids, besides=[groups], repeated_ids=obs is None)
    columns, unread = obs_of_file(data, rows, obs)
    together = common.row_labels(groups, data)
    with common.progress_bar(quiet) as progress, _noted() as notes, _about(rows):
        result = repeat(
            rows,
            restarts,
            resample=resample,
            ica=ica,
            groups=together,
            obs=columns,
            random_state=seed,
            progress=progress,
        )
    common.write_outputs(result, json, html)
    if not quiet:
        common.show(str(result))
        common.say(*(f"note: {note}" for note in (*notes, *unread)))
        common.tell_outputs(json, html)


def _beside(ica: "ICA", rows: "Representation", key: str) -> dict[str, Any]:
    """What is stored beside components: the matrices in uns and, where features are variables, loadings in varm."""
    name = key.removeprefix("X_")
    held = {f"uns/{name}": {"unmixing": ica.components_, "mixing": ica.mixing_, "mean": ica.mean_}}
    part = rows.origin.rpartition("::")[2]
    return held | ({"varm": {name: ica.mixing_}} if part == "X" or part.startswith("layers/") else {})


def _estimator(components: int | None, contrast: str, seed: int, **settings: Any) -> "ICA":
    from ..ica.contrasts import contrast_named
    from ..ica.estimator import ICA

    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed} and must lie between 0 and {2**32 - 1}")
    if components is not None and components < 1:
        raise InputError(f"--components is {components} and must be at least 1")
    return ICA(components, contrast_named(contrast).name, seed, **settings)


def _fit(ica: "ICA", rows: "Representation", checkpoint: Path, progress: "FitProgress | None") -> None:
    try:
        with _about(rows, besides=str(checkpoint)):
            ica.fit(rows, checkpoint=None if ica.whiten is None else checkpoint, progress=progress)
    except InputError as error:
        if "is the checkpoint of" not in str(error):
            raise
        raise InputError(f"{error} (--no-resume does, and starts again)") from None


@contextmanager
def _fit_bar(quiet: bool) -> "Iterator[FitProgress | None]":
    """A callback for ``ICA.fit`` that draws stage, sweeps, contrast, time and memory on stderr, only on a terminal."""
    with common.bars_on_terminal(quiet) as bars:
        task = None if bars is None else bars.add_task("reading", total=1.0, words="")

        def report(stage: str, sweeps: float, contrast: float, left: float) -> None:
            reached = f"{sweeps:.1f} sweeps, contrast {contrast:.4f}" if sweeps else ""
            peak = _peak_memory()
            memory = "" if peak is None else f"{peak / 2**20:.0f} MiB of memory"
            bars.update(task, description=stage, completed=1 - left, words=", ".join(filter(None, (reached, memory))))

        yield None if bars is None else report


def _peak_memory() -> int | None:
    """The most bytes of memory this process has held; None where the system does not tell."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


@contextmanager
def _about(rows: "Representation", *, besides: str | None = None) -> Iterator[None]:
    """Let errors name the file, unless they are about something else, and count values that are not finite."""
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
        return f"the same command resumes from {checkpoint}"
    return "it was too early for a checkpoint, so the same command starts again"


STRONGEST, NAMED = 5, 10
"""Components that the summary of a fit shows with their numbers, and those near-Gaussian that it lists by name."""


def _print_fit(result: "Fit", notes: list[str]) -> None:
    """What a fit found: the verdict, sizes, convergence, the strongest components and those that may be Gaussian."""
    from ..results import aligned, told, wrapped

    ica = result.ica
    names = [str(each) for each in ica.get_feature_names_out()]
    rank = f", rank {ica.rank_}" if hasattr(ica, "rank_") else ""
    facts = [
        f"data        {result.name}: {result.rows} rows x {ica.n_features_in_} columns{rank}",
        f"components  {len(names)}",
        *(f"contrast    {reached:.4f} ({ica.contrast}, summed over components)" for reached in ica.path_[-1:, 1]),
        f"converged   {'yes' if ica.converged_ else 'no'}, after {ica.n_iter_} sweeps",
    ]
    columns = [each for each in ("contrast", "kurtosis", "skewness", "uncertainty") if hasattr(ica, f"{each}_")]
    rows = [("strongest", *columns)]
    for index, component in enumerate(names[:STRONGEST]):
        rows.append((component, *(f"{getattr(ica, f'{each}_')[index]:.4f}" for each in columns)))
    blocks = ["\n".join(map(wrapped, facts)), aligned(rows)]
    if hasattr(ica, "gaussian_"):
        gaussian = [names[index] for index in ica.gaussian_.nonzero()[0]]
        more = f" and {len(gaussian) - NAMED} more" if len(gaussian) > NAMED else ""
        listed = f": {', '.join(gaussian[:NAMED])}{more}" if gaussian else ""
        blocks.append(wrapped(f"near-Gaussian: {len(gaussian)} of {len(names)}{listed}"))
    if result.cards is not None:
        blocks.append(result.cards.text())
    common.show(told(result.reading, *blocks, notes=notes))
