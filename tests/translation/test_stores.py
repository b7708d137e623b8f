"""Stores keep what their rows carry: ids, text, payloads, the shape and the type of their vectors."""

import gzip
import json
import os
import pickle
import sqlite3
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import numpy as np
import pytest

import isorep
from isorep import InputError
from isorep.translation.databases import _point, copied_rows, pg_text, pg_vectors
from isorep.translation.stores import open_store, read_vectors, survey, translate_store
from isorep.translation.translator import open_source, translate_files

from ..data import sources

RNG = np.random.default_rng(0)
X = sources(600, 6)
Y = X @ RNG.normal(size=(6, 4)) + 0.05 * RNG.normal(size=(600, 4))
Y /= np.linalg.norm(Y, axis=1, keepdims=True)
OLD = X[:200].astype(np.float32)
TEXT = [f"text {row}" for row in range(200)]


@pytest.fixture(scope="module")
def translator():
    return isorep.translate(X, Y, maps="ridge", n_queries=50).translator


def translated(translator, source, output, **options):
    store = open_store(source, output, **options)
    assert store is not None
    assert store.rows == 200
    return translate_store(translator, store, str(output))


def expected(translator, rows=OLD):
    return translator.transform(rows, check=False)


@pytest.mark.parametrize("shape", ["list", "large", "fixed"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_list_column_keeps_its_shape_and_type_and_every_other_column(tmp_path, translator, shape, dtype):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    kind = pa.from_numpy_dtype(dtype)
    kind = {"list": pa.list_(kind), "large": pa.large_list(kind), "fixed": pa.list_(kind, 6)}[shape]
    vectors = pa.array(list(OLD.astype(dtype)), kind)
    stamps = pa.array(np.arange(200), "timestamp[ms]")
    given = pa.table(
        {"id": np.arange(200) + 7, "text": TEXT, "embedding": vectors, "when": stamps, "none": [None] * 200}
    )
    parquet.write_table(given, tmp_path / "in.parquet", row_group_size=70)
    said = translated(translator, tmp_path / "in.parquet", tmp_path / "out.parquet")
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.schema.names == given.schema.names
    for name in ("id", "text", "when", "none"):
        assert found[name].equals(given[name]), name
    kept = found.schema.field("embedding").type
    assert kept.value_type == kind.value_type
    assert type(kept) is type(kind)
    values = np.array(found["embedding"].to_pylist())
    assert values.shape == (200, 4)
    tolerance = 2e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(values, expected(translator), atol=tolerance)
    assert "with 4 other columns" in said


def test_feature_columns_stay_columns_beside_the_others(tmp_path, translator):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"id": TEXT} | {f"feature_{place}": OLD[:, place] for place in range(6)} | {"label": [1] * 200}
    parquet.write_table(pa.table(columns), tmp_path / "in.parquet")
    translated(translator, tmp_path / "in.parquet", tmp_path / "out.parquet")
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.schema.names == ["id", *(f"feature_{place}" for place in range(4)), "label"]
    np.testing.assert_allclose(isorep.read(tmp_path / "out.parquet").values[:, :4], expected(translator), atol=1e-5)


@pytest.mark.parametrize("shape", ["list", "features"])
@pytest.mark.parametrize("codec", ["zstd", "gzip", "none", "mixed"])
def test_a_parquet_file_keeps_its_compression(tmp_path, translator, shape, codec):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = [f"feature_{place}" for place in range(6)]
    vectors = {"v": list(OLD)} if shape == "list" else dict(zip(names, OLD.T, strict=True))
    given = pa.table({"text": TEXT} | vectors | {"tags": [["a"]] * 200})
    path = {"text": "zstd", "tags.list.element": "gzip"} | dict.fromkeys(["v.list.element", *names], "none")
    parquet.write_table(given, tmp_path / "in.parquet", compression=path if codec == "mixed" else codec)
    translated(translator, tmp_path / "in.parquet", tmp_path / "out.parquet")
    old, new = (
        {chunk.path_in_schema: chunk.compression for chunk in map(group.column, range(group.num_columns))}
        for group in (parquet.read_metadata(tmp_path / f"{side}.parquet").row_group(0) for side in ("in", "out"))
    )
    assert len(new) == (3 if shape == "list" else 6)
    assert new == {name: old[name] for name in new}


@pytest.mark.parametrize("kind", ["list", "features", "int8"])
@pytest.mark.parametrize("place", [0, 2])
def test_a_shard_without_rows_becomes_one_without_rows(tmp_path, translator, kind, place):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    parts = [OLD[:120], OLD[120:]]
    parts.insert(place, OLD[:0])
    for number, rows in enumerate(parts):
        columns = {"v": pa.array(list(rows), pa.list_(pa.float32()))}
        if kind == "features":
            columns = {f"feature_{index}": column for index, column in enumerate(rows.T)}
        elif kind == "int8":
            integers, scales = quantised(rows) if len(rows) else (np.empty((0, 6), np.int8), np.empty(0, np.float32))
            columns = {"v": pa.array(list(integers), pa.list_(pa.int8())), "scale": scales}
        given = pa.table({"text": pa.array(["t"] * len(rows), "string")} | columns)
        parquet.write_table(given, folder / f"part-{number}.parquet")
    translated(translator, folder, out)
    found = sorted(out.iterdir())
    assert [path.name for path in found] == sorted(path.name for path in folder.iterdir())
    empty, full = (parquet.read_table(found[number]) for number in (place, 1))
    assert (len(empty), len(empty.schema)) == (0, {"list": 2, "features": 5, "int8": 3}[kind])
    assert empty.schema.equals(full.schema)
    if kind != "int8":
        np.testing.assert_allclose(isorep.read(out).values[:], expected(translator), atol=1e-5)
        translate_files(translator, open_source(folder), tmp_path / "plain", drop_ids=True)
        np.testing.assert_allclose(isorep.read(tmp_path / "plain").values[:], expected(translator), atol=1e-5)
    with pytest.raises(InputError, match="no rows of data"):
        open_store(sorted(folder.iterdir())[place], tmp_path / "single.parquet")


def test_a_shard_without_rows_and_with_other_columns_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "in").mkdir()
    parquet.write_table(pa.table({"v": list(OLD)}), tmp_path / "in" / "a.parquet")
    parquet.write_table(pa.table({"v": pa.nulls(0)}), tmp_path / "in" / "b.parquet")
    with pytest.raises(InputError, match=r"b.parquet has no rows, and not the columns of a.parquet"):
        open_store(tmp_path / "in", tmp_path / "out")
    parquet.write_table(pa.table({"v": pa.array([], pa.list_(pa.float64()))}), tmp_path / "in" / "a.parquet")
    (tmp_path / "in" / "b.parquet").unlink()
    with pytest.raises(InputError, match="no rows of data"):
        open_store(tmp_path / "in", tmp_path / "out")


def quantised(rows):
    scales = np.abs(rows).max(axis=1) / 127
    return np.rint(rows / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def cosines(a, b):
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.parametrize("per_row", [True, False])
def test_int8_lists_are_translated_with_their_scale(tmp_path, translator, per_row):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    values, scales = quantised(OLD)
    if not per_row:
        values = np.rint(OLD / 0.05).clip(-127, 127).astype(np.int8)
    columns = {"vector": pa.array(list(values), pa.list_(pa.int8())), "text": TEXT}
    parquet.write_table(pa.table(columns | ({"scale": scales} if per_row else {})), tmp_path / "in.parquet")
    if not per_row:
        with pytest.raises(InputError, match="name its scale with --scale"):
            open_store(tmp_path / "in.parquet", tmp_path / "out.parquet")
    said = translated(
        translator, tmp_path / "in.parquet", tmp_path / "out.parquet", **({} if per_row else {"scale": "0.05"})
    )
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.schema.field("vector").type == pa.list_(pa.int8())
    integers = np.array(found["vector"].to_pylist())
    factor = np.array(found["scale"])[:, None] if per_row else float(said.split("the scale ")[1].split(",")[0])
    assert cosines(integers * factor, expected(translator)).min() > 0.99
    np.testing.assert_allclose(np.linalg.norm(integers * factor, axis=1), 1, atol=0.03)


@pytest.mark.parametrize("scale", ["row", "column", "one"])
def test_int8_arrays_of_an_npz_file(tmp_path, translator, scale):
    values, scales = quantised(OLD)
    if scale != "row":
        scales = np.abs(OLD).max(axis=0) / 127 if scale == "column" else np.array(np.abs(OLD).max() / 127)
        values = np.rint(OLD / scales).astype(np.int8)
    np.savez(tmp_path / "in.npz", values=values, scale=scales, ids=TEXT)
    translated(translator, tmp_path / "in.npz", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        assert found["values"].dtype == np.int8
        assert found["ids"].tolist() == TEXT
        factor = found["scale"][:, None] if scale == "row" else found["scale"]
        assert cosines(found["values"] * factor, expected(translator)).min() > 0.985
    with pytest.raises(InputError, match="written to an npz file"):
        open_store(tmp_path / "in.npz", tmp_path / "out.npy")


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_json_lines_keep_every_name_and_their_order(tmp_path, translator, suffix):
    opener = gzip.open if suffix.endswith("gz") else open
    path, out = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    with opener(path, "wt", encoding="utf-8") as file:
        for row in range(200):
            record = {"id": f"é{row}", "emb": OLD[row].tolist(), "tags": ["a", row], "nested": {"none": None}}
            file.write(json.dumps(record) + "\n")
    translated(translator, path, out)
    with opener(out, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    assert [list(record) for record in records] == [["id", "emb", "tags", "nested"]] * 200
    assert [record["tags"] for record in records] == [["a", row] for row in range(200)]
    np.testing.assert_allclose([record["emb"] for record in records], expected(translator), atol=1e-5)
    again = isorep.read(out)
    assert again.ids[3] == "é3"
    np.testing.assert_allclose(again.values[:], expected(translator), atol=1e-5)
    isorep.write(again, tmp_path / "copy.jsonl")
    np.testing.assert_array_equal(isorep.read(tmp_path / "copy.jsonl").values[:], again.values[:])


SPOILT = {
    "ragged": ('{"v": [1, 2]}\n{"v": [1]}\n', "ragged"),
    "no list": ('{"v": 1}\n', "no list of numbers"),
    "two lists": ('{"v": [1.0], "w": [2.0]}\n', "several lists"),
    "a missing one": ('{"v": [1.0, 2.0]}\n{"w": 1}\n', "row 1 has no list"),
    "no object": ("[1, 2]\n", "not a JSON object"),
    "no JSON": ("{\n", "row 0 is not JSON"),
    "nothing": ("\n", "no rows"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_spoilt_json_lines_are_refused_by_place(tmp_path, case):
    text, words = SPOILT[case]
    (tmp_path / "in.jsonl").write_text(text)
    for action in (isorep.read, lambda path: open_store(path, tmp_path / "out.jsonl")):
        with pytest.raises(InputError, match=words):
            action(tmp_path / "in.jsonl")


def test_json_lines_keep_the_text_of_everything_but_the_vector(tmp_path, translator):
    before = r'{ "half": "\ud83d é \u00e9", "n": 1e999,"n":1.10, "big":123456789012345678901, "o" : {"a":1,"a":2}, "v":'
    lines = [f'{before}{json.dumps(row.tolist())} , "": [{{}}, "}}"]}}\n' for row in OLD]
    (tmp_path / "in.jsonl").write_text("".join(lines), encoding="utf-8")
    translated(translator, f"{tmp_path / 'in.jsonl'}::v", tmp_path / "out.jsonl")
    written = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    assert all(line.startswith(before) and line.endswith(' , "": [{}, "}"]}\n') for line in written)
    np.testing.assert_allclose([json.loads(line)["v"] for line in written], expected(translator), atol=1e-5)
    twice = "".join(line.replace('"big"', '"v": [1, 2], "big"') for line in lines)
    (tmp_path / "in.jsonl").write_text(twice, encoding="utf-8")
    with pytest.raises(InputError, match="row 0 has 'v' twice"):
        translated(translator, f"{tmp_path / 'in.jsonl'}::v", tmp_path / "twice.jsonl")
    assert not (tmp_path / "twice.jsonl").exists()


def test_what_stops_on_the_way_leaves_nothing(tmp_path, translator):
    rows = OLD.copy()
    rows[150, 2] = np.nan
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"v": row.tolist()}) + "\n" for row in rows))
    with pytest.raises(InputError, match="NaN"):
        translated(translator, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize("kind", ["flat", "ids", "hnsw", "ivf"])
def test_a_faiss_index_keeps_its_kind_metric_and_ids(tmp_path, translator, kind):
    faiss = pytest.importorskip("faiss")
    index = inner = faiss.IndexFlatIP(6)
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(6, 12, faiss.METRIC_INNER_PRODUCT)
    elif kind == "ivf":
        index = faiss.IndexIVFFlat(inner, 6, 4, faiss.METRIC_INNER_PRODUCT)
        index.train(OLD)
    elif kind == "ids":
        index = faiss.IndexIDMap2(index)
    if kind == "ids":
        index.add_with_ids(OLD, np.arange(200) + 1000)
    else:
        index.add(OLD)
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    translated(translator, tmp_path / "in.faiss", tmp_path / "out.faiss")
    found = faiss.read_index(str(tmp_path / "out.faiss"))
    assert type(found) is type(index) or kind == "flat"
    assert (found.d, found.ntotal, found.metric_type) == (4, 200, faiss.METRIC_INNER_PRODUCT)
    new = np.ascontiguousarray(expected(translator), np.float32)
    if kind == "ivf":
        found.nprobe = 4
    scores, near = found.search(new[:20], 1)
    np.testing.assert_array_equal(near[:, 0], np.arange(20) + (1000 if kind == "ids" else 0))
    np.testing.assert_allclose(scores, 1, atol=1e-5)


@pytest.mark.parametrize("kind", ["flat", "ids", "hnsw", "ivf"])
def test_a_faiss_index_keeps_the_power_of_its_metric(tmp_path, translator, kind):
    faiss = pytest.importorskip("faiss")
    index = inner = faiss.IndexFlat(6, faiss.METRIC_Lp)
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(6, 12, faiss.METRIC_Lp)
        index.storage.metric_arg = 3
    elif kind == "ivf":
        index = faiss.IndexIVFFlat(inner, 6, 4, faiss.METRIC_Lp)
    inner.metric_arg = index.metric_arg = 3
    if kind == "ids":
        index = faiss.IndexIDMap2(index)
        index.add_with_ids(OLD, np.arange(200))
    else:
        index.train(OLD)
        index.add(OLD)
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    translated(translator, tmp_path / "in.faiss", tmp_path / "out.faiss")
    found = faiss.read_index(str(tmp_path / "out.faiss"))
    if kind == "ivf":
        found.nprobe = 4
        assert found.quantizer.metric_arg == 3
    new = np.ascontiguousarray(expected(translator), np.float32)
    sums = np.sort((np.abs(new - new[0]) ** 3).sum(axis=1))[:5]
    np.testing.assert_allclose(found.search(new[:1], 5)[0][0], sums, rtol=1e-4, atol=1e-6)


def test_a_faiss_index_takes_no_more_memory_than_its_file(tmp_path, monkeypatch):
    faiss = pytest.importorskip("faiss")
    if not hasattr(faiss, "set_deserialization_vector_byte_limit"):
        pytest.skip("this version of FAISS knows no limit")
    index = faiss.IndexFlatL2(6)
    index.add(OLD)
    path = tmp_path / "in.faiss"
    faiss.write_index(index, str(path))
    before, read, limits = faiss.get_deserialization_vector_byte_limit(), faiss.read_index, []
    monkeypatch.setattr(faiss, "read_index", lambda name: (limits.append(limit()), read(name))[1])
    limit = faiss.get_deserialization_vector_byte_limit
    open_store(path, tmp_path / "out.faiss")
    assert limits == [path.stat().st_size]
    stored, size = path.read_bytes(), np.int64(200 * 6).tobytes()  # of the vectors, in numbers
    assert stored.count(size) == 1
    path.write_bytes(stored.replace(size, np.int64(2**31).tobytes()))
    with pytest.raises(InputError, match=r"in\.faiss is not a FAISS index"):
        open_store(path, tmp_path / "out.faiss")
    assert limit() == before


def test_vectors_that_faiss_cannot_cluster_are_refused(tmp_path):
    faiss = pytest.importorskip("faiss")
    translator = isorep.translate(X, X[:, ::-1], maps="linear", n_queries=50).translator
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(6), 6, 4)
    index.train(OLD)
    index.add(OLD)
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    stored, row = (tmp_path / "in.faiss").read_bytes(), OLD[7].tobytes()
    (tmp_path / "in.faiss").write_bytes(stored.replace(row, (OLD[7] * np.float32(1e30)).tobytes()))
    with pytest.raises(InputError, match="so large that their distances overflow"):
        translated(translator, tmp_path / "in.faiss", tmp_path / "out.faiss")


def test_a_faiss_index_of_lists_in_another_file_or_of_fewer_vectors_is_refused(tmp_path):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(6), 6, 4)
    index.train(OLD)
    index.add(OLD)
    index.ntotal = 201
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    with pytest.raises(InputError, match="declares 201 vectors and holds 200"):
        open_store(tmp_path / "in.faiss", tmp_path / "out.faiss")
    index.ntotal = 200
    lists = faiss.OnDiskInvertedLists(4, index.code_size, str(tmp_path / "elsewhere"))
    lists.merge_from(index.invlists, 0)
    index.replace_invlists(lists, False)
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    with pytest.raises(InputError, match="names another file for its vectors"):
        open_store(tmp_path / "in.faiss", tmp_path / "out.faiss")


def test_a_quantised_faiss_index_is_refused(tmp_path):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexPQ(6, 2, 4)
    index.train(OLD)
    index.add(OLD)
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    with pytest.raises(InputError, match="IndexPQ"):
        open_store(tmp_path / "in.faiss", tmp_path / "out.faiss")


@pytest.mark.parametrize("named", [False, True])
def test_a_qdrant_collection_keeps_ids_payloads_and_distance(tmp_path, translator, named):
    qdrant = pytest.importorskip("qdrant_client")
    from qdrant_client import models

    params = models.VectorParams(size=6, distance=models.Distance.COSINE)
    client = qdrant.QdrantClient(path=str(tmp_path / "q"))
    client.create_collection("old", vectors_config={"text": params} if named else params)
    unit = OLD / np.linalg.norm(OLD, axis=1, keepdims=True)
    points = [
        models.PointStruct(id=row, vector={"text": unit[row]} if named else unit[row], payload={"text": TEXT[row]})
        for row in range(200)
    ]
    client.upsert("old", points)
    client.close()
    place = f"qdrant:{tmp_path / 'q'}"
    translated(translator, f"{place}::old", f"{place}::new")
    client = qdrant.QdrantClient(path=str(tmp_path / "q"))
    found, _ = client.scroll("new", limit=1000, with_vectors=True, with_payload=True)
    config = client.get_collection("new").config.params.vectors
    client.close()
    assert (config["text"] if named else config).distance == models.Distance.COSINE
    assert [point.id for point in found] == list(range(200))
    assert [point.payload["text"] for point in found] == TEXT
    vectors = np.array([point.vector["text"] if named else point.vector for point in found])
    np.testing.assert_allclose(vectors, expected(translator, unit), atol=1e-4)
    for source, output, words in (
        (f"{place}::absent", f"{place}::other", "does not exist"),
        (f"{place}::old", tmp_path / "out.npy", "different kinds"),
        (place, f"{place}::other", "should name a place"),
    ):
        with pytest.raises(InputError, match=words):
            open_store(source, output)


def collection(path, **more):
    qdrant = pytest.importorskip("qdrant_client")
    from qdrant_client import models

    client = qdrant.QdrantClient(path=str(path))
    client.create_collection(
        "old", vectors_config=models.VectorParams(size=6, distance=models.Distance.DOT, **more), metadata={"by": "me"}
    )
    client.upsert("old", [models.PointStruct(id=row, vector=OLD[row], payload={"n": row}) for row in range(200)])
    client.close()
    return qdrant.QdrantClient, models


def test_a_qdrant_collection_keeps_its_settings_and_payload_indexes(tmp_path, translator, monkeypatch):
    client, models = collection(tmp_path / "q")
    found, made, indexed = client.get_collection, {}, {}

    def get_collection(self, name):
        """As a server says it: local collections have no such settings."""
        held = found(self, name)
        held.config.params.shard_number, held.config.params.replication_factor = 3, 2
        held.config.params.on_disk_payload, held.config.hnsw_config.m = True, 48
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99)
        held.config.quantization_config = models.ScalarQuantization(scalar=scalar)
        held.payload_schema = {
            "n": models.PayloadIndexInfo(data_type=models.PayloadSchemaType.INTEGER, points=200),
            "t": models.PayloadIndexInfo(
                data_type=models.PayloadSchemaType.TEXT, params=models.TextIndexParams(type="text"), points=0
            ),
        }
        return held

    create = client.create_collection

    def create_collection(self, name, **more):
        made.update(more)
        return create(self, name, **more)

    monkeypatch.setattr(client, "create_collection", create_collection)
    monkeypatch.setattr(client, "get_collection", get_collection)
    monkeypatch.setattr(
        client, "create_payload_index", lambda self, name, field, field_schema: indexed.update({field: field_schema})
    )
    said = translated(translator, f"qdrant:{tmp_path / 'q'}::old", f"qdrant:{tmp_path / 'q'}::new")
    assert said.endswith("by dot; aliases, strict mode and shard keys are not copied")
    assert (made["shard_number"], made["replication_factor"], made["on_disk_payload"]) == (3, 2, True)
    assert (made["hnsw_config"].m, made["hnsw_config"].ef_construct) == (48, 100)
    assert made["quantization_config"].scalar.quantile == 0.99
    assert (made["wal_config"].wal_capacity_mb, made["optimizers_config"].flush_interval_sec) == (32, 5)
    if "metadata" in models.CollectionConfig.model_fields:  # clients of 2025 and later
        assert made["metadata"] == {"by": "me"}
    assert indexed == {"n": models.PayloadSchemaType.INTEGER, "t": models.TextIndexParams(type="text")}


def test_a_qdrant_collection_of_another_type_is_refused_or_keeps_it(tmp_path, translator):
    _, models = collection(tmp_path / "u", datatype="uint8")
    with pytest.raises(InputError, match="holds uint8 without the scale"):
        open_store(f"qdrant:{tmp_path / 'u'}::old", f"qdrant:{tmp_path / 'u'}::new")
    client, _ = collection(tmp_path / "h", datatype=models.Datatype.FLOAT16)
    place = f"qdrant:{tmp_path / 'h'}"
    large = isorep.translate(X, 1e6 * Y, maps="ridge", n_queries=50, normalise=False).translator
    with pytest.raises(InputError, match="holds float16, which is too narrow"):
        translated(large, f"{place}::old", f"{place}::large")
    translated(translator, f"{place}::old", f"{place}::new")
    opened = client(path=str(tmp_path / "h"))
    assert opened.get_collection("new").config.params.vectors.datatype == models.Datatype.FLOAT16
    assert not opened.collection_exists("large")
    opened.close()


def test_a_lancedb_table_keeps_its_columns(tmp_path, translator):
    lancedb = pytest.importorskip("lancedb")
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(OLD.reshape(-1)), 6)
    database = lancedb.connect(str(tmp_path / "db"))
    database.create_table("old", pa.table({"id": TEXT, "vector": vectors, "year": [2020] * 200}))
    place = f"lancedb:{tmp_path / 'db'}"
    translated(translator, f"{place}::old", f"{place}::new")
    found = database.open_table("new").to_arrow()
    assert found.schema.names == ["id", "vector", "year"]
    assert found["id"].to_pylist() == TEXT
    np.testing.assert_allclose(np.array(found["vector"].to_pylist()), expected(translator), atol=1e-5)
    with pytest.raises(InputError, match="exists"):
        translated(translator, f"{place}::old", f"{place}::new")


def test_float16_rows_stay_float16_and_are_refused_where_they_would_overflow(tmp_path, translator):
    np.save(tmp_path / "in.npy", OLD.astype(np.float16))
    translate_files(translator, open_source(tmp_path / "in.npy"), tmp_path / "out.npy")
    found = np.load(tmp_path / "out.npy")
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected(translator, OLD.astype(np.float16)), atol=2e-3)
    large = isorep.translate(X, 1e6 * Y, maps="ridge", n_queries=50, normalise=False).translator
    with pytest.raises(InputError, match="too narrow"):
        translate_files(large, open_source(tmp_path / "in.npy"), tmp_path / "large.npy")
    assert not (tmp_path / "large.npy").exists()


def test_ids_of_an_npy_file_may_be_another_npy_file(tmp_path, translator):
    np.save(tmp_path / "in.npy", OLD)
    np.save(tmp_path / "names.npy", np.array(TEXT))
    assert isorep.read(tmp_path / "in.npy", ids="names.npy").ids.tolist() == TEXT
    source = open_source(tmp_path / "in.npy", str(tmp_path / "names.npy"))
    translate_files(translator, source, tmp_path / "out.npz")
    assert isorep.read(tmp_path / "out.npz").ids.tolist() == TEXT
    translate_files(translator, source, tmp_path / "out.npy")  # which holds no ids: the order is the same
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected(translator), atol=1e-6)
    for wrong, words in (("absent.npy", "no file"), ("column", "name an npy file of ids")):
        with pytest.raises(InputError, match=words):
            isorep.read(tmp_path / "in.npy", ids=wrong)
    np.save(tmp_path / "few.npy", np.arange(7))
    with pytest.raises(InputError, match="7"):
        isorep.read(tmp_path / "in.npy", ids="few.npy")


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_int8_vectors_can_be_fitted_to(tmp_path, kind):
    scales = (np.abs(OLD).max(axis=1) / 127).astype(np.float32)
    integers = np.rint(OLD / scales[:, None]).astype(np.int8)
    path = tmp_path / f"in.{kind}"
    if kind == "npz":
        np.savez(path, values=integers, scale=scales, ids=np.arange(200))
    else:
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table({"id": np.arange(200), "v": list(integers), "scale": scales}), path)
    found = read_vectors(path)
    np.testing.assert_allclose(found.values, OLD, atol=np.abs(OLD).max() / 100)
    assert found.ids.tolist() == list(range(200))
    np.savez(tmp_path / "plain.npz", values=OLD)
    np.testing.assert_array_equal(read_vectors(tmp_path / "plain.npz").values[:], OLD)
    assert isorep.translate(found, Y[:200], maps="ridge", n_queries=20).best == "ridge"


def test_confidence_of_a_store_is_that_of_its_rows(tmp_path, translator):
    lines = [json.dumps({"id": text, "v": row.tolist()}) for text, row in zip(TEXT, OLD, strict=True)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    found = survey(translator, open_store(tmp_path / "in.jsonl", tmp_path / "out.jsonl"), confidence=True)
    assert found.ids.tolist() == TEXT
    np.testing.assert_allclose(found.cosines, translator.confidence(OLD), atol=1e-6)


def test_the_text_of_copy_is_cut_at_rows_and_fields_whatever_the_chunks():
    text = b"1\ta\\tb\\n\t[1,-2.5]\n2\t\\N\t[3e-05,4]\n"
    for size in (1, 3, 1000):
        rows = list(copied_rows(text[start : start + size] for start in range(0, len(text), size)))
        assert [row[:2] for row in rows] == [[b"1", b"a\\tb\\n"], [b"2", b"\\N"]]
        np.testing.assert_array_equal(
            pg_vectors([row[2] for row in rows], "t", 0), np.array([[1, -2.5], [3e-05, 4]], np.float32)
        )
    assert pg_text(np.array([1.5, -0.1], np.float32)) == b"[1.5,-0.100000001]"
    with pytest.raises(InputError, match="row 6"):
        pg_vectors([b"[1]", rb"\N"], "t", 5)
    with pytest.raises(InputError, match="widths"):
        pg_vectors([b"[1]", b"[1,2]"], "t", 0)


def test_an_address_of_postgres_shows_no_password_and_must_be_a_url():
    with pytest.raises(InputError, match="must be pgvector") as error:
        open_store("pgvector:postgresql://me:secret@host/db::old", "out.npy")
    assert "secret" not in str(error.value)
    with pytest.raises(InputError, match="needs a URL"):
        open_store("pgvector:dbname=x password=secret::old", "pgvector:dbname=x::new")


@pytest.mark.parametrize("kind", ["vector", "halfvec"])
def test_a_table_of_postgres_keeps_its_columns(tmp_path, translator, kind):
    psycopg = pytest.importorskip("psycopg")
    server = pytest.importorskip("pgserver").get_server(tmp_path / "pg", cleanup_mode="delete")
    url = server.get_uri()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        if connection.execute("SELECT to_regtype(%s)", [kind]).fetchone()[0] is None:
            server.cleanup()
            pytest.skip(f"this pgvector has no {kind}, which came with version 0.7")
        connection.execute(f"CREATE TABLE old (id bigint PRIMARY KEY, text text, v {kind}(6), more jsonb)")
        for row, text in enumerate(TEXT):
            given = (row, f"{text}\t\n\\", pg_text(OLD[row]).decode(), json.dumps({"row": row}))
            connection.execute("INSERT INTO old VALUES (%s, %s, %s, %s)", given)
    translated(translator, f"pgvector:{url}::old", f"pgvector:{url}::public.new")
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT id, text, v::text, more FROM new ORDER BY id").fetchall()
    assert [row[:2] for row in found] == [(row, f"{text}\t\n\\") for row, text in enumerate(TEXT)]
    assert found[7][3] == {"row": 7}
    vectors = np.array([json.loads(row[2]) for row in found])
    np.testing.assert_allclose(vectors, expected(translator), atol=1e-5 if kind == "vector" else 5e-3)
    seen = survey(translator, open_store(f"pgvector:{url}::old", f"pgvector:{url}::x"), confidence=True)
    assert sorted(seen.ids.tolist()) == list(range(200))
    store = open_store(f"pgvector:{url}::old", f"pgvector:{url}::x", ids="text")
    assert f"{TEXT[3]}\t\n\\" in survey(translator, store, confidence=True, ids="text").ids.tolist()
    for output, words in ((f"pgvector:{url}::new", "cannot be written"),):
        with pytest.raises(InputError, match=words):
            translated(translator, f"pgvector:{url}::old", output)
    with pytest.raises(InputError, match="cannot be opened"):
        open_store(f"pgvector:{url}::absent", f"pgvector:{url}::other")
    server.cleanup()


def parquet_table(path, rows=OLD, **columns):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table(columns | {"vector": pa.array(list(rows), pa.list_(pa.from_numpy_dtype(rows.dtype)))})
    parquet.write_table(table, path)
    return table


def json_lines(path, rows=OLD, **columns):
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8") as file:
        for place, row in enumerate(rows.tolist()):
            file.write(json.dumps({name: held[place] for name, held in columns.items()} | {"v": row}) + "\n")


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "jsonl.gz"])
def test_shards_keep_what_their_rows_carry_file_by_file(tmp_path, translator, suffix):
    (tmp_path / "in").mkdir()
    make = parquet_table if suffix == "parquet" else json_lines
    for part in range(2):
        rows = slice(100 * part, 100 * part + 100)
        make(tmp_path / "in" / f"part-{part}.{suffix}", OLD[rows], id=TEXT[rows], label=[part] * 100)
    said = translated(translator, tmp_path / "in", tmp_path / "out")
    assert said.startswith("200 rows x 4 columns in 2 files")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"part-{part}.{suffix}" for part in range(2)]
    found = isorep.read(tmp_path / "out")
    assert found.ids.tolist() == TEXT
    np.testing.assert_allclose(found.values[:], expected(translator), atol=1e-5)
    labels = isorep.storage.column(tmp_path / "out", "label")
    assert labels.astype(int).tolist() == [0] * 100 + [1] * 100
    with pytest.raises(InputError, match="not an empty folder"):
        open_store(tmp_path / "in", tmp_path / "out")
    assert open_store(tmp_path / "in", tmp_path / "one.npy") is None


def test_shards_that_stop_on_the_way_leave_nothing(tmp_path, translator):
    (tmp_path / "in").mkdir()
    spoilt = OLD[:100].copy()
    spoilt[60, 1] = np.nan
    json_lines(tmp_path / "in" / "0.jsonl", OLD[:100])
    json_lines(tmp_path / "in" / "1.jsonl", spoilt)
    store = open_store(tmp_path / "in", tmp_path / "out")
    with pytest.raises(InputError, match="the first at row 160, column 1"):
        survey(translator, store)
    with pytest.raises(InputError, match="NaN"):
        translate_store(translator, store, str(tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_named_column_of_ids_is_checked_and_everything_is_kept(tmp_path, translator):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    features = {f"x{place}": OLD[:, place] for place in range(6)}
    parquet.write_table(pa.table({"doc": np.arange(200)} | features | {"text": TEXT}), tmp_path / "in.parquet")
    translated(translator, tmp_path / "in.parquet", tmp_path / "out.parquet", ids="doc")
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.schema.names == ["doc", *(f"x{place}" for place in range(4)), "text"]
    store = open_store(tmp_path / "in.parquet", tmp_path / "more.parquet", ids="doc")
    assert survey(translator, store, confidence=True, ids="doc").ids.tolist() == list(range(200))
    json_lines(tmp_path / "in.jsonl", doc=TEXT)
    for name in ("in.parquet", "in.jsonl"):
        with pytest.raises(InputError, match="absent"):
            open_store(tmp_path / name, tmp_path / f"new-{name}", ids="absent")


LATE = 10_050


@pytest.fixture(scope="module")
def late(translator):
    """int8 rows of one scale whose last ones have the largest translated values, and these values."""
    integers = np.rint(OLD / 0.05).clip(-127, 127).astype(np.int8)
    largest = np.abs(expected(translator, integers * np.float32(0.05))).max(axis=1)
    rows = integers[np.repeat([np.argmin(largest), np.argmax(largest)], [LATE, 20])]
    assert largest.max() > 1.3 * largest.min()
    return rows, expected(translator, rows * np.float32(0.05))


def test_a_damaged_lancedb_table_is_named_and_no_folder_is_left(tmp_path, translator):
    lancedb = pytest.importorskip("lancedb")
    pa = pytest.importorskip("pyarrow")
    cells = pa.FixedSizeListArray.from_arrays(pa.array(OLD.ravel()), 6)
    lancedb.connect(str(tmp_path / "db")).create_table("old", pa.table({"vector": cells}))
    place = f"lancedb:{tmp_path / 'db'}::old"
    whole = open_store(place, f"lancedb:{tmp_path / 'new'}::new")
    path = next((tmp_path / "db").rglob("data/*.lance"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="cannot be read, it may be damaged"):
        list(whole.blocks())
    with pytest.raises(InputError, match=r"may be damaged|cannot be opened"):
        translated(translator, place, f"lancedb:{tmp_path / 'new'}::new")
    assert [each.name for each in tmp_path.iterdir()] == ["db"]


@pytest.mark.parametrize("kind", ["npz", "parquet", "jsonl", "lancedb"])
def test_one_scale_holds_the_largest_value_wherever_it_is(tmp_path, translator, late, kind):
    rows, wanted = late
    source, output = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    if kind == "npz":
        np.savez(source, values=rows)
    elif kind == "parquet":
        parquet_table(source, rows)
    elif kind == "jsonl":
        json_lines(source, rows)
    else:
        lancedb = pytest.importorskip("lancedb")
        import pyarrow as pa

        cells = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 6)
        lancedb.connect(str(tmp_path / "db")).create_table("old", pa.table({"vector": cells}))
        source, output = f"lancedb:{tmp_path / 'db'}::old", f"lancedb:{tmp_path / 'db'}::new"
    said = translate_store(translator, open_store(source, output, scale="0.05"), str(output))
    scale = float(said.split("scale")[1].split(",")[1 if kind == "npz" else 0])
    if kind == "npz":
        found = np.load(output)["values"]
        assert np.load(output)["scale"] == scale
    elif kind == "lancedb":
        found = np.array(lancedb.connect(str(tmp_path / "db")).open_table("new").to_arrow()["vector"].to_pylist())
    elif kind == "parquet":
        from pyarrow import parquet

        found = np.array(parquet.read_table(output)["vector"].to_pylist())
    else:
        found = np.array([json.loads(line)["v"] for line in output.read_text().splitlines()])
    np.testing.assert_allclose(found * scale, wanted, atol=0.51 * scale)


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "faiss"])
def test_the_sample_comes_from_all_over_the_store(tmp_path, translator, kind):
    rows = np.zeros((20_480, 6), np.float32)
    rows[len(rows) // 2 :] = 7
    source, output = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    if kind == "faiss":
        faiss = pytest.importorskip("faiss")
        index = faiss.IndexFlatL2(6)
        index.add(rows)
        faiss.write_index(index, str(source))
    else:
        (parquet_table if kind == "parquet" else json_lines)(source, rows)
    sample = survey(translator, open_store(source, output)).sample
    assert len(sample) <= 10_000
    assert (sample == 7).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("per_row", [True, False])
def test_int8_json_lines_are_translated_with_their_scale(tmp_path, translator, per_row):
    integers, scales = quantised(OLD)
    if not per_row:
        integers = np.rint(OLD / 0.05).clip(-127, 127).astype(np.int8)
    field = {"factor": scales.astype(float).tolist()} if per_row else {}
    json_lines(tmp_path / "in.jsonl", integers, id=TEXT, **field)
    for action in (
        lambda: open_store(tmp_path / "in.jsonl", tmp_path / "out.jsonl"),
        lambda: read_vectors(tmp_path / "in.jsonl"),
    ):
        with pytest.raises(InputError, match="name their scale with --scale"):
            action()
    with pytest.raises(InputError, match="written to a jsonl file"):
        open_store(tmp_path / "in.jsonl", tmp_path / "out.npy", scale="factor")
    scale = "factor" if per_row else "0.05"
    said = translated(translator, tmp_path / "in.jsonl", tmp_path / "out.jsonl", scale=scale)
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    found = np.array([record["v"] for record in records])
    assert found.dtype.kind == "i"
    assert np.abs(found).max() <= 127
    assert [record["id"] for record in records] == TEXT
    factor = (
        float(said.split("the scale ")[1].split(",")[0])
        if not per_row
        else np.array([[record["factor"]] for record in records])
    )
    assert cosines(found * factor, expected(translator)).min() > 0.99
    given = read_vectors(tmp_path / "in.jsonl", scale=scale)
    assert given.ids.tolist() == TEXT
    np.testing.assert_allclose(given.values, OLD, atol=0.03)


def test_json_lines_that_mix_integers_and_decimals_or_lack_a_scale_are_refused_by_row(tmp_path, translator):
    lines = [json.dumps({"v": [1, 2, 3, 4, 5, row % 5], "scale": 0.1}) for row in range(1030)]
    spoilt = {
        "row 1025 has other numbers than int8": json.dumps({"v": [0.5] * 6, "scale": 0.1}),
        "row 1025 has no positive number under 'scale'": json.dumps({"v": [1] * 6}),
    }
    for words, line in spoilt.items():
        (tmp_path / "in.jsonl").write_text("\n".join([*lines[:1025], line]))
        with pytest.raises(InputError, match=words):
            survey(translator, open_store(tmp_path / "in.jsonl", tmp_path / "out.jsonl"))
    json_lines(tmp_path / "in.jsonl")
    with pytest.raises(InputError, match="--scale is for integers"):
        open_store(tmp_path / "in.jsonl", tmp_path / "out.jsonl", scale="0.1")


def qdrant_points(place, name, vectors, **config):
    """A local collection of points with these vectors."""
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(path=str(place))
    client.create_collection(name, **config)
    points = enumerate(vectors)
    client.upsert(
        name, [qdrant.models.PointStruct(id=row, vector=vector, payload={"n": row}) for row, vector in points]
    )
    client.close()


def test_a_point_without_the_vector_is_named(tmp_path, translator):
    models = pytest.importorskip("qdrant_client").models
    params = {"txt": models.VectorParams(size=6, distance=models.Distance.DOT)}
    vectors = [{"txt": row} if place != 3 else {} for place, row in enumerate(OLD[:5].tolist())]
    qdrant_points(tmp_path / "q", "old", vectors, vectors_config=params)
    store = open_store(f"qdrant:{tmp_path / 'q'}::old", f"qdrant:{tmp_path / 'q'}::new")
    with pytest.raises(InputError, match="point 3 of old has no vector 'txt'"):
        survey(translator, store)


class Attack:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch executed",)


@pytest.mark.parametrize("where", ["another collection", "the point", "its payload"])
def test_points_of_a_qdrant_folder_are_never_executed(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    models = pytest.importorskip("qdrant_client").models
    params = models.VectorParams(size=6, distance=models.Distance.DOT)
    for name in ("old", "other"):
        qdrant_points(tmp_path / "q", name, OLD[:5].tolist(), vectors_config=params)
    chosen = "other" if where == "another collection" else "old"
    attack = models.PointStruct.model_construct(id=3, vector=OLD[3].tolist(), payload={"n": Attack()})
    with sqlite3.connect(tmp_path / "q" / "collection" / chosen / "storage.sqlite") as database:
        evil = pickle.dumps(attack if where == "its payload" else Attack())
        database.execute("UPDATE points SET point = ?", (evil,))
    database.close()
    with pytest.raises(InputError, match=r"a point holds posix\.system, which is not unpickled"):
        open_store(f"qdrant:{tmp_path / 'q'}::old", f"qdrant:{tmp_path / 'q'}::new")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("held", [datetime.now(UTC), datetime.now(UTC).date(), datetime.now(UTC).time(), timedelta(1)])
def test_times_in_pickled_points_are_read(held):
    assert _point(pickle.dumps({"at": held})) == {"at": held}


def test_times_and_ids_in_payloads_of_a_qdrant_folder_are_read(tmp_path, translator):
    models = pytest.importorskip("qdrant_client").models
    qdrant = pytest.importorskip("qdrant_client").QdrantClient(path=str(tmp_path / "q"))
    qdrant.create_collection("old", vectors_config=models.VectorParams(size=6, distance=models.Distance.DOT))
    payload = {"at": datetime.now(UTC), "on": datetime.now(UTC).date(), "of": uuid4()}
    qdrant.upsert("old", [models.PointStruct(id=str(uuid4()), vector=OLD[0].tolist(), payload=payload)])
    qdrant.close()
    assert survey(translator, open_store(f"qdrant:{tmp_path / 'q'}::old", f"qdrant:{tmp_path / 'q'}::new")) is not None


def test_a_damaged_qdrant_folder_is_refused(tmp_path):
    models = pytest.importorskip("qdrant_client").models
    params = models.VectorParams(size=6, distance=models.Distance.DOT)
    qdrant_points(tmp_path / "q", "old", OLD[:5].tolist(), vectors_config=params)
    (tmp_path / "q" / "collection" / "old" / "storage.sqlite").write_bytes(b"nonsense" * 100)
    with pytest.raises(InputError, match="q cannot be opened: file is not a database"):
        open_store(f"qdrant:{tmp_path / 'q'}::old", f"qdrant:{tmp_path / 'q'}::new")


@pytest.mark.parametrize("named", [True, False])
def test_other_vectors_of_a_point_are_kept(tmp_path, translator, named):
    qdrant = pytest.importorskip("qdrant_client")
    models = qdrant.models
    text = models.VectorParams(size=6, distance=models.Distance.DOT)
    image = models.VectorParams(size=2, distance=models.Distance.DOT)
    sparse = models.SparseVector(indices=[1], values=[0.5])
    vectors = [{"txt" if named else "": row, "sp": sparse} for row in OLD[:20].tolist()]
    if named:
        vectors = [vector | {"img": [place, 1.0]} for place, vector in enumerate(vectors)]
    config = {"vectors_config": {"txt": text, "img": image} if named else text}
    sparse_config = {"sp": models.SparseVectorParams()}
    qdrant_points(tmp_path / "q", "old", vectors, sparse_vectors_config=sparse_config, **config)
    place = f"qdrant:{tmp_path / 'q'}"
    if named:
        with pytest.raises(InputError, match="several vectors per point"):
            open_store(f"{place}::old", f"{place}::new")
        with pytest.raises(InputError, match="no vector 'other'"):
            open_store(f"{place}::old::other", f"{place}::new")
    store = open_store(f"{place}::old::txt" if named else f"{place}::old", f"{place}::new")
    said = translate_store(translator, store, f"{place}::new")
    assert ("and the vectors img, sp as they are;" if named else "and the vectors sp as they are;") in said
    client = qdrant.QdrantClient(path=str(tmp_path / "q"))
    found, _ = client.scroll("new", limit=100, with_vectors=True)
    client.close()
    assert found[7].vector["sp"].values == [0.5]
    if named:
        assert found[7].vector["img"] == [7.0, 1.0]
    new = np.array([point.vector["txt" if named else ""] for point in found])
    np.testing.assert_allclose(new, expected(translator, OLD[:20]), atol=1e-5)


def ivf(rows, lists, ids=None, train=None):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(6), 6, lists, faiss.METRIC_L2)
    index.train(OLD if train is None else train)
    if ids is None:
        index.add(rows)
    else:
        index.add_with_ids(rows, ids)
    return faiss, index


@pytest.mark.parametrize("mapped", [False, True])
def test_an_ivf_index_with_ids_of_its_own_keeps_them(tmp_path, translator, mapped):
    ids = np.random.default_rng(0).permutation(200) * 3 + 100
    faiss, index = ivf(OLD[:0], 4)
    index = faiss.IndexIDMap2(index) if mapped else index
    index.add_with_ids(OLD, ids)
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    store = open_store(tmp_path / "in.faiss", tmp_path / "out.faiss")
    seen = survey(translator, store, confidence=True)
    assert sorted(seen.ids.tolist()) == sorted(ids.tolist())
    assert mapped or seen.ids.tolist() == sorted(ids.tolist())
    place = {label: row for row, label in enumerate(ids.tolist())}
    rows = [place[label] for label in seen.ids.tolist()]
    np.testing.assert_allclose(seen.cosines, translator.confidence(OLD)[rows], atol=1e-6)
    translate_store(translator, store, str(tmp_path / "out.faiss"))
    found = faiss.read_index(str(tmp_path / "out.faiss"))
    faiss.extract_index_ivf(found).nprobe = 4
    near = found.search(np.ascontiguousarray(expected(translator), np.float32), 1)[1]
    np.testing.assert_array_equal(near[:, 0], ids)


def test_an_ivf_index_with_few_vectors_gets_fewer_lists(tmp_path, translator):
    faiss, index = ivf(OLD[:90], 100)
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    store = open_store(tmp_path / "in.faiss", tmp_path / "out.faiss")
    said = translate_store(translator, store, str(tmp_path / "out.faiss"))
    assert "2 lists instead of 100" in said
    found = faiss.read_index(str(tmp_path / "out.faiss"))
    assert (found.nlist, found.ntotal) == (2, 90)


def test_an_ivf_index_is_trained_on_rows_from_all_over(tmp_path, translator):
    far = OLD[np.linalg.norm(expected(translator) - expected(translator)[:1], axis=1).argmax()]
    noise = 1e-3 * RNG.normal(size=(1024, 6)).astype(np.float32)
    rows = np.repeat(np.stack([OLD[0], far]), 512, axis=0) + noise
    faiss, index = ivf(rows, 2, train=rows)
    faiss.write_index(index, str(tmp_path / "in.faiss"))
    translate_store(translator, open_store(tmp_path / "in.faiss", tmp_path / "out.faiss"), str(tmp_path / "out.faiss"))
    found = faiss.read_index(str(tmp_path / "out.faiss"))
    assert [found.invlists.list_size(number) for number in range(2)] == [512, 512]


@pytest.mark.parametrize("shape", [(6,), (6, 1), (1, 6)])
def test_a_square_npz_file_has_its_scale_per_row_unless_its_shape_says_otherwise(tmp_path, translator, shape):
    rows = OLD[:6]
    axis = 0 if shape == (1, 6) else 1
    scales = np.abs(rows).max(axis=axis, keepdims=True) / 127
    np.savez(tmp_path / "in.npz", values=np.rint(rows / scales).astype(np.int8), scale=scales.reshape(shape))
    said = translate_store(translator, open_store(tmp_path / "in.npz", tmp_path / "out.npz"), str(tmp_path / "out.npz"))
    assert ("is taken to be that of rows" in said) == (shape == (6,))
    with np.load(tmp_path / "out.npz") as found:
        factor = found["scale"].reshape(-1, 1)
        assert found["scale"].shape == (() if axis == 0 else shape)
        np.testing.assert_allclose(found["values"] * factor, expected(translator, rows), atol=0.03)
    given = read_vectors(tmp_path / "in.npz")
    assert bool(given.converted) == (shape == (6,))
    np.testing.assert_allclose(given.values, rows, atol=0.02)


def test_a_mistyped_address_creates_nothing(tmp_path):
    pytest.importorskip("lancedb")
    pytest.importorskip("qdrant_client")
    (tmp_path / "other").mkdir()
    for kind in ("lancedb", "qdrant"):
        for place in ("absent", "other"):
            with pytest.raises(InputError, match=r"does not exist|cannot be opened"):
                open_store(f"{kind}:{tmp_path / place}::old", f"{kind}:{tmp_path / place}::new")
    assert [path.name for path in tmp_path.rglob("*")] == ["other"]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "lancedb"])
def test_the_confidence_has_the_ids_of_the_store(tmp_path, translator, kind):
    source, output = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    if kind == "lancedb":
        lancedb = pytest.importorskip("lancedb")
        import pyarrow as pa

        cells = pa.FixedSizeListArray.from_arrays(pa.array(OLD.reshape(-1)), 6)
        table = pa.table({"id": TEXT, "vector": cells, "n": range(200)})
        lancedb.connect(str(tmp_path / "db")).create_table("old", table)
        source, output = f"lancedb:{tmp_path / 'db'}::old", f"lancedb:{tmp_path / 'db'}::new"
    else:
        (parquet_table if kind == "parquet" else json_lines)(source, id=TEXT, n=list(range(200)))
    found = survey(translator, open_store(source, output), confidence=True)
    assert found.ids.tolist() == TEXT
    assert survey(translator, open_store(source, output)).ids is None
    named = survey(translator, open_store(source, output, ids="n"), confidence=True, ids="n")
    assert named.ids.tolist() == list(range(200))


def test_ids_that_repeat_or_are_missing_are_left_out_of_the_confidence_unless_they_were_named(tmp_path, translator):
    cases = {"twice": (["a"] * 200, "occur twice", "duplicate"), "gap": ([*TEXT[:-1], None], "", "row 199 has no id")}
    for name, (ids, note, words) in cases.items():
        source, output = tmp_path / f"{name}.parquet", tmp_path / "out.parquet"
        parquet_table(source, id=ids)
        found = survey(translator, open_store(source, output), confidence=True)
        assert found.ids is None
        assert note in found.note
        with pytest.raises(InputError, match=words):
            survey(translator, open_store(source, output, ids="id"), confidence=True, ids="id")


def test_a_missing_vector_is_refused_by_row(tmp_path, translator):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    cells = pa.array([*OLD[:150].tolist(), None, *OLD[151:].tolist()], pa.list_(pa.float32()))
    parquet.write_table(pa.table({"v": cells}), tmp_path / "in.parquet")
    with pytest.raises(InputError, match=r"in\.parquet: row 150 of column 'v' is missing"):
        survey(translator, open_store(tmp_path / "in.parquet", tmp_path / "out.parquet"))
