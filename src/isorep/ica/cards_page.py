"""The grid of component cards on a page, and what cards add to the table of all components."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..report import document
from ..report.document import CardGrid, Cell, Column, Notes, Part, Prose, Table
from ..report.figures import Picture
from ..report.read import MISSING, compact, count, fixed, percent
from ..results import cut, cut_inside
from .associations import Extreme
from .cards import Card, Cards

MOST_LETTERS = 300_000  # of all cards together; with its marks HTML has about twice as many
MOST_CELLS = 3000  # of R² in the table of all components
MOST_ORDERS, MOST_TERMS, MOST_FINDINGS, MOST_GROUPS, MOST_BARS, MOST_ROWS = 8, 4, 6, 2, 6, 60
LEAST = 0.005  # R² or spread that a card shows
LONGEST = 60
COLUMNS = ("column", "end", "most over-represented, or medians", "p, corrected")


def card_parts(
    cards: Cards,
    *,
    first: Sequence[str] = (),
    badges: Callable[[Card], Sequence[str]] = lambda card: (),
    strips: Mapping[int, Picture] | None = None,
    contrast: Sequence[float] = (),
) -> tuple[Part, ...]:
    """The cards in a grid, with how to read them.

    Parameters
    ----------
    cards : Cards
        Of all components.
    first : sequence of str
        Columns that come first, such as label and batch.
    badges : callable
        Words on a card besides its own.
    strips : mapping of int to Picture, optional
        Pictures by the number of the component.
    contrast : sequence of float
        Distance from Gaussian, to sort by.
    """
    columns = _ordered(cards, first)
    orders = ["finding"] if cards.columns else []
    orders += [f"R² with {cut(name, LONGEST)}" for name in columns[:MOST_ORDERS]]
    orders += [f"spread with {cut(name, LONGEST)}" for name in columns[: MOST_ORDERS // 2]]
    orders += ["stability"] if any(card.score is not None for card in cards) else []
    orders += ["distance from Gaussian"] if len(contrast) else []
    orders += ["kurtosis", "skewness"]
    faces: dict[int, document.Card] = {}
    room = MOST_LETTERS
    # Cards with something to say come first where there is no room for all.
    for card in sorted(cards, key=lambda card: (not card.findings, card.number)):
        face = _face(card, cards, columns, badges(card), (strips or {}).get(card.number), contrast, first)
        room -= _letters(face)
        if room < 0 and faces:
            break
        faces[card.number] = face
    chosen = tuple(faces[card.number] for card in cards if card.number in faces)
    part = f"{count(len(chosen))} of {count(len(cards))} components" if len(chosen) < len(cards) else "Every component"
    grid = CardGrid("cards", _title(cards, part), "components", tuple(orders), COLUMNS, chosen, LOADINGS)
    notes = (Notes(cards.notes),) if cards.notes else ()
    return (Prose((_read(cards),)), grid, *notes)


def with_cards(table: Table, cards: Cards | None, first: Sequence[str] = (), skip: Sequence[str] = ()) -> Table:
    """A table of all components with the strongest loading of each, R² and spread of columns, and the first finding.

    Columns in ``skip`` are in the table already.
    """
    if cards is None:
        return table
    most = max(1, min(MOST_ORDERS, MOST_CELLS // max(len(cards), 1)))
    shown = [name for name in _ordered(cards, first) if name not in skip][:most]
    loaded, read = cards.loadings is not None, bool(cards.columns)
    heads = [Column("strongest loading", numeric=False), Column("r")] if loaded else []
    heads += [Column(f"{cut(name, LONGEST)} {kind}") for name in shown for kind in ("R²", "spread")]
    heads += [Column("finding", numeric=False)] if read else []
    rows = []
    for row, card in zip(table.rows, cards, strict=True):
        known, best = {each.column: each for each in card.associations}, card.loadings[:1]
        cells = [Cell(cut_inside(each.feature, LONGEST)) for each in best] or [Cell(MISSING)]
        cells += [_number(each.r) for each in best] or [Cell(MISSING)]
        cells = cells if loaded else []
        cells += [_number(value) for name in shown for value in (known[name].r2, known[name].spread_r2)]
        cells += [Cell(card.findings[0] if card.findings else MISSING)] if read else []
        rows.append((*row, *cells))
    return replace(table, columns=(*table.columns, *heads), rows=tuple(rows))


def _ordered(cards: Cards, first: Sequence[str]) -> list[str]:
    """Columns that come first, then the others by the largest R² of a component."""
    reach = dict.fromkeys(cards.columns, 0.0)
    for card in cards:
        for each in card.associations:
            reach[each.column] = max(reach[each.column], each.r2)
    front = [name for name in first if name in reach]
    return [*front, *(name for name in sorted(reach, key=lambda name: -reach[name]) if name not in front)]


LOADINGS = "Correlation with features, strongest first"


def _read(cards: Cards) -> str:
    """How to read a card."""
    said = []
    if cards.loadings is not None:
        said.append("Bars are correlations of the component with features over the rows.")
        if cards.chance is not None and cards.random is not None:
            said.append(
                f"A variable unrelated to all {count(cards.features)} features stays below {fixed(cards.chance, 2)} in "
                f"95% of cases, a random direction in the span of the components below {fixed(cards.random, 2)}."
            )
    if any(card.groups for card in cards):
        said.append("Groups are shares of squared correlations, with the share of features in brackets.")
    if cards.columns:
        said.append(
            f"The {count(cards.ends)} highest and lowest rows are read against {count(len(cards.columns))} columns. "
            f"Sentences are findings that survive correction for {count(cards.tests)} tests: if no column had to do "
            "with the rows, any would be said with probability 5% at most. R² is the share of the component's variance "
            "between labels, less chance; spread is the same for the distance from each label's median."
        )
    else:
        said.append("No column describes the rows, so extreme rows could not be read against any.")
    return " ".join(said)


def _title(cards: Cards, part: str) -> str:
    found = sum(bool(card.findings) for card in cards)
    return f"{part}; {count(found)} with a finding about extreme rows" if cards.columns else part


def _face(
    card: Card,
    cards: Cards,
    columns: Sequence[str],
    badges: Sequence[str],
    strip: Picture | None,
    contrast: Sequence[float],
    always: Sequence[str],
) -> document.Card:
    known = {each.column: each for each in card.associations}
    reproducible = {True: "reproducible", False: "not reproducible", None: ""}[card.comes_back]
    own = (reproducible, "near-Gaussian" if card.gaussian else "")
    bins = card.bins
    beyond = [f"{count(rows)} {side}" for rows, side in ((bins.below, "below"), (bins.above, "above")) if rows]
    outside = f"; rows beyond: {', '.join(beyond)}" if beyond else ""
    terms = [
        (f"{cut(name, LONGEST)}: R², spread", f"{fixed(known[name].r2, 3)}, {fixed(known[name].spread_r2, 3)}")
        for name in _shown_columns(card, columns, always)
    ]
    terms += [(kind, _groups(card, kind)) for kind in card.groups]
    terms += [("stability", fixed(card.score, 3))] if card.score is not None else []
    terms += [("skewness, kurtosis", f"{fixed(card.skewness, 2)}, {fixed(card.kurtosis, 2)}")]
    keys: list[float | None] = [-min((each.corrected for each in card.extremes), default=1.0)] if cards.columns else []
    keys += [known[name].r2 for name in columns[:MOST_ORDERS]]
    keys += [known[name].spread_r2 for name in columns[: MOST_ORDERS // 2]]
    keys += [card.score] if any(each.score is not None for each in cards) else []
    keys += [abs(float(contrast[card.number]))] if len(contrast) else []
    keys += [card.kurtosis, card.skewness]
    more = len(card.findings) - MOST_FINDINGS
    findings = (*card.findings[:MOST_FINDINGS], *((f"{count(more)} more among the details",) if more > 0 else ()))
    return document.Card(
        title=card.name,
        badges=tuple(word for word in (*badges, *own) if word),
        findings=findings,
        counts=bins.counts,
        span=f"from {compact(bins.low, 3)} to {compact(bins.high, 3)}{outside}",
        bars=tuple(
            document.Bar(cut_inside(each.feature, 2 * LONGEST), each.r, _signed(each.r))
            for each in card.loadings[:MOST_BARS]
        ),
        terms=tuple(terms),
        rows=_details(card),
        keys=tuple(keys),
        strip=strip,
    )


def _shown_columns(card: Card, columns: Sequence[str], always: Sequence[str]) -> list[str]:
    """The columns that are always shown, and a few others with the largest R² or spread."""
    size = {each.column: max(each.r2, each.spread_r2) for each in card.associations}
    largest = sorted(columns, key=lambda name: -size[name])[:MOST_TERMS]
    return [name for name in columns if name in always or (name in largest and size[name] >= LEAST)]


def _groups(card: Card, kind: str) -> str:
    return ", ".join(
        f"{cut(group.name, 30)} {percent(group.share)} ({percent(group.of_features)})"
        for group in card.groups[kind][:MOST_GROUPS]
    )


def _details(card: Card) -> tuple[tuple[str, ...], ...]:
    """Every column at both ends, the smallest p-value first, then the outermost rows and the other loadings."""
    order = sorted(card.extremes, key=lambda each: each.p)[:MOST_ROWS]
    rows = [(cut(each.column, LONGEST), each.end, _told(each), compact(each.corrected, 2)) for each in order]
    for end, examples in (("highest", card.highest), ("lowest", card.lowest)):
        if examples:
            named = ", ".join(cut(str(each.row if each.id is None else each.id), LONGEST) for each in examples)
            rows.append(("rows", end, named, ""))
    rest = (f"{cut_inside(each.feature, LONGEST)} {_signed(each.r)}" for each in card.loadings[MOST_BARS:])
    return (*rows, *(("loading", "", text, "") for text in rest))


def _signed(r: float) -> str:
    return f"{r:+.2f}".replace("-", "−")


def _told(each: Extreme) -> str:
    if each.value is not None:
        return f"{cut(each.value, LONGEST)}: {each.count} of {each.rows} ({percent(each.share, 1)} of all)"
    return f"{compact(each.median)}, of all rows {compact(each.median_of_all)}"


def _letters(face: document.Card) -> int:
    texts = [face.title, face.span, *face.badges, *face.findings, *(text for term in face.terms for text in term)]
    texts += [text for row in face.rows for text in row]
    bars = sum(len(bar.name) + 40 for bar in face.bars)
    return 400 + sum(len(text) + 12 for text in texts) + bars + (len(face.strip.png) if face.strip else 0)


def _number(value: float) -> Cell:
    return Cell(fixed(value, 3), value)
