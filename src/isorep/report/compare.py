"""The page of a comparison (schema ``isorep.compare/2``): the verdict first, then what it rests on."""

from __future__ import annotations

from .certificate import bracket, worst_case
from .closing import MOST_CAVEATS, citation, made_by, settings
from .dimensions import dimensions_figure, matching_figure, spectrum_figure
from .ladder import ladder_figure, ladder_table, residuals_figure, statistics_table
from .parts import Definitions, Heading, Notes, Page, Prose, Section, Verdict
from .plane import scatter_figures
from .rungs import rung_name
from .sides import sides_table
from .values import Node, compact, fixed, percent

WEAK = 0.5
"""The error above which two sides agree in part only; the verdict says so in words."""
BEYOND = 1.005
"""An ICA efficiency that prints as more than 100 %."""


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    source, target = _side_name(result, "source"), _side_name(result, "target")
    sections = [
        _ladder(result, source, target),
        worst_case(result, target),
        _scatter(result, source, target),
        _dimensions(result, source, target),
        _residuals(result, target),
        _spectrum(result),
        _caveats(result),
        settings(result),
        citation(result),
    ]
    return Page(
        title=f"{source} → {target} · isorep",
        eyebrow=f"Comparison of {source} (source) with {target} (target)",
        opening=_opening(result, target),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result),
    )


def _opening(result: Node, target: str) -> tuple[Verdict | Definitions, ...]:
    sentence = result["verdict"]["sentence"].text("This result holds no verdict.")
    rung = result["verdict"]["rung"].text()
    head, rest = _in_two(sentence)
    qualified = bool(result["verdict"]["qualified"].text())
    weak = qualified or _is_weak(result["forward"]["rungs"][rung])
    open_ = weak if rung else sentence.startswith(("No verdict", "This result"))
    rungs = [name for name, _ in result["forward"]["rungs"].items()]
    steps = tuple((rung_name(name), name == rung) for name in rungs)
    verdict = Verdict(head, rest, None if open_ else bool(rung), steps)
    tiles = _tiles(result, rung or ("linear" if "linear" in rungs else ""), target)
    return (verdict, Definitions(tiles, tiles=True)) if tiles else (verdict,)


def _in_two(sentence: str) -> tuple[str, str]:
    """The answer, and the numbers behind it."""
    answer, stop, numbers = sentence.partition(". ")
    if stop:
        return f"{answer}.", numbers
    answer, stop, numbers = sentence.rpartition(": ")
    return (f"{answer}.", numbers[:1].upper() + numbers[1:]) if stop else (sentence, "")


def _is_weak(rung: Node) -> bool:
    mean = rung["held_out"]["mean"].number()
    return mean is not None and mean > WEAK


def _tiles(result: Node, rung: str, target: str) -> tuple[tuple[str, str, str], ...]:
    node = result["forward"]["rungs"][rung]
    mean, null = node["held_out"]["mean"].number(), node["null"]["mean"].number()
    low, high = node["interval"]["low"].number(), node["interval"]["high"].number()
    efficiency = result["forward"]["ica_efficiency"].number()
    ends = bracket(result)
    tiles = []
    if mean is not None:
        span = "" if low is None or high is None else f", {fixed(low)} to {fixed(high)}"
        tiles.append((f"held-out error, {rung_name(rung)}", fixed(mean), f"1 is no better than the mean{span}"))
    if mean is not None and null:
        explained = node["explained"].number()
        told = "" if explained is None else f"; {percent(explained)} of the variance is explained, held out"
        tiles.append(("chance", fixed(null), f"the error of shuffled rows{told}"))
    if ends is not None:
        remark = f"diameters, certified; no rigid map does better than {fixed(ends[0], 3)}"
        tiles.append(("worst row, best rigid map", f"≤ {fixed(ends[1], 3)}", remark))
    if efficiency is not None:
        tiles.append(("ICA efficiency", percent(efficiency), _efficiency_remark(efficiency)))
    return tuple(tiles)


def _efficiency_remark(efficiency: float) -> str:
    if efficiency > BEYOND:
        return "no share: ICA undoes stretches that no rotation can, and leaves less"
    return (
        "of what a rotation gains over matching, ICA gains as well"
        if efficiency >= 0
        else "ICA gains nothing on matching"
    )


def _ladder(result: Node, source: str, target: str) -> Section | None:
    forward, reverse = result["forward"], result["reverse"]
    if not forward["rungs"].items():
        return None
    rung = result["verdict"]["rung"].text()
    unit = (
        f"{source} mapped onto {target}: mean error in mean distances of {target} to its mean; lower is closer, and 1 "
        f"is no better than predicting the mean. The last column is in diameters of {target}{_diameter(forward)}."
    )
    parts: list[object] = [
        Prose((unit,)),
        ladder_table(forward, "ladder", f"{source} → {target}", rung),
        ladder_figure(forward, rung, target),
        statistics_table(forward),
    ]
    if reverse["rungs"].items():
        back = reverse["verdict"]["rung"].text()
        said = reverse["verdict"]["sentence"].text()
        unit = (
            f"{target} mapped onto {source}: mean error in mean distances of {source} to its mean; the last column is "
            f"in diameters of {source}{_diameter(reverse)}."
        )
        parts += [
            Heading("The reverse direction"),
            Prose((unit, said) if said else (unit,)),
            ladder_table(reverse, "ladder-reverse", f"{target} → {source}", back),
        ]
    return Section("the-ladder", "The ladder", tuple(parts))


def _scatter(result: Node, source: str, target: str) -> Section | None:
    row = scatter_figures(result["figures"]["scatter"], source, target)
    return Section("alignment", "Before and after alignment", row) if row else None


def _dimensions(result: Node, source: str, target: str) -> Section | None:
    figures = (
        matching_figure(result["figures"]["matching"], source, target),
        dimensions_figure(result["figures"]["dimensions"], target),
    )
    parts = tuple(figure for figure in figures if figure is not None)
    return Section("dimensions", "Single dimensions", parts) if parts else None


def _residuals(result: Node, target: str) -> Section | None:
    figure = residuals_figure(result["figures"]["residuals"], target)
    return Section("residuals", "Residuals", (figure,)) if figure else None


def _spectrum(result: Node) -> Section | None:
    sides = [(f"{result[kind]['name'].text(kind)} ({kind})", result[kind]) for kind in ("source", "target")]
    known = [(said, side) for said, side in sides if side.items()]
    figure = spectrum_figure(result)
    if not known and figure is None:
        return None
    parts: tuple[object, ...] = (sides_table("sides", "The two sides", "side", known),) if known else ()
    return Section("rank", "Rank and spectrum", (*parts, figure) if figure else parts)


def _caveats(result: Node) -> Section | None:
    if result["caveats"].raw is None:
        return None
    found = tuple(node.text() for node in result["caveats"].nodes(MOST_CAVEATS) if node.text())
    said: Notes | Prose = Notes(found) if found else Prose(("None that isorep knows of applies to this pair.",))
    return Section("caveats", "Caveats", (said,))


def _side_name(result: Node, kind: str) -> str:
    return result[kind]["name"].text() or result["forward"][kind].text() or kind


def _diameter(direction: Node) -> str:
    value = direction["diameter"]["value"].number()
    if value is None:
        return ""
    return f" ({compact(value, 6)}, {'exact' if direction['diameter']['exact'].raw is True else 'a lower bound'})"
