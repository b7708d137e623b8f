"""The environment of ``make test-lowest`` is what pyproject.toml claims."""

import tomllib

import pytest

from tests.lowest import ROOT, lowest, name_and_bound

USERS = ("io", "bio", "dask", "torch", "hf", "plot", "images")


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_a_lower_bound_becomes_a_pin_and_everything_else_a_ceiling():
    claimed = {
        "dependencies": ["numpy>=1.26", "scikit_learn >= 1.6"],
        "optional-dependencies": {"dask": ["dask[array]>=2024.8", "numpy>=1.26"], "dev": ["numpy", "isorep[test]"]},
    }
    tested = "# a remark\nnumpy==2.4.6\nclick==8.5.1\nscikit-learn==1.9.1\nPyYAML==6.0.3\n"
    assert lowest(claimed, tested) == [
        "dask==2024.8",
        "numpy==1.26",
        "scikit-learn==1.6",
        "click<=8.5.1",
        "PyYAML<=6.0.3",
    ]


def test_two_lower_bounds_for_one_package_are_refused():
    claimed = {"dependencies": ["h5py>=3.10"], "optional-dependencies": {"bio": ["h5py>=3.11"]}}
    with pytest.raises(ValueError, match=r"h5py has two lower bounds, 3\.10 and 3\.11"):
        lowest(claimed, "")


@pytest.mark.parametrize("requirement", ["numpy<2", "numpy>=1.26,<3", "numpy~=1.26"])
def test_what_cannot_be_turned_into_a_pin_is_refused(requirement):
    with pytest.raises(ValueError, match="is not NAME or NAME>=VERSION"):
        name_and_bound(requirement)


def test_markers_do_not_change_the_pin():
    assert name_and_bound("tomli>=2; python_version<'3.11'") == ("tomli", "2")
    assert name_and_bound("pgserver; sys_platform == 'linux' and python_version < '3.13'") == ("pgserver", None)


def test_everything_a_user_installs_has_a_lower_bound_and_is_pinned_to_it():
    extras = project()["optional-dependencies"]
    wanted = [*project()["dependencies"], *(each for name in USERS for each in extras[name])]
    pins = lowest(project(), (ROOT / "constraints.txt").read_text())
    for requirement in wanted:
        name, bound = name_and_bound(requirement)
        assert bound, f"{requirement} has no lower bound"
        assert f"{name}=={bound}" in pins


def test_the_makefile_installs_every_extra_that_a_user_may():
    assert f"EXTRAS := {','.join(USERS)}\n" in (ROOT / "Makefile").read_text()
    # Clients of stores, onnxruntime and gguf are large or rare, and their tests are skipped without them.
    assert set(project()["optional-dependencies"]) == {*USERS, "onnx", "gguf", "stores", "test", "dev", "docs", "bench"}
