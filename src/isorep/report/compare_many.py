"""The page of many runs (schema ``isorep.compare_many/2``): the verdict first, then all pairs and what recurs."""

from __future__ import annotations

from .closing import closing, made_by
from .consensus import consensus_section, dimensions_section
from .families import components_section, everywhere, found_in
from .figures import NARROW, Drawing, clustered
from .parts import Cell, Column, Definitions, Figure, Notes, Page, Prose, Row, Section, Table, Verdict
from .rungs import on_both, rung_name
from .sides import sides_table
from .values import MISSING, Node, count, fixed, percent, present

MOST_RUNS = 32
"""Runs that figures and tables show; a page of more would say less."""
OPEN_PAIRS = 12
LARGEST = 1e12
"""Errors beyond this are none that isorep measured, and are left out."""
_BESIDE = ("null", "in_sample")

Matrix = list[list[float | None]]


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    names = run_names(result)
    sections = [
        _pairs(result, names),
        _outliers(result, names),
        consensus_section(result["consensus"], names),
        components_section(result["components"], names),
        dimensions_section(result["dimensions"], names),
        _runs(result),
        *closing(result),
    ]
    return Page(
        title=f"{len(names)} runs · isorep",
        eyebrow=f"Comparison of {len(names)} runs: {', '.join(names[:8])}{' and others' if len(names) > 8 else ''}",
        opening=_opening(result, names),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result),
    )


def run_names(result: Node) -> list[str]:
    """The names of the runs that are shown."""
    return [node.text(f"run {place}") for place, node in enumerate(result["names"].nodes(MOST_RUNS))]


def square(node: Node, size: int) -> Matrix | None:
    """A matrix of numbers, its diagonal empty; None if it is not as large as it should be."""
    rows = [row.numbers(size) for row in node.nodes(size)]
    if not size or len(rows) != size or any(len(row) != size for row in rows):
        return None
    return [
        [None if i == j or value is None or abs(value) > LARGEST else value for j, value in enumerate(row)]
        for i, row in enumerate(rows)
    ]


def _opening(result: Node, names: list[str]) -> tuple[Verdict | Definitions, ...]:
    sentence = result["verdict"]["sentence"].text("This result holds no verdict.")
    head, stop, rest = sentence.partition(". ")
    if not stop:
        answer, stop, rest = sentence.partition(": ")
        head, rest = (answer, rest[:1].upper() + rest[1:]) if stop else (sentence.removesuffix("."), "")
    rung = result["verdict"]["rung"].text()
    rungs = [name for name, _ in result["rungs"].items()]
    unsure = " in part only, " in head or (not rung and head.startswith(("No verdict", "This result")))
    steps = tuple((rung_name(name), name == rung) for name in rungs)
    verdict = Verdict(f"{head}.", rest, None if unsure else bool(rung), steps)
    tiles = _tiles(result, rung or ("linear" if "linear" in rungs else ""), names)
    return (verdict, Definitions(tiles, tiles=True)) if tiles else (verdict,)


def _tiles(result: Node, rung: str, names: list[str]) -> tuple[tuple[str, str, str], ...]:
    node = result["rungs"][rung]
    apart = {outlier["run"].text() for outlier in result["outliers"].nodes(MOST_RUNS)}
    errors, nulls, rms = (_among(square(node[key], len(names)), names, apart) for key in ("error", "null", "rms"))
    tiles = []
    if errors:
        mean, aside = sum(errors) / len(errors), ", outliers aside" if apart else ""
        said = f"1 is no better than the mean; mean of all pairs{aside}; the worst has {fixed(max(errors), 3)}"
        tiles.append((f"held-out error, {rung_name(rung)}", fixed(mean, 3), said))
        if sum(nulls) > 0:
            chance = sum(nulls) / len(nulls)
            squares = sum(1 - error * error for error in rms) / max(len(rms), 1)
            explained = f"; {percent(squares)} of the variance is explained, held out" if rms else ""
            tiles.append(("chance", fixed(chance, 3), f"the error of shuffled rows{explained}"))
    share = result["consensus"]["share"].number()
    if share is not None:
        tiles.append(("consensus", percent(share), "of a run's variance, explained by the mean of the others"))
    found = everywhere(result["components"], len(names))
    if found is not None:
        most = found_in(result["components"], len(names) // 2 + 1)
        tiles.append(("recurring components", count(most), f"found in most runs, {found or 'none'} of them in all"))
    return tuple(tiles)


def _among(matrix: Matrix | None, names: list[str], apart: set[str]) -> list[float]:
    """The values of all pairs of runs but some."""
    core = [place for place, name in enumerate(names) if name not in apart]
    return present(*(matrix[i][j] for i in core for j in core)) if matrix else []


def _pairs(result: Node, names: list[str]) -> Section | None:
    matrices = [(rung, square(node["error"], len(names))) for rung, node in result["rungs"].items()[:8]]
    found = [(rung, matrix) for rung, matrix in matrices if matrix is not None]
    if not found:
        return None
    first = result["clustering"]["rung"].text()
    found.sort(key=lambda entry: entry[0] != first)
    unit = (
        "Mean errors on rows that the maps have not seen, in mean distances of the target to its mean; lower is closer "
        "and 1 is no better than predicting the mean. Rows are mapped onto columns."
    )
    total = len(result["names"].nodes())
    if total > len(names):
        unit += f" The first {len(names)} of {total} runs are shown."
    order, tree = run_order(result, len(names))
    maps = [_heat_map(rung, matrix, names, order, tree, lead=place == 0) for place, (rung, matrix) in enumerate(found)]
    others = [Row(tuple(maps[start : start + 2])) for start in range(1, len(maps), 2)]
    parts: list[object] = [Prose((unit,)), pairs_table(result, names), maps[0], *others]
    return Section("pairs", "All pairs", (*parts, _pair_table(result, names, found)))


def run_order(result: Node, size: int) -> tuple[list[int], list[tuple[int, int, float]]]:
    """The order of the runs, and the tree over their places in it; nothing of a tree that is not one."""
    order = [node.whole() for node in result["clustering"]["order"].nodes(size)]
    places = [place for place in order if place is not None]
    if sorted(places) != list(range(size)):
        return list(range(size)), []
    at = {run: place for place, run in enumerate(places)}
    tree, free = [], set(range(size))
    for step, node in enumerate(result["clustering"]["linkage"].nodes(size)):
        numbers = node.numbers(4)
        if len(numbers) < 3 or any(number is None for number in numbers[:3]):
            return places, []
        a, b, height = (float(number or 0) for number in numbers[:3])
        pair = {int(a), int(b)}
        if len(pair) < 2 or not pair <= free or height < 0:
            return places, []
        free = (free - pair) | {size + step}
        tree.append((at.get(int(a), int(a)), at.get(int(b), int(b)), height))
    return places, tree if len(tree) == size - 1 else []


def _heat_map(
    rung: str, matrix: Matrix, names: list[str], order: list[int], tree: list[tuple[int, int, float]], lead: bool
) -> Figure:
    values = [[matrix[i][j] for j in order] for i in order]
    shown = [names[i] for i in order]
    every = [(value, i, j) for i, row in enumerate(matrix) for j, value in enumerate(row) if value is not None]
    told = ""
    if every:
        (best, a, b), (worst, c, d) = min(every), max(every)
        told = (
            f" Closest are {names[a]} and {names[b]} ({fixed(best, 3)}), farthest {names[c]} and {names[d]} "
            f"({fixed(worst, 3)})."
        )

    def draw(width: float) -> Drawing:
        return clustered(values, shown, tree if lead else [], ("target", "source"), width)

    caption = (
        "Near runs stand side by side; the tree above joins them by average linkage, at the height of their mean error."
        if lead and tree
        else ""
    )
    return Figure(
        f"{_anchor(rung)}-figure",
        f"Errors up to {rung_name(rung)}" if rung != "identity" else "Errors as they are (identity)",
        caption,
        f"Heat map of {len(names)} by {len(names)} runs, {rung_name(rung)}.{told}",
        on_both(draw) if lead else (draw(NARROW),),
    )


def _anchor(rung: str) -> str:
    """A rung's name as the name of an element, whatever it is."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in rung)
    return f"pairs-{kept[:40]}"


def pairs_table(result: Node, names: list[str]) -> Table:
    """The ladder over all ordered pairs: mean with its standard error, range, R², null and in-sample."""
    size = len(names)
    rows = []
    for rung, node in result["rungs"].items()[:8]:
        mean, error, best, worst, explained = (
            node[key].number() for key in ("mean", "mean_se", "min", "max", "explained")
        )
        ends = [fixed(end, 3) for end in present(best, worst)]
        rows.append(
            (
                Cell(rung_name(rung), strong=rung == result["verdict"]["rung"].text()),
                *(Cell(fixed(value), value) for value in (mean, error)),
                Cell(" to ".join(ends) or MISSING, worst),
                Cell(fixed(explained, 2), explained),
                *(Cell(fixed(value), value) for value in (_mean(square(node[key], size)) for key in _BESIDE)),
            )
        )
    titles = ("rung", "mean", "SE", "over pairs", "R²", "null", "in-sample")
    columns = tuple(Column(title, numeric=place > 0) for place, title in enumerate(titles))
    return Table("ladder", "Over all ordered pairs", columns, tuple(rows))


def _mean(matrix: Matrix | None) -> float | None:
    values = present(*(value for row in matrix or [] for value in row))
    return sum(values) / len(values) if values else None


def _pair_table(result: Node, names: list[str], found: list[tuple[str, Matrix]]) -> Table:
    verdicts = [row.nodes(len(names)) for row in result["verdicts"].nodes(len(names))]
    rows = []
    for i in range(len(names)):
        for j in range(len(names)):
            if i == j:
                continue
            said = verdicts[i][j].text() if i < len(verdicts) and j < len(verdicts[i]) else ""
            cells = (Cell(fixed(matrix[i][j]), matrix[i][j]) for _, matrix in found)
            rows.append((Cell(f"{names[i]} → {names[j]}"), *cells, Cell(rung_name(said) or MISSING)))
    columns = (
        Column("pair", numeric=False),
        *(Column(rung_name(rung)) for rung, _ in found),
        Column("explained by", numeric=False),
    )
    title = "Every ordered pair, with the smallest rung that explains it"
    return Table("every-pair", title, columns, tuple(rows), folded=len(rows) > OPEN_PAIRS)


def _outliers(result: Node, names: list[str]) -> Section | None:
    if result["outliers"].raw is None:
        return None
    said = tuple(node["sentence"].text() for node in result["outliers"].nodes(MOST_RUNS) if node["sentence"].text())
    if said:
        return Section("outliers", "Runs that stand apart", (Notes(said),))
    few = " With fewer than four runs, none can." if len(names) < 4 else ""
    return Section("outliers", "Runs that stand apart", (Prose((f"No run stands apart.{few}",)),))


def _runs(result: Node) -> Section | None:
    runs = [(side["name"].text(MISSING), side) for side in result["runs"].nodes(MOST_RUNS)]
    if not runs:
        return None
    return Section("runs", "The runs", (sides_table("runs-table", "Size, rank and condition", "run", runs),))
