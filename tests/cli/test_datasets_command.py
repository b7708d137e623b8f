"""``isorep datasets``: what is known, what is there, and downloads."""

import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from isorep.datasets import catalogue, names
from isorep.datasets.catalogue import PublishedSet, Remote


def test_the_list_names_every_set_its_file_and_its_origin(isorep_command, tmp_path, monkeypatch):
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    (tmp_path / "3dshapes.h5").write_bytes(b"")
    done = isorep_command("datasets", "list", "--folder", tmp_path, "--json", tmp_path / "list.json")
    assert done.code == 0, done.err
    data = json.loads((tmp_path / "list.json").read_text())
    assert data["schema"] == "isorep.datasets/1"
    assert [each["name"] for each in data["datasets"]] == list(names())
    assert [each["name"] for each in data["datasets"] if each["present"]] == ["shapes3d"]
    for name in names():
        assert name in done.out
    assert "no folder" in isorep_command("datasets", "list").out
    assert isorep_command("datasets", "list", "--quiet").out == ""


@pytest.fixture
def host(tmp_path):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    (tmp_path / "host").mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "host")))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_download_prints_what_it_checked(isorep_command, tmp_path, monkeypatch, host):
    data = b"a small room" * 1000
    (tmp_path / "host" / "3dshapes.h5").write_bytes(data)
    real = catalogue.published_set("shapes3d")
    url = f"http://127.0.0.1:{host.server_port}/3dshapes.h5"

    def known(**checks):
        remote = Remote(url, "3dshapes.h5", **checks)
        monkeypatch.setitem(
            catalogue._ENTRIES, "shapes3d", PublishedSet("shapes3d", real.title, real.file, real.open, (remote,))
        )

    folder = tmp_path / "data"
    folder.mkdir()
    known(md5="0" * 32)
    wrong = isorep_command("datasets", "download", "shapes3d", "--folder", folder)
    assert wrong.code == 2
    assert "md5" in wrong.err
    assert not (folder / "shapes3d" / "3dshapes.h5").exists()
    known()
    done = isorep_command("datasets", "download", "shapes3d", "--folder", folder, "--json", tmp_path / "done.json")
    assert done.code == 0, done.err
    assert "no checksum is published" in done.out
    assert hashlib.sha256(data).hexdigest() in done.out
    facts = json.loads((tmp_path / "done.json").read_text())["files"]
    assert facts[0]["size"] == len(data)
    known(sha256=hashlib.sha256(data).hexdigest())
    assert "checked by sha256" in isorep_command("datasets", "download", "shapes3d", "--folder", folder).out


def test_wrong_calls_end_with_one_sentence(isorep_command, tmp_path, monkeypatch):
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    for arguments, said in (
        (("download", "nothing"), "there is no data set 'nothing'"),
        (("download", "falcor3d", "--folder", tmp_path), "by hand from"),
        (("download", "shapes3d"), "ISOREP_DATA"),
        (("list", "--folder", tmp_path / "nowhere"), "is not a folder"),
    ):
        done = isorep_command("datasets", *arguments)
        assert done.code == 2
        assert said in done.err
        assert len(done.err.strip().splitlines()) == 1
