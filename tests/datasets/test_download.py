"""Downloads from a host of our own: whole, resumed, interrupted, changed, wrong."""

import hashlib
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import isorep
from isorep.datasets import catalogue, download
from isorep.datasets.catalogue import PublishedSet, Remote
from isorep.datasets.download import fetch

from . import published

DATA = np.random.default_rng(0).integers(0, 256, 3 * 2**20, dtype=np.uint8).tobytes()


class Host:
    """A server of one file; ``requests`` are the headers it was asked with."""

    def __init__(self):
        self.data, self.etag = DATA, '"one"'
        self.ranges = self.lengths = True
        self.cut = None  # how many bytes of an answer are sent before the line goes dead
        self.shift = 0  # how far from the place asked for it answers
        self.requests = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self):
                host.requests.append(dict(self.headers))
                host.answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/file.bin"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, handler):
        if not handler.path.endswith("file.bin"):
            handler.send_error(404)
            return
        start = 0
        asked = handler.headers.get("Range")
        same = handler.headers.get("If-Range", self.etag) == self.etag
        if asked and self.ranges and same:
            start = int(asked.removeprefix("bytes=").rstrip("-")) + self.shift
            if start >= len(self.data):
                handler.send_error(416)
                return
        body = self.data[start:]
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        if self.lengths:
            handler.send_header("Content-Length", str(len(body)))
        if self.etag:
            handler.send_header("ETag", self.etag)
        handler.end_headers()
        handler.wfile.write(body if self.cut is None else body[: self.cut])


@pytest.fixture
def host():
    found = Host()
    yield found
    found.server.shutdown()
    found.server.server_close()


def sha256(data=DATA):
    return hashlib.sha256(data).hexdigest()


def everything(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole_with_progress(host, tmp_path):
    seen = []
    remote = Remote(host.url, "file.bin", len(DATA), sha256(), hashlib.md5(DATA).hexdigest())
    found = fetch(remote, tmp_path, progress=lambda *step: seen.append(step))
    assert found.path.read_bytes() == DATA
    assert (found.size, found.sha256, found.checked) == (len(DATA), sha256(), "sha256")
    assert seen[-1] == ("file.bin", len(DATA), len(DATA))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert everything(tmp_path) == ["file.bin"]
    assert fetch(remote, tmp_path) == found
    assert len(host.requests) == 1


def test_an_interrupted_transfer_goes_on_where_it_stopped(host, tmp_path):
    remote = Remote(host.url, "file.bin")
    host.cut = 2**20 + 17
    with pytest.raises(isorep.InputError, match=r"interrupted after 1048593 bytes.*run the same command to resume"):
        fetch(remote, tmp_path)
    assert "file.bin" not in everything(tmp_path)
    host.cut = None
    found = fetch(remote, tmp_path)
    assert host.requests[-1]["Range"] == "bytes=1048593-"
    assert host.requests[-1]["If-Range"] == '"one"'
    assert found.path.read_bytes() == DATA
    assert found.checked == ""
    assert everything(tmp_path) == ["file.bin"]


def test_a_file_that_has_changed_meanwhile_is_fetched_anew(host, tmp_path):
    remote = Remote(host.url, "file.bin")
    host.cut = 1000
    with pytest.raises(isorep.InputError, match="interrupted"):
        fetch(remote, tmp_path)
    host.cut, host.etag, host.data = None, '"two"', DATA[::-1]
    assert fetch(remote, tmp_path).path.read_bytes() == DATA[::-1]


def test_a_host_without_ranges_or_validators_starts_again(host, tmp_path):
    host.ranges, host.cut = False, 1000
    remote = Remote(host.url, "file.bin", sha256=sha256())
    with pytest.raises(isorep.InputError, match="interrupted"):
        fetch(remote, tmp_path)
    host.cut = None
    assert fetch(remote, tmp_path).path.read_bytes() == DATA
    assert "Range" in host.requests[-1]
    (tmp_path / "file.bin").unlink()
    host.ranges, host.etag, host.cut = True, "", 1000
    remote = Remote(host.url, "file.bin")  # nothing would tell that the file has changed
    with pytest.raises(isorep.InputError, match="interrupted"):
        fetch(remote, tmp_path)
    host.cut = None
    assert fetch(remote, tmp_path).path.read_bytes() == DATA
    assert "Range" not in host.requests[-1]


def test_a_partial_file_that_is_no_beginning_is_dropped(host, tmp_path):
    (tmp_path / ".file.bin.part").write_bytes(bytes(len(DATA) + 5))
    remote = Remote(host.url, "file.bin", sha256=sha256())
    assert fetch(remote, tmp_path).path.read_bytes() == DATA
    assert [("Range" in asked) for asked in host.requests] == [True, False]


def test_a_wrong_checksum_leaves_nothing(host, tmp_path):
    for remote in (
        Remote(host.url, "file.bin", sha256="0" * 64),
        Remote(host.url, "file.bin", md5="0" * 32),
    ):
        with pytest.raises(isorep.InputError, match=r"where 0+ is known"):
            fetch(remote, tmp_path)
        assert everything(tmp_path) == []


def test_what_does_not_fit_the_announcement_is_refused(host, tmp_path):
    with pytest.raises(isorep.InputError, match=f"announces {len(DATA)} bytes where 7 are known"):
        fetch(Remote(host.url, "file.bin", 7), tmp_path)
    host.lengths = False
    with pytest.raises(isorep.InputError, match="sends more than the 7 bytes"):
        fetch(Remote(host.url, "file.bin", 7), tmp_path)
    (tmp_path / ".file.bin.part").write_bytes(DATA[:100])
    host.shift = 3
    with pytest.raises(isorep.InputError, match="another part of the file"):
        fetch(Remote(host.url, "file.bin", sha256=sha256()), tmp_path)
    with pytest.raises(isorep.InputError, match="answers 404"):
        fetch(Remote(host.url + "x", "other.bin"), tmp_path)
    host.server.shutdown()
    host.server.server_close()
    with pytest.raises(isorep.InputError, match="interrupted after 0 bytes"):
        fetch(Remote(host.url, "third.bin"), tmp_path)


def test_a_file_that_is_there_is_checked_and_kept(host, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"something else")
    with pytest.raises(isorep.InputError, match="14 bytes where"):
        fetch(Remote(host.url, "file.bin", len(DATA)), tmp_path)
    with pytest.raises(isorep.InputError, match="damaged or has changed"):
        fetch(Remote(host.url, "file.bin", sha256=sha256()), tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == b"something else"
    assert not host.requests


def test_a_disk_that_is_too_small_is_noticed_first(host, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 2**28 + 5}))
    with pytest.raises(isorep.InputError, match="GiB are needed"):
        fetch(Remote(host.url, "file.bin"), tmp_path)


def test_a_data_set_lands_in_its_folder_and_archives_are_unpacked(host, tmp_path, monkeypatch):
    members = [
        (tarfile.TarInfo("data/cars/list.txt"), b"car_001_mesh\n"),
        (tarfile.TarInfo("data/cars/car_001_mesh.mat"), b"a car"),
        (tarfile.TarInfo("data/cars/../../../escape.txt"), b"bad"),
        (tarfile.TarInfo("data/sprites/one.mat"), b"no car"),
    ]
    published.tar_gz(tmp_path / "made.tar.gz", members)
    host.data = (tmp_path / "made.tar.gz").read_bytes()
    real = catalogue.published_set("cars3d")
    entry = PublishedSet(
        "cars3d", real.title, real.file, real.open, (Remote(host.url, "file.tar.gz"),), unpack=real.unpack
    )
    monkeypatch.setitem(catalogue._ENTRIES, "cars3d", entry)
    folder = tmp_path / "data"
    folder.mkdir()
    (done,) = download("cars3d", folder)
    assert done.path == folder / "cars3d" / "file.tar.gz"
    assert everything(folder / "cars3d") == ["cars", "file.tar.gz"]
    assert everything(folder / "cars3d" / "cars") == ["car_001_mesh.mat", "list.txt"]
    assert not list(tmp_path.rglob("escape.txt"))


def test_sets_that_want_a_browser_say_so(tmp_path, monkeypatch):
    with pytest.raises(isorep.InputError, match=r"by hand from https://drive\.google\.com"):
        download("isaac3d", tmp_path)
    monkeypatch.delenv("ISOREP_DATA", raising=False)
    with pytest.raises(isorep.InputError, match="ISOREP_DATA"):
        download("shapes3d")


def test_every_entry_says_where_it_comes_from():
    for name in catalogue.names():
        entry = catalogue.published_set(name)
        assert bool(entry.remotes) != bool(entry.by_hand)
        for remote in entry.remotes:
            assert remote.url.startswith("http")
            assert len(remote.sha256 or "0" * 64) == 64
            assert len(remote.md5 or "0" * 32) == 32
