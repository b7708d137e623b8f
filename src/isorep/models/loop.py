"""Training loop: steps of one model or many, the history, and resumable checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from ..checkpoint import Checkpoint
from ..errors import InputError
from ..results import plain
from ..rows import Progress, blocks, no_progress
from .batched import Alone, Movers, StackedModels
from .evaluation import torch
from .recipe import Recipe, spelt
from .sampling import MEASURE, NOISE, Order, Rows, generator, mixed, stacked

_MEASURED_ROWS = 4096  # rows of a validation pass at once where a step takes all


@dataclass(frozen=True)
class Hooks:
    """Callbacks of the caller."""

    prepare: Callable[..., Any] | None = None
    evaluate: Callable[..., dict[str, Any]] | None = None
    evaluate_every: int | Callable[[int], bool] | None = None
    progress: Progress | None = None

    def due(self, step: int, last: bool) -> bool:
        """Whether to evaluate after so many steps."""
        every = self.evaluate_every
        due = every(step) if callable(every) else every is not None and step % every == 0
        return self.evaluate is not None and (last or bool(due))

    def for_one_of(self, place: int, count: int) -> Hooks:
        """The same, with progress over all of several trainings."""
        told = self.progress
        if told is None:
            return self
        return replace(self, progress=lambda stage, done, total: told(stage, place * total + done, count * total))


class Loop:
    """One training: the models that still run, their logs, and the step."""

    def __init__(
        self,
        engine: Alone | StackedModels,
        seeds: list[int],
        rows: Rows,
        validation: Rows | None,
        recipe: Recipe,
        hooks: Hooks,
        device: str,
    ) -> None:
        self._engine, self._seeds, self._rows, self._held_out = engine, seeds, rows, validation
        self._recipe, self._hooks, self._device = recipe, hooks, device
        self._tell = hooks.progress or no_progress
        self._order = Order(rows.count, recipe.batch)
        self._total = recipe.all_steps(rows.count)
        self._every = recipe.record_every or recipe.steps_an_epoch(rows.count)
        self._movers = Movers(engine, recipe)
        self._restores = recipe.stop is not None and recipe.stop.restore
        if recipe.stop is not None and recipe.stop.on == "validation" and validation is None:
            raise InputError("early stopping on validation needs validation rows")
        self._step = 0
        self._alive = list(seeds)
        self._logs = {seed: Log() for seed in seeds}
        self._ended: dict[int, dict[str, Any]] = {}  # weights of models that have left
        self._best: dict[str, Any] = {name: value.clone() for name, value in engine.state().items()}
        self._sums: dict[str, Any] = {}
        self._spent = 0.0

    def run(self, path: str | Path | None, seconds: float) -> list[tuple[Log, Any]]:
        """Run all remaining steps; returns log and model of every seed."""
        keeper = None if path is None else Checkpoint(path, "training", self._belongs(), seconds, "torch")
        if keeper is not None:
            self._resume(keeper)
        self._began = time.perf_counter() - self._spent
        if self._step == 0:
            self._evaluate(False)
        with torch.random.fork_rng():
            while self._alive and self._step < self._total:
                self._advance()
                if keeper is not None and keeper.due():
                    self._keep(keeper)
        weights = self._best if self._restores else self._engine.state()
        for index, seed in enumerate(self._alive):
            self._logs[seed].ended = "done"
            self._ended[seed] = self._engine.one_of(weights, index)
        self._alive = []
        if keeper is not None:
            self._keep(keeper)
        return [(self._logs[seed], self._engine.module_with(self._ended[seed])) for seed in self._seeds]

    def _advance(self) -> None:
        """One step, and a record where one is due."""
        engine, step = self._engine, self._step
        engine.training(True)
        if not engine.together:
            torch.manual_seed(mixed(self._alive[0], NOISE, step))  # for dropout
        draws = self._hooks.prepare is not None or engine.random
        generators = [generator(seed, NOISE, step, self._device) for seed in self._alive] if draws else []
        batch, shared = self._batch(step, generators)
        values, parts = engine.losses(batch, generators, shared)
        if values.shape != (len(self._alive),):
            raise InputError("a loss returns one number for a batch")
        values.sum().backward()
        rate = self._movers.step(self._recipe.schedule.at(step, self._total))
        for name, value in {"loss": values.detach(), **parts}.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value.clone()
        self._step += 1
        last = self._step == self._total
        if self._step % self._every == 0 or last:
            self._record(rate)
        if self._alive:
            self._evaluate(last)

    def _batch(self, step: int, generators: list[Any]) -> tuple[Any, bool]:
        """The rows of a step, and whether all models share them."""
        if self._order.whole:
            return self._prepared([self._rows.tensors], generators)
        rows = self._order.at(self._alive, step).to(self._device)
        if self._hooks.prepare is None:
            return self._rows[rows if self._engine.together else rows[0]], False
        return self._prepared([self._rows[each] for each in rows], generators)

    def _prepared(self, batches: list[Any], generators: list[Any]) -> tuple[Any, bool]:
        """A batch for each model, or one for all of them, as the caller prepares it; whether all models share it."""
        prepare = self._hooks.prepare
        if prepare is None:
            return batches[0], True
        drawn = [prepare(batch, each) for batch, each in zip(cycle(batches), generators, strict=False)]
        return (stacked(drawn) if self._engine.together else drawn[0]), False

    def _record(self, rate: float) -> None:
        """Losses since the last record; models that are to stop leave."""
        since = (self._step - 1) % self._every + 1
        means = {name: (value / since).tolist() for name, value in self._sums.items()}
        self._sums = {}
        held_out = None if self._held_out is None else self._measure(self._held_out)
        seconds = time.perf_counter() - self._began
        self._tell("training", self._step, self._total)
        leaving, better = [], []
        for index, seed in enumerate(self._alive):
            log, training = self._logs[seed], means["loss"][index]
            validation = None if held_out is None else held_out[index]
            parts = {name: values[index] for name, values in means.items() if name != "loss"}
            log.record(parts, self._step, training, validation, rate, seconds)
            stop = self._recipe.stop
            watched = validation if stop is not None and stop.on == "validation" else training
            if watched is None or not math.isfinite(watched) or not math.isfinite(training):
                log.ended = "diverged"
            elif stop is not None:
                if log.improved(watched, stop.min_delta):
                    better.append(index)
                elif log.waited >= stop.patience:
                    log.ended = "early"
            if log.ended is not None:
                leaving.append(index)
        if self._restores and better:
            self._remember(better)
        if leaving:
            self._leave(leaving)

    def _measure(self, rows: Rows) -> list[float]:
        """Loss over validation rows, in evaluation mode, with the same random numbers each time."""
        size = self._recipe.batch or _MEASURED_ROWS
        self._engine.training(False)
        generators = [generator(seed, MEASURE, 0, self._device) for seed in self._alive]
        total: Any = 0.0
        with torch.no_grad():
            for part in blocks(rows.count, size):
                batch, shared = self._prepared([rows[part]], generators)
                total = total + self._engine.losses(batch, generators, shared)[0] * (part.stop - part.start)
        return list((total / rows.count).tolist())

    def _evaluate(self, last: bool) -> None:
        if not self._hooks.due(self._step, last) or self._hooks.evaluate is None:
            return
        self._engine.training(False)
        with torch.no_grad():
            for seed, module in zip(self._alive, self._engine.modules(), strict=True):
                self._logs[seed].evaluations.append((self._step, self._hooks.evaluate(module.eval(), self._step)))

    def _remember(self, better: list[int]) -> None:
        """Weights of models that are better than before."""
        chosen = better if self._engine.together else ...
        for name, value in self._engine.state().items():
            self._best[name][chosen] = value[chosen]

    def _leave(self, leaving: list[int]) -> None:
        """Keep the weights of models that stop, and continue without them."""
        for index in leaving:
            seed = self._alive[index]
            best = self._restores and self._logs[seed].ended == "early"
            self._ended[seed] = self._engine.one_of(self._best if best else self._engine.state(), index)
        kept = [index for index in range(len(self._alive)) if index not in leaving]
        if kept and isinstance(self._engine, StackedModels):
            count = len(self._alive)
            self._engine.keep(kept)
            self._movers = self._movers.taken(self._engine, self._recipe, kept, count)
            self._best = {name: value[kept] for name, value in self._best.items()}
        self._alive = [self._alive[index] for index in kept]

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def _belongs(self) -> dict[str, Any]:
        shapes = {name: [list(value.shape), str(value.dtype)] for name, value in self._engine.state().items()}
        return {
            "recipe": self._recipe.facts(),
            "seeds": self._seeds,
            "model": shapes,
            "loss": spelt(self._engine.loss),
            "data": self._rows.fingerprint(),
            "validation": None if self._held_out is None else self._held_out.fingerprint(),
            "program": "together" if self._engine.together else "alone",
        }

    def _keep(self, keeper: Checkpoint) -> None:
        facts = {
            "step": self._step,
            "alive": self._alive,
            "logs": [self._logs[seed].facts() for seed in self._seeds],
            "seconds": time.perf_counter() - self._began,
        }
        parts = {"sum": self._sums, **{f"ended.{seed}": weights for seed, weights in self._ended.items()}}
        if self._alive:
            parts |= {"model": self._engine.state(), "optimiser": self._movers.state()}
            parts |= {"best": self._best} if self._restores else {}
        tensors = {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}
        # Copies: safetensors refuses tensors that share memory, such as tied weights.
        keeper.save(facts, {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()})

    def _resume(self, keeper: Checkpoint) -> None:
        kept = keeper.load()
        try:
            if kept is not None:
                self._restore(*kept)
        except (InputError, KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            raise keeper.damaged(error) from None

    def _restore(self, facts: dict[str, Any], tensors: dict[str, Any]) -> None:
        step, alive, logs = facts["step"], facts["alive"], facts["logs"]
        if isinstance(step, bool) or not isinstance(step, int) or not 0 < step <= self._total:
            raise InputError("its step is out of range")
        if [seed for seed in self._seeds if seed in alive] != alive or len(logs) != len(self._seeds):
            raise InputError("its models are others")
        self._logs = {seed: Log.from_facts(log) for seed, log in zip(self._seeds, logs, strict=True)}
        if any((self._logs[seed].ended is None) != (seed in alive) for seed in self._seeds):
            raise InputError("its logs do not say which models run")
        self._step, self._spent = step, float(facts["seconds"])
        full = self._engine.state()
        one = {name: value[0] for name, value in full.items()} if self._engine.together else full
        for seed in set(self._seeds) - set(alive):
            self._ended[seed] = fitting(part_of(tensors, f"ended.{seed}."), one, self._device)
        self._alive = list(alive)
        if not alive:
            return
        count = len(alive) if self._engine.together else None
        self._engine.load(fitting(part_of(tensors, "model."), full, self._device, count))
        self._movers = Movers(self._engine, self._recipe)
        self._movers.load({name: value.to(self._device) for name, value in part_of(tensors, "optimiser.").items()})
        if self._restores:
            self._best = fitting(part_of(tensors, "best."), full, self._device, count)
        self._sums = {name: value.to(self._device) for name, value in part_of(tensors, "sum.").items()}
        between = step % self._every != 0 and step < self._total
        if any(value.shape != (len(alive),) for value in self._sums.values()) or ("loss" in self._sums) != between:
            raise InputError("its sums do not fit")


def part_of(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def fitting(found: dict[str, Any], like: dict[str, Any], device: Any, count: int | None = None) -> dict[str, Any]:
    """Tensors that have the names, types and shapes of others (with ``count`` as their first size); else an error."""
    if set(found) != set(like):
        raise InputError("it holds other tensors")
    for name, value in found.items():
        shape = like[name].shape if count is None else torch.Size((count, *like[name].shape[1:]))
        if value.shape != shape or value.dtype != like[name].dtype:
            raise InputError(f"{name!r} has another shape or type")
    return {name: value.to(device) for name, value in found.items()}


@dataclass(frozen=True)
class History:
    """The records of one training.

    Attributes
    ----------
    steps : tuple of int
        Steps done at each record.
    training : tuple of float
        Mean training loss since the record before.
    validation : tuple of float
        Validation loss; empty without validation rows.
    learning_rate : tuple of float
        Learning rate of the first group, at the last step before the record.
    seconds : tuple of float
        Since the start, over all runs of an interrupted training. Models that are trained together share it.
    parts : dict of str to tuple of float
        Mean of the other entries of a loss that returns a dict.
    evaluations : tuple of (int, dict)
        Results of the evaluation hook, with the step.
    """

    steps: tuple[int, ...] = ()
    training: tuple[float, ...] = ()
    validation: tuple[float, ...] = ()
    learning_rate: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    parts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    evaluations: tuple[tuple[int, dict[str, Any]], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        told = {name: plain(value) for name, value in vars(self).items()}
        return told | {"evaluations": [{"step": step, "values": values} for step, values in self.evaluations]}


class Log:
    """A history that is being written, with the state of early stopping."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._parts: dict[str, list[float]] = {}
        self.evaluations: list[tuple[int, dict[str, Any]]] = []
        self.best: float | None = None
        self.waited = 0
        self.ended: str | None = None

    def record(self, parts: dict[str, float], *row: float | None) -> None:
        """Add a record: a number for each column, None for what is not measured."""
        for name, value in zip(_COLUMNS, row, strict=True):
            if value is not None:
                self._columns[name].append(value)
        for name, value in parts.items():
            self._parts.setdefault(name, []).append(value)

    def improved(self, loss: float, min_delta: float) -> bool:
        """Whether a loss is the best so far by more than ``min_delta``; otherwise one more record was waited."""
        better = self.best is None or loss < self.best - min_delta
        self.best, self.waited = (loss, 0) if better else (self.best, self.waited + 1)
        return better

    def history(self) -> History:
        """The records so far."""
        return History(
            **{name: tuple(values) for name, values in self._columns.items()},
            parts={name: tuple(values) for name, values in self._parts.items()},
            evaluations=tuple(self.evaluations),
        )

    def facts(self) -> dict[str, Any]:
        """Everything as plain data."""
        return self.history().to_dict() | {"best": self.best, "waited": self.waited, "ended": self.ended}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Log:
        """The log again; anything else than what ``facts`` gives is refused."""
        log = cls()
        log._columns = {name: _numbers(facts[name]) for name in _COLUMNS}
        log._columns["steps"] = [int(step) for step in log._columns["steps"]]
        log._parts = {str(name): _numbers(values) for name, values in facts["parts"].items()}
        log.evaluations = [(int(each["step"]), dict(each["values"])) for each in facts["evaluations"]]
        log.best = None if facts["best"] is None else float(facts["best"])
        log.waited, log.ended = int(facts["waited"]), facts["ended"]
        if log.ended not in (None, *ENDS):
            raise InputError(f"a training does not end as {log.ended!r}")
        return log


ENDS = ("done", "early", "diverged")
_COLUMNS = ("steps", "training", "validation", "learning_rate", "seconds")


def _numbers(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise InputError("a list is missing")
    return [float(value) for value in values]
