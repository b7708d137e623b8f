"""README and docs: outputs that the commands still print, lines that fit, links and names that exist."""

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from .report.test_notebook import RESULTS, made

ROOT = Path(__file__).parents[1]
LONGEST = 120
MOST_WORDS = 40  # of a sentence; write 25


def loaded(name):
    """A script of the docs folder as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documents():
    made = {ROOT / "docs" / name for name in ("_build", "gallery", "api/generated", "reference")}
    inside = [path for path in (ROOT / "docs").rglob("*.md") if not made & set(path.parents)]
    return sorted([*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md"), *inside])


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_of_markdown_is_longer_than_the_limit(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > LONGEST] == []


def sentences(text):
    """Sentences of a page's paragraphs and list items; code, formulas and links count as the words that they show."""
    for pattern, shown in (
        (r"<!--.*?-->|^ *(`{3,}).*?^ *\1|\$\$.*?\$\$|</?[a-z][^>]*>|^(#|\||:::)[^\n]*", ""),  # not prose
        (r"!?\[([^]]*)\]\([^)]*\)", r"\1"),
        (r"`[^`]+`|\$[^$]+\$", "Code"),
        (r"^\s*([*+-]|\d+\.)\s", "\n\n"),
    ):
        text = re.sub(pattern, shown, text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.!?])[*_)\"]*\s+(?=[*_(\"]*[A-Z0-9])", " ".join(paragraph.split()))


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_is_too_long_to_be_read_once(path):
    if path.name != "CHANGELOG.md":
        long = [each for each in sentences(path.read_text(encoding="utf-8")) if len(each.split()) > MOST_WORDS]
        assert long == []


def test_sentences_are_found_without_code_tables_and_markup():
    page = """# A heading is none

One `with --code` here, and 0.5 e.g. in it. [A link](https://example.org/a.b) is **two.** Three?

| a table | is none |

```shell
no prose. At all
```

* An item
  over lines
* and $a. B$ another
"""
    found = ["One Code here, and 0.5 e.g. in it.", "A link is **two.", "Three?", "An item over lines"]
    assert [each for each in sentences(page) if each] == [*found, "and Code another"]


def numbers(text):
    return [float(each) for each in re.findall(r"(?<![\w.])-?\d+\.?\d*", text)]


def test_the_outputs_in_the_documents_are_what_the_commands_print(tmp_path):
    figures = loaded("figures")
    figures.train(tmp_path, seeds=5)
    figures.write_scripts(tmp_path)
    printed = {name: figures.output(name, tmp_path) for name in figures.OUTPUTS}
    for path in figures.pages():
        for name, block in figures.blocks(path.read_text(encoding="utf-8")).items():
            if name not in printed:
                continue
            words = [re.sub(r"[-\d.]+", "", each).split() for each in (block, printed[name])]
            assert words[0] == words[1], f"{path.name}: run make figures"
            shown, again = numbers(block), numbers(printed[name])
            assert np.allclose(shown, again, rtol=0.02, atol=0.01), f"{path.name}: run make figures"


def test_every_block_that_is_opened_is_one_that_can_be_made():
    figures = loaded("figures")
    shown = set()
    for path in figures.pages():
        text = path.read_text(encoding="utf-8")
        opened = re.findall(r"<!-- output: ([\w-]+) -->", text)
        made = figures.blocks(text)
        assert sorted(made) == sorted(opened), path.name
        assert all(len(line) <= figures.COLUMNS for block in made.values() for line in block.splitlines()), path.name
        shown |= set(opened)
    assert shown == set(figures.OUTPUTS | figures.UNTESTED)


def test_every_output_in_a_guide_is_made_or_named_with_its_source():
    figures = loaded("figures")
    for path in (ROOT / "docs" / "guide").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        pasted = text.count("```text") > len(figures.blocks(text))
        assert pasted == (f"guide/{path.name}" in figures.PASTED), path.name


def test_times_in_the_readme_are_those_of_the_benchmarks():
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Scale and speed")[2].partition("\n## ")[0]
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    figures = re.findall(r"\b\d[\d.]*(?: to \d[\d.]*)? (?:s|GB)\b", section)
    assert figures
    for figure in figures:
        assert figure in measured, f"{figure} is not in docs/benchmarks.md"


def test_links_of_the_readme_lead_to_files():
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)]+)\)", text) + re.findall(r'src="([^"]+)"', text):
            if "://" not in target:
                assert (ROOT / target.partition("#")[0]).exists(), f"{name}: {target}"


def test_every_picture_is_made_by_the_script_or_named_with_its_source():
    figures = loaded("figures")
    named = ", ".join(figures.EXPERIMENTS).split(", ")
    for path in (ROOT / "docs" / "images").iterdir():
        known = any(path.match(f"{name}.*") for name in named)
        assert known or path.name in ("ladder.svg", "report.png"), path.name


def test_the_reference_has_a_page_for_every_command_and_a_section_for_every_schema(tmp_path):
    pytest.importorskip("numpydoc")
    from isorep.cli.commands import app

    loaded("reference_pages").write(tmp_path)
    commands = [command.name for command in app.registered_commands] + [group.name for group in app.registered_groups]
    for name in commands:
        page = (tmp_path / f"isorep-{name}.md").read_text()
        assert page.startswith(f"# isorep {name}\n")
        assert "--quiet" in page or name in ("datasets", "doctor", "report")
    keys = (tmp_path / "json.md").read_text()
    for source in (ROOT / "src" / "isorep").rglob("*.py"):
        for schema in re.findall(r'schema: ClassVar\[str\] = "([\w./]+)"', source.read_text()):
            assert f"\n## {schema}\n" in keys


@cache
def json_page():
    return loaded("reference_pages").schema_page()


@pytest.mark.parametrize("name", RESULTS)
def test_the_keys_of_the_json_page_are_those_that_results_write(name):
    pytest.importorskip("numpydoc")
    result = made(name)
    section = json_page().partition(f"## {result.schema}\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert set(listed) == set(result.to_dict()) - {"schema", "isorep", "versions"}


def test_broken_links_of_built_pages_are_found(tmp_path):
    (tmp_path / "index.html").write_text('<a href="other.html#here">good</a> <a href="https://example.org">outside</a>')
    (tmp_path / "other.html").write_text('<p id="here"><a href="index.html">back</a>')
    command = [sys.executable, ROOT / "docs" / "links.py", tmp_path]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (tmp_path / "other.html").write_text('<a href="gone.html">lost</a>')
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "other.html: gone.html" in done.stdout
    assert "index.html: other.html#here" in done.stdout
