"""Databases: collections of Qdrant and tables of PostgreSQL with pgvector, read and written by their clients."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import InputError, import_extra
from ..files import without_secrets
from ..representation import Array
from ..results import counted
from ..storage.naming import as_ids, require_column
from .quantised import narrowed
from .rewriting import Block, Task, address_of, default_ids, labels, require_folder


class QdrantCollection:
    """A Qdrant collection: ``qdrant:FOLDER::COLLECTION`` in local mode, or ``qdrant:http://HOST:PORT::COLLECTION``.

    One vector of each point is translated; of several, ``::NAME`` after the collection names it.
    """

    one_scale = False

    def __init__(self, address: str) -> None:
        place, name, wanted = _collection(address)
        require_folder(place, address, f"collection/{name}", "meta.json")
        self._place, self.name, self._client = place, name, _qdrant(place)
        if not self._client.collection_exists(self.name):
            raise InputError(f"{address} does not exist")
        self._held = self._client.get_collection(self.name)
        params = self._held.config.params
        self._sparse = dict(params.sparse_vectors or {})
        self._plain = not isinstance(params.vectors, dict)  # one vector without a name
        self._dense = {"": params.vectors} if self._plain else dict(params.vectors)
        self._vector = self._chosen(wanted, address)
        self._datatype = getattr(self._dense[self._vector].datatype, "value", "float32")
        if self._datatype == "uint8":
            raise InputError(
                f"{address} holds uint8 without the scale that makes vectors of them: translate a collection of floats"
            )
        self.rows = int(self._client.count(self.name, exact=True).count)
        if not self.rows:
            raise InputError(f"{address} holds no points")

    def _chosen(self, wanted: str | None, address: str) -> str:
        """The name of the vector that is translated."""
        named = {name: params for name, params in self._dense.items() if params is not None}
        if not named:
            raise InputError(f"{address} has no dense vectors")
        if wanted is None and len(named) > 1:
            raise InputError(
                f"{address} has several vectors per point ({', '.join(named)}): name the one to translate, as "
                f"{address}::{next(iter(named))}"
            )
        chosen = next(iter(named)) if wanted is None else wanted
        if chosen not in named:
            raise InputError(f"{address}: there is no vector {chosen!r}; there are {', '.join(named)}")
        if named[chosen].multivector_config is not None:
            raise InputError(
                f"{address} has several vectors under {chosen!r} of each point, which cannot be translated"
            )
        return chosen

    def _points(self, whole: bool) -> Iterator[tuple[list[Any], Array]]:
        """Points in batches, whole or with what is translated alone, and their vectors."""
        offset = None
        # A vector without a name cannot be asked for alone.
        wanted = True if whole or self._plain else [self._vector]
        while True:
            points, offset = self._client.scroll(
                self.name, limit=1000, offset=offset, with_vectors=wanted, with_payload=whole
            )
            if points:
                yield points, np.array([self._of(point) for point in points], np.float32)
            if offset is None:
                return

    def _of(self, point: Any) -> Any:
        held = point.vector.get(self._vector) if isinstance(point.vector, dict) else point.vector
        if not held:
            which = f" {self._vector!r}" if self._vector else ""
            raise InputError(f"point {point.id} of {self.name} has no vector{which}: delete it or give it one")
        return held

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors, block by block; with ids if these are wanted."""
        for points, vectors in self._points(whole=False):
            yield labels([point.id for point in points], "id", 0, True) if named else None, vectors

    def write(self, output: str, task: Task) -> str:
        """Write all points to a new collection, with new vectors."""
        from qdrant_client import models

        place, name, other = _collection(output)
        if other is not None and other != self._vector:
            raise InputError(f"{output}: the vector keeps its name, {self._vector!r}")
        client = self._client if _same(place, self._place) else _qdrant(place)
        if client.collection_exists(name):
            raise InputError(f"{output} exists: name another collection")
        dense = dict(self._dense)
        dense[self._vector] = dense[self._vector].model_copy(update={"size": task.width})
        with ExitStack() as undo:
            undo.callback(client.delete_collection, name)
            client.create_collection(
                name,
                vectors_config=dense[""] if self._plain else dense,
                sparse_vectors_config=self._sparse or None,
                **_settings(self._held.config),
            )
            for field, index in self._held.payload_schema.items():
                client.create_payload_index(name, field, field_schema=index.params or index.data_type)
            for points, vectors in self._points(whole=True):
                new = task.change(vectors)
                if self._datatype == "float16":
                    new = narrowed(new, np.float16, self.name)
                client.upsert(
                    name,
                    [
                        models.PointStruct(
                            id=point.id,
                            vector=point.vector | {self._vector: vector} if isinstance(point.vector, dict) else vector,
                            payload=point.payload,
                        )
                        for point, vector in zip(points, new.tolist(), strict=True)
                    ],
                )
                task.told(len(points))
            undo.pop_all()
        if client is not self._client:
            client.close()
        self._client.close()
        others = [each for each in (*self._dense, *self._sparse) if each != self._vector]
        kept = f", and the vectors {', '.join(others)} as they are" if others else ""
        by = dense[self._vector].distance.value.lower()
        size = f"{self.rows} points x {task.width} columns"
        return f"{size} with ids and payloads, by {by}{kept}; aliases, strict mode and shard keys are not copied"


def _settings(config: Any) -> dict[str, Any]:
    """Settings of a collection, as arguments to make another one like it."""
    from qdrant_client import models

    params = config.params
    held = {name: getattr(params, name) for name in _SAME}
    held |= {"quantization_config": config.quantization_config, "metadata": getattr(config, "metadata", None)}
    if getattr(params.sharding_method, "value", None) != "custom":  # there it is the number for each key
        held["shard_number"] = params.shard_number
    for name, changes, given in (
        ("hnsw_config", models.HnswConfigDiff, config.hnsw_config),
        ("optimizers_config", models.OptimizersConfigDiff, config.optimizer_config),
        ("wal_config", models.WalConfigDiff, config.wal_config),
    ):
        held[name] = None if given is None else changes(**given.model_dump())
    return {name: value for name, value in held.items() if value is not None}


_SAME = ("on_disk_payload", "replication_factor", "write_consistency_factor")


def _collection(address: str) -> tuple[str, str, str | None]:
    """The place, the collection, and the vector where it is named: ``qdrant:PLACE::COLLECTION::VECTOR``."""
    place, name = address_of(address)
    before, mark, collection = place.rpartition("::")
    if mark and before and collection and not set(collection) & set("/]") and not Path(place).is_dir():
        return before, collection, name
    return place, name, None


def _same(one: str, other: str) -> bool:
    return one == other or ("://" not in one + other and Path(one).resolve() == Path(other).resolve())


def _qdrant(place: str) -> Any:
    client = import_extra("qdrant_client", "stores", "a Qdrant collection", "qdrant-client").QdrantClient
    if place.startswith(("http://", "https://")):
        return client(url=place)
    try:
        with _unpickling_points():
            return client(path=place)
    except InputError:
        raise
    except Exception as error:  # whatever a damaged folder makes the client raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{place} cannot be opened: {reason}") from error


@contextmanager
def _unpickling_points() -> Iterator[None]:
    """Have the client unpickle points and nothing else: it keeps them as pickles, which could run any code."""
    persistence = import_module("qdrant_client.local.persistence")
    kept = getattr(persistence, "pickle", None)
    if kept is None:
        raise InputError("this version of qdrant-client is not known to read a folder safely: use its server")
    checked = SimpleNamespace(**{**vars(kept), "loads": _point, "load": None, "Unpickler": None})
    setattr(persistence, "pickle", checked)  # noqa: B010  (a module has no such attribute for mypy)
    try:
        yield
    finally:
        setattr(persistence, "pickle", kept)  # noqa: B010


def _point(pickled: bytes) -> Any:
    return _Points(BytesIO(pickled)).load()


class _Points(pickle.Unpickler):
    """Unpickles the models of Qdrant, and what their payloads may hold."""

    def find_class(self, module: str, name: str) -> Any:
        """A class of Qdrant's models; anything else is refused before it is imported."""
        if (module == "qdrant_client.http.models.models" and name.isidentifier()) or (module, name) in _PAYLOAD:
            found = super().find_class(module, name)
            if isinstance(found, type):
                return found
        raise InputError(f"a point holds {module}.{name}, which is not unpickled")


_PAYLOAD = {("uuid", "UUID"), *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone"))}


class PostgresTable:
    """A table of PostgreSQL with one column of pgvector: ``pgvector:postgresql://USER@HOST/DATABASE::TABLE``.

    Rows travel as the text of COPY. All fields but the vector pass as they are, whatever their types.
    """

    one_scale = False

    def __init__(self, address: str, ids: str | None = None) -> None:
        self._place, self._table = address_of(address)
        self.name = without_secrets(address)
        with _postgres(self._place) as connection:
            place = _identifier(self._table)
            try:
                found = connection.execute(
                    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass "
                    "AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
                    [place.as_string(connection)],
                ).fetchall()
            except import_extra("psycopg", *_PSYCOPG).Error as error:
                raise InputError(f"{self.name} cannot be opened: {str(error).splitlines()[0]}") from error
            kinds = dict(found)
            wide = [name for name, kind in kinds.items() if kind.partition("(")[0].rpartition(".")[2] in _PG_KINDS]
            if len(wide) != 1:
                raise InputError(
                    f"{self.name} has {len(wide)} columns of vectors ({', '.join(wide) or 'none'}): one is translated"
                )
            self._column, self._names = wide[0], list(kinds)
            if ids is not None:
                require_column(ids, self._names)
            self._ids, self._required = ids or default_ids(self._names), ids is not None
            self._kind = kinds[self._column].partition("(")[0]
            counted = connection.execute(_sql("SELECT count(*) FROM {}", place)).fetchone()
            self.rows = int(counted[0])
        if not self.rows:
            raise InputError(f"{self.name} holds no rows")

    def _lines(self, connection: Any, names: list[str]) -> Iterator[tuple[list[list[bytes]], Array]]:
        """Batches of rows, as fields of COPY, and their vectors."""
        place, start = names.index(self._column), 0
        held: list[list[bytes]] = []
        with (
            connection.cursor() as cursor,
            cursor.copy(
                _sql(
                    f"COPY (SELECT {', '.join(['{}'] * len(names))} FROM {{}}) TO STDOUT",
                    *map(_identifier_of, names),
                    _identifier(self._table),
                )
            ) as copy,
        ):
            for fields in copied_rows(copy):
                held.append(fields)
                if len(held) == _PG_ROWS:
                    yield held, pg_vectors([each[place] for each in held], self.name, start)
                    start, held = start + len(held), []
        if held:
            yield held, pg_vectors([each[place] for each in held], self.name, start)

    def blocks(self, named: bool = False) -> Iterator[Block]:
        """The old vectors, block by block; with ids if these are wanted and known."""
        ids, start = self._ids if named else None, 0
        with _postgres(self._place) as connection:
            for rows, vectors in self._lines(connection, [self._column] if ids is None else [self._column, ids]):
                found = None
                if ids is not None:
                    found = labels([pg_label(fields[1]) for fields in rows], ids, start, self._required)
                start += len(rows)
                yield None if found is None else as_ids(found), vectors

    def write(self, output: str, task: Task) -> str:
        """Write all rows to a new table, with new vectors."""
        place, table = address_of(output)
        psycopg = import_extra("psycopg", *_PSYCOPG)
        new, old, column = _identifier(table), _identifier(self._table), _identifier_of(self._column)
        said, index = without_secrets(output), self._names.index(self._column)
        with _postgres(self._place) as reading, _postgres(place) as writing:
            try:
                writing.execute(
                    _sql(
                        "CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS "
                        "INCLUDING GENERATED INCLUDING COMMENTS)",
                        new,
                        old,
                    )
                )
                writing.execute(
                    _sql(f"ALTER TABLE {{}} ALTER COLUMN {{}} TYPE {self._kind}({int(task.width)})", new, column)
                )
                names = [_identifier_of(name) for name in self._names]
                into = _sql(f"COPY {{}} ({', '.join(['{}'] * len(names))}) FROM STDIN", new, *names)
                with writing.cursor() as cursor, cursor.copy(into) as copy:
                    for rows, vectors in self._lines(reading, self._names):
                        for fields, vector in zip(rows, task.change(vectors), strict=True):
                            fields[index] = pg_text(vector)
                            copy.write(b"\t".join(fields) + b"\n")
                        task.told(len(rows))
            except psycopg.Error as error:
                raise InputError(f"{said} cannot be written: {str(error).splitlines()[0]}") from error
            writing.commit()
        others = len(self._names) - 1
        size = f"{self.rows} rows x {task.width} columns"
        return f"{size}, {self._kind}, with {counted(others, 'other column')}; indexes are not copied"


_PSYCOPG = ("stores", "a table of PostgreSQL", "psycopg[binary]")
_PG_KINDS = ("vector", "halfvec")
_PG_ROWS = 1000


def copied_rows(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The rows of COPY's text format as fields; line ends and tabs inside fields are escaped there, and stay so."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + bytes(chunk)).split(b"\n")
        for line in lines:
            yield line.split(b"\t")
    if rest:
        yield rest.split(b"\t")


def pg_vectors(cells: list[bytes], name: str, start: int) -> Array:
    """Vectors from pgvector's text, such as ``[1,2.5]``."""
    missing = [row for row, cell in enumerate(cells) if cell == rb"\N"]
    if missing:
        raise InputError(
            f"{name} has no vector in row {start + missing[0]} (as the table is read): leave such rows out"
        )
    rows = [np.array(cell.strip(b"[]").split(b","), np.float32) for cell in cells]
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"{name} holds vectors of different widths")
    return np.stack(rows)


def pg_label(cell: bytes) -> str | None:
    """A field of COPY as text without its escapes; None for NULL."""
    if cell == rb"\N":
        return None
    return re.sub(rb"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), cell, flags=re.DOTALL).decode(
        "utf-8", "replace"
    )


_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def pg_text(vector: Array) -> bytes:
    """A vector as pgvector's text, with all digits of float32."""
    return ("[" + ",".join(f"{value:.9g}" for value in vector.tolist()) + "]").encode()


def _postgres(place: str) -> Any:
    if not place.startswith(("postgresql://", "postgres://")):
        raise InputError("pgvector: needs a URL and a table: pgvector:postgresql://USER@HOST/DATABASE::TABLE")
    psycopg = import_extra("psycopg", *_PSYCOPG)
    try:
        return psycopg.connect(place)
    except psycopg.Error as error:
        raise InputError(f"{without_secrets(place)} cannot be reached: {str(error).splitlines()[0]}") from error


def _sql(text: str, *parts: Any) -> Any:
    return import_extra("psycopg.sql", *_PSYCOPG).SQL(text).format(*parts)


def _identifier(table: str) -> Any:
    """A table, or ``schema.table``, quoted."""
    return import_extra("psycopg.sql", *_PSYCOPG).Identifier(*table.split(".", 1))


def _identifier_of(name: str) -> Any:
    return import_extra("psycopg.sql", *_PSYCOPG).Identifier(name)
