"""Decoders from model files and from code: TorchScript, exported programs, ``package.module:factory``.

Model archives are checked and copied member by member before torch reads them.

``torch.export.load`` unpickles without limits any member marked as pickled (weights, constants, sample inputs), loads
compiled libraries, evaluates shape expressions and guards as Python, and writes names into Python source.
``torch.jit.load`` unpickles in C++ with TorchScript's own types only, but the code inside may name operators that touch
files. So members, operators, names and expressions are checked against an allow-list of what a decoder needs,
everything else is refused, and torch reads a fresh archive of exactly the bytes that were checked.
"""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError, MissingFileError
from ..models.evaluation import first_line
from ..models.load import imported, made, names_code, with_weights
from ..storage.npz import DAMAGED_ZIP
from .prepare import import_torch

_MOST_MEMBERS = 100_000
_MOST_TEXT = 2**28  # bytes of JSON
_MOST_CODE = 2**26  # bytes of TorchScript, which alone is compressed
_EXPORT = (
    'torch.export.save(torch.export.export(decoder, (latents,), dynamic_shapes=({0: torch.export.Dim("n")},)), '
    '"decoder.pt2")'
)


def open_archive(path: Path) -> tuple[str, io.BytesIO]:
    """The kind of a model file (``script`` or ``program``) and a copy of its archive with checked members only."""
    members = _members(path)
    if any(name.startswith("models/") for name in members) and "archive_format" in members:
        return "program", _packed(_checked_program(path, members))
    if any(name.startswith("code/") for name in members) and "constants.pkl" in members:
        return "script", _packed(_checked_script(path, members))
    if "data.pkl" in members:
        raise InputError(f"{path} is a pickle that torch.save wrote, and nothing is unpickled: {ADVICE}")
    raise InputError(f"{path} holds neither a TorchScript module nor an exported program: {ADVICE}")


ADVICE = (
    f"export the decoder with {_EXPORT}, or name its code as package.module:factory with --weights FILE.safetensors"
)


def _members(path: Path) -> dict[str, bytes]:
    """The members of the archive, without their common folder."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(2)
    if start[:1] == b"\x80":
        raise InputError(f"{path} is a pickle, and nothing is unpickled: {ADVICE}")
    if path.suffix.lower() == ".safetensors":
        raise InputError(
            f"{path} holds weights without a model: name its code as package.module:factory --weights {path}"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise InputError(f"{path} holds {len(members)} members, more than a model does")
            packed = [member for member in members if member.compress_type != zipfile.ZIP_STORED]
            if any(not member.filename.partition("/")[2].startswith("code/") for member in packed):
                raise InputError(f"{path} is compressed, which torch does not do")
            code = sum(member.file_size for member in packed)
            if code > _MOST_CODE:
                raise InputError(f"{path} holds more code than a model does")
            if sum(member.file_size for member in members) - code > size:
                raise InputError(f"{path} declares more bytes than it holds")
            roots, _, names = zip(*(member.filename.partition("/") for member in members), strict=True)
            if len(set(roots)) != 1 or "" in names or len(set(names)) < len(names):
                raise InputError(f"{path} is not laid out like a model that torch saved: {ADVICE}")
            return {name: archive.read(member) for name, member in zip(names, members, strict=True)}
    except InputError:
        raise
    except (*DAMAGED_ZIP, ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a model that torch saved, or it is damaged: {ADVICE}") from error


def _packed(members: dict[str, bytes]) -> io.BytesIO:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(f"model/{name}", content)
    packed.seek(0)
    return packed


# ---- TorchScript

_SCRIPT_MEMBER = re.compile(
    r"(data|constants|traced_inputs)\.pkl|(data|constants|traced_inputs)/\d+|code/[\w/.]+|version|byteorder|"
    r"\.data/[\w.]+|extra/.*|\.format_version|\.storage_alignment"
)
_SCRIPT_REFUSED = r"_?save|from_file|_?print|Print|rpc_\w+|classes"
_NAMESPACES = {"aten", "prim", "prims", "quantized"}  # others have operators that reach files, or other memory
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"')
_MEMBER_BY_NAME = re.compile(r'\bgetattr\(\s*[\w.]+\s*,\s*"(\d+)"\s*\)')
_OWNER = re.compile(r"\bdef \w+\((\w+): __torch__\b")
_OF_ARCHIVE = re.compile(r"\b__torch__(\.(?!classes\b)\w+)+")  # what the archive itself defines
_CLASSES = re.compile(rb"\btorch[.\n]classes[.\n]")


def _checked_script(path: Path, members: dict[str, bytes]) -> dict[str, bytes]:
    kept = {}
    for name, content in members.items():
        if not _SCRIPT_MEMBER.fullmatch(name):
            raise InputError(f"{path} holds {name[:80]!r}, which is no part of a TorchScript module")
        if name.startswith("extra/") or name.endswith(".debug_pkl"):
            continue
        refused = None
        if name.startswith("code/") and name.endswith(".py"):
            refused = _refused_in_script(content)
        elif name.endswith(".pkl") and _CLASSES.search(content):
            refused = "classes"
        if refused is not None:
            raise InputError(
                f"{path} calls {refused[:80]} in {name[:80]}: a decoder needs neither files nor classes, and prints "
                "nothing"
            )
        kept[name] = content
    return kept


def _refused_in_script(content: bytes) -> str | None:
    """The first name in TorchScript that a decoder has no need of, however it is reached; None where there is none.

    An operator may get another name before it is called, so calls are not looked for: names are, past texts. Comments,
    continued lines and other quotes, which torch does not write, would hide where a text ends.
    """
    literals: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        literals.append(found[0][1:-1])
        return f'"{len(literals) - 1}"'

    code = _LITERAL.sub(numbered, content.decode("utf-8", "replace"))
    odd = re.search(r"[^\n -~]|[#'\\`;]|\"\"", code)
    if odd is not None or code.count('"') != 2 * len(literals):
        return repr(odd[0]) if odd else "an open text"
    named = [literals[int(each[1])] for each in _MEMBER_BY_NAME.finditer(code)]
    if len(re.findall(r"\bgetattr\b", code)) != len(named) or any("\\" in each for each in named):
        return "getattr"
    schemas = import_torch()._C._jit_get_all_schemas()
    spaces = {each.name.partition("::")[0] for each in schemas} - _NAMESPACES
    refused = f"({'|'.join([_SCRIPT_REFUSED, *sorted(spaces)])})"
    for name in named:
        if re.fullmatch(refused, name):
            return name
    owners = set(_OWNER.findall(code)) - {"torch", "ops", "__torch__"}  # whose attributes have any names
    for owner in owners:
        if re.search(rf"\b{owner}\s*=(?!=)", code):
            return str(owner)
    if re.search(r"(?<![.\w])print\b", code):
        return "print"
    for found in re.finditer(rf"(\w*)\s*\.\s*{refused}\b", _OF_ARCHIVE.sub("", code)):
        if found[1] not in owners:
            return str(found[2])
    return None


# ---- exported programs

_PROGRAM_MEMBER = re.compile(
    r"data/weights/weight_\d+|data/weights/\w+_weights_config\.json|data/constants/tensor_\d+|"
    r"data/constants/\w+_constants_config\.json|models/\w+\.json|data/sample_inputs/\w+\.pt|archive_format|"
    r"archive_version|\.data/[\w.]+|byteorder|version|extra/.*"
)
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims)\.(?!from_file|_?save\b)\w+(\.\w+)?|torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|"
    r"wrap_with_autocast|cond)|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|eq|ne|lt|le|gt|ge|and_|or_|pow)|"
    r"torch\.sym_\w+|math\.\w+"
)
_WORD = re.compile(r"[\w.:+\- ]{0,300}")
_TEXT = re.compile(r"[^'\"\\\n\r]{0,1000}")
_EXPRESSION = re.compile(  # the parts of a shape that depends on the size of the batch
    r"Symbol\('[a-z]{1,2}\d{1,6}'(, \w+=(True|False)){0,6}\)|(Integer|Rational)\(-?\d{1,12}(, \d{1,12})?\)|"
    r"(Mul|Add|Max|Min|FloorDiv|CeilDiv|CleanDiv|Mod|PythonMod|ModularIndexing)\(|\b[a-z]\d{1,6}\b|\b\d{1,12}\b|"
    r"[+\-*/(), ]"
)
_SPEC = re.compile(r'[\w.\[\]{}":,\\ ]{0,20000}')
_DROPPED: dict[str, Any] = {"metadata": {}, "guards_code": []}  # notes for debugging, and Python source


def _checked_program(path: Path, members: dict[str, bytes]) -> dict[str, bytes]:
    kept = {}
    for name, content in members.items():
        if not _PROGRAM_MEMBER.fullmatch(name):
            raise InputError(
                f"{path} holds {name[:80]!r}, which may be pickled or compiled: export the decoder again without it"
            )
        if name.startswith("extra/"):
            continue
        if name.endswith(".json"):
            if len(content) > _MOST_TEXT:
                raise InputError(f"{path} holds {len(content) / 2**20:.0f} MiB of text in {name[:80]}")
            try:
                value = json.loads(content)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path} is damaged: {name[:80]} is not JSON") from error
            content = json.dumps(_checked_json(path, name, value)).encode()
        elif name.endswith(".pt"):
            _require_tensors(path, name, content)
        kept[name] = content
    return kept


def _checked_json(path: Path, name: str, value: Any, key: str = "", depth: int = 0) -> Any:
    """The value without dropped fields; anything but plain names, known operators and expressions is refused."""
    if depth > 100:
        raise InputError(f"{path} is damaged: {name[:80]} is nested too deeply")
    if isinstance(value, dict):
        return {
            _checked_text(path, name, each, ""): _DROPPED[each]
            if each in _DROPPED and not _is_named(value)
            else _checked_json(path, name, item, each, depth + 1)
            for each, item in value.items()
        }
    if isinstance(value, list):
        return [_checked_json(path, name, item, key, depth + 1) for item in value]
    if isinstance(value, str):
        return _checked_text(path, name, value, key)
    if key == "use_pickle" and value is not False:
        raise InputError(f"{path} holds pickled tensors, and nothing is unpickled: export plain tensors")
    return value


def _is_named(value: dict[str, Any]) -> bool:
    """Whether a dict holds values by the names that tensors have, which may be any, and not by the schema's."""
    return "metadata" in value and "target" not in value and "inputs" not in value


def _checked_text(path: Path, name: str, value: str, key: str) -> str:
    if key in ("target", "as_operator"):
        if not _OPERATOR.fullmatch(value) and (key != "target" or not _is_plain(value)):
            raise InputError(f"{path} calls {value[:80]!r}, which is not among the operators that are run")
        return value
    if key == "expr_str":
        good = len(value) < 1000 and "**" not in value and not _EXPRESSION.sub("", value)
    elif key in ("in_spec", "out_spec"):
        good = bool(_SPEC.fullmatch(value)) and "__" not in value and "\\u" not in value
    else:
        good = bool((_TEXT if key == "as_string" else _WORD).fullmatch(value))
    if not good:
        raise InputError(f"{path} holds {value[:80]!r} in {name[:80]}, which no exported decoder needs")
    return value


def _is_plain(value: str) -> bool:
    """A target that names a parameter or a buffer, not an operator."""
    return bool(re.fullmatch(r"[\w.]{1,300}", value)) and not value.startswith(("torch", "_operator", "math", "#"))


def _require_tensors(path: Path, name: str, content: bytes) -> None:
    """Torch falls back to a full unpickler where the safe one fails, so the safe one has to pass first."""
    torch = import_torch()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as inner:
            if any(member.compress_type != zipfile.ZIP_STORED for member in inner.infolist()):
                raise InputError(f"{path} is compressed inside, which torch does not do")
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # what torch raises and says differs between its versions
        raise InputError(f"{path} holds more than tensors in {name[:80]}, and nothing is unpickled") from error


def load_decoder(source: str | Path, *, weights: str | Path | None = None) -> Any:
    """Load a decoder from a file or from code.

    Parameters
    ----------
    source : str or Path
        A TorchScript file, a program that ``torch.export.save`` wrote, or ``package.module:name``, where the name is a
        module, a function of a batch, or a class or function without arguments that makes one. Code is imported and
        run; model files are checked first, and nothing in them is unpickled.
    weights : str or Path, optional
        A safetensors file with the parameters of a decoder that comes from code.

    Returns
    -------
    callable
        The decoder, a function of a batch of latents.
    """
    torch, text = import_torch(), str(source)
    if names_code(text):
        decoder = made(imported(text), text, "decoder")
        return decoder if weights is None else with_weights(decoder, text, Path(weights))
    if weights is not None:
        raise InputError(f"--weights is for decoders that come from code, as package.module:factory, not for {text}")
    path = Path(source)
    if not path.exists():
        hint = " (code is named as package.module:factory)" if path.suffix in ("", ".py") else ""
        raise MissingFileError(f"{path} does not exist{hint}")
    if not path.is_file():
        raise InputError(f"{path} is not a file: name a model file, or package.module:factory")
    if path.suffix == ".py":
        raise InputError(f"{path} is code: name what it holds as {path.stem}:factory, from its folder")
    kind, archive = open_archive(path)
    with _quiet():
        try:
            loaded = torch.jit.load(archive, map_location="cpu") if kind == "script" else _program(archive)
        except Exception as error:  # what torch raises and says differs between its versions
            noun = "a TorchScript module" if kind == "script" else "an exported program"
            raise InputError(f"{path} is not {noun} that this torch reads: {first_line(error)}") from error
        return loaded if kind == "script" else _decoder_of(path, *loaded)


def _program(archive: Any) -> Any:
    torch = import_torch()
    program = torch.export.load(archive)
    return program, program.module(check_guards=False)


def _decoder_of(path: Path, program: Any, module: Any) -> Any:
    """An exported program as a decoder: one tensor in, one out, and batches of any size."""
    torch, signature = import_torch(), program.graph_signature
    inputs = [node for node in program.graph.nodes if node.name in signature.user_inputs]
    if len(inputs) != 1 or len(signature.user_outputs) != 1:
        raise InputError(
            f"{path} has {len(signature.user_inputs)} inputs and {len(signature.user_outputs)} outputs: a decoder "
            "takes one tensor and returns one"
        )
    example = inputs[0].meta.get("val")
    if not isinstance(example, torch.Tensor) or example.dim() < 1:
        raise InputError(f"{path} does not take a batch of latents")
    size = example.shape[0]
    if isinstance(size, int):
        return in_batches(module, size, size)
    low, high = _limits(program.range_constraints.get(size.node.expr))
    return module if low <= 1 and high is None else in_batches(module, low, high)


def _limits(allowed: Any) -> tuple[int, int | None]:
    """The sizes of a batch that a program takes."""
    if allowed is None:
        return 1, None
    low, high = (int(end) if getattr(end, "is_Integer", False) else None for end in (allowed.lower, allowed.upper))
    return max(low or 1, 1), high


def in_batches(module: Any, low: int, high: int | None) -> Any:
    """A module that takes batches of ``low`` to ``high`` rows as one that takes any: the last row fills up the last."""
    torch = import_torch()

    class Batches(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.module = module
            self.training = False
            self.rows_at_least = low

        def forward(self, rows: Any) -> Any:
            parts = []
            for part in torch.split(rows, high or max(len(rows), 1)):
                missing = max(low - len(part), 0)
                filled = torch.cat([part, part[-1:].expand(missing, *part.shape[1:])]) if missing else part
                output = self.module(filled)
                parts.append(output[: len(part)] if isinstance(output, torch.Tensor) else output)
            return torch.cat(parts) if isinstance(parts[0], torch.Tensor) else parts[0]

    return Batches()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's notes on TorchScript's future, and its log of programs that it cannot read."""
    log = logging.getLogger("torch")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
