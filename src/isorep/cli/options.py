"""Options that every command has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[Path | None, typer.Option(help="Write the complete result here.")]
Html = Annotated[Path | None, typer.Option(help="Write a report with figures here.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
