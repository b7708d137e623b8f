"""Files are whole or not there: temporary ones are removed, also those of killed processes, and text shows no codes."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import isorep
from isorep import files
from isorep.cli.common import require_apart
from isorep.errors import InputError
from isorep.files import alone_in, remove_unfinished, replacing, require_writable, resolved, visible, write_text

WRITER = """
import sys, time
from pathlib import Path
from isorep.files import replacing
with replacing(Path(sys.argv[1]), folder=sys.argv[2] == "folder") as temporary:
    print(temporary, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_leaves_is_removed_by_the_next_writer_and_not_before(tmp_path, kind, monkeypatch):
    target, folder = tmp_path / "out.zarr", kind == "folder"
    command = [sys.executable, "-c", WRITER, str(target), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        temporary = Path(writer.stdout.readline().strip())
        monkeypatch.setattr(files, "_FRESH", -1.0)
        with replacing(target, folder=folder):
            assert temporary.exists(), "its process still writes"
        writer.send_signal(signal.SIGKILL)
    assert temporary.exists()
    with replacing(target, folder=folder):
        assert not temporary.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


def test_two_writers_of_one_target_in_one_process_leave_each_other_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_FRESH", -1.0)
    target = tmp_path / "out.txt"
    with replacing(target) as first:
        with replacing(target) as second:
            assert first.exists()
            second.write_text("second")
        assert target.read_text() == "second"
        first.write_text("first")
    assert target.read_text() == "first"
    assert len(list(tmp_path.iterdir())) == 1


OVER_AND_OVER = """
import sys
from pathlib import Path
from isorep import files
if sys.argv[3] == "aside":
    files._exchanged = lambda one, other: False
for _ in range(100):
    with files.replacing(Path(sys.argv[1]), folder=True) as temporary:
        for name in "abc":
            (temporary / name).write_text(sys.argv[2])
"""


@pytest.mark.parametrize("way", ["exchange", "aside"])
def test_two_processes_that_write_one_folder_over_and_over_leave_a_whole_one(tmp_path, way):
    target = tmp_path / "out.zarr"
    command = [sys.executable, "-c", OVER_AND_OVER, str(target)]
    writers = [subprocess.Popen([*command, who, way], stderr=subprocess.PIPE, text=True) for who in ("one", "two")]
    said = [writer.communicate()[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], said
    assert sorted(path.name for path in target.iterdir()) == ["a", "b", "c"]
    assert len({path.read_text() for path in target.iterdir()}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems cannot exchange two folders")
def test_a_folder_that_is_replaced_is_never_missing(tmp_path, monkeypatch):
    target, real, there = tmp_path / "out.zarr", os.rename, []
    target.mkdir()
    (target / "old").touch()
    monkeypatch.setattr(os, "replace", lambda *paths: (there.append(target.is_dir()), real(*paths)))
    with replacing(target, folder=True) as temporary:
        (temporary / "new").touch()
    assert all(there)
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


HOLDER = "import sys, time; from pathlib import Path; from isorep.files import alone_in\n"
HOLDER += "with alone_in(Path(sys.argv[1])):\n    print('in', flush=True); time.sleep(600)"


def test_a_folder_belongs_to_one_run_until_its_process_ends(tmp_path):
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "in\n"
        with pytest.raises(InputError, match="another run is at work"), alone_in(folder):
            pass
        holder.send_signal(signal.SIGKILL)
    with alone_in(folder):
        assert list(folder.iterdir()) == []


def test_files_of_other_names_are_never_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_FRESH", -1.0)
    others = [tmp_path / ".out.txt-mine.txt", tmp_path / ".other.txt-isorep-abc.txt", tmp_path / "out.txt-isorep-1.txt"]
    for path in others:
        path.write_text("kept")
    write_text(tmp_path / "out.txt", "new")
    assert all(path.read_text() == "kept" for path in others)


def test_a_full_disk_is_reported_with_the_name_of_the_target(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("before")
    with pytest.raises(OSError, match=r"out\.txt") as caught, replacing(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == str(target)
    assert target.read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_long_names_have_temporary_files_too(tmp_path):
    target = tmp_path / ("n" * 240 + ".json")
    write_text(target, "whole")
    assert target.read_text() == "whole"


@pytest.mark.parametrize("letter", ["\N{GRINNING FACE}", "\N{CJK UNIFIED IDEOGRAPH-6F22}", "\udcff"])
def test_names_whose_letters_take_several_bytes_have_temporary_files_too(tmp_path, letter):
    size = len(os.fsencode(letter))
    target = tmp_path / (letter * (240 // size) + ".json")
    write_text(target, "whole")
    with replacing(target) as temporary:
        assert files.is_temporary(temporary, target)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_folder_that_takes_no_new_file_is_reported_with_the_name_of_the_target(tmp_path, monkeypatch):
    def full(path, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", full)
        with pytest.raises(OSError, match=r"out\.txt") as caught:
            write_text(tmp_path / "out.txt", "new")
    assert caught.value.filename == str(tmp_path / "out.txt")


def test_control_codes_are_written_out_and_other_text_stays():
    assert visible("naïve µ 漢字 -> \\ [red] 😀") == "naïve µ 漢字 -> \\ [red] 😀"
    assert visible("a\x1b[2J\x9bm\x7f\r\n\t") == "a\\x1b[2J\\x9bm\\x7f\\r\\n\\t"
    assert visible("a\u202etxt.exe\u2066\u2028") == "a\\u202etxt.exe\\u2066\\u2028"
    assert visible("\udcff") == "\\udcff"
    assert visible("a\nb\tc\x1b", keep="\n\t") == "a\nb\tc\\x1b"


def test_young_temporary_files_are_left(tmp_path):
    young = tmp_path / ".out.txt-isorep-abc.txt"
    young.write_text("somebody begins")
    write_text(tmp_path / "out.txt", "new")
    assert young.exists()
    old = time.time() - 60
    os.utime(young, (old, old))
    write_text(tmp_path / "out.txt", "new")
    assert not young.exists()


def test_a_library_with_temporary_files_of_its_own_leaves_them_in_a_folder_that_is_removed(tmp_path):
    target = tmp_path / "m.safetensors"
    target.write_text("before")
    with pytest.raises(FileNotFoundError), replacing(target, apart=True) as made:
        made.with_name(".tmp1").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]
    with replacing(target, apart=True) as made:
        made.with_name(".tmp2").touch()
        made.write_text("after")
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]
    assert target.read_text() == "after"


@pytest.mark.parametrize("folder", [False, True])
def test_what_a_link_points_to_is_replaced_and_the_link_stays(tmp_path, folder):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "out", tmp_path / "link"
    link.symlink_to(target)
    for _ in range(2):
        with replacing(link, folder=folder) as temporary:
            assert temporary.parent == target.parent
            (temporary / "part" if folder else temporary).write_text("new")
        assert link.is_symlink()
        assert (target / "part" if folder else target).read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["out"]


def test_links_that_lead_in_a_circle_are_refused_by_name(tmp_path):
    first, second = tmp_path / "first.npy", tmp_path / "second.npy"
    first.symlink_to(second)
    second.symlink_to(first)
    calls = [require_writable, resolved, lambda path: write_text(path, "new")]
    calls.append(lambda path: isorep.write(np.eye(3), path))
    calls.append(lambda path: require_apart([tmp_path / "a.json"], path))
    for call in calls:
        with pytest.raises(InputError, match=r"first\.npy is a link that leads back to itself"):
            call(first)
    assert first.is_symlink()


def test_what_is_unfinished_is_removed_on_request(tmp_path):
    left = []

    def write():
        with replacing(tmp_path / "a.json") as temporary:
            temporary.write_text("half")
            remove_unfinished()
            left.extend(tmp_path.iterdir())

    with pytest.raises(FileNotFoundError):
        write()
    assert left == []


@pytest.mark.parametrize("folder", [False, True])
def test_an_interrupt_right_after_a_temporary_file_is_made_leaves_nothing(folder, tmp_path, monkeypatch):
    def interrupted(path):
        assert path.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("isorep.files._locked", interrupted)
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "out", folder=folder):
        pytest.fail("nothing is written")
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_taken_are_not_used_and_not_removed(tmp_path, monkeypatch):
    drawn = iter([b"a" * 6, b"b" * 6])
    taken = tmp_path / f".out-isorep-{(b'a' * 6).hex()}"
    taken.write_text("of another process")
    with monkeypatch.context() as patch:
        patch.setattr("isorep.files.os.urandom", lambda size: next(drawn))
        write_text(tmp_path / "out", "whole")
    assert taken.read_text() == "of another process"
    assert (tmp_path / "out").read_text() == "whole"


def test_an_interrupt_while_a_temporary_folder_is_removed_stays_one(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        try:
            raise KeyboardInterrupt
        finally:
            os.close(-1)  # as when the signal comes right after the folder was closed

    monkeypatch.setattr("isorep.files.shutil.rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "out", apart=True) as temporary:
        temporary.write_text("whole")
