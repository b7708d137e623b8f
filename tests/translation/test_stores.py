"""Stores keep what their rows carry: ids, text, payloads, the shape and the type of their vectors."""

import gzip
import json

import numpy as np
import pytest

import isorep
from isorep import InputError
from isorep.translation.databases import copied_rows, pg_text, pg_vectors
from isorep.translation.stores import open_store, read_vectors, store_confidence, translate_store
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
    ids, found = store_confidence(translator, open_store(tmp_path / "in.jsonl", tmp_path / "out.jsonl"))
    assert ids is None
    np.testing.assert_allclose(found, translator.confidence(OLD), atol=1e-6)


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
    for output, words in ((f"pgvector:{url}::new", "cannot be written"),):
        with pytest.raises(InputError, match=words):
            translated(translator, f"pgvector:{url}::old", output)
    with pytest.raises(InputError, match="cannot be opened"):
        open_store(f"pgvector:{url}::absent", f"pgvector:{url}::other")
    server.cleanup()
