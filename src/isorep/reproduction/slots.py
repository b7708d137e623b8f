"""Slots (experiments of mechanistic independence): is each true slot recovered, and up to which overlap?

Autoencoders of outputs that several slots write, trained with and without a penalty on shared outputs. A unit is all
seeds of one setting, trained as one program. Everything the paper leaves open is a setting.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..datasets.slots import SlotGenerator, slot_generator
from ..errors import InputError
from ..ica import ICA
from ..representation import Array
from ..structure import slot_identifiability
from .experiment import Experiment, Outcome, Plan, Run, Unit, by_scale, scaled
from .outcomes import adam_recipe, seeds_from, threads


@dataclass(frozen=True)
class Condition:
    """A way to train.

    Attributes
    ----------
    words, short : str
        Its names in a table, and in a figure.
    loss : str
        Loss added to the reconstruction; empty for none.
    additive, smooth : bool
        Whether the decoder is additive, and the activation smooth.
    stages : tuple of (float, float)
        Shares of all steps, and the factor of λ in them.
    regroup : bool
        Whether slots exchange directions after every stage where that lowers the contrast.
    """

    words: str
    short: str
    loss: str = ""
    additive: bool = False
    smooth: bool = False
    stages: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    regroup: bool = False


_WARM = ((1 / 3, 0.0), (2 / 3, 1.0))

CONDITIONS = {
    "plain": Condition("reconstruction alone", "reconstruction"),
    "contrast": Condition("contrast", "contrast", "contrast"),
    "additive": Condition("additive decoder", "additive", additive=True),
    "warm": Condition("contrast, warm-up of λ: a third without", "warm-up", "contrast", stages=_WARM),
    "cooled": Condition(
        "contrast, λ a hundredth in the last third", "cooled", "contrast", stages=((2 / 3, 1.0), (1 / 3, 0.01))
    ),
    "unit": Condition("contrast at unit spread of the latents", "unit spread", "unit"),
    "regrouped": Condition(
        "contrast at unit spread, slots regrouped", "regrouped", "unit", stages=((1 / 3, 1.0),) * 3, regroup=True
    ),
    "unit_warm": Condition(
        "contrast at unit spread, warm-up of λ: a third without", "unit spread, warm-up", "unit", stages=_WARM
    ),
    "scaled": Condition("contrast of norms over their mean, free of scale", "free of scale", "scaled"),
    "sparsity": Condition("l1 sparsity of the Jacobian", "l1 sparsity", "sparsity"),
    "orthogonal": Condition("orthogonal columns of the Jacobian (IMA)", "orthogonal (IMA)", "orthogonal"),
    "hessian": Condition("cross-Hessian, smooth network", "cross-Hessian", "hessian", smooth=True),
    "additive_contrast": Condition("contrast, additive decoder", "additive, contrast", "contrast", additive=True),
    "restarts": Condition("contrast at unit spread, restarts", "restarts, mean", "unit"),
}


def parsed(text: str) -> tuple[str, float]:
    """Name and λ of ``name@strength``."""
    name, _, strength = text.partition("@")
    try:
        value = float(strength)
    except ValueError:
        value = -1.0
    if name not in CONDITIONS or not CONDITIONS[name].loss or not 0 < value < float("inf"):
        known = ", ".join(key for key, each in CONDITIONS.items() if each.loss)
        raise InputError(f"{text!r} is not name@strength with a strength above 0 and a name of {known}")
    return name, value


def loss_of(kind: str, strength: float, blocks: Sequence[Sequence[int]]) -> Callable[[Any, Any], Any]:
    """Mean squared error of a number and λ times the loss, with both as parts."""
    from torch.nn.functional import mse_loss

    from ..decoder.mechanism import losses

    def plain(module: Any, batch: Any) -> Any:
        return mse_loss(module(batch), batch)

    def penalised(module: Any, batch: Any) -> Any:
        latents = module.encoder(batch)
        if kind == "hessian":
            outputs = module.decoder(latents)
            added = losses.cross_hessian_penalty(module.decoder, latents, blocks, probes=None)
        else:
            outputs, jacobian = module.decoder.with_jacobian(latents)
            if kind == "unit":  # latents that grow would shrink the contrast, and leave slots as mixed as they are
                jacobian = jacobian * latents.std(0)
            if kind in ("sparsity", "orthogonal"):
                penalty = losses.jacobian_sparsity if kind == "sparsity" else losses.ima_contrast
                added = penalty(module.decoder, latents, jacobian=jacobian)
            else:
                weighting = "image" if kind == "scaled" else None
                added = losses.compositional_contrast(
                    module.decoder, latents, blocks, weighting=weighting, jacobian=jacobian
                )
        lost = mse_loss(outputs, batch)
        return {"loss": lost + strength * added, "reconstruction": lost, "penalty": added}

    return penalised if kind and strength else plain


_JACOBIANS = 256  # examples at which derivatives are taken
_ICA_ROWS = 20_000


@dataclass(frozen=True)
class Examples:
    """True latents and outputs: to train on, and others to score."""

    latents: Array
    outputs: Array
    test_latents: Array
    test_outputs: Array


def examples(generator: SlotGenerator, law: str, rows: int, test_rows: int, seed: int) -> Examples:
    """Examples of one law, in single precision for the network."""
    if law == "uniform":
        latents = np.random.default_rng([seed, 3]).uniform(-(3**0.5), 3**0.5, (rows + test_rows, generator.d))
    else:
        latents = generator.sample(rows + test_rows, dependent=law == "dependent", random_state=seed)
    outputs = generator(latents).astype(np.float32)
    return Examples(latents[:rows], outputs[:rows], latents[rows:], outputs[rows:])


def measure(trained: Any, generator: SlotGenerator, given: Examples) -> dict[str, Any]:
    """SIS, reconstruction and derivatives of one training."""
    history = trained.history
    facts: dict[str, Any] = {
        "seed": trained.seed,
        "ended": trained.ended,
        "loss": history.training[-1],
        "reconstruction_training": history.parts.get("reconstruction", history.training)[-1],
        "penalty": history.parts["penalty"][-1] if "penalty" in history.parts else None,
        "sis": None,
    }
    if trained.ended == "diverged":
        return facts
    found, score = followed(trained.module, generator, given)
    return facts | {
        **found,
        "on": float(score.on.mean()),
        "off": float(score.off.mean()),
        "r2": score.r2.tolist(),
        "matches": list(score.matches),
        "own": own_share(trained.module, generator, given),
    }


def followed(module: Any, generator: SlotGenerator, given: Examples) -> tuple[dict[str, float], Any]:
    """SIS, the error relative to the variance and the size of the latents, at any step; and the whole score."""
    latents = encoded(module, given.test_outputs)
    lost = decoded(module, latents) - given.test_outputs
    score = slot_identifiability(given.test_latents, latents, slots=list(generator.dimensions))
    return {
        "sis": score.value,
        "error": float((lost**2).mean() / given.test_outputs.var()),
        "size": float(np.sqrt((latents**2).mean())),
    }, score


def unmixed(trained: Any, generator: SlotGenerator, given: Examples, seed: int) -> dict[str, float | None]:
    """SIS of the latents as they are, of independent components and of a random rotation, grouped knowing the truth."""
    if trained.ended == "diverged":
        return {"grouped": None, "ica": None, "rotated": None}
    train, test = (encoded(trained.module, part) for part in (given.outputs[:_ICA_ROWS], given.test_outputs))
    with warnings.catch_warnings():  # Gaussian latents have no independent components, as intended here
        warnings.simplefilter("ignore")
        ica = ICA(random_state=seed).fit(train)
    components = ica.transform(test)
    turned = np.linalg.qr(np.random.default_rng([seed, 5]).normal(size=(components.shape[1],) * 2))[0]
    sides = {"grouped": test, "ica": components, "rotated": components @ turned}
    return {name: grouped_sis(side, given.test_latents, generator.dimensions) for name, side in sides.items()}


def ceiling(generator: SlotGenerator, given: Examples) -> float:
    """SIS of the true latents: below 1 where slots are dependent, and because of the ridge penalty."""
    sizes = list(generator.dimensions)
    return slot_identifiability(given.test_latents, given.test_latents, slots=sizes).value


def grouped_sis(components: Array, latents: Array, sizes: Sequence[int]) -> float | None:
    """SIS of single components, each assigned to the true slot that explains it best: the best possible choice."""
    if components.shape[1] != sum(sizes):  # a collapsed autoencoder has fewer components than latents
        return None
    told = slot_identifiability(components, latents, slots=list(sizes), factor_slots=[1] * components.shape[1]).r2
    places = np.repeat(np.arange(len(sizes)), sizes)
    chosen, seats = linear_sum_assignment(-told[:, places])
    order = np.empty(len(places), dtype=int)
    order[seats] = chosen
    return slot_identifiability(latents, components[:, order], slots=list(sizes)).value


def own_share(module: Any, generator: SlotGenerator, given: Examples) -> float:
    r"""Share of an inferred slot's derivatives due to one true slot, independent of the latents' distribution.

    With :math:`h=\text{encoder}\circ g`, the mean over samples and slots of
    :math:`\|D_{\pi(j)}h_j\|^2/\|Dh_j\|^2`, true latents in units of their spread: 1 if every inferred slot is a
    function of one true slot, 1/K if slots are fully mixed.
    """
    import torch

    latents, outputs = given.test_latents[:_JACOBIANS], given.test_outputs[:_JACOBIANS]
    with torch.no_grad():
        inner = module.encoder.with_jacobian(torch.from_numpy(outputs))[1].double().numpy()
    whole = inner @ generator.jacobian(latents) * given.test_latents.std(0)
    blocks = generator.blocks
    squares = np.stack(
        [np.stack([(whole[:, own][:, :, part] ** 2).sum((1, 2)) for part in blocks], -1) for own in blocks], 1
    )
    shares = (squares / np.maximum(squares.sum(-1, keepdims=True), 1e-300)).mean(0)
    rows, columns = linear_sum_assignment(-shares)
    return float(shares[rows, columns].mean())


def encoded(module: Any, outputs: Array) -> Array:
    """Inferred latents in double precision."""
    import torch

    with torch.no_grad():
        return np.asarray(module.encoder(torch.from_numpy(outputs)).double().numpy())


def decoded(module: Any, latents: Array) -> Array:
    """Outputs again."""
    import torch

    with torch.no_grad():
        return np.asarray(module.decoder(torch.from_numpy(latents.astype(np.float32))).numpy())


LAWS = {"normal": "normal latents", "dependent": "dependent latents", "uniform": "uniform latents"}
BEYOND = (
    "warm@1", "cooled@1", "unit_warm@0.003", "scaled@0.001", "sparsity@0.001", "orthogonal@0.001",
    "additive_contrast@0.01", "restarts@0.003",
)  # fmt: skip


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    slots : tuple of int
        Numbers of slots of the published sweep.
    overlaps : tuple of int
        Outputs that neighbours share, of ``window``.
    failing : tuple of int
        Further overlaps for two slots, towards the point where the criteria themselves fail.
    strengths : tuple of float
        λ of the contrast; 0 (reconstruction alone) is always run, too.
    unit_strengths : tuple of float
        λ of the contrast at unit spread of the latents, which cannot shrink by larger latents; alone, and with slots
        that exchange directions between stages of the training.
    laws : tuple of str
        Distributions of latents: ``normal`` (published), ``dependent`` (normal with a Wishart covariance),
        ``uniform`` (independent and not Gaussian: where ICA has something to find).
    law_slots, law_overlaps : tuple of int
        Slots and overlaps at which laws other than normal are run.
    law_strengths : tuple of float
        λ of the contrast there; at unit spread it is as above.
    additive_overlaps : tuple of int
        Overlaps at which additive decoders are run, for every number of slots.
    beyond : tuple of str
        Methods that may keep SIS high where the contrast fails, as ``name@strength``.
    beyond_slots, beyond_overlaps : tuple of int
        Slots and overlaps at which these are run.
    seeds : int
        Trainings of every setting, in one program.
    restarts : int
        Trainings of which the one with the lowest training loss is taken.
    restart_seeds : int
        Trainings of the setting ``restarts``; all groups of ``restarts`` in turn are chosen from.
    dimension, window : int
        Latents and outputs of a slot.
    rows, test_rows : int
        Examples to train on, and others to score.
    steps, batch, learning_rate, schedule
        Adam; ``step`` divides the rate by ten at half of the steps, as published.
    traced : int
        Number of times, evenly spaced, at which SIS is measured during training; 0 for the end alone.
    high : float
        SIS above which slots count as found.
    threads : int
        Number of torch threads while training; 0 leaves the setting unchanged.
    """

    slots: tuple[int, ...] = scaled((2,), (2, 3), (2, 3, 5))
    overlaps: tuple[int, ...] = scaled((0, 8), (0, 4, 8), (0, 2, 4, 6, 8, 10))
    failing: tuple[int, ...] = scaled((), (), (12, 14, 16, 17, 18, 19))
    strengths: tuple[float, ...] = scaled((1.0,), (0.01, 1.0), (0.01, 1.0))
    unit_strengths: tuple[float, ...] = (0.003,)
    laws: tuple[str, ...] = scaled(("normal", "dependent"), tuple(LAWS), tuple(LAWS))
    law_slots: tuple[int, ...] = scaled((2,), (2,), (2, 3, 5))
    law_overlaps: tuple[int, ...] = scaled((0,), (0, 4), (0, 2, 4, 6, 8, 10))
    law_strengths: tuple[float, ...] = scaled((1.0,), (1.0,), (0.01, 1.0))
    additive_overlaps: tuple[int, ...] = scaled((8,), (0, 4, 8), (0, 2, 4, 6, 8, 10))
    beyond: tuple[str, ...] = scaled(("warm@1", "restarts@0.003"), BEYOND, (*BEYOND, "hessian@0.01"))
    beyond_slots: tuple[int, ...] = scaled((2,), (2,), (2, 3, 5))
    beyond_overlaps: tuple[int, ...] = scaled((8,), (8,), (8, 14))
    seeds: int = scaled(2, 5, 5)
    restarts: int = scaled(2, 5, 5)
    restart_seeds: int = scaled(4, 15, 15)
    dimension: int = 3
    window: int = 20
    rows: int = scaled(3_000, 20_000, 72_000)
    test_rows: int = scaled(600, 2_000, 8_000)
    steps: int = scaled(45, 2_400, 200_000)
    batch: int = 64
    learning_rate: float = scaled(3e-3, 3e-3, 1e-3)
    schedule: str = scaled("cosine", "cosine", "step")
    traced: int = scaled(3, 0, 20)
    high: float = 0.8
    threads: int = scaled(0, 2, 2)


SCALES = by_scale(Preset)

UNIT = ("unit", "regrouped")


def plan(preset: Preset, data: Path | None) -> Plan:
    """The sweep over slots, overlap and λ; additive decoders; other laws; and settings beyond the paper."""
    unknown = [law for law in preset.laws if law not in LAWS]
    if unknown or "normal" not in preset.laws:
        raise InputError(f"laws are {', '.join(LAWS)}, and normal is one of them: not {', '.join(preset.laws)}")

    def swept(slots: int, overlap: int, law: str, strengths: tuple[float, ...]) -> list[Unit]:
        penalised = [("contrast", strength) for strength in strengths]
        penalised += [(name, strength) for name in UNIT for strength in preset.unit_strengths]
        return [_unit(slots, overlap, law, *each) for each in [("plain", 0.0), *penalised]]

    units = []
    for slots in preset.slots:
        for overlap in (*preset.overlaps, *(preset.failing if slots == 2 else ())):
            units += swept(slots, overlap, "normal", preset.strengths)
            if overlap in preset.additive_overlaps:
                units.append(_unit(slots, overlap, "normal", "additive", 0.0))
    for law in preset.laws:
        for slots in preset.law_slots if law != "normal" else ():
            for overlap in preset.law_overlaps:
                units += swept(slots, overlap, law, preset.law_strengths)
    for slots in preset.beyond_slots:
        for overlap in preset.beyond_overlaps:
            units += [_unit(slots, overlap, "normal", *parsed(text)) for text in preset.beyond]
    return Plan(tuple(units))


def run_unit(unit: Unit, run: Run) -> Outcome:
    """Train all seeds of a setting, and measure each."""
    preset: Preset = run.preset
    wanted = unit.arguments
    slots, overlap, name, strength = (wanted[key] for key in ("slots", "overlap", "condition", "strength"))
    generator = slot_generator(slots, preset.dimension, preset.window, overlap, random_state=run.seed)
    given = examples(generator, wanted["law"], preset.rows, preset.test_rows, run.seed)
    count = preset.restart_seeds if name == "restarts" else preset.seeds
    seeds = seeds_from(run.seed, 23, count=count)
    with threads(preset.threads):
        trained, exchanges, traces = _trained(name, strength, generator, given, seeds, run)
    runs = [measure(each, generator, given) | {"exchanges": exchanges[each.seed]} for each in trained]
    if preset.traced:
        for record, each in zip(runs, trained, strict=True):
            record["trace"] = traces[each.seed]
    if name == "plain":
        for record, each in zip(runs, trained, strict=True):
            record |= unmixed(each, generator, given, run.seed)
    return {
        **wanted,
        "share": overlap / preset.window,
        "words": CONDITIONS[name].words,
        "outputs": generator.outputs,
        "truth": asdict(generator.truth),
        "ceiling": ceiling(generator, given),
        "together": trained[0].together,
        "runs": runs,
    }


def _trained(
    name: str, strength: float, generator: Any, given: Examples, seeds: list[int], run: Run
) -> tuple[list[Any], dict[int, int], dict[int, list[dict[str, float]]]]:
    """One stage after the other, each from the weights where the one before ended.

    Also, by seed, how often slots exchanged, and what was measured during training.
    """
    from ..models import Schedule, SlotAutoencoder, regroup_slots, train_many

    preset: Preset = run.preset
    condition = CONDITIONS[name]
    activation = "smooth" if condition.smooth else "leaky_relu"
    trained: list[Any] = []
    exchanges = dict.fromkeys(seeds, 0)
    traces: dict[int, list[dict[str, float]]] = {seed: [] for seed in seeds}
    lengths = [max(round(share * preset.steps), 1) for share, _ in condition.stages]
    every = max(sum(lengths) // preset.traced, 1) if preset.traced else 0

    def build(seed: int) -> Any:
        if trained:
            return copy.deepcopy(next(each.module for each in trained if each.seed == seed)).train()
        return SlotAutoencoder(
            generator.outputs, generator.dimensions, additive=condition.additive, activation=activation
        )

    for place, (_, factor) in enumerate(condition.stages):
        last = place == len(condition.stages) - 1
        recipe, before = adam_recipe(preset, lengths[place]), sum(lengths[:place])
        trained[:] = train_many(
            build,
            given.outputs,
            loss_of(condition.loss, factor * strength, generator.blocks),
            recipe if last else replace(recipe, schedule=Schedule()),
            seeds=seeds,
            batched=True,
            evaluate=(lambda module, step: followed(module, generator, given)[0]) if every else None,
            evaluate_every=_every(every, before) if every else None,
            checkpoint=None if run.scratch is None else run.scratch / f"stage-{place}.safetensors",
            progress=run.progress,
        )
        for each in trained:
            kept = [(before + step, values) for step, values in each.history.evaluations if step]
            traces[each.seed] += [{"step": step} | values for step, values in kept]
        for seat, each in enumerate(trained if condition.regroup else ()):
            if each.ended != "diverged":
                module, count = regroup_slots(each.module, given.outputs)
                trained[seat] = replace(each, module=module.eval())
                exchanges[each.seed] += count
    return trained, exchanges, traces


def _every(steps: int, before: int) -> Callable[[int], bool]:
    """Whether a step of a stage is due, where so many steps were done before it."""
    return lambda step: (before + step) % steps == 0


def _unit(slots: int, overlap: int, law: str, condition: str, strength: float) -> Unit:
    label = f"λ = {strength:g}" if strength else CONDITIONS[condition].words
    words = f"{slots} slots, overlap {overlap}, {LAWS[law]}, {label}"
    if CONDITIONS[condition].loss and condition != "contrast":
        words += f", {CONDITIONS[condition].words}"
    key = f"{law}-slots-{slots}-overlap-{overlap}-{condition}" + (f"-{strength:g}" if strength else "")
    arguments = {"slots": slots, "overlap": overlap, "law": law, "condition": condition, "strength": strength}
    return Unit(key, words, arguments)


TITLE = "Slots: mechanisms identify where independence cannot"
PAPER = (
    "Mechanistic Independence: A Principle for Identifiable Disentangled Representations, ICLR 2026, experiments, in "
    "the set-up of Brady et al., Provably learning object-centric representations, ICML 2023"
)
EXPERIMENT = Experiment("slots", TITLE, PAPER, SCALES, plan, run_unit, packages=("torch",))
