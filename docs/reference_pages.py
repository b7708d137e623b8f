"""Reference pages made from the code when the docs are built: one per command, and the JSON keys of results."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any


def write(folder: Path) -> None:
    """Write all pages into a folder; those of commands that are gone are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"commands": command_index(), "json": schema_page()}
    pages |= {f"isorep-{name}": command_page(name, command) for name, command in _commands().items()}
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # else Sphinx would read it again
            path.write_text(text, encoding="utf-8")


# Commands


def command_index() -> str:
    """A table of all commands, each with a page."""
    rows = [f"| [`isorep {name}`](isorep-{name}.md) | {_summary(each)} |" for name, each in _commands().items()]
    names = [f"isorep-{name}" for name in _commands()]
    return "\n".join(
        [
            "# Command line",
            "",
            "Every command has `--help`. Results go to the standard output, progress and errors to the standard error.",
            "Exit codes: 0 success, 1 a stated limit was exceeded, 2 invalid input or usage, 130 interrupted.",
            "",
            "| command | |",
            "|---|---|",
            *rows,
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *names,
            "```",
            "",
        ]
    )


def command_page(name: str, command: Any) -> str:
    """Usage, description, arguments and options of a command, and of each command below it."""
    parts = [f"# isorep {name}", "", *_described(command, f"isorep {name}")]
    for below, each in getattr(command, "commands", {}).items():
        parts += ["", f"## isorep {name} {below}", "", *_described(each, f"isorep {name} {below}")]
    return "\n".join(parts) + "\n"


def _described(command: Any, path: str) -> list[str]:
    lines = [_escaped(paragraph) + "\n" for paragraph in inspect.cleandoc(command.help or "").split("\n\n")]
    if hasattr(command, "commands"):
        return lines
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines += ["```text", *textwrap.wrap(usage, 80, subsequent_indent="  ", break_on_hyphens=False), "```", ""]
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        records = [_record(each, context) for each in command.params if each.param_type_name == kind]
        shown = [f"| `{_cell(call)}` | {_escaped(' '.join(words.split()))} |" for call, words in records if call]
        if shown:
            lines += [f"| {title} | |", "|---|---|", *shown, ""]
    return lines


def _record(parameter: Any, context: Any) -> tuple[str, str]:
    record = parameter.get_help_record(context)
    return record if record is not None else ("", "")


def _commands() -> dict[str, Any]:
    from typer.main import get_command

    from isorep.cli.commands import app

    return {name: each for name, each in get_command(app).commands.items() if not each.hidden}


def _summary(command: Any) -> str:
    first = " ".join(inspect.cleandoc(command.short_help or command.help or "").split("\n\n")[0].split())
    return _escaped(first)


def _escaped(text: str) -> str:
    return _cell(text) if "`" in text else _cell(text).replace("<", "&lt;")


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


# JSON

# Keys that many results share, where their class does not describe them.
SHARED = {
    "caveats": "What to keep in mind about these numbers.",
    "forward": "The source mapped onto the target: its rungs, unit and verdict.",
    "seconds": "How long every stage took.",
    "settings": "What was asked for, with defaults filled in.",
    "source": "Name, rows, columns, rank and condition of the source.",
    "target": "The same of the target.",
    "unit": "The unit of errors, in words.",
    "verdict": "The answer, and a sentence that says why.",
}


def schema_page() -> str:
    """Schemas of all results, with their keys at the top."""
    lines = [
        "# JSON results",
        "",
        "`--json PATH` and `result.to_json(path)` write the complete result. Every file has `schema` (the kind of",
        "result and its version), `isorep`, `versions` and `page` (the report as data, which `isorep report` draws).",
        "Numbers keep all digits; infinity and missing values are `null`. A key that changes its meaning raises the",
        "number of its schema.",
        "",
        "| schema | result | written by |",
        "|---|---|---|",
    ]
    results = sorted(_results(), key=lambda each: each.schema)
    lines += [f"| `{each.schema}` | `{_public(each)}` | {_written_by(each)} |" for each in results]
    for each in results:
        head = inspect.cleandoc(each.__doc__ or "").splitlines()[0]
        lines += ["", f"## {each.schema}", "", _plain(head), ""]
        described = SHARED | {key: words for key, words in _attributes(each).items() if words}
        lines += ["| key | |", "|---|---|"]
        lines += [f"| `{key}` | {_escaped(described.get(key, ''))} |" for key in _keys(each)]
    return "\n".join(lines) + "\n"


def _results() -> Iterator[type]:
    """Every kind of result that is written as JSON, the most complete class of each schema."""
    import isorep
    from isorep.results import ResultRecord

    for info in pkgutil.walk_packages(isorep.__path__, "isorep."):
        import_module(info.name)
    waiting, found = [ResultRecord], {}
    while waiting:
        each = waiting.pop(0)
        waiting += each.__subclasses__()
        if is_dataclass(each):
            found[each.schema] = each  # of several, the one that holds the others comes last
    yield from found.values()


def _written_by(result: type) -> str:
    """The command of a schema, in words where several write it."""
    name = result.schema.partition(".")[2].partition("/")[0]  # type: ignore[attr-defined]
    commands = {
        "compare": "compare A B",
        "compare_layers": "compare A/ B/",
        "compare_many": "compare A B C ...",
        "decoder_pair": "decoder ... --against",
        "ica": "ica fit",
        "layers": "similarity ... --layers",
        "mechanisms": "decoder ... --blocks",
        "reproduction": "reproduce",
        "stability": "ica stability",
        "translate": "translate fit",
    }
    if name in commands or name in _commands():
        return f"`isorep {commands.get(name, name)}`"
    return "Python"


def _keys(result: Any) -> list[str]:
    """Keys at the top of a result's JSON: its fields, what it derives, and what its ``to_dict`` adds."""
    names = [each.name for each in fields(result) if each.name not in result.unwritten]
    own = result.to_dict
    base = "to_dict" in inspect.getsource(own).replace("def to_dict", "")
    return list(dict.fromkeys([*(names if base else []), *(result.derived if base else ()), *_added(own)]))


def _added(function: Any) -> list[str]:
    """Keys of the dictionaries that a ``to_dict`` returns or merges into what it returns, itself or by functions."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    parts = [part for statement in tree.body for part in _outside(statement)]  # type: ignore[attr-defined]
    merged = [node for node in parts if isinstance(node, ast.Return | ast.BinOp)]
    used = {name.id for node in merged for name in _outside(node) if isinstance(name, ast.Name)}
    assigned = [
        node.value
        for node in parts
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _target(node) in used
    ]
    found = [part for node in [*merged, *assigned] for part in _outside(node)]
    keys = [key.value for part in found if isinstance(part, ast.Dict) for key in part.keys if _is_text(key)]
    called = [part.func.id for part in found if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)]
    for name in dict.fromkeys(called):
        helper = getattr(function, "__globals__", {}).get(name)
        if inspect.isfunction(helper) and helper.__module__.startswith("isorep.") and helper is not function:
            keys += _added(helper)
    return [str(key) for key in dict.fromkeys(keys) if key not in ("schema", "isorep", "versions")]


def _is_text(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def _target(node: ast.Assign | ast.AnnAssign) -> str | None:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return target.id if isinstance(target, ast.Name) else None


def _outside(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, without what is inside of dictionaries."""
    yield node
    if not isinstance(node, ast.Dict | ast.DictComp):
        for child in ast.iter_child_nodes(node):
            yield from _outside(child)


# Classes


def undocumented_elsewhere(module: str, name: str, attributes: list[str]) -> list[str]:
    """Properties with a description that the docstring of their class does not list."""
    described = import_module(module)
    result = getattr(described, name)
    listed = _attributes(result)
    return [
        each
        for each in attributes
        if each not in listed and isinstance(getattr(result, each, None), property) and getattr(result, each).__doc__
    ]


def _attributes(described: type) -> dict[str, str]:
    """Attributes of a class and their descriptions, from its docstring in numpydoc's form."""
    from numpydoc.docscrape import ClassDoc

    parts = ClassDoc(described, config={"show_class_members": False})
    found: dict[str, str] = {}
    for parameter in [*parts["Parameters"], *parts["Attributes"]]:
        for name in re.split(r",\s*", parameter.name):
            found[name] = _plain(" ".join(" ".join(parameter.desc).split()))
    return found


def _plain(text: str) -> str:
    """Markdown of a docstring's sentence: roles and double backticks become code."""
    return re.sub(r":\w+:`", "`", text).replace("``", "`")


def _public(result: type) -> str:
    import isorep

    return f"isorep.{result.__name__}" if hasattr(isorep, result.__name__) else f"{result.__module__}.{result.__name__}"
