"""What a stranger meets: names that load, a light import, docs for every name, a wheel that works alone."""

import ast
import doctest
import importlib
import itertools
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import isorep

ROOT = Path(__file__).parents[1]


def test_every_public_name_loads_and_has_a_docstring():
    for name in isorep.__all__:
        value = getattr(isorep, name)
        if name != "__version__":
            assert value.__doc__, name
    assert sorted(isorep.__all__) == dir(isorep)
    with pytest.raises(AttributeError, match="nonsense"):
        isorep.nonsense  # noqa: B018


def documented_names(page):
    """Full names that a page of the reference lists."""
    for module, names in re.findall(r"\.\. currentmodule:: (\S+)\n(.*?)(?=\.\. currentmodule|```)", page, re.DOTALL):
        yield from (f"{module}.{name}" for name in re.findall(r"^   (\w+)$", names, re.MULTILINE))


def test_every_public_name_has_its_place_in_the_api_docs():
    index = (ROOT / "docs" / "api.md").read_text()
    pages = sorted((ROOT / "docs" / "api").glob("*.md"))
    for page in pages:
        assert f"(api/{page.name})" in index, f"{page.name} is not in docs/api.md"
        assert f"\napi/{page.stem}\n" in index, f"{page.name} is not in the contents of docs/api.md"
    documented = set(itertools.chain(*(documented_names(page.read_text()) for page in pages)))
    for name in isorep.__all__:
        if name != "__version__":
            module = any(each.startswith(f"isorep.{name}.") for each in documented)
            assert module or f"isorep.{name}" in documented, f"{name} is on no page of docs/api"


def test_importing_the_package_and_its_command_line_loads_nothing_heavy():
    code = (
        "import sys, isorep, isorep.cli.commands; "
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'pyarrow', 'rich.progress') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


HEAVY = ("sklearn", "pandas", "scipy.stats", "scipy.optimize", "pyarrow", "matplotlib", "rich")
COMPARED = {
    "compare": "import isorep; isorep.compare(files[0], files[1], n_null=5)",
    "compare_many": "import isorep; isorep.compare_many(files, n_null=5)",
    "the command for two files": "arguments = [*files[:2], '--null', '5']",
    "the command for many files": "arguments = [*files, '--null', '5']",
    "a page": "arguments = [*files[:2], '--null', '5', '--html', files[0] + '.html', '--json', files[0] + '.json']",
}


@pytest.mark.parametrize("kind", COMPARED)
@pytest.mark.parametrize("repeats", [1, 3])
def test_comparing_arrays_loads_nothing_heavy(tmp_path, kind, repeats):
    """Neither an estimator nor a table is needed, with equal rows, which are kept in one fold, or without."""
    rng = np.random.default_rng(0)
    sources = rng.laplace(size=(60, 4))
    files = [str(tmp_path / f"{name}.npy") for name in "abc"]
    for file in files:
        np.save(file, np.repeat(sources @ rng.normal(size=(4, 4)), repeats, axis=0))
    code = f"""
import sys
files, arguments = {files!r}, None
{COMPARED[kind]}
if arguments is not None:
    from isorep.cli.commands import app
    app(["compare", *arguments], standalone_mode=False)
print("loaded:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["loaded: []"], done.stdout + done.stderr


def test_the_command_postpones_parts_of_numpy_until_they_are_used():
    code = """
import sys
from isorep.cli.main import run
sys.argv = ["isorep", "doctor"]
try:
    run()
finally:
    import scipy.linalg
    import numpy
    before = "numpy.f2py.crackfortran" in sys.modules
    numpy.testing.assert_equal(1, 1)
    print("before:", before, "after:", callable(numpy.f2py.run_main) and "numpy.f2py.crackfortran" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["before: False after: True"], done.stdout + done.stderr


@pytest.mark.parametrize("room", ["alignment", "ica"])
def test_names_that_load_on_first_use_are_those_of_their_room(room):
    package = importlib.import_module(f"isorep.{room}")
    for info in pkgutil.iter_modules(package.__path__):
        assert info.name not in package.__all__, "the module would hide the name"
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense  # noqa: B018


def modules():
    return [info.name for info in pkgutil.walk_packages(isorep.__path__, "isorep.")]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_the_version_is_the_same_everywhere():
    assert f"version: {isorep.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {isorep.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_dependency_is_pinned_in_the_constraints():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    pinned = {
        line.split("==")[0].lower()
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    for requirement in wanted:
        if not requirement.startswith("isorep["):
            assert re.split(r"[\[;>]", requirement)[0].lower() in pinned


def run(*command, cwd, check=True):
    """A command that finds no other isorep, and whose Python keeps the bytecode of what it imports."""
    settings = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd, env=settings)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Wheels built from the checkout and from the unpacked sdist."""
    folder = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    run(*build, folder / "sdist", "--sdist", ROOT, cwd=folder)
    (archive,) = (folder / "sdist").glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    (source,) = folder.glob("isorep-*")
    found = []
    for name, place in (("checkout", ROOT), ("unpacked", source)):
        run(*build, folder / name, "--wheel", place, cwd=folder)
        found += (folder / name).glob("*.whl")
    return found


def test_the_sdist_makes_the_same_wheel_as_the_checkout(wheels):
    first, second = ({each.filename: each.CRC for each in zipfile.ZipFile(path).infolist()} for path in wheels)
    assert first == second
    assert any(name.endswith("isorep/__init__.py") for name in first)


def test_the_package_installs_and_works_without_extras_and_compilers(tmp_path, wheels):
    """A clean environment with the core alone compares two files, and names the extra that parquet needs.

    Nothing but wheels is taken, so that no compiler is needed. Bytecode is not made for modules that nobody imports.
    """
    local = partial(run, cwd=tmp_path)
    local(sys.executable, "-m", "venv", "--without-pip", tmp_path / "clean")
    bin_folder = tmp_path / "clean" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", bin_folder / "python", "install", "-q", "--no-compile"]
    local(*pip, "--only-binary", ":all:", "--constraint", ROOT / "constraints.txt", wheels[1])
    assert local(bin_folder / "isorep", "--version").stdout.strip() == f"isorep {isorep.__version__}"
    x = np.random.default_rng(0).normal(size=(50, 3))
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "b.npy", 2 * x)
    (tmp_path / "c.parquet").write_bytes(b"PAR1")
    done = local(bin_folder / "isorep", "compare", "a.npy", "b.npy", "--null", "20")
    assert "agree up to a signed permutation" in done.stdout
    refused = local(bin_folder / "isorep", "compare", "a.npy", "c.parquet", check=False)
    assert refused.returncode == 2
    assert "pip install 'isorep[io]'" in refused.stderr
    assert "not installed" in local(bin_folder / "isorep", "doctor").stdout


ROOMS = sorted(path.parent for path in (ROOT / "src" / "isorep").glob("*/__init__.py"))
LARGE = 10  # files above which a room has a README


@pytest.mark.parametrize(
    "room", [room for room in ROOMS if len(list(room.rglob("*.py"))) > LARGE], ids=lambda r: r.name
)
def test_the_readme_of_a_large_room_lists_every_file_once_and_no_other(room):
    listed = re.findall(r"^(?:\* |\| )`([\w/]+\.py)`", (room / "README.md").read_text(), re.MULTILINE)
    files = [str(path.relative_to(room)) for path in room.rglob("*.py") if path.name != "__init__.py"]
    assert sorted(listed) == sorted(files)


def test_contributing_names_every_room_and_its_layer():
    """The table of rooms, from high to low, is that of the import contracts; others are named below it."""
    import tomllib

    text = (ROOT / "CONTRIBUTING.md").read_text()
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [{name.strip() for name in line.replace("isorep.", "").split("|")} for line in contracts[0]["layers"]]
    table = re.findall(r"^\| (\d+) \| (.+?) \|", text, re.MULTILINE)
    named = {}
    for number, cell in table:
        named.setdefault(int(number), set()).update(
            name.removesuffix(".py") for name in re.findall(r"`([\w.]+)/?`", cell)
        )
    assert [named[number] for number in sorted(named, reverse=True)] == layers
    for path in (ROOT / "src" / "isorep").iterdir():
        if path.suffix == ".py" and not path.name.startswith("_"):
            assert f"`{path.name}`" in text
    for room in ROOMS:
        assert f"`{room.name}/`" in text


MOST_PARAMETERS = 12  # of functions that users do not call


def test_functions_inside_take_few_parameters():
    """Commands and functions in the API docs have as many as they have options."""
    pages = [page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")]
    public = {name.rpartition(".")[2] for page in pages for name in documented_names(page)}
    for path in (ROOT / "src" / "isorep").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name not in public and path.parent.name != "cli":
                names = [
                    each.arg for each in (*node.args.args, *node.args.kwonlyargs) if each.arg not in ("self", "cls")
                ]
                assert len(names) <= MOST_PARAMETERS, f"{path.name}: {node.name}"
