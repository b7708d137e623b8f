"""The commands by name, in groups. Commands load what they need when they run, so that help is instant.

Annotations are not postponed in this room: typer would evaluate the text of each of them twice.
"""

from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from .._version import __version__
from . import (
    blocks,
    compare,
    datasets,
    decoder,
    deconfound,
    dictionaries,
    disentangle,
    doctor,
    extract,
    heads,
    ica,
    report,
    reproduce,
    similarity,
    structure,
    translate,
)
from .common import Command

GROUPS = {
    "Compare": {
        "compare": "Are two or more runs the same, up to what?",
        "similarity": "Similarity indices with chance levels",
        "dictionaries": "Do atoms of sparse autoencoders recur?",
        "blocks": "Find what views of the same examples share",
        "translate": "Map old embeddings to a new model's",
    },
    "Factors": {
        "ica": "Fit, apply and test independent components",
        "structure": "Score latents against known factors",
        "disentangle": "Find factors of variation in your images",
        "deconfound": "Separate biology from batch effects",
    },
    "Theory": {
        "decoder": "Test how close a decoder is to an isometry",
        "heads": "Test linear identifiability from heads",
        "reproduce": "Rerun a published experiment",
    },
    "Data": {
        "extract": "Save activations of a model's layers",
        "datasets": "List and download public data sets",
    },
    "Utilities": {
        "demo": "Train and compare two small models",
        "report": "Turn a JSON result into an HTML report",
        "doctor": "Show versions, extras, BLAS and threads",
    },
}
"""The commands in the groups and with the summaries that ``isorep --help`` shows."""


class _Grouped(TyperGroup):
    """Commands by group, in the order of ``GROUPS``."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for group in GROUPS.values() for name in group]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        longest = max(map(len, self.list_commands(ctx)))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), summary) for name, summary in group.items()])


app = typer.Typer(
    name="isorep",
    cls=_Grouped,
    help="Are two neural representations the same, and up to what?",
    epilog="isorep COMMAND --help shows the options of a command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"isorep {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


app.command("compare", cls=Command)(compare.command)
app.command("similarity", cls=Command)(similarity.command)
app.command("dictionaries", cls=Command)(dictionaries.command)
app.command("blocks", cls=Command)(blocks.command)
app.add_typer(ica.app, name="ica")
app.add_typer(translate.app, name="translate")
app.command("structure", cls=Command)(structure.command)
app.command("decoder", cls=Command)(decoder.command)
app.command("heads", cls=Command)(heads.command)
app.command("deconfound", cls=Command)(deconfound.command)
app.command("disentangle", cls=Command)(disentangle.command)
app.command("extract", cls=Command)(extract.command)
app.command("reproduce", cls=Command)(reproduce.command)
app.add_typer(datasets.app, name="datasets")
app.command("demo", cls=Command)(compare.demo)
app.command("report", cls=Command)(report.command)
app.command("doctor", cls=Command)(doctor.command)
