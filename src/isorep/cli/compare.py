"""``isorep compare``: the ladder of two files; of more all pairs, a consensus, recurring components and outlier runs.

``isorep demo``: two seeds of a small autoencoder, trained, compared and explained.
"""

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ..errors import InputError
from . import common
from .common import FOLDER, NAMES, Dask, Groups, Html, Ids, Json, N, Quiet, Within, X

if TYPE_CHECKING:
    from ..comparison import Comparison, Direction, Ensemble, LayerComparison, Side


def command(
    files: Annotated[
        list[str],
        Argument(
            metavar="A B [C]...",
            help="Two or more runs of the same examples, source first: files of any format, or folders of shards. "
            "FILE::NAME picks an array. Two folders of isorep extract are compared layer by layer.",
        ),
    ],
    rungs: Annotated[
        str | None,
        Option(
            metavar=NAMES,
            help="Rungs to fit, comma-separated; default: all, which are identity, signed_permutation, rigid, linear, "
            "ica.",
        ),
    ] = None,
    layers: Annotated[
        str | None,
        Option(metavar=NAMES, help="Layers to compare, comma-separated (two folders only); default: all common ones."),
    ] = None,
    folds: Annotated[int, Option(metavar=N, help="Number of folds for held-out errors.")] = 5,
    groups: Groups = None,
    within: Within = None,
    ids: Ids = None,
    join: Annotated[bool, Option("--join", help="Align the files by row id.")] = False,
    null: Annotated[
        int | None,
        Option(
            metavar=N,
            help="Number of shuffled pairings for the chance level, 0 for none; default: 100, or 20 per pair of many "
            "files.",
        ),
    ] = None,
    boot: Annotated[
        int | None, Option(metavar=N, help="0 omits the intervals (two files only); default: with intervals.")
    ] = None,
    tolerance: Annotated[
        float,
        Option(metavar=X, help="Largest excess over the best rung's error that counts as equal."),
    ] = 0.03,
    diameter: Annotated[
        str | None,
        Option(metavar="MODE", help="How to find the diameter: auto, exact or bound (two files only); default: auto."),
    ] = None,
    worst_case: Annotated[
        bool | None,
        Option(
            help="Compute lower and upper bounds on the worst-case error (two files only; default: only when fast)."
        ),
    ] = None,
    fast: Annotated[
        bool, Option("--fast", help="Skip ICA and the worst case, and draw at most 20 shuffled pairings.")
    ] = False,
    time_limit: Annotated[
        float | None,
        Option(
            metavar="SECONDS",
            help="Skip what does not fit into this time, and say what was skipped; default: no limit.",
        ),
    ] = None,
    reverse: Annotated[
        bool, Option("--reverse", help="Also print the ladder of B mapped onto A (two files only).")
    ] = False,
    residuals: Annotated[
        bool, Option("--residuals", help="Also compute largest errors and quantiles (many files only).")
    ] = False,
    fail_above: Annotated[
        str | None,
        Option(
            metavar="[RUNG=]ERROR",
            help="Exit 1 if the held-out error of this rung, or of the best rung, exceeds ERROR, in mean distances to "
            "the mean. Many files are judged by their worst pair, folders by every layer.",
        ),
    ] = None,
    examples: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Examples to show in the report (two files only): a text file with one text, or one path of an image, "
            "per row of A; or a folder of images, by name.",
        ),
    ] = None,
    dask: Dask = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of folds, shuffles and blocks.")] = 0,
) -> None:
    """Are A and B the same, and up to what? Many runs: all pairs, a consensus, recurring components, outliers.

    Prints the verdict, then the held-out error of every rung of the ladder. Ctrl-C stops the comparison and prints the
    result so far.
    """
    from .. import Ensemble, LayerComparison, compare, compare_layers, compare_many
    from ..comparison import RUNGS
    from ..comparison.examples import read_examples
    from ..comparison.stages import as_deadline
    from ..storage import read
    from ..storage.layers import open_layers

    wanted = list(RUNGS) if rungs is None else common.parts(rungs, "--rungs")
    if fast:
        wanted = [rung for rung in wanted if rung != "ica"] or wanted
    limit = None if fail_above is None else _limit(fail_above, wanted)
    if len(files) < 2:
        raise InputError(f"{files[0]} alone cannot be compared: name at least two files")
    common.require_outputs([json, html], *files, groups, within, examples)
    only_two = {"--boot": boot, "--diameter": diameter, "--worst-case": worst_case, "--reverse": reverse or None}
    only_two |= {"--examples": examples}
    for option, value in only_two.items():
        if value is not None and len(files) > 2:
            raise InputError(f"{option} is for two files, and {len(files)} were named")
    by_layer = _by_layer(files, layers, ids)
    if by_layer and examples is not None:
        raise InputError("--examples is for two files: folders of layers have a page without single rows")
    names = None if layers is None else common.parts(layers, "--layers")
    first = str(next(iter(open_layers(files[0], names).files.values()))) if by_layer else files[0]
    settings: dict[str, Any] = {
        "rungs": wanted,
        "folds": folds,
        "groups": groups if by_layer else common.row_labels(groups, first),
        "within": within if by_layer else common.row_labels(within, first),
        "join": join,
        "tolerance": tolerance,
        "random_state": seed,
    }
    result: Comparison | Ensemble | LayerComparison
    deadline, told = as_deadline(time_limit), None if quiet or not sys.stderr.isatty() else _tell
    with (
        common.cluster(dask) as in_chunks,
        common.progress_bar(quiet) as progress,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # the same sentences are printed as notes
        reading: dict[str, Any] = {"ids": ids, "besides": [groups, within], "in_chunks": in_chunks}
        runs = [] if by_layer else [read(file, **reading) for file in files]
        settings |= {"progress": progress, "time_limit": deadline}
        if len(files) == 2:
            settings |= {"n_null": null, "n_boot": 1000 if boot is None else boot}
            settings |= {"diameter": diameter or "auto", "worst_case": worst_case, "fast": fast}
        if examples is not None:
            settings["examples"] = read_examples(examples)
        with common.stopping(deadline, quiet, at_once=not in_chunks):
            if by_layer:
                settings |= {"in_chunks": in_chunks, "preview": told}
                result = compare_layers(*files, layers=names, **settings)
            elif len(files) == 2:
                preview = None if told is None else partial(told, f"{runs[0].name} -> {runs[1].name}", kind="")
                result = compare(*runs, preview=preview, **settings)
            else:
                settings |= {"n_null": 20 if null is None else null, "residuals": residuals}
                preview = None if told is None else partial(told, f"mean over all pairs of {len(runs)} runs", kind="")
                result = compare_many(runs, preview=preview, **settings)
    common.write_outputs(result, json, html)
    if not quiet:
        if isinstance(result, Ensemble):
            _print_ensemble(result)
        elif isinstance(result, LayerComparison):
            _print_layers(result, reverse=reverse)
        else:
            _print_comparison(result, reverse=reverse)
        common.tell_outputs(json, html)
    if deadline.stopped:
        parts: list[Any] = [result, *(result.layers.values() if isinstance(result, LayerComparison) else ())]
        incomplete = any(each.left_out for each in parts)
        raise common.Interrupted("the result is incomplete, see its notes" if incomplete else "the result is complete")
    if limit is not None:
        _judge(result, *limit)


def _limit(text: str, rungs: list[str]) -> tuple[str, float]:
    rung, limit = common.named_limit(text)
    if not limit >= 0 or (rung and rung not in rungs):
        raise InputError(
            f"--fail-above takes a number from 0 on or RUNG=NUMBER, of one of {', '.join(rungs)}, not {text!r}"
        )
    return rung, limit


def _judge(result: Any, rung: str, limit: float) -> None:
    """Exit 1 if the error of a rung, or of the best one, exceeds the limit; of many files that of the worst pair."""
    by_layer = hasattr(result, "layers")
    exceeding = [
        _exceeding(each, rung, limit, f" in layer {layer}" if by_layer else "")
        for layer, each in (result.layers if by_layer else {"": result}).items()
    ]
    refused = result.refused if by_layer else ()
    unmet = [f"layer {layer} could not be compared, so that the limit {limit:g} is not met" for layer in refused]
    common.fail(*filter(None, exceeding), *unmet)


def _exceeding(result: Any, rung: str, limit: float, where: str) -> str | None:
    """What exceeds the limit; None if nothing does."""
    from ..results import decimals, least

    many = hasattr(result, "runs")
    errors = {name: each.max if many else each.held_out.mean for name, each in result.rungs.items()}
    if rung and rung not in errors:
        raise InputError(f"--fail-above names {rung}, which was left out{where}, as a note says: nothing was judged")
    rung = rung or least(errors)
    if errors[rung] <= limit:
        return None
    if many:
        source, target = (result.names[run] for run in result.rungs[rung].worst)
        where = f" for {source} -> {target}"
    left = f"{decimals(errors[rung])} mean distances to the mean{where}"
    return f"the held-out error of {rung}, {left}, exceeds the limit {limit:g}"


def _by_layer(files: list[str], layers: str | None, ids: str | None) -> bool:
    """Whether two folders of layers are to be compared; a folder of layers beside anything else is refused."""
    from ..storage.layers import holds_layers, listed_layers

    if layers is not None and len(files) > 2:
        raise InputError(f"--layers is for two folders, and {len(files)} paths were named")
    held = files if layers is not None else [file for file in files if holds_layers(file)]
    if held and len(files) > 2:
        raise InputError(f"{held[0]} holds layers: name two such folders, or one file of every run")
    if len(held) == 1:
        other = files[1 - files.index(held[0])]
        such = next(iter(listed_layers(Path(held[0])).values()), Path(held[0]) / "NAME.parquet")
        raise InputError(
            f"{held[0]} holds layers and {other} does not: name two folders that isorep extract wrote, or one layer of "
            f"{held[0]}, such as {such}"
        )
    if held and ids is not None:
        raise InputError("--ids is for files: folders of layers have their own ids")
    return bool(held)


def _tell(what: str, rungs: dict[str, float], kind: str = "layer ") -> None:
    """The rungs that are known so far of a layer, of a pair or of many runs, above the bars."""
    from ..results import decimals

    if rungs:
        errors = ", ".join(f"{name} {decimals(error)}" for name, error in rungs.items())
        common.warn(f"{kind}{what}, held-out errors so far: {errors}")


def _print_layers(result: "LayerComparison", *, reverse: bool) -> None:
    common.show(str(result))
    if reverse:
        common.show(f"\n{result.target} -> {result.source}\n{result.table(reverse=True)}")


def _print_comparison(result: "Comparison", *, reverse: bool = False) -> None:
    """The verdict, the ladder and the caveats; with ``reverse`` also the ladder of the target onto the source."""
    from ..comparison.residuals import efficiency_sentence
    from ..results import decimals, noted

    common.say(f"verdict: {result.verdict}")
    common.show()
    for label, side in (("source", result.source), ("target", result.target)):
        common.say(f"{label}  {_size(side)}")
    common.show()
    _print_ladder(result.forward)
    more = [] if result.ica_efficiency is None else [efficiency_sentence(result.ica_efficiency)]
    if result.worst_case is not None:
        rigid, scaled = (result.worst_case[name] for name in ("rigid", "rigid_with_scale"))
        worst = ", ".join(f"{row.id or row.row} ({decimals(row.error)})" for row in scaled.worst_rows[:3])
        more += [
            f"worst case: the best rigid motion has a largest error of {_bracket(rigid)} diameters, with a scale "
            f"{_bracket(scaled)}",
            f"worst rows: {worst} diameters, under the least-squares rigid motion with a scale",
        ]
    if more:
        common.show()
        common.say(*more)
    if result.caveats:
        common.show(f"\n{noted(result.caveats)}")
    if reverse:
        common.show()
        common.say(f"verdict: {result.reverse.verdict}")
        common.show()
        _print_ladder(result.reverse)


def _bracket(bounds: Any) -> str:
    from ..results import decimals

    low, high = decimals(bounds.lower), decimals(bounds.upper)
    return low if low == high else f"{low} to {high}"


def _size(side: "Side") -> str:
    return f"{side.name}: {side.rows} rows x {side.columns} columns, rank {side.rank}, condition {side.condition:.3g}"


def _print_ladder(direction: "Direction") -> None:
    from ..comparison.result import MARKED, ladder_table

    table, exactness = ladder_table(direction), "exact" if direction.diameter.exact else "lower bound"
    common.say(
        f"{direction.source} -> {direction.target}: held-out errors in mean distances of {direction.target} to its "
        "mean; lower is closer, 1 is no better than the mean"
    )
    common.show(table)
    if direction.verdict.rung is not None:
        common.say(MARKED)
    if "diameters" in table:
        common.say(
            f"diameters: the held-out error in diameters of {direction.target} ({direction.diameter.value:.6g}, "
            f"{exactness})"
        )


def _print_ensemble(result: "Ensemble") -> None:
    """The verdict, the ladder over all pairs, the matrix of one rung, and what is common."""
    from ..comparison.many_verdict import LEAST_RUNS
    from ..comparison.residuals import efficiency_sentence
    from ..results import noted

    runs, consensus, components = len(result.runs), result.consensus, result.components
    common.say(f"verdict: {result.verdict}")
    common.show()
    common.say(*map(_size, result.runs))
    common.show(f"\n{result.summary()}")
    agreed = int((consensus.agreement >= 0.9).sum())
    lines = [
        f"consensus: the mean of the other runs explains {consensus.share:.0%} of a run's variance "
        f"({consensus.shares.min():.0%} to {consensus.shares.max():.0%}); {agreed} of {len(consensus.agreement)} "
        "consensus axes have agreement >= 0.9 (in-sample)"
    ]
    if components is not None:
        counted = recurring_words(components.recurring(runs), len(components.families), runs)
        lines.append(f"components: {counted} (correlation >= {components.threshold:g}, in-sample)")
        if result.ica_efficiency is not None:
            lines.append(efficiency_sentence(result.ica_efficiency))
    if not result.outliers and runs >= LEAST_RUNS:
        lines.append("outliers: none")
    common.show()
    common.say(*lines)
    if result.caveats:
        common.show(f"\n{noted(result.caveats)}")


def recurring_words(everywhere: int, families: int, runs: int) -> str:
    """How many components recur in all runs, and how many more in some."""
    if families == 0:
        return "none recurs in another run"
    more = families - everywhere
    if everywhere == 0:
        return f"none recurs in all {runs} runs, {more} {'does' if more == 1 else 'do'} in some"
    others = f"{more} more in some" if more else "and no other in some"
    return f"{everywhere} {'recurs' if everywhere == 1 else 'recur'} in all {runs} runs, {others}"


LATENTS, EPOCHS = 5, 100


def demo(
    save: Annotated[Path | None, Option(metavar=FOLDER, help="Save the two representations in this folder.")] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Seed of the first training; the second uses the next one.")] = 0,
) -> None:
    """Train two seeds of a small autoencoder on handwritten digits and compare them, in under a minute."""
    from .. import Representation, compare, write
    from ..models import load_digit_images, train_autoencoder
    from ..results import wrapped

    if save is not None and not save.is_dir():
        raise InputError(f"{save} is not a folder")
    saved = [] if save is None else [save / f"seed{number}.npy" for number in range(2)]
    common.require_outputs([json, html, *saved])
    if not 0 <= seed < 2**32 - 1:
        raise InputError(f"seed is {seed} and must lie between 0 and {2**32 - 2}")
    images = load_digit_images()
    runs, losses = [], []
    with common.progress_bar(quiet) as progress:
        for number, each in enumerate((seed, seed + 1)):
            stage = f"training seed {each}"

            def trained_to(epoch: int, loss: float, stage: str = stage) -> None:
                progress(stage, epoch, EPOCHS)

            trained = train_autoencoder(images, latents=LATENTS, epochs=EPOCHS, seed=each, progress=trained_to)
            losses.append(f"{trained.losses[-1]:.4f} (seed {each})")
            runs.append(Representation(trained.encode(images), name=f"seed {each}"))
            if saved:
                write(runs[-1], saved[number])
        result = compare(*runs, random_state=seed, progress=progress)
    common.write_outputs(result, json, html)
    if quiet:
        return
    common.say(
        f"Trained an autoencoder (64-64-{LATENTS}-64-64, tanh) twice on {len(images)} digits, {EPOCHS} epochs. "
        f"Reconstruction loss: {' and '.join(losses)}."
    )
    common.show()
    _print_comparison(result)
    common.show("\nHow to read this")
    common.show("\n".join(wrapped(f"  {sentence}", 2) for sentence in _explain(result)))
    common.tell_outputs(json, html)
    files = [str(path) for path in saved] or ["A.npy", "B.npy"]
    common.show("\nNext steps")
    steps = {
        f"isorep compare {' '.join(files)}": "compare these two files again" if save is not None else "your own runs",
        f"isorep compare {' '.join(files)} --html compare.html": "the same as a report with figures",
        "isorep extract --help": "get features from a model",
    }
    for step, words in steps.items():
        common.show(f"  {step}\n      {words}")


def _explain(result: "Comparison") -> list[str]:
    names = ("signed_permutation", "rigid", "linear", "ica")
    permutation, rigid, linear, ica = (result.rungs[name].held_out.mean for name in names)
    null = result.rungs["linear"].null
    chance = f"{null.mean:.2f}" if null else "not measured"
    far = permutation > 2 * rigid
    axes = f"far above rotation ({rigid:.2f}): the runs do not share axes" if far else f"near rotation ({rigid:.2f})"
    return [
        f"An error of 1 is no better than the mean of the target. Chance (shuffled rows) is {chance}.",
        f"Matching dimensions one-to-one leaves {permutation:.2f}, {axes}.",
        f"The best linear map leaves {linear:.2f}: the closer to rotation, the more geometry the runs share.",
        f"ICA leaves {ica:.2f}. It uses pairs only to match components: an error near that of rotation would mean "
        "that the runs share them.",
        "Held-out errors come from maps that were not fitted to the row.",
    ]
