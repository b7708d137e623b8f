"""Batched models: one, or several of the same architecture as one program: the same losses, gradients and weights."""

from __future__ import annotations

import copy
import ctypes
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import InputError
from ..files import without_cache_folder
from .evaluation import nn, torch
from .recipe import Group, Recipe
from .sampling import Rows, mixed

Losses = tuple[Any, dict[str, Any]]
"""The loss of each model, and the other entries of a loss that returns a dict."""

SMALL_WORK = 6e7
"""Multiplications of a step of one model up to which a common program is faster; measured by benchmarks/training.py."""


class Alone:
    """A single model, trained as it is."""

    together = False

    def __init__(self, module: Any, loss: Callable[..., Any]) -> None:
        self.module, self.loss = module, loss
        self.random = takes_generator(loss)
        self.parameters = {name: each for name, each in module.named_parameters() if each.requires_grad}

    def losses(self, batch: Any, generators: Sequence[Any], shared: bool = False) -> Losses:
        """Loss of the batch, as a vector of one."""
        value, parts = _split(self.loss(self.module, batch, *(generators[:1] if self.random else ())))
        return value.reshape(1), {name: part.reshape(1) for name, part in parts.items()}

    def training(self, on: bool) -> None:
        """Training or evaluation mode."""
        self.module.train(on)

    def modules(self) -> list[Any]:
        """The models as they are now."""
        return [self.module]

    def module_with(self, weights: dict[str, Any]) -> Any:
        """The model, with these weights."""
        self.load(weights)
        return self.module

    def state(self) -> dict[str, Any]:
        """All parameters and buffers."""
        return dict(self.module.state_dict())

    def one_of(self, state: dict[str, Any], index: int) -> dict[str, Any]:
        """A copy of the weights of one model among those of all."""
        return {name: value.detach().clone() for name, value in state.items()}

    def load(self, state: dict[str, Any]) -> None:
        """Weights that were kept."""
        self.module.load_state_dict(state)


class StackedModels:
    """Several models in tensors with one more dimension."""

    together = True
    random = False

    def __init__(self, modules: Sequence[Any], loss: Callable[..., Any]) -> None:
        self.loss = loss
        self._template = _Loss(copy.deepcopy(modules[0]), loss)
        parameters, buffers = torch.func.stack_module_state(list(modules))
        moved = {name for name, each in modules[0].named_parameters() if each.requires_grad}
        self.parameters = {name: value.detach().requires_grad_() for name, value in parameters.items() if name in moved}
        self._fixed = {name: value.detach() for name, value in parameters.items() if name not in moved} | buffers

    def losses(self, batch: Any, generators: Sequence[Any], shared: bool = False) -> Losses:
        """Loss of each model on its batch; with ``shared``, all on the same."""
        state = self.parameters | self._fixed
        along = (0, None if shared else 0)
        return _split(torch.func.vmap(self._one, in_dims=along, randomness="error")(state, batch))

    def training(self, on: bool) -> None:
        """Training or evaluation mode."""
        self._template.train(on)

    def modules(self) -> list[Any]:
        """The models as they are now."""
        state = self.state()
        count = len(next(iter(state.values())))
        return [self.module_with(self.one_of(state, index)) for index in range(count)]

    def module_with(self, weights: dict[str, Any]) -> Any:
        """A model of its own with these weights."""
        module = copy.deepcopy(self._template.module)
        module.load_state_dict(weights)
        return module

    def state(self) -> dict[str, Any]:
        """All parameters and buffers."""
        return {name: value.detach() for name, value in (self.parameters | self._fixed).items()}

    def one_of(self, state: dict[str, Any], index: int) -> dict[str, Any]:
        """A copy of the weights of one model among those of all."""
        return {name: value[index].clone() for name, value in state.items()}

    def load(self, state: dict[str, Any]) -> None:
        """Weights that were kept."""
        self.parameters = {name: state[name].clone().requires_grad_() for name in self.parameters}
        self._fixed = {name: state[name].clone() for name in self._fixed}

    def keep(self, places: Any) -> None:
        """Continue with some of the models."""
        self.load({name: value[places] for name, value in self.state().items()})

    def _one(self, state: dict[str, Any], batch: Any) -> Any:
        placed = {f"module.{name}": value for name, value in state.items()}
        return torch.func.functional_call(self._template, placed, (batch,))


class _Loss(nn.Module):
    """The loss as a module, so that any method of the model uses the weights of one of many."""

    def __init__(self, module: Any, loss: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self._loss = module, loss

    def forward(self, batch: Any) -> Any:
        return self._loss(self.module, batch)


class Movers:
    """The optimisers of all groups, clipping before them."""

    def __init__(self, engine: Alone | StackedModels, recipe: Recipe) -> None:
        self._together = engine.together
        self._groups: list[tuple[Group, dict[str, Any], Any]] = []
        left = dict(engine.parameters)
        for group in recipe.all_groups:
            chosen = {name: left.pop(name) for name in list(left) if group.holds(name)}
            if chosen:
                self._groups.append((group, chosen, make_optimiser(group, list(chosen.values()))))
        if left:
            raise InputError(f"no group of the recipe holds the parameter {next(iter(left))!r}")
        if not self._groups:
            raise InputError("the model has no parameters to train")

    def step(self, factor: float) -> float:
        """Clip gradients, take a step, clear gradients; returns the learning rate of the first group."""
        for group, parameters, optimiser in self._groups:
            self._clip(group, [each.grad for each in parameters.values() if each.grad is not None])
            for settings in optimiser.param_groups:
                settings["lr"] = group.learning_rate * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return self._groups[0][0].learning_rate * factor

    def state(self) -> dict[str, Any]:
        """All tensors of the optimisers, by parameter and name."""
        return {
            f"{name}|{key}": _tensor(value)
            for _, parameters, optimiser in self._groups
            for name, parameter in parameters.items()
            for key, value in optimiser.state[parameter].items()
            if value is not None
        }

    def load(self, state: dict[str, Any]) -> None:
        """The optimisers' tensors again; others than these optimisers have are refused."""
        expected: set[str] = set()
        for group, parameters, optimiser in self._groups:
            for name, parameter in parameters.items():
                for key, value in _first_state(group, parameter).items():
                    kept, like = state.get(f"{name}|{key}"), _tensor(value)
                    if kept is None or kept.shape != like.shape or kept.dtype != like.dtype:
                        raise InputError(f"the state of the optimiser for {name!r} does not fit")
                    expected.add(f"{name}|{key}")
                    is_tensor = isinstance(value, torch.Tensor)
                    optimiser.state[parameter][key] = kept.clone() if is_tensor else type(value)(kept.item())
        if expected != set(state):
            raise InputError("it holds the state of another optimiser")

    def taken(self, engine: Alone | StackedModels, recipe: Recipe, places: Any, count: int) -> Movers:
        """Optimisers for some of ``count`` models, which ``engine`` already holds alone."""
        movers = Movers(engine, recipe)
        for (_, before, old), (_, after, new) in zip(self._groups, movers._groups, strict=True):
            for name, parameter in after.items():
                new.state[parameter] = {
                    key: value[places].clone()
                    if isinstance(value, torch.Tensor) and value.dim() and len(value) == count
                    else copy.deepcopy(value)
                    for key, value in old.state[before[name]].items()
                }
        return movers

    def _clip(self, group: Group, gradients: list[Any]) -> None:
        if group.clip_value is not None:
            for gradient in gradients:
                gradient.clamp_(-group.clip_value, group.clip_value)
        if group.clip_norm is None or not gradients:
            return
        kept = 1 if self._together else 0  # the dimension that counts models
        squares = [gradient.flatten(kept).square().sum(-1) for gradient in gradients]
        norm = torch.stack(squares).sum(0).sqrt()
        shrink = (group.clip_norm / norm.clamp_min(torch.finfo(norm.dtype).tiny)).clamp_max(1.0)
        for gradient in gradients:
            gradient.mul_(shrink.reshape(shrink.shape + (1,) * (gradient.dim() - shrink.dim())))


def make_optimiser(group: Group, parameters: list[Any]) -> Any:
    """The optimiser of a group; the fused kernels where torch has them."""
    options: dict[str, Any] = {"lr": group.learning_rate} | dict(group.options)
    if callable(group.optimiser):
        return group.optimiser(parameters, **options)
    if group.optimiser == "orthogonal_adam":
        from .orthogonal import OrthogonalAdam

        return OrthogonalAdam(parameters, **options)
    kinds = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "rmsprop": "RMSprop"}
    if group.optimiser not in kinds:
        known = ", ".join((*kinds, "orthogonal_adam"))
        raise InputError(f"there is no optimiser {group.optimiser!r}; there are {known}")
    kind = getattr(torch.optim, kinds[group.optimiser])
    has_kernel = all(each.is_floating_point() and each.device.type != "mps" for each in parameters)
    if has_kernel and group.optimiser != "rmsprop":
        options = {"fused": True} | options
    try:
        with without_cache_folder():
            return kind(parameters, **options)
    except (TypeError, ValueError) as error:
        raise InputError(f"the optimiser {group.optimiser} cannot be set up: {error}") from None


def takes_generator(loss: Callable[..., Any]) -> bool:
    """Whether a loss has a third argument: it draws random numbers."""
    try:
        given = inspect.signature(loss).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [each for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return sum(each.default is each.empty for each in positional) >= 3


def why_not_together(module: Any, loss: Callable[..., Any], recipe: Recipe) -> str | None:
    """The reason that prevents a common program, in words."""
    if takes_generator(loss):
        return "its loss draws random numbers (draw them in prepare instead)"
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:
            return f"{name or 'the module'} is a dropout"
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats:
            return f"{name or 'the module'} keeps running statistics"
    if any(callable(group.optimiser) for group in recipe.all_groups):
        return "its optimiser is a function that may not treat models apart"
    return None


def worth_together(module: Any, rows: int) -> bool:
    """Whether a common program is expected to be faster: models whose steps are small."""
    weights = sum(each.numel() for each in module.parameters())
    return bool(weights * rows <= SMALL_WORK)


def works_together(module: Any, loss: Callable[..., Any], rows: Rows) -> bool:
    """Whether torch can map the loss over models, tried on two rows."""
    try:
        with torch.no_grad():
            StackedModels([module, module], loss).losses(rows[:2], [], shared=True)
    except (RuntimeError, ValueError):
        return False
    return True


def seeded(build: Callable[[int], Any], seed: int) -> Any:
    """A new model; weights drawn from torch's own generator depend on the seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(mixed(seed, 0))
        return build(seed)


def _first_state(group: Group, parameter: Any) -> dict[str, Any]:
    """The state of an optimiser for a parameter after its first step."""
    stand_in = parameter.detach().clone().requires_grad_()
    stand_in.grad = torch.zeros_like(parameter)
    optimiser = make_optimiser(group, [stand_in])
    with torch.no_grad():
        optimiser.step()
    return {key: value for key, value in optimiser.state[stand_in].items() if value is not None}


def _tensor(value: Any) -> Any:
    return value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)


def _split(losses: Any) -> Losses:
    if not isinstance(losses, dict):
        return losses, {}
    if "loss" not in losses:
        raise InputError("a loss that returns a dict has an entry 'loss'")
    return losses["loss"], {name: part.detach() for name, part in losses.items() if name != "loss"}


_TRIM, _MAP = -1, -3  # mallopt's names for: give the heap's end back; map blocks of their own, each beyond a size
_LARGEST_MAP, _LARGEST_TRIM = 2**30, 2**31 - 1
_USUAL_MAP, _USUAL_TRIM = 2**25, 2**26  # where the library's own rule ends once such blocks were freed


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed blocks until the end, where the C library can be told to; then give all of them back.

    It gives large blocks back to the system as soon as they are freed, and a step that asks for the same blocks again
    pays for every page anew. Tensors of many models at once are that large: keeping the blocks made steps of ten MNIST
    autoencoders 1.2 to 2 times as fast.
    """
    library = _glibc()
    if library is None:
        yield
        return
    library.mallopt(_MAP, _LARGEST_MAP)
    library.mallopt(_TRIM, _LARGEST_TRIM)
    try:
        yield
    finally:
        library.mallopt(_MAP, _USUAL_MAP)
        library.mallopt(_TRIM, _USUAL_TRIM)
        library.malloc_trim(0)


def _glibc() -> Any:
    try:
        library = ctypes.CDLL(None)
        return library if library.gnu_get_libc_version and library.mallopt and library.malloc_trim else None
    except (AttributeError, OSError, TypeError):
        return None
