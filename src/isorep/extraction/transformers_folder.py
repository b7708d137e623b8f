"""Model folders of the transformers library: looked at before anything is loaded, and never downloaded.

A folder may come from anyone. It is refused if it asks for code of its own (``auto_map``, kernels from a hub), if its
weights are pickles and the user has not allowed them, if a link leads out of it, or if weights are missing, which the
library would replace by random ones.
"""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import InputError, import_extra
from ..models.evaluation import said
from .model import TRANSFORMER, Source

_MOST_JSON = 2**26
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
_LOCAL = {"local_files_only": True, "trust_remote_code": False}
_NO_LIMIT = 10**6  # tokenizers say 1e30 where they know no length
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")


def load_folder(path: Path, allow_torch_weights: bool, *, single: bool = True) -> Source:
    """Model and tokenizer of a folder that has passed all checks.

    Weights of half precision hold three digits, and so would everything that is computed in it: with ``single`` they
    are made float32, which changes none of them.
    """
    config = _checked_config(path)
    safe = _check_weights(path, allow_torch_weights)
    transformers = import_extra("transformers", "hf", "a model folder")
    with _quietly(transformers):
        module, missing = _load_model(transformers, path, safe)
        tokenizer = _load_tokenizer(transformers, path)
    notes = []
    if _uses_encoder(config) and hasattr(module, "get_encoder"):
        whole, module = module, module.get_encoder()
        missing = _used(missing, whole, module)
        notes.append("of an encoder-decoder model the encoder is used")
    made_up = _require_complete(missing, path)
    notes += [f"the weights have no {name}, which stays as it was made" for name in made_up]
    notes += _made_single(module) if single else []
    context = context_length(module, tokenizer)
    name = path.resolve().name
    return Source(module, name, TRANSFORMER, tokenizer, context, _pixels(path), tuple(notes), made_up)


def context_length(module: Any, tokenizer: Any) -> int | None:
    """How many tokens a model takes at once: the least that its configuration, positions and tokenizer say.

    Models after RoBERTa number positions from the padding id on: of 514 that they have, 512 are left.
    """
    config = getattr(module.config, "text_config", None) or module.config
    said_so = [getattr(config, name, None) for name in _LENGTHS]
    said_so.append(getattr(tokenizer, "model_max_length", None))
    for name, each in module.named_modules():
        if name.endswith("position_embeddings") and isinstance(getattr(each, "padding_idx", None), int):
            said_so.append(each.num_embeddings - each.padding_idx - 1)
    found = [int(value) for value in said_so if isinstance(value, int | float) and 0 < value < _NO_LIMIT]
    return min(found, default=None)


def _checked_config(path: Path) -> dict[str, Any]:
    for file in sorted(path.iterdir()):
        _require_inside(file, path)
    if (path / "adapter_config.json").exists():
        raise InputError(f"{path} holds an adapter, not a model: merge it into its model and save that")
    if not (path / "config.json").is_file():
        raise InputError(f"{path} is not a model folder: it has no config.json")
    for name in ("config.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json"):
        if (path / name).is_file():
            _refuse_code(_read_json(path / name), path / name)
    return _read_json(path / "config.json")


def _require_inside(file: Path, folder: Path) -> None:
    """Refuse links out of the folder; those of the library's cache lead to ``blobs`` beside its ``snapshots``."""
    if not file.is_symlink():
        return
    home, target = folder.resolve(), file.resolve()
    allowed = [home, *([home.parent.parent / "blobs"] if home.parent.name == "snapshots" else [])]
    if not any(place in target.parents for place in allowed):
        raise InputError(f"{file} is a link out of the model's folder, which is not followed")


def _read_json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST_JSON:
        raise InputError(f"{path} takes more than {_MOST_JSON} bytes")
    try:
        found = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {said(error)}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no JSON object")
    return found


def _refuse_code(value: Any, path: Path) -> None:
    """Refuse what would make the library import code that is not its own."""
    if isinstance(value, list):
        for item in value:
            _refuse_code(item, path)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if key in ("auto_map", "custom_pipelines") and item:
            raise InputError(f"{path} asks to run code of its own ({key}), and no code of a model folder is run")
        if "implementation" in str(key) and isinstance(item, str) and ("/" in item or ":" in item):
            raise InputError(f"{path} asks for a kernel from elsewhere ({key}: {item[:60]!r}), and none is fetched")
        _refuse_code(item, path)


def _check_weights(path: Path, allow_torch_weights: bool) -> bool:
    """Whether the weights are safetensors; otherwise torch files that the user has allowed."""
    if (path / "model.safetensors").is_file():
        return True
    if (path / "model.safetensors.index.json").is_file():
        return bool(_check_shards(path, "model.safetensors.index.json", ".safetensors"))
    single, index = path / "pytorch_model.bin", path / "pytorch_model.bin.index.json"
    if not single.is_file() and not index.is_file():
        raise InputError(f"{path} holds no weights: there is no model.safetensors in it")
    if not allow_torch_weights:
        advice = "save it with safe_serialization=True, or allow tensors to be read from it (--allow-torch-weights)"
        name = (single if single.is_file() else index).name
        raise InputError(f"{path} holds its weights as a pickle ({name}): {advice}")
    from ..storage.torch_files import check_archive

    files = [single] if single.is_file() else _check_shards(path, index.name, ".bin")
    for file in files:
        try:
            check_archive(file)
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
    return False


def _check_shards(path: Path, index: str, suffix: str) -> list[Path]:
    """The files that an index names: all there, in this folder, of this kind."""
    names = _read_json(path / index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise InputError(f"{path / index} has no weight_map")
    files = []
    for name in sorted({str(name) for name in names.values()}):
        if Path(name).name != name or not name.endswith(suffix):
            raise InputError(f"{path / index} names {name[:80]!r}, which is no {suffix} file of this folder")
        if not (path / name).is_file():
            raise InputError(f"{path / name} is missing, and {index} names it")
        files.append(path / name)
    return files


def _load_model(transformers: Any, path: Path, safe: bool) -> tuple[Any, list[str]]:
    """The model, and the names of the weights that the folder does not have."""
    try:
        module, info = transformers.AutoModel.from_pretrained(
            str(path), use_safetensors=safe, output_loading_info=True, dtype="auto", **_LOCAL
        )
    except Exception as error:  # whatever a folder makes the library raise
        if "Unrecognized configuration class" in str(error):
            kind = f"model_type {str(_read_json(path / 'config.json').get('model_type'))[:60]!r}"
            advice = "load it in Python by its own class, and give the module, or the part of it that is meant"
            raise InputError(f"{path} cannot be loaded: AutoModel knows no model for its {kind}; {advice}") from error
        raise InputError(f"{path} cannot be loaded: {said(error)}") from error
    return module, sorted(map(str, info["missing_keys"])) + sorted(str(key) for key in info["mismatched_keys"])


def _uses_encoder(config: dict[str, Any]) -> bool:
    """Whether a folder holds a model with an encoder and a decoder, or the encoder of one alone."""
    named = config.get("architectures")
    alone = isinstance(named, list) and any(str(name).endswith("EncoderModel") for name in named)
    return alone or config.get("is_encoder_decoder") is True


def _used(missing: list[str], whole: Any, part: Any) -> list[str]:
    """Of the weights that are missing those that a part of the model uses; what cannot be found is kept."""
    here = {id(value) for value in (*part.parameters(), *part.buffers())}
    known = dict(chain(whole.named_parameters(remove_duplicate=False), whole.named_buffers(remove_duplicate=False)))
    return [name for name in missing if name not in known or id(known[name]) in here]


def _require_complete(missing: list[str], path: Path) -> tuple[str, ...]:
    """Refuse a model with weights that the library made up, but for a pooler, which no hidden state needs: its name."""
    lost = [name for name in missing if "pooler" not in name]
    if lost:
        model = "the model that its config.json describes"
        raise InputError(f"the weights of {path} lack {len(lost)} parameters of {model}, such as {lost[0]}")
    return tuple(sorted({re.sub(r"(pooler\w*)\..*", r"\1", name) for name in missing}))


def _made_single(module: Any) -> list[str]:
    kinds = {value.dtype for value in (*module.parameters(), *module.buffers()) if value.is_floating_point()}
    half = sorted(str(kind).removeprefix("torch.") for kind in kinds if kind.itemsize < 4)
    if not half:
        return []
    module.float()
    return [f"weights are stored as {' and '.join(half)}; they were computed with in float32 (--compute)"]


def _load_tokenizer(transformers: Any, path: Path) -> Any:
    """The folder's own tokenizer; None where it has none."""
    if not any((path / name).is_file() for name in _TOKENIZERS):
        return None
    try:
        return transformers.AutoTokenizer.from_pretrained(str(path), **_LOCAL)
    except Exception as error:  # as above
        raise InputError(f"the tokenizer of {path} cannot be loaded: {said(error)}") from error


def _pixels(path: Path) -> dict[str, Any]:
    """Size, mean and spread of images, from the folder's own preprocessing; a processor holds that of images inside."""
    given: Any = {}
    if (path / "processor_config.json").is_file():
        given = _read_json(path / "processor_config.json").get("image_processor")
    if (path / "preprocessor_config.json").is_file():
        given = _read_json(path / "preprocessor_config.json")
    if not isinstance(given, dict):
        return {}
    size = given.get("crop_size") or given.get("size")
    pixels = {"size": (size.get("height") or size.get("shortest_edge")) if isinstance(size, dict) else size}
    if given.get("do_normalize") is not False:
        pixels |= {"mean": given.get("image_mean"), "spread": given.get("image_std")}
    return {key: value for key, value in pixels.items() if isinstance(value, int | list)}


@contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Without the library's bars, notes and warnings: what matters is said as a note of the result."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(logging.CRITICAL)
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
