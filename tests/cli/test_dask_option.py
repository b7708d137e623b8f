"""``--dask``: every command gives its local result from two worker processes, of which one is killed on the way.

What a cluster cannot recover from, a task that kills its workers or a scheduler that is gone, ends with one sentence.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import isorep
from isorep import chunked
from isorep.storage import parts

from ..data import mixing, sources
from ..test_chunked import differences

distributed = pytest.importorskip("distributed")
parquet = pytest.importorskip("pyarrow.parquet")
pyarrow = pytest.importorskip("pyarrow")

N, D = 1200, 4
OLD = (sources(N, D) @ mixing(D, 0) + 1).astype(np.float32)
NEW = (OLD @ mixing(D, 1) + 0.1 * np.random.default_rng(0).normal(size=(N, D))).astype(np.float32)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Small files are cut, and nothing is joined, as for large ones."""
    monkeypatch.setattr(parts, "_LEAST_CELLS", 200 * D)
    monkeypatch.setattr(parts, "_MOST_CELLS", 200 * D)
    monkeypatch.setattr(chunked, "_LEAST_CELLS", 1)
    monkeypatch.setattr(chunked, "_LEAST_ROWS", 1)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture
def doom(cluster, tmp_path):
    """Write a number into this file, and a worker dies at the start of that task; the file is then gone."""
    order = tmp_path / "order"
    with distributed.Client(cluster, set_as_default=False) as client:
        try:
            client.wait_for_workers(2, timeout=60)  # a killed one comes back,
        except TimeoutError:  # unless it was killed before its nanny knew it: then another one takes its place
            cluster.scale(1)
            cluster.scale(2)
            client.wait_for_workers(2, timeout=200)
        client.register_plugin(_killer(str(order)), name="killer")
        yield order


def _killer(order):
    class Killer(distributed.WorkerPlugin):  # inside a function, so that it travels by value
        def setup(self, worker):
            self.begun = 0

        def transition(self, key, start, finish, **more):
            if finish != "executing" or not os.path.exists(order):  # noqa: PTH110
                return
            self.begun += 1
            with open(order) as file:  # noqa: PTH123
                wanted = int(file.read())
            if self.begun >= wanted:
                os.unlink(order)  # noqa: PTH108
                os.kill(os.getpid(), signal.SIGKILL)

    return Killer()


@pytest.fixture
def folder(tmp_path):
    """The same items by two models: parquet in row groups, npy shards and a zarr store."""
    order = np.random.default_rng(1).permutation(N)
    for name, values, items in (("old", OLD, np.arange(N)), ("new", NEW, np.arange(N)), ("mixed", NEW[order], order)):
        columns = {f"feature_{index}": values[:, index] for index in range(D)}
        ids = [f"item {index}" for index in items]
        parquet.write_table(pyarrow.table({"id": ids, **columns}), tmp_path / f"{name}.parquet", row_group_size=250)
        (tmp_path / f"{name}_shards").mkdir()
        for index, part in enumerate(np.array_split(values, 5)):
            np.save(tmp_path / f"{name}_shards" / f"{index}.npy", part)
    isorep.write(NEW, tmp_path / "new.zarr")
    return tmp_path


COMMANDS = {
    "compare": (("compare", "old.parquet", "new_shards", "--null", 10, "--no-worst-case"), 8, 1e-6),
    "many": (("compare", "old.parquet", "new_shards", "new.zarr", "--rungs", "rigid,linear", "--null", 5), 8, 1e-6),
    "join": (("compare", "old.parquet", "mixed.parquet", "--join", "--rungs", "linear", "--null", 0), 8, 1e-6),
    "similarity": (("similarity", "old_shards", "new.zarr", "--permutations", 30), 3, 1e-6),
    "translate_fit": (("translate", "fit", "old.parquet", "new.parquet", "-o", "MAP", "--corpus", 500), 5, 1e-6),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_result_is_the_local_one_though_a_worker_dies(isorep_command, cluster, doom, folder, name):
    arguments, task, tolerance = COMMANDS[name]
    told = []
    for place, more in enumerate(((), ("--dask", cluster.scheduler_address))):
        given = [
            folder / f"{place}.safetensors"
            if each == "MAP"
            else folder / each
            if (folder / str(each)).exists()
            else each
            for each in arguments
        ]
        if more:
            doom.write_text(str(task))
        done = isorep_command(*given, "--json", folder / f"{place}.json", "--quiet", *more)
        assert done.code == 0, done.err
        told.append(json.loads((folder / f"{place}.json").read_text()))
        told[-1]["page"].pop("provenance")  # when and by which command a file was written
    assert not doom.exists(), "no worker was killed"
    # Residuals of float32 rows are taken in float32, so that their means agree to 1e-6; moments to 1e-9.
    assert differences(*told, tolerance) == []
    if name == "translate_fit":
        maps = [isorep.Translator.load(folder / f"{place}.safetensors").matrix for place in range(2)]
        np.testing.assert_allclose(*maps, rtol=0, atol=1e-9)


@pytest.mark.parametrize("output", ["out.npy", "out"])
def test_translated_rows_are_the_local_ones_though_a_worker_dies(isorep_command, cluster, doom, folder, output):
    isorep.translate(OLD, NEW).save(folder / "map.safetensors")
    given = ("translate", "apply", folder / "map.safetensors", folder / "old_shards")
    assert isorep_command(*given, folder / f"here_{output}").code == 0
    doom.write_text("2")
    done = isorep_command(*given, folder / f"there_{output}", "--dask", cluster.scheduler_address)
    assert done.code == 0, done.err
    assert f"{N} rows x {D} columns, float32, without ids" in done.out
    assert not doom.exists(), "no worker was killed"
    here, there = (isorep.read(folder / f"{place}_{output}").values[:] for place in ("here", "there"))
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-5)  # products in float32


TO_A_FILE, TO_A_FOLDER = ("compare", "old_shards", "new.zarr", "--null", 0), ("translate", "apply", "map.safetensors")


def given_up(isorep_command, folder, command, scheduler):
    """What is said by a command whose cluster fails; it exits 2 and leaves nothing."""
    isorep.translate(OLD, NEW).save(folder / "map.safetensors")
    before = {path.name for path in folder.iterdir()}
    named = [folder / each if (folder / str(each)).exists() else each for each in command]
    outputs = ("--json", folder / "r.json") if command is TO_A_FILE else (folder / "old_shards", folder / "translated")
    done = isorep_command(*named, *outputs, "--dask", scheduler)
    assert done.code == 2
    assert {path.name for path in folder.iterdir()} <= before
    return done.err


@pytest.mark.parametrize("command", [TO_A_FILE, TO_A_FOLDER], ids=lambda command: command[0])
def test_a_task_that_kills_its_workers_is_given_up_with_advice(
    isorep_command, cluster, doom, folder, monkeypatch, command
):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)  # instead of 3: each death costs a new worker
    doom.write_text("1")
    said = given_up(isorep_command, folder, command, cluster.scheduler_address)
    assert not doom.exists(), "no worker was killed"
    assert said == (
        "isorep: several workers died of the same task, which Dask then gives up: give them more memory, or cut the "
        "rows into smaller chunks\n"
    )


SCHEDULER = """
import os, signal, time
import distributed

class Killer(distributed.WorkerPlugin):
    def transition(self, key, start, finish, **more):
        if finish == "executing":
            os.kill(os.getpid(), signal.SIGKILL)

place = {"processes": False, "protocol": "tcp://", "dashboard_address": None}
with distributed.LocalCluster(n_workers=1, **place) as cluster, distributed.Client(cluster) as client:
    client.register_plugin(Killer())
    print(cluster.scheduler_address, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("command", [TO_A_FILE, TO_A_FOLDER], ids=lambda command: command[0])
def test_a_scheduler_that_is_gone_ends_the_command_with_one_sentence(isorep_command, folder, command):
    place = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", SCHEDULER], **place) as process:
        said = given_up(isorep_command, folder, command, process.stdout.readline().strip())
    assert process.returncode == -signal.SIGKILL
    assert said == (
        "isorep: the connection to the Dask scheduler was lost: run the command again when the cluster is there\n"
    )


def test_a_cluster_of_this_machine_is_made_for_the_command(isorep_command, folder, monkeypatch):
    made, begin = [], distributed.LocalCluster

    def recorded(*given, **options):
        cluster = begin(*given, **options)
        made.append(len(cluster.worker_spec))
        return cluster

    monkeypatch.setattr(distributed, "LocalCluster", recorded)
    done = isorep_command(
        "similarity", folder / "old.parquet", folder / "new.parquet", "--indices", "cka", "--dask", "local:1"
    )
    assert done.code == 0, done.err
    assert "cka" in done.out
    assert made == [1]


def test_errors_are_the_local_ones(isorep_command, cluster, folder):
    bad = OLD.copy()
    bad[700, 2] = np.nan
    np.save(folder / "bad.npy", bad)
    for more in ((), ("--dask", cluster.scheduler_address)):
        done = isorep_command("compare", folder / "bad.npy", folder / "new.zarr", *more)
        assert done.code == 2
        assert "bad.npy holds 1 NaN value, the first at row 700, column 2" in done.err
        isorep.translate(OLD, NEW).save(folder / "map.safetensors")
        done = isorep_command(
            "translate", "apply", folder / "map.safetensors", folder / "bad.npy", folder / "out.npy", *more
        )
        assert done.code == 2
        assert "bad.npy holds 1 NaN value, the first at row 700, column 2" in done.err
        assert not (folder / "out.npy").exists()


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("local:0", "--dask takes an address"),
        ("local:two", "--dask takes an address"),
        ("tcp://", "no Dask scheduler"),
        ("tls://127.0.0.1:1", "tls://127.0.0.1:1 cannot be used: TLS"),
    ],
)
def test_a_cluster_that_is_not_there_is_refused(isorep_command, folder, scheduler, message):
    done = isorep_command("compare", folder / "old.parquet", folder / "new.parquet", "--dask", scheduler)
    assert done.code == 2
    assert message in done.err
    assert distributed.client._get_global_client() is None  # nothing is left behind for later passes
