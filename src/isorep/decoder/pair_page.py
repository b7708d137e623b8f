"""The page of a pair of decoders (schema ``isorep.decoder_pair/1``): what is measured beside what is allowed."""

from __future__ import annotations

from ..report.document import Answer, Cell, Column, Definitions, Figure, Page, Part, Prose, Section, Table
from ..report.figures import IntervalRow, Intervals, Key
from ..report.page import closing, made_by
from ..report.read import MISSING, Node, compact, count, fixed, percent

SOURCES = {
    "equal_outputs": "equal outputs",
    "with_mismatch": "with the mismatch",
    "chords": "by chords",
    "defect": "measured defect",
    "scaled": "one scale free",
    "mean": "mean (no bound)",
}
NAMES = {
    "theorem_1": "Theorem 1",
    "sup_polynomial": "polynomial",
    "sup_trivial": "centre on centre",
    "sup_outside": "mismatch outside the root",
    "rms": "Gram matrices",
    "rms_diameter_free": "Gram matrices, no diameter",
    "rms_trivial": "mean on mean",
    "rms_outside": "mismatch outside the root",
}
ERRORS = {"sup": "largest error", "rms": "root mean square error"}
MOST, DRAWN = 100, 20.0


def assemble(result: Node) -> Page:
    """All sections that the result has something for."""
    first, second = (result[side]["name"].text(side) for side in ("first", "second"))
    sections = [
        _errors(result),
        _bounds(result),
        _assumptions(result),
        _sides(result),
        _ica(result),
        *closing(result.raw),
    ]
    return Page(
        title=f"{first} and {second} · decoders · isorep",
        eyebrow=f"Measured and allowed: {first} and {second}",
        opening=_opening(result),
        sections=tuple(section for section in sections if section is not None),
        made_by=made_by(result.raw),
    )


def _opening(result: Node) -> tuple[Answer | Definitions, ...]:
    head, stop, rest = result["sentence"].text("This result holds no reading.").partition(": ")
    rest = rest[:1].upper() + rest[1:]
    violated = result["violated"].raw
    verdict = Answer(f"{head}." if stop else head, rest, None if violated is None else violated is not True)
    tie = result["bounds"]["with_mismatch"] if result["bounds"]["with_mismatch"] else result["bounds"]["equal_outputs"]
    best = _named(tie, tie["rms"].text())
    tiles = []
    for title, value, note in (
        ("RMS error, measured", fixed(result["in_sample"]["rms"].number()), "rigid, no scale, in sample"),
        ("RMS error, allowed", _value(best), "vacuous" if best["vacuous"].raw is True else "by the decoders"),
        ("stitching constant", compact(tie["constant"].number(), 3), "1 is an isometry"),
        ("outputs differ by", percent(result["mismatch"]["share"].number()), "of their spread, root mean square"),
    ):
        if value != MISSING:
            tiles.append((title, value, note))
    return (verdict, Definitions(tuple(tiles), tiles=True)) if tiles else (verdict,)


def _errors(result: Node) -> Section | None:
    parts: list[Part] = [
        Prose(
            (
                "The best rigid motion without a scale, as Theorem 1 has it, leaves the measured errors. What the rows "
                "alone certify about the best possible motion, and what the decoders allow, stand beside them, all in "
                "diameters of the second model's latents.",
                "Bounds from the decoders take the outputs to be equal, or allow for their mismatch, which then enters "
                "under the root; by chords they take the ratios of output to latent distances in the place of singular "
                "values. What the means of the extreme singular values would give bounds nothing: it shows what the "
                "largest values cost.",
            )
        )
    ]
    drawn = False
    for error in ("rms", "sup"):
        rows = _rows(result, error)
        if rows:
            drawn = True
            parts.append(_figure(error, rows))
    table = _table(result)
    if table is not None:
        parts.append(table)
    return Section("errors", "Measured and allowed", tuple(parts)) if drawn or table is not None else None


def _rows(result: Node, error: str) -> list[IntervalRow]:
    rows = []
    for key, title in (("held_out", "measured, held out"), ("in_sample", "measured, in sample")):
        value = _drawable(result[key][error])
        if value is not None:
            rows.append(
                IntervalRow(title, "s2", value, strong=True, labels=(fixed(value), "", ""), printed=fixed(value))
            )
    ends = [
        _drawable(result["certificate"][key])
        for key in (("lower", "upper") if error == "sup" else ("rms", "rms_upper"))
    ]
    if ends[0] is not None and ends[1] is not None and ends[0] <= ends[1]:
        said = f"{fixed(ends[0])} to {fixed(ends[1])}"
        label = "certified by the rows"
        rows.append(
            IntervalRow(label, "s3", interval=(ends[0], ends[1]), labels=(said, "", ""), printed=f"≤ {fixed(ends[1])}")
        )
    for source, title in SOURCES.items():
        tie = result["bounds"][source]
        best = _named(tie, tie[error].text())
        value = _drawable(best["value"])
        if value is None or source == "scaled":
            continue
        how = "vacuous" if best["vacuous"].raw is True else f"by {NAMES.get(best['name'].text(), 'a bound')}"
        said = f"{fixed(value)}, {how}"
        rows.append(
            IntervalRow(title, "s4" if source == "mean" else "s0", value, labels=(said, "", ""), printed=fixed(value))
        )
    chance = _drawable(
        _named(result["bounds"]["equal_outputs"], result["bounds"]["equal_outputs"][error].text())["chance"]
    )
    if chance is not None:
        rows.append(IntervalRow("chance", "s1", chance, labels=(fixed(chance), "", ""), printed=fixed(chance)))
    return rows


def _figure(error: str, rows: list[IntervalRow]) -> Figure:
    what = ERRORS[error]
    return Figure(
        f"{error}-figure",
        what.capitalize(),
        "Chance is what holds for any two clouds of these sizes: a bound that reaches it is vacuous.",
        "; ".join(f"{row.name}: {row.labels[0]}" for row in rows),
        Intervals(tuple(rows), f"{what}, diameters of the second"),
        legend=(Key("dot", "s2", "measured"), Key("whisker", "s3", "certified"), Key("dot", "s0", "bound")),
    )


def _table(result: Node) -> Table | None:
    rows = []
    for key, title in (
        ("held_out", "rigid, no scale, held out"),
        ("in_sample", "rigid, no scale, in sample"),
        ("scaled_held_out", "rigid with one scale, held out"),
        ("scaled_in_sample", "rigid with one scale, in sample"),
        ("linear", "linear, held out"),
    ):
        numbers = [result[key][error].number() for error in ("sup", "rms", "mean")]
        if any(number is not None for number in numbers):
            rows.append((Cell(title), *(Cell(fixed(number), number) for number in numbers)))
    null = result["null"]["mean"].number()
    if null is not None:
        rows.append(
            (Cell("rigid with one scale, shuffled rows"), Cell(MISSING), Cell(MISSING), Cell(fixed(null), null))
        )
    columns = (Column("error", numeric=False), Column("sup"), Column("rms"), Column("mean"))
    return Table("errors", "Measured errors, in diameters of the second", columns, tuple(rows)) if rows else None


def _bounds(result: Node) -> Section | None:
    answers = {
        (node["source"].text(), node["name"].text()): node["answer"].text() for node in result["findings"].nodes(MOST)
    }
    rows = []
    for source, title in SOURCES.items():
        for node in result["bounds"][source]["entries"].nodes(MOST):
            name = node["name"].text()
            if name.endswith("_trivial") and source != "equal_outputs":
                continue  # the same for all
            answer = answers.get((source, name)) or ("vacuous" if node["vacuous"].raw is True else MISSING)
            rows.append(
                (
                    Cell(title),
                    Cell(NAMES.get(name, name)),
                    Cell(node["error"].text()),
                    Cell(_value(node), node["value"].number()),
                    Cell(fixed(node["chance"].number()), node["chance"].number()),
                    Cell("no bound" if source == "mean" else answer, strong=answer == "violated"),
                    Cell(node["formula"].text()),
                )
            )
    if not rows:
        return None
    titles = ("from", "bound", "error", "at most", "chance", "answer", "formula")
    columns = tuple(Column(title, numeric=title in ("at most", "chance")) for title in titles)
    broken = [
        f"{SOURCES.get(node['source'].text(), 'a bound')}, {node['error'].text()}: {node['why'].text()}"
        for node in result["findings"].nodes(MOST)
        if node["answer"].text() == "violated"
    ]
    said = (Prose(tuple(f"Violated: {words}" for words in dict.fromkeys(broken))),) if broken else ()
    table = Table("bounds", "All bounds, in diameters of the second", columns, tuple(rows))
    return Section("bounds", "Bounds", (*said, table))


def _assumptions(result: Node) -> Section | None:
    rows = tuple(
        (
            Cell(node["text"].text()),
            Cell(node["status"].text(), strong=node["status"].text() == "violated"),
            Cell(node["evidence"].text()),
        )
        for node in result["assumptions"].nodes(MOST)
        if node["text"].text()
    )
    columns = tuple(Column(title, numeric=False) for title in ("assumption", "status", "evidence"))
    if not rows:
        return None
    return Section("assumptions", "Assumptions", (Table("assumptions", "What the bounds rest on", columns, rows),))


def _sides(result: Node) -> Section | None:
    keys = {
        "rows": "rows",
        "latents": "latents",
        "outputs": "outputs",
        "constant": "constant 1 + L, largest of the sample",
        "mean_constant": "mean of the local constants",
        "similarity_constant": "constant up to scale",
        "largest": "largest singular value",
        "smallest": "smallest singular value",
        "chord_largest": "longest chord over latent distance",
        "chord_smallest": "shortest chord over latent distance",
        "diameter": "diameter of the latents",
    }
    rows = []
    for key, title in keys.items():
        cells = []
        for side in ("first", "second"):
            number = result[side][key].number()
            lost = key in ("constant", "mean_constant", "similarity_constant") and result[side]["infinite"].raw is True
            shown = count(number) if key in ("rows", "latents", "outputs") else compact(number)
            cells.append(Cell("infinite" if lost and number is None else shown, number))
        if any(cell.text != MISSING for cell in cells):
            rows.append((Cell(title), *cells))
    names = [result[side]["name"].text(side) for side in ("first", "second")]
    columns = (Column("quantity", numeric=False), *(Column(name) for name in names))
    return Section("decoders", "The decoders", (Table("sides", "Both sides", columns, tuple(rows)),)) if rows else None


def _ica(result: Node) -> Section | None:
    ica = result["ica"]
    said = ica["sentence"].text()
    if not said:
        return None
    rows = []
    names = [result[side]["name"].text(side) for side in ("first", "second")]
    for name, node in zip(names, ica["sides"].nodes(2), strict=False):
        weakest = ", ".join(
            f"{i:.0f} and {j:.0f} ({compact(h, 3)})"
            for i, j, h in (each.numbers(3) for each in node["weakest"].nodes(5) if len(each.numbers(3)) == 3)
            if i is not None and j is not None
        )
        numbers = [node[key].number() for key in ("components", "gamma", "weak", "planes", "gaussian")]
        cells = [Cell(compact(number, 3), number) for number in numbers]
        rows.append((Cell(name), *cells, Cell(weakest)))
    parts: list[Part] = [
        Prose(
            (
                said,
                "The constants of Theorem 2 are correct and huge but for toy data: read them as a diagnosis. The least "
                "curvature of the contrast, gamma, tells how firmly ICA holds the components; weak planes may turn.",
            )
        )
    ]
    if rows:
        titles = ("model", "components", "gamma", "weak planes", "of", "near-Gaussian", "weakest planes (curvature)")
        columns = tuple(Column(title, numeric=place not in (0, 6)) for place, title in enumerate(titles))
        parts.append(Table("ica", "ICA of the latents", columns, tuple(rows)))
    found = ica["theorem2"]
    keys = {"whitening": "K_w", "kappa": "κ", "radius": "B", "linear": "K", "quadratic": "K'", "error": "ε before"}
    items = tuple(
        (title, compact(found[key].number()), "") for key, title in keys.items() if found[key].number() is not None
    )
    if items:
        parts.append(Definitions(items))
    return Section("ica", "After ICA", tuple(parts))


def _named(tie: Node, name: str) -> Node:
    return next((node for node in tie["entries"].nodes(MOST) if name and node["name"].text() == name), Node(None))


def _value(node: Node) -> str:
    value = node["value"].number()
    if node["infinite"].raw is True:
        return "infinite"
    return fixed(value) if value is None or value < DRAWN else compact(value)


def _drawable(node: Node) -> float | None:
    value = node.number()
    return value if value is not None and 0 <= value <= DRAWN else None
