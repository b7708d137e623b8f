"""The networks of a run: GPTs trained here or folders of models, each as states by layer and Jacobians.

What the paper says about this experiment, and what its text leaves open.

How large each scale is: all that the text leaves open is a setting.

The text as tokens: windows to train on, and windows of held-out documents to measure on.

Small GPTs: trained once, kept in the folder of the run, read again by whatever needs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison.fits import RUNGS
from ..errors import InputError
from ..files import finite_json, replacing, write_text
from ..models.corpus import Corpus, document_windows, documents_of, parsed, split
from ..models.corpus import corpus_of as tokens_of
from ..representation import Array
from .experiment import Run

_AT_ONCE = 64  # windows that states are computed of at once, and rows of a Jacobian
_LOST = 2  # a layer norm keeps neither the mean nor the length of a state


@dataclass(frozen=True, eq=False)
class States:
    """States of a network with so many blocks, one row a token, by their place before the last."""

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


@dataclass(frozen=True, eq=False)
class Measured:
    """Windows that everything is measured on, and the document of each."""

    tokens: Array
    documents: Array

    @property
    def groups(self) -> Array:
        """The document of every token, row by row."""
        return np.repeat(self.documents, self.tokens.shape[1])


def label(place: int, layers: int) -> str:
    """The layer at a place from the end, of a network with so many blocks."""
    return "last" if place == 0 else "embedding" if place == layers else f"block {layers - place}"


def measured_windows(preset: Preset, seed: int) -> Measured:
    """As many held-out windows as the preset wants tokens."""
    if preset.models:
        given = (preset.models, preset.text, preset.characters, preset.context, preset.held_out, preset.windows)
        tokens, documents = _folder_windows(*given, seed)
    else:
        corpus = corpus_of(preset, seed)
        tokens, documents = corpus.held_out[:, :-1], corpus.documents
    count = max(preset.rows // tokens.shape[1], 2)
    chosen = np.sort(np.random.default_rng([seed, 37]).permutation(len(tokens))[:count])
    return Measured(tokens[chosen], documents[chosen])


def small_gpt(size: str, place: int, run: Run, *, trained: bool) -> tuple[Network, dict[str, Any]]:
    """A GPT of a size with the facts of its training, or the same before training."""
    corpus: Corpus = corpus_of(run.preset, run.seed)
    if trained:
        module, facts = trained_model(size, place, corpus, run)
    else:
        module, facts = untrained_model(size, seed_of(run.seed, place), corpus, run.preset), {}
    from ..models.gpt import state_jacobians

    def states(tokens: Any) -> list[Any]:
        found = module.hidden_states(tokens)
        return [*found[:-2], found[-1]]

    def jacobians(tokens: Array) -> list[Array]:
        import torch

        found = [each.numpy() for each in state_jacobians(module, torch.from_numpy(tokens))]
        return [*found[:-2], found[-1]]

    return Network(lambda tokens, places: batched_states(states, tokens, places), jacobians), facts


def folder_model(folder: str, run: Run, *, trained: bool) -> tuple[Network, dict[str, Any]]:
    """A model of a folder, or one of its architecture with random weights."""
    from ..models.batched import seeded

    module = opened(folder).module
    if not trained:
        module = seeded(
            lambda seed: type(module)(module.config), seed_of(run.seed, list(run.preset.models).index(folder))
        )
    module = module.eval().float()

    def states(tokens: Any) -> list[Any]:
        found = module(input_ids=tokens, output_hidden_states=True, use_cache=False).hidden_states
        return list(found)

    def jacobians(tokens: Array) -> list[Array]:
        shown = tokens[:, -run.preset.jacobian_context :]
        if looks_ahead(states, shown[:1]):
            raise InputError(
                f"{folder} is no causal model: its states depend on later tokens, so that no map of one token's state "
                "remains between a layer and the last; --set jacobians=0 compares its layers without that"
            )
        return row_jacobians(states, shown)

    facts = {"parameters": sum(each.numel() for each in module.parameters())}
    return Network(lambda tokens, places: batched_states(states, tokens, places), jacobians), facts


@lru_cache(maxsize=2)
def opened(folder: str) -> Any:
    """Model and tokenizer of a folder: nothing is downloaded, unpickled or run from it."""
    from ..extraction.model import open_model

    found = open_model(Path(folder).expanduser())
    if found.tokenizer is None:
        raise InputError(f"{folder} has no tokenizer: its text cannot be made of tokens")
    return found


def batched_states(states: Callable[[Any], list[Any]], tokens: Array, places: Sequence[int] = ()) -> States:
    """States at some places, a few windows at once."""
    import torch

    parts: dict[int, list[Array]] = {}
    layers = 0
    with torch.no_grad():
        for start in range(0, len(tokens), _AT_ONCE):
            found = states(torch.from_numpy(tokens[start : start + _AT_ONCE]))
            layers = len(found) - 1
            for place in [place for place in places if 0 <= place <= layers] or range(layers + 1):
                parts.setdefault(place, []).append(found[-1 - place].flatten(0, 1).float().numpy())
    return States(layers, {place: np.concatenate(each) for place, each in parts.items()})


def looks_ahead(states: Callable[[Any], list[Any]], tokens: Array) -> bool:
    """Whether the first states of a window change when its last token does."""
    import torch

    others = tokens.copy()
    others[:, -1] = np.where(tokens[:, -1] == tokens[:, 0], tokens[:, -1] == 0, tokens[:, 0])
    with torch.no_grad():
        one, other = (states(torch.from_numpy(each))[-1][:, :-1] for each in (tokens, others))
    return bool((one - other).abs().max() > 1e-4 * one.abs().max())


def row_jacobians(states: Callable[[Any], list[Any]], tokens: Array) -> list[Array]:
    """Derivatives of the last state at the last token with respect to that token's state at each layer.

    A window is repeated for every number of the last state, and one pass backward gives that number's derivatives with
    respect to all layers at once: for any network whose states are tensors that later ones are computed from.
    """
    import torch

    found: list[list[Array]] = []
    for window in torch.from_numpy(tokens):
        width = states(window[None])[-1].shape[-1]
        rows: list[list[Array]] = []
        for start in range(0, width, _AT_ONCE):
            wanted = torch.arange(start, min(start + _AT_ONCE, width))
            layers = states(window.expand(len(wanted), -1))
            value = layers[-1][torch.arange(len(wanted)), -1, wanted].sum()
            slopes = torch.autograd.grad(value, layers[:-1])
            rows.append([each[:, -1].double().numpy() for each in slopes])
        found.append([np.concatenate(layer) for layer in zip(*rows, strict=True)] + [np.eye(width)])
    return [np.stack(layer) for layer in zip(*found, strict=True)]


def constants(jacobians: list[Array]) -> list[dict[str, float]]:
    r"""What the remaining network does to directions at each layer, in the order of the layers.

    ``local`` is the median over tokens of :math:`\sqrt{\sigma_{\max}/\sigma_{\min}}`, the bi-Lipschitz constant after
    the best scale at a token, with its quantiles of 5 % and 95 %; ``similarity`` the same of the largest and the
    smallest over all tokens, and ``constant`` without any scale. The final norm loses two directions at every layer
    before it; they are left out, as nothing can identify them.
    """
    found = []
    for place, each in enumerate(jacobians):
        singular = np.linalg.svd(each, compute_uv=False)
        kept = singular if place == len(jacobians) - 1 else singular[:, :-_LOST]
        high, low = kept[:, 0], np.maximum(kept[:, -1], np.finfo(float).tiny)
        local = np.sqrt(high / low)
        quantiles = np.quantile(local, (0.5, 0.05, 0.95))
        found.append(
            {
                "local": float(quantiles[0]),
                "low": float(quantiles[1]),
                "high": float(quantiles[2]),
                "similarity": float(np.sqrt(high.max() / low.min())),
                "constant": float(max(high.max(), 1 / low.min())),
            }
        )
    return found


@lru_cache(maxsize=1)
def _folder_windows(
    models: tuple[str, ...], text: str, characters: int | None, context: int, held_out: int, windows: int, seed: int
) -> tuple[Array, Array]:
    """Held-out windows by the tokenizer that all folders share."""
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


PAPER = (
    "Roeder, Metz and Kingma, On linear identifiability of learned representations, ICML 2021, section 5.3 and Figure 4"
)

COMPONENTS = (16, 64, 256, 768)
"""Principal components of SVCCA; the last is the width of the smallest model."""

PLACES = (0, 2, 5, 8, 11)
"""Layers of the figure, as places before the last: the states numbered −1, −3, −6, −9 and −12."""

LEFT_OPEN = (
    "The text at hand gives no numbers for Figure 4. Published are the models (gpt2, medium, large and xl), about 2000 "
    "sentences with one row a token, SVCCA with 16, 64, 256 and 768 components averaged over pairs, and that the last "
    "layer is more similar than the earlier ones. Published models have one training each, so pairs differ in size; "
    "here pairs of one size are apart from those of two."
)


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    models : tuple of str
        Folders of models of the transformers library with one tokenizer; nothing is trained if there are any.
    sizes : tuple of str
        Small GPTs to train, as ``WIDTHxLAYERS``.
    seeds : int
        Trainings of every size; all pairs of a size are compared, and seed by seed those of two sizes.
    heads, context : int
        Of attention; tokens that are seen at once.
    text : str
        A text file or a folder of them; by default the prose of Python's standard library.
    characters : int or None
        Of the text at most.
    vocabulary : int
        Tokens: bytes and learnt pairs.
    held_out : int
        Documents that are not trained on; on them everything is measured.
    windows : int
        Stretches of ``context`` tokens of each held-out document at most.
    steps, batch, learning_rate, warmup
        AdamW with weight decay 0.1, gradients clipped to norm 1, the rate rising for ``warmup`` steps and then falling
        as a cosine.
    rows : int
        Tokens that layers are compared on, at most.
    components : tuple of int
        Of SVCCA.
    places : tuple of int
        Layers to compare, as places before the last: 0 is the last. All of them if empty.
    rungs : tuple of str
        Of the ladder.
    n_null, n_boot : int
        Shuffled pairings, and draws for the interval of an error.
    jacobians : int
        Tokens at which the constants of the remaining network are measured; 0 for none.
    jacobian_context : int
        Tokens before each of them at most, for model folders.
    control : bool
        Whether networks as they were before training are compared, too.
    threads : int
        Of torch; 0 leaves them as they are.
    """

    models: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ("64x4", "96x6")
    seeds: int = 4
    heads: int = 4
    context: int = 64
    text: str = ""
    characters: int | None = None
    vocabulary: int = 512
    held_out: int = 60
    windows: int = 4
    steps: int = 1_200
    batch: int = 16
    learning_rate: float = 2e-3
    warmup: int = 50
    rows: int = 4_000
    components: tuple[int, ...] = (4, 16, 32, 64)
    places: tuple[int, ...] = ()
    rungs: tuple[str, ...] = RUNGS
    n_null: int = 5
    n_boot: int = 200
    jacobians: int = 32
    jacobian_context: int = 16
    control: bool = True
    threads: int = 0


SCALES = {
    "smoke": Preset(
        sizes=("24x2", "32x3"),
        seeds=2,
        context=32,
        characters=700_000,
        vocabulary=320,
        held_out=16,
        steps=60,
        batch=8,
        learning_rate=1e-2,
        warmup=10,
        rows=900,
        components=(4, 12, 24),
        jacobians=6,
        n_boot=50,
        n_null=3,
    ),
    "laptop": Preset(threads=2),
    "paper": Preset(
        sizes=("256x6", "384x12"),
        seeds=3,
        heads=8,
        context=256,
        vocabulary=4_096,
        steps=20_000,
        batch=32,
        learning_rate=1e-3,
        warmup=500,
        rows=20_000,
        components=COMPONENTS,
        places=PLACES,
        n_null=20,
        n_boot=1_000,
        jacobians=16,
        threads=2,
    ),
}


def corpus_of(preset: Preset, seed: int) -> Corpus:
    """The tokens of a preset's text."""
    return tokens_of(
        preset.text, preset.characters, preset.vocabulary, preset.context, preset.held_out, preset.windows, seed
    )


FOLDER = "models"
_DECISIVE = (
    "heads", "context", "text", "characters", "vocabulary", "held_out", "steps", "batch", "learning_rate", "warmup"
)  # fmt: skip


def trained_model(size: str, place: int, corpus: Corpus, run: Run) -> tuple[Any, dict[str, Any]]:
    """A trained GPT in evaluation mode with the facts of its training: read from the run's folder if it is there."""
    seed = seed_of(run.seed, place)
    belongs = _belongs(size, seed, corpus, run)
    path = None if run.folder is None else run.folder / FOLDER / f"{size}-{place}.safetensors"
    kept = None if path is None else _kept(path, belongs)
    if kept is not None:
        module = untrained_model(size, seed, corpus, run.preset)
        module.load_state_dict(kept[0])
        return module.eval(), kept[1]
    module, facts = _train(size, place, corpus, run)
    if path is not None:
        _keep(path, module, belongs, facts, corpus)
    return module, facts


def untrained_model(size: str, seed: int, corpus: Corpus, preset: Preset) -> Any:
    """The network as training begins with it."""
    from ..models.batched import seeded

    return seeded(lambda _: _built(size, corpus, preset), seed).eval()


def seed_of(seed: int, place: int) -> int:
    """The seed of a training: the same for all sizes."""
    return int(np.random.SeedSequence([seed, 41, place]).generate_state(1)[0])


def _built(size: str, corpus: Corpus, preset: Preset) -> Any:
    from ..models import GPT

    width, layers = parsed(size)
    return GPT(corpus.pairs.vocabulary, width, layers, preset.heads, preset.context)


def _train(size: str, place: int, corpus: Corpus, run: Run) -> tuple[Any, dict[str, Any]]:
    from ..models import Group, Recipe, Schedule, next_token_loss, train

    preset: Preset = run.preset
    found = train(
        lambda _: _built(size, corpus, preset),
        corpus.train,
        next_token_loss,
        Recipe(
            steps=preset.steps,
            batch=preset.batch,
            groups=Group("adamw", preset.learning_rate, options={"weight_decay": 0.1}, clip_norm=1.0),
            schedule=Schedule("cosine", warmup=preset.warmup),
            record_every=max(preset.steps // 5, 1),
        ),
        seed=seed_of(run.seed, place),
        validation=corpus.held_out,
        checkpoint=None if run.scratch is None else run.scratch / f"{size}-{place}.safetensors",
        progress=run.progress,
    )
    history = found.history
    return found.module, {
        "loss": history.training[-1],
        "held_out_loss": history.validation[-1],
        "steps": history.steps[-1],
        "parameters": sum(each.numel() for each in found.module.parameters()),
    }


def _belongs(size: str, seed: int, corpus: Corpus, run: Run) -> str:
    """What decides the weights, as text."""
    settings = asdict(run.preset)
    return json.dumps({"size": size, "seed": seed, "text": corpus.digest} | {key: settings[key] for key in _DECISIVE})


def _keep(path: Path, module: Any, belongs: str, facts: dict[str, Any], corpus: Corpus) -> None:
    from safetensors.torch import save_file

    path.parent.mkdir(exist_ok=True)
    weights = {name: value.detach().contiguous().clone() for name, value in module.state_dict().items()}
    with replacing(path) as temporary:
        save_file(weights, temporary, metadata={"belongs": belongs, "facts": json.dumps(facts)})
    write_text(path.parent / "tokens.json", finite_json({"merges": corpus.pairs.merges}))


def _kept(path: Path, belongs: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Weights and facts of a file that is of this very training; a damaged one is made anew."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            known = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(known.get("facts", "null"))
    except (SafetensorError, ValueError):
        return None
    if known.get("belongs") != belongs:
        raise InputError(f"{path} holds weights of another training: name another folder with --out")
    return (weights, facts) if isinstance(facts, dict) else None
