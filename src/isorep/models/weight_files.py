"""Safetensors files of a training's weights or rows, with what decides them and the facts of the training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import replacing
from ..representation import Array


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
    with replacing(path) as temporary:
        save_file({name: np.ascontiguousarray(each) for name, each in arrays.items()}, temporary, metadata=metadata)


def read_arrays(path: Path, belongs: str, noun: str) -> tuple[dict[str, Array], dict[str, Any]] | None:
    """Arrays and facts of a file that belongs to this very training; None for a missing or a damaged one."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
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
