"""Figures as SVG files of their own: colours and type inside, for papers and slides."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from .document import Figure
from .figures.axes import Key, short, tag
from .page import FOLDER

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
HEAD, FOOT, MARGIN, ROW = 34.0, 30.0, 12.0, 20.0
"""Pixels above the plot for the title, below it for the legend, around both, and for each further row of the legend."""
SERIES = ("s0", "s1", "s2", "s3", "s4", "s5", "s6", "accent", "ink")
_MARKS = re.compile(
    r"text|\.(tick|axis-title|strong|grid|axis|zero|dot|ring|whisker|stem|band|chance|band\+\.chance|line|dots|large|medium"
    r"|small|hollow|ground|cell|none|zone|tolerance|hit|inside|light|dark|[np]\d+)"
)
"""The last part of the selectors that figures need."""


def svg_file(figure: Figure) -> str:
    """One figure with its title and legend, complete in itself."""
    drawing = figure.drawings[0]
    width = drawing.width + 2 * MARGIN
    legend, rows = _legend(figure.keys, HEAD + drawing.height + 12, width)
    height = drawing.height + HEAD + FOOT + (rows - 1) * ROW + MARGIN
    size = f'width="{short(width)}" height="{short(height)}" viewBox="0 0 {short(width)} {short(height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
        f"<title>{escape(figure.title)}</title><desc>{escape(figure.told)}</desc>",
        f"<style>{figure_style()}</style>",
        tag("rect", width=width, height=height, fill="#fff"),
        tag("text", figure.title, x=MARGIN, y=22, class_="strong"),
        f'<g transform="translate({short(MARGIN)} {short(HEAD)})">{drawing.body}</g>',
        legend,
        "</svg>",
    ]
    return "\n".join(str(part) for part in parts) + "\n"


def figure_style() -> str:
    """The page's rules for marks with every variable spelt out: drawing programs know no variables."""
    sheet = (FOLDER / "report.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"--([a-z0-9]+):([^;}]+)", sheet[: sheet.index("}")]))
    rules = []
    for selectors, body in re.findall(r"([^{}@]+)\{([^{}]*)\}", sheet[sheet.index("svg text") :]):
        for selector in map(str.strip, selectors.split(",")):
            if _MARKS.fullmatch(selector.split()[-1]):
                rules += _spelt(selector, body, light)
    return "".join(rules)


def _spelt(selector: str, body: str, light: dict[str, str]) -> list[str]:
    """The rule with colours; where it takes its series' colour, one rule a series."""
    if "var(--c" not in body:
        return [f"{selector}{{{_filled(body, light)}}}"]
    otherwise = _filled(re.sub(r"var\(--c,(var\(--[a-z0-9]+\))\)", r"\1", body), light)
    plain = [] if "var(--c" in otherwise else [f"{selector}{{{otherwise}}}"]
    coloured = re.sub(r"var\(--c(,var\(--[a-z0-9]+\))?\)", "COLOUR", body)
    return plain + [
        f".{name} {selector}{{{_filled(coloured.replace('COLOUR', light[name]), light)}}}" for name in SERIES
    ]


def _filled(body: str, light: dict[str, str]) -> str:
    spelt = re.sub(r"var\(--([a-z0-9]+)\)", lambda match: light.get(match[1], match[0]), body)
    return re.sub(r"color-mix\([^,]*,(#[0-9a-f]+) (\d+)%,(#[0-9a-f]+)\)", _mixed, spelt)


def _mixed(match: re.Match[str]) -> str:
    """A mixture of two colours as one: drawing programs mix none."""
    share = int(match[2]) / 100
    first, second = (_parts(match[number]) for number in (1, 3))
    mixed = (round(share * a + (1 - share) * b) for a, b in zip(first, second, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _parts(colour: str) -> list[int]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    return [int(digits[start : start + 2], 16) for start in (0, 2, 4)]


def _legend(keys: tuple[Key, ...], y: float, width: float) -> tuple[Markup, int]:
    """The keys side by side, in as many rows as they take."""
    x, rows, drawn = MARGIN + 6, 1, []
    for key in keys:
        taken = 34 + 6.4 * len(key.text)
        if x > MARGIN + 6 and x + taken - 12 > width:
            x, y, rows = MARGIN + 6, y + ROW, rows + 1
        marks = {
            "dot": tag("circle", class_="dot", cx=x + 6, cy=y, r=4.5),
            "whisker": tag("path", class_="whisker", d=f"M{x:.0f} {y - 4:.0f}v8m0 -4h14m0 -4v8"),
            "tick": tag("line", class_="chance", x1=x + 6, x2=x + 6, y1=y - 7, y2=y + 7),
        }
        mark = marks.get(key.mark, tag("line", class_="line", x1=x, x2=x + 16, y1=y, y2=y))
        drawn.append(tag("g", Markup("").join([mark]), class_=key.series))
        drawn.append(tag("text", key.text, class_="tick", x=x + 22, y=y + 4))
        x += taken
    return Markup("").join(drawn), rows
