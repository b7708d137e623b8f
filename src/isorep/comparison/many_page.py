"""The page of many runs (schema ``isorep.compare_many/2``): the verdict first, then all pairs and what recurs.

The consensus of many runs, and how well single dimensions come back in the others.

Independent components that recur from run to run.
"""

from __future__ import annotations

from ..report.charts import rung_name
from ..report.document import Answer, Cell, Column, Definitions, Figure, Notes, Page, Part, Prose, Row, Section, Table
from ..report.figures import Clustered, Heatmap, IntervalRow, Intervals, Key, Line, Lines
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, count, fixed, percent, present
from .page_figures import sides_table

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
        *closing(result.raw),
    ]
    return Page(
        title=f"{len(names)} runs · isorep",
        eyebrow=f"Comparison of {len(names)} runs: {', '.join(names[:8])}{' and others' if len(names) > 8 else ''}",
        opening=_opening(result, names),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
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


def _opening(result: Node, names: list[str]) -> tuple[Answer | Definitions, ...]:
    sentence = result["verdict"]["sentence"].text("This result holds no verdict.")
    head, stop, rest = sentence.partition(". ")
    if not stop:
        answer, stop, rest = sentence.partition(": ")
        head, rest = (answer, rest[:1].upper() + rest[1:]) if stop else (sentence.removesuffix("."), "")
    rung = result["verdict"]["rung"].text()
    rungs = [name for name, _ in result["rungs"].items()]
    unsure = " in part only, " in head or (not rung and head.startswith(("No verdict", "This result")))
    steps = tuple((rung_name(name), name == rung) for name in rungs)
    verdict = Answer(f"{head}.", rest, None if unsure else bool(rung), steps)
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
    parts: list[Part] = [Prose((unit,)), pairs_table(result, names), maps[0], *others]
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
        Clustered(tuple(map(tuple, values)), tuple(shown), tuple(tree) if lead else (), ("target", "source")),
        narrow=not lead,
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


MOST_AXES, MOST_POINTS, MOST_LINES = 2000, 400, 5
SERIES = ("s2", "s1", "s3", "s4", "s0")


def consensus_section(node: Node, names: list[str]) -> Section | None:
    """What the runs have in common: the share of each, and the agreement along each axis."""
    parts = (_shares_figure(node, names), _axes_figure(node))
    kept = tuple(part for part in parts if part is not None)
    if not kept:
        return None
    words = (
        "Every run is rotated onto the others (generalised Procrustes, at unit RMS radius), and their mean is the "
        "consensus. These figures are measured on the rows that the rotations were fitted to."
    )
    return Section("consensus", "Consensus", (Prose((words,)), *kept))


def _shares_figure(node: Node, names: list[str]) -> Figure | None:
    shares = node["shares"].numbers(len(names))
    if len(shares) != len(names) or not present(*shares):
        return None
    rows = [
        IntervalRow(name, "s2", value=share, labels=(f"{percent(share)}", "", ""), printed=percent(share))
        for name, share in zip(names, shares, strict=True)
        if share is not None
    ]
    told = "; ".join(f"{row.name}: {row.printed}" for row in rows)
    return Figure(
        "shares-figure",
        "How much of each run is common",
        "The share of a run's variance that the mean of the other runs explains, after rotation and with one scale.",
        f"Shares of variance. {told}.",
        Intervals(tuple(rows), "share of variance explained by the other runs"),
    )


def _axes_figure(node: Node) -> Figure | None:
    agreement, spectrum = node["agreement"].numbers(MOST_AXES), node["spectrum"].numbers(MOST_AXES)
    if len(agreement) < 2 or len(agreement) != len(spectrum) or None in agreement or None in spectrum:
        return None
    values, variances = present(*agreement), present(*spectrum)
    whole = sum(variances) or 1.0
    every = max(1, -(-len(values) // MOST_POINTS))
    points = tuple((float(place + 1), values[place]) for place in range(0, len(values), every))
    labels = tuple(
        f"axis {place + 1}: {fixed(values[place], 3)}, {percent(variances[place] / whole)} of the consensus's variance"
        for place in range(0, len(values), every)
    )
    good = sum(1 for value in values if value >= 0.9)
    table = Table(
        "axes",
        "Axes of the consensus",
        (Column("axis"), Column("variance"), Column("agreement")),
        tuple(
            (Cell(str(place + 1)), Cell(fixed(variances[place]), variances[place]), Cell(fixed(value), value))
            for place, value in enumerate(values)
        ),
        folded=True,
    )
    drawn = [Line("agreement", "s2", points, labels, dotted=len(points) <= 60)]
    return Figure(
        "agreement-figure",
        "Agreement along each axis",
        "The mean covariance of two runs over their mean variance, along the consensus's principal axes: 1 where all "
        f"runs agree, 0 where they share nothing. {good} of {count(len(values))} axes exceed 0.9.",
        f"Agreement of {count(len(values))} axes, from {fixed(min(values), 2)} to {fixed(max(values), 2)}; {good} "
        "exceed 0.9.",
        Lines(
            tuple(drawn),
            ("axis of the consensus, largest variance first", "agreement"),
            260,
            y_range=(min(0.0, *values), 1.0),
        ),
        table=table,
    )


def dimensions_section(node: Node, names: list[str]) -> Section | None:
    """How well the dimensions of every run are predicted from, and matched in, the others."""
    found = []
    for name, entry in zip(names, node.nodes(len(names)), strict=False):
        r2 = present(*entry["r2"].numbers(MOST_AXES * 10))
        found.append((name, sorted(r2, reverse=True), present(*entry["correlation"].numbers(MOST_AXES * 10))))
    parts: list[Part] = []
    drawn = [_curve(place, name, r2) for place, (name, r2, _) in enumerate(found) if r2]
    if drawn:
        parts.append(_dimensions_figure(drawn[:MOST_LINES], len(drawn)))
    rows = [
        (
            Cell(name),
            *(Cell(fixed(value, 3), value) for value in (*_spread(r2), *_spread(correlation))),
        )
        for name, r2, correlation in found
        if r2 or correlation
    ]
    if not rows:
        return None
    titles = ("run", "R², median", "least", "greatest", "correlation, median", "least", "greatest")
    columns = tuple(Column(title, numeric=place > 0) for place, title in enumerate(titles))
    parts.append(
        Table(
            "dimensions",
            "Dimensions of each run: held-out R² from the others, and correlation with the one matched to it",
            columns,
            tuple(rows),
        )
    )
    return Section("dimensions", "Single dimensions", tuple(parts))


def _curve(place: int, name: str, r2: list[float]) -> Line:
    every = max(1, -(-len(r2) // MOST_POINTS))
    kept = range(0, len(r2), every)
    return Line(
        name,
        SERIES[place % len(SERIES)],
        tuple((float(rank + 1), r2[rank]) for rank in kept),
        tuple(f"rank {rank + 1}: {fixed(r2[rank], 3)}" for rank in kept),
    )


def _dimensions_figure(drawn: list[Line], of: int) -> Figure:
    every = [y for line in drawn for _, y in line.points]
    low = max(-0.5, min(0.0, *every))
    rest = f" The first {len(drawn)} of {of} runs are drawn." if of > len(drawn) else ""
    return Figure(
        "dimensions-figure",
        "Reproducibility of each dimension",
        "The share of a dimension's variance that another run predicts linearly on rows not seen, averaged over the "
        f"other runs; the dimensions of each run from the best to the least.{rest}",
        f"Held-out R squared by rank for {len(drawn)} runs, from {fixed(min(every), 2)} to {fixed(max(every), 2)}.",
        Lines(tuple(drawn), ("rank of the dimension", "held-out R²"), 260, y_range=(low, 1.0)),
        legend=tuple(Key("line", line.series, line.name) for line in drawn),
    )


def _spread(values: list[float]) -> tuple[float | None, float | None, float | None]:
    ordered = sorted(values)
    if not ordered:
        return None, None, None
    return ordered[len(ordered) // 2], ordered[0], ordered[-1]


MOST_FAMILIES, MOST_FAMILY_COLUMNS, MOST_FAMILY_ROWS = 2000, 96, 100


def everywhere(node: Node, runs: int) -> int | None:
    """How many components are found in all runs; None without components."""
    if not node["by_run"].nodes():
        return None
    return found_in(node, runs)


def found_in(node: Node, least: int) -> int:
    """How many families are found in at least so many runs."""
    return sum(1 for family in node["families"].nodes(MOST_FAMILIES) if (family["runs"].whole() or 0) >= least)


def components_section(node: Node, names: list[str]) -> Section | None:
    """Which components recur in how many runs."""
    by_run = [_run(entry) for entry in node["by_run"].nodes(len(names))]
    if len(by_run) != len(names) or not any(scores for scores, _ in by_run):
        return None
    threshold = fixed(node["threshold"].number(), 1)
    families = [_family(entry, len(names)) for entry in node["families"].nodes(MOST_FAMILIES)]
    known = [family for family in families if family is not None]
    words = (
        "Components of each run alone, matched one to one between every two runs. A component recurs where its "
        f"absolute correlation with the one matched to it is at least {threshold}; a family has at most one a run."
    )
    parts: list[Part] = [Prose((words,)), _counts_table(by_run, names)]
    if known:
        parts += [_families_figure(known, by_run, names), _families_table(known, names)]
    return Section("components", "Recurring components", tuple(parts))


Scored = tuple[list[float | None], list[float | None]]
Known = tuple[int, float | None, dict[int, int]]


def _run(entry: Node) -> Scored:
    scores, runs = entry["score"].numbers(), entry["runs"].numbers()
    return (scores, runs) if len(scores) == len(runs) else ([], [])


def _family(entry: Node, size: int) -> Known | None:
    members = {int(run): int(component) for run, component in entry["members"].points(size) if 0 <= run < size}
    return (len(members), entry["score"].number(), members) if len(members) > 1 else None


def _counts_table(by_run: list[Scored], names: list[str]) -> Table:
    rows = []
    for name, (scores, runs) in zip(names, by_run, strict=True):
        found = present(*runs)
        ordered = sorted(present(*scores))
        numbers = [
            float(len(scores)),
            float(sum(1 for number in found if number >= len(names))),
            float(sum(1 for number in found if 2 <= number < len(names))),
            float(sum(1 for number in found if number < 2)),
        ]
        median = ordered[len(ordered) // 2] if ordered else None
        rows.append((Cell(name), *(Cell(count(number), number) for number in numbers), Cell(fixed(median, 3), median)))
    titles = ("run", "components", "in all runs", "in some", "in no other", "score, median")
    columns = tuple(Column(title, numeric=place > 0) for place, title in enumerate(titles))
    return Table("component-counts", "Components of each run, and where else they are found", columns, tuple(rows))


def _families_figure(families: list[Known], by_run: list[Scored], names: list[str]) -> Figure:
    shown = families[:MOST_FAMILY_COLUMNS]
    values: list[list[float | None]] = []
    for run in range(len(names)):
        scores = by_run[run][0]
        places = [members.get(run) for _, _, members in shown]
        values.append([scores[k] if k is not None and 0 <= k < len(scores) else None for k in places])
    everywhere_ = sum(1 for size, _, _ in families if size == len(names))
    rest = f" The first {len(shown)} of {count(len(families))} are drawn." if len(families) > len(shown) else ""
    labels = [str(place + 1) for place in range(len(shown))]
    return Figure(
        "families-figure",
        "Families of components",
        "One column a family, the widest spread first; the shade is the mean correlation of a run's member with its "
        f"matches in all other runs, and blank where a run has none.{rest}",
        f"Heat map of {len(names)} runs by {len(shown)} families; {everywhere_} families are found in all runs.",
        Heatmap(tuple(map(tuple, values)), tuple(names), tuple(labels), ("family", "run"), left=150.0),
    )


def _families_table(families: list[Known], names: list[str]) -> Table:
    rows = []
    for place, (size, score, members) in enumerate(families[:MOST_FAMILY_ROWS]):
        who = [str(members[run]) if run in members else MISSING for run in range(len(names))]
        rows.append(
            (
                Cell(str(place + 1)),
                Cell(str(size), float(size)),
                Cell(fixed(score, 3), score),
                *(Cell(text) for text in who),
            )
        )
    columns = (Column("family"), Column("runs"), Column("score"), *(Column(name) for name in names))
    which = (
        "Every family"
        if len(families) <= MOST_FAMILY_ROWS
        else f"The first {MOST_FAMILY_ROWS} of {count(len(families))} families"
    )
    title = f"{which}: in how many runs, the mean correlation of its members, and their numbers in each run"
    return Table("families", title, columns, tuple(rows), folded=len(rows) > 12)
