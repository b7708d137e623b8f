"""Inputs of a deconfounding: an embedding with label, batches and guides of its rows, and the settings.

* Tasks: perturbed rows against controls, all together or one perturbation and one guide at a time.
* Splits: a batch is never split between training and test, and perturbed rows are spread over the folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array, Matrix, Representation, as_representation, reading_notes
from ..rows import refuse_non_finite
from ..storage import labels as stored_labels
from ..storage import loaded, read
from ..storage.hdf5 import HDF5Tree
from ..storage.naming import FLAG, NUMBER, TEXT, Tally, choose_columns, not_a_number
from ..storage.registry import guarded, split_key

_TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
_DOUBLE_CELLS = 2**25  # float64 values beyond this are held as float32: 200,000 x 384 would take 600 MB
MISSING = ("nan", "<NA>", "NaT", "None")


@dataclass(frozen=True, eq=False)
class Column:
    """Text labels of rows: ``codes`` count into ``names``, and -1 stands for a missing one."""

    title: str
    codes: Array
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of different labels."""
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Values in memory and the columns that describe their rows; the first batch column is the one held out."""

    values: Array
    ids: Array | None
    name: str
    notes: tuple[str, ...]  # columns left out or converted in reading
    place: str | None  # the obsm entry of an AnnData object, or X
    label: Column
    batches: tuple[Column, ...]
    guides: Column | None
    left_out: tuple[str, ...] = ()  # columns that are no features
    also: Column | None = None  # held out together with the batches
    others: tuple[Column, ...] = ()  # what else is known of the rows

    @property
    def batch(self) -> Column:
        """The batches that are held out."""
        return self.batches[0]


@dataclass(frozen=True, eq=False)
class Request:
    """The settings of a deconfounding, checked; ``elsewhere`` holds other rows to fit on, where ``fit_on`` is other."""

    each: bool
    names: list[str]
    transformers: Mapping[str, Any]
    fit_on: str
    elsewhere: Array | None
    n_components: int | str
    split: str
    folds: int
    unit: str
    n_seeds: int
    n_rotations: int
    classifiers: tuple[str, ...]
    top: tuple[float, ...]
    batch_limit: float
    n_restarts: int
    n_examples: int
    random_state: int


def open_inputs(embedding: Any, label: Any, batch: Any, guides: Any, key: str | None) -> Inputs:
    """Read and check everything that describes the rows."""
    named = [each for each in (label, *_several(batch).values(), guides) if isinstance(each, str)]
    data, place = _representation(embedding, key, named)
    n = len(data)
    label_column = _column(embedding, label, "label", n)
    batch_columns = tuple(_column(embedding, each, name, n) for name, each in _several(batch).items())
    guide_column = None if guides is None else _column(embedding, guides, "guides", n, missing=True)
    values = _in_memory(data.values)
    notes = reading_notes(data)
    if isinstance(embedding, str | Path) and str(embedding).partition("::")[0].lower().endswith(_TABLES):
        repeats = _repeats(values, [stored_labels(name, embedding) for name in named])
        if repeats.any():
            notes.append(f"left out of {data.name}: {int(repeats.sum())} columns that repeat label or batch")
            values = values[:, ~repeats]
    refuse_non_finite(values, data.name or "the embedding")
    name = data.name or "embedding"
    described = (label_column, batch_columns, guide_column)
    return Inputs(values, data.ids, name, tuple(notes), place, *described, left_out=tuple(data.left_out))


def open_column(embedding: Any, given: Any, title: str, n: int) -> Column:
    """A further column of the rows, in which labels may be missing."""
    return _column(embedding, given, title, n, missing=True)


def open_rows(rows: Any, columns: int) -> Array:
    """Other rows to fit transforms on."""
    data = loaded(rows, "fit_on")
    if data.shape[1] != columns:
        raise InputError(f"fit_on has {data.shape[1]} columns and the embedding has {columns}")
    values = _in_memory(data.values)
    refuse_non_finite(values, data.name or "fit_on")
    return values


def as_label(value: Any) -> str:
    """A label as text: 1.0 and 1 are the same, also where a file stores them as text."""
    text = str(value)
    return text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdigit() else text


def is_annotated(data: Any) -> bool:
    """Whether something is an AnnData object, without importing anndata."""
    return all(hasattr(data, part) for part in ("obs", "obsm", "obs_names", "uns"))


def embedding_of(data: Any, key: str | None) -> tuple[Any, str]:
    """An entry of obsm, or X, by the rule of :func:`isorep.read`: by default the only entry there is, otherwise X."""
    entries = list(data.obsm.keys())
    place = (key or (entries[0] if len(entries) == 1 else "X")).removeprefix("obsm/")
    if place != "X" and place not in entries:
        raise InputError(f"there is no {place!r} in obsm; it has {', '.join(entries[:12]) or 'no entries'}")
    values = data.X if place == "X" else data.obsm[place]
    if values is None or hasattr(values, "toarray") or "Sparse" in type(values).__name__:
        what, shown = "empty" if values is None else "sparse", ", ".join(entries[:12]) or "none"
        raise InputError(f"{place} is {what}: name an entry of obsm with key=; it has {shown}")
    return values.to_numpy() if hasattr(values, "to_numpy") else values, place


def _representation(embedding: Any, key: str | None, named: Sequence[str]) -> tuple[Representation, str | None]:
    if isinstance(embedding, str | Path):
        path, named_key = split_key(embedding, key)
        place = _stored_place(path, named_key) if path.suffix.lower() == ".h5ad" and path.is_file() else None
        return read(path, key=named_key, besides=named), place
    if is_annotated(embedding):
        values, place = embedding_of(embedding, key)
        others = [] if key else [name for name in ("X", *embedding.obsm.keys()) if name != place]
        left_out = {name: "another embedding" for name in others if name != "X" or embedding.X is not None}
        names = np.asarray(embedding.obs_names).astype(str)
        return Representation(values, ids=names, name=place, left_out=left_out), place
    if hasattr(embedding, "columns") and hasattr(embedding, "select_dtypes"):
        return _frame(embedding, key, named), None
    return as_representation(embedding, "embedding"), None


def _frame(frame: Any, key: str | None, named: Sequence[str]) -> Representation:
    """The columns of a data frame that are features, by the rule of :func:`isorep.read` for tables."""
    names = [str(name) for name in frame.columns]
    repeated = [name for index, name in enumerate(names) if name in names[:index]]
    if repeated:
        raise InputError(f"two columns of the data frame are called {repeated[0]!r}")
    kinds = {name: _frame_kind(frame.iloc[:, index]) for index, name in enumerate(names)}
    choice = choose_columns(kinds, key, named)
    for index, name in enumerate(names):
        if name in choice.doubtful or (name in choice.columns and kinds[name] == TEXT):
            tally = Tally(name)
            for row, cell in enumerate(frame.iloc[:, index]):
                tally.add(str(cell), row)
            tally.kind(typed=True)
            if name in choice.columns:
                raise InputError(not_a_number(name, *(tally.first or (0, str(frame.iloc[0, index])))))
    choice.require()
    features = frame.iloc[:, [index for index, name in enumerate(names) if name in choice.columns]].astype(float)
    flags = {name: "true and false to 1 and 0" for name in choice.columns if kinds[name] == FLAG}
    return replace(as_representation(features, "embedding"), left_out=choice.left_out, converted=flags)


def _frame_kind(column: Any) -> str:
    """The kind of a data frame's column: numbers, flags, text, or its type in a word."""
    dtype = getattr(getattr(column.dtype, "categories", None), "dtype", column.dtype)
    kind = getattr(dtype, "kind", "O")
    if kind == "O" and all(isinstance(cell, Number) for cell in column.dropna()):
        return NUMBER  # decimals and other numbers that are Python objects
    return {"f": NUMBER, "i": NUMBER, "u": NUMBER, "b": FLAG, "M": "timestamp", "m": "duration"}.get(kind, TEXT)


def _stored_place(path: Path, key: str | None) -> str:
    """The part of a file that :func:`isorep.read` takes, by name: components in the file would change the default."""
    if key is not None:
        return key.removeprefix("obsm/")
    entries: list[str] = guarded(path, lambda: HDF5Tree(path).names("obsm"))
    return entries[0] if len(entries) == 1 else "X"


def _several(batch: Any) -> dict[str, Any]:
    """Batch columns by name; the first is held out."""
    names = [batch] if isinstance(batch, str) else batch
    if isinstance(batch, Mapping):
        if not batch:
            raise InputError("batch is empty: name at least one column of batches")
        return {str(name): column for name, column in batch.items()}
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        return {name: name for name in names}
    return {"batch": batch}


def _column(source: Any, given: Any, title: str, n: int, *, missing: bool = False) -> Column:
    """A column of the source by its name, or labels as they are given."""
    if isinstance(given, str):
        title = given
        if isinstance(source, str | Path):
            given = stored_labels(given, source)
        elif is_annotated(source) or hasattr(source, "columns"):
            frame = source.obs if is_annotated(source) else source
            if given not in frame.columns:
                shown = ", ".join(map(str, list(frame.columns)[:12])) or "none"
                where = "obs" if is_annotated(source) else "the data frame"
                raise InputError(f"there is no column {given!r} in {where}; there are {shown}")
            given = frame[given]
        else:
            raise InputError(f"{given!r} names a column, and the embedding is an array: pass the labels themselves")
    labels = np.asarray(given, dtype=object)
    if labels.ndim != 1 or len(labels) != n:
        raise InputError(f"{title} has shape {labels.shape} where one label per row is needed: ({n},)")
    texts = np.array([as_label(label) for label in labels.tolist()], dtype=str)
    absent = np.isin(texts, MISSING)
    if absent.any() and not missing:
        count, first = int(absent.sum()), int(np.argmax(absent))
        raise InputError(f"{title} is missing for {count} rows, the first at row {first}: leave those rows out first")
    codes = np.full(n, -1)
    names, codes[~absent] = np.unique(texts[~absent], return_inverse=True)
    return Column(title, codes, tuple(names.tolist()))


def _in_memory(values: Matrix) -> Array:
    rows = np.asarray(values[:])
    if (rows.dtype.itemsize > 4 and rows.size > _DOUBLE_CELLS) or rows.dtype.itemsize < 4:
        rows = rows.astype(np.float32)
    return rows


def _repeats(values: Array, columns: list[Array]) -> Array:
    """Which columns are the labels themselves: a table may also hold them as numbers."""
    repeats = np.zeros(values.shape[1], dtype=bool)
    for labels in columns:
        try:
            repeats |= (values == labels.astype(np.float64)[:, None]).all(axis=0)
        except ValueError:
            continue  # these labels are words
    if repeats.all():
        raise InputError("the table holds no column of numbers besides label and batch")
    return repeats


SPLITS = ("auto", "leave_one_out", "folds", "train_on_one")
UNITS = ("batch", "fold")
_LEFT_OUT_SINGLY = 20  # batches at most; more are held out in folds
_FOLDS = 10
_FOLDS_BESIDE = 5  # of the second column that is held out


@dataclass(frozen=True, eq=False)
class Split:
    """The rows that train and those that test, as masks, and the batches that test.

    ``beside`` are the values of a second column that are held out too.
    """

    number: int
    train: Array
    test: Array
    held_out: tuple[str, ...]
    beside: tuple[str, ...] = ()


def resolved_split(batch: Column, tasks: list[Task], split: str, folds: int | None) -> tuple[str, int]:
    """The kind of split and its number of folds.

    By default batches are held out one at a time, if there are at most 20 and each that holds perturbed rows holds
    controls; otherwise in ten folds, or as many as keep both classes in every fold.
    """
    if folds is not None and split in ("leave_one_out", "train_on_one"):
        raise InputError(
            f"folds is {folds} and split is {split!r}, which has as many folds as batches: give one of them"
        )
    if split in ("leave_one_out", "train_on_one"):
        return split, batch.count
    if folds is not None:
        if batch.count < folds:
            told = f"{batch.title} has {batch.count} values and there are {folds} folds"
            raise InputError(f"{told}: a batch is never split, so lower folds")
        return "folds", folds
    holding = np.zeros((2, batch.count), dtype=bool)
    for task in tasks:
        for kind, rows in enumerate((task.positives, task.controls)):
            holding[kind, batch.codes[rows]] = True
    perturbed, controls = holding
    if split == "auto" and batch.count <= _LEFT_OUT_SINGLY and controls[perturbed].all():
        return "leave_one_out", batch.count
    return "folds", max(2, min(_FOLDS, int(perturbed.sum()), int(controls.sum())))


def make_splits(
    batch: Column, tasks: list[Task], split: str, folds: int, rng: np.random.Generator, also: Column | None = None
) -> list[Split]:
    """All splits of one seed; with a second column every fold of batches is crossed with every fold of its values."""
    fold_of = stratified_folds(batch, tasks, folds, rng) if split == "folds" else np.arange(batch.count)
    splits: list[Split] = []
    for number in range(folds):
        held_out = fold_of != number if split == "train_on_one" else fold_of == number
        test = held_out[batch.codes]
        names = tuple(np.array(batch.names)[held_out].tolist())
        for train, tested, beside in _beside(test, tasks, also, rng) if also else [(~test, test, ())]:
            splits.append(Split(len(splits), train, tested, names, beside))
    return splits


def _beside(
    test: Array, tasks: list[Task], also: Column, rng: np.random.Generator
) -> list[tuple[Array, Array, tuple[str, ...]]]:
    """Training rows, test rows and held-out values: test rows have a batch and a value that no training row has.

    Controls that all have one value, or none, are divided by batch alone.
    """
    controls = tasks[0].controls
    exempt = np.zeros(len(test), dtype=bool)
    if shared_by_controls(also, tasks):
        exempt[controls] = True
    rows = np.unique(np.concatenate([*(task.positives for task in tasks), controls]))
    rows = rows[~exempt[rows]]
    present, codes = np.unique(also.codes[rows], return_inverse=True)
    column = Column(also.title, codes, tuple(also.names[code] for code in present))
    place = np.full(len(test), -1)
    place[rows] = np.arange(len(rows))
    inner = [
        replace(task, positives=place[task.positives], controls=place[task.controls[~exempt[task.controls]]])
        for task in tasks
    ]
    kinds = [len(np.unique(codes[part])) for task in inner for part in (task.positives, task.controls) if len(part)]
    folds = min(_FOLDS_BESIDE, max(2, min(kinds)))
    fold_of = stratified_folds(column, inner, folds, rng) if column.count > 1 else np.zeros(1, dtype=int)
    splits = []
    for number in range(int(fold_of.max()) + 1):
        held = np.zeros(len(test), dtype=bool)
        held[rows] = (fold_of == number)[codes]
        names = tuple(np.array(column.names)[fold_of == number].tolist())
        splits.append((~test & (exempt | ~held), test & (exempt | held), names))
    return splits


def shared_by_controls(also: Column, tasks: list[Task]) -> bool:
    """Whether all controls have one value of a column, or none: it cannot be held out for them."""
    return len(np.unique(also.codes[tasks[0].controls])) == 1


def stratified_folds(batch: Column, tasks: list[Task], folds: int, rng: np.random.Generator) -> Array:
    r"""The fold of each batch: the largest first, each where it adds least to :math:`\sum_{f,t}(n_{ft}/n_t)^2`.

    The sum runs over folds f and over the perturbed rows of each task, the controls and all rows; it is least where
    every fold holds an equal share of each.
    """
    kinds = [batch.codes[rows] for rows in (*(task.positives for task in tasks), tasks[0].controls)]
    counts = np.stack([np.bincount(codes, minlength=batch.count) for codes in (*kinds, batch.codes)], axis=1)
    shares = counts / np.maximum(counts.sum(axis=0), 1)  # a class may be missing here
    # Perturbed rows are scarce: batches with perturbed rows are assigned before control-only ones.
    weight = shares[:, :-2].sum(axis=1)
    order = np.lexsort((rng.permutation(batch.count), -shares[:, -1], -weight))
    held = np.zeros((folds, shares.shape[1]))
    fold_of = np.empty(batch.count, dtype=np.intp)
    for code in order:
        fold_of[code] = np.argmin(held @ shares[code])
        held[fold_of[code]] += shares[code]
    return fold_of


_CONTROL_WORDS = (
    *("control", "controls", "ctrl", "dmso", "negcon", "negative_control", "negative control", "empty_control"),
    *("non-targeting", "non_targeting", "nontargeting", "untreated", "unperturbed", "vehicle", "mock"),
)


@dataclass(frozen=True, eq=False)
class Task:
    """Rows of one perturbation (and one guide of it) against the control rows."""

    name: str
    guide: str | None
    positives: Array
    controls: Array

    def rows(self, chosen: Array) -> tuple[Array, Array]:
        """The rows of the task among those chosen by a mask, and which of them are perturbed."""
        positives, controls = (rows[chosen[rows]] for rows in (self.positives, self.controls))
        rows = np.sort(np.concatenate([positives, controls]))
        return rows, np.isin(rows, positives, assume_unique=True)

    def has_both(self, chosen: Array) -> bool:
        """Whether there are perturbed rows and controls among those chosen by a mask."""
        return bool(chosen[self.positives].any() and chosen[self.controls].any())

    def __str__(self) -> str:
        return self.name if self.guide is None else f"{self.name}, guide {self.guide}"


def control_values(label: Column, control: Any) -> tuple[str, ...]:
    """The values of the label that are controls: named by the user, or the one that looks like one."""
    if label.count < 2:
        raise InputError(f"{label.title} has one value only, {label.names[0]!r}: there is nothing to tell apart")
    shown = ", ".join(map(repr, label.names[:6])) + (" and more" if label.count > 6 else "")
    if control is None:
        words = [name for name in label.names if name.lower() in _CONTROL_WORDS]
        if label.count == 2 and not words:
            words = [name for name in label.names if name.lower() in ("false", "0")]
        if len(words) != 1:
            raise InputError(f"which value of {label.title} is the control? Name it with control=; there are {shown}")
        return (words[0],)
    several = isinstance(control, Sequence | np.ndarray) and not isinstance(control, str)
    wanted = tuple(as_label(each) for each in (control if several else [control]))
    unknown = [each for each in wanted if each not in label.names]
    if unknown or not wanted:
        raise InputError(f"control {', '.join(map(repr, unknown)) or 'is empty'}: {label.title} holds {shown}")
    if len(set(wanted)) == label.count:
        raise InputError(f"every value of {label.title} is named as a control: there is nothing to tell apart")
    return wanted


def make_tasks(inputs: Inputs, control: tuple[str, ...], each: bool) -> list[Task]:
    """One task, or one for each perturbation; guides divide each of them further."""
    label = inputs.label
    is_control = np.isin(np.array(label.names), control)
    controls = np.flatnonzero(is_control[label.codes])
    others = np.flatnonzero(~is_control)
    tasks = []
    for codes in others[:, None] if each else [others]:
        name = label.names[codes[0]] if len(codes) == 1 else f"{len(codes)} values of {label.title}"
        positives = np.flatnonzero(np.isin(label.codes, codes))
        if inputs.guides is None:
            tasks.append(Task(name, None, positives, controls))
            continue
        guides = inputs.guides.codes[positives]
        if (guides < 0).any():
            first = int(positives[np.argmax(guides < 0)])
            raise InputError(f"{inputs.guides.title} is missing for perturbed rows, the first at row {first}")
        for guide in np.unique(guides):
            tasks.append(Task(name, inputs.guides.names[guide], positives[guides == guide], controls))
    return tasks


def refuse_confounded(inputs: Inputs) -> None:
    """Refuse batches that are identical to the label: nothing could separate the two."""
    label, batch = inputs.label, inputs.batch
    if batch.count < 2:
        raise InputError(f"{batch.title} has one value only, {batch.names[0]!r}: no batch can be held out")
    pairs = len(np.unique(label.codes * np.int64(batch.count) + batch.codes))
    if pairs == label.count == batch.count:
        both = f"{batch.title} and {label.title}"
        raise InputError(f"{both} are the same division of the rows: nothing can separate batch from label")
