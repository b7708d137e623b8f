"""What the catalogue knows about a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .images import FactorImages


@dataclass(frozen=True)
class Remote:
    """A file on the owner's host. A size or a checksum is given only where it is known."""

    url: str
    file: str
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Entry:
    """A data set: its folder under the data folder, its main file, and where to get it.

    ``remotes`` can be downloaded; ``by_hand`` says where to get a set whose host wants a browser. ``unpack`` is a
    pattern of the members of a downloaded archive that are taken out of it.
    """

    name: str
    title: str
    file: str
    open: Callable[..., FactorImages]
    remotes: tuple[Remote, ...] = ()
    by_hand: str = ""
    unpack: str = ""

    def origin(self) -> str:
        """How to get the files, in words."""
        if self.remotes:
            return f"get it with  isorep datasets download {self.name}  ({self.remotes[0].url})"
        return f"get it by hand from {self.by_hand}"
