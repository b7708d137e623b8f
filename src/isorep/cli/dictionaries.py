"""``isorep dictionaries``: do the atoms of sparse autoencoders recur over seeds and widths?"""

from typing import Annotated

from typer import Argument, Option

from ..errors import InputError
from .common import (
    COLUMN,
    FILE,
    Html,
    Json,
    N,
    Quiet,
    X,
    fail,
    progress_bar,
    require_outputs,
    row_labels,
    show,
    tell_outputs,
    write_outputs,
)


def command(
    dictionaries: Annotated[
        list[str] | None,
        Argument(
            metavar="A B ...",
            help="Dictionaries of (atoms x dimensions), any format, such as a.safetensors::W_dec. None with "
            "--activations alone.",
        ),
    ] = None,
    activations: Annotated[
        list[str] | None,
        Option(metavar=FILE, help="Activations of (rows x atoms), one file per dictionary, in order. May be repeated."),
    ] = None,
    frequencies: Annotated[
        list[str] | None,
        Option(
            metavar=COLUMN,
            help="How often atoms are active, one per dictionary: an npy file or FILE::COLUMN; default: from "
            "--activations. May be repeated.",
        ),
    ] = None,
    threshold: Annotated[float, Option(metavar=X, help="Similarity from which on an atom recurs.")] = 0.7,
    unsigned: Annotated[bool, Option("--unsigned", help="An atom and its negative count as equal.")] = False,
    transpose: Annotated[
        bool, Option("--transpose", help="Atoms are columns, as in the weight of torch's linear decoder.")
    ] = False,
    rows: Annotated[
        int | None,
        Option(metavar=N, help="Rows of activations to take at random; default: 2**26 numbers per dictionary."),
    ] = None,
    null: Annotated[int, Option(metavar=N, help="Rotated dictionaries per pair, at least 19.")] = 20,
    fail_below: Annotated[
        float | None, Option(metavar=X, help="Exit 1 if a smaller share of atoms recurs in any pair.")
    ] = None,
    json: Json = None,
    html: Html = None,
    quiet: Quiet = False,
    seed: Annotated[int, Option(metavar=N, help="Random seed of rotations, shuffles and sampled rows.")] = 0,
) -> None:
    """Do the atoms of dictionaries (sparse autoencoders) recur over seeds and widths?

    Prints the verdict, then one-to-one and best matches by cosine of decoders and by correlation of activations, each
    with its chance level from rotated dictionaries, dead atoms, splitting and absorption.
    """
    from ..dictionaries import recurrence

    given, codes, shares = dictionaries or [], activations or [], frequencies or []
    require_outputs([json, html], *given, *codes, *shares)
    if fail_below is not None and not 0 <= fail_below <= 1:
        raise InputError(f"--fail-below takes a share from 0 to 1, not {fail_below:g}")
    if shares and len(shares) != len(given or codes):
        raise InputError(f"there are {len(given or codes)} dictionaries and --frequencies of {len(shares)}")
    with progress_bar(quiet) as progress:
        result = recurrence(
            *given,
            activations=codes or None,
            frequencies=[row_labels(where, of) for where, of in zip(shares, given or codes, strict=False)] or None,
            threshold=threshold,
            signed=not unsigned,
            transpose=transpose,
            rows=rows,
            n_null=null,
            random_state=seed,
            progress=progress,
        )
    write_outputs(result, json, html)
    if not quiet:
        show(str(result))
        tell_outputs(json, html)
    if fail_below is not None:
        fail(
            *(
                f"{share:.3g} of atoms recur in {pair.source} and {pair.target}, below the limit {fail_below:g}"
                for pair in result.pairs
                if (share := pair.main.one_to_one.share) < fail_below
            )
        )
