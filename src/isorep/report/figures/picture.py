"""A picture that came as PNG in base64, drawn with its pixels as squares."""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass

from .axes import Drawing, Series, tag

MOST_CHARACTERS = 400_000  # of a picture: a page must stay below 1.5 MB
LARGEST_SIDE = 4096
WIDE = 500  # about how wide a picture is drawn
SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Picture:
    """A PNG in base64; anything else is refused."""

    png: str
    title: str

    def __post_init__(self) -> None:
        if self.size is None:
            raise ValueError("not a PNG picture in base64 that a page has room for")

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height in pixels; None for what is no PNG, or too large for a page."""
        if not self.png or len(self.png) > MOST_CHARACTERS:
            return None
        try:
            data = base64.b64decode(self.png, validate=True)
        except (binascii.Error, ValueError):
            return None
        if not data.startswith(SIGNATURE) or data[12:16] != b"IHDR" or len(data) < 33:
            return None
        width, height = struct.unpack(">II", data[16:24])
        return (width, height) if 0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE else None

    def draw(self, width: float) -> Drawing:
        """Enlarged by a whole number where it is small, whatever the page."""
        size = self.size or (1, 1)
        times = max(1, round(WIDE / size[0]))
        across, down = float(times * size[0]), float(times * size[1])
        address, style = f"data:image/png;base64,{self.png}", "image-rendering:pixelated"
        body = tag("image", width=across, height=down, href=address, role="img", aria_label=self.title, style=style)
        return Drawing(across, down, body, (Series(self.title, ((across / 2, down / 2),), (self.title,)),))
