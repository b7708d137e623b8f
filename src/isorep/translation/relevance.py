"""Relevance judgements: nDCG and recall of the user's own queries, by TREC qrels or lines of query and document."""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..representation import Array, Matrix, Representation
from ..rows import block_rows, map_rows, read_rows, select
from ..storage import loaded
from .maps import FittedMap

Judgements = dict[str, dict[str, float]]
"""For each query the grade of each document."""

_LONGEST_LINE = 2**16
_DEPTH = 10
_HIGHEST = 100  # grade: its gain is 2 to this power
_TILE = 2**23  # scores at a time


@dataclass(frozen=True)
class Judged:
    """nDCG and recall at 10 of queries in one scenario; ``native`` are new queries in new vectors."""

    ndcg: float
    recall: float
    native_ndcg: float
    native_recall: float
    untranslated_ndcg: float
    untranslated_recall: float


@dataclass(frozen=True)
class Relevance:
    """Retrieval by the user's own queries and judgements, at 10.

    Documents are those of the test fold, which the map was not fitted to. ``unknown`` judgements name documents that
    are not among the pairs, or queries without a vector.
    """

    queries: int
    documents: int
    judged: int
    unknown: int
    scenarios: dict[str, Judged]


def read_relevance(path: str | Path) -> Judgements:
    """Judgements of a text file, a line each.

    ``query 0 document grade`` (TREC qrels), ``query document grade`` or ``query document``, separated by tabs, spaces
    or commas; the grade is 1 where there is none. Grades of 0 and below are not relevant. Lines that begin with ``#``
    are comments. A first line of known titles, such as ``query-id corpus-id score``, is a header.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path} does not exist")
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    judgements: Judgements = {}
    first = True
    try:
        with opener(path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if len(line) > _LONGEST_LINE:
                    raise InputError(f"{path.name}: line {number} is longer than {_LONGEST_LINE} characters")
                if line.strip() and not line.startswith("#"):
                    cells = _cells(line.strip(), f"{path.name}: line {number}")
                    if not (first and all(_title(cell) in _TITLES for cell in cells)):
                        _add(judgements, cells, f"{path.name}: line {number}", line)
                    first = False
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path.name} is not text of relevance judgements: {error}") from error
    if not any(grade > 0 for documents in judgements.values() for grade in documents.values()):
        raise InputError(f"{path.name} judges no document relevant")
    return judgements


def given_judgements(given: Mapping[Any, Any]) -> Judgements:
    """Judgements of a dict; ids of queries and documents are compared as text, so numbers will do."""
    judgements: Judgements = {}
    for query, documents in given.items():
        if not isinstance(documents, Mapping):
            raise InputError(f"relevance has no dict of documents and grades for the query {str(query)[:40]!r}")
        for document, grade in documents.items():
            where = f"relevance of the query {str(query)[:40]!r}"
            judgements.setdefault(str(query), {})[str(document)] = _grade(grade, where)
    return judgements


def _cells(line: str, where: str) -> list[str]:
    """The columns of a line: tabs separate, if there are any; otherwise spaces or commas, as the line can be read.

    Ids may hold commas where spaces separate, as in TREC qrels, and spaces where commas do.
    """
    if "\t" in line:
        return [cell.strip() for cell in line.split("\t")]
    spaced, by_comma = line.split(), [cell.strip() for cell in line.split(",")]
    if len(by_comma) == 1 or (len(spaced) == 4 and _is_number(spaced[3]) and _is_iteration(spaced[1])):
        return spaced
    if len(by_comma) in (3, 4) and _is_number(by_comma[-1]):
        return by_comma
    graded = len(spaced) == 3 and _is_number(spaced[2])
    if len(by_comma) == 2 and any(" " in cell for cell in by_comma) and (graded or len(spaced) == 2):
        raise InputError(f"{where} can be read with spaces or with commas between columns: use tabs")
    return spaced if graded else by_comma


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _is_iteration(cell: str) -> bool:
    return _is_number(cell) or cell.upper() == "Q0"


def _add(judgements: Judgements, cells: list[str], where: str, line: str) -> None:
    if len(cells) == 2:
        cells = [*cells, "1"]
    elif len(cells) == 4 and _is_iteration(cells[1]):
        cells = [cells[0], *cells[2:]]
    if len(cells) != 3 or not all(cells[:2]):
        raise InputError(f"{where} is not a query, a document and a grade: {line.strip()[:60]!r}")
    judgements.setdefault(cells[0], {})[cells[1]] = _grade(cells[2], where)


def _grade(given: Any, where: str) -> float:
    try:
        grade = float(given)
    except (TypeError, ValueError):
        grade = math.nan
    if not math.isfinite(grade):
        raise InputError(f"{where} has the grade {str(given)[:40]!r}, which is no number")
    if grade > _HIGHEST:
        raise InputError(f"{where} has the grade {str(given)[:40]}, and grades go up to {_HIGHEST}")
    return grade


def _title(cell: str) -> str:
    return cell.strip("\"'").lower().replace("-", "_").replace(" ", "_")


_TITLES = {
    "query",
    "query_id",
    "queryid",
    "qid",
    "topic",
    "topic_id",
    "iter",
    "iteration",
    "q0",
    "document",
    "document_id",
    "documentid",
    "doc",
    "doc_id",
    "docid",
    "docno",
    "passage_id",
    "pid",
    "corpus_id",
    "id",
    "grade",
    "label",
    "rel",
    "relevance",
    "relevancy",
    "relevance_grade",
    "relevance_score",
    "relevance_label",
    "rating",
    "score",
    "judgement",
    "judgment",
}


def open_queries(given: Any, width: int, role: str) -> Representation:
    """Query vectors with ids."""
    queries = loaded(given, role)
    if queries.ids is None:
        raise InputError(f"{queries.name} has no ids, which relevance judgements refer to")
    if queries.shape[1] != width:
        raise InputError(
            f"{queries.name} has {queries.shape[1]} columns, and the vectors it should search have {width}"
        )
    return queries


def measure_relevance(
    x: Matrix,
    y: Matrix,
    ids: Array,
    test: Array,
    judgements: Judgements,
    queries: Representation,
    old_queries: Representation | None,
    best: Mapping[str, FittedMap],
    metric: str,
) -> Relevance:
    """Normalised DCG and recall at 10 in each scenario that the queries allow; ``best`` is the map of each scenario."""
    place = {str(label): row for row, label in enumerate(ids.tolist())}
    asked = {str(label): row for row, label in enumerate((queries.ids if queries.ids is not None else ids).tolist())}
    older = None if old_queries is None or old_queries.ids is None else {
        str(label): row for row, label in enumerate(old_queries.ids.tolist())
    }  # fmt: skip
    held_at = np.full(len(ids), -1)
    held_at[test] = np.arange(len(test))
    x, y = select(x, test), select(y, test)
    rows, graded, unknown, judged = [], [], 0, 0
    for query, documents in judgements.items():
        known = {place[document]: grade for document, grade in documents.items() if document in place}
        there = query in asked and (older is None or query in older)
        unknown += len(documents) - len(known) if there else len(documents)
        if not there:
            continue
        held = {int(held_at[row]): grade for row, grade in known.items() if grade > 0 and held_at[row] >= 0}
        if held:
            judged += len(held)
            rows.append(query)
            graded.append(held)
    if not rows:
        raise InputError(
            "no judged query has a vector and a relevant document in the test fold: ids of queries and documents must "
            "be those of the files, and there must be enough judgements"
        )
    native = read_rows(queries.values, np.array([asked[query] for query in rows])).astype(np.float64)
    before = None
    if old_queries is not None and older is not None:
        before = read_rows(old_queries.values, np.array([older[query] for query in rows])).astype(np.float64)
    width = y.shape[1]

    def rank(vectors: Array, side: Matrix, fitted: FittedMap | None) -> tuple[float, float]:
        return _scores(vectors, _items(side, fitted, width), graded, metric)

    ceiling = rank(native, y, None)
    scenarios = {"store": Judged(*rank(native, x, best["store"]), *ceiling, *rank(native, x, None))}
    if before is not None:
        raw = _cut(before, width)
        scenarios["queries"] = Judged(*rank(best["queries"].apply(before), y, None), *ceiling, *rank(raw, y, None))
    return Relevance(len(rows), len(test), judged, unknown, scenarios)


def _cut(rows: Array, width: int) -> Array:
    return np.pad(rows, ((0, 0), (0, max(width - rows.shape[1], 0))))[:, :width]


def _items(side: Matrix, fitted: FittedMap | None, width: int) -> Array:
    """All documents in float32: translated, or as they are in the new width."""

    def ready(start: int, block: Array) -> Array:
        rows = block.astype(np.float64)
        return np.asarray(_cut(rows, width) if fitted is None else fitted.apply(rows), np.float32)

    return np.concatenate(map_rows(ready, [side], block_rows(width, side.shape[1], cells=2**20)))


def _scores(vectors: Array, items: Array, graded: list[dict[int, float]], metric: str) -> tuple[float, float]:
    """The mean nDCG and recall at 10."""
    vectors = vectors.astype(np.float32)
    offset = np.zeros(len(items), np.float32)
    if metric == "cosine":
        vectors, items = (rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-30)[:, None] for rows in (vectors, items))
    elif metric == "euclidean":
        offset = np.einsum("ij,ij->i", items, items) / 2
    gains, recalls = [], []
    discounts = 1 / np.log2(np.arange(2, _DEPTH + 2))
    size = max(1, _TILE // len(items))
    for start in range(0, len(vectors), size):
        scores = vectors[start : start + size] @ items.T - offset
        for place, row in enumerate(scores, start=start):
            near = np.argpartition(-row, min(_DEPTH, len(row)) - 1)[:_DEPTH]
            near = near[np.argsort(-row[near], kind="stable")]
            grades = graded[place]
            gain = np.array([2 ** grades.get(int(item), 0.0) - 1 for item in near])
            ideal = np.sort([2**grade - 1 for grade in grades.values()])[::-1][:_DEPTH]
            gains.append(float(gain @ discounts[: len(gain)]) / float(ideal @ discounts[: len(ideal)]))
            recalls.append(sum(int(item) in grades for item in near) / min(len(grades), _DEPTH))
    return float(np.mean(gains)), float(np.mean(recalls))
