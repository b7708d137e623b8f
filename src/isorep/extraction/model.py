"""Models to extract from: a torch module, code that makes one, or a folder of the transformers library.

Which layers are meant: by dotted name, or by number.
"""

from __future__ import annotations

import difflib
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError
from ..models.evaluation import import_torch
from ..models.load import imported, made, names_code, with_weights
from ..settings import check_choice

MODULE, TRANSFORMER = "module", "transformers"
COMPUTE = ("float32", "stored")
TWO_SIDES = (
    "takes texts and images together: save the side that is meant as a model of its own, with "
    "model.vision_model.save_pretrained(FOLDER) or text_model, and name that folder, or give that module"
)
_SAMPLED = 1024  # values of each parameter that tell two models apart
_ADVICE = "name the code that makes the model as package.module:factory, with --weights FILE.safetensors"


@dataclass(frozen=True)
class Source:
    """A model that is ready to run, and what is known about it."""

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
        """What a transformers model calls its input: ``input_ids``, ``pixel_values`` and so on."""
        return str(getattr(self.module, "main_input_name", "input_ids"))

    @property
    def vocabulary(self) -> int | None:
        """How many tokens a model knows; None where that cannot be told."""
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
    """A model from a module, from ``package.module:name`` with weights, or from a local folder."""
    check_choice("compute", compute, COMPUTE)
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
            note = f"{text} came without --weights, so it is as its code makes it"
            return Source(_readable(module, text), text, MODULE, notes=(note,))
        with_weights(module, text, Path(weights), torch_files=True)
        return Source(_readable(module, text), f"{text} with {Path(weights).name}", MODULE)
    if weights is not None:
        raise InputError(f"--weights is for models that come from code, as package.module:factory, not for {text}")
    path = Path(model)
    if not path.exists():
        advice = "name a local folder, or code as package.module:factory; nothing is downloaded"
        raise MissingFileError(f"{path} does not exist: {advice}")
    if not path.is_dir():
        raise InputError(_refusal(path))
    from .transformers_folder import load_folder

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
    """A hash of names, shapes and evenly spaced values of all weights but random ones: tells others, and is quick."""
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
    from .transformers_folder import context_length

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
    """Why a file is no model."""
    with path.open("rb") as file:
        start = file.read(4)
    if path.suffix == ".py":
        return f"{path} is code: name what it holds as {path.stem}:factory, from its folder"
    if path.suffix.lower() == ".safetensors":
        return f"{path} holds weights without a model: {_ADVICE}"
    if start[:1] == b"\x80" or start == b"PK\x03\x04" or path.suffix.lower() in (".pt", ".pth", ".bin", ".pkl"):
        return f"{path} is a pickle, and no model is unpickled: {_ADVICE}"
    return f"{path} is no model: {_ADVICE}, or a folder of the transformers library"


OUTPUT = "output"
HIDDEN = "hidden_"


def module_named(model: Any, layer: str) -> Any:
    """A module by its dotted name; ``output`` is the model itself, unless a module is called so."""
    if not isinstance(layer, str):
        raise InputError(f"layers are named by dotted names, not by {layer!r}")
    modules = dict(model.named_modules())
    if layer and layer in modules:
        return modules[layer]
    if layer == OUTPUT:
        return model
    names = [name for name in modules if name]
    near = difflib.get_close_matches(layer, names, n=3, cutoff=0.4)
    near += [name for name in names if name.endswith(f".{layer}") and name not in near][:2]
    listed = f"near are {', '.join(near)}" if near else f"there are {', '.join(names[:8]) or 'none'}"
    raise InputError(f"there is no layer {layer!r}; {listed} (--list-layers shows all)")


def parse_layers(given: Any, model: Any) -> list[str | int]:
    """Names and numbers from one name, one number, a list of them, or text with commas.

    Text that looks like a number is one, unless the model has a module of that name.
    """
    items = [given] if isinstance(given, str | int) else list(given)
    modules = {name for name, _ in model.named_modules()}
    layers: list[str | int] = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise InputError(f"layers are named by dotted names or numbers, not by {item!r}")
        parts = [item] if isinstance(item, int) else [part.strip() for part in item.split(",")]
        layers += [_number(part) if isinstance(part, str) and part not in modules else part for part in parts]
    if not layers or "" in layers:
        raise InputError("layers is empty: name one, such as encoder.3, or number one, such as -1")
    return layers


def hidden_label(index: int) -> str:
    """What a hidden state is called: its number from 0, the embeddings."""
    return f"{HIDDEN}{index}"


def number_of_hidden(name: str, model: Any) -> str | int:
    """The number of a hidden state that is called as :func:`hidden_label` does; any other name as it is."""
    digits = name.removeprefix(HIDDEN)
    is_state = name.startswith(HIDDEN) and digits.isascii() and digits.isdigit()
    return int(digits) if is_state and name not in dict(model.named_modules()) else name


def numbered(index: int, names: Sequence[str], what: str) -> str:
    """One of the names by its number, also from the end."""
    if not names:
        raise InputError(f"there is no layer {index}: the model calls no modules inside of it; name {OUTPUT!r}")
    if not -len(names) <= index < len(names):
        n = len(names)
        raise InputError(f"there is no layer {index}: {what} are numbered 0 to {n - 1}, or -{n} to -1")
    return names[index]


def leaves_in_order(calls: Sequence[str], model: Any) -> list[str]:
    """The modules without children, in the order in which one pass first calls them."""
    modules = dict(model.named_modules())
    return list(dict.fromkeys(name for name in calls if name and not list(modules[name].children())))


def _number(text: str) -> str | int:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else text
