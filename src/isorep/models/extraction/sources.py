"""Models to extract from: a torch module, code that makes one, or a folder of the transformers library."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError, MissingFileError
from ..loading import first_line, import_torch, imported, made, names_code, with_weights

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
        find = getattr(self.module, "get_input_embeddings", None)
        try:
            found = None if find is None else find()
        except (NotImplementedError, AttributeError):
            found = None
        return getattr(found, "num_embeddings", None)


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
    if compute not in COMPUTE:
        raise InputError(f"compute is {compute!r}; known are {', '.join(COMPUTE)}")
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
        if weights is not None:
            with_weights(module, text, Path(weights), torch_files=True)
            return Source(_readable(module, text), f"{text} with {Path(weights).name}", MODULE)
        _readable(module, text)
        return Source(module, text, MODULE, notes=(f"{text} came without --weights, so it is as its code makes it",))
    if weights is not None:
        raise InputError(f"--weights is for models that come from code, as package.module:factory, not for {text}")
    path = Path(model)
    if not path.exists():
        raise MissingFileError(
            f"{path} does not exist: name a local folder, or code as package.module:factory; nothing is downloaded"
        )
    if not path.is_dir():
        raise InputError(_refusal(path))
    from .folders import load_folder

    return load_folder(path, allow_torch_weights, single=compute == "float32")


def device_named(name: str) -> Any:
    """A device that is there; ``auto`` takes the fastest."""
    torch = import_torch("extraction")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device("cuda" if there["cuda"] else "mps" if there["mps"] else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is not known to torch: {first_line(error)}") from None
    if not there.get(device.type, True):
        raise InputError(f"device {name!r} is not there: this torch sees no {device.type}")
    return device


@contextmanager
def evaluating(module: Any, device: Any) -> Iterator[None]:
    """The model in evaluation mode, without gradients, on a device; afterwards every module is as it was."""
    torch = import_torch("extraction")
    modes = [(each, each.training) for each in module.modules()]
    first = next(iter([*module.parameters(), *module.buffers()]), None)
    home = None if first is None else first.device
    moved = home is not None and home != device
    try:
        module.eval()
        if moved:
            module.to(device)
        with torch.inference_mode():
            yield
    finally:
        if moved:
            module.to(home)
        for each, mode in modes:
            each.training = mode


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
            return (
                f"knows the tokens 0 to {known - 1}, and there is a token {strange[0]}: the tokenizer is not that of "
                "the model, or it is padding (--pad)"
            )
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
    found = hashlib.sha256()
    random = tuple(f"{name}." for name in source.made_up)
    for name, value in source.module.state_dict().items():
        if not hasattr(value, "detach") or name.startswith(random):
            continue
        found.update(f"{name} {tuple(value.shape)} {value.dtype};".encode())
        flat = value.detach().reshape(-1)
        step = max(1, -(-len(flat) // _SAMPLED))
        found.update(repr(flat[::step].cpu().double().tolist()).encode())
    return found.hexdigest()


def _from_module(module: Any, tokenizer: Any) -> Source:
    name = type(module).__name__
    library = sys.modules.get("transformers")
    if library is None or not isinstance(module, library.PreTrainedModel):
        if tokenizer is not None:
            raise InputError("a tokenizer is for models of the transformers library: give token ids to others")
        return Source(_readable(module, name), name, MODULE)
    from .folders import context_length

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
