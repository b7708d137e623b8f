"""Preparation of a decoder: one device, one precision, evaluation mode, and a check that rows are decoded separately.

Latents from arrays, tensors, representations or files, one row per example.

The steps of a decoder: the size of their results, and which have kinks.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..models import evaluation
from ..representation import Array, Matrix, Representation, as_representation
from ..rows import read_rows, refuse_non_finite, select
from ..storage import read

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

import_torch = functools.partial(evaluation.import_torch, "a decoder's Jacobian")

MEMORY = 2**30  # bytes of working memory per call, in addition to its result
_SAME = {"float32": 1e-3, "float64": 1e-7}  # tolerance between two ways to decode a row, relative to the largest output
_HARMLESS = (  # what torch says about decoders that branch on values, and about steps that it maps slowly
    "Converting a tensor with requires_grad=True to a scalar",
    "There is a performance drop because we have not yet implemented",
    ".*`torch.jit.* is deprecated",
)


@dataclass(frozen=True)
class Ready:
    """A decoder as a function of flat rows, (r, d) to (r, outputs), with its memory needs.

    ``widest`` and ``held`` count the numbers that one row needs in the largest step and in all steps together, and
    ``kinks`` names the steps that have no derivative somewhere.
    """

    function: Callable[[Tensor], Tensor]
    dtype: torch.dtype
    device: torch.device
    d: int
    outputs: int
    output_shape: tuple[int, ...]
    widest: int
    held: int
    kinks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def tensor(self, rows: Array) -> Tensor:
        """Rows as a tensor that this decoder takes."""
        import torch

        return torch.as_tensor(np.array(rows, order="C"), dtype=self.dtype, device=self.device)

    @property
    def itemsize(self) -> int:
        """Bytes of a number in the decoder's precision."""
        return int(self.dtype.itemsize)


@contextmanager
def prepared(
    decoder: Any, sample: Array, row_shape: tuple[int, ...], device: Any = None, double: bool = False
) -> Iterator[Ready]:
    """The decoder, ready for rows like those of ``sample``; its state is restored afterwards.

    ``sample`` holds up to two flat rows and ``row_shape`` is the shape of a row for the decoder; ``double`` is true if
    the latents have double precision, which decides where the decoder has no parameters.
    """
    torch = import_torch()
    if not callable(decoder):
        raise InputError(f"the decoder is a {type(decoder).__name__}: pass a torch module or a function of a batch")
    modules = modules_of(decoder)
    notes: list[str] = []
    decoder, modules, dtype, target_device = _placed(decoder, modules, device, notes)
    with evaluation.evaluating(*modules), _differentiable_attention(), torch.no_grad(), warnings.catch_warnings():
        for message in _HARMLESS:
            warnings.filterwarnings("ignore", message=message)
        candidates = [dtype] if dtype is not None else [torch.float64 if double else torch.float32, torch.float32]
        yield replace(_checked(decoder, sample, row_shape, candidates, target_device), notes=tuple(notes))


def modules_of(decoder: Any) -> list[nn.Module]:
    """The torch modules that a decoder is or calls: itself, the owner of a method, what a function closes over."""
    torch = import_torch()
    if isinstance(decoder, torch.nn.Module):
        return [decoder]
    if isinstance(decoder, functools.partial):
        return [module for part in (decoder.func, *decoder.args) for module in modules_of(part)]
    owner = getattr(decoder, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return [owner]
    if inspect.isfunction(decoder):
        used = inspect.getclosurevars(decoder)
        values = [*used.nonlocals.values(), *used.globals.values()]
        return [value for value in values if isinstance(value, torch.nn.Module)]
    held = getattr(decoder, "__dict__", {}).values()
    return [value for value in held if isinstance(value, torch.nn.Module)]


def _placed(
    decoder: Any, modules: list[nn.Module], device: Any, notes: list[str]
) -> tuple[Any, list[nn.Module], torch.dtype | None, torch.device]:
    """Where and in which precision to compute; a copy of the module where it cannot stay as it is."""
    torch = import_torch()
    tensors = [each for module in modules for each in (*module.parameters(), *module.buffers())]
    floating = [each for each in tensors if each.dtype.is_floating_point]
    dtype = floating[0].dtype if floating else None
    home = floating[0].device if floating else torch.device("cpu")
    target_device = home if device is None else evaluation.device_named(device)
    half = dtype is not None and dtype not in (torch.float32, torch.float64)
    if not floating or (not half and target_device == home):
        return decoder, modules, dtype, target_device
    if not isinstance(decoder, torch.nn.Module) or isinstance(decoder, torch.jit.ScriptModule):
        what = f"in {_named(dtype)}" if half else f"on {home}"
        raise InputError(f"the decoder's parameters are {what} and it cannot be copied: convert it first")
    if half:
        notes.append(f"the decoder's parameters are stored in {_named(dtype)}; Jacobians were computed in float32")
        dtype = torch.float32
    decoder = copy.deepcopy(decoder).to(device=target_device, dtype=dtype)
    return decoder, [decoder], dtype, target_device


@contextmanager
def _differentiable_attention() -> Iterator[None]:
    """Attention in steps that have forward derivatives; its fused kernels have none."""
    torch = import_torch()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _checked(decoder: Any, sample: Array, row_shape: tuple[int, ...], dtypes: list[Any], target_device: Any) -> Ready:
    """The decoder as a flat function, checked on a few rows."""
    torch = import_torch()

    def flat(rows: Tensor) -> Tensor:
        return decoder(rows.reshape(rows.shape[0], *row_shape)).reshape(rows.shape[0], -1)  # type: ignore[no-any-return]

    def guarded(rows: Tensor, what: str = "") -> Tensor:
        with _failing(what or f"the decoder fails on a batch of {rows.shape[0]} rows"):
            return flat(rows)

    d = sample.shape[1]
    for dtype in dtypes:
        rows = torch.as_tensor(np.array(sample, order="C"), dtype=dtype, device=target_device)
        if len(rows) == 1:
            rows = torch.cat([rows, 0.9 * rows + 0.1])
        try:
            with _failing(f"the decoder fails on rows of shape {row_shape}"):
                together = decoder(rows.reshape(len(rows), *row_shape))
        except InputError:
            if dtype == dtypes[-1]:
                raise
            continue
        shape = _output_shape(together, len(rows))
        outputs = int(np.prod(shape, dtype=np.int64))
        again, alone = flat(rows), guarded(rows[:1], "the decoder takes two rows and fails on one")
        require_alike(together.reshape(len(rows), -1), again, alone)
        widest, held, kinks = widths(flat, rows[:1], getattr(decoder, "rows_at_least", 1))
        break
    return Ready(guarded, dtype, target_device, d, outputs, shape, max(widest, outputs, d), held, kinks)


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """The user's code: whatever it raises becomes one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {evaluation.first_line(error)}") from error


def _output_shape(value: Any, rows: int) -> tuple[int, ...]:
    torch = import_torch()
    if not isinstance(value, torch.Tensor):
        part = "['name']" if isinstance(value, Mapping) else "[0]"
        hint = "" if value is None else f": wrap it, as in lambda z: decoder(z){part}"
        raise InputError(f"the decoder returns an object of type {type(value).__name__} where a tensor is needed{hint}")
    if not value.dtype.is_floating_point:
        raise InputError(f"the decoder returns {_named(value.dtype)} numbers where floating point is needed")
    if value.dim() == 0 or value.shape[0] != rows:
        raise InputError(
            f"the decoder maps {rows} rows to shape {tuple(value.shape)}: it must map a batch of latents (n, ...) to a "
            "batch of outputs (n, ...)"
        )
    if value.numel() == 0:
        raise InputError("the decoder returns no numbers")
    return tuple(int(size) for size in value.shape[1:])


def require_alike(together: Tensor, again: Tensor, alone: Tensor, what: str = "the decoder") -> None:
    """Refuse random outputs, and rows that influence each other, by decoding the first row in three ways."""
    if not bool(together[0].isfinite().all()):
        raise InputError(f"{what}'s output is not finite at the first row")
    if not same(together[0], again[0]):
        raise InputError(f"{what} gives another output for the same row when called again: it draws at random")
    if not same(together[0], alone[0]):
        raise mixed_rows(what)


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two outputs agree as far as the order of sums allows."""
    scale = max(float(one.abs().max()), float(other.abs().max()), 1e-30)
    return bool((one - other).abs().max() <= _SAME.get(_named(one.dtype), 1e-2) * scale)


def mixed_rows(what: str = "the decoder") -> InputError:
    """The error for a decoder whose rows influence each other."""
    return InputError(
        f"{what}'s output for a row depends on the other rows of the batch (statistics or attention over the batch), "
        "so it has no Jacobian of a row: make it decode each row on its own"
    )


def _named(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True, eq=False)
class Latents:
    """Flat rows, their shape for the decoder, and their name."""

    values: Matrix
    row_shape: tuple[int, ...]
    name: str
    ids: Array | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    @property
    def d(self) -> int:
        """The number of latents."""
        return int(self.values.shape[1])

    @property
    def double(self) -> bool:
        """Whether they are in double precision."""
        return bool(np.dtype(self.values.dtype).itemsize >= 8)

    def rows(self, part: slice | Array) -> Array:
        """Some rows in memory."""
        return evaluation.known_to_torch(read_rows(self.values, part))

    def chosen(self, rows: Array) -> Latents:
        """Some rows, in this order."""
        ids = None if self.ids is None else self.ids[rows]
        return Latents(select(self.values, rows), self.row_shape, self.name, ids)


def as_latents(given: Any, name: str = "latents") -> Latents:
    """Latents as flat rows; arrays with more than two axes are flattened and their row shape is remembered.

    Values that are not finite are refused.
    """
    if isinstance(given, Latents):
        return given
    if isinstance(given, str | Path):
        given = read(given)
    row_shape = None
    if not isinstance(given, Representation) and len(getattr(given, "shape", ())) > 2:
        row_shape = tuple(int(size) for size in given.shape[1:])
        if 0 in given.shape:
            raise InputError(f"{name} is empty: its shape is {tuple(given.shape)}")
        given = given.reshape(given.shape[0], -1)
    representation = as_representation(given, name)
    label = representation.name or name
    refuse_non_finite(representation.values, label)
    return Latents(representation.values, row_shape or (representation.shape[1],), label, representation.ids)


KINKS = {
    "ReLU": ("relu", "threshold"),
    "LeakyReLU": ("leaky_relu",),
    "RReLU": ("rrelu",),
    "PReLU": ("prelu", "_prelu_kernel"),
    "hard tanh": ("hardtanh",),
    "hard sigmoid": ("hardsigmoid",),
    "hard swish": ("hardswish",),
    "clamp": ("clamp", "clamp_min", "clamp_max"),
    "absolute value": ("abs",),
    "maximum": ("maximum", "amax"),
    "minimum": ("minimum", "amin"),
    "max pooling": ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d"),
    "sorting": ("sort", "topk"),
    "rounding": ("floor", "ceil", "round"),
    "sign": ("sign",),
    "soft shrinkage": ("softshrink",),
    "hard shrinkage": ("hardshrink",),
}
"""The operators of torch that have a kink, with their common names."""


def widths(function: Callable[[Tensor], Tensor], row: Tensor, least: int) -> tuple[int, int, tuple[str, ...]]:
    """Numbers per row in the largest step and in all steps, from the difference of two rows and one; and the kinks.

    ``least`` is the number of rows that the decoder always works on at once.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Steps(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.sizes: list[int] = []
            self.names: set[str] = set()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            results = out if isinstance(out, tuple | list) else [out]
            self.sizes.append(sum(int(each.numel()) for each in results if hasattr(each, "numel")))
            self.names.add(func.overloadpacket.__name__.rstrip("_"))
            return out

    watched = []
    try:
        for count in (least, 2 * least):
            with Steps() as mode:
                function(row.expand(count, -1))
            watched.append(mode)
    except Exception:  # programs that cannot be watched are planned for by their output alone
        return 4 * row.shape[1], 16 * row.shape[1], ()
    one, two = watched
    kinks = tuple(sorted(kink for kink, names in KINKS.items() if one.names & set(names)))
    if len(one.sizes) != len(two.sizes):
        return max(one.sizes), sum(one.sizes), kinks
    growth = [max(more - less, 0) // least for less, more in zip(one.sizes, two.sizes, strict=True)]
    return max(growth, default=1), sum(growth), kinks
