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
        return _from_module(model, tokenizer)
    if not isinstance(model, str | Path):
        raise InputError(f"the model is of type {type(model).__name__}: give a torch module, code or a folder")
    text = str(model)
    if names_code(text):
        torch.manual_seed(seed)  # what the weights leave out, or all of them where none are given
        module = made(imported(text), text, "model")
        if not isinstance(module, torch.nn.Module):
            raise InputError(f"{text} is not a torch module, nor does it make one")
        if weights is not None:
            with_weights(module, text, Path(weights), torch_files=True)
            return Source(module, f"{text} with {Path(weights).name}", MODULE)
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


def fingerprint(module: Any) -> str:
    """A hash of names, shapes and evenly spaced values of all weights: tells other weights, and is quick."""
    found = hashlib.sha256()
    for name, value in module.state_dict().items():
        if not hasattr(value, "detach"):
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
        return Source(module, name, MODULE)
    from .folders import context_length

    return Source(module, name, TRANSFORMER, tokenizer, context_length(module.config, tokenizer))


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
