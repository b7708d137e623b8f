"""Pairs that the user names in a TOML file, checked before anything is loaded.

The rows of a named pair, layer by layer: extracted from models, or read from files; and those of untrained ones.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..models.load import names_code
from ..representation import Array, Representation
from ..storage import labels, read
from ..storage.registry import split_key
from .experiment import Run
from .pretrained_settings import PUBLISHED

POOLS = ("mean", "max", "first", "last", "token", "flatten")
_TEXTS = (
    "name", "source", "target", "source_weights", "target_weights", "data", "pool", "group", "published", "input",
    "text_field",
)  # fmt: skip
_WHOLE = ("limit", "context")
_LAYERS = ("layer", "target_layer")
_KEYS = (*_TEXTS, *_LAYERS, *_WHOLE)
_FOR_MODELS = ("source_weights", "target_weights", "data", "pool", "input", "text_field", *_LAYERS, *_WHOLE)
_MOST_BYTES, _MOST_PAIRS, _MOST_LAYERS, _LONGEST = 2**20, 200, 20, 60


@dataclass(frozen=True)
class Named:
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
        found: list[Path] = []
        for text in (self.source, self.target, self.source_weights, self.target_weights, self.data, self.group):
            path, _ = split_key(text, None) if text else (Path(), None)
            if text and not names_code(text) and path.exists():
                found += sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
        return found


def named_pairs(file: str) -> list[Named]:
    """The pairs of a TOML file; whatever is wrong with it is one sentence that names the pair and the key."""
    path = Path(file).expanduser()
    tables = _tables(path)
    found = [_pair(table, place, path) for place, table in enumerate(tables, start=1)]
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path.name}: two pairs have the name {twice!r}")
    return found


def _tables(path: Path) -> list[Any]:
    if not path.is_file():
        raise MissingFileError(f"pairs is {path}, which is no file: name a TOML file")
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path.name} has {path.stat().st_size} bytes: a file of pairs is small")
    try:
        found = tomllib.loads(path.read_bytes().decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path.name} is not TOML: {' '.join(str(error).split())[:200]}") from None
    if other := [key for key in found if key != "pair"]:
        raise InputError(f"{path.name} has the key {other[0]!r}: it holds [[pair]] tables only")
    tables = found.get("pair")
    if not isinstance(tables, list) or not 1 <= len(tables) <= _MOST_PAIRS:
        raise InputError(f"{path.name} holds no pairs, or more than {_MOST_PAIRS}: write [[pair]] before each")
    return tables


def _pair(table: Any, place: int, path: Path) -> Named:
    where = f"{path.name}, pair {place}"
    if not isinstance(table, dict):
        raise InputError(f"{where} is no table: write [[pair]] before its keys")
    if isinstance(table.get("name"), str):
        where += f" ({table['name'][:_LONGEST]!r})"
    if unknown := [key for key in table if key not in _KEYS]:
        raise InputError(f"{where}: there is no key {unknown[0]!r}; there are {', '.join(_KEYS)}")
    texts = {key: _text(table, key, where) for key in _TEXTS}
    for key in ("name", "source", "target"):
        if not texts[key]:
            raise InputError(f"{where}: {key} is missing")
    if len(texts["name"]) > _LONGEST or not texts["name"].isprintable():
        raise InputError(f"{where}: name has more than {_LONGEST} letters, or letters that cannot be printed")
    folder = path.resolve().parent
    kinds = {key: _kind(texts[key], key, folder, where) for key in ("source", "target")}
    models = kinds["source"] == "model"
    if kinds["source"] != kinds["target"]:
        raise InputError(f"{where}: target is a {kinds['target']} and source a {kinds['source']}: both must be one")
    numbers = {key: _whole(table, key, where) for key in _WHOLE}
    layers = {key: _layers(table, key, where) for key in _LAYERS}
    if models:
        _check_models(texts, layers, where)
    elif given := [key for key in _FOR_MODELS if key in table]:
        raise InputError(f"{where}: {given[0]} is for models, and source and target are representations")
    if texts["published"] and texts["published"] not in PUBLISHED:
        raise InputError(f"{where}: published is {texts['published']!r}; there are {', '.join(PUBLISHED)}")
    return Named(
        name=texts["name"],
        source=_placed(texts["source"], folder),
        target=_placed(texts["target"], folder),
        models=models,
        source_weights=_there(texts, "source_weights", folder, where),
        target_weights=_there(texts, "target_weights", folder, where),
        data=_there(texts, "data", folder, where),
        layers=layers["layer"],
        target_layers=layers["target_layer"] or layers["layer"],
        pool=texts["pool"] or "mean",
        group=_group(texts["group"], models, folder),
        published=texts["published"],
        input=texts["input"] or "auto",
        text_field=texts["text_field"] or "text",
        **numbers,
    )


def _check_models(texts: dict[str, str], layers: dict[str, tuple[str | int, ...]], where: str) -> None:
    if not texts["data"]:
        raise InputError(f"{where}: data is missing: what the models are shown")
    if texts["pool"] and texts["pool"] not in POOLS:
        raise InputError(f"{where}: pool is {texts['pool']!r}; there are {', '.join(POOLS)}")
    for key in ("source", "target"):
        if texts[f"{key}_weights"] and not names_code(texts[key]):
            raise InputError(f"{where}: {key}_weights is for a {key} that is code, as package.module:name")
    if layers["target_layer"] and len(layers["target_layer"]) != len(layers["layer"]):
        raise InputError(f"{where}: target_layer has {len(layers['target_layer'])} and layer {len(layers['layer'])}")


def _kind(text: str, key: str, folder: Path, where: str) -> str:
    """A model is code or a folder with a config; everything else that exists is a representation."""
    if names_code(text):
        return "model"
    path = folder / Path(text).expanduser()
    if (path / "config.json").is_file():
        return "model"
    try:
        there = split_key(path, None)[0].exists()
    except (OSError, ValueError):
        there = False
    if not there:
        raise MissingFileError(
            f"{where}: {key} is {text[:200]!r}, which is neither there nor code as package.module:name; nothing is "
            "downloaded"
        )
    return "representation"


def _text(table: dict[str, Any], key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or "\0" in value or (key in table and not value.strip()):
        raise InputError(f"{where}: {key} is {str(value)[:60]!r}: it must be text")
    return value


def _whole(table: dict[str, Any], key: str, where: str) -> int | None:
    value = table.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InputError(f"{where}: {key} is {str(value)[:60]!r}: it must be a whole number from 1 on")
    return value


def _layers(table: dict[str, Any], key: str, where: str) -> tuple[str | int, ...]:
    """One layer or a list of them: numbers or dotted names."""
    if key not in table:
        return ()
    given = table[key]
    found = given if isinstance(given, list) else [given]
    known = all(isinstance(each, str | int) and not isinstance(each, bool) and each != "" for each in found)
    if not known or not 1 <= len(found) <= _MOST_LAYERS or len(set(found)) < len(found):
        raise InputError(
            f"{where}: {key} is {str(given)[:60]!r}: it must be a number or a name, or a list of up to {_MOST_LAYERS} "
            "different ones"
        )
    return tuple(found)


def _there(texts: dict[str, str], key: str, folder: Path, where: str) -> str:
    if not texts[key]:
        return ""
    found = _placed(texts[key], folder)
    try:
        there = split_key(found, None)[0].exists()
    except (OSError, ValueError):
        there = False
    if not there:
        raise MissingFileError(f"{where}: {key} is {texts[key][:200]!r}, which is not there")
    return found


def _group(text: str, models: bool, folder: Path) -> str:
    """A file of labels where there is one, otherwise the name of a column or of a field."""
    if not text or models:
        return text
    path, column = split_key(folder / text, None)
    return text if not path.exists() else str(path) if column is None else f"{path}::{column}"


def _placed(text: str, folder: Path) -> str:
    """A path from the file's own folder on; code stays as it is."""
    return text if names_code(text) else str(folder / Path(text).expanduser())


Layer = tuple[str, Representation, Representation, Array | None]
"""Its name, the source's rows, the target's rows and the groups of both."""


def layers_of(pair: Named, run: Run, *, trained: bool) -> Iterator[Layer]:
    """One layer after the other; a file of representations is one, and has nothing untrained."""
    if not pair.models:
        if trained:
            yield "", read(pair.source), read(pair.target), _labels(pair)
        return
    if not trained and not _has_control(pair):
        return
    found = [_extracted(pair, side, run, trained=trained) for side in ("source", "target")]
    names = [list(each.layers) for each in found]
    if len(names[0]) != len(names[1]):
        raise InputError(f"source gave {len(names[0])} layers and target {len(names[1])}: name them one by one")
    for one, other in zip(*names, strict=True):
        label = one if one == other else f"{one} and {other}"
        yield label, found[0][one], found[1][other], found[0].groups


def _extracted(pair: Named, side: str, run: Run, *, trained: bool) -> Any:
    """An extraction in the scratch folder of the unit, where one that was stopped goes on."""
    from ..models import extract

    model, weights = getattr(pair, side), getattr(pair, f"{side}_weights")
    layers = pair.layers if side == "source" else pair.target_layers
    seed = int(np.random.SeedSequence([run.seed, 67, side == "target"]).generate_state(1)[0])
    options: dict[str, Any] = {} if trained else _untrained(model, seed)
    when = "trained" if trained else "untrained"
    return extract(
        options.pop("model", model),
        pair.data,
        layers=list(layers) or None,
        output=None if run.scratch is None else run.scratch / f"{side}-{when}" / "{layer}.npy",
        pool=pair.pool,
        weights=weights if weights and trained else None,
        input=pair.input,
        text_field=pair.text_field,
        group_field=pair.group or None,
        context=pair.context,
        limit=pair.limit,
        seed=seed,
        progress=run.progress,
        **options,
    )


def _untrained(model: str, seed: int) -> dict[str, Any]:
    """A model folder's architecture with random weights; code makes its own, which the seed decides."""
    from ..extraction.model import open_model
    from ..models.batched import seeded

    if names_code(model):
        return {}
    source = open_model(Path(model))
    module = seeded(lambda _: type(source.module)(source.module.config), seed)
    return {"model": module, "tokenizer": source.tokenizer, "pixels": dict(source.pixels)}


def _has_control(pair: Named) -> bool:
    """Code without weights is what it makes itself: nothing is known that it was before."""
    sides = ((pair.source, pair.source_weights), (pair.target, pair.target_weights))
    return all(weights or not names_code(model) for model, weights in sides)


def _labels(pair: Named) -> Array | None:
    return labels(pair.group, pair.source) if pair.group else None
