"""Model stitching: the first part of one network, a map, and the rest of another; loss and accuracy on held-out rows.

Lenc & Vedaldi (2015), Bansal et al. (2021). Two layers may be close in units of distance and yet not serve the task,
or the other way round: a stitched network says which differences the task feels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..files import without_cache_folder
from ..models.evaluation import evaluating, first_line
from ..representation import Array
from ..resampling import t_interval, wilson
from ..rows import Progress, blocks, no_progress
from ..settings import check_choice, check_counts, check_names, check_seed
from . import split
from .model_stitching_result import LOSSES, RUNGS, ModelStitching, Outcome, caveats_of, recovered, verdict_of

if TYPE_CHECKING:
    import torch
    from torch import nn

Map = Callable[[Array], Array]

LEAST_ROWS = 10
CONSTANT = "constant output"


def stitch_models(
    first: Any,
    second: Any,
    inputs: Any,
    targets: Any,
    layer: str,
    other_layer: str | None = None,
    *,
    other_inputs: Any = None,
    rungs: Sequence[str] = RUNGS,
    maps: Mapping[str, Any] | None = None,
    loss: str | Callable[[Any, Any], Any] = "cross_entropy",
    retrain: bool = True,
    steps: int = 300,
    tolerance: float = 0.05,
    names: tuple[str, str] = ("first", "second"),
    random_state: int = 0,
    progress: Progress | None = None,
) -> ModelStitching:
    r"""Stitch two networks: the first up to a layer, a map, and the second from its layer on.

    Maps between the layers are fitted on half of the rows, as :func:`isorep.compare` fits them. Loss and accuracy on
    the other half stand beside those of both networks, of maps that know nothing (a random rotation, and least squares
    on shuffled rows), of a constant output, and of two maps that are trained on the targets: a linear stitch, with both
    networks frozen, and a linear probe of the first network's layer. A map *suffices* if it recovers all but
    ``tolerance`` of the loss that the best of the uninformed ones loses.

    Parameters
    ----------
    first, second : torch.nn.Module
        Two networks; only the rest of the second one's layers is used, from ``other_layer`` on.
    inputs : (n, ...) array or tensor
        Examples, of which half are held out.
    targets : (n,) array
        Class of every example; numbers, or rows of numbers, for ``loss="squared"``.
    layer, other_layer : str
        Dotted names of the submodule after which the first network is left and the second one entered. Default of the
        second: the same name.
    other_inputs : array or tensor, optional
        The same examples as the second network takes them; default: ``inputs``. Needed where paths lead past its layer.
    rungs : sequence of str
        Maps to fit: ``identity``, ``signed_permutation``, ``rigid``, ``linear``. The identity needs equal widths.
    maps : mapping of str to map, optional
        Further maps by name: functions of an array of rows, or objects with ``transform``, such as a fitted aligner, a
        :class:`~isorep.Translator` or an :class:`isorep.heads.HeadMap`.
    loss : {"cross_entropy", "squared"} or callable
        A callable takes outputs and targets as tensors and returns one loss per row.
    retrain : bool
        Whether to train the linear stitch and the probe.
    steps : int
        Steps of Adam for the linear stitch, each on all training rows.
    tolerance : float
        Largest share of the recoverable loss that a map may lose.
    names : tuple of str
        Names of the networks.
    random_state : int
        Seed of the halves, the random rotation and the shuffle.
    progress : callable, optional
        ``progress("stitching", done, total)``.

    Returns
    -------
    ModelStitching

    Examples
    --------
    >>> import torch, isorep
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    >>> x = torch.randn(60, 4)
    >>> found = isorep.decoder.stitch_models(net, net, x, net(x).argmax(1), "1", retrain=False)
    >>> found.outcome("identity").loss == found.parents[1].loss
    True
    """
    check_counts(steps=(steps, 1))
    check_seed(random_state)
    wanted = check_names("rungs", rungs, RUNGS)
    if not callable(loss):
        check_choice("loss", loss, LOSSES)
    if not (isinstance(tolerance, float | int) and 0 <= tolerance < 1):
        raise InputError(f"tolerance is {tolerance!r} and must be a share from 0 to below 1")
    networks = [
        split.in_single(split.require_network(each, f"the {name} network"))
        for each, name in zip((first, second), names, strict=True)
    ]
    entered = layer if other_layer is None else other_layer
    with evaluating(*networks):
        rows = [split.as_inputs(inputs, networks[0])]
        rows.append(split.as_inputs(inputs if other_inputs is None else other_inputs, networks[1]))
        n = len(rows[0])
        if len(rows[1]) != n:
            raise InputError(f"inputs have {n} rows and other_inputs {len(rows[1])}: both are the same examples")
        if n < LEAST_ROWS:
            raise InputError(f"inputs have {n} rows: at least {LEAST_ROWS} are needed for two halves")
        for network, own, name, at in zip(networks, rows, names, (layer, entered), strict=True):
            split.require_layers(network, own, [at], f"the {name} network")
            split.require_rows(network, own, f"the {name} network")
        score = _Score(loss, targets, n)
        (out, first_end), (into, second_end) = (
            split.layer_outputs(network, own, [at])
            for network, own, at in zip(networks, rows, (layer, entered), strict=True)
        )
        joint = _joint(out[layer], into[entered], (layer, entered), names)
        order = np.random.default_rng(random_state).permutation(n)
        fit, test = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
        rest = split.Split(networks[1], entered, None)
        bench = _Bench(joint, rest, rows[1], score, fit, test)
        parents = tuple(
            score.outcome(name, "parent", end[test], test)
            for name, end in zip(names, (first_end, second_end), strict=True)
        )
        found = bench.run(wanted, maps or {}, retrain, steps, random_state, progress or no_progress)
        past = split.passes_by(rest, into[entered], rows[1])
    floor = min(each.loss for each in found if each.kind == "control")
    judged = tuple(recovered(each, floor, parents[1].loss) for each in found)
    answer = verdict_of(judged, parents, float(tolerance), floor, (layer, entered))
    return ModelStitching(
        names=names,
        layers=(layer, entered),
        widths=(joint.source.shape[-1], joint.target.shape[-1]),
        positions=joint.source.shape[1],
        rows=(len(fit), len(test)),
        parents=(parents[0], parents[1]),
        outcomes=judged,
        verdict=answer,
        passes_by=past,
        caveats=caveats_of(past, entered, names[1], joint.widths_differ and "identity" in wanted, len(test)),
        settings={
            "rungs": wanted,
            "maps": list(maps or {}),
            "loss": loss if isinstance(loss, str) else "a function",
            "retrain": bool(retrain),
            "steps": int(steps),
            "tolerance": float(tolerance),
            "random_state": int(random_state),
        },
    )


# The two layers


@dataclass(frozen=True, eq=False)
class _Joint:
    """Outputs of both layers as (rows, positions, width), and how the second network has them."""

    source: Array
    target: Array
    tensor: Any
    first: Any

    @property
    def widths_differ(self) -> bool:
        return bool(self.source.shape[-1] != self.target.shape[-1])

    def as_tensor(self, values: Array, rows: Array) -> torch.Tensor:
        """Mapped rows in the shape that the second network has at its layer."""
        import torch

        like = self.tensor
        made = torch.as_tensor(values, dtype=like.dtype, device=like.device)
        return self.shaped(made, len(rows))

    def shaped(self, made: torch.Tensor, rows: int) -> torch.Tensor:
        """(rows, positions, width) in the second layer's own shape."""
        like = self.tensor
        if like.dim() > 3:
            made = made.transpose(1, 2)
        return made.reshape(rows, *like.shape[1:])


def _joint(out: torch.Tensor, into: torch.Tensor, layers: tuple[str, str], names: tuple[str, str]) -> _Joint:
    """Rows of both layers, position by position: channels of images are mapped alike everywhere, and so are tokens."""
    source, target = (_by_position(each) for each in (out, into))
    if out.dim() != into.dim() or source.shape[1] != target.shape[1]:
        shapes = [" x ".join(map(str, each.shape[1:])) for each in (out, into)]
        raise InputError(
            f"the layers do not compose: {layers[0]!r} of the {names[0]} network puts out {shapes[0]} and "
            f"{layers[1]!r} of the {names[1]} network {shapes[1]}, and a map is between layers with the same positions"
        )
    if not (np.isfinite(source).all() and np.isfinite(target).all()):
        raise InputError("a layer puts out values that are not finite")
    return _Joint(source, target, into, out)


def _by_position(values: torch.Tensor) -> Array:
    """(rows, positions, width): one position for vectors, tokens of (rows, tokens, width), pixels of images."""
    made = values.detach().double().cpu().numpy()
    if made.ndim == 2:
        return np.asarray(made[:, None, :])
    if made.ndim == 3:
        return np.asarray(made)
    return np.asarray(made.reshape(len(made), made.shape[1], -1).transpose(0, 2, 1))


# Losses


class _Score:
    """Loss of every row, and whether its class is right."""

    def __init__(self, loss: str | Callable[[Any, Any], Any], targets: Any, n: int) -> None:
        import torch

        given = targets if isinstance(targets, torch.Tensor) else torch.as_tensor(np.asarray(targets))
        self.targets = given.detach().cpu()
        self.loss, self.classes = loss, loss == "cross_entropy"
        if self.targets.dim() == 0 or len(self.targets) != n:
            raise InputError(f"targets have shape {tuple(self.targets.shape)}: one per row is needed, {n}")
        if self.classes and (self.targets.dtype.is_floating_point or self.targets.dim() != 1 or self.targets.min() < 0):
            raise InputError('targets of cross_entropy are classes, whole numbers from 0; loss="squared" takes numbers')

    def losses(self, outputs: torch.Tensor, rows: Array) -> torch.Tensor:
        """One loss per row, with gradients."""
        import torch

        wanted = self.targets[torch.as_tensor(rows)].to(outputs.device)
        try:
            if self.classes:
                if outputs.dim() != 2 or int(self.targets.max()) >= outputs.shape[1]:
                    said = f"outputs have shape {tuple(outputs.shape[1:])}"
                    raise InputError(f"{said} and classes go up to {int(self.targets.max())}: one logit per class")
                return torch.nn.functional.cross_entropy(outputs, wanted.long(), reduction="none")
            if self.loss == "squared":
                flat, same = outputs.reshape(len(rows), -1), wanted.reshape(len(rows), -1).to(outputs.dtype)
                if flat.shape != same.shape:
                    raise InputError(f"outputs have {flat.shape[1]} numbers per row and targets {same.shape[1]}")
                return ((flat - same) ** 2).mean(dim=1)
            made = self.loss(outputs, wanted)  # type: ignore[operator]
        except InputError:
            raise
        except Exception as error:  # whatever the user's function raises
            raise InputError(f"the loss fails on these outputs: {first_line(error)}") from error
        if not isinstance(made, torch.Tensor) or made.shape != (len(rows),):
            raise InputError("a loss returns one number per row")
        return made

    def outcome(self, name: str, kind: str, outputs: torch.Tensor, rows: Array, error: float | None = None) -> Outcome:
        """Mean loss with its interval, and accuracy."""
        values = self.losses(outputs, rows).detach().double().cpu().numpy()
        right = None
        if self.classes:
            right = float((outputs.argmax(dim=1).cpu() == self.targets[rows]).double().mean())
        return outcome_of(name, kind, values, right, error)


def outcome_of(name: str, kind: str, values: Array, right: float | None, error: float | None) -> Outcome:
    """An outcome from losses of rows, and the share of rows whose class is right."""
    n = len(values)
    mean, spread = float(values.mean()), float(values.std(ddof=1)) / np.sqrt(n)
    interval = t_interval(mean, spread, n, least=0.0) if np.isfinite(mean) and mean >= 0 else None
    return Outcome(name, kind, mean, interval, right, None if right is None else wilson(right, n), error)


# Maps


@dataclass(frozen=True, eq=False)
class _Bench:
    """Everything that stitched networks share."""

    joint: _Joint
    rest: split.Split
    inputs: torch.Tensor
    score: _Score
    fit: Array
    test: Array

    def run(
        self, rungs: list[str], maps: Mapping[str, Any], retrain: bool, steps: int, seed: int, report: Progress
    ) -> list[Outcome]:
        """Every map, the uninformed ones and those that are trained."""
        rng = np.random.default_rng([seed, 1])
        made = self._fitted([rung for rung in rungs if rung != "identity"], rng)
        jobs: list[tuple[str, str, Map | None]] = []
        if "identity" in rungs and not self.joint.widths_differ:
            jobs.append(("identity", "map", None))
        jobs += [(name, "map", made[name]) for name in rungs if name in made]
        jobs += [(name, "map", _applied(name, given)) for name, given in maps.items()]
        jobs += [("random rotation", "control", made["random"]), ("shuffled rows", "control", made["shuffled"])]
        total = len(jobs) + 2 * retrain
        found = []
        for done, (name, kind, mapped) in enumerate(jobs):
            report("stitching", done, total)
            found.append(self._stitched(name, kind, mapped))
        constant = self._constant()
        found += [] if constant is None else [constant]
        if retrain:
            found.append(self._trained(made["linear_start"], steps))
            report("stitching", total - 1, total)
            probe = self._probe()
            found += [] if probe is None else [probe]
        report("stitching", total, total)
        return found

    def _fitted(self, rungs: list[str], rng: np.random.Generator) -> dict[str, Map]:
        from ..alignment import Linear, Rigid, SignedPermutation

        source, target = (_flat(each[self.fit]) for each in (self.joint.source, self.joint.target))
        kinds = {"signed_permutation": SignedPermutation, "rigid": Rigid, "linear": Linear}
        made: dict[str, Map] = {name: kinds[name]().fit(source, target).transform for name in rungs}
        made["linear_start"] = Linear().fit(source, target).transform
        made["shuffled"] = Linear().fit(source, target[rng.permutation(len(target))]).transform
        made["random"] = _random_rotation(source, target, rng)
        return made

    def _stitched(self, name: str, kind: str, mapped: Map | None) -> Outcome:
        import torch

        values = self.joint.source[self.test]
        wanted = self.joint.target[self.test]
        if mapped is None:  # as it is, without any arithmetic
            tensor = self.joint.first[self.test].to(self.joint.tensor.dtype)
            made = values
        else:
            flat = _mapped(name, mapped, _flat(values), wanted.shape[-1])
            made = flat.reshape(wanted.shape)
            tensor = self.joint.as_tensor(made, self.test)
        ends = []
        with torch.no_grad():
            for part in blocks(len(self.test), split.BATCH):
                ends.append(self._ended(tensor[part], self.test[part]))
        return self.score.outcome(name, kind, torch.cat(ends), self.test, _error(made, wanted))

    def _ended(self, tensor: torch.Tensor, rows: Array) -> torch.Tensor:
        """The second network's output where its layer puts out these values."""
        import torch

        return self.rest.rest(tensor, self.inputs[torch.as_tensor(rows)])

    def _constant(self) -> Outcome | None:
        """The same output for every row: frequencies of classes, or the mean of numbers; None for other losses."""
        y = self.score.targets.numpy()
        if self.score.classes:
            counts = np.bincount(y[self.fit], minlength=int(y.max()) + 1) + 1.0  # no class is impossible
            right = float((y[self.test] == counts.argmax()).mean())
            return outcome_of(CONSTANT, "control", -np.log(counts / counts.sum())[y[self.test]], right, None)
        if self.score.loss != "squared":
            return None
        flat = y.reshape(len(y), -1).astype(np.float64)
        errors = ((flat[self.test] - flat[self.fit].mean(axis=0)) ** 2).mean(axis=1)
        return outcome_of(CONSTANT, "control", errors, None, None)

    def _trained(self, start: Map, steps: int) -> Outcome:
        """A linear stitch, trained on the loss through the frozen rest, from the least-squares map."""
        import torch

        like = self.joint.tensor
        source, d_x = self.joint.source, self.joint.source.shape[-1]
        zero = start(np.zeros((1, d_x)))
        weight = torch.tensor(start(np.eye(d_x)) - zero, dtype=like.dtype, device=like.device, requires_grad=True)
        bias = torch.tensor(zero[0], dtype=like.dtype, device=like.device, requires_grad=True)
        rows = {
            name: torch.as_tensor(source[at], dtype=like.dtype, device=like.device)
            for name, at in (("fit", self.fit), ("test", self.test))
        }
        size = float(weight.detach().norm()) / np.sqrt(weight.numel()) or 1.0
        with without_cache_folder():
            optimiser = torch.optim.Adam([weight, bias], lr=0.03 * size)
        best, kept = np.inf, (weight.detach().clone(), bias.detach().clone())
        with _frozen(self.rest.network), torch.enable_grad():
            for _ in range(steps):
                optimiser.zero_grad()
                stitched = self.joint.shaped(rows["fit"] @ weight + bias, len(self.fit))
                loss = self.score.losses(self._ended(stitched, self.fit), self.fit).mean()
                now = float(loss.detach())
                if now < best:
                    best, kept = now, (weight.detach().clone(), bias.detach().clone())
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        with torch.no_grad():
            made = rows["test"] @ kept[0] + kept[1]
            end = self._ended(self.joint.shaped(made, len(self.test)), self.test)
        error = _error(made.double().cpu().numpy(), self.joint.target[self.test])
        return self.score.outcome("trained linear stitch", "retrained", end, self.test, error)

    def _probe(self) -> Outcome | None:
        """Regression of the targets on the first network's layer, all positions averaged; None for other losses."""
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        x, y = self.joint.source.mean(axis=1), self.score.targets.numpy()
        if self.score.classes:
            if len(np.unique(y[self.fit])) < 2:
                return None
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(x[self.fit], y[self.fit])
            known = model.classes_
            shares = model.predict_proba(x[self.test])
            place = np.searchsorted(known, y[self.test]).clip(max=len(known) - 1)
            seen = known[place] == y[self.test]
            p = np.where(seen, shares[np.arange(len(place)), place], 0.0)
            right = float((known[shares.argmax(axis=1)] == y[self.test]).mean())
            return outcome_of("linear probe", "retrained", -np.log(np.maximum(p, 1e-12)), right, None)
        if self.score.loss != "squared":
            return None
        flat = y.reshape(len(y), -1).astype(np.float64)
        model = make_pipeline(StandardScaler(), Ridge(1e-3)).fit(x[self.fit], flat[self.fit])
        errors = ((model.predict(x[self.test]).reshape(len(self.test), -1) - flat[self.test]) ** 2).mean(axis=1)
        return outcome_of("linear probe", "retrained", errors, None, None)


class _frozen:  # noqa: N801  (a context, used as a function)
    """Parameters that take no gradients, for as long as the context lasts."""

    def __init__(self, network: nn.Module) -> None:
        self._before = [(each, each.requires_grad) for each in network.parameters()]

    def __enter__(self) -> None:
        for each, _ in self._before:
            each.requires_grad_(False)

    def __exit__(self, *error: object) -> None:
        for each, before in self._before:
            each.requires_grad_(before)


def _flat(values: Array) -> Array:
    return values.reshape(-1, values.shape[-1])


def _random_rotation(source: Array, target: Array, rng: np.random.Generator) -> Map:
    """A Haar rotation about the means, with the target's spread; columns beyond its width are dropped or zero."""
    wide = max(source.shape[1], target.shape[1])
    q, r = np.linalg.qr(rng.standard_normal((wide, wide)))
    turn = (q * np.sign(np.diagonal(r)))[: source.shape[1], : target.shape[1]]
    here, there = source.mean(axis=0), target.mean(axis=0)
    moved = (source - here) @ turn
    size = np.sqrt(np.mean((target - there) ** 2) / max(np.mean(moved**2), 1e-300))
    return lambda rows: (rows - here) @ turn * size + there


def _applied(name: str, given: Any) -> Map:
    mapped = getattr(given, "transform", given)
    if not callable(mapped):
        raise InputError(f"map {name!r} is a {type(given).__name__}: a function of rows or a fitted map is needed")
    return mapped  # type: ignore[no-any-return]


def _mapped(name: str, mapped: Map, rows: Array, width: int) -> Array:
    """Rows after a map, checked: the caller's own may put out anything."""
    try:
        made = np.asarray(mapped(rows), dtype=np.float64)
    except InputError:
        raise
    except Exception as error:  # whatever the user's map raises
        raise InputError(f"map {name!r} fails on rows of {rows.shape[1]} columns: {first_line(error)}") from error
    if made.shape != (len(rows), width) or not np.isfinite(made).all():
        raise InputError(f"map {name!r} must give {width} finite columns for each row, not an array of {made.shape}")
    return made


def _error(made: Array, wanted: Array) -> float | None:
    """Mean distance of mapped rows from the second network's own, in mean distances of these to their mean."""
    if made.shape != wanted.shape:
        return None
    rows, own = _flat(made), _flat(wanted)
    unit = float(np.linalg.norm(own - own.mean(axis=0), axis=1).mean())
    return float(np.linalg.norm(rows - own, axis=1).mean()) / unit if unit > 0 else None
