"""Figures of matrices from 0 to 1, and pictures that came as PNG in base64."""

from __future__ import annotations

import base64
import binascii
import struct

from .figures import Drawing, Series, heatmap
from .figures.drawing import tag
from .parts import Figure
from .rungs import on_both
from .values import Node, fixed

MOST_ROWS, MOST_COLUMNS = 64, 64
MOST_PICTURE = 400_000
"""Characters of a picture: a page must stay below 1.5 MB."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LARGEST_SIDE = 4096
_WIDE = 500  # about how wide a picture is drawn
_ROOM = 110.0  # pixels for names of rows


def cells_figure(node: Node, name: str) -> Figure | None:
    """The heat map of a chart's ``cells``; nothing unless they are a matrix."""
    values = [row.numbers(MOST_COLUMNS) for row in node["cells"].nodes(MOST_ROWS)]
    if not values or not values[0] or any(len(row) != len(values[0]) for row in values):
        return None
    sides = node["sides"].nodes(2)
    rows = _names(sides[0] if sides else Node(None), len(values))
    columns = _names(sides[1] if len(sides) == 2 else Node(None), len(values[0]))
    named = [each.text() for each in node["axes"].nodes(2)]
    axes = (named[0], named[1]) if len(named) == 2 else ("", "")
    said = "; ".join(
        f"{row}: {', '.join(fixed(value, 2) for value in line)}" for row, line in zip(rows, values, strict=True)
    )
    return Figure(
        name,
        node["title"].text("A matrix"),
        node["caption"].text(),
        said,
        on_both(lambda width: heatmap(values, rows, columns, axes, width, left=_ROOM, signed=False)),
    )


def picture_figure(node: Node, name: str) -> Figure | None:
    """A picture as it is; nothing unless it is a PNG of a sensible size."""
    size = picture_size(node["picture"].text())
    if size is None:
        return None
    title = node["title"].text("A picture")
    return Figure(
        name,
        title,
        node["caption"].text(),
        node["caption"].text() or title,
        (picture_drawing(node["picture"].text(), size, title),),
    )


def picture_drawing(text: str, size: tuple[int, int], title: str) -> Drawing:
    """The picture, enlarged by a whole number where it is small: pixels stay squares."""
    times = max(1, round(_WIDE / size[0]))
    width, height = float(times * size[0]), float(times * size[1])
    address = f"data:image/png;base64,{text}"
    style = "image-rendering:pixelated"
    body = tag("image", width=width, height=height, href=address, role="img", aria_label=title, style=style)
    return Drawing(width, height, body, (Series(title, ((width / 2, height / 2),), (title,)),))


def picture_size(text: str) -> tuple[int, int] | None:
    """Width and height of a PNG in base64; None for anything else, or where it is too large for a page."""
    if not text or len(text) > MOST_PICTURE:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data.startswith(_SIGNATURE) or data[12:16] != b"IHDR" or len(data) < 33:
        return None
    width, height = struct.unpack(">II", data[16:24])
    return (width, height) if 0 < width <= _LARGEST_SIDE and 0 < height <= _LARGEST_SIDE else None


def _names(node: Node, count: int) -> list[str]:
    found = [each.text() for each in node.nodes(count)]
    return [*found, *(str(place) for place in range(len(found), count))]
