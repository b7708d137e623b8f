"""TOML file of pairs to compare: two models with data for them, or two files of representations of the same rows.

A pair is checked before anything is loaded; its rows come layer by layer, extracted from models or read from files.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..extraction.run import POOLS
from ..representation import Array, Representation
from ..rows import Progress, no_progress, read_rows
from ..storage import labels, read
from ..storage.model_files import is_count
from ..storage.registry import split_key
from .load import names_code

_FILES = ("source_weights", "target_weights", "data")
_TEXTS = ("name", "source", "target", *_FILES, "pool", "group", "published", "input", "text_field")
_WHOLE = ("limit", "context")
_LAYERS = ("layer", "target_layer")
_KEYS = (*_TEXTS, *_LAYERS, *_WHOLE)
_FOR_MODELS = (*_FILES, "pool", "input", "text_field", *_LAYERS, *_WHOLE)

_MOST_BYTES, _MOST_PAIRS, _MOST_LAYERS, _LONGEST = 2**20, 200, 20, 60
_LAYERS_ARE = f"a number or a name, or a list of up to {_MOST_LAYERS} different ones"

Layer = tuple[str, Representation, Representation, Array | None]
"""Its name, the source's rows, the target's rows and the groups of both."""


@dataclass(frozen=True)
class NamedPair:
    """A pair of models with data for them, or of two files that hold representations of the same rows.

    Paths are whole; ``layers`` and ``target_layers`` go together, and are empty where the default is meant.
    """

    name: str
    source: str
    target: str
    models: bool
    source_weights: str = ""
    target_weights: str = ""
    data: str = ""
    layers: tuple[str | int, ...] = ()
    target_layers: tuple[str | int, ...] = ()
    pool: str = "mean"
    group: str = ""
    published: str = ""
    input: str = "auto"
    text_field: str = "text"
    limit: int | None = None
    context: int | None = None

    @property
    def digest(self) -> str:
        """A few letters that change with the settings of the pair and with the files that it names."""
        stamps = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in self.files()]
        text = json.dumps([asdict(self), stamps], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()

    def files(self) -> list[Path]:
        """The files that are there, of folders what lies in them."""
        paths: list[Path] = []
        for text in (self.source, self.target, self.source_weights, self.target_weights, self.data, self.group):
            path, _ = split_key(text, None) if text else (Path(), None)
            if text and not names_code(text) and path.exists():
                paths += sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
        return paths


def named_pairs(file: str, published: Sequence[str] = ()) -> list[NamedPair]:
    """The pairs of a TOML file; errors are one sentence that names the pair and the key.

    ``published`` are the names that the key of that name may have.
    """
    path = Path(file).expanduser()
    pairs = [_Reader(table, number, path).pair(published) for number, table in enumerate(_tables(path), start=1)]
    names = [pair.name for pair in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{path.name}: two pairs have the name {twice[0]!r}")
    return pairs


def layers_of(
    pair: NamedPair,
    rows: int,
    seed: int,
    scratch: Path | None = None,
    progress: Progress = no_progress,
    *,
    trained: bool = True,
) -> Iterator[Layer]:
    """One layer at a time, with limited rows; a file of representations is one layer, without an untrained one."""
    if not pair.models:
        if trained:
            groups = labels(pair.group, pair.source) if pair.group else None
            yield "", *_fewer_rows(read(pair.source), read(pair.target), groups, rows, seed)
        return
    sides = ((pair.source, pair.source_weights), (pair.target, pair.target_weights))
    # Code without weights makes its own: its untrained state is unknown.
    if not trained and not all(weights or not names_code(model) for model, weights in sides):
        return
    extracted = [_extracted(pair, side, seed, scratch, progress, trained) for side in ("source", "target")]
    names = [list(each.layers) for each in extracted]
    if len(names[0]) != len(names[1]):
        raise InputError(f"source gave {len(names[0])} layers and target {len(names[1])}: name them one by one")
    for one, other in zip(*names, strict=True):
        label = one if one == other else f"{one} and {other}"
        yield label, *_fewer_rows(extracted[0][one], extracted[1][other], extracted[0].groups, rows, seed)


def _fewer_rows(
    source: Representation, target: Representation, groups: Array | None, most: int, seed: int
) -> tuple[Representation, Representation, Array | None]:
    """A limited number of rows of both, drawn at random, in their order."""
    count = len(source)
    if count <= most or len(target) != count:  # unequal lengths are for the comparison to refuse
        return source, target, groups
    chosen = np.sort(np.random.default_rng([seed, 61]).permutation(count)[:most])
    one, other = (
        Representation(read_rows(each.values, chosen), None if each.ids is None else each.ids[chosen], each.name)
        for each in (source, target)
    )
    return one, other, groups if groups is None or len(groups) != count else np.asarray(groups)[chosen]


def _extracted(pair: NamedPair, side: str, seed: int, scratch: Path | None, progress: Progress, trained: bool) -> Any:
    """An extraction in the scratch folder, where an interrupted one resumes."""
    from . import extract

    model, weights = getattr(pair, side), getattr(pair, f"{side}_weights")
    layers = pair.layers if side == "source" else pair.target_layers
    own = int(np.random.SeedSequence([seed, 67, side == "target"]).generate_state(1)[0])
    options: dict[str, Any] = {"model": model} if trained or names_code(model) else untrained_model(model, own)
    when = "trained" if trained else "untrained"
    return extract(
        data=pair.data,
        layers=list(layers) or None,
        output=None if scratch is None else scratch / f"{side}-{when}" / "{layer}.npy",
        pool=pair.pool,
        weights=weights if weights and trained else None,
        input=pair.input,
        text_field=pair.text_field,
        group_field=pair.group or None,
        context=pair.context,
        limit=pair.limit,
        seed=own,
        progress=progress,
        **options,
    )


def untrained_model(model: str, seed: int) -> dict[str, Any]:
    """A model folder's architecture with random weights; code makes its own, which the seed decides."""
    from ..extraction.model import open_model
    from .batched import seeded

    source = open_model(Path(model))
    module = seeded(lambda _: type(source.module)(source.module.config), seed)
    return {"model": module, "tokenizer": source.tokenizer, "pixels": dict(source.pixels)}


def _tables(path: Path) -> list[Any]:
    if not path.is_file():
        raise MissingFileError(f"pairs is {path}, which is no file: name a TOML file")
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path.name} has {path.stat().st_size} bytes: a file of pairs is small")
    try:
        contents = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path.name} is not TOML: {' '.join(str(error).split())[:200]}") from None
    if other := [key for key in contents if key != "pair"]:
        raise InputError(f"{path.name} has the key {other[0]!r}: it holds [[pair]] tables only")
    tables = contents.get("pair")
    if not isinstance(tables, list) or not 1 <= len(tables) <= _MOST_PAIRS:
        raise InputError(f"{path.name} holds no pairs, or more than {_MOST_PAIRS}: write [[pair]] before each")
    return tables


class _Reader:
    """One table of the file, read key by key; errors name the pair and the key."""

    def __init__(self, table: Any, number: int, path: Path) -> None:
        self.table, self.folder, self.where = table, path.resolve().parent, f"{path.name}, pair {number}"
        if not isinstance(table, dict):
            raise self.error(" is no table: write [[pair]] before its keys")
        if isinstance(table.get("name"), str):
            self.where += f" ({table['name'][:_LONGEST]!r})"
        if unknown := [key for key in table if key not in _KEYS]:
            raise self.error(f": there is no key {unknown[0]!r}; there are {', '.join(_KEYS)}")
        self.texts = {key: self.value(key, "text", _is_text) or "" for key in _TEXTS}

    def error(self, words: str, kind: type[InputError] = InputError) -> InputError:
        return kind(f"{self.where}{words}")

    def value(self, key: str, noun: str, fits: Callable[[Any], bool]) -> Any:
        """A value of the table that fits; None where there is none."""
        value = self.table.get(key)
        if value is not None and not fits(value):
            raise self.error(f": {key} is {str(value)[:60]!r}: it must be {noun}")
        return value

    def pair(self, published: Sequence[str]) -> NamedPair:
        texts = self.texts
        for key in ("name", "source", "target"):
            if not texts[key]:
                raise self.error(f": {key} is missing")
        if len(texts["name"]) > _LONGEST or not texts["name"].isprintable():
            raise self.error(f": name has more than {_LONGEST} letters, or letters that cannot be printed")
        source, target = self.kind("source"), self.kind("target")
        if source != target:
            raise self.error(f": target is a {target} and source a {source}: both must be one")
        models = source == "model"
        numbers = {key: self.value(key, "a whole number from 1 on", is_count) for key in _WHOLE}
        named = {key: self.value(key, _LAYERS_ARE, _are_layers) for key in _LAYERS}
        layers = {
            key: tuple(given if isinstance(given, list) else [given])
            for key, given in named.items()
            if given is not None
        }
        if models:
            self.check_models(layers)
        elif misplaced := [key for key in _FOR_MODELS if key in self.table]:
            raise self.error(f": {misplaced[0]} is for models, and source and target are representations")
        if texts["published"] and texts["published"] not in published:
            raise self.error(f": published is {texts['published']!r}; there are {', '.join(published)}")
        for key in _FILES:
            if texts[key] and not self.exists(texts[key]):
                raise self.error(f": {key} is {texts[key][:200]!r}, which is not there", MissingFileError)
        given: dict[str, Any] = {key: value for key, value in (texts | numbers).items() if value}
        placed = {key: self.placed(given[key]) for key in ("source", "target", *_FILES) if key in given}
        return NamedPair(
            **(given | placed | {"group": self.group(models)}),
            models=models,
            layers=layers.get("layer", ()),
            target_layers=layers.get("target_layer", layers.get("layer", ())),
        )

    def check_models(self, layers: dict[str, tuple[str | int, ...]]) -> None:
        texts = self.texts
        if not texts["data"]:
            raise self.error(": data is missing: what the models are shown")
        if texts["pool"] and texts["pool"] not in POOLS:
            raise self.error(f": pool is {texts['pool']!r}; there are {', '.join(POOLS)}")
        for key in ("source", "target"):
            if texts[f"{key}_weights"] and not names_code(texts[key]):
                raise self.error(f": {key}_weights is for a {key} that is code, as package.module:name")
        counts = [len(layers.get(key, ())) for key in _LAYERS]
        if counts[1] and counts[0] != counts[1]:
            raise self.error(f": target_layer has {counts[1]} and layer {counts[0]}")

    def kind(self, key: str) -> str:
        """A model is code or a folder with a config; everything else that exists is a representation."""
        text = self.texts[key]
        if names_code(text) or (Path(self.placed(text)) / "config.json").is_file():
            return "model"
        if not self.exists(text):
            words = "which is neither there nor code as package.module:name; nothing is downloaded"
            raise self.error(f": {key} is {text[:200]!r}, {words}", MissingFileError)
        return "representation"

    def group(self, models: bool) -> str:
        """A file of labels where there is one, otherwise the name of a column or of a field."""
        text = self.texts["group"]
        if not text or models:
            return text
        path, column = split_key(self.folder / text, None)
        return text if not path.exists() else str(path) if column is None else f"{path}::{column}"

    def placed(self, text: str) -> str:
        """A path from the file's own folder on; code stays as it is."""
        return text if names_code(text) else str(self.folder / Path(text).expanduser())

    def exists(self, text: str) -> bool:
        try:
            return split_key(self.placed(text), None)[0].exists()
        except (OSError, ValueError):
            return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value and bool(value.strip())


def _are_layers(value: Any) -> bool:
    given = value if isinstance(value, list) else [value]
    known = all(isinstance(each, str | int) and not isinstance(each, bool) and each != "" for each in given)
    return known and 1 <= len(given) <= _MOST_LAYERS and len(set(given)) == len(given)
