"""``isorep compare``: the ladder of two files; of more all pairs, the consensus, what recurs, and who stands apart.

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
from .common import Dask, Groups, Html, Ids, Json, Quiet, Within

if TYPE_CHECKING:
    from ..comparison import Comparison, Direction, Ensemble, LayerComparison, Side


def command(
    files: Annotated[
        list[str],
        Argument(
            metavar="A B [C]...",
            help="Two runs of the same examples, source and target, or more: files of any format, or folders of "
            "shards. FILE::NAME picks an array. Two folders of isorep extract are compared layer by layer.",
        ),
    ],
    rungs: Annotated[
        str | None,
        Option(help="Comma-separated; by default all: identity, signed_permutation, rigid, linear, ica."),
    ] = None,
    layers: Annotated[
        str | None,
        Option(metavar="NAMES", help="Of two folders: comma-separated layers; by default all that both have."),
    ] = None,
    folds: Annotated[int, Option(help="Number of folds for held-out errors.")] = 5,
    groups: Groups = None,
    within: Within = None,
    ids: Ids = None,
    join: Annotated[bool, Option("--join", help="Align the files by row id.")] = False,
    null: Annotated[
        int | None, Option(help="Shuffled pairings; 0 for none. By default 100, of many files 20 per pair.")
    ] = None,
    boot: Annotated[int | None, Option(help="Of two files: 0 leaves the intervals out.")] = None,
    tolerance: Annotated[float, Option(help="Errors this near to that of the best rung count as equal.")] = 0.03,
    diameter: Annotated[str | None, Option(help="Of two files: auto (the default), exact or bound.")] = None,
    worst_case: Annotated[
        bool | None, Option(help="Of two files: bracket the largest error; by default if quick.")
    ] = None,
    fast: Annotated[
        bool, Option("--fast", help="No ICA; of two files no worst case, and 20 pairings at most.")
    ] = False,
    time_limit: Annotated[
        float | None,
        Option(metavar="SECONDS", help="Of two files: leave out what there is no time for; the result says what."),
    ] = None,
    reverse: Annotated[bool, Option("--reverse", help="Of two files: print the ladder of B onto A too.")] = False,
    residuals: Annotated[bool, Option("--residuals", help="Of many files: also largest errors and quantiles.")] = False,
    fail_above: Annotated[
        str | None,
        Option(
            metavar="[RUNG=]ERROR",
            help="Exit 1 if the held-out error exceeds this: of the rung named, or of the best rung; of any layer. For "
            "many files the error of the worst pair. In mean distances to the mean: 1 is no better than the mean.",
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
    seed: Annotated[int, Option(help="Seed of folds, null and blocks.")] = 0,
) -> None:
    """Are A and B the same, and up to what? Or many runs: all pairs, a consensus, what recurs, and who stands apart.

    Prints held-out errors for a ladder of groups, then the verdict. Ctrl-C stops a comparison of two, and prints what
    there is.
    """
    from .. import Ensemble, LayerComparison, compare, compare_layers, compare_many
    from ..comparison import RUNGS
    from ..comparison.compare import as_deadline
    from ..comparison.examples import read_examples
    from ..comparison.many import told_apart
    from ..storage import read
    from ..storage.layers import open_layers

    wanted = list(RUNGS) if rungs is None else common.parts(rungs, "--rungs")
    if fast:
        wanted = [rung for rung in wanted if rung != "ica"] or wanted
    limit = None if fail_above is None else _limit(fail_above, wanted)
    if len(files) < 2:
        raise InputError(f"{files[0]} alone cannot be compared: name at least two files")
    common.require_outputs([json, html], *files)
    only_two = {"--boot": boot, "--diameter": diameter, "--worst-case": worst_case, "--reverse": reverse or None}
    only_two |= {"--examples": examples}
    for option, value in (only_two | {"--time-limit": time_limit}).items():
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
        settings["progress"] = progress
        if len(files) == 2:
            settings |= {"n_null": null, "n_boot": 1000 if boot is None else boot}
            settings |= {"diameter": diameter or "auto", "worst_case": worst_case, "fast": fast}
            with common.stopping(deadline, quiet):
                if by_layer:
                    settings |= {"in_chunks": in_chunks, "time_limit": deadline, "preview": told}
                    result = compare_layers(*files, layers=names, **settings)
                else:
                    settings["examples"] = None if examples is None else read_examples(examples)
                    preview = None if told is None else partial(told, f"{runs[0].name} -> {runs[1].name}", kind="")
                    result = compare(*runs, time_limit=deadline, preview=preview, **settings)
        else:
            settings |= {"n_null": 20 if null is None else null, "residuals": residuals}
            result = compare_many(runs, names=told_apart([str(run.name) for run in runs], files), **settings)
    common.write_outputs(result, json, html)
    if not quiet:
        if isinstance(result, Ensemble):
            _print_ensemble(result)
        elif isinstance(result, LayerComparison):
            _print_layers(result, reverse=reverse)
        else:
            _print_comparison(result, reverse=reverse)
    if deadline.stopped:
        raise common.Interrupted("the result is of what was done until then")
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
    many = hasattr(result, "runs")
    errors = {name: each.max if many else each.held_out.mean for name, each in result.rungs.items()}
    if rung and rung not in errors:
        raise InputError(f"--fail-above names {rung}, which was left out{where}, as a note says: nothing was judged")
    rung = rung or min(errors, key=lambda name: errors[name])
    if errors[rung] <= limit:
        return None
    if many:
        source, target = (result.names[run] for run in result.rungs[rung].worst)
        where = f" for {source} -> {target}"
    left = f"{errors[rung]:.4f} mean distances to the mean{where}"
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
    """The rungs that are known so far of a layer, or of a pair, above the bars."""
    if rungs:
        errors = ", ".join(f"{name} {error:.4f}" for name, error in rungs.items())
        print(f"{kind}{what}, held out so far: {errors}", file=sys.stderr)


def _print_layers(result: "LayerComparison", *, reverse: bool) -> None:
    from ..comparison.layers import UNIT

    print(f"{result.source} -> {result.target}: {UNIT}\n{result.table()}\n\nverdict: {result.verdict}")
    print(*result.notes(), sep="\n", end="\n" if result.caveats else "")
    if reverse:
        print(f"\n{result.target} -> {result.source}\n{result.table(reverse=True)}")


def _print_comparison(result: "Comparison", *, reverse: bool = False) -> None:
    """The ladder, the verdict and the caveats; with ``reverse`` also the ladder of the target onto the source."""
    from ..comparison.residuals import efficiency_sentence

    for label, side in (("source", result.source), ("target", result.target)):
        print(f"{label}  {_size(side)}")
    print()
    _print_ladder(result.forward)
    print(f"\nverdict: {result.verdict}")
    if result.ica_efficiency is not None:
        print(efficiency_sentence(result.ica_efficiency))
    if result.worst_case is not None:
        for name, words in (("rigid", "a rigid motion"), ("rigid_with_scale", "a rigid motion with a scale")):
            bracket = f"[{result.worst_case[name].lower:.4f}, {result.worst_case[name].upper:.4f}]"
            print(f"worst case: the largest error up to {words} lies in {bracket} diameters")
        worst = result.worst_case["rigid_with_scale"].worst_rows[:3]
        print("worst rows: " + ", ".join(f"{row.id or row.row} ({row.error:.4f})" for row in worst))
    for caveat in result.caveats:
        print(f"note: {caveat}")
    if reverse:
        print()
        _print_ladder(result.reverse)
        print(f"verdict: {result.reverse.verdict}")


def _size(side: "Side") -> str:
    return f"{side.name}: {side.rows} rows x {side.columns} columns, rank {side.rank}, condition {side.condition:.3g}"


def _print_ladder(direction: "Direction") -> None:
    from ..comparison.result import ladder_table

    exactness = "exact" if direction.diameter.exact else "lower bound"
    print(
        f"{direction.source} -> {direction.target}: errors in mean distances of {direction.target} to its mean; lower "
        "is closer, 1 is no better than the mean\n"
        f"(last column in diameters of {direction.target}: {direction.diameter.value:.6g}, {exactness})"
    )
    print(ladder_table(direction))


def _print_ensemble(result: "Ensemble") -> None:
    """The ladder over all pairs, the matrix of one rung, what is common, and the verdict."""
    from ..comparison.many_verdict import LEAST_RUNS
    from ..comparison.residuals import efficiency_sentence

    runs, consensus, components = len(result.runs), result.consensus, result.components
    for side in result.runs:
        print(_size(side))
    print(f"\n{result.summary()}\n")
    agreed = int((consensus.agreement >= 0.9).sum())
    print(
        f"consensus: the mean of the other runs explains {consensus.share:.0%} of a run's variance "
        f"({consensus.shares.min():.0%} to {consensus.shares.max():.0%}); runs agree to 0.9 along {agreed} of "
        f"{len(consensus.agreement)} axes (in sample)"
    )
    if components is not None:
        counted = recurring_words(components.recurring(runs), len(components.families), runs)
        print(f"components: {counted} (correlation at least {components.threshold:g}, in sample)")
        if result.ica_efficiency is not None:
            print(efficiency_sentence(result.ica_efficiency))
    if not result.outliers and runs >= LEAST_RUNS:
        print("outliers: none")
    print(f"verdict: {result.verdict}")
    for caveat in result.caveats:
        print(f"note: {caveat}")


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
    save: Annotated[Path | None, Option(help="Write the two representations into this folder.")] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(help="The first training's seed; the second takes the next.")] = 0,
) -> None:
    """Train two seeds of a small autoencoder on handwritten digits and compare them, in under a minute."""
    import numpy as np

    from .. import Representation, compare
    from ..models import load_digit_images, train_autoencoder

    common.require_outputs([json, html])
    if save is not None and not save.is_dir():
        raise InputError(f"{save} is not a folder")
    if not 0 <= seed < 2**32 - 1:
        raise InputError(f"seed is {seed} and must lie between 0 and {2**32 - 2}")
    say = (lambda *words: None) if quiet else print
    images = load_digit_images()
    say(f"Two trainings of one autoencoder (64-64-{LATENTS}-64-64, tanh) on scikit-learn's {len(images)} digits:")
    runs = []
    with common.progress_bar(quiet) as progress:
        for number, each in enumerate((seed, seed + 1)):
            stage = f"training seed {each}"

            def trained_to(epoch: int, loss: float, stage: str = stage) -> None:
                progress(stage, epoch, EPOCHS)

            trained = train_autoencoder(images, latents=LATENTS, epochs=EPOCHS, seed=each, progress=trained_to)
            say(f"  seed {each}: {EPOCHS} epochs, reconstruction loss {trained.losses[-1]:.4f}")
            runs.append(Representation(trained.encode(images), name=f"seed {each}"))
            if save is not None:
                np.save(save / f"seed{number}.npy", np.asarray(runs[-1].values), allow_pickle=False)
        result = compare(*runs, random_state=seed, progress=progress)
    common.write_outputs(result, json, html)
    if not quiet:
        print()
        _print_comparison(result)
        print()
        print(_explain(result))
        if save is not None:
            print(f"\nAgain from the files: isorep compare {save / 'seed0.npy'} {save / 'seed1.npy'}")


def _explain(result: "Comparison") -> str:
    names = ("signed_permutation", "rigid", "linear", "ica")
    permutation, rigid, linear, ica = (result.rungs[name].held_out.mean for name in names)
    null = result.rungs["linear"].null
    chance = f"{null.mean:.2f}" if null else "not measured"
    return f"""How to read this
  An error of 1 is no better than the mean of the target. Shuffled rows give {chance} (chance).
  Matching single dimensions leaves {permutation:.2f}: it would be near the rungs below if the runs shared their axes.
  A rotation leaves {rigid:.2f}, the best linear map {linear:.2f}: the closer the two, the more geometry the runs share.
  ICA leaves {ica:.2f}. It uses pairs only to match components: near the rotation, it has found shared axes.
  Held-out errors come from maps that did not see the row; in-sample ones are shown to match papers."""
