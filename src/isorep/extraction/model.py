"""Models to extract from: a torch module, code that makes one, an ONNX or GGUF file, or a folder of transformers.

A folder of the transformers library is checked before anything is loaded, and never downloaded. It is not trusted: it
is refused if it requires its own code (``auto_map``, kernels from a hub), if its weights are pickles and the user has
not allowed them, if a link leads out of it, or if weights are missing, which the library would replace by random ones.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import struct
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError, import_extra
from ..files import require_regular
from ..models.evaluation import import_torch, said
from ..models.load import imported, made, names_code, with_weights
from ..settings import check_choice

MODULE, TRANSFORMER = "module", "transformers"
TWO_SIDES = (
    "takes texts and images together: save the side that is meant as a model of its own, with "
    "model.vision_model.save_pretrained(FOLDER) or text_model, and name that folder, or give that module"
)
_SAMPLED = 1024  # values of each parameter in the fingerprint
_ADVICE = "name the code that makes the model as package.module:factory, with --weights FILE.safetensors"


@dataclass(frozen=True)
class Source:
    """A model that is ready to run, with facts about it."""

    module: Any
    name: str
    kind: str  # MODULE or TRANSFORMER
    tokenizer: Any = None
    context: int | None = None  # tokens that it takes at once
    pixels: Mapping[str, Any] = field(default_factory=dict)  # size, mean and spread that its images are given
    notes: tuple[str, ...] = ()
    made_up: tuple[str, ...] = ()  # modules whose weights are random, as the folder has none

    @property
    def takes(self) -> str:
        """The name of a transformers model's input: ``input_ids``, ``pixel_values`` and so on."""
        return str(getattr(self.module, "main_input_name", "input_ids"))

    @property
    def vocabulary(self) -> int | None:
        """The vocabulary size of a model; None where unknown."""
        try:
            return getattr(self.module.get_input_embeddings(), "num_embeddings", None)
        except (NotImplementedError, AttributeError):
            return None


def open_model(
    model: Any,
    *,
    weights: str | Path | None = None,
    tokenizer: Any = None,
    allow_torch_weights: bool = False,
    compute: str = "float32",
    seed: int = 0,
) -> Source:
    """A model from a module, ``package.module:name`` with weights, an ONNX or a GGUF file, or a local folder."""
    check_choice("compute", compute, ("float32", "stored"))
    torch = import_torch("extraction")
    if isinstance(model, torch.nn.Module):
        if weights is not None:
            raise InputError("weights are for a model that comes from code: load them into the module first")
        return _from_module(_inside(model), tokenizer)
    if not isinstance(model, str | Path):
        raise InputError(f"the model is of type {type(model).__name__}: give a torch module, code or a folder")
    text = str(model)
    if names_code(text):
        torch.manual_seed(seed)  # what the weights leave out, or all of them where none are given
        module = made(imported(text), text, "model")
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"{text} is not a torch module, nor does it make one")
        module = _inside(module)
        if weights is None:
            note = f"{text} has no --weights: its weights are those its code initialises"
            return Source(_readable(module, text), text, MODULE, notes=(note,))
        with_weights(module, text, Path(weights), torch_files=True)
        return Source(_readable(module, text), f"{text} with {Path(weights).name}", MODULE)
    if weights is not None:
        raise InputError(f"--weights is for models that come from code, as package.module:factory, not for {text}")
    path = Path(model)
    if not path.exists():
        advice = "name a local folder, an ONNX or a GGUF file, or code as package.module:factory; nothing is downloaded"
        raise MissingFileError(f"{path} does not exist: {advice}")
    if path.suffix.lower() == ".onnx" and path.is_file():
        from .onnx_file import OnnxModel

        return Source(OnnxModel(path), path.name, MODULE)
    if path.suffix.lower() == ".gguf" and path.is_file():
        return load_gguf(path)
    if not path.is_dir():
        raise InputError(_refusal(path))
    return load_folder(path, allow_torch_weights, single=compute == "float32")


def floating_dtype(module: Any) -> Any:
    """The type of numbers that a model computes in: that of its first floating-point parameter."""
    torch = import_torch("extraction")
    kinds = (value.dtype for value in module.parameters() if value.is_floating_point())
    return next(kinds, torch.get_default_dtype())


def failure_of(source: Source, inputs: Any) -> str | None:
    """Why a transformers model cannot take an input, where that is known and its own error does not say it."""
    if source.kind != TRANSFORMER:
        return None
    config = source.module.config
    known = source.vocabulary
    if source.takes == "input_ids" and inputs.dtype.kind in "iu" and known is not None:
        strange = inputs[(inputs < 0) | (inputs >= known)]
        if len(strange):
            why = "the tokenizer is not that of the model, or it is padding (--pad)"
            return f"knows the tokens 0 to {known - 1}, and there is a token {strange[0]}: {why}"
    if has_two_sides(source):
        return TWO_SIDES
    if getattr(config, "is_encoder_decoder", False) and source.module.get_encoder() is not source.module:
        return "has an encoder and a decoder: give its encoder, model.get_encoder()"
    return None


def has_two_sides(source: Source) -> bool:
    """Whether a transformers model has a side of texts and one of images."""
    config = source.module.config
    return getattr(config, "text_config", None) is not None and hasattr(config, "vision_config")


def fingerprint(source: Source) -> str:
    """A quick hash of names, shapes and evenly spaced values of all weights but random ones."""
    digest = hashlib.sha256()
    random = tuple(f"{name}." for name in source.made_up)
    for name, value in source.module.state_dict().items():
        if not hasattr(value, "detach") or name.startswith(random):
            continue
        digest.update(f"{name} {tuple(value.shape)} {value.dtype};".encode())
        flat = value.detach().reshape(-1)
        step = max(1, -(-len(flat) // _SAMPLED))
        digest.update(repr(flat[::step].cpu().double().tolist()).encode())
    return digest.hexdigest()


def _from_module(module: Any, tokenizer: Any) -> Source:
    name = type(module).__name__
    library = sys.modules.get("transformers")
    if library is None or not isinstance(module, library.PreTrainedModel):
        if tokenizer is not None:
            raise InputError("a tokenizer is for models of the transformers library: give token ids to others")
        return Source(_readable(module, name), name, MODULE)
    return Source(module, name, TRANSFORMER, tokenizer, context_length(module, tokenizer))


def _inside(module: Any) -> Any:
    """The module that was compiled: a compiled one calls no hooks of what is inside, and names it otherwise."""
    return getattr(module, "_orig_mod", module)


def _readable(module: Any, text: str) -> Any:
    """Refuse scripted modules, which take no hooks, and lazy ones: a pass would make their weights, at random."""
    torch = import_torch("extraction")
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError(f"{text} was made by torch.jit, which hides its layers: give the module that it was made of")
    lazy = [name for name, value in module.named_parameters() if torch.nn.parameter.is_lazy(value)]
    if lazy:
        raise InputError(f"{text} has parameters without a shape, such as {lazy[0]}: run it once on an example before")
    return module


def _refusal(path: Path) -> str:
    """Why a file is not a model."""
    require_regular(path)
    with path.open("rb") as file:
        start = file.read(4)
    if path.suffix == ".py":
        return f"{path} is code: name what it holds as {path.stem}:factory, from its folder"
    if path.suffix.lower() == ".safetensors":
        return f"{path} holds weights without a model: {_ADVICE}"
    if start[:1] == b"\x80" or start == b"PK\x03\x04" or path.suffix.lower() in (".pt", ".pth", ".bin", ".pkl"):
        return f"{path} is a pickle, and no model is unpickled: {_ADVICE}"
    return f"{path} is no model: {_ADVICE}, an ONNX or a GGUF file, or a folder of the transformers library"


_MOST_JSON = 2**26
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
_LOCAL = {"local_files_only": True, "trust_remote_code": False}
_NO_LIMIT = 10**6  # tokenizers give 1e30 where no length is known
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")


def load_folder(path: Path, allow_torch_weights: bool, *, single: bool = True) -> Source:
    """Model and tokenizer of a folder that has passed all checks.

    Weights of half precision have three digits, and so would everything computed in it: with ``single`` they are
    converted to float32, which changes none of them.
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
        notes.append("only the encoder of an encoder-decoder model is used")
    made_up = _require_complete(missing, path)
    notes += [f"the weights have no {name}, which keeps its initial values" for name in made_up]
    notes += _made_single(module) if single else []
    context = context_length(module, tokenizer)
    name = path.resolve().name
    return Source(module, name, TRANSFORMER, tokenizer, context, _pixels(path), tuple(notes), made_up)


def load_gguf(path: Path) -> Source:
    """Model and tokenizer of a GGUF file, by the transformers library; quantised weights become float32.

    The library is shown the file alone, so that settings or adapters beside it are not read.
    """
    reader = import_extra("gguf", "gguf", "a GGUF file").GGUFReader
    transformers = import_extra("transformers", "hf", "a GGUF file")
    import_extra("accelerate", "gguf", "a GGUF file")  # without it the library refuses these files
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise InputError(f"{path} is no GGUF file: it does not begin with GGUF")
        _require_few_entries(file, path)
    torch = import_torch("extraction")
    with tempfile.TemporaryDirectory(prefix="isorep-gguf-") as folder, _quietly(transformers):
        (Path(folder) / path.name).symlink_to(path.resolve())
        only = {"gguf_file": path.name, **_LOCAL}
        try:
            held = reader(path)
            kinds = sorted({each.tensor_type.name for each in held.tensors})
            module, info = transformers.AutoModel.from_pretrained(
                folder, output_loading_info=True, dtype=torch.float32, **only
            )
            named = "tokenizer.ggml.tokens" in held.fields
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **only) if named else None
        except Exception as error:  # whatever a file makes the library raise
            raise InputError(f"{path} cannot be loaded: {said(error)}") from error
    _require_complete(sorted(map(str, info["missing_keys"])) + sorted(map(str, info["mismatched_keys"])), path)
    notes = [f"weights are stored as {' and '.join(kinds)}; they were computed with in float32"]
    if tokenizer is None:
        notes.append("the file has no tokenizer: give token ids")
    return Source(module, path.name, TRANSFORMER, tokenizer, context_length(module, tokenizer), notes=tuple(notes))


_MOST_ENTRIES = 2 * 10**6  # of lists in GGUF files: vocabularies and merges, which the library reads one by one
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of numbers, by their type in GGUF
_TEXT, _LIST = 8, 9


def _require_few_entries(file: Any, path: Path) -> None:
    """Refuse a GGUF file whose lists would take minutes to read; it is open behind its first four bytes.

    What is cut off or of an unknown type is left to the library.
    """
    size, entries = path.stat().st_size, 0
    with suppress(struct.error):
        _, tensors, pairs = struct.unpack("<IQQ", file.read(20))
        for _ in range(min(pairs, _MOST_ENTRIES)):
            file.seek(min(*struct.unpack("<Q", file.read(8)), size), os.SEEK_CUR)
            (kind,), count = struct.unpack("<I", file.read(4)), 1
            if kind == _LIST:
                kind, count = struct.unpack("<IQ", file.read(12))
            entries += count
            if entries > _MOST_ENTRIES:
                raise InputError(f"{path} declares {entries} entries of lists, and up to {_MOST_ENTRIES} are read")
            if kind not in (_TEXT, *_SIZES):
                return
            for _ in range(count if kind == _TEXT else 0):
                file.seek(min(*struct.unpack("<Q", file.read(8)), size), os.SEEK_CUR)
            file.seek(count * _SIZES.get(kind, 0), os.SEEK_CUR)
        if tensors > _MOST_ENTRIES:
            raise InputError(f"{path} declares {tensors} tensors")


def context_length(module: Any, tokenizer: Any) -> int | None:
    """The context length of a model: the smallest of its configuration, positions and tokenizer.

    RoBERTa-like models number positions after the padding id: of 514 positions, 512 are usable.
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
    """Refuse links out of the folder; those of the library's cache lead to ``blobs`` next to its ``snapshots``."""
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
    """Refuse settings that would make the library import code that is not its own."""
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
    """Silence the library's progress bars and warnings; the result has notes on what matters."""
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
