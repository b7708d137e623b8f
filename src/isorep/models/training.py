"""Trainer of a network, or of many seeds as one program: seeded, resumable, deterministic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..rows import Progress
from ..settings import check_choice
from .batched import Alone, StackedModels, kept_memory, seeded, why_not_together, works_together, worth_together
from .evaluation import nn, torch
from .loop import History, Hooks, Loop
from .recipe import Recipe
from .sampling import Rows


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model.

    Attributes
    ----------
    module : torch.nn.Module
        The trained network, in evaluation mode.
    seed : int
    history : History
    ended : {"done", "early", "diverged"}
        All steps were done, early stopping ended it, or its loss was no longer finite.
    together : bool
        Whether it was trained in one program with others.
    """

    module: Any
    seed: int
    history: History
    ended: str
    together: bool = False


def train(
    module: Any,
    data: Any,
    loss: Callable[..., Any],
    recipe: Recipe,
    *,
    seed: int = 0,
    validation: Any = None,
    prepare: Callable[..., Any] | None = None,
    evaluate: Callable[..., dict[str, Any]] | None = None,
    evaluate_every: int | Callable[[int], bool] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Trained:
    """Train one network.

    Parameters
    ----------
    module : torch.nn.Module, or a function of a seed that returns one
        A module is trained in place; a function is called with torch's generator seeded.
    data : array, tensor, or tuple or dict of these
        One row per example; a batch has the same structure.
    loss : callable
        ``loss(module, batch)`` or ``loss(module, batch, generator)`` for one that draws random numbers: a scalar
        tensor, or a dict of scalars whose entry ``loss`` is minimised and whose others are recorded.
    recipe : Recipe
        Optimisers, learning rates, clipping, length, early stopping.
    seed : int
        Seed of the order of rows and of all random numbers.
    validation : like ``data``, optional
        Validation data; its loss is recorded, in evaluation mode and with the same random numbers each time.
    prepare : callable, optional
        ``prepare(batch, generator)``: augmentation or noise, drawn outside of the loss.
    evaluate : callable, optional
        ``evaluate(module, step)`` returns a dict of plain numbers for the history.
    evaluate_every : int or callable, optional
        Steps between evaluations, or a function of the step; step 0 is before training. Default: only at the end.
    checkpoint : path, optional
        File for the state. If it holds a state of the same training, the training resumes with the same result;
        when training is finished, it holds the result.
    checkpoint_seconds : float
        Seconds between two writes of the state.
    device : str
        Device of the tensors, such as ``cpu`` or ``cuda``.
    progress : callable, optional
        ``progress("training", done, total)`` in steps, at every record.

    Returns
    -------
    Trained

    Examples
    --------
    >>> import torch
    >>> from isorep.models import Group, Recipe, train
    >>> x = torch.linspace(-1, 1, 50)[:, None]
    >>> def squares(module, batch):
    ...     return ((module(batch) - 3 * batch) ** 2).mean()
    >>> line = train(lambda seed: torch.nn.Linear(1, 1), x, squares, Recipe(steps=300, groups=Group("adam", 0.1)))
    >>> round(line.module.weight.item(), 2), line.ended
    (3.0, 'done')
    """
    _check_seeds([seed])
    model = module if isinstance(module, nn.Module) else _built(module, seed)
    hooks = Hooks(prepare, evaluate, evaluate_every, progress)
    rows, held_out = _placed(data, validation, device)
    engine = Alone(model.to(device), loss)
    loop = Loop(engine, [seed], rows, held_out, recipe, hooks, device)
    log, module = loop.run(checkpoint, checkpoint_seconds)[0]
    if log.ended == "diverged":
        raise InputError(f"the loss is not finite by step {log.history().steps[-1]}: lower the learning rate or clip")
    return Trained(module.eval(), seed, log.history(), str(log.ended))


def train_many(
    build: Callable[[int], Any],
    data: Any,
    loss: Callable[..., Any],
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    batched: bool | str = "auto",
    validation: Any = None,
    prepare: Callable[..., Any] | None = None,
    evaluate: Callable[..., dict[str, Any]] | None = None,
    evaluate_every: int | Callable[[int], bool] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[Trained]:
    """Train one architecture from many seeds, as one program where that is faster.

    Each model has its own weights, order of rows, clipping and early stopping, and ends where it would alone, up to
    the rounding of sums in another order. A model that stops leaves the program; one whose loss is no longer finite
    leaves it as ``diverged``, and the others continue.

    Parameters
    ----------
    build : callable
        ``build(seed)`` returns a new module; all have the same architecture.
    seeds : sequence of int
        Seeds, all different.
    batched : bool or "auto"
        One program for all, or one after the other. ``"auto"`` chooses one program where weights x rows of a step are
        at most 6e7 (measured: 1.2 to 8 times as fast below, nothing above). It trains one after the other if the loss
        draws random numbers itself, or with dropout, running statistics, an optimiser given as a function, or a step
        that torch cannot map over models.
    checkpoint : path, optional
        A file; for models that are trained one after the other, one each with the seed in its name.
    data, loss, recipe, validation, prepare, evaluate, evaluate_every, checkpoint_seconds, device, progress
        As in :func:`train`.

    Returns
    -------
    list of Trained
        In the order of the seeds.
    """
    _check_seeds(seeds)
    check_choice("batched", batched, (True, False, "auto"))
    rows, held_out = _placed(data, validation, device)
    hooks = Hooks(prepare, evaluate, evaluate_every, progress)
    first = _built(build, seeds[0])
    against = why_not_together(first, loss, recipe)
    if batched is True and against is not None:
        raise InputError(f"these models cannot be trained in one program: {against}")
    a_step = rows.count if recipe.batch is None else min(recipe.batch, rows.count)
    worth = against is None and len(seeds) > 1 and worth_together(first, a_step)
    together = batched is True or (batched == "auto" and worth and works_together(first.to(device), loss, rows))
    if together:
        models = [_built(build, seed).to(device) for seed in seeds]
        loop = Loop(StackedModels(models, loss), list(seeds), rows, held_out, recipe, hooks, device)
        with kept_memory():
            found = loop.run(checkpoint, checkpoint_seconds)
    else:
        found = []
        for place, seed in enumerate(seeds):
            model = _built(build, seed).to(device)
            one = hooks.for_one_of(place, len(seeds))
            loop = Loop(Alone(model, loss), [seed], rows, held_out, recipe, one, device)
            path = None if checkpoint is None else Path(checkpoint)
            found += loop.run(path and path.with_stem(f"{path.stem}-{seed}"), checkpoint_seconds)
    return [
        Trained(module.eval(), seed, log.history(), str(log.ended), together)
        for seed, (log, module) in zip(seeds, found, strict=True)
    ]


def _check_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise InputError(f"the seed is {seed!r}: it must be a whole number from 0 to {2**63 - 1}")
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError("there must be seeds, and each only once")


def _placed(data: Any, validation: Any, device: str) -> tuple[Rows, Rows | None]:
    try:
        place = torch.device(device)
        if place.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"torch cannot use the device {device!r}: {str(error).splitlines()[0]}") from None
    return Rows(data, place), None if validation is None else Rows(validation, place, "validation")


def _built(build: Callable[[int], Any], seed: int) -> Any:
    module = seeded(build, seed)
    if not isinstance(module, nn.Module):
        raise InputError(f"the function that builds a model returned {type(module).__name__}, not a torch module")
    return module
