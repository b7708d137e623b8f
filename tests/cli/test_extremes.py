"""Extreme matrices: every command gives the right answer or one clear refusal; no traceback, NaN or warning."""

import re

import numpy as np
import pytest

from ..data import rotation, sources

N, WIDTH = 60, 3


def pair(n=N, width=WIDTH):
    rng = np.random.default_rng(5)
    shared = sources(n, width, 3)
    x = shared @ rotation(width, 1) + 0.1 * rng.normal(size=(n, width))
    return x, 1.7 * shared @ rotation(width, 2) + 0.1 * rng.normal(size=(n, width))


def outlier(values, size):
    changed = values.copy()
    changed[7, 1] = size
    return changed


X, Y = pair()
WIDE = pair(12, 30)
CASES = {
    "1e-300": (X * 1e-300, Y * 1e-300),
    "1e300": (X * 1e300, Y * 1e300),
    "1e-30": (X * 1e-30, Y * 1e-30),
    "1e30": (X * 1e30, Y * 1e30),
    "float16": (X.astype(np.float16), Y.astype(np.float16)),
    "float32, large": ((X * 1e37).astype(np.float32), (Y * 1e37).astype(np.float32)),
    "float32, subnormal": ((X * 1e-40).astype(np.float32), (Y * 1e-40).astype(np.float32)),
    "subnormal": (X * 1e-310, Y * 1e-310),
    "offset": (X + 1e15, Y + 1e15),
    "2 rows": (X[:2], Y[:2]),
    "3 rows": (X[:3], Y[:3]),
    "5 rows": (X[:5], Y[:5]),
    "1 column": (X[:, :1], Y[:, :1]),
    "more columns than rows": WIDE,
    "equal rows": (np.full((N, WIDTH), 0.3), Y),
    "one row differs": (np.vstack([X[1:2], np.repeat(X[:1], N - 1, axis=0)]), Y),
    "outlier": (outlier(X, 1e12), Y),
    "offset of one column": (X + np.array([1e18, 0, 0]), Y),
    "largest numbers": (X / np.abs(X).max() * 2e307, Y),
    "two wide rows": pair(2, 40),
    "whole numbers": ((X * 20).astype(np.int8), (Y * 20).astype(np.int8)),
    "flags": (X > 0, Y > 0),
    "outlier, extreme": (outlier(X, 1e300), Y),
}
COMMANDS = {
    "compare": ["compare", "a.npy", "b.npy", "--null", 3, "--rungs", "identity,rigid,linear"],
    "many": ["compare", "a.npy", "b.npy", "c.npy", "--null", 3, "--rungs", "rigid,linear"],
    "similarity": ["similarity", "a.npy", "b.npy", "--permutations", 19],
    "ica": ["ica", "fit", "a.npy", "-o", "model.safetensors", "--no-resume"],
    "ica, unwhitened": ["ica", "fit", "a.npy", "-o", "model.safetensors", "--no-resume", "--whiten", "none"],
    "stability": ["ica", "stability", "a.npy", "--restarts", 2],
    "structure": ["structure", "a.npy", "b.npy", "--scores", "mcc,linear_r2,mig,sap", "--null", 0, "--resamples", 0],
    "heads": ["heads", "a.npy", "b.npy"],
    "heads and features": ["heads", "g.npy", "h.npy", "--features", "a.npy", "--other-features", "b.npy"],
    "translate": ["translate", "fit", "a.npy", "b.npy", "-o", "map.safetensors", "--maps", "rigid,linear,ridge"],
    "unpaired": ["translate", "fit", "a.npy", "b.npy", "-o", "map.safetensors", "--unpaired"],
    "blocks": ["blocks", "a.npy", "b.npy", "--null", 19],
    "dictionaries": ["dictionaries", "a.npy", "b.npy"],
    "activations": ["dictionaries", "--activations", "a.npy", "--activations", "b.npy"],
    "deconfound": [
        *("deconfound", "d.npz::z", "--label", "d.npz::label", "--batch", "d.npz::batch", "--classifiers", "logistic"),
        *("--restarts", 0, "--components", "all", "--conditions", "base"),
    ],
}  # fmt: skip

UNLIKE = (
    "heads and features",
    "deconfound",
    "ica, unwhitened",
)  # one side of a product, refused beyond float32, squared


def write(folder, x, y):
    rng = np.random.default_rng(0)
    held = {
        "a": x,
        "b": y,
        "c": x[:, ::-1] * np.exp2(np.arange(x.shape[1]) % 3).astype(x.dtype),
        "g": rng.normal(size=(8, x.shape[1])),
        "h": rng.normal(size=(8, y.shape[1])),
    }
    for name, values in held.items():
        np.save(folder / f"{name}.npy", values)
    n = len(x)
    np.savez(folder / "d.npz", z=x, label=np.arange(n) % 2, batch=np.arange(n) // 2 % 3)


@pytest.mark.parametrize("command", COMMANDS)
def test_extreme_matrices_are_answered_or_refused(isorep_command, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, X, Y)
    usual = isorep_command(*COMMANDS[command])
    assert usual.code in (0, 1), usual.err
    wrong = {}
    for name, given in CASES.items():
        write(tmp_path, *given)
        done = isorep_command(*COMMANDS[command])
        said = []
        if done.code not in (0, 1, 2):
            said.append(done.err)
        if done.code == 2 and not re.fullmatch(r"isorep: [^\n]+\n", done.err):
            said.append(f"not one sentence: {done.err!r}")
        if re.search(r"(?<![\w.])(nan|inf)(?![\w.])|\\n", done.out):
            said.append(next(line for line in done.out.splitlines() if re.search(r"nan|inf|\\n", line)))
        scaled = name in ("1e-30", "1e30", "float32, large") and command not in UNLIKE
        if scaled and done.out.split("\n\n")[0] != usual.out.split("\n\n")[0]:
            said.append(f"not as without a scale: {done.out[:300] or done.err}")
        if said:
            wrong[name] = said
    assert wrong == {}
