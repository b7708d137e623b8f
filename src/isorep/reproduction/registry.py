"""The experiments by name; a module is loaded when its experiment is asked for."""

from __future__ import annotations

from importlib import import_module

from ..errors import InputError
from .experiment import Experiment

EXPERIMENTS = {
    "classes": "classes",
    "contrastive": "contrastive",
    "deconfounding": "deconfounding",
    "disentanglement": "disentanglement",
    "layers": "layers",
    "pretrained": "pretrained",
    "slots": "slots",
    "warmup": "warmup",
    "words": "words",
}
"""Name of an experiment -> the module of this room whose ``EXPERIMENT`` it is."""


def experiment_named(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    found: Experiment = import_module(f".{EXPERIMENTS[name]}", __package__).EXPERIMENT
    return found
