"""The toy experiment in the place of the published ones."""

from __future__ import annotations

import pytest

from isorep.reproduction import runner

from . import toy


@pytest.fixture
def toy_done(monkeypatch):
    """``reproduce`` runs the toy; returns the list of keys that were run."""
    monkeypatch.setattr(runner, "experiment_named", lambda name: toy.TOY)
    toy.DONE.clear()
    return toy.DONE
