"""States of language models by layer, as arrays, and Jacobians of the remaining network.

Small GPTs and folders of the transformers library alike; torch is loaded with the first request for states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..representation import Array
from . import evaluation  # torch, on demand
from .corpus import document_windows, documents_of, split

_AT_ONCE = 256
_WINDOWS = 64  # windows that states are computed of at once, and rows of a Jacobian
_LOST = 2  # a layer norm keeps neither the mean nor the length of a state


@dataclass(frozen=True, eq=False)
class States:
    """States of a network, one row per token, by their place before the last."""

    layers: int
    at: dict[int, Array]


@dataclass(frozen=True, eq=False)
class Network:
    """A language model: states of the embedding, of every block but the last, and the last.

    The last is the state after the final norm, which the head multiplies. ``states(tokens, places)`` are those at some
    places before the last, at all of them if none are named; ``jacobians(tokens)`` derivatives of the last with respect
    to each, in their order, at the last of the tokens.
    """

    states: Callable[[Array, Sequence[int]], States]
    jacobians: Callable[[Array], list[Array]]


def gpt_network(module: Any) -> Network:
    """A GPT of this package."""
    from .gpt import state_jacobians

    def states(tokens: Any) -> list[Any]:
        *before, _, last = module.hidden_states(tokens)
        return [*before, last]

    def jacobians(tokens: Array) -> list[Array]:
        *before, _, last = (each.numpy() for each in state_jacobians(module, evaluation.torch.from_numpy(tokens)))
        return [*before, last]

    return Network(lambda tokens, places: batched_states(states, tokens, places), jacobians)


def folder_network(folder: str, seed: int | None, context: int) -> tuple[Network, int]:
    """A model of a folder and its number of parameters, or with a seed one of its architecture with random weights.

    Jacobians are those with so many tokens of context.
    """
    from .batched import seeded

    module = opened(folder).module
    if seed is not None:
        module = seeded(lambda _: type(module)(module.config), seed)
    module = module.eval().float()

    def states(tokens: Any) -> list[Any]:
        return list(module(input_ids=tokens, output_hidden_states=True, use_cache=False).hidden_states)

    def jacobians(tokens: Array) -> list[Array]:
        shown = tokens[:, -context:]
        if looks_ahead(states, shown[:1]):
            why = "its states depend on later tokens, so that no map of one token's state remains"
            raise InputError(f"{folder} is no causal model: {why}; --set jacobians=0 compares its layers without that")
        return row_jacobians(states, shown)

    count = sum(each.numel() for each in module.parameters())
    return Network(lambda tokens, places: batched_states(states, tokens, places), jacobians), count


@lru_cache(maxsize=2)
def opened(folder: str) -> Any:
    """Model and tokenizer of a folder: nothing is downloaded, unpickled or run from it."""
    from ..extraction.model import open_model

    model = open_model(Path(folder).expanduser())
    if model.tokenizer is None:
        raise InputError(f"{folder} has no tokenizer: its text cannot be made of tokens")
    return model


@lru_cache(maxsize=1)
def folder_windows(
    models: tuple[str, ...], text: str, characters: int | None, context: int, held_out: int, windows: int, seed: int
) -> tuple[Array, Array]:
    """Held-out windows by the tokenizer that all folders share, and the document of each."""
    _, others = split(documents_of(text, characters), held_out, 4 * context, seed)
    first: list[Array] | None = None
    for folder in models:
        source = opened(folder)
        if source.context is not None and source.context < context:
            raise InputError(f"{folder} takes {source.context} tokens at once, and context is {context}: set it lower")
        coded = [_tokens(source.tokenizer, each.text) for each in others]
        if first is None:
            first = coded
        elif any(not np.array_equal(a, b) for a, b in zip(first, coded, strict=True)):
            raise InputError(f"{folder} and {models[0]} cut text into other tokens: rows cannot be paired")
    return document_windows(first or [], context, windows)


def _tokens(tokenizer: Any, text: str) -> Array:
    """Tokens of a text, line by line: whole documents are longer than tokenizers like to be given."""
    lines = tokenizer(text.splitlines(keepends=True), add_special_tokens=False)["input_ids"]
    return np.array([token for line in lines for token in line], dtype=np.int64)


def batched_states(states: Callable[[Any], list[Any]], tokens: Array, places: Sequence[int] = ()) -> States:
    """States at some places, a few windows at once; at all places if none are named."""
    with evaluation.torch.no_grad():
        layers = len(states(evaluation.torch.from_numpy(tokens[:1]))) - 1
    wanted = [depth for depth in places if 0 <= depth <= layers] or list(range(layers + 1))

    def chosen(part: Any) -> list[Any]:
        by_layer = states(part)
        return [by_layer[-1 - depth].flatten(0, 1) for depth in wanted]

    return States(layers, dict(zip(wanted, batched_outputs(chosen, tokens, _WINDOWS), strict=True)))


def batched_outputs(outputs: Callable[[Any], Sequence[Any]], inputs: Array, at_once: int = _AT_ONCE) -> list[Array]:
    """Outputs of all inputs as float32 rows, computed for a part of the inputs at a time."""
    parts = []
    with evaluation.torch.no_grad():
        for start in range(0, len(inputs), at_once):
            batch = outputs(evaluation.torch.from_numpy(inputs[start : start + at_once]))
            parts.append([each.float().numpy() for each in batch])
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def looks_ahead(states: Callable[[Any], list[Any]], tokens: Array) -> bool:
    """Whether the first states of a window change when its last token does."""
    others = tokens.copy()
    others[:, -1] = np.where(tokens[:, -1] == tokens[:, 0], tokens[:, -1] == 0, tokens[:, 0])
    with evaluation.torch.no_grad():
        one, other = (states(evaluation.torch.from_numpy(each))[-1][:, :-1] for each in (tokens, others))
    return bool((one - other).abs().max() > 1e-4 * one.abs().max())


def row_jacobians(states: Callable[[Any], list[Any]], tokens: Array) -> list[Array]:
    """Derivatives of the last state at the last token with respect to that token's state at each layer.

    A window is repeated for every number of the last state, and one pass backward gives that number's derivatives with
    respect to all layers at once: for any network whose states are tensors that later ones are computed from.
    """
    windows: list[list[Array]] = []
    for window in evaluation.torch.from_numpy(tokens):
        width = states(window[None])[-1].shape[-1]
        rows: list[list[Array]] = []
        for start in range(0, width, _WINDOWS):
            wanted = evaluation.torch.arange(start, min(start + _WINDOWS, width))
            layers = states(window.expand(len(wanted), -1))
            value = layers[-1][evaluation.torch.arange(len(wanted)), -1, wanted].sum()
            slopes = evaluation.torch.autograd.grad(value, layers[:-1])
            rows.append([each[:, -1].double().numpy() for each in slopes])
        windows.append([np.concatenate(layer) for layer in zip(*rows, strict=True)] + [np.eye(width)])
    return [np.stack(layer) for layer in zip(*windows, strict=True)]


def constants(jacobians: list[Array]) -> list[dict[str, float]]:
    r"""Bi-Lipschitz constants of the remaining network at each layer, in the order of the layers.

    ``local`` is the median over tokens of :math:`\sqrt{\sigma_{\max}/\sigma_{\min}}`, the bi-Lipschitz constant after
    the best scale at a token, with its quantiles of 5% and 95%; ``similarity`` the same of the largest and the
    smallest over all tokens, and ``constant`` without any scale. The final norm loses two directions at every layer
    before it; they are left out, as nothing can identify them.
    """
    by_layer = []
    for layer, each in enumerate(jacobians):
        singular = np.linalg.svd(each, compute_uv=False)
        kept = singular if layer == len(jacobians) - 1 else singular[:, :-_LOST]
        high, low = kept[:, 0], np.maximum(kept[:, -1], np.finfo(float).tiny)
        quantiles = np.quantile(np.sqrt(high / low), (0.5, 0.05, 0.95)).tolist()
        similarity, constant = float(np.sqrt(high.max() / low.min())), float(max(high.max(), 1 / low.min()))
        values = (*quantiles, similarity, constant)
        by_layer.append(dict(zip(("local", "low", "high", "similarity", "constant"), values, strict=True)))
    return by_layer
