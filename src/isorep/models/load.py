"""Models from code (``package.module:name``), and weights as safetensors files, which are read without unpickling."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, MissingFileError
from ..files import replacing, require_regular, require_short_header
from ..representation import Array
from .evaluation import first_line, import_torch, said

_IMPORT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_TORCH_FILES = (".pt", ".pth", ".bin")

__all__ = ["code_files", "first_line", "imported", "made", "names_code", "with_weights"]


def names_code(text: str) -> bool:
    """Whether a text is ``package.module:name`` and not a file."""
    return _IMPORT.fullmatch(text) is not None and not Path(text).exists()


def code_files(text: str) -> list[Path]:
    """The files that ``package.module:name`` is read from, found without running them."""
    if not names_code(text):
        return []
    found: list[Path] = []
    folders: Any = [str(Path.cwd()), *sys.path]
    for name in text.partition(":")[0].split("."):
        spec = PathFinder.find_spec(name, folders)
        if spec is None:
            break
        if spec.has_location and spec.origin is not None:
            found.append(Path(spec.origin))
        folders = spec.submodule_search_locations or []
    return found


def imported(text: str) -> Any:
    """The object named by ``package.module:name``; modules are also searched for in the current folder."""
    home, _, attribute = text.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        named: Any = importlib.import_module(home)
    except ModuleNotFoundError as error:
        if error.name is not None and (home == error.name or home.startswith(f"{error.name}.")):
            raise InputError(f"there is no module {home!r} to import, here or among what is installed") from None
        raise InputError(f"{home} cannot be imported: {first_line(error)}") from error
    except (Exception, SystemExit) as error:  # the user's code
        raise InputError(f"{home} cannot be imported: {said(error)}") from error
    finally:
        if here in sys.path:
            sys.path.remove(here)
    for name in attribute.split("."):
        if not hasattr(named, name):
            raise InputError(f"{home} has no {attribute!r}")
        named = getattr(named, name)
    return named


def made(named: Any, text: str, noun: str) -> Any:
    """A module or a function of a batch, made by calling its factory."""
    torch = import_torch(f"a {noun}")
    if isinstance(named, torch.nn.Module):
        return named
    if not callable(named):
        raise InputError(f"{text} is of type {type(named).__name__}, not a {noun} or a function that makes one")
    if not _takes_nothing(named):
        if not inspect.isclass(named):
            return named
        raise InputError(f"{text} cannot be called without arguments: name a function that makes the {noun}")
    try:
        result = named()
    except (Exception, SystemExit) as error:  # the user's code
        raise InputError(f"{text} fails: {said(error)}") from error
    if not callable(result):
        raise InputError(f"{text} makes an object of type {type(result).__name__}, not a {noun}")
    return result


def with_weights(module: Any, text: str, path: Path, *, torch_files: bool = False) -> Any:
    """A module from code with the parameters of a safetensors file.

    With ``torch_files`` also those of a file that ``torch.save`` wrote, if it holds a flat dict of tensors and nothing
    else: it is read by ``weights_only``.
    """
    torch = import_torch("a model")
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"{text} is not a torch module, so it has no parameters to load from {path}")
    if not path.exists():
        raise MissingFileError(f"{path} does not exist")
    require_regular(path)
    tensors = _stored(path, torch_files)
    try:
        module.load_state_dict(tensors | _tied(module, tensors))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        why = _prefixed(module, tensors) or " ".join(lines[1:3])[:300]
        raise InputError(f"{path} does not fit {text}: {why}") from error
    return module


def _stored(path: Path, torch_files: bool) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from ..storage.torch_files import read_tensors

    try:
        if path.suffix.lower() in _TORCH_FILES and torch_files:
            return read_tensors(path)
        if path.suffix.lower() == ".safetensors":
            require_short_header(path)
            return dict(load_file(path))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a safetensors file, or it is damaged: {first_line(error)}") from error
    raise InputError(f"{path} is not a safetensors file: save weights with safetensors.torch.save_file")


def _tied(module: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """Weights that a file leaves out because the module shares them with weights that it has."""
    names: dict[int, list[str]] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        names.setdefault(id(value), []).append(name)
    shared = [(same, [name for name in same if name in tensors]) for same in names.values()]
    return {name: tensors[stored[0]] for same, stored in shared if stored for name in same if name not in tensors}


def _prefixed(module: Any, tensors: dict[str, Any]) -> str | None:
    """A hint for weights saved from a wrapper of the module: DataParallel, a compiled or outer module."""
    wanted = set(module.state_dict())
    one = max(wanted, key=len, default="")
    for start in sorted((name.removesuffix(one) for name in tensors if name.endswith(f".{one}")), key=len):
        if {f"{start}{name}" for name in wanted} <= set(tensors):
            around = f"its names begin with {start!r}, as those of a module around it do, such as DataParallel"
            return f"{around}: save the state_dict() of the module inside"
    return None


def _takes_nothing(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # a class without a signature, as some in C have
        return inspect.isclass(function)
    return True


def weights_of(module: Any) -> dict[str, Array]:
    """The state of a torch module as arrays."""
    return {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}


def write_arrays(
    path: Path, arrays: Mapping[str, Array], belongs: str = "", facts: Mapping[str, Any] | None = None
) -> None:
    """Write the file, and the folder that it is in."""
    from safetensors.numpy import save_file

    path.parent.mkdir(exist_ok=True)
    metadata = {"belongs": belongs, "facts": json.dumps(facts)} if belongs else None
    with replacing(path, apart=True) as temporary:
        save_file({name: np.ascontiguousarray(each) for name, each in arrays.items()}, temporary, metadata=metadata)


def read_arrays(path: Path, belongs: str, noun: str) -> tuple[dict[str, Array], dict[str, Any]] | None:
    """Arrays and facts of a file that belongs to this very training; None for a missing or a damaged one."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    require_regular(path)
    require_short_header(path)
    try:
        with safe_open(path, "np") as file:
            known = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(known.get("facts", "null"))
    except (SafetensorError, ValueError):
        return None
    if known.get("belongs") != belongs:
        raise InputError(f"{path} holds {noun}: name another folder with --out")
    return (arrays, facts) if isinstance(facts, dict) else None
